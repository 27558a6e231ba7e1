"""Counts with proportional noise: the law and its loss against direct integration, and what rho-zCDP implies."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from epsaudit import ZCDP, RenyiDP, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.groups import GroupCounts, NoisyTwiceLaw, renyi_per_group

SIGMA, RELATIVE, RHO = 10.0, 0.3, 0.005
COUNTS = [0.0, 5.0, 50.0, 119.0, 121.0, 1000.0]


def law_of(count):
    return NoisyTwiceLaw(count, SIGMA, RELATIVE)


def direct_density(count, output):
    """Density of X (1 + r N) by adaptive integration over X, split wherever the integrand bends."""

    def integrand(z):
        if z == 0.0:
            return 0.0
        exponent = ((z - count) / SIGMA) ** 2 + ((output / z - 1.0) / RELATIVE) ** 2
        return math.exp(-0.5 * exponent) / (2.0 * math.pi * SIGMA * RELATIVE * abs(z))

    ends = sorted({count - 200, count - 60, count - 20, 0.0, output, count, count + 20, count + 60, count + 200})
    return sum(quad(integrand, a, b, epsabs=1e-16, epsrel=1e-11, limit=400)[0] for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize("count", COUNTS)
def test_densities_and_losses_against_direct_integration(count):
    outputs = np.array([0.7 * count - 3.0, count + 1.0, count + 40.0, -5.0])
    expected = np.array([direct_density(count, output) for output in outputs])
    more = np.array([direct_density(count + 1.0, output) for output in outputs])
    log_density, loss = law_of(count).loss(outputs)
    common = expected > 1e-12  # direct integration has absolute errors
    assert np.exp(log_density[common]) == pytest.approx(expected[common], rel=1e-9)
    assert loss[common] == pytest.approx(np.log(more[common] / expected[common]), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("count", [1000.0])
def test_no_order_exceeds_the_first_noise(count):
    orders = np.array([1.0, 1.5, 2.0, 8.0, 64.0])
    divergences = renyi_per_group(law_of(count), orders)
    assert np.all(np.diff(divergences) > 0.0)
    assert np.all(divergences <= orders * RHO)


def test_the_exact_parameter_agrees():
    mechanism = GroupCounts(RHO, RELATIVE)
    sides = mechanism((1000,)), mechanism((1001,))
    assert exact.exact_parameter(RenyiDP(4.0, 0.0), *sides) == pytest.approx(
        renyi_per_group(sides[0], [4.0])[0], rel=1e-5
    )


@pytest.mark.slow
def test_the_exact_rho_of_a_small_group_is_the_greatest_divergence_over_its_order():
    """About the pole at 0, too; eight seconds. The order is about 1.15."""
    sides = [GroupCounts(0.5, RELATIVE)((size,)) for size in (0, 1)]
    orders = np.linspace(1.0, 1.4, 81)
    rho = exact.exact_parameter(ZCDP(0.5), *sides)
    assert rho == pytest.approx(np.max(renyi_per_group(sides[0], orders) / orders), rel=1e-6)
    assert 0.46 < rho < 0.5


def test_a_second_noise_that_is_forgotten_in_the_first_is_refuted(drawn):
    class TooLittle(GroupCounts):
        @property
        def sigma(self):
            return super().sigma / 2.0

    mechanism = TooLittle(0.5, RELATIVE)
    result = audit(drawn(mechanism), mechanism.pair, claim=mechanism.claim, trials=60_000, seed=1)
    assert result.violates_claim
