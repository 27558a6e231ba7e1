"""Selection that forgets a factor 2 or borrows a claim, and answers released too soon: distances too long, no test."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.functions import OutputDistribution
from epsaudit.claims.definitions import ZCDP, Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import whole_at_least
from epsaudit.mechanisms.histogram import StableHistogram
from epsaudit.mechanisms.laws import FiniteLaw, Floats, LaplaceLaw
from epsaudit.mechanisms.median_regression import SlopeLosses
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


class SumOfResiduals(SlopeLosses):
    """The residuals of median regression themselves for losses, as if one record moved their sum by 1 at most.

    Examples
    --------
    >>> SumOfResiduals((0, 1, 2), most=10).losses([(10, 10), (5, 11)]).tolist()
    [21, 6, 11]
    """

    def losses(self, dataset: Any) -> NDArray[np.int64]:
        """Sum of |b - t a| for every slope t."""
        a, b = np.array(dataset, dtype=np.int64).T
        return np.asarray(np.abs(b[:, None] - a[:, None] * np.array(self.candidates, dtype=np.int64)).sum(axis=0))


class AsBoundedRange:
    """Beside another mechanism: with the epsilon^2/8-zCDP claim that pure DP gives bounded-range mechanisms alone."""

    epsilon: float
    leads: ClassVar[tuple[int, ...]] = (1,)  # one vote decides an even race

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.epsilon**2 / 8.0),)


class ExponentialWithoutFactorTwo(ExponentialMechanism):
    """The exponential mechanism with weight exp(epsilon u / sensitivity): 2 epsilon in truth, as a lead grows."""

    name: ClassVar[str] = "exponential mechanism, factor 2 forgotten"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (5, 1)  # half the lead is as clear as for the right weights


@dataclass(frozen=True)
class MonotoneExponentialOnMovingVotes(MonotoneExponentialMechanism):
    """The exponential mechanism for monotone utilities where one vote moves: one utility falls and another rises.

    2 epsilon in truth, as a lead grows; the proof needs all utilities to move in the same direction.
    """

    utilities: Utilities = VOTES
    name: ClassVar[str] = "exponential mechanism, monotone, on moving votes"


class PermuteAndFlipWithoutFactorTwo(PermuteAndFlip):
    """Permute-and-flip with acceptance exp(epsilon (u - max u) / sensitivity): 2 epsilon in truth."""

    name: ClassVar[str] = "permute-and-flip, factor 2 forgotten"
    share: ClassVar[float] = 1.0


class PermuteAndFlipAsBoundedRange(AsBoundedRange, PermuteAndFlip):
    """Permute-and-flip, with the epsilon^2/8-zCDP claim of the exponential mechanism in whose place it is used.

    It is epsilon-DP, but not bounded-range: at epsilon = 1, where one vote decides an even race, rho is 0.327 in truth
    against a claim of 0.125.
    """

    name: ClassVar[str] = "permute-and-flip, as if bounded-range"


class Approvals(VoteCounts):
    """How many voters approve of each candidate; a record is the tuple of candidates that a voter approves of.

    A voter who changes their mind moves every count, up or down: utilities in full generality.

    Examples
    --------
    >>> Approvals(("red", "blue"))((("red",), ("red", "blue"))).tolist()
    [2.0, 1.0]
    """

    def __call__(self, dataset: Dataset) -> Floats:
        """Return each candidate's approvals, shape (number of candidates,)."""
        votes = Counter(name for record in dataset for name in record)  # type: ignore[attr-defined]  # tuples of names
        return np.array([votes[candidate] for candidate in self.candidates], float)

    def lead(self, gap: int) -> DatasetPair:
        """See `epsaudit.mechanisms.queries.Utilities.lead`: the first leads all others, and one voter turns from it to
        them."""
        gap = whole_at_least(gap, 1, "gap between the candidates")
        first, *rest = self.candidates
        x = ((first,),) * gap
        return DatasetPair(x, (*x[1:], tuple(rest)), f"{first} ahead by {gap} approvals against {gap - 2}")


FIVE = Approvals(("red", "blue", "green", "white", "black"))


class NoisyMaxWithoutFactorTwo(NoisyMaxLaplace):
    """Report noisy max with Laplace noise of scale sensitivity / epsilon where utilities are not monotone.

    Up to 2 epsilon in truth, as a lead grows.
    """

    name: ClassVar[str] = "report noisy max, factor 2 forgotten"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (4,)


