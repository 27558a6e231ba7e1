"""Proven lower bounds on the privacy loss of a sequence of releases, whatever an accountant states about it.

Each event has a pair of neighbours on which its two output laws are known. All events together have the product laws
on one pair of datasets, because events are independent and each may act on an attribute of its own. The hockey-stick
divergence of the product is therefore a lower bound on delta. It is computed in closed form for Gaussian noise.
Otherwise neighbouring losses are merged into outcomes on a grid, which is post-processing and can only lower the
divergence, and the outcomes are convolved (docs/explanation/theory.md#exact-values).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import GaussianDP
from epsaudit.mechanisms.exact.convolution import LEAST_DELTA, convolved
from epsaudit.mechanisms.exact.laws import loss_pair
from epsaudit.mechanisms.exact.losses import LossPair
from epsaudit.mechanisms.exact.values import least_epsilon as invert
from epsaudit.mechanisms.laws import FiniteLaw, LaplaceLaw, NormalLaw
from epsaudit.tools.maps.events import Events, ReleaseEvent

DELTA_ERROR = 1e-12
"""Absolute amount that is added to the given delta, because the convolution has a rounding error. It is ten times the
error that the convolution states."""
DELTA_SHARE = 1e-8
"""Relative amount that is added to the given delta, because the quadrature has an error. It is 100 times the error."""


@dataclass(frozen=True)
class MixtureLaw:
    """The output law of Gaussian noise on a subsampled sum.

    It is a normal law with standard deviation ``scale`` around 1 with probability ``rate``, and around 0 otherwise.
    """

    rate: float
    scale: float

    @property
    def knots(self) -> tuple[float, ...]:
        return (0.0, 1.0)

    def log_density(self, outputs: Any) -> Floats:
        near, far = (NormalLaw(centre, self.scale).log_density(outputs) for centre in (1.0, 0.0))
        return np.asarray(np.logaddexp(near + math.log(self.rate), far + math.log1p(-self.rate)))


@lru_cache(maxsize=512)
def loss_of(event: ReleaseEvent) -> LossPair:
    """Return the distribution of the privacy loss of one release, on a pair of datasets with known output laws.

    For Laplace noise, for example, the exact sums are 1 and 0. The repetitions of ``event`` are not counted.
    """
    if event.kind == "laplace":
        return loss_pair(LaplaceLaw(1.0, event.noise), LaplaceLaw(0.0, event.noise))
    if event.kind == "gaussian":
        return loss_pair(NormalLaw(1.0, event.noise), NormalLaw(0.0, event.noise))
    if event.kind == "subsampled":
        return loss_pair(MixtureLaw(event.rate, event.noise), NormalLaw(0.0, event.noise))
    if event.kind == "response":
        likely, rare = math.log1p(-event.rate / 2.0), math.log(event.rate / 2.0)
    else:
        likely, rare = -math.log1p(math.exp(-event.noise)), -math.log1p(math.exp(event.noise))
    if event.failure == 0.0:
        return loss_pair(FiniteLaw([1, 0], [likely, rare]), FiniteLaw([1, 0], [rare, likely]))
    # with probability ``failure`` the dataset is revealed (Kairouz, Oh and Viswanath 2015)
    kept, lost = math.log1p(-event.failure), math.log(event.failure)
    return loss_pair(
        FiniteLaw([2, 1, 0, -1], [lost, kept + likely, kept + rare, -math.inf]),
        FiniteLaw([2, 1, 0, -1], [-math.inf, kept + rare, kept + likely, lost]),
    )


@lru_cache(maxsize=4096)
def least_epsilon(events: Events, delta: float) -> float:
    """Return a lower bound on every epsilon for which all of these releases together are (epsilon, delta)-DP.

    The bound is infinite if no epsilon is enough for this delta. It is 0 if delta is below 1e-9, where rounding errors
    would show, or too close to 1.

    Examples
    --------
    >>> round(least_epsilon((ReleaseEvent("pure", 1.0, 2),), 1e-5), 4)
    2.0
    >>> round(least_epsilon((ReleaseEvent("gaussian", 1.0, 3),), 1e-6), 3)
    9.254
    """
    if delta < LEAST_DELTA:
        return 0.0
    conceded = delta * (1.0 + DELTA_SHARE) + DELTA_ERROR
    if conceded >= 1.0:
        return 0.0
    if all(one.kind == "gaussian" for one in events):
        mu = math.sqrt(math.fsum(one.repeats / one.noise**2 for one in events))
        return float(GaussianDP(mu).approximate(conceded).epsilon) * (1.0 - DELTA_SHARE)
    counts: dict[ReleaseEvent, int] = {}
    for one in events:
        single = one._replace(repeats=1)
        counts[single] = counts.get(single, 0) + one.repeats
    whole = convolved([(loss_of(one), counts[one]) for one in sorted(counts)])
    lower = whole.lower or whole
    return max(float(invert(one, conceded)) for one in lower.directions)
