"""Guess rules: from the scores of all canaries to guesses 'in' and 'out', and the counts of correct guesses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from epsaudit.array_types import Bools, Floats
from epsaudit.audits.one_run.planning import (
    BONFERRONI_SHARES,
    guess_numbers,
    ladder,
    planned_guesses,
    split_evenly,
)
from epsaudit.bounds.one_run import GuessBound, GuessSet
from epsaudit.codec import Tagged
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.extensions import find_extension

GuessSizes = list[tuple[int, int]]
"""For each set of guesses, the number of canaries guessed in and the number of canaries guessed out."""


def guess_extremes(included: Bools, scores: Floats, highest: int, lowest: int) -> GuessSet:
    """Guess the ``highest`` scores in and the ``lowest`` scores out, and return the counts.

    Ties are broken by position, so the caller must pass the canaries in an order that no coin decided.
    """
    order = np.argsort(scores, kind="stable")
    place = np.empty(len(scores), dtype=np.intp)
    place[order] = np.arange(len(scores))
    return count_guesses(included, place >= len(scores) - highest, place < lowest)


def count_guesses(included: Bools, guessed_in: Bools, guessed_out: Bools) -> GuessSet:
    """Return the counts of guesses and of correct guesses; all masks have shape (canaries,)."""
    right = int((guessed_in & included).sum()), int((guessed_out & ~included).sum())
    return GuessSet.of(len(included), int(guessed_in.sum()), int(guessed_out.sum()), *right)


class GuessRule(Tagged, ABC):
    """A rule, fixed before the run, that decides from the scores which canaries are guessed in and out.

    Subclasses are frozen dataclasses. `count` receives the canaries in a random order that is independent of the coins,
    so a rule may use the positions of canaries.
    """

    _what = "not a guess rule"
    decided_by_output: ClassVar[bool] = False
    """Whether the number of guesses depends on the output of the run."""
    shared: ClassVar[bool] = True
    """Whether all sets of guesses are about one parameter and share the error probability. If not, each set of guesses
    tests a parameter of its own; see `certified`."""
    words: ClassVar[str]
    """The text of the rule in reports, a format string for the rule."""

    @classmethod
    def _kinds(cls) -> list[type[Self]]:
        """Return the rules of this module, and the rule of earlier versions that moved to the studies."""
        moved = find_extension("separate_half") if cls is GuessRule else None
        return [*super()._kinds(), *([] if moved is None else [moved])]

    @abstractmethod
    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessSet]:
        """Guess which canaries were in, and return the counts of each set of guesses.

        The guesses may use the ``scores`` only. The mask ``included`` serves to count the correct guesses.
        """

    def guessed_canaries(self, canaries: int) -> slice:
        """Return which of the canaries, in their random order, the rule guesses about; by default all of them."""
        return slice(canaries)

    def possible_sizes(self, counts: Sequence[GuessSet], bound: GuessBound) -> list[GuessSizes] | None:
        """Return all numbers of guesses that are possible for stored counts, which may have been changed.

        There is at least one set of counts, and each is about the right number of canaries. By default a rule makes one
        set of any number of guesses. The result is then None, or an empty list if there are several sets.
        """
        return None if len(counts) == 1 else []

    def certified(self, counts: Sequence[GuessSet], bound: GuessBound) -> tuple[float, GuessSet]:
        """Return the lower bound that all counts certify together, and the counts on which the bound rests."""
        share = replace(bound, confidence=1.0 - (1.0 - bound.confidence) / len(counts))
        best = max(counts, key=share.of)
        return share.of(best), best

    def __str__(self) -> str:
        return self.words.format(self)


class PredeterminedRule(GuessRule):
    """A rule whose numbers of guesses follow from the claim and the number of canaries, without the scores."""

    @abstractmethod
    def sizes(self, canaries: int, bound: GuessBound) -> GuessSizes:
        """Return, for each set of guesses, the number of highest scores guessed in and of lowest scores guessed out."""

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessSet]:
        return [guess_extremes(included, scores, *size) for size in self.sizes(len(included), bound)]

    def possible_sizes(self, counts: Sequence[GuessSet], bound: GuessBound) -> list[GuessSizes] | None:
        return [self.sizes(counts[0].canaries, bound)]


@dataclass(frozen=True)
class Fixed(PredeterminedRule):
    """The rule that guesses the ``highest`` scores in and the ``lowest`` scores out, both numbers given by the user."""

    highest: int
    lowest: int
    words = "the {0.highest:,} highest scores in, the {0.lowest:,} lowest out, fixed beforehand"

    def __post_init__(self) -> None:
        whole_at_least(self.highest, 0, "number of canaries to guess in")
        whole_at_least(self.lowest, 0, "number of canaries to guess out")

    def sizes(self, canaries: int, bound: GuessBound) -> GuessSizes:
        return [(self.highest, self.lowest)]


@dataclass(frozen=True)
class Planned(PredeterminedRule):
    """The rule that makes the number of guesses with the largest predicted bound; see `planned_guesses`.

    If these guesses refute the claim, larger parameters are tested in ascending order, each at the whole significance
    level with the number of guesses that `ladder` gives for it, until one is not rejected. No share of the error
    probability is needed for the further tests: a bound above the true parameter requires that the test of the true
    parameter rejected it.
    """

    shared: ClassVar[bool] = False
    words = "planned beforehand from the claim and the number of canaries"

    def sizes(self, canaries: int, bound: GuessBound) -> GuessSizes:
        return [split_evenly(planned_guesses(canaries, bound))]

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessSet]:
        counts: list[GuessSet] = []
        for _, size in self._steps(len(included), bound, counts):
            counts.append(guess_extremes(included, scores, *size))
        return counts

    def possible_sizes(self, counts: Sequence[GuessSet], bound: GuessBound) -> list[GuessSizes] | None:
        return [[size for _, size in self._steps(counts[0].canaries, bound, counts)]]

    def certified(self, counts: Sequence[GuessSet], bound: GuessBound) -> tuple[float, GuessSet]:
        best, rejected = 0.0, 0.0
        for one, (parameter, _) in zip(counts, self._steps(counts[0].canaries, bound, counts), strict=False):
            best, rejected = max(rejected, bound.of(one)), parameter
        return best, one

    def _steps(
        self, canaries: int, bound: GuessBound, counts: Sequence[GuessSet]
    ) -> Iterator[tuple[float, tuple[int, int]]]:
        """Yield each parameter that is tested, and the numbers of guesses in and out that test it.

        ``counts`` are the counts of these guesses in the same order. The caller may append the counts of a step before
        it asks for the next one. The last step is the first one whose parameter is not rejected or that has no counts.
        """
        for place, (parameter, guesses) in enumerate(_lazy_ladder(canaries, bound)):
            yield parameter, split_evenly(guesses)
            if place >= len(counts) or bound.of(counts[place]) <= parameter:
                return


def _lazy_ladder(canaries: int, bound: GuessBound) -> Iterator[tuple[float, int]]:
    """Yield the steps of `ladder`, but compute the steps after the first one only when the second one is needed."""
    yield bound.claim.parameter, planned_guesses(canaries, bound)
    yield from ladder(canaries, bound)[1:]


@dataclass(frozen=True)
class Bonferroni(PredeterminedRule):
    """The rule that tries several numbers of guesses, given as shares of the canaries, and reports the best bound.

    The sets of guesses share the error probability equally (Bonferroni).
    """

    shares: tuple[float, ...] = BONFERRONI_SHARES
    words = "the best of several numbers fixed beforehand, which share the error (Bonferroni)"

    def __post_init__(self) -> None:
        if not self.shares or not all(0.0 < share <= 1.0 for share in self.shares):
            raise AuditError(f"The shares to guess are {self.shares!r}; they must be numbers in (0, 1], at least one.")

    def sizes(self, canaries: int, bound: GuessBound) -> GuessSizes:
        return [split_evenly(number) for number in guess_numbers(canaries, self.shares)]


@dataclass(frozen=True)
class Signs(GuessRule):
    """The rule for scores that are guesses: a canary is guessed in above 0, out below 0, and not guessed at 0."""

    decided_by_output: ClassVar[bool] = True
    words = "as given: in above 0, out below 0, none at 0"

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessSet]:
        return [count_guesses(included, scores > 0.0, scores < 0.0)]


@dataclass(frozen=True)
class Threshold(GuessRule):
    """The rule that guesses all canaries, in if the score is above the threshold ``at`` and out otherwise.

    `epsaudit.audit_scores` and the audit of four counts use it for a threshold that the user fixed before the run.
    """

    at: float = 0.0
    words = "everybody is guessed, in where the score is above {0.at:g}"

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessSet]:
        return [count_guesses(included, scores > self.at, scores <= self.at)]

    def possible_sizes(self, counts: Sequence[GuessSet], bound: GuessBound) -> list[GuessSizes] | None:
        return [[(one.guessed_in, one.canaries - one.guessed_in)] for one in counts[:1]]


Guesses = str | int | tuple[int, int] | GuessRule
"""How the argument ``guesses`` of an audit may be written; `rule_of` returns the rule."""
RULES_BY_NAME: dict[str, Callable[[], GuessRule]] = {"planned": Planned, "bonferroni": Bonferroni, "signs": Signs}


def rule_of(guesses: Guesses, canaries: int) -> GuessRule:
    """Return the rule that an argument ``guesses`` stands for.

    Raises `AuditError` if the argument stands for no rule, or if it asks for more guesses than there are canaries.

    >>> print(rule_of(100, 1000))
    the 50 highest scores in, the 50 lowest out, fixed beforehand
    """
    if isinstance(guesses, str) and guesses in RULES_BY_NAME:
        return RULES_BY_NAME[guesses]()
    if isinstance(guesses, GuessRule):
        rule = guesses
    elif isinstance(guesses, tuple) and len(guesses) == 2:
        rule = Fixed(*guesses)
    elif isinstance(guesses, int) and not isinstance(guesses, bool):
        rule = Fixed(*split_evenly(guesses))
    else:
        raise AuditError(
            f"guesses is {guesses!r}; it must be {', '.join(map(repr, RULES_BY_NAME))}, the number of all guesses, the "
            "numbers of guesses in and out as a pair, or a rule of epsaudit.audits.one_run."
        )
    if isinstance(rule, Fixed) and not 0 < rule.highest + rule.lowest <= canaries:
        raise AuditError(
            f"The number of guesses is {rule.highest + rule.lowest}; it must be from 1 to {canaries}, the number of "
            "canaries."
        )
    return rule
