"""Monotone queries, whose answer can only rise when records are added, and the monotone hull of any function.

A query computes the staircase of least answers. The answer, the losses and the down sensitivity follow from it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.queries import grid as grids
from epsaudit.mechanisms.queries.grid import Grid, Indices

Dataset = Sequence[Hashable]
LossCurve = Callable[[Indices], NDArray[np.int64]]


@dataclass(frozen=True)
class MonotoneQuery(ABC):
    """A query f with answers in a finite ordered set Y = {y_0 < y_1 < ...}, which added records can only raise.

    f(x') <= f(x) for every sub-multiset x' of x, and f(empty) = y_0. Its loss l(x, y) is the least number of records
    whose removal brings f down to y or below (differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity',
    Equation 4); neighbours under add/remove have losses within 1 of each other (Proposition 3).

    Everything follows from the staircase h_m = min {f(x~): x~ a sub-multiset of x with m records}, m = 0 ... n, which
    does not decrease because f is monotone: l(x, y) = n - max {m: h_m <= y} = #{m >= 1: h_m > y}, and DS^k(x) = f(x)
    - h_{n-k}.

    Outputs are addressed by index, so that Y need not fit into memory: up to 2^64 outputs.

    Raises `AuditError` if the grid has fewer than two points or does not increase.
    """

    # Y in increasing order. Answers are rounded up to a point of Y, and answers above Y count as its last point, which
    # may be infinite. A range may be longer than memory allows
    grid: Grid

    def __post_init__(self) -> None:
        grids.check(self.grid)

    @abstractmethod
    def least_answers(self, dataset: Dataset) -> Indices:
        """Return indices into Y of the least answer of any m records of the dataset, m = 0 ... n, shape (n + 1,).

        Raises `AuditError` for records on which the query is not monotone.
        """

    @abstractmethod
    def greatest_answer(self, dataset: Dataset, joining: int) -> int:
        """Return the index into Y of the greatest answer after up to ``joining`` more records have joined."""

    @property
    @abstractmethod
    def global_sensitivity(self) -> float:
        """Greatest change of f between neighbours, in the unit of f; it may be infinite."""

    @abstractmethod
    def crowd(self, loss: int) -> Dataset:
        """Return a dataset whose loss is ``loss``, or nearly so, at every output but the greatest.

        The crowds for ``loss`` and ``loss + 1`` are neighbours. Together they are the worst pair of every mechanism
        that sees the dataset only through its losses.
        """

    @property
    def size(self) -> int:
        return grids.size(self.grid)

    @property
    def outputs(self) -> NDArray[Any]:
        return self.outputs_at(self._all_indices())

    def outputs_at(self, indices: Indices) -> NDArray[Any]:
        """Return the outputs y_i at the given indices, which are unsigned 64-bit integers below ``size``."""
        return grids.points_at(self.grid, indices)

    def indices_of(self, outputs: NDArray[Any]) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the index of each output, and whether it is in Y; if not, the index is meaningless."""
        return grids.indices_of(self.grid, outputs)

    def value(self, dataset: Dataset) -> Any:
        return self.grid[int(self.least_answers(dataset)[-1])]

    def loss(self, dataset: Dataset) -> LossCurve:
        """Prepare the loss on one dataset: a function from indices i to l(dataset, y_i)."""
        return partial(_count_above, self.least_answers(dataset)[1:])

    def losses(self, dataset: Dataset) -> NDArray[np.int64]:
        """Return l(dataset, y) for every y in Y, shape (size,)."""
        return self.loss(dataset)(self._all_indices())

    def strict_losses(self, dataset: Dataset) -> NDArray[np.float64]:
        """Return the fewest removals that bring f strictly below y, for every y in Y, shape (size,).

        The number is infinite at the least y. Equation A of the source: below y_i means at most y_{i-1}, because Y
        is finite.
        """
        return made_strict(self.losses(dataset))

    def down_sensitivity(self, dataset: Dataset, k: int = 1) -> float:
        """Return the k-down sensitivity DS^k(dataset): the greatest fall of f by up to k removals (Equation 1)."""
        least = self.least_answers(dataset)
        removed = min(whole_at_least(k, 0, "k"), len(least) - 1)
        return self._difference(int(least[-1]), int(least[len(least) - 1 - removed]))

    def local_sensitivity(self, dataset: Dataset, k: int = 1) -> float:
        """Return the k-local sensitivity LS^k(dataset): the greatest change of f by up to k records (Equation 2).

        f is monotone, so it changes most where records only leave or only join. The result is infinite if f can reach
        an infinite output and has not reached it.
        """
        answer = int(self.least_answers(dataset)[-1])
        rise = self._difference(self.greatest_answer(dataset, whole_at_least(k, 0, "k")), answer)
        return max(self.down_sensitivity(dataset, k), rise)

    def _difference(self, index: int, lower: int) -> float:
        difference: float = self.grid[index] - self.grid[lower] if index != lower else 0
        return difference

    def _all_indices(self) -> Indices:
        if self.size > 2**24:
            raise AuditError(
                f"Y has {self.size} outputs; at most {2**24} can be listed. A binary search needs no list."
            )
        return np.arange(self.size, dtype=np.uint64)


def made_strict(losses: NDArray[np.int64]) -> NDArray[np.float64]:
    """Turn l at every y into lbar at every y: see `MonotoneQuery.strict_losses`."""
    return np.concatenate([[math.inf], losses[:-1]])


def records(dataset: Any) -> Any:
    """Iterate over records as Python objects, whether the dataset is a sequence or an array."""
    return dataset.tolist() if isinstance(dataset, np.ndarray) else dataset


def _count_above(least: Indices, indices: Indices) -> NDArray[np.int64]:
    return np.asarray(len(least) - np.searchsorted(least, indices, side="right"), dtype=np.int64)


MOST_PARTS = 2**16


@dataclass(frozen=True)
class MonotoneHull(MonotoneQuery):
    """f(x) = max {g(x~): x~ a sub-multiset of x}, rounded up to the grid of outputs, for any function g.

    Source: differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity', 'Monotonicity Assumption'. Its
    cost is one evaluation of g for every sub-multiset, of which there may be 2^16.

    Raises `AuditError` if a record is not in the domain, g is NaN somewhere, g(nobody) is above the least output, or
    the dataset has too many sub-multisets.

    The sum of x = (2, 3, -4) is 1, but records 2 and 3 alone have a sum of 5.

    >>> query = MonotoneHull(range(20), function=sum, domain=(-4, 2, 3))
    >>> query.value((2, 3, -4)), query.losses((2, 3, -4))[:6].tolist()
    (5, [2, 2, 1, 1, 1, 0])
    """

    function: Callable[[Any], float]  # g, a function of a tuple of records in the order of ``domain``
    domain: tuple[Hashable, ...]  # every possible record: what might be added

    def __post_init__(self) -> None:
        super().__post_init__()
        if grids.rank(self.grid, self._evaluate((0,) * len(self.domain))) > 0:
            raise AuditError(
                f"g(nobody) is {self.function(())!r}, above the least output {self.grid[0]!r}; the grid must begin "
                "there or above."
            )

    def least_answers(self, dataset: Dataset) -> Indices:
        """See `MonotoneQuery.least_answers`: the hull of every sub-multiset, least for each number of records."""
        hull = self._values(self._counts(dataset))
        for axis in range(hull.ndim):
            hull = np.maximum.accumulate(hull, axis=axis)
        records = np.sum(np.indices(hull.shape), axis=0)
        least = np.full(records.max() + 1, np.inf)
        np.minimum.at(least, records, hull)
        return np.array([grids.rank(self.grid, value) for value in least.tolist()], dtype=np.uint64)

    def greatest_answer(self, dataset: Dataset, joining: int) -> int:
        counts = self._counts(dataset)
        values = self._values([count + joining for count in counts])
        present = np.reshape(counts, (-1, *(1,) * len(counts)))
        joined = np.sum(np.maximum(np.indices(values.shape) - present, 0), axis=0)
        return grids.rank(self.grid, float(values[joined <= joining].max()))

    @property
    def global_sensitivity(self) -> float:
        """See `MonotoneQuery.global_sensitivity`: all of Y, the bound that needs to know nothing of g."""
        return self._difference(self.size - 1, 0)

    def crowd(self, loss: int) -> Dataset:
        return (max(self.domain, key=lambda record: self.function((record,))),) * loss

    def _counts(self, dataset: Dataset) -> list[int]:
        seen = Counter(records(dataset))
        for record in seen:
            if record not in self.domain:
                raise AuditError(f"A record is {record!r}; it must be one of {self.domain!r}.")
        return [seen[record] for record in self.domain]

    def _values(self, counts: list[int]) -> NDArray[np.float64]:
        """Return g of every sub-multiset, with one axis for each record of the domain."""
        shape = tuple(count + 1 for count in counts)
        if math.prod(shape) > MOST_PARTS:
            raise AuditError(f"The dataset has {math.prod(shape)} sub-multisets; at most {MOST_PARTS} can be tried.")
        return np.reshape([self._evaluate(counts) for counts in np.ndindex(shape)], shape)

    def _evaluate(self, counts: tuple[int, ...]) -> float:
        records = tuple(chain.from_iterable(map(repeat, self.domain, counts)))
        value = float(self.function(records))
        if math.isnan(value):
            raise AuditError(f"g({records!r}) is NaN; it must be a number.")
        return value
