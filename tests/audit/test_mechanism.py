"""Any function becomes a mechanism, whatever it returns or raises, and a wrong one is refused in a sentence."""

import sys

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import (
    AddRemove,
    AuditError,
    DatasetPair,
    Mechanism,
    OutputDistribution,
    PureDP,
    audit,
    black_box,
    vectorized,
)
from epsaudit.engine.sampling import draw
from epsaudit.outputs.normal_form import Raised, normal, pack, values_of

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


def test_both_adapters_draw_from_the_same_stream():
    one, many = (
        wrap((1,)).sample(20, np.random.default_rng(SEED))
        for wrap in (black_box(noisy_count), vectorized(noisy_counts))
    )
    np.testing.assert_array_equal(one, many)


def test_a_mechanism_keeps_what_it_was_told():
    pair = DatasetPair((1,), (1, 2))
    mechanism = black_box(noisy_count, claim=PureDP(1.0), adjacency=AddRemove(), pairs=[pair], name="count")
    assert (mechanism.name, mechanism.claim, mechanism.adjacency) == ("count", PureDP(1.0), AddRemove())
    assert mechanism.worst_pairs() == (pair,)
    assert black_box(noisy_count).name == "noisy_count"
    assert black_box(Callable()).name == "Callable"


class Callable:
    def __call__(self, dataset, rng):
        return 0.0


def test_a_mechanism_survives_the_way_to_a_worker():
    sent = cloudpickle.loads(cloudpickle.dumps(black_box(lambda dataset, rng: rng.random() + len(dataset))))
    assert sent((1,)).sample(3, np.random.default_rng(SEED)).min() >= 1.0


def test_functions_that_own_their_randomness_are_not_reproducible():
    one = black_box(lambda dataset: float(len(dataset)))
    many = vectorized(lambda dataset, size: np.full(size, len(dataset)))
    for mechanism in (one, many):
        assert not mechanism.reproducible
        assert mechanism((1, 2)).sample(3, np.random.default_rng(SEED)).tolist() == [2, 2, 2]


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


@given(st.lists(st.one_of(st.integers(-(2**80), 2**80), st.booleans()), min_size=1))
def test_whole_numbers_stay_whole(values):
    assert pack(values).tolist() == values


@given(st.lists(st.floats(), min_size=1))
def test_numbers_pack_into_a_float_array(values):
    outputs = pack(values)
    assert outputs.dtype == float
    np.testing.assert_array_equal(outputs, values)


nested = st.recursive(
    st.one_of(st.none(), st.text(max_size=3), st.integers(-9, 9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.tuples(inner, inner)),
    max_leaves=6,
)


@given(st.lists(nested, min_size=1, max_size=5))
def test_symbols_lists_and_refusals_are_hashable_outcomes(values):
    outputs = pack(values)
    assert len(outputs) == len(values)
    assert len({hash(output) for output in values_of(outputs)}) >= 1


def test_arrays_of_one_shape_stack_and_others_are_tuples():
    assert pack([np.zeros((2, 3)), np.ones((2, 3))]).shape == (2, 2, 3)
    assert pack([np.zeros(2), np.zeros(3)]).tolist() == [(0.0, 0.0), (0.0, 0.0, 0.0)]
    mixed = pack([np.zeros(2), None])
    assert mixed.tolist() == [(0.0, 0.0), None]
    assert pack([]).shape == (0,)


def test_numpy_scalars_inside_objects_become_plain():
    outputs = pack([(np.float64(1.5), np.int64(2)), "no"])
    assert [type(part) for part in outputs[0]] == [float, float]


def test_vectorized_outputs_pass_through_or_are_packed():
    def answers(kind):
        return lambda dataset, size: kind(size)

    rng = np.random.default_rng(SEED)
    assert vectorized(answers(lambda n: np.zeros((n, 2))))(()).sample(3, rng).shape == (3, 2)
    assert vectorized(answers(lambda n: [None] * n))(()).sample(3, rng).tolist() == [None] * 3
    symbols = vectorized(answers(lambda n: np.array([[1], "b", None], dtype=object)[:n]))(()).sample(3, rng)
    assert [normal(symbol) for symbol in symbols] == [(1.0,), "b", None]


def test_vectorized_must_return_many():
    with pytest.raises(AuditError, match=r"returned 0\.5 for 3 outputs"):
        vectorized(lambda dataset, size: 0.5)(()).sample(3, np.random.default_rng(SEED))


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
    assert mechanism.uses_rng == uses_rng
    assert mechanism(1.0).sample(2, np.random.default_rng(SEED)).tolist() == [2.0, 2.0]


def test_a_mechanism_that_exits_does_not_end_the_audit():
    """Not with success, above all: an exit status of 0 says that every verdict is as expected."""
    quits = black_box(lambda dataset, rng: sys.exit(0))
    assert quits(()).sample(2, np.random.default_rng(SEED)).tolist() == [Raised("SystemExit")] * 2
    quits_at_once = vectorized(lambda dataset, size, rng: sys.exit(0))
    with pytest.raises(AuditError, match="raised SystemExit"):
        draw(quits_at_once(()), 2, np.random.default_rng(SEED))


# Bad input


@pytest.mark.parametrize(
    ("wrap", "function", "words"),
    [
        (black_box, 3, "3 is not callable"),
        (black_box, lambda: 0, r"signature is \(\); it must accept function\(dataset, rng\)"),
        (black_box, lambda a, b, c: 0, r"\(a, b, c\)"),
        (black_box, lambda dataset, *, epsilon: 0, r"\(dataset, \*, epsilon\)"),
        (vectorized, lambda dataset: 0, r"function\(dataset, size, rng\)"),
    ],
)
def test_a_wrong_signature_is_shown(wrap, function, words):
    with pytest.raises(AuditError, match=words):
        wrap(function)
