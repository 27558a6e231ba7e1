"""Smooth sensitivity: against enumeration, the hyperbolic loss of Cauchy noise, claims on all neighbours."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.local_sensitivity import NOTES_PAIR, POST_PAIR, LaplaceAtLocalSensitivity
from epsaudit.mechanisms.stability import (
    CauchyLaw,
    SmoothMedianCauchy,
    SmoothMedianLaplace,
    StableMedian,
    smooth_sensitivity,
)

UNIT = StableMedian(0.0, 1.0)
GRID = (0.0, 0.05, 0.2, 0.7, 1.0)


def changes(x, y):
    return (Counter(x) - Counter(y)).total()


def neighbours(size):
    datasets = list(itertools.combinations_with_replacement(GRID, size))
    return [(x, y) for x, y in itertools.combinations(datasets, 2) if changes(x, y) == 1]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("beta", [0.1, 0.7, 3.0])
def test_smooth_sensitivity_against_enumeration(size, beta):
    datasets = list(itertools.combinations_with_replacement(GRID, size))
    local = {x: max(abs(UNIT(x) - UNIT(y)) for y in datasets if changes(x, y) <= 1) for x in datasets}
    for x in datasets:
        reference = max(local[y] * math.exp(-beta * changes(x, y)) for y in datasets)
        assert smooth_sensitivity(UNIT, x, beta) == pytest.approx(reference, rel=1e-12)


def test_smooth_sensitivity_is_smooth_on_larger_data():
    rng = np.random.default_rng(1)
    for _ in range(200):
        x = rng.random(41)
        x_prime = x.copy()
        x_prime[rng.integers(41)] = rng.random()
        one, other = (smooth_sensitivity(UNIT, data, 0.2) for data in (x, x_prime))
        assert abs(math.log(one / other)) <= 0.2 + 1e-12
        assert min(one, other) >= abs(UNIT(x) - UNIT(x_prime)) - 1e-12


def test_the_loss_of_cauchy_laws_is_the_hyperbolic_distance():
    rng = np.random.default_rng(2)
    for _ in range(20):
        one, other = (CauchyLaw(float(rng.normal()), float(np.exp(rng.normal()))) for _ in range(2))
        gap = (one.centre - other.centre) ** 2 + (one.scale - other.scale) ** 2
        distance = math.acosh(1.0 + gap / (2.0 * one.scale * other.scale))
        assert exact.epsilon(one, other, 0.0) == pytest.approx(distance, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_cauchy_noise_is_pure_on_all_neighbours_and_attains_it(epsilon):
    mechanism = SmoothMedianCauchy(UNIT, epsilon)
    losses = []
    for x, x_prime in [*neighbours(1), *neighbours(3), *neighbours(5)]:
        one, other = mechanism(x), mechanism(x_prime)
        gap = (one.centre - other.centre) ** 2 + (one.scale - other.scale) ** 2
        losses.append(math.acosh(1.0 + gap / (2.0 * one.scale * other.scale)))
    assert 0.97 * epsilon < max(losses) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3)])
def test_laplace_noise_is_approximately_private_on_all_neighbours(epsilon, delta):
    mechanism = SmoothMedianLaplace(UNIT, epsilon, delta)
    pairs = [*neighbours(1), *neighbours(3)]
    assert max(exact.delta(mechanism(x), mechanism(y), epsilon) for x, y in pairs) <= delta
    pair = mechanism.worst_pairs()[0]
    assert exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), delta) > 0.5 * epsilon


@pytest.mark.parametrize("pair", [POST_PAIR, NOTES_PAIR], ids=["post", "notes"])
def test_noise_at_the_local_sensitivity_tells_everything(pair):
    mechanism = LaplaceAtLocalSensitivity(1.0, pair)
    mechanism.adjacency.check(pair)
    assert exact.delta(mechanism(pair.x), mechanism(pair.x_prime), 30.0) == pytest.approx(1.0)
