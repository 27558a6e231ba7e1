"""Learn what coordinates tell together from few outputs: each tells what its neighbours do, a little more or less.

Training outputs of both sides enter, sums of one term a coordinate leave. The terms of classifiers are free of each
other and want many outputs; here a coordinate's coefficients are a polynomial in its place, so that ten coordinates
are learnt from as few outputs as two. That is how mechanisms answer rows of queries: with each refusal, the value that
a sparse vector then releases tells a little more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.mechanism import Outputs
from audit.witnesses.combinations import matrix
from audit.witnesses.features import Coordinate
from audit.witnesses.models import Additive, Term
from audit.witnesses.regression import regress
from audit.witnesses.scores import Monotone, Score
from audit.witnesses.screening import size_of

Floats = NDArray[np.float64]
RANKS = (0.03, 0.265, 0.5, 0.735, 0.97)
"""Where the knots are, among all finite numbers of all coordinates."""
PENALTY = 1.0
CONVERGED = 0.01
"""Gain of log likelihood that is not worth another step."""
ENOUGH = 20_000
"""Outputs a side that are learnt from: few coefficients gain little from more."""


@dataclass(frozen=True)
class AlongCoordinates:
    """Sums of terms, one a coordinate, whose coefficients are polynomials in its place: logistic regression.

    A term is piecewise linear between a few knots, which all coordinates share, with values of its own for infinities
    and NaN.

    Parameters
    ----------
    degrees : tuple of int
        Degrees of the polynomials; one score each.
    least : int
        Fewest training outputs a side below which nothing is learnt.
    most : int
        Most coordinates: beyond, the sums take too long.

    Examples
    --------
    Ten coordinates that all move a little, learnt from 100 outputs a side:

    >>> rng = np.random.default_rng(0)
    >>> score = AlongCoordinates(degrees=(0,)).fit(rng.normal(1.0, 1.0, (100, 10)), rng.normal(0.0, 1.0, (100, 10)))[0]
    >>> bool(np.corrcoef(score(fresh := rng.normal(size=(1000, 10))), fresh.sum(axis=1))[0, 1] > 0.95)
    True
    """

    degrees: tuple[int, ...] = (1, 3)
    least: int = 16
    most: int = 64

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`."""
        size = size_of(outputs)
        if not 2 < size <= self.most or min(len(outputs), len(outputs_prime)) < self.least:
            return []
        both = [matrix(side[:ENOUGH], size) for side in (outputs, outputs_prime)]
        rows, side = np.concatenate(both), np.repeat([1.0, 0.0], [len(numbers) for numbers in both])
        finite = rows[np.isfinite(rows)]
        knots = np.unique(np.quantile(finite, RANKS)) if len(finite) else finite
        moments = _moments(rows, knots, max(self.degrees))
        return [Monotone(_fitted(moments[: degree + 1], side, size, knots), 1, learnt=True) for degree in self.degrees]


def _moments(rows: Floats, knots: Floats, degree: int) -> NDArray[np.float32]:
    """Columns of all coordinates, weighted by powers of the place and summed; shape (degree + 1, rows, columns)."""
    found = np.zeros((degree + 1, len(rows), len(knots) + 3), np.float32)
    for place, numbers in zip(_places(rows.shape[1]), rows.T, strict=True):
        columns = _columns(numbers, knots)
        for power in range(degree + 1):
            found[power] += np.float32(place**power) * columns
    return found


def _columns(numbers: Floats, knots: Floats) -> NDArray[np.float32]:
    """Hat functions at the knots, and indicators of -inf, inf and NaN; shape (rows, knots + 3)."""
    finite = np.isfinite(numbers)
    hats = [np.interp(np.where(finite, numbers, 0.0), knots, hat) * finite for hat in np.eye(len(knots))]
    return np.stack([*hats, numbers == -np.inf, numbers == np.inf, np.isnan(numbers)], axis=1).astype(np.float32)


def _fitted(moments: NDArray[np.float32], side: Floats, size: int, knots: Floats) -> Additive:
    """Regress the side on the columns, and write the coefficients of every coordinate out."""
    coefficients = regress(np.concatenate(moments, axis=1), side, 1.0 - side, PENALTY, None, CONVERGED)
    powers = _places(size)[:, None] ** np.arange(len(moments))
    terms = []
    for place, values in enumerate((powers @ coefficients.reshape(len(moments), -1)).tolist()):
        *heights, below, above, missing = values
        terms.append(Term(Coordinate(place), tuple(knots.tolist()), tuple(heights), below, above, missing))
    return Additive(tuple(terms))


def _places(size: int) -> Floats:
    """Coordinates from -1 to 1."""
    return np.linspace(-1.0, 1.0, size)
