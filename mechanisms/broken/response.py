"""Randomised response that is truthful too often for its claim, or is shuffled with users who do not hide anyone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.response import HadamardResponse, RandomisedResponse
from epsaudit.mechanisms.shuffling import ShuffledResponse, TwoBinomials


class ResponseWithCoin(RandomisedResponse):
    """Truthful with probability e^epsilon / (1 + e^epsilon), and otherwise an answer by a fair coin.

    The coin tells the truth half of the time: log(1 + 2 e^epsilon) in truth, 1.86 at epsilon = 1.
    """

    name: ClassVar[str] = "randomised response, coin in place of a lie"

    @property
    def truth(self) -> float:
        """Probability of a truthful answer, the coin's included."""
        intended = super().truth
        return intended + (1.0 - intended) / self.answers


@dataclass(frozen=True)
class ResponseForgettingAnswers(RandomisedResponse):
    """Truthful with probability e^epsilon / (1 + e^epsilon), as for two answers, where there are k.

    A lie is shared by k - 1 answers: epsilon + log(k - 1) in truth, 2.1 at epsilon = 1 and k = 4.
    """

    answers: int = 4
    name: ClassVar[str] = "randomised response, k forgotten"

    @property
    def truth(self) -> float:
        """Probability of a truthful answer, whatever k is."""
        return 1.0 / (1.0 + math.exp(-self.epsilon))


class HadamardWithCoin(HadamardResponse):
    """A symbol of C_x with probability e^epsilon / (1 + e^epsilon), and otherwise any symbol, one of C_x perhaps.

    log(1 + 2 e^epsilon) in truth if there is one block, and more with several.
    """

    name: ClassVar[str] = "Hadamard response, coin in place of another symbol"

    @cached_property
    def chances(self) -> Floats:
        """Probability of each symbol, shape (answers, symbols)."""
        lie = 1.0 / (1.0 + math.exp(self.epsilon))
        return (1.0 - lie) * self.owned / (self.block / 2) + lie / self.symbols


class ShuffledWithDropouts(ShuffledResponse):
    """Binary shuffled response of which nine in ten users drop out, with the amplification of all users claimed.

    'Privacy Doona' says what is left if users do not take part: the amplification of those who do.

    Examples
    --------
    >>> mechanism = ShuffledWithDropouts(1.0, 1000, 1e-3)
    >>> len(mechanism((1000, 0)).support), round(mechanism.claim.epsilon, 4)
    (101, 0.063)
    """

    name: ClassVar[str] = "shuffled response, nine in ten drop out"

    def __call__(self, dataset: Sequence[int]) -> TwoBinomials:
        """Only a tenth of each group answers, rounded up."""
        return TwoBinomials(-(-dataset[1] // 10), -(-dataset[0] // 10), self.truth)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One user who stays holds 0 or 1 among users who hold 0."""
        return (DatasetPair((self.users - 1, 1), (self.users, 0), "one user who stays holds 1 or 0"),)
