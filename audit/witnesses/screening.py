"""Which of many features are worth a closer look: a quick two-sample test of each, on a part of the training outputs.

From features and training outputs it returns the few features on which the sides differ most. Nothing is certified
here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs import Outputs, are_objects, rows_of
from epsaudit.witnesses.combinations import combinations_of, increments
from epsaudit.witnesses.features import Coordinate, Feature, Value
from epsaudit.witnesses.releases import releases_of
from epsaudit.witnesses.structure import numbers_inside, structure_of

Floats = NDArray[np.float64]
LOOK = 16_000
"""Outputs of each side that a screening reads."""
CELLS = 24
"""Quantile cells of a coordinate whose counts are compared. Set by hand in the first round; no measurement is
recorded."""
MOST_COORDINATES = 256
"""Coordinates of a vector that are screened, which bounds the time. Set by hand in the first round; no measurement
is recorded."""


def screen(
    features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs, most: int, least: float = -np.inf
) -> list[Feature]:
    """Return the ``most`` features with the greatest evidence, in their order, of those with at least ``least``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 5))
    >>> screen([Coordinate(i) for i in range(5)], x + [0, 0, 1, 0, 0], rng.normal(size=(1000, 5)), most=1)
    [Coordinate(index=2)]
    """
    if len(features) <= most and least == -np.inf:
        return list(features)
    part, part_prime = outputs[:LOOK], outputs_prime[:LOOK]
    found = [evidence(feature(part), feature(part_prime)) for feature in features]
    best = sorted(np.argsort(found, kind="stable")[::-1][:most])
    return [features[i] for i in best if found[i] >= least]


def evidence(numbers: NDArray[np.generic], numbers_prime: NDArray[np.generic]) -> float:
    """How much better two laws explain the numbers than one, in standard deviations of chance.

    Wilks's likelihood ratio statistic over cells: single values where these are few, else quantiles; NaN is a cell.
    """
    return standardised(*deviance(cells(numbers, numbers_prime)))


def cells(numbers: NDArray[np.generic], numbers_prime: NDArray[np.generic]) -> tuple[NDArray[np.int64], int]:
    """Cell of every number, x's first, and how many numbers are x's."""
    pooled = np.concatenate([np.asarray(numbers, float), np.asarray(numbers_prime, float)])
    known = pooled[~np.isnan(pooled)]
    levels = np.unique(known)
    if len(levels) > CELLS:
        levels = np.unique(np.sort(known)[np.linspace(0, len(known) - 1, CELLS).astype(int)])
    return np.where(np.isnan(pooled), -1, np.searchsorted(levels, pooled)), len(numbers)


def deviance(placed: tuple[NDArray[np.int64], int]) -> tuple[float, int]:
    """Likelihood ratio statistic of the cells of two samples, and its degrees of freedom."""
    place, size = placed
    code = place - place.min(initial=0)
    cells = int(code.max(initial=0)) + 1
    table = np.stack([np.bincount(side, minlength=cells) for side in (code[:size], code[size:])]).astype(float)
    table = table[:, table.any(axis=0)]
    expected = table.sum(axis=0) * (table.sum(axis=1, keepdims=True) / max(table.sum(), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(table > 0, table * np.log(table / expected), 0.0)
    return 2.0 * float(terms.sum()), table.shape[1] - 1


def standardised(statistic: float, freedom: int) -> float:
    """A chi-square statistic less its mean, in units of its standard deviation."""
    return (statistic - freedom) / np.sqrt(2.0 * freedom) if freedom > 0 else 0.0


def size_of(outputs: Outputs) -> int:
    """Number of coordinates of outputs that are numeric arrays, 0 for others and for scalars."""
    rows = rows_of(outputs)
    return 0 if rows is None else min(rows.shape[1], MOST_COORDINATES)


def described(outputs: Outputs, outputs_prime: Outputs) -> tuple[list[list[Feature]], list[Feature]]:
    """Groups of features that may be independent within each group, and features that combine several parts.

    Both empty for outputs that are single numbers or single symbols: there nothing can be combined.
    """
    size = size_of(outputs)
    if size:
        coordinates: list[Feature] = [Coordinate(i) for i in range(size)]
        releases = releases_of(outputs, outputs_prime, size)
        groups = [coordinates, increments(size), releases]
        return [group for group in groups if group and size > 1] or [coordinates], combinations_of(size) + releases
    if not are_objects(outputs):
        return [], []
    sample = [*outputs.tolist(), *outputs_prime.tolist()]
    if not any(isinstance(value, (tuple, frozenset)) for value in sample):
        return [], []
    inside = numbers_inside(sample)
    longest = max((len(value) for value in sample if isinstance(value, tuple)), default=0)
    flat = all(isinstance(feature(outputs[:1])[0], float) for feature in inside) and 1 < longest <= 16
    together = combinations_of(longest) if flat and inside else []
    releases = releases_of(outputs, outputs_prime, longest) if together else []
    alone: list[Feature] = [Value(), *inside, *structure_of(outputs, outputs_prime)]
    groups = [list(dict.fromkeys(alone)), releases]
    return [group for group in groups if group], together + releases
