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

from epsaudit.outputs.normal_form import (
    WHOLE_IN_FLOATS,
    Outputs,
)
from epsaudit.search.difference_tests import (
    EXPECTED_FALSE_FEATURES,
    MAX_SCREENING_OUTPUTS,
    N_TEST_CELLS,
    assign_cells,
    compute_pearson,
    compute_remainders,
    count_cells,
    log_p_value,
    read_both_sides,
)
from epsaudit.search.limits import MAX_DISTINCT_KNOTS
from epsaudit.witnesses.digits import Residue, Scaled
from epsaudit.witnesses.feature import Feature

MODULI = (2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 16, 60, 100)
"""[chosen] Moduli that are tried: small numbers, and the spacings of binary and decimal grids to which outputs are
rounded."""
N_DECIMALS = 3
"""[time] Number of decimals whose digits are tested, if numbers are not printed with only a few decimals."""


def list_remainders(
    sources: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs
) -> list[tuple[float, Feature]]:
    """Return remainders of the numbers of ``sources``, each with the log p-value of its difference.

    For numbers with few decimals the last digits are tested, for other numbers the first three decimals. A remainder of
    digits counts only if it differs more clearly than the size of the number does, and than any single value does; if
    it does not count, its log p-value is given as 0.
    """
    found: list[tuple[float, Feature]] = []
    sides = outputs[:MAX_SCREENING_OUTPUTS], outputs_prime[:MAX_SCREENING_OUTPUTS]
    size, limit = len(sides[0]), math.log(EXPECTED_FALSE_FEATURES)
    for feature in sources:
        numbers = read_both_sides(feature, sides)
        known = numbers[np.isfinite(numbers)]
        if len(known) < MAX_DISTINCT_KNOTS or np.ptp(known) == 0:
            continue
        # Whether an output is a number at all is a difference of its own, which is subtracted.
        odd, odd_freedom = compute_pearson(np.isfinite(numbers).astype(int), size)
        scale = None  # the smallest number of decimals with which all numbers are written
        for decimals in range(7):
            for some, off in ((known[:64], 1e-6), (known, 1e-5)):
                scaled = some * 10.0**decimals
                if np.any(np.abs(scaled - np.rint(scaled)) >= off):
                    break
            else:
                scale = decimals
                break
        own: float | None = 0.0 if scale == 0 else None
        width = np.ptp(known) if scale == 0 else float(np.subtract(*np.quantile(known, [0.95, 0.05])))
        if scale is None and len(known) == len(numbers) and np.abs(known).max() * 10.0**N_DECIMALS < WHOLE_IN_FLOATS:
            shifted = np.array([Scaled(feature, decimals).transform(numbers) for decimals in range(N_DECIMALS + 1)])
            codes = compute_remainders(shifted, 10).astype(np.int64) + 10 * np.arange(N_DECIMALS + 1)[:, None]
            halves = np.split(codes, 2, axis=1)
            tens = np.array([np.bincount(half.ravel(), minlength=10 * len(codes)) for half in halves])
            twos = tens.reshape(2, len(codes), 5, 2).sum(axis=2)
            if (
                min(_smallest_log_p_value(tens.reshape(2, -1, 10)), _smallest_log_p_value(twos)) >= limit
            ):  # most features end here, after one test of all digits
                residues = itertools.product(range(N_DECIMALS + 1), (2, 10))
                found += [(0.0, Residue(Scaled(feature, a), b)) for a, b in residues if width * 10.0**a > b]
                continue
        for decimals in range(N_DECIMALS + 1) if scale is None else (scale,):
            whole = feature if scale == 0 else Scaled(feature, decimals)
            floors = numbers if scale == 0 else Scaled(feature, decimals).transform(numbers)
            span, most = width * 10.0**decimals, np.abs(known).max() * 10.0**decimals
            for modulus in MODULI if scale is not None else (2, 10):
                if span <= max(modulus, 2):
                    continue
                residue = Residue(whole, modulus)
                if most >= WHOLE_IN_FLOATS:  # ints may be more exact than floats
                    floors = read_both_sides(residue, sides)
                remainders = compute_remainders(floors, modulus)
                told, freedom = compute_pearson(np.where(np.isnan(remainders), -1.0, remainders).astype(np.int64), size)
                chance = log_p_value(told - odd, freedom - odd_freedom)
                # An insignificant remainder needs no comparison with the number itself.
                if own is None and chance < limit:
                    seen, seen_prime = count_cells(np.unique(numbers, return_inverse=True, equal_nan=True)[1], size)
                    both, gap = seen + seen_prime, (seen - seen_prime) ** 2
                    # The strongest difference of one value against all other values.
                    single = np.max(gap / both + gap / np.maximum(len(numbers) - both, 1))
                    cells = assign_cells(numbers, N_TEST_CELLS)[0]
                    own = min(log_p_value(float(single), 1), log_p_value(*compute_pearson(cells, size)))
                found.append((chance if own is not None and chance < own else 0.0, residue))
    return found


def _smallest_log_p_value(counts: NDArray[np.int64]) -> float:
    """Return the smallest log p-value of several tables of counts, shape (2, tables, cells)."""
    both = counts.sum(axis=0)
    told = np.sum((counts[0] - counts[1]) ** 2 / np.maximum(both, 1), axis=1)
    return float(log_p_value(np.max(told), int(np.min((both > 0).sum(axis=1))) - 1))
