"""The privacy loss of a pair of known laws: its atoms and its panels, computed once and then only summed.

It makes a `LossPair` from two laws, on which every event {log-likelihood ratio >= t} is a sum over atoms and smooth
panels on which the ratio is monotone. Profiles and divergences are computed from it and never see a law.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims.conversions import roots
from epsaudit.errors import AuditError
from epsaudit.exact.quadrature import Booleans, Floats, Integrands, Panels, log_sum

TIE = 1e-12
"""Losses this close, relative to max(1, |loss|), count as equal."""

Places = NDArray[np.intp]


class NotKnownError(AuditError):
    """An exact value that is not known, or between two bounds only that are too far apart to name one number."""


class Events(NamedTuple):
    """Log-probabilities of {loss >= t} and of its complement under both laws, each of shape (thresholds,)."""

    upper: Floats
    upper_prime: Floats
    lower: Floats
    lower_prime: Floats


@dataclass(frozen=True)
class LossPair:
    """Two laws side by side."""

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
    """Of a composition, its independent parts and how many there are of each; see `epsaudit.exact.convolution`."""
    lower: LossPair | None = None
    """Of a composition on a grid, a pair that is no easier to tell apart than the true one; this one is no harder."""

    @classmethod
    def nothing(cls) -> LossPair:
        """The pair of two equal laws: all losses are 0."""
        return cls(np.zeros((2, 1)), np.zeros(1))

    @classmethod
    def of(cls, atoms: Floats, lower: LossPair | None = None) -> LossPair:
        """The pair of finite laws given by log-probabilities of the same outcomes, shape (2, outcomes)."""
        return cls(*merge_equal(atoms, difference(atoms[0], atoms[1])), lower=lower)

    @cached_property
    def swapped(self) -> LossPair:
        """The pair with its two laws exchanged."""
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
        """Both of them: adjacency is symmetric."""
        return self, self.swapped

    @cached_property
    def panel_losses(self) -> Floats:
        """Log-likelihood ratio at the points of every panel, shape (panels, points); nan where neither law goes."""
        return difference(self.panels.values[0], self.panels.values[1])

    @cached_property
    def separates(self) -> bool:
        """Whether the first law allows what the second does not, with a probability of 1e-300 at least."""
        sure = np.where(self.panel_losses == np.inf, self.panels.values[0] + self.panels.log_weights, -np.inf)
        return bool(np.any(self.losses == np.inf)) or bool(np.any(sure > -690.0))

    @cached_property
    def log_masses(self) -> Floats:
        """Log-masses of the panels under both laws, shape (2, panels)."""
        return self.panels.log_masses

    @cached_property
    def ranges(self) -> tuple[Floats, Floats]:
        """Least and greatest loss on each panel, shape (panels,) each; those where neither law goes were dropped."""
        if self.panels.size == 0:
            return np.empty(0), np.empty(0)
        return np.nanmin(self.panel_losses, axis=1), np.nanmax(self.panel_losses, axis=1)

    def above(self, threshold: float) -> tuple[Floats, Floats]:
        """Log-probabilities (weights included) and losses of everything of at least this loss, shapes (2, n), (n,).

        On panels that the threshold cuts the parts above it get a quadrature of their own.
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

    def _cut(self, thresholds: Floats) -> tuple[Booleans, Panels, Panels, tuple[Places, Places]]:
        """Panels wholly above each threshold, the parts of cut panels above and below, and whose they are."""
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
        """Where the loss crosses one threshold a panel, between the two points around it."""
        assert self.densities is not None
        densities, rows = self.densities, np.arange(panels.size)
        rising = (losses[:, -1] > losses[:, 0])[:, None]
        crossed = np.maximum(np.argmax((losses >= thresholds[:, None]) == rising, axis=1), 1)

        def excess(points: Floats) -> Floats:
            return difference(*densities(points)) - thresholds

        return roots(excess, panels.points[rows, crossed - 1], panels.points[rows, crossed], xtol=1e-14 * self.scale)


def _reached(thresholds: Floats) -> Floats:
    """The least losses that count as reaching each threshold."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(thresholds), thresholds - TIE * np.maximum(1.0, np.abs(thresholds)), thresholds)


def difference(log_p: Floats, log_q: Floats) -> Floats:
    """Log-likelihood ratio, nan where both are impossible."""
    with np.errstate(invalid="ignore"):
        return np.asarray(log_p - log_q)


def merge_equal(aligned: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """Sort by decreasing loss and make one atom of all outcomes of equal loss, which no event need separate."""
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


def bracketed(losses: Floats, masses: Floats, cells: int) -> LossPair:
    """Pair of laws given by very many finite losses and their probabilities under the first law, summed into cells.

    Each of so many ``cells`` between the least and the greatest loss has its mass at its two ends, so that the pair is
    no harder to tell apart than in truth; its ``lower`` has each cell merged into one outcome. ``losses`` and
    ``masses`` have shape (outcomes,); the masses sum to 1, or a little less.

    Examples
    --------
    >>> pair = bracketed(np.array([0.5, -0.5]), np.array([0.622459331, 0.377540669]), 8)
    >>> np.exp(pair.atoms).round(4).tolist()
    [[0.6225, 0.3775], [0.3775, 0.6225]]
    """
    least, greatest = float(losses.min()), float(losses.max())
    step = (greatest - least) / cells
    if step == 0.0:
        return LossPair.nothing()
    place = np.minimum(((losses - least) / step).astype(np.intp), cells - 1)
    p, q = np.bincount(place, masses, cells), np.bincount(place, masses * np.exp(-losses), cells)
    return of_cells(np.asarray(p, float), np.asarray(q, float), least, step)


def of_cells(p: Floats, q: Floats, least: float, step: float) -> LossPair:
    """Pair of laws given by both probabilities of each cell of the loss, of which the first begins at ``least``.

    As `bracketed`, which sums losses into such cells.
    """
    edges = least + step * np.arange(len(p) + 1)
    right = np.clip((p - q * np.exp(edges[:-1])) / -np.expm1(-step), 0.0, p)
    spread = np.append(p - right, 0.0) + np.append(0.0, right)
    with np.errstate(divide="ignore"):
        outer = np.log(np.stack([spread, spread * np.exp(-edges)]))
        inner = np.log(np.stack([p, q]))
    kept = spread > 0.0
    return LossPair(outer[:, kept][:, ::-1], edges[kept][::-1], lower=LossPair.of(inner[:, p > 0.0]))
