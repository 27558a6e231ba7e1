"""Conversions between definitions: attained by randomised response, Laplace and Gaussian noise, ordered, and
compared.
"""

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import ZCDP, GaussianDP, PureDP
from epsaudit.claims.conversions import (
    approximate_to_gaussian,
    gaussian_to_delta,
    pure_to_gaussian,
    pure_to_renyi,
    pure_to_zcdp,
    renyi_to_epsilon,
)
from epsaudit.experiments.composition import zcdp_to_epsilon
from epsaudit.experiments.conversions import laplace_renyi
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.laws import LaplaceLaw
from epsaudit.mechanisms.response import RandomisedResponse

EPSILONS = st.floats(1e-3, 20.0)
ORDERS = st.floats(1.0001, 200.0)
ORDER_GRID = [1.5, 2.0, 5.0, 32.0, 256.0]


def closed_form(rho, delta):
    """Return the closed form of Proposition 1.3 of Bun and Steinke (2016)."""
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


def kearns_and_saul(p):
    """Return the least constant c with log E exp(t (X - p)) <= c t^2 for X ~ Bernoulli(p)."""
    return 0.125 if p == 0.5 else (1.0 - 2.0 * p) / (4.0 * math.log1p((1.0 - 2.0 * p) / p))


@given(st.floats(1e-6, 1.0 - 1e-6), st.floats(-60.0, 60.0))
def test_kearns_and_saul(p, t):
    """Proposition 6 of 'Tight RDP & zCDP bounds from pure DP': the inequality, the case of equality, the best
    constant.
    """

    def excess(t):
        return float(np.logaddexp(math.log1p(-p), math.log(p) + t)) - t * p

    constant = kearns_and_saul(p)
    assert excess(t) <= constant * t**2 + 1e-12 * (1.0 + abs(t))
    assert constant <= 0.125 + 1e-12  # that of Hoeffding's lemma
    kink = 2.0 * math.log1p((1.0 - 2.0 * p) / p)
    assert excess(kink) == pytest.approx(constant * kink**2, rel=1e-6, abs=1e-12)
    if abs(kink) > 0.1:
        assert excess(kink) > 0.99 * constant * kink**2  # the incorrect variant has a smaller constant


@given(EPSILONS)
def test_kearns_and_saul_at_randomised_response_is_what_theorem_5_uses(epsilon):
    p = 1.0 / (1.0 + math.exp(epsilon))
    assert 4.0 * epsilon**2 * kearns_and_saul(p) == pytest.approx(pure_to_zcdp(epsilon), rel=1e-6)


@given(EPSILONS, ORDERS)
def test_theorem_4_in_both_of_its_forms(epsilon, order):
    # source 002, Theorem 4: the first expression, in log space
    first = np.logaddexp(order * epsilon, (1.0 - order) * epsilon) - np.logaddexp(0.0, epsilon)
    assert pure_to_renyi(epsilon, order) == pytest.approx(first / (order - 1.0), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 6.0])
@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 10.0, 100.0])
def test_randomised_response_attains_pure_to_renyi_and_laplace_its_own_curve(epsilon, order):
    laws = RandomisedResponse(epsilon)((0,)), RandomisedResponse(epsilon)((1,))
    assert exact.renyi(*laws, order) == pytest.approx(pure_to_renyi(epsilon, order), rel=1e-9)
    noisy = LaplaceLaw(0.0, 1.0 / epsilon), LaplaceLaw(1.0, 1.0 / epsilon)
    assert exact.renyi(*noisy, order) == pytest.approx(laplace_renyi(epsilon, order), rel=1e-8)


