"""Numbers read off one output: itself, a part, its kind, its last bits, several parts together, learnt scores.

Each feature takes outputs of any kind and returns one float for each (NaN where there is none to read), and has a label
that the printed event uses. A new feature is a new class, marked `readable`, which JSON then rebuilds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError, whole_at_least, with_article
from epsaudit.outputs.normal_form import (
    Array,
    Floats,
    Items,
    Outputs,
    are_objects,
    columns_of,
    find_atoms,
    from_json,
    inside,
    is_atom,
    kinds_of,
    listed,
    normal,
    numbers_of,
    rows_of,
    to_json,
    values_of,
    written,
)
from epsaudit.outputs.readings import Reading


class Feature(Protocol):
    """A number read off each output, as a frozen dataclass that survives JSON."""

    @property
    def label(self) -> str:
        """How the number is written in an event, for instance 'y[0]'."""

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """Return shape (size,), float64; NaN where an output has no such number."""


Path = tuple[Hashable, ...]
Kind = TypeVar("Kind", bound=type)
KINDS: dict[str, type] = {"Reading": Reading}
LATER = {"later": True}
"""Metadata of a field that files of before do not have: its default is not written."""
MANTISSA = 52
"""Bits of the fraction of a double (IEEE 754)."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def readable(kind: Kind) -> Kind:
    """Class decorator: make a frozen dataclass, which `feature_from_dict` rebuilds from its fields."""
    KINDS[kind.__name__] = dataclass(frozen=True)(kind)
    return kind


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """Return a JSON object that `feature_from_dict` turns back into the feature; of one not `readable`, its text."""
    if type(feature).__name__ not in KINDS:
        return {"kind": type(feature).__name__, "text": feature.label}
    found = {"kind": type(feature).__name__}
    for one in dataclasses.fields(feature):  # type: ignore[arg-type]  # features are dataclasses
        value = getattr(feature, one.name)
        if one.metadata != LATER or value != one.default:
            found[one.name] = _encode(value)
    return found


def feature_from_dict(data: dict[str, Any]) -> Feature:
    """Rebuild a feature; raises `AuditError` for what is none.

    Examples
    --------
    >>> feature_from_dict(feature_to_dict(Deviation(Coordinate(1), 0.5)))
    Deviation(feature=Coordinate(index=1), centre=0.5)
    """
    try:
        fields = {name: _decode(value) for name, value in data.items() if name != "kind"}
        feature: Feature = KINDS[data["kind"]](**fields)
        hash(feature)  # fields of the wrong kind, as lists, are not accepted
        return feature
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise AuditError(f"{data!r} is not a feature of an output.") from None


def _encode(value: Any) -> Any:
    if type(value).__name__ in KINDS:
        return feature_to_dict(value)
    if type(value) is tuple:
        return [_encode(part) for part in value]
    return value if isinstance(value, float) and np.isfinite(value) else to_json(value)


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return feature_from_dict(value) if "kind" in value else from_json(value)
    return tuple(map(_decode, value)) if isinstance(value, list) else value


def path_label(path: Path) -> str:
    """Write a path as a person would.

    Examples
    --------
    >>> path_label(("log", Reading("words"), -1))
    "words(y['log'])[-1]"
    """
    label = "y"
    for step in path:
        label = f"{step.name}({label})" if isinstance(step, Reading) else f"{label}[{written(step)}]"
    return label


class Labelled:
    """A feature whose label is a form with its fields, and the place that its path leads to, filled in."""

    form = "y"

    @property
    def label(self) -> str:
        return self.form.format(self, place=path_label(getattr(self, "path", ())))


# One output, or a part of it


@readable
class Value(Labelled):
    """The output itself, where it is a number."""

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        return np.full(len(outputs), np.nan) if columns_of(outputs) else numbers_of(outputs)


@readable
class Coordinate(Labelled):
    """One coordinate of an output that is a vector of numbers, or of a tuple."""

    index: int
    form = "y[{0.index}]"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        rows = rows_of(outputs)
        if rows is None:
            return At((self.index,))(outputs)
        there = -rows.shape[1] <= self.index < rows.shape[1]
        return rows[:, self.index] if there else np.full(len(outputs), np.nan)


@readable
class At(Labelled):
    """The number at a place inside the output, given by positions and keys; NaN where there is none."""

    path: Path
    form = "{place}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        part = inside(outputs, self.path)
        return numbers_of(part) if part.ndim == 1 else np.full(len(outputs), np.nan)


