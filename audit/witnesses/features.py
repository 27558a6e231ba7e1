"""Numbers read off one output: itself, a part, its kind, its length, what it contains, its last bits and remainders.

Each feature takes outputs of any kind and returns one float for each (NaN where there is none to read), and has a label
that the printed event uses. A new feature is a new class, here or in a module beside, marked `readable`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError, whole_at_least, with_article
from epsaudit.outputs.as_json import from_json, to_json
from epsaudit.outputs.columns import columns_of, inside, is_atom
from epsaudit.outputs.normal_form import Items, Outputs, number, values_of, written
from epsaudit.outputs.packed import are_objects, kinds_of, numbers_of, rows_of
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
