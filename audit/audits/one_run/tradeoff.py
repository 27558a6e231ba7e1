"""How often guesses about many canaries of one run can be right under a trade-off curve, and the bounds that follow.

Canary i is in by a fair coin of its own; the output decides exactly c guesses about m canaries, one c for all outputs.
W guesses are right. Let G be the inverse of 1 - f for the trade-off function f of the claim, p_k = P[W = k], and

    r_j = (1/m) sum over k >= j of k p_k,   h_j = (1/m) sum over k >= j of (c - k) p_k.   Then h_(j-1) >= G(r_j).

The recursion (Mahloujifar, Melis and Chaudhuri 2025, Algorithm 3) finds the least total mass of p that has P[W >= v] >=
tau and satisfies this for j <= v: tau on v, then on v - 1, ..., 0 as little as the next constraint asks for. If the
total exceeds 1, P[W >= v] < tau. Proofs and limits: docs/explanation/theory.md#one-run-trade-off-curves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from epsaudit.claims.definitions import ApproxDP, Claim, GaussianDP, PureDP
from epsaudit.errors import AuditError

Floats = NDArray[np.float64]
Inverse = Callable[[Floats, Floats], Floats]
"""G(r; parameter): least P[E] under one dataset where E has probability r under a neighbour; elementwise."""
GRID = 65
"""Parameters tried at a time; two zooms end within 1/4096 of the largest that could be rejected."""
ROUNDING = 1e-9
"""Mass by which a total must exceed 1: far above what rounding adds up to, far below what matters."""


def gaussian_inverse(rare: Floats, mu: Floats) -> Floats:
    """G of mu-Gaussian DP: Phi(Phi^-1(r) - mu)."""
    return np.asarray(ndtr(ndtri(rare) - mu))


def approximate_inverse(rare: Floats, epsilon: Floats, delta: Floats | float) -> Floats:
    """G of (epsilon, delta)-DP: the larger of e^-epsilon (r - delta) and 1 - delta - e^epsilon (1 - r), at least 0.

    >>> approximate_inverse(np.array([0.3, 0.9]), np.log([2.0, 2.0]), 0.1).round(4).tolist()
    [0.1, 0.7]
    """
    with np.errstate(over="ignore"):
        steep = 1.0 - delta - np.exp(epsilon) * (1.0 - rare)
    return np.asarray(np.maximum(np.maximum(np.exp(-epsilon) * (rare - delta), steep), 0.0))


def total_mass(inverse: Inverse, parameters: Floats, canaries: int, guesses: int, correct: int, tau: float) -> Floats:
    """Least total mass of a law of W with P[W >= correct] >= tau that the curve allows; above 1 there is none.

    ``parameters`` are tried at once; the recursion ends early once all totals are above 1 or settled.

    One canary, guessed right with probability 0.9: 0-DP has no room for that, 3-DP has.

    >>> pure = lambda r, epsilon: approximate_inverse(r, epsilon, 0.0)
    >>> total_mass(pure, np.array([0.0, 3.0]), 1, 1, 1, 0.9).round(3).tolist()
    [1.8, 0.945]
    """
    right = np.full(len(parameters), tau * correct / canaries)
    wrong = np.full(len(parameters), tau * (guesses - correct) / canaries)
    for k in range(correct - 1, -1, -1):
        needed = np.maximum(wrong, inverse(right, parameters))
        settled = needed == wrong  # nothing to add now means nothing to add later
        right = np.minimum(right + (k / (guesses - k)) * (needed - wrong), 1.0)
        wrong = needed
        if np.all(settled | ((right + wrong) * (canaries / guesses) > 1.0 + ROUNDING)):
            break
    return np.asarray((right + wrong) * (canaries / guesses))


def largest_rejected(inverse: Inverse, high: float, canaries: int, guesses: int, correct: int, alpha: float) -> float:
    """Return the end of the interval of rejected parameters below ``high``, rounded down; 0 if there is none.

    >>> pure = lambda r, epsilon: approximate_inverse(r, epsilon, 0.0)
    >>> round(largest_rejected(pure, 20.0, 1000, 1000, 731, 0.05), 2)  # a Clopper-Pearson limit gives 0.88
    0.87
    """
    low, width = 0.0, high
    for _ in range(4):
        tried = low + width * np.linspace(0.0, 1.0, GRID)
        refused = total_mass(inverse, tried, canaries, guesses, correct, alpha) > 1.0 + ROUNDING
        if not refused[0]:
            return 0.0
        last = int(np.argmin(refused)) - 1 if not np.all(refused) else GRID - 1
        low, width = float(tried[last]), width / (GRID - 1)
    return low


@functools.lru_cache(maxsize=1 << 16)
def parameter_bound(claim: Claim, canaries: int, guesses: int, correct: int, confidence: float) -> float:
    """Lower bound on the claim's parameter; 0 where nothing is shown; raises `AuditError` for another kind of claim.

    >>> round(parameter_bound(GaussianDP(1.0), 10_000, 200, 184, 0.95), 2)
    0.61
    """
    if correct == 0:
        return 0.0
    # one Clopper-Pearson limit for a guess that is always made is the most that any claim allows, by far
    high = 2.0 * math.log(canaries + 1.0) + 10.0
    return largest_rejected(inverse_of(claim), high, canaries, guesses, correct, 1.0 - confidence)


@functools.lru_cache(maxsize=1 << 16)
def delta_bound(canaries: int, guesses: int, correct: int, epsilon: float, confidence: float) -> float:
    """Lower bound on delta at ``epsilon``; 0 where nothing is shown.

    >>> round(delta_bound(1000, 1000, 1000, 1.0, 0.95), 2)  # who reveals everybody with probability 0.05 is not caught
    0.05
    """
    if correct == 0:
        return 0.0

    def inverse(rare: Floats, delta: Floats) -> Floats:
        return approximate_inverse(rare, np.full_like(delta, epsilon), delta)

    return largest_rejected(inverse, 1.0, canaries, guesses, correct, 1.0 - confidence)


def inverse_of(claim: Claim) -> Inverse:
    """Return G of the claim's definition as a function of its parameter; raises `AuditError` where it is not known."""
    if isinstance(claim, GaussianDP):
        return gaussian_inverse
    if isinstance(claim, PureDP | ApproxDP):
        delta = claim.delta if isinstance(claim, ApproxDP) else 0.0
        return lambda rare, epsilon: approximate_inverse(rare, epsilon, delta)
    raise AuditError(f"{claim} has no trade-off curve here; a one-run audit takes PureDP, ApproxDP or GaussianDP.")
