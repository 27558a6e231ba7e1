"""Guessing rules: which canaries are guessed in and which out, and how many, decided without looking at the coins.

A rule is fixed before the run; what it may look at decides its cost: nothing for a number fixed or planned beforehand,
half of the canaries, or a share of the error for each of several numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr

from epsaudit.audits.one_run.bounds import METHODS, Bools, Floats, GuessBound, GuessCounts, Method, delta_of
from epsaudit.claims.definitions import GaussianDP
from epsaudit.errors import AuditError, whole_at_least

FRACTIONS = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Shares of the canaries that may be guessed, from which 'planned' and 'half' choose; half of them in, half out."""
PAID_FRACTIONS = (1.0, 0.25, 0.05, 0.01)
"""Shares that 'bonferroni' tries at once, each with a quarter of the error."""
FEWEST = 8
"""Fewest guesses that are worth trying: at 95 %, eight right ones of eight show epsilon 0.79."""
SPARE = 1.25
"""Times the claim that right guesses throughout should be able to certify."""
WORTH = 0.9
"""Share of the best predicted bound that this is worth giving up for."""
Sizes = list[tuple[int, int]]
"""How many are guessed in and out, for each set of guesses."""


def extremes(included: Bools, scores: Floats, highest: int, lowest: int) -> GuessCounts:
    """Guess the ``highest`` scores in and the ``lowest`` out; ties are broken by place, which no coin may decide."""
    order = np.argsort(scores, kind="stable")
    place = np.empty(len(scores), dtype=np.intp)
    place[order] = np.arange(len(scores))
    return tally(included, place >= len(scores) - highest, place < lowest)


def tally(included: Bools, guessed_in: Bools, guessed_out: Bools) -> GuessCounts:
    """Compare guesses with who was included."""
    right = int((guessed_in & included).sum()), int((guessed_out & ~included).sum())
    return GuessCounts(len(included), int(guessed_in.sum()), int(guessed_out.sum()), *right)


