"""Renyi divergences of a pair of known laws, of any order from 1 (the relative entropy) up.

Each function computes D_order of a `LossPair` from integrands that are nowhere negative, so that small divergences keep
their digits. All functions look in one direction, from the first law to the second.
"""

from __future__ import annotations

import numpy as np

from epsaudit.exact.losses import LossPair, difference
from epsaudit.exact.quadrature import Floats, log_integral, log_sum


def renyi_divergences(pair: LossPair, orders: Floats) -> Floats:
    """Renyi divergences of all the given orders >= 1, shape (orders,); inf where an integral diverges.

    With r the likelihood ratio and a the order, D_a = log(1 + (a - 1) I) / (a - 1) where I is the mean under the
    second law of (r^a - 1 - a (r - 1)) / (a - 1), which is never negative and tends to r log r - r + 1 as a -> 1.
    """
    if pair.parts:  # of independent parts they add up
        return np.asarray(sum(count * renyi_divergences(part, orders) for part, count in pair.parts))
    if pair.separates:
        return np.full(orders.shape, np.inf)
    log_means = log_sum(pair.atoms[1] + log_excess(orders[:, None], pair.losses), axis=1)
    densities = pair.densities
    if densities is not None:

        def integrands(points: Floats) -> Floats:
            log_p, log_q = densities(points)
            losses = difference(log_p, log_q)
            with np.errstate(invalid="ignore"):
                values = log_q + log_excess(orders[:, None], np.where(np.isnan(losses), 0.0, losses))
            return np.asarray(np.where(np.isneginf(log_q), -np.inf, values))

        log_means = np.logaddexp(log_means, log_integral(integrands, pair.knots, pair.scale))
    below = orders - 1.0
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_scaled = np.log(below) + log_means
        general = np.where(log_scaled < 30.0, np.log1p(np.exp(np.minimum(log_scaled, 30.0))), log_scaled) / below
        return np.asarray(np.where(below == 0.0, np.exp(log_means), general))


def log_excess(order: Floats, losses: Floats) -> Floats:
    """Logarithm of (r^a - 1 - a (r - 1)) / (a - 1) for r = exp(loss) and order a >= 1, broadcast.

    Examples
    --------
    >>> log_excess(np.array([1.0, 2.0]), np.log(np.array([3.0, 3.0]))).round(6).tolist()
    [0.259157, 1.386294]
    """
    a, x = np.broadcast_arrays(order, np.maximum(losses, -800.0))
    result = np.empty(a.shape)
    small, large = np.abs(x) * a < 1e-2, x * a > 1.0
    middle = ~(small | large)
    result[small] = _log_series(a[small], x[small])
    result[large] = _log_excess_of_large(a[large], x[large])
    result[middle] = _log_excess_of_middling(a[middle], x[middle])
    return result


def _log_excess_of_large(order: Floats, losses: Floats) -> Floats:
    """In logarithms throughout, since r^a may overflow."""
    below = order - 1.0
    growth = below * losses
    with np.errstate(divide="ignore", invalid="ignore"):
        log_slope = np.where(below == 0.0, np.log(losses), growth + np.log(-np.expm1(-growth)) - np.log(below))
    log_linear = losses + np.log(-np.expm1(-losses))
    return np.asarray(losses + log_slope + np.log1p(-np.exp(log_linear - losses - log_slope)))


def _log_excess_of_middling(order: Floats, losses: Floats) -> Floats:
    below = order - 1.0
    at_one = below == 0.0
    slope = np.where(at_one, losses, np.expm1(below * losses) / np.where(at_one, 1.0, below))
    return np.asarray(np.log(np.exp(losses) * slope - np.expm1(losses)))


def _log_series(order: Floats, losses: Floats) -> Floats:
    """Logarithm of the sum over n >= 2 of a (1 + a + ... + a^(n-2)) loss^n / n!, for a * loss near 0."""
    total, term, power, factorial = np.zeros(losses.shape), np.zeros(losses.shape), np.ones(losses.shape), 1.0
    for n in range(2, 9):
        term = term * order * losses + power  # (1 + a + ... + a^(n-2)) loss^(n-2)
        power = power * losses
        factorial *= n
        total = total + order * term / factorial
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) + 2 * np.log(np.abs(losses)))
