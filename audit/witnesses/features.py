"""Numbers read off one output: itself, a part, its kind, its last bits, several parts together, learnt scores.

Each feature takes outputs of any kind and returns one float for each (NaN where there is none to read), and has a label
that the printed event uses. A new feature is a new class, marked `readable`, which JSON then rebuilds.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError, whole_at_least, with_article
from epsaudit.outputs.as_json import from_json, to_json
from epsaudit.outputs.columns import columns_of, find_atoms, inside, is_atom, listed
from epsaudit.outputs.normal_form import (
    Array,
    Floats,
    Items,
    Outputs,
    are_objects,
    kinds_of,
    normal,
    number,
    numbers_of,
    rows_of,
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


KINDS: dict[str, type] = {"Reading": Reading}
Path = tuple[Hashable, ...]
Kind = TypeVar("Kind", bound=type)
SYMBOLS = ("None", "raised", "timeout")
"""Kinds whose few values are atoms, which say all that the kind would."""
LATER = {"later": True}
"""Metadata of a field that files of before do not have: its default is not written."""
MANTISSA = 52
"""Bits of the fraction of a double (IEEE 754)."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def readable(kind: Kind) -> Kind:
    """Class decorator: make a frozen dataclass, which `feature_from_dict` rebuilds from its fields."""
    KINDS[kind.__name__] = dataclass(frozen=True)(kind)
    return kind


@readable
class Value:
    """The output itself, where it is a number.

    Examples
    --------
    >>> Value()(np.array([1.5, None, "no"], dtype=object))
    array([1.5, nan, nan])
    """

    label = "y"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        return np.full(len(outputs), np.nan) if columns_of(outputs) else numbers_of(outputs)


@readable
class Coordinate:
    """One coordinate of an output that is a vector of numbers, or of a tuple.

    Examples
    --------
    >>> Coordinate(1)(np.array([[1.0, 2.0], [3.0, 4.0]])), Coordinate(1).label
    (array([2., 4.]), 'y[1]')
    """

    index: int

    @property
    def label(self) -> str:
        return f"y[{self.index}]"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        rows = rows_of(outputs)
        if rows is not None and -rows.shape[1] <= self.index < rows.shape[1]:
            return rows[:, self.index]
        if columns := columns_of(outputs):
            part = columns.part(self.index) if columns.kind == "sequence" else None
            return np.full(len(outputs), np.nan) if part is None else numbers_of(part)
        if are_objects(outputs):
            return np.array([number(_part(value, self.index)) for value in outputs.tolist()], float)
        return np.full(len(outputs), np.nan)


@readable
class Deviation:
    """Absolute distance of another feature from a centre.

    Examples
    --------
    >>> Deviation(Value(), 1.0)(np.array([0.0, 4.0])), Deviation(Value(), 1.0).label
    (array([1., 3.]), '|y - 1|')
    """

    feature: Feature
    centre: float

    @property
    def label(self) -> str:
        return f"|{self.feature.label} - {self.centre:.6g}|"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        with np.errstate(invalid="ignore"):
            return np.abs(self.feature(outputs) - self.centre)


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """Return a JSON object that `feature_from_dict` turns back into the feature; of one not `readable`, its text."""
    if type(feature).__name__ not in KINDS:
        return {"kind": type(feature).__name__, "text": feature.label}
    fields = dataclasses.fields(feature)  # type: ignore[arg-type]  # features are dataclasses
    known = {field.name: getattr(feature, field.name) for field in fields}
    empty = {field.name for field in fields if field.metadata == LATER and known[field.name] == field.default}
    return {"kind": type(feature).__name__, **{name: _encode(known[name]) for name in known if name not in empty}}


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
    if isinstance(value, float) and np.isfinite(value):
        return value
    return to_json(value)


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return feature_from_dict(value) if "kind" in value else from_json(value)
    return tuple(map(_decode, value)) if isinstance(value, list) else value


def _part(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, tuple) and -len(value) <= index < len(value) else None


