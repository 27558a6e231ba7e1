"""Draw chunks of the membership game and code the guesses of each witness, in the order of the runs.

A chunk draws from its own stream, named by pair, round and index, so it is the same whichever worker computes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsaudit.certificates import Counts
from epsaudit.outputs import Outputs
from epsaudit.sampling import Sides, changed, draw_by_coins
from epsaudit.sequential import betting
from epsaudit.witnesses import Witness

STREAM = 2
"""First spawn key of the game's streams; training and certification of a fixed-size audit have 0 and 1."""

Codes = NDArray[np.int8]
# code of a run: 2 * guess + side, guess 0 'x', 1 'x'', 2 none; side 0 for x, 1 for x'
TALLY_OF_CODE = np.array([betting.CORRECT, betting.WRONG, betting.WRONG, betting.CORRECT] + [betting.ABSTAINED] * 2)


def guessed_chunk(
    sides: Sides, witnesses: Sequence[Witness], size: int, seed: int, key: tuple[int, ...], keep: bool
) -> tuple[Codes, tuple[Outputs | None, Outputs | None], tuple[bool, ...]]:
    """Flip coins, draw, and guess; say whose dataset was changed.

    Codes have shape (witnesses, size), one row even without a witness.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    side = rng.integers(0, 2, size, dtype=np.int8)
    codes = np.empty((max(len(witnesses), 1), size), dtype=np.int8)
    codes[:] = 4 + side
    drawn = draw_by_coins(sides, side, rng)
    for which, outputs in enumerate(drawn):
        if outputs is None:
            continue
        mine = np.flatnonzero(side == which)
        for row, witness in enumerate(witnesses):
            for guess, mask in enumerate(witness.guesses(outputs)):
                if mask is not None:
                    codes[row, mine[mask]] = 2 * guess + which
    return codes, drawn if keep else (None, None), changed(sides)


def tallies_of(codes: NDArray[np.int64]) -> betting.Floats:
    """Correct, wrong, abstained out of six counts of codes."""
    return np.bincount(TALLY_OF_CODE, weights=codes, minlength=3).astype(float)


def counts_of(codes: NDArray[np.int64], witness: Witness) -> Counts:
    """Turn six counts of codes into `Counts`."""
    on_x, on_x_prime = int(codes[0::2].sum()), int(codes[1::2].sum())
    a, b, c, d = (int(number) for number in codes[:4])
    return Counts(on_x, on_x_prime, a, b, c, d, events=witness.events)
