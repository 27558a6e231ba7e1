"""Numbers read off outputs: the output itself, one coordinate, a distance from a centre, a key of a mapping.

Outputs of any kind enter, one float an output leaves (NaN where there is none to read), with a label that the
printed event uses. A new way to look at outputs is a new class, here or in a room beside, marked `readable`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError
from epsaudit.mechanism import Outputs
from epsaudit.witnesses.atoms import atom_from_json, atom_to_json


class Feature(Protocol):
    """A number read off each output, as a frozen dataclass that survives JSON."""

    @property
    def label(self) -> str:
        """How the number is written in an event, for instance 'y[0]'."""

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """Return shape (size,), any real dtype; NaN where an output has no such number."""


KINDS: dict[str, type] = {}
Kind = TypeVar("Kind", bound=type)


def readable(kind: Kind) -> Kind:
    """Class decorator: let `feature_from_json` rebuild this frozen dataclass from its fields."""
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
        if outputs.ndim == 1 and outputs.dtype.kind in "iuf":
            return outputs
        if outputs.ndim == 1 and outputs.dtype.kind == "b":
            return outputs.astype(np.int8)
        if outputs.ndim == 1 and outputs.dtype == object:
            return np.array([_number(value) for value in outputs.tolist()], float)
        return np.full(len(outputs), np.nan)


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
        if outputs.ndim >= 2:
            flat = outputs.reshape(len(outputs), -1)
            if self.index < flat.shape[1]:
                return Value()(flat[:, self.index])
        if outputs.ndim == 1 and outputs.dtype == object:
            return np.array([_number(_part(value, self.index)) for value in outputs.tolist()], float)
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


@readable
@dataclass(frozen=True)
class Presence:
    """1 where an output that is a mapping, a tuple of (key, value) pairs, has the key, and 0 where it has not.

    Examples
    --------
    >>> from epsaudit.mechanism import as_outputs
    >>> Presence("b")(as_outputs([(("a", 2.0), ("b", 5.0)), (), None])), Presence("b").label
    (array([ 1.,  0., nan]), "1['b' in y]")
    """

    key: Hashable

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"1[{self.key!r} in y]"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`."""
        return _read(outputs, self.key, lambda _: 1.0, 0.0)


@readable
@dataclass(frozen=True)
class Entry:
    """The number at a key of an output that is a mapping; NaN where the key is missing.

    Examples
    --------
    >>> from epsaudit.mechanism import as_outputs
    >>> Entry("b")(as_outputs([(("a", 2.0), ("b", 5.0)), (), None])), Entry("b").label
    (array([ 5., nan, nan]), "y['b']")
    """

    key: Hashable

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"y[{self.key!r}]"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`."""
        return _read(outputs, self.key, _number, float("nan"))


def is_mapping(output: Any) -> bool:
    """Say whether an output is a tuple of (key, value) pairs; the empty tuple is.

    Examples
    --------
    >>> is_mapping((("a", 1.0),)), is_mapping(()), is_mapping((1, 2)), is_mapping(None)
    (True, True, False, False)
    """
    if not isinstance(output, tuple):
        return False
    for part in output:  # noqa: SIM110  # a generator takes twice as long, and outputs are many
        if not isinstance(part, tuple) or len(part) != 2:
            return False
    return True


def feature_to_json(feature: Feature) -> dict[str, Any]:
    """Return a JSON object that `feature_from_json` turns back into the feature."""
    fields = dataclasses.fields(feature)  # type: ignore[arg-type]  # features are dataclasses
    return {"kind": type(feature).__name__, **{field.name: _encode(getattr(feature, field.name)) for field in fields}}


def feature_from_json(data: dict[str, Any]) -> Feature:
    """Rebuild a feature; raises `AuditError` for what is none.

    Examples
    --------
    >>> feature_from_json(feature_to_json(Deviation(Coordinate(1), 0.5)))
    Deviation(feature=Coordinate(index=1), centre=0.5)
    """
    try:
        fields = {name: _decode(value) for name, value in data.items() if name != "kind"}
        feature: Feature = KINDS[data["kind"]](**fields)
        hash(feature)  # fields of the wrong kind, as lists, are not accepted
        return feature
    except (KeyError, TypeError, ValueError, AttributeError):
        raise AuditError(f"{data!r} is not a feature of an output.") from None


def _encode(value: Any) -> Any:
    if type(value).__name__ in KINDS:
        return feature_to_json(value)
    if isinstance(value, tuple):
        return [_encode(part) for part in value]
    if isinstance(value, float) and np.isfinite(value):
        return value
    return atom_to_json(value)


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return feature_from_json(value) if "kind" in value else atom_from_json(value)
    return tuple(map(_decode, value)) if isinstance(value, list) else value


def _read(outputs: Outputs, key: Hashable, read: Callable[[Any], float], missing: float) -> NDArray[Any]:
    """Read a number off the value at a key of every output that is a mapping; ``missing`` where it has no such key."""
    found = np.full(len(outputs), np.nan)
    if outputs.ndim != 1 or outputs.dtype != object:
        return found
    for place, output in enumerate(outputs.tolist()):
        if is_mapping(output):
            found[place] = missing
            for own, value in output:
                if own == key:
                    found[place] = read(value)
                    break
    return found


def _number(value: Any) -> float:
    if isinstance(value, (int, float, np.number, np.bool_)):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return float("nan")


def _part(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, tuple) and index < len(value) else None