class TrueOrFalse:
    """A feature that is 1 or 0, and how a person says each."""

    says: tuple[str, str]

    @property
    def label(self) -> str:
        return f"[{self.says[0]}]"


@readable
class HasKind(TrueOrFalse):
    """1 where the output is of this kind, as `epsaudit.outputs.normal_form.kind_of` names it, else 0.

    Examples
    --------
    >>> HasKind("string")(np.array(["no", 1.5], dtype=object)).tolist()
    [1.0, 0.0]
    """

    name: str

    @property
    def says(self) -> tuple[str, str]:  # type: ignore[override]  # computed
        if self.name == "raised":
            return "raises", "does not raise"
        noun = self.name if self.name in ("None", "complex") else with_article(self.name)
        return f"y is {noun}", f"y is not {noun}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        if columns := columns_of(outputs):
            return np.full(len(outputs), float(columns.kind == self.name))
        return np.fromiter((kind == self.name for kind in kinds_of(outputs)), float, len(outputs))


@readable
class Length:
    """Length of a string, tuple, list, set or mapping; NaN for what has none.

    Examples
    --------
    >>> Length()(np.array(["no", (1, 2, 3), None], dtype=object)).tolist()
    [2.0, 3.0, nan]
    """

    path: Path = ()

    @property
    def label(self) -> str:
        return f"len({path_label(self.path)})"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        part = inside(outputs, self.path)
        if columns := columns_of(part):
            return np.full(len(outputs), float(len(columns.places)))
        return np.fromiter(map(_length, values_of(part)), float, len(outputs))


@readable
class Contains(TrueOrFalse):
    """1 where a set, tuple or list has the element, or a mapping the key, at a place inside the output; else 0.

    Examples
    --------
    >>> outputs = np.empty(2, object)
    >>> outputs[:] = [Items.of({"ann": 3}), Items.of({})]
    >>> Contains("ann")(outputs).tolist(), Contains("ann").label
    ([1.0, 0.0], "[y has 'ann']")
    >>> Contains("no", (Reading("tokens"),))(np.array(["oh, no!", "nobody"], dtype=object)).tolist()
    [1.0, 0.0]
    """

    key: Hashable
    path: Path = field(default=(), metadata=LATER)

    @property
    def says(self) -> tuple[str, str]:  # type: ignore[override]  # computed
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


@readable
class At:
    """The number at a place inside the output, given by positions and keys; NaN where there is none.

    Examples
    --------
    >>> At((1, 0))(np.array([("no", (2.5, 3)), None], dtype=object)).tolist(), At((1, 0)).label
    ([2.5, nan], 'y[1][0]')
    """

    path: Path

    @property
    def label(self) -> str:
        return path_label(self.path)

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        part = inside(outputs, self.path)
        return numbers_of(part) if part.ndim == 1 else np.full(len(outputs), np.nan)


def _length(value: Any) -> float:
    return float(len(value)) if isinstance(value, (str, bytes, tuple, frozenset)) else float("nan")


def elements_of(value: Any) -> Any:
    """The keys of a mapping, the parts of a sequence or set; nothing of all else."""
    if isinstance(value, Items):
        return value.keys()
    return value if isinstance(value, (tuple, frozenset)) else ()


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


@readable
class TrailingZeros:
    """How many of the 52 bits of a double's mantissa are zero, counted from the last.

    Examples
    --------
    >>> TrailingZeros(Value())(np.array([1.0, 1.5, 1.0 + 2**-52])).tolist()
    [52.0, 51.0, 0.0]
    """

    feature: Feature

    @property
    def label(self) -> str:
        return f"trailing zero bits of {self.feature.label}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        numbers = np.asarray(self.feature(outputs), float)
        mantissas = numbers.view(np.int64) & ((1 << MANTISSA) - 1) | (1 << MANTISSA)
        zeros = np.frexp((mantissas & -mantissas).astype(float))[1] - 1
        return np.where(np.isfinite(numbers), zeros.astype(float), np.nan)


