"""Counts on an asinh scale: the group-wise claim at every size, its error, and claims that are too small."""

import pytest

from epsaudit import DatasetPair, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.accounting import AsinhCountsBySlope, GroupCountsAsGaussian
from epsaudit.mechanisms.groups import AsinhCounts, renyi_per_group

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


@pytest.mark.slow
def test_losses_that_are_too_small_are_refuted(drawn):
    slope = AsinhCountsBySlope(0.5, 2.0)
    assert exact.exact_parameter(slope.claim, slope((0,)), slope((1,))) == pytest.approx(0.2605104)
    gaussian = GroupCountsAsGaussian(0.5, 1.0, size=6)
    assert renyi_per_group(gaussian((5,)), [1.0])[0] > 3.0 * gaussian.claim.rho
    for mechanism in (slope, gaussian):
        pair = mechanism.worst_pairs()[0]
        assert audit(drawn(mechanism), pair, claim=mechanism.claim, trials=30_000, seed=1, n_jobs=1).violates_claim
