"""DOC"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dpttrf, dpttrs
from scipy.special import expit, logit, ndtri

from epsaudit.outputs.normal_form import (
    Floats,
)

WALK_VARIANCES = tuple(np.geomspace(1e-6, 10.0, 7))
"""[chosen] Variances of the log odds, and of their slope, along the logit of the rank; the likeliest is taken."""
BEND_VARIANCES = tuple(np.geomspace(1e-5, 1e-1, 4))
"""[chosen] Variances of the log odds, and of their slope, along the logit of the rank; the likeliest is taken."""
LOGITS_PER_PROBIT = 1.7
"""[formula] Logits in a probit of the rank at which the logistic and the normal distribution are nearest, within 0.01.
Log odds may be a line along that, too, as those of Gaussian noise are. Without such lines 10 of the 60 audits above end
with 0, and 4 with; prefix sums certify 0.810 on average of 24 seeds, and 0.827."""
SINH_RATE = 0.15
"""[measured] Log odds may be a line along the hyperbolic sine of so many times the logit of the rank, too: in the tails
a power of the rank, as near the end of a support.
Report noisy max 4, 4.3 million runs: the chosen events are worth 0.78 of an oracle's without such lines, 0.87 with, and
0.85 with 0.25; no other row of the public benchmark changes by more than 0.006."""
PLATEAU_LOGITS = (1.0, 3.0, math.inf)
"""[measured] Logits of the rank beyond which the log odds may be constant, as those of a pure mechanism are. Laplace
learnt from 20,000 outputs a side: the lowest decile of what a million runs certify is 0.993, and 0.991 without."""
MAX_INDEPENDENT_LEVELS = 16
"""[measured] Levels up to which the log odds of each are its own. A sequential audit of a function that raises on one
side alone is over after 605 runs, and after 2,070 if this is 4."""
N_LIKELIHOOD_STEPS = 2
"""[measured] Newton's steps towards the likeliest log odds of counts, which tell more where none was seen of many.
Report noisy max 4 at 4.3 million runs: a median of 0.57 of an oracle's without a step, and 0.67 with two."""
LEVEL_VARIANCE = 4.0
"""[chosen] Prior variances of the log odds at the median, and of their slope along the logit of the rank: wide."""
LINE_VARIANCE = 0.01
"""[chosen] Prior variances of the log odds at the median, and of their slope along the logit of the rank: wide."""


def smooth_log_odds(tails: Floats) -> tuple[Floats, Floats]:
    """Log odds of a correct guess, and their standard error, of nested events; both of shape (levels,).

    ``tails`` are counts of correct and of wrong guesses, increasing along axis 1. The log odds between neighbouring
    events are a Gaussian process along the logit of their rank that leaves the median as a random walk, or as a line
    that bends, there, along the probit, or along a power of the rank. Of some variances the likeliest is taken: one
    that hardly moves, as where a loss is bounded, pools far tails with what is common; one that moves follows the
    counts.
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
        prior = _select_covariance(place, raw, noise)  # for all steps; one that hardly moves would overshoot
        for _ in range(N_LIKELIHOOD_STEPS):
            factor, _ = dpotrf(prior + np.diag(noise))
            odds = raw - noise * dpotrs(factor, raw)[0]
            share = expit(odds)
            noise = 1.0 / np.maximum(counts * share * (1.0 - share), 1e-9)
            raw = odds + noise * (correct - counts * share)
        prior = _select_covariance(place, raw, noise)
    inverse = np.triu(dpotri(dpotrf(prior + np.diag(noise))[0])[0])
    inverse += np.triu(inverse, 1).T
    share = expit(raw - noise * (inverse @ raw))
    correct, weights = np.cumsum(guesses * share), guesses * share * (1.0 - share)
    weighed = weights * noise
    explained = np.tril(weighed[:, None] * inverse * weighed)  # twice, but for what lies on the diagonal
    explained = np.cumsum(2.0 * explained.sum(axis=1) - np.diagonal(explained))
    variance = np.cumsum(weights * weighed) - explained
    error = np.sqrt(np.maximum(variance, 0.0)) * total / (correct * (total - correct))
    return logit(correct / total), error


def compute_one_sided_variance(odds: Floats, seen: Floats) -> Floats:
    """Variance of log odds where one side was never seen: the deviance from even odds tells it better than counts."""
    return np.asarray(odds**2 / (2.0 * math.log(2.0) * seen))


def _select_covariance(place: Floats, raw: Floats, noise: Floats) -> Floats:
    """Covariance of the process under which ``raw``, seen at increasing places with these variances, is likeliest."""
    far, same = np.abs(place), np.sign(place)[:, None] == np.sign(place)
    near = np.minimum(far[:, None], far)
    # steps of walks away from the median, on both sides, are independent: their sums are one tridiagonal system
    order = np.lexsort((far, place >= 0.0))
    first = np.diff(place[order] >= 0.0, prepend=place[0] < 0.0)

    def steps(values: Floats) -> Floats:
        return np.where(first, 0.0, np.roll(values, 1, axis=-1))

    own, flats = noise[order], np.minimum(far[order], np.array(PLATEAU_LOGITS)[:, None])
    seen = np.array([raw[order], np.ones(len(raw))])
    seen -= steps(seen)
    walks = np.multiply.outer(WALK_VARIANCES, flats - steps(flats)).reshape(-1, len(raw))
    pivots, ratios, _ = dpttrf((walks + own + steps(own)).ravel(), np.tile(-steps(own), len(walks))[1:])
    solved = dpttrs(pivots, ratios, np.tile(seen, len(walks)).T)[0].T.reshape(2, *walks.shape)
    (fit, both), (_, level) = np.einsum("avn,bn->abv", solved, seen)
    gains = 1.0 + LEVEL_VARIANCE * level  # of a level that is the same on both sides
    evidence = LEVEL_VARIANCE * both**2 / gains - fit - np.log(gains) - np.log(pivots).reshape(walks.shape).sum(axis=1)
    curves = []
    probit, steep = LOGITS_PER_PROBIT * ndtri(expit(place)), np.sinh(SINH_RATE * place) / SINH_RATE
    for along, bends in ((place, BEND_VARIANCES), (probit, BEND_VARIANCES), (steep, BEND_VARIANCES[:2])):
        ends = np.abs(along)
        low, high = np.minimum(ends[:, None], ends), np.maximum(ends[:, None], ends)
        bend, line = low**2 * (3.0 * high - low) / 6.0 * same, LEVEL_VARIANCE + LINE_VARIANCE * np.outer(along, along)
        curves.append(line + np.multiply.outer(bends, bend))
    bent = np.concatenate(curves)
    # in a last row, the root of a covariance with what was seen holds that in units of chance
    roots = np.zeros((len(bent), len(raw) + 1, len(raw) + 1))
    roots[:, -1] = np.append(raw, 1.0 + raw @ (raw / noise))
    roots[:, :-1, :-1] = bent
    np.einsum("bll->bl", roots)[:, :-1] += noise
    roots[...] = np.linalg.cholesky(roots)
    lost = roots[:, -1, :-1] ** 2 + 2.0 * np.log(np.diagonal(roots, axis1=1, axis2=2)[:, :-1])
    evidence = np.append(evidence, -lost.sum(axis=1))
    best = int(np.argmax(evidence))
    if best >= len(walks):
        return np.asarray(bent[best - len(walks)])
    walk, flat = divmod(best, len(PLATEAU_LOGITS))
    return np.asarray(LEVEL_VARIANCE + WALK_VARIANCES[walk] * np.minimum(near, PLATEAU_LOGITS[flat]) * same)
