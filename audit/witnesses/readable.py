"""Events that a person can read: as conditions of Python on a raw output `y`, short, or a sentence why not.

The conditions call a short function, `helpers_of`, and mean what `Region.contains` counts, on outputs as a mechanism
returns them; an exception is the object that was raised. Learnt scores and sets of many outputs are not short.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.outputs.normal_form import Items, Raised, too_long, written
from epsaudit.witnesses.combinations import Combined, Reduced
from epsaudit.witnesses.events import Event, Interval, Region, Witness
from epsaudit.witnesses.features import At, Contains, Coordinate, Deviation, Feature, HasKind, Length, LowestBit, Value
from epsaudit.witnesses.selection import CandidateScore, Choice, Objective

PARTS = 2
"""Thresholds and single outputs of an event that reads well, both events of a witness together."""


@dataclass(frozen=True)
class Readable:
    """An objective, of events alone that read well."""

    inner: Objective

    @property
    def nothing(self) -> Choice:
        return self.inner.nothing

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> Iterator[Choice]:
        return (choice for choice in self.inner.choices(candidate, errors) if reads_well(choice.witness))


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


ALONE = """\
def number(y):
    try:
        return math.nan if isinstance(y, (str, bytes)) or getattr(y, "ndim", 0) else float(y)
    except (TypeError, OverflowError) as error:  # the latter of an integer
        return math.nan if isinstance(error, TypeError) else math.copysign(math.inf, y > 0 or -1)
"""
WITHIN = """\
def number(y, *path):
    try:
        for step in path:
            y = (y.flat if getattr(y, "ndim", 0) > 1 and hasattr(y, "flat") else y)[step]
        return math.nan if isinstance(y, (str, bytes)) or getattr(y, "ndim", 0) else float(y)
    except (LookupError, TypeError):
        return math.nan
    except OverflowError:  # of an integer
        return math.inf if y > 0 else -math.inf
"""
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
    "0.5 <= number(y, 1) or y is None or type(y).__name__ == 'ValueError'"
    """
    if not isinstance(event, Region):
        raise NotShort(f"the event {event} is of a kind of its own")
    parts = [_inside(event.feature, interval) for interval in event.intervals]
    if event.excluded:
        parts = [f"({' or '.join(parts)}) and not ({_atoms(event.excluded)})"]
    if event.included:
        parts.append(_atoms(event.included))
    text = " or ".join(parts) or "False"
    if len(text) > LONGEST:
        raise NotShort(f"the event {event} names too many outputs or intervals")
    return text


def helpers_of(conditions: str) -> list[str]:
    """Return the lines of the function that conditions call, which need the module math."""
    text = WITHIN if "number(y, " in conditions else ALONE if "number(" in conditions else ""
    return text.splitlines()


def literal(value: Any) -> str:
    """Write a dataset, or an output, as Python; raises `NotShort` for what is not of plain values.

    Examples
    --------
    >>> literal([0.0] * 99 + [1.0, float("nan")]), literal({"a": (1,)})
    ('[0.0] * 99 + [1.0, math.nan]', "{'a': (1,)}")
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
    if isinstance(value, (list, tuple)):
        return _repeats([literal(part) for part in value], *("[]" if isinstance(value, list) else "()"))
    raise NotShort(f"the datasets hold objects of type {type(value).__name__}")


def _repeats(parts: list[str], opens: str, closes: str) -> str:
    """Join the parts of a list or tuple, eight or more equal ones in a row as a product."""
    comma = "," if opens == "(" else ""
    blocks: list[str] = []
    plain: list[str] = []
    for part, run in itertools.groupby(parts):
        number = len(list(run))
        if number < 8:
            plain += [part] * number
        else:
            blocks += [f"{opens}{', '.join(plain)}{comma}{closes}"] if plain else []
            blocks.append(f"{opens}{part}{comma}{closes} * {number}")
            plain = []
    if plain or not blocks:
        blocks.append(f"{opens}{', '.join(plain)}{comma if len(plain) == 1 else ''}{closes}")
    return " + ".join(blocks)


def _inside(feature: Feature, interval: Interval) -> str:
    """Write that a feature lies in an interval."""
    truth = _statement(feature)
    if truth is not None:
        false, true = interval.contains(np.array([0.0, 1.0]))
        if true == false:
            raise NotShort(f"the event holds {feature.label} whether or not")
        return truth[0] if true else truth[1]
    text = _number(feature)
    left, right = ("<=" if closed else "<" for closed in (interval.includes_low, interval.includes_high))
    if interval.low == -math.inf and interval.high == math.inf:
        return f"not math.isnan({text})"
    low = "" if interval.low == -math.inf else f"{float(interval.low)!r} {left} "
    return low + text + ("" if interval.high == math.inf else f" {right} {float(interval.high)!r}")


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
    """Write that an output is one of a few."""
    floats = [atom for atom in atoms if isinstance(atom, float) and math.isfinite(atom)]
    texts = [atom for atom in atoms if isinstance(atom, str)]
    parts = [f"number(y) in {literal(set(floats))}"] if floats else []
    parts += [f"(isinstance(y, str) and y in {literal(set(texts))})"] if texts else []
    return " or ".join(parts + [_atom(atom) for atom in atoms if atom not in floats and atom not in texts])


def _atom(atom: Any) -> str:
    if atom is None:
        return "y is None"
    if isinstance(atom, Raised) and atom.exception.startswith("SystemExit"):
        status = atom.exception[len("SystemExit(") : -1] or "0"
        return (
            f"(isinstance(y, SystemExit) and (y.code if isinstance(y.code, int) else y.code is not None) == {status})"
        )
    if isinstance(atom, Raised):
        return f"type(y).__name__ == {atom.exception!r}"
    if isinstance(atom, float):
        return "(isinstance(y, float) and math.isnan(y))" if math.isnan(atom) else f"number(y) == {literal(atom)}"
    if isinstance(atom, Items):
        return f"(isinstance(y, dict) and [*y.items()] == [*{literal(atom)}.items()])"
    if isinstance(atom, frozenset):
        return f"(isinstance(y, (set, frozenset)) and y == {literal(atom)})"
    if type(atom) is tuple and all(isinstance(part, float) and math.isfinite(part) for part in atom):
        listed = f"[number(y, i) for i in range({len(atom)})] == {literal(list(atom))}"
        if not atom:
            return "(isinstance(y, (list, tuple)) and not y)"
        there = "getattr(y, 'ndim', 1) == 1 and hasattr(y, '__len__')"
        return f"({there} and len(y) == {len(atom)} and {listed})"
    raise NotShort(f"the event names the output {written(atom)}")
