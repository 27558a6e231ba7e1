"""Laws of private ratios: a quotient of Laplace variates in closed form, and Laplace laws whose scale is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from epsaudit.adapters.functions import OutputDistribution
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, Floats

_BIN = 0.02  # width of a bin of log-scales: moments up to the third are kept, so densities are good to 1e-9
_CHUNK = 2_000_000


@dataclass(frozen=True)
class RatioLaw:
    """Law of A / B or, as a share, A / (A + B), for independent Laplace variates A and B around two counts.

    >>> law = RatioLaw(0.0, 0.0, 1.0)  # the ratio of centred Laplace variates has density 1 / (2 (1 + |r|)^2)
    >>> np.exp(law.log_density(np.array([0.0, 1.0, -3.0]))).round(6).tolist()
    [0.5, 0.125, 0.03125]
    """

    first: float  # first, second: centres of A and B
    second: float
    noise: float  # scale of both
    share: bool = False  # whether A + B is divided by, in place of B

    @property
    def knots(self) -> tuple[float, ...]:
        """Where both noises vanish, and where the density has slopes of its own: at 0 and +-1, or at 0, 1/2 and 1."""
        base = self.first + self.second if self.share else self.second
        centre = (self.first / base,) if base != 0.0 else ()
        return (*centre, *((0.0, 0.5, 1.0) if self.share else (-1.0, 0.0, 1.0)))

    @property
    def scale(self) -> float:
        return self.noise / max(abs(self.first) + abs(self.second), self.noise)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        a = rng.laplace(self.first, self.noise, size)
        b = rng.laplace(self.second, self.noise, size)
        return np.asarray(a / (a + b if self.share else b))

    def log_density(self, outputs: ArrayLike) -> Floats:
        """Log of the density at each output: the integral of |t| f_A(r t) f_B(t), or f_B((1 - r) t), over all t."""
        ratios = np.asarray(outputs, float)
        slopes = 1.0 - ratios if self.share else np.ones_like(ratios)
        return _log_line_integral(ratios, slopes, self.first, self.second, self.noise)


def _log_line_integral(alpha: Floats, gamma: Floats, p: float, q: float, scale: float) -> Floats:
    """Log of the integral over t of |t| exp(-(|alpha t - p| + |gamma t - q|) / scale) / (4 scale^2), shape (n,).

    The exponent is linear between 0 and its two kinks, so each of four pieces has a closed form; all of them are
    positive, and each is taken relative to its larger end.
    """
    kinks = np.zeros((3, alpha.size))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for row, (slope, centre) in enumerate(((alpha, p), (gamma, q))):
            kinks[row] = np.where(slope == 0.0, 0.0, np.clip(centre / slope, -1e200, 1e200))
    kinks = np.sort(np.where(np.isnan(kinks), 0.0, kinks), axis=0)

    def exponent(t: Floats) -> Floats:
        return -(np.abs(alpha * t - p) + np.abs(gamma * t - q)) / scale

    pieces = []
    steep = (np.abs(alpha) + np.abs(gamma)) / scale
    for low, high in ((kinks[0], kinks[1]), (kinks[1], kinks[2])):
        middle = low + (high - low) / 2.0
        slope = -(alpha * np.sign(alpha * middle - p) + gamma * np.sign(gamma * middle - q)) / scale
        near, far = np.abs(low), np.abs(high)
        growing = slope > 0.0
        start = np.where(growing, far, near)  # distance from 0 of the likelier end
        inward = np.where(growing == (high > 0.0), -1.0, 1.0)  # whether t then moves towards 0 or away from it
        top = np.where(growing, exponent(high), exponent(low))
        pieces.append(top + _log_ramp(start, inward, high - low, np.abs(slope)))
    for end in (kinks[0], kinks[2]):  # outwards to infinity, where |t| grows
        pieces.append(exponent(end) + _log_tail(np.abs(end), steep))
    return np.asarray(logsumexp(np.stack(pieces), axis=0) - math.log(4.0 * scale * scale))


def _log_ramp(start: Floats, inward: Floats, width: Floats, rate: Floats) -> Floats:
    """Log of the integral over v in (0, width) of (start + inward v) exp(-rate v); -inf where width is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = np.minimum(rate * width, 1e300)
        values = width * (start * _flat(z) + inward * width * _rising(z))
        large = z > 1e8  # there the products above may overflow
        exact = start / rate + inward / rate**2
        return np.log(np.where(width > 0.0, np.where(large, exact, values), 0.0))


