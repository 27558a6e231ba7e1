"""Adaptive Gauss-Legendre quadrature on the line, in log space and for many integrands at once.

From log-integrands and the places where they are not smooth it makes panels, each so small that its rule is exact to
ten digits. It is a module of its own because densities, tails of 1e-300 and Renyi integrals all use it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from epsaudit.errors import AuditError

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Integrands = Callable[[Floats], Floats]
"""Maps points of shape (n,) to log-integrands of shape (channels, n)."""

DOUBLINGS = 80
"""Tails reach this many doublings of the scale beyond the last knot."""

_END = 1e-11  # how far inside its panel, as a share of the width, the limit at an end is taken
_LEVELS = 60
"""Halvings of a panel: beyond 60 its ends are neighbouring floats."""
_MOST_PANELS = 40_000
"""Panels that are refined at once before the quadrature gives up: 16 points and two laws each, some 11 MB. Set by hand
in the first round; no measurement is recorded."""


@dataclass(frozen=True)
class Panels:
    """Intervals, ``left`` and ``right`` of shape (panels,), with log-integrands of shape (channels, panels, points).

    The points are those of the rule and, with weight zero, just inside both ends.
    """

    left: Floats
    right: Floats
    values: Floats

    @classmethod
    def over(cls, left: Floats, right: Floats, integrands: Integrands) -> Panels:
        """Evaluate the integrands on the given intervals."""
        flat = integrands(_places(left, right).ravel())
        return cls(left, right, flat.reshape(flat.shape[0], left.size, -1))

    @classmethod
    def none(cls) -> Panels:
        """No panels, of two channels."""
        return cls(np.empty(0), np.empty(0), np.empty((2, 0, _rule()[0].size)))

    @property
    def size(self) -> int:
        """Number of panels."""
        return self.left.size

    @property
    def points(self) -> Floats:
        """Points of the rule, shape (panels, points)."""
        return _places(self.left, self.right)

    @property
    def log_weights(self) -> Floats:
        """Logarithms of the weights, shape (panels, points); -inf at the two ends."""
        with np.errstate(divide="ignore"):
            return np.log(_rule()[1]) + np.log(self.right - self.left)[:, None]

    @property
    def log_masses(self) -> Floats:
        """Logarithm of the integral over each panel, shape (channels, panels)."""
        return log_sum(self.values + self.log_weights, axis=-1)

    @property
    def log_bounds(self) -> Floats:
        """Greatest log-integrand seen plus the logarithm of the width, shape (channels, panels)."""
        return np.asarray(self.values.max(axis=-1) + np.log(self.right - self.left))

    @property
    def log_hidden(self) -> Floats:
        """What a peak between two points may hold, shape (channels, panels): -inf where they are close enough.

        Between points a concave log-integrand rises by no more than it does from one point to the next one.
        """
        with np.errstate(invalid="ignore"):
            rises = np.abs(np.diff(self.values, axis=-1))
        rises = np.where(np.isfinite(rises), rises, 0.0)
        rise = np.maximum(rises[..., :-1], rises[..., 1:])
        hidden = np.where(rise > 8.0, self.values[..., 1:-1] + rise, -np.inf).max(axis=-1)
        return np.asarray(hidden + np.log(self.right - self.left))

    def halves(self, integrands: Integrands) -> Panels:
        """Panels of half the width, the two halves of a panel side by side."""
        middle = (self.left + self.right) / 2
        left = np.stack([self.left, middle], axis=1).ravel()
        return Panels.over(left, np.stack([middle, self.right], axis=1).ravel(), integrands)

    def __getitem__(self, chosen: Booleans | NDArray[np.intp]) -> Panels:
        return Panels(self.left[chosen], self.right[chosen], self.values[:, chosen])


Acceptance = Callable[[Panels, Panels, int], Booleans]
"""Says of parents, their halves and the level which halves need no further division, shape (2 * parents,)."""


def log_sum(values: Floats, axis: int = -1) -> Floats:
    """Logarithm of the sum of exponentials, -inf for an empty or impossible one.

    Examples
    --------
    >>> log_sum(np.array([[0.0, 0.0], [-np.inf, -np.inf]])).round(6).tolist()
    [0.693147, -inf]
    """
    if values.shape[axis] == 0:
        return np.full(np.delete(values.shape, axis), -np.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(values, axis=axis))


def initial_edges(knots: Sequence[float], scale: float, *, reach: int = DOUBLINGS) -> Floats:
    """Edges of first panels: every knot, geometric steps between knots, and ``reach`` doublings beyond the last.

    Examples
    --------
    >>> initial_edges([0.0, 10.0], 1.0, reach=2).tolist()
    [-3.0, -1.0, 0.0, 1.0, 3.0, 5.0, 7.0, 9.0, 10.0, 11.0, 13.0]
    """
    places = np.unique(np.asarray(knots, float))
    spacing = 8 * np.spacing(np.maximum(np.abs(places), scale))
    places = places[np.concatenate([[True], np.diff(places) > spacing[1:]])]
    steps = scale * (2.0 ** np.arange(reach + 1) - 1.0)[1:]
    inner = []
    for low, high in itertools.pairwise(places):
        inside = steps[steps < 0.75 * (high - low) / 2]
        if high - low > scale:
            inner.append(np.concatenate([low + inside, [(low + high) / 2], high - inside]))
    return np.unique(np.concatenate([places[0] - steps, places, places[-1] + steps, *inner]))


def refine(panels: Panels, integrands: Integrands, accept: Acceptance, matters: Callable[[Panels], bool]) -> Panels:
    """Halve panels until every half is accepted.

    It raises `AuditError` if tens of thousands of panels do not suffice, or what is left after sixty halvings matters.
    """
    accepted = []
    for level in range(_LEVELS):
        halves = panels.halves(integrands)
        good = accept(panels, halves, level)
        accepted.append(halves[good])
        panels = halves[~good]
        if panels.size == 0:
            break
        if panels.size > _MOST_PANELS:
            raise AuditError(
                f"The quadrature does not converge between {panels.left.min():g} and {panels.right.max():g}: "
                f"{panels.size} panels are still too coarse. A law must name every place where its density is not "
                "smooth in 'knots', and a length over which it varies in 'scale'."
            )
    if panels.size and matters(panels):
        raise AuditError(
            f"The quadrature does not converge near {panels.left[0]:g}; a law must name every place where its "
            "density is not smooth in 'knots'."
        )
    left, right, values = ([getattr(part, name) for part in accepted] for name in ("left", "right", "values"))
    return Panels(np.concatenate(left), np.concatenate(right), np.concatenate(values, axis=1))


def log_integral(integrands: Integrands, knots: Sequence[float], scale: float) -> Floats:
    """Logarithms of integrals over the whole line, shape (channels,); inf where an integral diverges.

    The relative error is about 1e-10, or 1e-10 of the logarithm itself where that is large. Raises `AuditError` if the
    quadrature does not converge.

    Examples
    --------
    >>> gauss = lambda y: -np.square(y)[None] / 2
    >>> round(float(np.exp(log_integral(gauss, [0.0], 1.0)[0]) ** 2 / (2 * np.pi)), 9)
    1.0
    """
    edges = initial_edges(knots, scale)
    panels = Panels.over(edges[:-1], edges[1:], integrands)
    with np.errstate(invalid="ignore"):
        first = panels.log_masses
        diverges = np.maximum(first[:, 0], first[:, -1]) >= np.maximum(log_sum(first), -700.0) - 25.0
    diverges |= _diverges_at_a_knot(integrands, knots, scale)
    if diverges.all():
        return np.where(np.isneginf(log_sum(first)), -np.inf, np.inf)
    kept = np.flatnonzero(~diverges)
    panels = Panels(panels.left, panels.right, panels.values[kept])
    bounds = np.maximum(panels.log_bounds, panels.log_hidden)
    panels = panels[np.any(bounds > panels.log_bounds.max(axis=1, keepdims=True) - 200.0, axis=0)]
    if panels.size == 0:
        return np.where(diverges, np.inf, -np.inf)
    settled = np.full(kept.size, -np.inf)  # log of what the accepted panels hold

    def accept(parents: Panels, halves: Panels, level: int) -> Booleans:
        nonlocal settled
        before, after = parents.log_masses, halves.log_masses
        after_both = np.logaddexp(after[:, 0::2], after[:, 1::2])
        total = np.logaddexp(settled, log_sum(after))[:, None]
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(np.exp(after_both - total) - np.exp(before - total))
            tolerance = np.clip(1e-10 * np.logaddexp(0.0, total), 1e-10, 1e-3)
            share = np.exp(np.maximum(after_both, before) - total)
            good = (error <= tolerance * np.maximum(share, 1e-3)) | np.isneginf(total) | np.isposinf(total)
        hides = halves.log_hidden > np.repeat(total, halves.size, axis=1) - 25.0
        chosen = np.repeat(good.all(axis=0), 2) & ~hides.any(axis=0)
        settled = np.logaddexp(settled, log_sum(after[:, chosen]))
        return chosen

    def matters(left_over: Panels) -> bool:
        return bool(np.any(log_sum(left_over.log_bounds) > settled - 20.0))

    accepted = refine(panels, lambda points: integrands(points)[kept], accept, matters)
    result = np.full(diverges.shape, np.inf)
    result[kept] = log_sum(accepted.log_masses)
    return result


def _diverges_at_a_knot(integrands: Integrands, knots: Sequence[float], scale: float) -> Booleans:
    """Whether the integrand times the distance to a knot does not fall as the knot is approached, shape (channels,)."""
    places = np.asarray(knots, float)
    places = places[scale * 2.0**-28 > 64 * np.spacing(np.abs(places))]
    steps = scale * 2.0 ** -np.array([20.0, 24.0, 28.0])
    points = places[:, None, None] + np.array([-1.0, 1.0])[:, None] * steps
    values = integrands(points.ravel()).reshape(-1, points.size // 3, 3)
    with np.errstate(invalid="ignore"):
        rises = np.diff(values + np.log(steps), axis=-1) >= -1e-6
    return np.asarray(rises.all(axis=-1).any(axis=-1))


@cache
def _rule() -> tuple[Floats, Floats]:
    """Places in [0, 1] and their weights: 16 Gauss-Legendre points between two ends of weight zero."""
    places, weights = np.polynomial.legendre.leggauss(16)
    return np.concatenate([[_END], (1 + places) / 2, [1 - _END]]), np.concatenate([[0.0], weights / 2, [0.0]])


def _places(left: Floats, right: Floats) -> Floats:
    places = _rule()[0]
    points = left[:, None] * (1.0 - places) + right[:, None] * places
    # rounding must not move a point onto an end, which may be an atom
    return np.asarray(np.clip(points, np.nextafter(left, right)[:, None], np.nextafter(right, left)[:, None]))
