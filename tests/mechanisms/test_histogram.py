"""Stable histograms: laws against draws, exact delta through marginals, mappings as outputs, and what an audit sees."""

import itertools
import math

import pytest

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.histogram import StableHistogram


def test_a_new_key_shows_with_half_of_delta():
    mechanism = StableHistogram(0.7, 0.01)
    pair = mechanism.worst_pairs()[1]
    mechanism.adjacency.check(pair)
    with_key, without = (mechanism(x).marginal("b") for x in (pair.x, pair.x_prime))
    shows = -math.expm1(float(with_key.log_probabilities[0]))
    assert shows == pytest.approx(math.exp(-0.7 * (mechanism.threshold - 1.0)) / 2.0)
    assert exact.delta(with_key, without, 0.0) == pytest.approx(0.005)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_the_marginals_of_all_neighbours_respect_the_claim(epsilon):
    mechanism = StableHistogram(epsilon, 0.01)
    laws = [mechanism(("a",) * count).marginal("a") for count in range(25)]
    assert max(exact.delta(x, x_prime, epsilon) for x, x_prime in itertools.pairwise(laws)) <= 0.01
    assert exact.epsilon(laws[2], laws[1], 0.0) == pytest.approx(epsilon)


def test_exact_values_of_both_pairs():
    """A key that appears costs a delta of its own and no epsilon; keys that differ in no count cost nothing."""
    mechanism = StableHistogram(1.0, 1e-3)
    crowd, new_key = (
        exact.PrivacyProfile(mechanism(pair.x), mechanism(pair.x_prime)) for pair in mechanism.worst_pairs()
    )
    assert crowd.epsilon(1e-3) == pytest.approx(0.995, abs=1e-3)
    assert (new_key.epsilon(1e-3), new_key.delta(1.0)) == (0.0, pytest.approx(5e-4, rel=1e-9))
    assert math.isinf(new_key.epsilon(4e-4))
    same = exact.PrivacyProfile(mechanism(("a", "b")), mechanism(("b", "a")))
    assert same.delta(0.0) == 0.0
    # two keys that differ, as in no neighbours, are independent parts: twice the loss of one, nearly always released
    many = ("a",) * 40 + ("b",) * 40
    both = exact.PrivacyProfile(mechanism(many), mechanism(many[1:-1]))
    assert both.epsilon(0.0) == pytest.approx(2.0, rel=1e-6)
