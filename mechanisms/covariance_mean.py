"""Private means whose noise has the shape of the data, without a private covariance: propose, test, release.

The module first computes levels of outlyingness, and from them a covariance and a mean. If few records are outlying,
one record moves these two only a little. They are the noiseless parts of Brown, Hopkins and Smith (2023). The proofs
are in docs/explanation/covariance-aware-mean.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.array_types import Floats
from epsaudit.claims.conversions import approximate_to_gaussian, renyi_to_epsilon
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import Reference, positive
from epsaudit.mechanisms.refusable_normal import RefusableNormal, ScoreTest

Levels = NDArray[np.intp]

_BLOCK = 1 << 22
"""Number of distances that are computed at a time: 32 MiB."""


@dataclass(frozen=True)
class Stability:
    """The constants of the stability proof, for n records, k levels and the outlier threshold lambda_0.

    >>> bounds = Stability(4000, 20, 5.0)
    >>> bounds.possible, round(bounds.covariance, 5), round(bounds.mean, 5), bounds.references
    (True, 0.00572, 0.00348, 82)
    """

    records: int  # n; the covariance is computed from m = n // 2 differences
    levels: int  # k, the greatest score; levels go up to 2 k
    outlier: float  # lambda_0, the squared Mahalanobis norm from which a difference is outlying at level 0; above 0

    @property
    def differences(self) -> int:
        return self.records // 2

    @property
    def references(self) -> int:
        """Number r of records to which all records are compared: any two good records share an unchanged reference."""
        return 4 * self.levels + 2

    @property
    def possible(self) -> bool:
        """Whether Lemmas 2 and 4 hold for this number of records: norms stay bounded, and gamma is below 1."""
        room = 1.0 / self.outlier - (3 * self.levels - 1) / max(self.differences, 1)
        return self.records >= self.references and self.differences > self.levels and room > 0.0 and self.covariance < 1

    def threshold(self, level: int) -> float:
        """Return lambda_l, the greatest squared norm of a good difference: 1 / lambda_l = 1 / lambda_0 - l / m."""
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
        """Lemma 4's Delta: the greatest distance of neighbours' means, in the norm of either covariance."""
        k, gamma = self.levels, self.covariance
        widest = 2.0 * math.sqrt(self.radius) * (1.0 - gamma) ** (-k - 0.5)
        return (2.0 - 1.0 / k) * widest / (self.records - k + 1)


@dataclass(frozen=True, eq=False)
class StableMean:
    """Stable covariance and mean of one dataset, and their score."""

    data: Floats  # shape (n, d): the records, in an order that does not depend on their values
    bounds: Stability  # the constants

    @cached_property
    def differences(self) -> Floats:
        """Differences y_i = (x_i - x_(i+m)) / sqrt(2), shape (m, d); the covariance is their second moment."""
        m = self.bounds.differences
        return (self.data[:m] - self.data[m : 2 * m]) / math.sqrt(2.0)

    @cached_property
    def difference_levels(self) -> Levels:
        """Least level at which each difference is good, or 2 k + 1 if there is no such level; shape (m,).

        S_l is the largest subset S all of whose y have y' Sigma_S^-1 y <= lambda_l, Sigma_S = sum_S y y' / m; S_l is
        empty if this matrix is singular. A point that violates the condition in a set violates it in all subsets that
        contain the point. So points can be dropped until no point violates it. S_l shrinks as l falls. The computation
        therefore starts at l = 2 k, and skips levels at which nothing changes.
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
        """Least level of each record, shape (n,).

        It is the least l at which all but l references are within a squared distance of (1 - gamma)^-l 2 lambda_0.
        """
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
        farthest = -np.sort(-distances[far], axis=1)[:, : last + 1]  # the l-th must be in the radius of level l
        reach = self.bounds.radius * (1.0 - self.bounds.covariance) ** -np.arange(last + 1.0)
        good = farthest <= reach
        levels[far] = np.where(good.any(axis=1), good.argmax(axis=1), last + 1)
        return levels

    @cached_property
    def score(self) -> int:
        """The greater of the scores of the covariance and the mean: from 0 to k, where k promises nothing."""
        if self.covariance_score == self.bounds.levels:
            return self.bounds.levels
        return max(self.covariance_score, score(self.record_levels, self.bounds.levels))

    @cached_property
    def mean(self) -> Floats:
        """Mean of the records weighted by the share of the levels above k at which each record is good, shape (d,)."""
        weights = weights_of(self.record_levels, self.bounds.levels)
        return np.asarray(self._centre + weights @ (self.data - self._centre) / weights.sum())

    @cached_property
    def _centre(self) -> Floats:
        """A point among the records. Subtracting it first keeps the digits of records that are far from 0."""
        return np.asarray(np.median(self.data[: self.bounds.references], axis=0))


