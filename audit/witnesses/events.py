"""Events, which are sets of outputs, and the features that they are told by: numbers read off one output.

A feature is the output itself, a part, its kind, its last bits, several parts together, or a learnt score: it takes
outputs of any kind and returns one float for each (NaN where there is none to read), and has a label that the printed
event uses. A new one is a new class, marked `readable`, which JSON then rebuilds. A witness has one or two events and
counts how many outputs fall in each; all is fixed before the certification runs, and knows nothing of how it was found.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from epsaudit.bounds.certificates import Counts
from epsaudit.errors import AuditError, whole_at_least, with_article
from epsaudit.outputs.arrays import Floats, Mask, Outputs, kinds_of, normalise_array, numbers_of, rows_of, values_of
from epsaudit.outputs.atoms import describe_atoms, find_atoms, is_atom
from epsaudit.outputs.formatting import MAX_DECIMAL_BITS, MAX_EXACT_INTEGER, format_value, list_names
from epsaudit.outputs.json_form import output_from_json, output_to_json
from epsaudit.outputs.layouts import layout_of, parts_at
from epsaudit.outputs.normal_form import Array, Items, Raised, normalise
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
PLAIN_FIELDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "str": (str,), "bool": (bool,)}
"""What JSON must hold for a field with this annotation. Scripts contain these values as code."""
MANTISSA = 52
"""[formula] Bits of the fraction of a double (IEEE 754)."""


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
    """Rebuild a feature; raises `AuditError` for what is none."""
    try:
        fields = {name: _decode(value) for name, value in data.items() if name != "kind"}
        kind = KINDS[data["kind"]]
        for one in dataclasses.fields(kind):
            if one.name in fields and not isinstance(fields[one.name], PLAIN_FIELDS.get(str(one.type), object)):
                raise TypeError(one.name)
        feature: Feature = kind(**fields)
        hash(feature)  # fields of the wrong kind, as lists, are not accepted
        return feature
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise AuditError(f"{data!r} is not a feature of an output.") from None


def _encode(value: Any) -> Any:
    if type(value).__name__ in KINDS:
        return feature_to_dict(value)
    if type(value) is tuple:
        return [_encode(part) for part in value]
    return value if isinstance(value, float) and np.isfinite(value) else output_to_json(value)


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return feature_from_dict(value) if "kind" in value else output_from_json(value)
    return tuple(map(_decode, value)) if isinstance(value, list) else value


def path_label(path: Path) -> str:
    """Write a path as a person would."""
    label = "y"
    for step in path:
        label = f"{step.name}({label})" if isinstance(step, Reading) else f"{label}[{format_value(step)}]"
    return label


class Labelled:
    """A feature whose label is a form with its fields, and the place that its path leads to, filled in."""

    form = "y"

    @property
    def label(self) -> str:
        return self.form.format(self, place=path_label(getattr(self, "path", ())))


# One output, or a part of it


@readable
class Value:
    """The output itself, where it is a number."""

    label = "y"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        return np.full(len(outputs), np.nan) if layout_of(outputs) else numbers_of(outputs)


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
        part = parts_at(outputs, self.path)
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
        return len(self.values)

    def written(self, codes: Sequence[int]) -> str:
        """Write that the value is one of those with these numbers."""
        names, label = [format_value(self.values[code]) for code in codes], path_label(self.path)
        return f"{label} = {names[0]}" if len(names) == 1 else f"{label} in {{{list_names(names)}}}"

    def __call__(self, outputs: Outputs) -> Floats:
        found = find_atoms(parts_at(outputs, self.path), self.values)
        return np.where(found >= 0, found.astype(float), np.nan)


@readable
class Length(Labelled):
    """Length of a string, tuple, list, set or mapping; NaN for what has none."""

    path: Path = ()
    form = "len({place})"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        part = parts_at(outputs, self.path)
        if columns := layout_of(part):
            return np.full(len(outputs), float(len(columns.places)))
        if part.dtype.kind == "U":
            return np.char.str_len(part).astype(float)
        sized = (str, bytes, tuple, frozenset, Items)
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
        if columns := layout_of(outputs):
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
        place, key = path_label(self.path), format_value(self.key)
        return f"{place} has {key}", f"{place} has no {key}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        part = parts_at(outputs, self.path)
        rows = rows_of(part) if len(part) else None
        if rows is not None and type(self.key) is float:
            return _equal(rows, self.key).any(axis=1).astype(float)
        key = normalise(self.key)  # of NaN the one object that all outputs hold
        if columns := layout_of(part):
            if columns.kind == "mapping":
                return np.full(len(outputs), float(key in columns.places))
            parts = (parts_at(part, (place,)) for place in columns.places)
            return np.asarray(sum(is_atom(part, (key,)) for part in parts) > 0, float)
        return np.fromiter((key in elements_of(value) for value in values_of(part)), float, len(outputs))


def _equal(rows: Floats, number: float) -> Mask:
    """Where a number stands in rows; NaN is one number."""
    return np.isnan(rows) if number != number else rows == number


def elements_of(value: Any) -> Any:
    """The keys of a mapping, the parts of a sequence or set; nothing of all else."""
    if isinstance(value, Items):
        return value.keys
    return value if isinstance(value, (tuple, frozenset)) else ()


@readable
class PlaceOf:
    """Where an item stands in a sequence, from 0; NaN where it does not."""

    item: Hashable
    path: Path = field(default=(), metadata=LATER)

    @property
    def label(self) -> str:
        return f"place of {format_value(self.item)}" + (f" in {path_label(self.path)}" if self.path else "")

    def __call__(self, outputs: Outputs) -> Floats:
        outputs = parts_at(outputs, self.path)
        rows = rows_of(outputs) if len(outputs) else None
        if rows is not None and rows.shape[1] and type(self.item) is float:
            found = _equal(rows, self.item)
            return np.where(found.any(axis=1), found.argmax(axis=1).astype(float), np.nan)
        item = normalise(self.item)  # of NaN the one object that all outputs hold
        lists = (value if type(value) in (tuple, Array) else () for value in values_of(outputs))
        return np.fromiter((one.index(item) if item in one else np.nan for one in lists), float, len(outputs))


# How numbers are printed

DIGITS, MOST_DIGITS = 6, 17
"""[chosen] Significant digits of a printed number, and those with which all doubles print differently [formula]."""


def in_digits(number: float, digits: int = DIGITS) -> str:
    """Write a number in so many significant digits, a whole number that would lose some of its own in full.

    >>> in_digits(0.1 + 0.2), in_digits(1234567.0), in_digits(1e15), in_digits(1234567.8)
    ('0.3', '1234567', '1e+15', '1.23457e+06')
    """
    number = float(number)
    whole = number.is_integer() and abs(number) <= MAX_EXACT_INTEGER
    text = f"{number:.{digits}g}"
    return f"{number:.0f}" if whole and float(text) != number else text


def digits_apart(numbers: Iterable[float]) -> int:
    """Return the fewest significant digits, `DIGITS` or more, in which numbers that differ print differently.

    >>> digits_apart([1.0, 2.0]), digits_apart([1.0, 1.0 + 1e-9, math.inf])
    (6, 10)
    """
    different = {float(number) for number in numbers if number == number}  # NaN prints as it is
    enough = (digits for digits in range(DIGITS, MOST_DIGITS) if apart_in(different, digits))
    return next(enough, MOST_DIGITS)


def apart_in(different: Collection[float], digits: int) -> bool:
    """Whether different numbers print differently in so many digits."""
    return len({in_digits(number, digits) for number in different}) == len(different)


# Another feature, seen otherwise


class OfNumbers(Labelled):
    """Another feature's numbers, each turned into another one by `of`."""

    feature: Feature

    def __call__(self, outputs: Outputs) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.of(np.asarray(self.feature(outputs), float)), float)

    def of(self, numbers: Floats) -> Any:
        raise NotImplementedError


