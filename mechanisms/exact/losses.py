"""The privacy loss of a pair of known laws: its atoms and its panels, computed once and then only summed.

Every event {log-likelihood ratio >= t} of a `LossPair` is a sum over atoms and panels. Panels are intervals on which
the ratio is monotone, so small that Gauss-Legendre quadrature has ten digits on them; it works in log space and on many
integrands at once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Bools, Floats
from epsaudit.claims.conversions import roots
from epsaudit.errors import AuditError

Places = NDArray[np.intp]
Integrands = Callable[[Floats], Floats]
"""Function from points of shape (n,) to log-integrands of shape (channels, n)."""

TIE = 1e-12
"""Losses this close, relative to max(1, |loss|), count as equal."""
DOUBLINGS = 80
"""Number of doublings of the scale by which the tails extend beyond the last knot."""

_END = 1e-11  # distance from the end, as a share of a panel's width, at which the limit at the end is computed
_LEVELS = 60
"""Greatest number of halvings of a panel: beyond 60 its ends are neighbouring floats."""
_MOST_PANELS = 40_000
"""Number of panels in one refinement at which quadrature gives up: 16 points and two laws each, 11 MB. Set by hand
in the first round; no measurement is recorded."""


class NotKnownError(AuditError):
    """Raised if an exact value is not known, or only between two bounds that are too far apart to name one number."""


@dataclass(frozen=True)
class Panels:
    """Intervals, ``left`` and ``right`` of shape (panels,), with log-integrands of shape (channels, panels, points).

    The points are those of the quadrature rule and, with weight zero, one just inside each end.
    """

    left: Floats
    right: Floats
    values: Floats

    @classmethod
    def over(cls, left: Floats, right: Floats, integrands: Integrands) -> Panels:
        """Evaluate the integrands on these intervals."""
        flat = integrands(_places(left, right).ravel())
        return cls(left, right, flat.reshape(flat.shape[0], left.size, -1))

    @classmethod
    def none(cls) -> Panels:
        """Return an empty set of panels with two channels."""
        return cls(np.empty(0), np.empty(0), np.empty((2, 0, _rule()[0].size)))

    @property
    def size(self) -> int:
        """Number of panels."""
        return self.left.size

    @property
    def points(self) -> Floats:
        """Points of the quadrature rule, shape (panels, points)."""
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
        """Greatest computed log-integrand plus the logarithm of the width, shape (channels, panels)."""
        return np.asarray(self.values.max(axis=-1) + np.log(self.right - self.left))

    @property
    def log_hidden(self) -> Floats:
        """Log of the mass that a peak between two points may hold, shape (channels, panels).

        It is -inf where the points are close enough. Between points a concave log-integrand rises by no more than it
        does from one point to the next one.
        """
        with np.errstate(invalid="ignore"):
            rises = np.abs(np.diff(self.values, axis=-1))
        rises = np.where(np.isfinite(rises), rises, 0.0)
        rise = np.maximum(rises[..., :-1], rises[..., 1:])
        hidden = np.where(rise > 8.0, self.values[..., 1:-1] + rise, -np.inf).max(axis=-1)
        return np.asarray(hidden + np.log(self.right - self.left))

    def halves(self, integrands: Integrands) -> Panels:
        """Return panels of half the width; the two halves of a panel are neighbours."""
        middle = (self.left + self.right) / 2
        left = np.stack([self.left, middle], axis=1).ravel()
        return Panels.over(left, np.stack([middle, self.right], axis=1).ravel(), integrands)

    def __getitem__(self, chosen: Bools | NDArray[np.intp]) -> Panels:
        return Panels(self.left[chosen], self.right[chosen], self.values[:, chosen])


def log_sum(values: Floats, axis: int = -1) -> Floats:
    """Return the logarithm of the sum of exponentials; -inf for an empty or impossible sum."""
    if values.shape[axis] == 0:
        return np.full(np.delete(values.shape, axis), -np.inf)
    greatest = values.max(axis=axis, keepdims=True)
    greatest[~np.isfinite(greatest)] = 0.0
    terms = values - greatest
    with np.errstate(divide="ignore"):  # a third of the time of scipy's logsumexp, which inspects the array type
        return np.asarray(np.log(np.exp(terms, out=terms).sum(axis=axis)) + greatest.squeeze(axis))


def initial_edges(knots: Sequence[float], scale: float) -> Floats:
    """Return the edges of the first panels.

    They are all knots, geometric steps between knots, and doublings of the scale beyond the last knot.
    """
    places = np.unique(np.asarray(knots, float))
    spacing = 8 * np.spacing(np.maximum(np.abs(places), scale))
    places = places[np.concatenate([[True], np.diff(places) > spacing[1:]])]
    steps = scale * (2.0 ** np.arange(DOUBLINGS + 1) - 1.0)[1:]
    inner = []
    for low, high in itertools.pairwise(places):
        inside = steps[steps < 0.75 * (high - low) / 2]
        if high - low > scale:
            inner.append(np.concatenate([low + inside, [(low + high) / 2], high - inside]))
    return np.unique(np.concatenate([places[0] - steps, places, places[-1] + steps, *inner]))


def refine(
    panels: Panels,
    integrands: Integrands,
    accept: Callable[[Panels, Panels, int], Bools],
    matters: Callable[[Panels], bool],
) -> Panels:
    """Halve panels until every half is accepted.

    ``accept`` takes the parents, their halves and the level, and returns which halves need no further division, shape
    (2 * parents,). Raises `AuditError` if the greatest number of panels does not suffice, or if ``matters`` finds that
    an unfinished remainder is not negligible.
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
    """Return the logarithms of integrals over the whole line, shape (channels,); inf where an integral diverges.

    The relative error is about 1e-10, also of the logarithm where that is large. Raises `AuditError` if the computation
    does not converge.

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
    panels = dataclasses.replace(panels, values=panels.values[kept])
    bounds = np.maximum(panels.log_bounds, panels.log_hidden)
    panels = panels[np.any(bounds > panels.log_bounds.max(axis=1, keepdims=True) - 200.0, axis=0)]
    if panels.size == 0:
        return np.where(diverges, np.inf, -np.inf)
    settled = np.full(kept.size, -np.inf)  # log of the integral over the accepted panels

    def accept(parents: Panels, halves: Panels, level: int) -> Bools:
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


def _diverges_at_a_knot(integrands: Integrands, knots: Sequence[float], scale: float) -> Bools:
    """Return whether the integral diverges at a knot, shape (channels,).

    It counts as divergent if the integrand times the distance to the knot does not fall on approach.
    """
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
    """Return places in [0, 1] and their weights: 16 Gauss-Legendre points between two ends of weight zero."""
    places, weights = np.polynomial.legendre.leggauss(16)
    return np.concatenate([[_END], (1 + places) / 2, [1 - _END]]), np.concatenate([[0.0], weights / 2, [0.0]])


def _places(left: Floats, right: Floats) -> Floats:
    places = _rule()[0]
    points = left[:, None] * (1.0 - places) + right[:, None] * places
    # rounding must not move a point onto an end, which may be an atom
    return np.asarray(np.clip(points, np.nextafter(left, right)[:, None], np.nextafter(right, left)[:, None]))


class Events(NamedTuple):
    """Log-probabilities of {loss >= t} and of its complement under both laws, each of shape (thresholds,)."""

    upper: Floats
    upper_prime: Floats
    lower: Floats
    lower_prime: Floats


@dataclass(frozen=True)
class LossPair:
    """Two laws, the first P and the second P', with their privacy loss."""

    atoms: Floats
    """Log-probabilities under both laws of outcomes of equal loss, in decreasing order of loss, shape (2, atoms)."""
    losses: Floats
    """Log-likelihood ratio of each, shape (atoms,); inf where only the first law allows it."""
    panels: Panels = field(default_factory=Panels.none)
    """Log-densities of both laws, shape (2, panels, points); empty for finite laws."""
    densities: Integrands | None = None
    """Both log-densities at points of shape (n,), shape (2, n); None for finite laws."""
    knots: tuple[float, ...] = ()
    """Where the densities are not smooth, atoms included."""
    scale: float = 1.0
    """A length over which the densities vary."""
    parts: tuple[tuple[LossPair, int], ...] = ()
    """The independent parts of a composition, and the number of copies of each."""
    lower: LossPair | None = None
    """For a composition on a grid, a pair that is no easier to tell apart than the true pair; ``self`` is no harder."""

    @classmethod
    def nothing(cls) -> LossPair:
        """Return the pair of two equal laws, in which all losses are 0."""
        return cls(np.zeros((2, 1)), np.zeros(1))

    @classmethod
    def of(cls, atoms: Floats, lower: LossPair | None = None) -> LossPair:
        """Return the pair of finite laws given by log-probabilities of the same outcomes, shape (2, outcomes)."""
        return cls(*merge_equal(atoms, difference(atoms[0], atoms[1])), lower=lower)

    @cached_property
    def swapped(self) -> LossPair:
        """Return the pair with its two laws exchanged."""
        densities = self.densities
        return LossPair(
            self.atoms[::-1, ::-1],
            -self.losses[::-1],
            dataclasses.replace(self.panels, values=self.panels.values[::-1]),
            None if densities is None else lambda points: densities(points)[::-1],
            self.knots,
            self.scale,
            tuple((part.swapped, count) for part, count in self.parts),
            None if self.lower is None else self.lower.swapped,
        )

    @property
    def directions(self) -> tuple[LossPair, LossPair]:
        """The pair in both directions, because adjacency is symmetric."""
        return self, self.swapped

    @cached_property
    def panel_losses(self) -> Floats:
        """Log-likelihood ratio at the points of every panel, shape (panels, points); nan where both are zero."""
        return difference(self.panels.values[0], self.panels.values[1])

    @cached_property
    def separates(self) -> bool:
        """Whether the first law has outcomes, of probability at least 1e-300, that the second law does not allow."""
        sure = np.where(self.panel_losses == np.inf, self.panels.values[0] + self.panels.log_weights, -np.inf)
        return bool(np.any(self.losses == np.inf)) or bool(np.any(sure > -690.0))

    @cached_property
    def log_masses(self) -> Floats:
        """Log-masses of the panels under both laws, shape (2, panels)."""
        return self.panels.log_masses

    @cached_property
    def ranges(self) -> tuple[Floats, Floats]:
        """Least and greatest loss on each panel, shape (panels,) each.

        Panels where both densities are zero were dropped.
        """
        if self.panels.size == 0:
            return np.empty(0), np.empty(0)
        return np.nanmin(self.panel_losses, axis=1), np.nanmax(self.panel_losses, axis=1)

    def above(self, threshold: float) -> tuple[Floats, Floats]:
        """Return log-probabilities, shape (2, n), and losses, shape (n,), of all outcomes of at least this loss.

        The log-probabilities include quadrature weights. A panel that the threshold cuts gets a new quadrature for the
        part above the threshold.
        """
        count = np.searchsorted(-self.losses, -threshold, side="right")
        whole, parts, _, _ = self._cut(np.array([threshold]))
        values, losses = [self.atoms[:, :count]], [self.losses[:count]]
        for piece in (self.panels[whole[0]], parts):
            values.append((piece.values + piece.log_weights).reshape(2, -1))
            losses.append(difference(*piece.values).ravel())
        return np.concatenate(values, axis=1), np.concatenate(losses)

    def events(self, thresholds: Floats) -> Events:
        """Probabilities of {loss >= t} and {loss < t}; losses within `TIE` of t count as reaching it."""
        counts = np.searchsorted(-self.losses, -_reached(thresholds), side="right")
        whole, above, below, owner = self._cut(thresholds)
        cut = np.zeros_like(whole)
        cut[owner] = True
        sums = []
        for mask, atoms, pieces in ((whole, self._running[0], above), (~whole & ~cut, self._running[1], below)):
            for law in (0, 1):
                full = log_sum(np.where(mask, self.log_masses[law], -np.inf), axis=1)
                extra = np.full(thresholds.size, -np.inf)
                np.logaddexp.at(extra, owner[0], pieces.log_masses[law])
                sums.append(np.logaddexp(np.logaddexp(full, extra), atoms[law, counts]))
        return Events(*sums)

    @cached_property
    def _running(self) -> tuple[Floats, Floats]:
        """Log-probabilities of the first k atoms and of the others under both laws, shape (2, atoms + 1) each."""
        nothing = np.full((2, 1), -np.inf)
        first = np.logaddexp.accumulate(self.atoms, axis=1)
        others = np.logaddexp.accumulate(self.atoms[:, ::-1], axis=1)[:, ::-1]
        return np.concatenate([nothing, first], axis=1), np.concatenate([others, nothing], axis=1)

    def _cut(self, thresholds: Floats) -> tuple[Bools, Panels, Panels, tuple[Places, Places]]:
        """Return the panels wholly above each threshold, the upper and lower parts of cut panels, and their owners."""
        least, greatest = self.ranges
        at = _reached(thresholds)[:, None]
        whole = least >= at
        owner = np.nonzero(~whole & (greatest >= at))
        cut = self.panels[owner[1]]
        if cut.size == 0 or self.densities is None:
            nothing = np.empty(0, int)
            return whole, self.panels[nothing], self.panels[nothing], (nothing, nothing)
        losses = self.panel_losses[owner[1]]
        rising = losses[:, -1] > losses[:, 0]
        places = self._places_of(cut, losses, at[owner[0], 0])
        high = Panels.over(np.where(rising, places, cut.left), np.where(rising, cut.right, places), self.densities)
        low = Panels.over(np.where(rising, cut.left, places), np.where(rising, places, cut.right), self.densities)
        return whole, high, low, (owner[0], owner[1])

    def _places_of(self, panels: Panels, losses: Floats, thresholds: Floats) -> Floats:
        """Return the place where the loss crosses one threshold per panel, between the two points around it."""
        assert self.densities is not None
        densities, rows = self.densities, np.arange(panels.size)
        rising = (losses[:, -1] > losses[:, 0])[:, None]
        crossed = np.maximum(np.argmax((losses >= thresholds[:, None]) == rising, axis=1), 1)

        def excess(points: Floats) -> Floats:
            return difference(*densities(points)) - thresholds

        return roots(excess, panels.points[rows, crossed - 1], panels.points[rows, crossed], xtol=1e-14 * self.scale)


