"""Numbers read off outputs: the output itself, one coordinate, a distance from a centre, a key of a mapping.

Each feature takes outputs of any kind and returns one float for each (NaN where there is none to read), and has a label
that the printed event uses. A new feature is a new class, here or in a module beside, marked `readable`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError
from epsaudit.outputs.as_json import from_json, to_json
from epsaudit.outputs.columns import columns_of
from epsaudit.outputs.normal_form import Outputs, are_objects, number, numbers_of, rows_of


class Feature(Protocol):
    """A number read off each output, as a frozen dataclass that survives JSON."""

    @property
    def label(self) -> str:
        """How the number is written in an event, for instance 'y[0]'."""

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """Return shape (size,), float64; NaN where an output has no such number."""


KINDS: dict[str, type] = {}
Kind = TypeVar("Kind", bound=type)


def readable(kind: Kind) -> Kind:
    """Class decorator: let `feature_from_dict` rebuild this frozen dataclass from its fields."""
    KINDS[kind.__name__] = kind
    return kind


@readable
@dataclass(frozen=True)
class Value:
    """The output itself, where it is a number.

    Examples
    --------
    >>> Value()(np.array([1.5, None, "no"], dtype=object))
    array([1.5, nan, nan])
    """

    label = "y"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`."""
        return np.full(len(outputs), np.nan) if columns_of(outputs) else numbers_of(outputs)


@readable
@dataclass(frozen=True)
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
        """See `Feature`."""
        return f"y[{self.index}]"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`; arrays of more than one dimension are read in C order."""
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
@dataclass(frozen=True)
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
        """See `Feature`."""
        return f"|{self.feature.label} - {self.centre:.6g}|"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`."""
        with np.errstate(invalid="ignore"):
            return np.abs(self.feature(outputs) - self.centre)


LATER = {"later": True}
"""Metadata of a field that files of before do not have: its default is not written."""


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
