"""Noise added to a number or a vector: Laplace, Gaussian, discrete Laplace, truncated geometric, snapped Laplace."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, GaussianDP, PureDP
from epsaudit.data.neighbours import Adjacency, DatasetPair, MaxChange
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.exact.laws import loss_pair
from epsaudit.mechanisms.exact.losses import LossPair
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, LaplaceLaw, NormalLaw
from epsaudit.mechanisms.queries import HEAD_COUNT, ClippedSum, NumericQuery


class _Additive(Reference):
    """Base of the mechanisms of this module, whose privacy depends on the query only through its sensitivity."""

    query: NumericQuery

    @property
    def adjacency(self) -> Adjacency:
        return self.query.adjacency

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return self.query.pairs


@dataclass(frozen=True)
class Laplace(_Additive):
    """Laplace noise of scale sensitivity / epsilon: epsilon-DP (Dwork, McSherry, Nissim and Smith 2006, Proposition 1).

    >>> mechanism = Laplace(0.5)
    >>> mechanism(("ann", "bob")), str(mechanism.claim)
    (LaplaceLaw(centre=2.0, scale=2.0), '0.5-DP')
    """

    epsilon: float
    query: NumericQuery = HEAD_COUNT  # what is asked; by default the number of records
    name: ClassVar[str] = "Laplace"

    @property
    def scale(self) -> float:
        return self.query.sensitivity / self.epsilon

    def __call__(self, dataset: Any) -> LaplaceLaw:
        return LaplaceLaw(float(self.query(dataset)), self.scale)


@dataclass(frozen=True)
class DiscreteLaplace(_Additive):
    """Two-sided geometric noise on an integer query: epsilon-DP (Ghosh, Roughgarden and Sundararajan 2012).

    >>> DiscreteLaplace(0.5)(("ann", "bob"))
    DiscreteLaplaceLaw(centre=2, scale=2.0)
    """

    epsilon: float
    query: NumericQuery = HEAD_COUNT  # the query; its answers and its sensitivity must be integers
    name: ClassVar[str] = "discrete Laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        _integer(self.query.sensitivity, "sensitivity of the query")

    @property
    def scale(self) -> float:
        return self.query.sensitivity / self.epsilon

    def __call__(self, dataset: Any) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(_integer(self.query(dataset), "answer of the query"), self.scale)


@dataclass(frozen=True)
class Gaussian(_Additive):
    """Gaussian noise with the least standard deviation sigma that satisfies (epsilon, delta)-DP.

    Balle and Wang (2018), Theorem 8 and Algorithm 1. The mechanism also satisfies mu-GDP with mu = sensitivity / sigma
    (Dong, Roth and Su 2022, Theorem 2.7) and rho-zCDP with rho = mu^2 / 2 (Bun and Steinke 2016, Proposition 1.6).

    >>> mechanism = Gaussian(1.0, 1e-5)
    >>> round(mechanism.sigma, 6), [str(claim) for claim in mechanism.claims]
    (3.730632, ['(1, 1e-05)-DP', '0.268051-GDP', '0.0359257-zCDP'])
    """

    epsilon: float  # epsilon (in nats, above 0) and delta (in (0, 1)) are the approximate-DP claim to calibrate to
    delta: float
    query: NumericQuery = HEAD_COUNT  # what is asked; by default the number of records
    name: ClassVar[str] = "Gaussian"

    @cached_property
    def _calibrated_mu(self) -> float:
        """Return the greatest ratio of sensitivity to noise that (epsilon, delta)-DP allows, rounded down."""
        return float(GaussianDP(0.0).least_at(self.epsilon, self.delta))

    @property
    def claims(self) -> tuple[Claim, ...]:
        mu = self._calibrated_mu
        return (ApproxDP(self.epsilon, self.delta), GaussianDP(mu), ZCDP(mu * mu / 2.0))

    @property
    def sigma(self) -> float:
        return self.query.sensitivity / self._calibrated_mu

    def __call__(self, dataset: Any) -> NormalLaw:
        return NormalLaw(float(self.query(dataset)), self.sigma)


@dataclass(frozen=True)
class SphericalLaw:
    """Law of a vector whose coordinates have independent normal noise of the same standard deviation."""

    centre: tuple[float, ...]
    sigma: float

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` outputs, shape (size, d)."""
        return np.asarray(rng.normal(self.centre, self.sigma, (size, len(self.centre))))

    def log_density(self, outputs: Floats) -> Floats:
        z = (np.asarray(outputs, float) - np.array(self.centre)) / self.sigma
        return np.asarray(-0.5 * np.sum(z * z, axis=1) - len(self.centre) * math.log(self.sigma * math.sqrt(math.tau)))

    def loss_against(self, other: object) -> LossPair | None:
        """Return the privacy loss against a law of the same scale, or None for any other law.

        Only the noise along the line between the two centres matters for the privacy loss.
        """
        if not isinstance(other, SphericalLaw) or other.sigma != self.sigma:
            return None
        distance = float(np.linalg.norm(np.subtract(self.centre, other.centre)))
        return loss_pair(NormalLaw(0.0, self.sigma), NormalLaw(distance, self.sigma))


