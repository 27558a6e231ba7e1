"""Composition: bounds in their order, analysts against filters and odometers, repeated responses along their curve."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit
from scipy.stats import binom, chisquare

from epsaudit import ZCDP, ApproxDP, ApproxZCDP, AuditError, GaussianDP, PureDP, RenyiDP
from epsaudit.experiments.composition import zcdp_to_epsilon
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.accounting import advanced, basic, concentrated, gaussian, loss_distribution, numeric
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace
from epsaudit.mechanisms.analysts import (
    Doubler,
    Gambler,
    Interleaver,
    NoisyGambler,
    Partitioner,
    RepeatedResponse,
    Repeater,
    RoundedGaussian,
)
from epsaudit.mechanisms.broken.accounting import PresenceUnderMoves
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
from epsaudit.mechanisms.composition import ProductLaw, Sequential
from epsaudit.mechanisms.groups import PresenceResponse
from epsaudit.mechanisms.interactive import Interaction
from epsaudit.mechanisms.loss_walk import LossWalk
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.outputs.arrays import pack

DELTA = 1e-6


@pytest.mark.parametrize(
    ("part", "copies"),
    [
        (Laplace(0.1), 1),
        (RandomisedResponse(0.1), 1),
        (RandomisedResponse(0.1), 128),
        pytest.param(Laplace(0.1), 32, marks=pytest.mark.slow),
    ],
)
def test_the_bounds_are_ordered(part, copies):
    whole = Sequential.copies(part, copies)
    pair = whole.worst_pairs()[0]
    laws = whole(pair.x), whole(pair.x_prime)
    true = exact.epsilon(*laws, DELTA)
    pure, rho = whole.claims
    values = [true, whole.numeric(DELTA).epsilon, min(whole.advanced(DELTA).epsilon, pure.epsilon), pure.epsilon]
    assert all(a <= b * (1 + 1e-6) for a, b in itertools.pairwise(values)), values
    assert values[1] == pytest.approx(true, rel=1e-4)
    assert true <= zcdp_to_epsilon(rho.rho, DELTA) <= whole.advanced(DELTA).epsilon
    assert pure.epsilon == pytest.approx(0.1 * copies)
    assert exact.exact_parameter(rho, *laws) <= rho.rho * (1 + 1e-6)
    assert exact.exact_parameter(pure, *laws) == pytest.approx(pure.epsilon)


def test_theorems_on_claims():
    claims = [PureDP(0.3), ApproxDP(0.4, 1e-7)]
    assert (basic(claims).epsilon, basic(claims).delta) == (pytest.approx(0.7), 1e-7)
    assert advanced(claims, 1e-6).epsilon == pytest.approx(0.125 + math.sqrt(2 * math.log(1e6) * 0.25))
    assert advanced(claims, 1e-6).delta == pytest.approx(1.1e-6)
    assert concentrated([ZCDP(1.0), PureDP(2.0), GaussianDP(0.5)]).rho == pytest.approx(1 + 2 * math.tanh(1) + 0.125)
    assert gaussian([GaussianDP(1.0), GaussianDP(1.0)]).mu == pytest.approx(math.sqrt(2))
    whole = numeric([loss_distribution(GaussianDP(1.0))] * 2, 1e-4)
    assert whole.epsilon == pytest.approx(GaussianDP(math.sqrt(2)).approximate(1e-4).epsilon, rel=1e-5)


def test_parts_offer_the_claims_they_share():
    assert [type(claim) for claim in Sequential(Laplace(0.5), Gaussian(1.0, 1e-5)).claims] == [ApproxDP, ZCDP]
    gaussians = Sequential.copies(Gaussian(1.0, 1e-5), 4)
    assert gaussians.claims[2].mu == pytest.approx(2 * Gaussian(1.0, 1e-5).claims[1].mu)
    pair = gaussians.worst_pairs()[0]
    laws = gaussians(pair.x), gaussians(pair.x_prime)
    assert exact.epsilon(*laws, DELTA) == pytest.approx(gaussians.numeric(DELTA).epsilon, rel=1e-5)


@pytest.mark.parametrize("part", [Laplace(0.5), RandomisedResponse(0.5)], ids=lambda one: one.name)
def test_the_composed_trade_off_curve_is_attained(part):
    """The advantage over it is 1, up to the rounding of the curve; over that of one part it is more."""
    whole = Sequential.copies(part, 2)
    pair = whole.worst_pairs()[0]
    curve = whole.trade_off((0.0, 0.25, 0.5))
    assert 0.999 < exact.exact_parameter(curve, whole(pair.x), whole(pair.x_prime)) <= 1.0 + 1e-8
    single = Sequential(part).trade_off((0.0, 0.25, 0.5))
    assert exact.exact_parameter(single, whole(pair.x), whole(pair.x_prime)) > 1.2


def test_numeric_uses_what_is_known_of_each_part():
    parts = (Laplace(0.2), DiscreteLaplace(0.2), RandomisedResponse(0.2, 5), Gaussian(0.2, 1e-7))
    for part in parts:
        by_claim = numeric([loss_distribution(part.claim)], 1e-3).epsilon
        own = Sequential(part).numeric(1e-3).epsilon
        pair = part.worst_pairs()[0]
        true = exact.epsilon(part(pair.x), part(pair.x_prime), 1e-3)
        assert true <= own * (1 + 1e-9)
        assert own <= by_claim + 1e-4  # a step of the grid
        assert own == pytest.approx(true, rel=1e-3)


def test_draws_are_independent_and_each_follows_its_part():
    # p-values below 1e-6 fail
    law = ProductLaw((Laplace(1.0)(("ann",)), Laplace(0.5)(("ann",))))
    draws = law.sample(20_000, np.random.default_rng(3))
    for column, scale in zip(draws.T, (1.0, 2.0), strict=True):
        assert stats.kstest(column, stats.laplace(1.0, scale).cdf).pvalue > 1e-6
        assert stats.kstest(column, stats.laplace(1.0, 1.1 * scale).cdf).pvalue < 1e-6
    assert stats.spearmanr(*draws.T).pvalue > 1e-6


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


@settings(max_examples=30)
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


def chance_beyond(odometer, law):
    """Probability that the loss ever passes the reading."""
    answers = np.array(law.support, float)
    exceeded = np.zeros(len(answers), bool)
    for rows, history in law.ledgers(answers):
        loss = np.zeros(len(rows))
        for round_, ledger in enumerate(history):
            last, column = ledger.entries[-1][0].mechanism, answers[rows, round_]
            loss += last((0,)).log_density(column) - last((1,)).log_density(column)
            exceeded[rows] |= loss > odometer.reading(ledger)
    return np.exp(law.log_probabilities[exceeded]).sum()


@pytest.mark.parametrize("delta", [pytest.param(0.3, marks=pytest.mark.slow), 0.05])
def test_the_concentrated_odometer_covers_the_loss_at_all_times_at_once(delta):
    """Exact chance that the loss ever passes the reading, against an analyst who stops as soon as it does."""
    odometer = ConcentratedOdometer(delta, 0.5)
    law, _ = laws(Doubler((0.25, 0.3, 0.35), rounds=10), Unlimited(PureDP(3.5)))
    assert 0.01 * delta < chance_beyond(odometer, law) <= delta
    careless = dataclasses.replace(odometer, delta=0.999)  # claims less than it may
    assert careless.slope < odometer.slope


def exactly(claim, mechanism):
    return exact.exact_parameter(claim, mechanism((0,)), mechanism((1,)))


@pytest.mark.parametrize(("mu", "cells"), [(0.3, 2), (1.0, 3), (2.5, 8)])
def test_cells_are_those_of_noisy_bits_and_keep_the_claims(mu, cells):
    """A chi-square p-value below 1e-6 fails; the incorrect variant has the noise of another mu."""
    mechanism = RoundedGaussian(mu, cells)
    noisy = 1.0 + np.random.default_rng(cells).normal(0.0, 1.0 / mu, 50_000)
    edges = 0.5 + (np.arange(1, cells) - cells / 2.0) / mu
    seen = np.bincount(np.searchsorted(edges, noisy), minlength=cells)
    for one, agrees in ((mechanism, True), (RoundedGaussian(1.5 * mu, cells), False)):
        p_value = chisquare(seen, np.exp(one((1,)).log_probabilities) * seen.sum()).pvalue
        assert bool(p_value > 1e-6) is agrees
    for claim in mechanism.claims:
        assert 0.6 * claim.parameter < exactly(claim, mechanism) <= claim.parameter * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "copies"), [(0.5, 3), (1.0, 4), (0.2, 7), (2.0, 1)])
def test_the_curve_is_that_of_optimal_composition(epsilon, copies):
    mechanism = RepeatedResponse(epsilon, copies)
    total = (1.0 + math.exp(epsilon)) ** copies
    for i, (loss, delta) in enumerate(mechanism.claim.points):
        assert loss == pytest.approx((copies - 2 * i) * epsilon)
        terms = (
            math.comb(copies, j) * (math.exp((copies - j) * epsilon) - math.exp((copies - 2 * i + j) * epsilon))
            for j in range(i)
        )
        assert delta == pytest.approx(math.fsum(terms) / total)  # Kairouz, Oh and Viswanath 2015, Theorem 3.3
    assert len(mechanism.claim.points) == copies // 2 + 1
    assert exactly(mechanism.claim, mechanism) == pytest.approx(1.0)


@settings(max_examples=20)
@given(st.floats(0.05, 0.5), st.floats(0.05, 0.5), st.integers(2, 4))
def test_no_adaptive_composition_goes_beyond_the_curve(cheap, dear, copies):
    curve = RepeatedResponse(0.5, copies).claim
    epsilons = tuple(sorted((cheap, dear)))
    for analyst in (Gambler(epsilons, copies, lead=1), Doubler(epsilons, copies)):
        asked = Interaction(analyst, Unlimited(PureDP(0.5 * copies)))
        assert exactly(curve, asked) <= 1.0 + 1e-9


def test_an_odometer_reads_gaussian_dp_as_zcdp_and_covers_the_loss_at_all_times():
    """Exact chance that the loss ever passes the reading, of an analyst who asks for what it likes."""
    odometer = ConcentratedOdometer(0.05, 1.5)
    ask = Request(RoundedGaussian(0.8))
    assert odometer.reading(Ledger().after(ask, True)) == pytest.approx(
        (odometer.slope + 1.0) * 0.32 + math.log(20.0) / odometer.slope
    )
    asked = Interaction(NoisyGambler((0.6, 1.0), 5, cells=5, lead=1), Unlimited(GaussianDP(3.0)))
    assert 0.01 * odometer.failure < chance_beyond(odometer, asked((0,))) <= odometer.failure


def test_the_chance_that_a_loss_is_ever_beyond_a_reading_against_all_sequences_of_answers():
    walk, rounds = LossWalk(0.7), 10
    right = 1.0 / (1.0 + math.exp(-0.7))
    for readings in (walk.at_one_time(rounds, 0.2), walk.mean * np.arange(1, rounds + 1) + 0.9, np.full(rounds, 7.1)):
        total = 0.0
        for answers in itertools.product((1, -1), repeat=rounds):
            losses = 0.7 * np.cumsum(answers)
            chance = right ** answers.count(1) * (1.0 - right) ** answers.count(-1)
            total += chance * bool(np.any(losses > readings + 1e-9))
        assert walk.chance_ever_beyond(readings) == pytest.approx(total, abs=1e-12)


def test_what_a_filter_can_promise_is_no_reading_of_an_odometer():
    """Each bound holds at one time. That one of them is ever exceeded is likelier, the more so the longer it runs."""
    walk, delta = LossWalk(0.1), 0.05
    ever, factors = [], []
    for rounds in (10, 100, 1000):
        once, always = walk.at_one_time(rounds, delta), walk.at_all_times(rounds, delta)
        n = np.arange(1, rounds + 1)
        assert np.all(binom.sf(np.floor((once / walk.epsilon + n) / 2.0 + 1e-9), n, expit(0.1)) <= delta)
        ever.append(walk.chance_ever_beyond(once))
        assert walk.chance_ever_beyond(always) <= delta
        assert walk.chance_ever_beyond(always - 0.5 * walk.epsilon * np.sqrt(n)) > delta  # a lower odometer fails
        factors.append((always[-1] - rounds * walk.mean) / math.sqrt(rounds))
    assert ever == pytest.approx([0.066, 0.208, 0.344], abs=1e-3)
    assert factors == sorted(factors)


@pytest.mark.parametrize("target", [0.05, 0.5, 5.0])
def test_the_odometer_by_villes_inequality_is_seldom_exceeded(target):
    """Its reading for randomised response at any time; the incorrect variant leaves out the logarithm of 1 / delta."""
    odometer, walk = ConcentratedOdometer(0.05, target), LossWalk(0.1)
    rhos = walk.mean * np.arange(1, 2001)
    readings = (odometer.slope + 1.0) * rhos + math.log(20.0) / odometer.slope
    ledger = Ledger().after(Request(RandomisedResponse(0.1)), True)
    assert odometer.reading(ledger) == pytest.approx(readings[0])
    assert walk.chance_ever_beyond(readings) <= 0.05
    assert walk.chance_ever_beyond(readings - math.log(20.0) / odometer.slope) > 0.05


@pytest.mark.parametrize(("rounds", "delta"), [(0, 0.1), (30_000, 0.1), (5, 0.0), (5, 1.5)])
def test_a_loss_walk_refuses_what_it_cannot_compute(rounds, delta):
    with pytest.raises(AuditError):
        LossWalk(0.1).at_one_time(rounds, delta)
