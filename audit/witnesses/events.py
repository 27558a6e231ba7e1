"""Events: sets of outputs that can be tested by the million, printed, and saved.

A witness has one or two events and counts how many outputs fall in each. Everything here is fixed before the
certification runs and knows nothing of how it was found.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.certificates import Counts
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import (
    Items,
    Mask,
    Outputs,
    Raised,
    describe_atoms,
    from_json,
    is_atom,
    normal_array,
    to_json,
    too_long,
    values_of,
    written,
)
from epsaudit.witnesses.features import (
    At,
    Code,
    Combined,
    Contains,
    Coordinate,
    Deviation,
    Feature,
    HasKind,
    Length,
    LowestBit,
    Reduced,
    Together,
    Value,
    feature_from_dict,
    feature_to_dict,
)

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

    def contains(self, outputs: Outputs, numbers: NDArray[Any] | None = None) -> Mask:
        """Say of each output whether it lies in the event; ``numbers`` are the feature's, if they are known."""
        inside = np.zeros(len(outputs), bool)
        if self.intervals and numbers is None:
            numbers = self.feature(outputs)
        for interval in self.intervals:
            inside |= interval.contains(numbers)  # type: ignore[arg-type]  # read above
        if self.excluded:
            inside &= ~is_atom(outputs, self.excluded)
        if self.included:
            inside |= is_atom(outputs, self.included)
        return inside

    def __str__(self) -> str:
        parts = []
        if isinstance(self.feature, Code | Together):  # it says which of its values or cells these are
            inside = np.zeros(self.feature.number, bool)
            for interval in self.intervals:
                inside |= interval.contains(np.arange(len(inside)))
            parts = [self.feature.written(np.flatnonzero(inside).tolist())] if inside.any() else []
        else:
            says: tuple[str, str] | None = getattr(self.feature, "says", None)  # better than a number that is 0 or 1
            for interval in self.intervals:
                false, true = interval.contains(np.array([0.0, 1.0])) if says is not None else (False, False)
                if says is not None and true != false:
                    parts.append(says[0] if true else says[1])
                elif isinstance(self.feature, Deviation) and interval.low <= 0.0 == interval.high:
                    parts.append(f"{self.feature.feature.label} = {self.feature.centre:.6g}")
                else:
                    parts.append(interval.describe(self.feature.label))
        if self.excluded:
            either = parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"
            parts = [f"{either} and {describe_atoms('not ', self.excluded)}"]
        if self.included:
            parts.append(describe_atoms("", self.included))
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
            return (
                None if first is None else first.contains(outputs),
                None if second is None else second.contains(outputs),
            )
        if isinstance(first, Region) and isinstance(second, Region) and first.feature == second.feature:
            numbers = first.feature(outputs) if first.intervals or second.intervals else None  # which may take its time
            found = first.contains(outputs, numbers), second.contains(outputs, numbers)
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
        first, second = self.guesses(outputs)
        guesses = 0 if first is None else int(np.count_nonzero(first))
        return guesses, 0 if second is None else int(np.count_nonzero(second))

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

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Witness:
        """Rebuild what `to_dict` wrote; raises `AuditError` for what is none."""
        names = ("guess_x", "guess_x_prime")
        try:
            events = [None if data[name] is None else event_from_dict(data[name]) for name in names]
        except (KeyError, TypeError):
            raise AuditError(f"{data!r} is not a witness; it needs guess_x and guess_x_prime.") from None
        return cls(*events)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that `from_dict` turns back into the witness."""
        events = {"guess_x": self.guess_x, "guess_x_prime": self.guess_x_prime}
        return {name: None if event is None else event.to_dict() for name, event in events.items()}


witness_from_dict = Witness.from_dict


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


PARTS = 2
"""Thresholds and single outputs of an event that reads well, both events of a witness together."""


def reads_well(witness: Witness) -> bool:
    """Whether events have at most two thresholds or outputs, and are short conditions.

    Examples
    --------
    >>> from epsaudit.witnesses import Interval
    >>> reads_well(Witness(Region(intervals=(Interval(low=1.0),), included=(None,)), None))
    True
    >>> reads_well(Witness(Region(intervals=(Interval(1.0, 2.0),), included=(None,)), None))
    False
    """
    parts = parts_of(witness)
    return parts is not None and parts <= PARTS


def parts_of(witness: Witness) -> int | None:
    """Count thresholds and single outputs of both events; None where one of them is no short condition."""
    parts = 0
    for event in filter(None, (witness.guess_x, witness.guess_x_prime)):
        try:
            condition(event)
        except NotShort:
            return None
        assert isinstance(event, Region)  # of others there is no short condition
        ends = sum(math.isfinite(end) for one in event.intervals for end in (one.low, one.high))
        parts += ends + len(event.included) + len(event.excluded)
    return parts


HELPERS = {
    "number(": """\
