"""Privacy amplification by shuffling: the central claim of n users' locally private messages in random order.

A *clone* is another user whose message does not depend on the value that this user holds (see `numeric`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from epsaudit.array_types import Floats
from epsaudit.claims.conversions import root
from epsaudit.errors import AuditError, finite_at_least, fraction, whole_at_least
from epsaudit.mechanisms.base import positive

_RARITY = 42.0
"""Numbers of clones in the tails, of probability at most e^-42 = 6e-19 on each side, are added to delta."""


def closed_form(epsilon: float, users: int, delta: float) -> float:
    """Return the bound of the source: log(1 + 16 (e^eps - 1) / (e^eps + 1) sqrt(e^eps log(4/delta) / n)).

    differentialprivacy.org, 'Privacy Doona', equation (1), after Feldman, McMillan and Talwar (2021). The text asks for
    n much larger than e^eps log(1/delta). This function checks the condition of the paper itself, which is eps <= log(n
    / (16 log(2/delta))).

    Raises `AuditError` if a parameter is out of range or the condition fails.

    >>> round(closed_form(1.0, 10_000, 1e-6), 4)
    0.3889
    """
    epsilon, users, delta = _checked(epsilon, users, delta, 16.0, 2.0)
    odds = math.tanh(epsilon / 2.0)
    return math.log1p(16.0 * odds * math.sqrt(math.exp(epsilon) * math.log(4.0 / delta) / users))


def closed_form_2021(epsilon: float, users: int, delta: float) -> float:
    """Return the bound of Feldman, McMillan and Talwar (2021), Theorem 3.1, of which `closed_form` is a simplification.

    Raises `AuditError` as for `closed_form`.

    >>> round(closed_form_2021(1.0, 10_000, 1e-6), 3)
    0.214
    """
    epsilon, users, delta = _checked(epsilon, users, delta, 16.0, 2.0)
    growth = math.exp(epsilon)
    return math.log1p(
        math.tanh(epsilon / 2.0) * (8.0 * math.sqrt(growth * math.log(4.0 / delta) / users) + 8.0 * growth / users)
    )


def closed_form_2022(epsilon: float, users: int, delta: float) -> float:
    """Return the closed form of Feldman, McMillan and Talwar (2022), 'Stronger privacy amplification by shuffling'.

    Raises `AuditError` if a parameter is out of range, or eps > log(n / (8 log(2/delta)) - 1).

    >>> round(closed_form_2022(1.0, 10_000, 1e-6), 3)
    0.18
    """
    epsilon, users, delta = _checked(epsilon, users, delta, 8.0, 2.0, 1.0)
    root = math.sqrt(2.0 * math.log(4.0 / delta) / ((math.exp(epsilon) + 1.0) * users))
    return math.log1p(math.expm1(epsilon) * (4.0 * root + 4.0 / users))


def numeric(epsilon: float, users: int, delta: float, answers: float = 2) -> float:
    """Return the epsilon of the numeric bound of Feldman, McMillan and Talwar (2022) at the given delta.

    Each of the other users is a clone with a probability of about 2 / (e^eps + k - 1): a clone sends one of the two
    answers of the user in question, whatever value the clone holds. The bound inverts the hockey-stick divergence of
    the pair of laws that is easiest to tell apart. This pair shows how many clones there are, and how the two answers
    divide among the clones and the user in question. With ``answers`` = k = 2 the bound holds for every eps-locally
    private randomiser. Randomisers other than randomised response have a k like `HadamardResponse.clone_answers`.

    >>> round(numeric(1.0, 10_000, 1e-6), 4)
    0.0432
    """
    return _inverted(lambda at: clones_delta(at, epsilon, users, answers), epsilon, delta)


def numeric_2021(epsilon: float, users: int, delta: float) -> float:
    """Return the numeric bound of Feldman, McMillan and Talwar (2021): a user is a clone with probability e^-eps.

    The computation follows their code (apple/ml-shuffling-amplification, `deltacomp`), without its rounding up.

    >>> round(numeric_2021(1.0, 10_000, 1e-6), 4)
    0.053
    """
    positive(epsilon, "local epsilon")
    return _inverted(lambda at: _clones_delta(at, epsilon, users, math.exp(-epsilon), 1.0), epsilon, delta)


def local_epsilon(central: float, users: int, delta: float, answers: Callable[[float], float]) -> float:
    """Return the greatest local epsilon whose numeric bound is at most ``central``, up to a relative 1e-6.

    ``answers`` maps a local epsilon to the number of answers, or to `HadamardResponse.clone_answers`; this function may
    jump. Raises `AuditError` if a parameter is out of range.
    """
    low, high = positive(central, "epsilon"), central + math.log(users)
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        small = clones_delta(central, middle, users, answers(middle)) <= delta
        low, high = (middle, high) if small else (low, middle)
    return low


def clones_delta(at: float, epsilon: float, users: int, answers: float = 2) -> float:
    """Return the delta at epsilon = ``at`` of the pair of laws that `numeric` describes.

    The result is the smaller of two deltas: that of the pair for k answers, and that of the pair for any randomiser.
    Either may be the smaller one.
    """
    positive(epsilon, "local epsilon")
    found = 1.0
    for number in {2.0, finite_at_least(answers, 2, "number of answers")}:
        lie = 1.0 / (math.exp(epsilon) + number - 1.0)
        # the user in question sends one of the two answers with probability (e^eps + 1) lie, others with 2 lie or more
        found = min(found, _clones_delta(at, epsilon, users, 2.0 * lie, (math.exp(epsilon) + 1.0) * lie))
    return found


def _clones_delta(at: float, epsilon: float, users: int, share: float, involved: float) -> float:
    clones, weights, outside = _binomial(whole_at_least(users, 2, "number of users") - 1, share)
    return involved * float(weights @ _hockey_stick(at, epsilon, clones)) + outside


def variation_ratio_delta(at: float, epsilon: float, users: int, answers: int) -> float:
    """Return the delta at epsilon = ``at`` of a pair that reveals less, in the form of the variation-ratio reduction.

    An observer of this pair learns neither whether the user in question sent one of the two answers, nor the answers
    of the users who are not clones. The pair follows Wang et al. (2023) as far as their parameters were available.
    Their proof was not available, and the pair gives *no upper bound* for k >= 3, which may be a fault of this
    reading. See docs/explanation/shuffling.md.

    >>> from epsaudit.mechanisms import exact
    >>> from epsaudit.mechanisms.shuffling import ShuffledResponse
    >>> mechanism = ShuffledResponse(1.0, 6, 1e-3, answers=3)
    >>> worst = mechanism.simple_pairs()[1]
    >>> truth = exact.delta(mechanism(worst.x), mechanism(worst.x_prime), 0.8)
    >>> round(variation_ratio_delta(0.8, 1.0, 6, 3), 6), round(truth, 6)
    (0.003093, 0.006628)
    """
    lie = 1.0 / (math.exp(epsilon) + answers - 1.0)
    growth, rest = math.exp(epsilon), 1.0 - lie - math.exp(epsilon) * lie
    others = users - 1
    clones, weights, outside = _binomial(others, 2.0 * lie)
    sent = np.arange(clones[0], clones[-1] + 2)  # a + b: the number of users who sent one of the two answers
    with_user, without = np.append(0.0, weights), np.append(weights, 0.0)
    # P > e^at P' for this a and larger ones; without / with_user is a ratio of binomial probabilities
    beyond = np.maximum(others + 1 - sent, 0) * 2.0 * lie / (1.0 - 2.0 * lie)
    least = sent * (math.exp(at) * growth - 1.0) + math.expm1(at) * beyond * rest / (2.0 * lie)
    first = np.ceil(least / ((growth - 1.0) * (1.0 + math.exp(at))) - 1e-9)
    fewer = np.maximum(sent - 1, 0)
    more, same = (_more(first - less, fewer) for less in (2, 1))
    p = lie * (growth * more + same) * with_user + rest * without * _more(first - 1, sent)
    q = lie * (more + growth * same) * with_user + rest * without * _more(first - 1, sent)
    return float(np.sum(np.maximum(p - math.exp(at) * q, 0.0))) + outside


def variation_ratio(epsilon: float, users: int, delta: float, answers: int) -> float:
    """Return the epsilon at which `variation_ratio_delta` is ``delta``; it serves comparison only.

    >>> round(variation_ratio(1.0, 10_000, 1e-6, 2), 4)
    0.0432
    """
    return _inverted(lambda at: variation_ratio_delta(at, epsilon, users, answers), epsilon, delta)


def _inverted(delta_at: Callable[[float], float], epsilon: float, delta: float) -> float:
    """Return the least central epsilon whose delta is at most the given one; it is at most the local epsilon."""
    if delta_at(0.0) <= delta:
        return 0.0
    if delta_at(epsilon) > delta:  # by rounding only: the local epsilon always suffices
        return epsilon
    found = root(lambda at: delta_at(at) - delta, 0.0, epsilon, xtol=1e-12, rtol=1e-12)
    return min(found * (1.0 + 1e-9), epsilon)


def _binomial(number: int, chance: float) -> tuple[NDArray[np.int64], Floats, float]:
    """Return the numbers of clones except very rare ones, their probabilities, and the probability of the rare ones."""
    width = math.sqrt(2.0 * number * chance * (1.0 - chance) * _RARITY) + _RARITY  # Bernstein's inequality, rounded up
    clones = np.arange(max(math.floor(number * chance - width), 0), min(math.ceil(number * chance + width), number) + 1)
    if chance >= 1.0:
        return np.array([number]), np.ones(1), 0.0
    ratios = (number - clones[:-1]) / (clones[:-1] + 1.0) * (chance / (1.0 - chance))
    logs = np.append(0.0, np.cumsum(np.log(ratios)))
    weights = np.exp(logs - logs.max())
    fewer = bdtr(clones[0] - 1, number, chance) if clones[0] else 0.0
    outside = float(fewer + bdtrc(clones[-1], number, chance))
    return clones, weights * ((1.0 - outside) / weights.sum()), outside


def _hockey_stick(at: float, epsilon: float, clones: NDArray[np.int64]) -> Floats:
    """Return the sum of max(P - e^at P', 0) for each number of clones c, over the number of answers of the first kind.

    Of the c + 1 answers of the clones and the user in question, a are of the first kind.
    """
    truth = math.exp(epsilon) / (math.exp(epsilon) + 1.0)
    total = clones + 1
    # P / P' = (r a + (1 - r) (c + 1 - a)) / ((1 - r) a + r (c + 1 - a)) >= e^at for this a and larger ones
    tilt = (truth * math.exp(at) - (1.0 - truth)) / ((2.0 * truth - 1.0) * (1.0 + math.exp(at)))
    first = np.ceil(total * tilt - 1e-9)
    more, same = _more(first - 2, clones), _more(first - 1, clones)
    p = truth * more + (1.0 - truth) * same
    q = (1.0 - truth) * more + truth * same
    return np.asarray(np.maximum(p - math.exp(at) * q, 0.0))


def _more(count: Floats, trials: NDArray[np.int64]) -> Floats:
    """Return the probability that more than ``count`` of ``trials`` fair coins show heads."""
    return np.where(count < 0, 1.0, bdtrc(np.clip(count, 0, trials), trials, 0.5))


def _checked(
    epsilon: float, users: int, delta: float, factor: float, over: float, less: float = 0.0
) -> tuple[float, int, float]:
    epsilon, users = positive(epsilon, "local epsilon"), whole_at_least(users, 1, "number of users")
    delta = fraction(delta, "delta", open_below=True)
    most = users / (factor * math.log(over / delta)) - less
    if math.exp(epsilon) > most:
        raise AuditError(
            f"The closed form does not hold for a local epsilon of {epsilon:g}, {users:,} users and delta = {delta:g}: "
            f"e^epsilon must be at most n / ({factor:g} log({over:g}/delta)) - {less:g} = {most:.4g}."
        )
    return epsilon, users, delta
