"""Candidate scores and their expected counts: held-out outputs only, no event expected never, both sides alike."""

from dataclasses import replace

import numpy as np
import pytest

from epsaudit import ZCDP, PureDP
from epsaudit.certificates import Box
from epsaudit.witnesses import CandidateScore, choose
from epsaudit.witnesses.features import Value
from epsaudit.witnesses.scores import Monotone, Tails
from epsaudit.witnesses.thresholds import ExpectedCounts, TailCounts, predict

MANY = 5_000


def candidate(learnt, fitting, held_out):
    found = CandidateScore.of(Monotone(Value(), 1, learnt=learnt), fitting, held_out)
    assert found is not None
    return found


def normal(shift, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(shift, size=MANY), rng.normal(size=MANY)


def test_outputs_that_put_a_score_on_the_shortlist_are_not_counted_again():
    before = candidate(False, normal(0.5, 0), normal(0.5, 1))
    fresh = normal(0.0, 2)
    after = before.without_counts().counting(*fresh)
    assert after.size == MANY
    counted = after.held_out[0] + after.held_out[1]
    assert (counted.counts.sum(), counted.counts_prime.sum()) == (MANY, MANY)
    assert after.fitting.pooled.sum() == 4 * MANY


@pytest.mark.parametrize("learnt", [True, False])
def test_the_curve_of_a_learnt_score_ignores_what_it_was_learnt_on(learnt):
    held_out = normal(0.1, 0)
    honest, overfitted = (candidate(learnt, normal(shift, 1), held_out).expected() for shift in (0.1, 3.0))
    same = np.array_equal(honest.upper.counts, overfitted.upper.counts)
    assert same is learnt


def test_an_event_that_one_side_never_showed_is_expected_there_half_a_time():
    sure = TailCounts(np.array([[40.0], [0.0]]), np.zeros(1))
    expected = ExpectedCounts(np.array([1.0]), sure, replace(sure, counts=sure.counts[::-1]), size=100)
    only_upper = predict(expected, np.array([0]), np.array([-1]), runs=2_000)
    assert (only_upper.guess_x_on_x, only_upper.guess_x_on_x_prime) == (400.0, 5.0)
    assert (only_upper.guess_x_prime_on_x, only_upper.guess_x_prime_on_x_prime) == (0.0, 0.0)
    only_lower = predict(expected, np.array([-1]), np.array([0]), runs=2_000)
    assert (only_lower.guess_x_prime_on_x_prime, only_lower.guess_x_prime_on_x) == (400.0, 5.0)


@pytest.mark.parametrize("claim", [PureDP(1.0), ZCDP(0.5)])
def test_the_datasets_may_be_swapped(claim):
    """1 with probability 0.3 on one of them and never on the other, 2 always else: one event tells all."""
    rng = np.random.default_rng(5)
    telling, silent = np.where(rng.random(MANY) < 0.3, 1.0, 2.0), np.full(MANY, 2.0)
    found = [choose([Tails()], *sides, claim, 100_000, 0.95) for sides in ((telling, silent), (silent, telling))]
    assert found[1].predicted == pytest.approx(found[0].predicted, rel=0.02)
    if claim == ZCDP(0.5):
        assert found[1].certificate == Box("x_prime")