@readable
class Deviation(OfNumbers):
    """Absolute distance of another feature from a centre."""

    feature: Feature
    centre: float
    form = "|{0.feature.label} - {0.shown}|"

    @property
    def shown(self) -> str:
        return in_digits(self.centre)

    def within(self, distances: Iterable[float]) -> str:
        """Write the label with a centre that is rounded by at most a tenth of these distances."""
        least = min((distance for distance in distances if 0.0 < distance < math.inf), default=math.inf)
        written = (in_digits(self.centre, digits) for digits in range(DIGITS, MOST_DIGITS + 1))
        near = (text for text in written if abs(float(text) - self.centre) <= least / 10.0)
        return f"|{self.feature.label} - {next(near, self.shown)}|"

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
        if outputs.dtype == object and isinstance(self.feature, Value):
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
        finite = np.isfinite(columns)
        found = self.size - 1 - finite[:, ::-1].argmax(axis=1) if self.last else finite.argmax(axis=1)
        return _without_any(columns, np.where(finite.any(axis=1), found, self.size).astype(float))


@readable
class Release(Place):
    """The first finite number of a vector, or the last; NaN where there is none."""

    form = "{0.which} number"

    def __call__(self, outputs: Outputs) -> Floats:
        columns, places = matrix(outputs, self.size), super().__call__(outputs)
        found = places < self.size
        return np.where(found, columns[np.arange(len(columns)), np.where(found, places, 0).astype(int)], np.nan)


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
        return (len(self.edges) + 1) * (len(self.edges_second) + 1)

    def written(self, codes: Sequence[int]) -> str:
        """Write that an output falls into one of these cells."""
        parts = []
        for code in codes[:8]:
            row, column = divmod(code, len(self.edges_second) + 1)
            parts.append(f"({_cell(self.first, self.edges, row)} and {_cell(self.second, self.edges_second, column)})")
        return " or ".join(parts) + (f" or ... {len(codes) - 8} more cells" if len(codes) > 8 else "")

    def __call__(self, outputs: Outputs) -> Floats:
        first, second = (np.asarray(one(outputs), float) for one in (self.first, self.second))
        row, column = np.searchsorted(self.edges, first), np.searchsorted(self.edges_second, second)
        cells = row * (len(self.edges_second) + 1.0) + column
        return np.where(np.isnan(first) | np.isnan(second), np.nan, cells)


