"""Piecewise linear functions of one feature, as columns for a regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats, Singles
from epsaudit.search.difference_tests import unique_of_sorted
from epsaudit.search.encoding import Encoding
from epsaudit.search.limits import MAX_DISTINCT_KNOTS, MIN_OCCURRENCES
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.learnt import Term

KNOT_RANKS = (0.01, 0.1, 0.3, 0.47, 0.53, 0.7, 0.9, 0.99)
"""[measured] Ranks of the knots of hat functions. Some are far out, where events are cut. Others are close to the
middle, where the likelihood ratio of two Laplace distributions has a step: for prefix sums, the certified bound is 0.96
of an oracle's bound, and 0.90 with only one knot in the middle."""


def compute_hat_functions(numbers: Floats, knots: Floats) -> Singles:
    """Return the values of the hat functions at increasing knots, shape (size, knots).

    A hat function is 1 at its own knot, 0 at all other knots, and linear between knots. The first and the last hat
    function stay constant beyond the ends.
    """
    found, rest = np.empty((len(knots), len(numbers)), np.float32), 1.0
    for hat, knot, width in zip(found, knots, np.diff(knots), strict=False):
        ramp = np.clip((numbers - knot) / width, 0.0, 1.0)
        hat[:], rest = rest - ramp, ramp
    found[-1] = rest
    return found.T


def mark_non_finite(numbers: Floats) -> NDArray[np.bool_]:
    """Return three boolean arrays, shape (3, size): where numbers are -inf, where inf, and where NaN."""
    return np.array([numbers == -np.inf, numbers == np.inf, np.isnan(numbers)])


def compute_quantiles(ordered: Floats, shares: Sequence[float]) -> Floats:
    """Return the quantiles of sorted numbers, as `numpy.quantile` does, without sorting again."""
    place = (len(ordered) - 1) * np.asarray(shares)
    below = place.astype(int)
    low, high, far = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)], place - below
    return np.asarray(np.where(far < 0.5, low + (high - low) * far, high - (high - low) * (1.0 - far)))


@dataclass(frozen=True)
class FeatureBasis:
    """The columns that describe one feature in a regression.

    Attributes
    ----------
    feature : Feature
        The feature.
    knots : array
        Increasing knots of the hat functions.
    odd : array of shape (3,)
        Whether there is an indicator column for -inf, for inf and for NaN.
    linear : bool
        Whether the basis is one straight line between two knots. It then has one column, the second hat function.
    """

    feature: Feature
    knots: Floats
    odd: NDArray[np.bool_]
    linear: bool = False

    @property
    def width(self) -> int:
        """Number of columns of the basis."""
        return max(len(self.knots) - self.linear, 0) + int(self.odd.sum())

    def columns(self, numbers: Floats) -> Singles:
        """Return the columns of the basis for the given numbers, shape (size, width)."""
        finite = np.isfinite(numbers)
        if finite.all() and len(self.knots) and not self.odd.any():
            return compute_hat_functions(numbers, self.knots)[:, int(self.linear) :]
        indicators = mark_non_finite(numbers)[self.odd].T
        if not len(self.knots):
            return indicators.astype(np.float32)
        found = (
            compute_hat_functions(np.where(finite, numbers, self.knots[0]), self.knots)[:, int(self.linear) :]
            * finite[:, None]
        )
        return np.concatenate([found, indicators], axis=1, dtype=np.float32)

    def term(self, coefficients: Floats) -> Term:
        """Return the function of the feature that these coefficients of the columns define, as a `Term`."""
        of_hats = self.width - int(self.odd.sum())
        values = [*([0.0] if self.linear else []), *coefficients[:of_hats].tolist()]
        rest = iter(coefficients[of_hats:].tolist())
        below, above, missing = (next(rest) if kept else 0.0 for kept in self.odd)
        return Term(self.feature, tuple(self.knots.tolist()), tuple(values), below, above, missing)


def build_bases(
    group: Sequence[Feature], data: Encoding, rows: NDArray[np.int64], lines: bool = False
) -> tuple[list[FeatureBasis], list[FeatureBasis]]:
    """Return the spline basis of each feature and, if ``lines`` is true, a linear basis between its end points.

    If ``lines`` is false, the list of spline bases is returned twice. Knots are quantiles of the given rows, or all
    distinct values if there are few. The bases have an indicator column for -inf, for inf or for NaN if any feature of
    the group takes this value often.
    """
    ordered, odd = [], np.zeros(3, bool)
    for one in (data.numbers(feature)[rows] for feature in group):
        finite = np.isfinite(one)
        if not finite.all():
            odd |= np.count_nonzero(mark_non_finite(one), axis=1) >= MIN_OCCURRENCES
        ordered.append(np.sort(one[finite]))
    curves, straight = [], []
    for feature, one in zip(group, ordered, strict=True):
        values = unique_of_sorted(one)
        knots = unique_of_sorted(compute_quantiles(one, KNOT_RANKS)) if len(values) > MAX_DISTINCT_KNOTS else values
        curves.append(FeatureBasis(feature, knots, odd))
        if lines:
            ends = unique_of_sorted(compute_quantiles(one, (KNOT_RANKS[0], KNOT_RANKS[-1]))) if len(one) else one
            straight.append(FeatureBasis(feature, ends, odd, len(one) > 0))
    return curves, straight or curves
