"""DOC"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import (
    Mask,
    Outputs,
    describe_atoms,
    from_json,
    is_atom,
    to_json,
)
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.digits import Deviation
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.number_format import find_distinguishing_digits, format_number
from epsaudit.witnesses.parts import VALUE, CategoryCode
from epsaudit.witnesses.serialisation import feature_from_dict, feature_to_dict


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
        """Write the interval as a condition on ``label``, numbers as ``write`` does, in `find_distinguishing_digits` by default.

        >>> print(Interval(-sys.float_info.max, 2.5, includes_low=False).describe("y"))  # of finite numbers
        -inf < y <= 2.5
        >>> print(Interval(1.0, 1.0 + 1e-9).describe("y"))
        1 <= y <= 1.000000001
        """
        write = write or functools.partial(format_number, digits=find_distinguishing_digits([self.low, self.high]))
        above, below = ">=" if self.includes_low else ">", "<=" if self.includes_high else "<"
        low, high = write(float(self.low)), write(float(self.high))
        if write is not repr:  # in a script every number is itself
            low = "-inf" if self.low == -sys.float_info.max and not self.includes_low else low
            high, below = ("inf", "<") if self.high == sys.float_info.max else (high, below)
        if self.high == math.inf:
            return f"{label} is a number" if self.low == -math.inf else f"{label} {above} {low}"
        return f"{'' if self.low == -math.inf else f'{low} {above} '.replace('>', '<')}{label} {below} {high}"


def codes_in(region: Region) -> list[int]:
    """The values or cells that a region of a `CategoryCode` or of a table holds, by their numbers."""
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
        return self.describe(find_distinguishing_digits(self.numbers))

    def describe(self, digits: int) -> str:
        """Write the event as a person would, its numbers in so many significant digits."""
        parts = []
        if isinstance(self.feature, CategoryCode | CrossTable):  # it says which of its values or cells these are
            parts = [self.feature.written(codes)] if (codes := codes_in(self)) else []
        else:
            phrases: tuple[str, str] | None = getattr(
                self.feature, "phrases", None
            )  # better than a number that is 0 or 1
            label, write = self.feature.label, functools.partial(format_number, digits=digits)
            if isinstance(self.feature, Deviation):
                label = self.feature.within(end for one in self.intervals for end in (one.low, one.high))
            for interval in self.intervals:
                false, true = interval.contains(np.array([0.0, 1.0])) if phrases is not None else (False, False)
                if phrases is not None and true != false:
                    parts.append(phrases[0] if true else phrases[1])
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
            "included": [to_json(atom) for atom in self.included],
            "excluded": [to_json(atom) for atom in self.excluded],
            "text": str(self),
        }


def event_from_dict(data: dict[str, Any]) -> Event:
    """Rebuild an event; raises `AuditError` for what is none."""
    try:
        if data["kind"] == "Region":
            return Region(
                feature_from_dict(data["feature"]),
                tuple(Interval(float(low), float(high), bool(a), bool(b)) for low, high, a, b in data["intervals"]),
                tuple(from_json(atom) for atom in data["included"]),
                tuple(from_json(atom) for atom in data["excluded"]),
            )
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    raise AuditError(f"{data!r} is not an event.")
