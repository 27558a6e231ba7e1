"""Events and datasets as Python expressions, for scripts that reproduce a finding without this package.

The expressions use three helpers that the scripts define: ``number(y, ...)`` reads a number off an output, ``plain(y)``
turns an output into plain values, and ``y`` is the output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from epsaudit.outputs.formatting import format_value, write_plain
from epsaudit.outputs.normal_form import Items, Raised
from epsaudit.witnesses.combinations import Combination, CoordinateStatistic
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.digits import Deviation, LowestBit, Residue, Scaled
from epsaudit.witnesses.events import Event, Interval, Region, Witness, codes_in
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import CategoryCode, Contains, Coordinate, HasKind, Length, NumberAt, Value

MAX_SIMPLE_PARTS = 2
"""[chosen] Maximum number of thresholds and single outputs, in both events of a witness together, that are easy to
read."""


def count_condition_parts(witness: Witness) -> float:
    """Return how complicated a witness is: the number of thresholds and single outputs in its events.

    The number is infinity if an event cannot be written as a short condition.
    """
    parts = 0
    for event in (witness.guess_x, witness.guess_x_prime):
        if event is not None:
            try:
                write_condition(event)
            except NoShortCondition:
                return math.inf
            assert isinstance(event, Region)  # events of other classes have no short condition
            parts += len(event.included) + len(event.excluded)
            for one in event.intervals:
                parts += math.isfinite(one.low) + math.isfinite(one.high)
    return parts


MAX_CONDITION_LENGTH = 300
"""[chosen] Maximum number of characters of a condition. A longer condition is harder to read than the text of the
event."""
STATISTIC_EXPRESSIONS = {
    "sum": "sum({} or [math.nan])",
    "max": "max({}, default=math.nan)",
    "min": "min({}, default=math.nan)",
    "norm": "math.hypot(*{} or [math.nan])",
}
"""Expressions for statistics of a list of numbers."""
KIND_EXPRESSIONS = {
    "raised": "isinstance(y, BaseException)",
    "string": "isinstance(y, str)",
    "mapping": "(isinstance(y, dict) or hasattr(y, 'columns'))",
    "set": "isinstance(y, (set, frozenset))",
}
"""Expressions that test the kind of an output."""


class NoShortCondition(Exception):  # noqa: N818  # it is an answer and not an error
    """Raised if an event or a dataset has no short Python expression. The message is a reason that ends a sentence."""


def write_condition(event: Event) -> str:
    """Return an event as a Python condition on the output ``y``, for scripts that run without this package.

    Raises `NoShortCondition` if there is no short condition.

    >>> write_condition(Region(Coordinate(1), (Interval(low=0.5),), included=(None, Raised("ValueError"))))
    "number(y, 1) >= 0.5 or plain(y) in [None, {'raises': 'ValueError'}]"
    """
    if not isinstance(event, Region):
        raise NoShortCondition(f"the event {event} does not consist of intervals and single outputs")
    feature, parts = event.feature, []
    phrases: tuple[str, str] | None = None  # the conditions that the feature is 1, and that it is 0
    match feature if event.intervals else None:
        case Contains(key, ()):
            elements = "getattr(getattr(y, 'flat', y), '__iter__', tuple)()"
            there = (
                f"getattr(y, 'ndim', 1) and not isinstance(y, str) and {write_literal(key)} in map(plain, {elements})"
            )
            phrases = f"({there})", f"not ({there})"
        case HasKind(name) if name in KIND_EXPRESSIONS:
            phrases = KIND_EXPRESSIONS[name], f"not {KIND_EXPRESSIONS[name]}"
        case Combination("==", first, second):
            a, b = _write_number(first), _write_number(second)
            phrases = f"{a} == {b}", f"({a} < {b} or {a} > {b})"
        case CrossTable() as table:
            parts = [_write_cell_condition(table, code) for code in codes_in(event)]
    for interval in event.intervals if not parts else ():
        if phrases is not None:
            false, true = interval.contains(np.array([0.0, 1.0]))
            if true == false:
                raise NoShortCondition(f"the event does not depend on whether {feature.label} is 0 or 1")
            parts.append(phrases[0] if true else phrases[1])
        elif interval.low == -math.inf and interval.high == math.inf:
            parts.append(f"not math.isnan({_write_number(feature)})")
        else:
            parts.append(interval.describe(_write_number(feature), repr))
    if event.excluded:
        parts = [f"({' or '.join(parts)}) and plain(y) not in {_write_atoms(event.excluded)}"]
    if event.included:
        value = "isinstance(y, str) and y" if all(isinstance(one, str) for one in event.included) else "plain(y)"
        parts.append(f"{value} in {_write_atoms(event.included)}")
    text = " or ".join(parts) or "False"
    if len(text) > MAX_CONDITION_LENGTH:
        raise NoShortCondition(f"the event {event} names too many outputs or intervals")
    return text


def _write_cell_condition(table: CrossTable, code: int) -> str:
    """Return the Python condition that an output falls into the cell ``code`` of a table of two features."""
    fields = (table.first, table.edges), (table.second, table.edges_second)
    cells = []
    for (feature, edges), place in zip(fields, divmod(code, len(table.edges_second) + 1), strict=True):
        low, high = (-math.inf, *edges, math.inf)[place : place + 2]
        inside = Interval(low, high, includes_low=False)
        if isinstance(feature, CategoryCode):
            value = feature.values[place]
            if type(value) is not float or math.isnan(value):
                raise NoShortCondition(f"the event names {format_value(value)} at a place inside the output")
            feature, inside = NumberAt(feature.path), Interval(value, value)
        cells.append(write_condition(Region(feature, (inside,))))
    return f"({' and '.join(cells)})"


def write_literal(value: Any) -> str:
    """Return a dataset or an output as a Python expression.

    Raises `NoShortCondition` if the value contains objects that have no such expression.
    """
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return write_plain(value)
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else "-math.inf" if value < 0 else f"math.{value!r}"
    if isinstance(value, (Items, dict)):
        items = value.as_given() if isinstance(value, Items) else value.items()
        return "{" + ", ".join(f"{write_literal(key)}: {write_literal(part)}" for key, part in items) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(write_literal, value))) + "}" if value else "set()"
    if not isinstance(value, (list, tuple)):
        raise NoShortCondition(f"the datasets hold objects of type {type(value).__name__}")
    opens, closes, comma = ("[", "]", "") if isinstance(value, list) else ("(", ")", ",")
    parts = [write_literal(part) for part in value]
    runs = [(part, len(list(run))) for part, run in itertools.groupby(parts)]
    if any(times >= 8 for _, times in runs):  # long runs of equal parts are written as products
        return " + ".join(f"{opens}{part}{comma}{closes}{f' * {times}' * (times > 1)}" for part, times in runs)
    return f"{opens}{', '.join(parts)}{comma if len(parts) == 1 else ''}{closes}"


def _write_number(feature: Feature) -> str:
    """Return the Python expression that computes the number of a feature from an output ``y``."""
    match feature:
        case Value():
            return "number(y)"
        case Coordinate(index):
            return f"number(y, {index})"
        case NumberAt(path):
            return f"number(y, {', '.join(map(write_literal, path))})"
        case Deviation(inner, centre):
            return f"abs({_write_number(inner)} - {float(centre)!r})"
        case LowestBit(inner):
            parts = f"for v in [{_write_number(inner)}] if math.isfinite(v) and v for n, d in [v.as_integer_ratio()]"
            return f"next((math.log2((n & -n) / d) {parts}), math.nan)"
        case Residue(Value(), modulus):
            whole = f"y % {modulus} if isinstance(y, int) else v % {modulus} if v // 1 == v else math.nan"
            return f"next({whole} for v in [number(y)])"
        case Residue(inner, modulus):
            return f"next(v % {modulus} if v // 1 == v else math.nan for v in [{_write_number(inner)}])"
        case Scaled(inner, decimals):
            shifted = f"{_write_number(inner)} * {10.0**decimals!r} + 1e-6"
            return f"next(math.floor(v) if math.isfinite(v) else v for v in [{shifted}])"
        case Length(()):
            return "(len(y) if hasattr(y, '__len__') and getattr(y, 'ndim', 1) else math.nan)"
        case Combination("+" | "-" as sign, first, second):
            return f"({_write_number(first)} {sign} {_write_number(second)})"
        case Combination("max" | "min" as name, first, second):
            a, b = _write_number(first), _write_number(second)
            return f"({name}({a}, {b}) if {a} == {a} and {b} == {b} else math.nan)"
        case CoordinateStatistic(statistic, size) if statistic in STATISTIC_EXPRESSIONS:
            known = f"[v for i in range({size}) if not math.isnan(v := number(y, i))]"
            return STATISTIC_EXPRESSIONS[statistic].format(known)
    raise NoShortCondition(f"the event depends on {feature.label}, which is learnt or takes more than one line of code")


def _write_atoms(atoms: tuple[Hashable, ...]) -> str:
    """Return the Python expression of a list of outputs, in the form that the scripts' function plain() returns."""
    parts = []
    for atom in atoms:
        if isinstance(atom, Raised):
            if not atom.exception.isidentifier():
                raise NoShortCondition(f"the event names the exception {atom.exception}")
            parts.append(write_literal({"raises": atom.exception}))
        elif isinstance(atom, Items) and len(atom) > 1:  # the order of its keys would get lost
            raise NoShortCondition(f"the event names the output {format_value(atom)}")
        else:
            parts.append(write_literal(atom))
    return f"[{', '.join(parts)}]"
