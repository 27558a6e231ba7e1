"""Sequential composition: the order of its bounds, its laws, an audit of many coordinates, and what it refuses."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from epsaudit import ZCDP, ApproxDP, GaussianDP, PureDP
from epsaudit.claims.conversions import zcdp_to_epsilon
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.accounting import advanced, basic, concentrated, gaussian, loss_distribution, numeric
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace
from epsaudit.mechanisms.composition import ProductLaw, Sequential
from epsaudit.mechanisms.response import RandomisedResponse

DELTA = 1e-6


@pytest.mark.parametrize(
    ("part", "copies"),
    [
        (Laplace(0.1), 1),
        (RandomisedResponse(0.1), 1),
        (RandomisedResponse(0.1), 128),
        pytest.param(Laplace(0.1), 32, marks=pytest.mark.slow),
    ],
)
def test_the_bounds_are_ordered(part, copies):
    whole = Sequential.copies(part, copies)
    pair = whole.worst_pairs()[0]
    laws = whole(pair.x), whole(pair.x_prime)
    true = exact.epsilon(*laws, DELTA)
    pure, rho = whole.claims
    values = [true, whole.numeric(DELTA).epsilon, min(whole.advanced(DELTA).epsilon, pure.epsilon), pure.epsilon]
    assert all(a <= b * (1 + 1e-6) for a, b in itertools.pairwise(values)), values
    assert values[1] == pytest.approx(true, rel=1e-4)
    assert true <= zcdp_to_epsilon(rho.rho, DELTA) <= whole.advanced(DELTA).epsilon
    assert pure.epsilon == pytest.approx(0.1 * copies)
    assert exact.exact_parameter(rho, *laws) <= rho.rho * (1 + 1e-6)
    assert exact.exact_parameter(pure, *laws) == pytest.approx(pure.epsilon)


def test_theorems_on_claims():
    claims = [PureDP(0.3), ApproxDP(0.4, 1e-7)]
    assert (basic(claims).epsilon, basic(claims).delta) == (pytest.approx(0.7), 1e-7)
    assert advanced(claims, 1e-6).epsilon == pytest.approx(0.125 + math.sqrt(2 * math.log(1e6) * 0.25))
    assert advanced(claims, 1e-6).delta == pytest.approx(1.1e-6)
    assert concentrated([ZCDP(1.0), PureDP(2.0), GaussianDP(0.5)]).rho == pytest.approx(1 + 2 * math.tanh(1) + 0.125)
    assert gaussian([GaussianDP(1.0), GaussianDP(1.0)]).mu == pytest.approx(math.sqrt(2))
    whole = numeric([loss_distribution(GaussianDP(1.0))] * 2, 1e-4)
    assert whole.epsilon == pytest.approx(GaussianDP(math.sqrt(2)).approximate(1e-4).epsilon, rel=1e-5)


def test_parts_offer_the_claims_they_share():
    assert [type(claim) for claim in Sequential(Laplace(0.5), Gaussian(1.0, 1e-5)).claims] == [ApproxDP, ZCDP]
    gaussians = Sequential.copies(Gaussian(1.0, 1e-5), 4)
    assert gaussians.claims[2].mu == pytest.approx(2 * Gaussian(1.0, 1e-5).claims[1].mu)
    pair = gaussians.worst_pairs()[0]
    laws = gaussians(pair.x), gaussians(pair.x_prime)
    assert exact.epsilon(*laws, DELTA) == pytest.approx(gaussians.numeric(DELTA).epsilon, rel=1e-5)


@pytest.mark.parametrize("part", [Laplace(0.5), RandomisedResponse(0.5)], ids=lambda one: one.name)
def test_the_composed_trade_off_curve_is_attained(part):
    """The advantage over it is 1, up to the rounding of the curve; over that of one part it is more."""
    whole = Sequential.copies(part, 2)
    pair = whole.worst_pairs()[0]
    curve = whole.trade_off((0.0, 0.25, 0.5))
    assert 0.999 < exact.exact_parameter(curve, whole(pair.x), whole(pair.x_prime)) <= 1.0 + 1e-8
    single = Sequential(part).trade_off((0.0, 0.25, 0.5))
    assert exact.exact_parameter(single, whole(pair.x), whole(pair.x_prime)) > 1.2


def test_numeric_uses_what_is_known_of_each_part():
    parts = (Laplace(0.2), DiscreteLaplace(0.2), RandomisedResponse(0.2, 5), Gaussian(0.2, 1e-7))
    for part in parts:
        by_claim = numeric([loss_distribution(part.claim)], 1e-3).epsilon
        own = Sequential(part).numeric(1e-3).epsilon
        pair = part.worst_pairs()[0]
        true = exact.epsilon(part(pair.x), part(pair.x_prime), 1e-3)
        assert true <= own * (1 + 1e-9)
        assert own <= by_claim + 1e-4  # a step of the grid
        assert own == pytest.approx(true, rel=1e-3)


def test_draws_are_independent_and_each_follows_its_part():
    # p-values below 1e-6 fail
    law = ProductLaw((Laplace(1.0)(("ann",)), Laplace(0.5)(("ann",))))
    draws = law.sample(20_000, np.random.default_rng(3))
    for column, scale in zip(draws.T, (1.0, 2.0), strict=True):
        assert stats.kstest(column, stats.laplace(1.0, scale).cdf).pvalue > 1e-6
        assert stats.kstest(column, stats.laplace(1.0, 1.1 * scale).cdf).pvalue < 1e-6
    assert stats.spearmanr(*draws.T).pvalue > 1e-6
