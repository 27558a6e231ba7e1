"""Tight conversions from pure DP: the inequality of their proof, and which simple bound is near where."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit.claims.conversions import pure_to_renyi, pure_to_zcdp
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.response import RandomisedResponse


def kearns_saul(p):
    """The factor of t^2 that bounds the log moments of a centred Bernoulli variable, 1/8 at p = 1/2."""
    return 0.125 if abs(p - 0.5) < 1e-9 else (1.0 - 2.0 * p) / (4.0 * math.log((1.0 - p) / p))


@given(st.floats(0.001, 0.999), st.floats(-30.0, 30.0))
def test_the_inequality_of_kearns_and_saul(p, t):
    logarithm = np.logaddexp(math.log(p) + t * (1.0 - p), math.log1p(-p) - t * p)
    assert logarithm <= kearns_saul(p) * t**2 + 1e-9 * max(1.0, abs(t))


@pytest.mark.parametrize("p", [0.05, 0.2, 0.4])
def test_no_smaller_factor_holds(p):
    """It is attained at t = 2 log((1 - p) / p), where the variable with its sides exchanged has the same moments."""
    t = 2.0 * math.log((1.0 - p) / p)
    logarithm = np.logaddexp(math.log(p) + t * (1.0 - p), math.log1p(-p) - t * p)
    assert logarithm == pytest.approx(kearns_saul(p) * t**2, rel=1e-12)
    assert logarithm > 0.999 * kearns_saul(p) * t**2  # a factor that is smaller by a thousandth fails


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_renyi_bounds_of_pure_dp_are_attained_and_below_the_line_of_zcdp(epsilon):
    mechanism, rho = RandomisedResponse(epsilon), pure_to_zcdp(epsilon)
    laws = mechanism((0,)), mechanism((1,))
    for order in (1.01, 2.0, 8.0, 64.0):
        assert exact.renyi(*laws, order) == pytest.approx(pure_to_renyi(epsilon, order), rel=1e-9)
        assert pure_to_renyi(epsilon, order) <= min(order * rho, epsilon) * (1.0 + 1e-12)
    assert pure_to_renyi(epsilon, 1.0 + 1e-6) == pytest.approx(rho, rel=1e-5)  # no smaller rho holds
    assert pure_to_renyi(epsilon, 1e4) == pytest.approx(epsilon, rel=1e-2)


def test_the_quadratic_bound_is_near_for_small_epsilon_and_the_trivial_one_for_large():
    for epsilon in (0.01, 0.1, 1.0, 10.0):
        assert pure_to_zcdp(epsilon) <= min(epsilon, epsilon**2 / 2.0)
    assert pure_to_zcdp(0.01) == pytest.approx(0.01**2 / 2.0, rel=1e-4)
    assert pure_to_zcdp(10.0) == pytest.approx(10.0, rel=1e-3)