@readable
class Code(Labelled):
    """Which of some values lies at a place, by its number among them; NaN for any other."""

    path: Path
    values: tuple[Hashable, ...]
    form = "number of {place}"
    coded = True

    @property
    def number(self) -> int:
        """How many values there are."""
        return len(self.values)

    def written(self, codes: Sequence[int]) -> str:
        """Write that the value is one of those with these numbers."""
        names, label = [written(self.values[code]) for code in codes], path_label(self.path)
        return f"{label} = {names[0]}" if len(names) == 1 else f"{label} in {{{listed(names)}}}"

    def __call__(self, outputs: Outputs) -> Floats:
        found = find_atoms(inside(outputs, self.path), self.values)
        return np.where(found >= 0, found.astype(float), np.nan)


@readable
class Length(Labelled):
    """Length of a string, tuple, list, set or mapping; NaN for what has none."""

    path: Path = ()
    form = "len({place})"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        part = inside(outputs, self.path)
        if columns := columns_of(part):
            return np.full(len(outputs), float(len(columns.places)))
        sized = (str, bytes, tuple, frozenset)
        lengths = (len(one) if isinstance(one, sized) else np.nan for one in values_of(part))
        return np.fromiter(lengths, float, len(outputs))


@readable
class HasKind(Labelled):
    """1 where the output is of this kind, as `epsaudit.outputs.normal_form.kind_of` names it, else 0."""

    name: str
    form = "[{0.says[0]}]"

    @property
    def says(self) -> tuple[str, str]:
        """How a person says that it is 1, and that it is 0."""
        if self.name == "raised":
            return "raises", "does not raise"
        noun = self.name if self.name == "None" else with_article(self.name)
        return f"y is {noun}", f"y is not {noun}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        if columns := columns_of(outputs):
            return np.full(len(outputs), float(columns.kind == self.name))
        return np.fromiter((kind == self.name for kind in kinds_of(outputs)), float, len(outputs))


@readable
class Contains(Labelled):
    """1 where a set, tuple or list has the element, or a mapping the key, at a place inside the output; else 0."""

    key: Hashable
    path: Path = field(default=(), metadata=LATER)
    form = "[{0.says[0]}]"

    @property
    def says(self) -> tuple[str, str]:
        """How a person says that it is 1, and that it is 0."""
        place, key = path_label(self.path), written(self.key)
        return f"{place} has {key}", f"{place} has no {key}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        part = inside(outputs, self.path)
        if columns := columns_of(part):
            if columns.kind == "mapping":
                return np.full(len(outputs), float(self.key in columns.places))
            parts = map(columns.read, range(len(columns.places)))
            return np.asarray(sum(is_atom(part, (self.key,)) for part in parts) > 0, float)
        return np.fromiter((self.key in elements_of(value) for value in values_of(part)), float, len(outputs))


def elements_of(value: Any) -> Any:
    """The keys of a mapping, the parts of a sequence or set; nothing of all else."""
    if isinstance(value, Items):
        return value.keys()
    return value if isinstance(value, (tuple, frozenset)) else ()


@readable
class PlaceOf:
    """Where an item stands in a sequence, from 0; NaN where it does not."""

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


# Another feature, seen otherwise


class OfNumbers(Labelled):
    """Another feature's numbers, each turned into another one by `of`."""

    feature: Feature

    def __call__(self, outputs: Outputs) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.of(np.asarray(self.feature(outputs), float)), float)

    def of(self, numbers: Floats) -> Any:
        """Return what is made of these numbers."""
        raise NotImplementedError


@readable
class Deviation(OfNumbers):
    """Absolute distance of another feature from a centre."""

    feature: Feature
    centre: float
    form = "|{0.feature.label} - {0.centre:.6g}|"

    def of(self, numbers: Floats) -> Any:
        return np.abs(numbers - self.centre)


@readable
class TrailingZeros(OfNumbers):
    """How many of the 52 bits of a double's mantissa are zero, counted from the last."""

    feature: Feature
    form = "trailing zero bits of {0.feature.label}"

    def of(self, numbers: Floats) -> Any:
        mantissas = numbers.view(np.int64) & ((1 << MANTISSA) - 1) | (1 << MANTISSA)
        return np.where(np.isfinite(numbers), np.frexp((mantissas & -mantissas).astype(float))[1] - 1.0, np.nan)


@readable
class Exponent(OfNumbers):
    """The binary exponent of a number: the largest e with 2^e at most its absolute value; NaN for zero."""

    feature: Feature
    form = "exponent of {0.feature.label}"

    def of(self, numbers: Floats) -> Any:
        known = np.isfinite(numbers) & (numbers != 0.0)
        return np.where(known, np.frexp(np.where(known, numbers, 1.0))[1] - 1.0, np.nan)


