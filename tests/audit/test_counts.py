"""The table of counts: what representations of the same runs have in common."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from epsaudit import ZCDP, PureDP
from epsaudit.bounds.certificates import Box, MembershipGame
from epsaudit.bounds.counts import Counts

CELLS = arrays(np.int64, st.tuples(st.integers(1, 3), st.just(6)), elements=st.integers(0, 10**6))


@given(CELLS)
def test_every_run_is_in_one_cell(cells):
    counts = Counts.of_cells(cells)
    assert np.array_equal(counts.runs, cells.sum(axis=-1))
    assert np.array_equal(counts.outcomes.sum(axis=-1), counts.runs)
    assert np.array_equal(counts.correct, cells[:, 0] + cells[:, 3])
    assert np.array_equal(counts.wrong, cells[:, 1] + cells[:, 2])
    assert np.array_equal(counts.runs_x, cells[:, ::2].sum(axis=-1))


@given(CELLS, CELLS)
def test_adding_counts_adds_their_outcomes(first, second):
    one, other = Counts.of_cells(first[:1]), Counts.of_cells(second[:1])
    assert np.array_equal((one + other).outcomes, one.outcomes + other.outcomes)
    assert (one + other).at(0) == one.at(0) + other.at(0)


@given(CELLS)
def test_a_place_of_arrays_is_a_table_of_whole_numbers(cells):
    for row, counts in enumerate(map(Counts.of_cells(cells).at, range(len(cells)))):
        assert {type(number) for number in counts.numbers} == {int}
        assert counts.outcomes.tolist() == Counts.of_cells(cells).outcomes[row].tolist()


@pytest.mark.parametrize("claim", [PureDP(1.0), ZCDP(0.5)], ids=str)
def test_outcomes_are_all_that_the_membership_game_reads(claim):
    counts = Counts(500, 520, 365, 134, 35, 266)
    game = MembershipGame(None if claim.claimed_point else 1.0)
    outcomes = Counts.of_outcomes(counts.runs, counts.correct, counts.wrong)
    assert outcomes.outcomes.tolist() == counts.outcomes.tolist()
    assert game.parameter(claim, outcomes, 0.95) == game.parameter(claim, counts, 0.95) > 0.0
    assert Box().parameter(claim, outcomes, 0.95) != Box().parameter(claim, counts, 0.95), "which reads the sides"


def test_an_event_is_likelier_on_the_dataset_that_it_guesses():
    counts = Counts(500, 520, 365, 134, 35, 266)
    assert counts.of_event("x") == ((365, 500), (134, 520))
    assert counts.of_event("x_prime") == ((266, 520), (35, 500))
