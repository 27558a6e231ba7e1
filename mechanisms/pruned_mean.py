"""The fast adaptive private mean: differences are dropped at noisy thresholds until none is above its own.

What Brown, Hopkins and Smith average over levels, Kuditipudi, Duchi and Haque (2023) leave to chance: every difference
has a random threshold, and the set that survives is private by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.base import positive
from epsaudit.mechanisms.covariance_mean import CovarianceAwareMean, poles, refusal, release_scale
from epsaudit.mechanisms.exact.losses import LossPair
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.refusable_normal import RefusableNormal, ScoreTest
from epsaudit.mechanisms.stable_mean import Stability, StableMean, leverages

Kept = NDArray[np.bool_]

GROWTH = 1.0 / math.log(2.0)
"""Greatest derivative of log(-log P[Z >= a]) in a for Laplace noise Z of scale 1: it is attained at a = 0."""
NEGLIGIBLE = 1e-10
"""Probability of all surviving sets but one below which the law is that of the one: what quadrature leaves of a law."""


def hazard(norms: Floats, threshold: float, spread: float) -> Floats:
    """Return -log of the probability that threshold e^Z is not below a norm, Z Laplace noise of scale ``spread``.

    >>> hazard(np.array([1.0, 2.0, 4.0, np.inf]), 2.0, 0.5).round(4).tolist()
    [0.1335, 0.6931, 2.0794, inf]
    """
    with np.errstate(divide="ignore"):
        above = np.log(norms / threshold) / spread
    return np.where(above > 0.0, math.log(2.0) + above, -np.log1p(-0.5 * np.exp(np.minimum(above, 0.0))))


@dataclass(frozen=True)
class Pruning(Stability):
    """The constants of Lemmas 6 to 8, for n records, k, lambda_0 and the scale of noise on the log of thresholds.

    >>> bounds = Pruning(100_000, 20, 6.0, 0.03, 0.001)
    >>> bounds.possible, round(bounds.threshold(0), 3), round(bounds.highest, 3), bounds.dropped
    (True, 7.23, 8.711, 9)
    >>> round(bounds.loss(0.001), 3)
    0.27
    """

    spread: float  # beta, the scale of the Laplace noise on the log of a threshold; above 0
    chance: float  # delta_z, the probability that the changed difference's threshold is above ``highest``; below 1 / 2

    @property
    def possible(self) -> bool:
        """Whether Lemma 4 holds for so few records, with gamma below 1."""
        return self.records >= self.references and self.differences > max(self.levels, self.highest)

    @property
    def dropped(self) -> int:
        """Most differences that can be dropped where the test may pass: each counts twice, and k never passes."""
        return (self.levels - 1) // 2

    def threshold(self, level: int) -> float:
        """Median of the random thresholds: lambda_0 is so far below it that it is undercut with probability delta_z."""
        return self.outlier * (2.0 * self.chance) ** -self.spread

    @property
    def highest(self) -> float:
        """What one threshold exceeds with probability delta_z."""
        return self.threshold(0) * (2.0 * self.chance) ** -self.spread

    @property
    def covariance(self) -> float:
        """gamma: one difference of at most the highest norm comes or goes."""
        return self.highest / self.differences

    def loss(self, delta: float) -> float:
        """Lemma 7's epsilon: what the set that survives tells, but for the changed difference, at delta.

        tau solves the bound of Lemma 6 for any theta; the best of a grid is taken.
        """
        eta = -math.log1p(-self.covariance) / self.spread
        theta = np.linspace(0.01, 0.99, 99)
        tau = np.min((-math.log(delta) - self.dropped * np.log(theta)) / (1.0 - theta)) * math.exp(GROWTH * eta)
        return (self.dropped + 1) * eta - math.expm1(-GROWTH * eta) * float(tau)


@dataclass(frozen=True, eq=False)
class PrunedStableMean(StableMean):
    """Covariance of the differences that survived, and the stable mean that goes with it."""

    kept: Kept  # the differences that survived, shape (m,)

    @cached_property
    def covariance_score(self) -> int:
        return min(2 * int(np.sum(~self.kept)), self.bounds.levels)

    @cached_property
    def covariance(self) -> Floats:
        points = self.differences[self.kept]
        return np.asarray(points.T @ points / self.bounds.differences)


class PrunedLaw:
    """The output law on one dataset, shape (n, d): a mixture over the sets that survive, found as they are drawn."""

    def __init__(self, mechanism: PrunedMean, data: Floats) -> None:
        self._mechanism = mechanism
        self._bounds = mechanism.bounds(len(data))
        self._fit = StableMean(data, self._bounds)
        self._given: dict[bytes, RefusableNormal] = {}

    def hazards(self, kept: Kept) -> Floats:
        """-log of the probability that each difference's threshold is not below its norm in the set; 0 outside."""
        found = np.zeros(len(kept))
        norms = len(kept) * leverages(self._fit.differences[kept])
        found[kept] = hazard(norms, self._bounds.threshold(0), self._bounds.spread)
        return found

    def given(self, kept: Kept) -> RefusableNormal:
        if 2 * np.sum(~kept) >= self._bounds.levels:
            return refusal(self._mechanism.dimension)
        key = np.packbits(kept).tobytes()
        if key not in self._given:
            fit = PrunedStableMean(self._fit.data, self._bounds, kept)
            self._given[key] = self._mechanism.released(fit)
        return self._given[key]

    @cached_property
    def surest(self) -> tuple[Kept, float]:
        """The set that survives where each threshold is at its likelier side of the norm, and its probability."""
        kept = np.ones(self._bounds.differences, bool)
        dropped = 0.0
        seen = np.zeros(len(kept))
        while 2 * np.sum(~kept) < self._bounds.levels:
            now = self.hazards(kept)
            goes = kept & (now - seen > math.log(2.0))
            if not goes.any():
                return kept, math.exp(-dropped - now[kept].sum())
            with np.errstate(divide="ignore"):
                dropped -= np.log(-np.expm1(seen[goes] - now[goes])).sum() - seen[goes].sum()
            kept, seen = kept & ~goes, now
        return kept, math.exp(-dropped)  # more may go: all such sets are refused

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` outputs, shape (size, d), each with thresholds of its own."""
        outputs = np.empty((size, self._mechanism.dimension))
        for kept, places in self._survivors(size, rng):
            outputs[places] = self.given(kept).sample(len(places), rng)
        return outputs

    def _survivors(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Kept, NDArray[np.intp]]]:
        """Yield sets that survive and the draws in which they do.

        Draws whose sets are equal so far go on together: a difference that is known not to be below an earlier norm
        is below the present one with probability 1 - e^-(increase of its hazard), and few are in few draws.
        """
        m, k = self._bounds.differences, self._bounds.levels
        waiting = [(np.ones(m, bool), np.zeros(m), np.arange(size))]
        while waiting:
            kept, seen, places = waiting.pop()
            if 2 * np.sum(~kept) >= k:
                yield kept, places
                continue
            now = self.hazards(kept)
            counts = rng.binomial(len(places), np.maximum(-np.expm1(seen - now), 0.0))
            falls: dict[int, list[int]] = {}
            for point in np.flatnonzero(counts):
                for draw in rng.choice(len(places), counts[point], replace=False):
                    falls.setdefault(int(draw), []).append(int(point))
            stays = np.ones(len(places), bool)
            stays[list(falls)] = False
            if stays.any():
                yield kept, places[stays]
            together: dict[tuple[int, ...], list[int]] = {}
            for draw, points in falls.items():
                together.setdefault(tuple(points), []).append(draw)
            for points, draws in together.items():
                left = kept.copy()
                left[list(points)] = False
                waiting.append((left, now, places[draws]))

    def loss_against(self, other: object) -> LossPair | None:
        """The privacy loss against another of its kind where one set is all but sure on each side, else None."""
        if not isinstance(other, PrunedLaw) or min(self.surest[1], other.surest[1]) < 1.0 - NEGLIGIBLE:
            return None
        return self.given(self.surest[0]).loss_against(other.given(other.surest[0]))


@dataclass(frozen=True)
class PrunedMean(CovarianceAwareMean):
    """A stable mean plus normal noise in the shape of the differences that survive noisy thresholds, behind a test.

    The covariance of Kuditipudi, Duchi and Haque (2023), with a proof and constants of our own: Theorem 3 of
    docs/explanation/covariance-aware-mean.md. The mean is that of `CovarianceAwareMean`. One pass over the data where
    nothing is dropped, but many more records. Test, release, surviving set and thresholds have a quarter of delta each.

    >>> mechanism = PrunedMean(4.0, 0.01, outlier=24.0, dimension=2)
    >>> mechanism.least_records
    37778
    >>> law = mechanism(np.random.default_rng(0).normal(size=(60_000, 2)) * [1.0, 1e6])
    >>> law.sample(3, np.random.default_rng(1)).shape, round(law.surest[1], 4)
    ((3, 2), 0.9998)
    """

    spread: float = 0.03  # beta, the scale of the noise on the log of thresholds; above 0
    name: ClassVar[str] = "pruned mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.spread, "spread of log-thresholds")

    @property
    def _delta(self) -> float:
        return self.delta / 4.0

    @cached_property
    def test(self) -> ScoreTest:
        return ScoreTest(self.test_share * self.epsilon, self._delta)

    def bounds(self, records: int) -> Pruning:
        return Pruning(records, self.test.levels, self.outlier, self.spread, self._delta)

    def noise(self, records: int) -> float:
        bounds = self.bounds(records)
        if not bounds.possible:
            return math.inf
        rest = (1.0 - self.test_share) * self.epsilon - bounds.loss(self._delta)
        return release_scale(bounds, rest, self._delta)

    def __call__(self, dataset: ArrayLike) -> PrunedLaw:  # type: ignore[override]  # a mixture of those
        return PrunedLaw(self, self.enough_records(dataset))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Poles as far apart as all differences surely survive."""
        records = 8 * self.least_records
        bounds = self.bounds(records)
        chance = 0.01 * NEGLIGIBLE / bounds.differences
        near = Stability(records, bounds.levels, bounds.threshold(0) * (2.0 * chance) ** self.spread)
        outliers = math.floor(self.test.levels - self.test.reach)
        return (poles(near, self.dimension, outliers),)
