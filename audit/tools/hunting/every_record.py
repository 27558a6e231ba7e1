"""All records that a described table can have, if every column has finitely many values."""

from __future__ import annotations

import itertools
import math
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.tools.hunting.columns import Column
from epsaudit.tools.hunting.description import Description, Table

MAX_RECORDS = 10_000
"""[time] Largest number of records; already as datasets of one record, they take a minute."""


def every_record(description: Description) -> list[tuple[Any, ...]]:
    """Return every possible record of a described table as a tuple, in the order of the columns' values.

    Numbers beyond the bounds of a column are not included.

    Raises
    ------
    AuditError
        If the description has query answers in place of records, if a column has no finite list of values or names
        persons, or if there are more than `MAX_RECORDS` records.

    Examples
    --------
    >>> from epsaudit.tools.hunting.description import Table
    >>> every_record(Table([Column("vote", "category", categories=("yes", "no")), Column("age", "integer", (0, 1))]))
    [('yes', 0), ('yes', 1), ('no', 0), ('no', 1)]
    """
    if not isinstance(description, Table):
        raise AuditError("Query answers have no records; describe the data by columns, numbers or symbols.")
    values = [list_column_values(column) for column in description.columns]
    n_records = math.prod(map(len, values))
    if n_records > MAX_RECORDS:
        raise AuditError(f"The described data have {n_records:,} possible records; at most {MAX_RECORDS:,} are listed.")
    return list(itertools.product(*values))


def list_column_values(column: Column) -> list[Any]:
    """Return all possible values of a column; raise `AuditError` if they are not a finite list."""
    missing = [None if column.categories or column.type == "category" else math.nan] * column.missing
    if column.role == "owner":
        raise AuditError(f"Column {column.name!r} names persons; all pairs are listed for records without owners only.")
    if column.categories:
        return [*column.categories, *missing]
    if column.type == "boolean":
        return [False, True, *missing]
    if column.type == "integer" and column.bounds is not None:
        low, high = column.bounds
        if high - low < MAX_RECORDS:
            return [*range(math.ceil(low), math.floor(high) + 1), *missing]
    raise AuditError(
        f"Column {column.name!r} has no finite list of values; give its categories, or the type 'integer' and bounds "
        f"that are at most {MAX_RECORDS:,} apart."
    )
