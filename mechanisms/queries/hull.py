"""The monotone hull of any function of a small dataset, by enumeration of its sub-multisets.

The function need not be monotone: the greatest value on any part of the dataset always is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError
from epsaudit.mechanisms.queries import grid as grids
from epsaudit.mechanisms.queries.grid import Indices
from epsaudit.mechanisms.queries.monotone import Dataset, MonotoneQuery, records

MOST_PARTS = 2**16


@dataclass(frozen=True)
class MonotoneHull(MonotoneQuery):
    """f(x) = max {g(x~): x~ a sub-multiset of x}, rounded up to the grid of outputs, for any function g.

    Source: differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity', 'Monotonicity Assumption'. Its
    cost is one evaluation of g for every sub-multiset, of which there may be 2^16.

    Raises `AuditError` if a record is not in the domain, g is NaN somewhere, g(nobody) is above the least output, or
    the dataset has too many sub-multisets.

    Examples
    --------
    The sum of x = (2, 3, -4) is 1, but records 2 and 3 alone have a sum of 5.

    >>> query = MonotoneHull(range(20), function=sum, domain=(-4, 2, 3))
    >>> query.value((2, 3, -4)), query.losses((2, 3, -4))[:6].tolist()
    (5, [2, 2, 1, 1, 1, 0])
    """

    function: Callable[[Any], float]  # g, of a tuple of records, equal ones together, in the order of ``domain``
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
        """See `MonotoneQuery.greatest_answer`: every way of joining is tried."""
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
        """See `MonotoneQuery.crowd`: ``loss`` records with the record of which one has the greatest g."""
        return (max(self.domain, key=lambda record: self.function((record,))),) * loss

    def _counts(self, dataset: Dataset) -> list[int]:
        seen = Counter(records(dataset))
        for record in seen:
            if record not in self.domain:
                raise AuditError(f"A record is {record!r}; it must be one of {self.domain!r}.")
        return [seen[record] for record in self.domain]

    def _values(self, counts: list[int]) -> NDArray[np.float64]:
        """g of every sub-multiset, one axis for each record of the domain."""
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
