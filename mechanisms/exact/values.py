"""The exact privacy profile of two known laws: delta(epsilon), its inverse, and the likelihood-ratio events behind it.

The module also computes the least parameter of a claim that the pair allows, and finds the candidate pair on which this
parameter is greatest. A claim itself knows binary events only (`Claim.least`); the module adds what follows from the
whole law. Numbers are exact for finite laws, and within 1e-9, by quadrature, where there is a density on the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri_exp

from epsaudit.array_types import Floats
from epsaudit.claims.conversions import log_excess, renyi_of_excess, root
from epsaudit.claims.definitions import ZCDP, ApproxDP, ApproxZCDP, Claim, GaussianDP, PureDP, RenyiDP, TradeOff
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, finite_at_least, fraction
from epsaudit.mechanisms.exact.convolution import LEAST_DELTA
from epsaudit.mechanisms.exact.laws import knows_law, loss_pair
from epsaudit.mechanisms.exact.losses import (
    DOUBLINGS,
    LossPair,
    NotKnownError,
    difference,
    log_integral,
    log_sum,
    merge_equal,
)
from epsaudit.running.protocols import Mechanism

AGREEMENT = 1e-6
"""Greatest relative difference of two bounds on a value between which the value counts as exact."""

SAME = 1e-9
"""Relative difference up to which exact parameters count as equal; quadrature is not more accurate."""

_LARGEST_ORDER = 2.0**12  # for unbounded losses; double precision does not suffice beyond it
_RAREST = 690.0  # -log of 1e-300: events rarer than that are not computed
_LOST = 1e-9  # probability of outcomes that one law may have lost to rounding; totals are checked to this accuracy
_RARE_ENOUGH = 1e12  # -log of the least density that is used; beyond it a difference of quantiles loses digits
_REACHED = 1e-12  # a delta reached to within this share of itself counts as reached


class PrivacyProfile:
    """How well two known laws can be told apart; common quantities are computed once and kept.

    Finite laws have ``support`` and ``log_probabilities``, continuous ones ``log_density(outputs)``, ``knots``
    (where the density is not smooth, or its centre) and ``scale`` (a length over which it varies); a mixture has
    both, and its atoms count as knots. Log-densities must be computed as logarithms, because a density that
    underflows to -inf counts as an impossible output. Raises `AuditError` if a law is not known, does not sum to
    one, or is too rough for the quadrature.

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

        Delta counts as sufficient if it equals the probability of an event of infinite loss to within a relative 1e-12.
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
        """Supremum of the absolute log-likelihood ratio; inf if the ratio is not bounded."""
        return max(map(_greatest_loss, self.pair.directions))


def delta(law: object, law_prime: object, epsilon: float) -> float:
    """Return the exact delta of a pair of known laws; see `PrivacyProfile.delta`."""
    return PrivacyProfile(law, law_prime).delta(epsilon)


def epsilon(law: object, law_prime: object, delta: float) -> float:
    """Return the exact epsilon of a pair of known laws at a delta in [0, 1); see `PrivacyProfile.epsilon`."""
    return PrivacyProfile(law, law_prime).epsilon(delta)


def renyi(law: object, law_prime: object, order: float) -> float:
    """Return the Renyi divergence D_order(law || law_prime) in nats, order >= 1; order 1 is the relative entropy."""
    return PrivacyProfile(law, law_prime).renyi(order)


def likelihood_ratio_events(law: object, law_prime: object, thresholds: ArrayLike) -> tuple[Floats, Floats]:
    """Return probabilities under both laws of the Neyman-Pearson events {log-likelihood ratio >= t}.

    These are the vertices of the trade-off curve of the pair (Neyman and Pearson 1933). Thresholds of shape (n,) are in
    nats and may be infinite. A loss within a relative 1e-12 of a threshold reaches the threshold.

    >>> from epsaudit.mechanisms.laws import FiniteLaw
    >>> p, p_prime = likelihood_ratio_events(
    ...     FiniteLaw("ab", np.log([0.75, 0.25])), FiniteLaw("ab", np.log([0.25, 0.75])), [0.0, np.log(3.0)])
    >>> p.round(6).tolist(), p_prime.round(6).tolist()
    ([0.75, 0.75], [0.25, 0.25])
    """
    return PrivacyProfile(law, law_prime).events(thresholds)


