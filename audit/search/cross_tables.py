"""Tables of two fields, for events that need two conditions at once.

A table is useful if its cells differ between the sides by more than both fields explain separately.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsaudit.array_types import Floats, Ints
from epsaudit.outputs.arrays import Outputs
from epsaudit.search.difference_tests import (
    compute_pearson,
    count_cells,
    find_cell_edges,
    keep_significant,
    log_p_value,
    read_both_sides,
    shrink_log_ratios,
    take_screening_outputs,
)
from epsaudit.search.limits import MAX_LEVELS, MIN_ATOM_COUNT
from epsaudit.search.output_fields import path_of
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import CategoryCode, Coordinate, NumberAt

N_CROSS_TABLE_LEVELS = 8
"""[memory] Number of quantile cells of a field in a table of two fields, if it has more than `MAX_LEVELS` values."""
MAX_CROSS_TABLE_CELLS = 16_384
"""[memory] Maximum number of cells of a table of two fields: the square of `MAX_LEVELS`."""
MAX_CROSS_TABLES = 4
"""[time] Maximum number of tables of two fields whose cells are candidate events."""
MAX_UNTESTED_CROSS_TABLES = 3
"""[time] Maximum number of possible tables for which all tables are kept if none of them is significant."""


@dataclass(frozen=True)
class BinnedField:
    """A field (a feature of the outputs) whose numbers were divided into cells.

    Attributes
    ----------
    feature : Feature
        The feature that gives the numbers.
    numbers : array of shape (outputs,)
        The numbers for the outputs of x, followed by those for the outputs of x'.
    codes : array of shape (outputs,)
        The cell of every output, numbered from 0. The last cell is for missing numbers.
    edges : array
        The edges between the cells.
    single : bool
        Whether every value has a cell of its own.
    levels : int
        Number of cells without the one for missing numbers.
    odds : array of shape (levels + 1,)
        Log odds of x in every cell, as `shrink_log_ratios` estimates them.
    """

    feature: Feature
    numbers: Floats
    codes: Ints
    edges: Floats
    single: bool
    levels: int
    odds: Floats

    @classmethod
    def bin_all(cls, features: Sequence[Feature], sides: Sequence[Outputs], max_cells: int) -> list[BinnedField]:
        """Divide the numbers of each feature into cells, and leave out features that take only one value.

        Every distinct value has a cell of its own if there are fewer than `MAX_LEVELS` values. Otherwise there are at
        most ``max_cells`` cells with edges at quantiles.
        """
        found = []
        for feature in features:
            numbers = read_both_sides(feature, sides)
            ordered = np.sort(numbers)
            edges = find_cell_edges(ordered, MAX_LEVELS)
            single = isinstance(feature, CategoryCode) or len(edges) < MAX_LEVELS - 1
            edges = edges if single else find_cell_edges(ordered, max_cells)
            if len(edges):
                codes = np.searchsorted(edges, numbers)
                codes[np.isnan(numbers)] = len(edges) + 1
                odds = shrink_log_ratios(count_cells(codes, len(sides[0]), len(edges) + 2).T)
                found.append(cls(feature, numbers, codes, edges, single, len(edges) + 1, odds))
        return found

    @functools.cached_property
    def exact(self) -> tuple[Feature, tuple[float, ...]]:
        """The feature and the edges of its cells, as they are used in a `CrossTable`.

        If the field takes only a few values, and each of them repeatedly, the feature is a `CategoryCode`, which names
        each of these values exactly.
        """
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
    """Return the tables of two fields that differ between x and x' significantly more than both fields separately.

    If no table is significant and only a few tables are possible, all of them are returned.
    """
    sides = take_screening_outputs(outputs, outputs_prime)
    size = len(sides[0])
    found: list[tuple[float, Feature]] = []
    for first, second in itertools.combinations(BinnedField.bin_all(fields, sides, N_CROSS_TABLE_LEVELS), 2):
        if first.levels * second.levels <= MAX_CROSS_TABLE_CELLS:
            excess, freedom = compute_pearson(first.codes * (second.levels + 1) + second.codes, size)
            for single in (first, second):
                statistic, own = compute_pearson(single.codes, size)
                excess, freedom = excess - statistic, freedom - own
            (one, edges), (other, edges_other) = first.exact, second.exact
            found.append((log_p_value(excess, freedom), CrossTable(one, other, edges, edges_other)))
    best = keep_significant(found, MAX_CROSS_TABLES)
    return best if best or len(found) > MAX_UNTESTED_CROSS_TABLES else [table for _, table in found]