@dataclass(frozen=True)
class SphericalGaussian(Gaussian):
    """Gaussian noise on every coordinate of a vector, calibrated to the l2 sensitivity of the query.

    The privacy loss is that of the Gaussian mechanism on a number that moves by the l2 norm of the change. It does not
    depend on the dimension (differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity', note 1; Balle
    and Wang 2018).

    >>> mechanism = SphericalGaussian(1.0, 1e-5, ClippedSum(3))
    >>> round(mechanism.sigma, 6), mechanism([(0.0, 3.0, 4.0)]).sample(2, np.random.default_rng(0)).shape
    (3.730632, (2, 3))
    """

    query: ClippedSum = field(default_factory=lambda: ClippedSum(2))  # type: ignore[assignment]  # of vectors
    name: ClassVar[str] = "Gaussian, vectors"

    def __call__(self, dataset: Any) -> SphericalLaw:  # type: ignore[override]  # of vectors
        return SphericalLaw(tuple(self.query(dataset).tolist()), self.sigma)


def _integer(value: float, what: str) -> int:
    if value != int(value):
        raise AuditError(f"The {what} is {value!r}; discrete noise needs an integer.")
    return int(value)


@dataclass(frozen=True)
class TruncatedGeometric(Reference):
    """Geometric noise on a count in {0, ..., n}, with probabilities that are multiples of the inverse of one integer.

    With k = ceil(log(2 / epsilon)) the ratio of neighbouring probabilities is 1 + 2^-k, which gives log(1 + 2^-k)-DP.
    With a logarithm to base 2, 2^-k is at most epsilon / 2. With the natural logarithm, which is used here and in the
    benchmark, log(1 + 2^-k) may exceed epsilon. Balcer and Vadhan (2018), Section 4.

    >>> mechanism = TruncatedGeometric(0.1)
    >>> round(mechanism.claim.parameter, 4), np.exp(mechanism(2).log_probabilities).round(4).tolist()
    (0.1178, [0.4183, 0.0523, 0.0588, 0.0523, 0.0465, 0.3718])
    """

    epsilon: float  # above 0; k is computed from it, and the claim is log(1 + 2^-k)
    n: int = 5  # greatest count
    name: ClassVar[str] = "truncated geometric"
    adjacency = MaxChange(1.0)
    pair = DatasetPair(2, 1)  # neighbouring counts in the middle
    wholes = {"n": (1, "n")}

    @property
    def k(self) -> int:
        """The exponent k in the ratio 1 + 2^-k of neighbouring probabilities."""
        return max(0, math.ceil(math.log(2.0 / self.epsilon)))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (PureDP(math.log1p(2.0**-self.k)),)

    def __call__(self, dataset: Any) -> FiniteLaw:
        count = whole_at_least(dataset, 0, "count")
        if count > self.n:
            raise AuditError(f"The count is {count}; it must be at most n = {self.n}.")
        ratio = Fraction(2**self.k, 2**self.k + 1)
        below = [ratio ** (count - z) / (1 + ratio) for z in range(count)]
        above = [1 - ratio ** (z - count + 1) / (1 + ratio) for z in range(count, self.n)]
        steps = [Fraction(0), *below, *above, Fraction(1)]
        masses = [float(high - low) for low, high in pairwise(steps)]
        return FiniteLaw(tuple(range(self.n + 1)), np.log(masses))


