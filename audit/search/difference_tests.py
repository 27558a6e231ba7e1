"""DOC"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from epsaudit.outputs.normal_form import (
    Codes,
    Floats,
    Outputs,
)
from epsaudit.witnesses.feature import Feature

MAX_SCREENING_OUTPUTS = 16_000
"""[time] Outputs of each side that the first test of a feature reads, and objects that are read at all: so few that
what is chosen by them hardly biases the rest."""
N_TEST_CELLS = 24
"""[chosen] Quantile cells whose counts the first test of a feature compares."""
EXPECTED_FALSE_FEATURES = 1e-3
"""[chosen] Features that tell nothing and are looked at all the same, in one audit, of those that need to be sure; what
each has to show follows by Bonferroni."""
N_COORDINATES_PER_BLOCK = 512
"""[memory] Coordinates that are looked at at once, which bounds the memory."""


def read_both_sides(feature: Feature, sides: Sequence[Outputs]) -> Floats:
    """Read a feature off the outputs of both sides, x's first."""
    return np.concatenate([feature(sides[0]), feature(sides[1])]).astype(float, copy=False)


def assign_cells(numbers: Floats, most: int) -> tuple[Codes, Floats]:
    """Cells of numbers, -1 for NaN, and the edges between them: single values if few, else quantiles."""
    edges = find_cell_edges(np.sort(numbers), most)
    return np.where(np.isnan(numbers), -1, np.searchsorted(edges, numbers)), edges


def find_cell_edges(ordered: Floats, most: int) -> Floats:
    """Edges between cells of numbers in order, NaN last, which has no cell."""
    ordered = ordered[: np.searchsorted(ordered, np.nan)]
    levels = unique_of_sorted(ordered)
    if len(levels) > most:
        return unique_of_sorted(ordered[np.arange(most + 1) * (len(ordered) - 1) // most])[1:-1]
    with np.errstate(invalid="ignore"):
        middle = (levels[1:] + levels[:-1]) / 2.0
    return np.where(np.isfinite(middle), middle, levels[:-1])


def unique_of_sorted(ordered: Floats) -> Floats:
    """The different ones of numbers in order, as `numpy.unique` gives them."""
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]])


def count_cells(codes: Codes, size: int, cells: int = 0) -> NDArray[np.int64]:
    """How many of two samples fall into each cell, by codes from 0 of which so many are x's; shape (2, cells)."""
    cells = max(cells, int(codes.max(initial=0)) + 1)
    return np.array([np.bincount(codes[:size], minlength=cells), np.bincount(codes[size:], minlength=cells)])


def compute_pearson(codes: Codes, size: int) -> tuple[float, int]:
    """Pearson's statistic of the cells of two samples of one size, and its degrees of freedom.

    Its mean is exact however few fall into a cell.
    """
    return compute_pearson_of_counts(count_cells(codes - codes.min(initial=0), size))


def compute_pearson_of_counts(counts: NDArray[np.int64]) -> tuple[float, int]:
    """The same of their counts, shape (2, cells)."""
    first, second = counts[:, counts.any(axis=0)]
    return float(np.sum((first - second) ** 2 / (first + second))), len(first) - 1


def log_p_value(statistic: Any, freedom: int) -> Any:
    """Log of the upper tail of a chi-square distribution; tails too small for a float are those of their first term."""
    half, order = np.maximum(statistic, 0.0) / 2.0, max(freedom, 0) / 2.0
    if freedom <= 0:
        return 0.0 * half
    with np.errstate(divide="ignore", invalid="ignore"):  # of a statistic of 0
        tail = np.log(gammaincc(order, half))
        return np.where(np.isinf(tail), (order - 1.0) * np.log(half) - half - gammaln(order), tail)[()]


def compute_statistic(feature: Feature, sides: Sequence[Outputs]) -> tuple[float, int]:
    """Pearson's statistic of a feature in cells, of two samples of one size, and its degrees of freedom."""
    numbers = read_both_sides(feature, sides)
    ordered, first = np.sort(numbers), np.sort(numbers[: len(sides[0])])
    ends = np.append(find_cell_edges(ordered, N_TEST_CELLS), [np.inf, np.nan])
    below = np.array([np.searchsorted(one, ends, "right") for one in (first, ordered)])
    below[1] -= below[0]
    below[:, 1:] -= below[:, :-1].copy()
    return compute_pearson_of_counts(below)