def _cell(feature: Feature, edges: Sequence[float], code: int) -> str:
    if isinstance(feature, Code | Together):
        return feature.written([code])
    if says := getattr(feature, "says", None):
        none, there = np.searchsorted(edges, [0.0, 1.0]) == code
        if none != there:
            return str(says[0] if there else says[1])
    if 0 < code < len(edges) and np.nextafter(edges[code], -np.inf) == edges[code - 1]:
        return f"{feature.label} = {in_digits(edges[code])}"
    digits = digits_apart(edges[max(code - 1, 0) : code + 1])
    low = f"{in_digits(edges[code - 1], digits)} < " if 0 < code < len(edges) else ""
    if code == len(edges):
        return f"{feature.label} > {in_digits(edges[-1])}" if edges else f"{feature.label} is a number"
    return f"{low}{feature.label} <= {in_digits(edges[code], digits)}"


# Learnt scores: what a classifier learnt, as plain numbers, applied without the library that learnt it

SHOWN = 5
"""[chosen] Features of a learnt score that its text names."""


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
        curve = np.interp(numbers, self.knots, self.values) if self.knots else np.zeros(len(numbers))
        if not (finite := np.isfinite(numbers)).all():
            odd = np.where(numbers > 0, self.above, self.below)
            curve = np.where(finite, curve, np.where(np.isnan(numbers), self.missing, odd))
        return np.asarray(curve)


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
        return f"score of ({list_names([self.terms[place].feature.label for place in ranked], SHOWN)})"

    def __call__(self, outputs: Outputs) -> Floats:
        total, rows = np.zeros(len(outputs)), rows_of(outputs) if len(outputs) else None
        width = max((index for index, _, _ in self._curves), default=-1)
        if rows is not None and 0 <= width < rows.shape[1] and np.isfinite(rows).all():  # as most are
            for index, knots, values in self._curves:
                total += np.interp(rows[:, index], knots, values)
            return total
        for term in self.terms:
            total += term(outputs)
        return total

    @functools.cached_property
    def _curves(self) -> list[tuple[int, Floats, Floats]]:
        """Coordinate, knots and values of every term, if all terms are such."""
        found = []
        for one in self.terms:
            if isinstance(one.feature, Coordinate) and one.feature.index >= 0 and one.knots:
                found.append((one.feature.index, np.array(one.knots), np.array(one.values)))
        return found if len(found) == len(self.terms) else []


