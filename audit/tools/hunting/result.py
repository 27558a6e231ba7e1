"""The result of a hunt: the candidates that were audited, the findings, and the sentences and tables of a report."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from epsaudit.audits.sequential import SequentialResult
from epsaudit.errors import AuditError
from epsaudit.results.result import AuditResult
from epsaudit.running.programs import dataset_to_json
from epsaudit.text import lower
from epsaudit.tools.hunting.candidate import Candidate
from epsaudit.tools.hunting.exact_law import ExactLaw
from epsaudit.tools.hunting.options import Options
from epsaudit.tools.hunting.shrinking import without_name


@dataclass(frozen=True)
class Finding:
    """A certified refutation of a claim, with the pair of datasets on which it was certified."""

    result: AuditResult | SequentialResult
    """The result that certifies the refutation. Its event is one that reads well if such an event suffices, else one
    that a script can count, else any event. If there was no time for a certification, this is the result of the audit
    that refuted the claim. If ``law`` is given, the result itself need not refute the claim."""
    candidate: Candidate = field(compare=False)
    """The candidate that was certified."""
    steps: int = 0
    """Number of tests that shrinking made."""
    strongest: Finding | None = None
    """The finding for the pair before shrinking, if its lower bound is larger than that of the shrunk pair."""
    law: ExactLaw | None = None
    """The exact law of the output on this pair, if it refutes the claim by itself."""

    @property
    def pair(self) -> str:
        """Both datasets as text. If two long datasets begin alike, the text shows the part in which they differ."""
        return str(without_name(self.candidate.pair))

    def to_dict(self) -> dict[str, Any]:
        more = self.strongest and self.strongest.to_dict()
        law = self.law and self.law._asdict()
        fields = {"result": self.result.to_dict(), "steps": self.steps, "pair": self.as_json(), "strongest": more}
        return fields | ({"law": law} if law else {})

    def as_json(self) -> list[Any] | None:
        """Return x, x' and the parameter values as a list of JSON values, or None if JSON cannot represent them."""
        pair = self.candidate.pair
        with contextlib.suppress(AuditError):
            return [dataset_to_json(one) for one in (pair.x, pair.x_prime, dict(self.candidate.parameters))]
        return None

    def __str__(self) -> str:
        text = str(self.result)
        if self.law is not None:
            text = f"{self.result.mechanism}: {self.result.claim} is refuted {self.law.note(self.result.claim)}\n{text}"
        if (more := self.strongest) is None:
            return text
        bound = f"{more.result.claim.symbol} >= {lower(more.result.lower_bound)}"
        return f"{text}\nMore is certified on the pair as it was found: {bound} on {more.pair}"