def exact_parameter(claim: Claim, law: object, law_prime: object) -> float:
    """Return the least parameter of a claim's family that a pair of known laws allows, in both directions; inf if none.

    The claim gives the family, and the delta or the order that belongs to it; the claim's own parameter does not
    matter. Laws and errors are as for `PrivacyProfile`. In two cases a `NotKnownError` is raised: if, for a claim other
    than approximate DP, the value depends on outcomes of a probability below 1e-9 that only one law allows; and if, for
    Gaussian DP, it may depend on events less likely than 1e-300. See docs/explanation/theory.md#exact-values.

    >>> from epsaudit.mechanisms.laws import FiniteLaw
    >>> law, law_prime = FiniteLaw("ab", np.log([0.75, 0.25])), FiniteLaw("ab", np.log([0.25, 0.75]))
    >>> round(exact_parameter(PureDP(1.0), law, law_prime), 6), round(exact_parameter(ZCDP(1.0), law, law_prime), 6)
    (1.098612, 0.549306)
    """
    profile = PrivacyProfile(law, law_prime)
    if not isinstance(claim, ApproxDP):
        _refuse_rounding_errors(profile.pair)
    match claim:
        case PureDP():
            return profile.greatest_loss
        case ApproxDP():
            return profile.epsilon(claim.delta)
        case RenyiDP():
            return max(float(renyi_divergences(pair, np.array([claim.order]))[0]) for pair in profile.pair.directions)
        case ZCDP():
            return max(_concentration(pair, profile.greatest_loss) for pair in profile.pair.directions)
        case GaussianDP():
            return _least_mu(profile.pair, profile.greatest_loss)
        case ApproxZCDP():
            return _concentration_but_for(profile, claim.delta)
        case TradeOff():
            return max(_least_advantage(profile, *point) for point in claim.points)
    raise AuditError(
        f"Nothing exact is known about {type(claim).__name__}; the claim families are those of "
        "epsaudit.claims.definitions."
    )


def most_influential(
    mechanism: Mechanism, candidates: Iterable[DatasetPair], claim: Claim | None = None
) -> DatasetPair:
    """Return the candidate pair on which the exact parameter of the claim, by default the mechanism's own, is greatest.

    Candidates, at least one, are taken one at a time; of equal ones, to nine digits, the first wins. Datasets that
    successive pairs share are prepared once, and a pair whose two laws were seen before is not computed again.

    Raises
    ------
    AuditError
        If there are no candidates, the best is not adjacent under the mechanism's relation, or a law is not known, in a
        form that `knows_law` accepts.

    >>> from epsaudit.data.neighbours import leave_one_out
    >>> from epsaudit.mechanisms.down_sensitivity import ShiftedInverseSensitivity
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = ShiftedInverseSensitivity(Maximum((0, 1, 2, 3)), epsilon=1.0)
    >>> print(most_influential(mechanism, leave_one_out((0,) * 20 + (1,) * 9 + (3,))))
    30 records against all but one with 3
    """
    claim = mechanism.claim if claim is None else claim
    best: DatasetPair | None = None
    greatest = -math.inf
    seen: set[Hashable] = set()
    latest: dict[str, tuple[Any, Any]] = {}
    for pair in candidates:
        laws = tuple(_law(mechanism, pair, side, latest) for side in ("x", "x_prime"))
        identity = tuple(map(_identity, laws))
        if identity in seen:
            continue
        seen.add(identity)
        value = exact_parameter(claim, *laws)
        if value > greatest + SAME * abs(greatest) or best is None:
            best, greatest = pair, value
    if best is None:
        raise AuditError(f"There are no candidate pairs for {mechanism.name}; give at least one DatasetPair.")
    if mechanism.adjacency is not None:
        mechanism.adjacency.check(best)
    return best