def _reached(thresholds: Floats) -> Floats:
    """Return, for each threshold, the smallest loss that counts as reaching it."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(thresholds), thresholds - TIE * np.maximum(1.0, np.abs(thresholds)), thresholds)


def difference(log_p: Floats, log_q: Floats) -> Floats:
    """Return the log-likelihood ratio; nan where both laws have probability zero."""
    with np.errstate(invalid="ignore"):
        return np.asarray(log_p - log_q)


def merge_equal(aligned: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """Sort by decreasing loss, and merge all outcomes of equal loss into one atom; no event has to separate them."""
    if losses.size == 0:
        return aligned, losses
    order = np.argsort(-losses, kind="stable")
    aligned, losses = aligned[:, order], losses[order]
    with np.errstate(invalid="ignore"):
        rounded = np.round(losses, 13)
        starts = np.flatnonzero(np.concatenate([[True], rounded[1:] != rounded[:-1]]))
    greatest = np.maximum.reduceat(aligned, starts, axis=1)
    base = np.where(np.isneginf(greatest), 0.0, greatest)
    shares = np.exp(aligned - np.repeat(base, np.diff(np.append(starts, losses.size)), axis=1))
    with np.errstate(divide="ignore"):
        return base + np.log(np.add.reduceat(shares, starts, axis=1)), losses[starts]