def _log_tail(start: Floats, rate: Floats) -> Floats:
    """Log of the integral over v > 0 of (start + v) exp(-rate v)."""
    return np.log(start / rate + 1.0 / rate**2)


def _flat(z: Floats) -> Floats:
    """(1 - e^-z) / z, for z >= 0."""
    safe = np.where(z > 0.0, z, 1.0)
    return np.where(z > 0.0, -np.expm1(-safe) / safe, 1.0)


def _rising(z: Floats) -> Floats:
    """(1 - (1 + z) e^-z) / z^2, for z >= 0; by its series near 0."""
    safe = np.where(z > 0.3, z, 1.0)
    direct = (-np.expm1(-safe) - safe * np.exp(-safe)) / safe**2
    small = np.minimum(z, 0.3)
    series = np.zeros_like(small)
    for n in range(14, -1, -1):  # sum over n of (-z)^n / (n! (n + 2))
        series = (series * -small) / (n + 1) + 1.0 / (n + 2)
    return np.where(z > 0.3, direct, series)


@dataclass(frozen=True, eq=False)
class ScaleMixture:
    """A mixture of Laplace laws around one centre: what a noisy scale makes of Laplace noise.

    >>> law = ScaleMixture(0.0, np.log([0.5, 0.5]), np.array([1.0, 2.0]))
    >>> np.exp(law.log_density(np.array([0.0]))).tolist()
    [0.375]
    """

    centre: float  # of every law
    # log_weights, scales: shape (k,): log-probabilities and scales of the laws; the probabilities need not sum to 1
    log_weights: Floats
    scales: Floats

    @classmethod
    def merged(cls, centre: float, weights: Floats, scales: Floats) -> ScaleMixture:
        """Merge millions of scales into a thousand or so: for each bin of log-scales two, by Gauss's rule.

        They have the moments of the bin up to the third. For a bin of width w the error at z scales from the centre is
        at most of order (w z / 2)^4 / 24 of the bin's share: below 1e-9 where there is any mass to speak of.
        """
        place = np.log(scales)
        origin = float(place.min())
        bins = ((place - origin) / _BIN).astype(np.int64)
        mass = np.bincount(bins, weights)
        kept = np.flatnonzero(mass > 0.0)
        offsets = place - origin - (bins + 0.5) * _BIN
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(bins, weights * offsets) / mass
            offsets -= mean[bins]
            square, cube = (np.bincount(bins, weights * offsets**n)[kept] / mass[kept] for n in (2, 3))
        square = np.maximum(square, 1e-20)
        tilt = np.clip(cube / square, -_BIN, _BIN)
        root = np.sqrt(tilt**2 + 4.0 * square)
        low, high = (tilt - root) / 2.0, (tilt + root) / 2.0
        middle = origin + (kept + 0.5) * _BIN + mean[kept]
        shares = np.concatenate([high / root, -low / root])
        nodes = np.exp(np.concatenate([middle + low, middle + high]))
        return cls(centre, np.log(np.tile(mass[kept], 2) * shares), nodes)

    def log_density(self, outputs: ArrayLike) -> Floats:
        far = np.abs(np.asarray(outputs, float) - self.centre)
        base = self.log_weights - np.log(2.0 * self.scales)
        rows = max(1, _CHUNK // self.scales.size)
        parts = [logsumexp(base - far[i : i + rows, None] / self.scales, axis=1) for i in range(0, far.size, rows)]
        return np.concatenate(parts) if parts else np.empty(0)


@dataclass(frozen=True)
class DrawnScaleLaw:
    """A number plus Laplace noise whose scale is drawn first; no density, which would be an integral over any law."""

    centre: float
    level: OutputDistribution  # of what the scale is a function of
    scales: Callable[[Floats], Floats]  # that function, of many levels at once

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        scales = self.scales(np.asarray(self.level.sample(size, rng), float))
        return np.asarray(self.centre + scales * rng.laplace(size=size))


@dataclass(frozen=True)
class ListedScaleLaw(DrawnScaleLaw):
    """The same where levels are listed: a mixture of Laplace laws, merged by `ScaleMixture.merged`."""

    level: FiniteLaw | DiscreteLaplaceLaw

    @cached_property
    def mixture(self) -> ScaleMixture:
        scales = self.scales(np.asarray(self.level.support, float))
        return ScaleMixture.merged(self.centre, np.exp(self.level.log_probabilities), scales)

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.centre,)

    @property
    def scale(self) -> float:
        return float(self.mixture.scales.min())

    def log_density(self, outputs: ArrayLike) -> Floats:
        return self.mixture.log_density(outputs)
