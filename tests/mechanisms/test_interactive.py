"""Analysts against filters: laws by enumeration, budgets that hold for all strategies, odometers, broken filters."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import ZCDP, ApproxDP, ApproxZCDP, AuditError, GaussianDP, PureDP, RenyiDP, TradeOff, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.analysts import (
    Doubler,
    Follower,
    Gambler,
    Interleaver,
    Juggler,
    Partitioner,
    Repeater,
    RoundedGaussian,
    SparseVectorSession,
)
from epsaudit.mechanisms.broken.accounting import (
    ForgetfulSubSessions,
    LateFilter,
    OncePerMechanism,
    PresenceUnderMoves,
    PrivacyLossFilter,
)
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
from epsaudit.witnesses import Oracle

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


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(WITH_DELTA[:4]))
def test_kinds_of_requests_may_be_mixed_in_any_order(seed, guard):
    """Pure DP, approximate DP, zCDP and sparse vectors, in the order that the answers say: reordering is for free."""
    mixed = (
        *(Request(RandomisedResponse(epsilon)) for epsilon in (0.2, 0.5)),
        *(Request(LeakyResponse(epsilon, 0.003)) for epsilon in (0.1, 0.5)),
        *(Request(SparseVectorSession(0.5), session, question) for session in (0, 1) for question in (1.0, -1.0)),
        *(Request(RoundedGaussian(mu)) for mu in (0.2, 0.5)),
    )
    if guard == WITH_DELTA[0]:  # adds up epsilons and deltas, which those of zCDP do not have
        mixed = mixed[:-2]
    assert exact_parameter(TableAnalyst(seed, 4, mixed), guard) <= guard.claim.parameter * (1 + 1e-9)
    order = np.random.default_rng(seed).permutation(len(mixed))
    spent = [
        Ledger(tuple((mixed[place], True) for place in places)).spent(ApproxZCDP(0.0, 0.0))
        for places in (range(len(mixed)), order)
    ]
    assert (spent[0].rho, spent[0].delta) == pytest.approx((spent[1].rho, spent[1].delta))


ASKED = tuple(Request(RandomisedResponse(epsilon), session) for epsilon in (0.1, 0.25, 0.6) for session in range(3))


@dataclasses.dataclass(frozen=True)
class TableAnalyst:
    seed: int
    rounds: int = 5
    menu: tuple[Request, ...] = ASKED

    def choose(self, answers, ledger):
        codes = np.nan_to_num(answers, nan=2.0) @ 3.0 ** np.arange(answers.shape[1]) + 1000 * answers.shape[1]
        return np.array([np.random.default_rng([self.seed, int(code)]).integers(-1, len(self.menu)) for code in codes])


@pytest.mark.nightly
def test_laws_are_those_of_a_run_by_run_simulation(fit):
    # p-values below 1e-6 fail: the false-alarm chance
    analyst, guard = Gambler((0.1, 0.2, 0.4, 0.8), rounds=4), TotalFilter(PureDP(1.0))
    law = Interaction(analyst, guard)((1,))
    rng = np.random.default_rng(8)

    def one_run():
        answers, ledger = np.empty((1, 0)), Ledger()
        for _ in range(analyst.rounds):
            request = analyst.menu[analyst.choose(answers, ledger)[0]]
            granted = guard.admits(ledger, request)
            answer = rng.random() < request.mechanism.truth if granted else np.nan
            answers, ledger = np.append(answers, [[float(answer)]], axis=1), ledger.after(request, granted)
        return tuple(None if value != value else value for value in answers[0].tolist())

    def packed(rows):
        outputs = np.empty(len(rows), object)
        outputs[:] = [repr(row) for row in rows]
        return outputs

    named = dataclasses.make_dataclass("Named", ["support", "log_probabilities"])(
        [repr(row) for row in law.support], law.log_probabilities
    )
    assert fit(named, packed([one_run() for _ in range(1500)])) > 1e-6
    drawn = law.sample(200_000, rng)
    assert fit(named, packed([tuple(None if v != v else v for v in row) for row in drawn.tolist()])) > 1e-6
    other = Interaction(analyst, guard)((0,)).sample(200_000, rng)
    assert fit(named, packed([tuple(None if v != v else v for v in row) for row in other.tolist()])) < 1e-6


def test_a_transcript_that_the_analyst_cannot_get_is_impossible():
    law = Interaction(Repeater((0.6,), rounds=3), TotalFilter(PureDP(1.0)))((0,))
    rows = np.array([[0.0, np.nan, np.nan], [0.0, 1.0, np.nan], [np.nan] * 3])
    assert np.isfinite(law.log_density(rows)).tolist() == [True, False, False]
    assert law.support == ((0.0, None, None), (1.0, None, None))


def test_a_gambler_spends_all_where_it_saw_a_leak():
    analyst, guard = Gambler((0.1, 0.2, 0.4, 0.8)), TotalFilter(PureDP(1.0))
    law = Interaction(analyst, guard)((1,))
    drawn = law.sample(2000, np.random.default_rng(0))
    spent = np.empty(len(drawn))
    for rows, history in law.ledgers(drawn):
        spent[rows] = PureOdometer().reading(history[-1])
    leaked = drawn[:, 0] == drawn[:, 1]
    assert np.all(spent[leaked] >= 0.6)
    assert spent[leaked].max() == pytest.approx(1.0)
    assert spent[~leaked].min() == pytest.approx(0.6)
    assert exact_parameter(analyst, guard) == pytest.approx(1.0)
    fixed = exact_parameter(Repeater((0.1,)), guard)
    assert fixed == pytest.approx(0.6)  # six requests that do not adapt


@pytest.mark.parametrize(
    ("analyst", "guard", "true"),
    [
        (Repeater((0.6,)), LateFilter(PureDP(1.0)), 1.2),
        (Gambler((0.2, 0.7), lead=1), LateFilter(PureDP(1.0)), 1.6),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in (
                (Interleaver((0.35, 0.3, 0.3), rounds=8), ForgetfulSubSessions(PureDP(1.0), (0.3, 0.3)), 1.3),
                (Repeater((1.0,), rounds=2), LateFilter(ZCDP(0.5)), 2 * math.tanh(0.5)),
            )
        ),
    ],
    ids=["late", "late, gambled", "forgetful", "late, zCDP"],
)
def test_broken_filters_are_refuted_and_their_sound_variants_are_not(analyst, guard, true):
    assert exact_parameter(analyst, guard) == pytest.approx(true, rel=1e-6)
    broken = audit(Interaction(analyst, guard), trials=50_000, confidence=0.999, seed=1)
    assert broken.violates_claim
    assert broken.lower_bound <= broken.exact
    parent = type(guard).__mro__[1]
    sound = Interaction(analyst, parent(**{f.name: getattr(guard, f.name) for f in dataclasses.fields(guard)}))
    assert not audit(sound, trials=50_000, confidence=0.999, seed=1).violates_claim


def test_concurrent_sessions_together_cost_the_sum_of_their_budgets():
    """All orders of asking three sessions dry cost the same, and the whole budget where answers agree."""
    guard = SubSessions(PureDP(1.0), (0.3, 0.3))
    for order in itertools.permutations((0, 1, 2)):
        analyst = FixedOrder(order)
        assert exact_parameter(analyst, guard) == pytest.approx(1.0)
    for closed in (3, -1, -2):  # a list would find its last share at -1
        with pytest.raises(AuditError, match=f"Session {closed} is not open"):
            guard.admits(Ledger(), Request(RandomisedResponse(0.1), closed))


@dataclasses.dataclass(frozen=True)
class FixedOrder:
    order: tuple[int, ...]
    rounds: int = 3

    @property
    def menu(self):
        return tuple(Request(RandomisedResponse(epsilon), i) for i, epsilon in enumerate((0.4, 0.3, 0.3)))

    def choose(self, answers, ledger):
        return np.full(len(answers), self.order[answers.shape[1]])


def test_two_sparse_vectors_with_secret_thresholds_cost_both_and_not_one():
    """Interleaved as the answers say; the law is compared with runs of the algorithm, noise and all."""
    analyst, guard = Juggler(1.0, 2, 6), TotalFilter(PureDP(2.0))
    law = Interaction(analyst, guard)((1,))
    assert np.exp(law.log_probabilities).sum() == pytest.approx(1.0)
    assert 0.6 < exact_parameter(analyst, guard) <= 2.0
    one_only = TotalFilter(PureDP(1.0))  # refuses the second session
    assert exact_parameter(analyst, one_only) < exact_parameter(Juggler(1.0, 1, 6), one_only) <= 1.0
    assert exact_parameter(Juggler(1.0, 5, 10), OncePerMechanism(PureDP(1.0))) > 1.4
    rng, runs, seen = np.random.default_rng(3), 20_000, []
    for _ in range(runs):
        thresholds, halted, steps, row = rng.laplace(0.0, 2.0, 2), [False, False], 0, []
        for _ in range(6):
            session = steps % 2
            above = 0.5 + rng.laplace(0.0, 4.0) >= thresholds[session]
            row.append(-1.0 if halted[session] else float(above))
            halted[session] |= bool(above)
            steps += 2 if row[-1] == 1.0 else 1
        seen.append(tuple(row))
    assert set(seen) <= set(law.support)
    for transcript, log_chance in zip(law.support, law.log_probabilities, strict=True):
        chance = math.exp(log_chance)
        # six standard errors: a false alarm in 10^7 seeds
        assert abs(seen.count(transcript) / runs - chance) < 6.0 * math.sqrt(chance / runs) + 6.0 / runs


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


def test_adaptive_composition_of_gaussian_noise():
    """A second query whose noise the first answer chooses: zCDP adds up, and the transcript has a density."""
    analyst = Follower(Gaussian(1.0, 1e-3), Gaussian(2.0, 1e-3), Gaussian(0.5, 1e-3), threshold=0.5)
    worst = analyst.first.claims[2].rho + analyst.above.claims[2].rho
    mechanism = Interaction(analyst, TotalFilter(ZCDP(worst)))
    pair = mechanism.worst_pairs()[0]
    law = mechanism(pair.x)
    drawn = law.sample(1000, np.random.default_rng(0))
    first, second = mechanism.analyst.first(pair.x), [one(pair.x) for one in (analyst.above, analyst.below)]
    expected = first.log_density(drawn[:, 0]) + np.where(
        drawn[:, 0] > 0.5, *(law_.log_density(drawn[:, 1]) for law_ in second)
    )
    assert law.log_density(drawn) == pytest.approx(expected)
    assert not exact.knows_law(law)
    oracle = [Oracle(law, mechanism(pair.x_prime))]
    for claim in (mechanism.claim, RenyiDP(2.0, 2.0 * worst)):
        result = audit(mechanism, claim=claim, trials=40_000, seed=3, witnesses=oracle)
        assert 0.3 * claim.parameter < result.lower_bound < claim.parameter


def test_what_cannot_be_asked_is_a_sentence():
    with pytest.raises(AuditError, match="different neighbours"):
        Interaction(Follower(Laplace(1.0), Laplace(1.0), RandomisedResponse(1.0), 0.0), TotalFilter(PureDP(1.0)))
    with pytest.raises(AuditError, match="different neighbours"):
        Interaction(Repeater(()), TotalFilter(PureDP(1.0)))
    with pytest.raises(AuditError, match="more than the budget"):
        SubSessions(PureDP(1.0), (0.6, 0.6))
    with pytest.raises(AuditError, match="must be one of PureDP"):
        TotalFilter(TradeOff(((1.0, 0.0),)))
    with pytest.raises(AuditError, match="must have no delta"):
        AdaptiveSessions(ApproxDP(1.0, 1e-3))
    with pytest.raises(AuditError, match=r"0.1 of delta is spent"):
        AdvancedFilter(ApproxDP(1.0, 1e-3), spent=0.1)
    with pytest.raises(AuditError, match="buys pure DP only"):
        TotalFilter(PureDP(1.0)).admits(Ledger(), Request(Gaussian(1.0, 1e-3)))
    with pytest.raises(AuditError, match="ask for fewer rounds"):
        _ = Interaction(Repeater((0.01,), rounds=18), TotalFilter(PureDP(1.0)))((0,)).support