@readable
class Exponent:
    """The binary exponent of a number: the largest e with 2^e at most its absolute value; NaN for zero.

    Examples
    --------
    >>> Exponent(Value())(np.array([1.0, -0.4])).tolist()
    [0.0, -2.0]
    """

    feature: Feature

    @property
    def label(self) -> str:
        return f"exponent of {self.feature.label}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        numbers = np.asarray(self.feature(outputs), float)
        known = np.isfinite(numbers) & (numbers != 0.0)
        return np.where(known, np.frexp(np.where(known, numbers, 1.0))[1] - 1.0, np.nan)


@readable
class LowestBit:
    """The power of two that a number is an odd multiple of: the grid on which it lies; NaN for zero.

    Noise added to 1 in double precision leaves only multiples of 2^-53; noise added to 0 leaves finer ones, which
    are reachable from 0 alone.

    Examples
    --------
    >>> LowestBit(Value())(np.array([1.0, 0.75, 1.0 + 2**-52])).tolist()
    [0.0, -2.0, -52.0]
    """

    feature: Feature

    @property
    def label(self) -> str:
        return f"lowest bit of {self.feature.label}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        exponent = Exponent(self.feature)(outputs)
        return np.asarray(exponent - MANTISSA + TrailingZeros(self.feature)(outputs))


@readable
class NegativeZero(TrueOrFalse):
    """1 where a number is -0.0, else 0: it equals 0.0, but prints otherwise, and 1 / y has the other sign.

    Examples
    --------
    >>> NegativeZero(Value())(np.array([0.0, -0.0, -1.0])).tolist()
    [0.0, 1.0, 0.0]
    """

    feature: Feature

    @property
    def says(self) -> tuple[str, str]:  # type: ignore[override]  # computed
        return f"{self.feature.label} is -0.0", f"{self.feature.label} is not -0.0"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        numbers = self.feature(outputs)
        return np.asarray((numbers == 0) & np.signbit(numbers), float)


@readable
class Residue:
    """The remainder of a whole number on division; NaN for numbers that are not whole.

    Of outputs that are ints, because no float is so exact, it is the exact one.

    Examples
    --------
    >>> Residue(Value(), 2)(np.array([4.0, 7.0])).tolist(), Residue(Value(), 2).label
    ([0.0, 1.0], 'y mod 2')
    """

    feature: Feature
    modulus: int

    def __post_init__(self) -> None:
        whole_at_least(self.modulus, 2, "modulus")

    @property
    def label(self) -> str:
        inner = self.feature.label
        return f"{inner if inner.isidentifier() or inner.endswith(']') else f'({inner})'} mod {self.modulus}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        numbers = self.feature(outputs)
        with np.errstate(invalid="ignore"):
            remainders = np.where(np.floor(numbers) == numbers, np.mod(numbers, self.modulus), np.nan)
        if are_objects(outputs) and isinstance(self.feature, Value):
            for place, value in enumerate(outputs.tolist()):
                if type(value) is int:
                    remainders[place] = value % self.modulus
        return remainders


@readable
class Code:
    """Which of some values lies at a place, by its number among them; NaN for any other.

    Examples
    --------
    >>> code = Code((1,), ("no", "yes"))
    >>> outputs = np.empty(2, object)
    >>> outputs[:] = [(1.5, "yes"), (2.5, None)]
    >>> code(outputs).tolist(), code.written([1])
    ([1.0, nan], "y[1] = 'yes'")
    """

    path: Path
    values: tuple[Hashable, ...]
    coded = True

    @property
    def number(self) -> int:
        """How many values there are."""
        return len(self.values)

    @property
    def label(self) -> str:
        return f"number of {path_label(self.path)}"

    def written(self, codes: Sequence[int]) -> str:
        """Write that the value is one of those with these numbers."""
        names, label = [written(self.values[code]) for code in codes], path_label(self.path)
        return f"{label} = {names[0]}" if len(names) == 1 else f"{label} in {{{listed(names)}}}"

    def __call__(self, outputs: Outputs) -> Floats:
        found = find_atoms(inside(outputs, self.path), self.values)
        return np.where(found >= 0, found.astype(float), np.nan)


