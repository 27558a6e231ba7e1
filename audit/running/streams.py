"""The table of all random streams: every random number of an audit comes from one of them.

It stands alone so that nobody can use a stream twice without seeing it here.
"""

from __future__ import annotations

import secrets
from typing import Literal

import numpy as np

from epsaudit.errors import whole_at_least

Stage = Literal[
    "training", "certification", "sequential", "validation", "one run", "same seeds", "look", "many runs", "holdout"
]
STAGES: dict[Stage, int] = {
    "training": 0,  # (pair + pairs * round of halving), then the chunk if there are several
    "certification": 1,  # (chunk); (0, block) in a frozen test
    "sequential": 2,  # (pair, round, chunk); (0, 0, 0, 1, call) after the last round
    "validation": 3,  # (block), then the chunk if there are several
    "one run": 4,  # (0) coins, (1) the run, (2) the order of the canaries
    # runs of functions and of copies that show whether runs are independent
    "same seeds": 5,  # (number of the seed, side), with the seed 0
    "look": 6,  # (0) the pace; (1, side, copy or process); (2, side) the function; (3, copy) constant functions
    "many runs": 7,  # the order of tied scores
    "holdout": 8,  # (0) the matching, (1) the opened pairs, (2) the coins, (3) samples and queries of scores of tables
}
"""The first number of the spawn key of each stage. The comments give the numbers that follow it. No key consists of one
number only, because the generators that other code spawns from the same seed have such keys."""

FIRST_CHILD = 1 << 31
"""[chosen] Number of the first generator that code of the user spawns from one of these streams. The keys of the stages
have smaller numbers, so that no spawned generator is the stream of another chunk."""


def entropy(seed: int | None) -> int:
    """Return the seed, or a new random seed of 63 bits if it is None.

    Raises `AuditError` if the seed is not a whole number of at least 0.
    """
    return secrets.randbits(63) if seed is None else whole_at_least(seed, 0, "seed")


def stream(seed: int, stage: Stage, *key: int) -> np.random.Generator:
    """Return a random generator that is determined by a seed, a stage of the audit, and further numbers.

    It is the child of the seed with the spawn key (number of the stage, *key).

    >>> bool(stream(1, "training", 0).random() == stream(1, "training", 0).random())
    True
    """
    return stream_of(seed, (STAGES[stage], *key))


def stream_of(seed: int, key: tuple[int, ...]) -> np.random.Generator:
    """Return the random generator of a seed and a complete spawn key, which begins with the number of the stage."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key, n_children_spawned=FIRST_CHILD))