def score(levels: Levels, k: int) -> int:
    """Return the least number of points that are not good at a level l <= k, plus l; at most k."""
    good = np.cumsum(np.bincount(np.minimum(levels, k + 1), minlength=k + 2)[: k + 1])
    return int(min(k, np.min(len(levels) - good + np.arange(k + 1))))


def weights_of(levels: Levels, k: int) -> Floats:
    """Return the share of the levels in (k, 2 k] at which each point is good."""
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


COVARIANCE_SHARE = 0.1
"""Share of the release's delta that covers the change of the covariance: c varies by at most 2 % from 0.01 to 0.3
at (1, 1e-6), n = 10^5, lambda_0 = 50."""


@dataclass(frozen=True)
class SubstituteInPlace(Adjacency):
    """Adjacency of two arrays with the same number of records, which differ in the record at one position."""

    description = "the value of the record at one position"

    def holds(self, x: Any, x_prime: Any) -> bool:
        a, b = np.asarray(x, float), np.asarray(x_prime, float)
        return a.shape == b.shape and a.ndim == 2 and int((a != b).any(axis=1).sum()) == 1

    def __str__(self) -> str:
        return "substitute the record at one position"


def covariance_divergence(order: float, gamma: float) -> float:
    """Return the Renyi divergence of normal laws with one mean and covariances that differ as Lemma 2 allows: Lemma 3.

    For 1 < a < 1 / gamma it is a h / (1 - a gamma), with h = (gamma / (1 - gamma))^2 / 2.
    """
    return 0.5 * order * (gamma / (1.0 - gamma)) ** 2 / (1.0 - order * gamma)


def covariance_loss(gamma: float, delta: float) -> float:
    """Return the epsilon at delta of normal laws with one mean and covariances that differ as Lemma 2 allows: Lemma 3.

    The divergence is converted at the best of a grid of orders between 1 and 1 / gamma. Every order gives a
    valid epsilon.
    """
    orders = 1.0 + np.geomspace(0.02, 0.98, 60) * (1.0 / gamma - 1.0)
    return min(renyi_to_epsilon(order, covariance_divergence(order, gamma), delta) for order in orders.tolist())


def release_scale(bounds: Stability, epsilon: float, delta: float) -> float:
    """Return c for which neighbours' N(mean, c^2 covariance) are (epsilon, delta)-close, or infinity if there is none.

    Theorem 1 (ii): Lemma 3 uses a part of epsilon and delta for the change of the covariance. The rest pays for the
    shift of the mean, by Lemma 4.

    >>> few, many = Stability(400, 10, 6.0), Stability(4000, 10, 6.0)
    >>> release_scale(few, 2.0, 0.005), round(release_scale(many, 2.0, 0.005), 5)
    (inf, 0.00442)
    """
    if not bounds.possible or epsilon <= 0.0:
        return math.inf
    rest = COVARIANCE_SHARE * delta * math.exp(-epsilon)
    epsilon -= covariance_loss(bounds.covariance, rest)
    if epsilon <= 0.0:
        return math.inf
    return bounds.mean / float(approximate_to_gaussian(epsilon, delta - math.exp(epsilon) * rest))


