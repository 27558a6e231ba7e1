"""Datasets: neighbouring relations, pairs to be told apart, and each dataset as every run is to see it.

A dataset is a collection of records: the items of a sequence, the rows of an array or of a frame (of pandas or polars,
neither of which is imported), the entries (key, value) of a mapping. Order never matters.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import io
import itertools
import math
import pathlib
import pickle
import re
import sys
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import cloudpickle
import numpy as np

from epsaudit.errors import AuditError, clipped, finite_at_least, with_article

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

MAX_NAMES_LENGTH = 60  # most characters of the names of a frame's columns, or of one of its rows, that are written out
RELATION_NOTE = "neighbours under "  # how the note of a result begins that names its neighbouring relations


@dataclass(frozen=True)
class DatasetPair:
    """Two datasets, in whatever form the mechanism accepts, with a name, by default themselves, shortened.

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
            with contextlib.suppress(Exception):  # datasets are of any kind
                sides = [[shorten(record, sys.maxsize) for record in _records(side)] for side in (self.x, self.x_prime)]
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
    """What reports call it; without one, the name of its class."""
    description: str
    """What two neighbours may differ in, as the end of the sentence 'neighbours differ in ...'."""

    @abstractmethod
    def holds(self, x: Any, x_prime: Any) -> bool:
        """Say whether the two datasets are neighbours."""

    def check(self, pair: DatasetPair) -> None:
        try:
            adjacent = self.holds(pair.x, pair.x_prime)
        except Exception as error:  # datasets are of any kind, and relations anybody's
            how = "Pass adjacency=None to vouch for it."
            raise AuditError(f"The pair {pair} cannot be compared under {self} ({error}). {how}") from error
        if not adjacent:
            raise AuditError(f"The pair {pair} is not adjacent: under {self}, neighbours differ in {self.description}.")

    def __str__(self) -> str:
        return self.name or type(self).__name__


@dataclass(frozen=True)
class AddRemove(Adjacency):
    """One dataset is the other with a single record removed (unbounded DP).

    >>> AddRemove().holds([1, 2, 2], [2, 1]), AddRemove().holds({"ann": 2}, {"ann": 9, "bob": 4})
    (True, False)
    """

    name = "add or remove one record"
    description = "the presence of exactly one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return sorted(_count_differences(x, x_prime)) == [0, 1]


@dataclass(frozen=True)
class Substitution(Adjacency):
    """The datasets have equal sizes and differ in a single record (bounded DP)."""

    name = "substitute one record"
    description = "the value of exactly one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return _count_differences(x, x_prime) == (1, 1)


@dataclass(frozen=True)
class MaxChange(Adjacency):
    """Datasets are vectors of query answers, each of which one record can change by at most ``bound``."""

    bound: float = 1.0

    def __post_init__(self) -> None:
        finite_at_least(self.bound, 0.0, "bound of MaxChange")

    @property
    def description(self) -> str:  # type: ignore[override]  # depends on the bound
        return f"each query answer by at most {self.bound:g}"

    def holds(self, x: Any, x_prime: Any) -> bool:
        a, b = np.asarray(x, float), np.asarray(x_prime, float)
        return a.shape == b.shape and bool(np.all(np.abs(a - b) <= self.bound * (1 + 1e-12)))  # forgives rounding

    def __str__(self) -> str:
        return f"query answers within {self.bound:g}"


def leave_one_out(dataset: Any) -> Iterator[DatasetPair]:
    """Yield a pair (dataset, dataset without one record) for every distinct record in the dataset.

    Frames and mappings stay what they are; other datasets become tuples.

    >>> [pair.x_prime for pair in leave_one_out({"ann": 1, "bob": 2})]
    [{'bob': 2}, {'ann': 1}]
    """
    records, first = _distinct_records(dataset)
    x: Any = dataset if is_frame(dataset) or isinstance(dataset, Mapping) else records
    for position in first:
        others = [place != position for place in range(len(records))]
        if is_frame(x):
            x_prime = x[others] if hasattr(x, "itertuples") else x.filter(others)
        else:
            x_prime = type(x)(itertools.compress(records, others))
        yield DatasetPair(x, x_prime, f"{len(records)} records against all but one with {records[position]!r}")


