"""Datasets as every run is to see them, and whether two things are the same: copies and comparisons.

`Dataset` gives the object that a function is called with. What can change is kept as bytes: runs share a copy of it for
as long as they leave it alone, and get one each once one has changed it.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import io
import pathlib
import pickle
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from cloudpickle import cloudpickle

from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, with_article

CONSTANTS = (int, float, complex, str, bytes, bool, type(None), Decimal, Fraction, range, uuid.UUID)
"""Types whose values never change; so do dates, paths, enumerations, numpy scalars, and tuples of them all."""
OTHER_CONSTANTS = (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath)
HOW = "Give what every run can read anew: a list, an array, a frame, or a path from which the function reads."


class Dataset:
    """One dataset, for as many runs as are wanted; unless it is constant, it is copied now, and never touched.

    `AuditError` is raised if it cannot be given twice (iterators, generators, cursors, open files), or be copied.

    Examples
    --------
    >>> data = Dataset([1, 2])
    >>> seen = data.shared()
    >>> seen.append(3)
    >>> data.intact(seen), data.copy(), data.shared()
    (False, [1, 2], [1, 2])
    """

    __slots__ = ("_bytes", "_mark", "_shared", "changes", "constant")

    def __init__(self, given: Any) -> None:
        refuse_if_consumed(given)
        self.constant = is_constant(given)
        self.changes = False
        """Whether a run has changed its dataset, so that each needs a copy."""
        self._shared, self._bytes = (given, b"") if self.constant else _settled(given)
        self._mark = b"" if self.constant else _mark(self._shared)

    @property
    def written(self) -> bytes:
        """The dataset as bytes."""
        return self._bytes or _mark(self._shared)

    def shared(self) -> Any:
        """Return the object that runs share, a new one where a run has changed the last."""
        if not self.constant and self.changes:
            self._shared = loads(self._bytes)
        return self._shared

    def copy(self) -> Any:
        """Return the dataset as it was given, to be used by one run."""
        return self._shared if self.constant else loads(self._bytes)

    def intact(self, used: Any) -> bool:
        """Say whether an object that `shared` gave still is what was given; note it if not."""
        if self.constant:
            return True
        with contextlib.suppress(Exception):  # a run may leave behind what nobody can write
            if _mark(used) == self._mark:
                return True
        self.changes = True
        return False

    def __getstate__(self) -> tuple[bool, bool, Any, bytes]:
        return self.constant, self.changes, self._shared if self.constant else None, self._bytes

    def __setstate__(self, state: tuple[bool, bool, Any, bytes]) -> None:
        self.constant, self.changes, self._shared, self._bytes = state
        if not self.constant:
            self._shared = loads(self._bytes)
        self._mark = b"" if self.constant else _mark(self._shared)

    def __repr__(self) -> str:
        return repr(self.copy())


def given(pair: DatasetPair) -> DatasetPair:
    """Return the pair with copies of what can change in it, so that who prepares for one pair does not spoil another.

    It raises as `Dataset` does.
    """
    if is_constant(pair.x) and is_constant(pair.x_prime):
        return pair
    return DatasetPair(Dataset(pair.x).copy(), Dataset(pair.x_prime).copy(), name=pair.name)


def same(x: Any, x_prime: Any) -> bool:
    """Say whether two datasets are equal by value, as far as == or the bytes that they are kept as can tell.

    Examples
    --------
    >>> same({"ann": 1, "bob": 2}, {"bob": 2, "ann": 1}), same([float("nan")], [float("nan")]), same([1], [2])
    (True, True, False)
    """
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
    """Say whether nothing can change a value: numbers, strings, dates, and tuples and frozen sets of them.

    Examples
    --------
    >>> is_constant((1, "a", frozenset([2.5]))), is_constant((1, [2]))
    (True, False)
    """
    kind = type(value)
    if kind in CONSTANTS or (isinstance(value, OTHER_CONSTANTS) and not hasattr(value, "__dict__")):
        return True
    if isinstance(value, enum.Enum):
        return is_constant(value.value)
    if isinstance(value, np.generic):
        return kind is not np.void and kind is not np.object_
    if isinstance(value, (tuple, frozenset)) and not hasattr(value, "__dict__"):
        return all(map(is_constant, value))
    return False


def refuse_if_consumed(dataset: Any, inside: str = "") -> None:
    """Raise `AuditError` if a dataset, or a part of a plain container, is used up by the first run that reads it.

    Examples
    --------
    >>> refuse_if_consumed([1, 2])
    >>> refuse_if_consumed({"ages": map(int, "12")})
    Traceback (most recent call last):
    ...
    epsaudit.errors.AuditError: The dataset holds a map: the first run would use it up, and later ones see another \