@readable
class LowestBit(OfNumbers):
    """The power of two that a number is an odd multiple of: the grid on which it lies; NaN for zero.

    Noise added to 1 in double precision leaves only multiples of 2^-53; noise added to 0 leaves finer ones, which
    are reachable from 0 alone.
    """

    feature: Feature
    form = "lowest bit of {0.feature.label}"

    def of(self, numbers: Floats) -> Any:
        return Exponent(self.feature).of(numbers) - MANTISSA + TrailingZeros(self.feature).of(numbers)


@readable
class NegativeZero(OfNumbers):
    """1 where a number is -0.0, else 0: it equals 0.0, but prints otherwise, and 1 / y has the other sign."""

    feature: Feature
    form = "[{0.says[0]}]"

    @property
    def says(self) -> tuple[str, str]:
        """How a person says that it is 1, and that it is 0."""
        return f"{self.feature.label} is -0.0", f"{self.feature.label} is not -0.0"

    def of(self, numbers: Floats) -> Any:
        return (numbers == 0) & np.signbit(numbers)


@readable
class Residue(OfNumbers):
    """The remainder of a whole number on division; NaN for numbers that are not whole.

    Of outputs that are ints, because no float is so exact, it is the exact one.
    """

    feature: Feature
    modulus: int

    def __post_init__(self) -> None:
        whole_at_least(self.modulus, 2, "modulus")

    @property
    def label(self) -> str:
        inner = self.feature.label
        return f"{inner if inner.isidentifier() or inner.endswith(']') else f'({inner})'} mod {self.modulus}"

    def of(self, numbers: Floats) -> Any:
        return np.where(np.floor(numbers) == numbers, np.mod(numbers, self.modulus), np.nan)

    def __call__(self, outputs: Outputs) -> Floats:
        remainders = super().__call__(outputs)
        if are_objects(outputs) and isinstance(self.feature, Value):
            for place, value in enumerate(outputs.tolist()):
                if type(value) is int:
                    remainders[place] = value % self.modulus
        return remainders


@readable
class Scaled(OfNumbers):
    """A number times a power of ten, rounded down: its digits up to that decimal, as a whole number.

    Numbers that are printed with so many decimals are rounded to the whole number that they stand for.
    """

    feature: Feature
    decimals: int

    @property
    def label(self) -> str:
        return f"floor({10**self.decimals} {self.feature.label})" if self.decimals else f"floor({self.feature.label})"

    def of(self, numbers: Floats) -> Any:
        return np.floor(numbers * 10.0**self.decimals + 1e-6)  # but for rounding errors


@readable
class Filled(OfNumbers):
    """Another feature, NaN as -2e30 and numbers within [-1e30, 1e30], which a tree in single precision can compare."""

    feature: Feature
    form = "{0.feature.label}"

    def of(self, numbers: Floats) -> Any:
        return np.where(np.isnan(numbers), -2e30, np.clip(numbers, -1e30, 1e30))


# Several parts together

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
    """Two features combined by '+', '-', '*', 'max', 'min' or '==' (1 where they are equal, else 0)."""

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
        missing = np.isnan(columns)
        rest = {"sum": 0.0, "norm": 0.0, "min": np.inf, "argmin": np.inf}.get(self.statistic, -np.inf)
        filled = np.where(missing, rest, columns) if missing.any() else columns
        with np.errstate(invalid="ignore", over="ignore"):
            match self.statistic:
                case "norm":
                    found = np.sqrt((filled * filled).sum(axis=1))
                case "numbers":
                    found = np.isfinite(columns).sum(axis=1)
                case "distinct":
                    found = 1 + (np.diff(np.sort(columns, axis=1), axis=1) > 0).sum(axis=1)
                case "argmax":
                    alike = filled.max(axis=1) == columns.min(axis=1)
                    found = np.where(alike, self.size, filled.argmax(axis=1))
                case "lead" if self.size > 1:
                    top = np.partition(filled, self.size - 2, axis=1)[:, -2:]
                    found = top[:, 1] - top[:, 0]
                case name:
                    found = getattr(filled, "max" if name == "lead" else name)(axis=1)
            return _without_any(columns, np.asarray(found, float))