def replace_one(dataset: Iterable[Any], records: Iterable[Any]) -> Iterator[DatasetPair]:
    """Yield a pair for every distinct record in the dataset replaced by every different one in ``records``.

    >>> [pair.x_prime for pair in replace_one((0, 1), (0, 1))]
    [(1, 1), (0, 0)]
    """
    if is_frame(dataset) or isinstance(dataset, Mapping):
        raise AuditError(f"{shorten(dataset)} is a frame or a mapping; replace_one takes a sequence or an array.")
    (x, first), (replacements, others) = _distinct_records(dataset), _distinct_records(records)
    for position in first:
        for record in (replacements[place] for place in others):
            if _comparison_value(record) != _comparison_value(x[position]):
                name = f"{len(x)} records against one {shorten(x[position], 999)} made {shorten(record, 999)}"
                yield DatasetPair(x, (*x[:position], record, *x[position + 1 :]), name)


def shorten(dataset: Any, width: int = 48) -> str:
    """Represent a dataset, or a record, in one line of at most ``width`` characters."""
    if hasattr(dataset, "columns") and is_frame(dataset):
        return clipped(describe_frame(dataset), width)
    if hasattr(dataset, "to_frame") and hasattr(dataset, "to_list") and hasattr(dataset, "head"):
        return clipped(f"{type(dataset).__name__}({dataset.head(width).to_list()})", width)  # of pandas or of polars
    try:
        shown = repr(dataset)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        shown = hex(dataset) if isinstance(dataset, int) else f"a {type(dataset).__name__} that cannot be written"
    return clipped(re.sub(r"\s*\n\s*", " ", shown), width)


def is_frame(value: Any) -> bool:
    """Whether this is a table with named columns: a frame of pandas or of polars."""
    return hasattr(value, "columns") and (hasattr(value, "itertuples") or hasattr(value, "iter_rows"))


def describe_frame(frame: Any) -> str:
    """Write the type, the shape and the names of the columns of a frame."""
    names = ", ".join(map(str, frame.columns))
    names = names if len(names) <= MAX_NAMES_LENGTH else f"{len(frame.columns)} columns from {frame.columns[0]} on"
    rows = "1 row" if len(frame) == 1 else f"{len(frame):,} rows"
    return f"{type(frame).__name__} of {rows}: {names or 'no columns'}"


def _distinct_records(dataset: Any) -> tuple[tuple[Any, ...], list[int]]:
    try:
        records = tuple(_records(dataset))
    except TypeError as error:
        raise AuditError(f"{shorten(dataset)} is no dataset of records: {error}.") from None
    first: dict[Hashable, int] = {}
    for position, record in enumerate(records):
        first.setdefault(_comparison_value(record), position)
    return records, list(first.values())


def _count_differences(x: Any, x_prime: Any) -> tuple[int, int]:
    if is_frame(x) and is_frame(x_prime) and list(x.columns) != list(x_prime.columns):
        raise ValueError(f"their columns are {list(x.columns)} and {list(x_prime.columns)}")
    ours, theirs = (Counter(map(_comparison_value, _records(dataset))) for dataset in (x, x_prime))
    return (ours - theirs).total(), (theirs - ours).total()


MAX_COUNTED_RECORDS = 100_000  # of two datasets together that are counted only for a note: a tenth of a second


def describe_distance(pair: DatasetPair, symbol: str) -> str:
    """Say by how many records datasets differ that no relation made neighbours; '' for one, or if nobody knows."""
    records = 0
    with contextlib.suppress(Exception):  # datasets are of any kind
        if not isinstance(pair.x, (str, bytes)) and len(pair.x) + len(pair.x_prime) <= MAX_COUNTED_RECORDS:
            records = max(_count_differences(pair.x, pair.x_prime))
    times = records**2 if symbol == "rho" else records
    allowed = f"a claim for neighbours allows {times:,} times its {symbol}"
    return f"the datasets differ in {records:,} records: {allowed}" if records > 1 else ""


def _comparison_value(record: Any) -> Hashable:
    """The record's value; lists are tuples, and a missing answer (nan) equals any other."""
    if isinstance(record, (int, str)):
        return record
    if isinstance(record, Mapping):
        return frozenset((key, _comparison_value(value)) for key, value in record.items())
    if isinstance(record, Set):
        return frozenset(record)
    if isinstance(record, (tuple, list)):
        return tuple(map(_comparison_value, record))
    if isinstance(record, float) and math.isnan(record):
        return "nan"
    listed = record.tolist() if hasattr(record, "tolist") else record  # of numpy
    return record if listed is record else _comparison_value(listed)


