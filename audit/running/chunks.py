"""Chunks of runs: how runs are divided, and how one chunk is drawn from its own random stream.

A chunk draws from its own stream, so a result depends on the seed and the number of runs, and not on who drew which
chunk when.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.arrays import Outputs, pack_frozen
from epsaudit.running.drawing import advance, draw
from epsaudit.running.protocols import OutputLaws
from epsaudit.running.randomness import draw_reproducibly
from epsaudit.running.streams import STAGES

MAX_RUNS_IN_TWO_CALLS = 120_000
"""[chosen] Certification runs after which both laws are called again; half of them are hardly more than `BLOCK`."""
BLOCK = 1 << 16
"""[time] The most outputs in memory at once for each worker: few enough for a core's cache, and enough to outweigh the
cost of calls."""
CHUNKS = 64
"""[measured] The number of chunks in certification, twice that in training, unless chunks would be too small or too
large. A million runs of numpy code cost 7.5 times their random numbers with 128, 6.1 with 64, and 5.4 with 32."""
MAX_CHUNK = 1 << 20
"""[memory] The most runs of a chunk: a million doubles are 8 MiB, which bounds the memory of a worker."""
MIN_CHUNK, MIN_CHUNK_OF_CALLS = 1 << 12, 1 << 6
"""[time] The fewest runs of a chunk, of mechanisms that promise independent runs, and of functions and programs."""


@dataclass(frozen=True)
class Chunk:
    """Runs that are drawn at once from one random stream.

    Attributes
    ----------
    key : tuple of int
        The key of the stream: the number of the stage, and places within the stage.
    size : int
        The number of runs, on each dataset in training, and on both together in certification.
    """

    key: tuple[int, ...]
    size: int


def certification_chunks(runs: int, least: int, done: Container[int] = ()) -> Iterator[Chunk]:
    """Split certification runs into about 64 chunks of ``least`` to 1,048,576 runs, and yield those not ``done``.

    >>> [chunk.size for chunk in certification_chunks(10_000, 4_096, done={0})]
    [4096, 1808]
    """
    step = min(max(-(-runs // CHUNKS), least), MAX_CHUNK)
    for index, start in enumerate(range(0, runs, step)):
        if index not in done:
            yield Chunk((STAGES["certification"], index), min(step, runs - start))


def draw_by_coins(
    sides: OutputLaws, coins: NDArray[np.int8], rng: np.random.Generator
) -> tuple[Outputs | None, Outputs | None]:
    """Draw an output on x for every coin that is 0 and on x' for every coin that is 1.

    Returns the outputs on both datasets, None for a dataset without coins. If each run is a call of its own, runs are
    made in the order of their coins, so that whatever lasts from one run to the next tells nothing about the coins.
    Otherwise each law is called once, in random order unless both laws promise that outputs are independent.
    """
    first, second = cast(Any, sides)
    found: list[Outputs | None] = [None, None]
    if hasattr(first, "sample_interleaved") and hasattr(second, "sample_interleaved"):
        turns = functools.partial(first.sample_interleaved, second, coins, rng)
        for side, some in enumerate(draw_reproducibly(turns, rng, getattr(first, "global_rng", None))):
            found[side] = pack_frozen(some) if some else None
    else:
        for side, size in _in_order(sides, np.bincount(coins, minlength=2).tolist(), rng):
            found[side] = draw(sides[side], size, rng).copy()  # a function may use its memory again
    return found[0], found[1]


def _in_order(sides: OutputLaws, sizes: Sequence[int], rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return the datasets (0 or 1) to draw on and their numbers of outputs, in the order of the calls."""
    calls = [(side, size) for side, size in enumerate(sizes) if size]
    if any(getattr(side, "random_call_order", False) for side in sides) and rng.integers(2):
        calls.reverse()
    return calls


def draw_chunk(sides: OutputLaws, chunk: Chunk, seed: int) -> Iterator[tuple[int, Outputs]]:
    """Yield the outputs of a chunk in blocks, each with its dataset: 0 for x, 1 for x'.

    In certification every run flips a fair coin for its dataset; in training each dataset gets ``chunk.size`` runs.
    """
    rng, stage = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=chunk.key)), chunk.key[0]
    turns = hasattr(sides[0], "sample_interleaved") and hasattr(sides[1], "sample_interleaved")
    certifying = stage == STAGES["certification"]
    if stage != STAGES["sequential"] and not turns:
        # Laws that promise independent outputs are drawn on x first and then on x'. Functions and programs are called
        # for both datasets in random order. They are called twice in the first chunk of training, because two calls
        # show what outputs of one call have in common.
        random_call_order, most = any(getattr(side, "random_call_order", False) for side in sides), chunk.size
        if random_call_order and certifying:
            most = MAX_RUNS_IN_TWO_CALLS
        elif random_call_order:
            most = min(BLOCK, chunk.size if chunk.key[2:] else -(-chunk.size // 2))
        for begin in range(0, chunk.size, most):
            size = min(most, chunk.size - begin)
            on_x = int(rng.binomial(size, 0.5)) if certifying else size
            for side, total in _in_order(sides, (on_x, size - on_x if certifying else size), rng):
                each = total if random_call_order else BLOCK
                for start in range(0, total, each):
                    yield side, draw(sides[side], min(each, total - start), rng)
        return
    if certifying or stage == STAGES["sequential"]:
        coins = rng.integers(0, 2, chunk.size, dtype=np.int8)
    else:
        coins = rng.permutation(np.repeat(np.array([0, 1], np.int8), chunk.size))
    for start in range(0, len(coins), BLOCK):
        if start:
            advance(rng)
        for side, block in enumerate(draw_by_coins(sides, coins[start : start + BLOCK], rng)):
            if block is not None:
                yield side, block
