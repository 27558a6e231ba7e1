"""Suites: audits share the family-wise error, every entry has its own streams, and the registry is consistent."""

import pytest

from epsaudit import AuditError
from epsaudit.audits import suite
from epsaudit.mechanisms.additive import Laplace
from epsaudit.running.registry import Entry

ENTRIES = [Entry(name, Laplace(1.0), Laplace(1.0).claim) for name in ("a", "b", "c", "d")]


def test_the_error_is_shared_equally():
    results = list(suite.run_suite(ENTRIES, trials=2000, family_confidence=0.96, n_jobs=1))
    assert [result.confidence for result in results] == [pytest.approx(0.99)] * 4
    assert next(suite.run_suite(ENTRIES[:1], trials=2000, family_confidence=0.96, n_jobs=1)).confidence == 0.96


def test_rows_do_not_share_random_streams():
    results = list(suite.run_suite(ENTRIES, trials=2000, n_jobs=1))
    assert len({result.counts for result in results}) == 4
    assert [result.mechanism for result in results] == list("abcd")


def test_a_subset_keeps_the_seeds_of_its_rows():
    whole = {result.mechanism: result.seed for result in suite.run_suite(ENTRIES, trials=2000, seed=5, n_jobs=1)}
    assert [result.seed for result in suite.run_suite(ENTRIES[2:], trials=2000, seed=5, n_jobs=1)] == [
        whole["c"],
        whole["d"],
    ]


def test_one_row_is_reproduced_by_its_own_seed_and_confidence():
    third = list(suite.run_suite(ENTRIES, trials=2000, seed=5, n_jobs=1))[2]
    alone = next(
        suite.run_suite(ENTRIES[2:3], trials=2000, seed=third.seed, family_confidence=third.confidence, n_jobs=1)
    )
    assert alone == third


def test_confidence_is_checked_before_any_run():
    with pytest.raises(AuditError, match="confidence is 0"):
        next(suite.run_suite(ENTRIES, family_confidence=0.0))
