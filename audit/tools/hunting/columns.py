"""The columns of a described table, and the values that a hunt tries in each column.

A column knows which values a record may hold. `values_to_try` chooses a few of them, and some just outside of the
description, that tend to break mechanisms: the ends of bounds, missing values, numbers that overflow.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from epsaudit.errors import AuditError

ColumnType = Literal["float", "integer", "boolean", "category"]
ColumnRole = Literal["value", "weight", "owner"]
COARSE_MAGNITUDE = 2.0**50
"""[chosen] Bounds of at least this size are so large that the next float differs visibly: by a quarter at 2^50."""
FAR_BEYOND_BOUND = 1000
"""[chosen] Distance of a tried value beyond a bound, in widths of the range. At epsilon = 1 such a value moves a sum by
a thousand times the noise."""
EXTREME_INTEGERS = (2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
"""The ends of the 32-bit and 64-bit integers; sums of arrays wrap around beyond them."""
EXTREME_FLOATS = (sys.float_info.max, -sys.float_info.max, math.inf, -math.inf)
"""Floats whose sums overflow or are not numbers."""


@dataclass(frozen=True)
class Column:
    """The description of a table column, for example ``Column("age", "integer", bounds=(0, 120), missing=True)``."""

    name: str = "value"
    type: ColumnType = "float"
    bounds: tuple[float, float] | None = None
    """The lower and the upper bound that the mechanism is told. Values may lie beyond them if the table says so."""
    categories: Sequence[Any] = ()
    """All values that the column can have, of any type."""
    missing: bool = False
    """Whether a value may be missing: NaN in a column of numbers, None in a column with categories."""
    role: ColumnRole = "value"
    """A 'weight' multiplies its record; an 'owner' names the person to whom the record belongs."""

    def __post_init__(self) -> None:
        require_choice(self.type, ColumnType, f"type of column {self.name!r}")
        require_choice(self.role, ColumnRole, f"role of column {self.name!r}")
        object.__setattr__(self, "categories", tuple(self.categories))
        if self.bounds is not None:
            object.__setattr__(self, "bounds", checked_bounds(self.bounds, f"bounds of column {self.name!r}"))
        if self.type == "category" and len(self.categories) == 1:
            raise AuditError(f"Column {self.name!r} has one category, {self.categories[0]!r}; it needs two or none.")

    def accepts(self, value: Any, beyond: bool) -> bool:
        """Return whether the column may contain this value.

        If ``beyond`` is true, numbers outside of the bounds are accepted.
        """
        if self.categories and value in self.categories:
            return True
        if value is None or value != value:
            return self.missing
        if self.role == "owner" or self.type in ("boolean", "category"):
            return not self.categories
        low, high = self.bounds or (-math.inf, math.inf)
        return (self.type == "float" or value == math.floor(value)) and (beyond or low <= value <= high)

    @property
    def dtype(self) -> str:
        """The name of the numpy dtype for the values of the column, such as 'int64'."""
        if self.categories or self.type == "category":
            return "object"
        if self.type == "boolean":
            return "object" if self.missing else "bool"
        return "int64" if self.type == "integer" and not self.missing else "float64"


class Variant(NamedTuple):
    """A value of a column, a record or a dataset that a hunt tries, with a description in words and a complexity."""

    content: Any
    words: str
    complexity: int = 0
    """The key by which variants are sorted, the simplest first."""


def values_to_try(column: Column, beyond: bool) -> list[Variant]:
    """Return the values of a column that a hunt tries: the least one, the greatest one, then less usual ones.

    Less usual values are, for example, missing values, numbers between or outside of the bounds, and infinities. These
    values tend to reveal faults of mechanisms.

    Parameters
    ----------
    column : Column
        The column.
    beyond : bool
        Whether to include numbers outside of the column's bounds.
    """
    name, is_integer = column.name, column.type == "integer"
    missing = [Variant(None if column.categories else math.nan, f"a missing {name}", 1)] if column.missing else []
    if column.role == "owner":
        return [Variant(person_name(column, 0), f"a person of the data as {name}")]
    if column.categories or column.type in ("boolean", "category"):
        known = column.categories or ((False, True) if column.type == "boolean" else ("a", "b", ""))
        return [Variant(value, f"{name} {value!r}", min(place // 2, 1)) for place, value in enumerate(known)] + missing
    made = _unbounded_values(column) if column.bounds is None else _values_around_bounds(column, *column.bounds, beyond)
    if column.bounds is None or beyond:
        made += [(value, f"{name} {value:.3g}", 3) for value in (EXTREME_INTEGERS if is_integer else EXTREME_FLOATS)]
    least, greatest = EXTREME_INTEGERS[3], EXTREME_INTEGERS[2]
    return [
        Variant(int(min(max(value, least), greatest)) if is_integer else float(value), words, complexity)
        for value, words, complexity in made
    ] + missing


def _unbounded_values(column: Column) -> list[tuple[float, str, int]]:
    usual = (1, 1000, 0) if column.role == "weight" else (0, 1, -1)
    return [(value, f"{column.name} {value}", place // 2) for place, value in enumerate(usual)]


def _values_around_bounds(column: Column, low: float, high: float, beyond: bool) -> list[tuple[float, str, int]]:
    """Return the values to try for a column of numbers with bounds, each with a description and a complexity.

    They are both bounds, a value between them, zero, a value next to a large bound and, if ``beyond`` is true, values
    far outside of the bounds.
    """
    name, is_integer = column.name, column.type == "integer"
    middle = low + (high - low) * (math.sqrt(5.0) - 1.0) / 2.0  # the golden ratio, so that the value has many digits
    made: list[tuple[float, str, int]] = [(low, f"the least {name}", 0), (high, f"the greatest {name}", 0)]
    made.append((math.floor(middle) if is_integer else middle, f"a {name} between the bounds", 1))
    if low < 0 < high:
        made.append((0, f"{name} 0", 1))
    if max(-low, high) >= COARSE_MAGNITUDE:
        made.append((high - 1 if is_integer else math.nextafter(high, low), f"the {name} next to the greatest", 1))
    if beyond:
        far = FAR_BEYOND_BOUND * (high - low)
        made.append((high + far, f"a {name} beyond the upper bound", 1))
        made.append((low - far, f"a {name} beyond the lower bound", 1))
    return made


def zero_or_least(column: Column, least: Any, beyond: bool) -> Any:
    """Return 0 if the column is numeric and may contain 0, else the value ``least``.

    A record of such values is tried because mechanisms may divide by its norm or by a total, which are then 0.
    """
    numeric = column.role != "owner" and column.type in ("float", "integer") and not column.categories
    zero = 0.0 if column.type == "float" else 0
    return zero if numeric and column.accepts(zero, beyond) else least


def person_name(column: Column, number: int) -> Any:
    """Return the name of the person with this number, for a column that names persons.

    Different numbers give different names, unless the column has fewer categories than there are persons.
    """
    if column.categories:
        return column.categories[number % len(column.categories)]
    return number if column.type in ("integer", "float") else f"person {number}"


def require_choice(value: Any, choices: Any, what: str) -> None:
    """Raise `AuditError` unless ``value`` is a value of the ``Literal`` type ``choices``.

    ``what`` is the subject of the error message, for example 'norm of the answers'.
    """
    if value not in get_args(choices):
        raise AuditError(f"The {what} is {value!r}; it must be {', '.join(map(repr, get_args(choices)))}.")


def checked_bounds(bounds: Any, what: str) -> tuple[float, float]:
    """Return bounds as a tuple (low, high), after a check that they are two numbers with low < high.

    Raises `AuditError` if the check fails; ``what`` is the subject of the message.
    """
    with contextlib.suppress(TypeError, ValueError):
        low, high = bounds
        if low < high:
            return low, high
    raise AuditError(f"The {what} are {bounds!r}; they must be (low, high) with low below high.")
