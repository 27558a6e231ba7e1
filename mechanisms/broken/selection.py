"""Selection that forgets a factor 2 or borrows a claim, and answers released too soon: distances too long, no test."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import whole_at_least
from epsaudit.mechanisms.broken.additive import AsBoundedRange
from epsaudit.mechanisms.enumerated_losses import EnumeratedLosses
from epsaudit.mechanisms.histogram import GaussianHistogram, StableHistogram
from epsaudit.mechanisms.inverse_sensitivity import SlopeLosses
from epsaudit.mechanisms.laws import FiniteLaw, LaplaceLaw
from epsaudit.mechanisms.queries import VOTES, Dataset, Utilities, VoteCounts
from epsaudit.mechanisms.selection import (
    ExponentialMechanism,
    GapMax,
    MonotoneExponentialMechanism,
    NoisyMaxExponential,
    NoisyMaxLaplace,
    PermuteAndFlip,
)
from epsaudit.mechanisms.stability import ProposeTestRelease, StableMode
from epsaudit.running.protocols import OutputDistribution


class SumOfResiduals(SlopeLosses):
    """The residuals of median regression themselves for losses, as if one record moved their sum by 1 at most."""

    def losses(self, dataset: Any) -> NDArray[np.int64]:
        a, b = np.array(dataset, dtype=np.int64).T
        return np.asarray(np.abs(b[:, None] - a[:, None] * np.array(self.candidates, dtype=np.int64)).sum(axis=0))


class DistanceOfAnswers(EnumeratedLosses):
    """The distance of an answer from the true one for its loss, as if one record moved the answer by 1 at most."""

    def _losses(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        truth = self.values[int(np.argmin(distances))]
        return np.asarray(np.abs(np.array(self.candidates) - truth), dtype=np.int64)


class ExponentialWithoutFactorTwo(ExponentialMechanism):
    """The exponential mechanism with weight exp(epsilon u / sensitivity): 2 epsilon in truth, as a lead grows."""

    name: ClassVar[str] = "exponential mechanism, factor 2 forgotten"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (5, 1)  # half the lead is as clear as for the right weights


@dataclass(frozen=True)
class MonotoneExponentialOnMovingVotes(MonotoneExponentialMechanism):
    """Weights for monotone utilities, where one falls and another rises: 2 epsilon in truth, as a lead grows."""

    utilities: Utilities = VOTES
    name: ClassVar[str] = "exponential mechanism, monotone, on moving votes"


class PermuteAndFlipAsBoundedRange(AsBoundedRange, PermuteAndFlip):
    """With the exponential mechanism's zCDP: rho is 0.327 in truth at epsilon = 1, not 0.125."""

    name: ClassVar[str] = "permute-and-flip, as if bounded-range"


class Approvals(VoteCounts):
    """Approvals of each candidate; a record is a tuple of candidates, and one voter may move every count."""

    def __call__(self, dataset: Dataset) -> Floats:
        votes = Counter(name for record in dataset for name in record)  # type: ignore[attr-defined]  # tuples of names
        return np.array([votes[candidate] for candidate in self.candidates], float)

    def lead(self, gap: int) -> DatasetPair:
        gap = whole_at_least(gap, 1, "gap between the candidates")
        first, *rest = self.candidates
        x = ((first,),) * gap
        return DatasetPair(x, (*x[1:], tuple(rest)), f"{first} ahead by {gap} approvals against {gap - 2}")


FIVE = Approvals(("red", "blue", "green", "white", "black"))


class NoisyMaxWithoutFactorTwo(NoisyMaxLaplace):
    """Scale sensitivity / epsilon where utilities are not monotone: up to 2 epsilon in truth, as a lead grows."""

    name: ClassVar[str] = "report noisy max, factor 2 forgotten"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (4,)


@dataclass(frozen=True)
class NoisyMaxAsBoundedRange(AsBoundedRange, NoisyMaxLaplace):
    """With the exponential mechanism's zCDP: rho is 0.149 in truth at epsilon = 1 for five candidates, not 0.125."""

    utilities: Utilities = FIVE
    name: ClassVar[str] = "report noisy max, as if bounded-range"
    leads: ClassVar[tuple[int, ...]] = (2,)  # over everybody, lost at once


class NoisyMaxExponentialAsBoundedRange(AsBoundedRange, NoisyMaxExponential):
    """As `PermuteAndFlipAsBoundedRange`, whose law it has."""

    name: ClassVar[str] = "report noisy max, exponential noise, as if bounded-range"


class PublishedMode(StableMode):
    """The lead for the distance, as published (lecture notes, 'Ex: Mode'): at 1 one record may change the mode.

    So the first answer comes out with probability delta e^epsilon / 2, which is delta in truth.
    """

    def distance(self, dataset: Any, bound: float) -> float:
        return float(self.gap(dataset))

    def pair_at(self, distance: int, bound: float) -> DatasetPair:
        return DatasetPair(("b", "b", "a"), ("b", "b", "a", "a"), "leads of 1 and 0, the mode changes")


class UntestedRelease(ProposeTestRelease):
    """Compares the exact distance with its threshold: a refusal is certain, or impossible."""

    name: ClassVar[str] = "propose-test-release, no noise in the test"

    def __call__(self, dataset: Any) -> OutputDistribution:
        if self.distance(dataset) <= self.threshold:
            return FiniteLaw((None,), (0.0,))
        return LaplaceLaw(float(self.query(dataset)), self.bound / self.epsilon)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (self.query.pair_at(math.floor(self.threshold) + 1, self.bound),)


class GapMaxAtTheGap(GapMax):
    """The lead for the distance, one too long: both winners come out with e^epsilon times the claimed delta."""

    name: ClassVar[str] = "gap-max, distance one too long"

    def distance(self, gap: float) -> float:
        return gap / self.gap_sensitivity

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        first, second = self.utilities.candidates[:2]
        return (DatasetPair((second,), (second, first), f"{second} ahead by 1 against a tie"),)


class HistogramOneTooLow(StableHistogram):
    """The threshold is one record too low: a new key shows with delta e^epsilon / 2, which is delta in truth."""

    name: ClassVar[str] = "stable histogram, threshold one too low"

    @property
    def threshold(self) -> float:
        return super().threshold - 1.0

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return super().worst_pairs()[1:]


class GaussianHistogramOneTooLow(GaussianHistogram):
    """The threshold is one record too low: a new key shows with probability Phi(1 / sigma + Phi^-1(delta))."""

    name: ClassVar[str] = "histogram over an unknown domain, threshold one too low"

    @property
    def threshold(self) -> float:
        return super().threshold - 1.0

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return super().worst_pairs()[1:]


class HistogramWithoutThreshold(StableHistogram):
    """A new key, however rare, gives its owner away: lecture notes on stable histograms name it as what to avoid."""

    name: ClassVar[str] = "histogram without a threshold"

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (DatasetPair(("a", "a", "b"), ("a", "a"), "a key that one record has against none"),)

    @property
    def threshold(self) -> float:
        return -math.inf
