"""Choosing among pairs by successive halving, 'all' witnesses, and the oracle. Seeds are fixed."""

import numpy as np
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, vectorized
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.broken.additive import LaplaceInDoubles
from epsaudit.witnesses import Classifiers, Oracle, candidate_scores, encode, event_from_dict
from epsaudit.witnesses.encoding import releases_of
from epsaudit.witnesses.features import Coordinate, feature_from_dict, feature_to_dict
from epsaudit.witnesses.learning import planted


def one_leaky_pair(data, size, rng):
    return rng.normal(size=size) + 2.0 * (data == 37)


def test_one_leaking_pair_among_forty_is_found_and_certified_within_the_budget():
    drawn = []

    def counted(data, size, rng):
        drawn.append(size)
        return one_leaky_pair(data, size, rng)

    pairs = [DatasetPair(i, i + 0.5) for i in range(40)]
    mechanism = vectorized(counted, claim=PureDP(0.5))
    result = audit(mechanism, pairs, trials=60_000, confidence=0.999, seed=3, n_jobs=1)
    assert result.pair == "37 against 37.5"
    assert result.violates_claim
    assert sum(drawn) <= 60_000


def test_halving_finds_nothing_where_no_pair_leaks():
    pairs = [DatasetPair(i, i + 0.5) for i in range(12)]
    mechanism = vectorized(one_leaky_pair, claim=PureDP(0.05))
    assert not audit(mechanism, pairs, trials=20_000, confidence=0.999, seed=3, n_jobs=1).violates_claim


def test_too_many_pairs_for_the_trials_are_refused():
    pairs = [DatasetPair(i, i + 0.5) for i in range(40)]
    with pytest.raises(AuditError, match="too few for 40 pairs"):
        audit(vectorized(one_leaky_pair, claim=PureDP(1.0)), pairs, trials=500, seed=1)


def test_auto_takes_doubles_for_real_numbers_and_all_does_not():
    mechanism = LaplaceInDoubles(1.0)
    assert not audit(mechanism, trials=20_000, confidence=0.999, seed=1, n_jobs=1).violates_claim
    assert audit(mechanism, trials=20_000, confidence=0.999, seed=1, n_jobs=1, witnesses="all").violates_claim


def test_the_oracle_is_asked_by_name_and_not_beaten_by_much():
    mechanism = Laplace(1.0)
    pair = mechanism.worst_pairs()[0]
    oracle = Oracle(mechanism(pair.x), mechanism(pair.x_prime))
    known = audit(mechanism, trials=100_000, seed=4, n_jobs=1, witnesses=[oracle]).lower_bound
    assert audit(mechanism, trials=100_000, seed=4, n_jobs=1).lower_bound == pytest.approx(known, abs=0.02)
    with pytest.raises(AuditError, match="log_density"):
        Oracle(object(), object())


def test_learnt_scores_survive_json_and_name_what_carries_them():
    rng = np.random.default_rng(2)
    x, x_prime = rng.normal(size=(3000, 4)), rng.normal(size=(3000, 4)) + np.array([0.0, 0.0, 1.5, 0.0])
    x[:50, 1], x[50:90, 0] = np.nan, np.inf
    for candidate in candidate_scores([Classifiers()], x, x_prime):
        event = candidate.score.at_least(0.1)
        assert np.array_equal(event_from_dict(event.to_dict()).contains(x), event.contains(x))
        assert feature_from_dict(feature_to_dict(candidate.score.feature)) == candidate.score.feature
        assert "y[2]" in str(event)


@pytest.mark.nightly(seconds=25)
def test_scores_are_learnt_again_from_many_more_outputs_where_a_learnt_one_is_shortlisted():
    """The leak is in three of ten coordinates, and too weak to be learnt well from a tenth of the runs."""

    def leaky(data, size, rng):
        return rng.normal(size=(size, 10)) + data * np.array([0.15, -0.1, 0.2] + [0.0] * 7)

    learnt_from = []

    class Counting(Classifiers):
        def candidates(self, data):
            learnt_from.append(data.size)
            return super().candidates(data)

    result = audit(
        vectorized(leaky), DatasetPair(0, 1), claim=PureDP(0.1), trials=200_000, seed=1, witnesses=[Counting()]
    )
    assert learnt_from == [10_000, 10_000 + 20_000]
    assert result.lower_bound > 0.3


def test_released_numbers_are_read_off_vectors_with_holes_only():
    full = np.random.default_rng(0).normal(size=(200, 4))
    holes = full.copy()
    holes[:100, :2] = -np.inf
    assert releases_of(full, full, 4) == []
    assert [feature.label for feature in releases_of(holes, full, 4)] == [
        "place of the first number",
        "first number",
        "place of the last number",
        "last number",
    ]
    for feature in releases_of(holes, full, 4):
        assert feature_from_dict(feature_to_dict(feature)) == feature


def test_numbers_beyond_single_precision_are_learnt_from():
    """scikit-learn's trees hold single precision, and refuse 1e300 as infinite; found by test_normal_form.py."""
    rng = np.random.default_rng(1)
    outputs = rng.choice([1e300, -1e300, np.inf, np.nan, 2.5], size=(400, 2))
    found = planted(encode(outputs, np.where(outputs > 0, outputs, 2.5)), (Coordinate(0), Coordinate(1)))
    assert all(np.isfinite(candidate.score(outputs)).all() for candidate in found)
