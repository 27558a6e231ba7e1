"""Randomised response: attains its claim on every pair, and the tight conversions from pure DP for two answers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.additive import HadamardWithCoin
from epsaudit.mechanisms.response import HadamardResponse, RandomisedResponse


@given(st.floats(0.01, 8.0), st.integers(2, 9))
def test_every_pair_of_answers_attains_the_claim(epsilon, answers):
    mechanism = RandomisedResponse(epsilon, answers)
    for a, b in itertools.permutations(range(answers), 2):
        losses = mechanism((a,)).log_probabilities - mechanism((b,)).log_probabilities
        assert np.max(losses) == pytest.approx(epsilon, rel=1e-9)
    assert np.exp(mechanism((0,)).log_probabilities).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("epsilon", "answers"), [(0.1, 2), (1.0, 12), (3.0, 100), (9.0, 12)])
def test_hadamard_response_is_private_unbiased_and_hides_in_clones(epsilon, answers):
    mechanism = HadamardResponse(epsilon, answers)
    chances = mechanism.chances
    assert chances.sum(axis=1) == pytest.approx(1.0)
    assert math.log(chances.max() / chances.min()) == pytest.approx(epsilon)
    shares = np.random.default_rng(0).dirichlet(np.ones(answers))
    assert mechanism.estimate(shares @ chances) == pytest.approx(shares, abs=1e-12)
    apart = max(np.maximum(one - other, 0.0).sum() for one in chances for other in chances)
    assert apart == pytest.approx(math.expm1(epsilon) / (math.exp(epsilon) + mechanism.clone_answers - 1.0))


def test_hadamard_response_with_a_coin_is_refuted():
    sound, broken = HadamardResponse(1.0, 12), HadamardWithCoin(1.0, 12)
    for mechanism, exceeds in ((sound, False), (broken, True)):
        (pair,) = mechanism.worst_pairs()
        assert (exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), 0.0) > 1.0 + 1e-9) == exceeds
        assert audit(mechanism, trials=20_000, seed=1, confidence=0.999).violates_claim == exceeds
