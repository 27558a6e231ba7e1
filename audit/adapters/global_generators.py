"""The global generators of numpy and of Python's random: seeded for every block of runs, and given back untouched.

`draw_reproducibly` calls a function that draws a block and returns what it drew: the same for the same stream of random
numbers, whoever draws it, although it calls ``np.random.laplace()`` or ``random.gauss()``. These generators belong to
the whole process, threads included, so that only one block at a time may use them.
"""

from __future__ import annotations

import ctypes
import functools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from epsaudit.errors import AuditError

LOCK = threading.RLock()
STATE_OF_MT19937 = 4 * 624 + 4
"""Bytes of the state of numpy's global generator: 624 words and the place in them."""

_NUMPY: Any = np.random
"""As numpy's types do not know all of it."""

_PYTHON: Any = getattr(random.random, "__self__", None)

_PLACE = id(_PYTHON) + object.__basicsize__

Drawn = TypeVar("Drawn")


class DatasetChangedError(Exception):
    """Raised inside a block whose runs were found to share a dataset that one of them changed: draw it again."""


@dataclass
class Habits:
    """What is known of how a function gets its randomness.

    Attributes
    ----------
    draws_globally : bool or None
        Whether it was seen to use a global generator; None before its first block.
    repeatable : bool
        Whether the generator passed to it, and the global ones, are all its randomness as far as can be seen, so that
        a block can be drawn again.
    """

    draws_globally: bool | None = None
    repeatable: bool = True


def draw_reproducibly(draw: Callable[[], Drawn], rng: np.random.Generator, habits: Habits) -> Drawn:
    """Draw a block so that the global generators, if it uses them, depend on the state of ``rng`` alone.

    The first block is drawn with the global generators seeded. If it left them alone, later blocks are drawn without
    that (it would cost time, and keep threads from working side by side), but are looked at: one that does use them is
    thrown away and drawn again, from the same state of ``rng`` and with the global generators seeded, which is what it
    would have been in the first place.

    Raises
    ------
    AuditError
        If a block uses the global generators after others did not, and has other randomness of its own: then it
        cannot be drawn again.

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
    if _unknown_or_drawing(habits):
        with LOCK:
            if _unknown_or_drawing(habits):  # another thread may have found out
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


def _unknown_or_drawing(habits: Habits) -> bool:
    return habits.draws_globally is not False


def _seeded(draw: Callable[[], Drawn], rng: np.random.Generator, habits: Habits) -> Drawn:
    known = bool(habits.draws_globally)

    def once() -> Drawn:
        with seeded(rng) as begun:
            try:
                return draw()
            finally:
                habits.draws_globally = known or _states() != begun

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
    words = _words(rng)
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


def _words(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Eight words that depend on the state of a generator: hashed, so that they are not what it will draw."""
    state = rng.bit_generator.state
    numbers = [part for part in _numbers(state) if part >= 0]
    return np.random.SeedSequence(numbers).generate_state(8)


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
