"""Private means whose noise has the shape of the data, with no private covariance: propose, test, release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.claims.conversions import approximate_to_gaussian, renyi_to_epsilon
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import Reference, positive
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.refusable_normal import RefusableNormal, ScoreTest
from epsaudit.mechanisms.stable_mean import Stability, StableMean

COVARIANCE_SHARE = 0.1
"""Share of the release's delta that covers the change of the covariance: c is flat in it, within 2 % from 0.01 to 0.3
at (1, 1e-6), n = 10^5, lambda_0 = 50."""


@dataclass(frozen=True)
class SubstituteInPlace(Adjacency):
    """The datasets are arrays of as many records, of which the one at a single position differs."""

    description = "the value of the record at one position"

    def holds(self, x: Any, x_prime: Any) -> bool:
        a, b = np.asarray(x, float), np.asarray(x_prime, float)
        return a.shape == b.shape and a.ndim == 2 and int((a != b).any(axis=1).sum()) == 1

    def __str__(self) -> str:
        return "substitute the record at one position"


def covariance_divergence(order: float, gamma: float) -> float:
    """Renyi divergence of normal laws of one mean whose covariances differ as Lemma 2 allows: Lemma 3.

    a h / (1 - a gamma) with h = (gamma / (1 - gamma))^2 / 2, for 1 < a < 1 / gamma.

    >>> round(covariance_divergence(10.0, 0.01), 6)
    0.000567
    """
    return 0.5 * order * (gamma / (1.0 - gamma)) ** 2 / (1.0 - order * gamma)


def covariance_loss(gamma: float, delta: float) -> float:
    """Epsilon at delta of normal laws of one mean whose covariances differ as Lemma 2 allows: Lemma 3.

    The divergence is converted at the best of a grid of orders between 1 and 1 / gamma; any order is sound.

    >>> round(covariance_loss(0.01, 1e-6), 4), round(covariance_loss(0.001, 1e-6), 5)
    (0.1271, 0.00969)
    """
    orders = 1.0 + np.geomspace(0.02, 0.98, 60) * (1.0 / gamma - 1.0)
    return min(renyi_to_epsilon(order, covariance_divergence(order, gamma), delta) for order in orders.tolist())


def release_scale(bounds: Stability, epsilon: float, delta: float) -> float:
    """Return c for which neighbours' N(mean, c^2 covariance) are (epsilon, delta)-close; infinite where none is.

    Theorem 1 (ii): what Lemma 3 leaves of epsilon and delta pays for the shift of the mean, by Lemma 4.

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
    """A stable mean plus normal noise of c^2 times a stable covariance, where a noisy test of their score passes.

    Brown, Hopkins and Smith (2023), Algorithms 1 to 3, with constants that are derived anew. (epsilon, delta)-DP for
    arrays of n finite records in R^d, enough for the proof, under substitution in place: Theorem 1 of
    docs/explanation/covariance-aware-mean.md. The error in Mahalanobis distance does not depend on the covariance.
    Records whose order may depend on them must be shuffled first; this makes the claim hold for multisets, too.

    >>> mechanism = CovarianceAwareMean(3.0, 1e-3, outlier=20.0, dimension=2)
    >>> mechanism.test.levels, mechanism.least_records
    (30, 4192)
    >>> law = mechanism(np.random.default_rng(0).normal(size=(20_000, 2)) * [1.0, 1e6])
    >>> round(math.exp(law.log_passes), 3), [float(f"{size:.2g}") for size in np.sqrt(np.diag(law.covariance))]
    (0.997, [0.0023, 2300.0])
    """

    epsilon: float  # privacy loss in nats, above 0; the share ``test_share`` of it goes to the test
    delta: float  # in (0, 1); half of it goes to the test
    # lambda_0: differences of two records, divided by sqrt(2), of a greater squared Mahalanobis norm are outlying. At
    # least about d + 2 sqrt(d log n) + 2 log n for normal data, or the test refuses; above 0
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
        """c, the scale of the noise relative to the covariance; infinite for too few records."""
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

    def enough_records(self, dataset: ArrayLike) -> Floats:
        """Return a dataset as an array of shape (n, d), or raise `AuditError`."""
        data = as_records(dataset, self.dimension)
        if len(data) < self.least_records:
            raise AuditError(
                f"The dataset has {len(data)} records; the guarantee needs at least {self.least_records} for "
                f"{self.claim} with lambda_0 = {self.outlier:g}."
            )
        return data

    def fit(self, dataset: ArrayLike) -> StableMean:
        data = self.enough_records(dataset)
        return StableMean(data, self.bounds(len(data)))

    def __call__(self, dataset: ArrayLike) -> RefusableNormal:
        return self.released(self.fit(dataset))

    def released(self, fit: StableMean) -> RefusableNormal:
        passes, refuses = self.log_chances(fit.score)
        if passes == -math.inf:
            return refusal(self.dimension)
        return RefusableNormal(fit.mean, self.noise(len(fit.data)) ** 2 * fit.covariance, passes, refuses)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Outliers for which about half of the tests pass, and a record that crosses the data; a covariance moved."""
        return self.poles(8), spread(self.bounds(8 * self.least_records), self.dimension)

    def poles(self, times: int, outliers: int | None = None) -> DatasetPair:
        """See `poles`: ``times`` as many records as the proof needs, and outliers that pass half of the tests."""
        if outliers is None:
            outliers = math.floor(self.test.levels - self.test.reach)
        return poles(self.bounds(times * self.least_records), self.dimension, outliers)


def refusal(dimension: int) -> RefusableNormal:
    """Return the law that always refuses.

    >>> refusal(2).sample(1, np.random.default_rng(0)).tolist()
    [[nan, nan]]
    """
    nothing: Floats = np.eye(dimension)
    return RefusableNormal(np.zeros(dimension), nothing, -math.inf, 0.0)


SLACK = 1e-3
"""By how much, relatively, records of the pairs stay inside thresholds, so that rounding decides nothing."""


def as_records(dataset: Any, dimension: int) -> Floats:
    """Return the dataset as an array of shape (n, d), or raise `AuditError`.

    >>> as_records([(1, 2), (3, 4)], 2).shape
    (2, 2)
    """
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
    """Most records at one pole, the references at 0, outliers and a last reference at the other: it crosses over.

    The outliers miss k + 1 references, or one more once the last reference has left them, and so each loses a share
    1 / k of its weight in the mean. Scores are ``outliers`` + 2 and ``outliers``; covariances are equal.

    >>> pair = poles(Stability(4000, 10, 6.0), 2, 3)
    >>> pair.x.shape, int((pair.x != pair.x_prime).any(axis=1).sum())
    ((4000, 2), 1)
    """
    m, k = bounds.differences, bounds.levels
    # pairs (pole or reference, 0) make the variance of the first axis, pairs (+b, -b) those of the others
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
    """A record moves from the middle to just under lambda_0 along one axis; all others are at 1 or -1 along an axis."""
    rng = np.random.default_rng(0)  # fixed data: which signs go with which axes matters little
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
