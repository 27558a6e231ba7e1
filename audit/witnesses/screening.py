"""Quick two-sample tests on a part of the training outputs: which features, coordinates and pairs of these tell at all.

Of long arrays all coordinates, waves and patches are looked at, by the means of a few functions of each. How many were
tried goes with those that are worth being looked at, for the best of many is lucky.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from epsaudit.outputs.normal_form import Codes, Floats, Outputs
from epsaudit.witnesses.features import Feature, Patch, Wave
from epsaudit.witnesses.settings import CELLS_TO_TEST, FALSE_FINDS, LOOK, MOST_CORRELATED, MOST_PAIRED, PATCHES, TELLING

BLOCK = 32
"""Features that are tested at once, which bounds the memory."""


def pooled(feature: Feature, sides: Sequence[Outputs]) -> Floats:
    """Read a feature off the outputs of both sides, x's first."""
    return np.concatenate([np.asarray(feature(side), float) for side in sides])


def counts_of(codes: Codes, size: int, cells: int = 0) -> NDArray[np.int64]:
    """How many of two samples fall into each cell, by codes from 0 of which so many are x's; shape (2, cells)."""
    cells = max(cells, int(codes.max(initial=0)) + 1)
    return np.array([np.bincount(side, minlength=cells) for side in (codes[:size], codes[size:])])


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
    both = np.sort(np.concatenate(sides, axis=1), axis=1)
    many = np.count_nonzero(both[:, 1:] > both[:, :-1], axis=1) >= CELLS_TO_TEST
    if not many.all() or np.isnan(both[:, -1]).any():
        return [standardised(*deviance(*cells(one, other))) for one, other in zip(*read, strict=True)]
    levels = both[:, np.linspace(0, both.shape[1] - 1, CELLS_TO_TEST).astype(int)]
    sides_and_levels = zip(*sides, levels, strict=True)
    below = [[np.searchsorted(side, cuts, "right") for side in pair] for *pair, cuts in sides_and_levels]
    tables = np.diff(np.array(below, float), axis=2, prepend=0.0)  # (features, sides, cells)
    return [standardised(*_deviance(table)) for table in tables]


def cells(numbers: NDArray[np.generic], numbers_prime: NDArray[np.generic]) -> tuple[NDArray[np.int64], int]:
    """Cell of every number, x's first, and how many numbers are x's: single values if few, else quantiles; and NaN."""
    both = np.concatenate([np.asarray(numbers, float), np.asarray(numbers_prime, float)])
    known, levels = _levels(both)
    if len(levels) > CELLS_TO_TEST:
        levels = np.unique(known[np.linspace(0, len(known) - 1, CELLS_TO_TEST).astype(int)])
    return np.where(np.isnan(both), -1, np.searchsorted(levels, both)), len(numbers)


def _levels(numbers: Floats) -> tuple[Floats, Floats]:
    """Numbers in order without NaN, and which different ones there are."""
    known = np.sort(numbers[~np.isnan(numbers)])
    return known, known[np.append(True, known[1:] > known[:-1])[: len(known)]]


def codes_of(numbers: Floats, most: int) -> tuple[Codes, Floats]:
    """Cells of numbers, -1 for NaN, and the edges between them: single values if few, else quantiles."""
    known, levels = _levels(numbers)
    with np.errstate(invalid="ignore"):
        if len(levels) > most:
            levels = np.unique(known[np.linspace(0, len(known) - 1, most + 1).astype(int)])
            edges = levels[1:-1]
        else:
            edges = (levels[1:] + levels[:-1]) / 2.0
    return np.where(np.isnan(numbers), -1, np.searchsorted(edges, numbers)), edges


def deviance(place: NDArray[np.int64], size: int) -> tuple[float, int]:
    """Wilks's likelihood ratio statistic of the cells of two samples, and its degrees of freedom."""
    return _deviance(counts_of(place - place.min(initial=0), size).astype(float))


