"""What people ask of a dataset: queries, each with what its privacy proofs need to know about it.

A dataset of persons enters, a number or a vector of utilities or losses leaves. Sensitivity, adjacency and the
datasets that move the answer most belong to the query, so that a mechanism has nothing to guess.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError, whole_at_least
from audit.neighbours import AddRemove, Adjacency, DatasetPair, Substitution
from mechanisms.base import positive

Dataset = Sequence[Hashable]
Indices = NDArray[np.uint64]
LossCurve = Callable[[Indices], NDArray[np.int64]]


@dataclass(frozen=True)
class NumericQuery:
    """A number asked of a dataset; by default, how many persons there are.

    Parameters
    ----------
    function : callable
        ``function(dataset) -> number``.
    sensitivity : float
        Greatest change of the number between neighbours, in its own unit.
    adjacency : Adjacency
        The relation that the sensitivity is for.
    pairs : tuple of DatasetPair
        Neighbours whose answers differ by the sensitivity.

    Examples
    --------
    >>> NumericQuery()(("ann", "bob"))
    2
    """

    function: Callable[[Any], float] = len
    sensitivity: float = 1.0
    adjacency: Adjacency = field(default_factory=AddRemove)
    pairs: tuple[DatasetPair, ...] = (DatasetPair((), ("ann",)),)

    def __post_init__(self) -> None:
        positive(self.sensitivity, "sensitivity of the query")

    def __call__(self, dataset: Any) -> float:
        """Answer the query."""
        return self.function(dataset)


HEAD_COUNT = NumericQuery()


class Utilities(Protocol):
    """How good each candidate is for a dataset: what selection mechanisms choose by."""

    @property
    def candidates(self) -> tuple[Hashable, ...]:
        """What can be selected."""

    @property
    def sensitivity(self) -> float:
        """Greatest change of one candidate's utility between neighbours."""

    @property
    def adjacency(self) -> Adjacency:
        """The relation that the sensitivity is for."""

    def __call__(self, dataset: Any) -> NDArray[np.float64]:
        """Return the utility of each candidate, shape (number of candidates,)."""

    def lead(self, gap: int) -> DatasetPair:
        """Neighbours, the first of which favours the first candidate over the second by ``gap`` sensitivities.

        From the first dataset to the second the first candidate's utility falls, or stays, and the second
        candidate's rises, each by as much as the adjacency allows.
        """


@dataclass(frozen=True)
class VoteCounts:
    """How many persons chose each candidate, where one vote may move: two counts change by one.

    A record that is no candidate counts for none.

    Parameters
    ----------
    candidates : tuple of hashable
        At least two, all different.

    Examples
    --------
    >>> VoteCounts(("red", "blue"))(("red", "red", "blue", "green")).tolist()
    [2.0, 1.0]
    >>> print(VoteCounts().lead(3))
    red ahead by 3 votes against 1
    """

    candidates: tuple[Hashable, ...] = ("red", "blue")

    def __post_init__(self) -> None:
        if len(self.candidates) < 2 or len(set(self.candidates)) != len(self.candidates):
            raise AuditError(f"The candidates are {self.candidates!r}; there must be at least two, all different.")

    @property
    def sensitivity(self) -> float:
        """One vote."""
        return 1.0

    @property
    def adjacency(self) -> Adjacency:
        """Substitution: one person votes differently."""
        return Substitution()

    def __call__(self, dataset: Dataset) -> NDArray[np.float64]:
        """Return each candidate's votes, shape (number of candidates,)."""
        votes = Counter(dataset)
        return np.array([votes[candidate] for candidate in self.candidates], float)

    def lead(self, gap: int) -> DatasetPair:
        """See `Utilities.lead`: the lead falls from ``gap`` votes to ``gap - 2``."""
        gap = whole_at_least(gap, 0, "gap between the candidates")
        first, second = self.candidates[:2]
        # a tie needs a vote for each: somebody must be there who can change
        others = (first,) * (gap - 1) if gap else (second,)
        return DatasetPair((*others, first), (*others, second), f"{first} ahead by {gap} votes against {gap - 2}")


