"""The interface of a family: a method that turns training outputs into scores.

A new kind of score is a new family, listed in `epsaudit.search.families`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol

from epsaudit.outputs.arrays import Outputs
from epsaudit.search.candidate import DEFAULT_SD, CandidateScore
from epsaudit.search.encoding import Encoding, encode
from epsaudit.search.scores import Score

SIMPLE_EVENT_MARGIN = 0.02
"""[measured] The fraction by which the predicted bound of a set of single outputs must exceed the bound of simpler
candidates. See `COMPLEX_EVENT_MARGIN` for the measurement."""
COMPLEX_EVENT_MARGIN = 0.04
"""[measured] The fraction by which the predicted bound of a union of intervals or of a learnt score must exceed the
bound of simpler candidates. With Laplace noise and 100,000 runs, 1 of 30 seeds chooses an interval by chance if this is
0.02, and none if it is 0.04. The bound for the smooth median, for which intervals reveal most, is the same."""


class Family(Protocol):
    """A method that finds scores: functions that give each output a number, larger where x is more likely.

    A user's own family is fitted on one half of the training outputs, and its scores are evaluated on the other half.
    """

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """Fit on training outputs of x and x', and return scores. The list is empty if the family does not apply."""


class TableFamily(ABC):
    """A family that builds candidates from the table of all training outputs.

    It must itself evaluate each score on outputs that the score was not learnt from.
    """

    @abstractmethod
    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield candidate scores. Each score is evaluated on outputs that it was not learnt from."""

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        return [candidate.score for candidate in self.candidates(encode(outputs, outputs_prime))]


def compute_selection_sd(n_tried: int) -> float:
    """Return the number of standard errors to subtract from the log odds of the best of ``n_tried`` scores.

    The best of many scores looks better than it is. The number grows with ``n_tried``, but more slowly than for
    independent scores, because many of the scores are similar.
    """
    return math.sqrt(DEFAULT_SD**2 + math.log(max(n_tried, 1)))
