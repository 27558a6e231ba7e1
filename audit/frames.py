"""Frames of pandas and polars, by what both have: recognised, as mappings of columns, and in a few words.

Neither library is imported: a frame brings its own. What leaves are plain values and text of one line.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

NAMES = 60
"""Most characters of the names of columns that are written out."""


def is_frame(value: Any) -> bool:
    """Whether this is a table with named columns: a frame of pandas or of polars."""
    return hasattr(value, "columns") and (hasattr(value, "itertuples") or hasattr(value, "iter_rows"))


def is_series(value: Any) -> bool:
    """Whether this is a column of a frame."""
    return hasattr(value, "to_list") and hasattr(value, "dtype") and hasattr(value, "to_frame")


def columns_of(frame: Any) -> dict[Any, list[Any]]:
    """Return the columns by their names, as lists of plain values; the index is no column.

    Examples
    --------
    >>> import polars as pl
    >>> columns_of(pl.DataFrame({"age": [31, None]}))
    {'age': [31, None]}
    """
    names = list(frame.columns)
    return dict(zip(names, ([row[place] for row in rows_of(frame)] for place in range(len(names))), strict=True))


def rows_of(frame: Any) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows as tuples."""
    rows = frame.itertuples(index=False, name=None) if hasattr(frame, "itertuples") else frame.iter_rows()
    return iter(map(tuple, rows))


def describe(frame: Any) -> str:
    """Write the type, the shape and the names of the columns.

    Examples
    --------
    >>> import pandas as pd
    >>> describe(pd.DataFrame({"age": [31, 40], "name": ["ann", "bob"]}))
    'DataFrame of 2 rows: age, name'
    """
    names = ", ".join(map(str, frame.columns))
    names = names if len(names) <= NAMES else f"{len(frame.columns)} columns from {frame.columns[0]} on"
    rows = "1 row" if len(frame) == 1 else f"{len(frame):,} rows"
    return f"{type(frame).__name__} of {rows}: {names or 'no columns'}"


def describe_pair(x: Any, x_prime: Any) -> str | None:
    """Write two frames as one text with the first row in which they differ; None if they are not both frames.

    Examples
    --------
    >>> import pandas as pd
    >>> x = pd.DataFrame({"age": [31, 40], "name": ["ann", "bob"]})
    >>> describe_pair(x, x.iloc[:1])
    "DataFrame of 2 rows: age, name against 1 row; row 1 is (40, 'bob') against none"
    """
    if not (is_frame(x) and is_frame(x_prime)):
        return None
    same = type(x) is type(x_prime) and list(x.columns) == list(x_prime.columns)
    second = describe(x_prime)
    if same:
        second = second.removeprefix(f"{type(x).__name__} of ").partition(":")[0]
    both = enumerate(itertools.zip_longest(rows_of(x), rows_of(x_prime)))
    place, rows = next(((place, rows) for place, rows in both if repr(rows[0]) != repr(rows[1])), (0, None))
    if rows is None:
        differing = "no row differs"
    else:
        left, right = ("none" if row is None else _short(repr(row)) for row in rows)
        differing = f"row {place} is {left} against {right}"
    return f"{describe(x)} against {second}; {differing}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= NAMES else f"{text[: NAMES - 4]} ..."