def renyi_divergences(pair: LossPair, orders: Floats) -> Floats:
    """Return the Renyi divergences of all the given orders >= 1, shape (orders,); inf where an integral diverges."""
    if pair.parts:  # divergences of independent parts add up
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
    """Return whether a quantity at successive doublings of its argument seems to grow without bound.

    It does not if its last increments are smaller than the noise, or shrink by a tenth and more, as the increments of a
    power law that tends to its limit do.
    """
    if values.size < 5 or not np.all(np.isfinite(values)):
        return False
    steps = np.diff(values)[-3:]
    if abs(steps[-1]) <= 1e-9 * max(1.0, abs(values[-1])) + noise:
        return False
    return bool(np.all(steps > 0.0) and steps[-1] > 0.81 * steps[0])


def _settled(pair: LossPair, value: Callable[[LossPair], float]) -> float:
    """Return the value of a pair; if only two bounds are known, return the greater one if they agree to `AGREEMENT`."""
    greatest = value(pair)
    if pair.lower is not None and not abs(greatest - (least := value(pair.lower))) <= AGREEMENT * max(greatest, 1e-9):
        raise NotKnownError(
            f"The exact value lies between {least:.9g} and {greatest:.9g}; it is not known more closely."
        )
    return greatest


def _greatest_loss(pair: LossPair) -> float:
    """Return the supremum of the log-likelihood ratio in one direction."""
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
    """Return the least epsilon that a pair respects with this delta > 0, in one direction; inf if none."""
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
    """Return the greatest solution e of P_k - e^e P'_k = delta over the events of the k largest losses.

    delta(e) is the maximum of P_k - e^e P'_k over k.
    """
    log_p, log_q = (pair.atoms[law] for law in (0, 1))
    p, q = (np.cumsum(np.exp(chances), dtype=np.longdouble) for chances in (log_p, log_q))
    useful = (p > delta) & (q > 0.0)
    return float(np.max(np.log((p[useful] - delta).astype(float)) - np.log(q[useful].astype(float)), initial=0.0))


def _loss_in_the_limits(pair: LossPair) -> float:
    """Return the greatest loss in the limit towards a knot or into the tails; inf where the loss keeps growing."""
    assert pair.densities is not None
    knots = np.array(pair.knots)
    close = pair.scale * 2.0 ** -np.arange(0.0, 24.0)
    far = pair.scale * 2.0 ** np.arange(0.0, 21.0)
    sequences = [knots[:, None] + close, knots[:, None] - close, knots[-1:, None] + far, knots[:1, None] - far]
    greatest = 0.0
    for points in sequences:
        values = pair.densities(points.ravel()).reshape(2, *points.shape)
        losses, noise = difference(values[0], values[1]), _noise(values)
        rising = np.maximum(losses, 0.0)  # a loss that climbs from -1 towards 0 does not count as growing
        if any(keeps_growing(row, doubt[-1]) for row, doubt in zip(rising, noise, strict=True)):
            return math.inf
        greatest = max(greatest, float(np.nanmax(losses - noise, initial=0.0)))
    return greatest


def _noise(values: Floats) -> Floats:
    """Return the largest rounding error of the loss between log-densities of shape (2, ...)."""
    return np.asarray(2 * np.finfo(float).eps * np.where(np.isfinite(values), np.abs(values), 0.0).max(axis=0))


def _refuse_rounding_errors(pair: LossPair) -> None:
    """Raise `NotKnownError` if only very rare outcomes separate the two laws with certainty.

    Where probabilities are differences of a distribution function, those below 2^-53 come out as 0; under the other law
    they may be e^loss times as likely.
    """
    surest = max(float(log_sum(one.atoms[0][one.losses == np.inf])) for one in pair.directions)
    if -math.inf < surest < math.log(_LOST):
        raise NotKnownError(
            f"Only outcomes of probability {math.exp(surest):.1g} in all are impossible under one law and not under "
            "the other, which may be rounding; compute log_probabilities as logarithms, also where they are small."
        )


