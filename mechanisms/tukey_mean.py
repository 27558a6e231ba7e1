"""An exponential-time private mean: a point deep among Tukey's regions, if few changes leave the data stable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.array_types import Floats
from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.covariance_mean import as_records
from epsaudit.mechanisms.exact.losses import LossPair, Panels, merge_equal
from epsaudit.mechanisms.refusable_normal import ScoreTest


@dataclass(frozen=True)
class Interval:
    """The interval from ``low`` to ``high``, empty if they are in the wrong order."""

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
        """Draw ``size`` uniform points, shape (size, 2): first a triangle of the fan, then a point in it."""
        places = np.searchsorted(np.cumsum(self._triangles)[:-1] / self.volume, rng.random(size), side="right")
        first, second = self.corners[1:-1][places], self.corners[2:][places]
        u, v = np.sqrt(rng.random((size, 1))), rng.random((size, 1))
        return np.asarray((1.0 - u) * self.corners[0] + u * ((1.0 - v) * first + v * second))


Region = Interval | Polygon


def depth_regions(points: Floats) -> list[Region]:
    """Return the regions of depth 1, 2, ... of points of shape (n, 1) or (n, 2), as far as they have a volume.

    The depth of y is the least number of points in a closed half-line or half-plane that contains y. In the plane the
    edges lie on lines through two points; all lines are examined once, in O(n^3) time.

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
    """Cut by one half-plane after the other, the deepest cut first; half-planes that no longer cut are skipped."""
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
    """Return half-planes normal . y <= offset whose line contains two points, and the numbers of points outside."""
    normals, offsets, beyond = [], [], []
    for start in points:
        steps = points - start
        lengths = np.hypot(*steps.T)
        apart = lengths > 1e-12
        normals.append(np.column_stack([steps[:, 1], -steps[:, 0]])[apart] / lengths[apart, None])
        offsets.append(normals[-1] @ start)
        beyond.append((normals[-1] @ steps.T > 1e-12).sum(axis=1))
    return np.concatenate(normals), np.concatenate(offsets), np.concatenate(beyond)


