"""The state that the steps of a hunt share: target, options, time, candidates, attempts, and the checkpoint."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from epsaudit.claims.definitions import Claim
from epsaudit.errors import AuditError
from epsaudit.running.checkpoint import Checkpoint, Identity
from epsaudit.running.identity import digest, fingerprint
from epsaudit.running.pool import check_restart
from epsaudit.running.provenance import provenance
from epsaudit.running.record import AuditRecord
from epsaudit.tools.hunting.candidate import Candidate, RelationAndValue, covered_combinations
from epsaudit.tools.hunting.exact_law import AnyResult, ExactLaw
from epsaudit.tools.hunting.options import Options
from epsaudit.tools.hunting.result import Attempt
from epsaudit.tools.hunting.shrinking import degenerate_kind
from epsaudit.tools.hunting.target import HuntTarget
from epsaudit.tools.hunting.time_budget import TimeBudget


@dataclass(eq=False)
class ScreenedCandidate:
    """A candidate (a pair of datasets with parameter values), with the results of tracing and screening it.

    Screening makes a small number of runs to rank the candidate. Tracing runs the function on both datasets with the
    same random numbers to see whether private data reach the output without noise.
    """

    number: int
    """Position among all candidates, or a negative number for a candidate that the hunt made itself. The number
    selects the random stream."""
    candidate: Candidate
    """The candidate."""
    rank: tuple[float, float] = (0.0, 0.0)
    """The rank, as `epsaudit.tools.hunting.ranking.screening_rank` returns it."""
    seen: bool = False
    """Whether the candidate was traced or screened."""
    kept: bool = False
    """Whether a trace suspects the candidate, or the screen keeps it for an audit."""
    failure: str = ""
    """The reason why the candidate cannot be audited; empty if it can."""
    pace: float = 0.0
    """Duration of a run in seconds."""
    raised: tuple[float, float] = (math.nan, math.nan)
    """Share of the runs on x and share of the runs on x' that raised an exception; NaN before any run."""
    law: ExactLaw | None = None
    """The exact law of the output, if a trace knows it and it refutes the claim."""


CHECKPOINTED_FIELDS = ("rank", "seen", "kept", "failure", "pace", "raised", "law")
"""The fields of a `ScreenedCandidate` that the checkpoint stores."""


