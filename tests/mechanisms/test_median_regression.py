"""Median regression: its losses against enumeration and those of medians, Lemma 1, and what residuals would tell."""

import numpy as np
import pytest
from enumerated import EnumeratedLosses
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.selection import SumOfResiduals
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses, SlopeLosses

SLOPES = (0, 1, 3)
QUERY = SlopeLosses(SLOPES, most=2)
POINTS = st.tuples(st.integers(-2, 2), st.integers(-9, 9))


def fit(dataset):
    """Least slope of the least sum of residuals."""
    return min(SLOPES, key=lambda slope: (sum(abs(b - slope * a) for a, b in dataset), slope))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_losses_are_those_of_enumeration(size):
    """Any record that could help is among these, and others whose leverage is less, none, or the other way round."""
    universe = (*((2, 2 * slope) for slope in SLOPES), (1, 9), (1, -2), (-2, 3), (0, 5))
    enumerated = EnumeratedLosses(fit, universe, size)
    assert enumerated.candidates == SLOPES
    for dataset in enumerated.datasets:
        assert QUERY.value(dataset) == enumerated.value(dataset)
        assert QUERY.losses(dataset).tolist() == enumerated.losses(dataset).tolist()
        for k in range(size + 1):
            assert QUERY.local_sensitivity(dataset, k) == enumerated.local_sensitivity(dataset, k)


@settings(max_examples=100, deadline=None)
@given(st.lists(POINTS, min_size=1, max_size=12), POINTS, st.data())
def test_lemma_1_and_the_fit(records, joining, data):
    place = data.draw(st.integers(0, len(records) - 1))
    other = [*records[:place], joining, *records[place + 1 :]]
    assert np.max(np.abs(QUERY.losses(records) - QUERY.losses(other))) <= 1
    assert QUERY.value(records) == fit(records)
    assert QUERY.losses(records)[SLOPES.index(fit(records))] == 0


@given(st.lists(st.sampled_from(range(8)), min_size=1, max_size=15))
def test_records_of_one_leverage_have_the_losses_of_their_median(records):
    candidates = tuple(range(8))
    slopes = SlopeLosses(candidates, most=5).losses([(5, 5 * record) for record in records])
    assert slopes.tolist() == MedianLosses(candidates).losses(records).tolist()


def test_claims_are_nearly_attained_and_broken_by_residuals():
    sound, residuals = (
        InverseSensitivity(1.0, query(tuple(range(32)), most=10)) for query in (SlopeLosses, SumOfResiduals)
    )
    for mechanism, low, high in ((sound, 0.9, 1.0), (residuals, 100.0, 1e6)):
        pair = mechanism.worst_pairs()[0]
        mechanism.adjacency.check(pair)
        assert low < exact.exact_parameter(mechanism.claim, mechanism(pair.x), mechanism(pair.x_prime)) <= high
