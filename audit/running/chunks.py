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
from epsaudit.running.drawing import advance_generator, draw
from epsaudit.running.protocols import OutputLaws
from epsaudit.running.randomness import draw_reproducibly
from epsaudit.running.streams import STAGES, stream_of

MAX_RUNS_IN_TWO_CALLS = 120_000
"""[chosen] Maximum number of certification runs that are made by one call on each dataset. About half of the runs are
on one dataset, which is practically never more than `BLOCK`."""
BLOCK = 1 << 16
"""[time] Maximum number of outputs that a worker holds in memory at once. So many numbers fit into the cache of a core,
and the cost of a call is small in comparison."""
CHUNKS = 64
"""[measured] Number of chunks in certification, and twice the number in training, unless chunks would be too small or
too large. A million runs of numpy code take 7.5 times as long as their random numbers alone with 128 chunks, 6.1 times
with 64, and 5.4 times with 32."""
MAX_CHUNK = 1 << 20
"""[memory] Maximum number of runs in a chunk. It bounds the memory of a worker: a million doubles are 8 MiB."""
MIN_CHUNK, MIN_CHUNK_OF_CALLS = 1 << 12, 1 << 6
"""[time] Minimum number of runs in a chunk for mechanisms that promise independent runs, and for functions and
programs."""


@dataclass(frozen=True)
class Chunk:
    """A group of runs that are drawn together from one random stream.

    Attributes
    ----------
    key : tuple of int
        The key of the random stream: the number of the stage, then further numbers within the stage.
    size : int
        In training, the number of runs on each dataset. In certification, the number of runs on both together.
    """

    key: tuple[int, ...]
    size: int


def certification_chunks(runs: int, least: int, done: Container[int] = ()) -> Iterator[Chunk]:
    """Split certification runs into chunks, and yield the chunks whose index is not in ``done``.

    There are at most 64 chunks, unless a chunk would have more than 1,048,576 runs. A chunk has at least ``least``
    runs; only the last one may have fewer. ``done`` holds the indices of the chunks that a checkpoint already contains.

    >>> [chunk.size for chunk in certification_chunks(10_000, 4_096, done={0})]
    [4096, 1808]
    """
    step = min(max(-(-runs // CHUNKS), least), MAX_CHUNK)
    for index, start in enumerate(range(0, runs, step)):
        if index not in done:
            yield Chunk((STAGES["certification"], index), min(step, runs - start))


def can_interleave(laws: OutputLaws) -> bool:
    """Return whether both output laws make every run by a separate call.

    The calls on the two datasets can then follow the order of the coin flips that choose the dataset of each run.
    """
    return all(hasattr(law, "sample_interleaved") for law in laws)


def need_random_order(laws: OutputLaws) -> bool:
    """Return whether the calls on the two datasets must be made in random order.

    This is necessary if the output law on one of the datasets does not promise independent outputs.
    """
    return any(getattr(law, "random_call_order", False) for law in laws)


def draw_by_coins(
    sides: OutputLaws, coins: NDArray[np.int8], rng: np.random.Generator
) -> tuple[Outputs | None, Outputs | None]:
    """Draw an output on x for every coin that is 0 and on x' for every coin that is 1.

    Returns the outputs on both datasets, with None in place of the outputs on a dataset that no coin chose. If each run
    is a separate call, the runs are made in the order of the coins. Anything that lasts from one run to the next then
    reveals nothing about the coins. Otherwise each law is called once, in random order unless both laws promise that
    their outputs are independent.
    """
    if can_interleave(sides):
        return _draw_in_turns(sides, coins, rng)
    found: list[Outputs | None] = [None, None]
    for side, size in _in_order(sides, np.bincount(coins, minlength=2).tolist(), rng):
        found[side] = draw(sides[side], size, rng).copy()  # a function may use its memory again
    return found[0], found[1]


def _draw_in_turns(
    sides: OutputLaws, coins: NDArray[np.int8], rng: np.random.Generator
) -> tuple[Outputs | None, Outputs | None]:
    """Draw one output for each coin by a separate call, in the order of the coins; see `draw_by_coins`."""
    first, second = cast(Any, sides)
    turns = functools.partial(first.sample_interleaved, second, coins, rng)
    on_x, on_x_prime = draw_reproducibly(turns, rng, getattr(first, "global_rng", None))
    return pack_frozen(on_x) if on_x else None, pack_frozen(on_x_prime) if on_x_prime else None


def _in_order(sides: OutputLaws, sizes: Sequence[int], rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return the calls to make as pairs (dataset, number of outputs), in the order in which they are to be made.

    The dataset is 0 for x and 1 for x'. ``sizes`` are the numbers of outputs on x and on x'; a dataset without outputs
    is left out. The order is random if `need_random_order` says so, and x first otherwise.
    """
    calls = [(side, size) for side, size in enumerate(sizes) if size]
    if need_random_order(sides) and rng.integers(2):
        calls.reverse()
    return calls


def draw_chunk(sides: OutputLaws, chunk: Chunk, seed: int) -> Iterator[tuple[int, Outputs]]:
    """Yield the outputs of a training or certification chunk in blocks, each with its dataset: 0 for x, 1 for x'.

    In certification every run flips a fair coin for its dataset. In training each dataset gets ``chunk.size`` runs.
    """
    rng, certifying = stream_of(seed, chunk.key), chunk.key[0] == STAGES["certification"]
    draw_blocks = _draw_interleaved if can_interleave(sides) else _draw_in_large_calls
    yield from draw_blocks(sides, chunk, certifying, rng)


def _draw_interleaved(
    sides: OutputLaws, chunk: Chunk, certifying: bool, rng: np.random.Generator
) -> Iterator[tuple[int, Outputs]]:
    """Yield the outputs of a chunk in which every run is a separate call, in blocks, each with its dataset.

    Coins choose the dataset of every run. They are fair coins in certification, and a random permutation of equally
    many zeros and ones in training.
    """
    if certifying:
        coins = rng.integers(0, 2, chunk.size, dtype=np.int8)
    else:
        coins = rng.permutation(np.repeat(np.array([0, 1], np.int8), chunk.size))
    for start in range(0, len(coins), BLOCK):
        if start:
            advance_generator(rng)
        for side, block in enumerate(_draw_in_turns(sides, coins[start : start + BLOCK], rng)):
            if block is not None:
                yield side, block


def _draw_in_large_calls(
    sides: OutputLaws, chunk: Chunk, certifying: bool, rng: np.random.Generator
) -> Iterator[tuple[int, Outputs]]:
    """Yield the outputs of a chunk in blocks, each with its dataset, where one call makes many runs on one dataset.

    Laws that promise independent outputs are drawn on x first and then on x'. Functions and programs make no such
    promise and are called on the two datasets in random order. In the first chunk of training they are called twice on
    each dataset, because the comparison of two calls shows whether the outputs of one call depend on one another.
    """
    random_order, most = need_random_order(sides), chunk.size
    if random_order and certifying:
        most = MAX_RUNS_IN_TWO_CALLS
    elif random_order:
        most = min(BLOCK, chunk.size if chunk.key[2:] else -(-chunk.size // 2))
    for begin in range(0, chunk.size, most):
        size = min(most, chunk.size - begin)
        on_x = int(rng.binomial(size, 0.5)) if certifying else size
        for side, total in _in_order(sides, (on_x, size - on_x if certifying else size), rng):
            each = total if random_order else BLOCK
            for start in range(0, total, each):
                yield side, draw(sides[side], min(each, total - start), rng)
