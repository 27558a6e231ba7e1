"""The log* recursion: its plan, its level sets and its law against definitions, its claim and its accuracy."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.down_sensitivity import InteriorPointUntested
from epsaudit.mechanisms.interior_point import InteriorPoint
from epsaudit.mechanisms.quasi_concave import _Table
from epsaudit.mechanisms.queries import KthLargest, Maximum
from epsaudit.mechanisms.registry import entries

COUNTS = st.lists(st.integers(0, 25), min_size=16, max_size=16)
SMALL = InteriorPoint(Maximum(tuple(range(16))), 4.0, 0.01, beta=0.5)


def holders(counts):
    return tuple(value for value, count in enumerate(counts) for _ in range(count))


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


@pytest.mark.parametrize("gaps", [range(60)])
def test_the_distance_has_sensitivity_1_where_the_gap_has_2(gaps):
    for gap, other in itertools.product(gaps, gaps):
        if abs(gap - other) <= 2:
            assert abs(SMALL.stage.distance(np.array(gap)) - SMALL.stage.distance(np.array(other))) <= 1
    assert SMALL.stage.distance(np.array([0, 1, 2, 3])).tolist() == [0, 0, 0, 1]