@readable
class Tree:
    """A binary tree of thresholds on features: value of the leaf that an output falls into.

    Node i sends outputs with ``features[columns[i]] <= thresholds[i]`` left, others, NaN too, right; leaves have -1.
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
        return f"score of ({list_names([self.features[column].label for column in asked], SHOWN)})"

    def __call__(self, outputs: Outputs) -> Floats:
        asked = sorted(set(self.columns) - {-1})
        numbers = np.array([self.features[column](outputs) for column in asked], float)
        columns, thresholds, left, right = map(np.array, (self.columns, self.thresholds, self.left, self.right))
        node, rows, place = np.zeros(len(outputs), int), np.arange(len(outputs)), np.searchsorted(asked, columns)
        while np.any(inner := columns[node] >= 0):
            low = numbers[place[node], rows] <= thresholds[node]
            node = np.where(inner, np.where(low, left[node], right[node]), node)
        return np.asarray(self.values)[node]


# Events

VALUE = Value()


class Event(Protocol):
    """A fixed set of outputs."""

    def contains(self, outputs: Outputs) -> Mask:
        """Say of each output whether it lies in the event, shape (size,)."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that `event_from_dict` turns back into the event."""


@dataclass(frozen=True)
class Interval:
    """An interval of the real line; infinite ends are open or closed alike."""

    low: float = -math.inf
    high: float = math.inf
    includes_low: bool = True
    includes_high: bool = True

    def contains(self, numbers: NDArray[Any]) -> Mask:
        """Say which numbers lie in the interval; NaN never does."""
        below = numbers <= self.high if self.includes_high or self.high == math.inf else numbers < self.high
        if self.low == -math.inf:
            return np.asarray(below)
        above = numbers >= self.low if self.includes_low else numbers > self.low
        return np.asarray(above if self.high == math.inf else above & below)

    def describe(self, label: str, write: Callable[[float], str] | None = None) -> str:
        """Write the interval as a condition on ``label``, numbers as ``write`` does, in `digits_apart` by default.

        >>> print(Interval(-sys.float_info.max, 2.5, includes_low=False).describe("y"))  # of finite numbers
        -inf < y <= 2.5
        >>> print(Interval(1.0, 1.0 + 1e-9).describe("y"))
        1 <= y <= 1.000000001
        """
        write = write or functools.partial(in_digits, digits=digits_apart([self.low, self.high]))
        above, below = ">=" if self.includes_low else ">", "<=" if self.includes_high else "<"
        low, high = write(float(self.low)), write(float(self.high))
        if write is not repr:  # in a script every number is itself
            low = "-inf" if self.low == -sys.float_info.max and not self.includes_low else low
            high, below = ("inf", "<") if self.high == sys.float_info.max else (high, below)
        if self.high == math.inf:
            return f"{label} is a number" if self.low == -math.inf else f"{label} {above} {low}"
        return f"{'' if self.low == -math.inf else f'{low} {above} '.replace('>', '<')}{label} {below} {high}"


def _codes_in(region: Region) -> list[int]:
    """The values or cells that a region of a `Code` or of a table holds, by their numbers."""
    codes = np.arange(region.feature.number)  # type: ignore[attr-defined]
    return [*np.flatnonzero(sum(interval.contains(codes) for interval in region.intervals)).tolist()]


