"""Privacy amplification by shuffling: the central claim of n users' locally private messages in random order.

From a local epsilon, a number of users and a delta it computes a central epsilon: the closed forms, and the numeric
bound.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import positive
from epsaudit.roots import root

Floats = NDArray[np.float64]
_RARITY = 42.0
"""Numbers of clones that are rarer than e^-42 = 6e-19 on each side are counted as leaks."""


def closed_form(epsilon: float, users: int, delta: float) -> float:
    """Bound of the source: log(1 + 16 (e^eps - 1) / (e^eps + 1) sqrt(e^eps log(4/delta) / n)).

    differentialprivacy.org, 'Privacy Doona', equation (1), after Feldman, McMillan and Talwar (2021). The text asks
    for n much larger than e^eps log(1/delta); the paper's own condition, which is checked here, is
    eps <= log(n / (16 log(2/delta))).

    Raises `AuditError` if a parameter is out of range or the condition fails.

    Examples
    --------
    >>> round(closed_form(1.0, 10_000, 1e-6), 4)
    0.3889
    """
    epsilon, users, delta = _checked(epsilon, users, delta, 16.0, 2.0)
    odds = math.tanh(epsilon / 2.0)
    return math.log1p(16.0 * odds * math.sqrt(math.exp(epsilon) * math.log(4.0 / delta) / users))


def closed_form_2021(epsilon: float, users: int, delta: float) -> float:
    """Bound of Feldman, McMillan and Talwar (2021), Theorem 3.1, which the source simplifies.

    Raises `AuditError` as for `closed_form`.

    Examples
    --------
    >>> round(closed_form_2021(1.0, 10_000, 1e-6), 3)
    0.214
    """
    epsilon, users, delta = _checked(epsilon, users, delta, 16.0, 2.0)
    growth = math.exp(epsilon)
    return math.log1p(
        math.tanh(epsilon / 2.0) * (8.0 * math.sqrt(growth * math.log(4.0 / delta) / users) + 8.0 * growth / users)
    )


def closed_form_2022(epsilon: float, users: int, delta: float) -> float:
    """Bound of Feldman, McMillan and Talwar (2022), 'Stronger privacy amplification by shuffling', in closed form.

    Raises `AuditError` if a parameter is out of range, or eps > log(n / (8 log(2/delta)) - 1).

    Examples
    --------
    >>> round(closed_form_2022(1.0, 10_000, 1e-6), 3)
    0.18
    """
    epsilon, users, delta = _checked(epsilon, users, delta, 8.0, 2.0, 1.0)
    root = math.sqrt(2.0 * math.log(4.0 / delta) / ((math.exp(epsilon) + 1.0) * users))
    return math.log1p(math.expm1(epsilon) * (4.0 * root + 4.0 / users))


def numeric(epsilon: float, users: int, delta: float, answers: int = 2) -> float:
    """Numeric bound of Feldman, McMillan and Talwar (2022): the hockey stick of the clones' pair, inverted.

    Of the other users about 2 / (e^eps + k - 1) send one of the two answers in question whatever they hold: clones. The
    pair that is easiest to tell apart shows how many clones there are and how the two answers divide among them
    and the user in question. With ``answers`` = 2 it holds for every eps-locally private randomiser.

    Parameters
    ----------
    epsilon : float
        Local epsilon, above 0.
    users : int
        At least 2.
    answers : int
        Number k of answers of a randomised response.

    Examples
    --------
    >>> round(numeric(1.0, 10_000, 1e-6), 4)
    0.0432
    """
    if clones_delta(0.0, epsilon, users, answers) <= delta:
        return 0.0
    if clones_delta(epsilon, epsilon, users, answers) > delta:  # rounding: nothing leaks more than epsilon
        return epsilon
    found = root(lambda e: clones_delta(e, epsilon, users, answers) - delta, 0.0, epsilon, xtol=1e-12, rtol=1e-12)
    return min(found * (1.0 + 1e-9), epsilon)


def clones_delta(at: float, epsilon: float, users: int, answers: int = 2) -> float:
    """Delta at epsilon = ``at`` of the clones' pair; see `numeric`.

    Examples
    --------
    >>> f"{clones_delta(0.0432, 1.0, 10_000):.2g}"
    '1e-06'
    """
    positive(epsilon, "local epsilon")
    users, answers = whole_at_least(users, 2, "number of users"), whole_at_least(answers, 2, "number of answers")
    lie = 1.0 / (math.exp(epsilon) + answers - 1.0)
    share = 2.0 * lie
    involved = (math.exp(epsilon) + 1.0) * lie  # the user in question sends one of the two answers
    others = users - 1
    width = math.sqrt(2.0 * others * share * (1.0 - share) * _RARITY) + _RARITY  # Bernstein's inequality, rounded up
    clones = np.arange(max(math.floor(others * share - width), 0), min(math.ceil(others * share + width), others) + 1)
    ratios = (others - clones[:-1]) / (clones[:-1] + 1.0) * (share / (1.0 - share))
    logs = np.append(0.0, np.cumsum(np.log(ratios)))
    weights = np.exp(logs - logs.max())
    fewer = bdtr(clones[0] - 1, others, share) if clones[0] else 0.0
    outside = fewer + bdtrc(clones[-1], others, share)
    weights *= (1.0 - outside) / weights.sum()
    return float(weights @ _hockey_stick(at, epsilon, clones, involved, lie)) + float(outside)


def _hockey_stick(at: float, epsilon: float, clones: NDArray[np.int64], involved: float, lie: float) -> Floats:
    """For each number of clones c: of a + b answers, a of the first kind, sums where P exceeds e^at P'.

    With probability ``involved`` the user adds one of the two answers, and else nothing: a + b says which.
    """
    truth = math.exp(epsilon) / (math.exp(epsilon) + 1.0)
    total = clones + 1
    # P / P' = (r a + (1 - r) (c + 1 - a)) / ((1 - r) a + r (c + 1 - a)) >= e^at from this a on
    tilt = (truth * math.exp(at) - (1.0 - truth)) / ((2.0 * truth - 1.0) * (1.0 + math.exp(at)))
    first = np.ceil(total * tilt - 1e-9)
    more, same = _more(first - 2, clones), _more(first - 1, clones)
    p = truth * more + (1.0 - truth) * same
    q = (1.0 - truth) * more + truth * same
    return np.asarray(involved * np.maximum(p - math.exp(at) * q, 0.0))


def _more(count: Floats, trials: NDArray[np.int64]) -> Floats:
    """Chance that more than ``count`` of so many fair coins show heads."""
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
