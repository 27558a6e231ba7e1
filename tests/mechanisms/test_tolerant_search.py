"""The search that tolerates noise: its law, its claims, the constants of its proof, and its accuracy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.down_sensitivity import TolerantSearch
from epsaudit.mechanisms.queries import Maximum
from epsaudit.mechanisms.search import ListedTolerantLaw, _Beliefs

THREE = Maximum((0, 1, 2))


@pytest.mark.parametrize(("grid", "rounds"), [((0, 1, 2), 9), ((0, 1, 2), 2), ((0, 1), 8)])
def test_draws_follow_the_enumerated_law_and_not_its_variant(grid, rounds, fit):
    # p-values below 1e-6 fail: the false-alarm chance. Fewer rounds than outputs split pieces, more list them
    def law(sigma):
        return TolerantSearch(Maximum(grid), sigma, 2.5, rounds, 0.3)((1, 1, 2))

    draws = law(2.0).sample(200_000, np.random.default_rng(5))
    assert isinstance(law(2.0), ListedTolerantLaw)
    assert fit(law(2.0), draws) > 1e-6
    assert fit(law(2.3), draws) < 1e-6


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30), st.integers(2, 40))
def test_pieces_and_lists_of_beliefs_agree(rounds, size):
    pieces, listed = _Beliefs.uniform(1, size), _Beliefs.listed(1, size)
    for earlier, left in rounds:
        median, below, at = listed.median()
        assert pieces.median()[0] == median
        assert np.allclose(pieces.median()[1:], (below, at))
        place = median - np.uint64(earlier and median[0] > 0)
        informative = place < size - 1
        for beliefs in (pieces, listed):
            beliefs.update(np.where(informative, place, 0), np.array([left]), informative, 0.3)


@given(st.lists(st.sampled_from((0, 1, 2)), max_size=8).map(tuple), st.sampled_from((0, 1, 2)))
@settings(max_examples=25, deadline=None)
def test_neighbours_respect_every_claim(dataset, joining):
    mechanism = TolerantSearch(THREE, 2.0, 2.0, 9, 0.35)
    law, law_prime = mechanism(dataset), mechanism((*dataset, joining))
    for claim in mechanism.claims:
        assert exact.exact_parameter(claim, law, law_prime) <= claim.parameter * (1 + 1e-9)


@pytest.mark.parametrize("dataset", [(), (0,) * 60, (1,) * 60, (2,) * 60, (0, 1, 2) * 20, (0,) * 60 + (2,)])
def test_exact_accuracy_on_three_outputs(dataset):
    mechanism = TolerantSearch.calibrated(THREE, 1.0, beta=0.5, error=0.05)
    law, answer = mechanism(dataset), THREE.value(dataset)
    least = answer - THREE.down_sensitivity(dataset, int(2 * mechanism.tau))
    inside = [least <= output <= answer for output in law.support]
    assert np.exp(law.log_probabilities)[inside].sum() >= 0.5
