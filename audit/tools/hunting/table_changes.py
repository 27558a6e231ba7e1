"""The changes of a table that a hunt tries: a record or a person is added to a dataset, or replaced in it.

A change joins a base dataset with a record, or with all rows of a person, as long as both together are simple enough.
The module stands alone because the choice of datasets is the part of a description that decides what a hunt can find.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from epsaudit.tools.hunting.columns import Column, Variant, person_name, values_to_try, zero_or_least

TableRows: TypeAlias = tuple[tuple[Any, ...], ...]
"""The records of a dataset as tuples, with one value for each column."""
MAX_COMPLEXITY = 4
"""[chosen] Largest sum of the complexities of a base dataset and a record that are joined. For numbers between bounds
there are 154 pairs; a limit of 2, 3 or 5 would give 43, 110 or 178. At 4 every number is tried beside large datasets,
and the extreme numbers of a type are tried beside a single record."""
SURPLUS_FACTOR = 10
"""[chosen] A person with too many rows has this many times the number of rows that one person may have."""


class TableChange(NamedTuple):
    """A pair of datasets that a hunt tries: the rows of x and x', a description of their difference, and a complexity.

    Simple pairs have a small complexity and are tried first.
    """

    x: TableRows
    x_prime: TableRows
    words: str
    complexity: int


@dataclass(frozen=True)
class TableShape:
    """The properties of a described table that determine which pairs of datasets a hunt tries."""

    columns: Sequence[Column]
    owner: int | None
    """Position of the column that names the person, or None."""
    max_rows_per_person: int
    beyond: bool
    """Whether records may lie beyond the bounds, and persons may have too many rows."""
    large_size: int
    """Number of records of a large dataset."""

    def with_owners(self, rows: Any, first: int = 0, same_person: bool = False) -> Any:
        """Return the rows with names of persons in the owner column; return them unchanged if there is no owner column.

        Each row gets a person of its own, numbered from ``first`` on. If ``same_person`` is true, all rows get the
        person ``first``.
        """
        if self.owner is None:
            return rows
        column = self.columns[self.owner]
        names = [person_name(column, first if same_person else first + number) for number in range(len(rows))]
        return tuple((*row[: self.owner], name, *row[self.owner + 1 :]) for row, name in zip(rows, names, strict=True))


class _ExtremeRecords(NamedTuple):
    """Three records of a table: all values are the least ones, all are the greatest ones, and all are zero."""

    lowest: tuple[Any, ...]
    highest: tuple[Any, ...]
    zeros: tuple[Any, ...]

    @property
    def zeros_are_new(self) -> bool:
        """Whether the record of zeros differs from the records of least and of greatest values."""
        return repr(self.zeros) not in (repr(self.lowest), repr(self.highest))


def table_changes(shape: TableShape) -> Iterator[TableChange]:
    """Yield the pairs of datasets that a hunt tries for a table, in a fixed order that is not sorted by complexity.

    The two datasets of a pair differ in one record or, if a column names persons, in all rows of one person.

    Parameters
    ----------
    shape : TableShape
        The columns of the table and its limits.
    """
    values = [values_to_try(column, shape.beyond) for column in shape.columns]
    lowest, highest = (tuple(cases[min(end, len(cases) - 1)].content for cases in values) for end in (0, 1))
    zeros = (zero_or_least(column, least, shape.beyond) for column, least in zip(shape.columns, lowest, strict=True))
    extremes = _ExtremeRecords(lowest, highest, tuple(zeros))
    records = _records_to_try(values, extremes)
    for base in _base_datasets(shape, values, extremes):
        for record in records:
            if base.complexity + record.complexity <= MAX_COMPLEXITY:
                yield from _changes_of_one_record(shape, base, record)
        if shape.owner is not None:
            yield from _changes_of_one_person(shape, base, records)


def _records_to_try(values: Sequence[Sequence[Variant]], extremes: _ExtremeRecords) -> list[Variant]:
    """Return the records that a hunt adds to datasets, or puts in place of other records.

    The first records have all their values at the same end: all greatest, all least, or all zero. In the others, one
    column has one of the ``values`` to try, and all other columns are at one end.
    """
    if len(values) == 1:
        least, greatest, *others = values[0]
        return [one._replace(content=(one.content,)) for one in (greatest, least, *others)]
    records = [
        Variant(extremes.highest, "a record of the greatest values"),
        Variant(extremes.lowest, "a record of the least values"),
    ]
    if extremes.zeros_are_new:
        records.append(Variant(extremes.zeros, "a record of zeros", 1))
    for place, cases in enumerate(values):
        for value, words, complexity in cases:
            for end, which, extra in ((extremes.lowest, "least", 1), (extremes.highest, "greatest", 0)):
                row = (*end[:place], value, *end[place + 1 :])
                records.append(Variant(row, f"a record with {words}, the others at their {which}", complexity + extra))
    return records


def _base_datasets(shape: TableShape, values: Sequence[Sequence[Variant]], extremes: _ExtremeRecords) -> list[Variant]:
    """Return the base datasets, to which a record or a person is added, or in which a record is replaced.

    Examples are empty data, a single record, and a large dataset of equal records.
    """
    (low, high, zeros), crowd, half = extremes, shape.large_size, shape.large_size // 2
    bases = [
        Variant((), "empty data"),
        Variant((low,), "the least value alone", 1),
        Variant((high,), "the greatest value alone", 1),
        *([Variant((zeros,), "a record of zeros alone", 2)] if extremes.zeros_are_new else []),
        Variant((low, high), "the least and the greatest value (a tie)", 2),
        Variant((low,) * crowd, f"{crowd} times the least value", 2),
        Variant((high,) * crowd, f"{crowd} times the greatest value", 2),
        Variant((low,) * half + (high,) * half, f"the least and the greatest value {half} times each", 3),
        Variant((low, high) * half, f"the least and the greatest value {half} times in turn", 3),
    ]
    for place, (column, cases) in enumerate(zip(shape.columns, values, strict=True)):
        for value, words, _ in cases:
            row = (*low[:place], value, *low[place + 1 :])
            if words.startswith("a missing"):
                all_but_one = f"{crowd - 1} records with {words} and one without"
                bases.append(Variant((row, row), f"two records with {words}", 2))
                bases.append(Variant((low,) + (row,) * (crowd - 1), all_but_one, 3))
            elif words.endswith(("upper bound", "between the bounds")):
                bases.append(Variant((row,) * crowd, f"{crowd} times {words}", 3))
        if column.bounds is not None and column.role == "value" and not column.categories:
            spread = np.linspace(*column.bounds, crowd).tolist()
            different = map(math.floor, spread) if column.type == "integer" else spread
            varied = tuple((*low[:place], value, *low[place + 1 :]) for value in different)
            bases.append(Variant(varied, f"{crowd} different values of {column.name}", 3))
    return bases


def _changes_of_one_record(shape: TableShape, base: Variant, record: Variant) -> Iterator[TableChange]:
    """Yield pairs of a base dataset and a changed dataset, in which ``record`` is added or replaces another record."""
    complexity, rows = base.complexity + record.complexity, shape.with_owners(base.content)
    (row,) = shape.with_owners((record.content,), len(rows))
    words = f"{record.words} added to {base.words}"
    yield TableChange(rows, (*rows, row), words, complexity)
    if rows and record.complexity == 0 and repr(base.content[0]) != repr(record.content):
        for place, where in {len(rows) // 2: "middle", 0: "front"}.items():
            inserted = (*rows[:place], row, *rows[place:])
            yield TableChange(rows, inserted, f"{words}, at the {where}", complexity + 1)
    if shape.owner is not None and rows and shape.max_rows_per_person > 1:
        of_known_person = (*rows, *shape.with_owners((record.content,)))
        words = f"{record.words} of a person of the data added to {base.words}"
        yield TableChange(rows, of_known_person, words, complexity + 1)
    places = {len(rows) - 1: "last"} if rows else {}
    if record.complexity == 0 and len(rows) == shape.large_size:
        places |= {0: "first", len(rows) // 2: "middle"}
    for place, where in places.items():
        (row,) = shape.with_owners((record.content,), place)
        if repr(row) != repr(rows[place]):
            which = "" if len(rows) == 1 else f"the {where} record of "
            replaced = (*rows[:place], row, *rows[place + 1 :])
            words = f"{record.words} in place of {which}{base.words}"
            yield TableChange(rows, replaced, words, complexity + (where != "last"))


def _changes_of_one_person(shape: TableShape, base: Variant, records: Sequence[Variant]) -> Iterator[TableChange]:
    """Yield pairs of datasets that differ in one person.

    All rows of a person are added to the base dataset, or replace the rows of another person.
    """
    rows, identical = shape.with_owners(base.content), _persons_with_identical_rows(shape, records)
    for person in (*identical, *_other_persons(shape, records)):
        complexity = base.complexity + person.complexity + 1
        own_rows = shape.with_owners(person.content, len(rows), same_person=True)
        yield TableChange(rows, (*rows, *own_rows), f"a person with {person.words} added to {base.words}", complexity)
        for other in identical:
            before = shape.with_owners(other.content, len(rows), same_person=True)
            words = f"a person with {person.words} in place of one with {other.words}, beside {base.words}"
            yield TableChange((*rows, *before), (*rows, *own_rows), words, complexity + 1)


def _persons_with_identical_rows(shape: TableShape, records: Sequence[Variant]) -> list[Variant]:
    """Return the rows of two persons. Each person has the largest allowed number of rows, all of them equal.

    The rows of the first person have the greatest values, and those of the second person the least values.
    """
    most = shape.max_rows_per_person
    return [Variant((one.content,) * most, f"{most} times {one.words}") for one in records[:2]]


def _other_persons(shape: TableShape, records: Sequence[Variant]) -> list[Variant]:
    """Return the rows of a person with different records, and of a person with more rows than allowed.

    The second person is left out if the table does not permit too many rows (``shape.beyond`` is false).
    """
    most = shape.max_rows_per_person
    different = [one.content for one in records if one.complexity <= 1]
    persons = [Variant((different * most)[:most], f"{most} different records", 1)]
    if shape.beyond:
        too_many = f"{most * SURPLUS_FACTOR} times {records[0].words}, too many"
        persons.append(Variant((records[0].content,) * (most * SURPLUS_FACTOR), too_many, 1))
    return persons
