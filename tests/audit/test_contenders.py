"""Contenders and their cuts: only outputs that taught nobody judge, nothing is expected never, and both sides alike."""

from dataclasses import replace

import numpy as np
import pytest

from epsaudit import ZCDP, PureDP
from epsaudit.certificates import Box
from epsaudit.witnesses import Contender, choose
from epsaudit.witnesses.cuts import Cuts, predict
from epsaudit.witnesses.cuts import Tails as Side
from epsaudit.witnesses.features import Value
from epsaudit.witnesses.scores import Monotone, Tails

MANY = 5_000


def contender(learnt, fitting, judging):
    found = Contender.of(Monotone(Value(), 1, learnt=learnt), fitting, judging)
    assert found is not None
    return found


def normal(shift, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(shift, size=MANY), rng.normal(size=MANY)


def test_what_put_a_score_on_the_shortlist_does_not_judge_it_again():
    before = contender(False, normal(0.5, 0), normal(0.5, 1))
    fresh = normal(0.0, 2)
    after = before.afresh().watch(*fresh)
    assert after.size == MANY
    judged = after.seen[0] + after.seen[1]
    assert (judged.counts.sum(), judged.counts_prime.sum()) == (MANY, MANY)
    assert after.fitting.pooled.sum() == 4 * MANY


@pytest.mark.parametrize("learnt", [True, False])
def test_the_curve_of_a_learnt_score_ignores_what_it_was_learnt_on(learnt):
    judging = normal(0.1, 0)
    honest, flattering = (contender(learnt, normal(shift, 1), judging).cuts() for shift in (0.1, 3.0))
    same = np.array_equal(honest.upper.counts, flattering.upper.counts)
    assert same is learnt


def test_an_event_that_one_side_never_showed_is_expected_there_half_a_time():
    sure = Side(np.array([[40.0], [0.0]]), np.zeros(1))
    cuts = Cuts(np.array([1.0]), sure, replace(sure, counts=sure.counts[::-1]), size=100)
    only_upper = predict(cuts, np.array([0]), np.array([-1]), runs=2_000)
    assert (only_upper.guess_x_on_x, only_upper.guess_x_on_x_prime) == (400.0, 5.0)
    assert (only_upper.guess_x_prime_on_x, only_upper.guess_x_prime_on_x_prime) == (0.0, 0.0)
    only_lower = predict(cuts, np.array([-1]), np.array([0]), runs=2_000)
    assert (only_lower.guess_x_prime_on_x_prime, only_lower.guess_x_prime_on_x) == (400.0, 5.0)


@pytest.mark.parametrize("claim", [PureDP(1.0), ZCDP(0.5)])
def test_the_datasets_may_change_places(claim):
    """1 with probability 0.3 on one of them and never on the other, 2 always else: one event tells all."""
    rng = np.random.default_rng(5)
    telling, silent = np.where(rng.random(MANY) < 0.3, 1.0, 2.0), np.full(MANY, 2.0)
    found = [choose([Tails()], *sides, claim, 100_000, 0.95) for sides in ((telling, silent), (silent, telling))]
    assert found[1].predicted == pytest.approx(found[0].predicted, rel=0.02)
    if claim == ZCDP(0.5):
        assert found[1].certificate == Box("x_prime")
