"""Where the randomness of a function comes from: generators that it carries, and the global generators.

It stands alone because two decisions depend on it: whether copies of a function may run side by side, and whether a
result can be reproduced from its seed.
"""

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
from typing import Any, TypeVar, cast

import numpy as np

from epsaudit.errors import AuditError, is_own

GENERATOR_TYPES = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
MAX_SEARCH_DEPTH, MAX_SEARCHED_PARTS = 4, 64
"""[chosen] Number of levels to which a function is searched for a generator (functions within functions), and number of
parts of a container that are searched."""
LOCK = threading.RLock()
"""The global generators belong to all threads: only one block of runs at a time may use them."""
MT19937_BYTES = 2500
"""[formula] Size of the state of numpy's Mersenne twister: 624 words of 4 bytes, and a position among them."""
Block = TypeVar("Block")
_numpy_random = cast(Any, np.random)  # its type stubs lack some of its functions
_python_random: Any = cast(Any, random).getstate.__self__
"""The object whose methods are the functions of the module `random`."""
PYTHON_BYTES = cast(Any, random.Random).__base__.__basicsize__ - object.__basicsize__
"""[formula] Size of the state of Python's Mersenne twister: the part of its object that follows the object's header."""


# generators that a function carries


def carries_a_generator(function: Any, arguments: int) -> bool:
    """Return whether a function refers to a random generator, which would be copied together with the function.

    A generator of the operating system (`random.SystemRandom`) does not count, because its copies never repeat each
    other. Default values of the first ``arguments`` parameters do not count either, because audits pass these.

    >>> rng = np.random.default_rng(0)
    >>> carries_a_generator(lambda data: data + rng.laplace(), 1), carries_a_generator(lambda data, rng: data, 2)
    (True, False)
    """
    to_search, seen = [(function, 0)], dict[int, Any]()
    for thing, depth in to_search:  # the list grows during the loop
        if is_generator(thing):
            return True
        if depth == MAX_SEARCH_DEPTH or id(thing) in seen or inspect.ismodule(thing):
            continue
        seen[id(thing)] = thing
        to_search += zip(_parts_of(thing, arguments), itertools.repeat(depth + 1))
    return False


def _parts_of(thing: Any, arguments: int) -> list[Any]:
    """Return the objects to which a function, a container or an instance refers, to be searched for a generator.

    Default values of the first ``arguments`` parameters of a function are left out.
    """
    if inspect.ismethod(thing):
        return [thing.__self__, thing.__func__]
    if inspect.isfunction(thing):
        return _parts_of_function(thing, arguments)
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, (dict, list, tuple, set, frozenset)):
        return list(itertools.islice(thing.values() if isinstance(thing, dict) else thing, MAX_SEARCHED_PARTS))
    parts: list[Any] = [] if inspect.isclass(thing) else list(getattr(thing, "__dict__", {}).values())
    for kind in (thing if inspect.isclass(thing) else type(thing)).__mro__:
        if kind.__module__ == "__main__" or is_own(sys.modules.get(kind.__module__)):
            for part in vars(kind).values():  # static methods, class methods and properties hold a function
                parts.append(getattr(part, "__func__", getattr(part, "fget", part)))
    return parts


