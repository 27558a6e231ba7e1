"""The cell of an output in a table of two features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.outputs.arrays import Outputs
from epsaudit.witnesses.feature import Feature, FormattedLabel
from epsaudit.witnesses.number_format import find_distinguishing_digits, format_number
from epsaudit.witnesses.parts import CategoryCode


@dataclass(frozen=True)
class CrossTable(FormattedLabel):
    """A feature that is the cell of an output in a table of two features; NaN where one of them is NaN.

    ``edges`` divide the first feature into rows, and ``edges_second`` the second one into columns. Cells are numbered
    row by row, from 0.
    """

    first: Feature
    second: Feature
    edges: tuple[float, ...]
    edges_second: tuple[float, ...]
    form = "cell of ({0.first.label}, {0.second.label})"

    @property
    def number(self) -> int:
        """Number of cells of the table."""
        return (len(self.edges) + 1) * (len(self.edges_second) + 1)

    def written(self, codes: Sequence[int]) -> str:
        """Return the condition, in words, that an output falls into one of the cells with these numbers."""
        parts = []
        for code in codes[:8]:
            row, column = divmod(code, len(self.edges_second) + 1)
            first = _describe_cell(self.first, self.edges, row)
            second = _describe_cell(self.second, self.edges_second, column)
            parts.append(f"({first} and {second})")
        return " or ".join(parts) + (f" or ... {len(codes) - 8} more cells" if len(codes) > 8 else "")

    def __call__(self, outputs: Outputs) -> Floats:
        first, second = (np.asarray(one(outputs), float) for one in (self.first, self.second))
        row, column = np.searchsorted(self.edges, first), np.searchsorted(self.edges_second, second)
        cells = row * (len(self.edges_second) + 1.0) + column
        return np.where(np.isnan(first) | np.isnan(second), np.nan, cells)


def _describe_cell(feature: Feature, edges: Sequence[float], code: int) -> str:
    """Return the condition, in words, that a feature falls into the cell ``code`` between ``edges``."""
    if isinstance(feature, CategoryCode | CrossTable):
        return feature.written([code])
    if phrases := getattr(feature, "phrases", None):
        none, there = np.searchsorted(edges, [0.0, 1.0]) == code
        if none != there:
            return str(phrases[0] if there else phrases[1])
    if 0 < code < len(edges) and np.nextafter(edges[code], -np.inf) == edges[code - 1]:
        return f"{feature.label} = {format_number(edges[code])}"
    digits = find_distinguishing_digits(edges[max(code - 1, 0) : code + 1])
    low = f"{format_number(edges[code - 1], digits)} < " if 0 < code < len(edges) else ""
    if code == len(edges):
        return f"{feature.label} > {format_number(edges[-1])}" if edges else f"{feature.label} is a number"
    return f"{low}{feature.label} <= {format_number(edges[code], digits)}"
