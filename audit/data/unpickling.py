"""Objects made anew of the bytes that cloudpickle wrote, in the process that wrote them.

cloudpickle writes classes of scripts, and of modules that are registered, by value. Where it reads one in a process
that has that class, it writes over it: attributes are as they were when it was written, and methods read copies of
their module's globals from then on. `loads` leaves the process's own classes alone. `loads_apart` makes other classes,
as another process would: what runs leave behind on a class is not on them.
"""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from cloudpickle import cloudpickle

WRITES_OVER = "_class_setstate"
"""What of cloudpickle gives a class its attributes."""
_CLASSES, _IDS = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID, cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS


def loads(written: bytes) -> Any:
    """Return the object, of the classes that this process has.

    Examples
    --------
    >>> loads(pickle.dumps([1, 2]))
    [1, 2]
    """
    return _Unpickler(written).load() if WRITES_OVER.encode() in written else pickle.loads(written)


def loads_apart(written: bytes, beside: Callable[[], bytes]) -> Any:
    """Return the object, of classes of its own where it holds any by value.

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