def _parts_of_function(function: types.FunctionType, arguments: int) -> list[Any]:
    """Return the objects to which a function refers: default values, variables of outer functions, and globals.

    Default values of the first ``arguments`` parameters are left out.
    """
    defaults = function.__defaults__ or ()
    parts: list[Any] = [*defaults[max(arguments - function.__code__.co_argcount + len(defaults), 0) :]]
    parts += (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        parts += [] if cell == types.CellType() else [cell.cell_contents]
    names = _names_in(function.__code__)
    for found in map(function.__globals__.get, names):
        parts.append(found)
        if inspect.ismodule(found) and is_own(found):  # modules of libraries only hold functions
            parts += map(vars(found).get, names)
    return parts


def _names_in(code: types.CodeType) -> list[str]:
    """Return the names of globals and attributes that code uses, including the code of functions inside it."""
    inner = [name for one in code.co_consts if isinstance(one, types.CodeType) for name in _names_in(one)]
    return [*code.co_names, *inner]


def is_generator(thing: Any) -> bool:
    """Return whether an object is a generator of numpy, Python or PyTorch, or a typed random key of JAX.

    PyTorch and JAX are not imported here; their objects are recognised by the names of their types.
    """
    if isinstance(thing, GENERATOR_TYPES):
        return not isinstance(thing, random.SystemRandom)
    kind = type(thing)
    library = kind.__module__.partition(".")[0]
    if library == "torch":
        return kind.__name__ == "Generator"
    return library in ("jax", "jaxlib") and str(getattr(thing, "dtype", "")).startswith("key<")


def owns_randomness(function: Any, seeded: bool, arguments: int) -> bool:
    """Return whether a function may draw random numbers that do not follow from the seed of the audit.

    This is so if no seed or generator was seen to reach the function (``seeded`` is false), or if the function holds a
    generator of its own. A copy of such a function might repeat its noise, and so might the function itself after a
    restart. ``arguments`` is the number of arguments that audits pass to the function.
    """
    return not seeded or carries_a_generator(function, arguments)


# the global generators of numpy and Python


class DatasetChangedError(Exception):
    """Raised when a run changes a dataset that it shares with other runs. The block must then be drawn again."""


@dataclass
class GlobalRngUse:
    """A record of whether a function uses the global random generators of numpy and Python.

    Attributes
    ----------
    draws_globally : bool, optional
        Whether the function was seen to use a global generator; None before its first block.
    repeatable : bool
        Whether a block can be drawn again, because all randomness of the function can be seeded.
    last_states : object
        The states of the global generators after the last block that was drawn with them seeded.
    """

    draws_globally: bool | None = None
    repeatable: bool = True
    last_states: Any = None


def draw_reproducibly(draw: Callable[[], Block], rng: np.random.Generator, use: GlobalRngUse | None) -> Block:
    """Draw a block of runs such that the global generators, if the function uses them, depend on ``rng`` only.

    The first block is drawn with the global generators seeded. If the function did not use them, later blocks are drawn
    without seeding, because seeding keeps threads from working side by side; a later block that does use them is drawn
    again with seeding. A block is also drawn again if a run changed a dataset that it shared with other runs.

    Parameters
    ----------
    draw : callable
        Draws the block; it uses ``rng`` or the global generators.
    rng : numpy.random.Generator
        The generator of the block.
    use : GlobalRngUse, optional
        What is known about the function, updated here; None for laws that promise to draw from ``rng`` only.

    Raises `AuditError` if a function whose blocks cannot be drawn again uses a global generator late.
    """
    use = GlobalRngUse(draws_globally=False) if use is None else use
    known, state = use.draws_globally, rng.bit_generator.state
    with np.errstate():  # a function may set these for itself
        while True:
            try:
                if known is False:
                    before, block = _global_states(), draw()
                    if _global_states() == before:
                        return block
                    if not use.repeatable:
                        raise AuditError(
                            "The mechanism drew from a global generator (np.random, random) after many runs that did "
                            "not, and owns other randomness. Draw all of it from the rng that is passed to it."
                        )
                    known, rng.bit_generator.state = None, state
                with LOCK, seeded(rng) as seeded_states:
                    try:
                        return draw()
                    finally:
                        use.last_states = _global_states()
                        use.draws_globally = bool(known) or use.last_states != seeded_states
            except DatasetChangedError:  # at most once for each dataset
                rng.bit_generator.state = state


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[Any]:
    """Seed the global generators of numpy and Python inside the block, and restore their states afterwards.

    The seeds are derived from the state of ``rng``, whose bit generator must be a PCG64. Yields the states of the
    seeded generators.
    """
    state: dict[str, Any] = {**rng.bit_generator.state}
    numbers = [*state["state"].values(), state["has_uint32"], state["uinteger"]]
    words = np.random.SeedSequence(numbers).generate_state(8)  # hashed, so that they differ from what rng will draw
    numpys, pythons = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002
    generator = _numpy_random.get_bit_generator()
    try:
        if not isinstance(generator, np.random.MT19937):  # np.random.seed can seed no other generator
            _numpy_random.set_bit_generator(np.random.MT19937())
        np.random.seed(words[:4])  # noqa: NPY002
        random.seed(int.from_bytes(words[4:].tobytes(), "little"))
        yield _global_states()
    finally:
        _numpy_random.set_bit_generator(generator)
        np.random.set_state(numpys)  # noqa: NPY002
        random.setstate(pythons)


def _global_states() -> Any:
    """Return the states of the global generators of numpy and Python, which are to be compared.

    Every block of runs needs the states twice, so they are read directly from memory. A copy through numpy's ``state``
    would take 74 microseconds, and one by `random.getstate` 9, with 5 more for a comparison.
    """
    generator = _numpy_random.get_bit_generator()
    is_mt19937 = type(generator) is np.random.MT19937  # unless somebody chose another one
    numpys = ctypes.string_at(generator.ctypes.state_address, MT19937_BYTES) if is_mt19937 else repr(generator.state)
    if sys.implementation.name != "cpython":  # elsewhere an id is no address
        return numpys, random.getstate()
    pythons = ctypes.string_at(id(_python_random) + object.__basicsize__, PYTHON_BYTES)
    return numpys, pythons, _python_random.gauss_next
