"""Vectors are learnt from few outputs: nearly as telling as the likelihood ratio where that is a sum."""

import json

import numpy as np
import pytest

from epsaudit import PureDP
from epsaudit.audits.sequential import betting
from epsaudit.audits.sequential.learning import fastest
from epsaudit.mechanisms.broken.sparse_vector import SideBySide, SparseVector3, SparseVector5, SparseVector6
from epsaudit.witnesses import Classifiers, candidate_scores, witness_from_dict

SUMS = (Classifiers(trees=False),)


def fastest_growth(scores, scores_prime, epsilon):
    """Growth of log-wealth against an epsilon for the best tail of a score, at quantiles of both sides."""
    pooled = np.sort(np.concatenate([scores, scores_prime]))
    cuts = pooled[(len(pooled) * (1.0 - np.geomspace(1e-3, 0.5, 40))).astype(int)]
    right, wrong = (np.mean(side[:, None] >= cuts, axis=0) / 2.0 for side in (scores, scores_prime))
    return float(np.max(betting.growth(right, wrong, epsilon, 0.0, 1)))


@pytest.mark.parametrize(
    ("mechanism", "size"),
    [
        (SparseVector5(1.0), 100),
        (SparseVector6(1.0), 100),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in ((SparseVector3(1.0), 2_500), (SideBySide(1.0), 1_000))
        ),
    ],
    ids=str,
)
def test_a_sparse_vector_is_learnt_from_few_outputs(mechanism, size):
    """Of the growth that the likelihood ratio has on 100,000 fresh outputs a side, at least half."""
    rng = np.random.default_rng(1)
    pair = mechanism.worst_pairs()[0]
    laws = [mechanism(dataset) for dataset in (pair.x, pair.x_prime)]
    found = list(candidate_scores(SUMS, *(law.sample(size, rng).astype(float) for law in laws)))
    fresh = [law.sample(100_000, rng).astype(float) for law in laws]
    best = fastest_growth(*(laws[0].log_density(side) - laws[1].log_density(side) for side in fresh), 1.0)
    assert best > 0.0
    assert max(fastest_growth(*(one.score(side) for side in fresh), 1.0) for one in found) >= 0.5 * best


def test_a_learnt_sum_survives_its_file_and_finds_nothing_where_there_is_nothing():
    rng = np.random.default_rng(2)
    moved, still = rng.normal(0.5, 1.0, (400, 6)), rng.normal(size=(400, 6))
    moved[::7, 2], still[::9, 2] = np.nan, -np.inf
    witness = fastest(list(candidate_scores(SUMS, moved, still)), PureDP(0.5))
    again = witness_from_dict(json.loads(json.dumps(witness.to_dict())))
    fresh = rng.normal(size=(50, 6))
    assert again == witness
    assert again.count(fresh) == witness.count(fresh)
    both = np.concatenate([moved, still])
    alike = [both[rng.permutation(800)[:400]] for _ in range(2)]
    assert fastest(list(candidate_scores(SUMS, *alike)), PureDP(0.5)) is None


def test_what_is_no_row_of_coordinates_is_left_to_others():
    few, scalars = np.zeros((4, 5)), np.random.default_rng(0).normal(size=100)
    assert [list(candidate_scores(SUMS, outputs, outputs)) for outputs in (few, scalars)] == [[], []]
