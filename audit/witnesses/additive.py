"""Additive models whose coordinates share coefficients, for learning a score of a whole vector from few outputs.

From training outputs of both sides this fits sums of one term a coordinate. The terms of `Classifiers` have free
coefficients and need many outputs; here a coordinate's coefficients are a polynomial in its index, or constant on each
half or quarter of the coordinates, so that ten coordinates need as few outputs as two. Vectors of answers are often of
this kind: in sparse vector, the later a value is released the more it tells; and where half of the answers rise and
half fall, or two outputs are concatenated, the coordinates of each part are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs import Outputs
from epsaudit.witnesses.combinations import matrix
from epsaudit.witnesses.features import Coordinate
from epsaudit.witnesses.models import Additive, Term
from epsaudit.witnesses.regression import regress
from epsaudit.witnesses.scores import Monotone, Score
from epsaudit.witnesses.screening import size_of

Floats = NDArray[np.float64]
RANKS = (0.03, 0.265, 0.5, 0.735, 0.97)
"""Where the knots are, among all finite numbers of all coordinates."""
PENALTY = 1.0
"""Ridge penalty of the coefficients, in units of one observation. Set by hand in the first round; no measurement is
recorded."""
CONVERGED = 0.01
"""Gain of log likelihood that is not worth another step."""
ENOUGH = 20_000
"""Outputs a side that are learnt from: few coefficients gain little from more."""


@dataclass(frozen=True)
class SharedAdditive:
    """Sums of terms, one a coordinate, whose coefficients are polynomials in its index: logistic regression.

    A term is piecewise linear between a few knots, which all coordinates share, with values of its own for infinities
    and NaN.

    Parameters
    ----------
    shapes : tuple of (int, int)
        Into how many equal parts the coordinates are divided, and the degree of the polynomial in each; one score each.
    least : int
        Fewest training outputs a side below which nothing is learnt.
    most : int
        Most coordinates: beyond, the sums take too long.

    Examples
    --------
    Ten coordinates that all move a little, learnt from 100 outputs a side:

    >>> rng = np.random.default_rng(0)
    >>> x, x_prime, fresh = (rng.normal(mean, 1.0, (size, 10)) for mean, size in ((1.0, 100), (0.0, 100), (0.5, 1000)))
    >>> score = SharedAdditive(shapes=((1, 0),)).fit(x, x_prime)[0]
    >>> bool(np.corrcoef(score(fresh), fresh.sum(axis=1))[0, 1] > 0.95)
    True
    """

    shapes: tuple[tuple[int, int], ...] = ((1, 1), (2, 0), (4, 0))
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
        columns = [_columns(numbers, knots) for numbers in rows.T]
        powers = [_powers(size, parts, degree) for parts, degree in self.shapes if parts < size]
        return [Monotone(_fitted(columns, power, side, knots), 1, learnt=True) for power in powers]


def _powers(size: int, parts: int, degree: int) -> Floats:
    """Powers of every coordinate's position in its part, from -1 to 1, and 0 in other parts; shape (size, columns)."""
    part = np.arange(size) * parts // size
    x = np.concatenate([np.linspace(-1.0, 1.0, int(np.sum(part == one))) for one in range(parts)])
    return np.concatenate([(part == one)[:, None] * x[:, None] ** np.arange(degree + 1) for one in range(parts)], 1)


def _columns(numbers: Floats, knots: Floats) -> NDArray[np.float32]:
    """Hat functions at the knots, and indicators of -inf, inf and NaN; shape (rows, knots + 3)."""
    finite = np.isfinite(numbers)
    hats = [np.interp(np.where(finite, numbers, 0.0), knots, hat) * finite for hat in np.eye(len(knots))]
    return np.stack([*hats, numbers == -np.inf, numbers == np.inf, np.isnan(numbers)], axis=1).astype(np.float32)


def _fitted(columns: Sequence[NDArray[np.float32]], powers: Floats, side: Floats, knots: Floats) -> Additive:
    """Regress the side on sums of the coordinates' columns, and return the sum of terms."""
    design = np.zeros((powers.shape[1], *columns[0].shape), np.float32)
    for weights, column in zip(powers.astype(np.float32), columns, strict=True):
        for which in np.flatnonzero(weights):
            design[which] += weights[which] * column
    coefficients = regress(np.concatenate(design, axis=1), side, 1.0 - side, PENALTY, None, CONVERGED)
    terms = []
    for index, values in enumerate((powers @ coefficients.reshape(len(design), -1)).tolist()):
        *heights, below, above, missing = values
        terms.append(Term(Coordinate(index), tuple(knots.tolist()), tuple(heights), below, above, missing))
    return Additive(tuple(terms))
