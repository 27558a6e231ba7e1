"""Counts with proportional noise: the law and its loss against direct integration, and what rho-zCDP implies."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from epsaudit import ZCDP, AuditError, DatasetPair, GaussianDP, RenyiDP, audit
from epsaudit.claims.conversions import gaussian_to_zcdp
from epsaudit.mechanisms import exact, groups
from epsaudit.mechanisms.groups import GroupChange, GroupCounts, NoisyTwiceLaw, renyi_per_group

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


def test_far_outputs_change_hands_smoothly_too():
    """The two rules agree to ten digits where a small group's outputs pass from one to the other."""
    law = law_of(5.0)
    border = 400.0 * RELATIVE * SIGMA
    log_density, loss = law.loss(np.array([border * (1 - 1e-12), border, -border * (1 - 1e-12), -border]))
    assert log_density[::2] == pytest.approx(log_density[1::2], abs=1e-9)
    assert loss[::2] == pytest.approx(loss[1::2], rel=1e-8)


def test_the_law_changes_hands_smoothly_between_the_two_rules():
    """Near 12 standard deviations both integration rules give the same losses, to ten digits."""
    below, above = law_of(120.0 - 1e-9), law_of(120.0)
    outputs = np.linspace(-20.0, 300.0, 33)
    near, far = below.loss(outputs), above.loss(outputs)
    assert near[0] == pytest.approx(far[0], abs=1e-9)
    assert near[1] == pytest.approx(far[1], rel=1e-7, abs=1e-11)


@pytest.mark.parametrize("count", [0.0, 100.0, pytest.param(10_000.0, marks=pytest.mark.nightly)])
def test_draws_follow_the_law_and_not_its_variant(count):
    # p-values below 1e-6 fail
    law = law_of(count)
    drawn = law.sample(200_000, np.random.default_rng(3))
    edges = np.quantile(drawn, np.linspace(0.02, 0.98, 25))
    for other, follows in ((law, True), (NoisyTwiceLaw(count, 1.04 * SIGMA, 0.31), False)):
        chances = [
            quad(lambda y, other=other: math.exp(other.log_density(y)), a, b, points=[0.0] if a < 0 < b else None)[0]
            for a, b in itertools.pairwise(edges)
        ]
        counts = np.histogram(drawn, edges)[0]
        p_value = stats.chisquare(counts, np.array(chances) * counts.sum() / sum(chances)).pvalue
        assert bool(p_value > 1e-6) is follows


@pytest.mark.parametrize("count", [pytest.param(20.0, marks=pytest.mark.nightly), 1000.0])
def test_no_order_exceeds_the_first_noise(count):
    orders = np.array([1.0, 1.5, 2.0, 8.0, 64.0])
    divergences = renyi_per_group(law_of(count), orders)
    assert np.all(np.diff(divergences) > 0.0)
    assert np.all(divergences <= orders * RHO)


@pytest.mark.parametrize("count", [1000.0, 10_000.0, 100_000.0])
def test_large_groups_lose_like_a_gaussian_of_their_own_spread(count):
    """For large counts and moderate orders: location 1 / (2 r^2 x^2) and scale 1 / x^2, up to order 1 / x."""
    divergence = renyi_per_group(law_of(count), [1.0])[0]
    assert divergence == pytest.approx((1.0 / (2.0 * RELATIVE**2) + 1.0) / count**2, rel=3.0 / count + 3e2 / count**2)


@pytest.mark.parametrize("count", [0.0, 100.0, 1000.0])
def test_huge_orders_tend_to_half_of_rho_whatever_the_size(count):
    order = 100.0 * max(count, 10.0)
    assert renyi_per_group(law_of(count), [order], both=False)[0] / order == pytest.approx(RHO / 2.0, rel=0.05)


@pytest.mark.parametrize("count", [pytest.param(5.0, marks=pytest.mark.nightly), 1000.0, 100_000.0])
def test_divergences_are_known_to_eight_digits(monkeypatch, count):
    """Twice as fine a rule, one that reaches further, and a grid in place of the adaptive quadrature agree."""
    divergence = renyi_per_group(law_of(count), [2.0])[0]
    monkeypatch.setattr(groups, "_REACH", 12.0)
    monkeypatch.setattr(groups, "_STEP", 0.014)
    law = law_of(count)
    finer = renyi_per_group(law, [2.0])[0]
    assert finer == pytest.approx(divergence, rel=1e-8)
    if count > 100.0:
        outputs = np.linspace(count - 12.0 * law.scale, count + 12.0 * law.scale, 4001)
        log_p, loss = law.loss(outputs)
        excess = np.exp(log_p) * np.expm1(loss) ** 2  # r^2 - 1 - 2 (r - 1)
        forward = math.log1p(np.sum(excess) * (outputs[1] - outputs[0]))
        excess = np.exp(log_p + loss) * np.expm1(-loss) ** 2
        backward = math.log1p(np.sum(excess) * (outputs[1] - outputs[0]))
        assert max(forward, backward) == pytest.approx(divergence, rel=1e-8)


def test_the_exact_parameter_agrees():
    mechanism = GroupCounts(RHO, RELATIVE)
    sides = mechanism((1000,)), mechanism((1001,))
    assert exact.exact_parameter(RenyiDP(4.0, 0.0), *sides) == pytest.approx(
        renyi_per_group(sides[0], [4.0])[0], rel=1e-5
    )


@pytest.mark.nightly
def test_the_exact_rho_of_a_small_group_is_the_greatest_divergence_over_its_order():
    """About the pole at 0, too; eight seconds. The order is about 1.15."""
    sides = [GroupCounts(0.5, RELATIVE)((size,)) for size in (0, 1)]
    orders = np.linspace(1.0, 1.4, 81)
    rho = exact.exact_parameter(ZCDP(0.5), *sides)
    assert rho == pytest.approx(np.max(renyi_per_group(sides[0], orders) / orders), rel=1e-6)
    assert 0.46 < rho < 0.5


def test_small_groups_are_audited_in_rho_and_in_mu(drawn):
    mechanism = GroupCounts(0.5, RELATIVE)
    for claim in mechanism.claims:
        result = audit(drawn(mechanism), mechanism.pair, claim=claim, trials=60_000, seed=1)
        assert 0.5 * claim.parameter < result.lower_bound <= claim.parameter
    assert mechanism.claims == (ZCDP(0.5), GaussianDP(1.0))
    assert gaussian_to_zcdp(mechanism.claims[1].mu) == pytest.approx(0.5)


def test_a_second_noise_that_is_forgotten_in_the_first_is_refuted(drawn):
    class TooLittle(GroupCounts):
        @property
        def sigma(self):
            return super().sigma / 2.0

    mechanism = TooLittle(0.5, RELATIVE)
    result = audit(drawn(mechanism), mechanism.pair, claim=mechanism.claim, trials=60_000, seed=1)
    assert result.violates_claim


def test_several_groups_and_what_is_no_dataset():
    mechanism = GroupCounts(RHO, RELATIVE)
    assert mechanism((3, 1000)).sample(4, np.random.default_rng(0)).shape == (4, 2)
    GroupChange().check(DatasetPair((3, 1000), (3, 1001)))
    with pytest.raises(AuditError):
        GroupChange().check(DatasetPair((3, 1000), (4, 1001)))
    with pytest.raises(AuditError, match="none negative"):
        mechanism((-1,))
    with pytest.raises(AuditError, match="relative error is 0"):
        GroupCounts(RHO, 0.0)
