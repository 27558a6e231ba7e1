"""Losses of any function by enumeration: the slow oracle that inverse sensitivities are held against."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.inverse_sensitivity import Losses
from epsaudit.mechanisms.queries import Dataset


@dataclass(frozen=True)
class EnumeratedLosses(Losses):
    """Losses of any function on all multisets of a few records: distances to the datasets that have each answer.

    Answers may be vectors, as tuples. Sensitivities are those among the datasets that are enumerated: a few records in
    either direction of one that is far from the greatest size.

    Raises `AuditError` if there are more than 20,000 datasets, the relation is another one, or a dataset is none of
    them.
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
