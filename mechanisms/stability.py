"""Little noise where no dataset nearby is sensitive: propose-test-release, and noise at the smooth sensitivity.

The smooth sensitivity is the least bound on the local sensitivity whose logarithm moves by at most beta
between neighbours.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.array_types import Floats
from epsaudit.claims.conversions import root
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError, finite_at_least, fraction
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import LaplaceLaw, LocationLaw, NormalLaw
from epsaudit.mechanisms.queries import Dataset
from epsaudit.mechanisms.selection import name_or_refusal
from epsaudit.running.protocols import OutputDistribution


class StableQuery(ABC):
    """A query f that knows how far a dataset is from *unstable* datasets, on which one record matters much."""

    adjacency: Adjacency  # the relation whose steps the distance counts

    @abstractmethod
    def __call__(self, dataset: Any) -> Any:
        """Return f(dataset)."""

    @abstractmethod
    def distance(self, dataset: Any, bound: float) -> float:
        """Return the fewest changes from the dataset to one of local sensitivity above ``bound``; infinite if none.

        The distance is 0 for a dataset whose own local sensitivity is above ``bound``; neighbours' distances differ by
        at most 1. For answers that are not numbers, local sensitivity is infinite where one record can change the
        answer, else 0.
        """

    @abstractmethod
    def pair_at(self, distance: int, bound: float) -> DatasetPair:
        """Return neighbours at ``distance`` >= 1 and one less, whose answers differ by ``bound`` or nearly so."""


@dataclass(frozen=True)
class StableMedian(StableQuery):
    """The median of records in [lower, upper] or, by default, in the reals, under substitution.

    For an even number of records it is the lower of the two middle records, as in the lecture notes on
    propose-test-release. In the reals, two records at infinity could replace any others, so a dataset of 2 h + 1 or 2 h
    + 2 records is at most h changes from instability.

    Raises `AuditError` if the interval is empty, or a dataset has no records or NaN among them.

    >>> median = StableMedian(0.0, 100.0)
    >>> data = (20, 21, 22, 23, 24, 25, 26)
    >>> median(data), median.distance(data, 1.0), median.distance(data, 4.0), median.distance(data, 100.0)
    (23.0, 1.0, 3.0, inf)
    """

    lower: float = -math.inf  # records below ``lower`` or above ``upper`` are moved to that end; infinite for the reals
    upper: float = math.inf
    adjacency = Substitution()

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise AuditError(f"The interval is [{self.lower!r}, {self.upper!r}]; its lower end must be the lower one.")

    def __call__(self, dataset: Dataset) -> float:
        return float(self.ordered(dataset)[(len(dataset) - 1) // 2])

    def distance(self, dataset: Dataset, bound: float) -> float:
        """See `StableQuery.distance`; O(n log n).

        With k records changed, the median and a neighbour's can be any two ordered records k + 1 places apart, the
        median between them or one of them (Nissim, Raskhodnikova and Smith 2007, Proposition 3.4). So the distance is
        the least j - i - 1 over i <= m <= j with x_j - x_i > bound, where the ends stand outside the data.
        """
        finite_at_least(bound, 0.0, "bound on the local sensitivity")
        ordered = self.ordered(dataset)
        middle = (len(ordered) - 1) // 2
        extended = np.concatenate([[self.lower], ordered, [self.upper]])
        left = np.arange(middle + 2)  # places of x_i, the end included
        right = np.searchsorted(extended, extended[left] + bound, side="right")
        right = np.where(np.isneginf(extended[left]), middle + 1, np.maximum(right, middle + 1))
        found = right < len(extended)
        return float(np.min((right - left)[found]) - 1) if np.any(found) else math.inf

    def pair_at(self, distance: int, bound: float) -> DatasetPair:
        """See `StableQuery.pair_at`: clusters at 0 and at ``bound``; a far record takes the majority away."""
        low = 0.0 if math.isinf(self.lower) else self.lower
        far = low + 10.0 * bound if math.isinf(self.upper) else self.upper
        x = (low,) * (distance + 1) + (low + bound,) * distance
        x_prime = (low,) * distance + (low + bound,) * distance + (far,)
        if math.isfinite(self.lower) and math.isinf(self.distance(x, bound)):
            raise AuditError(f"No dataset in [{self.lower:g}, {self.upper:g}] is unstable for the bound {bound:g}.")
        return DatasetPair(
            x, x_prime, f"{2 * distance + 1} records in two clusters, distances {distance}, {distance - 1}"
        )

    def ordered(self, dataset: Dataset) -> Floats:
        records = np.sort(np.clip(np.asarray(dataset, float), self.lower, self.upper))
        if len(records) == 0 or np.isnan(records[-1]):
            raise AuditError(f"The dataset has {len(records)} records; it must have at least one, none of them NaN.")
        return np.asarray(records)


@dataclass(frozen=True)
class StableMode(StableQuery):
    """The most common record of any hashable kind; 'nobody' if there are no records.

    Of equally common records the first by ``repr`` counts. One record that joins or leaves can change the mode only
    where the lead over the second is at most 1. A dataset with lead g is therefore at least max(0, g - 1) changes from
    instability, and this is the distance that is reported.

    >>> StableMode()(("b", "a", "a", "a")), StableMode().distance(("b", "a", "a", "a"), 0.0)
    ('a', 1.0)
    """

    adjacency = AddRemove()

    def __call__(self, dataset: Dataset) -> Hashable:
        counts = Counter(dataset)
        most = max(counts.values(), default=0)
        return min((record for record, count in counts.items() if count == most), key=repr, default="nobody")

    def gap(self, dataset: Dataset) -> int:
        """Return the lead of the mode over the second most common record, in records."""
        first, second = [*(count for _, count in Counter(dataset).most_common(2)), 0, 0][:2]
        return first - second

    def distance(self, dataset: Dataset, bound: float) -> float:
        return max(0.0, self.gap(dataset) - 1.0)

    def pair_at(self, distance: int, bound: float) -> DatasetPair:
        """See `StableQuery.pair_at`: a lead of ``distance`` + 1 from which one record is taken."""
        x = ("a",) * (distance + 1)
        return DatasetPair(x, x[1:], f"leads of {distance + 1} and {distance}")


@dataclass(frozen=True)
class RefusalLaw:
    """Law of a mechanism that may refuse: a continuous law with probability e^log_answers, else None."""

    answer: LaplaceLaw | NormalLaw
    log_answers: float
    log_refuses: float

    @property
    def support(self) -> tuple[None]:
        return (None,)

    @property
    def log_probabilities(self) -> Floats:
        return np.array([self.log_refuses])

    @property
    def knots(self) -> tuple[float, ...]:
        return self.answer.knots

    @property
    def scale(self) -> float:
        return self.answer.scale

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        outputs = self.answer.sample(size, rng).astype(object)
        outputs[rng.random(size) < math.exp(self.log_refuses)] = None
        return outputs

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        if outputs.dtype != object:
            return np.asarray(self.log_answers + self.answer.log_density(outputs))
        refused = np.asarray(outputs == np.array(None, dtype=object), dtype=bool)
        numbers = np.where(refused, 0.0, outputs).astype(float)
        return np.where(refused, self.log_refuses, self.log_answers + self.answer.log_density(numbers))


@dataclass(frozen=True)
class ProposeTestRelease(Reference):
    """Propose a bound on the local sensitivity, test it by a noisy distance, and release or refuse.

    The mechanism answers f(x) + Laplace(bound / epsilon) where distance + Laplace(1 / epsilon) > log(1 / delta) /
    epsilon, else None: (2 epsilon, delta)-DP (Dwork and Lei 2009; the lecture notes on propose-test-release, with the
    distance to local sensitivity above the bound). With bound 0 the answer is exact, and the proof loses only the
    epsilon of the test: (epsilon, delta)-DP. In fact delta / 2 suffices, because half of the Laplace tail is on the
    safe side.

    >>> mechanism = ProposeTestRelease(StableMedian(0.0, 100.0), epsilon=0.5, delta=0.01, bound=1.0)
    >>> law = mechanism((50,) * 41)
    >>> str(mechanism.claim), round(float(np.exp(law.log_probabilities[0])), 4)
    ('(1, 0.01)-DP', 0.0023)
    >>> mode = ProposeTestRelease(StableMode(), epsilon=1.0, delta=0.01)
    >>> str(mode.claim), mode(("a", "a", "b")).support
    ('(1, 0.01)-DP', ('a', None))
    """

    query: StableQuery  # the query
    epsilon: float  # privacy loss of the test, and of the release, in nats; above 0
    delta: float
    bound: float = 0.0  # the proposed bound on the local sensitivity, in the unit of the query; at least 0
    name: ClassVar[str] = "propose-test-release"

    def __post_init__(self) -> None:
        super().__post_init__()
        finite_at_least(self.bound, 0.0, "proposed bound")

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxDP(self.epsilon if self.bound == 0.0 else 2.0 * self.epsilon, self.delta),)

    @property
    def adjacency(self) -> Adjacency:
        return self.query.adjacency

    @cached_property
    def threshold(self) -> float:
        return math.log(1.0 / self.delta) / self.epsilon

    def distance(self, dataset: Any) -> float:
        return self.query.distance(dataset, self.bound)

    def __call__(self, dataset: Any) -> OutputDistribution:
        distance, answer = self.distance(dataset), self.query(dataset)
        if self.bound == 0.0:
            return name_or_refusal(answer, distance, self.threshold, 1.0 / self.epsilon)
        noise = LaplaceLaw(0.0, 1.0 / self.epsilon)
        return RefusalLaw(
            LaplaceLaw(float(answer), self.bound / self.epsilon),
            float(noise.log_cdf(distance - self.threshold)),
            float(noise.log_cdf(self.threshold - distance)),
        )

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Pairs just below the threshold, where both losses count in full and answers are as common as possible."""
        return (self.query.pair_at(max(1, math.floor(self.threshold)), self.bound),)


