"""Losses of any function of a few records, by enumeration: for inverse sensitivity where no formula is known.

The module is separate because this is the only loss that examines all datasets, which restricts it to small data.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.inverse_sensitivity import Losses

MOST_DATASETS = 10_000
"""[time] Largest number of enumerated datasets: the search for the worst pair among 6,435 datasets takes 10 seconds."""


@dataclass(frozen=True)
class EnumeratedLosses(Losses):
    """Losses of any function on all multisets of ``size`` records from a finite universe, under substitution.

    l(x, y) is the fewest records of x that must be replaced to reach a dataset with the answer y (Equation 4 of
    differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity'). The search examines every
    dataset. The function is given a tuple whose records are in the order of ``universe``, so that it cannot depend on
    their order. The candidates are its answers, in increasing order, and so each of them is reached.

    Raises `AuditError` if the universe has fewer than two records or one of them twice, if there are more than 10,000
    datasets, if the function has only one answer or one that is not finite, or if a dataset has another size or a
    record that is not in the universe.

    >>> query = EnumeratedLosses(lambda records: max(records) - min(records), (0, 1, 2, 3), size=3)
    >>> query.candidates, query.losses((0, 1, 3)).tolist(), query.local_sensitivity((0, 1, 3), 1)
    ((0, 1, 2, 3), [2, 1, 1, 0], 2.0)
    """

    function: Callable[[tuple[Any, ...]], float]  # dataset to a finite number
    universe: tuple[Hashable, ...]  # all possible records, at least two and all different
    size: int  # number of records in every dataset
    adjacency = Substitution()

    def __post_init__(self) -> None:
        whole_at_least(self.size, 1, "number of records")
        if len(self.universe) < 2 or len(set(self.universe)) != len(self.universe):
            raise AuditError(f"The universe is {self.universe!r}; it must be at least two records, all different.")
        datasets = math.comb(len(self.universe) + self.size - 1, self.size)
        if datasets > MOST_DATASETS:
            raise AuditError(
                f"There are {datasets:,} datasets of {self.size} records from {len(self.universe)}; at most "
                f"{MOST_DATASETS:,} can be enumerated. Give fewer records or a smaller universe."
            )

    @cached_property
    def datasets(self) -> tuple[tuple[Hashable, ...], ...]:
        """All multisets of ``size`` records, each in the order of the universe."""
        return tuple(itertools.combinations_with_replacement(self.universe, self.size))

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The function's answer on each of `datasets`, shape (datasets,)."""
        values = np.array([self.function(dataset) for dataset in self.datasets], float)
        if not np.all(np.isfinite(values)) or len(np.unique(values)) < 2:
            raise AuditError(
                f"The function has {len(np.unique(values))} different answers on {len(values)} datasets; it must have "
                "at least two, and all of them must be finite."
            )
        return values

    @cached_property
    def candidates(self) -> tuple[Any, ...]:  # type: ignore[override]  # computed once
        """All answers, in increasing order."""
        whole = np.all(self.values == np.round(self.values))
        return tuple(int(value) if whole else float(value) for value in np.unique(self.values))

    @cached_property
    def pairs(self) -> tuple[DatasetPair, ...]:  # type: ignore[override]  # computed once
        """The neighbours that the exponential mechanism with epsilon = 1 tells apart best; the first such pair."""
        tables = self._tables
        log_weights = -0.5 * tables
        log_p = log_weights - np.logaddexp.reduce(log_weights, axis=1, keepdims=True)
        best, found = -1.0, (0, 1)
        for place in range(len(self.datasets)):
            others = self._neighbours(place)
            losses = np.abs(log_p[others] - log_p[place]).max(axis=1)
            if len(others) and losses.max() > best + 1e-12:
                best, found = float(losses.max()), (place, int(others[np.argmax(losses)]))
        return (self._pair(*found),)

    def value(self, dataset: Sequence[Hashable]) -> Any:
        return self.candidates[int(np.searchsorted(self.candidates, self.values[self._place(dataset)]))]

    def losses(self, dataset: Sequence[Hashable]) -> NDArray[np.int64]:
        self._place(dataset)
        return self._losses(self._distances(self._count(dataset)))

    def local_sensitivity(self, dataset: Sequence[Hashable], changes: int) -> float:
        """Return the local sensitivity; see `Losses.local_sensitivity`."""
        near = self._distances(self._count(dataset)) <= whole_at_least(changes, 0, "number of changes")
        return float(np.abs(self.values[near] - self.values[self._place(dataset)]).max())

    def lead(self, gap: int) -> DatasetPair:
        """See `epsaudit.mechanisms.queries.Utilities.lead`: the second least loss falls from ``gap`` to ``gap - 1``.

        Raises `AuditError` if no two neighbours have these losses.
        """
        gap = whole_at_least(gap, 1, "gap between the candidates")
        second = np.sort(self._tables, axis=1)[:, 1]
        for place in np.flatnonzero(second == gap):
            others = self._neighbours(int(place), both=True)
            closer = others[second[others] == gap - 1] if gap > 1 else others[self.values[others] != self.values[place]]
            if len(closer):
                return self._pair(int(place), int(closer[0]))
        raise AuditError(
            f"No dataset of {self.size} records has a second least loss of {gap} and a neighbour with less."
        )

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """Number of times that each dataset holds each record, shape (datasets, universe)."""
        return np.array([self._count(dataset) for dataset in self.datasets])

    @cached_property
    def _tables(self) -> NDArray[np.int64]:
        """Losses of all datasets, shape (datasets, candidates)."""
        return np.array([self._losses(self._distances(counts)) for counts in self._counts])

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        return {tuple(counts): place for place, counts in enumerate(self._counts.tolist())}

    def _place(self, dataset: Sequence[Hashable]) -> int:
        counts = tuple(self._count(dataset).tolist())
        if counts not in self._places or len(dataset) != self.size:
            raise AuditError(
                f"The dataset is {dataset!r}; it must have {self.size} records, all of them in the universe of "
                f"{len(self.universe)}."
            )
        return self._places[counts]

    def _count(self, dataset: Sequence[Hashable]) -> NDArray[np.int64]:
        counts = Counter(dataset)
        return np.array([counts[record] for record in self.universe], dtype=np.int64)

    def _distances(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fewest substitutions from a dataset with these counts to each of `datasets`, shape (datasets,)."""
        return np.asarray(np.abs(self._counts - counts).sum(axis=1) // 2)

    def _losses(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([distances[self.values == candidate].min() for candidate in self.candidates], dtype=np.int64)

    def _neighbours(self, place: int, both: bool = False) -> NDArray[np.intp]:
        """Return the places of the datasets one substitution away; unless ``both``, only those after this dataset."""
        found = np.flatnonzero(self._distances(self._counts[place]) == 1)
        return found if both else found[found > place]

    def _pair(self, place: int, other: int) -> DatasetPair:
        x, x_prime = self.datasets[place], self.datasets[other]
        return DatasetPair(x, x_prime, f"{self._shown(place)} against {self._shown(other)}")

    def _shown(self, place: int) -> str:
        return ", ".join(map(str, self.datasets[place]))


def interquartile_range(records: tuple[Any, ...]) -> float:
    """Return the upper quartile of numbers minus the lower quartile, both of them order statistics.

    Of n sorted records x[0], ..., x[n - 1] the quartiles are x[floor(n / 4)] and x[n - 1 - floor(n / 4)].

    >>> interquartile_range((0, 1, 2, 3, 9))
    2.0
    """
    ordered = sorted(records)
    cut = len(ordered) // 4
    return float(ordered[len(ordered) - 1 - cut] - ordered[cut])
