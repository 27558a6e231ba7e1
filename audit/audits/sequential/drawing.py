"""When a sequential audit runs, looks and remembers, by its budget and pairs alone; and the chunks of its rounds.

What a file says of rounds is checked against the sizes here. A chunk draws from its own stream, named by pair, round
and place, so it is the same whichever worker computes it, and whether it is drawn or read from a checkpoint.
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

from epsaudit.adapters.functions import Sides
from epsaudit.audits.sequential import betting
from epsaudit.certificates import Counts
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.provenance import digest
from epsaudit.engine.sampling import changed, draw_by_coins, learn, naming
from epsaudit.engine.workers import STAGES, Chunk, Workers, stream
from epsaudit.outputs.normal_form import Outputs
from epsaudit.witnesses import Witness

STRATEGIES = 2
"""A conservative strategy and an aggressive one; see `epsaudit.audits.sequential.learning`."""
FIRST_ROUND = 24
"""Runs of the first round for each pair, on which nothing is bet. Set by hand in the first round; no measurement is
recorded."""
MOST_REMEMBERED = 100_000
"""Runs of a pair after which the outputs of no further chunk are kept to learn from."""


def round_sizes(trials: int, pairs: int) -> Iterator[int]:
    """Yield the sizes of rounds: a few runs to begin with, then half as many again as all before.

    >>> list(round_sizes(100, 1)), list(round_sizes(200, 3))
    ([24, 12, 18, 27, 19], [72, 36, 54, 38])
    """
    done = 0
    while done < trials:
        size = FIRST_ROUND * pairs if done == 0 else max(done // 2, 8)
        size = min(size, trials - done)
        if trials - done - size < 16:  # no round of a few runs at the end
            size = trials - done
        yield size
        done += size


def looked_at_each(size: int, pairs: int, first: bool) -> int:
    """Return how many runs of a round each pair gets that is not bet on: an even share of the first, else of a fifth.

    >>> looked_at_each(72, 3, first=True), looked_at_each(300, 3, first=False), looked_at_each(300, 1, first=False)
    (24, 30, 0)
    """
    if pairs == 1:
        return 0
    return size // pairs if first else size // (5 * (pairs - 1))


def chunk_sizes(size: int) -> list[int]:
    """Return the sizes of the chunks of a round, after each of which the running bound is looked at.

    >>> chunk_sizes(40), len(chunk_sizes(100_000))
    ([16, 16, 8], 16)
    """
    chunk = min(max(-(-size // 16), 16), 1 << 16)
    return [min(chunk, size - done) for done in range(0, size, chunk)]


def remembered(sizes: list[int], before: int) -> list[bool]:
    """Say of chunks of a pair which are kept to learn from, ``before`` of its runs being kept already; by sizes alone.

    >>> remembered([60_000, 60_000, 60_000], before=0)
    [True, True, False]
    """
    ends = before + np.cumsum(sizes)
    return [bool(end - size < MOST_REMEMBERED) for end, size in zip(ends, sizes, strict=True)]


def looks(size: int, runs: int) -> NDArray[np.intp]:
    """Return after which runs of a chunk the evidence is looked at: after each, or every thousandth of all so far.

    ``runs`` came before it; the last look is after ``size``.

    >>> looks(5, runs=100).tolist(), looks(5, runs=2_500).tolist()
    ([1, 2, 3, 4, 5], [1, 3, 5])
    """
    return np.unique(np.append(np.arange(1, size + 1, max(1, runs // 1000)), size))


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

    Whoever has seen enough closes the generator. What is not ``reproducible`` is recorded however quickly it is drawn.
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