@dataclass
class HuntContext:
    """The state of a hunt, which is a search for datasets and parameters that refute a privacy claim.

    All steps of the hunt share this object. It contains the audited function, the options, the time budget, the
    candidates (pairs of datasets with parameter values) and the results. The fields after ``checkpoint`` change during
    the hunt.
    """

    target: HuntTarget
    options: Options
    budget: TimeBudget
    everyone: Sequence[ScreenedCandidate]
    """All candidates under the claim's relation."""
    seed: int
    """Root of all random streams."""
    checkpoint: Checkpoint | None = None
    """The open checkpoint, or None."""
    examined: list[ScreenedCandidate] = field(default_factory=list)
    """The candidates that runs were made of, the most promising first."""
    attempts: list[Attempt] = field(default_factory=list)
    """The candidates that were audited so far."""
    n_audits: Counter[RelationAndValue] = field(default_factory=Counter)
    """Number of audits of each combination of a relation and a parameter value."""
    refuted_kinds: defaultdict[RelationAndValue, set[str]] = field(default_factory=lambda: defaultdict(set))
    """For each combination, the kinds of data on which the claim was refuted: an empty string for ordinary data, or the
    result of `degenerate_kind`."""
    n_certifications: int = 0
    """Number of certifications that were started; each number has its own confidence and random stream."""
    runs: int = 0
    """Total number of runs so far."""
    interrupted: bool = False
    """Whether Ctrl-C was pressed."""

    @functools.cached_property
    def places_of_parameters(self) -> dict[str, int]:
        """For each combination of parameter values, its position in the list of all combinations that the hunt tries.

        Usual values come first. The keys are digests of the values (`Candidate.parameters_key`).
        """
        keys = dict.fromkeys(one.candidate.parameters_key for one in self.everyone)
        return {key: place for place, key in enumerate(keys)}

    def interrupt(self) -> None:
        """Record that the user pressed Ctrl-C, and end the time budget so that no new step starts."""
        self.budget.stop()
        self.interrupted = True

    def is_refuted(self, candidate: Candidate) -> bool:
        """Return whether an audit of this candidate would be redundant, because the claim is already refuted elsewhere.

        A candidate is a pair of datasets with parameter values. Its audit is redundant if, for each of its combinations
        of a neighbouring relation and a parameter value, the claim was refuted on ordinary data or on data of the same
        kind (`degenerate_kind`: empty data, or records with missing values).
        """
        kinds = {"", degenerate_kind(candidate)}
        return all(kinds & self.refuted_kinds[one] for one in covered_combinations(candidate))

    def mark_refuted(self, candidate: Candidate) -> None:
        """Record that a candidate (a pair of datasets with parameter values) refuted the claim.

        The record is made for each of its combinations of a neighbouring relation and a parameter value.
        """
        for combination in covered_combinations(candidate):
            self.refuted_kinds[combination].add(degenerate_kind(candidate))

    def once(self, name: str, kind: type[AnyResult], audit: Callable[[], AnyResult]) -> AnyResult:
        """Return the result of an audit, from the checkpoint if it is stored there.

        Otherwise call ``audit`` and store its result. If the audit raises `AuditError`, the checkpoint stores the
        message, and after a restart the same error is raised without repeating the audit.

        Parameters
        ----------
        name : str
            Name of the audit's record in the checkpoint.
        kind : type
            Class of the result, which parses a stored result.
        audit : callable
            Makes the audit and returns the result.
        """
        record = AuditRecord(self.checkpoint, name)

        def read(stored: dict[str, Any]) -> AnyResult | str:
            if "failure" in stored:
                return str(stored["failure"])
            return dataclasses.replace(kind.from_dict(stored["result"]), seconds=stored["seconds"])

        if (found := record.once("result", read)) is None:
            try:
                found = made = audit()
                content = {"result": made.to_dict(), "seconds": made.seconds}
            except AuditError as error:
                found = str(error)
                content = {"failure": found}
            record.record_once("result", lambda: content)
        if isinstance(found, str):
            raise AuditError(found)
        return found

    def ordered_once(self, name: str, make: Callable[[], list[ScreenedCandidate]]) -> list[ScreenedCandidate]:
        """Return the candidates to audit, the most promising first, from the checkpoint if they are stored there.

        A candidate is a pair of datasets with parameter values. If the checkpoint does not contain them, call ``make``
        and store its result. The candidates are also appended to ``examined``.

        Parameters
        ----------
        name : str
            Name of the record in the checkpoint.
        make : callable
            Makes the runs that order the candidates, and returns the candidates.
        """
        record = AuditRecord(self.checkpoint, name)

        def read(stored: dict[str, Any]) -> list[ScreenedCandidate]:
            self.runs = stored["runs"]
            for one, fields in zip(self.everyone, stored["everyone"], strict=True):
                pairs = {name: tuple(fields[name]) for name in ("rank", "raised")}  # JSON has lists only
                vars(one).update(fields | pairs)
                one.law = one.law and ExactLaw(*one.law)
            return [self.everyone[place] for place in stored["ordered"]]

        if (found := record.once("choice", read)) is None:
            found = made = make()
            everyone = [{name: getattr(one, name) for name in CHECKPOINTED_FIELDS} for one in self.everyone]
            places = [one.number for one in made]
            record.record_once("choice", lambda: {"runs": self.runs, "everyone": everyone, "ordered": places})
        self.examined += found
        return found


def first_of_each_combination(candidates: Iterable[ScreenedCandidate], most: int) -> list[ScreenedCandidate]:
    """Move the first candidate of each combination of a relation and a parameter value to the front; return the list.

    The other candidates follow in their order, until there are ``most`` candidates in total.
    """
    covered, first, rest = set[RelationAndValue](), list[ScreenedCandidate](), list[ScreenedCandidate]()
    for one in candidates:
        combinations = covered_combinations(one.candidate)
        (rest if covered.issuperset(combinations) else first).append(one)
        covered.update(combinations)
    return [*first, *rest[: max(0, most - len(first))]]


def hunt_identity(target: HuntTarget, options: Options, candidates: Sequence[Candidate]) -> Identity:
    """Return the facts that identify a hunt in its checkpoint, as a dictionary of texts.

    A checkpoint can be continued only by a hunt with the same identity; an error message can quote the texts that
    differ. Raises `AuditError` if the function might repeat its noise after a restart.
    """
    tried = [(one.pair.x, one.pair.x_prime, dict(one.parameters), str(one.adjacencies)) for one in candidates]
    mechanism, claim = target.mechanism(candidates[0]), target.claimed
    check_restart(mechanism)
    return {
        "mechanism": target.name,
        "candidates": digest(tried),
        **{name: str(getattr(options, name)) for name in ("adjacency", "confidence", "audits", "trials", "steps")},
        "witnesses": options.witnesses if isinstance(options.witnesses, str) else digest(list(options.witnesses)),
        "claim": repr(claim) if isinstance(claim, Claim) else digest(claim),
        "version of epsaudit": provenance()["epsaudit"],
        **fingerprint(mechanism, options.describe, claim),
    }