class GuessRule(ABC):
    """How many canaries are guessed in and out; a frozen dataclass, fixed before the run.

    Canaries come to `count` in a random order that no coin decided (`epsaudit.audits.one_run.play.places`), so a rule
    may use places.
    """

    decided_by_output: ClassVar[bool] = False
    """Whether the number of guesses depends on the run's output."""

    @abstractmethod
    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        """Guess from the scores, compare with who was included, and return one count for each set of guesses."""

    def allows(self, counts: Sequence[GuessCounts], canaries: int, bound: GuessBound) -> bool:
        """Say whether `count` can have returned so many guesses; True for rules of which that is not known."""
        return True

    @abstractmethod
    def __str__(self) -> str: ...

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that `rule_from_dict` turns back into this rule."""
        return {"kind": type(self).__name__, **dataclasses.asdict(self)}  # type: ignore[call-overload]  # a dataclass


class Beforehand(GuessRule):
    """A rule whose numbers of guesses follow from the claim and the number of canaries."""

    @abstractmethod
    def sizes(self, canaries: int, bound: GuessBound) -> Sizes:
        """Return how many highest scores are guessed in and how many lowest out."""

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        return [extremes(included, scores, *size) for size in self.sizes(len(included), bound)]

    def allows(self, counts: Sequence[GuessCounts], canaries: int, bound: GuessBound) -> bool:
        return _are(counts, canaries, self.sizes(canaries, bound))


@dataclass(frozen=True)
class Fixed(Beforehand):
    """The ``highest`` scores are guessed in, the ``lowest`` out; numbers given beforehand.

    >>> included, scores = np.array([True, True, False, False]), np.array([3.0, 1.0, 2.0, 0.0])
    >>> Fixed(1, 1).count(included, scores, GuessBound(GaussianDP(1.0), "trade-off", 0.95))
    [GuessCounts(canaries=4, guessed_in=1, guessed_out=1, correct_in=1, correct_out=1)]
    """

    highest: int
    lowest: int

    def __post_init__(self) -> None:
        whole_at_least(self.highest, 0, "number of canaries to guess in")
        whole_at_least(self.lowest, 0, "number of canaries to guess out")

    def sizes(self, canaries: int, bound: GuessBound) -> Sizes:
        return [(self.highest, self.lowest)]

    def __str__(self) -> str:
        return f"the {self.highest:,} highest scores in, the {self.lowest:,} lowest out, fixed beforehand"


@dataclass(frozen=True)
class Planned(Beforehand):
    """The number predicted to certify most, were the claim exact and the scores Gaussian; nothing is looked at.

    For pure DP everybody is guessed, as randomised response would have it.
    """

    def sizes(self, canaries: int, bound: GuessBound) -> Sizes:
        return [halved(planned_guesses(canaries, bound))]

    def allows(self, counts: Sequence[GuessCounts], canaries: int, bound: GuessBound) -> bool:
        """`OneRunResult.by` keeps what was planned for another method."""
        methods: Sequence[Method] = ("trade-off",) if isinstance(bound.claim, GaussianDP) else tuple(METHODS)
        tried = sorted(methods, key=lambda known: known != bound.method)
        return any(super(Planned, self).allows(counts, canaries, replace(bound, method=one)) for one in tried)

    def __str__(self) -> str:
        return "planned beforehand from the claim and the number of canaries"


@dataclass(frozen=True)
class SeparateHalf(GuessRule):
    """The number that would certify most on one half of the canaries, at even places; the others are guessed.

    The output decides the number: with delta > 0 a share of the error is set aside, and a trade-off curve refuses.
    """

    decided_by_output: ClassVar[bool] = True

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        choosing, guessing = slice(0, None, 2), slice(1, None, 2)
        tried = [halved(number) for number in symmetric(len(included) // 2, FRACTIONS)]
        seen = [extremes(included[choosing], scores[choosing], *size) for size in tried]
        merits = [bound.of(counts, decided_by_output=True) for counts in seen]
        return [extremes(included[guessing], scores[guessing], *tried[int(np.argmax(merits))])]

    def allows(self, counts: Sequence[GuessCounts], canaries: int, bound: GuessBound) -> bool:
        half = canaries // 2
        return any(_are(counts, half, [halved(number)]) for number in symmetric(half, FRACTIONS))

    def __str__(self) -> str:
        return "how many was chosen on half of the canaries, the guesses are about the others"


@dataclass(frozen=True)
class Bonferroni(Beforehand):
    """Several numbers of guesses, given beforehand as shares of the canaries; the error is shared among them."""

    shares: tuple[float, ...] = PAID_FRACTIONS

    def __post_init__(self) -> None:
        if not self.shares or not all(0.0 < share <= 1.0 for share in self.shares):
            raise AuditError(f"The shares to guess are {self.shares!r}; they must be numbers in (0, 1], at least one.")

    def sizes(self, canaries: int, bound: GuessBound) -> Sizes:
        return [halved(number) for number in symmetric(canaries, self.shares)]

    def __str__(self) -> str:
        return "the best of several numbers fixed beforehand, which share the error (Bonferroni)"


@dataclass(frozen=True)
class Threshold(GuessRule):
    """Everybody is guessed: in where the score is above ``at``, else out."""

    at: float = 0.0

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        return [tally(included, scores > self.at, scores <= self.at)]

    def allows(self, counts: Sequence[GuessCounts], canaries: int, bound: GuessBound) -> bool:
        return [(seen.canaries, seen.guesses) for seen in counts] == [(canaries, canaries)]

    def __str__(self) -> str:
        return f"everybody is guessed, in where the score is above {self.at:g}"


RULES: dict[str, Callable[..., GuessRule]] = {
    rule.__name__: rule for rule in (Fixed, Planned, SeparateHalf, Bonferroni, Threshold)
}
NAMED: dict[str, Callable[[], GuessRule]] = {"planned": Planned, "half": SeparateHalf, "bonferroni": Bonferroni}


def _are(counts: Sequence[GuessCounts], canaries: int, sizes: Sizes) -> bool:
    """Say whether counts are of so many canaries and guesses."""
    return [(seen.canaries, seen.guessed_in, seen.guessed_out) for seen in counts] == [(canaries, *n) for n in sizes]


def halved(guesses: int) -> tuple[int, int]:
    """Part a number of guesses into those in and those out."""
    return (guesses + 1) // 2, guesses // 2


def rule_of(guesses: str | int | tuple[int, int] | GuessRule, canaries: int) -> GuessRule:
    """Return the rule that an argument ``guesses`` names; raises `AuditError` for none, or for more than the canaries.

    >>> print(rule_of(100, 1000))
    the 50 highest scores in, the 50 lowest out, fixed beforehand
    """
    if isinstance(guesses, str) and guesses in NAMED:
        return NAMED[guesses]()
    if isinstance(guesses, GuessRule):
        rule = guesses
    elif isinstance(guesses, tuple) and len(guesses) == 2:
        rule = Fixed(*guesses)
    elif isinstance(guesses, int) and not isinstance(guesses, bool):
        rule = Fixed(*halved(guesses))
    else:
        raise AuditError(
            f"guesses is {guesses!r}; it must be 'planned', 'half', 'bonferroni', how many to guess in all, how many "
            "in and out as a pair, or a rule of epsaudit.audits.one_run."
        )
    if isinstance(rule, Fixed) and not 0 < rule.highest + rule.lowest <= canaries:
        raise AuditError(f"{rule.highest + rule.lowest} guesses were asked for; give 1 to {canaries}, one a canary.")
    return rule


def rule_from_dict(data: dict[str, Any]) -> GuessRule:
    """Rebuild a rule from what `GuessRule.to_dict` returned; raises `AuditError` for anything else.

    >>> rule_from_dict(Bonferroni((1.0, 0.1)).to_dict())
    Bonferroni(shares=(1.0, 0.1))
    """
    try:
        fields = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
        return RULES[str(fields.pop("kind"))](**fields)
    except (KeyError, TypeError, AttributeError):
        raise AuditError(f"{data!r} is no rule of guessing; its kind must be one of {', '.join(RULES)}.") from None


@functools.lru_cache(maxsize=1024)
def planned_guesses(canaries: int, bound: GuessBound) -> int:
    """Return the number of guesses whose expected count of right ones certifies most, were the claim exact.

    Preferred are numbers that would refute the claim, with something to spare, if all guesses were right. The model has
    no part in validity.

    >>> planned_guesses(10_000, GuessBound(GaussianDP(0.5), "trade-off", 0.95))
    500
    """
    if not isinstance(bound.claim, GaussianDP) and delta_of(bound.claim) == 0.0:
        return canaries  # as randomised response would have it
    numbers, merits = predicted(canaries, bound)
    least = SPARE * bound.claim.parameter
    able = [place for place, number in enumerate(numbers) if _shown(canaries, number, number, bound) > least]
    best = max(range(len(numbers)), key=merits.__getitem__)
    farther = max(able, key=merits.__getitem__, default=best)
    return numbers[farther if merits[farther] >= WORTH * merits[best] else best]


def predicted(canaries: int, bound: GuessBound) -> tuple[list[int], list[float]]:
    """Return numbers of guesses, and the bound that each would certify from its expected count of right ones.

    >>> numbers, bounds = predicted(1000, GuessBound(GaussianDP(1.0), "trade-off", 0.95))
    >>> numbers, [round(value, 2) for value in bounds]
    ([1000, 500, 250, 100, 50, 20, 10], [0.34, 0.5, 0.58, 0.6, 0.54, 0.3, 0.13])
    """
    claim = bound.claim
    mu = claim.parameter
    if not isinstance(claim, GaussianDP):
        mu = float(GaussianDP(1.0).least_at(mu, delta_of(claim)))
    numbers = symmetric(canaries, FRACTIONS)
    accuracies = expected_accuracy(np.array(numbers) / canaries, mu)
    return numbers, [
        _shown(canaries, number, math.floor(number * float(accuracy)), bound)
        for number, accuracy in zip(numbers, accuracies, strict=True)
    ]


def _shown(canaries: int, guesses: int, correct: int, bound: GuessBound) -> float:
    return bound.of(GuessCounts(canaries, guesses, 0, correct, 0), decided_by_output=False)


def symmetric(canaries: int, shares: Sequence[float]) -> list[int]:
    """Numbers of guesses at these shares of the canaries, without those too few to show anything."""
    numbers = [round(canaries * share) for share in shares]
    return [number for number in numbers if number >= FEWEST] or [canaries]


def expected_accuracy(shares: Floats, mu: float) -> Floats:
    """How often guesses about the most extreme share of independent N(+-mu / 2, 1) scores are right."""
    low, high = np.full(len(shares), -1.0), np.full(len(shares), 40.0 + mu)
    for _ in range(60):
        middle = (low + high) / 2.0
        too_many = ndtr(mu / 2.0 - middle) + ndtr(-mu / 2.0 - middle) > shares
        low, high = np.where(too_many, middle, low), np.where(too_many, high, middle)
    right, wrong = ndtr(mu / 2.0 - high), ndtr(-mu / 2.0 - high)
    return np.asarray(right / np.maximum(right + wrong, 1e-300))