def _deviance(table: Floats) -> tuple[float, int]:
    """The same of counts, shape (sides, cells)."""
    table = table[:, table.any(axis=0)]
    expected = table.sum(axis=0) * (table.sum(axis=1, keepdims=True) / max(table.sum(), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(table > 0, table * np.log(table / expected), 0.0)
    return 2.0 * float(terms.sum()), table.shape[1] - 1


def shrunk(seen: NDArray[Any]) -> Floats:
    """Log ratios of counts, moved towards 0 by a standard error of each.

    So few that tell much are not drowned by many that tell nothing, as by one variance for all.

    Examples
    --------
    >>> shrunk(np.array([[900.0, 300.0], [3.0, 1.0], [500.0, 510.0]])).round(1).tolist()
    [1.0, 0.0, -0.0]
    """
    raw, noise = np.log((seen[:, 0] + 0.5) / (seen[:, 1] + 0.5)), np.sum(1.0 / (seen + 0.5), axis=1)
    return np.asarray(np.sign(raw) * np.maximum(np.abs(raw) - np.sqrt(noise), 0.0))


def standardised(statistic: float, freedom: int) -> float:
    """A chi-square statistic less its mean, in units of its standard deviation."""
    return (statistic - freedom) / np.sqrt(2.0 * freedom) if freedom > 0 else 0.0


def pearson(place: Codes, size: int) -> tuple[float, int]:
    """Pearson's statistic of the cells of two samples of one size, and its degrees of freedom.

    Its mean is exact however few fall into a cell.
    """
    first, second = counts_of(place - place.min(initial=0), size)
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


PRODUCTS = 15_000_000_000
"""Products of two numbers of one side that correlations are computed from: two seconds. Of 1,000 coordinates 15,000
outputs, of 4,096 coordinates 894, in which two signs that are always equal are 21 standard errors of chance apart."""
AT_ONCE = 512
"""Coordinates that are looked at at once, which bounds the memory."""


def differences(outputs: Outputs, outputs_prime: Outputs) -> Floats:
    """How many standard errors of chance the sides differ by at each coordinate, shape (coordinates,).

    Examples
    --------
    >>> x, x_prime = np.random.default_rng(0).normal(size=(2, 500, 1000))
    >>> x_prime[:, 777] += 1.0
    >>> found = differences(x, x_prime)
    >>> len(found), telling_coordinates(found, 1), sure_coordinates(found)
    (1000, [777], [777])
    """
    rows, rows_prime = (side.reshape(len(side), -1)[:LOOK] for side in (outputs, outputs_prime))
    starts = range(0, rows.shape[1], AT_ONCE)
    return np.concatenate([difference(rows[:, i : i + AT_ONCE], rows_prime[:, i : i + AT_ONCE]) for i in starts])


def telling_coordinates(found: Floats, most: int) -> list[int]:
    """Return the coordinates that differ most, in their order; all if there are few."""
    return sorted(np.argsort(-found, kind="stable")[:most].tolist())


def sure_coordinates(found: Floats) -> list[int]:
    """Return those that differ by more than chance explains, the best of so many."""
    limit = math.log(FALSE_FINDS / max(len(found), 1))
    return [place for place, gap in enumerate(found.tolist()) if log_chance(gap**2, 1) < limit]


def difference(rows: Floats, rows_prime: Floats) -> Floats:
    """How many standard errors the sides differ by, at most, in the means of a few functions of each coordinate."""
    known = np.isfinite(rows)
    centre = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    centre = np.where(np.isfinite(centre), centre, 0.0)
    spread = np.abs(np.where(known, rows - centre, 0.0)).mean(axis=0) + 1e-300
    again = [_repeating(side) for side in (rows, rows_prime)]
    worst = np.abs(again[0] - again[1]) / np.sqrt(again[0] + again[1] + 1.0)
    for function in (np.isfinite, np.asarray, np.abs, np.sign, _parity):
        moments = []
        for side in (rows, rows_prime):
            finite = np.isfinite(side)
            moved = side if function in (_parity, np.isfinite) else np.clip((side - centre) / spread, -6.0, 6.0)
            values = np.asarray(function(moved), float)
            values[~finite] = 0.0
            moments.append((values.mean(axis=0), values.var(axis=0) / len(side)))
        (mean, error), (mean_prime, error_prime) = moments
        worst = np.maximum(worst, np.abs(mean - mean_prime) / np.sqrt(error + error_prime + 1e-12))
    return worst


def telling_waves(outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """List the waves in arrays that tell the two sides apart beyond chance.

    Examples
    --------
    >>> x, x_prime = np.random.default_rng(0).normal(size=(2, 500, 300))
    >>> x += np.random.default_rng(1).normal(size=(500, 1)) * np.sin(2 * np.pi * 7 * np.arange(300) / 300)
    >>> sorted(wave.label for wave in telling_waves(x, x_prime))
    ['power of 7 cycles in y', 'sin of 7 cycles in y']
    """
    found: list[tuple[float, Feature]] = []
    sides = [side.reshape(len(side), -1)[:LOOK] for side in (outputs, outputs_prime)]
    if not all(np.isfinite(side).all() for side in sides):
        return []
    waves = [np.fft.rfft(side, axis=1) / math.sqrt(side.shape[1]) for side in sides]
    parts = {"power": lambda wave: np.abs(wave) ** 2, "cos": np.real, "sin": np.imag}
    for name, part in parts.items():
        gaps = difference(*map(part, waves))
        found += [(log_chance(gap**2, 1), Wave(cycles, name)) for cycles, gap in enumerate(gaps.tolist())]
    return sure(found, TELLING)


def telling_patches(outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """List the boxes of arrays of two axes or more whose sums tell the two sides apart beyond chance.

    Looked at are all squares of a few widths, all rows, columns and other slices along the axes.

    Examples
    --------
    >>> x, x_prime = np.random.default_rng(0).normal(size=(2, 500, 20, 20))
    >>> x[:, 7] += 0.2
    >>> telling_patches(x, x_prime)[0].label
    'sum of y[7:8, 0:20]'
    """
    sides = [side[:LOOK] for side in (outputs, outputs_prime)]
    if outputs.ndim < 3 or not all(np.isfinite(side).all() for side in sides):
        return []
    shape, found = outputs.shape[1:], []
    for widths in _widths(shape):
        gap = _gap_of_patches(sides[0], sides[1], widths)
        for low, told in np.ndenumerate(gap):
            high = tuple(start + width for start, width in zip(low, widths, strict=True))
            found.append((log_chance(told, 1), Patch(low, high)))
    return sure(found, TELLING)


def _widths(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Widths of boxes along each axis: squares, and one or all along each; neither one coordinate nor all."""
    squares = (tuple(min(width, size) for size in shape) for width in PATCHES)
    slices = itertools.product(*((1, size) for size in shape))
    yield from dict.fromkeys(one for one in (*squares, *slices) if 1 < math.prod(one) < math.prod(shape))


def _gap_of_patches(outputs: Outputs, outputs_prime: Outputs, widths: tuple[int, ...]) -> Floats:
    """By how much sums of boxes of one size differ in mean or spread, in squared errors, by where the boxes begin."""
    moments = []
    for sums in (outputs, outputs_prime):
        for axis, width in enumerate(widths, start=1):
            if width == sums.shape[axis]:
                sums = sums.sum(axis=axis, keepdims=True)
            elif width > 1:
                sums = np.lib.stride_tricks.sliding_window_view(sums, width, axis=axis).sum(axis=-1)
        squares = (sums - sums.mean(axis=0)) ** 2
        spread = squares.mean(axis=0)
        moments.append((sums.mean(axis=0), spread / len(sums), spread, squares.var(axis=0) / len(sums)))
    (mean, error, spread, own), (mean_prime, error_prime, spread_prime, own_prime) = moments
    gaps = (mean - mean_prime) ** 2 / (error + error_prime + 1e-300)
    return np.asarray(np.maximum(gaps, (spread - spread_prime) ** 2 / (own + own_prime + 1e-300)))


def _repeating(rows: Floats) -> Floats:
    """How many numbers of each coordinate one before has been: of continuous ones those at atoms."""
    ordered = np.sort(np.ascontiguousarray(rows.T), axis=1)
    return np.asarray(np.count_nonzero(ordered[:, 1:] == ordered[:, :-1], axis=1), np.float64)


def _parity(numbers: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.mod(np.floor(numbers), 2.0)


def correlated(features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[tuple[Feature, Feature]]:
    """Return the pairs of features whose correlation differs most between the sides, beyond chance.

    What is correlated is on which side of its median each is, and whether it is odd.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Coordinate
    >>> x, x_prime = np.random.default_rng(0).normal(size=(2, 500, 30))
    >>> x[:, 7] = np.abs(x[:, 7]) * np.sign(x[:, 20])
    >>> [[one.label for one in pair] for pair in correlated([Coordinate(i) for i in range(30)], x, x_prime)]
    [['y[7]', 'y[20]']]
    """
    sides = [side[:LOOK] for side in (outputs, outputs_prime)]
    chosen = features[:MOST_CORRELATED]
    if len(chosen) < 2:
        return []
    size = min(len(sides[0]), PRODUCTS // len(chosen) ** 2)
    sides = [side[:size] for side in sides]
    signs = np.zeros((2 * size, 2 * len(chosen)), np.float32)
    for place, feature in enumerate(chosen):
        numbers = pooled(feature, sides)
        known = np.isfinite(numbers)
        if known.any():
            signs[known, place] = np.sign(numbers[known] - np.median(numbers[known]))
            signs[known, len(chosen) + place] = 1.0 - 2.0 * _parity(numbers[known])
    gaps = []
    for half in (signs[:, : len(chosen)], signs[:, len(chosen) :]):
        first, second = (part.T @ part / size for part in (half[:size], half[size:]))
        gaps.append(np.abs(first - second))
    gap = np.triu(np.fmax(*gaps), 1).ravel()
    pairs = MOST_PAIRED // 4
    best = np.flatnonzero(gap >= np.partition(gap, -pairs)[-pairs]) if gap.size > pairs else np.arange(gap.size)
    best = best[np.argsort(-gap[best], kind="stable")[:pairs]]
    limit = math.log(FALSE_FINDS / (2 * gap.size))
    return [
        (chosen[i], chosen[j])
        for i, j in (divmod(int(place), len(chosen)) for place in best)
        if log_chance(float(size / 2.0 * gap[i * len(chosen) + j] ** 2), 1) < limit  # signs have a variance of 1
    ]
