"""Two-sample tests on a part of the training outputs: which features, coordinates and pairs of these tell at all.

A feature is judged by counts in cells, coordinates of long arrays all at once by the means of a few functions of each.
Every test answers how likely its difference is by chance, as a log. How many were tried goes with those that are worth
being looked at, for the best of many is lucky.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from epsaudit.outputs.normal_form import Codes, Floats, Outputs
from epsaudit.witnesses.features import Feature, Patch, Wave
from epsaudit.witnesses.settings import CELLS_TO_TEST, FALSE_FINDS, LOOK, MOST_CORRELATED, MOST_PAIRED, PATCHES, TELLING


def pooled(feature: Feature, sides: Sequence[Outputs]) -> Floats:
    """Read a feature off the outputs of both sides, x's first."""
    return np.concatenate([feature(sides[0]), feature(sides[1])]).astype(float, copy=False)


def codes_of(numbers: Floats, most: int) -> tuple[Codes, Floats]:
    """Cells of numbers, -1 for NaN, and the edges between them: single values if few, else quantiles."""
    known = np.sort(numbers[~np.isnan(numbers)])
    levels = known[np.append(True, known[1:] > known[:-1])[: len(known)]]
    if len(levels) > most:
        edges = np.unique(known[np.linspace(0, len(known) - 1, most + 1).astype(int)])[1:-1]
    else:
        with np.errstate(invalid="ignore"):
            middle = (levels[1:] + levels[:-1]) / 2.0
        edges = np.where(np.isfinite(middle), middle, levels[:-1])
    return np.where(np.isnan(numbers), -1, np.searchsorted(edges, numbers)), edges


def counts_of(codes: Codes, size: int, cells: int = 0) -> NDArray[np.int64]:
    """How many of two samples fall into each cell, by codes from 0 of which so many are x's; shape (2, cells)."""
    cells = max(cells, int(codes.max(initial=0)) + 1)
    return np.array([np.bincount(codes[:size], minlength=cells), np.bincount(codes[size:], minlength=cells)])


def pearson(codes: Codes, size: int) -> tuple[float, int]:
    """Pearson's statistic of the cells of two samples of one size, and its degrees of freedom.

    Its mean is exact however few fall into a cell.
    """
    first, second = counts_of(codes - codes.min(initial=0), size)
    seen = first + second > 0
    return float(np.sum((first - second)[seen] ** 2 / (first + second)[seen])), int(seen.sum()) - 1


def log_chance(statistic: Any, freedom: int) -> Any:
    """Log of the upper tail of a chi-square distribution, of which chance is the cause at most so often.

    Of a number or of each in an array. Tails too small for a float are those of their first term, which keeps their
    order.

    Examples
    --------
    >>> round(float(log_chance(3.84, 1)), 2), round(float(log_chance(3000.0, 1)))
    (-2.99, -1504)
    """
    half, order = np.maximum(statistic, 0.0) / 2.0, max(freedom, 0) / 2.0
    if freedom <= 0:
        return 0.0 * half
    with np.errstate(divide="ignore", invalid="ignore"):  # of a statistic of 0
        tail = np.log(gammaincc(order, half))
        return np.where(np.isinf(tail), (order - 1.0) * np.log(half) - half - gammaln(order), tail)[()]


def statistic_of(feature: Feature, sides: Sequence[Outputs]) -> tuple[float, int]:
    """Pearson's statistic of a feature in cells, of two samples of one size, and its degrees of freedom."""
    return pearson(codes_of(pooled(feature, sides), CELLS_TO_TEST)[0], len(sides[0]))


def screen(features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs, most: int) -> list[Feature]:
    """Return the ``most`` features that tell most, in their order: by deviations of their statistic above its mean.

    Of features that surely tell, one of few cells comes before a finer one that tells the same, unlike by `log_chance`.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Coordinate
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 5))
    >>> screen([Coordinate(i) for i in range(5)], x + [0, 0, 1, 0, 0], rng.normal(size=(1000, 5)), most=1)
    [Coordinate(index=2)]
    """
    if len(features) <= most:
        return list(features)
    statistic, freedom = np.array([statistic_of(one, (outputs[:LOOK], outputs_prime[:LOOK])) for one in features]).T
    told = (statistic - freedom) / np.sqrt(2.0 * np.maximum(freedom, 1.0))
    return [features[place] for place in sorted(np.argsort(-told, kind="stable")[:most])]


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


PRODUCTS = 15_000_000_000
"""Products of two numbers of one side that correlations are computed from: two seconds. Of 1,000 coordinates 15,000
outputs, of 4,096 coordinates 894, in which two signs that are always equal are 21 standard errors of chance apart."""
AT_ONCE = 512
"""Coordinates that are looked at at once, which bounds the memory."""


def differences(outputs: Outputs, outputs_prime: Outputs) -> Floats:
    """Log of how likely by chance each coordinate differs as it does, shape (coordinates,).

    By `difference`, and by how many numbers are there again: of continuous ones those at atoms.

    Examples
    --------
    >>> x, x_prime = np.random.default_rng(0).normal(size=(2, 500, 1000))
    >>> x_prime[:, 777] += 1.0
    >>> telling_coordinates(differences(x, x_prime), 1)
    [777]
    """
    sides, found = [side.reshape(len(side), -1)[:LOOK] for side in (outputs, outputs_prime)], []
    for start in range(0, sides[0].shape[1], AT_ONCE):
        rows, rows_prime = (side[:, start : start + AT_ONCE] for side in sides)
        again = []
        for side in (rows, rows_prime):
            ordered = np.sort(np.ascontiguousarray(side.T), axis=1)
            again.append(np.count_nonzero(ordered[:, 1:] == ordered[:, :-1], axis=1))
        repeats = np.abs(again[0] - again[1]) / np.sqrt(again[0] + again[1] + 1.0)
        found.append(log_chance(np.maximum(repeats, difference(rows, rows_prime)) ** 2, 1))
    return np.concatenate(found)


