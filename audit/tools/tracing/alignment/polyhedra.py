"""The question whether shifted draws of one path can follow another path: whether two polyhedra share interior points.

The polyhedron of a path is given by the intervals of linear combinations of its draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog

Key = tuple[tuple[int, float], ...]
Intervals = Mapping[Key, tuple[float, float]]
"""The interval of each linear combination of draws. The first weight of a combination is 1."""
EMPTY_MARGIN = 1e-9
"""[formula] Width, in units of the smallest scale of noise, below which an intersection counts as empty: ten times the
tolerance of the solver. Noise of this scale lies in such an interval with probability 1e-9 at most."""


def intersect(intervals: Intervals, amounts: Sequence[float], others: Intervals, unit: float = 1.0) -> bool:
    """Return whether draws that satisfy ``intervals`` can satisfy ``others`` after they are shifted by ``amounts``.

    Both are intervals of linear combinations of draws. ``unit`` is the smallest scale of the draws.
    """
    if unit != 1.0:
        intervals, others = (
            {key: (low / unit, high / unit) for key, (low, high) in some.items()} for some in (intervals, others)
        )
        amounts = [one / unit for one in amounts]
    shifted = {}
    for key, (low, high) in intervals.items():
        by = sum(weight * amounts[draw] for draw, weight in key if draw < len(amounts))
        shifted[key] = low + by, high + by
        start, end = others.get(key, (-math.inf, math.inf))
        if min(high + by, end) - max(low + by, start) <= EMPTY_MARGIN:
            return False
    conditions = [*upper_bounds(shifted), *upper_bounds(others)]
    if not conditions:
        return True
    if all(_is_difference(key) for key, _, _ in conditions):
        return _has_interior_by_paths(conditions)
    return _has_interior_by_program(conditions)


LinearBound = tuple[Key, float, float]
"""A linear combination of draws, a sign and a number: the combination times the sign is at most the number."""


def upper_bounds(intervals: Intervals) -> Iterable[LinearBound]:
    """Yield the finite ends of intervals as upper bounds on linear combinations, with a sign for lower ends."""
    for key, (low, high) in intervals.items():
        if high < math.inf:
            yield key, 1.0, high
        if low > -math.inf:
            yield key, -1.0, -low


def _is_difference(key: Key) -> bool:
    """Return whether a linear combination is one draw, or one draw minus another one."""
    return len(key) == 1 or (len(key) == 2 and key[1][1] == -1.0)


def _has_interior_by_paths(conditions: Sequence[LinearBound]) -> bool:
    """Return whether draws can satisfy upper bounds on single draws and on differences of two draws.

    A bound on z_i - z_j is an edge from j to i in a graph. The bounds can be satisfied unless a cycle has a negative
    length (Cormen, Leiserson, Rivest and Stein, Theorem 24.9), which the algorithm of Floyd and Warshall finds. The
    first node stands for the number 0.
    """
    n = 2 + max(draw for key, _, _ in conditions for draw, _ in key)
    lengths = np.full((n, n), math.inf)
    for key, sign, limit in conditions:
        target, source = key[0][0] + 1, key[1][0] + 1 if len(key) == 2 else 0
        if sign < 0.0:
            target, source = source, target
        lengths[source, target] = min(lengths[source, target], limit - EMPTY_MARGIN)
    np.fill_diagonal(lengths, 0.0)
    for middle in range(n):
        np.minimum(lengths, lengths[:, middle, None] + lengths[None, middle], out=lengths)
    return bool(np.all(np.diagonal(lengths) >= 0.0))


def _has_interior_by_program(conditions: Sequence[LinearBound]) -> bool:
    """Return whether draws can satisfy upper bounds on linear combinations with a positive margin.

    A linear program computes the largest margin.
    """
    n = 1 + max(draw for key, _, _ in conditions for draw, _ in key)
    rows = np.zeros((len(conditions), n + 1))
    rows[:, -1] = 1.0
    for row, (key, sign, _) in zip(rows, conditions, strict=True):
        for draw, weight in key:
            row[draw] = sign * weight
    limits = np.array([limit for _, _, limit in conditions])
    cost = np.zeros(n + 1)
    cost[-1] = -1.0
    answer: Any = linprog(cost, A_ub=rows, b_ub=limits, bounds=[(None, None)] * n + [(None, 1.0)], method="highs")
    return bool(answer.status != 0 or -answer.fun > EMPTY_MARGIN)
