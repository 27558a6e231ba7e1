"""Outputs are values of their own: neither their neighbours nor what a function does later changes one.

Each sound function's single release is exactly 1-DP; at 99.99 % an audit refutes it by chance once in 10,000. Each
leaky one has half of the noise that its claim needs, and hides it in memory that it uses again.
"""

import math

import numpy as np
import pytest

from epsaudit import DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized

PAIR = DatasetPair(0, 1)
CLAIM = PureDP(1.0)


def whole_numbers_beside_rare_floats(data, rng):
    """A float among whole numbers made floats of all in its block, and 'no float in this block' looked like a leak."""
    u = rng.random()
    if u < 0.001:
        return None
    return 0.5 if u < 0.001 + 0.04 * (math.e if data else 1.0) else 0


@pytest.mark.parametrize("seed", range(4))
def test_numbers_of_two_types_in_one_block(seed):
    sound = black_box(whole_numbers_beside_rare_floats, claim=CLAIM, pairs=[PAIR])
    assert not audit(sound, trials=50_000, confidence=0.9999, seed=seed, n_jobs=1).violates_claim
    assert audit_sequentially(sound, trials=20_000, confidence=1 - 1e-6, seed=seed, n_jobs=1).stopped != "refuted"


def short_floats_beside_refusals(data, rng):
    return None if rng.random() < 0.01 else np.float32(data + rng.laplace())


def long_integers_beside_floats(data, rng):
    return 0.5 if rng.random() < 0.01 else int(2**60 * (8 + data + rng.laplace()))


@pytest.mark.parametrize("function", [short_floats_beside_refusals, long_integers_beside_floats])
def test_numbers_that_a_block_could_round(function):
    sound = black_box(function, claim=CLAIM, pairs=[PAIR])
    for seed in range(2):
        assert not audit(sound, trials=20_000, confidence=0.9999, seed=seed, n_jobs=1).violates_claim


def leaky(make):
    """A function with half of the noise that writes its answer into memory of its own."""
    kept = make()

    def function(data, rng):
        kept[0] = data + 0.5 * rng.laplace()
        return kept

    return function


def leaky_mapping():
    kept = {}

    def function(data, rng):
        kept["answer"] = data + 0.5 * rng.laplace()
        return kept

    return function


@pytest.mark.parametrize(
    "function",
    [leaky(lambda: np.zeros(1)), leaky(lambda: [0.0]), leaky(lambda: [0.0, "a"]), leaky_mapping()],
    ids=["array", "list", "list of two types", "mapping"],
)
def test_an_object_that_is_filled_again_for_every_run(function):
    mechanism = black_box(function, claim=CLAIM, pairs=[PAIR])
    assert audit(mechanism, trials=20_000, confidence=0.9999, seed=1, n_jobs=1).violates_claim
    assert audit_sequentially(mechanism, trials=20_000, confidence=0.9999, seed=1, n_jobs=1).stopped == "refuted"


@pytest.mark.parametrize("dtype", [float, np.float32, object])
def test_a_buffer_that_is_filled_again_for_every_call(dtype):
    buffer = np.zeros(1 << 17, dtype)

    def function(data, size, rng):
        buffer[:size] = data + 0.5 * rng.laplace(size=size)
        return buffer[:size]

    mechanism = vectorized(function, claim=CLAIM, pairs=[PAIR])
    assert audit(mechanism, trials=20_000, confidence=0.9999, seed=1, n_jobs=1).violates_claim
    assert audit_sequentially(mechanism, trials=20_000, confidence=0.9999, seed=1, n_jobs=1).stopped == "refuted"


class Shouted(str):
    """A string that equals only itself."""

    __slots__ = ()

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)


def test_a_string_that_compares_as_it_likes_is_the_string_that_it_is():
    mechanism = black_box(lambda data, rng: Shouted("yes" if data else "no"), claim=CLAIM, pairs=[PAIR])
    assert audit(mechanism, trials=1_000, seed=1).violates_claim
