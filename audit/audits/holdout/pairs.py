"""Pairs of a train record and a holdout record, and which pairs are opened: the coins that the split itself tossed.

Everything here is decided by the seed and the sizes of the parts, before any score is read. Theorem 15 of
docs/explanation/theory.md proves that the coins are independent and fair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.array_types import Bools
from epsaudit.audits.score_checks import number_values
from epsaudit.errors import AuditError
from epsaudit.running.streams import stream

MATCHING_STREAM, OPENING_STREAM, PAIR_COIN_STREAM = range(3)
"""Numbers of the random streams of an audit with a holdout: the matching, the opened pairs, the coins."""
OPENED_SHARE, OPENED_ALWAYS = 0.15, 20
"""[measured] Share of the pairs that are opened to learn the attack, beyond 20 pairs. Scores of forests, networks and
synthetic tables with 200, 600 and 2,000 records in each part, 10 seeds: mean bounds are 1.31, 1.87 and 2.24 if a fifth
is opened, 1.25, 1.82 and 2.32 with 15 %, 1.20, 1.66 and 2.22 with a tenth, 1.35, 1.89 and 2.30 with a quarter."""
MAX_OPENED = 5_000
"""[time] Largest number of opened pairs. More pairs hardly improve an attack, and certify if they stay closed."""
Strata = tuple[ArrayLike, ArrayLike]
"""The stratum of every train record and of every holdout record."""


@dataclass(frozen=True)
class MatchedPairs:
    """Random pairs of one train record and one holdout record.

    Attributes
    ----------
    train, holdout : int arrays of shape (pairs,)
        Positions of the two records of each pair, in the train part and in the holdout.
    coins : bool array of shape (pairs,)
        Whether the train record is the first record of the pair.
    opened : bool array of shape (pairs,)
        Whether the coin of the pair is revealed, so that the attack can be learnt from the pair.
    """

    train: NDArray[np.intp]
    holdout: NDArray[np.intp]
    coins: Bools
    opened: Bools

    def differences(self, train_scores: NDArray[Any], holdout_scores: NDArray[Any]) -> NDArray[np.float64]:
        """Return the scores of the first record minus those of the second record, for every pair and column.

        Both arguments have shape (records of the part, columns), and the result has shape (pairs, columns).
        """
        found = train_scores[self.train] - holdout_scores[self.holdout]
        return np.asarray(np.where(self.coins[:, None], found, -found), float)


def number_opened(pairs: int) -> int:
    """Return how many of the ``pairs`` are opened, which means that they are used to learn the attack.

    At least one pair stays closed, so that the attack can guess about it.

    >>> number_opened(2), number_opened(600), number_opened(10**6)
    (1, 110, 5000)
    """
    return min(OPENED_ALWAYS + round(OPENED_SHARE * pairs), pairs // 2, MAX_OPENED)


def match(train: int, holdout: int, seed: int, strata: Strata | None = None) -> MatchedPairs:
    """Form random pairs of one train record and one holdout record, and open some of the pairs at random.

    An attack is learnt from the opened pairs, and guesses about the other pairs. ``train`` and ``holdout`` are the
    numbers of records in the two parts. With ``strata``, both records of a pair belong to the same stratum. Raises
    `AuditError` if no pair can be formed, or if the strata do not have one label for each record.
    """
    rng = stream(seed, "holdout", MATCHING_STREAM)
    of_train, of_holdout = np.zeros(train, np.intp), np.zeros(holdout, np.intp)
    if strata is not None:
        labels = [np.asarray(one) for one in strata]
        if [one.shape for one in labels] != [(train,), (holdout,)]:
            shapes = " and ".join(str(one.shape) for one in labels)
            raise AuditError(f"strata have shapes {shapes}; they must be ({train},) and ({holdout},).")
        numbers, _ = number_values(np.concatenate(labels), "strata")
        of_train, of_holdout = numbers[:train], numbers[train:]
    matched = []
    for stratum in np.intersect1d(of_train, of_holdout):
        parts = [rng.permutation(np.flatnonzero(part == stratum)) for part in (of_train, of_holdout)]
        size = min(map(len, parts))
        matched.append([part[:size] for part in parts])
    if not matched:
        raise AuditError("No stratum has records in both parts, so that no pair can be made.")
    first, second = (np.concatenate(parts) for parts in zip(*matched, strict=True))
    order = rng.permutation(len(first))  # ties are broken by position, which must not tell the stratum
    n_opened = number_opened(len(order))
    opened = np.zeros(len(order), bool)
    opened[stream(seed, "holdout", OPENING_STREAM).permutation(len(order))[:n_opened]] = True
    coins = stream(seed, "holdout", PAIR_COIN_STREAM).random(len(order)) < 0.5
    return MatchedPairs(first[order], second[order], coins, opened)
