"""What functions draw from: generators that they carry, which copies would repeat, and the global ones.

The global generators of numpy and of Python's random belong to the whole process, threads included, so that only one
block of runs at a time may use them; they are seeded for it, and given back untouched."""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from epsaudit.errors import AuditError, is_own_file

GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
DEPTH = 4
"""Functions within functions, attributes of attributes: so far is looked."""
MOST_PARTS = 64
"""Parts of a container that are looked at."""
LOCK = threading.RLock()
STATE_OF_MT19937 = 4 * 624 + 4
"""Bytes of the state of numpy's global generator: 624 words and the place in them."""

_NUMPY: Any = np.random
"""As numpy's types do not know all of it."""
_PYTHON: Any = getattr(random.random, "__self__", None)
_PLACE = id(_PYTHON) + object.__basicsize__
Drawn = TypeVar("Drawn")


def carries_a_generator(function: Any, arguments: int) -> bool:
    """Say whether a function carries a generator that is copied with it; one of the operating system's is not.

    Defaults of the so many ``arguments`` that it is given do not matter.

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
        defaults = thing.__defaults__ or ()
        yield from defaults[max(arguments - thing.__code__.co_argcount + len(defaults), 0) :]
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
    elif isinstance(thing, (dict, list, tuple, set, frozenset)):
        yield from itertools.islice(thing.values() if isinstance(thing, dict) else thing, MOST_PARTS)
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


class DatasetChangedError(Exception):
    """Raised inside a block whose runs were found to share a dataset that one of them changed: draw it again."""


@dataclass
class Habits:
    """What is known of how a function gets its randomness."""

    draws_globally: bool | None = None
    """Whether it was seen to use a global generator; None before its first block."""
    repeatable: bool = True
    """Whether the generator passed to it, and the global ones, are all its randomness as far as can be seen, so that a
    block can be drawn again."""
    left: Any = None
    """Where the global generators stood after the last block that was drawn with them seeded."""

    @property
    def seeds(self) -> bool:
        """Whether a block is drawn with the global generators seeded."""
        return self.draws_globally is not False


def draw_reproducibly(draw: Callable[[], Drawn], rng: np.random.Generator, habits: Habits) -> Drawn:
    """Draw a block so that the global generators, if it uses them, depend on the state of ``rng`` alone.

    The first block is drawn with the global generators seeded. If it left them alone, later blocks are drawn without
    that (it would cost time, and keep threads from working side by side), but are looked at: one that does use them is
    thrown away and drawn again, as it would have been in the first place. `AuditError` if it has other randomness, so
    that it cannot be.

    Examples
    --------
    >>> habits = Habits()
    >>> a, b = (draw_reproducibly(random.random, np.random.default_rng(1), habits) for _ in range(2))
    >>> a == b, habits.draws_globally
    (True, True)
    """
    with np.errstate():  # what a function sets for itself
        return _reproducibly(draw, rng, habits)


def _reproducibly(draw: Callable[[], Drawn], rng: np.random.Generator, habits: Habits) -> Drawn:
    if habits.seeds:
        with LOCK:
            if habits.seeds:  # another thread may have found out
                return _seeded(draw, rng, habits)
    before, state = _states(), rng.bit_generator.state
    drawn = _again_if_changed(draw, rng)
    if _states() == before:
        return drawn
    if not habits.repeatable:
        raise AuditError(
            "The mechanism drew from a global generator (np.random, random) after many runs that did not, and owns "
            "other randomness, so that its runs cannot be made again with a seed of their own. Draw all of it from the "
            "rng that is passed to the function."
        )
    with LOCK:
        rng.bit_generator.state = state
        return _seeded(draw, rng, habits)


def _seeded(draw: Callable[[], Drawn], rng: np.random.Generator, habits: Habits) -> Drawn:
    known = bool(habits.draws_globally)

    def once() -> Drawn:
        with seeded(rng) as begun:
            try:
                return draw()
            finally:
                habits.left = _states()
                habits.draws_globally = known or habits.left != begun

    return _again_if_changed(once, rng)


def _again_if_changed(draw: Callable[[], Drawn], rng: np.random.Generator) -> Drawn:
    """Draw again where runs shared a dataset that one of them changed: now each has a copy of its own."""
    state = rng.bit_generator.state
    for _ in range(2):  # once for each dataset
        try:
            return draw()
        except DatasetChangedError:
            rng.bit_generator.state = state
    return draw()


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[Any]:
    """Seed the global generators from the state of ``rng``, which stays as it is; afterwards put them back.

    Yields what `used` compares.
    """
    numbers = [part for part in _numbers(rng.bit_generator.state) if part >= 0]
    words = np.random.SeedSequence(numbers).generate_state(8)  # hashed, so that they are not what it will draw
    theirs, python = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002
    generator = _NUMPY.get_bit_generator()
    try:
        if not isinstance(generator, np.random.MT19937):  # somebody's choice, which np.random.seed cannot seed
            _NUMPY.set_bit_generator(np.random.MT19937())
        np.random.seed(words[:4])  # noqa: NPY002
        random.seed(int.from_bytes(words[4:].tobytes(), "little"))
        yield _states()
    finally:
        _NUMPY.set_bit_generator(generator)
        np.random.set_state(theirs)  # noqa: NPY002
        random.setstate(python)


def used(begun: Any) -> bool:
    """Say whether the global generators were used since `seeded` yielded this."""
    return bool(_states() != begun)


def _numbers(state: Any) -> Iterator[int]:
    if isinstance(state, dict):
        for part in state.values():
            yield from _numbers(part)
    elif isinstance(state, np.ndarray):
        yield from map(int, state)
    elif isinstance(state, int):
        yield state


def _states() -> Any:
    """States of both, to be compared; numpy's is read where it lies, for to ask for it takes 0.15 ms."""
    generator = _NUMPY.get_bit_generator()
    address = _address(generator)
    numpys = ctypes.string_at(address, STATE_OF_MT19937) if address else repr(generator.state)
    return numpys, _read_python() if _lies_as_expected() else random.getstate()


@functools.lru_cache(maxsize=1)
def _address(generator: Any) -> int:
    """Where the state of numpy's generator lies; 0 for one of another kind than it has by default."""
    return int(generator.ctypes.state_address) if isinstance(generator, np.random.MT19937) else 0


def _read_python() -> bytes:
    """State of Python's global generator, read where CPython keeps it: behind the object's head."""
    return ctypes.string_at(_PLACE, STATE_OF_MT19937)


@functools.cache
def _lies_as_expected() -> bool:
    """Whether CPython keeps it there, in this version."""
    if sys.implementation.name != "cpython" or not isinstance(_PYTHON, random.Random):
        return False
    *words, place = random.getstate()[1]
    return _read_python() == b"".join(int(word).to_bytes(4, sys.byteorder) for word in (place, *words))
