"""Draw the chunks of a round side by side, and count the guesses of each witness at every interim look, in order.

A chunk draws from its own stream, named by pair, round and place, so it is the same whichever worker computes it, and
whether it is drawn or read from a checkpoint.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.sequential import betting
from epsaudit.audits.sequential.schedule import looks
from epsaudit.certificates import Counts
from epsaudit.data.fresh import digest
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.chunks import Chunk
from epsaudit.engine.sampling import Sides, changed, draw_by_coins, learn, naming
from epsaudit.engine.streams import STAGES, stream
from epsaudit.engine.workers import Workers
from epsaudit.outputs.normal_form import Outputs
from epsaudit.witnesses import Witness

Seen = NDArray[np.int64]
"""Counts of guesses: shape (..., strategies, 6), the last axis 2 * guess + side, guess 'x', 'x'' or none."""

OUTCOMES = np.zeros((6, 3))
OUTCOMES[range(6), [betting.CORRECT, betting.WRONG, betting.WRONG, betting.CORRECT] + [betting.ABSTAINED] * 2] = 1.0


@dataclass(frozen=True)
class Drawn:
    """What a chunk came to: counts of its guesses up to every look, shape (looks, strategies, 6), and outputs."""

    seen: Seen
    outputs: tuple[Outputs | None, Outputs | None] | None
    changed: tuple[bool, ...]
    seconds: float = 0.0


@dataclass(frozen=True)
class Part:
    """A chunk of the game, how many runs of the audit come before it, and whether its outputs are kept."""

    chunk: Chunk
    before: int
    keep: bool


def parts(pair: int, number: int, sizes: Sequence[int], before: int, keep: Sequence[bool]) -> list[Part]:
    """Return the chunks of a round on a pair, the audit having made so many runs before it."""
    starts = itertools.accumulate(sizes, initial=before)
    return [
        Part(Chunk((STAGES["sequential"], pair, number, place), size), start, kept)
        for place, (size, start, kept) in enumerate(zip(sizes, starts, keep, strict=False))
    ]


def play(
    sides: Sides,
    witnesses: Sequence[Witness],
    seed: int,
    of: Sequence[Part],
    workers: Workers,
    record: Section,
    reproducible: bool,
) -> Iterator[Drawn]:
    """Draw parts and yield what they came to, in order; those that the checkpoint holds are not drawn again.

    Whoever has seen enough closes the generator: then nothing more is begun, and what was begun beyond is forgotten.
    What is not ``reproducible`` is recorded however quickly it is drawn, for it would not come again.
    """
    planned = digest(json.dumps([witness.to_dict() for witness in witnesses])) if record.kept else ""
    held = {part: _held(record, part, planned, len(witnesses)) for part in of}
    enough = False
    missing = (part for part in of if held.get(part) is None and not enough)
    fresh = workers.each(
        _guessed, (sides, witnesses, seed), missing, sum(part.chunk.size for part in of), in_order=True
    )
    try:
        for part in of:
            drawn = held.get(part)
            if drawn is None:
                _, drawn = next(fresh)
                seconds = drawn.seconds if reproducible else math.inf
                numbers = {"seen": drawn.seen.tolist(), "changed": list(drawn.changed)}
                record.record(part.chunk, drawn.outputs, seconds, planned=planned, **numbers)
            learn(sides, drawn.changed)
            yield drawn
    except GeneratorExit:
        enough = True
        for _ in fresh:  # a few chunks: to stop workers in the middle takes longer than they do
            pass
        raise
    finally:
        fresh.close()


def _guessed(shared: tuple[Sides, Sequence[Witness], int], part: Part) -> Drawn:
    """Flip coins, draw, guess and count."""
    sides, witnesses, seed = shared
    started, size = time.perf_counter(), part.chunk.size
    rng = stream(seed, "sequential", *part.chunk.key[1:])
    side = rng.integers(0, 2, size, dtype=np.int8)
    codes = np.empty((len(witnesses), size), dtype=np.int8)
    codes[:] = 4 + side
    with naming(part.chunk, seed):
        drawn = draw_by_coins(sides, side, rng)
    for which, outputs in enumerate(drawn):
        if outputs is None:
            continue
        mine = np.flatnonzero(side == which)
        for row, witness in enumerate(witnesses):
            for guess, mask in enumerate(witness.guesses(outputs)):
                if mask is not None:
                    codes[row, mine[mask]] = 2 * guess + which
    moments = looks(size, part.before)
    seen = np.stack([np.cumsum(codes == code, axis=1)[:, moments - 1].T for code in range(6)], axis=-1)
    return Drawn(seen, drawn if part.keep else None, changed(sides), time.perf_counter() - started)


def _held(record: Section, part: Part, planned: str, strategies: int) -> Drawn | None:
    """Return what the checkpoint holds of a chunk; raises `AuditError` if it was drawn for other events."""
    held = record.recorded(part.chunk)
    if held is None:
        return None
    if held.get("planned") != planned:
        record.refuse_other_events()
    with record.making_sense("chunk"):
        shape = (len(looks(part.chunk.size, part.before)), strategies, 6)
        seen = np.array(held["seen"], dtype=np.int64).reshape(shape)
        fits = part.keep == (held["outputs"] is not None) and np.all(seen[-1].sum(axis=-1) == part.chunk.size)
        if not fits or np.any(seen < 0) or len(held["changed"]) != 2:
            raise ValueError
    return Drawn(seen, held["outputs"], tuple(map(bool, held["changed"])))


def tallies_of(seen: Seen) -> betting.Floats:
    """Correct, wrong, abstained out of six counts, along the last axis."""
    return np.asarray(seen @ OUTCOMES)


def counts_of(seen: Seen, witness: Witness) -> Counts:
    """Turn six counts into `Counts`."""
    on_x, on_x_prime = int(seen[0::2].sum()), int(seen[1::2].sum())
    a, b, c, d = (int(number) for number in seen[:4])
    return Counts(on_x, on_x_prime, a, b, c, d, events=witness.events)
