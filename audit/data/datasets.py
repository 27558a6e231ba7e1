"""Datasets as runs receive them: every run must see the same data, even if an earlier run changed its argument.

Datasets that cannot change are shared by all runs. All others are stored as bytes, so that new copies can be made.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import io
import pathlib
import pickle
import uuid
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import cloudpickle
import numpy as np

from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, with_article

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
                    f"The dataset holds {what}, so that not every run can receive its own copy. {HOW_TO_GIVE_DATA}"
                ) from error

    def copy(self) -> Any:
        """Return a new copy of the dataset, or the dataset itself if it is constant."""
        return self.shared if self.constant else pickle.loads(self._bytes)

    def intact(self, used: Any) -> bool:
        """Return whether a run has left its dataset unchanged; ``used`` is the object that the run received.

        If the run has changed it, the attribute ``changes`` becomes true.
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

    Datasets that cannot change are not copied.
    """
    if is_constant(pair.x) and is_constant(pair.x_prime):
        return pair
    return DatasetPair(Dataset(pair.x).copy(), Dataset(pair.x_prime).copy(), name=pair.name)


def are_equal_datasets(x: Any, x_prime: Any) -> bool:
    """Return whether two datasets are shown to be equal, by ``==`` or by a comparison of their bytes."""
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
    """Raise `AuditError` if a dataset can be read only once, or is a container of objects that can be read only once.

    ``inside`` is the verb of the message if ``dataset`` is an object in a container. By default the verb is 'is'.
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
    """Return the bytes of a value, by which values are copied and compared.

    The bytes are made by pickle, or by cloudpickle if pickle fails. Pickle takes a microsecond for a small value, and
    cloudpickle ten times as long.
    """
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # pickle fails for a lambda, and methods of the value may raise anything
        return bytes(cloudpickle.dumps(value))