@dataclass(frozen=True)
class Region:
    """A union of intervals of one feature, with single outputs (atoms) put in or taken out.

    Examples
    --------
    >>> event = Region(intervals=(Interval(high=0.5),), included=(None,))
    >>> print(event, event.contains(np.array([0.2, 3.0, None], dtype=object)))
    {y <= 0.5 or y = None} [ True False  True]
    """

    feature: Feature = VALUE
    intervals: tuple[Interval, ...] = ()
    included: tuple[Hashable, ...] = ()
    excluded: tuple[Hashable, ...] = ()

    def contains(self, outputs: Outputs, numbers: NDArray[Any] | None = None) -> Mask:
        """Say of each output whether it lies in the event; ``numbers`` are the feature's, if they are known."""
        if self.intervals and numbers is None:
            numbers = self.feature(outputs)
        masks = [interval.contains(numbers) for interval in self.intervals]  # type: ignore[arg-type]  # read above
        inside = functools.reduce(np.logical_or, masks or [np.zeros(len(outputs), bool)])
        if self.excluded:
            inside &= ~is_atom(outputs, self.excluded)
        if self.included:
            inside |= is_atom(outputs, self.included)
        return inside

    @property
    def numbers(self) -> list[float]:
        """The ends of its intervals, and the single outputs that are numbers: what it prints."""
        ends = [end for one in self.intervals for end in (one.low, one.high)]
        return [*ends, *(atom for atom in (*self.included, *self.excluded) if type(atom) is float)]

    def __str__(self) -> str:
        return self.describe(digits_apart(self.numbers))

    def describe(self, digits: int) -> str:
        """Write the event as a person would, its numbers in so many significant digits."""
        parts = []
        if isinstance(self.feature, Code | Together):  # it says which of its values or cells these are
            parts = [self.feature.written(codes)] if (codes := _codes_in(self)) else []
        else:
            says: tuple[str, str] | None = getattr(self.feature, "says", None)  # better than a number that is 0 or 1
            label, write = self.feature.label, functools.partial(in_digits, digits=digits)
            if isinstance(self.feature, Deviation):
                label = self.feature.within(end for one in self.intervals for end in (one.low, one.high))
            for interval in self.intervals:
                false, true = interval.contains(np.array([0.0, 1.0])) if says is not None else (False, False)
                if says is not None and true != false:
                    parts.append(says[0] if true else says[1])
                elif isinstance(self.feature, Deviation) and interval.low <= 0.0 == interval.high:
                    parts.append(f"{self.feature.feature.label} = {self.feature.shown}")
                else:
                    parts.append(interval.describe(label, write))
        if self.excluded:
            either = parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"
            parts = [f"{either} and {describe_atoms('not ', self.excluded, digits)}"]
        if self.included:
            parts.append(describe_atoms("", self.included, digits))
        return "{" + (" or ".join(parts) or "never") + "}"

    def to_dict(self) -> dict[str, Any]:
        intervals = []
        for one in self.intervals:  # JSON has no infinity, and numpy would write np.float64(inf)
            ends = [float(end) if math.isfinite(end) else repr(float(end)) for end in (one.low, one.high)]
            intervals.append([*ends, one.includes_low, one.includes_high])
        return {
            "kind": "Region",
            "feature": feature_to_dict(self.feature),
            "intervals": intervals,
            "included": [output_to_json(atom) for atom in self.included],
            "excluded": [output_to_json(atom) for atom in self.excluded],
            "text": str(self),
        }


