"""Scores of many features at once, as features themselves, and the regressions that their sums are learnt by.

They hold what a classifier learnt as plain numbers, and are printed, saved as JSON and applied again without the
library that learnt it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from epsaudit.outputs.columns import listed
from epsaudit.outputs.normal_form import Floats, Outputs, Singles
from epsaudit.outputs.packed import rows_of
from epsaudit.witnesses.features import Coordinate, Feature, readable
from epsaudit.witnesses.settings import STEPS

SHOWN = 5
"""Features of a learnt score that its text names."""
MANY, BLOCK = 32, 1 << 14
"""Lines in coordinates from which they are computed together, for so many numbers at once; neither changes a result."""


@readable
class Term:
    """A piecewise linear function of a feature: values at increasing knots, constant beyond, and at -inf, inf and NaN.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> term = Term(Value(), (0.0, 1.0), (0.0, 2.0), missing=-5.0)
    >>> term(np.array([0.25, 9.0, np.nan])).tolist()
    [0.5, 2.0, -5.0]
    """

    feature: Feature
    knots: tuple[float, ...]
    values: tuple[float, ...]
    below: float = 0.0
    above: float = 0.0
    missing: float = 0.0

    @property
    def label(self) -> str:
        return f"f({self.feature.label})"

    @property
    def spread(self) -> float:
        """Difference between the greatest and the least value: how much the term can carry."""
        return max(self.values, default=0.0) - min(self.values, default=0.0)

    def __call__(self, outputs: Outputs) -> Floats:
        numbers = np.asarray(self.feature(outputs), float)
        finite = np.isfinite(numbers)
        if finite.all():
            return np.asarray(np.interp(numbers, self.knots, self.values)) if self.knots else np.zeros(len(numbers))
        odd = np.where(np.isnan(numbers), self.missing, np.where(numbers > 0, self.above, self.below))
        if not self.knots:
            return np.where(finite, 0.0, odd)
        return np.where(finite, np.interp(np.where(finite, numbers, 0.0), self.knots, self.values), odd)


@readable
class Additive:
    """A sum of terms: what naive Bayes and logistic regression on piecewise linear functions learn.

    The label names the features whose terms vary most.

    Examples
    --------
    >>> score = Additive(tuple(Term(Coordinate(i), (0.0, 1.0), (0.0, 1.0 + i)) for i in range(2)))
    >>> score(np.array([[1.0, 1.0]])).tolist(), score.label
    ([3.0], 'score of (y[1], y[0])')
    """

    terms: tuple[Term, ...]

    @property
    def label(self) -> str:
        ranked = sorted(self.terms, key=lambda term: -term.spread)
        return _score_of([term.feature.label for term in ranked])

    def __call__(self, outputs: Outputs) -> Floats:
        rows = rows_of(outputs) if len(outputs) and self._lines is not None else None
        total = np.zeros(len(outputs))
        if rows is None or self._lines is None or rows.shape[1] <= max(self._lines[0]):
            for term in self.terms:
                total += term(outputs)
            return total
        places, low, high, first, last, slope = self._lines
        everything = places == list(range(rows.shape[1]))
        for start in range(0, len(rows), max(BLOCK // len(places), 1)):
            some = slice(start, start + max(BLOCK // len(places), 1))
            numbers = rows[some] if everything else rows[some][:, places]
            if not np.isfinite(numbers).all():
                total[some] = sum(term(outputs[some]) for term in self.terms)
                continue
            moved = np.minimum(np.maximum(numbers, low), high)
            moved -= low
            moved *= slope
            moved += first
            np.copyto(moved, last, where=numbers >= high)
            # summed in turn, so that a sum does not depend on how many outputs there are
            total[some] = np.add.accumulate(moved, axis=1)[:, -1]
        return total

    @functools.cached_property
    def _lines(self) -> tuple[list[int], Floats, Floats, Floats, Floats, Floats] | None:
        """Coordinates, both knots, the values there and the slopes, of many terms that are lines; None for others."""
        lines = [term for term in self.terms if len(term.knots) == 2]
        places = [term.feature.index for term in lines if isinstance(term.feature, Coordinate)]
        if len(places) < max(len(self.terms), MANY):
            return None
        (low, high), (first, last) = np.array([one.knots for one in lines]).T, np.array([one.values for one in lines]).T
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            steps, slope = high - low, (last - first) / (high - low)
        plain = min(places) >= 0 and np.all(steps > 0.0) and np.isfinite([steps, slope]).all()
        return (places, low, high, first, last, slope) if plain else None


@readable
class Tree:
    """A binary tree of thresholds on features: value of the leaf that an output falls into.

    Node i sends outputs with ``features[columns[i]] <= thresholds[i]`` to ``left[i]``, the others, NaN included, to
    ``right[i]``; a leaf has column -1.

    Examples
    --------
    >>> tree = Tree((Coordinate(0),), (0, -1, -1), (0.5, 0.0, 0.0), (1, 0, 0), (2, 0, 0), (0.0, -1.0, 1.0))
    >>> tree(np.array([[0.2], [0.7]])).tolist(), tree.label
    ([-1.0, 1.0], 'score of (y[0])')
    """

    features: tuple[Feature, ...]
    columns: tuple[int, ...]
    thresholds: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def label(self) -> str:
        asked = dict.fromkeys(column for column in self.columns if column >= 0)
        return _score_of([self.features[column].label for column in asked])

    def __call__(self, outputs: Outputs) -> Floats:
        asked = {column for column in self.columns if column >= 0}
        numbers = {column: np.asarray(self.features[column](outputs), float) for column in asked}
        result = np.full(len(outputs), self.values[0])
        stack: list[tuple[int, Any]] = [(0, np.arange(len(outputs)))]
        while stack:
            node, rows = stack.pop()
            column = self.columns[node]
            if column < 0:
                result[rows] = self.values[node]
                continue
            low = numbers[column][rows] <= self.thresholds[node]
            stack += [(self.left[node], rows[low]), (self.right[node], rows[~low])]
        return result


@readable
class Filled:
    """Another feature with NaN as -2e30 and numbers within [-1e30, 1e30], which a tree in single precision can compare.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> Filled(Value())(np.array([1.0, np.inf, np.nan])).tolist()
    [1.0, 1e+30, -2e+30]
    """

    feature: Feature

    @property
    def label(self) -> str:
        return self.feature.label

    def __call__(self, outputs: Outputs) -> Floats:
        numbers = np.asarray(self.feature(outputs), float)
        return np.where(np.isnan(numbers), -2e30, np.clip(numbers, -1e30, 1e30))


def _score_of(labels: list[str]) -> str:
    return f"score of ({listed(labels, SHOWN)})"


IN_CACHE = 4096
"""Numbers whose hat functions are computed at once: in the processor's cache twice as fast as all."""


