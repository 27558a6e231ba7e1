"""Answers released too soon: distances one too long, tests without noise, histograms without a threshold."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from epsaudit.adapters.functions import OutputDistribution
from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.histogram import StableHistogram
from epsaudit.mechanisms.laws import FiniteLaw, LaplaceLaw
from epsaudit.mechanisms.noisy_max import GapMax
from epsaudit.mechanisms.stability import ProposeTestRelease, StableMode


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