@dataclass(frozen=True)
class SnappedLaw:
    """Laplace noise rounded to the nearest multiple of a power of two and clamped."""

    centre: float  # centre and scale are those of the Laplace law
    scale: float
    grid: float  # the power of two
    bound: float  # greatest absolute value of an output, a multiple of the grid

    @cached_property
    def support(self) -> tuple[float, ...]:
        steps = round(self.bound / self.grid)
        return tuple(self.grid * k for k in range(-steps, steps + 1))

    @cached_property
    def log_probabilities(self) -> Floats:
        """Log-probability of each output: that of the interval of noisy values that are rounded to it."""
        law, places = LaplaceLaw(self.centre, self.scale), np.array(self.support)
        edges = places[:-1] + self.grid / 2.0
        below = np.concatenate([[-np.inf], law.log_cdf(edges), [0.0]])
        above = np.concatenate([[0.0], law.log_cdf(2.0 * self.centre - edges), [-np.inf]])
        # differences are taken in the lighter tail, where no digits cancel
        left, right = _log_difference(below[1:], below[:-1]), _log_difference(above[:-1], above[1:])
        return np.where(places < self.centre, left, right)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        noisy = self.centre + rng.laplace(0.0, self.scale, size)
        return np.clip(np.rint(noisy / self.grid) * self.grid, -self.bound, self.bound) + 0.0

    def log_density(self, outputs: ArrayLike) -> Floats:
        steps = np.asarray(outputs, float) / self.grid + (len(self.support) - 1) // 2
        inside = (steps == np.floor(steps)) & (steps >= 0) & (steps < len(self.support))
        return np.asarray(np.where(inside, self.log_probabilities[np.where(inside, steps, 0).astype(int)], -np.inf))


def _log_difference(larger: Floats, smaller: Floats) -> Floats:
    """Return log(e^a - e^b) for a = ``larger`` and b = ``smaller``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(larger + np.log1p(-np.exp(np.minimum(smaller - larger, 0.0))))


@dataclass(frozen=True)
class SnappedLaplace(Laplace):
    """Laplace noise of scale 1 / epsilon, rounded to multiples of the least power of two that is at least this scale.

    Outputs are clamped to [-B, B]. (epsilon + 2^-49 B epsilon)-DP in double precision for a query of sensitivity 1:
    Mironov (2012), Theorem 1.

    >>> SnappedLaplace(0.7)(("ann", "bob")).grid
    2.0
    """

    bound: float = 1024.0  # B, to which outputs are clamped: a power of two between the scale and 2^46 times the scale
    name: ClassVar[str] = "snapped Laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.query.sensitivity != 1.0 or not self.grid < self.bound < 2.0**46 * self.scale:
            raise AuditError(
                f"Snapping has sensitivity {self.query.sensitivity!r} and bound {self.bound!r}; it needs sensitivity 1 "
                f"and a bound between the grid, {self.grid:g}, and 2^46 times the scale."
            )

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (PureDP(self.epsilon * (1.0 + 2.0**-49 * self.bound)),)

    @property
    def grid(self) -> float:
        """Least power of two that is at least the scale of the noise."""
        return float(2.0 ** math.ceil(math.log2(self.scale)))

    def __call__(self, dataset: Any) -> SnappedLaw:  # type: ignore[override]  # rounding makes the law discrete
        return SnappedLaw(float(self.query(dataset)), self.scale, self.grid, self.bound)
