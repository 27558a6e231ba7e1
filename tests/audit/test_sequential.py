"""Sequential audits: the bets are fair under the claim, true claims survive peeking, incorrect variants are refuted."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from epsaudit import (
    ZCDP,
    ApproxDP,
    ApproxZCDP,
    AuditError,
    DatasetPair,
    GaussianDP,
    PureDP,
    RenyiDP,
    SequentialResult,
    TradeOff,
    audit_sequentially,
    black_box,
    vectorized,
)
from epsaudit.audits.sequential.learning import PlannedBet
from epsaudit.audits.sequential.record import SeenWitness, detectable
from epsaudit.bounds import betting
from epsaudit.bounds.betting import Accounts, point
from epsaudit.bounds.counts import Counts
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.broken.additive import GaussianSensitivityOffByTwo, LaplaceHalfNoise
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.witnesses.events import Interval, Region, Witness

CURVES = [ZCDP(0.3), GaussianDP(0.7), RenyiDP(2.0, 0.4), ApproxZCDP(0.3, 0.01), TradeOff(((0.0, 0.3), (1.0, 0.1)))]
CLAIMS = [PureDP(1.0), ApproxDP(1.0, 0.05), *CURVES]


def slow(*values):
    """A slow parameter: the profile of zCDP, for one, takes seconds to invert."""
    return pytest.param(*values, marks=pytest.mark.slow, id=str(values[0]))


def untruthful(data, rng):
    """Answers whom the dataset holds: no privacy at all."""
    return data[0]


@given(st.floats(0.0, 6.0), st.floats(0.0, 1.0), st.sampled_from([1, 2]), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
@settings(max_examples=300, deadline=None)
def test_no_bet_gains_on_average_where_the_inequality_holds(epsilon, delta, events, share, guessing):
    wrong = guessing * share / (1.0 + math.exp(epsilon))
    correct = min(math.exp(epsilon) * wrong + events * delta / 2.0, 1.0 - wrong)
    factors = np.exp(betting.log_factors(epsilon, delta, events))
    assert np.all(factors >= 0.0)
    mean = correct * factors[0] + wrong * factors[1] + (1.0 - correct - wrong) * factors[2]
    assert np.all(mean <= 1.0 + 1e-9)


@given(st.floats(0.5, 0.99), st.floats(0.1, 1.0), st.floats(0.0, 2.0))
@settings(max_examples=100, deadline=None)
def test_growth_is_relative_entropy_where_delta_is_zero(odds, guesses, epsilon):
    """Agrees with P[guess] KL(odds || claim) to 2 %, the grid's loss, where the best bet is inside the grid."""
    claimed = 1.0 / (1.0 + math.exp(-epsilon))
    best_fraction = (odds / claimed - 1.0) * math.exp(epsilon)
    if 0.005 < best_fraction < 0.95:
        limit = guesses * (odds * math.log(odds / claimed) + (1 - odds) * math.log((1 - odds) / (1 - claimed)))
        grown = betting.growth(guesses * odds, guesses * (1 - odds), epsilon, 0.0, 2)
        assert 0.975 * limit <= grown <= limit * (1 + 1e-9)


