"""Any function becomes a mechanism, whatever it returns or raises, and a wrong one is refused in a sentence."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import AuditError, DatasetPair, Mechanism, OutputDistribution, PureDP, audit, black_box, vectorized
from epsaudit.outputs.arrays import pack
from epsaudit.outputs.normal_form import Raised
from epsaudit.running.drawing import draw

SEED = 11


def noisy_count(dataset, rng):
    return len(dataset) + rng.laplace()


def noisy_counts(dataset, size, rng):
    return len(dataset) + rng.laplace(size=size)


# Adapters


@pytest.mark.parametrize("mechanism", [black_box(noisy_count), vectorized(noisy_counts)], ids=["one", "many"])
def test_a_function_becomes_a_mechanism(mechanism):
    distribution = mechanism((1, 2, 3))
    assert isinstance(mechanism, Mechanism)
    assert isinstance(distribution, OutputDistribution)
    assert mechanism.reproducible
    first, again, other = (distribution.sample(50, np.random.default_rng(seed)) for seed in (SEED, SEED, SEED + 1))
    assert first.shape == (50,)
    assert first.dtype == float
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_an_exception_is_never_hidden_behind_a_score():
    def raises_on_the_first(data, rng):
        if data == 0:
            raise ValueError("nobody")
        return rng.laplace(size=6).tolist()

    mechanism = black_box(raises_on_the_first, claim=PureDP(1.0))
    result = audit(mechanism, [DatasetPair(0, 1)], trials=4_000, seed=1)
    assert str(result.witness) == "{raises} for x, {does not raise} for x'"


def test_an_exception_is_an_outcome():
    def count(dataset, rng):
        if not dataset:
            raise ZeroDivisionError("no persons")
        return 1.0

    outputs = black_box(count)(()).sample(4, np.random.default_rng(SEED))
    assert list(outputs) == [Raised("ZeroDivisionError")] * 4
    assert str(outputs[0]) == "raises ZeroDivisionError"
    assert len(set(outputs)) == 1


def test_an_interrupt_is_not():
    def interrupted(dataset, rng):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        black_box(interrupted)(()).sample(1, np.random.default_rng(SEED))


# Outputs of any kind


@given(st.lists(st.floats(), min_size=1))
def test_numbers_pack_into_a_float_array(values):
    outputs = pack(values)
    assert outputs.dtype == float
    np.testing.assert_array_equal(outputs, values)


def test_arrays_of_one_shape_stack_and_others_are_tuples():
    assert pack([np.zeros((2, 3)), np.ones((2, 3))]).shape == (2, 2, 3)
    assert pack([np.zeros(2), np.zeros(3)]).tolist() == [(0.0, 0.0), (0.0, 0.0, 0.0)]
    mixed = pack([np.zeros(2), None])
    assert mixed.tolist() == [(0.0, 0.0), None]
    assert pack([]).shape == (0,)


@pytest.mark.parametrize(
    ("wrap", "function", "uses_rng"),
    [
        (black_box, lambda dataset, epsilon=1.0: dataset + epsilon, False),
        (black_box, lambda dataset, rng=None: dataset + 1.0, True),
        (black_box, lambda dataset, rng=np.random.default_rng(SEED): dataset + 1.0, True),  # noqa: B008
        (vectorized, lambda dataset, size, epsilon=1.0: np.full(size, dataset + epsilon), False),
    ],
)
def test_an_argument_with_a_default_is_no_rng(wrap, function, uses_rng):
    """A generator in place of epsilon would make every run raise, and a mechanism that always raises leaks nothing."""
    mechanism = wrap(function)
    assert bool(mechanism.takes.what) == uses_rng
    assert mechanism(1.0).sample(2, np.random.default_rng(SEED)).tolist() == [2.0, 2.0]


def test_a_mechanism_that_exits_does_not_end_the_audit():
    """Not with success, above all: an exit status of 0 says that every verdict is as expected."""
    quits = black_box(lambda dataset, rng: sys.exit(0))
    assert quits(()).sample(2, np.random.default_rng(SEED)).tolist() == [Raised("SystemExit")] * 2
    quits_at_once = vectorized(lambda dataset, size, rng: sys.exit(0))
    with pytest.raises(AuditError, match="raised SystemExit"):
        draw(quits_at_once(()), 2, np.random.default_rng(SEED))


# Bad input
