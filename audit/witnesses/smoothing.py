"""Smoothed counts in the bins of a score, more precise than raw counts.

From the binned counts of both training halves this estimates a smooth log ratio of the two sides, and divides pooled
counts by it. Raw counts overrate rare events that were frequent by chance; a smooth log ratio kept near them does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit, ndtri

from epsaudit.witnesses.regression import regress

Floats = NDArray[np.float64]
PENALTY = 1.0
"""Ridge penalty of the slope, in units of one observation. Set by hand in the first round; no measurement is
recorded."""
NO_IDEA = 1e3
"""Standard error of a log ratio of which nothing is known."""
KNOTS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
"""Knots of the splines, in ranks: denser at the ends, where events are cut. Set by hand in the first round; no
measurement is recorded."""
ENDS = (0.0, 0.03, 0.1, 0.17, 0.24, 0.31, 0.38, 0.45, 0.5)
"""Ranks where a clipped line may begin to rise, and as far from the top end. A bounded loss is flat in the tails."""
NEWTON_STEPS = 8
"""Newton steps of the clipped lines, all at once; the likelihood is concave and the penalty keeps it bounded. Set
by hand in the first round; no measurement is recorded."""


@dataclass(frozen=True)
class Binned:
    """Counts of outputs of x and of x' in the bins of a score; all arrays have shape (bins,)."""

    counts: Floats
    counts_prime: Floats

    def __add__(self, other: Binned) -> Binned:
        return Binned(self.counts + other.counts, self.counts_prime + other.counts_prime)

    @property
    def pooled(self) -> Floats:
        """Counts of both sides together."""
        return self.counts + self.counts_prime


@dataclass(frozen=True)
class Curve:
    """An estimated log ratio of the two sides in every bin, with its standard error."""

    log_ratio: Floats
    standard_error: Floats

    def divide(self, pooled: Floats) -> Binned:
        """Divide pooled counts between the sides."""
        return Binned(pooled * expit(self.log_ratio), pooled * expit(-self.log_ratio))


def smooth(centres: Floats, fitting: Binned, held_out: Binned) -> Curve:
    """Estimate the log ratio of the two sides along a score by the best of some curves.

    Most are clipped linear functions, since a bounded loss is flat in the tails, where a line that goes on rising
    overstates it; the others are linear splines.
    Every curve is a logistic regression fitted on ``fitting``; the one with the least loss on ``held_out`` is fitted
    again on both.

    Parameters
    ----------
    centres : ndarray, shape (bins,)
        A typical score of each bin, increasing.
    fitting, held_out : Binned
        Counts in the same bins, of the two halves of the training outputs.
    """
    both = fitting + held_out
    if not (np.any(both.counts) and np.any(both.counts_prime)):
        return Curve(np.zeros(len(centres)), np.full(len(centres), NO_IDEA))

    def loss(log_ratio: Floats) -> Floats:
        return -(log_expit(log_ratio) @ held_out.counts + log_expit(-log_ratio) @ held_out.counts_prime)

    known = _regressors(centres, both.pooled) if len(centres) >= 3 else None
    clipped = np.zeros((1, len(centres))) if known is None else _clipped(*known, both.pooled)
    splines = [] if known is None else _splines(*known, both.pooled)
    best_clipped = clipped[np.argmin(loss(_fit_each(clipped, fitting)))][:, None]
    basis = min([best_clipped, *splines], key=lambda basis: float(loss(_fit(basis, fitting))))
    log_ratio = _fit(basis, both)
    design = np.column_stack([np.ones(len(basis)), basis])
    information = (design * (both.pooled * expit(log_ratio) * expit(-log_ratio))[:, None]).T @ design
    information += PENALTY * np.eye(len(information))
    variance = np.einsum("ij,jk,ik->i", design, np.linalg.inv(information), design)
    return Curve(log_ratio, np.sqrt(np.maximum(variance, 0.0)))


