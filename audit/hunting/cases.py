"""Which datasets, and which changes of one record or one person, are tried: at, near and beyond what is described.

Bases (from none to many records) are joined with records that differ from them, as long as both together are simple
enough."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from epsaudit.hunting.description import Column, Rows, Table


Change: TypeAlias = "tuple[Rows, Rows, str, int]"
"""Rows of x and of x', in words, and how complex it is."""

FAR = 1000
"""How many widths of the range beyond a bound a value lies: at epsilon = 1 one that is not clamped moves a sum by a
thousand times the noise."""
MOST = 4
"""Complexity of a base and a record together up to which they are joined. Numbers between bounds have
123 pairs: at 2, 3 and 5 they would have 43, 90 and 147. At 4, all the numbers come beside large datasets, and the ends
of their types beside single records."""
INTEGERS = (2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
"""Ends of 32 and 64 bits, beyond which sums of arrays wrap around."""
FLOATS = (sys.float_info.max, -sys.float_info.max, math.inf, -math.inf)
"""Floats whose sums overflow or are not numbers."""
SURPLUS = 10
"""How many times the rows that a person may have, one who has too many has."""


@dataclass(frozen=True)
class Case:
    """A value of a column, a record, or a dataset, with words for it; complexity sorts."""

    content: Any
    words: str
    complexity: int = 0


def changes(table: Table) -> Iterator[Change]:
    """Yield all changes of a table, each once under every relation that it may hold for."""
    records, bases = records_of(table), bases_of(table)
    for base in bases:
        for record in records:
            if base.complexity + record.complexity <= MOST:
                yield from _added(table, base, record)
                yield from _replaced(table, base, record)
        if table.owner is not None:
            yield from _persons(table, base, records)


def values_of(column: Column, beyond: bool) -> list[Case]:
    """List the values of a column that are tried: the two ends first, which make up most datasets."""
    name = column.name
    missing = [Case(None if column.categories else math.nan, f"a missing {name}", 1)] if column.missing else []
    if column.role == "owner":
        return [Case(person(column, 0), f"a person of the data as {name}")]
    if column.categories or not column.is_number:
        known = column.categories or ((False, True) if column.type == "boolean" else ("a", "b", ""))
        return [Case(value, f"{name} {value!r}", min(place // 2, 1)) for place, value in enumerate(known)] + missing
    whole = column.type == "integer"
    low: float
    high: float
    if column.bounds is None:
        low, high, other = (1, 1000, 0) if column.role == "weight" else (0, 1, -1)
        made = [Case(low, f"{name} {low}"), Case(high, f"{name} {high}"), Case(other, f"{name} {other}", 1)]
    else:
        low, high = column.bounds
        middle = low + (high - low) * (math.sqrt(5.0) - 1.0) / 2.0  # of many digits
        made = [
            Case(low, f"the least {name}"),
            Case(high, f"the greatest {name}"),
            Case(math.floor(middle) if whole else middle, f"a {name} between the bounds", 1),
        ]
        if low < 0 < high:
            made.append(Case(0, f"{name} 0", 1))
        if beyond:
            far = FAR * (high - low)
            made.append(Case(high + far, f"a {name} beyond the upper bound", 1))
            made.append(Case(low - far, f"a {name} beyond the lower bound", 1))
    if column.bounds is None or beyond:
        made += [Case(value, f"{name} {value:.3g}", 3) for value in (INTEGERS if whole else FLOATS)]
    made += missing
    if not whole:
        return [replace(case, content=float(case.content)) for case in made]
    least, greatest = INTEGERS[3], INTEGERS[2]
    numbers = [case.content for case in made]
    cast = [int(min(max(value, least), greatest)) if value == value else value for value in numbers]
    return [replace(case, content=value) for case, value in zip(made, cast, strict=True)]


def records_of(table: Table) -> list[Case]:
    """List the records that are tried: all columns at an end, then each value of one with the rest at an end.

    With a norm, records of the greatest one and beyond: along an axis, evenly, and opposite.
    """
    values = [values_of(column, table.beyond) for column in table.columns]
    if len(values) == 1:
        least, greatest, *more = values[0]
        return [replace(case, content=(case.content,)) for case in (greatest, least, *more)]
    low, high = _ends(table)
    found = [Case(high, "a record of the greatest values"), Case(low, "a record of the least values")]
    for place, cases in enumerate(values):
        for case in cases:
            for side, (end, words) in enumerate(((low, "least"), (high, "greatest"))):
                row = (*end[:place], case.content, *end[place + 1 :])
                words = f"a record with {case.words}, the others at their {words}"
                found.append(Case(row, words, case.complexity + 1 - side))
    if table.norm is not None:
        size = max(len(_numbers_of(table)), 1)
        axis, evenly = [1.0] + [0.0] * (size - 1), [size**-0.5] * size
        ways = {
            "the greatest norm, along the first number": axis,
            "the greatest norm, along the last number": axis[::-1],
            "the greatest norm, of negative numbers": [-share for share in evenly],
        }
        if table.beyond:
            ways["a norm beyond the greatest"] = [FAR * share for share in evenly]
        found += [Case(_scaled(table, high, shares), f"a record of {words}", 1) for words, shares in ways.items()]
    return found


def bases_of(table: Table) -> list[Case]:
    """List the datasets that are changed, as rows."""
    low, high = _ends(table)
    crowd = table.size
    half = crowd // 2
    found = [
        Case((), "empty data"),
        Case((low,), "the least value alone", 1),
        Case((high,), "the greatest value alone", 1),
        Case((low, high), "the least and the greatest value (a tie)", 2),
        Case((low,) * crowd, f"{crowd} times the least value", 2),
        Case((high,) * crowd, f"{crowd} times the greatest value", 2),
        Case((low,) * half + (high,) * half, f"the least and the greatest value {half} times each", 3),
        Case((low, high) * half, f"the least and the greatest value {half} times in turn", 3),
    ]
    for place, column in enumerate(table.columns):
        for case in values_of(column, table.beyond):
            row = (*low[:place], case.content, *low[place + 1 :])
            if case.words.startswith("a missing"):
                others = f"{crowd - 1} records with {case.words} and one without"
                found.append(Case((row, row), f"two records with {case.words}", 2))
                found.append(Case((low,) + (row,) * (crowd - 1), others, 3))
            elif case.words.endswith("upper bound"):
                found.append(Case((row,) * crowd, f"{crowd} times {case.words}", 3))
    return [replace(case, content=_owned(table, case.content)) for case in found]


def person(column: Column, number: int) -> Any:
    """Return the name of a person in a column of owners."""
    if column.categories:
        return column.categories[number % len(column.categories)]
    return number if column.type in ("integer", "float") else f"person {number}"


def _ends(table: Table) -> tuple[Any, Any]:
    """The rows of all columns' first and of all columns' second value; within the norm, if there is one."""
    values = [values_of(column, table.beyond) for column in table.columns]
    low = tuple(cases[0].content for cases in values)
    high = tuple(cases[min(1, len(cases) - 1)].content for cases in values)
    if table.norm is None:
        return low, high
    size = max(len(_numbers_of(table)), 1)
    return _scaled(table, low, [0.0] * size), _scaled(table, high, [size**-0.5] * size)


def _numbers_of(table: Table) -> list[int]:
    """Positions of the numbers that the norm is of."""
    return [place for place, column in enumerate(table.columns) if column.is_number and column.role == "value"]


def _scaled(table: Table, row: Any, shares: list[float]) -> tuple[Any, ...]:
    """A row whose numbers are these shares of the greatest norm."""
    norm = table.norm or 0.0
    scaled = {place: norm * share for place, share in zip(_numbers_of(table), shares, strict=False)}
    return tuple(scaled.get(place, value) for place, value in enumerate(row))


def _added(table: Table, base: Case, record: Case) -> Iterator[Change]:
    rows, row = base.content, _owned(table, (record.content,), len(base.content))[0]
    complexity = base.complexity + record.complexity
    yield rows, (*rows, row), f"{record.words} added to {base.words}", complexity
    free = [[value for place, value in enumerate(one) if place != table.owner] for one in (*rows[:1], row)]
    if rows and record.complexity == 0 and repr(free[0]) != repr(free[1]):
        for place, where in {len(rows) // 2: "middle", 0: "front"}.items():
            changed = (*rows[:place], row, *rows[place:])
            yield rows, changed, f"{record.words} added to {base.words}, at the {where}", complexity + 1
    if table.owner is not None and rows and table.most_rows_a_person > 1:
        mine = (*row[: table.owner], rows[0][table.owner], *row[table.owner + 1 :])
        yield rows, (*rows, mine), f"{record.words} of a person of the data added to {base.words}", complexity + 1


def _replaced(table: Table, base: Case, record: Case) -> Iterator[Change]:
    rows = base.content
    places = {len(rows) - 1: "last"} if rows else {}
    if record.complexity == 0 and len(rows) == table.size:
        places |= {0: "first", len(rows) // 2: "middle"}
    for place, where in places.items():
        row = _owned(table, (record.content,), place)[0]
        if repr(row) != repr(rows[place]):
            which = "" if len(rows) == 1 else f"the {where} record of "
            complexity = base.complexity + record.complexity + (where != "last")
            changed = (*rows[:place], row, *rows[place + 1 :])
            yield rows, changed, f"{record.words} in place of {which}{base.words}", complexity


def _persons(table: Table, base: Case, records: list[Case]) -> Iterator[Change]:
    """Changes of all rows of a person: one who comes, with as many as allowed or more, alike or each different."""
    most, rows = table.most_rows_a_person, base.content
    high, low = records[0], records[1]
    different = [case for case in records if case.complexity <= 1]
    each = tuple(different[n % len(different)].content for n in range(most))
    kinds = [Case((one.content,) * most, f"{most} times {one.words}") for one in (high, low)]
    kinds.append(Case(each, f"{most} different records", 1))
    if table.beyond:
        kinds.append(Case((high.content,) * (most * SURPLUS), f"{most * SURPLUS} times {high.words}, too many", 1))
    for kind in kinds:
        complexity = base.complexity + kind.complexity + 1
        mine = _owned(table, kind.content, len(rows), same=True)
        yield rows, (*rows, *mine), f"a person with {kind.words} added to {base.words}", complexity
        for other in kinds[:2]:
            before = _owned(table, other.content, len(rows), same=True)
            words = f"a person with {kind.words} in place of one with {other.words}, beside {base.words}"
            yield (*rows, *before), (*rows, *mine), words, complexity + 1


def _owned(table: Table, rows: Any, first: int = 0, same: bool = False) -> Any:
    """Rows of persons of their own, numbered from ``first``, or all of the same one."""
    place = table.owner
    if place is None:
        return rows
    names = [person(table.columns[place], first if same else first + number) for number in range(len(rows))]
    return tuple((*row[:place], name, *row[place + 1 :]) for row, name in zip(rows, names, strict=True))
