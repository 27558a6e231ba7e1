"""Records and release in the forms that scores need: distinct records, ranks, standardised numbers, codes and bins.

Nothing here depends on which record is in train, or on the order of the rows. Equal records share one row, and the
distinct records are sorted by their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats, Ints
from epsaudit.tools.holdout.tables import Table

BINS = 16
"""[chosen] Number of quantile bins of a column of numbers that has more distinct values than this."""
EXTREME = 5.0
"""[chosen] Standardised numbers are limited to this absolute value, so that an outlier in one column does not decide
every distance."""
MISSING_NUMBER = -3.0 * EXTREME
"""[chosen] The standardised number that stands for a missing value; it is far from all others."""


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """The distinct records of a table, one row per distinct record, in the forms that the scores need.

    The table is either the released table, or train and holdout together. Rows are sorted by their values.

    Attributes
    ----------
    ranks : float32 array of shape (rows, columns)
        Mid-ranks in [0, 1] of numbers, and codes of categories. A missing number is -1.
    scaled : float32 array of shape (rows, columns)
        Standardised numbers, and codes of categories.
    codes : int array of shape (rows, columns)
        Place of each value among the distinct values of its column; a missing value comes first.
    bins : int array of shape (rows, columns)
        Bins of numbers. Categories are numbered by their frequency, the most common one 0.
    counts : float array of shape (rows,)
        How many records are equal to each row.
    """

    ranks: NDArray[np.float32]
    scaled: NDArray[np.float32]
    codes: Ints
    bins: Ints
    counts: Floats

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True, eq=False)
class Encoded:
    """The records (train and holdout in one table) and the released table, both encoded in the same way.

    Attributes
    ----------
    records, release : EncodedRows
        The distinct records of each.
    row_of : int array of shape (n_records,)
        The row of ``records`` that is equal to each pooled record.
    copies : float array of shape (rows of records,)
        How many records of the release are equal to each row of ``records``.
    is_number : bool array of shape (columns,)
        Whether each column contains numbers.
    """

    records: EncodedRows
    release: EncodedRows
    row_of: Ints
    copies: Floats
    is_number: NDArray[np.bool_]


def encode_tables(records: Table, release: Table) -> Encoded:
    """Encode records (train and holdout in one table) and a released table with the same columns, and return both.

    >>> records = Table(("age",), (None,), np.array([[30.0], [20.0], [30.0]]))
    >>> found = encode_tables(records, Table(("age",), (None,), np.array([[30.0], [40.0]])))
    >>> found.records.counts, found.row_of, found.copies
    (array([1., 2.]), array([1, 0, 1]), array([0., 1.]))
    """
    values = np.concatenate([records.values, release.values])
    forms = [
        _encode_numbers(column) if number else _encode_categories(column)
        for column, number in zip(values.T, records.is_number, strict=True)
    ]
    codes, ranks, scaled, bins = (np.stack(form, axis=1) for form in zip(*forms, strict=True))
    first, group = find_distinct_rows(codes)
    n = len(records)
    counts = [np.bincount(group[rows], minlength=len(first)).astype(float) for rows in (slice(n), slice(n, None))]
    parts = []
    for count in counts:
        rows = first[count > 0]
        parts.append(EncodedRows(ranks[rows], scaled[rows], codes[rows], bins[rows], count[count > 0]))
    place = np.cumsum(counts[0] > 0) - 1
    return Encoded(parts[0], parts[1], place[group[:n]], counts[1][counts[0] > 0], records.is_number)


def _encode_numbers(column: Floats) -> tuple[NDArray[Any], ...]:
    """Encode a column of numbers; return its codes, ranks, standardised numbers and bins as four arrays.

    `EncodedRows` describes these forms.
    """
    distinct, codes, sizes = np.unique(column, return_inverse=True, return_counts=True)
    missing = np.isnan(column)
    known = sizes[~np.isnan(distinct)]
    mid_ranks = (np.cumsum(known) - known / 2.0) / max(1, known.sum())
    ranks = np.where(missing, -1.0, np.append(mid_ranks, 0.0)[np.minimum(codes, len(known))])
    codes = np.where(missing, 0, codes + 1)
    bins = codes if len(distinct) <= BINS else np.where(missing, 0, (ranks * BINS).astype(int) + 1)
    finite = column[np.isfinite(column)]
    centre, scale = (np.median(finite), np.std(finite)) if len(finite) else (0.0, 1.0)
    if len(finite):
        low, high = np.quantile(finite, [0.25, 0.75])
        scale = (high - low) / 1.35 or scale or 1.0  # the interquartile range of a normal law is 1.35
    scaled = np.clip((column - centre) / scale, -EXTREME, EXTREME)
    scaled = np.where(missing, MISSING_NUMBER, scaled)
    return codes, ranks.astype(np.float32), scaled.astype(np.float32), bins


def _encode_categories(column: Floats) -> tuple[NDArray[Any], ...]:
    """Encode a column of categories; return four arrays, in the same order as `_encode_numbers`.

    The first three are the same codes. The last one numbers the categories by their frequency, the most common one 0.
    """
    _, codes, sizes = np.unique(column, return_inverse=True, return_counts=True)
    by_frequency = np.argsort(np.argsort(-sizes, kind="stable"))
    return codes, codes.astype(np.float32), codes.astype(np.float32), by_frequency[codes]


def find_distinct_rows(codes: Ints) -> tuple[Ints, Ints]:
    """Find the distinct rows of a matrix, sorted by their values.

    Returns the index of the first occurrence of each distinct row, and for each row of the matrix the number of its
    distinct row.
    """
    order = np.lexsort(codes.T)
    starts = np.ones(len(codes), bool)
    starts[1:] = np.any(codes[order[1:]] != codes[order[:-1]], axis=1)
    group = np.empty(len(codes), np.int64)
    group[order] = np.cumsum(starts) - 1
    return order[starts], group
