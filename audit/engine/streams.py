"""Every stream of random numbers that an audit draws from: all keys in one table, so that no two streams meet.

A result depends on its seed and on nothing else that is random: each chunk of runs has a stream of its own, the child
of the seed at the spawn key (place of the stage in the table, ...).
"""

from __future__ import annotations

import secrets
from typing import Literal

import numpy as np

from epsaudit.errors import whole_at_least

Stage = Literal["training", "certification", "sequential", "validation", "one run", "same seeds", "kept", "remembered",
                "speed", "own events", "events of copies", "processes"]  # fmt: skip

STAGES: dict[Stage, int] = {
    "training": 0,  # (pair + pairs * round of halving), then the chunk where there are more
    "certification": 1,  # (chunk); (0, block) of a frozen test
    "sequential": 2,  # (pair, round, chunk); (0, 0, 0, 1, call) after the last round
    "validation": 3,  # (block), then the chunk where there are more
    "one run": 4,  # (0) coins, (1) the run, (2) the order of the canaries
    # what functions and copies of them are asked beside the runs that count
    "same seeds": 5,  # (side), or (number of the seed) of a function without an rng
    "kept": 6,  # (pair, side, copy)
    "remembered": 7,  # (pair, side, 1 for copies that are emptied, copy)
    "speed": 8,  # (witness, side)
    "own events": 9,  # (witness, side, runs of a copy)
    "events of copies": 10,  # (witness, side, runs of a copy, copy)
    "processes": 11,  # (witness, runs of a process, process, side)
}
"""First number of each stream's spawn key, and what follows it.

Children that somebody else spawns from the seed have keys of one number.
"""


def entropy(seed: int | None) -> int:
    """Return the seed, or a fresh one of 63 bits for None; raises `AuditError` unless it is a whole number >= 0.

    Examples
    --------
    >>> entropy(7)
    7
    """
    return secrets.randbits(63) if seed is None else whole_at_least(seed, 0, "seed")


def stream(seed: int, stage: Stage, *key: int) -> np.random.Generator:
    """Return the generator of one chunk: the child of the seed at spawn key (number of the stage, *key)."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STAGES[stage], *key)))
