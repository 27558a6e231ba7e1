"""What a hunt came to: its audits, what they refuted under which relation, and how tables and a sentence say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epsaudit.audits.sequential import SequentialResult
from epsaudit.data.neighbours import Adjacency
from epsaudit.hunting.certifying import Finding
from epsaudit.hunting.description import Candidate


@dataclass(frozen=True)
class Attempt:
    """A candidate that was audited.

    Attributes
    ----------
    candidate : Candidate
    alarms : tuple of str
        What the screen's outputs showed at a glance.
    result : SequentialResult or None
        None where there could be no audit.
    failure : str
        Why not.
    finding : Finding or None
        What a refuted claim was shrunk to.
    """

    candidate: Candidate
    alarms: tuple[str, ...] = ()
    result: SequentialResult | None = None
    failure: str = ""
    finding: Finding | None = None

    @property
    def refuted(self) -> bool:
        """Whether the audit refuted the claim."""
        return self.result is not None and self.result.violates_claim


@dataclass(frozen=True)
class Hunt:
    """What a hunt came to.

    Attributes
    ----------
    name : str
        Of the function.
    adjacency : Adjacency or None
        The relation that the claim is for, if it was said.
    confidence : float
        That nothing that holds was refuted, in the whole hunt.
    candidates, screened : int
        How many there were, and for how many there was time.
    left_out : int
        Pairs that are not neighbours under the claim's relation.
    attempts : tuple of Attempt
        What was audited, in order.
    runs : int
        All runs, the screen's and those of shrinking included.
    seconds : float
    seed : int
    interrupted : bool
        Whether Ctrl-C ended it; ``attempts`` are what it had by then.
    """

    name: str
    adjacency: Adjacency | None
    confidence: float
    candidates: int
    screened: int
    left_out: int
    attempts: tuple[Attempt, ...]
    runs: int
    seconds: float
    seed: int
    interrupted: bool = False

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was refuted, shrunk and certified anew."""
        return tuple(one.finding for one in self.attempts if one.finding is not None)

    @property
    def audits(self) -> tuple[SequentialResult, ...]:
        """The audits themselves."""
        return tuple(one.result for one in self.attempts if one.result is not None)

    @property
    def refuted(self) -> bool:
        """Whether the claim was refuted, under its relation, or under any if it was not said which it is for."""
        return any(one.refuted for one in self.attempts)

    def verdicts(self) -> dict[str, bool]:
        """Say of each relation that was tried whether the claim was refuted under it."""
        tried: dict[str, bool] = {}
        for one in self.attempts:
            if one.result is None:  # no audit, no verdict
                continue
            for relation in one.candidate.adjacencies or ("a relation that the caller vouches for",):
                if self.adjacency is None or relation == self.adjacency:
                    tried[str(relation)] = tried.get(str(relation), False) or one.refuted
        return tried

    def sentence(self) -> str:
        """Say what was found, under which relation."""
        tried = self.verdicts()
        under = {kind: [name for name, one in tried.items() if one is kind] for kind in (True, False)}
        parts = [f"refuted under '{name}'" for name in under[True]]
        parts += [f"not refuted under '{name}'" for name in under[False]]
        said = "; ".join(parts) or "nothing could be audited"
        if self.adjacency is None and any(tried.values()) and (len(tried) == 1 or not all(tried.values())):
            said += "; it is a violation only if the claim is for that relation"
        return (
            f"{self.name}: {said}. {self.screened:,} of {self.candidates:,} candidates were screened and "
            f"{len(self.audits)} audited, by {self.runs:,} runs in {self.seconds:.0f} s; if the claim is true, "
            f"a hunt refutes it with probability at most {1.0 - self.confidence:.3g}."
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return what tables show of each audit."""
        return [_row(number, one) for number, one in enumerate(self.attempts, start=1)]


def _row(number: int, one: Attempt) -> dict[str, Any]:
    finding, result = one.finding, one.result
    best = finding.result if finding is not None else result
    shown = (finding.candidate if finding is not None else None) or one.candidate  # claim and bound are of its values
    return {
        "number": number,
        "parameters": shown.given or None,
        "tries": one.candidate.tries or str(one.candidate.pair),
        "relation": "; ".join(map(str, one.candidate.adjacencies)) or "vouched for",
        "proven": None if best is None else best.proven,
        "certified": None if best is None else best.lower_bound,
        "runs": None if result is None else result.runs,
        "verdict": one.failure or ("refuted" if one.refuted else "not refuted"),
        "pair": None if finding is None else finding.pair,
        "event": None if finding is None else finding.result.describe_event(),
        "alarms": "; ".join(one.alarms) or None,
    }
