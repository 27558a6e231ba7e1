"""Quick two-sample tests on a part of the training outputs: which features tell the two sides apart at all.

Features come in with outputs of both sides, and those that are worth being looked at alone come out; how many were
tried goes with them, for the best of many is lucky.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from epsaudit.outputs.normal_form import Outputs
from epsaudit.witnesses.features import Feature
from epsaudit.witnesses.settings import CELLS_TO_TEST, FALSE_FINDS, LOOK

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
BLOCK = 32
"""Features that are tested at once, which bounds the memory."""


def screen(
    features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs, most: int, least: float = -np.inf
) -> list[Feature]:
    """Return the ``most`` features with the greatest evidence, in their order, of those with at least ``least``.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Coordinate
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 5))
    >>> screen([Coordinate(i) for i in range(5)], x + [0, 0, 1, 0, 0], rng.normal(size=(1000, 5)), most=1)
    [Coordinate(index=2)]
    """
    if len(features) <= most and least == -np.inf:
        return list(features)
    part, part_prime = outputs[:LOOK], outputs_prime[:LOOK]
    blocks = (features[start : start + BLOCK] for start in range(0, len(features), BLOCK))
    found = [told for block in blocks for told in _evidence(block, part, part_prime)]
    best = sorted(np.argsort(found, kind="stable")[::-1][:most])
    return [features[i] for i in best if found[i] >= least]


def _evidence(features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[float]:
    """Standardised deviance of each feature; that of numbers many of which differ from counts at quantiles alone."""
    read = [np.array([np.asarray(feature(side), float) for feature in features]) for side in (outputs, outputs_prime)]
    sides = [np.sort(numbers, axis=1) for numbers in read]
    pooled = np.sort(np.concatenate(sides, axis=1), axis=1)
    many = np.count_nonzero(pooled[:, 1:] > pooled[:, :-1], axis=1) >= CELLS_TO_TEST
    if not many.all() or np.isnan(pooled[:, -1]).any():
        return [standardised(*deviance(*cells(one, other))) for one, other in zip(*read, strict=True)]
    levels = pooled[:, np.linspace(0, pooled.shape[1] - 1, CELLS_TO_TEST).astype(int)]
    sides_and_levels = zip(*sides, levels, strict=True)
    below = [[np.searchsorted(side, cuts, "right") for side in pair] for *pair, cuts in sides_and_levels]
    tables = np.diff(np.array(below, float), axis=2, prepend=0.0)  # (features, sides, cells)
    return [standardised(*_deviance(table)) for table in tables]


def cells(numbers: NDArray[np.generic], numbers_prime: NDArray[np.generic]) -> tuple[NDArray[np.int64], int]:
    """Cell of every number, x's first, and how many numbers are x's: single values if few, else quantiles; and NaN."""
    pooled = np.concatenate([np.asarray(numbers, float), np.asarray(numbers_prime, float)])
    known = np.sort(pooled[~np.isnan(pooled)])
    levels = known[np.append(True, known[1:] > known[:-1])[: len(known)]]
    if len(levels) > CELLS_TO_TEST:
        levels = np.unique(known[np.linspace(0, len(known) - 1, CELLS_TO_TEST).astype(int)])
    return np.where(np.isnan(pooled), -1, np.searchsorted(levels, pooled)), len(numbers)


def deviance(place: NDArray[np.int64], size: int) -> tuple[float, int]:
    """Wilks's likelihood ratio statistic of the cells of two samples, and its degrees of freedom."""
    code = place - place.min(initial=0)
    number = int(code.max(initial=0)) + 1
    counts = [np.bincount(side, minlength=number) for side in (code[:size], code[size:])]
    return _deviance(np.stack(counts).astype(float))


def _deviance(table: Floats) -> tuple[float, int]:
    """The same of counts, shape (sides, cells)."""
    table = table[:, table.any(axis=0)]
    expected = table.sum(axis=0) * (table.sum(axis=1, keepdims=True) / max(table.sum(), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(table > 0, table * np.log(table / expected), 0.0)
    return 2.0 * float(terms.sum()), table.shape[1] - 1


def standardised(statistic: float, freedom: int) -> float:
    """A chi-square statistic less its mean, in units of its standard deviation."""
    return (statistic - freedom) / np.sqrt(2.0 * freedom) if freedom > 0 else 0.0


def pearson(place: Codes, size: int) -> tuple[float, int]:
    """Pearson's statistic of the cells of two samples of one size, and its degrees of freedom.

    Its mean is exact however few fall into a cell.
    """
    code = place - place.min(initial=0)
    number = int(code.max(initial=0)) + 1
    first, second = (np.bincount(side, minlength=number) for side in (code[:size], code[size:]))
    seen = first + second > 0
    return float(np.sum((first - second)[seen] ** 2 / (first + second)[seen])), int(seen.sum()) - 1


def log_chance(statistic: float, freedom: int) -> float:
    """Log of the upper tail of a chi-square distribution, of which chance is the cause at most so often.

    Tails too small for a float are those of their first term, which keeps their order.

    Examples
    --------
    >>> round(log_chance(3.84, 1), 2), round(log_chance(3000.0, 1))
    (-2.99, -1504)
    """
    if freedom <= 0 or statistic <= 0.0:
        return 0.0
    half, order = statistic / 2.0, freedom / 2.0
    tail = float(gammaincc(order, half))
    return math.log(tail) if tail > 0.0 else float((order - 1.0) * math.log(half) - half - gammaln(order))


def sure(found: Sequence[tuple[float, Feature]], most: int) -> list[Feature]:
    """Return the features that are least likely by chance, if fewer than `FALSE_FINDS` of so many would be.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Coordinate
    >>> sure([(-1.0, Coordinate(0)), (-50.0, Coordinate(1))], 2)
    [Coordinate(index=1)]
    """
    limit = math.log(FALSE_FINDS / max(len(found), 1))
    ranked = sorted(range(len(found)), key=lambda place: found[place][0])[:most]
    return [found[place][1] for place in ranked if found[place][0] < limit]


def whole(numbers: Floats) -> bool:
    """Whether all numbers are whole, and more than 2 apart."""
    known = numbers[np.isfinite(numbers)]
    if len(known) == 0 or np.any(known[:64] != np.floor(known[:64])):
        return False
    return bool(np.all(known == np.floor(known)) and np.ptp(known) > 2)
