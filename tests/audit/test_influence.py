"""The search finds the pair with the greatest exact parameter, does no work twice, and refuses what it cannot rank."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import AddRemove, ApproxDP, AuditError, DatasetPair, PureDP, vectorized
from epsaudit.mechanisms.exact import exact_parameter, most_influential
from epsaudit.mechanisms.laws import FiniteLaw


class Biased:
    """Answers 'yes' with the chance that the dataset is; knows its law and counts how often it is asked."""

    name = "biased"
    claim = PureDP(1.0)

    def __init__(self, adjacency=None):
        self.adjacency = adjacency
        self.asked = []

    def __call__(self, dataset):
        self.asked.append(dataset)
        chance = dataset if isinstance(dataset, float) else len(dataset) / 10.0
        with np.errstate(divide="ignore"):
            return FiniteLaw(("yes", "no"), np.log([chance, 1.0 - chance]))

    def worst_pairs(self):
        return ()


CHANCES = st.floats(0.01, 0.99)


@given(st.lists(st.builds(DatasetPair, CHANCES, CHANCES), min_size=1, max_size=8), st.sampled_from([0.0, 0.01, 0.3]))
@settings(max_examples=50, deadline=None)
def test_no_candidate_beats_the_winner(pairs, delta):
    claim, mechanism = ApproxDP(1.0, delta), Biased()
    best = most_influential(mechanism, pairs, claim)
    assert best in pairs
    values = [exact_parameter(claim, mechanism(pair.x), mechanism(pair.x_prime)) for pair in pairs]
    assert exact_parameter(claim, mechanism(best.x), mechanism(best.x_prime)) >= max(values) * (1 - 1e-9)


def test_the_claim_decides_who_matters():
    rare, common = DatasetPair(1e-6, 1e-7, "rare"), DatasetPair(0.6, 0.4, "common")
    assert most_influential(Biased(), [rare, common]) is rare
    assert most_influential(Biased(), [rare, common], ApproxDP(1.0, 1e-3)) is common


def test_infinite_loss_wins_whatever_the_order():
    certain, likely = DatasetPair(1.0, 0.5), DatasetPair(0.9, 0.1)
    assert most_influential(Biased(), [certain, likely]) is certain
    assert most_influential(Biased(), [likely, certain]) is certain


def test_an_unknown_law_is_not_estimated():
    unknown = vectorized(lambda data, size, rng: rng.random(size), claim=PureDP(1.0), name="secretive")
    with pytest.raises(AuditError, match=r"secretive does not know its law .* audit\(mechanism, pairs=...\)"):
        most_influential(unknown, [DatasetPair((), ("ann",))])


def test_a_winner_that_is_no_neighbour_is_refused():
    with pytest.raises(AuditError, match="not adjacent"):
        most_influential(Biased(AddRemove()), [DatasetPair("abc", "ab"), DatasetPair("abcdef", "a")])
