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
    """Guess about the canaries with extreme scores, and return the counts of correct guesses.

    The ``highest`` canaries with the largest scores are guessed in, and the ``lowest`` canaries with the smallest
    scores are guessed out. ``included`` is the mask of the canaries that were in. Ties are broken by position, so the
    caller must pass the canaries in an order that is independent of which canaries were in.
    """
    order = np.argsort(scores, kind="stable")
    place = np.empty(len(scores), dtype=np.intp)
    place[order] = np.arange(len(scores))
    return count_guesses(included, place >= len(scores) - highest, place < lowest)


def count_guesses(included: Bools, guessed_in: Bools, guessed_out: Bools) -> GuessSet:
    """Return the numbers of guesses and of correct guesses, from masks of shape (canaries,).

    ``included`` selects the canaries that were in, ``guessed_in`` those that are guessed in, and ``guessed_out`` those
    that are guessed out.
    """
    right = int((guessed_in & included).sum()), int((guessed_out & ~included).sum())
    return GuessSet.of(len(included), int(guessed_in.sum()), int(guessed_out.sum()), *right)


class GuessRule(Tagged, ABC):
    """A rule that decides from the scores which canaries are guessed to be in the dataset and which to be out of it.

    The rule is fixed before the run. Subclasses are frozen dataclasses. `count` receives the canaries in a random order
    that is independent of which canaries were in, so a rule may use the positions of canaries.
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
        """Return the classes of rules that a result file may name.

        These are the rules of this module and, if the package that now contains it is installed, a rule of earlier
        versions.
        """
        moved = find_extension("separate_half") if cls is GuessRule else None
        return [*super()._kinds(), *([] if moved is None else [moved])]

    @abstractmethod
    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessSet]:
        """Guess which canaries were in, and return the counts of each set of guesses.

        The guesses must not depend on the mask ``included`` of the canaries that were in, which is used only to count
        the correct guesses. ``bound`` turns counts into a lower bound.
        """

    def guessed_canaries(self, canaries: int) -> slice:
        """Return the slice of the canaries, in their random order, about which the rule may guess.

        By default these are all canaries.
        """
        return slice(canaries)

    def possible_sizes(self, counts: Sequence[GuessSet], bound: GuessBound) -> list[GuessSizes] | None:
        """Return all lists of numbers of guesses that this rule can have made, to check stored ``counts``.

        There is at least one set of counts, but the file may have been changed. By default a rule makes a single set of
        guesses, of any size. So the result is None, which means any number, if there is a single set, and an empty list
        if there are several sets.
        """
        return None if len(counts) == 1 else []

    def certified(self, counts: Sequence[GuessSet], bound: GuessBound) -> tuple[float, GuessSet]:
        """Return the lower bound that all sets of guesses certify together, and the set of guesses that gives it.

        By default the sets share the error probability equally, and the largest of their bounds is returned.
        """
        share = replace(bound, confidence=1.0 - (1.0 - bound.confidence) / len(counts))
        best = max(counts, key=share.of)
        return share.of(best), best

    def __str__(self) -> str:
        return self.words.format(self)


class PredeterminedRule(GuessRule):
    """A rule whose numbers of guesses follow from the claim and the number of canaries, without the scores."""

    @abstractmethod
    def sizes(self, canaries: int, bound: GuessBound) -> GuessSizes:
        """Return, for each set of guesses, how many of the highest scores are guessed in and of the lowest out."""

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessSet]:
        return [guess_extremes(included, scores, *size) for size in self.sizes(len(included), bound)]

    def possible_sizes(self, counts: Sequence[GuessSet], bound: GuessBound) -> list[GuessSizes] | None:
        return [self.sizes(counts[0].canaries, bound)]


@dataclass(frozen=True)
class Fixed(PredeterminedRule):
    """The rule that guesses numbers of canaries given by the user: ``highest`` scores in, ``lowest`` scores out."""

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
    """The rule that plans the number of guesses from the claim and the number of canaries; see `planned_guesses`.

    These guesses test the claim. If they refute it, larger parameters are tested in ascending order, with the number of
    guesses that `ladder` gives for each, until a parameter is not rejected. Every test has the whole significance
    level. The tests need not share it, because a bound above the true parameter requires that the test of the true
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
        """Yield the tested parameters in ascending order, each with the numbers of guesses in and out that test it.

        ``counts`` are the counts of the guesses of all steps so far. The caller may append the counts of a step before
        it asks for the next step. The last step is the first one whose parameter is not rejected by its counts, or that
        has no counts yet.
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
    """The rule for scores that are guesses: a positive score guesses in, a negative score out, and 0 does not guess."""

    decided_by_output: ClassVar[bool] = True
    words = "as given: in above 0, out below 0, none at 0"

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessSet]:
        return [count_guesses(included, scores > 0.0, scores < 0.0)]


@dataclass(frozen=True)
class Threshold(GuessRule):
    """The rule that guesses every canary: in if the score is above the threshold ``at``, and out otherwise.

    `epsaudit.audit_scores` and `epsaudit.audits.scores.audit_counts` use it for a threshold that the user fixed before
    the run.
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
    """Return the guess rule for an argument ``guesses``: a name, a number of guesses, a pair of numbers, or a rule.

    Raises `AuditError` for any other argument, and if there are fewer canaries than guesses.

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
