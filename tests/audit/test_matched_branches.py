"""Bounds that match different outcomes of discrete draws: exact for sampling, and none if draws depend on the noise."""

import itertools
import math
import random

import numpy as np
import pytest
from upper_bound_cases import CASES

from epsaudit import ZCDP, ApproxDP, PureDP, bound_above
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.tools.tracing.alignment.matching import _least_epsilon_of_losses

TINY = PureDP(0.01)


def upper(function, x, x_prime, claim=TINY):
    """Return a bound; the claim is so small that other bounds, which suffice for larger claims, are not enough."""
    return bound_above(function, (x, x_prime), claim=claim, runs=200, seed=1, n_jobs=1)


AMPLIFIED = (
    "sampled count",
    "noisy random record",
    "sum of two records",
    pytest.param("sampled without replacement", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("name", AMPLIFIED)
def test_amplification_by_sampling_is_exact(name):
    (case,) = [one for one in CASES if one.name == name]
    found = upper(case.function, case.x, case.x_prime)
    assert found.certain
    assert found.upper_bound == pytest.approx(case.exact, rel=1e-6)


def test_a_response_may_come_from_the_other_branch():
    """Noise around a response: far from both centres the ratio of the densities is that of the response and its lie."""

    def noisy_response(d, rng):
        return (d if rng.random() < 0.75 else 1 - d) + rng.laplace(scale=0.1)

    exact = math.log((0.75 + 0.25 * math.exp(-10.0)) / (0.25 + 0.75 * math.exp(-10.0)))
    found = upper(noisy_response, 0, 1)
    assert found.certain
    assert found.upper_bound == pytest.approx(exact, rel=1e-6)
    assert upper(noisy_response, 0, 1, ApproxDP(0.01, 1e-9)).upper_bound == pytest.approx(exact, rel=1e-6)
    assert upper(noisy_response, 0, 1, ZCDP(0.01)).upper_bound == pytest.approx(exact * math.tanh(exact / 2.0))


def test_probabilities_that_depend_on_the_data_are_paid_for():
    def coin(d, rng):
        return int(rng.random() < (0.5 if d else 0.8)) + rng.laplace(scale=0.01)

    found = upper(coin, 0, 1)
    assert found.upper_bound == pytest.approx(math.log(2.5), rel=1e-6)


def test_draws_that_depend_on_the_noise_are_not_matched():
    """The coin is only thrown if the noise is positive, so that it tells the sign of the noise."""

    def late(d, rng):
        noisy = d + rng.laplace()
        return (rng.random() < 0.5) + rng.laplace(scale=0.1) if noisy > 0.0 else None

    def biased(d, rng):
        p = 0.9 if d + rng.laplace() > 0.0 else 0.1
        return (rng.random() < p) + rng.laplace(scale=0.1)

    positive = [1.0 - 0.5 * math.exp(-one) if one >= 0.0 else 0.5 * math.exp(one) for one in (-3.0, 3.0)]
    exact = math.log(positive[1] / positive[0])
    assert upper(late, -3.0, 3.0).upper_bound >= exact * (1.0 - 1e-9)
    heads = [0.9 * one + 0.1 * (1.0 - one) for one in positive]
    exact = math.log((heads[1] + math.exp(-10) * (1 - heads[1])) / (heads[0] + math.exp(-10) * (1 - heads[0])))
    assert upper(biased, -3.0, 3.0).upper_bound >= exact * (1.0 - 1e-9)


def test_probabilities_that_depend_on_the_noise_are_not_matched():
    """P[1] is 0.5 on x and 0.7 on x', although it is 0.9 on both if the noise is positive."""

    def by_sign(d, rng):
        p = 0.9 if rng.laplace() > 0.0 else 0.5 if d else 0.1
        return int(rng.choice(2, p=[1.0 - p, p]))

    assert upper(by_sign, 0, 1).upper_bound >= math.log(5.0 / 3.0)


def test_a_branch_without_a_partner_has_no_bound():
    def reveals(d, rng):
        return [rng.laplace(), random.choice(d)]

    found = upper(reveals, [0, 1], [0, 2])
    assert found.delta == pytest.approx(0.5), "the record that differs is left out"
    assert upper(reveals, [0, 1], [2, 3]).upper_bound == math.inf


@pytest.mark.parametrize("seed", range(20))
def test_the_program_is_the_exact_loss_of_discrete_laws(seed):
    """With losses of 0 where outputs are equal and no partner elsewhere, the least epsilon is the largest log ratio."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
    losses = np.where(np.eye(4) > 0.0, 0.0, math.inf)
    assert _least_epsilon_of_losses(losses, p, q) == pytest.approx(np.log(np.max(p / q)), rel=1e-9)
    assert _least_epsilon_of_losses(np.zeros((4, 4)), p, q) == pytest.approx(0.0, abs=1e-9)


def test_randomised_response_is_matched_exactly():
    law = [np.exp(RandomisedResponse(1.0)((one,)).log_probabilities) for one in (0, 1)]
    outputs = [[0, 1], [0, 1]]
    losses = [[0.0 if a == b else math.inf for b in outputs[1]] for a in outputs[0]]
    assert _least_epsilon_of_losses(np.array(losses), *law) == pytest.approx(1.0)
    both = list(itertools.product(outputs[0], repeat=2))  # two responses, of which one is for the record that differs
    joint = [np.array([one[a] * law[0][b] for a, b in both]) for one in law]
    losses = [[0.0 if a == b else math.inf for b in both] for a in both]
    assert _least_epsilon_of_losses(np.array(losses), *joint) == pytest.approx(1.0)
