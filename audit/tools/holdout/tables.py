"""Tables of records: train, holdout and release as matrices with the same columns.

A column contains numbers or categories. `read_tables` reads the three tables together, because the kind of a column and
the codes of its categories must be the same in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.array_types import Bools, Floats
from epsaudit.data.column_files import ColumnArray, Columns, read_columns
from epsaudit.data.records import is_frame
from epsaudit.errors import QUOTED, AuditError, clipped, suggest_name, with_article

TABLE_LAYOUT = "a table with the names of its columns in the first line and one row for each record"
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>", "nat"})
"""[chosen] Texts, in lower case, that stand for a missing value."""
TRUTHS = ({"true"}, {"false"}, {"true", "false"})
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
"""Texts that are read as dates. Dates are numbers, so that earlier and later can be compared."""


@dataclass(frozen=True)
class Table:
    """A table of records, stored as a matrix of numbers.

    Attributes
    ----------
    names : tuple of str
        The names of the columns.
    levels : tuple
        For each column, None if it contains numbers, otherwise its categories in alphabetical order.
    values : array of shape (records, columns)
        The numbers. A category is stored as its index in ``levels``, and a missing value as NaN.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...]
    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_number(self) -> Bools:
        """Boolean array with one entry per column: whether the column contains numbers."""
        return np.array([levels is None for levels in self.levels])

    def join(self, other: Table) -> Table:
        """Return the records of this table followed by those of another table with the same columns."""
        return replace(self, values=np.concatenate([self.values, other.values]))


def read_tables(sources: Mapping[str, Any], columns: Sequence[str] | None = None) -> dict[str, Table]:
    """Read tables that have the same columns, possibly in another order, and return them under the keys of ``sources``.

    Parameters
    ----------
    sources : mapping of str to table
        What each table is called in messages, and the table: the path of a .csv, .parquet, .npz or .npy file, a data
        frame of pandas or polars, or a mapping of names to columns. The first table determines the order of columns.
    columns : sequence of str, optional
        Names of the columns to read. By default all columns are read.

    Raises `AuditError` if a table cannot be read or has no records, if the names of the columns differ, or if a column
    contains numbers in one table and text in another.
    """
    tables = {what: _read_source(source, what) for what, source in sources.items()}
    if columns is not None:
        tables = {what: _select(table, columns, what) for what, table in tables.items()}
    (first, names), *others = [(what, list(table)) for what, table in tables.items()]
    for what, found in others:
        _refuse_other_names(first, names, what, found)
    joined = [_join_kinds(name, {what: table[name] for what, table in tables.items()}) for name in names]
    return {
        what: Table(
            tuple(names),
            tuple(levels for levels, _ in joined),
            np.stack([values[place] for _, values in joined], axis=1),
        )
        for place, what in enumerate(tables)
    }


