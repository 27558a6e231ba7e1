"""DOC"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol

from epsaudit.outputs.normal_form import (
    Outputs,
)
from epsaudit.search.candidate import DEFAULT_SD, CandidateScore
from epsaudit.search.encoding import Encoding, encode
from epsaudit.search.scores import Score

SIMPLE_EVENT_MARGIN = 0.02
"""[measured] Shares by which a predicted bound must exceed that of simpler candidates: sets of outputs; unions of
intervals, sums and trees. Of Laplace by 100,000 runs 1 seed of 30 takes a lucky interval with 0.02 for these, none
with 0.04, where the smooth median's bound, of which intervals tell most, is the same."""
COMPLEX_EVENT_MARGIN = 0.04
"""[measured] Shares by which a predicted bound must exceed that of simpler candidates: sets of outputs; unions of
intervals, sums and trees. Of Laplace by 100,000 runs 1 seed of 30 takes a lucky interval with 0.02 for these, none
with 0.04, where the smooth median's bound, of which intervals tell most, is the same."""


class Family(Protocol):
    """A way to find scores.

    One of your own is fitted on one half of the training outputs, and its scores are judged by the other half.
    """

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """Fit on training outputs of x and x'; an empty answer means that the family has nothing to say."""


class TableFamily(ABC):
    """A family that judges its scores itself, from the table of all training outputs."""

    @abstractmethod
    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield candidate scores, judged by outputs that did not teach them."""

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        return [candidate.score for candidate in self.candidates(encode(outputs, outputs_prime))]


def compute_selection_sd(tried: int) -> float:
    """Standard errors to lower by where the best of so many scores is taken, many of which are alike."""
    return math.sqrt(DEFAULT_SD**2 + math.log(max(tried, 1)))
