"""Counts on an asinh scale: the group-wise claim at every size, its error, and claims that are too small."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from epsaudit import ZCDP, AuditError, DatasetPair, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.accounting import AsinhCountsBySlope, GroupCountsAsGaussian
from epsaudit.mechanisms.groups import AsinhCounts, GroupCounts, GroupwiseZCDP, renyi_per_group

SIZES = (1, 2, 5, 30, 1000, 10_000)


@pytest.mark.parametrize("size", SIZES)
def test_the_claim_at_every_size_is_the_exact_value(size):
    mechanism = AsinhCounts(0.5, 0.3)
    pair = DatasetPair((7, size - 1), (7, size))
    claim = mechanism.groupwise.at(pair)
    laws = (mechanism((size - 1,)), mechanism((size,)))
    assert exact.exact_parameter(claim, *laws) == pytest.approx(claim.rho, rel=1e-9)
    step = mechanism.transformed(size) - mechanism.transformed(size - 1)
    assert claim.rho == pytest.approx(step**2 * mechanism.rho, rel=1e-6)


@given(st.floats(1e-4, 10.0), st.floats(0.05, 3.0), st.integers(0, 10**9))
def test_larger_groups_lose_less_and_none_more_than_rho(rho, relative, size):
    mechanism = AsinhCounts(rho, relative)
    assert 0.0 < mechanism.loss(size + 1) <= mechanism.loss(size) <= rho * (1 + 1e-12)


def test_large_groups_lose_what_their_relative_error_says():
    mechanism = AsinhCounts(0.005, 0.3)
    assert mechanism.loss(10_000) == pytest.approx(1.0 / (2.0 * 0.3**2 * 10_000**2), rel=1e-3)
    algorithm_1 = renyi_per_group(GroupCounts(0.005, 0.3)((1000,)), [3000.0], both=False)[0] / 3000.0
    assert mechanism.loss(1000) < algorithm_1 / 300.0


@pytest.mark.parametrize("size", [0, 1, 20, 500])
def test_counts_are_unbiased_and_their_error_is_as_computed(size):
    mechanism = AsinhCounts(0.02, 0.4)
    centre = mechanism((size,)).centre

    def mean(function):
        def integrand(z):
            return function(float(mechanism.counts(centre + mechanism.sigma * z))) * norm.pdf(z)

        return quad(integrand, -12.0, 12.0, limit=200, points=[0.0])[0]

    assert mean(lambda count: count - size) == pytest.approx(0.0, abs=1e-6)
    assert mean(lambda count: abs(count - size)) == pytest.approx(mechanism.expected_error(size), rel=1e-6)
    drawn = np.abs(mechanism.counts(mechanism((size,)).sample(100_000, np.random.default_rng(size))) - size)
    assert abs(drawn.mean() - mechanism.expected_error(size)) < 5.0 * drawn.std() / math.sqrt(100_000)
    # no unbiased count of that variance can lose much less: Hammersley-Chapman-Robbins
    variance = mean(lambda count: (count - size) ** 2)
    assert mechanism.loss(size) >= 0.5 * math.log1p(1.0 / variance)


@pytest.mark.parametrize("error", [0.05, 0.3])
def test_calibrated_relative_error(error):
    mechanism = AsinhCounts.calibrated(0.005, error)
    assert mechanism.expected_error(10**7) / 10**7 == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize("size", [1, 5, 10])
def test_audits_at_each_size_come_close_to_the_claim_and_not_above(size):
    """99.9 % confidence each: a false refutation has probability 3e-3 for all three."""
    mechanism = AsinhCounts(0.5, 0.3)
    pair = DatasetPair((size - 1,), (size,))
    claim = mechanism.groupwise.at(pair)
    result = audit(mechanism, pair, claim=claim, trials=30_000, confidence=0.999, seed=size, n_jobs=1)
    assert 0.3 * claim.rho < result.lower_bound <= claim.rho


@pytest.mark.nightly
def test_losses_that_are_too_small_are_refuted(drawn):
    slope = AsinhCountsBySlope(0.5, 2.0)
    assert exact.exact_parameter(slope.claim, slope((0,)), slope((1,))) == pytest.approx(0.2605104)
    gaussian = GroupCountsAsGaussian(0.5, 1.0, size=6)
    assert renyi_per_group(gaussian((5,)), [1.0])[0] > 3.0 * gaussian.claim.rho
    for mechanism in (slope, gaussian):
        pair = mechanism.worst_pairs()[0]
        assert audit(drawn(mechanism), pair, claim=mechanism.claim, trials=30_000, seed=1, n_jobs=1).violates_claim


def test_errors_are_sentences():
    claim = GroupwiseZCDP(lambda size: 1.0)
    assert claim.at(DatasetPair((1, 2), (1, 3))) == ZCDP(1.0)
    with pytest.raises(AuditError, match="not adjacent"):
        claim.at(DatasetPair((1, 2), (2, 3)))
    with pytest.raises(AuditError, match="none negative"):
        AsinhCounts(0.5, 0.3)((-1,))
    with pytest.raises(AuditError, match="relative error"):
        AsinhCounts(0.5, 0.0)
    with pytest.raises(AuditError, match="none or more"):
        AsinhCounts(0.5, 0.3).loss(-1)
    assert AsinhCounts(0.5, 0.3)((1, 2)).sample(3, np.random.default_rng(0)).shape == (3, 2)
