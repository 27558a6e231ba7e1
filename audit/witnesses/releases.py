"""Where a vector holds its first or last number, and which: for outputs that release some answers and withhold others.

Sparse vectors give such outputs: below-threshold answers are infinite or missing, and the loss is in the place of the
released number together with its value. Each feature takes vectors (or tuples) and returns one number for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs import Outputs
from epsaudit.witnesses.combinations import matrix
from epsaudit.witnesses.features import Feature, readable

Floats = NDArray[np.float64]
WORTH_A_LOOK = 0.1
"""Least share of outputs with a place that holds no number."""


@readable
@dataclass(frozen=True)
class Place:
    """The place of the first finite number of a vector, or of the last; the size where there is none.

    Parameters
    ----------
    size : int
        Number of coordinates.
    last : bool
        Whether the last one is meant.

    Examples
    --------
    >>> rows = np.array([[-np.inf, 3.5, 1.0], [np.nan, np.nan, np.nan]])
    >>> Place(3)(rows).tolist(), Place(3, last=True)(rows).tolist(), Place(3).label
    ([1.0, 3.0], [2.0, 3.0], 'place of the first number')
    """

    size: int
    last: bool = False

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"place of the {_which(self.last)} number"

    def __call__(self, outputs: Outputs) -> Floats:
        """See `Feature`."""
        return _places(matrix(outputs, self.size), self.last).astype(float)


@readable
@dataclass(frozen=True)
class Release(Place):
    """The first finite number of a vector, or the last; NaN where there is none; its parameters are those of `Place`.

    Examples
    --------
    >>> rows = np.array([[-np.inf, 3.5, 1.0], [np.nan, np.nan, np.nan]])
    >>> Release(3)(rows).tolist(), Release(3, last=True)(rows).tolist(), Release(3).label
    ([3.5, nan], [1.0, nan], 'first number')
    """

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"{_which(self.last)} number"

    def __call__(self, outputs: Outputs) -> Floats:
        """See `Feature`."""
        columns = matrix(outputs, self.size)
        places = _places(columns, self.last)
        found = places < self.size
        return np.where(found, columns[np.arange(len(columns)), np.where(found, places, 0)], np.nan)


def releases_of(outputs: Outputs, outputs_prime: Outputs, size: int) -> list[Feature]:
    """List the places and numbers that vary, of vectors some of whose coordinates hold no number.

    Examples
    --------
    >>> rows = np.array([[-np.inf, 3.5], [2.0, np.nan], [-np.inf, 1.0]])
    >>> [feature.label for feature in releases_of(rows, rows, 2)]
    ['place of the first number', 'first number']
    >>> releases_of(np.ones((2, 2)), np.ones((2, 2)), 2)
    []
    """
    sample = np.concatenate([matrix(side[:2000], size) for side in (outputs, outputs_prime)])
    numbers = np.isfinite(sample).sum(axis=1)
    if size < 2 or np.mean(numbers < size) < WORTH_A_LOOK or not np.any(numbers):
        return []
    ends = (False, True) if np.max(numbers) > 1 else (False,)
    return [kind(size, last) for last in ends for kind in (Place, Release)]


def _places(columns: Floats, last: bool) -> NDArray[np.int64]:
    finite, size = np.isfinite(columns), columns.shape[1]
    found = size - 1 - finite[:, ::-1].argmax(axis=1) if last else finite.argmax(axis=1)
    return np.asarray(np.where(finite.any(axis=1), found, size))


def _which(last: bool) -> str:
    return "last" if last else "first"