def number(y, *path):
    try:
        for step in path:
            y = (y.flat if getattr(y, "ndim", 0) > 1 and hasattr(y, "flat") else y)[step]
        return math.nan if isinstance(y, (str, bytes)) or getattr(y, "ndim", 0) else float(y)
    except (LookupError, TypeError):
        return math.nan
    except OverflowError:  # of an integer
        return math.inf if y > 0 else -math.inf
""",
    "plain(": """\
def plain(y):
    if isinstance(y, BaseException):
        return {"raises": type(y).__name__}
    if getattr(y, "ndim", 0) == 1 or isinstance(y, (list, tuple)):
        return tuple(plain(part) for part in getattr(y, "flat", y))
    if isinstance(y, (set, frozenset)):
        return {plain(part) for part in y}
    if isinstance(y, dict):
        return {key: plain(part) for key, part in y.items()}
    if y is None or isinstance(y, (str, bytes)) or not hasattr(y, "__float__") or getattr(y, "ndim", 0):
        return y if y is None or isinstance(y, (str, bytes)) else type(y)
    return math.nan if y != y else float(y)
""",
}
"""Functions that conditions call: a number at a place inside an output; and an output as plain Python."""
LONGEST = 300
"""Characters of a condition that a person reads; of anything longer the event's own text says more."""
STATISTICS = {"sum": "sum({} or [math.nan])", "max": "max({}, default=math.nan)", "min": "min({}, default=math.nan)"}
KINDS = {
    "raised": "isinstance(y, BaseException)",
    "string": "isinstance(y, str)",
    "mapping": "(isinstance(y, dict) or hasattr(y, 'columns'))",
    "set": "isinstance(y, (set, frozenset))",
}


class NotShort(Exception):  # noqa: N818  # no error: the answer that there is no short condition
    """Why an event cannot be written as a short condition, as the end of a sentence."""


def condition(event: Event) -> str:
    """Write an event as a condition on ``y``; raises `NotShort`.

    Examples
    --------
    >>> condition(Region(Coordinate(1), (Interval(low=0.5),), included=(None, Raised("ValueError"))))
    "0.5 <= number(y, 1) or plain(y) in [None, {'raises': 'ValueError'}]"
    """
    if not isinstance(event, Region):
        raise NotShort(f"the event {event} is of a kind of its own")
    feature, parts = event.feature, []
    for interval in event.intervals:
        if (truth := _statement(feature)) is not None:
            false, true = interval.contains(np.array([0.0, 1.0]))
            if true == false:
                raise NotShort(f"the event holds {feature.label} whether or not")
            parts.append(truth[0] if true else truth[1])
        elif interval.low == -math.inf and interval.high == math.inf:
            parts.append(f"not math.isnan({_number(feature)})")
        else:
            left, right = "<=" if interval.includes_low else "<", "<=" if interval.includes_high else "<"
            low = "" if interval.low == -math.inf else f"{float(interval.low)!r} {left} "
            high = "" if interval.high == math.inf else f" {right} {float(interval.high)!r}"
            parts.append(f"{low}{_number(feature)}{high}")
    if event.excluded:
        parts = [f"({' or '.join(parts)}) and plain(y) not in {_atoms(event.excluded)}"]
    if event.included:
        parts.append(f"plain(y) in {_atoms(event.included)}")
    text = " or ".join(parts) or "False"
    if len(text) > LONGEST:
        raise NotShort(f"the event {event} names too many outputs or intervals")
    return text


def helpers_of(conditions: str) -> list[str]:
    """Return the lines of the functions that conditions call, which need the module math."""
    return [line for call, text in HELPERS.items() if call in conditions for line in text.splitlines()]


