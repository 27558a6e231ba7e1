"""Noise at a private upper bound on the local sensitivity, from one noisy count or from another mechanism.

'Privately bounding local sensitivity' (2024), Theorem 1, with its inequality in the corrected direction, and note 3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP
from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms.base import Reference, positive
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, LaplaceLaw, margin
from epsaudit.mechanisms.queries import Dataset
from epsaudit.mechanisms.ratio import DrawnScaleLaw, ListedScaleLaw, answers, ones_and_records
from epsaudit.mechanisms.stability import StableMedian, smooth_sensitivity
from epsaudit.running.protocols import Mechanism


class EitherChange(Adjacency):
    """One record joins, leaves or is substituted. A claim for all these pairs holds under both usual adjacencies."""

    description = "one record that is there or not, or has another value"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return AddRemove().holds(x, x_prime) or Substitution().holds(x, x_prime)

    def __str__(self) -> str:
        return "add, remove or substitute one record"


class BoundedQuery(ABC):
    """A query f whose local sensitivity is at most ``bound(level(x))``; one record moves the level by at most 1.

    For any f with a smooth bound S on its local sensitivity, log S / beta rounded up is such a level:
    see `SmoothMedian`.
    """

    adjacency: Adjacency

    @abstractmethod
    def __call__(self, dataset: Any) -> float:
        """Return f(dataset)."""

    @abstractmethod
    def level(self, dataset: Any) -> int:
        """Return a whole number that differs by at most 1 between neighbours."""

    @abstractmethod
    def bound(self, levels: Floats) -> Floats:
        """Return bounds above 0 that do not decrease with the level.

        The levels may be any whole numbers, since they come with noise.
        """

    @abstractmethod
    def pairs(self) -> tuple[DatasetPair, ...]:
        """Neighbours whose answers differ by nearly the bound at their level."""


@dataclass(frozen=True)
class RatioByRecords(BoundedQuery):
    """The share a / b of records that are 1, with the bound 1 / (b - 1), which needs b alone.

    The bound holds under both adjacencies. Adding or removing a record moves a / b by at most max(b - a, a) / (b^2 - b)
    <= 1 / (b - 1), and substituting a record by 1 / b. Nothing moves a share by more than 1, which is the bound for b
    <= 2. The share of an empty dataset counts as 0.

    >>> query = RatioByRecords()
    >>> query((1, 0, 0, 0, 0)), query.level((1, 0, 0, 0, 0)), query.bound(np.array([-5.0, -1.0, 3.0])).tolist()
    (0.2, -5, [0.25, 1.0, 1.0])
    """

    records: int = 2000  # b in the pairs
    adjacency = EitherChange()

    def __call__(self, dataset: Dataset) -> float:
        ones, records = ones_and_records(dataset)
        return ones / records if records else 0.0

    def level(self, dataset: Dataset) -> int:
        return -len(dataset)

    def bound(self, levels: Floats) -> Floats:
        return np.asarray(1.0 / np.maximum(-levels - 1.0, 1.0))

    def pairs(self) -> tuple[DatasetPair, ...]:
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

    >>> query = SmoothMedian(StableMedian(0.0, 1.0), 1.0)
    >>> query.level((0.0, 0.5, 1.0)), query.bound(np.array([0.0, -1.0])).round(3).tolist()
    (0, [1.0, 0.368])
    """

    median: StableMedian
    smoothness: float  # beta, above 0
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
        """Two clusters a tenth of the interval apart, so large that no record farther away makes S any greater."""
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

    A share of epsilon = epsilon_1 + epsilon_2 pays for the level with discrete Laplace noise. g is the bound at the
    noisy level plus a margin; it is below the local sensitivity with probability at most delta, the probability of one
    tail of the noise. Proof: docs/explanation/mechanisms.md ('Privately bounding local sensitivity', Theorem 1, states
    its condition reversed).

    >>> mechanism = PrivatelyBounded(RatioByRecords(), 1.0, 1e-6)
    >>> mechanism.margin, str(mechanism.claim)
    (131, '(1, 1e-06)-DP')
    """

    query: BoundedQuery
    epsilon: float
    delta: float
    share: float = 0.1  # share of epsilon that is spent on the bound, in (0, 1)
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
        """Least number such that the noise is below its negative with probability at most delta."""
        return margin(self.rate, self.delta)

    def scales(self, noisy_levels: Floats) -> Floats:
        return self.query.bound(noisy_levels + self.margin) / (self.epsilon * (1.0 - self.share))

    def __call__(self, dataset: Any) -> ListedScaleLaw:
        return self.law(self.query(dataset), self.query.level(dataset))

    def law(self, answer: float, level: int) -> ListedScaleLaw:
        """Return the law for any dataset with this answer and level; it leaves out noise of probability 1e-18."""
        return ListedScaleLaw(answer, DiscreteLaplaceLaw(level, 1.0 / self.rate), self.scales)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return self.query.pairs()


@dataclass(frozen=True)
class SubstitutedRatio(Reference):
    """The share a / b with Laplace noise of scale 1 / (b epsilon): epsilon-DP under substitution.

    Substitution does not change b, so 1 / b is the sensitivity for this b; neither a noisy bound nor a delta is needed.

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
        return (DatasetPair(answers(1, 2), answers(2, 1), "1 of 3 against 2 of 3"),)


