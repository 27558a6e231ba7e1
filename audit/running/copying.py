"""Copies of a function that were never called: its caches are empty, the generators that it carries are new.

Each copy has classes of its own. It stands alone because all that needs cloudpickle's help to copy code is here.
"""

from __future__ import annotations

import functools
import inspect
import io
import pickle
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cloudpickle
import numpy as np

from epsaudit.errors import is_own

NOT_COPIED = ("__main__", "__mp_main__", "epsaudit", "builtins", "functools")
"""Modules that are not listed for copying: cloudpickle always copies the main script, and the others keep no state."""
MAX_FUNCTION_BYTES = 1 << 26
"""[chosen] Maximum size of the pickle of a function that is copied. To make 48 copies of this size takes seconds."""


class _Writer(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """A pickler that writes caches of the user's functions as empty caches, and generators as new generators."""

    def reducer_override(self, obj: Any) -> Any:
        if obj is getattr(random.random, "__self__", None):  # Python's global generator stays the global one
            return getattr, (random, "_inst")
        if type(obj) is np.random.Generator:
            return np.random.default_rng, ()
        if type(obj) in (np.random.RandomState, random.Random, random.SystemRandom):
            return type(obj), ()
        if isinstance(obj, functools._lru_cache_wrapper):
            installed = getattr(sys.modules.get(obj.__module__ or ""), "__file__", None) is not None
            by_value = obj.__module__ == "__main__" or obj.__module__ in cloudpickle.list_registry_pickle_by_value()
            if by_value or not installed:
                return _cache_anew, (obj.__wrapped__, obj.cache_parameters())
        return super().reducer_override(obj)


def _cache_anew(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


class _CopyUnpickler(pickle.Unpickler):
    """An unpickler that creates the user's classes anew, so that a copy shares no class with this process.

    cloudpickle numbers the classes that it writes. When it reads a number that it knows, it returns the existing class
    of this process, which may hold state. ``classes`` maps the numbers to the classes of one copy; the pickles of a
    copy share this mapping.
    """

    def __init__(self, data: bytes, classes: dict[str, type]) -> None:
        super().__init__(io.BytesIO(data))
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if name in ("_make_skeleton_class", "_make_skeleton_enum"):
            return functools.partial(self._make_class, found)
        return found

    def _make_class(self, make: Callable[..., type], *arguments: Any) -> type:
        given = inspect.signature(make).bind(*arguments)
        number, given.arguments["class_tracker_id"] = given.arguments["class_tracker_id"], None
        if number not in self._classes:
            self._classes[number] = make(*given.args)
        return self._classes[number]


@contextmanager
def _pickled_by_value(names: Iterable[str]) -> Iterator[None]:
    """Let cloudpickle write the code of these modules, instead of references to them, inside the block."""
    known = cloudpickle.list_registry_pickle_by_value()
    modules = [sys.modules[name] for name in names if name in sys.modules and name not in known]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def by_value(values: Sequence[Any], function: Any) -> list[bytes] | None:
    """Pickle each value together with the code of all modules that users wrote, and return the pickles.

    If this fails for a value, only the code of the module of ``function`` is pickled with it. Returns None if a value
    cannot be pickled in either way with at most `MAX_FUNCTION_BYTES`.
    """
    module_name = getattr(function, "__module__", None)
    named = {str(module_name)} if module_name not in (None, *NOT_COPIED) else set[str]()
    own = {
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in NOT_COPIED and is_own(module) and getattr(module, "__name__", None) == name
    }
    written: list[bytes] = []
    for value in values:
        for names in (own | named, named):
            into = io.BytesIO()
            try:
                with _pickled_by_value(names):
                    _Writer(into).dump(value)
            except Exception:  # the next way is tried; the caller says where it matters that no way works
                continue
            if len(into.getvalue()) <= MAX_FUNCTION_BYTES:
                written.append(into.getvalue())
                break
        else:
            return None
    return written


def apart(parts: Iterable[bytes]) -> list[Any]:
    """Unpickle the results of `by_value` and return the values as the parts of one copy.

    The parts of a copy share their classes with one another, but not with this process or with other copies.
    """
    classes: dict[str, type] = {}
    return [_CopyUnpickler(part, classes).load() for part in parts]
