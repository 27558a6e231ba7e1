"""How often guesses about many canaries of one run can be right under (epsilon, delta)-DP, and the bounds that follow.

Numbers of canaries, guesses and correct guesses enter; a p-value, or the epsilon or delta that it rejects, leaves.

The theorem (Steinke, Nasr and Jagielski 2023, 'Privacy Auditing with One (1) Training Run', Theorem 5.2). Each of m
canaries is in the dataset by a fair coin of its own, and the output decides r guesses. Whatever the output, the number
of correct guesses is stochastically at most W + F: W is Binomial(r, q), q = 1 / (1 + e^-epsilon), and F >= 0 is
independent of W and depends on the output, with mean at most 2 m delta over all outputs. Since P[W + F >= v] is at
most P[W >= v] plus the mean of F times the greatest P[v - i <= W < v] / i over i >= 1,

    P[v or more are correct] <= beta + 2 m delta a,  beta = P[W >= v],  a = max over i of P[v - i <= W < v] / i.

For delta = 0 the bound holds given the output, so r may depend on it. For delta > 0 with one r, it is the p-value. If
the output decides r as well, F may be large just where a is: the p-value at the r that came up is then not proven.
What is proven: P[reject] <= max over r of beta + 2 m delta times the max over r of a, so that rejecting when beta is
at most a share of alpha and 2 m delta a at most the rest, at every epsilon up to the bound, keeps the level for every
such rule (``leak_share`` below).

Inverting. (epsilon, delta)-DP implies (epsilon', delta')-DP for larger epsilon' or delta', so that a bound b for which
the test at b rejects exceeds the truth only if the truth is rejected through b, an event of the form 'v or more' whose
probability the theorem at b limits: no monotonicity of the p-value is needed.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.special import expit, logit
from scipy.stats import binom

from audit.certificates import clopper_pearson_lower

STRIDE = 1024
"""Probabilities of W computed at a time while looking for the greatest mean."""

LOOKS = 17
"""Epsilons up to a bound at which the share for delta is checked: a is smooth in epsilon, with one maximum."""


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Greatest probability that ``correct`` or more of ``guesses`` guesses are right under (epsilon, delta)-DP.

    Parameters
    ----------
    canaries, guesses, correct : int
        m, r and v: 0 <= v <= r <= m.
    epsilon, delta : float
        At least 0; delta at most 1.

    Returns
    -------
    float
        beta + 2 m delta a of the module's docstring, at most 1.

    Examples
    --------
    >>> round(p_value(1000, 100, 75, 0.673, 1e-4), 4)
    0.05
    """
    beta, leak = parts(guesses, correct, epsilon)
    return min(1.0, beta + 2.0 * canaries * delta * leak)


def parts(guesses: int, correct: int, epsilon: float) -> tuple[float, float]:
    """Return beta = P[W >= v] and a = max over i >= 1 of P[v - i <= W < v] / i, W ~ Binomial(r, 1 / (1 + e^-epsilon)).

    Examples
    --------
    >>> [round(part, 6) for part in parts(2, 2, 0.0)]
    [0.25, 0.5]
    """
    q = float(expit(epsilon))
    if correct == 0:
        return 1.0, 0.0  # v or more is certain
    best, total, top = 0.0, 0.0, correct
    while top > 0:  # from v - 1 downwards, until the mean can only fall
        values = np.arange(top - 1, max(top - 1 - STRIDE, -1), -1)
        masses = binom.pmf(values, guesses, q)
        sums = total + np.cumsum(masses)
        best = max(best, float(np.max(sums / (correct - values))))
        total, top = float(sums[-1]), int(values[-1])
        if top < guesses * q - 1.0 and masses[-1] < best:
            break
    return float(binom.sf(correct - 1, guesses, q)), best


@functools.lru_cache(maxsize=1 << 16)
def epsilon_bound(
    canaries: int, guesses: int, correct: int, delta: float, confidence: float, leak_share: float | None = None
) -> float:
    """Lower bound on epsilon at ``delta``; 0 where nothing is shown.

    Parameters
    ----------
    canaries, guesses, correct : int
        m, r and v.
    delta : float in [0, 1]
        The delta of the claim.
    confidence : float in (0, 1)
        Probability that the bound does not exceed the truth.
    leak_share : float in (0, 1), optional
        Share of the error probability set aside for delta, needed if the output decides ``guesses`` and delta > 0.

    Examples
    --------
    >>> f"{epsilon_bound(1000, 100, 75, 1e-4, 0.95):.4f} {epsilon_bound(100_000, 1510, 1439, 1e-5, 0.95):.4f}"
    '0.6730 2.6759'
    """
    alpha = 1.0 - confidence
    if correct == 0:
        return 0.0
    if delta == 0.0:
        return max(0.0, float(logit(clopper_pearson_lower(correct, guesses, alpha))))

    def rejected(epsilon: float) -> bool:
        if leak_share is None:
            return p_value(canaries, guesses, correct, epsilon, delta) <= alpha
        beta, _ = parts(guesses, correct, epsilon)
        leak = max(parts(guesses, correct, e)[1] for e in np.linspace(0.0, epsilon, LOOKS))
        return beta <= alpha * (1.0 - leak_share) and 2.0 * canaries * delta * leak <= alpha * leak_share

    high = float(logit(clopper_pearson_lower(correct, guesses, alpha)))  # what delta = 0 would give: beta alone
    if high <= 0.0 or not rejected(0.0):
        return 0.0
    low = 0.0
    for _ in range(45):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


@functools.lru_cache(maxsize=1 << 16)
def delta_bound(
    canaries: int, guesses: int, correct: int, epsilon: float, confidence: float, leak_share: float | None = None
) -> float:
    """Lower bound on delta at ``epsilon``; 0 where nothing is shown. Parameters as in `epsilon_bound`.

    Examples
    --------
    >>> round(delta_bound(1000, 100, 75, 0.673, 0.95), 6)
    0.0001
    """
    alpha = 1.0 - confidence
    beta, leak = parts(guesses, correct, epsilon)
    kept = 0.0 if leak_share is None else alpha * leak_share
    spare = alpha - beta if leak_share is None else kept if beta <= alpha - kept else 0.0
    if spare <= 0.0:
        return 0.0
    return math.inf if leak == 0.0 else min(1.0, spare / (2.0 * canaries * leak))
