"""Claims about a whole curve beyond one divergence or one noise: approximate zCDP, and any trade-off curve.

Proofs: docs/explanation/theory.md#approximate-zcdp-and-any-trade-off-curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.claims.definitions import ROUNDING, ZCDP, Claim, Floats, _Checked
from epsaudit.errors import AuditError, finite_at_least, fraction


@dataclass(frozen=True)
class ApproxZCDP(_Checked):
    """delta-approximate rho-zCDP (Bun and Steinke 2016, Definition 8.1): rho-zCDP but for a part of weight delta.

    The audited parameter is rho at this delta.

    Examples
    --------
    >>> claim = ApproxZCDP(0.5, 1e-6)
    >>> print(claim, claim.approximate(2e-6))
    1e-06-approximate 0.5-zCDP (5.22154, 2e-06)-DP
    """

    rho: float
    delta: float
    symbol: ClassVar[str] = "rho"

    def least(self, p: ArrayLike, p_prime: ArrayLike) -> Floats:
        """See `Claim.least`: that of zCDP after the other part has brought the probabilities as near as it can."""
        p, q = np.broadcast_arrays(np.asarray(p, float), np.asarray(p_prime, float))
        likely, rare = np.maximum(p, q), np.minimum(p, q)
        near, far = (likely - self.delta) / (1.0 - self.delta), rare / (1.0 - self.delta)
        apart = near > far
        return np.where(apart, ZCDP(0.0).least(np.where(apart, near, 0.5), np.where(apart, far, 0.5)), 0.0)

    def least_at(self, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
        """See `Claim.least_at`: that of zCDP at what is left of delta."""
        left = (np.asarray(delta, float) - self.delta) / (1.0 - self.delta)
        return ZCDP(0.0).least_at(epsilon, np.maximum(left, 0.0))

    def profile(self, epsilon: float) -> float:
        """See `Claim.profile`: delta, and 1 - delta times that of zCDP."""
        return self.delta + (1.0 - self.delta) * ZCDP(self.rho).profile(epsilon)

    def __str__(self) -> str:
        return f"{self.delta:.6g}-approximate {self.rho:.6g}-zCDP"


@dataclass(frozen=True)
class TradeOff(Claim):
    """f-DP of any curve f (Dong, Roth and Su 2022), given by points of its privacy profile: no test beats f.

    The points are tangents of f: a list of some is a claim a little weaker than f, never a stronger one. The audited
    parameter, ``advantage``, is 1 for f itself; a says that for every event, and with the laws exchanged, p - p' is at
    most a times what f allows at p'. That is (log(1 + a (e^epsilon - 1)), a delta)-DP at every point: for a < 1 what f
    becomes on a sample of rate a (Balle, Barthe and Gaboardi 2018, Theorem 1).

    Examples
    --------
    >>> from epsaudit.claims.definitions import GaussianDP
    >>> claim = TradeOff.of(GaussianDP(1.0).profile, (0.0, 0.5, 1.0, 2.0))
    >>> print(claim, round(claim.profile(0.5), 6), round(GaussianDP(1.0).profile(0.5), 6))
    DP along a curve of 4 points 0.238422 0.238422
    >>> round(float(claim.least(0.8, 0.2)), 3)
    1.63
    """

    points: tuple[tuple[float, float], ...]
    advantage: float = 1.0
    symbol: ClassVar[str] = "advantage"

    def __post_init__(self) -> None:
        try:
            pairs = [(epsilon, delta) for epsilon, delta in self.points]
        except (TypeError, ValueError):
            raise AuditError(f"The points are {self.points!r}; they must be pairs (epsilon, delta).") from None
        if not pairs:
            raise AuditError("The curve has no points; give at least one pair (epsilon, delta).")
        what = "epsilon of a point", "delta of a point"
        checked = tuple((finite_at_least(epsilon, 0.0, what[0]), fraction(delta, what[1])) for epsilon, delta in pairs)
        object.__setattr__(self, "points", checked)
        object.__setattr__(self, "advantage", finite_at_least(self.advantage, 0.0, "advantage of the claim"))

    @classmethod
    def of(cls, profile: Callable[[float], float], epsilons: Sequence[float] = tuple(np.arange(33) / 4.0)) -> TradeOff:
        """Make the claim from a privacy profile, a function of epsilon, at points of it.

        That of a trade-off curve f is 1 + f*(-e^epsilon), f* its conjugate (Dong, Roth and Su 2022, Proposition 2.12).
        """
        return cls(tuple((float(epsilon), profile(float(epsilon))) for epsilon in epsilons))

    def least(self, p: ArrayLike, p_prime: ArrayLike) -> Floats:
        """See `Claim.least`: |p - p'| over what f allows beyond the rarest of the event, its complement and theirs."""
        p, q = np.broadcast_arrays(np.asarray(p, float), np.asarray(p_prime, float))
        rare = np.minimum(np.minimum(p, q), np.minimum(1.0 - p, 1.0 - q))
        apart = np.abs(p - q)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(apart == 0.0, 0.0, apart / self._allowed(rare))

    def least_at(self, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
        """See `Claim.least_at`: the least over the line p = e^epsilon p' + delta, at a kink or where p + p' = 1."""
        epsilon, delta = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(delta, float))
        middle = (1.0 - delta) * np.exp(-np.logaddexp(0.0, epsilon))
        rare = np.minimum(self._kinks, middle[..., None])  # none is 0, where at most the limit of a kink at 0 is missed
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            apart = delta[..., None] + np.where(rare > 0.0, np.expm1(epsilon)[..., None] * rare, 0.0)
            least = np.min(apart / self._allowed(rare), axis=-1) * (1.0 - ROUNDING)
        return np.where(delta <= 0.0, 0.0, np.where(delta >= 1.0, np.inf, least))

    def profile(self, epsilon: float) -> float:
        """See `Claim.profile`: the greatest p - e^epsilon p' over the kinks of the curve and its middle, p + p' = 1."""
        grown = _rise(finite_at_least(epsilon, 0.0, "epsilon"))
        rises, deltas = self._lines
        middle = np.max((1.0 - self.advantage * deltas) / (2.0 + self.advantage * rises))
        rare = np.minimum(self._kinks, max(middle, 0.0))
        return float(np.clip(np.max(self.advantage * self._allowed(rare) - grown * rare), 0.0, 1.0))

    def to_dict(self) -> dict[str, object]:
        return {"kind": "TradeOff", "points": [list(point) for point in self.points], "advantage": self.advantage}

    def _allowed(self, rare: Floats) -> Floats:
        """What f allows p to exceed p' by, at p' = rare: the least of its lines."""
        rises, deltas = self._lines
        return np.asarray(np.min(deltas + rises * np.asarray(rare)[..., None], axis=-1))

    @cached_property
    def _lines(self) -> tuple[Floats, Floats]:
        """e^epsilon - 1 and delta of the points that are not implied by others: their lower convex hull."""
        rises, deltas = lower_hull((_rise(epsilon), delta) for epsilon, delta in self.points).T
        falling = int(np.argmin(deltas)) + 1
        return rises[:falling], deltas[:falling]

    @cached_property
    def _kinks(self) -> Floats:
        """Where two lines meet, 0 and 1: the p' at which a ratio of p - p' and what is allowed has its extremes."""
        rises, deltas = self._lines
        return np.concatenate([[0.0], -np.diff(deltas) / np.diff(rises), [1.0]])

    def __str__(self) -> str:
        share = "" if self.advantage == 1.0 else f"{self.advantage:.6g} times "
        return f"{share}DP along a curve of {len(self.points)} points"


def _rise(epsilon: float) -> float:
    """e^epsilon - 1; where that is beyond all floats the greatest of a loss that is not: no p' in them tells."""
    return math.expm1(min(epsilon, 709.0))


def lower_hull(points: Iterable[tuple[float, float]]) -> Floats:
    """Lower convex hull of points, from left to right, shape (vertices, 2): Andrew's monotone chain (1979)."""
    hull: list[tuple[float, float]] = []
    for x, y in sorted(set(points)):
        while len(hull) > 1:
            (a, b), (c, d) = hull[-2:]
            if (b - d) * (x - c) > (d - y) * (c - a):
                break
            hull.pop()
        hull.append((x, y))
    return np.array(hull)
