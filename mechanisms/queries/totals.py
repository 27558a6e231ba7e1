"""Totals: the sum of non-negative numbers, and counts where each record holds many items.

Each record is one amount; amounts are added exactly, because a rounding error in a sum could move a loss by more than
the one record that privacy proofs allow for.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sized
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from epsaudit.errors import AuditError
from epsaudit.mechanisms.queries import grid as grids
from epsaudit.mechanisms.queries.grid import Grid, Indices
from epsaudit.mechanisms.queries.monotone import Dataset, MonotoneQuery, records


@dataclass(frozen=True)
class Sum(MonotoneQuery):
    """The sum of non-negative numbers, one a record, rounded up to the grid of outputs.

    The fewest removals that bring a sum down to y remove the largest numbers first. Removing k records lowers it by
    their numbers; an added record may raise it without bound unless ``most`` bounds what one may hold.

    Raises `AuditError` if the grid begins below 0, or a number is negative (the sum would not be monotone), NaN, or
    above ``most``.

    Examples
    --------
    >>> query = Sum(range(0, 101), most=20)
    >>> data = (1, 5, 10)
    >>> query.value(data), query.losses(data)[[0, 1, 6, 15, 16]].tolist()
    (16, [3, 2, 1, 1, 0])
    >>> query.down_sensitivity(data), query.local_sensitivity(data), query.global_sensitivity
    (10, 20, 20)
    """

    most: float = math.inf  # greatest number that a record may hold; with inf, all of Y is the sensitivity

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grid[0] < 0:
            raise AuditError(
                f"The grid begins at {self.grid[0]}; the sum of nobody is 0, so it must begin there or above."
            )
        if not self.most > 0:
            raise AuditError(f"most is {self.most!r}; it must be a number above 0.")

    def least_answers(self, dataset: Dataset) -> Indices:
        """See `MonotoneQuery.least_answers`: sums of the m least amounts."""
        amounts = sorted(self._amount(record) for record in records(dataset))
        return np.array([0, *_ranks_of_sums(self.grid, amounts)], dtype=np.uint64)

    def greatest_answer(self, dataset: Dataset, joining: int) -> int:
        """See `MonotoneQuery.greatest_answer`: whoever joins holds ``most``."""
        amounts = [self._amount(record) for record in records(dataset)]
        return [0, *_ranks_of_sums(self.grid, amounts + [self.most] * joining)][-1]

    @property
    def global_sensitivity(self) -> float:
        """See `MonotoneQuery.global_sensitivity`: ``most``, rounded up to the grid where that goes furthest."""
        return grids.greatest_rise(self.grid, self.most)

    def crowd(self, loss: int) -> Dataset:
        """See `MonotoneQuery.crowd`: ``loss`` records that hold the greatest output, or ``most`` if that is less."""
        return (min(self.grid[-1], self.most),) * loss

    def _amount(self, record: Any) -> Any:
        amount = self._held(record)
        if not amount >= 0:
            raise AuditError(f"A record holds {amount!r}; a sum is monotone for numbers of at least 0 only.")
        if amount > self.most:
            raise AuditError(f"A record holds {amount!r}; the most that one may hold is {self.most!r}.")
        return amount

    def _held(self, record: Any) -> Any:
        return record


@dataclass(frozen=True)
class Total(Sum):
    """How much all records hold together, where each holds a tuple of items: 'pages visited'.

    Privacy is for a whole record with all of its items, so that an added record may bring any number of them.

    Raises `AuditError` if a record is not a tuple or another collection of items, or as for `Sum`.

    Examples
    --------
    >>> pages = Total(range(0, 1000))
    >>> histories = (("a.org",), ("a.org", "b.org", "c.org"), ())
    >>> pages.value(histories), pages.losses(histories)[:5].tolist(), pages.local_sensitivity(histories)
    (4, [2, 1, 1, 1, 0], 995)
    """

    # ``amount(items) -> number`` of at least 0: by default how many there are; `sum` adds them up
    amount: Callable[[Any], float] = len

    def crowd(self, loss: int) -> Dataset:
        """See `MonotoneQuery.crowd`: ``loss`` records that hold the greatest output, as unnamed items."""
        if self.amount is sum:
            return ((min(self.grid[-1], self.most),),) * loss
        return ((None,) * math.floor(min(self.grid[-1], self.most)),) * loss

    def _held(self, record: Any) -> Any:
        if isinstance(record, (str, bytes)) or not isinstance(record, Sized):
            raise AuditError(f"A record is {record!r}; each record holds a tuple of items.")
        return self.amount(record)


def _ranks_of_sums(grid: Grid, amounts: list[Any]) -> list[int]:
    """Rank in the grid of the sum of the first m amounts, m = 1 ... n, exactly."""
    finite = [amount for amount in amounts if amount < math.inf]
    ratios = [amount.as_integer_ratio() for amount in finite]
    unit = math.lcm(*{denominator for _, denominator in ratios})
    totals = accumulate(numerator * (unit // denominator) for numerator, denominator in ratios)
    rank = _rank_of_ratio if unit > 1 else _rank_of_whole
    ranks = [rank(grid, total, unit) for total in totals]
    first_infinite = next((place for place, amount in enumerate(amounts) if not amount < math.inf), len(amounts))
    return ranks[:first_infinite] + [grids.size(grid) - 1] * (len(amounts) - first_infinite)


def _rank_of_whole(grid: Grid, total: int, unit: int) -> int:
    return grids.rank(grid, total)


def _rank_of_ratio(grid: Grid, total: int, unit: int) -> int:
    """Rank of total / unit: found for the nearest float, and corrected where that float is a point of the grid."""
    if isinstance(grid, range):
        return grids.rank(grid, -(-total // unit))
    try:
        place = bisect_left(grid, total / unit)
    except OverflowError:
        return len(grid) - 1
    if place < len(grid) - 1 and grid[place] == total / unit:
        numerator, denominator = grid[place].as_integer_ratio()
        place += total * denominator > numerator * unit
    return min(place, len(grid) - 1)