@dataclass(frozen=True)
class NoisyMaxAsBoundedRange(AsBoundedRange, NoisyMaxLaplace):
    """Report noisy max with Laplace noise, and the epsilon^2/8-zCDP claim of the exponential mechanism.

    It is epsilon-DP but not bounded-range. With five candidates who all gain as one loses, rho is 0.149 in truth at
    epsilon = 1, against a claim of 0.125; with two candidates the claim would happen to hold.
    """

    utilities: Utilities = FIVE
    name: ClassVar[str] = "report noisy max, as if bounded-range"
    leads: ClassVar[tuple[int, ...]] = (2,)  # over everybody, lost at once


class NoisyMaxExponentialAsBoundedRange(AsBoundedRange, NoisyMaxExponential):
    """Report noisy max with exponential noise, which is permute-and-flip, with the exponential mechanism's zCDP claim.

    At epsilon = 1, where one vote decides an even race, rho is 0.327 in truth against a claim of 0.125.
    """

    name: ClassVar[str] = "report noisy max, exponential noise, as if bounded-range"


class PublishedMode(StableMode):
    """The mode with the lead itself as its distance from instability, as published.

    Source: lecture notes on propose-test-release, 'Ex: Mode'. With a lead of 1 one record that joins makes another
    record as common, and the mode may change: the distance there is 0, not 1. So the first answer comes out with
    probability delta e^epsilon / 2, and that is delta in truth: more than claimed as soon as epsilon is above log 2.

    Examples
    --------
    >>> PublishedMode().distance(("a", "a", "a", "b"), 0.0), StableMode().distance(("a", "a", "a", "b"), 0.0)
    (2.0, 1.0)
    """

    def distance(self, dataset: Any, bound: float) -> float:
        """The lead of the mode, uncorrected."""
        return float(self.gap(dataset))

    def pair_at(self, distance: int, bound: float) -> DatasetPair:
        """A lead of 1 that one more record ends, where the record that is first by ``repr`` takes over."""
        return DatasetPair(("b", "b", "a"), ("b", "b", "a", "a"), "leads of 1 and 0, the mode changes")


class UntestedRelease(ProposeTestRelease):
    """Propose-test-release that compares the exact distance with its threshold: a refusal is certain, or impossible.

    Examples
    --------
    >>> from epsaudit.mechanisms.stability import StableMedian
    >>> mechanism = UntestedRelease(StableMedian(0.0, 10.0), 1.0, 0.001, bound=1.0)
    >>> mechanism((5.0,) * 5).support, mechanism((5.0,) * 25)
    ((None,), LaplaceLaw(centre=5.0, scale=1.0))
    """

    name: ClassVar[str] = "propose-test-release, no noise in the test"

    def __call__(self, dataset: Any) -> OutputDistribution:
        if self.distance(dataset) <= self.threshold:
            return FiniteLaw((None,), (0.0,))
        return LaplaceLaw(float(self.query(dataset)), self.bound / self.epsilon)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Distances on both sides of the threshold."""
        return (self.query.pair_at(math.floor(self.threshold) + 1, self.bound),)


class GapMaxAtTheGap(GapMax):
    """Gap-max with the lead itself as the distance: one record can end a lead of 1, so the distance is one too long.

    Both winners come out with probability delta e^epsilon: e^epsilon times the claimed delta in truth.
    """

    name: ClassVar[str] = "gap-max, distance one too long"

    def distance(self, gap: float) -> float:
        """The lead, uncorrected."""
        return gap / self.gap_sensitivity

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """A lead of 1 that turns into a tie, which the first candidate wins."""
        first, second = self.utilities.candidates[:2]
        return (DatasetPair((second,), (second, first), f"{second} ahead by 1 against a tie"),)


class HistogramOneTooLow(StableHistogram):
    """A stable histogram whose threshold is log(1 / delta) / epsilon, one record too low.

    A new key shows with probability delta e^epsilon / 2, and that is delta in truth for a key that nobody else has:
    more than claimed as soon as epsilon is above log 2.

    Examples
    --------
    >>> law = HistogramOneTooLow(1.0, 0.1)(("a",)).marginal("a")
    >>> round(1.0 - math.exp(law.log_probabilities[0]), 4)
    0.1359
    """

    name: ClassVar[str] = "stable histogram, threshold one too low"

    @property
    def threshold(self) -> float:
        """One record less than it must be."""
        return super().threshold - 1.0

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """A key that appears."""
        return super().worst_pairs()[1:]


class HistogramWithoutThreshold(StableHistogram):
    """Noisy counts of all records that are there, however few: a new key gives its owner away.

    Source: lecture notes on stable histograms, which name it as what 'would violate privacy'.
    """

    name: ClassVar[str] = "histogram without a threshold"

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (DatasetPair(("a", "a", "b"), ("a", "a"), "a key that one record has against none"),)

    @property
    def threshold(self) -> float:
        """None at all."""
        return -math.inf
