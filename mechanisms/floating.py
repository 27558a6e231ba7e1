"""The Laplace mechanism in double precision, made safe: Mironov's snapping mechanism.

The output is a multiple of a power of two, from a support that is the same for every dataset; the law is finite and
exact but for the rounding that the claim allows for. The other remedy, discrete noise, is
`epsaudit.mechanisms.additive.DiscreteLaplace`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.claims.definitions import Claim, PureDP
from epsaudit.errors import AuditError
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.laws import Floats, LaplaceLaw


@dataclass(frozen=True)
class SnappedLaw:
    """Laplace noise rounded to the nearest multiple of a power of two and clamped.

    Examples
    --------
    >>> SnappedLaw(0.0, 1.0, 1.0, 2.0).support
    (-2.0, -1.0, 0.0, 1.0, 2.0)
    """

    centre: float  # centre, scale: of the Laplace law
    scale: float
    grid: float  # the power of two
    bound: float  # greatest absolute value of an output, a multiple of the grid

    @cached_property
    def support(self) -> tuple[float, ...]:
        steps = round(self.bound / self.grid)
        return tuple(self.grid * k for k in range(-steps, steps + 1))

    @cached_property
    def log_probabilities(self) -> Floats:
        """Log-probability of each output: of the interval that is rounded to it."""
        law, places = LaplaceLaw(self.centre, self.scale), np.array(self.support)
        edges = places[:-1] + self.grid / 2.0
        below = np.concatenate([[-np.inf], law.log_cdf(edges), [0.0]])
        above = np.concatenate([[0.0], law.log_cdf(2.0 * self.centre - edges), [-np.inf]])
        # differences in the lighter tail, where nothing cancels
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
    """log(e^a - e^b)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(larger + np.log1p(-np.exp(np.minimum(smaller - larger, 0.0))))


@dataclass(frozen=True)
class SnappedLaplace(Laplace):
    """Laplace noise of scale 1 / epsilon, rounded to a multiple of a power of two no less than that, and clamped.

    (epsilon + 2^-49 B epsilon)-DP in double precision: Mironov (2012), Theorem 1, for a query of sensitivity 1; outputs
    are clamped to [-B, B].

    Raises `AuditError` if epsilon, the sensitivity or the bound is out of range.

    Examples
    --------
    >>> SnappedLaplace(0.7)(("ann", "bob")).grid
    2.0
    """

    bound: float = 1024.0  # B, a power of two, above the scale and below 2^46 times the scale: outputs are clamped
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
        """Least power of two that is at least the scale."""
        return float(2.0 ** math.ceil(math.log2(self.scale)))

    def __call__(self, dataset: Any) -> SnappedLaw:  # type: ignore[override]  # rounding makes the law discrete
        return SnappedLaw(float(self.query(dataset)), self.scale, self.grid, self.bound)
