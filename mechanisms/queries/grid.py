"""The finite ordered set Y of answers, as a tuple of numbers or as a range that may be longer than memory allows.

It converts numbers to indices into Y and back. Indices are unsigned 64-bit integers, so Y has up to 2^64 points.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError

Grid = tuple[float, ...] | range
Indices = NDArray[np.uint64]


def check(grid: Grid) -> None:
    """Raise `AuditError` unless the grid increases and has two points or more, in a range of one 64-bit type."""
    if isinstance(grid, range):
        last = grid[-1] if grid else 0
        if grid.step < 1 or size(grid) < 2 or grid.start < -(2**63) or last >= 2**64:
            raise AuditError(f"The grid is {grid}; it must increase, with at least two 64-bit integers.")
        if grid.start < 0 and last >= 2**63:
            raise AuditError(f"The grid is {grid}; its points must fit one 64-bit type, signed or unsigned.")
        return
    points = np.asarray(grid, float)
    if len(grid) < 2 or math.isinf(grid[0]) or not bool(np.all(points[1:] > points[:-1])):
        raise AuditError(f"The grid is {grid!r}; it must be an increasing tuple of at least two numbers.")


def size(grid: Grid) -> int:
    """Return the number of points; ``len`` of a range fails beyond 2^63."""
    if isinstance(grid, range):
        return max(0, -((grid.start - grid.stop) // grid.step))
    return len(grid)


def points_at(grid: Grid, indices: Indices) -> NDArray[Any]:
    """Return the points at the given indices, shape (m,)."""
    if not isinstance(grid, range):
        return np.array(grid)[indices]
    # unsigned arithmetic wraps round, so one formula serves negative starts as well
    points = np.uint64(grid.start % 2**64) + indices * np.uint64(grid.step)
    return points if grid[-1] >= 2**63 else points.astype(np.int64)


def indices_of(grid: Grid, points: NDArray[Any]) -> tuple[Indices, NDArray[np.bool_]]:
    """Return the index of each point, and whether it is in the grid (where it is not, the index means nothing)."""
    if not isinstance(grid, range):
        listed = np.array(grid)
        indices = np.minimum(np.searchsorted(listed, points), len(grid) - 1).astype(np.uint64)
        return indices, listed[indices] == points
    if points.dtype.kind == "f":
        raise AuditError("The outputs are floating-point numbers; a grid that is a range has integer outputs.")
    inside = (points >= grid.start) & (points <= grid[-1])
    offset = np.where(inside, points, 0).astype(np.uint64) - np.uint64(grid.start % 2**64)
    indices, remainder = np.divmod(offset, np.uint64(grid.step))
    return indices, inside & (remainder == 0)


def rank(grid: Grid, value: Any) -> int:
    """Return the index of the least point at or above a real number; that of the last point if there is none.

    >>> rank((0, 1, 2), 0.5), rank((0, 1, 2), 99), rank(range(2**64), 2**64 - 2) == 2**64 - 2
    (1, 2, True)
    """
    if not value > grid[0]:
        return 0
    if not value < grid[-1]:
        return size(grid) - 1
    if isinstance(grid, range):
        return int(-((grid.start - math.ceil(value)) // grid.step))
    return bisect_left(grid, value)


def greatest_rise(grid: Grid, rise: float) -> float:
    """Return the greatest rise of the rounded value of a number at least 0 that rises by ``rise``.

    The number is rounded up to the grid. It rises most from a point of the grid. The computation is for grids that
    begin at 0 or above.
    """
    whole: float = grid[-1] - grid[0]
    if not rise < whole:
        return whole
    if isinstance(grid, range):
        return min(whole, math.ceil(rise / grid.step) * grid.step)
    points = np.asarray(grid, float)
    after = np.minimum(np.searchsorted(points, points + rise), len(grid) - 1)
    steps = points[after[:-1]] - points[:-1]
    best = int(np.argmax(steps))
    return grid[int(after[best])] - grid[best]
