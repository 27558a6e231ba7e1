"""Datasets: neighbouring relations, pairs of datasets, and copies of a dataset for every run.

A dataset is a collection of records. The records are the items of a sequence, the rows of an array or of a frame of
pandas or polars (neither is imported here), or the entries (key, value) of a mapping. The order of records never
matters.
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

MAX_NAMES_LENGTH = 60
"""[chosen] Maximum number of characters for the names of the columns of a frame, or for one record, in a text."""
RELATION_NOTE = "neighbours under "
"""The beginning of the note in a result that names its neighbouring relations."""


@dataclass(frozen=True)
class DatasetPair:
    """Two datasets, of any type that the mechanism accepts, with a name.

    Without a name, the text of the pair is a short text of both datasets.

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
    """The relation of datasets of which one is the other with a single record removed (unbounded DP).

    >>> AddRemove().holds([1, 2, 2], [2, 1]), AddRemove().holds({"ann": 2}, {"ann": 9, "bob": 4})
    (True, False)
    """

    name = "add or remove one record"
    description = "the presence of exactly one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return sorted(_count_differences(x, x_prime)) == [0, 1]


@dataclass(frozen=True)
class Substitution(Adjacency):
    """The relation of datasets of equal size that differ in a single record (bounded DP)."""

    name = "substitute one record"
    description = "the value of exactly one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return _count_differences(x, x_prime) == (1, 1)


@dataclass(frozen=True)
class MaxChange(Adjacency):
    """The relation of vectors of query answers in which no answer differs by more than ``bound``."""

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
    """Yield a pair for every distinct record of the dataset and every different record in ``records`` that replaces it.

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
    """Return a text of a dataset or a record: one line with at most ``width`` characters."""
    if hasattr(dataset, "columns") and is_frame(dataset):
        return clipped(describe_frame(dataset), width)
    if hasattr(dataset, "to_frame") and hasattr(dataset, "to_list") and hasattr(dataset, "head"):
        return clipped(f"{type(dataset).__name__}({dataset.head(width).to_list()})", width)  # of a series
    try:
        shown = repr(dataset)
    except ValueError:  # Python refuses to write whole numbers with more than 4,300 digits
        shown = hex(dataset) if isinstance(dataset, int) else f"a {type(dataset).__name__} that cannot be written"
    return clipped(re.sub(r"\s*\n\s*", " ", shown), width)


def is_frame(value: Any) -> bool:
    """Return whether a value is a table with named columns: a frame of pandas or polars."""
    return hasattr(value, "columns") and (hasattr(value, "itertuples") or hasattr(value, "iter_rows"))


def describe_frame(frame: Any) -> str:
    """Return a text with the type, the number of rows and the names of the columns of a frame."""
    names = ", ".join(map(str, frame.columns))
    names = names if len(names) <= MAX_NAMES_LENGTH else f"{len(frame.columns)} columns from {frame.columns[0]} on"
    rows = "1 row" if len(frame) == 1 else f"{len(frame):,} rows"
    return f"{type(frame).__name__} of {rows}: {names or 'no columns'}"


def _distinct_records(dataset: Any) -> tuple[tuple[Any, ...], list[int]]:
    """Return all records of a dataset, and the first position of every distinct record."""
    try:
        records = tuple(_records(dataset))
    except TypeError as error:
        raise AuditError(f"{shorten(dataset)} is no dataset of records: {error}.") from None
    first: dict[Hashable, int] = {}
    for position, record in enumerate(records):
        first.setdefault(_comparison_value(record), position)
    return records, list(first.values())


def _count_differences(x: Any, x_prime: Any) -> tuple[int, int]:
    """Return how many records are only in x and how many are only in x'."""
    if is_frame(x) and is_frame(x_prime) and list(x.columns) != list(x_prime.columns):
        raise ValueError(f"their columns are {list(x.columns)} and {list(x_prime.columns)}")
    ours, theirs = (Counter(map(_comparison_value, _records(dataset))) for dataset in (x, x_prime))
    return (ours - theirs).total(), (theirs - ours).total()