@dataclass(frozen=True)
class LaplaceAtBound(Reference):
    """f(x) + Laplace(g(x) / epsilon), where g is an epsilon_1-DP mechanism: (epsilon_1 + epsilon, delta)-DP.

    On every dataset, g must be below the local sensitivity of f with probability at most delta. This is the only
    condition on f and g: docs/explanation/mechanisms.md has the proof.

    >>> bound = JoinBound(0.5, 1e-3, keys=2)
    >>> mechanism = LaplaceAtBound(join_size, bound, 0.5, 1e-3)
    >>> str(mechanism.claim), mechanism((("left", 0), ("right", 0))).sample(2, np.random.default_rng(0)).shape
    ('(1, 0.001)-DP', (2,))
    """

    query: Callable[[Any], float]  # f: dataset to number
    bound: Mechanism  # g: its claim must be pure DP and its outputs above 0; its adjacency is that of the whole
    epsilon: float  # privacy loss of the release, in addition to that of the bound
    delta: float  # greatest probability, on any dataset, that the bound is too low
    pairs: Sequence[DatasetPair] = ()  # pairs to audit; by default those of the bound
    name: ClassVar[str] = "noise at any private bound"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.bound.claim, PureDP):
            raise AuditError(f"The bound's claim is {self.bound.claim}; it must be pure DP.")

    @property
    def adjacency(self) -> Adjacency:
        return self.bound.adjacency  # type: ignore[return-value]  # None passes through

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxDP(self.bound.claim.parameter + self.epsilon, self.delta),)  # type: ignore[union-attr]  # pure

    def __call__(self, dataset: Any) -> DrawnScaleLaw:
        law = self.bound(dataset)
        kind = ListedScaleLaw if isinstance(law, FiniteLaw) else DrawnScaleLaw
        return kind(float(self.query(dataset)), law, self.scales)

    def scales(self, bounds: Floats) -> Floats:
        if not np.all(bounds > 0.0):
            raise AuditError(f"A bound is {float(bounds[~(bounds > 0.0)][0])!r}; bounds must be above 0.")
        return bounds / self.epsilon

    def worst_pairs(self) -> Sequence[DatasetPair]:
        return tuple(self.pairs) or self.bound.worst_pairs()  # type: ignore[attr-defined]  # a Reference, without pairs