@dataclass(frozen=True)
class Witness:
    """What tells x from x': outputs in ``guess_x`` are guesses 'x', those in ``guess_x_prime`` guesses 'x''.

    At least one of the two events is given; they are disjoint, and outputs in neither are abstentions.
    """

    guess_x: Event | None
    guess_x_prime: Event | None

    def __post_init__(self) -> None:
        if self.guess_x is None and self.guess_x_prime is None:
            raise AuditError("A witness needs at least one event; both are None.")

    @property
    def events(self) -> int:
        """Number of events, 1 or 2."""
        return (self.guess_x is not None) + (self.guess_x_prime is not None)

    def guesses(self, outputs: Outputs) -> tuple[Mask | None, Mask | None]:
        """Say of each output whether it is a guess 'x', and whether it is a guess 'x''; None for an event not given.

        Raises `AuditError` if an output lies in both events: it would count for whichever side it came from.
        """
        if outputs.dtype.kind in "biu":  # counted by hand: an audit's outputs are in normal form already
            outputs = normalise_array(outputs)
        first, second = self.guess_x, self.guess_x_prime
        if first is None or second is None:
            guesses = None if first is None else first.contains(outputs)
            return guesses, None if second is None else second.contains(outputs)
        if isinstance(first, Region) and isinstance(second, Region) and first.feature == second.feature:
            numbers = first.feature(outputs) if first.intervals or second.intervals else None  # which may take its time
            found = first.contains(outputs, numbers), second.contains(outputs, numbers)
        else:
            found = first.contains(outputs), second.contains(outputs)
        if (lies_in_both := found[0] & found[1]).any():
            both = np.flatnonzero(lies_in_both)
            raise AuditError(
                f"The output {format_value(values_of(outputs[both[:1]])[0])} lies in both events, {first} and "
                f"{second}; the events of a witness must hold no output in common."
            )
        return found

    def count(self, outputs: Outputs) -> tuple[int, int]:
        """Count the outputs in each of the two events; raises `AuditError` for one in both."""
        first, second = self.guesses(outputs)
        guesses = 0 if first is None else int(np.count_nonzero(first))
        return guesses, 0 if second is None else int(np.count_nonzero(second))

    def describe(self, counts: Counts) -> str:
        """Write what was counted of this witness as a person would check it."""
        seen = (self.guess_x, counts.guess_x_on_x, counts.guess_x_on_x_prime)
        seen_prime = (self.guess_x_prime, counts.guess_x_prime_on_x, counts.guess_x_prime_on_x_prime)
        said = []
        for event, on_x, on_x_prime in (seen, seen_prime):
            if event is not None:
                said.append(f"{on_x:,} of {counts.runs_x:,} on x, {on_x_prime:,} of {counts.runs_x_prime:,} on x'")
        return "; ".join(said)

    def __str__(self) -> str:
        """Write both events, numbers of either in so many digits that different ones differ."""
        events = (self.guess_x, self.guess_x_prime)
        digits = digits_apart(number for event in events if isinstance(event, Region) for number in event.numbers)
        first, second = (event.describe(digits) if isinstance(event, Region) else f"{event}" for event in events)
        if self.guess_x_prime is None:
            return first
        return f"{second} likelier under x'" if self.guess_x is None else f"{first} for x, {second} for x'"

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Witness:
        """Rebuild what `to_dict` wrote; raises `AuditError` for what is none."""
        names = ("guess_x", "guess_x_prime")
        try:
            events = [None if data[name] is None else event_from_dict(data[name]) for name in names]
        except (KeyError, TypeError):
            raise AuditError(f"{data!r} is not a witness; it needs guess_x and guess_x_prime.") from None
        return cls(*events)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that `from_dict` turns back into the witness."""
        events = {"guess_x": self.guess_x, "guess_x_prime": self.guess_x_prime}
        return {name: None if event is None else event.to_dict() for name, event in events.items()}


witness_from_dict = Witness.from_dict


def event_from_dict(data: dict[str, Any]) -> Event:
    """Rebuild an event; raises `AuditError` for what is none."""
    try:
        if data["kind"] == "Region":
            return Region(
                feature_from_dict(data["feature"]),
                tuple(Interval(float(low), float(high), bool(a), bool(b)) for low, high, a, b in data["intervals"]),
                tuple(output_from_json(atom) for atom in data["included"]),
                tuple(output_from_json(atom) for atom in data["excluded"]),
            )
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    raise AuditError(f"{data!r} is not an event.")


PARTS = 2
"""[chosen] Thresholds and single outputs of an event that reads well, both events of a witness together."""


def parts_of(witness: Witness) -> float:
    """Count thresholds and single outputs of both events; infinity where one of them is no short condition."""
    parts = 0
    for event in (witness.guess_x, witness.guess_x_prime):
        if event is not None:
            try:
                condition(event)
            except NotShort:
                return math.inf
            assert isinstance(event, Region)  # of others there is no short condition
            parts += len(event.included) + len(event.excluded)
            for one in event.intervals:
                parts += math.isfinite(one.low) + math.isfinite(one.high)
    return parts


LONGEST = 300
"""[chosen] Characters of a condition that a person reads; of anything longer the event's own text says more."""
REDUCED = {
    "sum": "sum({} or [math.nan])",
    "max": "max({}, default=math.nan)",
    "min": "min({}, default=math.nan)",
    "norm": "math.hypot(*{} or [math.nan])",
}
OF_KINDS = {
    "raised": "isinstance(y, BaseException)",
    "string": "isinstance(y, str)",
    "mapping": "(isinstance(y, dict) or hasattr(y, 'columns'))",
    "set": "isinstance(y, (set, frozenset))",
}


