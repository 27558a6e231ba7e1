"""Laws draw what they say. Goodness-of-fit p-values below 1e-6 fail, which is the false-alarm chance of each test."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, LaplaceLaw, NormalLaw

DRAWS = 200_000


def test_a_finite_law_draws_what_it_says_and_not_its_variant(fit):
    law = FiniteLaw(("a", "b", "c"), np.log([0.2, 0.3, 0.5]))
    draws = law.sample(DRAWS, np.random.default_rng(1))
    assert fit(law, draws) > 1e-6
    assert fit(FiniteLaw(("a", "b", "c"), np.log([0.21, 0.29, 0.5])), draws) < 1e-6


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=20, unique=True))
def test_the_density_of_numbers_agrees_with_that_of_symbols(support):
    weights = -np.abs(np.array(support)) / 10.0
    numbers, symbols = FiniteLaw(support, weights), FiniteLaw([str(value) for value in support], weights)
    asked = np.arange(-51, 52)
    assert np.array_equal(numbers.log_density(asked), symbols.log_density([str(value) for value in asked]))
    assert np.exp(numbers.log_density(asked)).sum() == pytest.approx(1.0)
    assert np.all(numbers.log_density(asked + 0.5) == -np.inf)


def test_the_discrete_laplace_law_keeps_its_digits_in_both_tails():
    law, ranks = DiscreteLaplaceLaw(3, 2.0), np.arange(-60, 61)
    assert np.diff(np.exp(law.log_cdf(3 + ranks))) == pytest.approx(np.exp(law.log_density(4 + ranks[:-1])), abs=1e-15)
    survival = -np.expm1(law.log_cdf(3 + ranks))
    assert survival[:-1] == pytest.approx(np.exp(law.log_cdf(2 - ranks[:-1])), rel=1e-12)  # by symmetry


@pytest.mark.parametrize(
    ("law", "oracle", "variant"),
    [
        (LaplaceLaw(2.0, 3.0), stats.laplace(2.0, 3.0), stats.laplace(2.0, 3.15)),
        (NormalLaw(-1.0, 0.5), stats.norm(-1.0, 0.5), stats.norm(-1.0, 0.525)),
    ],
)
def test_continuous_laws_are_those_of_scipy(law, oracle, variant):
    points = law.centre + law.scale * np.linspace(-30.0, 30.0, 61)
    assert law.log_density(points) == pytest.approx(oracle.logpdf(points), rel=1e-12)
    assert law.log_cdf(points) == pytest.approx(oracle.logcdf(points), rel=1e-9)
    draws = law.sample(DRAWS, np.random.default_rng(2))
    assert stats.kstest(draws, oracle.cdf).pvalue > 1e-6
    assert stats.kstest(draws, variant.cdf).pvalue < 1e-6


@given(st.integers(-1000, 1000), st.floats(0.05, 50.0))
def test_the_discrete_laplace_law_lists_all_but_1e18_of_its_mass(centre, scale):
    law = DiscreteLaplaceLaw(centre, scale)
    tail = law.log_density(np.array([law.support[-1] + 1]))[0] - math.log(-math.expm1(-1.0 / scale))
    assert tail + math.log(2.0) < math.log(1e-18)
    assert np.exp(law.log_probabilities).sum() == pytest.approx(1.0, abs=1e-12)


def test_the_discrete_laplace_law_draws_what_it_says_and_not_its_variant(fit):
    draws = DiscreteLaplaceLaw(7, 2.0).sample(DRAWS, np.random.default_rng(3))
    assert fit(DiscreteLaplaceLaw(7, 2.0), draws) > 1e-6
    assert fit(DiscreteLaplaceLaw(7, 2.1), draws) < 1e-6
    assert DiscreteLaplaceLaw(7, 2.0).log_density(np.array([7.5]))[0] == -np.inf