def _records(dataset: Any) -> Iterable[Any]:
    if is_frame(dataset):
        pandas = hasattr(dataset, "itertuples")
        return map(tuple, dataset.itertuples(index=False, name=None) if pandas else dataset.iter_rows())
    if isinstance(dataset, Mapping):
        return dataset.items()
    rows: Iterable[Any] = dataset.tolist() if hasattr(dataset, "tolist") else dataset
    return map(tuple, rows) if getattr(dataset, "ndim", 1) == 2 else rows


HOW_TO_WRITE_PAIRS = (
    "write (x, x_prime) or DatasetPair(x, x_prime), a list of those, or a strategy of hypothesis that draws them"
)

Pairs: TypeAlias = "DatasetPair | tuple[Any, Any] | Iterable[DatasetPair | tuple[Any, Any]] | SearchStrategy[Any]"
"""How pairs of datasets may be written."""
Relation: TypeAlias = Adjacency | type[Adjacency]
"""How a neighbouring relation may be written: `AddRemove` is `AddRemove()`."""


def adjacency_of(adjacency: Any) -> Adjacency | None:
    """Return a relation, made of its class where that is given; None where the caller vouches for the pairs."""
    if isinstance(adjacency, type) and issubclass(adjacency, Adjacency):
        with contextlib.suppress(TypeError):  # abstract, or asks for more
            return adjacency()
    if adjacency is not None and not isinstance(adjacency, Adjacency):
        they = "AddRemove(), Substitution(), MaxChange(bound), or None, by which you vouch for the pairs"
        raise AuditError(f"adjacency is {adjacency!r}; it must be {they}.")
    return adjacency


def is_strategy(value: Any) -> bool:
    """Say whether this is a strategy of hypothesis, which need not be installed."""
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis is not None and isinstance(value, hypothesis.strategies.SearchStrategy)


def pair_of(value: Any) -> DatasetPair:
    """Return a pair that was written as one, or as a tuple (x, x_prime)."""
    if isinstance(value, DatasetPair):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return DatasetPair(*value)
    raise AuditError(f"{shorten(value)} is not a pair of datasets; {HOW_TO_WRITE_PAIRS}.")


def list_pairs(pairs: Any, adjacency: Adjacency | None = None) -> list[DatasetPair]:
    """Return pairs of datasets as a list, however they are written; those of a strategy are drawn."""
    if isinstance(pairs, DatasetPair):
        return [pairs]
    if isinstance(pairs, tuple) and len(pairs) == 2 and not any(isinstance(part, DatasetPair) for part in pairs):
        if all(isinstance(part, tuple) and len(part) == 2 for part in pairs):
            how = "write DatasetPair(x, x_prime) for one, and a list for two"
            raise AuditError(f"{shorten(pairs)} may be one pair of datasets or two; {how}.")
        return [DatasetPair(*pairs)]
    if not isinstance(pairs, (list, tuple)) and is_strategy(pairs):
        pairs = [pairs]
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes, Mapping)):
        raise AuditError(f"pairs is {shorten(pairs)}; {HOW_TO_WRITE_PAIRS}.")
    found: list[DatasetPair] = []
    for part in pairs:
        if isinstance(part, DatasetPair) or not is_strategy(part):
            found.append(part if isinstance(part, DatasetPair) else pair_of(part))
            continue
        from epsaudit.data.candidates import common_relation, drawn  # which read their arguments here

        found += (more := drawn(part, adjacency=adjacency))
        if adjacency is None and common_relation(more) is None:
            raise AuditError(
                "A strategy is joined by boundary cases, and its pairs do not say by which relation; give adjacency=, "
                "for instance Substitution(), or pairs=epsaudit.data.candidates.drawn(strategy) to do without."
            )
    return found


CONSTANT_TYPES = (int, float, complex, str, bytes, bool, type(None), Decimal, Fraction, range, uuid.UUID)
"""Types whose values never change; so do dates, paths, enumerations, numpy scalars, and tuples of them all."""
CONSTANT_BASES = (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath)
HOW_TO_GIVE_DATA = (
    "Give what every run can read anew: a list, an array, a frame, or a path from which the function reads."
)


