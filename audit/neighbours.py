"""Which datasets count as neighbours: adjacency relations, pairs of datasets, and generators of candidate pairs.

It checks datasets as the mechanism's author writes them and makes printable pairs. A dataset is any sequence of
hashable records; order never matters. Query answers are vectors of numbers.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.errors import AuditError, finite_at_least
from epsaudit.frames import describe, describe_pair, is_frame


@dataclass(frozen=True)
class DatasetPair:
    """Two datasets to be told apart, with a name that reports can print.

    Attributes
    ----------
    x, x_prime : any
        The two datasets, in whatever form the mechanism accepts.
    name : str
        A few words; by default the two datasets themselves, shortened.

    Examples
    --------
    >>> print(DatasetPair((0, 1), (0, 1, 1)))
    (0, 1) against (0, 1, 1)
    """

    x: Any
    x_prime: Any
    name: str = ""

    def __str__(self) -> str:
        frames = describe_pair(self.x, self.x_prime)
        return self.name or frames or f"{shorten(self.x)} against {shorten(self.x_prime)}"

    def swapped(self) -> DatasetPair:
        """Return the same pair with x and x' exchanged."""
        return dataclasses.replace(self, x=self.x_prime, x_prime=self.x)


class Adjacency(ABC):
    """A symmetric neighbouring relation between datasets."""

    description: str
    """What two neighbours may differ in, as the end of the sentence 'neighbours differ in ...'."""

    @abstractmethod
    def holds(self, x: Any, x_prime: Any) -> bool:
        """Say whether the two datasets are neighbours."""

    def check(self, pair: DatasetPair) -> None:
        """Raise `AuditError` with both datasets unless the pair is adjacent."""
        try:
            adjacent = self.holds(pair.x, pair.x_prime)
        except (TypeError, ValueError) as error:
            raise AuditError(
                f"The pair {pair} cannot be compared under {self} ({error}); a dataset is a sequence with one "
                "hashable records. Pass adjacency=None to vouch for the pairs yourself."
            ) from error
        if not adjacent:
            raise AuditError(f"The pair {pair} is not adjacent: under {self}, neighbours differ in {self.description}.")

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class AddRemove(Adjacency):
    """One dataset is the other with a single record removed (unbounded DP).

    Examples
    --------
    >>> AddRemove().holds([1, 2, 2], [2, 1]), AddRemove().holds([1, 2], [1, 3])
    (True, False)
    """

    description = "the presence of exactly one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        """See `Adjacency.holds`."""
        return sorted(_differences(x, x_prime)) == [0, 1]

    def __str__(self) -> str:
        return "add or remove one record"


@dataclass(frozen=True)
class Substitution(Adjacency):
    """The datasets have equal sizes and differ in a single record (bounded DP).

    Examples
    --------
    >>> Substitution().holds([1, 2], [3, 1]), Substitution().holds([1, 2], [1])
    (True, False)
    """

    description = "the value of exactly one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        """See `Adjacency.holds`."""
        return _differences(x, x_prime) == (1, 1)

    def __str__(self) -> str:
        return "substitute one record"


@dataclass(frozen=True)
class MaxChange(Adjacency):
    """Datasets are vectors of query answers, each of which one record can change by at most ``bound``.

    Examples
    --------
    >>> MaxChange(1.0).holds([0, 1, 1], [1, 1, 0]), MaxChange(1.0).holds([0], [2])
    (True, False)
    """

    bound: float = 1.0

    def __post_init__(self) -> None:
        finite_at_least(self.bound, 0.0, "bound of MaxChange")

    @property
    def description(self) -> str:  # type: ignore[override]  # depends on the bound
        """See `Adjacency.description`."""
        return f"each query answer by at most {self.bound:g}"

    def holds(self, x: Any, x_prime: Any) -> bool:
        """See `Adjacency.holds`; a relative slack of 1e-12 forgives rounding."""
        a, b = np.asarray(x, float), np.asarray(x_prime, float)
        return a.shape == b.shape and bool(np.all(np.abs(a - b) <= self.bound * (1 + 1e-12)))

    def __str__(self) -> str:
        return f"query answers within {self.bound:g}"


def leave_one_out(dataset: Sequence[Hashable]) -> Iterator[DatasetPair]:
    """Yield a pair (dataset, dataset without one record) for every distinct record in the dataset.

    Examples
    --------
    >>> [pair.x_prime for pair in leave_one_out((5, 7, 5))]
    [(7, 5), (5, 5)]
    """
    x = tuple(_records(dataset))
    for position in _first_positions(x):
        yield DatasetPair(
            x,
            x[:position] + x[position + 1 :],
            f"{len(x)} records against all but one with {x[position]!r}",
        )


def replace_one(dataset: Sequence[Hashable], records: Iterable[Hashable]) -> Iterator[DatasetPair]:
    """Yield a pair for every distinct record in the dataset replaced by every different one in ``records``.

    Examples
    --------
    >>> [pair.x_prime for pair in replace_one((0, 1), (0, 1))]
    [(1, 1), (0, 0)]
    """
    x, replacements = tuple(_records(dataset)), tuple(dict.fromkeys(records))
    for position in _first_positions(x):
        for record in replacements:
            if record != x[position]:
                yield DatasetPair(
                    x,
                    (*x[:position], record, *x[position + 1 :]),
                    f"{len(x)} records against one {x[position]!r} made {record!r}",
                )


def _first_positions(records: Sequence[Hashable]) -> list[int]:
    first: dict[Hashable, int] = {}
    for position, record in enumerate(records):
        first.setdefault(_comparable(record), position)
    return list(first.values())


def _differences(x: Any, x_prime: Any) -> tuple[int, int]:
    """Sizes of the multiset differences x \\ x' and x' \\ x."""
    ours, theirs = (Counter(map(_comparable, _records(dataset))) for dataset in (x, x_prime))
    return (ours - theirs).total(), (theirs - ours).total()


def _comparable(record: Hashable) -> Hashable:
    """The record itself, with a missing answer (nan) equal to any other."""
    if isinstance(record, tuple):
        return tuple(map(_comparable, record))
    return "nan" if isinstance(record, float) and math.isnan(record) else record


def _records(dataset: Any) -> Iterable[Hashable]:
    if isinstance(dataset, np.ndarray):
        return dataset.tolist() if dataset.ndim == 1 else map(tuple, dataset.tolist())
    return dataset  # type: ignore[no-any-return]  # checked by Counter


def shorten(dataset: Any, width: int = 48) -> str:
    """Represent a dataset in at most ``width`` characters."""
    text = describe(dataset) if is_frame(dataset) else repr(dataset)
    return text if len(text) <= width else f"{text[: width - 4]} ..."
