"""Randomised response that is truthful too often for its claim.

The claims are those of `epsaudit.mechanisms.response`; the laws are what the mistake makes of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from epsaudit.mechanisms.response import RandomisedResponse


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