def find_strata(tables: Mapping[str, Table], columns: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Return the stratum of each train record and of each holdout record as text; None if ``columns`` is empty.

    A stratum is the set of records with equal values in the given columns. Raises `AuditError` for a missing column.
    """
    if not columns:
        return None
    names = tables["train"].names
    for column in columns:
        if column not in names:
            raise AuditError(f"strata names {column!r}, which is no column of train.{suggest_name(column, names)}")
    places = [names.index(column) for column in columns]
    train, holdout = ([repr(row) for row in tables[part].values[:, places].tolist()] for part in ("train", "holdout"))
    return train, holdout


def _read_source(source: Any, what: str) -> Columns:
    """Read one table, and return its columns by name as one-dimensional arrays of the same length.

    ``source`` is a path, a data frame or a mapping, and ``what`` is the name of the table in error messages. Raises
    `AuditError` if the table cannot be read, or if it has no records.
    """
    columns: Columns
    if isinstance(source, str | Path):
        columns = read_columns(Path(source), TABLE_LAYOUT, _name_places)
    elif is_frame(source):
        names = [str(name) for name in source.columns]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise AuditError(f"{what} has the column {twice[0]!r} more than once; a column must have its own name.")
        series = [source[name] for name in source.columns]
        columns = {name: np.asarray(one.to_numpy()) for name, one in zip(names, series, strict=True)}
    elif isinstance(source, Mapping):
        columns = {str(name): _as_array(column) for name, column in source.items()}
    else:
        raise AuditError(
            f"{what} is {with_article(type(source).__name__)}; it must be the path of a file, a data frame of pandas "
            "or polars, or a mapping of names to columns."
        )
    if not columns:
        raise AuditError(f"{what} has no columns. Give {TABLE_LAYOUT}.")
    sizes = {name: len(column) if column.ndim == 1 else -1 for name, column in columns.items()}
    if wrong := [name for name, size in sizes.items() if size == -1]:
        shape = columns[wrong[0]].shape
        raise AuditError(f"{wrong[0]} of {what} has shape {shape}; a column must have one dimension.")
    if len(set(sizes.values())) > 1:
        short, long = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        raise AuditError(f"{what} has {sizes[long]:,} rows of {long} and {sizes[short]:,} of {short}.")
    if not min(sizes.values()):
        raise AuditError(f"{what} has no records. Give {TABLE_LAYOUT}.")
    return columns


def _as_array(column: Any) -> ColumnArray:
    """Convert a column to an array and return it. A list with values of several types becomes an array of objects.

    `numpy.array` alone would turn such values into text.
    """
    try:
        found = np.asarray(column)
        converted = found.ndim == 1 and found.dtype.kind in "US" and not isinstance(column, np.ndarray)
    except ValueError:  # lists of several lengths
        converted = True
    if converted:
        found = np.empty(len(column), object)
        found[:] = list(column)
    return found


def _name_places(file: Path, found: ColumnArray) -> Columns:
    """Return the columns of an array without column names as 'column 1', 'column 2', and so on.

    A one-dimensional array is a single column. Raises `AuditError` for more than two dimensions.
    """
    if found.ndim == 1:
        return {"column 1": found}
    if found.ndim != 2:
        raise AuditError(f"{file} has shape {found.shape}; it must have one row for each record.")
    return {f"column {place + 1}": found[:, place] for place in range(found.shape[1])}


def _select(table: Columns, columns: Sequence[str], what: str) -> Columns:
    if not columns:
        raise AuditError("columns is empty; name at least one column, or leave it out to read all columns.")
    for name in columns:
        if name not in table:
            raise AuditError(f"{what} has no column {name!r}.{suggest_name(name, table)}")
    return {name: table[name] for name in columns}


def _refuse_other_names(first: str, names: Sequence[str], what: str, found: Sequence[str]) -> None:
    """Raise `AuditError` if two tables have different sets of column names.

    ``names`` are the columns of the table ``first``, and ``found`` those of the table ``what``.
    """
    advice = "Tables must have the same columns; select the common ones with columns= or --columns."
    for one, other, has, lacks in ((first, what, names, found), (what, first, found, names)):
        if missing := [name for name in has if name not in lacks]:
            listed = clipped(", ".join(map(repr, missing)), 3 * QUOTED)
            raise AuditError(f"{one} has {_count_columns(len(missing))} that {other} does not have: {listed}. {advice}")


def _count_columns(number: int) -> str:
    return "1 column" if number == 1 else f"{number:,} columns"


def _join_kinds(name: str, columns: Mapping[str, ColumnArray]) -> tuple[tuple[str, ...] | None, list[Floats]]:
    """Decide whether a column contains numbers or categories, and convert it in all tables together.

    Returns the categories (None for numbers) and one array of values per table. A column of text contains numbers if
    every text in every table can be parsed as a number; this is needed for CSV files, which contain only text. If train
    or holdout contains other text, the column contains categories in all tables. Raises `AuditError` if the tables
    disagree otherwise.
    """
    known = {what: _as_plain_column(column, name, what) for what, column in columns.items()}
    if all(_is_truth(column) for column in known.values()):
        return _to_codes([np.array([one and one.lower() for one in column], object) for column in known.values()])
    numbers = {what: _to_numbers(column) for what, column in known.items()}
    words = [what for what, one in numbers.items() if one is None]
    if not words:
        return None, [one for one in numbers.values() if one is not None]
    typed = [what for what, column in known.items() if column.dtype.kind != "O"]
    records = [what for what in columns if what != "release"]
    if not typed and any(what in words for what in records):
        return _to_codes(list(known.values()))
    other = (typed or records)[0]
    example = next(value for value in known[words[0]].tolist() if value is not None and _read_cell(value) is None)
    raise AuditError(
        f"{name} contains numbers in {other} and other values in {words[0]}, such as "
        f"{clipped(repr(example), QUOTED)}; a column must have the same type in all tables."
    )


def _as_plain_column(column: ColumnArray, name: str, what: str) -> ColumnArray:
    """Convert a column to one of three forms: numbers, dates, or an object array of text with None for missing values.

    Raises `AuditError` for values of any other type.
    """
    if column.dtype.kind in "iufM":
        return column
    if column.dtype.kind == "c" or column.dtype.names or column.dtype.kind in "mV":
        raise AuditError(
            f"{name} of {what} has the type {column.dtype}; a column must contain numbers, text, booleans or dates."
        )
    found = np.empty(len(column), object)
    for place, value in enumerate(column.tolist()):
        if isinstance(value, dict | list | tuple | set | np.ndarray):
            raise AuditError(
                f"{name} of {what} contains {with_article(type(value).__name__)}; a column must contain numbers, text, "
                "booleans or dates."
            )
        text = "" if value is None else str(value).strip()
        found[place] = None if text.lower() in MISSING else text
    return found


def _is_truth(column: ColumnArray) -> bool:
    """Return whether all values of a column are 'true', 'false' or missing, and at least one is not missing."""
    return column.dtype.kind == "O" and {one.lower() for one in column if one is not None} in TRUTHS


def _to_numbers(column: ColumnArray) -> Floats | None:
    """Convert a column to floats with NaN for missing values; return None if a text cannot be parsed as a number."""
    if column.dtype.kind == "M":
        return np.where(np.isnat(column), np.nan, column.astype("datetime64[us]").astype(np.int64).astype(float))
    if column.dtype.kind in "iuf":
        return column.astype(float)
    found = np.full(len(column), np.nan)
    for place, text in enumerate(column.tolist()):
        if text is not None:
            number = _read_cell(text)
            if number is None:
                return None
            found[place] = number
    return found


def _read_cell(text: str) -> float | None:
    """Parse a number, truth value or date, and return it as a float; return None if the text is none of these."""
    try:
        return float(text)
    except ValueError:
        if text.lower() in ("true", "false"):
            return float(text.lower() == "true")
        if ISO_DATE.fullmatch(text) is None:
            return None
    try:
        return float(np.datetime64(text.replace(" ", "T"), "us").astype(np.int64))
    except ValueError:
        return None


def _to_codes(columns: Sequence[ColumnArray]) -> tuple[tuple[str, ...], list[Floats]]:
    """Replace the categories of a column by their indices, in all tables together.

    Returns the categories in alphabetical order, and for each table an array of indices, with NaN for missing values.
    """
    levels = sorted({one for column in columns for one in column if one is not None})
    codes = {None: np.nan, **{level: float(place) for place, level in enumerate(levels)}}
    return tuple(levels), [np.array([codes[one] for one in column]) for column in columns]
