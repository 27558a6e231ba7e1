"""Events: fixed sets of outputs, defined by intervals of a feature and by single outputs."""

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
        """Return for each output whether it lies in the event, shape (size,)."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object from which `event_from_dict` rebuilds the event."""


@dataclass(frozen=True)
class Interval:
    """An interval of the real line. It does not matter whether infinite ends are included."""

    low: float = -math.inf
    high: float = math.inf
    includes_low: bool = True
    includes_high: bool = True

    def contains(self, numbers: NDArray[Any]) -> Mask:
        """Return which numbers lie in the interval. NaN never does."""
        below = numbers <= self.high if self.includes_high or self.high == math.inf else numbers < self.high
        if self.low == -math.inf:
            return np.asarray(below)
        above = numbers >= self.low if self.includes_low else numbers > self.low
        return np.asarray(above if self.high == math.inf else above & below)

    def describe(self, label: str, write: Callable[[float], str] | None = None) -> str:
        """Return the interval as a condition on ``label``.

        ``write`` turns a number into text. By default, numbers have as few digits as `find_distinguishing_digits`
        allows.

        >>> print(Interval(-sys.float_info.max, 2.5, includes_low=False).describe("y"))  # finite numbers only
        -inf < y <= 2.5
        >>> print(Interval(1.0, 1.0 + 1e-9).describe("y"))
        1 <= y <= 1.000000001
        """
        write = write or functools.partial(format_number, digits=find_distinguishing_digits([self.low, self.high]))
        above, below = ">=" if self.includes_low else ">", "<=" if self.includes_high else "<"
        low, high = write(float(self.low)), write(float(self.high))
        # In a script, numbers are written exactly; in a sentence, the largest finite number means infinity.
        if write is not repr:
            low = "-inf" if self.low == -sys.float_info.max and not self.includes_low else low
            high, below = ("inf", "<") if self.high == sys.float_info.max else (high, below)
        if self.high == math.inf:
            return f"{label} is a number" if self.low == -math.inf else f"{label} {above} {low}"
        return f"{'' if self.low == -math.inf else f'{low} {above} '.replace('>', '<')}{label} {below} {high}"


def codes_in(region: Region) -> list[int]:
    """Return the numbers of the values or cells that a region of a `CategoryCode` or `CrossTable` contains."""
    codes = np.arange(region.feature.number)  # type: ignore[attr-defined]
    return [*np.flatnonzero(sum(interval.contains(codes) for interval in region.intervals)).tolist()]


@dataclass(frozen=True)
class Region:
    """A union of intervals of one feature, to which single outputs (atoms) are added or from which they are removed.

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
        """Return for each output whether it lies in the event.

        ``numbers`` are the numbers of the feature, if they are known already.
        """
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
        """All numbers that the text of the event contains: ends of intervals, and single outputs that are numbers."""
        ends = [end for one in self.intervals for end in (one.low, one.high)]
        return [*ends, *(atom for atom in (*self.included, *self.excluded) if type(atom) is float)]

    def __str__(self) -> str:
        return self.describe(find_distinguishing_digits(self.numbers))

    def describe(self, digits: int) -> str:
        """Return the event as a readable condition, with ``digits`` significant digits for each number."""
        parts = []
        if isinstance(self.feature, CategoryCode | CrossTable):  # the feature has its own text for values or cells
            parts = [self.feature.written(codes)] if (codes := codes_in(self)) else []
        else:
            # For a feature that is 0 or 1, a condition reads better than a number.
            phrases: tuple[str, str] | None = getattr(self.feature, "phrases", None)
            label, write = self.feature.label, functools.partial(format_number, digits=digits)
            if isinstance(self.feature, Deviation):
                label = self.feature.label_for(end for one in self.intervals for end in (one.low, one.high))
            for interval in self.intervals:
                false, true = interval.contains(np.array([0.0, 1.0])) if phrases is not None else (False, False)
                if phrases is not None and true != false:
                    parts.append(phrases[0] if true else phrases[1])
                elif isinstance(self.feature, Deviation) and interval.low <= 0.0 == interval.high:
                    parts.append(f"{self.feature.feature.label} = {self.feature.shown_centre}")
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
        for one in self.intervals:  # JSON has no infinity, and numpy's repr would be np.float64(inf)
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
    """Rebuild an event from its JSON object. Raises `AuditError` if the object is not an event."""
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
