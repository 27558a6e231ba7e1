"""Noise at a private upper bound on the local sensitivity, for any query that bounds it through one noisy count.

From a query and a dataset it makes the law of a number plus Laplace noise whose scale is itself noisy. Source:
'Privately bounding local sensitivity' (2024), Theorem 1, with its inequality the right way round, and note 3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms.base import Reference, positive
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, Floats, LaplaceLaw, margin
from epsaudit.mechanisms.queries import Dataset
from epsaudit.mechanisms.ratio import answers, ones_and_records
from epsaudit.mechanisms.ratio_laws import ListedScaleLaw
from epsaudit.mechanisms.smooth_sensitivity import smooth_sensitivity
from epsaudit.mechanisms.stability import StableMedian


class EitherChange(Adjacency):
    """One record joins, leaves or is substituted: what holds for these pairs holds under both usual relations.

    Examples
    --------
    >>> EitherChange().holds([0, 1], [0, 1, 1]), EitherChange().holds([0, 1], [1, 1]), EitherChange().holds([0], [1, 1])
    (True, True, False)
    """

    description = "one record that is there or not, or has another value"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return AddRemove().holds(x, x_prime) or Substitution().holds(x, x_prime)

    def __str__(self) -> str:
        return "add, remove or substitute one record"


class BoundedQuery(ABC):
    """A query f whose local sensitivity is at most ``bound(level(x))``, and whose level one record moves by 1 at most.

    For any f with a smooth bound S on its local sensitivity, log S / beta rounded up is such a level: see
    `SmoothMedian`.
    """

    adjacency: Adjacency

    @abstractmethod
    def __call__(self, dataset: Any) -> float:
        """Return f(dataset)."""

    @abstractmethod
    def level(self, dataset: Any) -> int:
        """Whole number that differs by at most 1 between neighbours."""

    @abstractmethod
    def bound(self, levels: Floats) -> Floats:
        """Bounds above 0 that increase with the level, or stay; of any whole levels, since they come with noise."""

    @abstractmethod
    def pairs(self) -> tuple[DatasetPair, ...]:
        """Neighbours whose answers differ by nearly the bound at their level."""


@dataclass(frozen=True)
class RatioByRecords(BoundedQuery):
    """The share a / b of records that are 1, and 1 / (b - 1): a bound under both adjacencies that needs b alone.

    Adding or removing a record moves a / b by at most max(b - a, a) / (b^2 - b) <= 1 / (b - 1), substituting one by 1 /
    b; and nothing moves a share by more than 1, which is the bound for b <= 2. The share of nobody counts as 0.

    Parameters
    ----------
    records : int
        b of the pairs.

    Examples
    --------
    >>> query = RatioByRecords()
    >>> query((1, 0, 0, 0, 0)), query.level((1, 0, 0, 0, 0)), query.bound(np.array([-5.0, -1.0, 3.0])).tolist()
    (0.2, -5, [0.25, 1.0, 1.0])
    """

    records: int = 2000
    adjacency = EitherChange()

    def __call__(self, dataset: Dataset) -> float:
        ones, records = ones_and_records(dataset)
        return ones / records if records else 0.0

    def level(self, dataset: Dataset) -> int:
        return -len(dataset)

    def bound(self, levels: Floats) -> Floats:
        return np.asarray(1.0 / np.maximum(-levels - 1.0, 1.0))

    def pairs(self) -> tuple[DatasetPair, ...]:
        """A first one who joins, and a first one in place of a zero."""
        zeros, said = answers(0, self.records), f"{self.records} zeros against"
        return (
            DatasetPair(zeros, answers(1, self.records), f"{said} as many and a one"),
            DatasetPair(zeros, answers(1, self.records - 1), f"{said} one of them made a one"),
        )


@dataclass(frozen=True)
class SmoothMedian(BoundedQuery):
    """The median in an interval, bounded by its smooth sensitivity S: the level is log S / beta, rounded up.

    S is at least the local sensitivity, and at most e^beta times that of a neighbour (Nissim, Raskhodnikova and Smith
    2007), so the level moves by 1 at most, and e^(beta level) is at least S.

    Parameters
    ----------
    median : StableMedian
        Its interval must be finite.
    smoothness : float
        beta, above 0.

    Examples
    --------
    >>> query = SmoothMedian(StableMedian(0.0, 1.0), 1.0)
    >>> query.level((0.0, 0.5, 1.0)), query.bound(np.array([0.0, -1.0])).round(3).tolist()
    (0, [1.0, 0.368])
    """

    median: StableMedian
    smoothness: float
    adjacency = Substitution()

    def __post_init__(self) -> None:
        positive(self.smoothness, "smoothness")

    def __call__(self, dataset: Dataset) -> float:
        return self.median(dataset)

    def level(self, dataset: Dataset) -> int:
        return math.ceil(math.log(smooth_sensitivity(self.median, dataset, self.smoothness)) / self.smoothness)

    def bound(self, levels: Floats) -> Floats:
        width = self.median.upper - self.median.lower
        return np.asarray(np.exp(np.minimum(self.smoothness * levels, math.log(width))))

    def pairs(self) -> tuple[DatasetPair, ...]:
        """Two clusters a tenth of the interval apart, so large that nothing farther away makes S any greater."""
        width = self.median.upper - self.median.lower
        low, high = self.median.lower + 0.5 * width, self.median.lower + 0.6 * width
        half = math.ceil(math.log(10.0) / self.smoothness)
        return (
            DatasetPair(
                (low,) * (half + 1) + (high,) * half,
                (low,) * half + (high,) * (half + 1),
                f"{half} and one records at {low:g}, {half} at {high:g}, against one of them moved",
            ),
        )


@dataclass(frozen=True)
class PrivatelyBounded(Reference):
    """f(x) + Laplace(g(x) / epsilon_2), g(x) a private upper bound on the local sensitivity: (epsilon, delta)-DP.

    A share of epsilon = epsilon_1 + epsilon_2 buys the level with discrete Laplace noise; g is the bound at the noisy
    level plus a margin, and is below the local sensitivity with probability delta at most: one tail of the noise.

    Proof ('Privately bounding local sensitivity', Theorem 1, which states its condition the other way round). Let B be
    the noisy levels whose bound is below |f(x) - f(x')|, which is at most either local sensitivity: both datasets draw
    one from B with probability delta at most. For a level outside B the release loses epsilon_2, and the level loses
    epsilon_1, so P[M(x) in E] <= delta + e^epsilon P[M(x') in E].

    Parameters
    ----------
    query : BoundedQuery
        What is asked.
    share : float
        Share of epsilon spent on the bound, in (0, 1).

    Examples
    --------
    >>> mechanism = PrivatelyBounded(RatioByRecords(), 1.0, 1e-6)
    >>> mechanism.margin, str(mechanism.claim)
    (131, '(1, 1e-06)-DP')
    >>> mechanism(answers(200, 200)).sample(3, np.random.default_rng(0)).shape
    (3,)
    """

    query: BoundedQuery
    epsilon: float
    delta: float
    share: float = 0.1
    name: ClassVar[str] = "noise at a private bound"

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self.share, "share of epsilon", open_below=True)

    @property
    def adjacency(self) -> Adjacency:
        return self.query.adjacency

    @property
    def rate(self) -> float:
        """Privacy loss of the noisy level, epsilon_1."""
        return self.share * self.epsilon

    @property
    def margin(self) -> int:
        """What the noise is below minus this with probability delta at most."""
        return margin(self.rate, self.delta)

    def scales(self, noisy_levels: Floats) -> Floats:
        """Scales of the release, shape (n,)."""
        return self.query.bound(noisy_levels + self.margin) / (self.epsilon * (1.0 - self.share))

    def __call__(self, dataset: Any) -> ListedScaleLaw:
        return self.law(self.query(dataset), self.query.level(dataset))

    def law(self, answer: float, level: int) -> ListedScaleLaw:
        """Of any dataset with this answer and level; noise beyond 1e-18 is left out of its density."""
        return ListedScaleLaw(answer, DiscreteLaplaceLaw(level, 1.0 / self.rate), self.scales)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return self.query.pairs()


@dataclass(frozen=True)
class SubstitutedRatio(Reference):
    """The share a / b with Laplace noise of scale 1 / (b epsilon): epsilon-DP under substitution.

    Substitution leaves b as it is, so b is no secret and 1 / b is the sensitivity for this b: there is no bound to buy
    and no delta. 'Privately bounding local sensitivity' (2024) keeps its add/remove bound for substitution, which is
    about half of 1 / b where half of the records are 1.

    Examples
    --------
    >>> SubstitutedRatio(1.0)((1, 0, 0, 0))
    LaplaceLaw(centre=0.25, scale=0.25)
    """

    epsilon: float
    name: ClassVar[str] = "private ratio, number of records known"
    adjacency = Substitution()

    def __call__(self, dataset: Dataset) -> LaplaceLaw:
        ones, records = ones_and_records(dataset)
        if records == 0:
            raise AuditError("The dataset is empty; the share of nobody is no number.")
        return LaplaceLaw(ones / records, 1.0 / (records * self.epsilon))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Any pair."""
        return (DatasetPair(answers(1, 2), answers(2, 1), "1 of 3 against 2 of 3"),)
