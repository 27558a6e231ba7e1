"""Queries, each with what its privacy proofs need to know about it.

A query maps a dataset to a number or a vector of utilities or losses. Sensitivity, adjacency and the datasets that move
the answer most belong to the query, so that a mechanism needs no assumptions about it.
"""

from epsaudit.mechanisms.queries.bounded import (
    HEAD_COUNT,
    MONOTONE_VOTES,
    VOTES,
    ClippedSum,
    MonotoneVoteCounts,
    NumericQuery,
    Utilities,
    VoteCounts,
)
from epsaudit.mechanisms.queries.grid import Indices
from epsaudit.mechanisms.queries.monotone import Dataset, LossCurve, MonotoneHull, MonotoneQuery
from epsaudit.mechanisms.queries.scalar import DistinctValues, KthLargest, Maximum, Sum, Total

__all__ = [
    "HEAD_COUNT",
    "MONOTONE_VOTES",
    "VOTES",
    "ClippedSum",
    "Dataset",
    "DistinctValues",
    "Indices",
    "KthLargest",
    "LossCurve",
    "Maximum",
    "MonotoneHull",
    "MonotoneQuery",
    "MonotoneVoteCounts",
    "NumericQuery",
    "Sum",
    "Total",
    "Utilities",
    "VoteCounts",
]