class Dataset:
    """One dataset, for as many runs as are wanted: what can change is kept as bytes.

    Runs share a copy for as long as they leave it alone, and get one each once one has changed it. `AuditError` if it
    cannot be given twice (iterators, generators, cursors, open files), or be copied.
    """

    __slots__ = ("_bytes", "_mark", "changes", "constant", "shared")

    def __init__(self, given: Any) -> None:
        refuse_if_consumed(given)
        self.constant = is_constant(given)
        self.changes = False  # whether a run has changed its dataset, so that each needs a copy
        # the object that runs share until one has changed it, and what the dataset and it are as bytes
        self.shared, self._bytes, self._mark = given, b"", b""
        if not self.constant:
            try:
                self._bytes = _to_bytes(given)
                self.shared = pickle.loads(self._bytes)
                self._mark = _to_bytes(self.shared)
            except Exception as error:
                what = f"what cannot be copied ({type(error).__name__}: {error})"
                raise AuditError(
                    f"The dataset holds {what}, so that not every run could see it anew. {HOW_TO_GIVE_DATA}"
                ) from error

    def copy(self) -> Any:
        return self.shared if self.constant else pickle.loads(self._bytes)

    def intact(self, used: Any) -> bool:
        """Say whether an object that runs shared, or a copy, still is what was given; note it if not."""
        if self.constant:
            return True
        with contextlib.suppress(Exception):  # a run may leave behind what nobody can write
            if _to_bytes(used) == self._mark:
                return True
        self.changes = True
        return False

    def __getstate__(self) -> tuple[bool, Any]:
        return self.changes, self.copy()

    def __setstate__(self, state: tuple[bool, Any]) -> None:
        self.__init__(state[1])  # type: ignore[misc]  # copied anew where it arrives
        self.changes = state[0]

    def __repr__(self) -> str:
        return repr(self.copy())


def copy_pair(pair: DatasetPair) -> DatasetPair:
    """Return the pair with copies of what can change in it, so that who prepares for it does not spoil others."""
    if is_constant(pair.x) and is_constant(pair.x_prime):
        return pair
    return DatasetPair(Dataset(pair.x).copy(), Dataset(pair.x_prime).copy(), name=pair.name)


def are_equal(x: Any, x_prime: Any) -> bool:
    """Say whether two datasets are equal by value, as far as == or the bytes that they are kept as can tell."""
    if x is x_prime:
        return True
    with contextlib.suppress(Exception):  # datasets that cannot be compared, or only part by part
        equal = np.array_equal(x, x_prime) if isinstance(x, np.ndarray) else x == x_prime
        if isinstance(equal, (bool, np.bool_)) and equal:
            return True
    with contextlib.suppress(Exception):
        return bool(cloudpickle.dumps(x) == cloudpickle.dumps(x_prime))
    return False


def is_constant(value: Any) -> bool:
    """Say whether nothing can change a value: numbers, strings, dates, and tuples and frozen sets of them."""
    kind = type(value)
    if kind in CONSTANT_TYPES or (isinstance(value, CONSTANT_BASES) and not hasattr(value, "__dict__")):
        return True
    if isinstance(value, enum.Enum):
        return is_constant(value.value)
    if isinstance(value, np.generic):
        return kind is not np.void and kind is not np.object_
    plain = isinstance(value, (tuple, frozenset)) and not hasattr(value, "__dict__")
    return plain and all(map(is_constant, value))


def refuse_if_consumed(dataset: Any, inside: str = "") -> None:
    """Raise `AuditError` if a dataset, or a part of a plain container, is used up by the first run that reads it."""
    stream = isinstance(dataset, io.IOBase) or hasattr(dataset, "fileno")
    if isinstance(dataset, Iterator) or stream or hasattr(dataset, "fetchone") or hasattr(dataset, "cursor"):
        what = "an open file" if stream else with_article(type(dataset).__name__)
        why = "the first run would use it up, and later ones see another dataset"
        raise AuditError(f"The dataset {inside or 'is'} {what}: {why}. {HOW_TO_GIVE_DATA}")
    if type(dataset) in (dict, list, tuple, set, frozenset) and not is_constant(dataset):
        for part in dataset.values() if isinstance(dataset, dict) else dataset:
            refuse_if_consumed(part, "holds")


def _to_bytes(value: Any) -> bytes:
    """Write a value down to compare it: by pickle, in a microsecond, or else by cloudpickle, in ten."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # a lambda in it, say; whatever a value's own methods raise
        return bytes(cloudpickle.dumps(value))
