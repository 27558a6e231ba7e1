"""Queries of bounded sensitivity: a number, votes for candidates, and sums of clipped vectors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.base import positive
from epsaudit.mechanisms.queries.monotone import Dataset


@dataclass(frozen=True)
class NumericQuery:
    """A query whose answer is a number; by default, the number of records.

    >>> NumericQuery()(("ann", "bob"))
    2
    """

    function: Callable[[Any], float] = len  # ``function(dataset) -> number``
    sensitivity: float = 1.0  # greatest change of the number between neighbours, in its own unit
    adjacency: Adjacency = field(default_factory=AddRemove)  # the relation that the sensitivity is for
    pairs: tuple[DatasetPair, ...] = (DatasetPair((), ("ann",)),)  # neighbours whose answers differ by the sensitivity

    def __post_init__(self) -> None:
        positive(self.sensitivity, "sensitivity of the query")

    def __call__(self, dataset: Any) -> float:
        return self.function(dataset)


HEAD_COUNT = NumericQuery()


class Utilities(Protocol):
    """The utility of each candidate for a dataset, by which selection mechanisms choose."""

    @property
    def candidates(self) -> tuple[Hashable, ...]:
        """The objects that can be selected."""

    @property
    def sensitivity(self) -> float:
        """Greatest change of one candidate's utility between neighbours."""

    @property
    def adjacency(self) -> Adjacency:
        """The relation that the sensitivity is for."""

    def __call__(self, dataset: Any) -> NDArray[np.float64]:
        """Return the utility of each candidate, shape (number of candidates,)."""

    def lead(self, gap: int) -> DatasetPair:
        """Return neighbours, the first of which favours the first candidate over the second by ``gap`` sensitivities.

        From the first dataset to the second, the utility of the first candidate falls or stays, and that of the second
        candidate rises, each by as much as the adjacency allows.
        """


@dataclass(frozen=True)
class VoteCounts:
    """Number of voters for each candidate, where one vote may move, so that two counts change by one.

    A record that is not a candidate counts for no candidate.

    >>> VoteCounts(("red", "blue"))(("red", "red", "blue", "green")).tolist()
    [2.0, 1.0]
    >>> print(VoteCounts().lead(3))
    red ahead by 3 votes against 1
    """

    sensitivity: ClassVar[float] = 1.0  # one vote
    candidates: tuple[Hashable, ...] = ("red", "blue")  # at least two, all different
    adjacency = Substitution()

    def __post_init__(self) -> None:
        if len(self.candidates) < 2 or len(set(self.candidates)) != len(self.candidates):
            raise AuditError(f"The candidates are {self.candidates!r}; there must be at least two, all different.")

    def __call__(self, dataset: Dataset) -> NDArray[np.float64]:
        votes = Counter(dataset)
        return np.array([votes[candidate] for candidate in self.candidates], float)

    def lead(self, gap: int) -> DatasetPair:
        """See `Utilities.lead`: the lead falls from ``gap`` votes to ``gap - 2``."""
        gap = whole_at_least(gap, 0, "gap between the candidates")
        first, second = self.candidates[:2]
        # a tie needs a vote for each candidate, so that some voter can change
        others = (first,) * (gap - 1) if gap else (second,)
        return DatasetPair((*others, first), (*others, second), f"{first} ahead by {gap} votes against {gap - 2}")


@dataclass(frozen=True)
class MonotoneVoteCounts(VoteCounts):
    """Number of voters for each candidate, where one voter may join or leave: all counts move in one direction.

    >>> print(MonotoneVoteCounts().lead(3))
    red ahead by 3 votes against 2
    """

    adjacency = AddRemove()

    def lead(self, gap: int) -> DatasetPair:
        """See `Utilities.lead`: the lead falls from ``gap`` votes to ``gap - 1``."""
        gap = whole_at_least(gap, 0, "gap between the candidates")
        first, second = self.candidates[:2]
        x = (first,) * gap
        return DatasetPair(x, (*x, second), f"{first} ahead by {gap} votes against {gap - 1}")


VOTES = VoteCounts()
MONOTONE_VOTES = MonotoneVoteCounts()


Vectors = Sequence[tuple[float, ...]]


@dataclass(frozen=True)
class ClippedSum:
    """The sum of vectors, of which those longer than ``radius`` are shortened to it: the l2 sensitivity is ``radius``.

    Source: differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity', note 1.

    Raises `AuditError` if the radius is not above 0, or a record has another dimension.

    >>> ClippedSum(2)([(3.0, 4.0), (0.0, 0.5)]).round(6).tolist()
    [0.6, 1.3]
    """

    dimension: int
    radius: float = 1.0
    adjacency = AddRemove()

    def __post_init__(self) -> None:
        whole_at_least(self.dimension, 1, "dimension")
        positive(self.radius, "radius")

    @property
    def sensitivity(self) -> float:
        return self.radius

    @property
    def pairs(self) -> tuple[DatasetPair, ...]:
        """An empty dataset, and a record along the diagonal: no coordinate changes by as much as the vector does."""
        coordinate = self.radius / math.sqrt(self.dimension)
        return (DatasetPair((), ((coordinate,) * self.dimension,), "nobody against one record on the diagonal"),)

    def __call__(self, dataset: Vectors) -> NDArray[np.float64]:
        vectors = (
            np.asarray(dataset, float).reshape(len(dataset), -1) if len(dataset) else np.empty((0, self.dimension))
        )
        if vectors.shape[1] != self.dimension:
            raise AuditError(f"The records have dimension {vectors.shape[1]}; it must be {self.dimension}.")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray((vectors * np.minimum(1.0, self.radius / np.maximum(lengths, 1e-300))).sum(axis=0))
