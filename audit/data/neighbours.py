"""Neighbouring relations and pairs of datasets.

A dataset is a collection of records, whose order never matters; `epsaudit.data.records` says what the records of each
type of dataset are.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from epsaudit.data.records import (
    MAX_NAMES_LENGTH,
    comparison_value,
    count_differences,
    distinct_records,
    is_frame,
    list_records,
    shorten,
)
from epsaudit.errors import AuditError, clipped, finite_at_least

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

RELATION_NOTE = "neighbours under "
"""The beginning of the note in a result that names its neighbouring relations."""


@dataclass(frozen=True)
class DatasetPair:
    """Two datasets x and x', of any type that the mechanism accepts, with a name.

    If the pair has no name, its text is a short text of both datasets.

    >>> print(DatasetPair((0, 1), (0, 1, 1)))
    (0, 1) against (0, 1, 1)
    >>> str(DatasetPair([0] * 99, [0] * 98 + [1])).partition("; ")[2]
    'record 98 is 0 against 1 (99 against 99 records)'
    """

    x: Any
    x_prime: Any
    name: str = ""

    def __str__(self) -> str:
        if self.name:
            return self.name
        x, x_prime = map(shorten, (self.x, self.x_prime))
        if x == x_prime:
            with contextlib.suppress(Exception):  # datasets may have any type
                sides = [
                    [shorten(record, sys.maxsize) for record in list_records(side)] for side in (self.x, self.x_prime)
                ]
                for number, (one, other) in enumerate(itertools.zip_longest(*sides, fillvalue="none")):
                    if one != other:
                        shown = " against ".join(
                            clipped(" ".join(side.split()), MAX_NAMES_LENGTH) for side in (one, other)
                        )
                        sizes = " against ".join(f"{len(side):,}" for side in sides)
                        return f"{x} against {x_prime}; record {number} is {shown} ({sizes} records)"
        return f"{x} against {x_prime}"

    def swapped(self) -> DatasetPair:
        """Return the same pair with x and x' exchanged."""
        return DatasetPair(self.x_prime, self.x, self.name)


class Adjacency(ABC):
    """A symmetric neighbouring relation between datasets."""

    name = ""
    """The name in reports; if it is empty, reports use the name of the class."""
    description: str
    """How two neighbours may differ, as the end of the sentence 'neighbours differ in ...'."""

    @abstractmethod
    def holds(self, x: Any, x_prime: Any) -> bool:
        """Return whether the two datasets are neighbours."""

    def check(self, pair: DatasetPair) -> None:
        """Raise `AuditError` if the datasets of the pair are not neighbours, or cannot be compared."""
        try:
            adjacent = self.holds(pair.x, pair.x_prime)
        except Exception as error:  # datasets may have any type, and users define relations
            how = "Pass adjacency=None to vouch for it."
            raise AuditError(f"The pair {pair} cannot be compared under {self} ({error}). {how}") from error
        if not adjacent:
            raise AuditError(f"The pair {pair} is not adjacent: under {self}, neighbours differ in {self.description}.")

    def __str__(self) -> str:
        return self.name or type(self).__name__


@dataclass(frozen=True)
class AddRemove(Adjacency):
    """The relation of two datasets if removing a single record from one of them gives the other (unbounded DP).

    >>> AddRemove().holds([1, 2, 2], [2, 1]), AddRemove().holds({"ann": 2}, {"ann": 9, "bob": 4})
    (True, False)
    """

    name = "add or remove one record"
    description = "the presence of exactly one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return sorted(count_differences(x, x_prime)) == [0, 1]


@dataclass(frozen=True)
class Substitution(Adjacency):
    """The relation of datasets of equal size that differ in a single record (bounded DP)."""

    name = "substitute one record"
    description = "the value of exactly one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return count_differences(x, x_prime) == (1, 1)


@dataclass(frozen=True)
class MaxChange(Adjacency):
    """The relation of two vectors of query answers in which no answer differs by more than ``bound``."""

    bound: float = 1.0

    def __post_init__(self) -> None:
        finite_at_least(self.bound, 0.0, "bound of MaxChange")

    @property
    def description(self) -> str:  # type: ignore[override]  # depends on the bound
        return f"each query answer by at most {self.bound:g}"

    def holds(self, x: Any, x_prime: Any) -> bool:
        a, b = np.asarray(x, float), np.asarray(x_prime, float)
        return a.shape == b.shape and bool(np.all(np.abs(a - b) <= self.bound * (1 + 1e-12)))  # for rounding

    def __str__(self) -> str:
        return f"query answers within {self.bound:g}"


