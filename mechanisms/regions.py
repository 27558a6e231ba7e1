"""Tukey's depth regions of points on the line and in the plane: intervals and convex polygons, nested.

The depth of y is the least number of points in a closed half-line or half-plane that contains y; the region of depth a
is the intersection of all closed ones that hold more than n - a points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsaudit.mechanisms.laws import Floats


@dataclass(frozen=True)
class Interval:
    """The interval from ``low`` to ``high``, empty if they are in the wrong order.

    >>> Interval(0.0, 2.0).meet(Interval(1.0, 5.0)).volume
    1.0
    """

    low: float
    high: float

    @property
    def volume(self) -> float:
        return max(self.high - self.low, 0.0)

    def meet(self, other: Interval) -> Interval:
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def contains(self, points: Floats) -> NDArray[np.bool_]:
        return np.asarray((self.low <= points[:, 0]) & (points[:, 0] <= self.high))

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` uniform points, shape (size, 1)."""
        return rng.uniform(self.low, self.high, (size, 1))


@dataclass(frozen=True, eq=False)
class Polygon:
    """A convex polygon given by its corners, anticlockwise, shape (corners, 2); empty with fewer than three.

    >>> square = Polygon(np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]]))
    >>> square.volume, square.meet(Polygon(square.corners + 1.0)).volume
    (4.0, 1.0)
    """

    corners: Floats

    @cached_property
    def volume(self) -> float:
        return float(self._triangles.sum())

    @cached_property
    def _triangles(self) -> Floats:
        """Areas of the triangles from the first corner to each edge but its own two."""
        if len(self.corners) < 3:
            return np.zeros(0)
        sides = self.corners[1:] - self.corners[0]
        return np.asarray(np.maximum(sides[:-1, 0] * sides[1:, 1] - sides[:-1, 1] * sides[1:, 0], 0.0) / 2.0)

    def cut(self, normal: Floats, offset: float) -> Polygon:
        if len(self.corners) == 0:
            return self
        above = self.corners @ normal - offset
        if (above <= 0.0).all():
            return self
        following, after = np.roll(self.corners, -1, axis=0), np.roll(above, -1)
        crosses = (above < 0.0) & (after > 0.0) | (above > 0.0) & (after < 0.0)
        share = above / np.where(crosses, above - after, 1.0)
        crossing = self.corners + share[:, None] * (following - self.corners)
        both = np.stack([self.corners, crossing], axis=1).reshape(-1, 2)
        return Polygon(both[np.stack([above <= 0.0, crosses], axis=1).ravel()])

    def meet(self, other: Polygon) -> Polygon:
        common = self if len(other.corners) >= 3 else Polygon(np.zeros((0, 2)))
        for start, end in zip(other.corners, np.roll(other.corners, -1, axis=0), strict=True):
            normal = np.array([end[1] - start[1], start[0] - end[0]])
            common = common.cut(normal, float(normal @ start))
        return common

    def contains(self, points: Floats) -> NDArray[np.bool_]:
        inside = np.full(len(points), len(self.corners) >= 3)
        for start, end in zip(self.corners, np.roll(self.corners, -1, axis=0), strict=True):
            side = (end[0] - start[0]) * (points[:, 1] - start[1]) - (end[1] - start[1]) * (points[:, 0] - start[0])
            inside &= side >= -1e-12 * self.volume
        return inside

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` uniform points, shape (size, 2): a triangle of the fan, then a point in it."""
        places = np.searchsorted(np.cumsum(self._triangles)[:-1] / self.volume, rng.random(size), side="right")
        first, second = self.corners[1:-1][places], self.corners[2:][places]
        u, v = np.sqrt(rng.random((size, 1))), rng.random((size, 1))
        return np.asarray((1.0 - u) * self.corners[0] + u * ((1.0 - v) * first + v * second))


Region = Interval | Polygon


def depth_regions(points: Floats) -> list[Region]:
    """Return the regions of depth 1, 2, ... of points of shape (n, 1) or (n, 2), as far as they have a volume.

    In the plane the edges lie on lines through two points, each of which is looked at once: O(n^3) time.

    >>> depth_regions(np.array([[1.0], [2.0], [4.0], [8.0]]))
    [Interval(low=1.0, high=8.0), Interval(low=2.0, high=4.0)]
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.4]])
    >>> [round(region.volume, 3) for region in depth_regions(square)]
    [1.0, 0.005]
    """
    if points.shape[1] == 1:
        x = np.sort(points[:, 0])
        return [Interval(float(a), float(b)) for a, b in zip(x, x[::-1], strict=True) if a < b]
    centre = points.mean(axis=0)
    size = np.abs(points - centre).max()
    if size == 0.0:
        return []
    normals, offsets, beyond = _lines((points - centre) / size)
    region = Polygon(np.array([[-2.0, -2.0], [2.0, -2.0], [2.0, 2.0], [-2.0, 2.0]]))
    regions: list[Region] = []
    for outside in range(len(points)):
        region = _cut_by_all(region, normals[beyond == outside], offsets[beyond == outside])
        if region.volume <= 1e-14:
            break
        regions.append(Polygon(centre + size * region.corners))
    return regions


def _cut_by_all(region: Polygon, normals: Floats, offsets: Floats) -> Polygon:
    """Cut by one half-plane after the other, the one that cuts deepest first; those that no longer cut are skipped."""
    while len(normals) and len(region.corners):
        depths = (region.corners @ normals.T - offsets).max(axis=0)
        deepest = int(np.argmax(depths))
        if depths[deepest] <= 1e-14:
            break
        region = region.cut(normals[deepest], float(offsets[deepest]))
        cutting = depths > 1e-14
        cutting[deepest] = False
        normals, offsets = normals[cutting], offsets[cutting]
    return region


def _lines(points: Floats) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Half-planes normal . y <= offset whose line goes through two points, and the number of points outside of each."""
    normals, offsets, beyond = [], [], []
    for start in points:
        steps = points - start
        lengths = np.hypot(*steps.T)
        apart = lengths > 1e-12
        normals.append(np.column_stack([steps[:, 1], -steps[:, 0]])[apart] / lengths[apart, None])
        offsets.append(normals[-1] @ start)
        beyond.append((normals[-1] @ steps.T > 1e-12).sum(axis=1))
    return np.concatenate(normals), np.concatenate(offsets), np.concatenate(beyond)