@readable
class Scaled:
    """A number times a power of ten, rounded down: its digits up to that decimal, as a whole number.

    Numbers that are printed with so many decimals are rounded to the whole number that they stand for.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> Scaled(Value(), 2)(np.array([0.29, 1.239])).tolist(), Scaled(Value(), 2).label
    ([29.0, 123.0], 'floor(100 y)')
    """

    feature: Feature
    decimals: int

    @property
    def label(self) -> str:
        return f"floor({10**self.decimals} {self.feature.label})" if self.decimals else f"floor({self.feature.label})"

    def __call__(self, outputs: Outputs) -> Floats:
        return _digits(np.asarray(self.feature(outputs), float), self.decimals)


def _digits(numbers: Floats, decimals: int) -> Floats:
    """Numbers times a power of ten, rounded down but for rounding errors."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.floor(numbers * 10.0**decimals + 1e-6)


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


def _places(columns: Floats, last: bool) -> NDArray[np.int64]:
    finite, size = np.isfinite(columns), columns.shape[1]
    found = size - 1 - finite[:, ::-1].argmax(axis=1) if last else finite.argmax(axis=1)
    return np.asarray(np.where(finite.any(axis=1), found, size))


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


@readable
class Wave:
    """How much of a wave of so many cycles is in an array: its 'cos' part, its 'sin' part, or its 'power'.

    Examples
    --------
    >>> rows = np.cos(2 * np.pi * 3 * np.arange(100) / 100)[None]
    >>> Wave(3, "cos")(rows).round(6).tolist(), Wave(3, "power").label
    ([5.0], 'power of 3 cycles in y')
    """

    cycles: int
    part: str

    @property
    def label(self) -> str:
        return f"{self.part} of {self.cycles} cycles in y"

    def __call__(self, outputs: Outputs) -> Floats:
        rows = rows_of(outputs) if len(outputs) else None
        if rows is None:
            return np.full(len(outputs), np.nan)
        angles = 2.0 * np.pi * self.cycles / rows.shape[1] * np.arange(rows.shape[1])
        with np.errstate(invalid="ignore", over="ignore"):
            parts = [rows @ wave / math.sqrt(rows.shape[1]) for wave in (np.cos(angles), -np.sin(angles))]
            found = parts[0] ** 2 + parts[1] ** 2 if self.part == "power" else parts[self.part == "sin"]
        return np.where(np.isfinite(found), found, np.nan)


@readable
class Patch:
    """The sum of a box of an array, as a patch, a row, a column, by where it begins and ends along each axis.

    Examples
    --------
    >>> patch = Patch((0, 1), (2, 3))
    >>> patch(np.arange(6.0).reshape(1, 2, 3)).tolist(), patch.label
    ([12.0], 'sum of y[0:2, 1:3]')
    """

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def label(self) -> str:
        return f"sum of y[{', '.join(f'{low}:{high}' for low, high in zip(self.low, self.high, strict=True))}]"

    def __call__(self, outputs: Outputs) -> Floats:
        if rows_of(outputs) is None or outputs.ndim != len(self.low) + 1:
            return np.full(len(outputs), np.nan)
        box = outputs[(slice(None), *map(slice, self.low, self.high))]
        with np.errstate(invalid="ignore", over="ignore"):
            found = box.reshape(len(box), -1).sum(axis=1)
        return np.where(np.isfinite(found), found, np.nan)


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


SHOWN = 5
"""Features of a learnt score that its text names."""
MANY, BLOCK = 32, 1 << 14
"""Lines in coordinates from which they are computed together, for so many numbers at once; neither changes a result."""


@readable
class Term:
    """A piecewise linear function of a feature: values at increasing knots, constant beyond, and at -inf, inf and NaN.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> term = Term(Value(), (0.0, 1.0), (0.0, 2.0), missing=-5.0)
    >>> term(np.array([0.25, 9.0, np.nan])).tolist()
    [0.5, 2.0, -5.0]
    """

    feature: Feature
    knots: tuple[float, ...]
    values: tuple[float, ...]
    below: float = 0.0
    above: float = 0.0
    missing: float = 0.0

    @property
    def label(self) -> str:
        return f"f({self.feature.label})"

    @property
    def spread(self) -> float:
        """Difference between the greatest and the least value: how much the term can carry."""
        return max(self.values, default=0.0) - min(self.values, default=0.0)

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

    Examples
    --------
    >>> score = Additive(tuple(Term(Coordinate(i), (0.0, 1.0), (0.0, 1.0 + i)) for i in range(2)))
    >>> score(np.array([[1.0, 1.0]])).tolist(), score.label
    ([3.0], 'score of (y[1], y[0])')
    """

    terms: tuple[Term, ...]

    @property
    def label(self) -> str:
        ranked = sorted(self.terms, key=lambda term: -term.spread)
        return _score_of([term.feature.label for term in ranked])

    def __call__(self, outputs: Outputs) -> Floats:
        rows = rows_of(outputs) if len(outputs) and self._lines is not None else None
        total = np.zeros(len(outputs))
        if rows is None or self._lines is None or rows.shape[1] <= max(self._lines[0]):
            for term in self.terms:
                total += term(outputs)
            return total
        places, low, high, first, last, slope = self._lines
        everything = places == list(range(rows.shape[1]))
        for start in range(0, len(rows), max(BLOCK // len(places), 1)):
            some = slice(start, start + max(BLOCK // len(places), 1))
            numbers = rows[some] if everything else rows[some][:, places]
            if not np.isfinite(numbers).all():
                total[some] = sum(term(outputs[some]) for term in self.terms)
                continue
            moved = np.minimum(np.maximum(numbers, low), high)
            moved -= low
            moved *= slope
            moved += first
            np.copyto(moved, last, where=numbers >= high)
            # summed in turn, so that a sum does not depend on how many outputs there are
            total[some] = np.add.accumulate(moved, axis=1)[:, -1]
        return total

    @functools.cached_property
    def _lines(self) -> tuple[list[int], Floats, Floats, Floats, Floats, Floats] | None:
        """Coordinates, both knots, the values there and the slopes, of many terms that are lines; None for others."""
        lines = [term for term in self.terms if len(term.knots) == 2]
        places = [term.feature.index for term in lines if isinstance(term.feature, Coordinate)]
        if len(places) < max(len(self.terms), MANY):
            return None
        (low, high), (first, last) = np.array([one.knots for one in lines]).T, np.array([one.values for one in lines]).T
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            steps, slope = high - low, (last - first) / (high - low)
        plain = min(places) >= 0 and np.all(steps > 0.0) and np.isfinite([steps, slope]).all()
        return (places, low, high, first, last, slope) if plain else None


@readable
class Tree:
    """A binary tree of thresholds on features: value of the leaf that an output falls into.

    Node i sends outputs with ``features[columns[i]] <= thresholds[i]`` to ``left[i]``, the others, NaN included, to
    ``right[i]``; a leaf has column -1.

    Examples
    --------
    >>> tree = Tree((Coordinate(0),), (0, -1, -1), (0.5, 0.0, 0.0), (1, 0, 0), (2, 0, 0), (0.0, -1.0, 1.0))
    >>> tree(np.array([[0.2], [0.7]])).tolist(), tree.label
    ([-1.0, 1.0], 'score of (y[0])')
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
        return _score_of([self.features[column].label for column in asked])

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


@readable
class Filled:
    """Another feature with NaN as -2e30 and numbers within [-1e30, 1e30], which a tree in single precision can compare.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> Filled(Value())(np.array([1.0, np.inf, np.nan])).tolist()
    [1.0, 1e+30, -2e+30]
    """

    feature: Feature

    @property
    def label(self) -> str:
        return self.feature.label

    def __call__(self, outputs: Outputs) -> Floats:
        numbers = np.asarray(self.feature(outputs), float)
        return np.where(np.isnan(numbers), -2e30, np.clip(numbers, -1e30, 1e30))


def _score_of(labels: list[str]) -> str:
    return f"score of ({listed(labels, SHOWN)})"
