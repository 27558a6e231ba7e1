"""Choosing among pairs by successive halving, 'all' witnesses, and the oracle. Seeds are fixed."""

import numpy as np
import pytest

from audit import AuditError, DatasetPair, PureDP, audit, vectorized
from audit.witnesses import Oracle, event_from_json
from audit.witnesses.classifiers import Classifiers
from audit.witnesses.features import feature_from_json, feature_to_json
from mechanisms.additive import Laplace
from mechanisms.broken.floating import LaplaceInDoubles


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
    for score in Classifiers().fit(x, x_prime):
        event = score.at_least(0.1)
        assert np.array_equal(event_from_json(event.to_json()).contains(x), event.contains(x))
        assert feature_from_json(feature_to_json(score.feature)) == score.feature
        assert "y[2]" in str(event)