class NotShort(Exception):  # noqa: N818  # no error: the answer that there is no short condition
    """Why an event cannot be written as a short condition, as the end of a sentence."""


def condition(event: Event) -> str:
    """Write an event as a condition on ``y``; raises `NotShort`.

    >>> condition(Region(Coordinate(1), (Interval(low=0.5),), included=(None, Raised("ValueError"))))
    "number(y, 1) >= 0.5 or plain(y) in [None, {'raises': 'ValueError'}]"
    """
    if not isinstance(event, Region):
        raise NotShort(f"the event {event} is of a kind of its own")
    feature, parts = event.feature, []
    says: tuple[str, str] | None = None  # what holds where the feature is 1, and where it is 0
    match feature if event.intervals else None:
        case Contains(key, ()):
            elements = "getattr(getattr(y, 'flat', y), '__iter__', tuple)()"
            there = f"getattr(y, 'ndim', 1) and not isinstance(y, str) and {literal(key)} in map(plain, {elements})"
            says = f"({there})", f"not ({there})"
        case HasKind(name) if name in OF_KINDS:
            says = OF_KINDS[name], f"not {OF_KINDS[name]}"
        case Combined("==", first, second):
            a, b = _number(first), _number(second)
            says = f"{a} == {b}", f"({a} < {b} or {a} > {b})"
        case Together() as table:
            parts = [_condition_of_cell(table, code) for code in _codes_in(event)]
    for interval in event.intervals if not parts else ():
        if says is not None:
            false, true = interval.contains(np.array([0.0, 1.0]))
            if true == false:
                raise NotShort(f"the event holds {feature.label} whether or not")
            parts.append(says[0] if true else says[1])
        elif interval.low == -math.inf and interval.high == math.inf:
            parts.append(f"not math.isnan({_number(feature)})")
        else:
            parts.append(interval.describe(_number(feature), repr))
    if event.excluded:
        parts = [f"({' or '.join(parts)}) and plain(y) not in {_atoms(event.excluded)}"]
    if event.included:
        value = "isinstance(y, str) and y" if all(isinstance(one, str) for one in event.included) else "plain(y)"
        parts.append(f"{value} in {_atoms(event.included)}")
    text = " or ".join(parts) or "False"
    if len(text) > LONGEST:
        raise NotShort(f"the event {event} names too many outputs or intervals")
    return text


def _condition_of_cell(table: Together, code: int) -> str:
    fields = (table.first, table.edges), (table.second, table.edges_second)
    cells = []
    for (feature, edges), place in zip(fields, divmod(code, len(table.edges_second) + 1), strict=True):
        low, high = (-math.inf, *edges, math.inf)[place : place + 2]
        inside = Interval(low, high, includes_low=False)
        if isinstance(feature, Code):
            value = feature.values[place]
            if type(value) is not float or math.isnan(value):
                raise NotShort(f"the event names {format_value(value)} at a place inside the output")
            feature, inside = At(feature.path), Interval(value, value)
        cells.append(condition(Region(feature, (inside,))))
    return f"({' and '.join(cells)})"


