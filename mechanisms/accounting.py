"""Claims of compositions.

Each function takes the claims of the composed parts and returns a claim for the whole composition. It raises an
`AuditError` if there are no parts, or if a claim is of a kind that the theorem does not cover.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import Any

from epsaudit.claims.conversions import pure_to_gaussian, pure_to_renyi, pure_to_zcdp
from epsaudit.claims.definitions import ZCDP, ApproxDP, ApproxZCDP, Claim, GaussianDP, PureDP, RenyiDP, TradeOff
from epsaudit.errors import AuditError, fraction, needs

INTERVAL = 1e-4
"""Step, in nats, of the grid of privacy losses. Losses are rounded to the grid pessimistically."""


def basic(claims: Sequence[Claim]) -> PureDP | ApproxDP:
    """Return the claim of basic composition: epsilons and deltas add up.

    The theorem is due to Dwork et al. (2006); see 'Composition basics', first theorem. It also holds for adaptive
    choices, for filters (Rogers, Roth, Ullman and Vadhan 2016) and, for pure DP, for concurrent interactive parts
    (Vadhan and Wang 2021).

    >>> print(basic([PureDP(0.5), PureDP(1.0)]), basic([PureDP(0.5), ApproxDP(1.0, 1e-6)]))
    1.5-DP (1.5, 1e-06)-DP
    """
    epsilon, delta = map(math.fsum, zip(*map(_point, _some(claims)), strict=True))
    return PureDP(epsilon) if delta == 0.0 else ApproxDP(epsilon, min(delta, 1.0 - 1e-15))


def advanced(claims: Sequence[Claim], delta: float) -> ApproxDP:
    """Return the claim of advanced composition: epsilon = S / 2 + sqrt(2 log(1/delta) S), and the deltas add up.

    S is the sum of the squared epsilons. Dwork, Rothblum and Vadhan (2010) in the form of differentialprivacy.org,
    'Composition basics', second theorem and note 1.

    >>> print(advanced([PureDP(0.1)] * 128, 1e-6))
    (6.58708, 1e-06)-DP
    """
    delta = fraction(delta, "delta", open_below=True)
    squares = math.fsum(_point(claim)[0] ** 2 for claim in _some(claims))
    total = delta + math.fsum(_point(claim)[1] for claim in claims)
    return ApproxDP(squares / 2.0 + math.sqrt(2.0 * math.log(1.0 / delta) * squares), total)


def concentrated(claims: Sequence[Claim]) -> ZCDP:
    """Return the claim of zCDP composition: the rhos add up (Bun and Steinke 2016, Lemma 1.7).

    Claims of pure DP and Gaussian DP are first converted to zCDP. The theorem also holds for adaptive choices, for
    filters (Feldman and Zrnic 2021) and for concurrent interactive parts (Lyu 2022).

    >>> print(concentrated([ZCDP(0.5), PureDP(1.0), GaussianDP(1.0)]))
    1.46212-zCDP
    """
    return ZCDP(math.fsum(map(rho_of, _some(claims))))


def approximately_concentrated(claims: Sequence[Claim]) -> ApproxZCDP:
    """Return the claim of approximate zCDP composition: rhos and deltas add up (Bun and Steinke 2016, Lemma 8.2).

    (epsilon, delta)-DP is delta-approximate epsilon tanh(epsilon / 2)-zCDP, because it is randomised response except
    for a part of weight delta (Kairouz, Oh and Viswanath 2015). The theorem also holds for filters (Whitehouse et al.
    2023, Theorem 1).

    >>> print(approximately_concentrated([ApproxZCDP(0.5, 1e-6), ApproxDP(1.0, 1e-6), PureDP(1.0)]))
    2e-06-approximate 1.42423-zCDP
    """
    deltas = [claim.delta if isinstance(claim, ApproxDP | ApproxZCDP) else 0.0 for claim in _some(claims)]
    parts = [PureDP(claim.epsilon) if isinstance(claim, ApproxDP) else claim for claim in claims]
    rhos = [part.rho if isinstance(part, ApproxZCDP) else rho_of(part) for part in parts]
    return ApproxZCDP(math.fsum(rhos), min(math.fsum(deltas), 1.0 - 1e-15))


def gaussian(claims: Sequence[Claim]) -> GaussianDP:
    """Return the claim of Gaussian DP composition: mu = sqrt(sum of mu^2) (Dong, Roth and Su 2022, Corollary 3.3).

    Claims of pure DP are first converted to Gaussian DP. The theorem also holds for filters (Smith and Thakurta 2022;
    Koskela, Tobaben and Honkela 2023).

    >>> print(gaussian([GaussianDP(3.0), GaussianDP(4.0)]))
    5-GDP
    """
    return GaussianDP(math.hypot(*map(_mu_of, _some(claims))))


def renyi(claims: Sequence[Claim], order: float) -> RenyiDP:
    """Return the claim of Renyi DP composition at one order: the divergences add up (Mironov 2017, Proposition 1).

    Claims of pure DP, zCDP and Gaussian DP are first converted. The theorem also holds for filters and concurrent
    parts, as for `concentrated`.

    >>> print(renyi([RenyiDP(2.0, 0.5), ZCDP(0.1)], 2.0))
    (2, 0.7)-Renyi DP
    """
    return RenyiDP(order, math.fsum(_divergence_of(claim, order) for claim in _some(claims)))


def together(unit: Claim, claims: Sequence[Claim]) -> Claim:
    """Compose claims in the definition of privacy to which the claim ``unit`` belongs.

    The parameters of ``unit`` itself do not matter, except for the order of Renyi DP.

    >>> print(together(ZCDP(0.0), [PureDP(1.0), ZCDP(0.1)]), together(PureDP(0.0), []))
    0.562117-zCDP 0-DP
    """
    parts = claims or [PureDP(0.0)]
    match unit:
        case PureDP():
            return basic(parts)
        case ApproxDP():
            return ApproxDP(*basic(parts).claimed_point)
        case ZCDP():
            return concentrated(parts)
        case ApproxZCDP():
            return approximately_concentrated(parts)
        case GaussianDP():
            return gaussian(parts)
        case RenyiDP():
            return renyi(parts, unit.order)
    raise AuditError(f"Nothing here composes claims into one like {unit}.")


def numeric(distributions: Sequence[Any], delta: float) -> ApproxDP:
    """Compose privacy loss distributions numerically, with losses rounded up; delta must lie in (0, 1).

    ``distributions`` has one PrivacyLossDistribution of dp_accounting for each part.

    >>> print(numeric([loss_distribution(PureDP(0.1))] * 128, 1e-6))
    (5.53206, 1e-06)-DP
    """
    delta = fraction(delta, "delta", open_below=True)
    epsilon = float(_composed(distributions).get_epsilon_for_delta(delta))
    if math.isinf(epsilon):
        raise AuditError(f"The parts' own deltas add up to more than {delta:g}; no epsilon can make up for them.")
    return ApproxDP(max(epsilon, 0.0), delta)


def trade_off(distributions: Sequence[Any], epsilons: Sequence[float]) -> TradeOff:
    """Compose privacy loss distributions numerically, and return the privacy profile at the given epsilons as a claim.

    The losses are rounded up. Dong, Roth and Su (2022), Theorem 3.2, which also holds for parts that are chosen
    adaptively, if their trade-off curves are fixed in advance.

    >>> curve = trade_off([loss_distribution(PureDP(1.0))] * 2, (0.0, 1.0, 2.0))
    >>> [(epsilon, round(delta, 4)) for epsilon, delta in curve.points]
    [(0.0, 0.4621), (1.0, 0.3378), (2.0, 0.0)]
    """
    whole = _composed(distributions)
    return TradeOff(tuple((float(epsilon), float(whole.get_delta_for_epsilon(epsilon))) for epsilon in epsilons))


def _composed(distributions: Sequence[Any]) -> Any:
    counts = Counter(map(id, distributions))
    different = {id(one): one for one in distributions}
    powers = [one.self_compose(counts[key]) if counts[key] > 1 else one for key, one in different.items()]
    return reduce(lambda a, b: a.compose(b), powers)


def loss_distribution(claim: Claim) -> Any:
    """Return the privacy loss distribution of the pair of laws that is easiest to tell apart under a claim.

    This pair is randomised response for pure DP, randomised response that fails with probability delta for
    approximate DP (Kairouz, Oh and Viswanath 2015), and Gaussian noise for Gaussian DP. For zCDP and Renyi DP there
    is no such pair.

    >>> f"{loss_distribution(GaussianDP(1 / 3.7306316)).get_delta_for_epsilon(1.0):.3g}"
    '1e-05'
    """
    distributions = library()
    if isinstance(claim, GaussianDP):
        return distributions.from_gaussian_mechanism(1.0 / claim.mu, value_discretization_interval=INTERVAL)
    if claim.claimed_point is not None:
        point = distributions.common.DifferentialPrivacyParameters(*claim.claimed_point)
        return distributions.from_privacy_parameters(point, value_discretization_interval=INTERVAL)
    raise AuditError(f"{claim} has no one pair of laws that is easiest to tell apart; add its rhos or divergences up.")


def library() -> Any:
    """Import the module of dp-accounting for privacy loss distributions."""
    with needs("accounting"):
        from dp_accounting.pld import privacy_loss_distribution
    return privacy_loss_distribution


def rho_of(claim: Claim) -> float:
    """Return the least rho of zCDP that a claim implies; raise `AuditError` if the claim implies no zCDP."""
    match claim:
        case ZCDP():
            return claim.rho
        case PureDP():
            return pure_to_zcdp(claim.epsilon)
        case GaussianDP():
            return claim.mu**2 / 2.0  # Bun and Steinke (2016), Proposition 1.6
    raise AuditError(f"{claim} implies no zCDP; accepted are zCDP, pure DP and Gaussian DP.")


def _mu_of(claim: Claim) -> float:
    if isinstance(claim, GaussianDP):
        return claim.mu
    if isinstance(claim, PureDP):
        return pure_to_gaussian(claim.epsilon)
    raise AuditError(f"{claim} implies no Gaussian DP here; accepted are Gaussian DP and pure DP.")


def _divergence_of(claim: Claim, order: float) -> float:
    match claim:
        case RenyiDP(order=own) if own == order:
            return claim.epsilon
        case PureDP():
            return pure_to_renyi(claim.epsilon, order)
        case ZCDP() | GaussianDP():
            return order * rho_of(claim)
    raise AuditError(f"{claim} bounds no Renyi divergence of order {order:g}.")


def _point(claim: Claim) -> tuple[float, float]:
    if claim.claimed_point is None:
        raise AuditError(f"{claim} states no (epsilon, delta); convert it first, with its method approximate(delta).")
    return claim.claimed_point


def _some(claims: Sequence[Any]) -> Sequence[Any]:
    if len(claims) == 0:
        raise AuditError("There is nothing to compose; give at least one claim.")
    return claims
