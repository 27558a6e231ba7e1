"""Where a function's randomness comes from: its rng, the global generators, another source, or a draw that it keeps.

`with_known_randomness` takes a function and says whether the same seeds give the same outputs. `Copies` takes a
function as it was before its first call and the outputs that it gave; it raises an error, or notes that they were
always the same. Given a draw that a function remembers, its runs look independent, and it would be refuted where what
it remembers on x differs from what it remembers on x', although a single release is private. Copies of it that were
never called, on datasets that were never used, tell that apart from a leak.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
import pickle
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cloudpickle
import numpy as np

from epsaudit.dependence import (
    LEVEL,
    Finding,
    dependence_of_outputs,
    difference_of_copies,
    refuse,
    unevenness_of_copies,
)
from epsaudit.errors import AuditError
from epsaudit.global_generators import Habits, seeded, used
from epsaudit.mechanism import FunctionMechanism, Mechanism
from epsaudit.neighbours import DatasetPair
from epsaudit.outputs import Outputs, Raised, are_numbers, are_objects, join, pack, written
from epsaudit.randomness import parts_of
from epsaudit.sampling import Sides, draw
from epsaudit.witnesses import Witness

CONSTANT = "the function always gives the same output on each dataset: no randomness was seen"

COPIES = 48
"""Copies that are asked: that none of so many lies in the middle half of the runs has probability 4e-15. A cached
answer of randomised response at epsilon 1 escapes them with probability 2e-7."""
RUNS_OF_A_COPY = 16
"""Runs of each copy at most; and no more than a thirteenth of the runs that they are compared with, but one."""
RUNS_IN_DOUBT, IN_DOUBT = 128, 0.02
"""Runs of each copy where fewer show, at the second level, that copies see an event unevenly. Of 400 sets of 48
copies that keep a chance of 0.4 or 0.6 each, 99 in 100 then have a p-value below 1e-10; with 32 runs each 70 in 100 are
in doubt, with 16 of copies that keep 0.27 or 0.73 all but 1 in 200 are."""

LARGEST_FUNCTION = 1 << 24
"""Bytes of a function, as it was before its first call, that are kept for its next audit."""

REPEATS = 8
"""Runs, or seeds, on each dataset for which a function must give the same outputs twice: 32 runs in all."""
STREAM = 5
"""First spawn key of the streams used here; see `epsaudit.chunks.STAGES` for the others."""


def with_known_randomness(mechanism: Mechanism, pair: DatasetPair, seed: int) -> Mechanism:
    """Return a function with remarks on what 32 runs show of its randomness and its memory.

    One that takes an rng must give the same outputs again for the same seeds, else it has randomness of its own. One
    that takes none must use the global generators, and give the same outputs again for the same seeds of these. Only
    then may it run in several processes, and be called reproducible. One that returns the same memory in two calls is
    not called by two threads at a time. A copy is asked, so that the function itself has not been called yet: only
    one that cannot be pickled is asked itself.
    """
    if not isinstance(mechanism, FunctionMechanism):
        return mechanism
    try:
        fresh = _with(mechanism, before_first_call(mechanism))
        if mechanism.uses_rng:
            own, shared = _remarks(fresh, pair, seed)
            return dataclasses.replace(mechanism, draws_elsewhere=own, fills_a_buffer=shared)
        remarked = dataclasses.replace(mechanism, draws_globally=True)
        if not mechanism.copies_repeat or remarked.owns_randomness or mechanism.time_limit is not None:
            return mechanism
        for number in range(REPEATS):
            for dataset in (pair.x, pair.x_prime):
                first, moved = _once(fresh(dataset), seed, number)
                if not moved or first != _once(fresh(dataset), seed, number)[0]:
                    return mechanism
    except Exception:  # the audit itself says what is wrong
        return mechanism
    return remarked


def _with(mechanism: FunctionMechanism, pickled: bytes | None) -> Any:
    """The mechanism with a copy of its function; itself where there is none."""
    with contextlib.suppress(Exception):
        return dataclasses.replace(mechanism, function=pickle.loads(pickled or b""))
    return mechanism


def _remarks(mechanism: Any, pair: DatasetPair, seed: int) -> tuple[bool, bool]:
    """Whether the same seeds gave other outputs, and whether two calls returned the same memory."""
    own = shared = False
    for number, dataset in enumerate((pair.x, pair.x_prime)):
        distributions = [mechanism(dataset) for _ in range(2)]
        blocks = [draw(one, REPEATS, _stream(seed, number)) for one in distributions]
        own |= _text(blocks[0]) != _text(blocks[1])
        if not mechanism.one_by_one:
            with seeded(_stream(seed, number)):
                raw: list[Any] = [one.sample(REPEATS, _stream(seed, number)) for one in distributions]
            shared |= all(isinstance(some, np.ndarray) for some in raw) and np.may_share_memory(*raw)
    return own and mechanism.time_limit is None, shared


def _once(distribution: Any, seed: int, number: int) -> tuple[str, bool]:
    """One output, as text, with seeded global generators, and whether these were used."""
    rng = _stream(seed, number)
    with seeded(rng) as begun:
        return _text(distribution.sample(1, rng)), used(begun)


def _text(outputs: Outputs) -> str:
    return written(tuple(outputs.tolist()))


def before_first_call(mechanism: Mechanism) -> bytes | None:
    """Pickle a function with all that it holds, before it was ever called; None if it cannot be.

    What its module holds is pickled with it, so that a copy has caches of its own.
    """
    if not isinstance(mechanism, FunctionMechanism):
        return None
    now = _pickled(mechanism)
    with contextlib.suppress(KeyError, TypeError):
        first, last = _PICKLED[mechanism.function]
        if last == now:  # as the last audit left it, which may have made it remember an answer
            return first
    _keep(mechanism, now, now)
    return now


_PICKLED: weakref.WeakKeyDictionary[Any, tuple[bytes, bytes]] = weakref.WeakKeyDictionary()
"""Functions before their first audit, and in their last."""


def _keep(mechanism: FunctionMechanism, first: bytes | None, last: bytes | None) -> None:
    if first is not None and last is not None and max(len(first), len(last)) <= LARGEST_FUNCTION:
        with contextlib.suppress(TypeError):  # of a kind that cannot be referred to weakly
            _PICKLED[mechanism.function] = (first, last)


def _pickled(mechanism: FunctionMechanism) -> bytes | None:
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


class Copies:
    """Compares the outputs of every pair, once, with those of copies of the function as it was before its first call.

    Make it before the function is called.
    """

    def __init__(self, mechanism: Mechanism, seed: int) -> None:
        self._mechanism, self._seed = mechanism, seed
        self._pickled = before_first_call(mechanism)
        self._seen: dict[int, tuple[bool, bool]] = {}

    def look(self, sides: Sides, outputs: tuple[Outputs, Outputs], level: float = LEVEL / 16) -> None:
        """Remember which sides are constant; raises `AuditError` if a function repeats or keeps a draw.

        Independent runs of a function that keeps nothing are refused with probability at most ``level`` for each side,
        of which the k-th pair has a share 1 / (k (k + 1)).
        """
        if id(sides) in self._seen:
            return
        if isinstance(self._mechanism, FunctionMechanism) and self._pickled is not None:
            _keep(self._mechanism, self._pickled, _pickled(self._mechanism))
        level /= (len(self._seen) + 1) * (len(self._seen) + 2)
        constant = tuple(map(_is_constant, outputs))
        self._seen[id(sides)] = (constant[0], constant[1])
        for side, name in enumerate(("x", "x'")):
            if not isinstance(self._mechanism, FunctionMechanism):
                continue
            if constant[side]:
                self._refuse_if_remembered(sides[side], _text(outputs[side][:1]), len(outputs[side]), name)
            elif self._pickled is not None:
                self._refuse_if_kept(sides[side], self._pickled, outputs[side], name, level)

    def count_again(self, sides: Sides, witness: Witness, runs: int) -> None:
        """Ask before a claim is refuted: raises `AuditError` if some copies see the events more often than others.

        A copy that keeps a draw sees an event as often as that draw has it, another copy more or less often. Few runs
        of each say whether to ask for more: about ``runs`` in all on each dataset, or `RUNS_IN_DOUBT` of each copy.
        Independent runs are refused with probability at most LEVEL / 8.
        """
        if not isinstance(self._mechanism, FunctionMechanism) or self._pickled is None:
            return
        for side, name in zip(sides, ("x", "x'"), strict=True):
            for each, level in ((RUNS_OF_A_COPY, IN_DOUBT), (max(RUNS_IN_DOUBT, runs // COPIES), LEVEL / 16)):
                try:
                    copies = [_copied(side, self._pickled, None) for _ in range(COPIES)]
                except Exception:  # what cannot be copied cannot be compared
                    return
                found = self._unevenness(copies, witness, each // 2, level)
                if found is None:
                    break
            refuse(found, name)

    def _unevenness(self, copies: Sequence[Any], witness: Witness, runs: int, level: float) -> Finding | None:
        first: list[list[Any]] = []
        later: list[list[Any]] = []
        for number, copied in enumerate(copies):
            rng = _stream(self._seed, (2 + runs) * COPIES + 1 + number)
            for hits in (first, later):
                guesses = witness.guesses(draw(copied, runs, rng))
                hits.append([np.count_nonzero(event) for event in guesses if event is not None])
        events = zip(np.transpose(first), np.transpose(later), strict=True)
        found = [unevenness_of_copies(runs, *event, level / 2) for event in events]
        return next(filter(None, found), None)

    def notes(self, sides: Sides) -> tuple[str, ...]:
        """Say so if every output on each dataset of the pair was the same."""
        return (CONSTANT,) if all(self._seen.get(id(sides), (False, False))) else ()

    def _refuse_if_kept(self, side: Any, pickled: bytes, outputs: Outputs, name: str, level: float) -> None:
        """Refuse a function whose runs are alike because of a draw that it keeps, as copies of it show."""
        runs = min(max(len(outputs) // (13 * COPIES), 1), RUNS_OF_A_COPY)
        try:
            copies = [_copied(side, pickled, None) for _ in range(COPIES)]
        except Exception:  # what cannot be copied cannot be compared
            return
        blocks = [draw(copy, runs, _stream(self._seed, COPIES + 1 + number)) for number, copy in enumerate(copies)]
        if len(set(map(_text, blocks))) == 1:  # a generator of its own, which copies repeat
            return
        refuse(dependence_of_outputs(join(blocks), ([runs] * COPIES,), level / 2), name)
        difference = difference_of_copies(outputs, join([block[:1] for block in blocks]), level / 2)
        if difference is not None:
            raise AuditError(
                f"Copies of the function that were never called answer otherwise on {name} than the function in its "
                f"runs: {difference.what}. It keeps a draw from run to run, or needs a run to warm up, and then its "
                "runs say nothing of a release. Draw fresh noise in every run."
            )

    def _refuse_if_remembered(self, side: Any, value: str, runs: int, name: str) -> None:
        caches = list(_caches(side.function))
        makers: list[Callable[[], Any]] = []
        if caches:
            makers.append(lambda: _cleared(side, caches))
        pickled = self._pickled
        if pickled is not None and pickle.loads(pickled) is not side.function:
            makers += [functools.partial(_copied, side, pickled, forgotten) for forgotten in (None, value)]
        if pickled is None and not caches:
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
        output = draw(make(), 1, _stream(seed, number))
        others += _text(output) != value and not isinstance(output[0], Raised)  # who misses a table raises
        same, copies = runs + number + 1 - others, number + 1
        share = same / (runs + copies)
        if others and math.comb(copies, others) * share**same * (1.0 - share) ** others < LEVEL / 4:
            return True
    return False


def _copied(side: Any, pickled: bytes, forgotten: str | None) -> Any:
    """A copy of the function, in which what holds this output is emptied: an earlier audit may have filled it."""
    function = pickle.loads(pickled)
    if forgotten is not None:
        for thing in list(_held(function)):
            if isinstance(thing, dict) and any(_prints_as(part, forgotten) for part in thing.values()):
                thing.clear()
            elif hasattr(thing, "__dict__") and not callable(thing):
                vars(thing).update({name: None for name, part in vars(thing).items() if _prints_as(part, forgotten)})
    fresh = copy.copy(side.dataset)  # what an earlier run left on the dataset is not with it
    return dataclasses.replace(side, function=function, dataset=fresh, habits=Habits(side.habits.draws_globally))


def _prints_as(part: Any, value: str) -> bool:
    try:
        return _text(pack([part])) == value
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
    return dataclasses.replace(side, dataset=copy.copy(side.dataset), habits=Habits())


def _caches(function: Any, depth: int = 4) -> Iterator[Any]:
    """Find `functools.lru_cache` and its like, in a function and in what it refers to."""
    if callable(getattr(function, "cache_clear", None)):
        yield function
    elif depth:
        for part in parts_of(function, 0):
            yield from _caches(part, depth - 1)


def _is_constant(outputs: Outputs) -> bool:
    if are_objects(outputs):
        return len(set(map(written, outputs.tolist()))) == 1
    first = outputs[:1]
    if not are_numbers(outputs):
        return bool(np.all(outputs == first))
    same = (outputs == first) & (np.signbit(outputs) == np.signbit(first))  # the sign of zero may be random
    return len(outputs) > 0 and bool(np.all(same | (np.isnan(outputs) & np.isnan(first))))


def _stream(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, number)))
