"""How often each cut of a score is expected to be seen, and how sure that is.

Scores of both sides enter; counts of the tails at every threshold leave, with standard errors, and the counts that a
certification is to expect, shifted to the pessimistic side.
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
CAUTION = 2.0


@dataclass(frozen=True)
class Tails:
    """One side's cuts of a score: for each threshold, how often each dataset is expected at or beyond it.

    ``counts`` has shape (2, levels) for (x, x') out of the outputs that judge; ``error`` is the standard error of the
    logarithm of their ratio, shape (levels,).
    """

    counts: Floats
    error: Floats


@dataclass(frozen=True)
class Cuts:
    """All cuts of a score: ``upper`` is {score >= t}, ``lower`` is {score <= t}, thresholds increasing."""

    thresholds: NDArray[Any]
    upper: Tails
    lower: Tails
    size: int
    doubt: float = 1.0

    @property
    def caution(self) -> float:
        """Standard errors by which the luckiest of so many cuts is to be doubted."""
        return self.doubt * caution(len(self.thresholds))


def tails(
    tail: Callable[[Floats], Floats], likely: int, seen: Binned, curve: Curve | None, near: float, size: int
) -> Tails:
    """Sum bins into tails, from the counts alone or from the curve kept near the counts.

    ``likely`` is the side, 0 for x, that the tail's event speaks for. Counts alone are judged as strictly as a
    Clopper-Pearson limit would: 25 against 0 is no weak evidence, as a normal approximation would have it. Where the
    counts contradict the curve, its error says nothing.
    """
    counts = np.array([tail(seen.counts), tail(seen.counts_prime)])
    correct, wrong = counts[likely], counts[1 - likely]
    doubt = caution(counts.shape[1])
    least = logit(np.maximum(clopper_pearson_lower(correct, correct + wrong, ndtr(-doubt)), 1e-12))
    raw_error = np.maximum(np.log(np.maximum(correct, 0.5) / (wrong + 0.5)) - least, 0.0) / doubt
    if curve is None:
        return Tails(counts, raw_error)
    divided = curve.divide(seen.pooled)
    by_curve = np.array([tail(divided.counts), tail(divided.counts_prime)])
    estimate = keep_near(by_curve, counts, size, near)
    pooled = np.maximum(tail(seen.pooled), 1e-9)
    error = np.minimum(tail(seen.pooled * curve.standard_error) / pooled, raw_error)
    return Tails(estimate, np.where(np.all(estimate == by_curve, axis=0), error, raw_error))


def caution(cuts: int) -> float:
    """About the expected largest of so many standard normal errors, and at most ``CAUTION``."""
    return min(CAUTION, math.sqrt(2.0 * math.log(cuts + 1.0)))


def predict(cuts: Cuts, upper: NDArray[np.int64], lower: NDArray[np.int64], runs: int) -> Counts:
    """Counts to expect in ``runs`` certification runs, shifted to the pessimistic side.

    The log ratio of correct to wrong guesses is taken ``cuts.caution`` standard errors below its estimate, so that a
    lucky handful of training outputs does not pass for a strong event.
    """
    present = np.array([upper >= 0, lower >= 0])
    correct = np.where(present, [cuts.upper.counts[0][upper], cuts.lower.counts[1][lower]], 0.0)
    wrong = np.where(present, [cuts.upper.counts[1][upper], cuts.lower.counts[0][lower]], 0.0)
    error = np.where(present, [cuts.upper.error[upper], cuts.lower.error[lower]], 0.0)
    guesses = correct + wrong
    combined = np.sqrt(np.sum((guesses * error) ** 2, axis=0)) / np.maximum(np.sum(guesses, axis=0), 1e-9)
    # half of the shift falls on either kind, but correct guesses are never doubted beyond their own standard error:
    # against a delta it matters how many they are
    doubt = np.minimum(combined / 2, 1.0 / np.sqrt(np.maximum(np.sum(correct, axis=0), 1.0)))
    correct = correct * np.exp(-cuts.caution * doubt)
    wrong = (wrong + 0.5 * present) * np.exp(cuts.caution * (combined - doubt))
    correct, wrong = (np.minimum(counts, cuts.size) * (runs / 2 / cuts.size) for counts in (correct, wrong))
    return Counts(runs / 2, runs / 2, correct[0], wrong[0], wrong[1], correct[1], events=int(present.any(axis=1).sum()))


def levels_of(pooled: NDArray[Any]) -> NDArray[Any]:
    """Thresholds to try: all values if few, else quantiles that crowd geometrically towards both ends."""
    values = np.unique(pooled)
    if len(values) <= LEVELS:
        return values
    pooled, n = np.sort(pooled), len(pooled)
    tail = np.unique(np.geomspace(1, n // 2, LEVELS // 2).astype(int))
    middle = np.linspace(0, n - 1, LEVELS // 2).astype(int)
    return np.unique(pooled[np.concatenate([tail - 1, n - tail, middle])])


def places_of(thresholds: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Bin of each score: below the first threshold, at each threshold, between it and the next; -1 for NaN."""
    above = np.searchsorted(thresholds, values, side="left")
    at = thresholds[np.minimum(above, len(thresholds) - 1)] == values
    return np.where(np.isnan(values), -1, 2 * above + at)


def binned(thresholds: NDArray[Any], *places: NDArray[np.int64]) -> Binned:
    """Count the scores of both sides in each bin."""
    bins = 2 * len(thresholds) + 1
    return Binned(*(np.bincount(side + 1, minlength=bins + 1)[1:].astype(float) for side in places))


def halves(thresholds: NDArray[Any], *values: NDArray[Any]) -> tuple[Binned, Binned]:
    """Count the scores of both sides in each bin, every other one apart."""
    places = [places_of(thresholds, side) for side in values]
    first, second = (binned(thresholds, *(side[part::2] for side in places)) for part in (0, 1))
    return first, second


def from_above(counts: Floats) -> Floats:
    """Counts at or above each threshold."""
    return np.asarray(np.cumsum(counts[::-1])[::-1][1::2])


def from_below(counts: Floats) -> Floats:
    """Counts at or below each threshold."""
    return np.asarray(np.cumsum(counts)[1::2])


def centres_of(thresholds: NDArray[Any]) -> Floats:
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
