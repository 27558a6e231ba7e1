"""The exact privacy profile of two known laws: delta(epsilon), its inverse, and the likelihood-ratio events behind it.

Numbers are exact for finite laws, within 1e-9 by quadrature where there is a density on the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.claims.conversions import log_excess, renyi_of_excess, root
from epsaudit.errors import finite_at_least, fraction
from epsaudit.exact.convolution import LEAST_DELTA
from epsaudit.exact.laws import loss_pair
from epsaudit.exact.losses import Floats, LossPair, NotKnownError, difference, log_integral, log_sum

AGREEMENT = 1e-6
"""How closely, relative to itself, a value that is known between two bounds must be known to count as exact."""

_REACHED = 1e-12  # a delta reached to within this share of itself counts as reached


class PrivacyProfile:
    """How well two known laws can be told apart, computed once and asked often.

    Finite laws have ``support`` and ``log_probabilities``, continuous ones ``log_density(outputs)``, ``knots`` (where
    the density is not smooth, or its centre) and ``scale`` (a length over which it varies); a mixture has both, and
    atoms count as knots. Log-densities must be computed as logarithms: one that underflows to -inf reads as an
    impossible output. `AuditError` if a law is not known, does not sum to one, or is too rough for the quadrature.

    Examples
    --------
    >>> from epsaudit.mechanisms.laws import FiniteLaw
    >>> profile = PrivacyProfile(FiniteLaw([0, 1], np.log([0.75, 0.25])), FiniteLaw([0, 1], np.log([0.25, 0.75])))
    >>> round(profile.delta(0.0), 9), round(profile.epsilon(0.0), 9), round(profile.renyi(2.0), 6)
    (0.5, 1.098612289, 0.847298)
    """

    def __init__(self, law: object, law_prime: object) -> None:
        self.pair = loss_pair(law, law_prime)

    def hockey_stick(self, epsilon: float) -> float:
        """Return the greatest P[E] - e^epsilon P'[E] over events E, with the first law as P; epsilon >= 0."""
        epsilon = finite_at_least(epsilon, 0.0, "epsilon")
        return _settled(self.pair, lambda pair: _hockey_stick(pair, epsilon))

    def delta(self, epsilon: float) -> float:
        """Return the least delta such that the pair, in both directions, respects (epsilon, delta)."""
        epsilon = finite_at_least(epsilon, 0.0, "epsilon")
        return _settled(self.pair, lambda pair: max(_hockey_stick(one, epsilon) for one in pair.directions))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon such that the pair, in both directions, respects (epsilon, delta); inf if none.

        A delta that an event of infinite loss reaches to within a relative 1e-12 counts as enough for it.
        """
        delta = fraction(delta, "delta")
        if delta == 0.0:
            return self.greatest_loss
        if self.pair.lower is not None and delta < LEAST_DELTA:
            raise NotKnownError(f"Epsilon of a composition of densities is known from delta = {LEAST_DELTA:g} on only.")
        return _settled(self.pair, lambda pair: max(least_epsilon(one, delta) for one in pair.directions))

    def events(self, thresholds: ArrayLike) -> tuple[Floats, Floats]:
        """Return (P[loss >= t], P'[loss >= t]) for thresholds t of shape (n,); see `likelihood_ratio_events`."""
        events = self.pair.events(np.asarray(thresholds, float).ravel())
        return np.exp(events.upper), np.exp(events.upper_prime)

    def renyi(self, order: float) -> float:
        """Return the Renyi divergence of this order >= 1 from the first law to the second."""
        order = finite_at_least(order, 1.0, "order")
        return float(renyi_divergences(self.pair, np.array([order]))[0])

    @cached_property
    def greatest_loss(self) -> float:
        """Supremum of the absolute log-likelihood ratio, inf where it is not bounded."""
        return max(map(_greatest_loss, self.pair.directions))


def delta(law: object, law_prime: object, epsilon: float) -> float:
    """Exact delta of a pair of known laws: see `PrivacyProfile`, and its method of this name."""
    return PrivacyProfile(law, law_prime).delta(epsilon)


def epsilon(law: object, law_prime: object, delta: float) -> float:
    """Exact epsilon of a pair of known laws at a delta in [0, 1): see `PrivacyProfile.epsilon`."""
    return PrivacyProfile(law, law_prime).epsilon(delta)


def renyi(law: object, law_prime: object, order: float) -> float:
    """Renyi divergence D_order(law || law_prime) in nats, order >= 1; order 1 is the relative entropy."""
    return PrivacyProfile(law, law_prime).renyi(order)


def likelihood_ratio_events(law: object, law_prime: object, thresholds: ArrayLike) -> tuple[Floats, Floats]:
    """Probabilities under both laws of the Neyman-Pearson events {log-likelihood ratio >= t}.

    The vertices of the trade-off curve of the pair (Neyman and Pearson 1933). Thresholds of shape (n,) are in nats,
    infinities allowed; a loss within a relative 1e-12 of one reaches it.

    Examples
    --------
    >>> from epsaudit.mechanisms.laws import FiniteLaw
    >>> p, p_prime = likelihood_ratio_events(
    ...     FiniteLaw("ab", np.log([0.75, 0.25])), FiniteLaw("ab", np.log([0.25, 0.75])), [0.0, np.log(3.0)])
    >>> p.round(6).tolist(), p_prime.round(6).tolist()
    ([0.75, 0.75], [0.25, 0.25])
    """
    return PrivacyProfile(law, law_prime).events(thresholds)


def renyi_divergences(pair: LossPair, orders: Floats) -> Floats:
    """Renyi divergences of all the given orders >= 1, shape (orders,); inf where an integral diverges."""
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
    return renyi_of_excess(orders, log_means)


def keeps_growing(values: Floats, noise: float = 0.0) -> bool:
    """Whether a quantity seen at successive doublings of its argument grows without bound, as far as it can be seen.

    Not if its last increments are lost in the noise or shrink by a tenth and more, as those of a power do that tends
    to its limit.

    Examples
    --------
    >>> doublings = 2.0 ** np.arange(20)
    >>> keeps_growing(np.log(doublings)), keeps_growing(1 - 1 / doublings)
    (True, False)
    """
    if values.size < 5 or not np.all(np.isfinite(values)):
        return False
    steps = np.diff(values)[-3:]
    if abs(steps[-1]) <= 1e-9 * max(1.0, abs(values[-1])) + noise:
        return False
    return bool(np.all(steps > 0.0) and steps[-1] > 0.81 * steps[0])


def _settled(pair: LossPair, value: Callable[[LossPair], float]) -> float:
    """Value of a pair that may be known between two others only: the greater one, if they agree to `AGREEMENT`."""
    greatest = value(pair)
    if pair.lower is not None and not abs(greatest - (least := value(pair.lower))) <= AGREEMENT * max(greatest, 1e-9):
        raise NotKnownError(
            f"The exact value lies between {least:.9g} and {greatest:.9g}; it is not known more closely."
        )
    return greatest


def _greatest_loss(pair: LossPair) -> float:
    """Supremum of the log-likelihood ratio in one direction."""
    if pair.parts:
        return sum(count * _greatest_loss(part) for part, count in pair.parts)
    greatest = float(pair.losses.max(initial=0.0))
    if pair.densities is None:
        return greatest
    seen = np.nanmax(pair.panel_losses - _noise(pair.panels.values), initial=0.0)
    return max(greatest, float(seen), _loss_in_the_limits(pair))


def _hockey_stick(pair: LossPair, epsilon: float) -> float:
    values, losses = pair.above(epsilon)
    with np.errstate(under="ignore"):
        return float(np.sum(np.exp(values[0]) * -np.expm1(np.minimum(epsilon - losses, 0.0)), where=~np.isnan(losses)))


def least_epsilon(pair: LossPair, delta: float) -> float:
    """Least epsilon that a pair respects with this delta > 0, in one direction; inf if none."""
    enough = delta * (1.0 + _REACHED)

    def excess(epsilon: float) -> float:
        return math.log(max(_hockey_stick(pair, epsilon), 1e-320)) - math.log(enough)

    if excess(0.0) <= 0.0:
        return 0.0
    if float(np.exp(pair.events(np.array([np.inf])).upper[0])) > enough:
        return math.inf
    if pair.panels.size == 0:
        return _least_epsilon_of_atoms(pair, enough)
    high = 1.0
    while excess(high) > 0.0:
        high *= 2.0
        if high > 1e15:
            return math.inf
    return root(excess, 0.0 if high == 1.0 else high / 2, high, xtol=1e-12, rtol=1e-13)


def _least_epsilon_of_atoms(pair: LossPair, delta: float) -> float:
    """delta(e) is the greatest P_k - e^e P'_k over the events of the k largest losses, so this inverts each."""
    log_p, log_q = (pair.atoms[law] for law in (0, 1))
    p, q = (np.cumsum(np.exp(chances), dtype=np.longdouble) for chances in (log_p, log_q))
    useful = (p > delta) & (q > 0.0)
    return float(np.max(np.log((p[useful] - delta).astype(float)) - np.log(q[useful].astype(float)), initial=0.0))


def _loss_in_the_limits(pair: LossPair) -> float:
    """Greatest loss approaching a knot or going out into the tails; inf where it keeps growing."""
    assert pair.densities is not None
    knots = np.array(pair.knots)
    close = pair.scale * 2.0 ** -np.arange(0.0, 24.0)
    far = pair.scale * 2.0 ** np.arange(0.0, 21.0)
    sequences = [knots[:, None] + close, knots[:, None] - close, knots[-1:, None] + far, knots[:1, None] - far]
    greatest = 0.0
    for points in sequences:
        values = pair.densities(points.ravel()).reshape(2, *points.shape)
        losses, noise = difference(values[0], values[1]), _noise(values)
        rising = np.maximum(losses, 0.0)  # what climbs from -1 towards 0 is no growing loss
        if any(keeps_growing(row, doubt[-1]) for row, doubt in zip(rising, noise, strict=True)):
            return math.inf
        greatest = max(greatest, float(np.nanmax(losses - noise, initial=0.0)))
    return greatest


def _noise(values: Floats) -> Floats:
    """What rounding may have added to the loss between log-densities of shape (2, ...)."""
    return np.asarray(2 * np.finfo(float).eps * np.where(np.isfinite(values), np.abs(values), 0.0).max(axis=0))
