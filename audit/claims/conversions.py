"""Conversions between privacy definitions, as the papers state them, and the root-finder that inverts them.

Arguments out of their range raise `AuditError`. The tightest conversion of a whole claim is its own privacy profile
(`Claim.profile`, `Claim.approximate`); for zCDP and Renyi DP it gives smaller values than the closed forms here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri_exp

from epsaudit.array_types import Floats
from epsaudit.errors import AuditError, finite_at_least, fraction


def pure_to_renyi(epsilon: float, order: float) -> float:
    """Return the smallest bound on the Renyi divergence of the given order, in nats, that epsilon-DP implies.

    Randomised response attains it. Source: differentialprivacy.org, 'Tight RDP & zCDP bounds from pure DP', Theorem 4.

    >>> round(pure_to_renyi(1.0, 2.0), 6)
    0.735326
    """
    epsilon, order = finite_at_least(epsilon, 0.0, "epsilon"), renyi_order(order)
    losses = np.array([epsilon, -epsilon])
    return float(renyi_of_losses(order, losses, -np.logaddexp(0.0, losses)))


def pure_to_zcdp(epsilon: float) -> float:
    """Return the smallest rho such that every epsilon-DP mechanism is rho-zCDP: epsilon tanh(epsilon / 2).

    The value is attained in the limit of order 1. Source: differentialprivacy.org, 'Tight RDP & zCDP bounds from pure
    DP', Theorem 5.

    >>> round(pure_to_zcdp(1.0), 6)
    0.462117
    """
    epsilon = finite_at_least(epsilon, 0.0, "epsilon")
    return epsilon * math.tanh(epsilon / 2.0)


def pure_to_gaussian(epsilon: float) -> float:
    """Return the smallest mu such that every epsilon-DP mechanism is mu-Gaussian DP.

    It is 2 Phi^-1(e^epsilon / (1 + e^epsilon)). Gaussian trade-off curves are convex, so mu follows from the kink of
    the trade-off curve of epsilon-DP (Dong, Roth and Su 2022, Section 2).

    >>> round(pure_to_gaussian(1.0), 6)
    1.232035
    """
    return float(-2.0 * ndtri_exp(-np.logaddexp(0.0, finite_at_least(epsilon, 0.0, "epsilon"))))


def approximate_to_delta(claimed: float, delta: float, epsilon: float) -> float:
    """Return the smallest delta' such that (claimed, delta)-DP implies (epsilon, delta')-DP.

    It is the largest value of 1 - f(a) - e^epsilon a over a in [0, 1], where f is the trade-off curve of (claimed,
    delta)-DP. With delta = 0, randomised response attains it. Source: Kairouz, Oh and Viswanath (2015), Theorem 3.4.

    >>> round(approximate_to_delta(1.0, 0.0, 0.0), 6), approximate_to_delta(1.0, 1e-5, 1.0)
    (0.462117, 1e-05)
    """
    if epsilon >= claimed:
        return delta
    return -math.expm1(math.log1p(-delta) + float(np.logaddexp(0.0, epsilon) - np.logaddexp(0.0, claimed)))


def renyi_to_epsilon(order: float, divergence: float, delta: float) -> float:
    """Return an epsilon such that (order, divergence)-Renyi DP implies (epsilon, delta)-DP.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12.

    >>> round(renyi_to_epsilon(32.0, 0.5, 1e-5), 6)
    0.727838
    """
    order, divergence = renyi_order(order), finite_at_least(divergence, 0.0, "divergence")
    delta = fraction(delta, "delta", open_below=True)
    return max(divergence + math.log1p(-1.0 / order) - math.log(delta * order) / (order - 1.0), 0.0)


def gaussian_to_delta(mu: ArrayLike, epsilon: ArrayLike) -> Floats:
    """Return the delta at ``epsilon`` of mu-Gaussian DP: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    Arguments are broadcast; mu must be positive. The formula is computed in logarithms. Sources: Dong, Roth and Su
    (2022), Corollary 2.13; Balle and Wang (2018), Theorem 8.

    >>> f"{float(gaussian_to_delta(1 / 3.7306316, 1.0)):.3g}"
    '1e-05'
    """
    mu, epsilon = np.asarray(mu, float), np.asarray(epsilon, float)
    log_likely = log_ndtr(mu / 2 - epsilon / mu)
    log_rare = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return np.asarray(np.exp(log_likely) * -np.expm1(np.minimum(log_rare - log_likely, 0.0)))


def approximate_to_gaussian(epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """Return the largest mu, rounded down, such that mu-Gaussian DP implies (epsilon, delta)-DP.

    Arguments are broadcast.

    >>> round(float(approximate_to_gaussian(1.0, 1e-5)), 6)
    0.268051
    """
    epsilon, delta = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(delta, float))
    ends = np.full(epsilon.shape, -40.0), np.full(epsilon.shape, 12.0)
    low, _ = bisected(lambda log_mu: gaussian_to_delta(np.exp(log_mu), epsilon) < delta, *ends, 60)
    return np.where(delta <= 0.0, 0.0, np.exp(low))


def gaussian_accuracy(shares: Floats, mu: float) -> Floats:
    """Return the accuracy of guesses that attribute the most extreme outputs to N(mu/2, 1) or to N(-mu/2, 1).

    An output above a threshold is guessed to be from N(mu/2, 1). An element of ``shares`` determines the threshold: it
    is the sum of the probabilities, under both laws, that an output is above it, so it is between 0 and 2. By symmetry,
    the accuracy is the same for guesses about outputs below the negative threshold. Both laws are equally likely.
    """
    low, high = np.where(np.asarray(shares) > 1.0, -40.0, -1.0), np.full(len(shares), 40.0 + mu)
    _, high = bisected(lambda x: ndtr(mu / 2.0 - x) + ndtr(-mu / 2.0 - x) > shares, low, high, 60)
    right, wrong = ndtr(mu / 2.0 - high), ndtr(-mu / 2.0 - high)
    return np.asarray(right / np.maximum(right + wrong, 1e-300))


def bernoulli_renyi(order: ArrayLike, p: ArrayLike, q: ArrayLike) -> Floats:
    """Return the Renyi divergence D_order(Bernoulli(p) || Bernoulli(q)) in nats, for an order of at least 1.

    Arguments are broadcast.

    >>> round(float(bernoulli_renyi(2.0, 0.5, 0.25)), 6)
    0.287682
    """
    p, q = np.broadcast_arrays(np.asarray(p, float), np.asarray(q, float))
    a, b = np.stack([p, 1.0 - p], axis=-1), np.stack([q, 1.0 - q], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rise = (a - b) / b
        losses = np.where(np.abs(rise) < 0.5, np.log1p(rise), np.log(a) - np.log(b))
        return renyi_of_losses(order, np.where(a == b, 0.0, losses), np.log(b))


def renyi_of_losses(order: ArrayLike, losses: ArrayLike, log_chances: ArrayLike) -> Floats:
    """Return the Renyi divergence, of an order of at least 1, between two laws with finitely many outcomes.

    ``losses`` and ``log_chances`` have shape (..., outcomes). They are the log-likelihood ratio of each outcome and the
    logarithm of its probability under the second law. ``order`` broadcasts against the other axes.
    """
    order, losses = np.asarray(order, float), np.asarray(losses, float)
    with np.errstate(invalid="ignore"):
        terms = np.asarray(log_chances) + log_excess(order[..., None], losses)
    terms = np.where(np.isposinf(losses), np.inf, terms)
    return renyi_of_excess(order, np.logaddexp.reduce(terms, axis=-1))


def renyi_of_excess(order: ArrayLike, log_mean: ArrayLike) -> Floats:
    """Return the Renyi divergence of two laws from the mean of the quantity that `log_excess` computes.

    ``log_mean`` is the logarithm of the mean of (r^a - 1 - a (r - 1)) / (a - 1) under the second law, where r is the
    likelihood ratio and a >= 1 is the ``order``.
    """
    order, log_mean = np.asarray(order, float), np.asarray(log_mean, float)
    below = order - 1.0
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_scaled = np.log(below) + log_mean
        general = np.where(log_scaled < 30.0, np.log1p(np.exp(np.minimum(log_scaled, 30.0))), log_scaled) / below
        return np.asarray(np.where(below == 0.0, np.exp(log_mean), general))


def log_excess(order: Floats, losses: Floats) -> Floats:
    """Return the logarithm of (r^a - 1 - a (r - 1)) / (a - 1), for the likelihood ratio r = exp(loss) and order a >= 1.

    The mean of this quantity determines the Renyi divergence; see `renyi_of_excess`. The quantity equals
    r (f((a - 1) loss) / (a - 1) + f(-loss)) with f(t) = e^t - 1 - t. Both terms are nonnegative, so nothing cancels.
    Arguments are broadcast.
    """
    below, losses = order - 1.0, np.maximum(losses, -800.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.where(below > 0.0, _log_beyond_linear(below * losses) - np.log(below), -np.inf)
    return np.asarray(losses + np.logaddexp(grown, _log_beyond_linear(-losses)))


def _log_beyond_linear(t: Floats) -> Floats:
    """Return the logarithm of e^t - 1 - t, accurately also for t near 0."""
    small = np.clip(t, -0.1, 0.1)
    series = 1.0 + small / 11.0
    for n in range(10, 2, -1):
        series = 1.0 + small / n * series
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        near = 2.0 * np.log(np.abs(t)) + np.log(series / 2.0)
        far = np.where(t > 30.0, t + np.log1p(-(1.0 + t) * np.exp(-t)), np.log(np.expm1(np.minimum(t, 31.0)) - t))
    return np.where(np.abs(t) < 0.1, near, far)


def renyi_order(order: float, what: str = "Renyi order") -> float:
    """Return the order as a float; raise `AuditError`, which names ``what``, unless it is finite and above 1."""
    order = finite_at_least(order, 1.0, what)
    if order == 1.0:
        raise AuditError(f"{what} is 1; a Renyi order must be above 1.")
    return order


def bisected(
    below: Callable[[Floats], NDArray[np.bool_]], low: Floats, high: Floats, steps: int
) -> tuple[Floats, Floats]:
    """Bisect many intervals at once, to find in each of them the point up to which a condition is true.

    ``below`` takes an array with one point per interval, and returns whether the condition is true at each point. Every
    interval is halved ``steps`` times. Return the lower and the upper ends of the final intervals.
    """
    for _ in range(steps):
        middle = (low + high) / 2.0
        holds = below(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low, high


def root(
    function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12, rtol: float = 2.0**-50
) -> float:
    """Return a root of a function of one number between ``low`` and ``high``, by the method of `roots`.

    Raises `ValueError` if the function has the same sign at both ends.
    """
    at_low, at_high = float(function(low)), float(function(high))
    if at_low == 0.0 or at_high == 0.0:
        return float(low if at_low == 0.0 else high)
    if (at_low > 0.0) == (at_high > 0.0):
        raise ValueError(f"The function has one sign at {low!r} and {high!r}.")
    return float(roots(lambda x: np.asarray(function(float(x))), low, high, xtol=xtol, rtol=rtol))


def roots(
    function: Callable[[Floats], Floats],
    low: ArrayLike,
    high: ArrayLike,
    *,
    xtol: float = 2e-12,
    rtol: float = 2.0**-50,
) -> Floats:
    """Return a root of a function in each of many brackets, to within ``xtol`` + ``rtol`` |root|.

    ``function`` takes and returns arrays of the shape of ``low`` and ``high``. The result is meaningless for a bracket
    in which the sign does not change. The method is Chandrupatla's (Advances in Engineering Software 28, 1997). It is
    written here because importing scipy.optimize takes longer than a whole audit of a mechanism.

    >>> roots(lambda x: x * x - [2.0, 9.0], [0.0, 0.0], [2.0, 4.0]).round(12).tolist()
    [1.414213562373, 3.0]
    """
    with np.errstate(all="ignore"):
        new, old = np.asarray(low, float), np.asarray(high, float)
        at_new, at_old = (np.asarray(function(end), float) for end in (new, old))
        share: Floats = np.full(np.shape(at_new), 0.5)
        best = np.where(np.abs(at_new) < np.abs(at_old), new, old)
        for _ in range(100):
            point = new + share * (old - new)
            at_point = np.asarray(function(point), float)
            same = (at_point >= 0.0) == (at_new >= 0.0)
            before, at_before = np.where(same, new, old), np.where(same, at_new, at_old)
            old, at_old = np.where(same, old, new), np.where(same, at_old, at_new)
            new, at_new = point, at_point
            best = np.where(np.abs(at_new) < np.abs(at_old), new, old)
            least = np.minimum((xtol + rtol * np.abs(best)) / 2.0 / np.abs(old - new), 0.5)
            if np.all((least == 0.5) | (at_new == 0.0)):
                break
            place, rise = (new - old) / (before - old), (at_new - at_old) / (at_before - at_old)
            inverse = at_new / (at_old - at_new) * at_before / (at_old - at_before) + (before - new) / (
                old - new
            ) * at_new / (at_before - at_new) * at_old / (at_before - at_old)
            safe = (rise**2 < place) & ((1.0 - rise) ** 2 < 1.0 - place)
            share = np.clip(np.where(safe, inverse, 0.5), least, 1.0 - least)
        return np.asarray(best)