@readable
class Place(Labelled):
    """The place of the first finite number of a vector, or the last; the size where none is, NaN without any number."""

    size: int
    last: bool = False
    form = "place of the {0.which} number"

    @property
    def which(self) -> str:
        return "last" if self.last else "first"

    def __call__(self, outputs: Outputs) -> Floats:
        columns = matrix(outputs, self.size)
        return _without_any(columns, self._of(columns).astype(float))

    def _of(self, columns: Floats) -> NDArray[np.int64]:
        finite, size = np.isfinite(columns), columns.shape[1]
        found = size - 1 - finite[:, ::-1].argmax(axis=1) if self.last else finite.argmax(axis=1)
        return np.asarray(np.where(finite.any(axis=1), found, size))


@readable
class Release(Place):
    """The first finite number of a vector, or the last; NaN where there is none."""

    form = "{0.which} number"

    def __call__(self, outputs: Outputs) -> Floats:
        columns = matrix(outputs, self.size)
        places = self._of(columns)
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


@readable
class Together(Labelled):
    """The cell of a table of two features, with rows and columns cut at edges; NaN where one of the two is NaN."""

    first: Feature
    second: Feature
    edges: tuple[float, ...]
    edges_second: tuple[float, ...]
    form = "cell of ({0.first.label}, {0.second.label})"
    coded = True

    @property
    def number(self) -> int:
        """How many cells there are."""
        return (len(self.edges) + 1) * (len(self.edges_second) + 1)

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
    if isinstance(feature, Code | Together):
        return feature.written([code])
    if 0 < code < len(edges) and np.nextafter(edges[code], -np.inf) == edges[code - 1]:
        return f"{feature.label} = {edges[code]:.6g}"
    low = f"{edges[code - 1]:.6g} < " if 0 < code < len(edges) else ""
    if code == len(edges):
        return f"{feature.label} > {edges[-1]:.6g}" if edges else f"{feature.label} is a number"
    return f"{low}{feature.label} <= {edges[code]:.6g}"


# Learnt scores: what a classifier learnt, as plain numbers, applied without the library that learnt it

SHOWN = 5
"""Features of a learnt score that its text names."""


@readable
class Term(Labelled):
    """A piecewise linear function of a feature: values at increasing knots, constant beyond; and at -inf, inf, NaN."""

    feature: Feature
    knots: tuple[float, ...]
    values: tuple[float, ...]
    below: float = 0.0
    above: float = 0.0
    missing: float = 0.0
    form = "f({0.feature.label})"

    def __call__(self, outputs: Outputs) -> Floats:
        numbers = np.asarray(self.feature(outputs), float)
        finite = np.isfinite(numbers)
        if finite.all():
            return np.asarray(np.interp(numbers, self.knots, self.values)) if self.knots else np.zeros(len(numbers))
        odd = np.where(np.isnan(numbers), self.missing, np.where(numbers > 0, self.above, self.below))
        if not self.knots:
            return np.where(finite, 0.0, odd)
        return np.where(finite, np.interp(np.where(finite, numbers, 0.0), self.knots, self.values), odd)


@readable
class Additive:
    """A sum of terms: what naive Bayes and logistic regression on piecewise linear functions learn.

    The label names the features whose terms vary most.
    """

    terms: tuple[Term, ...]

    @property
    def label(self) -> str:
        spread = [max(one.values, default=0.0) - min(one.values, default=0.0) for one in self.terms]
        ranked = sorted(range(len(spread)), key=lambda place: -spread[place])
        return f"score of ({listed([self.terms[place].feature.label for place in ranked], SHOWN)})"

    def __call__(self, outputs: Outputs) -> Floats:
        total = np.zeros(len(outputs))
        for term in self.terms:
            total += term(outputs)
        return total


@readable
class Tree:
    """A binary tree of thresholds on features: value of the leaf that an output falls into.

    Node i sends outputs with ``features[columns[i]] <= thresholds[i]`` to ``left[i]``, the others, NaN included, to
    ``right[i]``; a leaf has column -1.
    """

    features: tuple[Feature, ...]
    columns: tuple[int, ...]
    thresholds: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def label(self) -> str:
        asked = dict.fromkeys(column for column in self.columns if column >= 0)
        return f"score of ({listed([self.features[column].label for column in asked], SHOWN)})"

    def __call__(self, outputs: Outputs) -> Floats:
        asked = {column for column in self.columns if column >= 0}
        numbers = {column: np.asarray(self.features[column](outputs), float) for column in asked}
        result = np.full(len(outputs), self.values[0])
        stack: list[tuple[int, Any]] = [(0, np.arange(len(outputs)))]
        while stack:
            node, rows = stack.pop()
            column = self.columns[node]
            if column < 0:
                result[rows] = self.values[node]
                continue
            low = numbers[column][rows] <= self.thresholds[node]
            stack += [(self.left[node], rows[low]), (self.right[node], rows[~low])]
        return result
