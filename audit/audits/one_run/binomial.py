"""How often guesses about many canaries of one run can be right under (epsilon, delta)-DP, and the bounds that follow.

Each of m canaries is in the dataset by a fair coin of its own, and the output decides r guesses, v of which are right.
Let q = 1 / (1 + e^-epsilon), W ~ Binomial(r, q), b_k = P[W = k] and beta = P[W >= v]. Then v or more are right with
probability at most

    sharp (ours, attained)     min(1, beta + m delta beta (1 - beta) / (v b_v)),
    published (Steinke, Nasr and Jagielski 2023)   beta + 2 m delta max over i >= 1 of P[v - i <= W < v] / i,

the same for delta = 0. If the output decides r, too, and delta > 0, a share of the error probability is kept for the
second term. Proofs, inversion and limits: docs/explanation/theory.md#one-run-epsilon-delta-dp;
``python -m epsaudit.experiments.one_run_formulas worst-case`` compares both with what is attained.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import betainc, expit, gammaln, log_expit, logit
from scipy.stats import binom

from epsaudit.certificates import clopper_pearson_lower

Method = Literal["sharp", "binomial"]
STRIDE = 1024
"""Probabilities of W computed at a time while looking for the greatest mean."""
FAR = -600.0
"""Logarithm of P[W = v] from which on a tail is summed as a multiple of it: floats end near e^-708."""
LOOKS = 17
"""Epsilons up to a bound at which the share for delta is checked: its factor is smooth in epsilon, with one maximum."""


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float, method: Method = "sharp") -> float:
    """Greatest probability that ``correct`` or more of ``guesses`` guesses are right under (epsilon, delta)-DP.

    >>> round(p_value(2, 2, 1, 1.0, 0.1), 4), round(p_value(2, 2, 1, 1.0, 0.1, "binomial"), 4)
    (0.9618, 0.9566)
    """
    beta = tail(guesses, correct, epsilon)
    return min(1.0, beta + canaries * delta * LEAKS[method](guesses, correct, epsilon))


def tail(guesses: int, correct: int, epsilon: float) -> float:
    """Return beta = P[W >= v]."""
    return 1.0 if correct == 0 else float(betainc(correct, guesses - correct + 1, expit(epsilon)))


def sharp_leak(guesses: int, correct: int, epsilon: float) -> float:
    """Return beta (1 - beta) / (v b_v): what a unit of m delta adds at most."""
    if correct == 0:
        return 0.0  # v or more is certain
    wrong, q = guesses - correct, float(expit(epsilon))
    log_choices = gammaln(guesses + 1) - gammaln(correct + 1) - gammaln(wrong + 1)
    log_mass = log_choices + correct * log_expit(epsilon) + wrong * log_expit(-epsilon)
    if log_mass <= FAR:
        return _far_leak(wrong, correct, epsilon)
    below = betainc(wrong + 1, correct, expit(-epsilon))  # P[W < v], with its digits where q is nearly 1
    return float(np.exp(np.log(betainc(correct, wrong + 1, q)) - log_mass) * below / correct)


def _far_leak(wrong: int, correct: int, epsilon: float) -> float:
    """Return the same where b_v, and with it one of the two tails, is too small for a float: the other tail is 1.

    The small tail over b_v is a sum of products of ratios of successive masses, which fall: the first is below 1, and
    what is left out after so many terms is below e^-40 of the sum.
    """
    odds = math.exp(min(epsilon, 700.0))
    up, down = wrong * odds / (correct + 1), correct / odds / (wrong + 1)  # b_(v+1) / b_v and b_(v-1) / b_v
    first, number = (up, wrong) if up < 1.0 else (down, correct)
    steps = np.arange(number if first == 0.0 else min(number, math.ceil(-40.0 / math.log(first))))
    if up < 1.0:
        small = 1.0 + np.sum(np.cumprod((wrong - steps) * odds / (correct + 1 + steps)))  # beta / b_v
    else:
        small = np.sum(np.cumprod((correct - steps) / odds / (wrong + 1 + steps)))  # P[W < v] / b_v
    return float(small / correct)


def published_leak(guesses: int, correct: int, epsilon: float) -> float:
    """Return 2 max over i >= 1 of P[v - i <= W < v] / i."""
    q = float(expit(epsilon))
    best, total, top = 0.0, 0.0, correct
    while top > 0:  # from v - 1 downwards, until the mean can only fall
        values = np.arange(top - 1, max(top - 1 - STRIDE, -1), -1)
        masses = binom.pmf(values, guesses, q)
        sums = total + np.cumsum(masses)
        best = max(best, float(np.max(sums / (correct - values))))
        total, top = float(sums[-1]), int(values[-1])
        if top < guesses * q - 1.0 and masses[-1] < best:
            break
    return 2.0 * best


LEAKS: dict[Method, Callable[[int, int, float], float]] = {"sharp": sharp_leak, "binomial": published_leak}


@functools.lru_cache(maxsize=1 << 16)
def epsilon_bound(
    canaries: int,
    guesses: int,
    correct: int,
    delta: float,
    confidence: float,
    method: Method = "sharp",
    leak_share: float | None = None,
) -> float:
    """Lower bound on epsilon at ``delta``; 0 where nothing is shown.

    ``leak_share`` is the share of the error probability set aside for delta: needed if the output decides ``guesses``,
    and delta > 0.

    >>> bounds = [epsilon_bound(1000, 100, 75, 1e-4, 0.95, method) for method in ("binomial", "sharp")]
    >>> [f"{bound:.4f}" for bound in bounds]
    ['0.6730', '0.6951']
    """
    alpha = 1.0 - confidence
    if correct == 0:
        return 0.0
    if delta == 0.0:
        return max(0.0, float(logit(clopper_pearson_lower(correct, guesses, alpha))))

    def rejected(epsilon: float) -> bool:
        if leak_share is None:
            return p_value(canaries, guesses, correct, epsilon, delta, method) <= alpha
        kept = alpha * leak_share
        looks = np.linspace(0.0, epsilon, LOOKS)
        return tail(guesses, correct, epsilon) <= alpha - kept and all(
            canaries * delta * LEAKS[method](guesses, correct, float(look)) <= kept for look in looks
        )

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
    canaries: int,
    guesses: int,
    correct: int,
    epsilon: float,
    confidence: float,
    method: Method = "sharp",
    leak_share: float | None = None,
) -> float:
    """Lower bound on delta at ``epsilon``; 0 where nothing is shown. Parameters as in `epsilon_bound`.

    >>> round(delta_bound(1000, 100, 75, 0.673, 0.95, "binomial"), 6)
    0.0001
    """
    alpha = 1.0 - confidence
    beta, leak = tail(guesses, correct, epsilon), canaries * LEAKS[method](guesses, correct, epsilon)
    kept = 0.0 if leak_share is None else alpha * leak_share
    spare = alpha - beta if leak_share is None else kept if beta <= alpha - kept else 0.0
    if correct == 0 or spare <= 0.0:
        return 0.0
    return min(1.0, spare / leak)
