"""The Tukey mean: regions against brute force, stability, exact delta on the line and in the plane, and its draws."""

import itertools
import math

import numpy as np
import pytest

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


def neighbours(seed, n, d, spread):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.where(rng.random((n, 1)) < spread, 1.0, 0.05)
    x_prime = x.copy()
    x_prime[rng.integers(n)] = rng.normal(size=d) * rng.choice([0.0, 1.0, 100.0])
    return x, x_prime


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


def test_the_loss_of_nested_laws_is_that_of_their_densities():
    """Two squares that overlap, against a sum over the cells by hand."""
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    one = NestedLaw([Polygon(square)], 1.0, 2, 0.0, -math.inf)
    other = NestedLaw([Polygon(square + np.array([1.0, 0.0]))], 1.0, 2, 0.0, -math.inf)
    assert exact.delta(one, other, 1.0) == pytest.approx(0.5)
    line = [NestedLaw([Interval(0.0, high)], 1.0, 1, 0.0, -math.inf) for high in (1.0, 2.0)]
    assert exact.delta(*line, 0.0) == pytest.approx(0.5)
