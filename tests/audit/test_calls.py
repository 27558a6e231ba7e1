"""Functions with a seed are audited like others."""

import random

import numpy as np
import pytest

from epsaudit import AuditError, PureDP, audit, audit_sequentially, black_box, vectorized

PAIR = ([1], [1, 2])


def made(epsilon):
    def count(people, seed):
        rng = random.Random(seed)
        return len(people) + (rng.expovariate(epsilon) - rng.expovariate(epsilon))

    return black_box(count, claim=PureDP(1.0), pairs=[PAIR])


def test_half_the_noise_is_refuted_the_right_one_is_not_and_both_are_reproducible():
    mechanisms = made(1.0), made(2.0)
    right, wrong = (audit(one, trials=1_500, confidence=0.999, seed=1, n_jobs=1) for one in mechanisms)
    assert not right.violates_claim
    assert wrong.violates_claim
    assert wrong.reproducible
    assert wrong.mechanism == "count"
    assert audit(mechanisms[1], trials=1_500, confidence=0.999, seed=1, n_jobs=1).counts == wrong.counts


def noise(seed):
    rng = random.Random(seed)
    return rng.expovariate(1.0) - rng.expovariate(1.0)


def by_generator(people, *, random_state=None):
    return len(people) + np.random.default_rng(random_state).laplace()


def annotated(people, seed: np.random.Generator):
    return len(people) + seed.laplace()


def block(people, size, seed=0):
    return len(people) + np.random.default_rng(seed).laplace(size=size)


@pytest.mark.parametrize(
    "function",
    [
        lambda people, seed: len(people) + noise(seed),
        lambda people, seed=0: len(people) + noise(seed),
        by_generator,
        annotated,
        block,
    ],
)
def test_a_function_gets_its_seed_or_its_generator_as_its_signature_says(function):
    """A right mechanism is refuted with probability 1e-6; without fresh seeds all of these raise, or are constant."""
    once, again = (
        audit_sequentially(function, PAIR, epsilon=1.0, trials=600, confidence=1 - 1e-6, seed=3, n_jobs=1)
        for _ in range(2)
    )
    assert not once.violates_claim
    assert once.detectable < 3.0  # so it was no constant
    assert once.reproducible
    assert once.notes == ()
    assert once.counts == again.counts


def test_seeds_are_fresh_each_run_whole_and_from_the_stream():
    seeds = black_box(lambda people, seed: float(seed))([]).sample(100, np.random.default_rng(5))
    assert len(set(seeds.tolist())) == 100
    assert 0 <= seeds.min() < 2**30 < seeds.max() < 2**32
    assert (seeds == np.random.default_rng(5).integers(2**32, size=100)).all()
    assert vectorized(lambda people, size, seed: [seed] * size)([]).sample(2, np.random.default_rng(5))[0] == seeds[0]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda people, rng, seed=None: 0, "takes 'rng' and 'seed', and gets its randomness by one of them"),
        (lambda people, *, seed, random_state: 0, "takes 'seed' and 'random_state'"),
    ],
)
def test_two_sources_of_randomness_are_refused(function, words):
    with pytest.raises(AuditError, match=words):
        black_box(function)