def telling_coordinates(found: Floats, most: int) -> list[int]:
    """Return the coordinates that differ most, in their order; all if there are few."""
    return sorted(np.argsort(found, kind="stable")[:most].tolist())


def difference(rows: Floats, rows_prime: Floats) -> Floats:
    """How many standard errors the sides differ by, at most, in the means of a few functions of each coordinate."""
    known = np.isfinite(rows)
    centre = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    centre = np.where(np.isfinite(centre), centre, 0.0)
    spread = np.abs(np.where(known, rows - centre, 0.0)).mean(axis=0) + 1e-300
    worst = np.zeros(rows.shape[1])
    for function in (np.isfinite, np.asarray, np.abs, np.sign, _parity):
        moments = []
        for side in (rows, rows_prime):
            moved = side if function in (_parity, np.isfinite) else np.clip((side - centre) / spread, -6.0, 6.0)
            values = np.asarray(function(moved), float)
            values[~np.isfinite(side)] = 0.0
            moments.append((values.mean(axis=0), values.var(axis=0) / len(side)))
        (mean, error), (mean_prime, error_prime) = moments
        worst = np.maximum(worst, np.abs(mean - mean_prime) / np.sqrt(error + error_prime + 1e-12))
    return worst


def _parity(numbers: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        floors = np.floor(numbers)
        return floors - 2.0 * np.floor(floors / 2.0)  # np.mod takes three times as long


def telling_waves(outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """List the waves in arrays that tell the two sides apart beyond chance.

    Examples
    --------
    >>> x, x_prime = np.random.default_rng(0).normal(size=(2, 500, 300))
    >>> x += np.random.default_rng(1).normal(size=(500, 1)) * np.sin(2 * np.pi * 7 * np.arange(300) / 300)
    >>> sorted(wave.label for wave in telling_waves(x, x_prime))
    ['power of 7 cycles in y', 'sin of 7 cycles in y']
    """
    sides = [side.reshape(len(side), -1)[:LOOK] for side in (outputs, outputs_prime)]
    if not all(np.isfinite(side).all() for side in sides):
        return []
    waves = [np.fft.rfft(side, axis=1) / math.sqrt(side.shape[1]) for side in sides]
    found: list[tuple[float, Feature]] = []
    for name, (wave, wave_prime) in (
        ("power", [np.abs(one) ** 2 for one in waves]),
        ("cos", [np.real(one) for one in waves]),
        ("sin", [np.imag(one) for one in waves]),
    ):
        chances = log_chance(difference(wave, wave_prime) ** 2, 1).tolist()
        found += [(chance, Wave(cycles, name)) for cycles, chance in enumerate(chances)]
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
    sides, shape = [side[:LOOK] for side in (outputs, outputs_prime)], outputs.shape[1:]
    if len(shape) < 2 or not all(np.isfinite(side).all() for side in sides):
        return []
    found: list[tuple[float, Feature]] = []
    squares = [tuple(min(width, size) for size in shape) for width in PATCHES]
    slices = itertools.product(*((1, size) for size in shape))
    for widths in dict.fromkeys([*squares, *slices]):
        if not 1 < math.prod(widths) < math.prod(shape):
            continue
        sums = list(sides)
        for axis, width in enumerate(widths, start=1):
            windows = [np.lib.stride_tricks.sliding_window_view(one, width, axis=axis) for one in sums]
            sums = [one.sum(axis=-1) for one in windows] if width > 1 else sums
        gaps = difference(*(one.reshape(len(one), -1) for one in sums)).reshape(sums[0].shape[1:])
        for low, chance in np.ndenumerate(log_chance(gaps**2, 1)):
            high = tuple(start + width for start, width in zip(low, widths, strict=True))
            found.append((float(chance), Patch(low, high)))
    return sure(found, TELLING)


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
    chosen = features[:MOST_CORRELATED]
    if len(chosen) < 2:
        return []
    size = min(len(outputs), LOOK, PRODUCTS // len(chosen) ** 2)
    signs = np.zeros((2, 2 * size, len(chosen)), np.float32)
    for place, feature in enumerate(chosen):
        numbers = pooled(feature, (outputs[:size], outputs_prime[:size]))
        known = np.isfinite(numbers)
        if known.any():
            signs[0, known, place] = np.sign(numbers[known] - np.median(numbers[known]))
            signs[1, known, place] = 1.0 - 2.0 * _parity(numbers[known])
    products = [[part.T @ part / size for part in (one[:size], one[size:])] for one in signs]
    gap = np.triu(np.fmax(*(np.abs(first - second) for first, second in products)), 1).ravel()
    most = min(MOST_PAIRED // 4, gap.size)
    best = np.argpartition(-gap, most - 1)[:most]
    best = best[np.argsort(-gap[best], kind="stable")]
    best = best[log_chance(size / 2.0 * gap[best] ** 2, 1) < math.log(FALSE_FINDS / (2 * gap.size))]  # of variance 1
    return [(chosen[place // len(chosen)], chosen[place % len(chosen)]) for place in best.tolist()]