@dataclass(frozen=True)
class MonotoneVoteCounts(VoteCounts):
    """How many persons chose each candidate, where one person may join or leave: counts move in one direction only.

    Examples
    --------
    >>> print(MonotoneVoteCounts().lead(3))
    red ahead by 3 votes against 2
    """

    @property
    def adjacency(self) -> Adjacency:
        """Add or remove: one person votes or does not."""
        return AddRemove()

    def lead(self, gap: int) -> DatasetPair:
        """See `Utilities.lead`: the lead falls from ``gap`` votes to ``gap - 1``."""
        gap = whole_at_least(gap, 0, "gap between the candidates")
        first, second = self.candidates[:2]
        x = (first,) * gap
        return DatasetPair(x, (*x, second), f"{first} ahead by {gap} votes against {gap - 1}")


VOTES = VoteCounts()
MONOTONE_VOTES = MonotoneVoteCounts()


class MonotoneQuery(ABC):
    """A query f with answers in a finite ordered set Y = {y_0 < y_1 < ...}, that persons can only raise.

    f(x') <= f(x) for every sub-multiset x' of x, and f(empty) = y_0. Its loss l(x, y) is the least number of persons
    whose removal brings f down to y or below (differentialprivacy.org, 'Beyond Local Sensitivity via Down
    Sensitivity', Equation 4); neighbours under add/remove have losses within 1 of each other (Proposition 3).

    Outputs are addressed by index, so that Y need not fit into memory: up to 2^64 outputs.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of outputs, |Y|."""

    @abstractmethod
    def outputs_at(self, indices: Indices) -> NDArray[Any]:
        """Outputs y_i at the given indices, which are unsigned 64-bit integers below ``size``."""

    @abstractmethod
    def indices_of(self, outputs: NDArray[Any]) -> tuple[Indices, NDArray[np.bool_]]:
        """Index of each output, and whether it is in Y at all (where it is not, the index means nothing)."""

    @abstractmethod
    def value(self, dataset: Dataset) -> Any:
        """Return f(dataset), an element of Y."""

    @abstractmethod
    def loss(self, dataset: Dataset) -> LossCurve:
        """Prepare the loss on one dataset: a function from indices i to l(dataset, y_i)."""

    @abstractmethod
    def crowd(self, loss: int) -> Dataset:
        """Return a dataset whose loss is ``loss`` at every output but the greatest, where it is 0.

        The crowds for ``loss`` and ``loss + 1`` are neighbours: together they are the worst pair of every
        mechanism that sees the dataset only through its losses.
        """

    @property
    def outputs(self) -> NDArray[Any]:
        """All of Y, in increasing order, shape (size,)."""
        return self.outputs_at(self._all_indices())

    def losses(self, dataset: Dataset) -> NDArray[np.int64]:
        """l(dataset, y) for every y in Y, shape (size,)."""
        return self.loss(dataset)(self._all_indices())

    def strict_losses(self, dataset: Dataset) -> NDArray[np.float64]:
        """Fewest removals that bring f strictly below y, for every y in Y, shape (size,); infinite at the least y.

        Equation A of the source: below y_i means at most y_{i-1}, because Y is finite.
        """
        return np.concatenate([[math.inf], self.losses(dataset)[:-1]])

    def _all_indices(self) -> Indices:
        if self.size > 2**24:
            raise AuditError(
                f"Y has {self.size} outputs; at most {2**24} can be listed. A binary search needs no list."
            )
        return np.arange(self.size, dtype=np.uint64)