MAX_COUNTED_RECORDS = 100_000
"""[time] Maximum number of records in two datasets that are compared only to write a note: a tenth of a second."""


def describe_distance(pair: DatasetPair, symbol: str) -> str:
    """Return a note with the number of records by which two datasets differ, and what a claim then allows.

    The note is for pairs that no neighbouring relation has checked. It is empty if the datasets differ in one record,
    or if the number cannot be computed. ``symbol`` is the name of the claim's parameter.
    """
    records = 0
    with contextlib.suppress(Exception):  # datasets may have any type
        if not isinstance(pair.x, (str, bytes)) and len(pair.x) + len(pair.x_prime) <= MAX_COUNTED_RECORDS:
            records = max(_count_differences(pair.x, pair.x_prime))
    times = records**2 if symbol == "rho" else records
    allowed = f"a claim for neighbours allows {times:,} times its {symbol}"
    return f"the datasets differ in {records:,} records: {allowed}" if records > 1 else ""


def _comparison_value(record: Any) -> Hashable:
    """Return a hashable value by which records are compared: lists become tuples, and all NaN are equal."""
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
    listed = record.tolist() if hasattr(record, "tolist") else record  # values of numpy
    return record if listed is record else _comparison_value(listed)


def _records(dataset: Any) -> Iterable[Any]:
    """Return the records of a dataset of any type."""
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
"""The types by which users may give pairs of datasets."""
Relation: TypeAlias = Adjacency | type[Adjacency]
"""The types by which users may give a neighbouring relation. The class `AddRemove` stands for `AddRemove()`."""


def adjacency_of(adjacency: Any) -> Adjacency | None:
    """Return the neighbouring relation for an argument ``adjacency``.

    A class is replaced by its instance. None means that the caller vouches for the pairs. Raises `AuditError` for any
    other value.
    """
    if isinstance(adjacency, type) and issubclass(adjacency, Adjacency):
        with contextlib.suppress(TypeError):  # the class is abstract or has required arguments
            return adjacency()
    if adjacency is not None and not isinstance(adjacency, Adjacency):
        they = "AddRemove(), Substitution(), MaxChange(bound), or None, by which you vouch for the pairs"
        raise AuditError(f"adjacency is {adjacency!r}; it must be {they}.")
    return adjacency


def is_strategy(value: Any) -> bool:
    """Return whether a value is a strategy of hypothesis, which need not be installed."""
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis is not None and isinstance(value, hypothesis.strategies.SearchStrategy)


def pair_of(value: Any) -> DatasetPair:
    """Return the pair that a `DatasetPair` or a tuple (x, x_prime) stands for; raise `AuditError` for other values."""
    if isinstance(value, DatasetPair):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return DatasetPair(*value)
    raise AuditError(f"{shorten(value)} is not a pair of datasets; {HOW_TO_WRITE_PAIRS}.")


def list_pairs(pairs: Any, adjacency: Adjacency | None = None) -> list[DatasetPair]:
    """Return a list of the pairs that a user gave in any of the forms of `Pairs`.

    Strategies of hypothesis are replaced by drawn pairs. Raises `AuditError` if the value has another form, or if the
    relation of drawn pairs is unknown.
    """
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
        from epsaudit.data.candidates import common_relation, drawn  # candidates imports this module

        found += (more := drawn(part, adjacency=adjacency))
        if adjacency is None and common_relation(more) is None:
            raise AuditError(
                "A strategy is joined by boundary cases, and its pairs do not say by which relation; give adjacency=, "
                "for instance Substitution(), or pairs=epsaudit.data.candidates.drawn(strategy) to do without."
            )
    return found


CONSTANT_TYPES = (int, float, complex, str, bytes, bool, type(None), Decimal, Fraction, range, uuid.UUID)
"""Types whose values cannot change. Dates, paths, enumerations, numpy scalars, and tuples of constants are constant,
too."""
CONSTANT_BASES = (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath)
HOW_TO_GIVE_DATA = (
    "Give what every run can read anew: a list, an array, a frame, or a path from which the function reads."
)