def _least_mu(pair: LossPair, greatest_loss: float) -> float:
    """Return the supremum, over the events {loss >= t}, of the mu that each event needs.

    These events are the vertices of the pair's trade-off region.
    """
    if greatest_loss == 0.0:
        return 0.0
    if pair.lower is not None:
        raise NotKnownError(
            "The least mu of a composition of densities rests on its rarest events, which no grid resolves."
        )
    if pair.separates or pair.swapped.separates:
        return math.inf
    thresholds = _candidate_thresholds(pair)
    values, log_chances = _separation(pair, thresholds)
    best = int(np.argmax(values))
    if pair.densities is None:
        return float(values[best])
    rarer = _needed_by_rarer_events(pair, greatest_loss)
    if math.isinf(greatest_loss):
        if any(_grows_in_the_tail(values, log_chance) for log_chance in log_chances):
            return math.inf
        if any(_rises_in_the_tail(values, log_chance) for log_chance in log_chances):
            rarer = math.inf
    found = values[best]
    if not math.isfinite(found):
        return float(found)
    for _ in range(3):
        thresholds = np.linspace(thresholds[max(best - 1, 0)], thresholds[min(best + 1, thresholds.size - 1)], 17)
        values, _ = _separation(pair, thresholds)
        best = int(np.argmax(values))
        found = max(found, values[best])
    if found < rarer:
        raise NotKnownError(
            f"The least mu is {found:.9g} or more: it rests on events less likely than 1e-300, which are not computed."
        )
    return float(found)


def _concentration(pair: LossPair, greatest_loss: float) -> float:
    """Return the supremum over orders a >= 1 of D_a / a, in one direction."""

    def ratio(log_below: Floats) -> Floats:
        orders = 1.0 + np.exp(log_below)
        return renyi_divergences(pair, orders) / orders

    at_one = float(renyi_divergences(pair, np.ones(1))[0])
    if at_one == 0.0 or math.isinf(at_one):
        return at_one
    # D_a <= greatest loss, so larger orders cannot beat the ratio at order 1
    bounded = math.isfinite(greatest_loss)
    top = max(greatest_loss / at_one, 2.0) if bounded else _LARGEST_ORDER
    if math.isinf(ratio(np.log([top]))[0]):  # divergences grow with the order
        return math.inf
    # a - 1 matters on the scale of 1 / loss: below it the ratio is nearly straight and a coarse grid brackets its peak
    bend = 0.1 / max(greatest_loss, 1.0) if bounded else 0.1
    grid = np.log(
        np.concatenate([bend * np.geomspace(1e-4, 0.1, 6), np.geomspace(bend, top, 2 + int(2 * math.log(top / bend)))])
    )
    values = ratio(grid)
    best = int(np.argmax(values))
    if not values[best] > at_one * (1 + 1e-10):
        return at_one
    if best == grid.size - 1 and not bounded:
        return _limit_in_the_order(pair)
    from scipy.optimize import minimize_scalar  # slow to import

    around = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    found = minimize_scalar(
        lambda x: -float(ratio(np.array([x]))[0]), bounds=around, method="bounded", options={"xatol": 1e-5}
    )
    return max(float(values[best]), -float(found.fun))