@pytest.mark.parametrize(
    "claim", [slow(claim) if isinstance(claim, (ZCDP, ApproxZCDP)) else claim for claim in CLAIMS], ids=str
)
def test_points_of_the_grid_never_claim_less_than_they_imply(claim):
    grid = betting.parameter_grid(claim)
    assert np.all(np.diff(grid) > 0.0)
    assert claim.parameter in grid
    for tangent, delta_claimed in betting.tangents(claim)[:4]:
        epsilon, delta = betting.points(claim, None if claim.claimed_point else tangent)
        for place in (len(grid) // 3, int(np.flatnonzero(grid == claim.parameter)[0]), -1):
            implied = claim.with_parameter(grid[place]).profile(epsilon[place])
            assert delta[place] >= implied * (1.0 - 1e-9)
            assert delta[place] <= implied * 1.6 + 2e-6
        if claim.claimed_point is None:
            assert claim.profile(tangent) == pytest.approx(delta_claimed, rel=1e-6)


@given(st.integers(0, 1000), st.sampled_from([(), (3,)]))
@settings(max_examples=50, deadline=None)
def test_dividing_moves_wealth_and_makes_none(seed, parameters):
    """Each parameter's accounts are its own, whatever the shares; nobody keeps less than what is not divided."""
    rng = np.random.default_rng(seed)
    before = rng.normal(0.0, 8.0, (2, *parameters, 60))
    shares = rng.dirichlet(np.full(60, 0.1), (2, *parameters)) / 2.0
    after = betting.divided(before, shares)
    average = betting.average(before, axis=(0, -1))
    assert np.allclose(betting.average(after, axis=(0, -1)), average)
    assert np.all(after >= before + math.log(1.0 - betting.DIVIDED) - 1e-9)


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_no_wealth_grows_on_average_if_the_claim_holds_whatever_the_past_made_of_the_bets(claim):
    """Against the claim and all above it, over rounds whose plans are arbitrary; an incorrect variant wins."""
    rng = np.random.default_rng(3)
    accounts = Accounts(claim, 0.95, 2)
    at, tangent = accounts.at_claim, None if claim.claimed_point else betting.tangents(claim)[1][0]
    epsilon, delta = point(claim, tangent)
    witness = Witness(Region(intervals=(Interval(low=1.0),)), Region(intervals=(Interval(high=0.0),)))
    wrong = 0.9 * (1.0 - delta) / (1.0 + math.exp(epsilon))
    for _ in range(3):
        rates_of_past = [(0.8, 0.02), rng.dirichlet([3.0, 1.0])]
        plans = [PlannedBet(witness, tangent, *rates, int(rng.integers(1000)), 0.0) for rates in rates_of_past]
        accounts.open(plans)
        for correct, grows in ((math.exp(epsilon) * wrong + delta, False), (1.0 - wrong / 4.0, True)):
            rates = np.array([correct, wrong / 4.0 if grows else wrong, 0.0])
            rates[2] = 1.0 - rates.sum()
            one_run = accounts.log_wealth + np.log(np.einsum("o,sopb->spb", rates, np.exp(accounts.factors)))
            gain = betting.average(one_run, axis=(0, 2)) - betting.average(accounts.log_wealth, axis=(0, 2))
            if grows:
                assert gain[at] > 0.01
            else:
                assert np.all(gain[at:] <= 1e-9)
        accounts.close(rng.multinomial(20, [0.5, 0.3, 0.2], 2).astype(float))


def test_evidence_agrees_with_the_verdict():
    """Refuting the claim rejects every lesser parameter, whatever was won against each of them."""
    grid = np.array([0.5, 1.0, 2.0])
    threshold = math.log(20.0)
    at_claim = threshold - math.log(betting.STAKE)
    rows = betting.evidence(np.array([[-50.0, at_claim, 0.0]]), np.array([[at_claim]]), grid, 1.0)
    assert (rows >= threshold - 1e-12).tolist() == [[True, True, False]]


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        (RandomisedResponse(1.0), RandomisedResponse(2.0), 0),
        slow(Laplace(1.0), LaplaceHalfNoise(1.0), 0),
        slow(Gaussian(1.0, 0.05), GaussianSensitivityOffByTwo(1.0, 0.05), 1),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_true_claims_survive_continuous_peeking(right, wrong, place):
    """20 audits at 95 %: as many refuted as 20 at 5 % exceed with probability 1e-4 at most.

    The incorrect variant, with half the noise, must be refuted, almost always.
    """

    def refuted(mechanism, runs, audits):
        return [
            audit_sequentially(mechanism, claim=claim, trials=runs, seed=seed, n_jobs=1).violates_claim
            for seed in range(audits)
        ]

    claim = right.claims[place]
    assert sum(refuted(right, 400, 20)) <= int(binom.isf(1e-4, 20, 0.05))
    assert sum(refuted(wrong, 4000, 5)) >= 4


def test_bets_alone_cross_as_seldom_as_they_must():
    """2,000 true claims, looked at after each of 2,000 runs: at most 139 cross if 5 % would, but for one in a million.

    With the odds of a claim twice as large, nearly all cross.
    """
    rng = np.random.default_rng(6)
    correct, wrong, _ = betting.log_factors(1.0, 0.0, 2)
    crossed = {}
    for epsilon in (1.0, 2.0):
        guesses = rng.random((2000, 2000)) < math.exp(epsilon) / (1.0 + math.exp(epsilon))
        right = np.cumsum(guesses, axis=1)
        number = np.arange(1, 2001)
        runs, successes = np.broadcast_to(number, right.shape).ravel(), right.ravel()
        states, where = np.unique(runs * 2048 + successes, return_inverse=True)
        n, k = states // 2048, states % 2048
        wealth = betting.average(k[:, None] * correct + (n - k)[:, None] * wrong)[where].reshape(right.shape)
        crossed[epsilon] = int(np.sum(np.max(wealth, axis=1) >= math.log(20.0)))
    assert crossed[1.0] <= binom.isf(1e-6, 2000, 0.05)
    assert crossed[2.0] > 1950


@pytest.mark.parametrize("place", [0, 1, slow(2)])
def test_half_the_noise_is_refuted_under_every_kind_of_claim(place):
    broken = GaussianSensitivityOffByTwo(1.0, 0.05)
    claim = broken.claims[place]
    result = audit_sequentially(broken, claim=claim, trials=60_000, confidence=1 - 1e-6, seed=4, n_jobs=1)
    assert result.stopped == "refuted"
    assert result.violates_claim
    assert result.lower_bound >= claim.parameter


def test_a_few_hundred_runs_refute_half_the_noise():
    """The median of 5 audits at 95 % is below 300 runs; the information limit is 69."""
    runs = [audit_sequentially(LaplaceHalfNoise(1.0), trials=1000, seed=seed, n_jobs=1).runs for seed in range(5)]
    assert np.median(runs) < 300


def test_the_result_depends_on_the_seed_and_not_on_who_computed_it():
    one, several = (audit_sequentially(Laplace(1.0), trials=1_000, seed=3, n_jobs=jobs) for jobs in (1, 2))
    assert one == several
    assert one.rounds != audit_sequentially(Laplace(1.0), trials=1_000, seed=4, n_jobs=1).rounds


def test_the_path_rises_and_the_record_recomputes_its_evidence():
    result = audit_sequentially(LaplaceHalfNoise(1.0), trials=20_000, seed=0, n_jobs=1, confidence=0.99)
    runs, bounds = zip(*result.path, strict=True)
    assert list(runs) == sorted(runs)
    assert list(bounds) == sorted(bounds)
    assert runs[-1] == result.runs == sum(round_.runs for round_ in result.rounds)
    assert result.log_evidence >= math.log(100.0)
    again = SequentialResult.from_dict(json.loads(json.dumps(result.to_dict())))
    assert again == result
    assert str(again) == str(result)
    assert "contradicts the claim" in str(result)
    fewer = dataclasses.replace(result, rounds=result.rounds[:-1])
    assert not fewer.violates_claim


def test_stops_when_the_bound_is_near_enough():
    mechanism = RandomisedResponse(1.0)
    result = audit_sequentially(mechanism, near=0.2, seed=1, n_jobs=1)
    assert result.stopped == "near"
    assert 0.8 <= result.lower_bound < 1.0
    assert result.runs < 20_000


def test_stops_when_the_time_is_spent_as_if_nothing_had_happened():
    hurried = audit_sequentially(Laplace(1.0), seconds=1e-9, seed=1, n_jobs=1)
    assert hurried.stopped == "seconds"
    patient = audit_sequentially(Laplace(1.0), trials=2_000, seed=1, n_jobs=1)
    (some,), (whole, *_) = hurried.rounds, patient.rounds
    for kept, strategy in zip(some.strategies, whole.strategies, strict=True):
        assert kept.looks
        assert strategy.looks[: len(kept.looks)] == kept.looks


@pytest.mark.parametrize(("scale", "stopped"), [(0.5, "refuted"), (1.0, "seconds")])
def test_only_what_is_expected_to_be_refuted_is_given_time(scale, stopped):
    """Time is up when it was asked for the fortieth time, but for what has a tenth of the runs that refute."""
    heard = []

    def seconds(done):
        heard.append(done)
        return math.inf if len(heard) < 40 or done > 0.1 else 1e-9

    result = audit_sequentially(Laplace(1.0 / scale), claim=PureDP(1.0), seconds=seconds, confidence=1 - 1e-6, seed=1)
    assert result.stopped == stopped
    assert min(heard) == 0.0, "no bet yet"
    assert (heard[-1] == 1.0) == (stopped == "refuted")


@pytest.fixture(scope="module")
def consistent():
    return audit_sequentially(Laplace(1.0), trials=4_000, confidence=0.999, seed=0, n_jobs=1)


def test_it_is_said_what_would_have_been_caught(consistent):
    assert 1.1 < consistent.detectable < 1.8
    assert "would have caught epsilon >= 1." in str(consistent)


@pytest.mark.slow
def test_would_have_caught_is_kept(consistent):
    """What is said to be caught 9 times in 10 is caught (of 5, 1 or fewer: below 1e-3)."""
    caught = [
        audit_sequentially(
            Laplace(consistent.detectable), claim=PureDP(1.0), trials=4_000, confidence=0.999, seed=seed, n_jobs=1
        ).violates_claim
        for seed in range(5)
    ]
    assert sum(caught) >= 2


def test_any_outputs_and_exceptions_are_bet_on():
    def moody(data, rng):
        if rng.random() < 0.5:
            return None
        if data and rng.random() < 0.3:
            raise RuntimeError("too many people")
        return ("a", len(data)) if rng.random() < 0.1 else [1.0] * rng.integers(0, 3)

    pair = DatasetPair((), ("ann",))
    result = audit_sequentially(
        black_box(moody, claim=PureDP(0.5)), pair, trials=4_000, confidence=1 - 1e-6, seed=0, n_jobs=1
    )
    assert result.stopped == "refuted"
    assert "raises RuntimeError" in str(result.witness)


def test_a_mechanism_without_privacy_is_caught_at_once():
    result = audit_sequentially(
        black_box(untruthful, claim=PureDP(1.0)), DatasetPair((0,), (1,)), seed=0, n_jobs=1, confidence=1 - 1e-6
    )
    assert result.runs < 200
    assert result.lower_bound >= 1.0


def test_constant_outputs_refute_nothing():
    constant = vectorized(lambda data, size, rng: np.zeros(size), claim=PureDP(0.1), name="constant")
    result = audit_sequentially(constant, DatasetPair(0, 1), trials=500, seed=0, n_jobs=1)
    assert not result.violates_claim
    assert result.lower_bound == 0.0


def test_a_claim_of_no_loss_at_all_can_be_refuted():
    result = audit_sequentially(Laplace(1.0), claim=PureDP(0.0), trials=5_000, seed=0, n_jobs=1)
    assert result.stopped == "refuted"
    still = vectorized(lambda data, size, rng: rng.random(size), claim=PureDP(0.0))
    assert not audit_sequentially(
        still, DatasetPair(0, 1), trials=2_000, confidence=1 - 1e-6, seed=0, n_jobs=1
    ).violates_claim


def test_of_many_pairs_the_worst_is_bet_on():
    def noisy(data, size, rng):
        return data + rng.laplace(size=size)

    pairs = [DatasetPair(0, 1e-9, "same"), DatasetPair(0, 3, "far"), DatasetPair(0, 1, "near")]
    result = audit_sequentially(
        vectorized(noisy, claim=PureDP(1.0)), pairs, trials=20_000, confidence=1 - 1e-6, seed=0, n_jobs=1
    )
    assert result.stopped == "refuted"
    assert result.pair == "far"
    assert result.runs > sum(round_.runs for round_ in result.rounds)  # some only looked


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"trials": 10}, "trials is 10"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"near": -1.0}, "near is -1.0"),
        ({"claim": PureDP(1000.0)}, "as weak as 1000-DP; its epsilon must be at most 100"),
        ({"claim": ApproxDP(1.0, 1 - 1e-12)}, "its delta, .* at most 1 - 1e-9"),
    ],
)
def test_errors_are_sentences(arguments, words):
    with pytest.raises(AuditError, match=words):
        audit_sequentially(Laplace(1.0), **arguments)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "claim", [PureDP(100.0), ApproxDP(100.0, 1e-5), GaussianDP(12.0), slow(ZCDP(21.0)), RenyiDP(1.01, 1.0)], ids=str
)
def test_the_weakest_claims_are_bet_against(claim):
    result = audit_sequentially(Laplace(5.0), claim=claim, trials=500, seed=0, n_jobs=1)
    assert 0.0 < result.lower_bound <= result.exact
    assert max(epsilon for epsilon, _ in betting.tangents(claim)) <= 100.0


