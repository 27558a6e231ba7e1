"""The inverse sensitivity mechanism: choose an answer by how few records must change to make it the true one.

For a query with finitely many answers, its losses, which have sensitivity 1 whatever the query, go to any selection
mechanism. The median has a formula for its losses; any other function is enumerated on small data.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.functions import OutputDistribution
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.queries import Dataset, Utilities
from epsaudit.mechanisms.selection import ExponentialMechanism


class Losses:
    """Utilities -l(x, y) with l(x, y) the fewest changes that make y the true answer: Equation 4 of the source.

    Source: differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity'. By its Lemma 1 the losses of
    neighbours differ by at most 1.
    """

    candidates: tuple[Any, ...]
    sensitivity: ClassVar[float] = 1.0  # by Lemma 1
    adjacency: Adjacency  # the relation whose steps the losses count
    pairs: Sequence[DatasetPair]  # neighbours worth auditing

    @abstractmethod
    def value(self, dataset: Any) -> Any:
        """Return f(dataset)."""

    @abstractmethod
    def losses(self, dataset: Any) -> NDArray[np.int64]:
        """Return l(dataset, y) for every candidate y, shape (candidates,)."""

    @abstractmethod
    def local_sensitivity(self, dataset: Any, changes: int) -> float:
        """Greatest change of the answer within that many changes of the dataset: Equation 2."""

    @abstractmethod
    def lead(self, gap: int) -> DatasetPair:
        """See `epsaudit.mechanisms.queries.Utilities.lead`."""

    def __call__(self, dataset: Any) -> Floats:
        return -self.losses(dataset).astype(float)


@dataclass(frozen=True)
class MedianLosses(Losses):
    """Losses of the median of n records from a finite set, under substitution; the lower one if n is even.

    l(x, y) = max(0, #{x_i < y} - h, #{x_i > y} - (n - 1 - h)) with h = floor((n - 1) / 2): y is the median when at most
    h records are below it and n - 1 - h above, and a substitution moves one record from one side to y. The two excesses
    cannot both be positive.

    Raises `AuditError` if there are fewer than two candidates or they do not increase; if a dataset has no records or
    one that is no candidate.

    >>> MedianLosses((0, 1, 2, 3)).losses((1, 2, 2)).tolist()
    [2, 1, 0, 2]
    """

    candidates: tuple[float, ...]  # all possible records, and answers, in increasing order; at least two
    adjacency = Substitution()

    def __post_init__(self) -> None:
        if len(self.candidates) < 2 or not bool(np.all(np.diff(np.asarray(self.candidates, float)) > 0)):
            raise AuditError(f"The candidates are {self.candidates!r}; they must be at least two increasing numbers.")

    @property
    def pairs(self) -> tuple[DatasetPair, DatasetPair]:
        """The greatest answer gets nearer while all others get farther; half of the answers nearer, half farther."""
        y = self.candidates
        low, middle, below, high = y[0], y[len(y) // 2], y[-2], y[-1]
        return (
            DatasetPair((low, below, high), (below, high, high), "least record made greatest, three records"),
            DatasetPair(
                (low, middle, middle, middle, high),
                (middle, middle, middle, high, high),
                "least record made greatest, three of five in the middle",
            ),
        )

    def value(self, dataset: Dataset) -> Any:
        ranks = np.sort(self._ranks(dataset))
        return self.candidates[int(ranks[(len(ranks) - 1) // 2])]

    def losses(self, dataset: Dataset) -> NDArray[np.int64]:
        counts = np.bincount(self._ranks(dataset), minlength=len(self.candidates))
        upto = np.cumsum(counts)
        below = (len(dataset) - 1) // 2
        above = len(dataset) - 1 - below
        excess = np.maximum(upto - counts - below, len(dataset) - upto - above)
        return np.asarray(np.maximum(0, excess), dtype=np.int64)

    def local_sensitivity(self, dataset: Dataset, changes: int) -> float:
        """See `Losses.local_sensitivity`: Equation 3, with records beyond the ends at the ends of Y."""
        changes = whole_at_least(changes, 0, "number of changes")
        ranks = np.sort(self._ranks(dataset))
        middle = (len(ranks) - 1) // 2
        low = self.candidates[int(ranks[middle - changes])] if changes <= middle else self.candidates[0]
        high = self.candidates[int(ranks[middle + changes])] if middle + changes < len(ranks) else self.candidates[-1]
        return max(high - self.candidates[int(ranks[middle])], self.candidates[int(ranks[middle])] - low)

    def lead(self, gap: int) -> DatasetPair:
        """See `epsaudit.mechanisms.queries.Utilities.lead`: the second candidate's loss falls from ``gap`` to ``gap -
        1``."""
        gap = whole_at_least(gap, 1, "gap between the candidates")
        first, second = self.candidates[:2]
        others = (first,) * (2 * gap - 2)
        return DatasetPair((*others, first), (*others, second), f"all {2 * gap - 1} alike against all but one")

    def _ranks(self, dataset: Dataset) -> NDArray[np.intp]:
        place = {candidate: rank for rank, candidate in enumerate(self.candidates)}
        if len(dataset) == 0 or any(record not in place for record in dataset):
            raise AuditError(
                f"The dataset has {len(dataset)} records; it must have at least one, all of them among the "
                f"{len(self.candidates)} candidates."
            )
        return np.array([place[record] for record in dataset], dtype=np.intp)  # type: ignore[index]  # checked above


@dataclass(frozen=True)
class EnumeratedLosses(Losses):
    """Losses of any function on all multisets of a few records: distances to the datasets that have each answer.

    Answers may be vectors, as tuples. Sensitivities are those among the datasets that are enumerated: a few records in
    either direction of one that is far from the greatest size.

    Raises `AuditError` if there are more than 20,000 datasets, the relation is another one, or a dataset is none of
    them.

    >>> losses = EnumeratedLosses(max, (0, 1, 5), 3)
    >>> losses.candidates, losses.losses((0, 1, 1)).tolist()
    ((0, 1, 5), [2, 0, 1])
    """

    function: Callable[[tuple[Any, ...]], Any]  # ``function(dataset) -> number``, blind to the order of the records
    universe: tuple[Hashable, ...]  # all possible records
    size: int  # number of records: exactly, under substitution, or at most, under add/remove
    relation: Adjacency = field(default_factory=Substitution)  # `Substitution` or `AddRemove`
    norm: float = 2.0  # of the change of an answer that is a vector: 1, 2, math.inf

    def __post_init__(self) -> None:
        whole_at_least(self.size, 1, "number of records")
        if not isinstance(self.relation, (AddRemove, Substitution)):
            raise AuditError(f"The relation is {self.relation}; enumeration knows AddRemove and Substitution.")
        total = sum(math.comb(len(self.universe) + n - 1, n) for n in self._sizes)
        if total > 20_000:
            raise AuditError(f"There are {total} datasets to enumerate; at most 20,000 are allowed.")

    @property
    def adjacency(self) -> Adjacency:
        return self.relation

    @property
    def _sizes(self) -> range:
        return range(0 if isinstance(self.relation, AddRemove) else self.size, self.size + 1)

    @cached_property
    def datasets(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(d for n in self._sizes for d in itertools.combinations_with_replacement(self.universe, n))

    @cached_property
    def values(self) -> tuple[Any, ...]:
        return tuple(self.function(dataset) for dataset in self.datasets)

    @cached_property
    def candidates(self) -> tuple[Any, ...]:  # type: ignore[override]  # the image of the function
        """All answers, in increasing order: the function is surjective, as the source assumes."""
        return tuple(sorted(set(self.values)))

    @cached_property
    def pairs(self) -> tuple[DatasetPair, ...]:
        """Neighbours whose losses move in both directions or, failing that, all neighbours."""
        tables = [self.losses(dataset) for dataset in self.datasets]
        found = []
        for place, dataset in enumerate(self.datasets):
            for other in np.flatnonzero(self.distances(dataset) == 1):
                if other > place:
                    moves = tables[place] - tables[other]
                    both = bool(moves.max() > 0) and bool(moves.min() < 0)
                    found.append((both, DatasetPair(dataset, self.datasets[other])))
        crossing = tuple(pair for both, pair in found if both)
        return crossing or tuple(pair for _, pair in found)

    def distances(self, dataset: Dataset) -> NDArray[np.int64]:
        """Fewest changes from a dataset to each of `datasets`, shape (datasets,)."""
        counts = self._counts(dataset)
        gaps = np.abs(self._table - counts).sum(axis=1)
        return np.asarray(gaps if isinstance(self.relation, AddRemove) else gaps // 2)

    def value(self, dataset: Dataset) -> Any:
        return self.function(tuple(dataset))

    def losses(self, dataset: Dataset) -> NDArray[np.int64]:
        distances = self.distances(dataset)
        nearest: dict[Any, int] = {}
        for value, distance in zip(self.values, distances.tolist(), strict=True):
            nearest[value] = min(distance, nearest.get(value, distance))
        return np.array([nearest[candidate] for candidate in self.candidates], dtype=np.int64)

    def local_sensitivity(self, dataset: Dataset, changes: int) -> float:
        return self._greatest_change(dataset, self.distances(dataset) <= changes)

    def down_sensitivity(self, dataset: Dataset, changes: int) -> float:
        """DS^k: greatest change of the answer where up to so many records leave; under add/remove only."""
        if not isinstance(self.relation, AddRemove):
            raise AuditError(f"The relation is {self.relation}; down sensitivity is for records that join or leave.")
        parts = np.all(self._table <= self._counts(dataset), axis=1)
        return self._greatest_change(dataset, parts & (self.distances(dataset) <= changes))

    def at_distance(self, dataset: Dataset, changes: int, sensitivity: Callable[[Any, int], float]) -> float:
        """Greatest one-step sensitivity of a dataset within that many changes: ``sensitivity(dataset, 1)``.

        Of `local_sensitivity` the local sensitivity at distance k (Nissim, Raskhodnikova and Smith 2007), of
        `down_sensitivity` DS^(k) ('Beyond Local Sensitivity via Down Sensitivity', note 2): neither is LS^k or DS^k.
        """
        near = self.distances(dataset) <= changes
        return max(sensitivity(x, 1) for x, reached in zip(self.datasets, near, strict=True) if reached)

    def _greatest_change(self, dataset: Dataset, chosen: NDArray[np.bool_]) -> float:
        changes = np.array([self.values[place] for place in np.flatnonzero(chosen)], float) - np.array(
            self.value(dataset), float
        )
        return float(np.linalg.norm(changes.reshape(len(changes), -1), self.norm, axis=1).max())

    def lead(self, gap: int) -> DatasetPair:
        """See `epsaudit.mechanisms.queries.Utilities.lead`; raises `AuditError` where no neighbours have that lead."""
        for pair in self.pairs:
            for found in (pair, pair.swapped()):
                first, second = self.losses(found.x)[:2], self.losses(found.x_prime)[:2]
                if first[1] - first[0] == gap and second[0] >= first[0] and second[1] < first[1]:
                    return found
        raise AuditError(f"No neighbours have a lead of {gap} between the first two answers.")

    @cached_property
    def _table(self) -> NDArray[np.int64]:
        return np.array([[d.count(record) for record in self.universe] for d in self.datasets], dtype=np.int64)

    def _counts(self, dataset: Dataset) -> NDArray[np.int64]:
        seen = Counter(dataset)
        if seen.keys() - set(self.universe) or len(dataset) not in self._sizes:
            raise AuditError(f"The dataset {dataset!r} is none of those enumerated: records or number are others.")
        return np.array([seen[record] for record in self.universe], dtype=np.int64)


@dataclass(frozen=True)
class InverseSensitivity(Reference):
    """The inverse sensitivity mechanism with any selection mechanism: the selector's own claims hold for any query.

    With the exponential mechanism epsilon-DP and epsilon^2/8-zCDP (differentialprivacy.org, 'Beyond Global Sensitivity
    via Inverse Sensitivity', Theorem 2), and |M(x) - f(x)| <= LS^k(x) with probability 1 - beta for k =
    floor((2 / epsilon) log(|Y| / beta)) (Theorem 4). The other selectors are those of its note 7; permute-and-flip is
    never less accurate (McKenna and Sheldon 2020, Theorem 2).

    >>> mechanism = InverseSensitivity(1.0, MedianLosses((1, 2, 3)))
    >>> np.exp(mechanism((1, 2, 2)).log_probabilities).round(3).tolist(), mechanism.reach(0.5)
    ([0.307, 0.506, 0.186], 3)
    >>> [str(claim) for claim in mechanism.claims]
    ['1-DP', '0.125-zCDP']
    """

    epsilon: float
    query: Losses  # what is asked
    # ``selector(epsilon, utilities) -> mechanism``: `ExponentialMechanism`, `PermuteAndFlip`, `NoisyMaxLaplace`,
    # `NoisyMaxExponential`, `NoisyMaxGumbel` or `GapMax`, whose gap has sensitivity 1 here as the least loss is 0
    selector: Callable[[float, Utilities], Reference] = ExponentialMechanism

    name: ClassVar[str] = "inverse sensitivity"

    @cached_property
    def selection(self) -> Reference:
        return self.selector(self.epsilon, self.query)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return self.selection.claims

    @property
    def adjacency(self) -> Adjacency:
        return self.query.adjacency

    def reach(self, beta: float) -> int:
        """k of Theorem 4: how many changes the answer may be off, but for probability beta in (0, 1)."""
        size = len(self.query.candidates)
        return math.floor(2.0 / self.epsilon * math.log(size / fraction(beta, "beta", open_below=True)))

    def __call__(self, dataset: Any) -> OutputDistribution:
        return self.selection(dataset)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """The query's own pairs; for a selector that may refuse, a lead near its threshold."""
        refuses = isinstance(self.claim, ApproxDP)
        return tuple(self.selection.worst_pairs() if refuses else self.query.pairs)
