"""The Tukey mean: regions against brute force, stability, exact delta on the line and in the plane, and its draws."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import AuditError
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.tukey_mean import Interval, NestedLaw, Polygon, TukeyMean, depth_regions


def depth(y, points):
    """By definition, over closed half-planes through y: those just beside a point suffice."""
    if points.shape[1] == 1:
        return min(np.sum(points <= y), np.sum(points >= y))
    angles = np.arctan2(*(points - y).T) + math.pi / 2.0
    turns = np.concatenate([angles + side for side in (-1e-9, 1e-9, math.pi - 1e-9, math.pi + 1e-9)])
    normals = np.column_stack([np.sin(turns), np.cos(turns)])
    return int((normals @ (points - y).T >= 0.0).sum(axis=1).min())


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("n", [3, 9, 20])
def test_regions_hold_the_points_of_their_depth(d, n):
    rng = np.random.default_rng(n)
    points = rng.standard_t(2.0, (n, d))
    regions = depth_regions(points)
    for y in rng.normal(size=(200, d)):
        assert sum(bool(region.contains(y[None])[0]) for region in regions) == depth(y, points)


def test_regions_of_points_on_a_line_or_at_one_place_have_no_volume():
    assert depth_regions(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])) == []
    assert depth_regions(np.ones((5, 2))) == []
    assert depth_regions(np.ones((5, 1))) == []


def neighbours(seed, n, d, spread):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.where(rng.random((n, 1)) < spread, 1.0, 0.05)
    x_prime = x.copy()
    x_prime[rng.integers(n)] = rng.normal(size=d) * rng.choice([0.0, 1.0, 100.0])
    return x, x_prime


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 1.0]))
def test_exact_delta_holds_on_the_line(seed, spread):
    """Theorem 2; stability moves by 1 at most."""
    mechanism = TukeyMean(3.0, 0.02, dimension=1)
    x, x_prime = neighbours(seed, 60, 1, spread)
    assert abs(mechanism.stability(x) - mechanism.stability(x_prime)) <= 1
    assert exact.delta(mechanism(x), mechanism(x_prime), 3.0) <= 0.02


@pytest.mark.parametrize("seed", range(8))
def test_stability_is_as_defined(seed):
    """The greatest h < t for which some g has e^(-a g) V_(t-h) <= eta V_(t+g+h) > 0, by loops."""
    mechanism = TukeyMean(3.0, 0.02, dimension=1)
    x, _ = neighbours(seed, 60, 1, [0.0, 0.3, 1.0][seed % 3])
    volume = dict(enumerate((region.volume for region in depth_regions(x)), start=1))
    t, a = mechanism.depth(60), (1.5 + math.log(0.99)) / 2.0
    found = [
        h
        for h in range(t)
        if any(
            math.exp(-a * g) * volume[t - h] <= 0.01 * volume[t + g + h]
            for g in range(60)
            if volume.get(t + g + h, 0.0) > 0.0
        )
    ]
    assert mechanism.stability(x) == max(found, default=-1)


def test_the_parts_of_the_claim_add_up():
    """Theorem 2: 2 a - log(1 - eta) and the test's epsilon, eta and the test's delta."""
    mechanism = TukeyMean(3.0, 0.02, dimension=2)
    assert 2.0 * mechanism.rate - math.log(1.0 - mechanism.edge) + mechanism.test.epsilon == pytest.approx(3.0)
    assert mechanism.edge + mechanism.test.delta == pytest.approx(0.02)
    assert mechanism.test.sensitivity == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_exact_delta_holds_in_the_plane(seed):
    mechanism = TukeyMean(6.0, 0.05, dimension=2)
    x, x_prime = neighbours(seed, 36, 2, 0.5 + seed % 2)
    assert abs(mechanism.stability(x) - mechanism.stability(x_prime)) <= 1
    assert exact.delta(mechanism(x), mechanism(x_prime), 6.0) <= 0.05


def test_exact_delta_holds_on_all_neighbours_on_a_grid():
    """Ten records at three places, where many regions have no volume, with a mechanism that ten records can pass."""
    mechanism = TukeyMean(8.0, 0.3, dimension=1, share=0.2)
    datasets = [np.array(x, float)[:, None] for x in itertools.combinations_with_replacement((0, 1, 3), 10)]
    laws = [mechanism(x) for x in datasets]
    assert max(law.log_passes for law in laws) > -3.0
    for (x, law), (y, other) in itertools.combinations(zip(datasets, laws, strict=True), 2):
        if mechanism.adjacency.holds(x, y):
            assert exact.delta(law, other, 8.0) <= 0.3


def test_without_the_test_one_record_shows():
    """All volume goes, with one record: the reason for the test."""
    x = np.repeat([[0.0], [1.0]], 10, axis=0)
    x_prime = x.copy()
    x_prime[0] = 1.0
    regions, regions_prime = (depth_regions(data)[9:] for data in (x, x_prime))
    assert len(regions) == 1
    assert regions_prime == []
    assert TukeyMean(8.0, 0.3, share=0.45).stability(x) <= 0


@pytest.mark.parametrize("d", [1, 2])
def test_draws_follow_the_density(d):
    """Shares of the draws at each depth within 5 standard errors: a false alarm in 10^5."""
    mechanism = TukeyMean(6.0, 0.05, dimension=d)
    law = mechanism(np.random.default_rng(d).normal(size=(48, d)))
    assert law.log_passes > -1.0
    draws = law.sample(100_000, np.random.default_rng(0))
    refused = np.isnan(draws).any(axis=1)
    volumes = np.append(law.volumes, 0.0)
    inside = np.exp(np.arange(len(law.regions)) * law.rate) * (volumes[:-1] - volumes[1:])
    expected = math.exp(law.log_passes) * inside / inside.sum()
    depths = sum(region.contains(draws[~refused]).astype(int) for region in law.regions)
    seen = np.bincount(depths - 1, minlength=len(expected)) / len(draws)
    assert np.all(np.abs(seen - expected) <= 5.0 * np.sqrt(expected / len(draws)) + 1e-9)
    assert abs(refused.mean() - math.exp(law.log_refuses)) < 5.0 * 0.5 / math.sqrt(len(draws))
    assert np.isfinite(law.log_density(draws)).all()


def test_stability_and_loss_do_not_change_under_affine_maps():
    mechanism = TukeyMean(6.0, 0.05, dimension=2)
    x, x_prime = neighbours(1, 36, 2, 1.0)
    change, shift = np.array([[1e3, 2.0], [0.0, 1e-3]]), np.array([7.0, -1.0])
    deltas = [
        exact.delta(mechanism(one), mechanism(other), 1.0)
        for one, other in ((x, x_prime), (x @ change.T + shift, x_prime @ change.T + shift))
    ]
    assert mechanism.stability(x) == mechanism.stability(x @ change.T + shift)
    assert deltas[0] > 0.0
    assert deltas[1] == pytest.approx(deltas[0], rel=1e-6)


def test_the_loss_of_nested_laws_is_that_of_their_densities():
    """Two squares that overlap, against a sum over the cells by hand."""
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    one = NestedLaw([Polygon(square)], 1.0, 2, 0.0, -math.inf)
    other = NestedLaw([Polygon(square + np.array([1.0, 0.0]))], 1.0, 2, 0.0, -math.inf)
    assert exact.delta(one, other, 1.0) == pytest.approx(0.5)
    line = [NestedLaw([Interval(0.0, high)], 1.0, 1, 0.0, -math.inf) for high in (1.0, 2.0)]
    assert exact.delta(*line, 0.0) == pytest.approx(0.5)


def test_errors_are_sentences():
    with pytest.raises(AuditError, match="known here for 1 and 2"):
        TukeyMean(1.0, 0.01, dimension=3)
    with pytest.raises(AuditError, match="share"):
        TukeyMean(1.0, 0.01, dimension=2, share=0.4)
    with pytest.raises(AuditError, match="the test needs at least"):
        TukeyMean(1.0, 0.01)(np.zeros((10, 1)))
    with pytest.raises(AuditError, match="must be smaller"):
        TukeyMean(0.1, 0.5)
