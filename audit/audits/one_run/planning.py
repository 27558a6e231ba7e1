"""Planning of the number of guesses: how many canaries to guess so that the bound is as large as possible.

Many guesses are wrong more often than a few guesses about the most extreme scores, but they count more. The plans here
use only the claim and the number of canaries. They assume that scores are Gaussian; if the scores are not, the bound
stays valid and becomes smaller.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from epsaudit.bounds.one_run import GuessBound, GuessSet, claimed_delta
from epsaudit.claims.conversions import gaussian_accuracy
from epsaudit.claims.definitions import GaussianDP

GUESS_SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005)
"""[measured] Shares of the canaries that a plan may guess, half of the guesses in and half out. Audits of sums with
1,000 to 100,000 canaries, under four claims and with all or half of the claimed noise, certify 89 % of the claim on
average. Other sets of shares certify the same within 0.4 %; the first four shares alone certify 6 % less."""
BONFERRONI_SHARES = (1.0, 0.25, 0.05, 0.01)
"""[measured] Shares of the canaries that the Bonferroni rule tries at once. In the same audits four shares certify 83
% of the claim, two shares 84 %, and all eight shares 81 %."""
MIN_GUESSES = 8
"""[chosen] Smallest number of guesses that is tried. Eight correct guesses of eight show epsilon 0.79 at 95 %."""
MIN_REACH = 1.25
"""[measured] Multiple of the claim that a plan should certify if all guesses are correct. Values from 1 to 2 certify
the same within 1 %."""
MIN_MERIT_SHARE = 0.9
"""[measured] Share of the best predicted bound that a plan with a sufficient reach must attain to be preferred to the
plan with the best predicted bound. Values from 0.5 to 1 certify the same within 1.1 %."""
LADDER_MUS = tuple(np.geomspace(0.25, 8.0, 31).tolist())
"""[measured] Parameters mu of Gaussian leaks for which `ladder` plans a number of guesses. 10,000 canaries hardly show
the smallest one, and the largest one reveals all canaries. 161 values certify the same within 4 %, on average within
0.2 %, for 1,000 to 100,000 canaries with shifts of 1, 2 and 4."""


def split_evenly(guesses: int) -> tuple[int, int]:
    """Split a number of guesses into the number of guesses 'in' and the number of guesses 'out'.

    >>> split_evenly(7)
    (4, 3)
    """
    return (guesses + 1) // 2, guesses // 2


def guess_numbers(canaries: int, shares: Sequence[float]) -> list[int]:
    """Return the given ``shares`` of the number of ``canaries``, as whole numbers of guesses.

    Numbers below `MIN_GUESSES` are left out. If all of them are left out, the only number of guesses is ``canaries``.
    """
    numbers = [round(canaries * share) for share in shares]
    return [number for number in numbers if number >= MIN_GUESSES] or [canaries]


@functools.lru_cache(maxsize=1024)
def planned_guesses(canaries: int, bound: GuessBound) -> int:
    """Return the number of guesses for which the largest lower bound is predicted.

    The prediction assumes that the mechanism leaks exactly as much as the claim allows, and that the number of correct
    guesses equals its mean. Preference is given to numbers of guesses that would certify `MIN_REACH` times the claim if
    all guesses were correct.
    """
    mu = bound.claim.parameter
    if not isinstance(bound.claim, GaussianDP):
        if claimed_delta(bound.claim) == 0.0:
            return canaries  # the best number if the mechanism is randomised response
        mu = float(GaussianDP(1.0).least_at(mu, claimed_delta(bound.claim)))
    numbers = guess_numbers(canaries, GUESS_SHARES)
    accuracies = gaussian_accuracy(np.array(numbers) / canaries, mu).tolist()
    merits = {
        number: _predict_bound(canaries, number, accuracy, bound)
        for number, accuracy in zip(numbers, accuracies, strict=True)
    }
    best = max(numbers, key=merits.__getitem__)
    threshold = MIN_REACH * bound.claim.parameter
    able = [number for number in numbers if _predict_bound(canaries, number, 1.0, bound) > threshold]
    farther = max(able, key=merits.__getitem__, default=best)
    return farther if merits[farther] >= MIN_MERIT_SHARE * merits[best] else best


@functools.lru_cache(maxsize=1024)
def ladder(canaries: int, bound: GuessBound) -> list[tuple[float, int]]:
    """Return a plan to test increasing parameters: pairs (parameter, number of guesses) in ascending order.

    Each number of guesses serves to test the parameters above that of the previous pair, up to the parameter of its own
    pair; the last number also tests all larger parameters. The first parameter is that of the claim. Each further
    parameter is the largest bound that is predicted for one of the leaks `LADDER_MUS`, and its number of guesses is the
    one with this prediction.
    """
    numbers = guess_numbers(canaries, GUESS_SHARES)
    steps = [(bound.claim.parameter, planned_guesses(canaries, bound))]
    for mu in LADDER_MUS:
        accuracies = gaussian_accuracy(np.array(numbers) / canaries, mu).tolist()
        predicted, guesses = max(
            (_predict_bound(canaries, number, accuracy, bound), number)
            for number, accuracy in zip(numbers, accuracies, strict=True)
        )
        if predicted > steps[-1][0]:
            steps.append((predicted, guesses))
    return steps


def _predict_bound(canaries: int, guesses: int, accuracy: float, bound: GuessBound) -> float:
    """Return the lower bound that follows if the share ``accuracy`` of ``guesses`` guesses is correct."""
    return bound.of(GuessSet.of(canaries, guesses, 0, math.floor(guesses * accuracy), 0))
