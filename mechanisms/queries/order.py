"""Order statistics counted from above: the maximum, whose local sensitivity is unbounded, and the k-th largest record.

Records are of any ordered type; the queries work on their sorted ranks in Y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.queries import grid as grids
from epsaudit.mechanisms.queries.grid import Indices
from epsaudit.mechanisms.queries.monotone import Dataset, MonotoneQuery, records


@dataclass(frozen=True)
class KthLargest(MonotoneQuery):
    """The k-th largest record, rounded up to the grid of outputs; its least point where there are fewer than k.

    Its loss at y is #{x_i > y} - (k - 1), or 0. Up to k - 1 records more leave its local sensitivity bounded by the
    data; k records can raise it to the greatest output.

    Raises `AuditError` if the grid is wrong, k is no whole number of at least 1, or a record is NaN.

    Examples
    --------
    >>> query = KthLargest((0, 1, 2, 3), place=2)
    >>> query.value((1, 1, 2.5)), query.losses((1, 1, 2.5)).tolist(), query.local_sensitivity((1, 1, 2.5), k=1)
    (1, [2, 0, 0, 0], 2)
    """

    place: int = 1  # k, at least 1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.place, 1, "place")

    def least_answers(self, dataset: Dataset) -> Indices:
        """See `MonotoneQuery.least_answers`: the least m records, k-th from above."""
        ranks = np.sort(np.array([self._rank(record) for record in records(dataset)], dtype=np.uint64))
        fewer = min(self.place, len(ranks) + 1)
        return np.concatenate([np.zeros(fewer, dtype=np.uint64), ranks[: len(ranks) + 1 - fewer]])

    def greatest_answer(self, dataset: Dataset, joining: int) -> int:
        """See `MonotoneQuery.greatest_answer`: whoever joins counts as the greatest output."""
        if joining >= self.place:
            return self.size - 1
        ranks = sorted((self._rank(record) for record in records(dataset)), reverse=True)
        place = self.place - joining
        return ranks[place - 1] if place <= len(ranks) else 0

    @property
    def global_sensitivity(self) -> float:
        """See `MonotoneQuery.global_sensitivity`: all of Y, where k - 1 records are at the top and one more joins."""
        return self._difference(self.size - 1, 0)

    def crowd(self, loss: int) -> Dataset:
        """See `MonotoneQuery.crowd`: k - 1 and ``loss`` more records at the greatest output."""
        return (self.grid[-1],) * (self.place - 1 + loss)

    def _rank(self, record: Any) -> int:
        if record != record:
            raise AuditError("A record is NaN; order statistics need records that can be ordered.")
        return grids.rank(self.grid, record)


@dataclass(frozen=True)
class Maximum(KthLargest):
    """The greatest record, rounded up to the grid of outputs; records above the grid count as its last point.

    Raises `AuditError` if the grid has fewer than two points or does not increase, or if a record is NaN.

    Examples
    --------
    >>> query = Maximum((0, 1, 2, 3))
    >>> query.value((1, 1, 2.5)), query.losses((1, 1, 2.5)).tolist(), query.strict_losses((1, 1, 2.5)).tolist()
    (3, [3, 1, 1, 0], [inf, 3.0, 1.0, 1.0])
    >>> query.down_sensitivity((1, 1, 2.5)), Maximum((0, 1, float("inf"))).local_sensitivity((1,))
    (2, inf)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.place != 1:
            raise AuditError(f"place is {self.place}; the maximum is the first. Use KthLargest for another.")
