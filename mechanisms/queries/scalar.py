"""Monotone queries whose answer is a number: order statistics, distinct values, sums and totals, all exact."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sized
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.queries import grid as grids
from epsaudit.mechanisms.queries.grid import Grid, Indices
from epsaudit.mechanisms.queries.monotone import Dataset, MonotoneQuery, records


@dataclass(frozen=True)
class KthLargest(MonotoneQuery):
    """The k-th largest record, rounded up to the grid of outputs; with fewer than k records its least point.

    Its loss at y is #{x_i > y} - (k - 1), or 0. If up to k - 1 records join, the local sensitivity is still bounded by
    the data; k records can raise the answer to the greatest output.

    Raises `AuditError` if the grid is wrong, k is not a whole number of at least 1, or a record is NaN.

    >>> query = KthLargest((0, 1, 2, 3), place=2)
    >>> query.value((1, 1, 2.5)), query.losses((1, 1, 2.5)).tolist(), query.local_sensitivity((1, 1, 2.5), k=1)
    (1, [2, 0, 0, 0], 2)
    """

    place: int = 1  # k, at least 1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.place, 1, "place")

    def least_answers(self, dataset: Dataset) -> Indices:
        """See `MonotoneQuery.least_answers`: the k-th largest of the least m records."""
        ranks = np.sort(np.array([self._rank(record) for record in records(dataset)], dtype=np.uint64))
        fewer = min(self.place, len(ranks) + 1)
        return np.concatenate([np.zeros(fewer, dtype=np.uint64), ranks[: len(ranks) + 1 - fewer]])

    def greatest_answer(self, dataset: Dataset, joining: int) -> int:
        if joining >= self.place:
            return self.size - 1
        ranks = sorted((self._rank(record) for record in records(dataset)), reverse=True)
        place = self.place - joining
        return ranks[place - 1] if place <= len(ranks) else 0

    @property
    def global_sensitivity(self) -> float:
        return self._difference(self.size - 1, 0)

    def crowd(self, loss: int) -> Dataset:
        """See `MonotoneQuery.crowd`: k - 1 + ``loss`` records at the greatest output."""
        return (self.grid[-1],) * (self.place - 1 + loss)

    def _rank(self, record: Any) -> int:
        if record != record:
            raise AuditError("A record is NaN; order statistics need records that can be ordered.")
        return grids.rank(self.grid, record)


@dataclass(frozen=True)
class Maximum(KthLargest):
    """The greatest record, rounded up to the grid of outputs; records above the grid count as its last point.

    Raises `AuditError` if the grid has fewer than two points or does not increase, or if a record is NaN.

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


