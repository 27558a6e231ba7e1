"""Guessing rules: which canaries are guessed in and which out, and how many, decided without looking at the coins.

From the scores of one run a rule makes guesses, and with the coins counts. A rule is fixed before the run; what it may
look at decides its cost: nothing for a number fixed beforehand, half of the canaries, or a share of the error for each
of several numbers.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsaudit.claims import Claim, GaussianDP
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.one_run.counts import METHODS, Bools, Floats, GuessCounts, Method, bound, extremes, tally
from epsaudit.one_run.planning import FRACTIONS, planned_guesses, symmetric

PAID_FRACTIONS = (1.0, 0.25, 0.05, 0.01)
"""Shares that 'bonferroni' tries at once, each with a quarter of the error."""


class GuessRule(ABC):
    """How many canaries are guessed in and out; a frozen dataclass, fixed before the run.

    Canaries come to `count` in a random order that no coin decided (`epsaudit.one_run.play.places`), so a rule may
    use places.
    """

    name: ClassVar[str]
    decided_by_output: ClassVar[bool] = False
    """Whether the number of guesses depends on the run's output."""

    @abstractmethod
    def count(
        self, included: Bools, scores: Floats, claim: Claim, method: Method, confidence: float
    ) -> list[GuessCounts]:
        """Guess from the scores, compare with who was included, and return one count for each set of guesses."""

    def allows(
        self, counts: Sequence[GuessCounts], canaries: int, claim: Claim, method: Method, confidence: float
    ) -> bool:
        """Say whether `count` can have returned so many guesses; True for rules of which that is not known."""
        return True

    @abstractmethod
    def __str__(self) -> str: ...

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that `rule_from_dict` turns back into this rule."""
        return {"kind": type(self).__name__, **dataclasses.asdict(self)}  # type: ignore[call-overload]  # a dataclass


@dataclass(frozen=True)
class Fixed(GuessRule):
    """The ``highest`` scores are guessed in, the ``lowest`` out; numbers given beforehand.

    Examples
    --------
    >>> from epsaudit import GaussianDP
    >>> included, scores = np.array([True, True, False, False]), np.array([3.0, 1.0, 2.0, 0.0])
    >>> Fixed(1, 1).count(included, scores, GaussianDP(1.0), "trade-off", 0.95)
    [GuessCounts(canaries=4, guessed_in=1, guessed_out=1, correct_in=1, correct_out=1)]
    """

    highest: int
    lowest: int
    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        whole_at_least(self.highest, 0, "number of canaries to guess in")
        whole_at_least(self.lowest, 0, "number of canaries to guess out")

    def count(
        self, included: Bools, scores: Floats, claim: Claim, method: Method, confidence: float
    ) -> list[GuessCounts]:
        """See `GuessRule.count`."""
        return [extremes(included, scores, self.highest, self.lowest)]

    def allows(
        self, counts: Sequence[GuessCounts], canaries: int, claim: Claim, method: Method, confidence: float
    ) -> bool:
        """See `GuessRule.allows`."""
        return _sizes(counts) == [(canaries, self.highest, self.lowest)]

    def __str__(self) -> str:
        return f"the {self.highest:,} highest scores in, the {self.lowest:,} lowest out, fixed beforehand"


@dataclass(frozen=True)
class Planned(GuessRule):
    """The number predicted to certify most, were the claim exact and the scores Gaussian; nothing is looked at.

    For pure DP everybody is guessed, as randomised response would have it.
    """

    name: ClassVar[str] = "planned"

    def count(
        self, included: Bools, scores: Floats, claim: Claim, method: Method, confidence: float
    ) -> list[GuessCounts]:
        """See `GuessRule.count`."""
        guesses = planned_guesses(len(included), claim, method, confidence)
        return [extremes(included, scores, (guesses + 1) // 2, guesses // 2)]

    def allows(
        self, counts: Sequence[GuessCounts], canaries: int, claim: Claim, method: Method, confidence: float
    ) -> bool:
        """See `GuessRule.allows`."""
        methods: Sequence[Method] = ("trade-off",) if isinstance(claim, GaussianDP) else tuple(METHODS)
        # `OneRunResult.by` keeps what was planned for another method
        return any(
            _sizes(counts) == _halved(canaries, [planned_guesses(canaries, claim, planned, confidence)])
            for planned in sorted(methods, key=lambda known: known != method)
        )

    def __str__(self) -> str:
        return "planned beforehand from the claim and the number of canaries"


@dataclass(frozen=True)
class SeparateHalf(GuessRule):
    """The number that would certify most on one half of the canaries, at even places; the others are guessed.

    The output decides the number: with delta > 0 a share of the error is set aside, and a trade-off curve refuses.
    """

    name: ClassVar[str] = "half"
    decided_by_output: ClassVar[bool] = True

    def count(
        self, included: Bools, scores: Floats, claim: Claim, method: Method, confidence: float
    ) -> list[GuessCounts]:
        """See `GuessRule.count`."""
        choosing, guessing = slice(0, None, 2), slice(1, None, 2)
        candidates = symmetric(len(included[guessing]), FRACTIONS)
        merits = []
        for guesses in candidates:
            seen = extremes(included[choosing], scores[choosing], (guesses + 1) // 2, guesses // 2)
            merits.append(bound(claim, seen, method, confidence, decided_by_output=True))
        best = candidates[int(np.argmax(merits))]
        return [extremes(included[guessing], scores[guessing], (best + 1) // 2, best // 2)]

    def allows(
        self, counts: Sequence[GuessCounts], canaries: int, claim: Claim, method: Method, confidence: float
    ) -> bool:
        """See `GuessRule.allows`."""
        half = canaries // 2
        return any(_sizes(counts) == _halved(half, [number]) for number in symmetric(half, FRACTIONS))

    def __str__(self) -> str:
        return "how many was chosen on half of the canaries, the guesses are about the others"


@dataclass(frozen=True)
class Bonferroni(GuessRule):
    """Several numbers of guesses, given beforehand as shares of the canaries; the error is shared among them."""

    shares: tuple[float, ...] = PAID_FRACTIONS
    name: ClassVar[str] = "bonferroni"

    def __post_init__(self) -> None:
        if not self.shares or not all(0.0 < share <= 1.0 for share in self.shares):
            raise AuditError(f"The shares to guess are {self.shares!r}; they must be numbers in (0, 1], at least one.")

    def count(
        self, included: Bools, scores: Floats, claim: Claim, method: Method, confidence: float
    ) -> list[GuessCounts]:
        """See `GuessRule.count`."""
        numbers = symmetric(len(included), self.shares)
        return [extremes(included, scores, (guesses + 1) // 2, guesses // 2) for guesses in numbers]

    def allows(
        self, counts: Sequence[GuessCounts], canaries: int, claim: Claim, method: Method, confidence: float
    ) -> bool:
        """See `GuessRule.allows`."""
        return _sizes(counts) == _halved(canaries, symmetric(canaries, self.shares))

    def __str__(self) -> str:
        return "the best of several numbers fixed beforehand, which share the error (Bonferroni)"


@dataclass(frozen=True)
class Threshold(GuessRule):
    """Everybody is guessed: in where the score is above ``at``, else out."""

    at: float = 0.0
    name: ClassVar[str] = "threshold"

    def count(
        self, included: Bools, scores: Floats, claim: Claim, method: Method, confidence: float
    ) -> list[GuessCounts]:
        """See `GuessRule.count`."""
        return [tally(included, scores > self.at, scores <= self.at)]

    def allows(
        self, counts: Sequence[GuessCounts], canaries: int, claim: Claim, method: Method, confidence: float
    ) -> bool:
        """See `GuessRule.allows`."""
        return [(seen.canaries, seen.guesses) for seen in counts] == [(canaries, canaries)]

    def __str__(self) -> str:
        return f"everybody is guessed, in where the score is above {self.at:g}"


def _sizes(counts: Sequence[GuessCounts]) -> list[tuple[int, int, int]]:
    return [(seen.canaries, seen.guessed_in, seen.guessed_out) for seen in counts]


def _halved(canaries: int, numbers: Sequence[int]) -> list[tuple[int, int, int]]:
    return [(canaries, (number + 1) // 2, number // 2) for number in numbers]


RULES: dict[str, type[GuessRule]] = {rule.name: rule for rule in (Fixed, Planned, SeparateHalf, Bonferroni, Threshold)}


def rule_of(guesses: str | int | tuple[int, int] | GuessRule, canaries: int) -> GuessRule:
    """Return the rule that an argument ``guesses`` names; raises `AuditError` for none, or for more than the canaries.

    Examples
    --------
    >>> print(rule_of(100, 1000))
    the 50 highest scores in, the 50 lowest out, fixed beforehand
    """
    if isinstance(guesses, str) and guesses in ("planned", "half", "bonferroni"):
        return RULES[guesses]()
    if isinstance(guesses, GuessRule):
        rule = guesses
    elif isinstance(guesses, tuple) and len(guesses) == 2:
        rule = Fixed(*guesses)
    elif isinstance(guesses, int) and not isinstance(guesses, bool):
        rule = Fixed((guesses + 1) // 2, guesses // 2)
    else:
        raise AuditError(
            f"guesses is {guesses!r}; it must be 'planned', 'half', 'bonferroni', how many to guess in all, how many "
            "in and out as a pair, or a rule of epsaudit.one_run."
        )
    if isinstance(rule, Fixed) and not 0 < rule.highest + rule.lowest <= canaries:
        raise AuditError(f"{rule.highest + rule.lowest} guesses were asked for; give 1 to {canaries}, one a canary.")
    return rule


def rule_from_dict(data: dict[str, Any]) -> GuessRule:
    """Rebuild a rule from what `GuessRule.to_dict` returned; raises `AuditError` for anything else.

    Examples
    --------
    >>> rule_from_dict(Bonferroni((1.0, 0.1)).to_dict())
    Bonferroni(shares=(1.0, 0.1))
    """
    kinds = {rule.__name__: rule for rule in RULES.values()}
    try:
        fields = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
        return kinds[str(fields.pop("kind"))](**fields)
    except (KeyError, TypeError, AttributeError):
        raise AuditError(f"{data!r} is no rule of guessing; its kind must be one of {', '.join(kinds)}.") from None
