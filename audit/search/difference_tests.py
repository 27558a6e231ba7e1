"""Two-sample tests that show which features differ between the outputs of x and of x'.

Most tests compare counts in cells by Pearson's chi-square statistic. The coordinates of long arrays are all tested at
once by the means of a few functions of each coordinate. The tests only select features for the search; they do not
support any certified bound, so their p-values need not be exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from epsaudit.array_types import Floats, Ints
from epsaudit.outputs.arrays import Outputs
from epsaudit.witnesses.feature import Feature

MAX_SCREENING_OUTPUTS = 16_000
"""[time] Maximum number of outputs of each side that the first test of a feature reads, and maximum number of objects
that are parsed at all. It is small compared with the number of training outputs, so that selecting features by these
outputs hardly biases what is learnt from all of them."""
N_TEST_CELLS = 24
"""[chosen] Number of quantile cells whose counts the first test of a feature compares."""
EXPECTED_FALSE_FEATURES = 1e-3
"""[chosen] Expected number of features without any difference that pass a test of significance, in one audit. The
threshold for each p-value follows by Bonferroni's correction."""
N_COORDINATES_PER_BLOCK = 512
"""[memory] Number of coordinates of a long array that are tested at once. It bounds the memory that the test needs."""


def take_screening_outputs(outputs: Outputs, outputs_prime: Outputs) -> tuple[Outputs, Outputs]:
    """Return the first outputs of x and of x', at most `MAX_SCREENING_OUTPUTS` of each."""
    return outputs[:MAX_SCREENING_OUTPUTS], outputs_prime[:MAX_SCREENING_OUTPUTS]


def read_both_sides(feature: Feature, sides: Sequence[Outputs]) -> Floats:
    """Return the numbers of a feature for the outputs of x and of x' in one array, x's outputs first."""
    return np.concatenate([feature(sides[0]), feature(sides[1])]).astype(float, copy=False)


def assign_cells(numbers: Floats, max_cells: int) -> tuple[Ints, Floats]:
    """Return the cell of every number, -1 for NaN, and the edges between the cells.

    Every distinct value is a cell of its own if there are at most ``max_cells`` of them; otherwise the cells are
    bounded by quantiles.
    """
    edges = find_cell_edges(np.sort(numbers), max_cells)
    return np.where(np.isnan(numbers), -1, np.searchsorted(edges, numbers)), edges


def find_cell_edges(ordered: Floats, max_cells: int) -> Floats:
    """Return the edges between at most ``max_cells`` cells of sorted numbers.

    NaN must come last; it belongs to no cell.
    """
    ordered = ordered[: np.searchsorted(ordered, np.nan)]
    levels = unique_of_sorted(ordered)
    if len(levels) > max_cells:
        return unique_of_sorted(ordered[np.arange(max_cells + 1) * (len(ordered) - 1) // max_cells])[1:-1]
    with np.errstate(invalid="ignore"):
        middle = (levels[1:] + levels[:-1]) / 2.0
    return np.where(np.isfinite(middle), middle, levels[:-1])


def unique_of_sorted(ordered: Floats) -> Floats:
    """Return the distinct values of sorted numbers, as `numpy.unique` does, without sorting again."""
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]])


def count_cells(codes: Ints, size: int, cells: int = 0) -> NDArray[np.int64]:
    """Return how many outputs of x and of x' fall into each cell, shape (2, cells).

    ``codes`` are the cells of all outputs, numbered from 0; the first ``size`` of them belong to x. ``cells`` is the
    minimum number of cells.
    """
    cells = max(cells, int(codes.max(initial=0)) + 1)
    return np.array([np.bincount(codes[:size], minlength=cells), np.bincount(codes[size:], minlength=cells)])


def compute_pearson(codes: Ints, size: int) -> tuple[float, int]:
    """Return Pearson's chi-square statistic for the cells of two samples of equal size, and its degrees of freedom.

    ``codes`` are the cells of all outputs; the first ``size`` of them belong to x. The mean of the statistic equals its
    degrees of freedom (up to a factor near 1) even where a cell contains only a few outputs.
    """
    return compute_pearson_of_counts(count_cells(codes - codes.min(initial=0), size))


def compute_pearson_of_counts(counts: NDArray[np.int64]) -> tuple[float, int]:
    """Return Pearson's statistic and its degrees of freedom for counts of shape (2, cells)."""
    first, second = counts[:, counts.any(axis=0)]
    return float(np.sum((first - second) ** 2 / (first + second))), len(first) - 1


def log_p_value(statistic: Any, freedom: int) -> Any:
    """Return the logarithm of the upper tail probability of a chi-square distribution.

    Where the probability is too small for a float, the first term of its asymptotic expansion is used.
    """
    half, order = np.maximum(statistic, 0.0) / 2.0, max(freedom, 0) / 2.0
    if freedom <= 0:
        return 0.0 * half
    with np.errstate(divide="ignore", invalid="ignore"):  # the logarithm of a statistic of 0
        tail = np.log(gammaincc(order, half))
        return np.where(np.isinf(tail), (order - 1.0) * np.log(half) - half - gammaln(order), tail)[()]


def compute_statistic(feature: Feature, sides: Sequence[Outputs]) -> tuple[float, int]:
    """Return Pearson's statistic of a feature in `N_TEST_CELLS` cells, and its degrees of freedom.

    ``sides`` are equally many outputs of x and of x'.
    """
    numbers = read_both_sides(feature, sides)
    ordered, first = np.sort(numbers), np.sort(numbers[: len(sides[0])])
    ends = np.append(find_cell_edges(ordered, N_TEST_CELLS), [np.inf, np.nan])
    below = np.array([np.searchsorted(one, ends, "right") for one in (first, ordered)])
    below[1] -= below[0]
    below[:, 1:] -= below[:, :-1].copy()
    return compute_pearson_of_counts(below)


