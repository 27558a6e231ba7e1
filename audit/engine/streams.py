"""Every stream of random numbers that an audit draws from, in one table, so that no two meet, and the chunks of runs.

Each chunk has its own stream, the child of the seed at the spawn key (number of the stage, ...). Chunks depend on the
number of runs and the kind of mechanism alone, so that a result does not depend on which worker computes which.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from epsaudit.errors import whole_at_least

Stage = Literal["training", "certification", "sequential", "validation", "one run", "same seeds", "look"]
STAGES: dict[Stage, int] = {
    "training": 0,  # (pair + pairs * round of halving), then the chunk where there are more
    "certification": 1,  # (chunk); (0, block) of a frozen test
    "sequential": 2,  # (pair, round, chunk); (0, 0, 0, 1, call) after the last round
    "validation": 3,  # (block), then the chunk where there are more
    "one run": 4,  # (0) coins, (1) the run, (2) the order of the canaries
    # what functions and copies of them are asked to see whether runs are independent
    "same seeds": 5,  # (number of the seed, side), of the seed 0
    "look": 6,  # (0) its pace; (1, side, copy or process); (2, side) the function itself; (3, copy) constant ones
}
"""First number of each stream's spawn key, and what follows it.

Children that somebody else spawns from the seed have keys of one number.
"""


def entropy(seed: int | None) -> int:
    """Return the seed, or a fresh one of 63 bits for None; raises `AuditError` unless it is a whole number >= 0."""
    return secrets.randbits(63) if seed is None else whole_at_least(seed, 0, "seed")


def stream(seed: int, stage: Stage, *key: int) -> np.random.Generator:
    """Return the generator of one chunk: the child of the seed at spawn key (number of the stage, *key)."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STAGES[stage], *key)))


BLOCK = 1 << 16
"""Most outputs in memory at once for each job: small enough for a core's cache, large enough to amortise calls."""
CHUNKS = 256
"""About so many chunks a stage, unless they would be too small or too large."""
LARGEST_CHUNK = 1 << 20
"""Runs of one chunk at most: a million doubles are 8 MiB, which bounds the memory of a worker."""
LEAST_CHUNK, LEAST_CHUNK_OF_CALLS = 1 << 12, 1 << 6
"""Fewest runs in a chunk: of a mechanism that promises independent runs, and of functions and programs, which do not. A
small audit of these has many chunks so that dependence on the call shows; and a run of theirs may take seconds."""
Tally = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Chunk:
    """Some runs that one worker does in one go: ``key``, from its stage's number on, names their stream.

    Training and validation do ``size`` runs on each dataset, the others as many on both together.
    """

    key: tuple[int, ...]
    size: int

    @property
    def stage(self) -> Stage:
        """The stage that it belongs to."""
        return next(stage for stage, number in STAGES.items() if number == self.key[0])


def training_chunks(size: int, stage: Stage, index: int, least: int) -> Iterator[Chunk]:
    """Split ``size`` runs on each dataset: whole blocks of numpy code, about 64 chunks of functions and programs."""
    step = BLOCK if least >= LEAST_CHUNK else min(max(-(-size // (CHUNKS // 4)), least), BLOCK)
    for part, start in enumerate(range(0, size, step)):
        yield Chunk((STAGES[stage], index, *([part] if part else [])), min(step, size - start))


def certification_chunks(runs: int, least: int) -> Iterator[Chunk]:
    """Split the runs into about 256 chunks of ``least`` to 1,048,576, whatever computes them."""
    step = min(max(-(-runs // CHUNKS), least), LARGEST_CHUNK)
    for index, start in enumerate(range(0, runs, step)):
        yield Chunk((STAGES["certification"], index), min(step, runs - start))


class Tallies:
    """Tallies of certification chunks in their order, of neighbours together where there are more than 512.

    >>> tallies = Tallies()
    >>> tallies.add(1, np.array([9, 7, 1, 2, 3, 4]))
    >>> tallies.rows().tolist()
    [[9, 7, 1, 2, 3, 4]]
    """

    def __init__(self) -> None:
        self._rows = np.zeros((512, 6), dtype=np.int64)
        self._together = 1

    def add(self, index: int, tally: Tally) -> None:
        """Remember the tally of a chunk; which are put together depends on the largest index alone."""
        while index >= len(self._rows) * self._together:
            half = len(self._rows) // 2
            self._rows[:half] = self._rows[0::2] + self._rows[1::2]
            self._rows[half:] = 0
            self._together *= 2
        self._rows[index // self._together] += tally

    def rows(self) -> Tally:
        """Return the tallies of all that have runs, in their order, shape (at most 512, 6)."""
        some: Tally = self._rows[self._rows[:, :2].sum(axis=1) > 0]
        return some
