"""Propose-test-release: distances against enumeration, exact delta on all neighbours, and the published mode."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from epsaudit import AuditError
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.selection import PublishedMode, UntestedRelease
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


def test_in_the_reals_no_median_is_farther_than_half_its_records():
    assert StableMedian().distance((7.0,) * 9, 1e9) == StableMedian().distance((7.0,) * 10, 1e9) == 4.0
    assert StableMedian(0.0, 10.0).distance((7.0,) * 9, 10.0) == math.inf


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


def test_the_example_of_the_notes_has_an_even_number_of_records():
    """Zeros just over and just half of them, else 10^6: both medians are 0, local sensitivities 0 and 10^6."""
    median, stable, unstable = StableMedian(), (0,) * 6 + (10**6,) * 4, (0,) * 5 + (10**6,) * 5
    assert median(stable) == median(unstable) == 0.0
    assert [median.distance(data, 10**6 - 1.0) for data in (stable, unstable)] == [1.0, 0.0]


@pytest.mark.parametrize("size", [3, pytest.param(4, marks=pytest.mark.nightly)])
def test_ptr_of_the_median_holds_on_all_neighbours(size):
    mechanism = ProposeTestRelease(StableMedian(0.0, 5.0), 0.8, 0.05, bound=1.0)
    datasets = list(itertools.combinations_with_replacement(GRID, size))
    deltas = [
        exact.delta(mechanism(x), mechanism(y), mechanism.claim.epsilon)
        for x, y in itertools.combinations(datasets, 2)
        if changes(x, y) == 1
    ]
    assert 0.015 < max(deltas) <= 0.05


def test_the_worst_pair_nearly_attains_both_losses():
    mechanism = ProposeTestRelease(StableMedian(), 0.5, 1e-3, bound=1.0)
    pair = mechanism.worst_pairs()[0]
    mechanism.adjacency.check(pair)
    assert 0.99 < exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), 1e-3) <= 1.0


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


def test_mode_of_any_keys_and_of_nobody():
    query = StableMode()
    assert query((("x", 1), None, None)) is None
    assert query((1, "1", 1.5, 1)) == 1
    assert query(()) == "nobody"
    assert query(("b", "a")) == query(("a", "b")) == "a"
    assert query.distance((), 0.0) == 0.0


def test_mixture_law_draws_and_densities_agree():
    """A binomial and a normal deviate of 5 standard errors: a false alarm in 10^6; the variant never refuses."""
    mechanism = ProposeTestRelease(StableMedian(), 0.5, 1e-3, bound=1.0)
    law = mechanism(mechanism.worst_pairs()[0].x)
    draws = law.sample(200_000, np.random.default_rng(2))
    refused = np.array([y is None for y in draws.tolist()])
    share = math.exp(law.log_refuses)
    assert abs(refused.mean() - share) < 5 * math.sqrt(share * (1 - share) / 200_000)
    numbers = draws[~refused].astype(float)
    assert abs(np.abs(numbers - law.answer.centre).mean() - law.scale) < 5 * law.scale / math.sqrt(len(numbers))
    assert np.all(np.isfinite(law.log_density(draws)))
    variant = UntestedRelease(StableMedian(), 0.5, 1e-3, bound=1.0)
    pair = variant.worst_pairs()[0]
    assert exact.delta(variant(pair.x), variant(pair.x_prime), 1.0) == 1.0


def test_errors_are_sentences():
    with pytest.raises(AuditError, match="at least one"):
        StableMedian()(())
    with pytest.raises(AuditError, match="none of them NaN"):
        StableMedian()((1.0, math.nan, 2.0))
    with pytest.raises(AuditError, match="lower end"):
        StableMedian(1.0, 1.0)
    with pytest.raises(AuditError, match="proposed bound"):
        ProposeTestRelease(StableMode(), 1.0, 0.1, bound=-1.0)
