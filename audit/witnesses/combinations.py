"""Features that combine several parts of an output: two numbers, or all coordinates of a vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs, rows_of
from epsaudit.witnesses.feature import Feature, FormattedLabel
from epsaudit.witnesses.parts import Coordinate

OPERATIONS: dict[str, Callable[[Floats, Floats], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "==": lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, a == b),
}
"""Operations of two numbers. The result is NaN if one of them is."""
STATISTICS = ("sum", "max", "min", "argmax", "argmin", "lead", "norm", "distinct", "numbers")
"""Names of the statistics of all coordinates, as `CoordinateStatistic` explains them."""


@dataclass(frozen=True)
class Combination:
    """Two features combined by '+', '-', '*', 'max', 'min' or '==' (1 where both are equal, else 0)."""

    operation: str
    first: Feature
    second: Feature

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise AuditError(f"The operation is {self.operation!r}; it must be one of {', '.join(OPERATIONS)}.")

    @property
    def phrases(self) -> tuple[str, str] | None:
        """For '==', the two conditions in words: that the numbers are equal, and that they differ; otherwise None."""
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


@dataclass(frozen=True)
class CoordinateStatistic:
    """A statistic of the first ``size`` coordinates. Coordinates that are NaN are left out.

    The statistics are sum, max, min, argmax (the first position of the maximum; ``size`` if all coordinates are equal),
    argmin, lead (largest minus second largest), norm (root of the sum of squares), distinct (number of different
    numbers) and numbers (number of finite numbers). An output without any number has the statistic NaN.
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
        columns = read_coordinates(outputs, self.size)
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
            return _mark_missing(columns, np.asarray(found, float))


@dataclass(frozen=True)
class FirstOrLastPosition(FormattedLabel):
    """The position of the first or last finite number of a vector.

    It is ``size`` (the length of the vector) if no coordinate is finite, and NaN if the vector holds no number at all.
    """

    size: int
    last: bool = False
    form = "place of the {0.which} number"

    @property
    def which(self) -> str:
        """Either 'first' or 'last', for the label."""
        return "last" if self.last else "first"

    def __call__(self, outputs: Outputs) -> Floats:
        columns = read_coordinates(outputs, self.size)
        finite = np.isfinite(columns)
        found = self.size - 1 - finite[:, ::-1].argmax(axis=1) if self.last else finite.argmax(axis=1)
        return _mark_missing(columns, np.where(finite.any(axis=1), found, self.size).astype(float))


@dataclass(frozen=True)
class FirstOrLastNumber(FirstOrLastPosition):
    """The first or last finite number of a vector; NaN if there is none."""

    form = "{0.which} number"

    def __call__(self, outputs: Outputs) -> Floats:
        columns, places = read_coordinates(outputs, self.size), super().__call__(outputs)
        found = places < self.size
        return np.where(found, columns[np.arange(len(columns)), np.where(found, places, 0).astype(int)], np.nan)


def read_coordinates(outputs: Outputs, size: int) -> Floats:
    """Return the coordinates of every output, shape (len(outputs), size); NaN where an output has no number."""
    rows = rows_of(outputs)
    if rows is not None and rows.shape[1] == size:
        return rows
    return np.column_stack([np.asarray(Coordinate(i)(outputs), float) for i in range(size)])


def _mark_missing(columns: Floats, numbers: Floats) -> Floats:
    """Set the number of every output without any coordinate to NaN, and return the numbers.

    ``columns`` are the coordinates of the outputs, and ``numbers`` a statistic of each output, which is changed in
    place. The result for one output must not depend on the other outputs of the block.
    """
    missing = np.flatnonzero(np.isnan(columns[:, :1]).all(axis=1))
    numbers[missing[np.isnan(columns[missing]).all(axis=1)]] = np.nan
    return numbers
