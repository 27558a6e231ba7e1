"""The log* recursion: its plan, its level sets and its law against definitions, its claim and its accuracy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv

from epsaudit import AuditError
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.down_sensitivity import InteriorPointUntested
from epsaudit.mechanisms.interior_point import InteriorPoint
from epsaudit.mechanisms.quasi_concave import Base, Levels, Stage, _Table, plan_for, probabilities, run
from epsaudit.mechanisms.queries import KthLargest, Maximum
from epsaudit.mechanisms.registry import entries

COUNTS = st.lists(st.integers(0, 25), min_size=16, max_size=16)
SMALL = InteriorPoint(Maximum(tuple(range(16))), 4.0, 0.01, beta=0.5)


def holders(counts):
    return tuple(value for value, count in enumerate(counts) for _ in range(count))


@given(COUNTS)
def test_the_quality_is_the_one_of_the_docstring(counts):
    query, tau, dataset = SMALL.query, SMALL.tau, holders(counts)
    expected = np.clip(np.minimum(query.strict_losses(dataset), 2 * tau - query.losses(dataset)), 0, tau)
    levels = SMALL(dataset).levels
    assert levels.at(np.arange(16, dtype=np.uint64)).tolist() == expected.tolist()
    assert expected.max() == tau
    peak = int(np.argmax(expected))
    assert np.all(np.diff(expected[: peak + 1]) >= 0)
    assert np.all(np.diff(expected[peak:]) <= 0)


@given(COUNTS)
def test_the_quality_of_scales_is_the_one_of_the_docstring(counts):
    stage, levels = SMALL.stage, SMALL(holders(counts)).levels
    quality = levels.at(np.arange(16, dtype=np.uint64))

    def wide(j):
        windows = [quality[start : start + 2**j].min() for start in range(16 - 2**j + 1)]
        return max(windows, default=0)

    promise = stage.below.promise
    expected = [min(wide(j) - stage.low, stage.high - wide(j + 1)) for j in range(5)]
    found = stage.scale_levels(levels).at(np.arange(5, dtype=np.uint64))
    assert found.tolist() == np.clip(expected, 0, promise).tolist()
    assert found.max() == promise


@given(COUNTS)
def test_some_point_of_the_best_block_is_good_at_every_good_scale(counts):
    stage, levels = SMALL.stage, SMALL(holders(counts)).levels
    scales = stage.scale_levels(levels).at(np.arange(5, dtype=np.uint64))
    offsets = np.arange(stage.blocks)
    for scale in np.flatnonzero(scales >= 1):
        table = _Table.of(stage, levels, np.full(stage.blocks, scale), offsets)
        assert np.all(levels.at(table.points).max(axis=1) > stage.low)
        # all cuts but two leave a lead that passes but for beta / 4
        assert np.sum(np.exp(table.log_pass) < 1 - 0.5 / 4) <= 2


@given(COUNTS, st.integers(0, 15))
@settings(max_examples=60, deadline=None)
def test_neighbours_respect_the_claim(counts, joining):
    dataset = holders(counts)
    law, law_prime = SMALL(dataset), SMALL((*dataset, joining))
    assert exact.delta(law, law_prime, 4.0) <= 0.01
    assert exact.delta(law_prime, law, 4.0) <= 0.01


def test_the_untested_variant_breaks_the_claim_where_the_sound_one_keeps_it():
    entry = next(entry for entry in entries() if isinstance(entry.mechanism, InteriorPointUntested))
    (pair,), variant = entry.pairs, entry.mechanism
    sound = InteriorPoint(variant.query, variant.epsilon, variant.delta, variant.beta)
    assert exact.delta(variant(pair.x), variant(pair.x_prime), variant.epsilon) > 10 * variant.delta
    assert exact.delta(sound(pair.x), sound(pair.x_prime), variant.epsilon) <= variant.delta


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_exact_accuracy_on_boundary_datasets(depth, beta):
    mechanism = InteriorPoint(KthLargest(tuple(range(16)), place=2), 2.0, 1e-4, beta, depth)
    query = mechanism.query
    for dataset in ((), (0,) * 1500, (7,) * 1500, (15,) * 1500, (3,) * 1500 + (15,), tuple(range(16)) * 90, (3, 9)):
        answer = query.value(dataset)
        least = answer - query.down_sensitivity(dataset, 2 * mechanism.tau)
        law = mechanism(dataset)
        inside = [output is not None and least <= output <= answer for output in law.support]
        assert np.exp(law.log_probabilities)[inside].sum() >= 1 - beta


def test_accuracy_on_2_to_the_64_outputs():
    # at a true coverage of 0.95 the upper limit falls below it with probability 1e-6 at most: the false-alarm chance
    mechanism = InteriorPoint(Maximum(range(2**64)), 1.0, 1e-6)
    rng = np.random.default_rng(2)
    for dataset in ((), (2**64 - 1,) * 900, tuple(int(v) << 3 for v in rng.integers(0, 2**60, 2000))):
        answer, runs = mechanism.query.value(dataset), 2000
        least = answer - mechanism.query.down_sensitivity(dataset, 2 * mechanism.tau)
        draws = mechanism(dataset).sample(runs, rng).tolist()
        inside = sum(draw is not None and least <= draw <= answer for draw in draws)
        assert inside == runs or betaincinv(inside + 1, runs - inside, 1 - 1e-6) >= 0.95


@given(st.integers(1, 70), st.floats(0.1, 8), st.floats(1e-12, 0.09), st.floats(0.001, 0.9), st.integers(0, 4))
@settings(deadline=None)
def test_a_plan_spends_what_it_has_and_keeps_its_inequalities(bits, epsilon, delta, beta, depth):
    plan = plan_for(2**bits, epsilon, delta, beta, depth)
    assert plan.epsilon == pytest.approx(epsilon)
    if isinstance(plan, Stage):
        assert plan.delta == pytest.approx(delta)
    while isinstance(plan, Stage):
        share = beta / 4
        assert plan.below.size == plan.size.bit_length()
        assert plan.high == plan.low + 2 * plan.below.promise - 1
        assert (plan.blocks + 1) * math.exp(-plan.epsilon_point * (plan.low + 1) / 2) <= share * (1 + 1e-9)
        assert 2 / plan.blocks <= share * (1 + 1e-9)
        refusal = -np.expm1(plan.log_pass(np.array(plan.promise - plan.high + 1)))
        assert refusal <= share * (1 + 1e-6)
        # with a gap of 2 or less, where the best block may change, the test passes with probability delta
        assert math.exp(plan.log_pass(np.array(2))) == pytest.approx(plan.delta_test)
        plan, beta = plan.below, share
    assert plan.size * math.exp(-plan.epsilon * plan.promise / 2) <= beta * (1 + 1e-9)


@pytest.mark.parametrize("gaps", [range(60)])
def test_the_distance_has_sensitivity_1_where_the_gap_has_2(gaps):
    for gap, other in itertools.product(gaps, gaps):
        if abs(gap - other) <= 2:
            assert abs(SMALL.stage.distance(np.array(gap)) - SMALL.stage.distance(np.array(other))) <= 1
    assert SMALL.stage.distance(np.array([0, 1, 2, 3])).tolist() == [0, 0, 0, 1]


def test_the_base_is_the_exponential_mechanism():
    base = Base(size=4, epsilon=2.0, promise=3)
    levels = Levels(np.array([0, 1, 1], np.uint64), np.array([2, 2, 1], np.uint64))
    weights = np.exp([1.0, 3.0, 2.0, 0.0])
    assert probabilities(base, levels)[:-1] == pytest.approx(weights / weights.sum())
    assert run(base, levels, 5, np.random.default_rng(0)).indices.shape == (5,)


def test_wrong_parameters_are_sentences():
    query = Maximum((0, 1))
    with pytest.raises(AuditError, match="delta is"):
        InteriorPoint(query, 1.0, 0.1)
    with pytest.raises(AuditError, match="depth is 0"):
        InteriorPoint(query, 1.0, 0.01, depth=0)
    with pytest.raises(AuditError, match="epsilon is 0"):
        InteriorPoint(query, 0.0, 0.01)