def _concentration_but_for(profile: PrivacyProfile, delta: float) -> float:
    """Return the least rho of the rest of two laws after the best choice of a part of weight delta is removed.

    The rest is (min(P, e^s P'), min(P', e^t P)) / (1 - delta), with s and t such that both are
    laws: docs/explanation/theory.md#approximate-zcdp-and-any-trade-off-curve.
    """
    pair = profile.pair
    if delta == 0.0:
        return max(_concentration(one, profile.greatest_loss) for one in pair.directions)
    if profile.delta(0.0) <= delta:
        return 0.0
    if pair.parts or pair.lower is not None:
        raise NotKnownError("The rest of a composition of densities is not known.")
    caps = [least_epsilon(one, delta) for one in pair.directions]
    if math.inf in caps:
        return math.inf

    def rest(values: Floats) -> Floats:
        log_p, log_q = values
        return np.stack([np.minimum(log_p, log_q + caps[0]), np.minimum(log_q, log_p + caps[1])]) - math.log1p(-delta)

    atoms, densities = rest(pair.atoms), pair.densities
    atoms = atoms[:, np.any(np.isfinite(atoms), axis=0)]
    left = LossPair(
        *merge_equal(atoms, difference(atoms[0], atoms[1])),
        densities=None if densities is None else lambda points: rest(densities(points)),
        knots=pair.knots,
        scale=pair.scale,
    )
    return max(_concentration(one, max(caps)) for one in left.directions)


def _log_expm1(loss: float) -> float:
    """Return log(e^loss - 1), also where e^loss exceeds all floats."""
    with np.errstate(divide="ignore"):
        return float(loss + np.log(-np.expm1(-loss)))


def _least_advantage(profile: PrivacyProfile, epsilon: float, delta: float) -> float:
    """Return the least a such that the pair respects (log(1 + a (e^epsilon - 1)), a delta)."""
    if profile.delta(0.0) == 0.0:
        return 0.0
    rise = _log_expm1(epsilon)
    with np.errstate(divide="ignore", over="ignore"):
        most = float(min(np.exp(_log_expm1(profile.greatest_loss) - rise), 2.0 / np.float64(delta)))  # either does

    def excess(log_a: float) -> float:
        return profile.delta(float(np.logaddexp(0.0, log_a + rise))) - math.exp(log_a) * delta

    if delta == 0.0 or excess(math.log(most)) >= 0.0:  # only rounding is left there
        return most
    return math.exp(root(excess, -745.0 - epsilon, math.log(most), xtol=1e-12))  # from where only one side is above 0


def _limit_in_the_order(pair: LossPair) -> float:
    """Return the limit of D_a / a, which D_a / a approaches like 1 / a; inf if it keeps growing."""
    orders = _LARGEST_ORDER / 2.0 ** np.arange(7.0, -1.0, -1.0)
    ratios = renyi_divergences(pair, orders) / orders
    if keeps_growing(ratios):
        return math.inf
    return float(max(ratios[-1], 2 * ratios[-1] - ratios[-2]))


