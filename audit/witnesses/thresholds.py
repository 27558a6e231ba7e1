"""Expected counts beyond each threshold of a score, with their standard errors.

From the scores of both sides this computes tail counts at every threshold, and the counts that a certification should
expect of events cut there, lowered by a multiple of the standard error as a penalty for choosing the best of many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtr

from epsaudit.certificates import Counts, clopper_pearson_lower
from epsaudit.witnesses.smoothing import Binned, Curve, keep_near

Floats = NDArray[np.float64]
LEVELS = 72
"""Thresholds of a score that are compared: half of them in geometric steps from the ends, half evenly. Set by hand
in the first round; no measurement is recorded."""
MOST_ERRORS = 2.0
"""Largest penalty, in standard errors."""


@dataclass(frozen=True)
class TailCounts:
    """Expected counts of one tail of a score: for each threshold, how often each dataset is at or beyond it.

    ``counts`` has shape (2, levels) for (x, x') out of the held-out outputs; ``error`` is the standard error of the
    logarithm of their ratio, shape (levels,).
    """

    counts: Floats
    error: Floats


@dataclass(frozen=True)
class ExpectedCounts:
    """Expected counts of both tails: ``upper`` is {score >= t}, ``lower`` is {score <= t}, thresholds increasing.

    ``penalty`` scales the standard-error penalty of `predict`: 1 in full, 0 for none.
    """

    thresholds: NDArray[Any]
    upper: TailCounts
    lower: TailCounts
    size: int
    penalty: float = 1.0

    @property
    def standard_errors(self) -> float:
        """The penalty of the best of so many thresholds, in standard errors."""
        return self.penalty * penalty_for(len(self.thresholds))


def tails(
    tail: Callable[[Floats], Floats], likely: int, seen: Binned, curve: Curve | None, near: float, size: int
) -> TailCounts:
    """Sum bins into tails, from the counts alone or from the curve kept near the counts.

    ``likely`` is the side, 0 for x, that the tail's event is evidence for. The error of raw counts is that of a
    Clopper-Pearson limit: 25 against 0 is strong evidence, which a normal approximation would understate. Where the
    counts contradict the curve, the error of the counts is used.
    """
    counts = np.array([tail(seen.counts), tail(seen.counts_prime)])
    correct, wrong = counts[likely], counts[1 - likely]
    errors = penalty_for(counts.shape[1])
    least = logit(np.maximum(clopper_pearson_lower(correct, correct + wrong, ndtr(-errors)), 1e-12))
    raw_error = np.maximum(np.log(np.maximum(correct, 0.5) / (wrong + 0.5)) - least, 0.0) / errors
    if curve is None:
        return TailCounts(counts, raw_error)
    divided = curve.divide(seen.pooled)
    by_curve = np.array([tail(divided.counts), tail(divided.counts_prime)])
    estimate = keep_near(by_curve, counts, size, near)
    pooled = np.maximum(tail(seen.pooled), 1e-9)
    error = np.minimum(tail(seen.pooled * curve.standard_error) / pooled, raw_error)
    return TailCounts(estimate, np.where(np.all(estimate == by_curve, axis=0), error, raw_error))


def penalty_for(thresholds: int) -> float:
    """About the expected largest of so many standard normal errors, and at most ``MOST_ERRORS``."""
    return min(MOST_ERRORS, math.sqrt(2.0 * math.log(thresholds + 1.0)))


def predict(expected: ExpectedCounts, upper: NDArray[np.int64], lower: NDArray[np.int64], runs: int) -> Counts:
    """Counts to expect in ``runs`` certification runs, less the standard-error penalty.

    ``upper`` and ``lower`` are indices of the thresholds of the two events, -1 for no such event. The log ratio of
    correct to wrong guesses is taken ``expected.standard_errors`` below its estimate, so that a few training outputs
    that fell favourably by chance are not taken for a strong event.
    """
    present = np.array([upper >= 0, lower >= 0])
    correct = np.where(present, [expected.upper.counts[0][upper], expected.lower.counts[1][lower]], 0.0)
    wrong = np.where(present, [expected.upper.counts[1][upper], expected.lower.counts[0][lower]], 0.0)
    error = np.where(present, [expected.upper.error[upper], expected.lower.error[lower]], 0.0)
    guesses = correct + wrong
    combined = np.sqrt(np.sum((guesses * error) ** 2, axis=0)) / np.maximum(np.sum(guesses, axis=0), 1e-9)
    # half of the penalty falls on either kind, on correct guesses at most one standard error of their own number:
    # against a delta it matters how many they are
    share = np.minimum(combined / 2, 1.0 / np.sqrt(np.maximum(np.sum(correct, axis=0), 1.0)))
    correct = correct * np.exp(-expected.standard_errors * share)
    wrong = (wrong + 0.5 * present) * np.exp(expected.standard_errors * (combined - share))
    correct, wrong = (np.minimum(counts, expected.size) * (runs / 2 / expected.size) for counts in (correct, wrong))
    return Counts(runs / 2, runs / 2, correct[0], wrong[0], wrong[1], correct[1], events=int(present.any(axis=1).sum()))


def thresholds_of(pooled: NDArray[Any]) -> NDArray[Any]:
    """Thresholds to try: all values if few, else quantiles that crowd geometrically towards both ends."""
    values = np.unique(pooled)
    if len(values) <= LEVELS:
        return values
    pooled, n = np.sort(pooled), len(pooled)
    tail = np.unique(np.geomspace(1, n // 2, LEVELS // 2).astype(int))
    middle = np.linspace(0, n - 1, LEVELS // 2).astype(int)
    return np.unique(pooled[np.concatenate([tail - 1, n - tail, middle])])


def bins_of(thresholds: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Bin of each score: below the first threshold, at each threshold, between it and the next; -1 for NaN."""
    above = np.searchsorted(thresholds, values, side="left")
    at = thresholds[np.minimum(above, len(thresholds) - 1)] == values
    return np.where(np.isnan(values), -1, 2 * above + at)


def binned(thresholds: NDArray[Any], *bins: NDArray[np.int64]) -> Binned:
    """Count the scores of both sides in each bin."""
    number = 2 * len(thresholds) + 1
    return Binned(*(np.bincount(side + 1, minlength=number + 1)[1:].astype(float) for side in bins))


def halves(thresholds: NDArray[Any], *values: NDArray[Any]) -> tuple[Binned, Binned]:
    """Count the scores of both sides in each bin, every other one apart."""
    bins = [bins_of(thresholds, side) for side in values]
    first, second = (binned(thresholds, *(side[part::2] for side in bins)) for part in (0, 1))
    return first, second


def from_above(counts: Floats) -> Floats:
    """Counts at or above each threshold."""
    return np.asarray(np.cumsum(counts[::-1])[::-1][1::2])


def from_below(counts: Floats) -> Floats:
    """Counts at or below each threshold."""
    return np.asarray(np.cumsum(counts)[1::2])


def bin_centres(thresholds: NDArray[Any]) -> Floats:
    """A typical score for each bin: the thresholds themselves and the middles between them."""
    values = _finite(thresholds.astype(float))
    ends = (
        [2 * values[0] - values[1], 2 * values[-1] - values[-2]] if len(values) > 1 else [values[0] - 1, values[0] + 1]
    )
    centres = np.empty(2 * len(values) + 1)
    centres[1::2] = values
    centres[2:-1:2] = (values[:-1] + values[1:]) / 2
    centres[[0, -1]] = ends
    return centres


def _finite(values: Floats) -> Floats:
    """Put infinite scores a little beyond the finite ones: only the order of what lies there matters."""
    finite = values[np.isfinite(values)]
    if len(finite) == len(values):
        return values
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    margin = (high - low) / 4.0 or 1.0
    return np.clip(values, low - margin, high + margin)
