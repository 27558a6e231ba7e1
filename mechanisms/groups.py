"""Counts of groups whose noise grows with the group: Algorithm 1 of an open problem, and an asinh scale.

Proofs and comparison: docs/explanation/group-wise-privacy.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfinv, ndtr

from epsaudit.array_types import Floats
from epsaudit.claims.conversions import log_excess
from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms.base import Reference, positive
from epsaudit.mechanisms.composition import ProductLaw
from epsaudit.mechanisms.exact.losses import log_integral, log_sum
from epsaudit.mechanisms.laws import NormalLaw
from epsaudit.mechanisms.response import RandomisedResponse, ResponseLaw

NEAR = 12.0
"""Distance from 0, in standard deviations of the first noise. Noise may take smaller counts below 0, so these are
integrated differently."""
_REACH = 10.0
_STEP = 0.02  # integration step of the logarithm of the noisy count, near 0
_BLOCK = 1 << 22
_KEPT = 1 << 16  # greatest number of outputs whose densities are kept


@dataclass(frozen=True)
class NoisyTwiceLaw:
    """Law of X + r X N, where X is the noisy count, normal around the true count, and N is fresh standard noise."""

    count: float  # number of records of the group
    sigma: float  # standard deviation of the first noise
    relative: float  # relative error r of the second noise

    @property
    def knots(self) -> tuple[float, ...]:
        """The count, and 0 if it is not far away, since the density has a logarithmic pole at 0."""
        return (float(self.count),) if self.count >= NEAR * self.sigma else tuple(sorted({0.0, float(self.count)}))

    @property
    def scale(self) -> float:
        return math.hypot(self.sigma, self.relative * max(self.count, self.sigma))

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        noisy = rng.normal(self.count, self.sigma, size)
        return noisy + self.relative * np.abs(noisy) * rng.standard_normal(size)

    def log_density(self, outputs: ArrayLike) -> Floats:
        """Log of the density; it is kept for small numbers of outputs, since exact values ask again at each order."""
        points = np.asarray(outputs, float)
        if points.size > _KEPT:
            return self._integrated(points, 0.0)[0]
        key = (points.shape, points.tobytes())
        if key not in self._known:
            self._known[key] = self._integrated(points, 0.0)[0]
        return self._known[key]

    @cached_property
    def _known(self) -> dict[Any, Floats]:
        return {}

    def loss(self, outputs: ArrayLike, more: float = 1.0) -> tuple[Floats, Floats]:
        """Log-density, and log-likelihood ratio of the law of ``count + more`` to this law, at each output.

        The ratio is the mean, given the output, of e^g, g = ((2 (X - count) - more) more / (2 sigma^2)). Small ratios
        are summed as e^g - 1, so that they keep ten digits.
        """
        return self._integrated(np.asarray(outputs, float), more)

    def _integrated(self, outputs: Floats, more: float) -> tuple[Floats, Floats]:
        """Return log-density and loss at each output, by the integration rule that suits the output."""
        result = np.empty((2, *outputs.shape))
        near = np.full(outputs.shape, self.count < NEAR * self.sigma)
        near &= np.abs(outputs) < max(400.0 * self.relative, 20.0) * self.sigma
        for chosen, rule in ((near, self._near_zero), (~near, self._around_the_likeliest)):
            if np.any(chosen):
                result[:, chosen] = self._summed(outputs[chosen], more, rule)
        return result[0], result[1]

    def _summed(self, flat: Floats, more: float, rule: Callable[[Floats], tuple[Floats, Floats]]) -> Floats:
        """Return log-density and loss at outputs of shape (n,) by one integration rule, as an array of shape (2, n).

        The outputs are processed in blocks.
        """
        results = []
        rows = max(_BLOCK // 8192, 1)
        for start in range(0, flat.size, rows):
            part = flat[start : start + rows]
            noisy, log_weights = rule(part)
            total = log_sum(log_weights, axis=1)
            loss = np.zeros(part.size)
            if more:
                growth = (2.0 * (noisy - self.count) - more) * more / (2.0 * self.sigma**2)
                loss = log_sum(log_weights + growth, axis=1) - total
                small = np.abs(loss) < 0.1
                shares = np.exp(log_weights[small] - total[small, None])
                few = np.broadcast_to(growth, log_weights.shape)[small]
                loss[small] = np.log1p(np.sum(shares * np.expm1(np.minimum(few, 700.0)), axis=1))
            results.append(np.stack([total, loss]))
        return np.concatenate(results, axis=1)

    def _log_joint(self, outputs: Floats, noisy: Floats) -> Floats:
        """Log of the joint density of the noisy count and the output, times the absolute noisy count."""
        z, w = (noisy - self.count) / self.sigma, (outputs[:, None] / noisy - 1.0) / self.relative
        return np.asarray(-0.5 * (z * z + w * w) - math.log(2.0 * math.pi * self.sigma * self.relative))

    def _near_zero(self, outputs: Floats) -> tuple[Floats, Floats]:
        """Trapezoidal rule over the logarithm of the noisy count, for both signs; the rule converges exponentially."""
        largest = float(np.abs(outputs).max(initial=1.0))
        reach = self.count + 3 * NEAR * self.sigma + 4.0 * math.sqrt(largest * self.sigma / self.relative)
        least = min(float(np.abs(outputs[outputs != 0.0]).min(initial=1.0)), 1.0) / 1e3
        step = min(_STEP, 0.25 * self.relative)
        logs = np.arange(math.log(least) - 2.0, math.log(reach), step)
        noisy = np.concatenate([np.exp(logs), -np.exp(logs)])
        return noisy, self._log_joint(outputs, noisy) + math.log(step)

    def _around_the_likeliest(self, outputs: Floats) -> tuple[Floats, Floats]:
        """Gauss-Legendre panels around the likeliest noisy count of each output; the rest of the line is negligible."""
        sign = np.where((outputs < 0.0) & (self.count < NEAR * self.sigma), -1.0, 1.0)
        places, weights = np.polynomial.legendre.leggauss(16)
        panels = np.arange(-_REACH, _REACH, 0.5)
        offsets = (panels[:, None] + 0.25 * (1.0 + places)).ravel() * self.sigma
        log_weights = np.tile(np.log(0.25 * self.sigma * weights), panels.size)
        noisy = np.maximum(self._likeliest(sign * outputs, sign * self.count)[:, None] + offsets, 1e-3)
        return sign[:, None] * noisy, self._log_joint(outputs, sign[:, None] * noisy) - np.log(noisy) + log_weights

    def _likeliest(self, outputs: Floats, counts: Floats) -> Floats:
        """Return the noisy count above 0 that maximises the joint density, by bisection of its derivative."""
        variance, r2 = self.sigma**2, self.relative**2
        between = (outputs >= 0.0) & (outputs <= counts)
        # below the count, the pull of the output is at most 1 / (4 r^2 z)
        low = np.where(between, counts - variance / (2.0 * r2 * np.maximum(counts, 1e-3)), np.maximum(counts, 1e-3))
        high = np.where(between, counts, np.abs(counts) + np.abs(outputs))
        for _ in range(80):
            middle = (low + high) / 2.0
            rising = (middle - counts) / variance - (outputs / middle - 1.0) * outputs / (middle**2 * r2) < 0.0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return np.asarray((low + high) / 2.0)


@dataclass(frozen=True)
class GroupChange(Adjacency):
    """Datasets are the sizes of disjoint groups; one record joins or leaves one of them."""

    description = "the size of exactly one group, by one"

    def holds(self, x: Any, x_prime: Any) -> bool:
        changes = [abs(a - b) for a, b in zip(x, x_prime, strict=False) if a != b]
        return len(x) == len(x_prime) and changes == [1]

    def __str__(self) -> str:
        return "one record in one group"


class _Groups(Reference):
    """A mechanism on the sizes of disjoint groups, whose output is a number for one group and a vector for several."""

    rho: float
    relative: float
    adjacency = GroupChange()
    pair = DatasetPair((0,), (1,), "a group of 0 against a group of 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.relative, "relative error")

    @property
    def sigma(self) -> float:
        return math.sqrt(1.0 / (2.0 * self.rho))

    @abstractmethod
    def law(self, count: float) -> NoisyTwiceLaw | NormalLaw:
        """Prepare the law of one group."""

    def __call__(self, dataset: Sequence[int]) -> NoisyTwiceLaw | NormalLaw | ProductLaw:
        if len(dataset) == 0 or min(dataset) < 0:
            raise AuditError(f"The dataset is {dataset!r}; it must be the sizes of one or more groups, none negative.")
        laws = tuple(self.law(float(count)) for count in dataset)
        return laws[0] if len(laws) == 1 else ProductLaw(laws)


@dataclass(frozen=True)
class GroupCounts(_Groups):
    """Algorithm 1: Gaussian noise of variance 1 / (2 rho), then Gaussian noise of r times the noisy count.

    It is rho-zCDP, since the second step sees the data through the first alone (differentialprivacy.org, 'Open problem
    - Better privacy guarantees for larger groups', 2023), and sqrt(2 rho)-GDP. Whether larger groups lose less is the
    source's open question; see `renyi_per_group` and experiments/groups.py.

    >>> mechanism = GroupCounts(0.005, 0.3)
    >>> mechanism.sigma, str(mechanism.claim), mechanism((10_000,)).sample(2, np.random.default_rng(0)).shape
    (10.0, '0.005-zCDP', (2,))
    """

    rho: float  # above 0
    relative: float  # relative error r, in (0, 1]
    name: ClassVar[str] = "noisy group counts"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relative > 1.0:
            raise AuditError(f"relative error is {self.relative!r}; it must be at most 1.")

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.rho), GaussianDP(math.sqrt(2.0 * self.rho)))

    def law(self, count: float) -> NoisyTwiceLaw:
        return NoisyTwiceLaw(count, self.sigma, self.relative)


@dataclass(frozen=True)
class PresenceResponse(Reference):
    """Randomised response on whether a group, or any group, has a record: epsilon-DP if one record joins or leaves.

    >>> [PresenceResponse(1.0, part)((0, 1)).answer for part in (0, 1, None)]
    [0, 1, 1]
    """

    epsilon: float
    part: int | None = None  # place of the group, or None for all groups; a dataset is the sizes of the groups
    name: ClassVar[str] = "presence response"
    adjacency = GroupChange()
    pair = DatasetPair((0, 0), (1, 0))

    def __call__(self, dataset: tuple[int, ...]) -> ResponseLaw:
        present = int(sum(dataset) > 0 if self.part is None else dataset[self.part] > 0)
        return RandomisedResponse(self.epsilon)((present,))


def renyi_per_group(law: NoisyTwiceLaw, orders: ArrayLike, *, both: bool = True) -> Floats:
    """Return the Renyi divergences, of orders at least 1, between outputs for ``count`` and ``count + 1`` records.

    The shape is (orders,). The divergence of order 1 is the relative entropy. With ``both`` the result is the greater
    of the two directions, else the direction from ``count + 1`` to ``count``.

    >>> law = NoisyTwiceLaw(1000.0, 10.0, 0.3)
    >>> f"{renyi_per_group(law, [2.0])[0]:.4g}"
    '1.31e-05'
    """
    orders = np.asarray(orders, float)
    directions = (False, True) if both else (False,)

    def integrands(points: Floats) -> Floats:
        log_p, loss = law.loss(points)
        values = []
        for backward in directions:
            base, sign = (log_p + loss, -1.0) if backward else (log_p, 1.0)
            values.append(base + log_excess(orders[:, None], np.broadcast_to(sign * loss, (orders.size, loss.size))))
        return np.concatenate(values)

    knots = sorted({0.0, float(law.count)})  # at 0 the density has a logarithmic pole
    log_means = log_integral(integrands, knots, law.scale).reshape(len(directions), orders.size)
    below = orders - 1.0
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_scaled = np.log(below) + log_means
        divergences = np.where(
            below == 0.0,
            np.exp(log_means),
            np.where(log_scaled < 30.0, np.log1p(np.exp(np.minimum(log_scaled, 30.0))), log_scaled) / below,
        )
    return np.asarray(divergences.max(axis=0))


@dataclass(frozen=True)
class GroupwiseZCDP:
    """v-group-wise zCDP: where one record joins or leaves a group, the loss is at most v of the group's size.

    The definition (differentialprivacy.org, 'Open problem - Better privacy guarantees for larger groups') bounds both
    directions by the order times v(D)_i for D and for its neighbour, so the smaller of both values holds for a pair.

    >>> claim = GroupwiseZCDP(lambda size: 1.0 / (1.0 + size))
    >>> str(claim.at(DatasetPair((3, 9), (3, 10))))
    '0.0909091-zCDP'
    """

    loss: Callable[[int], float]  # v, a function of the size that must not increase

    def at(self, pair: DatasetPair) -> ZCDP:
        """Return the zCDP claim for one pair; raise `AuditError` unless one record in one group differs."""
        GroupChange().check(pair)
        sizes = next((int(a), int(b)) for a, b in zip(pair.x, pair.x_prime, strict=True) if a != b)
        return ZCDP(min(self.loss(size) for size in sizes))


@dataclass(frozen=True)
class AsinhCounts(_Groups):
    """T(x) plus Gaussian noise, T(x) = c asinh(x / c): v-group-wise zCDP, v(x) = (T(x) - T(x - 1))^2 / (2 sigma^2).

    Renyi divergences are those of Gaussians of one variance, so the loss is attained at every order; v(0) = v(1), and
    v(x) tends to 1 / (2 s^2 x^2) with s = sigma / c. `counts` maps outputs y back to counts, e^(-s^2 / 2) c sinh(y /
    c), which is post-processing. These counts are unbiased, with a relative standard deviation of sqrt(e^(s^2) - 1) for
    large counts.

    >>> mechanism = AsinhCounts(0.005, 0.3)
    >>> str(mechanism.claim), f"{mechanism.loss(10_000):.3g}"
    ('0.0049985-zCDP', '5.56e-08')
    >>> str(mechanism.groupwise.at(DatasetPair((29,), (30,))))
    '0.00280395-zCDP'
    """

    rho: float  # 1 / (2 sigma^2): no group loses more
    relative: float  # s, above 0: about the relative error of large counts
    name: ClassVar[str] = "group counts on an asinh scale"

    @classmethod
    def calibrated(cls, rho: float, error: float) -> AsinhCounts:
        """Choose s so that E|x' - x| / x tends to ``error``, in (0, 1), for large x: s = 2 sqrt(2) erfinv(error / 2).

        >>> mechanism = AsinhCounts.calibrated(0.005, 0.3)
        >>> round(mechanism.relative, 4), round(mechanism.expected_error(10**6) / 10**6, 6)
        (0.3782, 0.3)
        """
        return cls(rho, 2.0 * math.sqrt(2.0) * float(erfinv(fraction(error, "error", open_below=True) / 2.0)))

    @property
    def width(self) -> float:
        """c, the count up to which counts are hardly compressed."""
        return self.sigma / self.relative

    def transformed(self, count: float) -> float:
        return self.width * math.asinh(count / self.width)

    def loss(self, size: int) -> float:
        """Return v(size): the greatest ratio of divergence to order, for a record that joins or leaves the group."""
        if size < 0:
            raise AuditError(f"The group has {size!r} records; there must be none or more.")
        # asinh a - asinh b without cancellation, so that a group of 10^9 keeps its digits
        high = max(size, 1) / self.width
        low = (max(size, 1) - 1) / self.width
        ratio = (high + low) / (high * math.hypot(1.0, low) + low * math.hypot(1.0, high))
        step = self.width * math.asinh(ratio / self.width)
        return step**2 / (2.0 * self.sigma**2)

    @property
    def groupwise(self) -> GroupwiseZCDP:
        return GroupwiseZCDP(self.loss)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that hold for every group, attained by the smallest: v(0)-zCDP, and sqrt(2 v(0))-GDP."""
        return (ZCDP(self.loss(0)), GaussianDP(math.sqrt(2.0 * self.loss(0))))

    def law(self, count: float) -> NormalLaw:
        return NormalLaw(self.transformed(count), self.sigma)

    def counts(self, outputs: ArrayLike) -> Floats:
        """Return unbiased counts from outputs, of the same shape."""
        factor = self.width * math.exp(-(self.relative**2) / 2.0)
        return np.asarray(factor * np.sinh(np.asarray(outputs, float) / self.width))

    def expected_error(self, count: float) -> float:
        """Return E|x' - x| for a group of x records and its released count x'.

        It is twice the mean of the positive part, since x' is unbiased. x' is above x where N > t, t s = asinh(e^(s^2 /
        2) x / c) - u, u = asinh(x / c); E[e^(sN); N > t] = e^(s^2 / 2) Phi(s - t).
        """
        s, u = self.relative, math.asinh(count / self.width)
        t = (math.asinh(math.exp(s * s / 2.0) * count / self.width) - u) / s
        above = 0.5 * self.width * (math.exp(u) * ndtr(s - t) - math.exp(-u) * ndtr(-s - t))
        return float(2.0 * (above - count * ndtr(-t)))
