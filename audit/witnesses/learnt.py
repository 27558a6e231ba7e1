"""Learnt scores as plain numbers.

They are applied without the library that learnt them, and can be written to JSON and read without running code.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.outputs.arrays import Outputs, rows_of
from epsaudit.outputs.formatting import list_names
from epsaudit.witnesses.feature import Feature, FormattedLabel
from epsaudit.witnesses.parts import Coordinate

MAX_SHOWN_FEATURES = 5
"""[chosen] Maximum number of features of a learnt score that its text names."""


@dataclass(frozen=True)
class Term(FormattedLabel):
    """A piecewise linear function of one feature, given by its values at increasing knots.

    Beyond the first and the last knot the function is constant. ``below``, ``above`` and ``missing`` are its values at
    -inf, inf and NaN.
    """

    feature: Feature
    knots: tuple[float, ...]
    values: tuple[float, ...]
    below: float = 0.0
    above: float = 0.0
    missing: float = 0.0
    form = "f({0.feature.label})"

    def __call__(self, outputs: Outputs) -> Floats:
        numbers = np.asarray(self.feature(outputs), float)
        curve = np.interp(numbers, self.knots, self.values) if self.knots else np.zeros(len(numbers))
        if not (finite := np.isfinite(numbers)).all():
            odd = np.where(numbers > 0, self.above, self.below)
            curve = np.where(finite, curve, np.where(np.isnan(numbers), self.missing, odd))
        return np.asarray(curve)


@dataclass(frozen=True)
class AdditiveModel:
    """A learnt score that is a sum of piecewise linear functions (`Term`), each of one feature.

    Naive Bayes and logistic regression learn such sums. The label names the features whose terms vary most.
    """

    terms: tuple[Term, ...]

    @property
    def label(self) -> str:
        spread = [max(one.values, default=0.0) - min(one.values, default=0.0) for one in self.terms]
        ranked = sorted(range(len(spread)), key=lambda place: -spread[place])
        return f"score of ({list_names([self.terms[place].feature.label for place in ranked], MAX_SHOWN_FEATURES)})"

    def __call__(self, outputs: Outputs) -> Floats:
        total, rows = np.zeros(len(outputs)), rows_of(outputs) if len(outputs) else None
        width = max((index for index, _, _ in self._curves), default=-1)
        # most outputs are complete vectors
        if rows is not None and 0 <= width < rows.shape[1] and np.isfinite(rows).all():
            for index, knots, values in self._curves:
                total += np.interp(rows[:, index], knots, values)
            return total
        for term in self.terms:
            total += term(outputs)
        return total

    @functools.cached_property
    def _curves(self) -> list[tuple[int, Floats, Floats]]:
        """The coordinate, the knots and the values of every term, for quick evaluation on complete vectors.

        The list is empty if a term has no knots, or if its feature is not a coordinate counted from the start.
        """
        found = []
        for one in self.terms:
            if isinstance(one.feature, Coordinate) and one.feature.index >= 0 and one.knots:
                found.append((one.feature.index, np.array(one.knots), np.array(one.values)))
        return found if len(found) == len(self.terms) else []


@dataclass(frozen=True)
class Tree:
    """A binary decision tree. Its value is that of the leaf into which an output falls.

    The search does not learn trees, but stored results of earlier versions contain some.

    Node i sends outputs with ``features[columns[i]] <= thresholds[i]`` to node ``left[i]``, and all others, including
    NaN, to node ``right[i]``. Leaves have the column -1; their values are in ``values``.
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
        return f"score of ({list_names([self.features[column].label for column in asked], MAX_SHOWN_FEATURES)})"

    def __call__(self, outputs: Outputs) -> Floats:
        asked = sorted(set(self.columns) - {-1})
        numbers = np.array([self.features[column](outputs) for column in asked], float)
        columns, thresholds, left, right = map(np.array, (self.columns, self.thresholds, self.left, self.right))
        node, rows, place = np.zeros(len(outputs), int), np.arange(len(outputs)), np.searchsorted(asked, columns)
        while np.any(inner := columns[node] >= 0):
            low = numbers[place[node], rows] <= thresholds[node]
            node = np.where(inner, np.where(low, left[node], right[node]), node)
        return np.asarray(self.values)[node]
