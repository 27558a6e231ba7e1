"""Whether runs hold a draw that a function keeps, as copies of it show that were never called, and where it draws from.

Given a draw that a function remembers, its runs look independent, and it would be refuted where what it remembers on x
differs from what it remembers on x', although a single release is private. Copies tell that apart from a leak.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.functions import FunctionMechanism, Mechanism
from epsaudit.adapters.randomness import Habits, reached, seeded, used
from epsaudit.adapters.refusals import before_first_call, blame, copy_of, remember
from epsaudit.data.fresh import Dataset, loads_apart
from epsaudit.data.neighbours import DatasetPair
from epsaudit.engine.dependence import (
    LEVEL,
    Finding,
    dependence_of_outputs,
    difference_of_copies,
    otherwise_seen,
)
from epsaudit.engine.sampling import Sides, draw, move_on
from epsaudit.engine.streams import BLOCK, stream
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Outputs, Raised, values_of, written
from epsaudit.outputs.packed import are_numbers, are_objects, join, pack
from epsaudit.truth import knows_law
from epsaudit.witnesses import Witness


@dataclass(frozen=True)
class Patience:
    """The time at which an audit is to end, as `time.perf_counter` has it; infinite where no time was said.

    It says how many runs a safeguard makes of a slow function: as many as there is time for, and never too few.
    """

    until: float = math.inf

    def affords(self, run: Callable[[], Any], runs: int, each: int, least: int, most: int) -> int:
        """How many times ``each`` runs there is time for, from ``least`` to ``most``; ``run`` makes ``runs``.

        >>> Patience().affords(lambda: time.sleep(0.01), 1, 100, 2, 16)
        16
        >>> now = time.perf_counter()
        >>> [Patience(now + left).affords(lambda: None, 1, 100, 2, 16) for left in (0, 3600)]
        [2, 16]
        """
        if math.isinf(self.until):
            return most
        started = time.perf_counter()
        run()
        ended = time.perf_counter()
        pace = max((ended - started) / runs, 1e-9)
        return int(min(max((self.until - ended) / (pace * each), least), most))


REPEATS = 8
"""Runs, or seeds, on each dataset for which a function must give the same outputs twice: 32 runs in all."""


def with_known_randomness(mechanism: Mechanism, pair: DatasetPair, seed: int) -> Mechanism:
    """Return a function with remarks on what 32 runs of a copy show of its randomness and its memory.

    One that takes an rng must give the same outputs again for the same seeds, else it has randomness of its own. One
    that takes none must use the global generators, and give the same outputs again for the same seeds of these. Only
    then may it run in several processes, and be called reproducible. One that returns the same memory in two calls is
    not called by two threads at a time. Only one that cannot be pickled is asked itself.
    """
    if not isinstance(mechanism, FunctionMechanism):
        return mechanism
    try:
        datasets = [Dataset(one) for one in (pair.x, pair.x_prime)]
        fresh = copy_of(mechanism, before_first_call(mechanism), lambda: b"".join(one.written for one in datasets))
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


def _remarks(mechanism: Any, pair: DatasetPair, seed: int) -> tuple[bool, bool]:
    """Whether the same seeds gave other outputs, and whether two calls returned the same memory."""
    own = shared = False
    for number, dataset in enumerate((pair.x, pair.x_prime)):
        distributions = [mechanism(dataset) for _ in range(2)]
        blocks = [draw(one, REPEATS, stream(seed, "same seeds", number)) for one in distributions]
        own |= text_of(blocks[0]) != text_of(blocks[1])
        if not mechanism.one_by_one:
            with seeded(stream(seed, "same seeds", number)):
                raw: list[Any] = [one.sample(REPEATS, stream(seed, "same seeds", number)) for one in distributions]
            shared |= all(isinstance(some, np.ndarray) for some in raw) and np.may_share_memory(*raw)
    return own and mechanism.time_limit is None, shared


def refuse_if_drawn_before(mechanism: Mechanism, pair: DatasetPair, sides: Sides, seed: int) -> None:
    """Raise `AuditError` for a mechanism that says that it depends on its rng alone, and has other randomness.

    It may have drawn its noise when it was given the dataset. One that knows its law draws from that.
    """
    if isinstance(mechanism, FunctionMechanism) or not getattr(mechanism, "reproducible", True):
        return
    for number, (side, dataset) in enumerate(zip(sides, (pair.x, pair.x_prime), strict=True)):
        if not knows_law(side) and not getattr(side, "tossed", False):
            blocks = [draw(one, REPEATS, stream(seed, "same seeds", number)) for one in (side, mechanism(dataset))]
            if text_of(blocks[0]) != text_of(blocks[1]):
                raise AuditError(
                    f"{mechanism.name} gives other outputs for the same rng: it draws noise of its own, perhaps once "
                    "for all runs, where it is given its dataset. Draw all of it from the rng in sample(size, rng); or "
                    "set reproducible = False, and see to it that every run draws afresh."
                )


def _once(distribution: Any, seed: int, number: int) -> tuple[str, bool]:
    """One output, as text, with seeded global generators, and whether these were used."""
    rng = stream(seed, "same seeds", number)
    with seeded(rng) as begun:
        return text_of(distribution.sample(1, rng)), used(begun)


def text_of(outputs: Outputs) -> str:
    """Write what every output is, whatever it was packed with."""
    return written(tuple(values_of(outputs)))


CONSTANT = "the function always gives the same output on each dataset: no randomness was seen"
UNCOPIED = "the function cannot be copied: a draw that it keeps from run to run would be taken for what it releases"
COPIES = 48
"""Copies that are asked: that none of so many lies in the middle half of the runs has probability 4e-15. A cached
answer of randomised response at epsilon 1 escapes them with probability 2e-7."""
RUNS_OF_A_COPY = 16
"""Runs of each copy at most; and no more than a thirteenth of the runs that they are compared with, but one."""
COUNTED_AGAIN = 2 * COPIES * RUNS_OF_A_COPY
"""Runs of a function, beyond its audit's, whose events are compared with those of its copies; more where in doubt."""
RUNS_IN_DOUBT, IN_DOUBT = 128, 0.02
"""Runs of each copy where fewer show, at the second level, that copies see an event unevenly. Of 400 sets of 48
copies that keep a chance of 0.4 or 0.6 each, 99 in 100 then have a p-value below 1e-10; with 32 runs each 70 in 100 are
in doubt, with 16 of copies that keep 0.27 or 0.73 all but 1 in 200 are."""
LEAST_OF_A_COPY = 4
"""Runs of each copy where time runs out. Of 400 sets of 48 copies that keep an answer, or a chance of 0.1 or 0.9, all
are in doubt then, and of those that keep 0.2 or 0.8, 79 in 100."""
PATIENT = Patience()


