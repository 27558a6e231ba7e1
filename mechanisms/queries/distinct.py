"""The number of distinct values, where each record holds one: few records may carry many of them, or none.

Records are hashable; only how often each occurs matters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from epsaudit.errors import AuditError
from epsaudit.mechanisms.queries import grid as grids
from epsaudit.mechanisms.queries.grid import Indices
from epsaudit.mechanisms.queries.monotone import Dataset, MonotoneQuery, records


@dataclass(frozen=True)
class DistinctValues(MonotoneQuery):
    """How many different values records hold, one each, rounded up to the grid of outputs.

    The fewest removals that leave y values remove the holders of the rarest values first. Its global sensitivity is 1
    on a grid of all counts: Laplace noise would do. It stands here because its losses are not those of an order
    statistic: what one record contributes depends on who else is there.

    Raises `AuditError` if the grid begins below 0, or a record is NaN, which differs from itself.

    Examples
    --------
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
        """See `MonotoneQuery.least_answers`: the holders of the commonest values stay longest."""
        holders = sorted(self._holders(dataset).values(), reverse=True)
        ranks = [grids.rank(self.grid, distinct) for distinct in range(1, len(holders) + 1)]
        return np.concatenate([np.zeros(1, np.uint64), np.repeat(np.array(ranks, np.uint64), np.array(holders, int))])

    def greatest_answer(self, dataset: Dataset, joining: int) -> int:
        """See `MonotoneQuery.greatest_answer`: whoever joins brings a new value."""
        return grids.rank(self.grid, len(self._holders(dataset)) + joining)

    @property
    def global_sensitivity(self) -> float:
        """See `MonotoneQuery.global_sensitivity`: one value, rounded up to the grid."""
        return grids.greatest_rise(self.grid, 1)

    def crowd(self, loss: int) -> Dataset:
        """See `MonotoneQuery.crowd`: ``loss`` values held by one record each, a loss of ``loss`` - y at y."""
        return tuple(range(loss))

    def _holders(self, dataset: Dataset) -> Counter[object]:
        holders: Counter[object] = Counter(records(dataset))
        if any(value != value for value in holders):
            raise AuditError("A record is NaN, which differs from itself; distinct values need records that do not.")
        return holders
