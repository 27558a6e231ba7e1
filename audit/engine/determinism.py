"""Where a function's randomness comes from: its rng, the global generators, or another source.

`with_known_randomness` takes a function and says whether the same seeds give the same outputs; `refuse_if_drawn_before`
asks the same of a mechanism that is a class.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from epsaudit import exact
from epsaudit.adapters.functions import FunctionMechanism, Mechanism
from epsaudit.adapters.randomness import seeded, used
from epsaudit.adapters.refusals import before_first_call, copy_of
from epsaudit.data.fresh import Dataset
from epsaudit.data.neighbours import DatasetPair
from epsaudit.engine.sampling import Sides, draw
from epsaudit.engine.streams import stream
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Outputs, values_of, written

REPEATS = 8
"""Runs, or seeds, on each dataset for which a function must give the same outputs twice: 32 runs in all."""


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
        if not exact.knows_law(side) and not getattr(side, "tossed", False):
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