class Copies:
    """Compares the outputs of every pair, once, with those of copies of the function as it was before its first call.

    Make it before the function is called. `look` and `count_again` say what independent runs are refused with.
    """

    def __init__(self, mechanism: Mechanism, seed: int) -> None:
        self._mechanism, self._seed = mechanism, seed
        self._pickled = before_first_call(mechanism)
        self._caches = list(_caches(mechanism.function)) if isinstance(mechanism, FunctionMechanism) else []
        self._seen: dict[int, tuple[bool, bool]] = {}
        self._witnesses = 0

    def look(self, sides: Sides, outputs: tuple[Outputs, Outputs], level: float = LEVEL / 16) -> None:
        """Remember which sides are constant; raises `AuditError` if a function repeats or keeps a draw.

        Independent runs of a function that keeps nothing are refused with probability at most ``level`` for each side,
        of which the k-th pair has a share 1 / (k (k + 1)).
        """
        if id(sides) in self._seen:
            return
        level /= (len(self._seen) + 1) * (len(self._seen) + 2)
        constant = tuple(map(_is_constant, outputs))
        self._seen[id(sides)] = (constant[0], constant[1])
        if not isinstance(self._mechanism, FunctionMechanism):
            return
        if self._pickled is not None:
            remember(self._mechanism, self._pickled)
        for side, name in enumerate(("x", "x'")):
            key = len(self._seen), side
            if constant[side]:
                self._refuse_if_remembered(sides[side], text_of(outputs[side][:1]), len(outputs[side]), name, key)
            else:
                self._refuse_if_kept(sides[side], outputs[side], name, level, key)

    def count_again(
        self, sides: Sides, witness: Witness, runs: int, refuted: bool, patience: Patience = PATIENT
    ) -> None:
        """Ask before a bound is certified: raises `AuditError` if copies see the witness's events otherwise.

        A copy that keeps a draw sees an event as often as that draw has it. Few runs of each say whether to ask for
        more, `RUNS_IN_DOUBT` of each copy or a tenth of the ``runs`` of the audit. Where the claim is not refuted, the
        few are at most a quarter of the audit's. Independent runs are refused with probability at most LEVEL / 8. Where
        time runs out, the few are `LEAST_OF_A_COPY` at least, and it is an error if there is none for more where they
        are in doubt.
        """
        few = RUNS_OF_A_COPY if refuted else min(RUNS_OF_A_COPY, runs // (16 * COPIES))
        if few < 2 or not isinstance(self._mechanism, FunctionMechanism):
            return
        many = max(RUNS_IN_DOUBT, runs // (10 * COPIES))
        self._witnesses += 1
        for place, name in enumerate(("x", "x'")):
            ask = functools.partial(draw, sides[place], RUNS_OF_A_COPY // 4)
            once = functools.partial(ask, stream(self._seed, "speed", self._witnesses, place))
            affords = functools.partial(patience.affords, once, RUNS_OF_A_COPY // 4)
            some = affords(2 * COPIES * (2 - place), min(LEAST_OF_A_COPY, few), few)
            if self._otherwise(sides, place, witness, some // 2, IN_DOUBT) is None:
                continue
            more = affords(2 * COPIES, RUNS_OF_A_COPY, many)
            self._refuse(self._otherwise(sides, place, witness, more // 2, LEVEL / 16), name)
            if more < many:
                raise AuditError(
                    f"Copies of the function may answer otherwise on {name} than it does, and there was no time to "
                    f"tell: they were to make {2 * COPIES * many:,} runs. Give the audit more seconds."
                )

    def _otherwise(self, sides: Sides, place: int, witness: Witness, runs: int, level: float) -> Finding | None:
        """What copies see otherwise than one another, or than the function, in twice so many ``runs`` of each."""
        key = self._witnesses, place, runs
        own = _counted(sides[place], witness, 2 * runs * COPIES, stream(self._seed, "own events", *key))
        seen = [
            _seen(copied, witness, runs, stream(self._seed, "events of copies", *key, number))
            for number, copied in enumerate(self._copies(sides[place]))
        ]
        alike = all(np.array_equal(one, seen[0]) for one in seen)
        if len(seen) < COPIES or (alike and getattr(self._mechanism, "owns_randomness", False)):
            return None  # no copy can be made, or all repeat a generator of their own
        for kept, (first, later) in zip(own, np.transpose(seen, (2, 1, 0)), strict=True):
            if (found := otherwise_seen(runs, first, later, int(kept), level / 4)) is not None:
                return found
        return None

    def notes(self, sides: Sides) -> tuple[str, ...]:
        """Say so if every output on each dataset of the pair was the same, or if no copy shows what is kept."""
        uncopied = isinstance(self._mechanism, FunctionMechanism) and self._pickled is None
        said = (CONSTANT, all(self._seen.get(id(sides), (False, False)))), (UNCOPIED, uncopied)
        return tuple(note for note, holds in said if holds)

    def _copies(self, side: Any) -> Iterator[Any]:
        """Copies, one at a time, with empty caches; none where there is nothing to copy or to empty."""
        for _ in range(COPIES if self._pickled is not None or self._caches else 0):
            try:
                copied = self._fresh(side)
            except Exception:  # what cannot be copied cannot be compared
                return
            yield copied

    def _fresh(self, side: Any, forgotten: str = "") -> Any:
        """A copy of the function, if there is one; what holds this output is emptied: an earlier audit filled it."""
        for cache in self._caches:  # it is not copied, but shared
            cache.cache_clear()
        function = side.function if self._pickled is None else loads_apart(self._pickled, lambda: side.dataset.written)
        emptied = forgotten and function is not side.function
        for thing in list(reached(function))[1:] if emptied else ():
            if isinstance(thing, dict) and any(_prints_as(part, forgotten) for part in thing.values()):
                thing.clear()
            elif hasattr(thing, "__dict__") and not callable(thing) and not isinstance(thing, ModuleType):
                vars(thing).update({name: None for name, part in vars(thing).items() if _prints_as(part, forgotten)})
        fresh = copy.copy(side.dataset)  # what an earlier run left on the dataset is not with it
        return dataclasses.replace(side, function=function, dataset=fresh, habits=Habits(side.habits.draws_globally))

    def _refuse(self, finding: Finding | None, name: str) -> None:
        if finding is None:
            return
        if isinstance(self._mechanism, FunctionMechanism):
            blame(self._mechanism, self._pickled)
        raise AuditError(
            f"Copies of the function that were never called answer otherwise on {name}, each its own way or all other "
            f"than the function in its runs: {finding.what}. It keeps a draw from run to run, or needs a run to warm "
            "up, or tells one object from another like it; its runs say nothing of a release. Draw fresh noise in "
            "every run."
        )

    def _refuse_if_kept(self, side: Any, outputs: Outputs, name: str, level: float, key: tuple[int, int]) -> None:
        """Refuse a function whose runs are alike because of a draw that it keeps, as copies of it show."""
        runs = min(max(len(outputs) // (13 * COPIES), 1), RUNS_OF_A_COPY)
        copies = enumerate(self._copies(side))
        blocks = [draw(copied, runs, stream(self._seed, "kept", *key, number)) for number, copied in copies]
        first = text_of(blocks[0]) if blocks else ""
        if all(text_of(block) == first for block in blocks):  # no copy can be made, or all repeat their own generator
            return
        self._refuse(dependence_of_outputs(join(blocks), ([runs] * COPIES,), level / 2), name)
        self._refuse(difference_of_copies(outputs, join([block[:1] for block in blocks]), level / 2), name)

    def _refuse_if_remembered(self, side: Any, value: str, runs: int, name: str, key: tuple[int, int]) -> None:
        if self._pickled is None and not self._caches:
            raise AuditError(
                f"Every run on {name} gave the same output, and the function cannot be copied to see whether it has "
                "no randomness or only remembers its first draw. Pass it what it holds (connections, locks) in a form "
                "that can be pickled."
            )
        for forgotten in ("", value):
            make = functools.partial(self._fresh, side, forgotten)
            rngs = functools.partial(stream, self._seed, "remembered", *key, bool(forgotten))
            if _draws_once(make(), rngs(COPIES)) or _others_differ(make, value, runs, rngs):
                blame(self._mechanism, self._pickled)
                raise AuditError(
                    f"Every run on {name} gave the same output, but copies of the function that were never called "
                    "give others: it draws its noise once and remembers the answer. Runs that repeat one another say "
                    "nothing of a release; draw fresh noise in every run."
                )


def _seen(side: Any, witness: Witness, runs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often so many runs and as many later ones are in each event of the witness: a row each."""
    guesses = [event for event in witness.guesses(draw(side, 2 * runs, rng)) if event is not None]
    return np.array([[np.count_nonzero(event[:runs]), np.count_nonzero(event[runs:])] for event in guesses]).T


def _counted(side: Any, witness: Witness, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often so many runs are in each event of the witness, a block at a time."""
    counts = np.zeros(witness.events, np.int64)
    for start in range(0, size, BLOCK):
        move_on(rng)
        guesses = witness.guesses(draw(side, min(BLOCK, size - start), rng))
        counts += [np.count_nonzero(event) for event in guesses if event is not None]
    return counts


def _draws_once(distribution: Any, rng: np.random.Generator) -> bool:
    """Whether the first run draws from the rng or a global generator, and the next ones do not."""
    moved = []
    for _ in range(3):
        state = rng.bit_generator.state
        with seeded(rng) as begun:
            distribution.sample(1, rng)
            moved.append(used(begun) or rng.bit_generator.state != state)
    return moved == [True, False, False]


def _others_differ(make: Callable[[], Any], value: str, runs: int, rngs: Callable[[int], np.random.Generator]) -> bool:
    """Whether so many fresh copies give another output than the only one of ``runs`` runs that chance does not do it.

    If an output has probability p, so many runs give it and d of m copies do not with probability
    C(m, d) p^(runs + m - d) (1 - p)^d, which is greatest where p is the share of those that give it.
    """
    others = 0
    for number in range(COPIES):
        output = draw(make(), 1, rngs(number))
        others += text_of(output) != value and not isinstance(output[0], Raised)  # who misses a table raises
        same, copies = runs + number + 1 - others, number + 1
        share = same / (runs + copies)
        if others and math.comb(copies, others) * share**same * (1.0 - share) ** others < LEVEL / 4:
            return True
    return False


def _prints_as(part: Any, value: str) -> bool:
    try:
        return text_of(pack([part])) == value
    except Exception:  # no output
        return False


def _caches(function: Any) -> Iterator[Any]:
    """Find `functools.lru_cache` and its like, in a function and in what it refers to."""
    return (part for part in reached(function) if callable(getattr(part, "cache_clear", None)))


def _is_constant(outputs: Outputs) -> bool:
    if are_objects(outputs):
        values = outputs.tolist()
        expected = written(values[0]) if values else ""
        return len(values) > 0 and all(written(value) == expected for value in values[1:])
    first = outputs[:1]
    if not are_numbers(outputs):
        return bool(np.all(outputs == first))
    same = (outputs == first) & (np.signbit(outputs) == np.signbit(first))  # the sign of zero may be random
    return len(outputs) > 0 and bool(np.all(same | (np.isnan(outputs) & np.isnan(first))))
