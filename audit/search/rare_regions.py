"""Rare regions of two fields: rectangles into which the outputs of one side fall much more often than expected.

An incorrect mechanism may fail only if two fields take certain values together, while each field alone shows no
difference. This module searches all rectangles of cells of two fields for such regions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.special import expit, rel_entr

from epsaudit.outputs.arrays import Outputs
from epsaudit.search.cross_tables import MAX_CROSS_TABLES, BinnedField
from epsaudit.search.difference_tests import EXPECTED_FALSE_FEATURES, compute_pearson, log_p_value
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import CategoryCode

N_REGION_LEVELS = 64
"""[time] Number of quantile cells of a field in which rare regions are sought."""
REGION_WIDTHS = (1, 2, 3, 4, 6, 8)
"""[time] Numbers of neighbouring cells that a region may span in one field."""
MAX_REFINED_REGIONS = 32
"""[time] Maximum number of tables whose best region is refined. The regions with the smallest p-values are chosen.
Refining one region takes as long as scanning one table."""
MAX_UNPROVEN_REGIONS = 2
"""[time] Maximum number of regions that are kept if no field and no region is significant."""
MIN_OUTPUTS_PER_TABLE = 100
"""[time] Number of outputs of both sides that are required for each table of two fields that is scanned."""
RARE_REGION_PURITY = 0.99
"""[chosen] The fraction of the outputs inside a rare region that are assumed to come from one dataset, when the region
is refined. With this fraction, an output on the other dataset weighs as much as 5.7 outputs on this one."""
Rectangle = tuple[slice, slice]
"""The cells of a rectangle: a range of cells of the first field, and a range of cells of the second."""


def find_rare_regions(fields: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> tuple[list[Feature], int]:
    """Find rare regions of two fields. Return tables that contain such a region, and the number of compared regions.

    A rare region is a rectangle of values of two fields. Outputs of one dataset fall into it sometimes, outputs of the
    other dataset hardly ever, and neither field alone differs. For every pair of fields, the rectangle of cells with
    the smallest p-value is found, and its edges are then moved between single numbers. The most significant regions are
    returned, at most `MAX_CROSS_TABLES` of them. If no region and no single field is significant, the two best regions
    are returned. If there are many fields, only the first ones are scanned (see `count_scanned_fields`).
    """
    size = len(outputs)
    known = BinnedField.bin_all(fields[: count_scanned_fields(size)], (outputs, outputs_prime), N_REGION_LEVELS)
    scanned, likely = [], []
    for pair in itertools.combinations(known, 2):
        deviance, cells, n_tried = _scan_rectangles(*pair, size)
        scanned.append(n_tried)
        # Bonferroni's correction for the number of rectangles.
        if deviance > 0.0:
            likely.append((log_p_value(deviance, 1) + math.log(n_tried), cells, n_tried, pair))
    found: list[tuple[float, Feature]] = []
    for _, cells, n_tried, pair in sorted(likely, key=itemgetter(0))[:MAX_REFINED_REGIONS]:
        deviance, table = _refine_rectangle(*pair, size, cells)
        moved = len(REGION_WIDTHS) ** sum(not one.single for one in pair)
        found.append((log_p_value(deviance, 1) + math.log(n_tried * moved), table))
    found.sort(key=itemgetter(0))
    surely = [table for one, table in found if one < math.log(EXPECTED_FALSE_FEATURES / len(scanned))][
        :MAX_CROSS_TABLES
    ]
    smallest_single = min((log_p_value(*compute_pearson(one.codes, size)) for one in known), default=0.0)
    if not surely and smallest_single > math.log(EXPECTED_FALSE_FEATURES / max(len(known), 1)):
        surely = [table for _, table in found[:MAX_UNPROVEN_REGIONS]]
    return surely, max(sum(scanned), 1)


def count_scanned_fields(size: int) -> int:
    """Return the maximum number of fields that are scanned for rare regions, given ``size`` outputs on each dataset.

    All pairs of these fields are scanned, and each pair needs `MIN_OUTPUTS_PER_TABLE` outputs.
    """
    max_tables = 2 * size // MIN_OUTPUTS_PER_TABLE
    return (1 + math.isqrt(1 + 8 * max_tables)) // 2 if max_tables else 0


def _scan_rectangles(first: BinnedField, second: BinnedField, size: int) -> tuple[float, Rectangle, int]:
    """Find the rectangle of cells of two fields in which the number of outputs of x deviates most from its expectation.

    The expectation follows from the log odds of x for both fields separately. The first ``size`` outputs belong to x.
    Returns the deviance (twice the log likelihood ratio), the rectangle, and the number of compared rectangles.
    """
    shape = first.levels + 1, second.levels + 1
    place, usual = first.codes * shape[1] + second.codes, expit(first.odds[:, None] + second.odds)
    seen, total = (np.bincount(some, minlength=usual.size).reshape(shape) for some in (place[:size], place))
    counts = np.array([seen, total, total * usual])[:, :-1, :-1]
    sums = np.zeros((3, *shape))
    np.cumsum(np.cumsum(counts, axis=1), axis=2, out=sums[:, 1:, 1:])
    n_tried, best = 0, (0.0, (slice(0), slice(0)))
    heights, spans = ((1,) if one.single else REGION_WIDTHS for one in (first, second))
    widths = [wide for wide in spans if wide < shape[1]]
    # Rectangles of all widths are stored side by side in one array.
    starts = [0, *itertools.accumulate(shape[1] - wide for wide in widths)]
    for high in heights:
        rows = sums[:, high:] - sums[:, :-high]
        cells = np.empty((*rows.shape[:2], starts[-1]), np.float32)
        for wide, (start, end) in zip(widths, itertools.pairwise(starts), strict=True):
            np.subtract(rows[:, :, wide:], rows[:, :, :-wide], out=cells[:, :, start:end], casting="same_kind")
        on_x, both, expected = cells.reshape(3, -1)
        n_tried += both.size
        gap = on_x - expected
        gap *= gap
        gap *= both
        rest = both - expected
        rest *= expected
        rest *= np.float32(math.log(max(n_tried, 2)))
        likely = np.flatnonzero(gap > rest)
        likely = likely[both[likely] > 0.5]
        if len(likely):
            deviance = _compute_deviance(*(one[likely].astype(float) for one in (on_x, both, expected)))
            at = int(np.argmax(deviance))
            if deviance[at] > best[0]:
                row, column = divmod(int(likely[at]), starts[-1])
                which = int(np.searchsorted(starts, column, "right")) - 1
                column -= starts[which]
                best = float(deviance[at]), (slice(row, row + high), slice(column, column + widths[which]))
    return *best, n_tried


def _compute_deviance(on_x: Any, both: Any, expected: Any) -> Any:
    """Return twice the log likelihood ratio of the observed counts of x to their expected counts.

    ``both`` are the counts of x and x' together, and ``expected`` the expected counts of x.
    """
    return 2.0 * (rel_entr(on_x, expected) + rel_entr(both - on_x, both - expected))


def _refine_rectangle(first: BinnedField, second: BinnedField, size: int, cells: Rectangle) -> tuple[float, Feature]:
    """Move the edges of a rectangle to where they separate x from x' best.

    The edges of the two fields are moved in turn, twice for each field. Returns the deviance of the moved rectangle and
    the table of two features in which the rectangle is a cell.
    """
    fields = first, second
    within = [(one.codes >= part.start) & (one.codes < part.stop) for one, part in zip(fields, cells, strict=True)]
    on_x = np.arange(len(first.numbers)) < size
    wanted = on_x == (np.mean(on_x[within[0] & within[1]]) > 0.5)
    for turn in (0, 1, 0, 1):
        numbers, others = fields[turn].numbers, within[1 - turn] & ~np.isnan(fields[turn].numbers)
        if not fields[turn].single:
            # Find the interval around the middle that maximises a sum: every number adds its contribution to the log
            # odds of the interval.
            own = np.flatnonzero(others)[np.argsort(numbers[others], kind="stable")]
            sums = np.cumsum(
                np.where(wanted[own], math.log(2.0 * RARE_REGION_PURITY), math.log(2.0 * (1.0 - RARE_REGION_PURITY)))
            )
            middle = int(np.median(np.flatnonzero(within[turn][own])))
            last = middle + int(np.argmax(sums[middle:]))
            start = int(np.argmin(np.append(0.0, sums[:middle])))
            within[turn] = (numbers >= numbers[own[start]]) & (numbers <= numbers[own[last]])
    inside = within[0] & within[1]
    expected = np.sum(expit(first.odds[first.codes[inside]] + second.odds[second.codes[inside]]))
    deviance = _compute_deviance(np.count_nonzero(inside & on_x), np.count_nonzero(inside), expected)
    # The two features, and for each the edges whose second cell is the region.
    ends: list[Any] = []
    for one in fields:
        numbers = one.numbers[inside]
        if isinstance(one.feature, CategoryCode):
            ends.append((CategoryCode(one.feature.path, (one.feature.values[int(numbers[0])],)), ()))
        else:
            ends.append((one.feature, (float(np.nextafter(numbers.min(), -np.inf)), float(numbers.max()))))
    return float(deviance), CrossTable(*(part for part, _ in ends), *(edges for _, edges in ends))
