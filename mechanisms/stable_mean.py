"""Levels of outlyingness, and from them a covariance and a mean that one record moves little where few are outlying.

The parts of Brown, Hopkins and Smith (2023) without noise; docs/explanation/covariance-aware-mean.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsaudit.mechanisms.laws import Floats

Levels = NDArray[np.intp]

_BLOCK = 1 << 22
"""Distances computed at a time: 32 MiB."""


@dataclass(frozen=True)
class Stability:
    """The constants of the proof, for n records, k and the outlier threshold lambda_0.

    >>> bounds = Stability(4000, 20, 5.0)
    >>> bounds.possible, round(bounds.covariance, 5), round(bounds.mean, 5), bounds.references
    (True, 0.00572, 0.00348, 82)
    """

    records: int  # n; the covariance has m = n // 2 differences
    levels: int  # k: scores end at k, and levels at 2 k
    outlier: float  # lambda_0, the squared Mahalanobis norm from which a difference is outlying at level 0; above 0

    @property
    def differences(self) -> int:
        return self.records // 2

    @property
    def references(self) -> int:
        """Number of records to which all are compared, r: any two good ones have a common unchanged reference."""
        return 4 * self.levels + 2

    @property
    def possible(self) -> bool:
        """Whether Lemmas 2 and 4 hold for so few records: norms stay bounded, gamma is below 1."""
        room = 1.0 / self.outlier - (3 * self.levels - 1) / max(self.differences, 1)
        return self.records >= self.references and self.differences > self.levels and room > 0.0 and self.covariance < 1

    def threshold(self, level: int) -> float:
        """Greatest squared norm of a difference at a level, lambda_l: 1 / lambda_l = 1 / lambda_0 - l / m."""
        return 1.0 / (1.0 / self.outlier - level / self.differences)

    @property
    def covariance(self) -> float:
        """Lemma 2's gamma: neighbours' covariances lie within factors of 1 - gamma and 1 / (1 - gamma)."""
        m, k = self.differences, self.levels
        return (2.0 - 1.0 / k) / (m / self.outlier - (3 * k - 1))

    @property
    def radius(self) -> float:
        """Greatest squared distance from a reference at level 0."""
        return 2.0 * self.outlier

    @property
    def mean(self) -> float:
        """Lemma 4's Delta: how far apart neighbours' means are, in the norm of either covariance."""
        k, gamma = self.levels, self.covariance
        widest = 2.0 * math.sqrt(self.radius) * (1.0 - gamma) ** (-k - 0.5)
        return (2.0 - 1.0 / k) * widest / (self.records - k + 1)


@dataclass(frozen=True, eq=False)
class StableMean:
    """Stable covariance and mean of one dataset, with their scores.

    >>> data = np.random.default_rng(0).normal(size=(4000, 2)) + 7
    >>> fit = StableMean(data, Stability(4000, 20, 20.0))
    >>> fit.score, fit.mean.round(1).tolist()
    (1, [7.0, 7.0])
    """

    data: Floats  # shape (n, d): the records, in an order that does not depend on them
    bounds: Stability  # the constants

    @cached_property
    def differences(self) -> Floats:
        """Differences y_i = (x_i - x_(i+m)) / sqrt(2), shape (m, d): their second moments are the covariance."""
        m = self.bounds.differences
        return (self.data[:m] - self.data[m : 2 * m]) / math.sqrt(2.0)

    @cached_property
    def difference_levels(self) -> Levels:
        """Least level at which each difference is good, 2 k + 1 for none; shape (m,).

        S_l is the largest subset S all of whose y have y' Sigma_S^-1 y <= lambda_l, Sigma_S = sum_S y y' / m; empty if
        that is singular. Points that violate it in a set violate it in all its subsets, so that they can be dropped
        until none does. S_l shrinks as l falls: l starts at 2 k, and levels at which nothing changes are skipped.
        """
        m, last = self.bounds.differences, 2 * self.bounds.levels
        thresholds = np.array([self.bounds.threshold(level) for level in range(last + 1)])
        levels, inside, level = np.zeros(m, np.intp), np.arange(m), last
        while level >= 0 and inside.size:
            norms = m * leverages(self.differences[inside])
            bad = norms > thresholds[level]
            if bad.any():
                levels[inside[bad]] = level + 1
                inside = inside[~bad]
            else:
                level = int(np.searchsorted(thresholds, norms.max())) - 1
        return levels

    @cached_property
    def covariance_score(self) -> int:
        return score(self.difference_levels, self.bounds.levels)

    @cached_property
    def covariance(self) -> Floats:
        """The average of Sigma_S over the levels above k, shape (d, d)."""
        weights = weights_of(self.difference_levels, self.bounds.levels)
        return (self.differences.T * weights) @ self.differences / self.bounds.differences

    @cached_property
    def record_levels(self) -> Levels:
        """Least level l at which all but l references are within (1 - gamma)^-l 2 lambda_0; shape (n,)."""
        scale = np.sqrt(np.diag(self.covariance))
        factor = np.linalg.cholesky(self.covariance / np.outer(scale, scale))
        white = np.linalg.solve(factor, ((self.data - self._centre) / scale).T).T
        references = white[: self.bounds.references]
        step = max(_BLOCK // self.bounds.references, 1)
        blocks = [self._levels_of(white[i : i + step], references) for i in range(0, len(white), step)]
        return np.concatenate(blocks)

    def _levels_of(self, records: Floats, references: Floats) -> Levels:
        last = 2 * self.bounds.levels
        distances = np.square(records).sum(axis=1)[:, None] + np.square(references).sum(axis=1)
        distances -= 2.0 * records @ references.T
        levels = np.zeros(len(records), np.intp)
        far = np.flatnonzero(distances.max(axis=1) > self.bounds.radius)
        farthest = -np.sort(-distances[far], axis=1)[:, : last + 1]  # the l-th must be in reach at level l
        reach = self.bounds.radius * (1.0 - self.bounds.covariance) ** -np.arange(last + 1.0)
        good = farthest <= reach
        levels[far] = np.where(good.any(axis=1), good.argmax(axis=1), last + 1)
        return levels

    @cached_property
    def score(self) -> int:
        """The greater of the covariance's and the mean's score: from 0 to k, and k where nothing is promised."""
        if self.covariance_score == self.bounds.levels:
            return self.bounds.levels
        return max(self.covariance_score, score(self.record_levels, self.bounds.levels))

    @cached_property
    def mean(self) -> Floats:
        """Mean weighted by the share of the levels above k at which a record is good, shape (d,)."""
        weights = weights_of(self.record_levels, self.bounds.levels)
        return np.asarray(self._centre + weights @ (self.data - self._centre) / weights.sum())

    @cached_property
    def _centre(self) -> Floats:
        """A point among the records: subtracted first, it costs no digits where they are far from 0."""
        return np.asarray(np.median(self.data[: self.bounds.references], axis=0))


def score(levels: Levels, k: int) -> int:
    """Return the least number of points that are not good at a level l <= k, plus l; at most k.

    >>> score(np.array([0, 0, 2, 2, 2, 9]), 4), score(np.array([3] * 6), 4), score(np.array([9] * 6), 4)
    (3, 3, 4)
    """
    good = np.cumsum(np.bincount(np.minimum(levels, k + 1), minlength=k + 2)[: k + 1])
    return int(min(k, np.min(len(levels) - good + np.arange(k + 1))))


def weights_of(levels: Levels, k: int) -> Floats:
    """Return the share of the levels in (k, 2 k] at which each point is good.

    >>> weights_of(np.array([0, 4, 5, 6, 8, 9]), 4).tolist()
    [1.0, 1.0, 1.0, 0.75, 0.25, 0.0]
    """
    return (2 * k + 1 - np.clip(levels, k + 1, 2 * k + 1)) / k


def leverages(points: Floats) -> Floats:
    """Return y' (sum y y')^-1 y of every row y, shape (rows,); infinite where the sum is singular.

    >>> leverages(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])).round(6).tolist()
    [0.5, 0.5, 1.0]
    >>> leverages(np.array([[1.0, 1.0], [2.0, 2.0]])).tolist()
    [inf, inf]
    """
    size = np.linalg.norm(points, axis=0)
    if len(points) < points.shape[1] or not size.all():
        return np.full(len(points), np.inf)
    directions, rest = np.linalg.qr(points / size)
    values = np.linalg.svd(rest, compute_uv=False)
    if values[-1] <= max(points.shape) * np.finfo(float).eps * values[0]:
        return np.full(len(points), np.inf)
    return np.asarray(np.square(directions).sum(axis=1))