@dataclass(frozen=True)
class Maximum(MonotoneQuery):
    """The greatest record, rounded up to the grid of outputs; records above the grid count as its last point.

    Parameters
    ----------
    grid : tuple of float, or range
        Y in increasing order. A range may be longer than memory allows.

    Raises
    ------
    AuditError
        If the grid has fewer than two points or does not increase, or if a record is NaN.

    Examples
    --------
    >>> query = Maximum((0, 1, 2, 3))
    >>> query.value((1, 1, 2.5)), query.losses((1, 1, 2.5)).tolist(), query.strict_losses((1, 1, 2.5)).tolist()
    (3, [3, 1, 1, 0], [inf, 3.0, 1.0, 1.0])
    """

    grid: tuple[float, ...] | range

    def __post_init__(self) -> None:
        if isinstance(self.grid, range):
            if self.grid.step < 1 or self.size < 2 or self.grid.start < -(2**63) or self._last >= 2**64:
                raise AuditError(f"The grid is {self.grid}; it must increase, with at least two 64-bit integers.")
            if self.grid.start < 0 and self._last >= 2**63:
                raise AuditError(f"The grid is {self.grid}; its points must fit one 64-bit type, signed or unsigned.")
        elif len(self.grid) < 2 or not bool(np.all(np.diff(np.asarray(self.grid, float)) > 0)):
            raise AuditError(f"The grid is {self.grid!r}; it must be an increasing tuple of at least two numbers.")

    @property
    def _last(self) -> int:
        return self.grid[-1] if self.grid else 0  # type: ignore[return-value]  # asked of ranges only

    @property
    def size(self) -> int:
        """See `MonotoneQuery.size`; ``len`` of a range fails beyond 2^63."""
        if isinstance(self.grid, range):
            return max(0, -((self.grid.start - self.grid.stop) // self.grid.step))
        return len(self.grid)

    def outputs_at(self, indices: Indices) -> NDArray[Any]:
        """See `MonotoneQuery.outputs_at`."""
        if not isinstance(self.grid, range):
            return np.array(self.grid)[indices]
        # unsigned arithmetic wraps round, so one formula serves negative starts as well
        points = np.uint64(self.grid.start % 2**64) + indices * np.uint64(self.grid.step)
        return points if self._last >= 2**63 else points.astype(np.int64)

    def indices_of(self, outputs: NDArray[Any]) -> tuple[Indices, NDArray[np.bool_]]:
        """See `MonotoneQuery.indices_of`."""
        if not isinstance(self.grid, range):
            points = np.array(self.grid)
            indices = np.minimum(np.searchsorted(points, outputs), self.size - 1).astype(np.uint64)
            return indices, points[indices] == outputs
        if outputs.dtype.kind == "f":
            raise AuditError("The outputs are floating-point numbers; a grid that is a range has integer outputs.")
        inside = (outputs >= self.grid.start) & (outputs <= self._last)
        offset = np.where(inside, outputs, 0).astype(np.uint64) - np.uint64(self.grid.start % 2**64)
        indices, remainder = np.divmod(offset, np.uint64(self.grid.step))
        return indices, inside & (remainder == 0)

    def value(self, dataset: Dataset) -> Any:
        """See `MonotoneQuery.value`; the least point of the grid for an empty dataset."""
        return self.grid[max(self._ranks(dataset), default=0)]

    def loss(self, dataset: Dataset) -> LossCurve:
        """See `MonotoneQuery.loss`: the number of records above y."""
        ranks = np.sort(np.array(self._ranks(dataset), dtype=np.uint64))
        return partial(_count_above, ranks)

    def crowd(self, loss: int) -> Dataset:
        """See `MonotoneQuery.crowd`: ``loss`` persons at the greatest output."""
        return (self.grid[-1],) * loss

    def _ranks(self, dataset: Dataset) -> list[int]:
        """Index of the least grid point at or above each record."""
        return [self._rank(record) for record in dataset]

    def _rank(self, record: Any) -> int:
        if record != record:
            raise AuditError("A record is NaN; the maximum needs records that can be ordered.")
        if not record > self.grid[0]:
            return 0
        if not record < self.grid[-1]:
            return self.size - 1
        if isinstance(self.grid, range):
            return int(-((self.grid.start - math.ceil(record)) // self.grid.step))
        return bisect_left(self.grid, record)


def _count_above(ranks: Indices, indices: Indices) -> NDArray[np.int64]:
    return np.asarray(len(ranks) - np.searchsorted(ranks, indices, side="right"), dtype=np.int64)