def select_most_different(
    features: Sequence[Feature],
    outputs: Outputs,
    outputs_prime: Outputs,
    limit: int,
    tested: dict[Feature, float] | None = None,
) -> list[Feature]:
    """Return the ``limit`` features that differ most between x and x', in their original order.

    Features are ranked by how many standard deviations their chi-square statistic lies above its mean. If several
    features clearly differ, this ranking prefers a feature with few cells to a finer one with the same information; a
    ranking by p-value would not. ``tested`` is a cache of the results of tests on these outputs, to which new results
    are added.
    """
    if len(features) <= limit:
        return list(features)
    sides, tested = take_screening_outputs(outputs, outputs_prime), {} if tested is None else tested
    for feature in features:
        if feature not in tested:
            statistic, freedom = compute_statistic(feature, sides)
            tested[feature] = (statistic - freedom) / math.sqrt(2.0 * max(freedom, 1))
    excess = np.array([tested[feature] for feature in features])
    return [features[place] for place in find_smallest(-excess, limit)]


def find_smallest(values: Floats, limit: int) -> list[int]:
    """Return the indices of the ``limit`` smallest values, in increasing order of the indices."""
    return sorted(np.argsort(values, kind="stable")[:limit].tolist())


def keep_significant(found: Sequence[tuple[float, Feature]], limit: int) -> list[Feature]:
    """Return at most ``limit`` features that differ significantly between x and x', the most significant first.

    ``found`` contains pairs of log p-value and feature. The threshold is chosen such that, if no feature differs, the
    expected number of features that pass it is at most `EXPECTED_FALSE_FEATURES`.
    """
    threshold = math.log(EXPECTED_FALSE_FEATURES / max(len(found), 1))
    best = sorted(found, key=itemgetter(0))[:limit]
    return [feature for log_p, feature in best if log_p < threshold]


def shrink_log_ratios(seen: NDArray[Any]) -> Floats:
    """Return the log ratio of the two counts of each cell, moved towards 0 by its own standard error.

    ``seen`` has the shape (cells, 2). A common standard error for all cells would hide the cells with few outputs.
    """
    raw, noise = np.log((seen[:, 0] + 0.5) / (seen[:, 1] + 0.5)), np.sum(1.0 / (seen + 0.5), axis=1)
    return np.asarray(np.sign(raw) * np.maximum(np.abs(raw) - np.sqrt(noise), 0.0))


def compute_coordinate_log_p_values(outputs: Outputs, outputs_prime: Outputs) -> Floats:
    """Return for each coordinate of long arrays the log p-value of its difference between x and x'.

    Each coordinate is tested by the means of five functions of it (being finite, value, absolute value, sign, and
    remainder modulo 2) and by the number of its values that repeat. The test with the smallest p-value counts.
    """
    sides, found = [side.reshape(len(side), -1)[:MAX_SCREENING_OUTPUTS] for side in (outputs, outputs_prime)], []
    for start in range(0, sides[0].shape[1], N_COORDINATES_PER_BLOCK):
        blocks = [side[:, start : start + N_COORDINATES_PER_BLOCK] for side in sides]
        rows, finite_mask = blocks[0], np.isfinite(blocks[0])
        centre = np.where(finite_mask, rows, 0.0).sum(axis=0) / np.maximum(finite_mask.sum(axis=0), 1)
        centre = np.where(np.isfinite(centre), centre, 0.0)
        spread = np.abs(np.where(finite_mask, rows - centre, 0.0)).mean(axis=0) + 1e-300
        # For each side: the number of repeated numbers, and the means of the functions with their variances.
        seen = []
        for side in blocks:
            ordered = np.sort(np.ascontiguousarray(side.T), axis=1)
            again = np.count_nonzero(ordered[:, 1:] == ordered[:, :-1], axis=1)
            moved, finite, moments = np.clip((side - centre) / spread, -6.0, 6.0), np.isfinite(side), []
            for values in (finite, moved, np.abs(moved), np.sign(moved), compute_remainders(side, 2)):
                finite_mask = np.where(finite, values, 0.0)
                moments.append((finite_mask.mean(axis=0), finite_mask.var(axis=0) / len(side)))
            seen.append((again, *np.swapaxes(moments, 0, 1)))
        (again, mean, error), (again_prime, mean_prime, error_prime) = seen
        gaps = np.abs(mean - mean_prime) / np.sqrt(error + error_prime + 1e-12)
        repeats = np.abs(again - again_prime) / np.sqrt(again + again_prime + 1.0)
        found.append(log_p_value(np.maximum(repeats, gaps.max(axis=0)) ** 2, 1))
    return np.concatenate(found)


def compute_remainders(numbers: Floats, modulus: int) -> Floats:
    """Round the numbers down to whole numbers, and return their remainders modulo ``modulus``."""
    with np.errstate(invalid="ignore"):
        floors = np.floor(numbers)
        return np.asarray(floors - modulus * np.floor(floors / modulus))  # np.mod takes three times as long


def compute_remainder_statistic(numbers: Floats, modulus: int, size: int) -> tuple[float, int]:
    """Return Pearson's statistic for the remainders of numbers modulo ``modulus``, and its degrees of freedom.

    The first ``size`` numbers belong to x, the others to x'. NaN is counted in a cell of its own.
    """
    remainders = compute_remainders(numbers, modulus)
    return compute_pearson(np.where(np.isnan(remainders), -1.0, remainders).astype(np.int64), size)
