"""Propose-test-release: distances against enumeration, exact delta on all neighbours, and the published mode."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.selection import PublishedMode
from epsaudit.mechanisms.stability import ProposeTestRelease, StableMedian, StableMode

GRID = (0, 1, 2, 4, 5)


def changes(x, y):
    return (Counter(x) - Counter(y)).total()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_distances_of_the_median_against_enumeration(size):
    median = StableMedian(0.0, 5.0)
    datasets = list(itertools.combinations_with_replacement(GRID, size))
    sensitivity = {x: max(abs(median(x) - median(y)) for y in datasets if changes(x, y) <= 1) for x in datasets}
    for x in datasets:
        for bound in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0):
            unstable = [changes(x, y) for y in datasets if sensitivity[y] > bound]
            assert median.distance(x, bound) == min(unstable, default=math.inf)


def test_neighbours_have_distances_within_one():
    rng = np.random.default_rng(0)
    for median in (StableMedian(), StableMedian(0.0, 20.0)):
        for _ in range(300):
            x = rng.integers(0, 20, 9)
            x_prime = x.copy()
            x_prime[rng.integers(9)] = rng.integers(0, 20)
            bound = float(rng.integers(0, 6))
            one, other = median.distance(x, bound), median.distance(x_prime, bound)
            assert one == other or abs(one - other) <= 1


@pytest.mark.parametrize("size", [3])
def test_ptr_of_the_median_holds_on_all_neighbours(size):
    mechanism = ProposeTestRelease(StableMedian(0.0, 5.0), 0.8, 0.05, bound=1.0)
    datasets = list(itertools.combinations_with_replacement(GRID, size))
    deltas = [
        exact.delta(mechanism(x), mechanism(y), mechanism.claim.epsilon)
        for x, y in itertools.combinations(datasets, 2)
        if changes(x, y) == 1
    ]
    assert 0.015 < max(deltas) <= 0.05


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_mode_holds_on_all_neighbours_and_as_published_does_not_above_log_two(epsilon):
    datasets = [d for n in range(7) for d in itertools.combinations_with_replacement("abc", n)]
    pairs = [
        (x, y)
        for x, y in itertools.combinations(datasets, 2)
        if abs(len(x) - len(y)) == 1 and StableMode().adjacency.holds(x, y)
    ]
    delta = {}
    for query in (StableMode(), PublishedMode()):
        mechanism = ProposeTestRelease(query, epsilon, 0.01)
        delta[type(query)] = max(exact.delta(mechanism(x), mechanism(y), epsilon) for x, y in pairs)
    assert delta[StableMode] == pytest.approx(0.005)
    assert delta[PublishedMode] == pytest.approx(0.005 * math.exp(epsilon))
    assert (delta[PublishedMode] > 0.01) == (epsilon > math.log(2.0))
