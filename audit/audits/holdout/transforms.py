"""Transforms of score columns, so that a difference of two records shows what a column tells about membership.

A transform sees the scores of all records together, and never to which part a record belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_REPEATED_VALUES = 4
"""[chosen] Largest number of repeated values of a column that have a transform of their own."""
MIN_EQUAL_SCORES = 3
"""[chosen] Smallest number of records with the same score that make the score a repeated value."""


@dataclass(frozen=True)
class Transform:
    """A transform of one score column: its name, and its values for all records, train records first."""

    name: str
    values: NDArray[np.float64]


def transforms(scores: NDArray[np.float64], names: Sequence[str]) -> Iterator[Transform]:
    """Yield the transforms of each column of ``scores``, which has shape (records, columns).

    The transforms of a column are its values, if they are finite, its ranks, the logarithms of its ranks counted from
    below and from above, and an indicator of each of the values that are repeated most often. The logarithms separate
    the extreme scores from each other. An indicator can show, for example, that the distance from a record to the
    release is 0, because the release contains a copy of the record. A column with two values has one transform, and a
    constant column has none.
    """
    for name, column in zip(names, scores.T, strict=True):
        values, place_of, counts = np.unique(column, return_inverse=True, return_counts=True)
        if len(values) == 1:
            continue
        if np.all(np.isfinite(values)):
            yield Transform(name, column)
        if len(values) == 2:
            if not np.all(np.isfinite(values)):
                yield Transform(f"rank of {name}", (column == values[1]).astype(float))
            continue
        at_most = np.cumsum(counts)
        below, above = at_most - counts, len(column) - at_most
        yield Transform(f"rank of {name}", ((below + (counts + 1) / 2.0) / len(column))[place_of])
        yield Transform(f"log rank of {name} from below", np.log(below + 1.0)[place_of])
        yield Transform(f"log rank of {name} from above", -np.log(above + 1.0)[place_of])
        most = np.argsort(-counts, kind="stable")[:MAX_REPEATED_VALUES]
        for place in most[counts[most] >= MIN_EQUAL_SCORES]:
            yield Transform(f"whether {name} is {values[place] + 0.0:g}", (column == values[place]).astype(float))
