"""Estimate how often each cut of a score is seen, more precisely than by counting.

Binned counts of both training halves enter; smoothed counts leave. Counting alone overrates rare events that got
lucky; a smooth log ratio of the two sides, kept within two standard errors of the counts, does not.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, ndtri

Floats = NDArray[np.float64]
STANDARD_ERRORS = 2.0
PENALTY = 1.0
NO_IDEA = 1e3
"""Standard error of a log ratio of which nothing is known."""
KNOTS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)


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


def smooth(centres: Floats, fitting: Binned, judging: Binned) -> Curve:
    """Estimate the log ratio of the two sides along a score by the best of a few curves.

    Every curve is a logistic regression fitted on ``fitting``; the one with the least loss on ``judging`` is fitted
    again on both.

    Parameters
    ----------
    centres : ndarray, shape (bins,)
        A typical score of each bin, increasing.
    fitting, judging : Binned
        Counts in the same bins, of the two halves of the training outputs.
    """
    both = fitting + judging
    if not (np.any(both.counts) and np.any(both.counts_prime)):
        return Curve(np.zeros(len(centres)), np.full(len(centres), NO_IDEA))

    def loss(basis: Floats) -> float:
        logit = _fit(basis, fitting)
        return -float(judging.counts @ log_expit(logit) + judging.counts_prime @ log_expit(-logit))

    basis = min(_bases(centres, both.pooled), key=loss)
    logit = _fit(basis, both)
    design = np.column_stack([np.ones(len(basis)), basis])
    information = (design * (both.pooled * expit(logit) * expit(-logit))[:, None]).T @ design
    information += PENALTY * np.eye(len(information))
    variance = np.einsum("ij,jk,ik->i", design, np.linalg.inv(information), design)
    return Curve(logit, np.sqrt(np.maximum(variance, 0.0)))


def keep_near(estimate: Floats, seen: Floats, size: int) -> Floats:
    """Move estimated counts out of ``size`` to within two standard errors of the counts that were seen."""
    slack = STANDARD_ERRORS * np.sqrt(seen * (1.0 - seen / size) + 1.0)
    return np.clip(estimate, np.maximum(seen - slack, 0.0), np.minimum(seen + slack, size))


def _bases(centres: Floats, weights: Floats) -> list[Floats]:
    """Regressors for the log ratio: linear, piecewise linear, and piecewise linear in normal scores."""
    total = np.sum(weights)
    if len(centres) < 3 or total == 0.0:
        return [np.zeros((len(centres), 1))]
    ranks = (np.cumsum(weights) - weights / 2 + 0.5) / (total + 1.0)
    scores = ndtri(ranks)
    low, middle, high = np.interp((0.25, 0.5, 0.75), ranks, centres)
    spread = high - low or float(np.ptp(centres)) or 1.0
    position = np.clip((centres - middle) / spread, -1e3, 1e3)
    bases = [position[:, None], scores[:, None]]
    for regressor in (position, scores):
        knots = np.unique(np.interp(KNOTS, ranks, regressor))
        bases.append(np.column_stack([regressor, np.maximum(regressor[:, None] - knots, 0.0)]))
    return [basis / np.maximum(np.sqrt(np.average(basis**2, axis=0, weights=weights)), 1e-9) for basis in bases]


def _fit(basis: Floats, binned: Binned) -> Floats:
    """Logistic regression of the side on the basis, lightly penalised; the fitted log ratio of every bin."""
    from sklearn import config_context  # a second to import, and only training needs it
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    sides = np.repeat([1, 0], len(basis))
    weights = np.concatenate([binned.counts, binned.counts_prime])
    if not (np.any(binned.counts) and np.any(binned.counts_prime)):
        return np.zeros(len(basis))
    doubled = np.concatenate([basis, basis])
    model = LogisticRegression(C=1.0 / PENALTY, tol=1e-6, solver="newton-cholesky")
    with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the other half of training judges a poor fit
        model.fit(doubled, sides, sample_weight=weights)
    return np.asarray(basis @ model.coef_[0] + model.intercept_[0])
