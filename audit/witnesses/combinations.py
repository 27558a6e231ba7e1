"""Numbers read off several coordinates at once: differences, sums, order, equality, counts, places; and rankings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError
from epsaudit.outputs.columns import inside
from epsaudit.outputs.normal_form import Array, Floats, Outputs, normal, order_key, values_of, written
from epsaudit.outputs.packed import alike, rows_of
from epsaudit.witnesses.features import LATER, Coordinate, Feature, Path, path_label, readable
from epsaudit.witnesses.screening import log_chance, screen, sure
from epsaudit.witnesses.settings import HOLES, LOOK, MOST_LEVELS, MOST_PAIRED, MOST_PARTS, TELLING

OPERATIONS: dict[str, Callable[[Floats, Floats], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "==": lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, a == b),
}
STATISTICS = ("sum", "max", "min", "argmax", "argmin", "lead", "norm", "distinct", "numbers")


@readable
class Combined:
    """Two features combined by '+', '-', '*', 'max', 'min' or '==' (1 where they are equal, else 0).

    Examples
    --------
    >>> difference = Combined("-", Coordinate(0), Coordinate(1))
    >>> difference(np.array([[5.0, 3.0]])), difference.label
    (array([2.]), 'y[0] - y[1]')
    """

    operation: str
    first: Feature
    second: Feature

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise AuditError(f"The operation is {self.operation!r}; it must be one of {', '.join(OPERATIONS)}.")

    @property
    def says(self) -> tuple[str, str] | None:
        """How a person says that the two are equal, and that they are not; None for other operations."""
        first, second = self.first.label, self.second.label
        return (f"{first} = {second}", f"{first} != {second}") if self.operation == "==" else None

    @property
    def label(self) -> str:
        first, second = self.first.label, self.second.label
        if self.operation in ("max", "min"):
            return f"{self.operation}({first}, {second})"
        return f"[{first} = {second}]" if self.operation == "==" else f"{first} {self.operation} {second}"

    def __call__(self, outputs: Outputs) -> Floats:
        a, b = (np.asarray(feature(outputs), float) for feature in (self.first, self.second))
        with np.errstate(invalid="ignore"):
            return np.asarray(OPERATIONS[self.operation](a, b), np.float64)


@readable
class Reduced:
    """One number that sums up so many coordinates; those that are NaN are left out, an output without any has none.

    The statistics are sum, max, min, argmax (the first; the size where all are equal), argmin, lead (greatest less
    second greatest), norm (root of the sum of squares), distinct (how many different numbers) and numbers (how many
    finite ones).

    Examples
    --------
    >>> Reduced("argmax", 3)(np.array([[1.0, 7.0, 2.0]])), Reduced("sum", 3).label
    (array([1.]), 'sum(y)')
    """

    statistic: str
    size: int

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise AuditError(f"The statistic is {self.statistic!r}; it must be one of {', '.join(STATISTICS)}.")

    @property
    def label(self) -> str:
        names = {"lead": "max(y) - second max(y)", "distinct": "distinct numbers in y", "numbers": "numbers in y"}
        return names.get(self.statistic, f"{self.statistic}(y)")

    def __call__(self, outputs: Outputs) -> Floats:
        columns = matrix(outputs, self.size)
        with np.errstate(invalid="ignore", over="ignore"):
            return _without_any(columns, np.asarray(self._reduce(columns), float))

    def _reduce(self, columns: Floats) -> Any:
        missing = np.isnan(columns)
        holes = bool(missing.any())
        match self.statistic:
            case "sum":
                return (np.where(missing, 0.0, columns) if holes else columns).sum(axis=1)
            case "norm":
                squares = columns * columns
                return np.sqrt((np.where(missing, 0.0, squares) if holes else squares).sum(axis=1))
            case "numbers":
                return np.isfinite(columns).sum(axis=1)
            case "distinct":
                ordered = np.sort(columns, axis=1)
                return 1 + (np.diff(ordered, axis=1) > 0).sum(axis=1)
            case "min" | "argmin":
                filled = np.where(missing, np.inf, columns) if holes else columns
                return filled.min(axis=1) if self.statistic == "min" else filled.argmin(axis=1)
        filled = np.where(missing, -np.inf, columns) if holes else columns
        if self.statistic == "argmax":
            return np.where(filled.max(axis=1) == columns.min(axis=1), self.size, filled.argmax(axis=1))
        if self.statistic == "max" or self.size == 1:
            return filled.max(axis=1)
        top = np.partition(filled, self.size - 2, axis=1)[:, -2:]
        return top[:, 1] - top[:, 0]


@readable
class Place:
    """The place of the first finite number of a vector, or of the last; the size where none is, NaN without any number.

    Examples
    --------
    >>> rows = np.array([[-np.inf, 3.5, 1.0], [np.nan, np.nan, np.nan]])
    >>> Place(3)(rows).tolist(), Place(3, last=True)(rows).tolist(), Place(3).label
    ([1.0, nan], [2.0, nan], 'place of the first number')
    """

    size: int
    last: bool = False

    @property
    def label(self) -> str:
        return f"place of the {'last' if self.last else 'first'} number"

    def __call__(self, outputs: Outputs) -> Floats:
        columns = matrix(outputs, self.size)
        return _without_any(columns, _places(columns, self.last).astype(float))


@readable
class Release(Place):
    """The first finite number of a vector, or the last; NaN where there is none.

    Examples
    --------
    >>> rows = np.array([[-np.inf, 3.5, 1.0], [np.nan, np.nan, np.nan]])
    >>> Release(3)(rows).tolist(), Release(3, last=True)(rows).tolist(), Release(3).label
    ([3.5, nan], [1.0, nan], 'first number')
    """

    @property
    def label(self) -> str:
        return super().label.removeprefix("place of the ")

    def __call__(self, outputs: Outputs) -> Floats:
        columns = matrix(outputs, self.size)
        places = _places(columns, self.last)
        found = places < self.size
        return np.where(found, columns[np.arange(len(columns)), np.where(found, places, 0)], np.nan)


def matrix(outputs: Outputs, size: int) -> Floats:
    """The coordinates of every output as a matrix of floats, shape (len(outputs), size); NaN where there is none."""
    rows = rows_of(outputs)
    if rows is not None and rows.shape[1] == size:
        return rows
    return np.column_stack([np.asarray(Coordinate(i)(outputs), float) for i in range(size)])


def _without_any(columns: Floats, numbers: Floats) -> Floats:
    """NaN for what holds no number, an exception or a vector of NaN, whatever else is in the block."""
    missing = np.flatnonzero(np.isnan(columns[:, :1]).all(axis=1))
    numbers[missing[np.isnan(columns[missing]).all(axis=1)]] = np.nan
    return numbers


def combinations_of(size: int) -> list[Feature]:
    """List what can be read off ``size`` coordinates together: of short vectors all pairs, of long ones neighbours."""
    features: list[Feature] = [Reduced(name, size) for name in STATISTICS if size > 2 or name not in ("lead", "argmin")]
    places = map(Coordinate, range(size if size <= MOST_PAIRED else min(size, MOST_PARTS)))
    pairs = itertools.combinations(places, 2) if size <= MOST_PAIRED else itertools.pairwise(places)
    return features + [Combined(sign, *pair) for pair in pairs for sign in ("-", "+", "==")]


def increments(size: int) -> list[Feature]:
    """List the first coordinate and each next one less the one before: undoes running sums."""
    return [Coordinate(0), *(Combined("-", Coordinate(i + 1), Coordinate(i)) for i in range(size - 1))]


def releases_of(outputs: Outputs, outputs_prime: Outputs, size: int) -> list[Feature]:
    """List the places and numbers that vary, of vectors some of whose coordinates hold no number.

    Examples
    --------
    >>> rows = np.array([[-np.inf, 3.5], [2.0, np.nan], [-np.inf, 1.0]])
    >>> [feature.label for feature in releases_of(rows, rows, 2)]
    ['place of the first number', 'first number']
    >>> releases_of(np.ones((2, 2)), np.ones((2, 2)), 2)
    []
    """
    sample = np.concatenate([matrix(side[:2000], size) for side in (outputs, outputs_prime)])
    numbers = np.isfinite(sample).sum(axis=1)
    if size < 2 or np.mean(numbers < size) < HOLES or not np.any(numbers):
        return []
    ends = (False, True) if np.max(numbers) > 1 else (False,)
    return [kind(size, last) for last in ends for kind in (Place, Release)]


def _places(columns: Floats, last: bool) -> NDArray[np.int64]:
    finite, size = np.isfinite(columns), columns.shape[1]
    found = size - 1 - finite[:, ::-1].argmax(axis=1) if last else finite.argmax(axis=1)
    return np.asarray(np.where(finite.any(axis=1), found, size))


LEAST_GAP = 3.0
"""Standard errors of chance below which a pair of items is passed over, which saves time: there are thousands."""


@readable
class PlaceOf:
    """Where an item stands in a sequence, from 0; NaN where it does not.

    Examples
    --------
    >>> PlaceOf("ann")(np.array([("bob", "ann"), None], dtype=object)).tolist(), PlaceOf("ann").label
    ([1.0, nan], "place of 'ann'")
    >>> PlaceOf("ann", ("order",)).label
    "place of 'ann' in y['order']"
    """

    item: Hashable
    path: Path = field(default=(), metadata=LATER)

    @property
    def label(self) -> str:
        return f"place of {written(self.item)}" + (f" in {path_label(self.path)}" if self.path else "")

    def __call__(self, outputs: Outputs) -> Floats:
        outputs = inside(outputs, self.path)
        rows = rows_of(outputs) if len(outputs) else None
        if rows is not None and rows.shape[1] and type(self.item) is float:
            found = np.isnan(rows) if self.item != self.item else rows == self.item
            return np.where(found.any(axis=1), found.argmax(axis=1).astype(float), np.nan)
        item = normal(self.item)  # of NaN the one object that all outputs hold
        lists = (value if type(value) in (tuple, Array) else () for value in values_of(outputs))
        return np.fromiter((one.index(item) if item in one else np.nan for one in lists), float, len(outputs))


def rankings_of(outputs: Outputs, outputs_prime: Outputs, path: Path = ()) -> list[Feature]:
    """List places of items, and differences of two places, that tell something, of rankings at a path.

    Examples
    --------
    >>> orders = np.array(list(itertools.permutations([1.0, 2.0, 3.0])) * 50)
    >>> found = rankings_of(orders, orders[orders[:, 0] != 2][:150].repeat(2, axis=0))
    >>> [feature.label for feature in found if isinstance(feature, PlaceOf)], found[3].label
    (['place of 1', 'place of 2', 'place of 3'], 'place of 1 - place of 2')
    """
    size = min(len(outputs), LOOK)
    parts = alike(inside(outputs[:size], path), inside(outputs_prime[:size], path))
    found = _coded(np.concatenate(parts))
    if found is None:
        return []
    items, codes = found
    number, rows = len(items), np.arange(len(codes))[:, None]
    places = np.full((len(codes), number), -1, np.int16)
    places[rows, codes] = np.arange(codes.shape[1])
    pairs = [
        (log_chance(float(gap[i, j] ** 2), 1), Combined("-", PlaceOf(items[i], path), PlaceOf(items[j], path)))
        for gap in (_gaps(_before(places), size), _gaps(_next_to(codes, number), size))
        for i, j in zip(*np.nonzero(np.abs(gap) > LEAST_GAP), strict=True)
    ]
    singles = screen([PlaceOf(item, path) for item in items], outputs, outputs_prime, TELLING // 2)
    others = [(0.0, singles[0])] * (2 * number**2)  # as many were looked at
    return [*singles, *dict.fromkeys(sure([*pairs, *others], TELLING))]


def is_ranking(outputs: Outputs) -> bool:
    """Say whether the first outputs are rankings of a few items."""
    return _coded(outputs[:64]) is not None


def _coded(outputs: Outputs) -> tuple[list[Any], NDArray[np.int64]] | None:
    """The items of rankings of one length, and each ranking as their numbers; None for what is no ranking."""
    rows = rows_of(outputs) if len(outputs) else None
    if rows is None:
        values = values_of(outputs)
        if set(map(type, values)) != {tuple} or len(set(map(len, values))) != 1:
            return None
        flat = list(itertools.chain.from_iterable(values))
        items = sorted(set(flat[: 64 * len(values[0])]), key=order_key)
        if not set(flat) <= set(items) or len(items) > MOST_LEVELS:
            return None
        number = {item: place for place, item in enumerate(items)}
        codes = np.array([number[item] for item in flat]).reshape(len(values), -1)
    else:
        found = np.unique(rows[:64])
        if len(found) > MOST_LEVELS or not np.isin(rows, found).all():
            return None
        codes, items = np.searchsorted(found, rows), found.tolist()
    if codes.shape[1] < 3 or np.any(np.diff(np.sort(codes, axis=1), axis=1) == 0):
        return None
    return items, codes


def _before(places: NDArray[np.int16]) -> Iterator[NDArray[np.bool_]]:
    """For every item, where it stands before each of the others."""
    for i in range(places.shape[1]):
        yield (places[:, i : i + 1] < places) & (places[:, i : i + 1] >= 0)


def _next_to(codes: NDArray[np.int64], number: int) -> Iterator[NDArray[np.bool_]]:
    """For every item, whether it stands right before each of the others."""
    for i in range(number):
        row, place = np.nonzero(codes[:, :-1] == i)
        found = np.zeros((len(codes), number), bool)
        found[row, codes[row, place + 1]] = True
        yield found


def _gaps(seen: Iterator[NDArray[np.bool_]], size: int) -> Floats:
    """By how many standard errors two samples of one size differ in how often each is true."""
    first, second = np.array([[one[:size].sum(axis=0), one[size:].sum(axis=0)] for one in seen], float).swapaxes(0, 1)
    share = (first + second) / (2 * size)
    return np.asarray((first - second) / np.sqrt(2 * size * share * (1 - share) + 1e-9))
