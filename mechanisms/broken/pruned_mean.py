"""The pruned mean gone wrong: thresholds that do not move, so that one record topples many."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.pruned_mean import Kept, PrunedLaw, PrunedMean


class FixedLaw(PrunedLaw):
    """The law where every threshold is at its median."""

    def hazards(self, kept: Kept) -> Floats:
        """Infinite where a norm is above the median threshold, else 0."""
        return np.where(super().hazards(kept) > math.log(2.0), np.inf, 0.0)


class FixedThresholds(PrunedMean):
    """Differences are dropped at one threshold, without noise: the set that survives gives a record away.

    Examples
    --------
    >>> mechanism = FixedThresholds(4.0, 0.01, outlier=12.0, dimension=2)
    >>> pair = mechanism.worst_pairs()[0]
    >>> [int(np.sum(~mechanism(x).surest[0])) for x in (pair.x, pair.x_prime)]
    [0, 10]
    """

    name: ClassVar[str] = "pruned mean, fixed thresholds"

    def __call__(self, dataset: ArrayLike) -> FixedLaw:
        return FixedLaw(self, self.enough_records(dataset))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """As many differences at the threshold as make the test fail surely; one record takes them all over it."""
        bounds = self.bounds(2 * self.least_records)
        m, many = bounds.differences, bounds.dropped + 1
        x = np.zeros((bounds.records, self.dimension))
        places = np.arange(bounds.references, m)
        x[places, places % self.dimension] = 1.0
        x[:many] = 0.0
        moved = bounds.references + self.dimension - bounds.references % self.dimension  # along the first axis
        threshold = bounds.threshold(0) * (1.0 + 0.5 / m)  # of their norm without the moved record's
        x[m:] = -x[:m]
        rest = 4.0 * np.sum(np.square(x[places, 0])) / 2.0 - 2.0
        size = math.sqrt(threshold * rest / (m - threshold * many) / 2.0)
        x[:many, 0], x[m : m + many, 0] = size, -size
        x_prime = x.copy()
        x_prime[moved] = x[m + moved]
        return (DatasetPair(x, x_prime, f"{many} differences at the threshold, and a record that holds them there"),)