def keep_near(estimate: Floats, seen: Floats, size: int, standard_errors: float) -> Floats:
    """Move estimated counts out of ``size`` to within so many standard errors of the counts that were seen."""
    slack = standard_errors * np.sqrt(seen * (1.0 - seen / size) + 1.0)
    return np.clip(estimate, np.maximum(seen - slack, 0.0), np.minimum(seen + slack, size))


def _regressors(centres: Floats, weights: Floats) -> tuple[Floats, list[Floats]]:
    """Ranks in (0, 1) of the bins, and what a log ratio may be linear in: the score itself, and its normal score."""
    ranks = (np.cumsum(weights) - weights / 2 + 0.5) / (np.sum(weights) + 1.0)
    low, middle, high = np.interp((0.25, 0.5, 0.75), ranks, centres)
    spread = high - low or float(np.ptp(centres)) or 1.0
    return ranks, [np.clip((centres - middle) / spread, -1e3, 1e3), ndtri(ranks)]


def _clipped(ranks: Floats, regressors: list[Floats], weights: Floats) -> Floats:
    """Clipped linear regressors, which rise on one stretch and are flat on either side of it, shape (lines, bins)."""
    score, normal_score = regressors
    ends = [np.interp((low, 1.0 - high), ranks, score) for low in ENDS for high in ENDS if low + high < 1.0]
    lines = np.stack([normal_score, *(np.clip(score, *between) for between in ends)])
    spread = np.sqrt(
        np.average((lines - np.average(lines, axis=1, weights=weights)[:, None]) ** 2, axis=1, weights=weights)
    )
    return lines / np.maximum(spread, 1e-9)[:, None]


def _splines(ranks: Floats, regressors: list[Floats], weights: Floats) -> list[Floats]:
    """Linear splines, which may rise and fall, each of shape (bins, regressors)."""
    bases = []
    for regressor in regressors:
        knots = np.unique(np.interp(KNOTS, ranks, regressor))
        clipped = np.clip(regressor, knots[0], knots[-1])
        bases.append(np.column_stack([clipped, np.maximum(clipped[:, None] - knots[1:-1], 0.0)]))
    return [basis / np.maximum(np.sqrt(np.average(basis**2, axis=0, weights=weights)), 1e-9) for basis in bases]


def _fit_each(lines: Floats, binned: Binned) -> Floats:
    """As `_fit`, on every line by itself, all at once by Newton's method; shape (lines, bins)."""
    if not (np.any(binned.counts) and np.any(binned.counts_prime)):
        return np.zeros(lines.shape)
    lines = lines - np.average(lines, axis=1, weights=binned.pooled)[:, None]
    height = np.full(len(lines), logit(np.sum(binned.counts) / np.sum(binned.pooled)))
    slope = np.zeros(len(lines))
    for _ in range(NEWTON_STEPS):
        share = expit(height[:, None] + slope[:, None] * lines)
        residual = binned.counts - binned.pooled * share
        weight = binned.pooled * share * (1.0 - share)
        first = np.sum(residual, axis=1), np.sum(residual * lines, axis=1) - PENALTY * slope
        flat, mixed, steep = (
            np.sum(weight, axis=1),
            np.sum(weight * lines, axis=1),
            np.sum(weight * lines**2, axis=1) + PENALTY,
        )
        determinant = np.maximum(flat * steep - mixed**2, 1e-9)
        height += np.clip((steep * first[0] - mixed * first[1]) / determinant, -1.0, 1.0)
        slope += np.clip((flat * first[1] - mixed * first[0]) / determinant, -1.0, 1.0)
    return height[:, None] + slope[:, None] * lines


def _fit(basis: Floats, binned: Binned) -> Floats:
    """Logistic regression of the side on the basis, lightly penalised; the fitted log ratio of every bin."""
    if not (np.any(binned.counts) and np.any(binned.counts_prime)):
        return np.zeros(len(basis))
    design = np.column_stack([np.ones(len(basis)), basis])
    penalty = np.append(0.0, np.full(basis.shape[1], PENALTY))
    start = np.append(logit(np.sum(binned.counts) / np.sum(binned.pooled)), np.zeros(basis.shape[1]))
    return np.asarray(design @ regress(design, binned.counts, binned.counts_prime, penalty, start))