@dataclass(frozen=True)
class Attempt:
    """The outcome for one candidate that a hunt audited or tried to audit.

    A candidate is a pair of datasets with parameter values.
    """

    candidate: Candidate
    """The candidate."""
    result: SequentialResult | None = None
    """The result of the audit; None if the candidate could not be audited."""
    failure: str = ""
    """The reason why there is no result, or why a refutation was not certified; empty if there is none."""
    finding: Finding | None = None
    """The finding, if the claim was refuted and certified."""
    law: ExactLaw | None = None
    """The exact law of the output, if it refutes the claim."""

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted on this candidate, either by runs or by the exact distribution of the output."""
        return self.law is not None or (self.result is not None and self.result.violates_claim)

    @property
    def verdict(self) -> str:
        """The verdict in a few words: 'refuted', 'not refuted', or the reason why there is no verdict."""
        by_runs = self.result is not None and self.result.violates_claim
        if self.law is not None and not by_runs:
            return f"refuted by the exact law of the output, {self.law.exact:.4g}"
        return self.failure or ("refuted" if self.refuted else "not refuted")


@dataclass(frozen=True)
class Hunt:
    """The result of a hunt, which is a search for datasets and parameters that refute a privacy claim.

    It contains the audits of all candidates (pairs of datasets with parameter values), the certified refutations, and
    facts about the search.
    """

    name: str
    """Name of the function."""
    options: Options
    """The options of the hunt."""
    candidates: int
    """Number of candidates, without those that were left out."""
    screened: int
    """Number of candidates that the hunt had time to trace or to screen."""
    left_out: int
    """Number of pairs that were left out, as they are not neighbours under the claim's relation."""
    failures: tuple[str, ...]
    """Sentences on the candidates of which every run failed, one for each value of a parameter."""
    attempts: tuple[Attempt, ...]
    """The candidates that were audited, in this order."""
    runs: int
    """Total number of runs, including those of screening and shrinking."""
    seconds: float
    """Duration of the hunt in seconds."""
    seed: int
    """Root of all random streams of the hunt."""
    interrupted: bool = False
    """Whether Ctrl-C ended the hunt; ``attempts`` then has what was done before."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The certified refutations of this hunt."""
        return tuple(one.finding for one in self.attempts if one.finding is not None)

    @property
    def audits(self) -> tuple[SequentialResult, ...]:
        """The results of all audits of this hunt."""
        return tuple(one.result for one in self.attempts if one.result is not None)

    @property
    def refuted(self) -> bool:
        """Whether any audited candidate refuted the claim.

        All candidates are neighbours under the relation of the claim, if the options name it.
        """
        return any(one.refuted for one in self.attempts)

    def verdicts(self) -> dict[str, bool]:
        """Return, for each neighbouring relation that was audited, whether the claim was refuted under it."""
        refuted: dict[str, bool] = {}
        for one in self.attempts:
            if one.result is None and one.law is None:  # without an audit there is no verdict
                continue
            for relation in one.candidate.adjacencies or ("a relation that the caller guarantees",):
                if self.options.adjacency in (None, relation):
                    refuted[str(relation)] = refuted.get(str(relation), False) or one.refuted
        return refuted

    def sentence(self) -> str:
        """Return a text for the report.

        It contains the verdict for each neighbouring relation, the failures, and the numbers of candidates and runs.
        """
        verdicts = self.verdicts()
        refuted_first = sorted(verdicts, key=verdicts.__getitem__, reverse=True)
        parts = [f"{'' if verdicts[name] else 'not '}refuted under '{name}'" for name in refuted_first]
        verdict = "; ".join(parts) or "nothing could be audited"
        some_refuted, all_refuted = any(verdicts.values()), all(verdicts.values())
        if self.options.adjacency is None and some_refuted and (len(verdicts) == 1 or not all_refuted):
            verdict += "; it is a violation only if the claim is for that relation"
        return " ".join(
            [
                f"{self.name}: {verdict}.",
                *self.failures,
                f"{self.screened:,} of {self.candidates:,} candidates were screened and "
                f"{len(self.audits)} audited, by {self.runs:,} runs in {self.seconds:.0f} s; if the claim is true, "
                f"a hunt refutes it with probability at most {1.0 - self.options.confidence:.3g}.",
            ]
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one table row for each audited candidate."""
        return [_table_row(number, one) for number, one in enumerate(self.attempts, start=1)]


def _table_row(number: int, attempt: Attempt) -> dict[str, Any]:
    finding, candidate = attempt.finding, attempt.candidate
    best = ((finding and finding.strongest) or finding or attempt).result
    relation = "; ".join(map(str, candidate.adjacencies)) or "guaranteed by the caller"
    tries, given = candidate.tries or str(candidate.pair), (finding or attempt).candidate.given
    tried = "; ".join(filter(None, [tries, relation, given]))
    return {
        "number": number,
        "parameters": given or None,  # the claim and the bound are those of these values
        "tries": tries,
        "relation": relation,
        "tried": f"{tried[:1].upper()}{tried[1:]}.",
        "proven": best and best.proven,
        "certified": best and best.lower_bound,
        "runs": attempt.result and attempt.result.runs,
        "verdict": attempt.verdict,
        "pair": finding and finding.pair,
        "event": finding and finding.result.describe_event(),
    }
