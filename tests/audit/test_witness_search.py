"""The choice among pairs by successive halving, the families of 'all', and the oracle. Seeds are fixed."""

import numpy as np
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, vectorized
from epsaudit.experiments.oracle import Oracle
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.broken.additive import LaplaceInDoubles
from epsaudit.search import Classifiers, encode


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


def test_numbers_beyond_single_precision_are_learnt_from():
    """Regressions use single precision, in which 1e300 is infinite."""
    rng = np.random.default_rng(1)
    outputs = rng.choice([1e300, -1e300, np.inf, np.nan, 2.5], size=(400, 2))
    found = list(Classifiers().candidates(encode(outputs, np.where(outputs > 0, outputs, 2.5))))
    assert found
    assert all(np.isfinite(candidate.score(outputs)).all() for candidate in found)
