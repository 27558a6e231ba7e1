"""Incorrect private means: one without a test, and one with the test of published code."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.array_types import Floats
from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.covariance_mean import CovarianceAwareMean, as_records
from epsaudit.mechanisms.refusable_normal import RefusableNormal, ScoreTest


class PublishedScoreTest(ScoreTest):
    """A test that passes with probability 1 - delta e^(epsilon (score - 2) / 2), or never where this is below 0.

    This is the test of the code published with Brown, Hopkins and Smith (2023). Its probability falls from far above
    delta to 0 in one step: at (1, 1e-6) the true delta is 0.27 for scores one apart.
    """

    @property
    def levels(self) -> int:
        """A score above 2 log((1 - delta) / delta) / epsilon + 4, at which the test always fails."""
        return math.ceil(2.0 * math.log((1.0 - self.delta) / self.delta) / self.epsilon + 4.0)

    def log_chances(self, score: int) -> tuple[float, float]:
        if score == 0:
            return 0.0, -math.inf
        refuses = self.delta * math.exp(0.5 * self.epsilon * (score - 2.0))
        return (math.log1p(-refuses), math.log(refuses)) if refuses < 1.0 else (-math.inf, 0.0)


class PublishedCovarianceAwareMean(CovarianceAwareMean):
    """The covariance-aware mean with the published test."""

    name: ClassVar[str] = "covariance-aware mean, published test"
    test_kind: ClassVar[type[ScoreTest]] = PublishedScoreTest

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return one pair, whose scores are the smallest score that never passes the test and this score less two."""
        never = next(score for score in range(10**6) if self.log_chances(score)[0] == -math.inf)
        return (self.poles(4, never - 2),)


class EmpiricalMean(CovarianceAwareMean):
    """The covariance-aware mean without a test, which reveals a record if all others share a subspace.

    Brown, Gaboardi, Smith, Ullman and Zakynthinou (2021) warn of this.
    """

    name: ClassVar[str] = "empirical mean and covariance"

    def __call__(self, dataset: ArrayLike) -> RefusableNormal:
        data = as_records(dataset, self.dimension)
        covariance: Floats = np.cov(data.T, bias=True).reshape(self.dimension, self.dimension)
        return RefusableNormal(data.mean(axis=0), self.noise(len(data)) ** 2 * covariance)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        x = np.zeros((2 * self.least_records, self.dimension))
        axes = max(self.dimension - 1, 1)
        x[np.arange(len(x)), np.arange(len(x)) // 2 % axes] = np.where(np.arange(len(x)) % 2, 1.0, -1.0)
        x_prime = x.copy()
        x_prime[0, -1] = 1.0 if self.dimension > 1 else 2.0
        return (DatasetPair(x, x_prime, f"{len(x)} records in a subspace, or one off it"),)
