"""Binary search on losses with bounded noise: accurate in every run, at the price of a delta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from epsaudit.data.neighbours import AddRemove, DatasetPair
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.down_sensitivity import crowds
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.queries import MonotoneQuery
from epsaudit.mechanisms.search import SearchLaw, TabulatedSearchLaw, comparisons, fits_a_table

POWERS = (3, 4, 5, 6, 7, 8, 10, 12)
"""Of the cosine: all that are best somewhere for 2 to 16,384 comparisons, epsilon = 1 and delta from 1e-3 to 1e-9."""
_ORDERS = 1.0 + np.geomspace(0.5, 300.0, 40)


@dataclass(frozen=True)
class CosineLaw:
    """Whole numbers z from -reach to reach with probability proportional to cos(pi z / (2 (reach + 1)))^power.

    Log-concave and symmetric. Among densities on an interval the squared cosine has the least Fisher information, and
    so loses least about a shift; higher powers pay a little of that for tails in which hardly anything is certain.

    >>> CosineLaw(1, 2).log_cdf([-0.5, 0.5, 1.0]).round(4).tolist()
    [-1.3863, -0.2877, 0.0]
    """

    reach: int
    power: float

    @cached_property
    def log_probabilities(self) -> Floats:
        """From -reach to reach, shape (2 reach + 1,)."""
        places = np.arange(-self.reach, self.reach + 1)
        log_weights = self.power * np.log(np.cos(0.5 * math.pi * places / (self.reach + 1)))
        return np.asarray(log_weights - logsumexp(log_weights))

    @cached_property
    def _log_cdf(self) -> Floats:
        return np.append(-np.inf, np.minimum(np.logaddexp.accumulate(self.log_probabilities), 0.0))

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        cumulative = np.exp(self._log_cdf)
        return np.searchsorted(cumulative / cumulative[-1], rng.random(size), side="right") - 1 - self.reach

    def log_cdf(self, outputs: ArrayLike) -> Floats:
        places = np.floor(np.asarray(outputs, float)) + self.reach + 1
        return self._log_cdf[np.clip(places, 0, 2 * self.reach + 1).astype(int)]

    def delta(self, epsilon: float, steps: int) -> float:
        """Bound on the delta of ``steps`` adaptive additions of this noise to whole numbers of sensitivity 1.

        Theorem 7 of docs/explanation/mechanisms.md: outcomes nearest the edge, where the loss is greatest, are given up
        and the rest is bounded by its Renyi divergences; the least of all such bounds.

        >>> f"{CosineLaw(63, 6).delta(1.0, 3):.2g}"
        '9e-07'
        """
        log_p = self.log_probabilities
        log_q = np.append(-np.inf, log_p[:-1])  # shifted by 1: losses decrease from infinity at the edge
        orders = _ORDERS[:, None]
        moments = orders * log_p[1:] + (1.0 - orders) * log_q[1:]
        rest = np.logaddexp.accumulate(moments[:, ::-1], axis=1)[:, ::-1]  # all but the first 1, 2, ... outcomes
        excess = steps * rest - (orders - 1.0) * epsilon + orders * np.log1p(-1.0 / orders) - np.log(orders - 1.0)
        given_up = np.minimum(np.cumsum(np.exp(log_p))[:-1], 1.0 - 1e-15)
        return float(np.min(-np.expm1(steps * np.log1p(-given_up)) + np.exp(np.minimum(excess.min(axis=0), 0.0))))


@cache
def least_noise(epsilon: float, delta: float, steps: int) -> CosineLaw:
    """Return the law of least reach, among a few powers, whose ``steps`` additions are (epsilon, delta)-DP.

    >>> least_noise(1.0, 1e-6, 64).reach
    162
    """

    def enough(reach: int, power: int) -> bool:
        return CosineLaw(reach, power).delta(epsilon, steps) <= delta

    best, high = CosineLaw(1, POWERS[0]), 1
    while not enough(high, POWERS[0]):
        high *= 2
    for power in POWERS:
        if high < 1 or not enough(high, power):  # none of this power has a shorter reach than what is found already
            continue
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle, power) else (middle, high)
        best, high = CosineLaw(high, power), high - 1
    return best


@dataclass(frozen=True)
class BoundedBinarySearch(Reference):
    """Binary search whose noise never exceeds tau, so that no comparison is ever wrong: accurate with probability 1.

    (epsilon, delta)-DP, and f(x) >= M(x) >= f(x) - DS^{2 tau}(x) in every run: Theorem 7 of
    docs/explanation/mechanisms.md, the second route of note 7 of differentialprivacy.org, 'Beyond Local Sensitivity via
    Down Sensitivity', to Dagan and Kur (2022); the shape of the noise and its calibration are ours.

    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = BoundedBinarySearch(Maximum(range(1024)), epsilon=1.0, delta=1e-6)
    >>> mechanism.steps, mechanism.tau, str(mechanism.claim)
    (10, 81, '(1, 1e-06)-DP')
    >>> mechanism((500,) * 200).sample(3, np.random.default_rng(0)).tolist()
    [500, 500, 500]
    """

    query: MonotoneQuery  # what is asked. Only its losses along one path of the search are ever evaluated
    epsilon: float
    delta: float  # in (0, 1)
    name: ClassVar[str] = "binary search, bounded noise"
    adjacency = AddRemove()

    @property
    def steps(self) -> int:
        return comparisons(self.query.size)

    @property
    def noise(self) -> CosineLaw:
        return least_noise(self.epsilon, self.delta, max(self.steps, 1))

    @property
    def tau(self) -> int:
        """Threshold on the noisy loss, in records: the reach of the noise."""
        return self.noise.reach

    def __call__(self, dataset: Sequence[Any]) -> SearchLaw:
        law = TabulatedSearchLaw if fits_a_table(self.query.size) else SearchLaw
        # noisy losses are whole numbers: half a record more lets none lie on the threshold
        return law(self.query, self.query.loss(dataset), self.query.size, self.tau + 0.5, self.noise)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Losses three quarters of the way from tau to 2 tau, near the pairs that were found to lose most."""
        return (crowds(self.query, round(1.75 * self.tau)),)
