"""A guess rule for studies: the number of guesses is chosen on one half of the canaries and used on the other half.

epsaudit does not offer it: it certifies less than the planned rule, because it guesses about half of the canaries only.
The validity study keeps it as an example of a rule whose number of guesses depends on the output of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from epsaudit.array_types import Bools, Floats
from epsaudit.audits.one_run.planning import GUESS_SHARES, guess_numbers, split_evenly
from epsaudit.audits.one_run.rules import GuessRule, GuessSizes, guess_extremes
from epsaudit.bounds.one_run import GuessBound, GuessSet


@dataclass(frozen=True)
class SeparateHalf(GuessRule):
    """The rule that guesses the canaries at odd positions, with the number of guesses that is best at even positions.

    The output decides the number of guesses. So a share of the error probability is set aside if delta > 0, and a claim
    about a trade-off curve is refused.
    """

    decided_by_output: ClassVar[bool] = True
    words = "how many was chosen on half of the canaries, the guesses are about the others"

    def guessed_canaries(self, canaries: int) -> slice:
        return slice(1, canaries, 2)

    def possible_sizes(self, counts: Sequence[GuessSet], bound: GuessBound) -> list[GuessSizes] | None:
        return [[split_evenly(number)] for number in guess_numbers(counts[0].canaries, GUESS_SHARES)]

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessSet]:
        tried = [split_evenly(number) for number in guess_numbers(len(included) // 2, GUESS_SHARES)]
        best = max(tried, key=lambda size: bound.of(guess_extremes(included[::2], scores[::2], *size)))
        return [guess_extremes(included[1::2], scores[1::2], *best)]
