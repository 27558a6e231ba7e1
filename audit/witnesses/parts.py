"""Features of one output or of one part of it: its value, its length, its kind, or an element."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Bools, Floats
from epsaudit.errors import with_article
from epsaudit.outputs.arrays import Outputs, kinds_of, numbers_of, rows_of, values_of
from epsaudit.outputs.atoms import find_atoms, is_atom
from epsaudit.outputs.formatting import format_value, list_names
from epsaudit.outputs.layouts import OutputPath, layout_of, parts_at
from epsaudit.outputs.normal_form import Array, Items, normalise
from epsaudit.witnesses.feature import OPTIONAL_FIELD, FormattedLabel, path_label


@dataclass(frozen=True)
class Value:
    """A feature that is the output itself where the output is a number, else NaN."""

    label = "y"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        if outputs.dtype == np.float64 and outputs.ndim == 1:
            return outputs
        return np.full(len(outputs), np.nan) if layout_of(outputs) else numbers_of(outputs)


VALUE = Value()
"""The feature of outputs that are numbers themselves."""


@dataclass(frozen=True)
class Coordinate(FormattedLabel):
    """One coordinate of an output that is a vector of numbers or a tuple."""

    index: int
    form = "y[{0.index}]"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        rows = rows_of(outputs)
        if rows is None:
            return NumberAt((self.index,))(outputs)
        there = -rows.shape[1] <= self.index < rows.shape[1]
        return rows[:, self.index] if there else np.full(len(outputs), np.nan)


@dataclass(frozen=True)
class NumberAt(FormattedLabel):
    """The number at a place inside the output; NaN where there is no number.

    The place is a path of positions, keys, and readings (ways to parse a value).
    """

    path: OutputPath
    form = "{place}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        part = parts_at(outputs, self.path)
        return numbers_of(part) if part.ndim == 1 else np.full(len(outputs), np.nan)


@dataclass(frozen=True)
class CategoryCode(FormattedLabel):
    """The index, in a list of values, of the value at a place inside the output; NaN for a value that is not listed."""

    path: OutputPath
    values: tuple[Hashable, ...]
    form = "number of {place}"

    @property
    def number(self) -> int:
        """Number of values in the list."""
        return len(self.values)

    def written(self, codes: Sequence[int]) -> str:
        """Return the condition, in words, that the value at the place is one of those with these indices."""
        names, label = [format_value(self.values[code]) for code in codes], path_label(self.path)
        return f"{label} = {names[0]}" if len(names) == 1 else f"{label} in {{{list_names(names)}}}"

    def __call__(self, outputs: Outputs) -> Floats:
        found = find_atoms(parts_at(outputs, self.path), self.values)
        return np.where(found >= 0, found.astype(float), np.nan)


@dataclass(frozen=True)
class Length(FormattedLabel):
    """The length of a string, bytes, a sequence, a set or a mapping at a place inside the output; NaN for other values.

    The length of an array with several dimensions is the number of all its numbers.
    """

    path: OutputPath = ()
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


@dataclass(frozen=True)
class HasKind(FormattedLabel):
    """A feature that is 1 where the output is of a certain kind, such as 'mapping' or 'string', else 0.

    The names of the kinds are those of `epsaudit.outputs.normal_form.kind_of`.
    """

    name: str
    form = "[{0.phrases[0]}]"

    @property
    def phrases(self) -> tuple[str, str]:
        """The conditions, in words, that this feature is 1, and that it is 0."""
        if self.name == "raised":
            return "raises", "does not raise"
        noun = self.name if self.name == "None" else with_article(self.name)
        return f"y is {noun}", f"y is not {noun}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        if columns := layout_of(outputs):
            return np.full(len(outputs), float(columns.kind == self.name))
        return np.fromiter((kind == self.name for kind in kinds_of(outputs)), float, len(outputs))


@dataclass(frozen=True)
class Contains(FormattedLabel):
    """A feature that is 1 where a collection contains a certain element, or a mapping a certain key, else 0.

    The collection or mapping is at a place inside the output.
    """

    key: Hashable
    path: OutputPath = field(default=(), metadata=OPTIONAL_FIELD)
    form = "[{0.phrases[0]}]"

    @property
    def phrases(self) -> tuple[str, str]:
        """The conditions, in words, that this feature is 1, and that it is 0."""
        place, key = path_label(self.path), format_value(self.key)
        return f"{place} has {key}", f"{place} has no {key}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        part = parts_at(outputs, self.path)
        rows = rows_of(part) if len(part) else None
        if rows is not None and type(self.key) is float:
            return equals_number(rows, self.key).any(axis=1).astype(float)
        key = normalise(self.key)  # NaN becomes the one NaN object that all outputs share
        if columns := layout_of(part):
            if columns.kind == "mapping":
                return np.full(len(outputs), float(key in columns.places))
            parts = (parts_at(part, (place,)) for place in columns.places)
            return np.asarray(sum(is_atom(part, (key,)) for part in parts) > 0, float)
        return np.fromiter((key in elements_of(value) for value in values_of(part)), float, len(outputs))


@dataclass(frozen=True)
class PositionOf:
    """The position of an item in a sequence, counted from 0; NaN where the sequence does not contain the item."""

    item: Hashable
    path: OutputPath = field(default=(), metadata=OPTIONAL_FIELD)

    @property
    def label(self) -> str:
        return f"place of {format_value(self.item)}" + (f" in {path_label(self.path)}" if self.path else "")

    def __call__(self, outputs: Outputs) -> Floats:
        outputs = parts_at(outputs, self.path)
        rows = rows_of(outputs) if len(outputs) else None
        if rows is not None and rows.shape[1] and type(self.item) is float:
            found = equals_number(rows, self.item)
            return np.where(found.any(axis=1), found.argmax(axis=1).astype(float), np.nan)
        item = normalise(self.item)  # NaN becomes the one NaN object that all outputs share
        lists = (value if type(value) in (tuple, Array) else () for value in values_of(outputs))
        return np.fromiter((one.index(item) if item in one else np.nan for one in lists), float, len(outputs))


def equals_number(rows: Floats, number: float) -> Bools:
    """Return a boolean array: where ``rows`` equal a number. Here NaN equals NaN."""
    return np.isnan(rows) if number != number else rows == number


def elements_of(value: Any) -> Any:
    """Return the keys of a mapping or the elements of a sequence or set; an empty tuple for anything else."""
    if isinstance(value, Items):
        return value.keys
    return value if isinstance(value, (tuple, frozenset)) else ()