@dataclass(frozen=True)
class FallbackLaw:
    """Two Laplace laws around one centre: a narrow one with probability e^log_passes, else a wide one."""

    centre: float
    narrow: float  # narrow and wide are the scales of the two laws
    wide: float
    log_passes: float
    log_fails: float

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.centre,)

    @property
    def scale(self) -> float:
        return self.narrow

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        scales = np.where(rng.random(size) < math.exp(self.log_passes), self.narrow, self.wide)
        return np.asarray(self.centre + scales * rng.laplace(size=size))

    def log_density(self, outputs: ArrayLike) -> Floats:
        laws = (LaplaceLaw(self.centre, scale) for scale in (self.narrow, self.wide))
        narrow, wide = (law.log_density(outputs) for law in laws)
        return np.logaddexp(self.log_passes + narrow, self.log_fails + wide)


@dataclass(frozen=True)
class ProposeTestFallback(Reference):
    """Propose-test-release that answers with noise at the global sensitivity where the test fails.

    The mechanism answers f(x) + Laplace(bound / epsilon) where distance + Laplace(1 / epsilon) > log(1 / delta) /
    epsilon, else f(x) + Laplace(GS / epsilon), where GS is the global sensitivity. It is (2 epsilon, delta)-DP and
    never refuses. The lecture notes on propose-test-release mention this fallback in brackets without a proof. Theorem
    10 of docs/explanation/mechanisms.md proves it, even for an output that says which of the two noises it has. As in
    `ProposeTestRelease`, delta / 2 suffices.

    Raises `AuditError` if the interval of the median is not finite, or the bound is not above 0 and below its length.

    >>> mechanism = ProposeTestFallback(StableMedian(0.0, 100.0), epsilon=0.5, delta=0.01, bound=1.0)
    >>> law = mechanism((50,) * 41)
    >>> str(mechanism.claim), law.narrow, law.wide, round(math.exp(law.log_fails), 4)
    ('(1, 0.01)-DP', 2.0, 200.0, 0.0023)
    """

    median: StableMedian  # the query, in a finite interval, whose length is the global sensitivity
    epsilon: float  # privacy loss of the test, and of either answer; above 0
    delta: float
    bound: float  # the proposed bound on the local sensitivity
    name: ClassVar[str] = "propose-test-release, global sensitivity otherwise"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not math.isfinite(self.global_sensitivity):
            raise AuditError(
                f"The interval is [{self.median.lower}, {self.median.upper}]; noise at the global sensitivity needs a "
                "finite one."
            )
        if not 0.0 < self.bound < self.global_sensitivity:
            raise AuditError(
                f"The proposed bound is {self.bound!r}; it must be above 0 and below the global sensitivity, "
                f"{self.global_sensitivity:g}."
            )

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxDP(2.0 * self.epsilon, self.delta),)

    @property
    def adjacency(self) -> Adjacency:
        return self.median.adjacency

    @property
    def global_sensitivity(self) -> float:
        return self.median.upper - self.median.lower

    @cached_property
    def threshold(self) -> float:
        return math.log(1.0 / self.delta) / self.epsilon

    def fallback(self, dataset: Any) -> float:
        """Return the sensitivity for the noise where the test fails; it is the same for all datasets."""
        return self.global_sensitivity

    def __call__(self, dataset: Any) -> FallbackLaw:
        above, test = self.median.distance(dataset, self.bound) - self.threshold, LaplaceLaw(0.0, 1.0 / self.epsilon)
        return FallbackLaw(
            self.median(dataset),
            self.bound / self.epsilon,
            self.fallback(dataset) / self.epsilon,
            float(test.log_cdf(above)),
            float(test.log_cdf(-above)),
        )

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Pairs just below the threshold, as for `ProposeTestRelease`, where test and narrow answer cost most."""
        return (self.median.pair_at(max(1, math.floor(self.threshold)), self.bound),)


_UNDERFLOW = 745.0  # e to minus this is 0 in double precision


class CauchyLaw(LocationLaw):
    """Cauchy law with the given centre and scale, its half-width at half height; it has no mean."""

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        return self.centre + self.scale * rng.standard_cauchy(size)

    def log_density(self, outputs: ArrayLike) -> Floats:
        z = (np.asarray(outputs, float) - self.centre) / self.scale
        return np.asarray(-2.0 * np.log(np.hypot(1.0, z)) - math.log(math.pi * self.scale))


def smooth_sensitivity(median: StableMedian, dataset: Dataset, beta: float) -> float:
    """Return the smooth sensitivity of the median: the greatest e^(-beta k) LS over datasets k substitutions away.

    Nissim, Raskhodnikova and Smith (2007), Proposition 3.4: the maximum over i <= m <= j of (x_j - x_i) e^(-beta (j - i
    - 1)), where records beyond the data stand at the ends of the interval. Only windows short enough to exceed the
    local sensitivity are examined. The dataset needs at least one record, and beta must be above 0. Raises `AuditError`
    if the interval is infinite.

    >>> smooth_sensitivity(StableMedian(0.0, 1.0), (0.0, 0.5, 1.0), beta=1.0)
    0.5
    >>> round(smooth_sensitivity(StableMedian(0.0, 1.0), (0.5,) * 3, beta=1.0), 6)  # two steps out: LS is then 1
    0.18394
    """
    if math.isinf(median.lower) or math.isinf(median.upper):
        raise AuditError(f"The interval is [{median.lower}, {median.upper}]; smooth sensitivity needs a finite one.")
    extended = np.concatenate([[median.lower], median.ordered(dataset), [median.upper]])
    middle = (len(extended) - 1) // 2
    below, above = extended[middle::-1], extended[middle:]
    nearest = max(above[1] - above[0], below[0] - below[1], (above[-1] - below[-1]) * math.exp(-beta * len(dataset)))
    greatest = math.log((median.upper - median.lower) / nearest) if nearest > 0.0 else math.inf
    windows = 2 + math.floor(min(max(greatest, 0.0), _UNDERFLOW) / beta)
    above, below = above[: windows + 1], below[: windows + 1]
    with np.errstate(under="ignore"):
        shrunk = np.exp(-beta * (np.arange(len(above) + len(below)) - 1.0))
        return float(max(np.max((above - low) * shrunk[i : i + len(above)]) for i, low in enumerate(below)))


@dataclass(frozen=True)
class _SmoothMedian(Reference):
    """Base of both mechanisms: noise around the median, with a scale in proportion to its smooth sensitivity."""

    median: StableMedian  # must have a finite interval
    epsilon: float

    @property
    def adjacency(self) -> Adjacency:
        return self.median.adjacency

    @property
    @abstractmethod
    def shift(self) -> float:
        """Loss spent on the answer: the scale of the noise is the smooth sensitivity divided by this loss."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """beta: the most by which the logarithm of the scale moves between neighbours."""

    def scale(self, dataset: Any) -> float:
        return smooth_sensitivity(self.median, dataset, self.smoothness) / self.shift


class SmoothMedianCauchy(_SmoothMedian):
    """Cauchy noise scaled to the smooth sensitivity: epsilon-DP (Nissim, Raskhodnikova and Smith 2007).

    The noise is a sixth of that of their Lemma 2.7, because the loss is computed exactly and not bounded: Theorem 4 of
    docs/explanation/mechanisms.md, with alpha = ``shift`` and beta = ``smoothness``.

    >>> mechanism = SmoothMedianCauchy(StableMedian(0.0, 1.0), epsilon=1.0)
    >>> law = mechanism((0.0, 0.5, 1.0))
    >>> law.centre, round(law.scale, 4), str(mechanism.claim)
    (0.5, 0.582, '1-DP')
    """

    name: ClassVar[str] = "median, Cauchy noise at smooth sensitivity"

    @property
    def shift(self) -> float:
        still = math.cosh(self.epsilon) - 1.0
        moving = math.exp(self.smoothness) * (math.cosh(self.epsilon) - math.cosh(self.smoothness))
        return math.sqrt(2.0 * min(still, moving))

    @property
    def smoothness(self) -> float:
        return self.epsilon / 2.0

    def __call__(self, dataset: Any) -> CauchyLaw:
        return CauchyLaw(self.median(dataset), self.scale(dataset))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One record at either end: the answer moves by the whole smooth sensitivity, and the scale stays."""
        return (DatasetPair((self.median.lower,), (self.median.upper,), "one record at either end"),)