def join_size(dataset: Sequence[tuple[str, int]]) -> float:
    """Return the number of rows of the join of two tables; a dataset is records ("left" or "right", key).

    A record that joins or leaves changes the result by the number of rows with its key in the other table. The rows of
    one key are the product of both counts, and the local sensitivity is the greatest count of a key in either table.
    """
    counts = Counter(dataset)
    return float(sum(counts[side, key] * counts["right", key] for side, key in counts if side == "left"))


@dataclass(frozen=True)
class JoinBound(Reference):
    """The greatest noisy count of a key in a table plus a margin: epsilon-DP, and rarely below the greatest count.

    A record is in one count only, so discrete Laplace noise of rate epsilon on each count costs epsilon for all counts
    (Dwork et al. 2006), and a function of the noisy counts costs nothing more. The result is below the greatest count
    only if the noise of that count is below -margin, with probability e^(-epsilon (margin + 1)) / (1 + e^-epsilon) <=
    delta. The result is at least 1.

    >>> bound = JoinBound(0.5, 1e-3, keys=2)
    >>> law = bound((("left", 0),) * 40)
    >>> bound.margin, float(np.exp(law.log_probabilities) @ np.array(law.support)) > 52
    (12, True)
    """

    epsilon: float
    delta: float
    keys: int  # number of keys, at least 1; they are 0, 1, ...
    records: int = 100  # number of records of the pair
    name: ClassVar[str] = "greatest count, with a margin"
    adjacency = AddRemove()
    wholes = {"keys": (1, "number of keys")}

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (PureDP(self.epsilon),)

    @property
    def margin(self) -> int:
        return margin(self.epsilon, self.delta)

    def counts(self, dataset: Sequence[tuple[str, int]]) -> list[int]:
        known = [(side, key) for side in ("left", "right") for key in range(self.keys)]
        found = Counter(dataset)
        if strange := set(found) - set(known):
            raise AuditError(f"The record {min(strange)!r} is not known; records are ('left', 0), ('right', 0), ...")
        return [found[one] for one in known]

    def __call__(self, dataset: Sequence[tuple[str, int]]) -> FiniteLaw:
        """Prepare the law; its support leaves out noise that some count exceeds with probability at most 1e-18."""
        counts = np.array(self.counts(dataset))
        reach, middle = math.ceil(math.log(1e18 * len(counts)) / self.epsilon), counts.max() + self.margin
        bounds = np.arange(max(1, middle - reach), middle + reach + 1)
        log_chances = partial(self._log_chances, counts)
        return JoinBoundLaw(bounds.tolist(), log_chances(bounds), log_chances)

    def _log_chances(self, counts: Floats, bounds: ArrayLike) -> Floats:
        """Return the log-probability of each bound, by differences of log distribution functions to keep digits."""
        values = np.asarray(bounds, float)
        noise = values[:, None] - self.margin - counts  # greatest noise of each count for each bound
        law = DiscreteLaplaceLaw(0, 1.0 / self.epsilon)
        here, below = law.log_cdf(noise), law.log_cdf(noise - 1.0)
        with np.errstate(divide="ignore"):
            one = np.where(values > 1.0, np.log(-np.expm1(np.sum(below - here, axis=1))), 0.0)
        return np.where((values >= 1.0) & (values == np.floor(values)), np.sum(here, axis=1) + one, -np.inf)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        crowd, one = (("left", 0),) * self.records, ("left", 0)
        return (DatasetPair(crowd, (*crowd, one), f"{self.records} rows in one table against one more"),)


@dataclass(frozen=True, eq=False)
class JoinBoundLaw(FiniteLaw):
    """Law of a `JoinBound`; the support leaves out rare bounds, the density does not."""

    log_chances: Callable[[ArrayLike], Floats]

    def log_density(self, outputs: ArrayLike) -> Floats:
        return self.log_chances(outputs)


def match_for_all(records: int) -> DatasetPair:
    """Return the pair on which a join changes most: one record joins with all others.

    The key of the record has a great count in the other table only.
    """
    left = (("left", 0),) * records
    return DatasetPair(left, (*left, ("right", 0)), f"{records} rows in one table against a match for all")