@given(EPSILONS, ORDERS)
def test_laplace_is_below_the_worst_pure_mechanism_and_both_below_the_simple_bounds(epsilon, order):
    tight = pure_to_renyi(epsilon, order)
    assert laplace_renyi(epsilon, order) <= tight * (1 + 1e-12)
    assert tight <= min(epsilon, order * pure_to_zcdp(epsilon)) * (1 + 1e-12)
    assert pure_to_zcdp(epsilon) <= min(epsilon, epsilon**2 / 2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_randomised_response_attains_pure_to_zcdp_and_laplace_does_not(epsilon):
    mechanism = RandomisedResponse(epsilon)
    assert exact.exact_parameter(ZCDP(0.0), mechanism((0,)), mechanism((1,))) == pytest.approx(
        pure_to_zcdp(epsilon), rel=1e-6
    )
    noisy = LaplaceLaw(0.0, 1.0 / epsilon), LaplaceLaw(1.0, 1.0 / epsilon)
    assert exact.exact_parameter(ZCDP(0.0), *noisy) < 0.999 * pure_to_zcdp(epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 40.0])
def test_randomised_response_attains_pure_to_gaussian_and_laplace_does_not_exceed_it(epsilon):
    mechanism = RandomisedResponse(epsilon)
    mu = pure_to_gaussian(epsilon)
    if epsilon < 30.0:
        assert exact.exact_parameter(GaussianDP(0.0), mechanism((0,)), mechanism((1,))) == pytest.approx(mu, rel=1e-9)
        noisy = LaplaceLaw(0.0, 1.0 / epsilon), LaplaceLaw(1.0, 1.0 / epsilon)
        assert exact.exact_parameter(GaussianDP(0.0), *noisy) <= mu
    for at in np.linspace(0.0, 1.2 * epsilon, 7):
        assert PureDP(epsilon).profile(at) <= GaussianDP(mu).profile(at) * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("order", ORDER_GRID)
def test_renyi_to_approximate_is_that_of_dp_accounting(order, delta):
    for divergence in (0.01, 0.3, 4.0):
        theirs, _ = rdp_privacy_accountant.compute_epsilon([order], [divergence], delta)
        if theirs > 0.0:  # there it has other bounds, too
            assert renyi_to_epsilon(order, divergence, delta) == pytest.approx(theirs, abs=1e-6)
        epsilon = renyi_to_epsilon(order, divergence, delta)
        if epsilon > 0.0:  # Canonne, Kamath and Steinke (2020), Proposition 12, at this epsilon
            log_delta = (order - 1.0) * (divergence - epsilon + math.log1p(-1.0 / order)) - math.log(order)
            assert math.exp(log_delta) == pytest.approx(delta, rel=1e-9)
            theirs, _ = rdp_privacy_accountant.compute_delta([order], [divergence], epsilon)
            assert delta >= theirs * (1 - 1e-6)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("rho", [1e-3, 0.1, 2.0])
def test_zcdp_to_approximate_is_that_of_dp_accounting_and_the_profile_is_below_it(rho, delta):
    orders = 1.0 + np.geomspace(0.02, 1e5, 40_000)
    theirs, _ = rdp_privacy_accountant.compute_epsilon(orders, rho * orders, delta)
    ours = zcdp_to_epsilon(rho, delta)
    assert ours == pytest.approx(theirs, abs=1e-6)
    # 1e-5: the profile's supremum over orders is a grid's, which errs on the safe side
    assert ZCDP(rho).approximate(delta).epsilon <= ours * (1 + 1e-5)
    assert ours <= closed_form(rho, delta)
    # Gaussian noise is rho-zCDP, so no conversion can be below its own epsilon
    assert GaussianDP(math.sqrt(2.0 * rho)).approximate(delta).epsilon <= ZCDP(rho).approximate(delta).epsilon


@given(st.floats(0.01, 8.0), st.floats(1e-10, 0.1))
def test_gaussian_dp_and_back(mu, delta):
    epsilon = GaussianDP(mu).approximate(delta).epsilon
    if epsilon > 0.0:
        assert float(approximate_to_gaussian(epsilon, delta)) == pytest.approx(mu, rel=1e-6)
        assert float(gaussian_to_delta(mu, epsilon)) == pytest.approx(delta, rel=1e-6)