@dataclass(frozen=True)
class SmoothMedianLaplace(_SmoothMedian):
    """Laplace noise scaled to the smooth sensitivity: (epsilon, delta)-DP.

    Nissim, Raskhodnikova and Smith (2007). The scale is 2 S / epsilon. S is smooth at the beta that solves
    log(1 / delta) (e^beta - 1) - beta = epsilon / 2, which is greater than that of their Lemma 2.9: Theorem 5
    of docs/explanation/mechanisms.md.

    >>> mechanism = SmoothMedianLaplace(StableMedian(0.0, 1.0), epsilon=2.0, delta=0.01)
    >>> mechanism((0.0, 0.0, 1.0)), round(mechanism.smoothness, 4)
    (LaplaceLaw(centre=0.0, scale=1.0), 0.2381)
    """

    delta: float  # in (0, 1/4]
    name: ClassVar[str] = "median, Laplace noise at smooth sensitivity"

    def __post_init__(self) -> None:
        super().__post_init__()
        if fraction(self.delta, "delta", open_below=True) > 0.25:
            raise AuditError(f"delta is {self.delta!r}; it must be at most 1/4.")

    @property
    def shift(self) -> float:
        return self.epsilon / 2.0

    @cached_property
    def smoothness(self) -> float:
        far = math.log(1.0 / self.delta)

        def excess(beta: float) -> float:
            return far * math.expm1(beta) - beta - self.epsilon / 2.0

        return min(float(root(excess, 0.0, self.epsilon + 1.0, xtol=1e-14)), self.epsilon / 2.0)

    def __call__(self, dataset: Any) -> LaplaceLaw:
        return LaplaceLaw(self.median(dataset), self.scale(dataset))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One record: the answer moves by the smooth sensitivity of x, which is e^-beta times that of x'."""
        width = self.median.upper - self.median.lower
        near = self.median.lower - math.expm1(-self.smoothness) * width
        return (DatasetPair((near,), (self.median.upper,), f"one record at {near:.4g} against {self.median.upper:g}"),)