def regress(
    design: Singles,
    side: Singles,
    weight: Singles,
    folds: NDArray[np.int8] | None,
    penalties: Sequence[Floats],
    steps: int = STEPS,
) -> tuple[Floats, Singles]:
    """Ridge logistic regressions of the side that an output came from, for every penalty, and without each fold.

    They share one matrix of information, that at coefficients of 0, which bounds it everywhere, so that Newton's method
    with it never overshoots (Boehning and Lindsay 1988); where outputs tell little, it is the true one.

    Parameters
    ----------
    design : ndarray of float32, shape (entries, columns)
        Regressors.
    side, weight : ndarray of float32, shape (entries,)
        1 for x and 0 for x', and how often it was seen.
    folds : ndarray of int, shape (entries,), or None
        The fold of each entry; None for no folds.
    penalties : sequence of ndarray, shape (columns, columns)
        Twice the quadratic form that is taken from the log likelihood.

    Returns
    -------
    ndarray, shape (penalties, columns); ndarray of float32, shape (penalties, entries)
        Coefficients learnt from all entries, and the log odds of x of every entry, learnt without its fold.

    Examples
    --------
    Seen 3 times as often on x where the regressor is 1:

    >>> design, side = np.float32([[1], [1]]), np.float32([1, 0])
    >>> regress(design, side, np.float32([300, 100]), None, [np.zeros((1, 1))], 20)[0].round(2).tolist()
    [[1.1]]
    """
    folds = np.zeros(len(design), np.int8) if folds is None else folds
    number = int(folds.max(initial=0)) + 1
    rows = [_rows(folds, fold) for fold in range(number)]
    parts = [(design[one], side[one, None], weight[one, None]) for one in rows]
    once = bool(np.all(weight == 1.0))
    grams = np.array([(part if once else part * seen).T @ part for part, _, seen in parts], float) / 4.0
    total = grams.sum(axis=0) + 1e-3 * np.eye(design.shape[1])
    left_out = [*grams, 0.0] if number > 1 else [0.0]
    factors = [[cho_factor(total - out + penalty) for penalty in penalties] for out in left_out]
    weights = np.zeros((len(left_out), len(penalties), design.shape[1]))
    for _ in range(steps):
        slopes = np.zeros_like(weights)
        flat = weights.reshape(-1, design.shape[1]).T.astype(np.float32)
        for fold, (part, own, seen) in enumerate(parts):
            slope = ((seen * (own - expit(part @ flat))).T @ part).reshape(weights.shape)
            slopes += slope
            if number > 1:
                slopes[fold] -= slope[fold]
        for k, factored in enumerate(factors):
            for v, (factor, penalty) in enumerate(zip(factored, penalties, strict=True)):
                weights[k, v] += cho_solve(factor, slopes[k, v] - penalty @ weights[k, v])
    judged = np.empty((len(penalties), len(design)), np.float32)
    for fold, (one, (part, _, _)) in enumerate(zip(rows, parts, strict=True)):
        judged[:, one] = (part @ weights[fold].T.astype(np.float32)).T
    return weights[-1], judged


def _rows(folds: NDArray[np.int8], fold: int) -> slice | NDArray[np.int64]:
    """Rows of a fold: where they are neighbours a slice, which copies nothing."""
    rows = np.flatnonzero(folds == fold)
    return slice(rows[0], rows[-1] + 1) if len(rows) and rows[-1] - rows[0] < len(rows) else rows


def hats(numbers: Floats, knots: Floats) -> Singles:
    """Hat functions at increasing knots, shape (size, knots); constant beyond the ends.

    Examples
    --------
    >>> hats(np.array([-9.0, 0.0, 0.25, 3.0]), np.array([0.0, 1.0])).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]
    """
    found = np.empty((len(knots), len(numbers)), np.float32)
    steps = np.diff(knots)[:, None]
    for start in range(0, len(numbers), IN_CACHE):  # so many that they stay in the processor's cache
        ramps = np.clip((numbers[start : start + IN_CACHE] - knots[:-1, None]) / steps, 0.0, 1.0)
        found[:, start : start + IN_CACHE] = 0.0 - np.diff(ramps, axis=0, prepend=1.0, append=0.0)
    return found.T
