"""DOC"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.normal_form import (
    Floats,
    Singles,
)
from epsaudit.search.difference_tests import unique_of_sorted
from epsaudit.search.encoding import Encoding
from epsaudit.search.limits import MAX_DISTINCT_KNOTS, MIN_OCCURRENCES
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.learnt import Term

KNOT_RANKS = (0.01, 0.1, 0.3, 0.47, 0.53, 0.7, 0.9, 0.99)
"""[measured] Knots of hat functions, in ranks: far out, where events are cut, and close in the middle, where the
likelihood ratio of two Laplace laws has a step: prefix sum has a share of 0.96, and of 0.90 with one knot there."""


def compute_hat_functions(numbers: Floats, knots: Floats) -> Singles:
    """Hat functions at increasing knots, shape (size, knots); constant beyond the ends."""
    found, rest = np.empty((len(knots), len(numbers)), np.float32), 1.0
    for hat, knot, width in zip(found, knots, np.diff(knots), strict=False):
        ramp = np.clip((numbers - knot) / width, 0.0, 1.0)
        hat[:], rest = rest - ramp, ramp
    found[-1] = rest
    return found.T


def mark_non_finite(numbers: Floats) -> NDArray[np.bool_]:
    """Where numbers are -inf, inf and NaN, shape (3, size)."""
    return np.array([numbers == -np.inf, numbers == np.inf, np.isnan(numbers)])


def compute_quantiles(ordered: Floats, shares: Sequence[float]) -> Floats:
    """What `numpy.quantile` gives, of numbers in order."""
    place = (len(ordered) - 1) * np.asarray(shares)
    below = place.astype(int)
    low, high, far = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)], place - below
    return np.asarray(np.where(far < 0.5, low + (high - low) * far, high - (high - low) * (1.0 - far)))


@dataclass(frozen=True)
class FeatureBasis:
    """Columns that describe one feature: hat functions at a few knots, and indicators of -inf, inf and NaN.

    Of a ``linear`` one the first of two hats is left out: it is what the second leaves.
    """

    feature: Feature
    knots: Floats
    odd: NDArray[np.bool_]
    linear: bool = False

    @property
    def width(self) -> int:
        return max(len(self.knots) - self.linear, 0) + int(self.odd.sum())

    def columns(self, numbers: Floats) -> Singles:
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
        """The term that these coefficients of the columns make."""
        of_hats = self.width - int(self.odd.sum())
        values = [*([0.0] if self.linear else []), *coefficients[:of_hats].tolist()]
        rest = iter(coefficients[of_hats:].tolist())
        below, above, missing = (next(rest) if kept else 0.0 for kept in self.odd)
        return Term(self.feature, tuple(self.knots.tolist()), tuple(values), below, above, missing)


def build_bases(
    group: Sequence[Feature], data: Encoding, rows: NDArray[np.int64], lines: bool = False
) -> tuple[list[FeatureBasis], list[FeatureBasis]]:
    """The basis of each feature, and one of a line between ends if ``lines``, else the same.

    Knots are quantiles in these rows, or each number where few differ. Indicators are of what any feature often is.
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