dataset. Give what every run can read anew: a list, an array, a frame, or a path from which the function reads.
    """
    kind = type(dataset)
    stream = isinstance(dataset, io.IOBase) or hasattr(dataset, "fileno")
    if isinstance(dataset, Iterator) or stream or hasattr(dataset, "fetchone") or hasattr(dataset, "cursor"):
        what = "an open file" if stream else with_article(kind.__name__)
        raise AuditError(
            f"The dataset {inside or 'is'} {what}: the first run would use it up, and later ones see another dataset. "
            f"{HOW}"
        )
    if kind in (list, tuple, set, frozenset) and not is_constant(dataset):
        for part in dataset:
            refuse_if_consumed(part, "holds")
    elif kind is dict:
        for part in dataset.values():
            refuse_if_consumed(part, "holds")


def _mark(value: Any) -> bytes:
    """Write a value down to compare it: by pickle, in a microsecond, or else by cloudpickle, in ten."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # a lambda in it, say; whatever a value's own methods raise
        return bytes(cloudpickle.dumps(value))


def _settled(dataset: Any) -> tuple[Any, bytes]:
    """A copy, and the bytes that it is copied from: those that writing a copy of the copy gives again."""
    try:
        copy = loads(cloudpickle.dumps(dataset))
        written = cloudpickle.dumps(copy)
        return loads(written), written
    except Exception as error:
        raise AuditError(
            f"The dataset holds what cannot be copied ({type(error).__name__}: {error}), so that not every run could "
            f"see it as it was given. {HOW}"
        ) from error


WRITES_OVER = "_class_setstate"
"""What of cloudpickle gives a class its attributes."""
_CLASSES, _IDS = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID, cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS


def loads(written: bytes) -> Any:
    """Return the object, of the classes that this process has, which are left as they are.

    cloudpickle writes classes of scripts, and of modules that are registered, by value. Where it reads one in a process
    that has that class, it writes over it: attributes are as they were when it was written, and methods read copies of
    their module's globals from then on.

    Examples
    --------
    >>> loads(pickle.dumps([1, 2]))
    [1, 2]
    """
    return _Unpickler(written).load() if WRITES_OVER.encode() in written else pickle.loads(written)


def loads_apart(written: bytes, beside: Callable[[], bytes]) -> Any:
    """Return the object, of classes of its own where it holds any by value, on which runs leave nothing behind.

    It is of the classes that this process has where ``beside()``, bytes of what it is called with, names one of them:
    an instance of one class is none of another.
    """
    if WRITES_OVER.encode() not in written:
        return pickle.loads(written)
    with _without_classes() as known:
        found = pickle.loads(written)
        made = [known[key] for key in _CLASSES if key in known]
        named = [text.encode() for one in made for text in (one.__qualname__, _IDS[one])]
    if not named:
        return found
    bytes_beside = beside()
    return loads(written) if any(text in bytes_beside for text in named) else found


@contextlib.contextmanager
def _without_classes() -> Iterator[dict[str, type]]:
    """Let cloudpickle forget its classes for a while; yields them by its names for them."""
    known = dict(_CLASSES)
    _CLASSES.clear()
    try:
        yield known
    finally:
        _CLASSES.clear()
        _CLASSES.update(known)


class _Unpickler(pickle.Unpickler):
    """One that leaves alone the classes that were there before."""

    def __init__(self, written: bytes) -> None:
        super().__init__(io.BytesIO(written))
        self._known = set(_IDS)

    def find_class(self, module: str, name: str) -> Any:
        """See `pickle.Unpickler`."""
        found = super().find_class(module, name)
        if name != WRITES_OVER or module != cloudpickle.__name__:
            return found
        return lambda one, state: one if one in self._known else found(one, state)
