"""Events: sets of outputs that can be tested by the million, printed, and saved.

A witness has one or two events and counts how many outputs fall in each. Everything here is fixed before the
certification runs and knows nothing of how it was found.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError
from epsaudit.outputs.as_json import from_json, to_json
from epsaudit.outputs.columns import describe_atoms, is_atom
from epsaudit.outputs.normal_form import Mask, Outputs, values_of, written
from epsaudit.outputs.packed import normal_array
from epsaudit.witnesses.features import Deviation, Feature, Value, feature_from_dict, feature_to_dict

if TYPE_CHECKING:
    from epsaudit.certificates import Counts

VALUE = Value()


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
        if self.low == -math.inf and self.high == math.inf:
            return np.asarray(numbers == numbers)
        above = numbers >= self.low if self.includes_low else numbers > self.low
        if self.high == math.inf:
            return np.asarray(above)
        below = numbers <= self.high if self.includes_high else numbers < self.high
        return np.asarray(below if self.low == -math.inf else above & below)

    def describe(self, label: str) -> str:
        """Write the interval as a condition on ``label``."""
        if self.low == -math.inf and self.high == math.inf:
            return f"{label} is a number"
        left = "<=" if self.includes_low else "<"
        right = "<=" if self.includes_high else "<"
        if self.high == math.inf:
            return f"{label} {'>=' if self.includes_low else '>'} {self.low:.6g}"
        if self.low == -math.inf:
            return f"{label} {right} {self.high:.6g}"
        return f"{self.low:.6g} {left} {label} {right} {self.high:.6g}"


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

    def contains(self, outputs: Outputs) -> Mask:
        return self.holds(outputs, self.feature(outputs) if self.intervals else None)

    def holds(self, outputs: Outputs, numbers: NDArray[Any] | None) -> Mask:
        """As `contains`, where the feature's numbers have been read already."""
        inside = np.zeros(len(outputs), bool)
        if numbers is not None:
            for interval in self.intervals:
                inside |= interval.contains(numbers)
        if self.excluded:
            inside &= ~is_atom(outputs, self.excluded)
        if self.included:
            inside |= is_atom(outputs, self.included)
        return inside

    def __str__(self) -> str:
        parts = _conditions(self.feature, self.intervals)
        if self.excluded:
            inside = parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"
            parts = [f"{inside} and {describe_atoms('not ', self.excluded)}"]
        if self.included:
            parts.append(describe_atoms("", self.included))
        return "{" + (" or ".join(parts) or "never") + "}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "Region",
            "feature": feature_to_dict(self.feature),
            "intervals": [[_finite(i.low), _finite(i.high), i.includes_low, i.includes_high] for i in self.intervals],
            "included": [to_json(atom) for atom in self.included],
            "excluded": [to_json(atom) for atom in self.excluded],
            "text": str(self),
        }


@dataclass(frozen=True)
class Witness:
    """What tells x from x': outputs in ``guess_x`` are guesses 'x', those in ``guess_x_prime`` guesses 'x''.

    At least one of the two events is given; they are disjoint, and outputs in neither are abstentions.
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

    def guesses(self, outputs: Outputs) -> tuple[Mask | None, Mask | None]:
        """Say of each output whether it is a guess 'x', and whether it is a guess 'x''; None for an event not given.

        Raises
        ------
        AuditError
            If an output lies in both events: it would count for whichever side it came from.
        """
        if outputs.dtype.kind in "biu":  # counted by hand: an audit's outputs are in normal form already
            outputs = normal_array(outputs)
        first, second = self.guess_x, self.guess_x_prime
        if first is None or second is None:
            return tuple(None if event is None else event.contains(outputs) for event in (first, second))  # type: ignore[return-value]  # two
        if isinstance(first, Region) and isinstance(second, Region) and first.feature == second.feature:
            numbers = first.feature(outputs) if first.intervals or second.intervals else None
            found = first.holds(outputs, numbers), second.holds(outputs, numbers)  # learnt scores take their time
        else:
            found = first.contains(outputs), second.contains(outputs)
        both = np.flatnonzero(found[0] & found[1])
        if len(both):
            raise AuditError(
                f"The output {written(values_of(outputs[both[:1]])[0])} lies in both events, {first} and {second}; "
                "the events of a witness must hold no output in common."
            )
        return found

    def count(self, outputs: Outputs) -> tuple[int, int]:
        """Count the outputs in each of the two events; raises `AuditError` for one in both."""
        first, second = (0 if mask is None else int(np.count_nonzero(mask)) for mask in self.guesses(outputs))
        return first, second

    def describe(self, counts: Counts) -> str:
        """Write what was counted of this witness as a person would check it."""
        seen = (
            (self.guess_x, counts.guess_x_on_x, counts.guess_x_on_x_prime),
            (self.guess_x_prime, counts.guess_x_prime_on_x, counts.guess_x_prime_on_x_prime),
        )
        return "; ".join(
            f"{on_x:,} of {counts.runs_x:,} on x, {on_x_prime:,} of {counts.runs_x_prime:,} on x'"
            for event, on_x, on_x_prime in seen
            if event is not None
        )

    def __str__(self) -> str:
        if self.guess_x_prime is None:
            return f"{self.guess_x}"
        if self.guess_x is None:
            return f"{self.guess_x_prime} likelier under x'"
        return f"{self.guess_x} for x, {self.guess_x_prime} for x'"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that `witness_from_dict` turns back into the witness."""
        events = {"guess_x": self.guess_x, "guess_x_prime": self.guess_x_prime}
        return {name: None if event is None else event.to_dict() for name, event in events.items()}


def witness_from_dict(data: dict[str, Any]) -> Witness:
    """Rebuild a witness; raises `AuditError` for what is none."""
    try:
        events = [None if data[name] is None else event_from_dict(data[name]) for name in ("guess_x", "guess_x_prime")]
    except (KeyError, TypeError):
        raise AuditError(f"{data!r} is not a witness; it needs guess_x and guess_x_prime.") from None
    return Witness(*events)


def event_from_dict(data: dict[str, Any]) -> Event:
    """Rebuild an event; raises `AuditError` for what is none.

    Examples
    --------
    >>> print(event_from_dict(Region(intervals=(Interval(0.0, 1.0),)).to_dict()))
    {0 <= y <= 1}
    """
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


def _conditions(feature: Feature, intervals: tuple[Interval, ...]) -> list[str]:
    """Write the conditions of a union; of a feature that numbers values or cells, which of these."""
    if not getattr(feature, "coded", False):
        return [_condition(feature, interval) for interval in intervals]
    codes = np.arange(feature.number)  # type: ignore[attr-defined]  # what is coded has both
    inside = codes[np.any([one.contains(codes) for one in intervals], axis=0)].tolist() if intervals else []
    return [feature.written(inside)] if inside else []  # type: ignore[attr-defined]


def _condition(feature: Feature, interval: Interval) -> str:
    """Write a condition; a feature that is 0 or 1 may have a statement that reads better than its number."""
    says: tuple[str, str] | None = getattr(feature, "says", None)
    if says is not None:
        false, true = (bool(inside) for inside in interval.contains(np.array([0.0, 1.0])))
        if true != false:
            return says[0] if true else says[1]
    if isinstance(feature, Deviation) and interval.low <= 0.0 == interval.high:
        return f"{feature.feature.label} = {feature.centre:.6g}"
    return interval.describe(feature.label)


def _finite(bound: float) -> float | str:
    return float(bound) if math.isfinite(bound) else repr(float(bound))  # numpy would write np.float64(inf)
