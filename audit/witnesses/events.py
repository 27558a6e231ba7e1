"""Events, and the witness that consists of one or two of them.

An event is a fixed set of outputs, defined by intervals of a feature and by single outputs. A witness is fixed before
the certification runs, which count it, and does not depend on how it was found.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit import codec
from epsaudit.array_types import Bools
from epsaudit.bounds.counts import Counts
from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs, normalise_array, values_of
from epsaudit.outputs.atoms import describe_atoms, is_atom
from epsaudit.outputs.formatting import format_value
from epsaudit.outputs.json_form import output_from_json, output_to_json
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.digits import Deviation
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.number_format import find_distinguishing_digits, format_number
from epsaudit.witnesses.parts import VALUE, CategoryCode
from epsaudit.witnesses.serialisation import feature_from_dict, feature_to_dict


class Event(Protocol):
    """A fixed set of outputs. An audit counts how many outputs of the mechanism lie in it."""

    def contains(self, outputs: Outputs) -> Bools:
        """Return for each output whether it lies in the event, as a boolean array of shape (size,)."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object from which `event_from_dict` rebuilds the event."""


@dataclass(frozen=True)
class Interval:
    """An interval of the real line. Whether infinite ends are included makes no difference."""

    low: float = -math.inf
    high: float = math.inf
    includes_low: bool = True
    includes_high: bool = True

    def contains(self, numbers: NDArray[Any]) -> Bools:
        """Return for each number whether it lies in the interval. NaN never does."""
        below = numbers <= self.high if self.includes_high or self.high == math.inf else numbers < self.high
        if self.low == -math.inf:
            return np.asarray(below)
        above = numbers >= self.low if self.includes_low else numbers > self.low
        return np.asarray(above if self.high == math.inf else above & below)

    def describe(self, label: str, write: Callable[[float], str] | None = None) -> str:
        """Return the interval as a condition on ``label``, for example '0 <= y < 1'.

        ``write`` turns a number into text. By default, numbers have the digits that `find_distinguishing_digits`
        returns for both ends.

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
    """Return the numbers of the categories or table cells that a region contains.

    The feature of the region must be a `CategoryCode` or a `CrossTable`, which number their values or cells from 0.
    """
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

    def contains(self, outputs: Outputs, numbers: NDArray[Any] | None = None) -> Bools:
        """Return for each output whether it lies in the event.

        ``numbers`` are the numbers of the feature for these outputs, if the caller has computed them already.
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
        """All numbers in the text of the event: the ends of its intervals, and single outputs that are numbers."""
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
        intervals = [
            codec.to_json([float(one.low), float(one.high), one.includes_low, one.includes_high])
            for one in self.intervals
        ]
        return {
            "kind": "Region",
            "feature": feature_to_dict(self.feature),
            "intervals": intervals,
            "included": [output_to_json(atom) for atom in self.included],
            "excluded": [output_to_json(atom) for atom in self.excluded],
            "text": str(self),
        }


def event_from_dict(data: dict[str, Any]) -> Event:
    """Rebuild an event from its JSON object. Raises `AuditError` if the object is not an event."""
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


@dataclass(frozen=True)
class Witness:
    """One or two events, from which an audit guesses the dataset of an output.

    Outputs in the event ``guess_x`` are guesses 'x', and outputs in the event ``guess_x_prime`` are guesses 'x''. One
    of the two events may be None. They have no output in common; for outputs in neither event there is no guess.
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

    def guesses(self, outputs: Outputs) -> tuple[Bools | None, Bools | None]:
        """Return two boolean arrays: whether each output is a guess 'x', and whether it is a guess 'x''.

        An array is None if its event is None. Raises `AuditError` if an output lies in both events, because it would
        count as a correct guess on both datasets.
        """
        # An audit's outputs are in normal form already; arrays that a user counts may not be.
        if outputs.dtype.kind in "biu":
            outputs = normalise_array(outputs)
        first, second = self.guess_x, self.guess_x_prime
        if first is None or second is None:
            guesses = None if first is None else first.contains(outputs)
            return guesses, None if second is None else second.contains(outputs)
        if isinstance(first, Region) and isinstance(second, Region) and first.feature == second.feature:
            # Computing the feature may take long, so both events share its numbers.
            numbers = first.feature(outputs) if first.intervals or second.intervals else None
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
        """Return the number of outputs in each of the two events. Raises `AuditError` if an output lies in both."""
        first, second = self.guesses(outputs)
        guesses = 0 if first is None else int(np.count_nonzero(first))
        return guesses, 0 if second is None else int(np.count_nonzero(second))

    def describe(self, counts: Counts) -> str:
        """Return counts of this witness in words: for each event, in how many runs on x and on x' it occurred."""
        seen = (self.guess_x, counts.guess_x_on_x, counts.guess_x_on_x_prime)
        seen_prime = (self.guess_x_prime, counts.guess_x_prime_on_x, counts.guess_x_prime_on_x_prime)
        said = []
        for event, on_x, on_x_prime in (seen, seen_prime):
            if event is not None:
                said.append(f"{on_x:,} of {counts.runs_x:,} on x, {on_x_prime:,} of {counts.runs_x_prime:,} on x'")
        return "; ".join(said)

    def __str__(self) -> str:
        """Return the witness as text, with enough digits to distinguish all numbers in its events."""
        events = (self.guess_x, self.guess_x_prime)
        digits = find_distinguishing_digits(
            number for event in events if isinstance(event, Region) for number in event.numbers
        )
        first, second = (event.describe(digits) if isinstance(event, Region) else f"{event}" for event in events)
        if self.guess_x_prime is None:
            return first
        return f"{second} likelier under x'" if self.guess_x is None else f"{first} for x, {second} for x'"

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Witness:
        """Rebuild a witness from its JSON object. Raises `AuditError` if the object is not a witness."""
        names = ("guess_x", "guess_x_prime")
        try:
            events = [None if data[name] is None else event_from_dict(data[name]) for name in names]
        except (KeyError, TypeError):
            raise AuditError(f"{data!r} is not a witness; it needs guess_x and guess_x_prime.") from None
        return cls(*events)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object from which `from_dict` rebuilds the witness."""
        events = {"guess_x": self.guess_x, "guess_x_prime": self.guess_x_prime}
        return {name: None if event is None else event.to_dict() for name, event in events.items()}