class Dataset:
    """A dataset from which every run receives the same data, even if runs change their argument.

    A dataset that can change is stored as bytes. Runs share one copy as long as no run changes it; after the first
    change every run receives a copy of its own. Raises `AuditError` if the dataset can only be read once (an
    iterator, a generator, a cursor or an open file), or if it cannot be copied.
    """

    __slots__ = ("_bytes", "_mark", "changes", "constant", "shared")

    def __init__(self, given: Any) -> None:
        refuse_if_consumed(given)
        self.constant = is_constant(given)
        self.changes = False  # whether a run has changed its dataset, so each run needs a copy
        # the object that runs share until one changes it, the bytes of the dataset, and the bytes of the shared object
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
        """Return a new copy of the dataset, or the dataset itself if it is constant."""
        return self.shared if self.constant else pickle.loads(self._bytes)

    def intact(self, used: Any) -> bool:
        """Return whether a run has left the dataset unchanged, given the object that the run used.

        If the run has changed it, ``changes`` becomes true.
        """
        if self.constant:
            return True
        with contextlib.suppress(Exception):  # after the run the object may be impossible to pickle
            if _to_bytes(used) == self._mark:
                return True
        self.changes = True
        return False

    def __getstate__(self) -> tuple[bool, Any]:
        return self.changes, self.copy()

    def __setstate__(self, state: tuple[bool, Any]) -> None:
        self.__init__(state[1])  # type: ignore[misc]  # the receiving process makes its own copies
        self.changes = state[0]

    def __repr__(self) -> str:
        return repr(self.copy())


def copy_pair(pair: DatasetPair) -> DatasetPair:
    """Return the pair with copies of both datasets, so that code that changes them does not affect other runs.

    Constant datasets need no copy.
    """
    if is_constant(pair.x) and is_constant(pair.x_prime):
        return pair
    return DatasetPair(Dataset(pair.x).copy(), Dataset(pair.x_prime).copy(), name=pair.name)


def are_equal(x: Any, x_prime: Any) -> bool:
    """Return whether two datasets have equal values, as far as ``==`` or a comparison of their bytes can show."""
    if x is x_prime:
        return True
    with contextlib.suppress(Exception):  # some datasets cannot be compared, or only element by element
        equal = np.array_equal(x, x_prime) if isinstance(x, np.ndarray) else x == x_prime
        if isinstance(equal, (bool, np.bool_)) and equal:
            return True
    with contextlib.suppress(Exception):
        return bool(cloudpickle.dumps(x) == cloudpickle.dumps(x_prime))
    return False


def is_constant(value: Any) -> bool:
    """Return whether a value cannot change: a number, a string, a date, or a tuple or frozen set of constants."""
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
    """Raise `AuditError` if a dataset, or a part of a container, can only be read once.

    ``inside`` is the verb of the message for a part of a container.
    """
    stream = isinstance(dataset, io.IOBase) or hasattr(dataset, "fileno")
    if isinstance(dataset, Iterator) or stream or hasattr(dataset, "fetchone") or hasattr(dataset, "cursor"):
        what = "an open file" if stream else with_article(type(dataset).__name__)
        why = "the first run would use it up, and later ones see another dataset"
        raise AuditError(f"The dataset {inside or 'is'} {what}: {why}. {HOW_TO_GIVE_DATA}")
    if type(dataset) in (dict, list, tuple, set, frozenset) and not is_constant(dataset):
        for part in dataset.values() if isinstance(dataset, dict) else dataset:
            refuse_if_consumed(part, "holds")


def _to_bytes(value: Any) -> bytes:
    """Return the bytes of a value, for comparisons: by pickle in a microsecond, or else by cloudpickle in ten."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # pickle fails for a lambda, and methods of the value may raise anything
        return bytes(cloudpickle.dumps(value))
