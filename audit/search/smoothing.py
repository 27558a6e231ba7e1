"""Smoothed estimates of how often an event is a correct guess.

The log odds of a correct guess are estimated for all nested events of a score at once, so that rare events borrow
information from common ones. The derivation is in docs/explanation/smoothing.md. The estimates decide which event is
chosen; they cannot make a bound invalid.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dpttrf, dpttrs
from scipy.special import expit, logit, ndtri

from epsaudit.array_types import Floats

WALK_VARIANCES = tuple(np.geomspace(1e-6, 10.0, 7))
"""[chosen] Variances of the change of the log odds for each logit of the rank, if the log odds are a random walk. The
value with the largest marginal likelihood is taken."""
BEND_VARIANCES = tuple(np.geomspace(1e-5, 1e-1, 4))
"""[chosen] Variances of the change of the slope of the log odds, if the log odds are a line that bends. The value with
the largest marginal likelihood is taken."""
LOGITS_PER_PROBIT = 1.7
"""[formula] Number of logits in one probit of the rank for which the logistic and the normal distribution are closest,
within 0.01. The log odds may be a line along the probit, as those of Gaussian noise are. In 60 audits of Gaussian noise
as Gaussian DP with a million runs, 10 audits end with a bound of 0 without such lines, and 4 with them. The mean bound
of prefix sums over 24 seeds is 0.810 without them, and 0.827 with them."""
SINH_RATE = 0.15
"""[measured] The log odds may also be a line along the hyperbolic sine of this number times the logit of the rank. In
the tails this is a power of the rank, as near the end of a support. For report noisy max 4 and 4.3 million runs, the
chosen events are worth 0.78 of an oracle's without such lines, 0.87 with them, and 0.85 if this number is 0.25. No
other row of the public benchmark changes by more than 0.006."""
PLATEAU_LOGITS = (1.0, 3.0, math.inf)
"""[measured] Logits of the rank beyond which the log odds may be constant, as those of a pure mechanism are. If Laplace
noise is learnt from 20,000 outputs of each side, the lowest decile of the bounds that a million runs certify is 0.993,
and 0.991 without plateaus."""
MAX_INDEPENDENT_LEVELS = 16
"""[measured] Maximum number of thresholds for which the log odds of the cells are independent. A sequential audit of a
function that raises on one side only ends after 605 runs, and after 2,070 if this number is 4."""
N_LIKELIHOOD_STEPS = 2
"""[measured] Number of Newton steps towards the most likely log odds of the counts. They matter in cells in which one
side was never seen. For report noisy max 4 with 4.3 million runs, the median share of an oracle's bound is 0.57 without
a step, and 0.67 with two."""
LEVEL_VARIANCE = 4.0
"""[chosen] Prior variance of the log odds at the median. It is wide."""
LINE_VARIANCE = 0.01
"""[chosen] Prior variance of the slope of the log odds, if they are a line. It is wide."""


def smooth_log_odds(tails: Floats) -> tuple[Floats, Floats]:
    """Return smoothed log odds of a correct guess for nested events, and their standard errors.

    Every event contains the one before it. ``tails`` has shape (2, levels): the numbers of correct and of wrong guesses
    in each event, which increase along axis 1. Both results have the shape (levels,).
    """
    seen = np.diff(tails, axis=1, prepend=0.0) + 0.5
    guesses = seen.sum(axis=0)
    raw, noise, total = np.log(seen[0] / seen[1]), (1.0 / seen).sum(axis=0), np.cumsum(guesses)
    if len(raw) <= MAX_INDEPENDENT_LEVELS:
        prior = (LEVEL_VARIANCE + WALK_VARIANCES[-1]) * np.eye(len(raw))
        noise = np.where((seen.min(axis=0) == 0.5) & (guesses > 1.0), compute_one_sided_variance(raw, guesses), noise)
    else:
        place, counts, correct = (
            logit((total - guesses / 2.0) / total[-1]),
            guesses - 1.0,
            seen[0] - 0.5,
        )
        # One covariance serves all steps: a new one that hardly moves would make a step overshoot.
        covariances = _covariances_at(tuple(place.tolist()))
        prior = covariances.select(raw, noise)
        for _ in range(N_LIKELIHOOD_STEPS):
            factor, _ = dpotrf(prior + np.diag(noise))
            odds = raw - noise * dpotrs(factor, raw)[0]
            share = expit(odds)
            noise = 1.0 / np.maximum(counts * share * (1.0 - share), 1e-9)
            raw = odds + noise * (correct - counts * share)
        prior = covariances.select(raw, noise)
    inverse = np.triu(dpotri(dpotrf(prior + np.diag(noise))[0])[0])
    inverse += np.triu(inverse, 1).T
    share = expit(raw - noise * (inverse @ raw))
    correct, weights = np.cumsum(guesses * share), guesses * share * (1.0 - share)
    weighed = weights * noise
    explained = np.tril(weighed[:, None] * inverse * weighed)  # off-diagonal terms occur twice, the diagonal once
    explained = np.cumsum(2.0 * explained.sum(axis=1) - np.diagonal(explained))
    variance = np.cumsum(weights * weighed) - explained
    error = np.sqrt(np.maximum(variance, 0.0)) * total / (correct * (total - correct))
    return logit(correct / total), error


def compute_one_sided_variance(odds: Floats, seen: Floats) -> Floats:
    """Return the variance of estimated log odds for cells in which outputs of only one dataset were seen.

    ``odds`` are the estimates, and ``seen`` the numbers of outputs. For these cells, the deviance from even odds
    describes the uncertainty better than the usual sum of inverse counts.
    """
    return np.asarray(odds**2 / (2.0 * math.log(2.0) * seen))


class PriorCovariances:
    """The prior covariance matrices from which the smoothing of log odds chooses.

    A prior describes how the log odds change with the rank of an output's score: as a random walk, or as a line that
    bends. ``place`` are the logits of the ranks, in increasing order. The matrices depend on the ranks only, and are
    computed once for all observations.
    """

    def __init__(self, place: Floats) -> None:
        far, self._same = np.abs(place), np.sign(place)[:, None] == np.sign(place)
        self._near = np.minimum(far[:, None], far)
        # The steps of a random walk away from the median are independent, on both sides. Differences of neighbours
        # therefore lead to one tridiagonal system.
        self._order = np.lexsort((far, place >= 0.0))
        self._first = np.diff(place[self._order] >= 0.0, prepend=place[0] < 0.0)
        flats = np.minimum(far[self._order], np.array(PLATEAU_LOGITS)[:, None])
        self._walks = np.multiply.outer(WALK_VARIANCES, flats - self._steps(flats)).reshape(-1, len(place))
        # Each matrix has one row and one column more than there are ranks, for the observations.
        bends = [BEND_VARIANCES, BEND_VARIANCES, BEND_VARIANCES[:2]]
        self._lines = np.zeros((sum(map(len, bends)), len(place) + 1, len(place) + 1))
        probit, steep = LOGITS_PER_PROBIT * ndtri(expit(place)), np.sinh(SINH_RATE * place) / SINH_RATE
        start = 0
        for along, variances in zip((place, probit, steep), bends, strict=True):
            ends = np.abs(along)
            low, high = np.minimum(ends[:, None], ends), np.maximum(ends[:, None], ends)
            bend = low**2 * (3.0 * high - low) / 6.0 * self._same
            line = LEVEL_VARIANCE + LINE_VARIANCE * np.outer(along, along)
            for variance in variances:
                self._lines[start, :-1, :-1] = line + variance * bend
                start += 1

    def select(self, raw: Floats, noise: Floats) -> Floats:
        """Return the prior covariance matrix under which the observed log odds are most likely.

        ``raw`` are the observed log odds, and ``noise`` their variances.
        """
        walks = self._compute_evidence_of_walks(raw, noise)
        best = int(np.argmax(np.append(walks, self._compute_evidence_of_lines(raw, noise))))
        if best >= len(walks):
            return self._lines[best - len(walks), :-1, :-1]
        walk, flat = divmod(best, len(PLATEAU_LOGITS))
        walked = np.minimum(self._near, PLATEAU_LOGITS[flat]) * self._same
        return np.asarray(LEVEL_VARIANCE + WALK_VARIANCES[walk] * walked)

    def _compute_evidence_of_walks(self, raw: Floats, noise: Floats) -> Floats:
        """Return twice the log marginal likelihood of the observed log odds under each random-walk prior.

        A constant is left out, which is the same as in `_compute_evidence_of_lines`.
        """
        own, seen = noise[self._order], np.array([raw[self._order], np.ones(len(raw))])
        seen -= self._steps(seen)
        walks, before = self._walks, self._steps(own)
        pivots, ratios, _ = dpttrf((walks + own + before).ravel(), np.tile(-before, len(walks))[1:])
        solved = dpttrs(pivots, ratios, np.tile(seen, len(walks)).T)[0].T.reshape(2, *walks.shape)
        (fit, both), (_, level) = np.einsum("avn,bn->abv", solved, seen)
        gains = 1.0 + LEVEL_VARIANCE * level  # the level at the median is common to both sides
        log_pivots = np.log(pivots).reshape(walks.shape).sum(axis=1)
        return np.asarray(LEVEL_VARIANCE * both**2 / gains - fit - np.log(gains) - log_pivots)

    def _compute_evidence_of_lines(self, raw: Floats, noise: Floats) -> Floats:
        """Return twice the log marginal likelihood of the observed log odds under each prior of a line that bends.

        A constant is left out, which is the same as in `_compute_evidence_of_walks`.
        """
        # The last row of the Cholesky factor contains the observations in units of standard deviations.
        extended = self._lines.copy()
        extended[:, -1] = np.append(raw, 1.0 + raw @ (raw / noise))
        np.einsum("bll->bl", extended)[:, :-1] += noise
        roots = np.linalg.cholesky(extended)
        lost = roots[:, -1, :-1] ** 2 + 2.0 * np.log(np.diagonal(roots, axis1=1, axis2=2)[:, :-1])
        return np.asarray(-lost.sum(axis=1))

    def _steps(self, values: Floats) -> Floats:
        """Return for each value the neighbouring value that is nearer to the median of the ranks.

        It is 0 for the two values next to the median, which have no such neighbour.
        """
        return np.where(self._first, 0.0, np.roll(values, 1, axis=-1))


@functools.lru_cache(2)  # both tails; two features whose numbers never repeat have the same ranks
def _covariances_at(place: tuple[float, ...]) -> PriorCovariances:
    return PriorCovariances(np.array(place))
