"""Scores in awkward layouts: no sound set is refuted, no leaky one is called consistent, and refusals say why."""

import contextlib

import numpy as np
import pytest
from scipy.stats import binom

from epsaudit import AuditError, audit_scores
from epsaudit.experiments import plumbing, plumbing_scores


@pytest.mark.parametrize("name", plumbing_scores.CASES)
def test_no_sound_scores_are_refuted_and_no_leaky_ones_are_consistent(name):
    # a sound set is refuted by chance with a probability of at most 1e-4
    said = {
        kind: plumbing_scores.verdict(name, epsilon, plumbing.CONFIDENCE, 1)
        for kind, epsilon in plumbing_scores.EPSILONS.items()
    }
    assert said["sound"] != "violated"
    assert said["leaky"] != "consistent"
    for sentence in said.values():
        assert sentence in ("violated", "consistent") or any(part in sentence for part in plumbing_scores.REASONS)


def test_rows_that_share_a_coin_refute_true_claims_where_each_is_called_a_canary():
    # the incorrect variant, which no layout shows: without the column run all rows are canaries of one run
    audits, refuted = 0, 0
    for seed in range(200):
        given = plumbing_scores.repeated(1.0, np.random.default_rng(seed), 5)
        del given["runs"]
        with contextlib.suppress(AuditError):  # by chance too few or too many are in
            refuted += audit_scores(**given, epsilon=1.0, confidence=0.95, seed=seed).violates_claim
            audits += 1
    assert refuted > binom.ppf(0.999, audits, 0.05)