RUNS, NEEDED = 15_000, math.log(2e6 / 0.9)


def caught(claim, mean, most, audits=400):
    """Share of audits of N(0, 1) and N(mean, 1) that refute the claim at the best tangent, by events that common."""
    rng, shares = np.random.default_rng(1), []
    for threshold in np.linspace(0.0, 3.0, 25):
        rates = [float(ndtr(side * mean / 2 - threshold)) for side in (1, -1)]
        if sum(rates) <= most:
            tallies = rng.multinomial(RUNS, [*rates, 1.0 - sum(rates)], size=audits)
            found = [betting.average(tallies @ betting.log_factors(*at, 2)) for at in betting.tangents(claim)]
            shares += [float(np.mean(one >= NEEDED)) for one in found]
    return max(shares)


@pytest.mark.parametrize("most", [1.0, 0.2])
@pytest.mark.parametrize("claim", [ZCDP(0.5), RenyiDP(4.0, 2.0), GaussianDP(1.0)], ids=str)
def test_a_gaussian_is_caught_as_often_as_is_said(claim, most):
    """Of 400 audits 360: 6 of them are a standard error, and 36 are allowed."""
    counts = Counts.of_outcomes(10_000, round(6_000 * most), round(4_000 * most))
    stated = detectable(claim, [SeenWitness(0.0, counts)], RUNS, NEEDED)
    assert stated is not None
    ratio = stated / claim.parameter  # mu is sqrt(2 rho), or sqrt(2 epsilon / a)
    assert abs(caught(claim, ratio if isinstance(claim, GaussianDP) else math.sqrt(ratio), most) - 0.9) < 0.09


@pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(1.0, 0.05)], ids=str)
def test_the_event_that_tells_most_counts_and_not_a_rare_one(claim):
    """Nor one that was only ever seen by luck."""
    factor = math.e
    common, none = round(10_000 * 0.7), round(10_000 * 0.05)
    right, wrong = round(common * factor / (1 + factor)) + none, round(common / (1 + factor))
    telling = SeenWitness(None, Counts.of_outcomes(10_000, right, wrong))
    seen = ((10_000, 265, 0, 1), (10_000, 3, 0, 1), (40, 30, 10, 2))
    rare = [SeenWitness(None, Counts.of_outcomes(*one)) for one in seen]
    alone = detectable(claim, [telling], RUNS, NEEDED)
    assert alone is not None
    assert 1.0 < alone < 1.4
    if claim == ApproxDP(1.0, 0.05):
        assert detectable(claim, [telling, *rare], RUNS, NEEDED) == alone
    else:
        assert detectable(claim, [telling, *rare[1:]], RUNS, NEEDED) == alone