def leave_one_out(dataset: Any) -> Iterator[DatasetPair]:
    """Yield a pair (dataset, dataset without one record) for every distinct record in the dataset.

    Frames and mappings keep their type; other datasets become tuples.

    >>> [pair.x_prime for pair in leave_one_out({"ann": 1, "bob": 2})]
    [{'bob': 2}, {'ann': 1}]
    """
    records, first = distinct_records(dataset)
    x: Any = dataset if is_frame(dataset) or isinstance(dataset, Mapping) else records
    for position in first:
        others = [place != position for place in range(len(records))]
        if is_frame(x):
            x_prime = x[others] if hasattr(x, "itertuples") else x.filter(others)
        else:
            x_prime = type(x)(itertools.compress(records, others))
        yield DatasetPair(x, x_prime, f"{len(records)} records against all but one with {records[position]!r}")


def replace_one(dataset: Iterable[Any], records: Iterable[Any]) -> Iterator[DatasetPair]:
    """Yield pairs of the dataset and a dataset in which one of its records is replaced by another record.

    There is a pair for every distinct record of the dataset and every different record in ``records``.

    >>> [pair.x_prime for pair in replace_one((0, 1), (0, 1))]
    [(1, 1), (0, 0)]
    """
    if is_frame(dataset) or isinstance(dataset, Mapping):
        raise AuditError(f"{shorten(dataset)} is a frame or a mapping; replace_one takes a sequence or an array.")
    (x, first), (replacements, others) = distinct_records(dataset), distinct_records(records)
    for position in first:
        for record in (replacements[place] for place in others):
            if comparison_value(record) != comparison_value(x[position]):
                name = f"{len(x)} records against one {shorten(x[position], 999)} made {shorten(record, 999)}"
                yield DatasetPair(x, (*x[:position], record, *x[position + 1 :]), name)


MAX_COUNTED_RECORDS = 100_000
"""[time] Maximum number of records in two datasets that are compared only to write a note: a tenth of a second."""


def describe_distance(pair: DatasetPair, symbol: str) -> str:
    """Return a note on the number of records by which two datasets differ, and on the loss that a claim then allows.

    The note is for pairs that no neighbouring relation has checked. It is '' if the datasets differ in at most one
    record, or if the number is not computed: datasets may have any type, be texts, or be too large. ``symbol`` is the
    name of the claim's parameter, such as 'epsilon'.
    """
    records = 0
    with contextlib.suppress(Exception):  # datasets may have any type
        if not isinstance(pair.x, (str, bytes)) and len(pair.x) + len(pair.x_prime) <= MAX_COUNTED_RECORDS:
            records = max(count_differences(pair.x, pair.x_prime))
    times = records**2 if symbol == "rho" else records
    allowed = f"a claim for neighbours allows {times:,} times its {symbol}"
    return f"the datasets differ in {records:,} records: {allowed}" if records > 1 else ""


HOW_TO_WRITE_PAIRS = (
    "write (x, x_prime) or DatasetPair(x, x_prime), a list of those, or a strategy of hypothesis that draws them"
)

Pairs: TypeAlias = "DatasetPair | tuple[Any, Any] | Iterable[DatasetPair | tuple[Any, Any]] | SearchStrategy[Any]"
"""The types by which users may give pairs of datasets."""
Relation: TypeAlias = Adjacency | type[Adjacency]
"""The types by which users may give a neighbouring relation. The class `AddRemove` stands for `AddRemove()`."""


def adjacency_of(adjacency: Any) -> Adjacency | None:
    """Return the neighbouring relation for an argument ``adjacency``.

    A class is replaced by its instance. None means that the caller guarantees that the pairs are neighbours, and is
    returned. Raises `AuditError` for any other value.
    """
    if isinstance(adjacency, type) and issubclass(adjacency, Adjacency):
        with contextlib.suppress(TypeError):  # the class is abstract or has required arguments
            return adjacency()
    if adjacency is not None and not isinstance(adjacency, Adjacency):
        they = "AddRemove(), Substitution(), MaxChange(bound), or None, by which you vouch for the pairs"
        raise AuditError(f"adjacency is {adjacency!r}; it must be {they}.")
    return adjacency


def is_strategy(value: Any) -> bool:
    """Return whether a value is a strategy of hypothesis, without importing hypothesis."""
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis is not None and isinstance(value, hypothesis.strategies.SearchStrategy)


def pair_of(value: Any) -> DatasetPair:
    """Return the pair that a `DatasetPair` or a tuple (x, x_prime) stands for; raise `AuditError` for other values."""
    if isinstance(value, DatasetPair):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return DatasetPair(*value)
    raise AuditError(f"{shorten(value)} is not a pair of datasets; {HOW_TO_WRITE_PAIRS}.")
