"""DOC"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsaudit.outputs.normal_form import (
    Codes,
    Floats,
    Outputs,
)
from epsaudit.search.difference_tests import (
    MAX_SCREENING_OUTPUTS,
    compute_pearson,
    count_cells,
    find_cell_edges,
    keep_significant,
    log_p_value,
    read_both_sides,
    shrink_log_ratios,
)
from epsaudit.search.limits import MAX_LEVELS, MIN_ATOM_COUNT
from epsaudit.search.output_fields import path_of
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import CategoryCode, Coordinate, NumberAt

N_CROSS_TABLE_LEVELS = 8
"""[memory] Quantile cells of a field in a table of two, different values up to which each has a cell, and cells of a
table, the square of that. What has more values than that and is no number is read, as text, time, or by a checksum."""
MAX_CROSS_TABLE_CELLS = 16_384
"""[memory] Quantile cells of a field in a table of two, different values up to which each has a cell, and cells of a
table, the square of that. What has more values than that and is no number is read, as text, time, or by a checksum."""
MAX_CROSS_TABLES = 4
"""[time] Tables of two fields that are looked at; and how many there may be at most for all to be, telling or not."""
MAX_UNTESTED_CROSS_TABLES = 3
"""[time] Tables of two fields that are looked at; and how many there may be at most for all to be, telling or not."""


@dataclass(frozen=True)
class BinnedField:
    """A field in cells from 0, of ``single`` values where few, one more for what is missing; ``odds`` of each."""

    feature: Feature
    numbers: Floats
    codes: Codes
    edges: Floats
    single: bool
    levels: int
    odds: Floats

    @classmethod
    def all_of(cls, features: Sequence[Feature], sides: Sequence[Outputs], most: int) -> list[BinnedField]:
        """Cut the features that vary, into a cell for each value, or quantile cells where these are too many."""
        found = []
        for feature in features:
            numbers = read_both_sides(feature, sides)
            ordered = np.sort(numbers)
            edges = find_cell_edges(ordered, MAX_LEVELS)
            single = isinstance(feature, CategoryCode) or len(edges) < MAX_LEVELS - 1
            edges = edges if single else find_cell_edges(ordered, most)
            if len(edges):
                codes = np.searchsorted(edges, numbers)
                codes[np.isnan(numbers)] = len(edges) + 1
                odds = shrink_log_ratios(count_cells(codes, len(sides[0]), len(edges) + 2).T)
                found.append(cls(feature, numbers, codes, edges, single, len(edges) + 1, odds))
        return found

    @functools.cached_property
    def exact(self) -> tuple[Feature, tuple[float, ...]]:
        """The feature and the edges of its cells; of a few values, all of which repeat, their numbers among them."""
        values, seen = np.unique(self.numbers[~np.isnan(self.numbers)], return_counts=True)
        if (
            len(values) <= MAX_LEVELS
            and seen.min() >= MIN_ATOM_COUNT
            and isinstance(self.feature, Coordinate | NumberAt)
        ):
            edges = np.arange(0.5, len(values) - 1)
            return CategoryCode(path_of(self.feature), tuple(values.tolist())), tuple(edges.tolist())
        return self.feature, tuple(self.edges.tolist())


def list_cross_tables(fields: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """Tables of two fields that tell more together than each alone; of few fields all tables."""
    sides = outputs[:MAX_SCREENING_OUTPUTS], outputs_prime[:MAX_SCREENING_OUTPUTS]
    size = len(sides[0])
    found: list[tuple[float, Feature]] = []
    for first, second in itertools.combinations(BinnedField.all_of(fields, sides, N_CROSS_TABLE_LEVELS), 2):
        if first.levels * second.levels <= MAX_CROSS_TABLE_CELLS:
            more, freedom = compute_pearson(first.codes * (second.levels + 1) + second.codes, size)
            for univariate in (first, second):
                told, own = compute_pearson(univariate.codes, size)
                more, freedom = more - told, freedom - own
            (one, edges), (other, edges_other) = first.exact, second.exact
            found.append((log_p_value(more, freedom), CrossTable(one, other, edges, edges_other)))
    best = keep_significant(found, MAX_CROSS_TABLES)
    return best if best or len(found) > MAX_UNTESTED_CROSS_TABLES else [table for _, table in found]