def select_most_different(
    features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs, most: int
) -> list[Feature]:
    """Return the ``most`` features that tell most, in their order: by deviations of their statistic above its mean.

    Of features that surely tell, one of few cells comes before a finer one that tells the same, unlike by `log_p_value`.
    """
    if len(features) <= most:
        return list(features)
    statistic, freedom = np.array(
        [
            compute_statistic(one, (outputs[:MAX_SCREENING_OUTPUTS], outputs_prime[:MAX_SCREENING_OUTPUTS]))
            for one in features
        ]
    ).T
    told = (statistic - freedom) / np.sqrt(2.0 * np.maximum(freedom, 1.0))
    return [features[place] for place in find_smallest(-told, most)]


def find_smallest(chances: Floats, most: int) -> list[int]:
    """Return the places of the ``most`` smallest, in their order."""
    return sorted(np.argsort(chances, kind="stable")[:most].tolist())


def keep_significant(found: Sequence[tuple[float, Feature]], most: int) -> list[Feature]:
    """Return the features that are least likely by chance, if fewer than `EXPECTED_FALSE_FEATURES` of so many would be."""
    kept, limit = [], math.log(EXPECTED_FALSE_FEATURES / max(len(found), 1))
    for chance, feature in sorted(found, key=itemgetter(0))[:most]:
        if chance < limit:
            kept.append(feature)
    return kept


def shrink_log_ratios(seen: NDArray[Any]) -> Floats:
    """Log ratios of counts, moved towards 0 by a standard error of each: one variance for all would drown the few."""
    raw, noise = np.log((seen[:, 0] + 0.5) / (seen[:, 1] + 0.5)), np.sum(1.0 / (seen + 0.5), axis=1)
    return np.asarray(np.sign(raw) * np.maximum(np.abs(raw) - np.sqrt(noise), 0.0))


def compute_coordinate_log_p_values(outputs: Outputs, outputs_prime: Outputs) -> Floats:
    """Log of how likely by chance each coordinate differs as it does, by means of a few functions, and by repeats."""
    sides, found = [side.reshape(len(side), -1)[:MAX_SCREENING_OUTPUTS] for side in (outputs, outputs_prime)], []
    for start in range(0, sides[0].shape[1], N_COORDINATES_PER_BLOCK):
        blocks = [side[:, start : start + N_COORDINATES_PER_BLOCK] for side in sides]
        rows, known = blocks[0], np.isfinite(blocks[0])
        centre = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        centre = np.where(np.isfinite(centre), centre, 0.0)
        spread = np.abs(np.where(known, rows - centre, 0.0)).mean(axis=0) + 1e-300
        seen = []  # of each side, how many numbers are there again, and means and their variances
        for side in blocks:
            ordered = np.sort(np.ascontiguousarray(side.T), axis=1)
            again = np.count_nonzero(ordered[:, 1:] == ordered[:, :-1], axis=1)
            moved, finite, moments = np.clip((side - centre) / spread, -6.0, 6.0), np.isfinite(side), []
            for values in (finite, moved, np.abs(moved), np.sign(moved), compute_remainders(side, 2)):
                known = np.where(finite, values, 0.0)
                moments.append((known.mean(axis=0), known.var(axis=0) / len(side)))
            seen.append((again, *np.swapaxes(moments, 0, 1)))
        (again, mean, error), (again_prime, mean_prime, error_prime) = seen
        gaps = np.abs(mean - mean_prime) / np.sqrt(error + error_prime + 1e-12)
        repeats = np.abs(again - again_prime) / np.sqrt(again + again_prime + 1.0)
        found.append(log_p_value(np.maximum(repeats, gaps.max(axis=0)) ** 2, 1))
    return np.concatenate(found)


def compute_remainders(numbers: Floats, modulus: int) -> Floats:
    with np.errstate(invalid="ignore"):
        floors = np.floor(numbers)
        return np.asarray(floors - modulus * np.floor(floors / modulus))  # np.mod takes three times as long