def _separation(pair: LossPair, thresholds: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
    """Return the least mu of the events {loss >= t}, and log-probabilities of the rare sides: P'[>= t] and P[< t]."""
    events = pair.events(thresholds)
    with np.errstate(invalid="ignore"):
        values = _normal_quantile(events.upper, events.lower) - _normal_quantile(events.upper_prime, events.lower_prime)
    return np.where(np.isnan(values), 0.0, np.maximum(values, 0.0)), (events.upper_prime, events.lower)


def _normal_quantile(log_chance: Floats, log_complement: Floats) -> Floats:
    """Return Phi^-1 of a probability that is given with its complement, so that either of them may be tiny."""
    small, large = np.minimum(log_chance, 0.0), np.minimum(log_complement, 0.0)
    return np.where(small <= large, ndtri_exp(small), -ndtri_exp(large))


def _candidate_thresholds(pair: LossPair) -> Floats:
    """Return the losses that may be vertices: every loss of a finite law, and a selection of losses of densities.

    For densities they are the losses near knots and, thinned, those at the points of panels.
    """
    if pair.densities is None:
        return pair.losses
    seen = np.unique(pair.panel_losses[np.isfinite(pair.panel_losses)])
    if seen.size > 256:
        seen = seen[np.linspace(0, seen.size - 1, 256).astype(int)]
    close = pair.scale * 2.0 ** -np.arange(1.0, 35.0)
    knots = np.array(pair.knots)[:, None]
    values = pair.densities(np.concatenate([knots - close, knots + close]).ravel())
    near = difference(values[0], values[1])
    return np.unique(np.concatenate([seen, near[np.isfinite(near)], pair.losses]))


def _needed_by_rarer_events(pair: LossPair, greatest_loss: float) -> float:
    """Return a lower bound on the mu that events less likely than 1e-300 may need.

    The bound is smaller than the computed mu by a relative 1e-6, and by the uncertainty of the computation.
    """
    if math.isfinite(greatest_loss):
        likelier = min(greatest_loss - _RAREST, 0.0)
        return float(ndtri_exp(likelier) - ndtri_exp(-_RAREST)) * (1.0 - 1e-6)
    assert pair.densities is not None
    knots = np.array(pair.knots)
    close, far = pair.scale * 2.0 ** -np.arange(0.0, 34.0), pair.scale * 2.0 ** np.arange(0.0, DOUBLINGS, 0.5)
    points = np.concatenate(
        [knots[-1] + far, knots[0] - far, *(knot + side * close for knot in knots for side in (-1, 1))]
    )
    rarity = -pair.densities(points) - math.log(pair.scale)
    quantiles = np.sqrt(2.0 * rarity[:, np.all((rarity > _RAREST) & (rarity < _RARE_ENOUGH), axis=0)])
    least = np.min(quantiles, axis=0)
    doubt = 1e-6 + 10.0 * np.log(least) / least**2
    return float(np.max(np.abs(quantiles[0] - quantiles[1]) * (1.0 - doubt), initial=0.0))


def _rises_in_the_tail(values: Floats, log_chances: Floats) -> bool:
    """Return whether mu is greatest, by a relative 1e-6, for the rarest of the computed events."""
    rarity = -log_chances
    usable = np.isfinite(values) & (rarity > 0.0) & (rarity < _RAREST)
    rarest = usable & (rarity > _RAREST / math.sqrt(2.0))
    return bool(np.max(values[rarest], initial=0.0) > np.max(values[usable & ~rarest], initial=0.0) * (1.0 + 1e-6))


def _grows_in_the_tail(values: Floats, log_chances: Floats) -> bool:
    """Return whether mu keeps growing as events get rarer.

    This is judged where -log probability grows by factors of sqrt(2).
    """
    rarity = -log_chances
    usable = np.isfinite(rarity) & np.isfinite(values) & (rarity > 0.0) & (rarity < _RAREST)
    if np.count_nonzero(usable) < 5:
        return False
    rarity, first = np.unique(rarity[usable], return_index=True)
    steps = 2.0 ** np.arange(1.5, math.log2(rarity[-1]), 0.5)
    from scipy.interpolate import PchipInterpolator  # slow to import

    curve = PchipInterpolator(rarity, values[usable][first])
    return keeps_growing(np.asarray(curve(steps[steps >= rarity[0]])), 1e-3)


def _law(mechanism: Mechanism, pair: DatasetPair, side: str, latest: dict[str, tuple[Any, Any]]) -> Any:
    """Return the law on one side of a pair. The last law of this side is reused while the dataset is the same."""
    dataset = getattr(pair, side)
    if side not in latest or latest[side][0] is not dataset:
        law = mechanism(dataset)
        if not knows_law(law):
            raise AuditError(
                f"{mechanism.name} does not know its law on the pair {pair}, so that candidates cannot be ranked "
                "exactly; give them all to audit(mechanism, pairs=...), where they compete on training runs."
            )
        latest[side] = dataset, law
    return latest[side][1]


def _identity(law: Any) -> Hashable:
    """Return an object that is equal only for equal laws.

    For a finite law it is the outcomes and their probabilities, for other laws the law itself.
    """
    if not hasattr(law, "knots"):
        return (tuple(law.support), np.asarray(law.log_probabilities, float).tobytes())
    try:
        hash(law)
    except TypeError:
        return object()  # equal to nothing else, so never taken for another law
    return law  # type: ignore[no-any-return]  # just hashed
