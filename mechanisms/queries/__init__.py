"""What people ask of a dataset: queries, each with what its privacy proofs need to know about it.

A dataset of persons enters, a number or a vector of utilities or losses leaves. Sensitivity, adjacency and the
datasets that move the answer most belong to the query, so that a mechanism has nothing to guess.
"""

from mechanisms.queries.distinct import DistinctValues
from mechanisms.queries.grid import Indices
from mechanisms.queries.hull import MonotoneHull
from mechanisms.queries.monotone import Dataset, LossCurve, MonotoneQuery
from mechanisms.queries.order import KthLargest, Maximum
from mechanisms.queries.totals import Sum, Total
from mechanisms.queries.votes import (
    HEAD_COUNT,
    MONOTONE_VOTES,
    VOTES,
    MonotoneVoteCounts,
    NumericQuery,
    Utilities,
    VoteCounts,
)

__all__ = [
    "HEAD_COUNT",
    "MONOTONE_VOTES",
    "VOTES",
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