@dataclass(frozen=True)
class CovarianceAwareMean(Reference):
    """A stable mean plus normal noise with c^2 times a stable covariance, released if a noisy test of the score passes.

    Brown, Hopkins and Smith (2023), Algorithms 1 to 3, with constants that are derived anew. The mechanism is (epsilon,
    delta)-DP under substitution in place, for arrays of n finite records in R^d with n large enough for the proof:
    Theorem 1 of docs/explanation/covariance-aware-mean.md. The error in Mahalanobis distance does not depend on the
    covariance. If the order of the records may depend on their values, shuffle them first; the claim then holds for
    multisets, too.

    >>> mechanism = CovarianceAwareMean(3.0, 1e-3, outlier=20.0, dimension=2)
    >>> mechanism.test.levels, mechanism.least_records
    (30, 4192)
    >>> law = mechanism(np.random.default_rng(0).normal(size=(20_000, 2)) * [1.0, 1e6])
    >>> round(math.exp(law.log_passes), 3), [float(f"{size:.2g}") for size in np.sqrt(np.diag(law.covariance))]
    (0.997, [0.0023, 2300.0])
    """

    epsilon: float  # privacy loss in nats, above 0; the share ``test_share`` of it goes to the test
    delta: float  # in (0, 1); half of it goes to the test
    # lambda_0, above 0: a difference of two records, divided by sqrt(2), is outlying if its squared Mahalanobis norm
    # is greater. For normal data it must be at least about d + 2 sqrt(d log n) + 2 log n, or the test refuses
    outlier: float
    dimension: int  # d, at least 1
    test_share: float = 1.0 / 3.0  # in (0, 1)
    name: ClassVar[str] = "covariance-aware mean"
    test_kind: ClassVar[type[ScoreTest]] = ScoreTest
    adjacency = SubstituteInPlace()

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.outlier, "outlier threshold lambda_0")
        whole_at_least(self.dimension, 1, "dimension")
        fraction(self.test_share, "share of the test", open_below=True)

    @cached_property
    def test(self) -> ScoreTest:
        return self.test_kind(self.test_share * self.epsilon, self.delta / 2.0)

    def log_chances(self, score: int) -> tuple[float, float]:
        return self.test.log_chances(score)

    def bounds(self, records: int) -> Stability:
        return Stability(records, self.test.levels, self.outlier)

    def noise(self, records: int) -> float:
        """Return c, the scale of the noise relative to the covariance; it is infinite for too few records."""
        return release_scale(self.bounds(records), (1.0 - self.test_share) * self.epsilon, self.delta / 2.0)

    @cached_property
    def least_records(self) -> int:
        """Fewest records for which the proof holds."""
        low, high = 0, 2
        while math.isinf(self.noise(high)):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if math.isinf(self.noise(middle)) else (low, middle)
        return high

    def fit(self, dataset: ArrayLike) -> StableMean:
        data = as_records(dataset, self.dimension)
        if len(data) < self.least_records:
            raise AuditError(
                f"The dataset has {len(data)} records; the guarantee needs at least {self.least_records} for "
                f"{self.claim} with lambda_0 = {self.outlier:g}."
            )
        return StableMean(data, self.bounds(len(data)))

    def __call__(self, dataset: ArrayLike) -> RefusableNormal:
        return self.released(self.fit(dataset))

    def released(self, fit: StableMean) -> RefusableNormal:
        passes, refuses = self.log_chances(fit.score)
        if passes == -math.inf:
            return RefusableNormal(np.zeros(self.dimension), np.eye(self.dimension), -math.inf, 0.0)
        return RefusableNormal(fit.mean, self.noise(len(fit.data)) ** 2 * fit.covariance, passes, refuses)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return two pairs: one moves the mean, the other the covariance.

        In the first pair a record crosses the data, and the number of outliers is such that about half of the
        tests pass.
        """
        return self.poles(8), spread(self.bounds(8 * self.least_records), self.dimension)

    def poles(self, times: int, outliers: int | None = None) -> DatasetPair:
        """Return the pair of `poles` for ``times`` as many records as the proof needs.

        By default the number of outliers is such that half of the tests pass.
        """
        if outliers is None:
            outliers = math.floor(self.test.levels - self.test.reach)
        return poles(self.bounds(times * self.least_records), self.dimension, outliers)


SLACK = 1e-3
"""Relative distance of the pairs' records from thresholds, so that rounding does not move them across."""


