"""What functions draw from: generators that they carry, which copies would repeat, and the global ones.

The global generators of numpy and of Python's random belong to the whole process, threads included, so that only one
block of runs at a time may use them; they are seeded for it, and given back untouched."""

from __future__ import annotations

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
from typing import Any, TypeVar

import numpy as np

from epsaudit.errors import AuditError, is_own

GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
DEPTH = 4
"""Functions within functions, attributes of attributes: so far is looked."""
MOST_PARTS = 64
"""Parts of a container that are looked at."""
LOCK = threading.RLock()
_NUMPY: Any = np.random
"""As numpy's types do not know all of it."""
Drawn = TypeVar("Drawn")


def carries_a_generator(function: Any, arguments: int) -> bool:
    """Say whether a function carries a generator that is copied with it; one of the operating system's is not.

    Defaults of the so many ``arguments`` that it is given do not matter.
    """
    for part in reached(function, arguments):
        if isinstance(part, GENERATORS) and not isinstance(part, random.SystemRandom):
            return True
    return False


def reached(thing: Any, arguments: int = 0, depth: int = DEPTH) -> Iterator[Any]:
    """Yield a function or object and all that it reaches in so many steps; some of it several times.

    Defaults of its first ``arguments`` do not count.
    """
    yield thing
    for part in _parts_of(thing, arguments) if depth else ():
        yield from reached(part, arguments, depth - 1)


def _parts_of(thing: Any, arguments: int) -> Iterator[Any]:
    if inspect.ismethod(thing):
        yield thing.__self__
        yield thing.__func__
        yield from _named_by(thing, thing.__self__)
    elif inspect.isfunction(thing):
        defaults, names = thing.__defaults__ or (), thing.__code__.co_names
        yield from defaults[max(arguments - thing.__code__.co_argcount + len(defaults), 0) :]
        yield from (thing.__kwdefaults__ or {}).values()
        for name in names:
            named = thing.__globals__.get(name)
            yield named
            if inspect.ismodule(named) and is_own(named):  # others' modules hold functions
                for inside in names:
                    yield vars(named).get(inside)
            elif inspect.isclass(named):
                yield from _named_by(thing, named)
        for cell in thing.__closure__ or ():
            if cell != types.CellType():  # not filled yet
                yield cell.cell_contents
    elif isinstance(thing, functools.partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, (dict, list, tuple, set, frozenset)):
        yield from itertools.islice(thing.values() if isinstance(thing, dict) else thing, MOST_PARTS)
    elif not inspect.ismodule(thing) and not inspect.isclass(thing):
        yield from getattr(thing, "__dict__", {}).values()
        called = type(thing).__call__ if callable(thing) else None
        if inspect.isfunction(called):
            yield types.MethodType(called, thing)


def _named_by(function: Any, owner: Any) -> Iterator[Any]:
    """Yield what a function names of a class that a user wrote, or of an object of one, and that is not the object's.

    Functions are yielded as methods, which name more of it.
    """
    kind = owner if inspect.isclass(owner) else type(owner)
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None or not (kind.__module__ == "__main__" or is_own(sys.modules.get(kind.__module__))):
        return
    for name in code.co_names:
        found = inspect.getattr_static(kind, name, None)
        found = getattr(found, "__func__", getattr(found, "fget", found))  # of a static, a class method, a property
        if found is not None and (owner is kind or name not in getattr(owner, "__dict__", {})):
            yield types.MethodType(found, owner) if inspect.isfunction(found) else found


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


def draw_reproducibly(draw: Callable[[], Drawn], rng: np.random.Generator, habits: Habits | None) -> Drawn:
    """Draw a block so that the global generators, if it uses them, depend on the state of ``rng`` alone.

    The first block is drawn with the global generators seeded. If it left them alone, later blocks are drawn without
    that (it would cost time, and keep threads from working side by side), but are looked at: one that does use them is
    thrown away and drawn again, as it would have been in the first place. `AuditError` if it has other randomness, so
    that it cannot be. What promises to draw from the rng alone has no ``habits``.
    """
    habits = Habits(draws_globally=False) if habits is None else habits
    with np.errstate():  # what a function sets for itself
        if habits.draws_globally is False:
            before, state = _states(), rng.bit_generator.state
            drawn = _drawn(draw, rng, None)
            if _states() == before:
                return drawn
            if not habits.repeatable:
                raise AuditError(
                    "The mechanism drew from a global generator (np.random, random) after many runs that did not, and "
                    "owns other randomness, so that its runs cannot be made again with a seed of their own. Draw all "
                    "of it from the rng that is passed to the function."
                )
            rng.bit_generator.state = state
        with LOCK:
            return _drawn(draw, rng, habits)


def _drawn(draw: Callable[[], Drawn], rng: np.random.Generator, habits: Habits | None) -> Drawn:
    """Draw a block, with the global generators seeded where there are habits to learn.

    It is drawn again where runs shared a dataset that one of them changed: now each has a copy of its own.
    """
    state, known = rng.bit_generator.state, habits is not None and bool(habits.draws_globally)
    while True:
        try:
            if habits is None:
                return draw()
            with seeded(rng) as begun:
                try:
                    return draw()
                finally:
                    habits.left = _states()
                    habits.draws_globally = known or habits.left != begun
        except DatasetChangedError:  # once for each dataset
            rng.bit_generator.state = state


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[Any]:
    """Seed the global generators from the state of ``rng``, a PCG64, which stays as it is; afterwards put them back.

    Yields their state.
    """
    state: dict[str, Any] = {**rng.bit_generator.state}
    numbers = [*state["state"].values(), state["has_uint32"], state["uinteger"]]
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


def _states() -> Any:
    """Where the global generators stand, to be compared."""
    numpys: Any = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    if isinstance(numpys, dict) and "key" in numpys:  # numpy's own, unless somebody chose another
        return numpys["key"].tobytes(), numpys["pos"], random.getstate()
    return repr(numpys), random.getstate()
