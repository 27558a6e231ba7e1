"""The search finds the pair with the greatest exact parameter, does no work twice, and refuses what it cannot rank."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import AddRemove, ApproxDP, AuditError, DatasetPair, PureDP, vectorized
from epsaudit.data.neighbours import leave_one_out
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.exact import exact_parameter, most_influential
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.queries import NumericQuery


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


def test_of_equal_candidates_the_first_wins():
    same = [DatasetPair(0.6, 0.3, "first"), DatasetPair(0.3, 0.6, "mirrored"), DatasetPair(0.6, 0.3, "again")]
    assert str(most_influential(Biased(), same)) == "first"
    count = NumericQuery()
    assert str(most_influential(Laplace(1.0, count), leave_one_out("abc"))).endswith("'a'")


def test_a_single_candidate_without_any_loss_is_still_the_best():
    pair = DatasetPair(0.5, 0.5)
    assert most_influential(Biased(), [pair]) is pair


def test_a_dataset_that_pairs_share_is_prepared_once(monkeypatch):
    computed = []

    def counted(*arguments):
        computed.append(arguments)
        return exact_parameter(*arguments)

    monkeypatch.setattr("epsaudit.mechanisms.exact.values.exact_parameter", counted)
    mechanism, records = Biased(AddRemove()), tuple("abcde")
    most_influential(mechanism, leave_one_out(records))
    assert mechanism.asked.count(records) == 1
    assert len(mechanism.asked) == 1 + 5
    assert len(computed) == 1  # everybody's absence has the same law


def test_laws_that_cannot_be_compared_are_each_computed():
    class Unhashable(FiniteLaw):
        knots = ()
        __hash__ = None

    class Wayward(Biased):
        def __call__(self, dataset):
            return Unhashable(("yes", "no"), np.log([dataset, 1.0 - dataset]))

    mild, wild = DatasetPair(0.5, 0.4), DatasetPair(0.9, 0.1)
    assert most_influential(Wayward(), [mild, wild, mild]) is wild


@pytest.mark.parametrize("support", [[(0, "a"), (1, "b")], np.array([0.5, 1.5]), ("yes", None)])
def test_outcomes_may_be_of_any_kind(support):
    class Kind(Biased):
        def __call__(self, dataset):
            law = FiniteLaw(list(support), np.log([dataset, 1.0 - dataset]))
            object.__setattr__(law, "support", support)
            return law

    mild, wild = DatasetPair(0.5, 0.4), DatasetPair(0.9, 0.1)
    assert most_influential(Kind(), [mild, wild]) is wild


def test_no_candidates():
    with pytest.raises(AuditError, match="no candidate pairs for biased"):
        most_influential(Biased(), [])


def test_an_unknown_law_is_not_estimated():
    unknown = vectorized(lambda data, size, rng: rng.random(size), claim=PureDP(1.0), name="secretive")
    with pytest.raises(AuditError, match=r"secretive does not know its law .* audit\(mechanism, pairs=...\)"):
        most_influential(unknown, [DatasetPair((), ("ann",))])


def test_a_winner_that_is_no_neighbour_is_refused():
    with pytest.raises(AuditError, match="not adjacent"):
        most_influential(Biased(AddRemove()), [DatasetPair("abc", "ab"), DatasetPair("abcdef", "a")])
