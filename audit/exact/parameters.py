"""The least parameter of a claim that a pair of known laws allows: the ground truth that certificates must not exceed.

A claim knows binary events only (`Claim.least`); what the whole law adds is computed here.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri_exp

from epsaudit.claims.conversions import root
from epsaudit.claims.curves import ApproxZCDP, TradeOff
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, GaussianDP, PureDP, RenyiDP
from epsaudit.errors import AuditError
from epsaudit.exact.losses import DOUBLINGS, Floats, LossPair, NotKnownError, difference, log_sum, merge_equal
from epsaudit.exact.profile import PrivacyProfile, keeps_growing, least_epsilon, renyi_divergences

_LARGEST_ORDER = 2.0**12  # for unbounded losses; beyond it double precision ends
_RAREST = 690.0  # -log of 1e-300: events rarer than that are not computed
_LOST = 1e-9  # probability of outcomes that one law may have lost to rounding: totals are checked to no more
_RARE_ENOUGH = 1e12  # -log of the rarest density that is looked at; beyond it a difference of quantiles loses digits


def exact_parameter(claim: Claim, law: object, law_prime: object) -> float:
    """Least parameter of the claim's family that a pair of known laws allows, in both directions; inf if none does.

    The claim says the family, and the delta or the order that goes with it; its own parameter does not matter. Laws and
    errors are as for `PrivacyProfile`, and there is a `NotKnownError` where outcomes of a probability below 1e-9 that
    only one law allows decide (but for approximate DP), and for Gaussian DP where events less likely than 1e-300 may:
    see docs/explanation/theory.md#exact-values.

    Examples
    --------
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


def _refuse_rounding_errors(pair: LossPair) -> None:
    """Refuse laws that only very rare outcomes set apart for certain.

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
    """Supremum over the events {loss >= t}, the vertices of the pair's region, of the mu that each needs."""
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
    """Supremum over orders a >= 1 of D_a / a, in one direction."""

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
    """Least rho of what is left of two laws after a part of weight delta, chosen as well as can be.

    That is (min(P, e^s P'), min(P', e^t P)) / (1 - delta), s and t such that both are laws:
    docs/explanation/theory.md#approximate-zcdp-and-any-trade-off-curve.
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
    """log(e^loss - 1), also beyond all floats."""
    with np.errstate(divide="ignore"):
        return float(loss + np.log(-np.expm1(-loss)))


def _least_advantage(profile: PrivacyProfile, epsilon: float, delta: float) -> float:
    """Least a such that the pair respects (log(1 + a (e^epsilon - 1)), a delta)."""
    if profile.delta(0.0) == 0.0:
        return 0.0
    rise = _log_expm1(epsilon)
    with np.errstate(divide="ignore", over="ignore"):
        most = float(min(np.exp(_log_expm1(profile.greatest_loss) - rise), 2.0 / np.float64(delta)))  # either does

    def excess(log_a: float) -> float:
        return profile.delta(float(np.logaddexp(0.0, log_a + rise))) - math.exp(log_a) * delta

    if delta == 0.0 or excess(math.log(most)) >= 0.0:  # what is left there is rounding
        return most
    return math.exp(root(excess, -745.0 - epsilon, math.log(most), xtol=1e-12))  # from what makes both sides 0 but one


def _limit_in_the_order(pair: LossPair) -> float:
    """Limit of D_a / a, which approaches it like 1 / a; inf where it keeps growing."""
    orders = _LARGEST_ORDER / 2.0 ** np.arange(7.0, -1.0, -1.0)
    ratios = renyi_divergences(pair, orders) / orders
    if keeps_growing(ratios):
        return math.inf
    return float(max(ratios[-1], 2 * ratios[-1] - ratios[-2]))


def _separation(pair: LossPair, thresholds: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
    """Least mu of the events {loss >= t}, and the log-probabilities of the rare sides: P'[>= t] and P[< t]."""
    events = pair.events(thresholds)
    with np.errstate(invalid="ignore"):
        values = _normal_quantile(events.upper, events.lower) - _normal_quantile(events.upper_prime, events.lower_prime)
    return np.where(np.isnan(values), 0.0, np.maximum(values, 0.0)), (events.upper_prime, events.lower)


def _normal_quantile(log_chance: Floats, log_complement: Floats) -> Floats:
    """Phi^-1 of a probability given with its complement, so that either may be tiny."""
    small, large = np.minimum(log_chance, 0.0), np.minimum(log_complement, 0.0)
    return np.where(small <= large, ndtri_exp(small), -ndtri_exp(large))


def _candidate_thresholds(pair: LossPair) -> Floats:
    """Every loss of a finite law, a vertex each; of densities the losses near knots and, thinned, at panel points."""
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
    """A mu, less a relative 1e-6 and what is uncertain of it, that events less likely than 1e-300 may need."""
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
    """Whether mu is greatest, by a relative 1e-6, for the rarest of the events that are computed."""
    rarity = -log_chances
    usable = np.isfinite(values) & (rarity > 0.0) & (rarity < _RAREST)
    rarest = usable & (rarity > _RAREST / math.sqrt(2.0))
    return bool(np.max(values[rarest], initial=0.0) > np.max(values[usable & ~rarest], initial=0.0) * (1.0 + 1e-6))


def _grows_in_the_tail(values: Floats, log_chances: Floats) -> bool:
    """Whether mu keeps growing as events get rarer, seen where -log probability grows by factors of sqrt(2)."""
    rarity = -log_chances
    usable = np.isfinite(rarity) & np.isfinite(values) & (rarity > 0.0) & (rarity < _RAREST)
    if np.count_nonzero(usable) < 5:
        return False
    rarity, first = np.unique(rarity[usable], return_index=True)
    steps = 2.0 ** np.arange(1.5, math.log2(rarity[-1]), 0.5)
    from scipy.interpolate import PchipInterpolator  # slow to import

    curve = PchipInterpolator(rarity, values[usable][first])
    return keeps_growing(np.asarray(curve(steps[steps >= rarity[0]])), 1e-3)
