"""Queries: numbers, utilities or losses, each with the sensitivity, adjacency and pairs that privacy proofs need."""

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
