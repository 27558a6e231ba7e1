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
"""[measured] Share by which the predicted bound of a set of single outputs must exceed the bound of simpler candidates.
See `COMPLEX_EVENT_MARGIN` for the measurement."""
COMPLEX_EVENT_MARGIN = 0.04
"""[measured] Share by which the predicted bound of a union of intervals or a sum must exceed the bound of simpler
candidates. With Laplace noise and 100,000 runs, 1 of 30 seeds chooses a lucky interval if this is 0.02, and none if it
is 0.04. The bound for the smooth median, for which intervals reveal most, is the same with both."""


class Family(Protocol):
    """A method that finds scores.

    A family of your own is fitted on one half of the training outputs, and its scores are evaluated on the other half.
    """

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """Fit on training outputs of x and x', and return scores. The list is empty if the family does not apply."""


class TableFamily(ABC):
    """A family that evaluates its scores itself, from the table of all training outputs."""

    @abstractmethod
    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield candidate scores. Each is evaluated on outputs that it was not learnt from."""

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        return [candidate.score for candidate in self.candidates(encode(outputs, outputs_prime))]


def compute_selection_sd(n_tried: int) -> float:
    """Return the number of standard errors by which the log odds of the best of ``n_tried`` scores are lowered.

    Many of the scores are similar, so the number grows more slowly than for independent scores.
    """
    return math.sqrt(DEFAULT_SD**2 + math.log(max(n_tried, 1)))
