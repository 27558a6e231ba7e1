"""Counts of groups on an inverse hyperbolic sine scale: larger groups lose less, at every Renyi order at once.

From the sizes of disjoint groups it makes the law of noisy numbers, and from these counts of about the same relative
error. Statement, proof and comparison: docs/explanation/group-wise-privacy.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfinv, ndtr

from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms.base import Reference, positive
from epsaudit.mechanisms.composition import ProductLaw
from epsaudit.mechanisms.groups import GroupChange
from epsaudit.mechanisms.laws import Floats, NormalLaw


@dataclass(frozen=True)
class GroupwiseZCDP:
    """v-group-wise zCDP: where one record joins or leaves a group, the loss is at most v of the group's size.

    The definition (differentialprivacy.org, 'Open problem - Better privacy guarantees for larger groups') bounds both
    directions by the order times v(D)_i for D and for its neighbour alike, so a pair of sizes has the smaller of both.

    Parameters
    ----------
    loss : callable
        ``loss(size) -> rho``: v, which must not increase.

    Examples
    --------
    >>> claim = GroupwiseZCDP(lambda size: 1.0 / (1.0 + size))
    >>> str(claim.at(DatasetPair((3, 9), (3, 10))))
    '0.0909091-zCDP'
    """

    loss: Callable[[int], float]

    def at(self, pair: DatasetPair) -> ZCDP:
        """Return what it claims of one pair; raises `AuditError` unless one record in one group differs."""
        GroupChange().check(pair)
        sizes = next((int(a), int(b)) for a, b in zip(pair.x, pair.x_prime, strict=True) if a != b)
        return ZCDP(min(self.loss(size) for size in sizes))


@dataclass(frozen=True)
class AsinhCounts(Reference):
    """T(x) plus Gaussian noise, T(x) = c asinh(x / c): v-group-wise zCDP, v(x) = (T(x) - T(x - 1))^2 / (2 sigma^2).

    Renyi divergences are those of Gaussians of one variance, so the loss is attained at every order; v(0) = v(1), and
    v(x) tends to 1 / (2 s^2 x^2) with s = sigma / c. `counts` takes outputs y back to counts, e^(-s^2 / 2) c sinh(y /
    c), which loses nothing: unbiased for every count, with a relative standard deviation of sqrt(e^(s^2) - 1) for large
    ones.

    Parameters
    ----------
    rho : float
        1 / (2 sigma^2), above 0; no group loses more.
    relative : float
        s, above 0: about the relative error of large counts.

    Raises
    ------
    AuditError
        If a parameter is out of range or a count is negative.

    Examples
    --------
    >>> mechanism = AsinhCounts(0.005, 0.3)
    >>> str(mechanism.claim), f"{mechanism.loss(10_000):.3g}"
    ('0.0049985-zCDP', '5.56e-08')
    >>> str(mechanism.groupwise.at(DatasetPair((29,), (30,))))
    '0.00280395-zCDP'
    """

    rho: float
    relative: float
    name: ClassVar[str] = "group counts on an asinh scale"
    adjacency = GroupChange()

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.relative, "relative error")

    @classmethod
    def calibrated(cls, rho: float, error: float) -> AsinhCounts:
        """Choose s so that E|x' - x| / x tends to ``error``, in (0, 1), for large x: s = 2 sqrt(2) erfinv(error / 2).

        Examples
        --------
        >>> mechanism = AsinhCounts.calibrated(0.005, 0.3)
        >>> round(mechanism.relative, 4), round(mechanism.expected_error(10**6) / 10**6, 6)
        (0.3782, 0.3)
        """
        return cls(rho, 2.0 * math.sqrt(2.0) * float(erfinv(fraction(error, "error", open_below=True) / 2.0)))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on the scale of T."""
        return math.sqrt(1.0 / (2.0 * self.rho))

    @property
    def width(self) -> float:
        """c: counts below it are hardly compressed."""
        return self.sigma / self.relative

    def transformed(self, count: float) -> float:
        """T(count)."""
        return self.width * math.asinh(count / self.width)

    def loss(self, size: int) -> float:
        """v(size): the greatest Renyi divergence over its order, for a record that joins or leaves the group."""
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
        """The claim that goes with the group's size."""
        return GroupwiseZCDP(self.loss)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What every group has, attained by the smallest: v(0)-zCDP, and sqrt(2 v(0))-GDP."""
        return (ZCDP(self.loss(0)), GaussianDP(math.sqrt(2.0 * self.loss(0))))

    def __call__(self, dataset: Sequence[int]) -> NormalLaw | ProductLaw:
        """Prepare the law of the noisy transformed counts: a number for one group, else a vector."""
        if len(dataset) == 0 or min(dataset) < 0:
            raise AuditError(f"The dataset is {dataset!r}; it must be the sizes of one or more groups, none negative.")
        laws = tuple(NormalLaw(self.transformed(float(count)), self.sigma) for count in dataset)
        return laws[0] if len(laws) == 1 else ProductLaw(laws)

    def counts(self, outputs: ArrayLike) -> Floats:
        """Return unbiased counts from outputs, of the same shape."""
        factor = self.width * math.exp(-(self.relative**2) / 2.0)
        return np.asarray(factor * np.sinh(np.asarray(outputs, float) / self.width))

    def expected_error(self, count: float) -> float:
        """E|x' - x| for a group of x and its count x': twice the mean of the positive part, since x' is unbiased.

        x' is above x where N > t, t s = asinh(e^(s^2 / 2) x / c) - u, u = asinh(x / c); E[e^(sN); N > t] = e^(s^2 / 2)
        Phi(s - t).
        """
        s, u = self.relative, math.asinh(count / self.width)
        t = (math.asinh(math.exp(s * s / 2.0) * count / self.width) - u) / s
        above = 0.5 * self.width * (math.exp(u) * ndtr(s - t) - math.exp(-u) * ndtr(-s - t))
        return float(2.0 * (above - count * ndtr(-t)))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """An empty group, or one of a single record."""
        return (DatasetPair((0,), (1,), "a group of 0 against a group of 1"),)