@dataclass(frozen=True)
class DistinctValues(MonotoneQuery):
    """Number of different values among the records, one value per record, rounded up to the grid of outputs.

    The fewest removals that leave y values remove the holders of the rarest values first, so the contribution of one
    record depends on the others. Raises `AuditError` if the grid begins below 0, or a record is NaN.

    >>> query = DistinctValues(range(10))
    >>> data = ("red", "red", "red", "blue", "blue", "green")
    >>> query.value(data), query.losses(data)[:4].tolist(), query.down_sensitivity(data, k=3)
    (3, [6, 3, 1, 0], 2)
    >>> query.local_sensitivity(data), query.global_sensitivity
    (1, 1)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grid[0] < 0:
            raise AuditError(
                f"The grid begins at {self.grid[0]}; nobody holds 0 values, so it must begin there or above."
            )

    def least_answers(self, dataset: Dataset) -> Indices:
        """See `MonotoneQuery.least_answers`: the holders of the most common values stay longest."""
        holders = sorted(self._holders(dataset).values(), reverse=True)
        ranks = [grids.rank(self.grid, distinct) for distinct in range(1, len(holders) + 1)]
        return np.concatenate([np.zeros(1, np.uint64), np.repeat(np.array(ranks, np.uint64), np.array(holders, int))])

    def greatest_answer(self, dataset: Dataset, joining: int) -> int:
        return grids.rank(self.grid, len(self._holders(dataset)) + joining)

    @property
    def global_sensitivity(self) -> float:
        return grids.greatest_rise(self.grid, 1)

    def crowd(self, loss: int) -> Dataset:
        return tuple(range(loss))

    def _holders(self, dataset: Dataset) -> Counter[object]:
        holders: Counter[object] = Counter(records(dataset))
        if any(value != value for value in holders):
            raise AuditError("A record is NaN, which differs from itself; distinct values need records that do not.")
        return holders


@dataclass(frozen=True)
class Sum(MonotoneQuery):
    """The sum of non-negative numbers, one number per record, rounded up to the grid of outputs.

    The fewest removals that bring a sum down to y remove the largest numbers first. Removing k records lowers the sum
    by their numbers. An added record may raise it without bound, unless ``most`` bounds the number of a record.

    Raises `AuditError` if the grid begins below 0, or a number is negative (the sum would not be monotone), NaN, or
    above ``most``.

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
        """See `MonotoneQuery.least_answers`: the sums of the m least amounts."""
        amounts = sorted(self._amount(record) for record in records(dataset))
        return np.array([0, *_ranks_of_sums(self.grid, amounts)], dtype=np.uint64)

    def greatest_answer(self, dataset: Dataset, joining: int) -> int:
        amounts = [self._amount(record) for record in records(dataset)]
        return [0, *_ranks_of_sums(self.grid, amounts + [self.most] * joining)][-1]

    @property
    def global_sensitivity(self) -> float:
        return grids.greatest_rise(self.grid, self.most)

    def crowd(self, loss: int) -> Dataset:
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
    """Total amount of all records, where each record is a tuple of items: 'pages visited'.

    Privacy is for a whole record with all of its items, so an added record may bring any number of items.

    Raises `AuditError` if a record is not a tuple or another collection of items, or as for `Sum`.

    >>> pages = Total(range(0, 1000))
    >>> histories = (("a.org",), ("a.org", "b.org", "c.org"), ())
    >>> pages.value(histories), pages.losses(histories)[:5].tolist(), pages.local_sensitivity(histories)
    (4, [2, 1, 1, 1, 0], 995)
    """

    # ``amount(items) -> number`` of at least 0: by default the number of items; `sum` adds the items up
    amount: Callable[[Any], float] = len

    def crowd(self, loss: int) -> Dataset:
        if self.amount is sum:
            return ((min(self.grid[-1], self.most),),) * loss
        return ((None,) * math.floor(min(self.grid[-1], self.most)),) * loss

    def _held(self, record: Any) -> Any:
        if isinstance(record, (str, bytes)) or not isinstance(record, Sized):
            raise AuditError(f"A record is {record!r}; each record holds a tuple of items.")
        return self.amount(record)


def _ranks_of_sums(grid: Grid, amounts: list[Any]) -> list[int]:
    """Return the exact rank in the grid of the sum of the first m amounts, m = 1 ... n."""
    finite = [amount for amount in amounts if amount < math.inf]
    ratios = [amount.as_integer_ratio() for amount in finite]
    unit = math.lcm(*{denominator for _, denominator in ratios})
    totals = accumulate(numerator * (unit // denominator) for numerator, denominator in ratios)
    ranks = [_rank_of_ratio(grid, total, unit) for total in totals]
    first_infinite = next((place for place, amount in enumerate(amounts) if not amount < math.inf), len(amounts))
    return ranks[:first_infinite] + [grids.size(grid) - 1] * (len(amounts) - first_infinite)


def _rank_of_ratio(grid: Grid, total: int, unit: int) -> int:
    """Return the rank of total / unit: found for the nearest float, and corrected if this is a point of the grid."""
    if unit == 1 or isinstance(grid, range):
        return grids.rank(grid, -(-total // unit))
    try:
        place = bisect_left(grid, total / unit)
    except OverflowError:
        return len(grid) - 1
    if place < len(grid) - 1 and grid[place] == total / unit:
        numerator, denominator = grid[place].as_integer_ratio()
        place += total * denominator > numerator * unit
    return min(place, len(grid) - 1)
