"""Records of datasets of any type: how they are listed, compared and written as text.

The records are the items of a sequence, the rows of an array or of a frame of pandas or polars (neither is imported
here), or the entries (key, value) of a mapping.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Set
from typing import Any

from epsaudit.errors import AuditError, clipped

MAX_NAMES_LENGTH = 60
"""[chosen] Maximum number of characters for the names of the columns of a frame, or for one record, in a text."""


def shorten(dataset: Any, width: int = 48) -> str:
    """Return a text of a dataset or a record: one line with at most ``width`` characters."""
    if hasattr(dataset, "columns") and is_frame(dataset):
        return clipped(describe_frame(dataset), width)
    if hasattr(dataset, "to_frame") and hasattr(dataset, "to_list") and hasattr(dataset, "head"):
        return clipped(f"{type(dataset).__name__}({dataset.head(width).to_list()})", width)  # of a series
    try:
        shown = repr(dataset)
    except ValueError:  # Python refuses to write whole numbers with more than 4,300 digits
        shown = hex(dataset) if isinstance(dataset, int) else f"a {type(dataset).__name__} that cannot be written"
    return clipped(re.sub(r"\s*\n\s*", " ", shown), width)


def is_frame(value: Any) -> bool:
    """Return whether a value is a table with named columns: a frame of pandas or polars."""
    return hasattr(value, "columns") and (hasattr(value, "itertuples") or hasattr(value, "iter_rows"))


def describe_frame(frame: Any) -> str:
    """Return a text with the type, the number of rows and the names of the columns of a frame."""
    names = ", ".join(map(str, frame.columns))
    names = names if len(names) <= MAX_NAMES_LENGTH else f"{len(frame.columns)} columns from {frame.columns[0]} on"
    rows = "1 row" if len(frame) == 1 else f"{len(frame):,} rows"
    return f"{type(frame).__name__} of {rows}: {names or 'no columns'}"


def distinct_records(dataset: Any) -> tuple[tuple[Any, ...], list[int]]:
    """Return all records of a dataset, and the position at which each distinct record occurs first."""
    try:
        records = tuple(list_records(dataset))
    except TypeError as error:
        raise AuditError(f"{shorten(dataset)} is no dataset of records: {error}.") from None
    first: dict[Hashable, int] = {}
    for position, record in enumerate(records):
        first.setdefault(comparison_value(record), position)
    return records, list(first.values())


def count_differences(x: Any, x_prime: Any) -> tuple[int, int]:
    """Return the number of records that are only in x, and the number of records that are only in x'."""
    if is_frame(x) and is_frame(x_prime) and list(x.columns) != list(x_prime.columns):
        raise ValueError(f"their columns are {list(x.columns)} and {list(x_prime.columns)}")
    ours, theirs = (Counter(map(comparison_value, list_records(dataset))) for dataset in (x, x_prime))
    return (ours - theirs).total(), (theirs - ours).total()


def comparison_value(record: Any) -> Hashable:
    """Return a hashable value by which records are compared: lists become tuples, and all NaN are equal."""
    if isinstance(record, (int, str)):
        return record
    if isinstance(record, Mapping):
        return frozenset((key, comparison_value(value)) for key, value in record.items())
    if isinstance(record, Set):
        return frozenset(record)
    if isinstance(record, (tuple, list)):
        return tuple(map(comparison_value, record))
    if isinstance(record, float) and math.isnan(record):
        return "nan"
    listed = record.tolist() if hasattr(record, "tolist") else record  # values of numpy
    return record if listed is record else comparison_value(listed)


def list_records(dataset: Any) -> Iterable[Any]:
    """Return the records of a dataset: items of a sequence, rows of an array or frame, or entries of a mapping."""
    if is_frame(dataset):
        pandas = hasattr(dataset, "itertuples")
        return map(tuple, dataset.itertuples(index=False, name=None) if pandas else dataset.iter_rows())
    if isinstance(dataset, Mapping):
        return dataset.items()
    rows: Iterable[Any] = dataset.tolist() if hasattr(dataset, "tolist") else dataset
    return map(tuple, rows) if getattr(dataset, "ndim", 1) == 2 else rows
