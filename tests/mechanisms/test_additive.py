"""Additive noise: the profiles of the textbooks, attained on the worst pair."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from epsaudit import AuditError
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace, SphericalGaussian, SphericalLaw
from epsaudit.mechanisms.composition import ProductLaw
from epsaudit.mechanisms.laws import NormalLaw
from epsaudit.mechanisms.queries import ClippedSum, NumericQuery

EPSILONS = st.floats(0.01, 10.0)


def laws(mechanism):
    (pair,) = mechanism.worst_pairs()
    mechanism.adjacency.check(pair)
    return mechanism(pair.x), mechanism(pair.x_prime)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_laplace_has_its_profile(epsilon):
    # the half-line between the two answers has the closed form of Laplace noise
    for share in (0.0, 0.3, 0.9):
        expected = 1.0 - math.exp((share - 1.0) * epsilon / 2.0)
        assert exact.delta(*laws(Laplace(epsilon)), share * epsilon) == pytest.approx(expected, abs=1e-9)


@given(EPSILONS, st.integers(1, 5))
def test_discrete_laplace_attains_its_claim(epsilon, sensitivity):
    query = NumericQuery(lambda data: sensitivity * len(data), sensitivity)
    law, law_prime = laws(DiscreteLaplace(epsilon, query))
    outputs = list(range(-20, 21))
    losses = law.log_density(outputs) - law_prime.log_density(outputs)
    assert max(abs(losses)) == pytest.approx(epsilon, rel=1e-9)


def test_gaussian_golden_value():
    # Balle and Wang (2018), Theorem 8, solved for sigma
    assert Gaussian(1.0, 1e-5).sigma == pytest.approx(3.7306316, abs=5e-8)


@given(EPSILONS, st.floats(1e-12, 0.3), st.floats(0.1, 10.0))
def test_gaussian_meets_its_delta_and_no_less(epsilon, delta, sensitivity):
    query = NumericQuery(lambda data: sensitivity * len(data), sensitivity)
    ratio = sensitivity / Gaussian(epsilon, delta, query).sigma
    spent = norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio)
    assert spent == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize("dimension", [1, 2])
def test_spherical_noise_has_the_profile_of_a_number(dimension):
    """Whatever the direction: of the sum of the coordinates' losses, computed by composition, too."""
    mechanism = SphericalGaussian(1.0, 1e-3, ClippedSum(dimension))
    plain = Gaussian(1.0, 1e-3)
    for claim in mechanism.claims:
        assert exact.exact_parameter(claim, *laws(mechanism)) == pytest.approx(claim.parameter, rel=1e-6)
    assert mechanism.sigma == plain.sigma
    law, law_prime = laws(mechanism)
    parts = [ProductLaw(tuple(NormalLaw(at, one.sigma) for at in one.centre)) for one in (law, law_prime)]
    assert exact.renyi(*parts, 3.0) == pytest.approx(exact.renyi(law, law_prime, 3.0), rel=1e-9)
    draws = law.sample(1000, np.random.default_rng(0))
    assert law.log_density(draws) == pytest.approx(parts[0].log_density(draws))
    with pytest.raises(AuditError, match="is not known"):
        exact.delta(law, SphericalLaw(law.centre, 2.0 * law.sigma), 1.0)