def literal(value: Any) -> str:
    """Write a dataset, or an output, as Python; raises `NotShort` for what is not of plain values.

    Examples
    --------
    >>> literal([0.0] * 99 + [1.0, float("nan")]), literal({"a": (1,)})
    ('[0.0] * 99 + [1.0] + [math.nan]', "{'a': (1,)}")
    """
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return hex(value) if isinstance(value, int) and too_long(value) else repr(value)
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else "-math.inf" if value < 0 else f"math.{value!r}"
    if isinstance(value, (Items, dict)):
        items = value.as_given() if isinstance(value, Items) else value.items()
        return "{" + ", ".join(f"{literal(key)}: {literal(part)}" for key, part in items) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(literal, value))) + "}" if value else "set()"
    if not isinstance(value, (list, tuple)):
        raise NotShort(f"the datasets hold objects of type {type(value).__name__}")
    opens, closes, comma = ("[", "]", "") if isinstance(value, list) else ("(", ")", ",")
    parts = [literal(part) for part in value]
    runs = [(part, len(list(run))) for part, run in itertools.groupby(parts)]
    if any(times >= 8 for _, times in runs):  # long runs of equal parts as products
        return " + ".join(f"{opens}{part}{comma}{closes}{f' * {times}' * (times > 1)}" for part, times in runs)
    return f"{opens}{', '.join(parts)}{comma if len(parts) == 1 else ''}{closes}"


def _statement(feature: Feature) -> tuple[str, str] | None:
    """What holds where a feature is 1, and where it is 0; None for one that is any number."""
    if isinstance(feature, Contains) and not feature.path:
        parts = "getattr(getattr(y, 'flat', y), '__iter__', tuple)()"
        there = f"getattr(y, 'ndim', 1) and not isinstance(y, str) and {literal(feature.key)} in {parts}"
        return f"({there})", f"not ({there})"
    if isinstance(feature, HasKind) and feature.name in KINDS:
        return KINDS[feature.name], f"not {KINDS[feature.name]}"
    if isinstance(feature, Combined) and feature.operation == "==":
        first, second = _number(feature.first), _number(feature.second)
        return f"{first} == {second}", f"({first} < {second} or {first} > {second})"
    return None


def _number(feature: Feature) -> str:
    """Write a feature as a number."""
    match feature:
        case Value():
            return "number(y)"
        case Coordinate(index):
            return f"number(y, {index})"
        case At(path):
            return f"number(y, {', '.join(map(literal, path))})"
        case Deviation(inner, centre):
            return f"abs({_number(inner)} - {float(centre)!r})"
        case LowestBit(inner):
            parts = f"for v in [{_number(inner)}] if math.isfinite(v) and v for n, d in [v.as_integer_ratio()]"
            return f"next((math.log2((n & -n) / d) {parts}), math.nan)"
        case Length(()):
            return "(len(y) if hasattr(y, '__len__') and getattr(y, 'ndim', 1) else math.nan)"
        case Combined("+" | "-" as sign, first, second):
            return f"({_number(first)} {sign} {_number(second)})"
        case Combined("max" | "min" as name, first, second):
            a, b = _number(first), _number(second)
            return f"({name}({a}, {b}) if {a} == {a} and {b} == {b} else math.nan)"
        case Reduced(statistic, size) if statistic in STATISTICS:
            known = f"[v for i in range({size}) if not math.isnan(v := number(y, i))]"
            return STATISTICS[statistic].format(known)
    raise NotShort(f"the event is one of {feature.label}, which is learnt or computed by more than a line")


def _atoms(atoms: tuple[Hashable, ...]) -> str:
    """Write outputs as the helper plain() gives them."""
    parts = []
    for atom in atoms:
        if isinstance(atom, Raised):
            if not atom.exception.isidentifier():
                raise NotShort(f"the event names the exception {atom.exception}")
            parts.append(literal({"raises": atom.exception}))
        elif isinstance(atom, Items) and len(atom) > 1:  # whose order counts
            raise NotShort(f"the event names the output {written(atom)}")
        else:
            parts.append(literal(atom))
    return f"[{', '.join(parts)}]"
