"""Privacy definitions: families of claims, each with one parameter that the audit bounds.

A claim computes its privacy profile, and the least parameter that allows an event. Certificates need nothing else.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from epsaudit.array_types import Floats
from epsaudit.claims.conversions import (
    approximate_to_delta,
    approximate_to_gaussian,
    bernoulli_renyi,
    bisected,
    gaussian_to_delta,
    renyi_of_losses,
    renyi_order,
    root,
    roots,
)
from epsaudit.codec import Tagged
from epsaudit.errors import AuditError, delta_of, finite_at_least, public, warn_caller

Expected = Literal["consistent", "violated"]
"""The verdict of an audit about a claim, or the verdict that theory predicts."""

RAREST = 1e-300
"""[chosen] Deltas below this value count as 0."""
ROUNDING = 1e-11
"""[measured] Relative amount by which a least Renyi divergence is lowered: a hundred times its rounding errors."""
NEWTON = 12
"""[measured] Number of Newton steps. Each step rounds up. For rho from 1e-4 to 10 more steps change nothing, and
8 steps give a result that is 1e-7 too large."""


class Claim(Tagged, ABC):
    """A privacy definition with its parameter, as proven for some mechanism.

    Subclasses are frozen dataclasses that validate their numbers and raise `AuditError`. Epsilon is in nats, and every
    method broadcasts over arrays of probabilities.

    >>> Claim.from_dict({"kind": "ZCDP", "rho": 0.5})
    ZCDP(rho=0.5)
    """

    _what = "not a claim"

    symbol: ClassVar[str]
    """Name of the field that the audit bounds from below: 'epsilon', 'rho', 'mu' or 'advantage'."""

    @property
    def parameter(self) -> float:
        """The proven value of the parameter that the audit bounds."""
        return float(getattr(self, self.symbol))

    def with_parameter(self, value: float) -> Claim:
        """Return the same definition with the audited parameter set to ``value``."""
        return dataclasses.replace(self, **{self.symbol: value})  # type: ignore[type-var]  # subclasses are dataclasses

    @property
    def claimed_point(self) -> tuple[float, float] | None:
        """The point (epsilon, delta) that the claim states, or None for a claim about a whole curve."""
        return None

    @abstractmethod
    def least(self, p: ArrayLike, p_prime: ArrayLike) -> Floats:
        """Return the smallest parameter with which the claim allows P[M(x) in E] = p and P[M(x') in E] = p_prime.

        Adjacency is symmetric, so the result is the same if the two probabilities are exchanged, or if the event E is
        replaced by its complement.
        """

    def greatest(self, p_prime: ArrayLike, halvings: int = 50) -> Floats:
        """Return the largest P[M(x) in E] that the claim allows if P[M(x') in E] = p_prime.

        It is 1 minus the trade-off curve at p_prime. The result is rounded up. If there is no closed form, its
        logarithm is found by ``halvings`` bisection steps.

        >>> [round(float(claim.greatest(0.01)), 4) for claim in (ZCDP(0.5), GaussianDP(1.0))]
        [0.1246, 0.0924]
        """
        rare = np.asarray(p_prime, float)

        def allowed(log_p: Floats) -> NDArray[np.bool_]:
            return np.asarray(self.least(np.exp(log_p), rare)) <= self.parameter

        with np.errstate(invalid="ignore", divide="ignore"):
            low = np.log(np.maximum(rare, RAREST))
            _, beyond = bisected(allowed, low, np.zeros_like(rare), halvings)
        greatest: Floats = np.where(rare >= 1.0, 1.0, np.exp(beyond))
        return greatest

    def least_at(self, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
        """Return the smallest parameter whose privacy profile at ``epsilon`` is at least ``delta``; 0 if delta <= 0.

        If some event has p >= e^epsilon p' + delta, the claim is false for every smaller parameter.
        """
        raise AuditError(f"{type(self).__name__} has no privacy profile; define its least_at(epsilon, delta).")

    def profile(self, epsilon: float) -> float:
        """Return the privacy profile: the smallest delta such that the claim implies (epsilon, delta)-DP."""
        epsilon = finite_at_least(epsilon, 0.0, "epsilon")
        surest = 1.0 - 1e-15
        if self.parameter == 0.0 or self._excess(epsilon, RAREST) > 0.0:
            return 0.0
        if self._excess(epsilon, surest) <= 0.0:
            return 1.0
        # the least rho is about epsilon^2 / (4 log(1/delta)), which is almost linear in the logarithms of both
        ends = math.log(-math.log(RAREST)), math.log(-math.log(surest))
        return math.exp(-math.exp(root(lambda x: self._excess(epsilon, math.exp(-math.exp(x))), *ends, xtol=1e-14)))

    def approximate(self, delta: float) -> ApproxDP:
        """Return the tightest (epsilon, delta)-DP that this claim implies at the given delta in [0, 1)."""
        delta = delta_of(delta)
        at_zero = self._excess(0.0, delta)
        if at_zero > 0.0 or (at_zero == 0.0 and self.profile(0.0) <= delta):
            return ApproxDP(0.0, delta)
        high = 1.0
        while self._excess(high, delta) <= 0.0:
            high *= 2.0
            if high > 1e6:
                raise AuditError(f"{self} implies no (epsilon, delta)-DP with delta = {delta:g}.")
        return ApproxDP(root(lambda epsilon: self._excess(epsilon, delta), 0.0, high, xtol=1e-12), delta)

    def _excess(self, epsilon: float, delta: float) -> float:
        """Return log(least_at(epsilon, delta) / parameter), kept finite.

        It is positive if ``delta`` is above the privacy profile of the claim at ``epsilon``, and negative if it is
        below, so its root is a point of the profile.
        """
        least, claimed = (max(float(one), 1e-300) for one in (self.least_at(epsilon, delta), self.parameter))
        return math.log(min(least, 1e300)) - math.log(claimed)


class _Checked(Claim):
    """Base class of claims whose fields are numbers; it checks the numbers and converts them to floats."""

    @public
    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            what, number = f"{field.name} of the claim", getattr(self, field.name)
            if field.name == "order":
                number = renyi_order(number, what)
            else:
                number = delta_of(number, what) if field.name == "delta" else finite_at_least(number, 0.0, what)
            object.__setattr__(self, field.name, number)


class _OfOnePoint(_Checked):
    """Base class of pure and approximate DP, whose whole privacy profile follows from the claimed (epsilon, delta).

    Source: Kairouz, Oh and Viswanath (2015).
    """

    symbol: ClassVar[str] = "epsilon"

    @property
    def claimed_point(self) -> tuple[float, float]:
        return self.parameter, float(getattr(self, "delta", 0.0))

    def least(self, p: ArrayLike, p_prime: ArrayLike) -> Floats:
        p, q = np.broadcast_arrays(np.asarray(p, float), np.asarray(p_prime, float))
        best = np.zeros(p.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            for likely, rare in ((p, q), (q, p), (1.0 - q, 1.0 - p), (1.0 - p, 1.0 - q)):
                excess = likely - self.claimed_point[1]
                best = np.maximum(best, np.where(excess > 0.0, np.log(excess) - np.log(rare), 0.0))
        return best

    def greatest(self, p_prime: ArrayLike, halvings: int = 50) -> Floats:
        rare, delta = np.asarray(p_prime, float), self.claimed_point[1]
        with np.errstate(over="ignore"):
            grown = np.exp(self.parameter) * rare + delta
        surer: Floats = np.minimum(1.0 - math.exp(-self.parameter) * (1.0 - rare - delta), 1.0)
        greatest: Floats = np.minimum(grown, surer)
        return greatest

    def least_at(self, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
        """Return the smallest claimed epsilon with which the privacy profile at ``epsilon`` is at least ``delta``.

        It is the inverse of `approximate_to_delta`.
        """
        epsilon, delta = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(delta, float))
        claimed_delta = self.claimed_point[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            total = np.logaddexp(0.0, epsilon) + math.log1p(-claimed_delta) - np.log1p(-delta)
            theta = total + np.log(-np.expm1(-total))
        return np.where(delta < claimed_delta, 0.0, np.where(delta >= 1.0, np.inf, np.maximum(theta, 0.0)))

    def profile(self, epsilon: float) -> float:
        return approximate_to_delta(*self.claimed_point, finite_at_least(epsilon, 0.0, "epsilon"))


@dataclass(frozen=True)
class PureDP(_OfOnePoint):
    """Pure differential privacy (Dwork, McSherry, Nissim and Smith 2006): P[M(x) in E] <= e^epsilon P[M(x') in E].

    >>> print(PureDP(1.0), round(PureDP(1.0).profile(0.0), 6))
    1-DP 0.462117
    """

    epsilon: float

    def __str__(self) -> str:
        return f"{self.epsilon:.6g}-DP"


@dataclass(frozen=True)
class ApproxDP(_OfOnePoint):
    """Approximate differential privacy: P[M(x) in E] <= e^epsilon P[M(x') in E] + delta.

    >>> print(ApproxDP(1.0, 1e-5), ApproxDP(1.0, 1e-5).profile(1.0), ApproxDP(1.0, 0.999999999))
    (1, 1e-05)-DP 1e-05 (1, 0.999999999)-DP
    """

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"({self.epsilon:.6g}, {_not_one(self.delta)})-DP"


@dataclass(frozen=True)
class ZCDP(_Checked):
    """Zero-concentrated differential privacy (Bun and Steinke 2016): D_a(M(x) || M(x')) <= rho a for all a > 1.

    Its privacy profile is the tight one: the supremum over all pairs of binary laws that satisfy the Renyi bounds of
    all orders in both directions.

    >>> print(ZCDP(0.5), round(ZCDP(0.5).profile(2.0), 4))
    0.5-zCDP 0.0519
    """

    rho: float
    symbol: ClassVar[str] = "rho"

    def least(self, p: ArrayLike, p_prime: ArrayLike) -> Floats:
        """Return the smallest rho that allows an event with probability p on x and p_prime on x'.

        It is the supremum of D_a / a over the orders a > 1, where D_a is the larger of the two Renyi divergences of
        order a between Bernoulli(p) and Bernoulli(p_prime). Numerical errors never make the result too large.
        """
        p, p_prime = np.asarray(p, float)[..., None], np.asarray(p_prime, float)[..., None]
        return _over_orders(lambda orders: _two_sided_renyi(orders, p, p_prime))

    def greatest(self, p_prime: ArrayLike, halvings: int = 50) -> Floats:
        rare, centre, step = np.asarray(p_prime, float)[..., None], np.array([math.log(10.0)]), 1.0
        greatest = np.ones(rare.shape)
        for points in (25, 9, 9, 9):  # every order gives an upper bound; the grid becomes finer around the smallest one
            logs = centre + step * (np.arange(points) - points // 2)
            found = _renyi_greatest(1.0 + np.exp(logs), self.rho * (1.0 + np.exp(logs)), rare)
            centre = np.take_along_axis(np.broadcast_to(logs, found.shape), found.argmin(-1)[..., None], axis=-1)
            greatest, step = np.minimum(greatest, found.min(-1, keepdims=True)), step / 4.0
        return np.asarray(greatest[..., 0])

    def least_at(self, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
        return _on_lines(lambda e, d: _over_orders(lambda orders: _least_on_line(orders, e, d)), epsilon, delta)

    def __str__(self) -> str:
        return f"{self.rho:.6g}-zCDP"


@dataclass(frozen=True)
class RenyiDP(_Checked):
    """Renyi differential privacy (Mironov 2017) of one order: D_order(M(x) || M(x')) <= epsilon, order > 1.

    >>> print(RenyiDP(2.0, 0.5))
    (2, 0.5)-Renyi DP
    """

    order: float
    epsilon: float
    symbol: ClassVar[str] = "epsilon"

    def least(self, p: ArrayLike, p_prime: ArrayLike) -> Floats:
        return _two_sided_renyi(np.asarray(self.order), np.asarray(p, float), np.asarray(p_prime, float))

    def greatest(self, p_prime: ArrayLike, halvings: int = 50) -> Floats:
        return _renyi_greatest(np.asarray(self.order), np.asarray(self.epsilon), np.asarray(p_prime, float))

    def least_at(self, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
        return _on_lines(lambda e, d: _least_on_line(np.array([self.order]), e, d)[:, 0], epsilon, delta)

    def __str__(self) -> str:
        return f"({_not_one(self.order)}, {self.epsilon:.6g})-Renyi DP"


@dataclass(frozen=True)
class GaussianDP(_Checked):
    """Gaussian differential privacy: the outputs on x and x' are no easier to distinguish than N(0, 1) and N(mu, 1).

    Source: Dong, Roth and Su (2022).

    >>> claim = GaussianDP(1 / 3.7306316)
    >>> print(claim, f"{claim.profile(1.0):.3g}")
    0.268051-GDP 1e-05
    """

    mu: float
    symbol: ClassVar[str] = "mu"

    def least(self, p: ArrayLike, p_prime: ArrayLike) -> Floats:
        p, p_prime = np.broadcast_arrays(np.asarray(p, float), np.asarray(p_prime, float))
        with np.errstate(invalid="ignore"):
            return np.where(p == p_prime, 0.0, np.abs(ndtri(p) - ndtri(p_prime)))

    def greatest(self, p_prime: ArrayLike, halvings: int = 50) -> Floats:
        return np.asarray(ndtr(ndtri(np.asarray(p_prime, float)) + self.mu))

    def least_at(self, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
        return approximate_to_gaussian(epsilon, delta)

    def profile(self, epsilon: float) -> float:
        """Return the privacy profile by Theorem 8 of Balle and Wang (2018)."""
        epsilon = finite_at_least(epsilon, 0.0, "epsilon")
        return 0.0 if self.mu == 0.0 else float(gaussian_to_delta(self.mu, epsilon))

    def __str__(self) -> str:
        return f"{self.mu:.6g}-GDP"


@dataclass(frozen=True)
class ApproxZCDP(_Checked):
    """Approximate zero-concentrated DP: rho-zCDP, except for a part of the output distribution with weight delta.

    Source: Bun and Steinke (2016), Definition 8.1.

    >>> claim = ApproxZCDP(0.5, 1e-6)
    >>> print(claim, claim.approximate(2e-6))
    1e-06-approximate 0.5-zCDP (5.22154, 2e-06)-DP
    """

    rho: float
    delta: float
    symbol: ClassVar[str] = "rho"

    def least(self, p: ArrayLike, p_prime: ArrayLike) -> Floats:
        """Return the smallest rho that allows an event with probability p on x and p_prime on x'.

        A part of the output distribution with weight delta may be anything, so it is chosen such that the rest of the
        probabilities differ least. The result is the smallest rho of zCDP for the rest.
        """
        p, q = np.broadcast_arrays(np.asarray(p, float), np.asarray(p_prime, float))
        likely, rare = np.maximum(p, q), np.minimum(p, q)
        near, far = (likely - self.delta) / (1.0 - self.delta), rare / (1.0 - self.delta)
        apart = near > far
        return np.where(apart, ZCDP(0.0).least(np.where(apart, near, 0.5), np.where(apart, far, 0.5)), 0.0)

    def least_at(self, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
        """Return the smallest rho whose privacy profile at ``epsilon`` is at least ``delta``.

        It is the smallest rho of zCDP at (delta - d) / (1 - d), where d is the claim's own delta.
        """
        left = (np.asarray(delta, float) - self.delta) / (1.0 - self.delta)
        return ZCDP(0.0).least_at(epsilon, np.maximum(left, 0.0))

    def profile(self, epsilon: float) -> float:
        return self.delta + (1.0 - self.delta) * ZCDP(self.rho).profile(epsilon)

    def __str__(self) -> str:
        return f"{self.delta:.6g}-approximate {self.rho:.6g}-zCDP"


@dataclass(frozen=True)
class TradeOff(Claim):
    """f-DP for any trade-off curve f, given by points (epsilon, delta) of its privacy profile.

    Every point is a tangent of f, so the claim of some points is weaker than f or equal to it, and never stronger.
    The audited parameter is the ``advantage``, which is 1 for f itself. An advantage a means that p - p' is at most a
    times the largest difference that f allows at p', for every event and in both directions. This is (log(1 + a
    (e^epsilon - 1)), a delta)-DP at every point, which for a < 1 is the privacy of f on a sample of rate a (Balle,
    Barthe and Gaboardi 2018, Theorem 1). Source: Dong, Roth and Su (2022).

    >>> from epsaudit.claims.definitions import GaussianDP
    >>> claim = TradeOff.of(GaussianDP(1.0).profile, (0.0, 0.5, 1.0, 2.0))
    >>> print(claim, round(claim.profile(0.5), 6), round(GaussianDP(1.0).profile(0.5), 6))
    DP along a curve of 4 points 0.238422 0.238422
    """

    points: tuple[tuple[float, float], ...]
    advantage: float = 1.0
    symbol: ClassVar[str] = "advantage"

    @public
    def __post_init__(self) -> None:
        try:
            pairs = [(epsilon, delta) for epsilon, delta in self.points]
        except (TypeError, ValueError):
            raise AuditError(f"The points are {self.points!r}; they must be pairs (epsilon, delta).") from None
        if not pairs:
            raise AuditError("The curve has no points; give at least one pair (epsilon, delta).")
        what = "epsilon of a point", "delta of a point"
        checked = tuple((finite_at_least(epsilon, 0.0, what[0]), delta_of(delta, what[1])) for epsilon, delta in pairs)
        object.__setattr__(self, "points", checked)
        object.__setattr__(self, "advantage", finite_at_least(self.advantage, 0.0, "advantage of the claim"))

    @classmethod
    def of(cls, profile: Callable[[float], float], epsilons: Sequence[float] = tuple(np.arange(33) / 4.0)) -> TradeOff:
        """Return the claim given by the points of a privacy profile, a function from epsilon to delta, at ``epsilons``.

        The profile of a trade-off curve f with conjugate f* is 1 + f*(-e^epsilon); see Dong, Roth and Su (2022),
        Proposition 2.12.
        """
        return cls(tuple((float(epsilon), profile(float(epsilon))) for epsilon in epsilons))

    def least(self, p: ArrayLike, p_prime: ArrayLike) -> Floats:
        """Return the smallest advantage that allows an event with probability p on x and p_prime on x'.

        It is |p - p_prime|, divided by the difference that f allows at the smallest of the four numbers p, p_prime,
        1 - p and 1 - p_prime.
        """
        p, q = np.broadcast_arrays(np.asarray(p, float), np.asarray(p_prime, float))
        rare = np.minimum(np.minimum(p, q), np.minimum(1.0 - p, 1.0 - q))
        apart = np.abs(p - q)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(apart == 0.0, 0.0, apart / self._allowed(rare))

    def least_at(self, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
        """Return the smallest advantage with which some event has p = e^epsilon p' + delta.

        The minimum is at a kink of the curve f, where two tangents meet, or where p + p' = 1.
        """
        epsilon, delta = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(delta, float))
        middle = (1.0 - delta) * np.exp(-np.logaddexp(0.0, epsilon))
        rare = np.minimum(self._kinks, middle[..., None])  # all are positive; a kink at 0 is only a limit
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            apart = delta[..., None] + np.where(rare > 0.0, np.expm1(epsilon)[..., None] * rare, 0.0)
            least = np.min(apart / self._allowed(rare), axis=-1) * (1.0 - ROUNDING)
        return np.where(delta <= 0.0, 0.0, np.where(delta >= 1.0, np.inf, least))

    def profile(self, epsilon: float) -> float:
        """Return the privacy profile at ``epsilon``: the largest value of p - e^epsilon p' on the curve.

        The maximum is at a kink of the curve, where two tangents meet, or where p + p' = 1.
        """
        grown = _rise(finite_at_least(epsilon, 0.0, "epsilon"))
        rises, deltas = self._lines
        middle = np.max((1.0 - self.advantage * deltas) / (2.0 + self.advantage * rises))
        rare = np.minimum(self._kinks, max(middle, 0.0))
        return float(np.clip(np.max(self.advantage * self._allowed(rare) - grown * rare), 0.0, 1.0))

    def _allowed(self, rare: Floats) -> Floats:
        """Return the largest difference p - p' that the curve f allows at p' = ``rare``.

        It is the minimum of the differences that the tangents of f allow.
        """
        rises, deltas = self._lines
        return np.asarray(np.min(deltas + rises * np.asarray(rare)[..., None], axis=-1))

    @cached_property
    def _lines(self) -> tuple[Floats, Floats]:
        """The tangents of f that are not implied by others, as an array of slopes e^epsilon - 1 and an array of deltas.

        A tangent allows the difference p - p' = delta + (e^epsilon - 1) p'. The tangents are the points on the falling
        part of the lower convex hull of these pairs of numbers.
        """
        rises, deltas = lower_hull((_rise(epsilon), delta) for epsilon, delta in self.points).T
        falling = int(np.argmin(deltas)) + 1
        return rises[:falling], deltas[:falling]

    @cached_property
    def _kinks(self) -> Floats:
        """The values of p' at which two tangents of f meet, with 0 and 1 added.

        The ratio of p - p' to the allowed difference has its extreme values there.
        """
        rises, deltas = self._lines
        return np.concatenate([[0.0], -np.diff(deltas) / np.diff(rises), [1.0]])

    def __str__(self) -> str:
        share = "" if self.advantage == 1.0 else f"{self.advantage:.6g} times "
        return f"{share}DP along a curve of {len(self.points)} points"


def _rise(epsilon: float) -> float:
    """Return e^epsilon - 1, with epsilon limited to 709 because larger values overflow.

    The limit has no effect on the results, because e^709 p' exceeds 1 for every normal float p' above 0.
    """
    return math.expm1(min(epsilon, 709.0))


def lower_hull(points: Iterable[tuple[float, float]]) -> Floats:
    """Return the lower convex hull of points from left to right, shape (vertices, 2).

    The algorithm is Andrew's monotone chain (1979).
    """
    hull: list[tuple[float, float]] = []
    for x, y in sorted(set(points)):
        while len(hull) > 1:
            (a, b), (c, d) = hull[-2:]
            if (b - d) * (x - c) > (d - y) * (c - a):
                break
            hull.pop()
        hull.append((x, y))
    return np.array(hull)


CLAIMS: dict[tuple[str, ...], type[Claim]] = {
    ("epsilon",): PureDP,
    ("epsilon", "delta"): ApproxDP,
    ("epsilon", "order"): RenyiDP,
    ("rho",): ZCDP,
    ("mu",): GaussianDP,
    ("delta", "rho"): ApproxZCDP,
}
"""The names of the numbers that a user gives together, and the class of claims that they make."""


def claim_from_numbers(numbers: Mapping[str, float]) -> Claim | None:
    """Return the claim that a user states by numbers with these names; None if no kind of claim has these numbers.

    >>> claim_from_numbers({"epsilon": 1.0, "delta": 1e-6})
    ApproxDP(epsilon=1.0, delta=1e-06)
    """
    kind = next((kind for names, kind in CLAIMS.items() if set(names) == set(numbers)), None)
    made = kind(**numbers) if kind else None
    if isinstance(made, ApproxDP) and made.delta > max(0.1, made.epsilon):
        warn_caller(f"epsilon is {made.epsilon:g} and delta {made.delta:g}: they may be swapped.")
    return made


def claim_given(
    claim: Claim | None,
    epsilon: float | None = None,
    delta: float | None = 0.0,
    **others: float | None,
) -> Claim | None:
    """Return ``claim``, or the claim that the numbers state, such as epsilon and delta; None if neither is given.

    ``others`` are ``order``, ``rho`` and ``mu``, which only the command line gives as numbers.

    Raises `AuditError` if both a claim and numbers are given, or if the numbers state no claim.

    >>> claim_given(None, 1.0, 1e-6)
    ApproxDP(epsilon=1.0, delta=1e-06)
    """
    given = {"epsilon": epsilon, "delta": delta, **others}
    numbers: dict[str, float] = {}
    for name, value in given.items():
        if not (value is None or (np.isscalar(value) and value == 0 and name == "delta")):
            numbers[name] = value
    if not numbers:
        return claim
    if claim is not None:
        names = " and ".join(f"{name}={value!r}" for name, value in numbers.items())
        raise AuditError(f"Both claim={claim} and {names} were given; give one of them.")
    if list(numbers) == ["delta"]:
        raise AuditError(f"delta is {delta!r} without an epsilon; give epsilon=, or a claim=.")
    made = claim_from_numbers(numbers)
    if made is None:
        ways = "; ".join(", ".join(names) for names in CLAIMS)
        raise AuditError(f"{', '.join(numbers)} together make no claim; give one of: {ways}.")
    return made


def _not_one(number: float) -> str:
    """Return a number as text with six digits, or with all digits if six digits would round it to 1.

    It is used for a delta and for an order, because neither of them may be 1.
    """
    return text if (text := f"{number:.6g}") != "1" else repr(number)


def _two_sided_renyi(order: Floats, p: Floats, q: Floats) -> Floats:
    return np.maximum(bernoulli_renyi(order, p, q), bernoulli_renyi(order, q, p))


def _renyi_greatest(order: Floats, divergence: Floats, q: Floats) -> Floats:
    """Return the largest p such that Bernoulli(p) and Bernoulli(q) have at most the given Renyi divergence.

    The bound ``divergence`` holds in both directions. The result is rounded up, and arguments are broadcast. The
    exponentials of the divergences are convex in p. Newton's method starts above the root, where one of the two terms
    alone equals the allowed sum, and stays above the root.
    """
    order, divergence, q = np.broadcast_arrays(order, divergence, q)
    below = order - 1.0
    log_most = below * divergence + ROUNDING / 100.0  # the rounding errors of exponentials near 1
    with np.errstate(all="ignore"):
        log_q, log_rest = np.log(q), np.log1p(-q)
        p = np.exp(np.minimum((log_most + below * log_q) / order, 0.0))
        left = (order * log_rest - log_most) / below  # log(1 - p); the second divergence is convex in it
        for _ in range(NEWTON):
            first = np.exp(order * np.log(p) - below * log_q - log_most)
            second = np.exp(order * np.log1p(-p) - below * log_rest - log_most)
            p = p - np.fmax((first + second - 1.0) / (order * (first / p - second / (1.0 - p))), 0.0)
            odds = np.exp(left - np.log1p(-np.exp(left)))
            first = np.exp(order * log_rest - below * left - log_most)
            second = np.exp(order * log_q - below * np.log1p(-np.exp(left)) - log_most)
            left = left + np.fmax((first + second - 1.0) / (below * (first - second * odds)), 0.0)
        return np.asarray(np.clip(np.fmin(p, -np.expm1(left)) * (1.0 + ROUNDING), q, 1.0))


def _over_orders(divergence: Callable[[Floats], Floats]) -> Floats:
    """Return the supremum of divergence(a) / a over the orders a > 1, or a slightly smaller value.

    The function ``divergence`` is evaluated on a grid of orders, which is the last axis of its result. The grid is
    refined around the maximum.
    """
    logs = np.linspace(math.log(1e-4), math.log(1e6), 36)
    values = divergence(1.0 + np.exp(logs)) / (1.0 + np.exp(logs))
    best = np.max(values, axis=-1, keepdims=True)
    centre = np.clip(np.argmax(values, axis=-1)[..., None], 1, logs.size - 2)
    around = np.take_along_axis(values, centre + np.arange(-1, 2), axis=-1)
    centre, step = logs[centre], float(logs[1] - logs[0])
    for points in (3, 3, 1):  # move to the vertex of the parabola through three values, with smaller and smaller steps
        left, middle, right = around[..., :1], around[..., 1:2], around[..., 2:]
        with np.errstate(divide="ignore", invalid="ignore"):
            top = 0.5 * (right - left) / (2.0 * middle - left - right)
        top = np.clip(np.nan_to_num(top, posinf=0.0, neginf=0.0), -1.0, 1.0)
        centre, step = centre + step * top, step / 4.0
        orders = 1.0 + np.exp(centre + step * (np.arange(points) - points // 2))
        around = divergence(orders) / orders
        best = np.maximum(best, np.max(around, axis=-1, keepdims=True))
    return np.asarray(best[..., 0])


def _on_lines(least: Callable[[Floats, Floats], Floats], epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """Return ``least(epsilon, delta)`` for each point, but 0 if delta is below `RAREST`, and infinity if delta is 1.

    ``least`` receives columns, shape (n, 1), because its last axis is for orders.
    """
    epsilon, delta = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(delta, float))
    value = np.where(delta >= 1.0, np.inf, 0.0)
    between = (delta >= RAREST) & (delta < 1.0)
    if between.any():
        value[between] = least(epsilon[between][:, None], delta[between][:, None])
    return value


def _least_on_line(order: Floats, epsilon: Floats, delta: Floats) -> Floats:
    """Return the smallest Renyi divergence of two Bernoulli laws whose probabilities have p = e^epsilon p' + delta.

    The divergence is D_order in the direction in which it is larger, and 0 < delta < 1. Arguments are broadcast. With
    p / p' = e^epsilon (1 + h), the minimum is at the root of the function ``slope`` of log h, or at p + p' = 1.
    Derivation: docs/explanation/theory.md#tangents-of-a-privacy-profile.
    """
    order, epsilon, delta = np.broadcast_arrays(order, epsilon, delta)
    s, inverse, below_one = order - 1.0, np.exp(-epsilon), -np.expm1(-epsilon)

    def losses(log_rise: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return h, the privacy losses of the event and of its complement, and 1 - e^-epsilon (1 - p) / (1 - p').

        ``log_rise`` is the logarithm of h, in multiples of the h at which p + p' = 1.
        """
        total = (1.0 + inverse) * np.exp(log_rise) / (1.0 - delta)
        h, rest = delta * total, total - inverse
        lost = (below_one + h) / rest
        ratio = (inverse + (1.0 + inverse) * np.expm1(log_rise)) / rest
        complement = np.where(lost < 0.5, np.log1p(-np.minimum(lost, 0.5)), np.log(ratio))
        return h, epsilon + np.log1p(h), complement, below_one + inverse * lost

    def slope(log_rise: Floats) -> Floats:
        h, loss, complement, beyond = losses(log_rise)
        grown = -np.expm1(np.log1p(s * beyond) - s * (loss - complement))
        return np.log(s * h) - np.log(np.maximum(grown, 1e-300))

    with np.errstate(all="ignore"):
        nothing = np.zeros(order.shape)
        most = np.maximum(np.log1p(-delta) - np.log(s * delta) - np.log1p(inverse), nothing)
        at = roots(slope, nothing, np.where(slope(nothing) < 0.0, most, nothing), xtol=1e-7)
        h, loss, complement, _ = losses(at)
        log_q = np.log(delta) - epsilon - np.log(h)
        chances = np.stack([log_q, np.log1p(-np.exp(log_q))], axis=-1)
    return renyi_of_losses(order, np.stack([loss, complement], axis=-1), chances) * (1.0 - ROUNDING)