def literal(value: Any) -> str:
    """Write a dataset, or an output, as Python; raises `NotShort` for what is not of plain values."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return hex(value) if isinstance(value, int) and value.bit_length() > MAX_DECIMAL_BITS else repr(value)
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else "-math.inf" if value < 0 else f"math.{value!r}"
    if isinstance(value, (Items, dict)):
        items = value.as_given() if isinstance(value, Items) else value.items()
        return "{" + ", ".join(f"{literal(key)}: {literal(part)}" for key, part in items) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(literal, value))) + "}" if value else "set()"
    if not isinstance(value, (list, tuple)):
        raise NotShort(f"the datasets hold objects of type {type(value).__name__}")
    opens, closes, comma = ("[", "]", "") if isinstance(value, list) else ("(", ")", ",")
    parts = [literal(part) for part in value]
    runs = [(part, len(list(run))) for part, run in itertools.groupby(parts)]
    if any(times >= 8 for _, times in runs):  # long runs of equal parts as products
        return " + ".join(f"{opens}{part}{comma}{closes}{f' * {times}' * (times > 1)}" for part, times in runs)
    return f"{opens}{', '.join(parts)}{comma if len(parts) == 1 else ''}{closes}"


def _number(feature: Feature) -> str:
    """Write a feature as a number."""
    match feature:
        case Value():
            return "number(y)"
        case Coordinate(index):
            return f"number(y, {index})"
        case At(path):
            return f"number(y, {', '.join(map(literal, path))})"
        case Deviation(inner, centre):
            return f"abs({_number(inner)} - {float(centre)!r})"
        case LowestBit(inner):
            parts = f"for v in [{_number(inner)}] if math.isfinite(v) and v for n, d in [v.as_integer_ratio()]"
            return f"next((math.log2((n & -n) / d) {parts}), math.nan)"
        case Residue(Value(), modulus):
            whole = f"y % {modulus} if isinstance(y, int) else v % {modulus} if v // 1 == v else math.nan"
            return f"next({whole} for v in [number(y)])"
        case Residue(inner, modulus):
            return f"next(v % {modulus} if v // 1 == v else math.nan for v in [{_number(inner)}])"
        case Scaled(inner, decimals):
            shifted = f"{_number(inner)} * {10.0**decimals!r} + 1e-6"
            return f"next(math.floor(v) if math.isfinite(v) else v for v in [{shifted}])"
        case Length(()):
            return "(len(y) if hasattr(y, '__len__') and getattr(y, 'ndim', 1) else math.nan)"
        case Combined("+" | "-" as sign, first, second):
            return f"({_number(first)} {sign} {_number(second)})"
        case Combined("max" | "min" as name, first, second):
            a, b = _number(first), _number(second)
            return f"({name}({a}, {b}) if {a} == {a} and {b} == {b} else math.nan)"
        case Reduced(statistic, size) if statistic in REDUCED:
            known = f"[v for i in range({size}) if not math.isnan(v := number(y, i))]"
            return REDUCED[statistic].format(known)
    raise NotShort(f"the event is one of {feature.label}, which is learnt or computed by more than a line")


def _atoms(atoms: tuple[Hashable, ...]) -> str:
    """Write outputs as the helper plain() gives them."""
    parts = []
    for atom in atoms:
        if isinstance(atom, Raised):
            if not atom.exception.isidentifier():
                raise NotShort(f"the event names the exception {atom.exception}")
            parts.append(literal({"raises": atom.exception}))
        elif isinstance(atom, Items) and len(atom) > 1:  # whose order counts
            raise NotShort(f"the event names the output {format_value(atom)}")
        else:
            parts.append(literal(atom))
    return f"[{', '.join(parts)}]"
