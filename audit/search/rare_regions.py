"""DOC"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.special import expit, rel_entr

from epsaudit.outputs.normal_form import (
    Outputs,
)
from epsaudit.search.cross_tables import MAX_CROSS_TABLES, BinnedField
from epsaudit.search.difference_tests import EXPECTED_FALSE_FEATURES, compute_pearson, log_p_value
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import CategoryCode

N_REGION_LEVELS = 64
"""[time] Quantile cells of a field in which rare regions are sought, and how many of them a region spans."""
REGION_WIDTHS = (1, 2, 3, 4, 6, 8)
"""[time] Quantile cells of a field in which rare regions are sought, and how many of them a region spans."""
MAX_REFINED_REGIONS = 32
"""[time] Tables whose best region is fitted closely, those that chance makes least: a fit takes as long as the scan."""
MAX_UNPROVEN_REGIONS = 2
"""[time] Rare regions that chance may have made and are looked at all the same where nothing else tells anything."""
MIN_OUTPUTS_PER_TABLE = 100
"""[time] Outputs of both sides for each table of two fields that is scanned for rare regions."""
RARE_REGION_PURITY = 0.99
"""[chosen] Share of one side in a rare region: a number of the other side weighs as much as 5.7 of it."""
Rectangle = tuple[slice, slice]
"""Of one field, and of another."""


def find_rare_regions(fields: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> tuple[list[Feature], int]:
    """Return tables of two fields with a cell that is rarer on one side than both fields alone say, and of how many.

    A region is rare where both fields fall together on one side, hardly ever on the other, and neither alone tells: the
    rectangle of cells that chance makes least, its edges moved between numbers. Significant regions are returned; else
    the two best where nothing tells anything. Of many fields the first are scanned, as many as outputs allow.
    """
    size = len(outputs)
    known = BinnedField.all_of(fields[: count_scanned_fields(size)], (outputs, outputs_prime), N_REGION_LEVELS)
    scanned, likely = [], []
    for pair in itertools.combinations(known, 2):
        told, cells, tried = _scan_rectangles(*pair, size)
        scanned.append(tried)
        if told > 0.0:  # chance is that of the best of so many
            likely.append((log_p_value(told, 1) + math.log(tried), cells, tried, pair))
    found: list[tuple[float, Feature]] = []
    for _, cells, tried, pair in sorted(likely, key=itemgetter(0))[:MAX_REFINED_REGIONS]:
        told, table = _refine_rectangle(*pair, size, cells)
        moved = len(REGION_WIDTHS) ** sum(not one.single for one in pair)
        found.append((log_p_value(told, 1) + math.log(tried * moved), table))
    found.sort(key=itemgetter(0))
    surely = [table for one, table in found if one < math.log(EXPECTED_FALSE_FEATURES / len(scanned))][
        :MAX_CROSS_TABLES
    ]
    univariate = min((log_p_value(*compute_pearson(one.codes, size)) for one in known), default=0.0)
    if not surely and univariate > math.log(EXPECTED_FALSE_FEATURES / max(len(known), 1)):
        surely = [table for _, table in found[:MAX_UNPROVEN_REGIONS]]
    return surely, max(sum(scanned), 1)


def count_scanned_fields(size: int) -> int:
    """How many fields the tables of two of which are scanned have at most, by the number of outputs of a side."""
    most = 2 * size // MIN_OUTPUTS_PER_TABLE
    return (1 + math.isqrt(1 + 8 * most)) // 2 if most else 0


def _scan_rectangles(first: BinnedField, second: BinnedField, size: int) -> tuple[float, Rectangle, int]:
    """Look at rectangles of cells: the greatest `_compute_deviance`, the cells where it is, and of how many."""
    shape = first.levels + 1, second.levels + 1
    place, usual = first.codes * shape[1] + second.codes, expit(first.odds[:, None] + second.odds)
    seen, total = (np.bincount(some, minlength=usual.size).reshape(shape) for some in (place[:size], place))
    counts = np.array([seen, total, total * usual])[:, :-1, :-1]
    sums = np.zeros((3, *shape))
    np.cumsum(np.cumsum(counts, axis=1), axis=2, out=sums[:, 1:, 1:])
    tried, best = 0, (0.0, (slice(0), slice(0)))
    heights, spans = ((1,) if one.single else REGION_WIDTHS for one in (first, second))
    widths = [wide for wide in spans if wide < shape[1]]
    starts = [0, *itertools.accumulate(shape[1] - wide for wide in widths)]  # rectangles of all widths side by side
    for high in heights:
        rows = sums[:, high:] - sums[:, :-high]
        cells = np.empty((*rows.shape[:2], starts[-1]), np.float32)
        for wide, (start, end) in zip(widths, itertools.pairwise(starts), strict=True):
            np.subtract(rows[:, :, wide:], rows[:, :, :-wide], out=cells[:, :, start:end], casting="same_kind")
        on_x, both, expected = cells.reshape(3, -1)
        tried += both.size
        gap = on_x - expected
        gap *= gap
        gap *= both
        rest = both - expected
        rest *= expected
        rest *= np.float32(math.log(max(tried, 2)))
        likely = np.flatnonzero(gap > rest)
        likely = likely[both[likely] > 0.5]
        if len(likely):
            told = _compute_deviance(*(one[likely].astype(float) for one in (on_x, both, expected)))
            at = int(np.argmax(told))
            if told[at] > best[0]:
                row, column = divmod(int(likely[at]), starts[-1])
                which = int(np.searchsorted(starts, column, "right")) - 1
                column -= starts[which]
                best = float(told[at]), (slice(row, row + high), slice(column, column + widths[which]))
    return *best, tried


def _compute_deviance(on_x: Any, both: Any, expected: Any) -> Any:
    """Twice the log likelihood ratio of counts of one side among those of both."""
    return 2.0 * (rel_entr(on_x, expected) + rel_entr(both - on_x, both - expected))


def _refine_rectangle(first: BinnedField, second: BinnedField, size: int, cells: Rectangle) -> tuple[float, Feature]:
    """Move the edges of a rectangle, each field's in turn, to where the most of one side are inside."""
    fields = first, second
    within = [(one.codes >= part.start) & (one.codes < part.stop) for one, part in zip(fields, cells, strict=True)]
    on_x = np.arange(len(first.numbers)) < size
    wanted = on_x == (np.mean(on_x[within[0] & within[1]]) > 0.5)
    for turn in (0, 1, 0, 1):
        numbers, others = fields[turn].numbers, within[1 - turn] & ~np.isnan(fields[turn].numbers)
        if not fields[turn].single:
            # the interval of the greatest sum about the middle, to which numbers add as they do to the log odds
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
    told = _compute_deviance(np.count_nonzero(inside & on_x), np.count_nonzero(inside), expected)
    ends: list[Any] = []  # features, and edges of which the second cell holds the inside
    for one in fields:
        numbers = one.numbers[inside]
        if isinstance(one.feature, CategoryCode):
            ends.append((CategoryCode(one.feature.path, (one.feature.values[int(numbers[0])],)), ()))
        else:
            ends.append((one.feature, (float(np.nextafter(numbers.min(), -np.inf)), float(numbers.max()))))
    return float(told), CrossTable(*(part for part, _ in ends), *(edges for _, edges in ends))
