"""Remainders of whole numbers and of decimal digits.

A mechanism that rounds its answer, or adds noise on a grid, may leave a trace in the remainders of its outputs although
the size of the outputs reveals little.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.outputs.arrays import Outputs
from epsaudit.outputs.formatting import MAX_EXACT_INTEGER
from epsaudit.search.difference_tests import (
    EXPECTED_FALSE_FEATURES,
    N_TEST_CELLS,
    assign_cells,
    compute_pearson,
    compute_remainder_statistic,
    compute_remainders,
    count_cells,
    log_p_value,
    read_both_sides,
    take_screening_outputs,
)
from epsaudit.search.limits import MAX_DISTINCT_KNOTS
from epsaudit.witnesses.digits import Residue, Scaled
from epsaudit.witnesses.feature import Feature

MODULI = (2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 16, 60, 100)
"""[chosen] Moduli that are tried: small numbers, and usual spacings of grids to which outputs are rounded."""
N_DECIMALS = 3
"""[time] Number of decimals whose digits are tested, if numbers are not printed with only a few decimals."""


def list_remainders(
    sources: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs
) -> list[tuple[float, Feature]]:
    """Return remainders of numbers as features, each with the log p-value of its difference between x and x'.

    ``sources`` are the features that give the numbers. For numbers with few decimals, the last digits are tested; for
    other numbers, the first three decimals. A remainder of digits counts only if it differs more clearly than the
    number itself and than any single value; otherwise its log p-value is returned as 0.
    """
    found: list[tuple[float, Feature]] = []
    sides = take_screening_outputs(outputs, outputs_prime)
    size, threshold = len(sides[0]), math.log(EXPECTED_FALSE_FEATURES)
    for feature in sources:
        numbers = read_both_sides(feature, sides)
        finite = numbers[np.isfinite(numbers)]
        if len(finite) < MAX_DISTINCT_KNOTS or np.ptp(finite) == 0:
            continue
        decimals = _count_decimals(finite)
        width = np.ptp(finite) if decimals == 0 else float(np.subtract(*np.quantile(finite, [0.95, 0.05])))
        largest, complete = np.abs(finite).max(), len(finite) == len(numbers)
        testable = decimals is None and complete and largest * 10.0**N_DECIMALS < MAX_EXACT_INTEGER
        if testable and _test_all_digits(feature, numbers) >= threshold:
            # Most features end here, after one test of all digits.
            moduli = itertools.product(range(N_DECIMALS + 1), (2, 10))
            found += [(0.0, Residue(Scaled(feature, a), b)) for a, b in moduli if width * 10.0**a > b]
            continue
        # Whether an output is a finite number at all is a difference of its own, which is subtracted.
        statistic_finite, freedom_finite = compute_pearson(np.isfinite(numbers).astype(int), size)
        # The log p-value that a remainder must exceed. For whole numbers, every difference counts.
        log_p_number: float | None = 0.0 if decimals == 0 else None
        for scale in range(N_DECIMALS + 1) if decimals is None else (decimals,):
            whole = feature if decimals == 0 else Scaled(feature, scale)
            floors = numbers if decimals == 0 else Scaled(feature, scale).transform(numbers)
            for modulus in MODULI if decimals is not None else (2, 10):
                if width * 10.0**scale <= max(modulus, 2):
                    continue
                residue = Residue(whole, modulus)
                if largest * 10.0**scale >= MAX_EXACT_INTEGER:  # ints may be more exact than floats
                    floors = read_both_sides(residue, sides)
                statistic, freedom = compute_remainder_statistic(floors, modulus, size)
                log_p = log_p_value(statistic - statistic_finite, freedom - freedom_finite)
                if log_p_number is None and log_p < threshold:
                    log_p_number = _test_number(numbers, size)
                found.append((log_p if log_p_number is not None and log_p < log_p_number else 0.0, residue))
    return found


def _count_decimals(numbers: Floats) -> int | None:
    """Return the smallest number of decimals with which all numbers can be written, or None if it exceeds 6."""
    for decimals in range(7):
        for some, tolerance in ((numbers[:64], 1e-6), (numbers, 1e-5)):
            scaled = some * 10.0**decimals
            if np.any(np.abs(scaled - np.rint(scaled)) >= tolerance):
                break
        else:
            return decimals
    return None


def _test_all_digits(feature: Feature, numbers: Floats) -> float:
    """Return the smallest log p-value of tests of the first decimals modulo 2 and modulo 10.

    The first half of the numbers belongs to x, the second half to x'. All numbers must be finite.
    """
    shifted = np.array([Scaled(feature, decimals).transform(numbers) for decimals in range(N_DECIMALS + 1)])
    codes = compute_remainders(shifted, 10).astype(np.int64) + 10 * np.arange(N_DECIMALS + 1)[:, None]
    halves = np.split(codes, 2, axis=1)
    tens = np.array([np.bincount(half.ravel(), minlength=10 * len(codes)) for half in halves])
    twos = tens.reshape(2, len(codes), 5, 2).sum(axis=2)
    return min(_smallest_log_p_value(tens.reshape(2, -1, 10)), _smallest_log_p_value(twos))


def _test_number(numbers: Floats, size: int) -> float:
    """Return the log p-value of a difference of the numbers themselves, without their remainders.

    Two tests are made: of the whole distribution in cells, and of the single value that differs most. The smaller
    p-value is returned. The first ``size`` numbers belong to x.
    """
    counts, counts_prime = count_cells(np.unique(numbers, return_inverse=True, equal_nan=True)[1], size)
    both, gap = counts + counts_prime, (counts - counts_prime) ** 2
    # The strongest difference of one value against all other values.
    single = np.max(gap / both + gap / np.maximum(len(numbers) - both, 1))
    cells = assign_cells(numbers, N_TEST_CELLS)[0]
    return float(min(log_p_value(float(single), 1), log_p_value(*compute_pearson(cells, size))))


def _smallest_log_p_value(counts: NDArray[np.int64]) -> float:
    """Return the smallest log p-value of several tables of counts. ``counts`` has the shape (2, tables, cells)."""
    both = counts.sum(axis=0)
    statistics = np.sum((counts[0] - counts[1]) ** 2 / np.maximum(both, 1), axis=1)
    return float(log_p_value(np.max(statistics), int(np.min((both > 0).sum(axis=1))) - 1))
