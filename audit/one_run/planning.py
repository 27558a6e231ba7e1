"""How many canaries to guess, decided from the claim and the number of canaries alone.

It is computed for a model, a mechanism that attains the claim with Gaussian scores, which decides how tight the bound
will be and has no part in its validity.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from epsaudit.claims import Claim, GaussianDP
from epsaudit.one_run.counts import Floats, GuessCounts, Method, bound, delta_of

FRACTIONS = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Shares of the canaries that may be guessed, from which 'planned' and 'half' choose; half of them in, half out."""

FEWEST = 8
"""Fewest guesses that are worth trying: at 95 %, eight right ones of eight show epsilon 0.79."""

SPARE = 1.25
"""Times the claim that right guesses throughout should be able to certify."""

WORTH = 0.9
"""Share of the best predicted bound that this is worth giving up for."""


@functools.lru_cache(maxsize=1024)
def planned_guesses(canaries: int, claim: Claim, method: Method, confidence: float) -> int:
    """Return the number of guesses whose expected count of right ones certifies most, were the claim exact.

    Preferred are numbers that would refute the claim, with something to spare, if all guesses were right.

    Examples
    --------
    >>> planned_guesses(10_000, GaussianDP(0.5), "trade-off", 0.95)
    500
    """
    if not isinstance(claim, GaussianDP) and delta_of(claim) == 0.0:
        return canaries  # as randomised response would have it
    candidates, merits = predicted(canaries, claim, method, confidence)
    all_right = [
        bound(claim, GuessCounts(canaries, n, 0, n, 0), method, confidence, decided_by_output=False) for n in candidates
    ]
    able = [i for i, reach in enumerate(all_right) if reach > SPARE * claim.parameter]
    best = max(range(len(candidates)), key=merits.__getitem__)
    farther = max(able, key=merits.__getitem__, default=best)
    return candidates[farther if merits[farther] >= WORTH * merits[best] else best]


def predicted(canaries: int, claim: Claim, method: Method, confidence: float) -> tuple[list[int], list[float]]:
    """Return numbers of guesses, and the bound that each would certify from its expected count of right ones.

    Examples
    --------
    >>> candidates, bounds = predicted(1000, GaussianDP(1.0), "trade-off", 0.95)
    >>> candidates, [round(value, 2) for value in bounds]
    ([1000, 500, 250, 100, 50, 20, 10], [0.34, 0.5, 0.58, 0.6, 0.54, 0.3, 0.13])
    """
    if isinstance(claim, GaussianDP):
        mu = claim.mu
    else:
        mu = float(GaussianDP(1.0).least_at(claim.parameter, delta_of(claim)))
    candidates = symmetric(canaries, FRACTIONS)
    accuracies = expected_accuracy(np.array(candidates) / canaries, mu)
    bounds = [
        bound(
            claim,
            GuessCounts(canaries, guesses, 0, math.floor(guesses * float(accuracy)), 0),
            method,
            confidence,
            decided_by_output=False,
        )
        for guesses, accuracy in zip(candidates, accuracies, strict=True)
    ]
    return candidates, bounds


def symmetric(canaries: int, shares: Sequence[float]) -> list[int]:
    """Numbers of guesses at these shares of the canaries, without those too few to show anything.

    Examples
    --------
    >>> symmetric(1000, (1.0, 0.1, 0.001))
    [1000, 100]
    """
    numbers = [round(canaries * share) for share in shares]
    return [number for number in numbers if number >= FEWEST] or [canaries]


def expected_accuracy(shares: Floats, mu: float) -> Floats:
    """How often guesses about the most extreme share of independent N(+-mu / 2, 1) scores are right.

    Examples
    --------
    >>> expected_accuracy(np.array([1.0, 0.1]), 1.0).round(3).tolist()
    [0.691, 0.903]
    """
    low, high = np.full(len(shares), -1.0), np.full(len(shares), 40.0 + mu)
    for _ in range(60):
        middle = (low + high) / 2.0
        too_many = ndtr(mu / 2.0 - middle) + ndtr(-mu / 2.0 - middle) > shares
        low, high = np.where(too_many, middle, low), np.where(too_many, high, middle)
    right, wrong = ndtr(mu / 2.0 - high), ndtr(-mu / 2.0 - high)
    return np.asarray(right / np.maximum(right + wrong, 1e-300))