@dataclass(frozen=True, eq=False)
class NestedLaw:
    """Density proportional to e^(rate i) on the i-th of nested regions, i = 0, 1, ..., or a refusal: a row of NaN."""

    regions: Sequence[Region]  # from the greatest to the smallest; may be empty if the law always refuses
    rate: float  # gain of the log-density from one region to the next inside
    dimension: int  # length of an output
    log_passes: float  # log_passes and log_refuses are the log-probabilities of an answer and of a refusal
    log_refuses: float

    @cached_property
    def volumes(self) -> Floats:
        return np.array([region.volume for region in self.regions])

    @cached_property
    def _shares(self) -> Floats:
        """Weights of the uniform laws on the regions, whose mixture this law is, and the sum of the weights."""
        heights = np.exp(self.rate * np.arange(len(self.regions)))
        return np.asarray(np.diff(heights, prepend=0.0) * self.volumes)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` outputs, shape (size, dimension)."""
        outputs = np.full((size, self.dimension), np.nan)
        answered = np.flatnonzero(rng.random(size) >= math.exp(self.log_refuses))
        if len(answered):
            places = rng.choice(len(self.regions), len(answered), p=self._shares / self._shares.sum())
            for place, region in enumerate(self.regions):
                here = answered[places == place]
                outputs[here] = region.sample(len(here), rng)
        return outputs

    def log_density(self, outputs: ArrayLike) -> Floats:
        rows = np.asarray(outputs, float)
        refused = np.isnan(rows).any(axis=1)
        depth = np.zeros(len(rows), int)
        for region in self.regions:
            depth += region.contains(rows)
        with np.errstate(divide="ignore"):
            height = self.rate * (depth - 1.0) - np.log(self._shares.sum())
        return np.where(refused, self.log_refuses, np.where(depth > 0, self.log_passes + height, -np.inf))

    def loss_against(self, other: object) -> LossPair | None:
        if not isinstance(other, NestedLaw):
            return None
        ours, theirs = len(self.regions), len(other.regions)
        met = np.zeros((ours + 2, theirs + 2))  # volume in at least i of ours and j of theirs
        met[1 : ours + 1, 0], met[0, 1 : theirs + 1] = self.volumes, other.volumes
        for i, region in enumerate(self.regions):
            met[i + 1, 1 : theirs + 1] = [region.meet(another).volume for another in other.regions]
        cells = met[:-1, :-1] - met[1:, :-1] - met[:-1, 1:] + met[1:, 1:]
        cells[0, 0] = 0.0
        tiny = 1e-13 * max(met[1:, 0].max(initial=0.0), met[0, 1:].max(initial=0.0))
        with np.errstate(divide="ignore"):
            volumes = np.log(np.where(cells > tiny, cells, 0.0))
            heights = self._heights()[:, None] + volumes, other._heights()[None, :] + volumes
        atoms = np.stack(
            [np.append(height, one.log_refuses) for height, one in zip(heights, (self, other), strict=True)]
        )
        atoms = atoms[:, ~np.isneginf(atoms).all(axis=0)]
        return LossPair(*merge_equal(atoms, atoms[0] - atoms[1]), Panels.none())

    def _heights(self) -> Floats:
        """Log-density outside all regions, and where region i = 0, 1, ... is the innermost one."""
        if not len(self.regions):
            return np.array([-np.inf])
        inside = self.log_passes + self.rate * np.arange(len(self.regions)) - math.log(self._shares.sum())
        return np.concatenate([[-np.inf], inside])


@dataclass(frozen=True)
class TukeyMean(Reference):
    """A point y of Tukey depth q(y) >= t with density proportional to e^(rate q(y)), if a noisy test passes.

    Brown, Gaboardi, Smith, Ullman and Zakynthinou (2021), Section 3, on the line and in the plane, with constants
    derived anew: (epsilon, delta)-DP for any records by Theorem 2 of docs/explanation/covariance-aware-mean.md. An
    affine map of the records moves the output in the same way. Half of epsilon and half of delta pay for the test,
    which is of stability.

    >>> mechanism = TukeyMean(2.0, 0.02, dimension=1)
    >>> data = np.random.default_rng(0).normal(size=(400, 1))
    >>> mechanism.stability(data), round(math.exp(mechanism(data).log_passes), 3)
    (80, 1.0)
    """

    epsilon: float
    delta: float
    dimension: int = 1  # 1 or 2. O(n) regions take O(n^3) time in the plane, O(n log n) on the line
    share: float = 0.25  # t as a share of n, in (0, 1 / (dimension + 1)), so that some point always has this depth
    name: ClassVar[str] = "Tukey mean"
    adjacency = Substitution()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension not in (1, 2):
            raise AuditError(f"The dimension is {self.dimension!r}; regions of depth are known here for 1 and 2.")
        if not 0.0 < self.share < 1.0 / (self.dimension + 1):
            raise AuditError(f"The share is {self.share!r}; it must be above 0 and below 1 / (dimension + 1).")
        if self.rate <= 0.0:
            raise AuditError(f"delta is {self.delta!r}; for epsilon = {self.epsilon:g} it must be smaller.")

    @property
    def edge(self) -> float:
        """eta, the greatest probability that a stable dataset gives to points of depth t, and so delta of a release."""
        return self.delta / 2.0

    @property
    def rate(self) -> float:
        """Gain of the log-density per unit of depth: 2 rate - log(1 - eta) = epsilon / 2."""
        return (self.epsilon / 2.0 + math.log1p(-self.edge)) / 2.0

    @cached_property
    def test(self) -> ScoreTest:
        return ScoreTest(self.epsilon / 2.0, self.delta / 2.0, sensitivity=1.0)

    def depth(self, records: int) -> int:
        """t, the least depth of an answer."""
        return max(math.ceil(self.share * records), 1)

    def stability(self, dataset: ArrayLike) -> int:
        """Return h, a lower bound on the changes after which points of depth t get more than eta; -1 for none.

        h is the greatest number with e^(-rate g) V_(t-h) / V_(t+g+h) <= eta for some g, where V_a is the volume of
        depth a and more: one record moves V_a no further than to V_(a-1) and V_(a+1).
        """
        data = as_records(dataset, self.dimension)
        return self._stability(depth_regions(data), self.depth(len(data)))

    def _stability(self, regions: Sequence[Region], t: int) -> int:
        volumes = np.array([0.0, *(region.volume for region in regions)])
        h = -1
        while h + 1 < t:
            inner = volumes[t + h + 1 :]
            with np.errstate(divide="ignore"):
                shares = math.log(volumes[t - h - 1]) - np.log(inner) if len(volumes) > t - h - 1 else np.zeros(0)
            if not np.any(shares - self.rate * np.arange(len(shares)) <= math.log(self.edge)):
                break
            h += 1
        return h

    def log_chances(self, stability: int) -> tuple[float, float]:
        return self.test.log_chances(min(max(self.test.levels - stability, 0), self.test.levels))

    def __call__(self, dataset: ArrayLike) -> NestedLaw:
        data = as_records(dataset, self.dimension)
        t = self.depth(len(data))
        if t <= self.test.reach:
            least = math.ceil(self.test.reach / self.share)
            raise AuditError(f"The dataset has {len(data)} records; the test needs at least {least} to pass ever.")
        regions = depth_regions(data)
        passes, refuses = self.log_chances(self._stability(regions, t))
        answers = regions[t - 1 :] if passes > -math.inf else []
        return NestedLaw(answers, self.rate, self.dimension, passes, refuses)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return a pair of evenly spread records, of which the largest moves to the other end.

        All depths change by 1 between the two datasets. The number of records is the smallest, in steps of 4, for which
        the test passes at least half of the time.
        """
        n = 4 * math.ceil(self.test.reach / self.share / 4.0)
        pair = self._pair(n)
        while min(self.log_chances(self.stability(data))[0] for data in (pair.x, pair.x_prime)) < math.log(0.5):
            n += 4
            pair = self._pair(n)
        return (pair,)

    def _pair(self, n: int) -> DatasetPair:
        steps = np.arange(n, dtype=float)
        if self.dimension == 1:
            x = (steps - n / 2.0)[:, None]
        else:  # a spiral: even in all directions, and in general position
            angle = steps * math.pi * (3.0 - math.sqrt(5.0))
            x = np.sqrt(steps + 0.5)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        x_prime = x.copy()
        x_prime[np.argmax(x[:, 0])] = x[np.argmin(x[:, 0])] * (1.0 + 1e-3)
        return DatasetPair(x, x_prime, f"{n} records, the greatest or another least")