def as_records(dataset: Any, dimension: int) -> Floats:
    """Return the dataset as an array of shape (n, d), or raise `AuditError`."""
    try:
        data = np.asarray(dataset, float)
    except (TypeError, ValueError):
        data = np.empty(0)
    if data.ndim != 2 or data.shape[1] != dimension:
        raise AuditError(f"The dataset has shape {data.shape}; it must have n records of {dimension} numbers each.")
    if dimension > len(data):
        raise AuditError(f"The dataset has {len(data)} records in {dimension} dimensions; it needs more than that.")
    if not np.isfinite(data).all():
        raise AuditError("The dataset has a NaN or an infinity; all records must be finite.")
    return data


def poles(bounds: Stability, dimension: int, outliers: int) -> DatasetPair:
    """Return a pair in which one reference crosses from one pole to the other.

    Most records are at one pole, most references at 0, and the outliers and the last reference at the other pole. The
    outliers miss k + 1 references, or one more after the last reference has left them, so each outlier loses a share 1
    / k of its weight in the mean. Scores are ``outliers`` + 2 and ``outliers``; covariances are equal.

    >>> pair = poles(Stability(4000, 10, 6.0), 2, 3)
    >>> pair.x.shape, int((pair.x != pair.x_prime).any(axis=1).sum())
    ((4000, 2), 1)
    """
    m, k = bounds.differences, bounds.levels
    # pairs (pole or reference, 0) give the variance of the first axis, pairs (+b, -b) those of the other axes
    least = bounds.references + outliers
    share = 0.5
    for _ in range(60):  # how far 0 is from the pole: 2 / share + (d - 1) / (2 (1 - share)) = 2 lambda_0
        rest = (dimension - 1) / (2.0 * (1.0 - share)) if dimension > 1 else 0.0
        share = min(max(2.0 * (1.0 + SLACK) / (bounds.radius - rest), 0.0), 0.9)
    first = math.ceil(share * m)
    if first < least or not 0.0 < share < 0.9:
        raise AuditError(f"No such pair: {bounds} leaves no room for {least} references and outliers.")
    data = np.zeros((bounds.records, dimension))
    head, tail = data[:m], data[m : 2 * m]
    near, last = k + 1, bounds.references - 1
    head[: near + 1, 0] = tail[near + 1 : last, 0] = -1.0  # k + 1 references at the pole, others at 0
    head[last + 1 : last + 1 + outliers, 0] = 1.0
    head[last + 1 + outliers : first, 0] = -1.0
    head[first:, 0] = tail[first:, 0] = -1.0
    for place in range(first, m if dimension > 1 else first):
        axis = 1 + place % (dimension - 1)
        head[place, axis], tail[place, axis] = 1.0, -1.0
    data[2 * m :, 0] = -1.0
    x, x_prime = data.copy(), data
    x[last, 0], x_prime[last, 0] = 1.0, -1.0
    return DatasetPair(x, x_prime, f"{outliers} outliers, a reference joins or leaves them; n = {bounds.records}")


def spread(bounds: Stability, dimension: int) -> DatasetPair:
    """Return a pair in which a record moves from the middle to just under lambda_0 along one axis.

    All other records are at 1 or -1 along an axis.
    """
    rng = np.random.default_rng(0)  # fixed data: the signs hardly matter
    data = np.zeros((bounds.records, dimension))
    data[np.arange(len(data)), np.arange(len(data)) % bounds.differences % dimension] = rng.choice(
        [-1.0, 1.0], len(data)
    )
    x, x_prime = data.copy(), data
    x[bounds.references] = 0.0
    size = 0.98 * math.sqrt(min(bounds.radius, bounds.outlier) / dimension)
    x_prime[bounds.references] = 0.0
    x_prime[bounds.references, bounds.references % bounds.differences % dimension] = size
    return DatasetPair(x, x_prime, f"a record at 0, or {size:.3g} away along one axis; n = {bounds.records}")
