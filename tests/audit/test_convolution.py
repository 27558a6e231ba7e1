"""Losses of independent parts: against enumeration, the closed form of Gaussian noise, and dp-accounting."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy import stats

from epsaudit import ZCDP, GaussianDP, PureDP, RenyiDP
from epsaudit.experiments.conversions import laplace_renyi
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.exact.laws import loss_pair
from epsaudit.mechanisms.exact.values import least_epsilon
from epsaudit.mechanisms.laws import FiniteLaw, LaplaceLaw, NormalLaw
from epsaudit.mechanisms.response import RandomisedResponse

LAPLACE = LaplaceLaw(0.0, 10.0), LaplaceLaw(1.0, 10.0)
NORMAL = NormalLaw(0.0, 10.0), NormalLaw(1.0, 10.0)


def product(laws, copies):
    return tuple(SimpleNamespace(parts=(law,) * copies) for law in laws)


def test_finite_parts_are_those_of_the_enumerated_product():
    rng = np.random.default_rng(5)
    laws = [[FiniteLaw(range(3), np.log(rng.dirichlet(np.ones(3)))) for _ in range(3)] for _ in range(2)]
    laws[1][0] = FiniteLaw(range(3), [0.0, -math.inf, 0.0])  # an outcome that only x has
    products = []
    for side in laws:
        table = {}
        for outcome in itertools.product(range(3), repeat=3):
            table[outcome] = sum(law.log_probabilities[i] for law, i in zip(side, outcome, strict=True))
        products.append(FiniteLaw(list(table), list(table.values())))
    whole = tuple(SimpleNamespace(parts=tuple(side)) for side in laws)
    for epsilon in (0.0, 0.3, 1.0, 4.0):
        assert exact.delta(*whole, epsilon) == pytest.approx(exact.delta(*products, epsilon), rel=1e-9)
        assert exact.PrivacyProfile(*whole).hockey_stick(epsilon) == pytest.approx(
            exact.PrivacyProfile(*products).hockey_stick(epsilon), rel=1e-9
        )
    assert exact.epsilon(*whole, 0.9) == pytest.approx(exact.epsilon(*products, 0.9), abs=1e-9)
    assert exact.exact_parameter(PureDP(1.0), *whole) == math.inf
    reverse = exact.renyi(*whole[::-1], 3.0)
    assert reverse == pytest.approx(exact.renyi(*products[::-1], 3.0), rel=1e-9)


@pytest.mark.parametrize("copies", [1, 7, 128])
def test_randomised_response_is_a_binomial(copies):
    epsilon, delta = 0.3, 1e-6
    whole = product((RandomisedResponse(epsilon)((1,)), RandomisedResponse(epsilon)((0,))), copies)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    ones = np.arange(copies + 1)
    p, q = stats.binom.pmf(ones, copies, truth), stats.binom.pmf(ones, copies, 1.0 - truth)
    for at in (0.0, 0.5 * epsilon, 0.4 * copies * epsilon):
        assert exact.delta(*whole, at) == pytest.approx(np.maximum(p - math.exp(at) * q, 0.0).sum(), rel=1e-9)
    assert exact.exact_parameter(PureDP(1.0), *whole) == pytest.approx(copies * epsilon)
    bound = exact.epsilon(*whole, delta)
    assert np.maximum(p - math.exp(bound) * q, 0.0).sum() == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(("copies", "delta"), [(2, 1e-2), pytest.param(32, 1e-6, marks=pytest.mark.slow)])
def test_gaussian_parts_have_the_closed_form(copies, delta):
    value = exact.epsilon(*product(NORMAL, copies), delta)
    assert value == pytest.approx(GaussianDP(math.sqrt(copies) / 10.0).approximate(delta).epsilon, rel=1e-6)


@pytest.mark.parametrize("copies", [1, 2, 8, 128])
def test_laplace_parts_are_bracketed_and_below_dp_accounting(copies):
    pair = loss_pair(*product(LAPLACE, copies))
    numeric = privacy_loss_distribution.from_laplace_mechanism(10.0, value_discretization_interval=1e-4)
    numeric = numeric.self_compose(copies)
    for delta in (1e-2, 1e-6):
        upper, lower = least_epsilon(pair, delta), least_epsilon(pair.lower, delta)
        assert lower <= upper <= lower * (1 + 1e-7)
        theirs = numeric.get_epsilon_for_delta(delta)
        assert lower <= theirs <= upper * (1 + 1e-5) + 1e-8
        assert least_epsilon(pair.swapped, delta) == pytest.approx(upper, rel=1e-6)


def test_one_laplace_part_is_laplace():
    whole = product(LAPLACE, 1)
    for epsilon in (0.0, 0.03, 0.09):
        assert exact.delta(*whole, epsilon) == pytest.approx(-math.expm1((epsilon - 0.1) / 2.0), rel=1e-6)


def test_divergences_and_the_greatest_loss_add_up():
    whole = product(LAPLACE, 16)
    assert exact.exact_parameter(PureDP(0.0), *whole) == pytest.approx(1.6)
    assert exact.exact_parameter(RenyiDP(3.0, 0.0), *whole) == pytest.approx(16 * laplace_renyi(0.1, 3.0), rel=1e-8)
    one = exact.exact_parameter(ZCDP(0.0), *LAPLACE)
    assert exact.exact_parameter(ZCDP(0.0), *whole) == pytest.approx(16 * one, rel=1e-4)


def test_different_parts_of_one_unit_are_known_and_others_say_so():
    mixed = tuple(SimpleNamespace(parts=(a, b)) for a, b in zip(LAPLACE, reversed(LAPLACE), strict=True))
    # the losses of the two parts point in opposite directions; each is one Laplace loss in absolute value
    assert exact.exact_parameter(PureDP(0.0), *mixed) == pytest.approx(0.2)
    assert 0.0 < exact.epsilon(*mixed, 1e-3) < 0.2
    odd = LaplaceLaw(0.0, 10.0 / math.pi), LaplaceLaw(1.0, 10.0 / math.pi)
    incommensurable = tuple(SimpleNamespace(parts=(a, b)) for a, b in zip(LAPLACE, odd, strict=True))
    numeric = privacy_loss_distribution.from_laplace_mechanism(10.0, value_discretization_interval=1e-5).compose(
        privacy_loss_distribution.from_laplace_mechanism(10.0 / math.pi, value_discretization_interval=1e-5)
    )
    assert exact.epsilon(*incommensurable, 1e-2) == pytest.approx(numeric.get_epsilon_for_delta(1e-2), rel=1e-6)
    with pytest.raises(exact.NotKnownError, match=r"lies between 0\.414\d* and 0\.4142"):
        exact.epsilon(*incommensurable, 1e-6)
