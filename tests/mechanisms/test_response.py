"""Randomised response: attains its claim on every pair, and the tight conversions from pure DP for two answers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import AuditError, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.additive import HadamardWithCoin
from epsaudit.mechanisms.response import HadamardResponse, RandomisedResponse, ResponseLaw


@given(st.floats(0.01, 8.0), st.integers(2, 9))
def test_every_pair_of_answers_attains_the_claim(epsilon, answers):
    mechanism = RandomisedResponse(epsilon, answers)
    for a, b in itertools.permutations(range(answers), 2):
        losses = mechanism((a,)).log_probabilities - mechanism((b,)).log_probabilities
        assert np.max(losses) == pytest.approx(epsilon, rel=1e-9)
    assert np.exp(mechanism((0,)).log_probabilities).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_two_answers_attain_the_tight_conversions(epsilon):
    # differentialprivacy.org, 'Tight RDP & zCDP bounds from pure DP', Theorems 4 and 5
    mechanism = RandomisedResponse(epsilon)
    laws = mechanism((0,)), mechanism((1,))
    for order in (1.5, 2.0, 10.0):
        sines = math.sinh(order * epsilon) - math.sinh((order - 1.0) * epsilon)
        expected = math.log(sines / math.sinh(epsilon)) / (order - 1.0)
        assert exact.renyi(*laws, order) == pytest.approx(expected, rel=1e-9)
    pure, concentrated = mechanism.claims
    assert exact.exact_parameter(pure, *laws) == pytest.approx(epsilon)
    assert exact.exact_parameter(concentrated, *laws) == pytest.approx(epsilon * math.tanh(epsilon / 2), rel=1e-6)


def test_what_is_no_answer_has_no_probability():
    assert ResponseLaw(0, 2, 0.75).log_density(np.array([-1.0, 0.5, 2.0])).tolist() == [-math.inf] * 3


@pytest.mark.parametrize("dataset", [(), (0, 1), (2,), ("yes",)])
def test_a_dataset_is_one_answer(dataset):
    with pytest.raises(AuditError, match="must be one answer from 0 to 1"):
        RandomisedResponse(1.0)(dataset)


@pytest.mark.parametrize("answers", [1, 2.5, "two"])
def test_a_wrong_number_of_answers_is_a_sentence(answers):
    with pytest.raises(AuditError, match="number of answers is"):
        RandomisedResponse(1.0, answers)


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
