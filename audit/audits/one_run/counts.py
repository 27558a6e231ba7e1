"""Counts of guesses about the canaries of one run, and the bound that follows by either method.

Scores and coins are counted once, and every bound is computed from counts alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsaudit.arguments import check_method
from epsaudit.audits.one_run import binomial, tradeoff
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.errors import AuditError, whole_at_least

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Method = Literal["sharp", "binomial", "trade-off"]
LEAK_SHARE = 0.15
"""Share of the error kept for delta where the output decides how many are guessed
(`epsaudit.audits.one_run.binomial`)."""
METHODS: dict[Method, str] = {
    "sharp": "the exact worst case of (epsilon, delta)-DP, a binomial where delta = 0 (epsaudit.audits.one_run)",
    "binomial": "guesses dominated by a binomial (Steinke, Nasr and Jagielski 2023)",
    "trade-off": "recursion on the trade-off curve (Mahloujifar, Melis and Chaudhuri 2025)",
}


@dataclass(frozen=True)
class GuessCounts:
    """What one set of guesses about so many canaries of one run came to: guesses and right ones, 'in' and 'out'."""

    canaries: int
    guessed_in: int
    guessed_out: int
    correct_in: int
    correct_out: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            whole_at_least(getattr(self, field.name), 0, field.name.replace("_", " "))
        right = self.correct_in <= self.guessed_in and self.correct_out <= self.guessed_out
        if not right or self.guesses > self.canaries:
            raise AuditError(
                f"{self!r} cannot be: correct guesses are among the guesses, and these among the canaries."
            )

    @property
    def guesses(self) -> int:
        """r, all guesses."""
        return self.guessed_in + self.guessed_out

    @property
    def correct(self) -> int:
        """v, the right ones."""
        return self.correct_in + self.correct_out


def extremes(included: Bools, scores: Floats, highest: int, lowest: int) -> GuessCounts:
    """Guess the ``highest`` scores in and the ``lowest`` out; ties are broken by place, which no coin may decide."""
    order = np.argsort(scores, kind="stable")
    place = np.empty(len(scores), dtype=np.intp)
    place[order] = np.arange(len(scores))
    return tally(included, place >= len(scores) - highest, place < lowest)


def tally(included: Bools, guessed_in: Bools, guessed_out: Bools) -> GuessCounts:
    """Compare guesses with who was included."""
    return GuessCounts(
        canaries=len(included),
        guessed_in=int(guessed_in.sum()),
        guessed_out=int(guessed_out.sum()),
        correct_in=int((guessed_in & included).sum()),
        correct_out=int((guessed_out & ~included).sum()),
    )


@dataclass(frozen=True)
class GuessBound:
    """What counts of guesses bound, by which method, and at which confidence."""

    claim: Claim
    method: Method
    confidence: float

    def of(self, counts: GuessCounts, *, decided_by_output: bool) -> float:
        """Lower bound on the claim's parameter from one set of guesses; raises `AuditError` as `check_method` does."""
        check_method(self.claim, self.method, decided_by_output=decided_by_output)
        numbers = (counts.canaries, counts.guesses, counts.correct)
        if self.method == "trade-off":
            return tradeoff.parameter_bound(self.claim, *numbers, self.confidence)
        share = LEAK_SHARE if decided_by_output else None
        return binomial.epsilon_bound(*numbers, delta_of(self.claim), self.confidence, self.method, share)


def delta_of(claim: Claim) -> float:
    """Delta of a claim of pure or approximate DP."""
    return claim.delta if isinstance(claim, ApproxDP) else 0.0


def shown(counts: GuessCounts) -> str:
    """Write counts as a person would check them.

    >>> shown(GuessCounts(100, 10, 10, 9, 8))
    '9 of 10 guessed in and 8 of 10 guessed out are right, of 100 canaries'
    """
    return (
        f"{counts.correct_in:,} of {counts.guessed_in:,} guessed in and {counts.correct_out:,} of "
        f"{counts.guessed_out:,} guessed out are right, of {counts.canaries:,} canaries"
    )
