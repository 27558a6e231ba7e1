"""Incorrect selection: a factor 2 is forgotten, a claim borrowed, a test missing, or a distance wrong."""

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
    """Median regression whose losses are the sums of residuals, as if one record moved such a sum by at most 1."""

    def losses(self, dataset: Any) -> NDArray[np.int64]:
        a, b = np.array(dataset, dtype=np.int64).T
        return np.asarray(np.abs(b[:, None] - a[:, None] * np.array(self.candidates, dtype=np.int64)).sum(axis=0))


class DistanceOfAnswers(EnumeratedLosses):
    """Losses that are the distances of answers from the true answer, as if one record moved this by at most 1."""

    def _losses(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        truth = self.values[int(np.argmin(distances))]
        return np.asarray(np.abs(np.array(self.candidates) - truth), dtype=np.int64)


class ExponentialWithoutFactorTwo(ExponentialMechanism):
    """The exponential mechanism with weight exp(epsilon u / sensitivity).

    The true privacy loss tends to 2 epsilon as a lead grows.
    """

    name: ClassVar[str] = "exponential mechanism, factor 2 forgotten"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (5, 1)  # half the lead has the effect of a whole one under the right weights


@dataclass(frozen=True)
class MonotoneExponentialOnMovingVotes(MonotoneExponentialMechanism):
    """Weights for monotone utilities, applied where one count falls while another rises.

    The true privacy loss tends to 2 epsilon as a lead grows.
    """

    utilities: Utilities = VOTES
    name: ClassVar[str] = "exponential mechanism, monotone, on moving votes"


class PermuteAndFlipAsBoundedRange(AsBoundedRange, PermuteAndFlip):
    """Permute-and-flip with the zCDP claim of the exponential mechanism.

    At epsilon = 1 the true rho is 0.327, not 0.125.
    """

    name: ClassVar[str] = "permute-and-flip, as if bounded-range"


class Approvals(VoteCounts):
    """Number of approvals of each candidate; a record is a tuple of candidates, so one voter may move every count."""

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
    """Noise of scale sensitivity / epsilon for utilities that are not monotone.

    The true privacy loss is up to 2 epsilon as a lead grows.
    """

    name: ClassVar[str] = "report noisy max, factor 2 forgotten"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (4,)


@dataclass(frozen=True)
class NoisyMaxAsBoundedRange(AsBoundedRange, NoisyMaxLaplace):
    """Noisy max with the zCDP claim of the exponential mechanism.

    At epsilon = 1 and for five candidates the true rho is 0.149, not 0.125.
    """

    utilities: Utilities = FIVE
    name: ClassVar[str] = "report noisy max, as if bounded-range"
    leads: ClassVar[tuple[int, ...]] = (2,)  # over all other candidates; one voter removes it


class NoisyMaxExponentialAsBoundedRange(AsBoundedRange, NoisyMaxExponential):
    """Noisy max with exponential noise and the claim of `PermuteAndFlipAsBoundedRange`, which has the same law."""

    name: ClassVar[str] = "report noisy max, exponential noise, as if bounded-range"


class PublishedMode(StableMode):
    """Stable mode that takes the lead for the distance, as published (lecture notes, 'Ex: Mode').

    At a lead of 1 one record may already change the mode. The first answer is then released with probability delta
    e^epsilon / 2, which is the true delta.
    """

    def distance(self, dataset: Any, bound: float) -> float:
        return float(self.gap(dataset))

    def pair_at(self, distance: int, bound: float) -> DatasetPair:
        return DatasetPair(("b", "b", "a"), ("b", "b", "a", "a"), "leads of 1 and 0, the mode changes")


class UntestedRelease(ProposeTestRelease):
    """Propose-test-release that compares the exact distance with its threshold: a refusal is certain or impossible."""

    name: ClassVar[str] = "propose-test-release, no noise in the test"

    def __call__(self, dataset: Any) -> OutputDistribution:
        if self.distance(dataset) <= self.threshold:
            return FiniteLaw((None,), (0.0,))
        return LaplaceLaw(float(self.query(dataset)), self.bound / self.epsilon)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (self.query.pair_at(math.floor(self.threshold) + 1, self.bound),)


class GapMaxAtTheGap(GapMax):
    """Gap-max that takes the lead for the distance, which is one too long.

    Both winners are released with e^epsilon times the claimed delta.
    """

    name: ClassVar[str] = "gap-max, distance one too long"

    def distance(self, gap: float) -> float:
        return gap / self.gap_sensitivity

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        first, second = self.utilities.candidates[:2]
        return (DatasetPair((second,), (second, first), f"{second} ahead by 1 against a tie"),)


class HistogramOneTooLow(StableHistogram):
    """A threshold that is one record too low.

    A new key appears with probability delta e^epsilon / 2, which is the true delta.
    """

    name: ClassVar[str] = "stable histogram, threshold one too low"

    @property
    def threshold(self) -> float:
        return super().threshold - 1.0

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return super().worst_pairs()[1:]


class GaussianHistogramOneTooLow(GaussianHistogram):
    """A threshold that is one record too low.

    A new key appears with probability Phi(1 / sigma + Phi^-1(delta)).
    """

    name: ClassVar[str] = "histogram over an unknown domain, threshold one too low"

    @property
    def threshold(self) -> float:
        return super().threshold - 1.0

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return super().worst_pairs()[1:]


class HistogramWithoutThreshold(StableHistogram):
    """A histogram without a threshold, in which any new key reveals its owner.

    The lecture notes on stable histograms warn of this mistake.
    """

    name: ClassVar[str] = "histogram without a threshold"

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (DatasetPair(("a", "a", "b"), ("a", "a"), "a key that one record has against none"),)

    @property
    def threshold(self) -> float:
        return -math.inf
