"""Functions that always give the same output on a dataset: whether they have no randomness, or only remember a draw.

`Constants` takes a function as it was before its first call and the outputs that it gave; it raises an error, or notes
that they were always the same. A function whose answer is cached looks like one without randomness, and would be
refuted where its one draw on x differs from its one draw on x', although a single release is private. Copies of it that
were never called tell the two apart.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import numpy as np

from epsaudit.dependence import LEVEL
from epsaudit.errors import AuditError
from epsaudit.global_generators import Habits, seeded, used
from epsaudit.mechanism import FunctionMechanism, Mechanism
from epsaudit.neighbours import DatasetPair
from epsaudit.outputs import Outputs, Raised, are_numbers, are_objects, pack
from epsaudit.randomness import parts_of
from epsaudit.sampling import Sides, draw

CONSTANT = "the function always gives the same output on each dataset: no randomness was seen"

COPIES = 24
"""Copies that are asked: a cached answer of randomised response at epsilon 1 escapes 24 with probability 0.0005."""

REPEATS = 8
"""Seeds, on each dataset, for which a function must give the same output twice: 32 runs in all."""
STREAM = 5
"""First spawn key of the streams used here; see `epsaudit.chunks.STAGES` for the others."""


def with_known_randomness(mechanism: Mechanism, pair: DatasetPair, seed: int) -> Mechanism:
    """Return a function that takes no rng with the remark that it draws from the global generators, if it does.

    It is run at most 32 times, with the global generators seeded: it must use them, and give the same outputs again
    for the same seeds. Only then may it run in several processes, and be called reproducible.
    """
    if not isinstance(mechanism, FunctionMechanism) or mechanism.uses_rng or not mechanism.copies_repeat:
        return mechanism
    remarked = dataclasses.replace(mechanism, draws_globally=True)
    if remarked.owns_randomness or mechanism.time_limit is not None:
        return mechanism
    try:
        for number in range(REPEATS):
            for dataset in (pair.x, pair.x_prime):
                first, moved = _once(mechanism(dataset), seed, number)
                if not moved or first != _once(mechanism(dataset), seed, number)[0]:
                    return mechanism
    except Exception:  # the audit itself says what is wrong
        return mechanism
    return remarked


def _once(distribution: Any, seed: int, number: int) -> tuple[str, bool]:
    """One output, as text, with seeded global generators, and whether these were used."""
    rng = _stream(seed, number)
    with seeded(rng) as begun:
        return repr(distribution.sample(1, rng).tolist()), used(begun)


def before_first_call(mechanism: Mechanism) -> bytes | None:
    """Pickle a function with all that it holds, before it was ever called; None if it cannot be.

    What its module holds is pickled with it, so that a copy has caches of its own.
    """
    if not isinstance(mechanism, FunctionMechanism):
        return None
    module = sys.modules.get(getattr(mechanism.function, "__module__", None) or "")
    by_value = module is not None and module.__name__ not in ("__main__", "builtins")
    for register in (True, False) if by_value else (False,):
        try:
            if register:
                cloudpickle.register_pickle_by_value(module)
            return bytes(cloudpickle.dumps(mechanism.function))
        except Exception:  # tried by name, or told below if it matters
            continue
        finally:
            if register:
                cloudpickle.unregister_pickle_by_value(module)
    return None


class Constants:
    """Looks at the outputs of every pair, and has each constant side examined once."""

    def __init__(self, mechanism: Mechanism, seed: int) -> None:
        self._mechanism, self._seed = mechanism, seed
        self._written = before_first_call(mechanism)
        self._seen: dict[int, tuple[bool, bool]] = {}

    def look(self, sides: Sides, outputs: tuple[Outputs, Outputs]) -> None:
        """Remember which sides are constant; raises `AuditError` if one only repeats its first draw."""
        if id(sides) in self._seen:
            return
        constant = tuple(map(_is_constant, outputs))
        self._seen[id(sides)] = (constant[0], constant[1])
        for side, name in enumerate(("x", "x'")):
            if constant[side] and isinstance(self._mechanism, FunctionMechanism):
                self._refuse_if_remembered(sides[side], repr(outputs[side][:1].tolist()), len(outputs[side]), name)

    def notes(self, sides: Sides) -> tuple[str, ...]:
        """Say so if every output on each dataset of the pair was the same."""
        return (CONSTANT,) if all(self._seen.get(id(sides), (False, False))) else ()

    def _refuse_if_remembered(self, side: Any, value: str, runs: int, name: str) -> None:
        caches = list(_caches(side.function))
        makers: list[Callable[[], Any]] = []
        if caches:
            makers.append(lambda: _cleared(side, caches))
        copied = self._written is not None and pickle.loads(self._written) is not side.function
        if self._written is not None and copied:
            written = self._written
            for forget in (False, True):
                makers.append(functools.partial(_copied, side, written, value if forget else None))
        if self._written is None and not caches:
            raise AuditError(
                f"Every run on {name} gave the same output, and the function cannot be copied to see whether it has "
                "no randomness or only remembers its first draw. Pass it what it holds (connections, locks) in a form "
                "that can be pickled."
            )
        for make in makers:
            if _draws_once(make(), _stream(self._seed, COPIES)) or _others_differ(make, value, runs, self._seed):
                raise AuditError(
                    f"Every run on {name} gave the same output, but copies of the function that were never called "
                    "give others: it draws its noise once and remembers the answer. Runs that repeat one another say "
                    "nothing of a release; draw fresh noise in every run."
                )


def _draws_once(distribution: Any, rng: np.random.Generator) -> bool:
    """Whether the first run draws from the rng or a global generator, and the next ones do not."""
    moved = []
    for _ in range(3):
        state = rng.bit_generator.state
        with seeded(rng) as begun:
            distribution.sample(1, rng)
            moved.append(used(begun) or rng.bit_generator.state != state)
    return moved == [True, False, False]


def _others_differ(make: Callable[[], Any], value: str, runs: int, seed: int) -> bool:
    """Whether so many fresh copies give another output than the only one of ``runs`` runs that chance does not do it.

    If an output has probability p, then so many runs give it and d of m copies do not with probability
    C(m, d) p^(runs + m - d) (1 - p)^d, which is greatest where p is the share of those that give it.
    """
    others = 0
    for number in range(COPIES):
        output = draw(make(), 1, _stream(seed, number)).tolist()
        others += repr(output) != value and not isinstance(output[0], Raised)  # who misses a table raises
        same, copies = runs + number + 1 - others, number + 1
        share = same / (runs + copies)
        if others and math.comb(copies, others) * share**same * (1.0 - share) ** others < LEVEL / 4:
            return True
    return False


def _copied(side: Any, written: bytes, forgotten: str | None) -> Any:
    """A copy of the function, in which what holds this output is emptied: an earlier audit may have filled it."""
    function = pickle.loads(written)
    if forgotten is not None:
        for thing in list(_held(function)):
            if isinstance(thing, dict) and any(_prints_as(part, forgotten) for part in thing.values()):
                thing.clear()
            elif hasattr(thing, "__dict__") and not callable(thing):
                vars(thing).update({name: None for name, part in vars(thing).items() if _prints_as(part, forgotten)})
    return dataclasses.replace(side, function=function, habits=Habits())


def _prints_as(part: Any, value: str) -> bool:
    try:
        return repr(pack([part]).tolist()) == value
    except Exception:  # no output
        return False


def _held(thing: Any, depth: int = 4) -> Iterator[Any]:
    """Dictionaries and objects that a function refers to."""
    for part in parts_of(thing, 0) if depth else ():
        if isinstance(part, dict) or (hasattr(part, "__dict__") and not isinstance(part, (type, types.ModuleType))):
            yield part
        yield from _held(part, depth - 1)


def _cleared(side: Any, caches: list[Any]) -> Any:
    for cache in caches:
        cache.cache_clear()
    return dataclasses.replace(side, habits=Habits())


def _caches(function: Any, depth: int = 4) -> Iterator[Any]:
    """Find `functools.lru_cache` and its like, in a function and in what it refers to."""
    if callable(getattr(function, "cache_clear", None)):
        yield function
    elif depth:
        for part in parts_of(function, 0):
            yield from _caches(part, depth - 1)


def _is_constant(outputs: Outputs) -> bool:
    if are_objects(outputs):
        return len({repr(value) for value in outputs.tolist()}) == 1
    first = outputs[:1]
    if not are_numbers(outputs):
        return bool(np.all(outputs == first))
    same = (outputs == first) & (np.signbit(outputs) == np.signbit(first))  # the sign of zero may be random
    return len(outputs) > 0 and bool(np.all(same | (np.isnan(outputs) & np.isnan(first))))


def _stream(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, number)))
