"""Analysts against filters: laws by enumeration, budgets that hold for all strategies, odometers, broken filters."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import ZCDP, ApproxDP, ApproxZCDP, GaussianDP, PureDP, RenyiDP
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.analysts import Doubler, Follower, Gambler, Interleaver, Partitioner, Repeater
from epsaudit.mechanisms.broken.accounting import PresenceUnderMoves, PrivacyLossFilter
from epsaudit.mechanisms.budgets import (
    AdaptiveSessions,
    AdvancedFilter,
    ConcentratedOdometer,
    Ledger,
    Opening,
    PureOdometer,
    RenyiOdometer,
    Request,
    StopAt,
    SubSessions,
    TotalFilter,
    Unlimited,
)
from epsaudit.mechanisms.composition import ProductLaw
from epsaudit.mechanisms.groups import PresenceResponse
from epsaudit.mechanisms.interactive import Interaction
from epsaudit.mechanisms.response import LeakyResponse, RandomisedResponse
from epsaudit.outputs.normal_form import pack

ANALYSTS = [
    Repeater((0.3,)),
    Gambler((0.1, 0.2, 0.4, 0.8)),
    Gambler((0.15, 0.7), lead=1),
    Doubler((0.1, 0.2, 0.4)),
    Interleaver((0.4, 0.3, 0.2)),
]
LEAKY = [Gambler((0.4, 0.6), 4, delta=0.005, lead=1), Doubler((0.1, 0.2, 0.4), 4, delta=0.002)]
FILTERS = [
    TotalFilter(PureDP(1.0)),
    TotalFilter(ZCDP(0.2)),
    SubSessions(PureDP(1.0), (0.3, 0.3)),
    SubSessions(ZCDP(0.25), (0.05, 0.05)),
    TotalFilter(GaussianDP(1.0)),
    TotalFilter(RenyiDP(4.0, 0.6)),
    StopAt(PureOdometer(), 1.0),
]
WITH_DELTA = [
    TotalFilter(ApproxDP(1.0, 0.01)),
    TotalFilter(ApproxZCDP(0.3, 0.01)),
    AdvancedFilter(ApproxDP(1.2, 0.05), spent=0.01),
    StopAt(ConcentratedOdometer(0.05, 0.3, lost=0.01), 2.3),
    StopAt(RenyiOdometer(4.0, 0.05), 1.6),
]


def laws(analyst, guard):
    mechanism = Interaction(analyst, guard)
    return mechanism((0,)), mechanism((1,))


def exact_parameter(analyst, guard, claim=None):
    return exact.exact_parameter(claim or guard.claim, *laws(analyst, guard))


@pytest.mark.parametrize("guard", FILTERS, ids=str)
@pytest.mark.parametrize("analyst", ANALYSTS, ids=str)
def test_no_strategy_gets_more_than_the_budget(analyst, guard):
    true = exact_parameter(analyst, guard)
    assert 0.1 * guard.claim.parameter < true <= guard.claim.parameter * (1 + 1e-9)
    for law in laws(analyst, guard):
        assert np.exp(law.log_probabilities).sum() == pytest.approx(1.0)
        assert len(set(law.support)) == len(law.support)
        assert law.log_density(law.support) == pytest.approx(law.log_probabilities)
        assert law.log_density(pack(law.support)) == pytest.approx(law.log_probabilities)


@pytest.mark.parametrize("guard", WITH_DELTA, ids=str)
def test_no_strategy_gets_more_than_a_budget_with_a_delta(guard):
    bounds_divergences = isinstance(guard, StopAt) and isinstance(guard.odometer, RenyiOdometer)
    for analyst in ANALYSTS[:3] if bounds_divergences else (*ANALYSTS[:3], *LEAKY):
        assert exact_parameter(analyst, guard) <= guard.claim.parameter * (1 + 1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(FILTERS))
def test_no_table_of_choices_gets_more_than_the_budget(seed, guard):
    """Strategies drawn at random among all: a choice for every history, refusals included."""
    analyst = TableAnalyst(seed)
    assert exact_parameter(analyst, guard) <= guard.claim.parameter * (1 + 1e-9)


ASKED = tuple(Request(RandomisedResponse(epsilon), session) for epsilon in (0.1, 0.25, 0.6) for session in range(3))


@dataclasses.dataclass(frozen=True)
class TableAnalyst:
    seed: int
    rounds: int = 5
    menu: tuple[Request, ...] = ASKED

    def choose(self, answers, ledger):
        codes = np.nan_to_num(answers, nan=2.0) @ 3.0 ** np.arange(answers.shape[1]) + 1000 * answers.shape[1]
        return np.array([np.random.default_rng([self.seed, int(code)]).integers(-1, len(self.menu)) for code in codes])


def test_sessions_of_a_partition_cost_one_share_unless_a_record_may_move():
    guard = AdaptiveSessions(PureDP(3.0))
    sound = Interaction(Partitioner(), guard)
    for pair in (((0, 0), (1, 0)), ((0, 0), (0, 1)), ((0, 1), (1, 1))):
        assert exact.exact_parameter(guard.claim, *map(sound, pair)) <= 3.0 * (1 + 1e-9)
    assert exact.exact_parameter(guard.claim, sound((0, 0)), sound((1, 0))) == pytest.approx(3.0)
    moved = Interaction(Partitioner(PresenceUnderMoves), guard)
    assert exact.exact_parameter(guard.claim, moved((1, 0)), moved((0, 1))) == pytest.approx(4.0)
    ledger = Ledger().after(Request(Opening(1.0, 2)), True)
    asks = {
        "of another part": Request(PresenceResponse(0.1, 1), 1),
        "of all parts": Request(PresenceResponse(0.1), 1),
        "of no session": Request(PresenceResponse(0.1), 3),
        "beyond its share": Request(PresenceResponse(1.1, 0), 1),
        "to open more than is left": Request(Opening(2.1)),
        "to divide a part": Request(Opening(0.1, 2), 1),
    }
    assert {words: guard.admits(ledger, ask) for words, ask in asks.items()} == dict.fromkeys(asks, False)
    inner = ledger.after(Request(Opening(0.6), 1), True)  # a part's session may open another of the same part
    assert [session.part for session in guard.open(inner)] == [None, 0, 1, 0]
    assert guard.admits(inner, Request(PresenceResponse(0.6, 0), 3))
    assert not guard.admits(inner, Request(PresenceResponse(0.5, 0), 1))


def test_the_obvious_filter_of_privacy_loss_distributions_is_exceeded():
    """Both continuations use up delta = 0.1311 at epsilon = 2; choosing by the answer gets 1.43 times that."""
    analyst = Follower(RandomisedResponse(0.3), RandomisedResponse(2.0), LeakyResponse(0.1, 0.1311), threshold=0.5)
    guard = PrivacyLossFilter(ApproxDP(2.0, 0.1312))
    for second in (analyst.above, analyst.below):
        both = [ProductLaw((analyst.first((bit,)), second((bit,)))) for bit in (0, 1)]
        assert exact.delta(*both, 2.0) < 0.1312
    assert exact.delta(*laws(analyst, guard), 2.0) == pytest.approx(0.18693, abs=1e-5)


def losses(law, law_prime):
    return law.log_probabilities - law_prime.log_density(law.support)


def test_the_pure_odometer_always_covers_the_loss():
    law, law_prime = laws(Doubler((0.1, 0.2, 0.4)), Unlimited(PureDP(2.4)))
    answers = np.array(law.support, float)
    readings = np.empty(len(answers))
    for rows, history in law.ledgers(answers):
        readings[rows] = PureOdometer().reading(history[-1])
    assert np.all(np.abs(losses(law, law_prime)) <= readings + 1e-9)
    assert readings.min() < 0.9 < readings.max()


@pytest.mark.parametrize("delta", [0.3, 0.05])
def test_the_concentrated_odometer_covers_the_loss_at_all_times_at_once(delta):
    """Exact chance that the loss ever passes the reading, against an analyst who stops as soon as it does."""
    odometer = ConcentratedOdometer(delta, 0.5)
    law, _ = laws(Doubler((0.25, 0.3, 0.35), rounds=10), Unlimited(PureDP(3.5)))
    answers = np.array(law.support, float)
    exceeded = np.zeros(len(answers), bool)
    for rows, history in law.ledgers(answers):
        steps = np.zeros(len(rows))
        for round_, ledger in enumerate(history):
            mechanism = ledger.entries[-1][0].mechanism
            column = answers[rows, round_]
            steps += mechanism((0,)).log_density(column) - mechanism((1,)).log_density(column)
            exceeded[rows] |= steps > odometer.reading(ledger)
    chance = np.exp(law.log_probabilities[exceeded]).sum()
    assert 0.01 * delta < chance <= delta
    careless = dataclasses.replace(odometer, delta=0.999)  # claims less than it may
    assert careless.slope < odometer.slope
