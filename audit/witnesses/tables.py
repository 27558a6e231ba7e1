"""Tables of two fields: cells that tell more together than each field alone, and rare regions.

A region is rare where both fields fall together on one side, hardly ever on the other, and neither alone tells: of
single values of symbols and few numbers, and of intervals of others, the rectangle whose ratio of probabilities stays
greatest when it is lowered by the errors that so many rectangles make by chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from epsaudit.outputs.normal_form import Codes, Floats, Outputs
from epsaudit.witnesses import settings
from epsaudit.witnesses.features import Feature, readable
from epsaudit.witnesses.fields import Code
from epsaudit.witnesses.screening import codes_of, counts_of, log_chance, pearson, pooled, shrunk, sure


@readable
class Together:
    """The cell of a table of two features, with rows and columns cut at edges; NaN where one of the two is NaN.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Coordinate
    >>> table = Together(Coordinate(0), Coordinate(1), (0.0,), (0.0, 1.0))
    >>> table(np.array([[-1.0, 0.5], [3.0, 2.0]])).tolist(), table.written([5])
    ([1.0, 5.0], '(y[0] > 0 and y[1] > 1)')
    """

    first: Feature
    second: Feature
    edges: tuple[float, ...]
    edges_second: tuple[float, ...]
    coded = True

    @property
    def number(self) -> int:
        """How many cells there are."""
        return (len(self.edges) + 1) * (len(self.edges_second) + 1)

    @property
    def label(self) -> str:
        return f"cell of ({self.first.label}, {self.second.label})"

    def written(self, codes: Sequence[int]) -> str:
        """Write that an output falls into one of these cells."""
        cells = (divmod(code, len(self.edges_second) + 1) for code in codes[:8])
        parts = [
            f"({_cell(self.first, self.edges, row)} and {_cell(self.second, self.edges_second, column)})"
            for row, column in cells
        ]
        return " or ".join(parts) + (f" or ... {len(codes) - 8} more cells" if len(codes) > 8 else "")

    def __call__(self, outputs: Outputs) -> Floats:
        first, second = (np.asarray(one(outputs), float) for one in (self.first, self.second))
        row, column = np.searchsorted(self.edges, first), np.searchsorted(self.edges_second, second)
        cells = row * (len(self.edges_second) + 1.0) + column
        return np.where(np.isnan(first) | np.isnan(second), np.nan, cells)


def _cell(feature: Feature, edges: Sequence[float], code: int) -> str:
    if getattr(feature, "coded", False):
        return str(feature.written([code]))  # type: ignore[attr-defined]  # what is coded has it
    if 0 < code < len(edges) and np.nextafter(edges[code], -np.inf) == edges[code - 1]:
        return f"{feature.label} = {edges[code]:.6g}"
    low = f"{edges[code - 1]:.6g} < " if 0 < code < len(edges) else ""
    if code == len(edges):
        return f"{feature.label} > {edges[-1]:.6g}" if edges else f"{feature.label} is a number"
    return f"{low}{feature.label} <= {edges[code]:.6g}"


def pairs_together(fields: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """Tables of two fields that tell more together than each alone; of few fields all tables."""
    sides = outputs[: settings.LOOK], outputs_prime[: settings.LOOK]
    size = len(sides[0])
    cells: list[tuple[Feature, Codes, Floats, tuple[float, int]]] = []
    for feature in fields:
        numbers = pooled(feature, sides)
        codes, edges = codes_of(numbers, settings.MOST_LEVELS)
        if len(edges) >= settings.MOST_LEVELS - 1:
            codes, edges = codes_of(numbers, settings.LEVELS_TOGETHER)
        if len(edges):
            cells.append((feature, codes, edges, pearson(codes, size)))
    found: list[tuple[float, Feature]] = []
    for (first, a, edges, alone), (second, b, edges_second, alone_second) in itertools.combinations(cells, 2):
        width = len(edges_second) + 1
        if (len(edges) + 1) * width > settings.MOST_CODES:
            continue
        joint, freedom = pearson(np.where((a < 0) | (b < 0), -1, a * width + b), size)
        more, extra = joint - alone[0] - alone_second[0], freedom - alone[1] - alone_second[1]
        table = Together(first, second, tuple(edges.tolist()), tuple(edges_second.tolist()))
        found.append((log_chance(more, extra), table))
    best = sure(found, settings.MOST_TOGETHER)
    return best if best or len(found) > settings.FEW_TABLES else [table for _, table in found]


Cells = tuple[int, int, int, int]
"""First and last cell of one field, and of another."""
PURE = 0.99
"""Share of one side in a rare region, for whose bounds a number of the other side so weighs as much as 5.7 of it."""


@dataclass(frozen=True)
class _Field:
    """A field in cells: its numbers, the cell of each from 0 (the last is for NaN), and the log ratio in each cell."""

    feature: Feature
    numbers: Floats
    codes: Codes
    single: bool
    told: Floats

    @classmethod
    def of(cls, feature: Feature, numbers: Floats, size: int) -> _Field | None:
        """Cut into single values if there are few, else at quantiles; None where nothing varies."""
        coded = getattr(feature, "coded", False)
        codes, edges = codes_of(numbers, settings.MOST_LEVELS)
        single = coded or len(edges) < settings.MOST_LEVELS - 1
        if not single:
            codes, edges = codes_of(numbers, settings.LEVELS_OF_REGIONS)
        if len(edges) == 0:
            return None
        codes = np.where(codes < 0, len(edges) + 1, codes)
        return cls(feature, numbers, codes, single, shrunk(counts_of(codes, size, len(edges) + 2).T))

    @property
    def levels(self) -> int:
        """Number of cells, without that of NaN."""
        return len(self.told) - 1

    def within(self, first: int, last: int) -> NDArray[np.bool_]:
        """Which numbers lie in these cells."""
        return (self.codes >= first) & (self.codes <= last)

    def ends(self, inside: NDArray[np.bool_]) -> tuple[Feature, tuple[float, ...]]:
        """A feature, and edges of which the second cell holds what is inside."""
        numbers = self.numbers[inside]
        if isinstance(self.feature, Code):
            return Code(self.feature.path, (self.feature.values[int(numbers[0])],)), ()
        return self.feature, (float(np.nextafter(numbers.min(), -np.inf)), float(numbers.max()))


def rare_regions(fields: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> tuple[list[Feature], int]:
    """Return tables of two fields with a cell that is rarer on one side than both fields alone say, and of how many.

    Those that chance hardly makes; where nothing tells anything the likeliest ones, for there is nothing to lose by
    looking at them again. Of many fields the tables of the first are scanned, in proportion to the number of outputs.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Coordinate
    >>> x, x_prime = np.random.default_rng(0).random((2, 20_000, 2))
    >>> x[(np.abs(x - 0.5) < 0.03).all(axis=1)] = 0.0
    >>> found, tried = rare_regions([Coordinate(0), Coordinate(1)], x, x_prime)
    >>> found[0].number
    9
    """
    size = len(outputs)
    if fields_scanned(size) == 0:
        return [], 1
    sides = outputs, outputs_prime
    chosen = fields[: fields_scanned(size)]
    known = [one for one in (_Field.of(feature, pooled(feature, sides), size) for feature in chosen) if one is not None]
    pairs = list(itertools.combinations(known, 2))
    best = [(*region, pair) for pair in pairs if (region := _best(*pair, size)) is not None]
    best.sort(key=lambda one: one[0])
    found = [_sharpened(*pair, size, cells) for _, cells, pair in best[: settings.MOST_SHARPENED]]
    found.sort(key=lambda one: one[0])
    limit = math.log(settings.FALSE_FINDS / max(len(pairs), 1))
    sure = [table for chance, table in found if chance < limit][: settings.MOST_TOGETHER]
    alone = min((log_chance(*pearson(one.codes, size)) for one in known), default=0.0)
    if not sure and alone > math.log(settings.FALSE_FINDS / max(len(known), 1)):
        sure = [table for _, table in found[: settings.MOST_HOPEFUL]]
    return sure, max(sum(_tried(*pair) for pair in pairs), 1)


def fields_scanned(size: int) -> int:
    """How many fields the tables of two of which are scanned have at most, by the number of outputs of a side."""
    most = 2 * size // settings.OUTPUTS_PER_TABLE
    return (1 + math.isqrt(1 + 8 * most)) // 2 if most else 0


def _sizes(first: _Field, second: _Field) -> list[tuple[int, int]]:
    """How many rows and columns regions span."""
    widths = [(1,) if one.single else settings.WIDTHS_OF_REGIONS for one in (first, second)]
    return [(a, b) for a, b in itertools.product(*widths) if a <= first.levels and b <= second.levels]


def _tried(first: _Field, second: _Field) -> int:
    """How many rectangles are looked at."""
    return sum((first.levels - a + 1) * (second.levels - b + 1) for a, b in _sizes(first, second))


def _best(first: _Field, second: _Field, size: int) -> tuple[float, Cells] | None:
    """The best rectangle of two fields: log of how likely by chance, and its cells; None if all are as usual."""
    shape = first.levels + 1, second.levels + 1
    place = first.codes * shape[1] + second.codes
    on_x, both = (
        np.bincount(part, minlength=shape[0] * shape[1]).reshape(shape).astype(float) for part in (place[:size], place)
    )
    expected = both / (1.0 + np.exp(-np.add.outer(first.told, second.told)))
    sums = np.zeros((3, *shape))
    counts = [(on_x - expected)[:-1, :-1], both[:-1, :-1], expected[:-1, :-1]]
    np.cumsum(np.cumsum(counts, axis=1), axis=2, out=sums[:, 1:, 1:])
    rows: tuple[int, Floats] = (0, sums)
    tried = max(_tried(first, second), 2)
    lowered = math.sqrt(2.0 * math.log(tried))
    best: tuple[float, float, Cells] = (-math.inf, 0.0, (0, 0, 0, 0))
    for high, wide in _sizes(first, second):
        if rows[0] != high:
            rows = high, sums[:, high:] - sums[:, :-high]
        more, n, e = rows[1][:, :, wide:] - rows[1][:, :, :-wide]
        likely = np.flatnonzero((n > 0.5) & (more * more * n > (lowered**2 / 2.0 * e) * (n - e)))
        if len(likely):
            above, all_, usual = (one.ravel()[likely] for one in (more, n, e))
            some = np.rint(above + usual)
            deviance = _deviance(some, all_, usual)
            low = _worth(some, all_, usual, deviance, lowered)
            at = int(np.argmax(low))
            row, column = divmod(int(likely[at]), n.shape[1])
            best = max(best, (float(low[at]), float(deviance[at]), (row, row + high - 1, column, column + wide - 1)))
    return None if best[0] == -math.inf else (log_chance(best[1], 1) + math.log(tried), best[2])


def _sharpened(first: _Field, second: _Field, size: int, cells: Cells) -> tuple[float, Feature]:
    """Move the edges of a rectangle between numbers, each field's in turn, to where the most of one side are inside.

    Return the log of how likely it is by chance, and its table.
    """
    fields = first, second
    within = [one.within(*ends) for one, ends in zip(fields, (cells[:2], cells[2:]), strict=True)]
    on_x = np.arange(len(first.numbers)) < size
    cell = within[0] & within[1]
    mostly = np.count_nonzero(cell & on_x) * 2 > np.count_nonzero(cell)
    for turn in range(4):
        moved = fields[turn % 2]
        if not moved.single:
            own = within[1 - turn % 2] & np.isfinite(moved.numbers)
            if not np.any(own & within[turn % 2]):  # all inside are infinite
                continue
            centre = float(np.median(moved.numbers[own & within[turn % 2]]))
            high = _end(moved.numbers[own] - centre, on_x[own] == mostly)
            low = -_end(centre - moved.numbers[own], on_x[own] == mostly)
            within[turn % 2] = (moved.numbers >= centre + low) & (moved.numbers <= centre + high)
    inside = within[0] & within[1]
    if not np.any(inside):  # edges that were rounded
        inside = cell
    odds = first.told[first.codes[inside]] + second.told[second.codes[inside]]
    counts = np.count_nonzero(inside & on_x), np.count_nonzero(inside), np.sum(1.0 / (1.0 + np.exp(-odds)))
    deviance = _deviance(*(np.array([float(one)]) for one in counts))
    (one, edges), (other, edges_second) = (part.ends(inside) for part in fields)
    moves = sum(not part.single for part in fields) * math.log(len(settings.WIDTHS_OF_REGIONS))
    chance = log_chance(float(deviance[0]), 1) + math.log(max(_tried(*fields), 2)) + moves
    return chance, Together(one, other, edges, edges_second)


def _end(beyond: Floats, wanted: NDArray[np.bool_]) -> float:
    """How far an interval from 0 reaches that holds most of one side, of which others take away as they do of odds."""
    ahead = np.flatnonzero(beyond >= 0.0)
    ahead = ahead[np.argsort(beyond[ahead], kind="stable")]
    sums = np.cumsum(np.where(wanted[ahead], math.log(2.0 * PURE), math.log(2.0 * (1.0 - PURE))))
    return float(beyond[ahead[int(np.argmax(sums))]])


def _deviance(on_x: Floats, both: Floats, expected: Floats) -> Floats:
    """Twice the log likelihood ratio of counts of one side among those of both."""
    on_x_prime = both - on_x
    return np.asarray(2.0 * (xlogy(on_x, on_x / expected) + xlogy(on_x_prime, on_x_prime / (both - expected))))


def _worth(on_x: Floats, both: Floats, expected: Floats, deviance: Floats, lowered: float) -> Floats:
    """By how much a log ratio differs from what is expected, lowered by so many errors, or how many are missing."""
    ratio = np.log((on_x + 0.5) / (both - on_x + 0.5)) - np.log(expected / (both - expected))
    sure = np.sqrt(np.maximum(deviance, 1e-9))
    return np.where(sure > lowered, np.abs(ratio) * (1.0 - lowered / sure), sure - lowered)
