"""Monotone queries: losses by enumeration of all sub-multisets, and the lemmas of source 000 on random multisets."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import AddRemove, AuditError
from epsaudit.mechanisms.queries import Maximum

GRIDS = st.sampled_from([(0, 1, 2, 3, 4), (-1.5, 0.0, 0.25, 7.0), range(5), range(-3, 12, 2), range(2)])
DATA = st.lists(st.integers(-3, 8), max_size=6).map(tuple)


def fewest_removals(query, dataset, accepted):
    """Least number of removals after which the answer is accepted, by trying all sub-multisets."""
    sizes = [
        len(dataset) - len(kept)
        for n in range(len(dataset) + 1)
        for kept in itertools.combinations(dataset, n)
        if accepted(query.value(kept))
    ]
    return min(sizes, default=math.inf)


@given(GRIDS, DATA)
def test_losses_are_the_fewest_removals(grid, dataset):
    query = Maximum(grid)
    assert query.losses(dataset).tolist() == [fewest_removals(query, dataset, lambda v, y=y: v <= y) for y in grid]
    assert query.strict_losses(dataset).tolist() == [
        fewest_removals(query, dataset, lambda v, y=y: v < y) for y in grid
    ]


@given(GRIDS, DATA, DATA)
def test_losses_satisfy_the_lemmas(grid, common, more):
    # source 000: Lemma 1, Lemma 2, Proposition 3
    query = Maximum(grid)
    small, large = query.losses(common), query.losses(common + more)
    assert np.all(small <= large)
    assert np.all(large <= small + len(more))
    assert query.value(common) <= query.value(common + more)


@given(GRIDS, st.integers(0, 9))
def test_a_crowd_has_one_loss_below_the_greatest_output(grid, loss):
    query = Maximum(grid)
    assert query.losses(query.crowd(loss)).tolist() == [loss] * (query.size - 1) + [0]
    assert AddRemove().holds(query.crowd(loss), query.crowd(loss + 1))


@given(GRIDS)
def test_outputs_and_indices_are_inverse(grid):
    query = Maximum(grid)
    indices, inside = query.indices_of(query.outputs)
    assert query.outputs.tolist() == list(grid)
    assert indices.tolist() == list(range(query.size))
    assert inside.all()
    absent = np.array([grid[0] - 1, grid[-1] + 1])
    assert not query.indices_of(absent)[1].any()


@pytest.mark.parametrize("grid", [range(2**64), range(-(2**63), 2**63), range(5, 2**63, 7)])
def test_grids_too_long_to_list(grid):
    query = Maximum(grid)
    ends = np.array([0, query.size - 1], dtype=np.uint64)
    assert query.outputs_at(ends).tolist() == [grid[0], grid[-1]]
    indices, inside = query.indices_of(query.outputs_at(ends))
    assert (indices.tolist(), inside.all()) == (ends.tolist(), True)
    assert query.loss((grid[0], grid[-1]))(ends).tolist() == [1, 0]
    assert query.value((grid[-1],)) == grid[-1]
    with pytest.raises(AuditError, match="can be listed"):
        query.losses(())
