"""What a function reaches: its closure, its defaults, the globals that it names, the object that it is a method of.

`reached` yields all of it; `carries_a_generator` says whether a generator of numpy or of the standard library is among
it, which copies of the function would repeat.
"""

from __future__ import annotations

import functools
import inspect
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.errors import is_own_file

GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
DEPTH = 4
"""Functions within functions, attributes of attributes: so far is looked."""


def carries_a_generator(function: Any, arguments: int) -> bool:
    """Say whether a function carries a generator that is copied with it; one of the operating system's is not.

    Parameters
    ----------
    function : callable
        The function.
    arguments : int
        How many arguments it is given, whose defaults do not matter.

    Examples
    --------
    >>> own = np.random.default_rng(0)
    >>> carries_a_generator(lambda data, rng: own.random(), 2), carries_a_generator(lambda data, rng: rng.random(), 2)
    (True, False)
    """
    found = (part for part in reached(function, arguments) if isinstance(part, GENERATORS))
    return not all(isinstance(part, random.SystemRandom) for part in found)


def reached(thing: Any, arguments: int = 0, depth: int = DEPTH) -> Iterator[Any]:
    """Yield a function or object and all that it reaches in so many steps; some of it several times."""
    yield thing
    for part in _parts_of(thing, arguments) if depth else ():
        yield from reached(part, arguments, depth - 1)


def _parts_of(thing: Any, arguments: int) -> Iterator[Any]:
    """Yield what a function refers to, or an object holds; defaults of its first ``arguments`` do not count."""
    if inspect.ismethod(thing):
        yield thing.__self__
        yield thing.__func__
        yield from _named_by(thing, thing.__self__)
    elif inspect.isfunction(thing):
        yield from (thing.__defaults__ or ())[max(arguments - _without_default(thing), 0) :]
        yield from (thing.__kwdefaults__ or {}).values()
        named = [thing.__globals__[name] for name in thing.__code__.co_names if name in thing.__globals__]
        yield from named
        for module in filter(inspect.ismodule, named):
            path = getattr(module, "__file__", None)
            if path is not None and is_own_file(Path(path)):  # others' modules hold functions
                yield from (vars(module)[name] for name in thing.__code__.co_names if name in vars(module))
        for one in filter(inspect.isclass, named):
            yield from _named_by(thing, one)
        for cell in thing.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not filled yet
                continue
    elif isinstance(thing, functools.partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif not inspect.ismodule(thing) and not inspect.isclass(thing):
        yield from vars(thing).values() if hasattr(thing, "__dict__") else ()
        called = type(thing).__call__ if callable(thing) else None
        if inspect.isfunction(called):
            yield types.MethodType(called, thing)


def _named_by(function: Any, owner: Any) -> Iterator[Any]:
    """Yield what a function names of a class that a user wrote, or of an object of one, and that is not the object's.

    Functions are yielded as methods, which name more of it.
    """
    kind = owner if inspect.isclass(owner) else type(owner)
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None or not _is_own(kind):
        return
    for name in code.co_names:
        found = inspect.getattr_static(kind, name, None)
        found = getattr(found, "__func__", getattr(found, "fget", found))  # of a static, a class method, a property
        if found is None or (name in getattr(owner, "__dict__", {}) and owner is not kind):
            continue
        yield types.MethodType(found, owner) if inspect.isfunction(found) else found


def _is_own(kind: type) -> bool:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ == "__main__" or (file is not None and is_own_file(Path(file)))


def _without_default(function: Any) -> int:
    return int(function.__code__.co_argcount) - len(function.__defaults__ or ())
