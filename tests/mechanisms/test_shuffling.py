"""Shuffled responses: laws against enumeration, exact values against bounds, and the catalogue's check values."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from epsaudit import ApproxDP, AuditError, DatasetPair, PureDP, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.amplification import (
    clones_delta,
    closed_form,
    closed_form_2021,
    closed_form_2022,
    local_epsilon,
    numeric,
    numeric_2021,
    variation_ratio,
)
from epsaudit.mechanisms.broken.additive import ShuffledWithDropouts
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.shuffling import HistogramLaw, OneHolds, ShuffledResponse, ShuffledWithMalicious, TwoBinomials
from epsaudit.witnesses import Oracle


@pytest.mark.parametrize(("ones", "zeros"), [(0, 7), (7, 0), (3, 4), (1, 30)])
def test_counts_are_sums_of_binomials(ones, zeros):
    law = TwoBinomials(ones, zeros, 0.8)
    expected = np.convolve(
        stats.binom.pmf(np.arange(ones + 1), ones, 0.8), stats.binom.pmf(np.arange(zeros + 1), zeros, 0.2)
    )
    assert list(law.support) == list(range(ones + zeros + 1))
    assert np.exp(law.log_probabilities) == pytest.approx(expected, rel=1e-10)
    assert law.log_density([-1, 0.5, ones + zeros + 1]).tolist() == [-math.inf] * 3


@pytest.mark.parametrize(
    ("ones", "zeros"),
    [pytest.param(500_000, 500_000, marks=pytest.mark.nightly), (50_000, 50_000), (1_000_000, 0), (1, 999_999)],
)
def test_a_million_users(ones, zeros):
    law = TwoBinomials(ones, zeros, 0.731)
    assert np.exp(law.log_probabilities).sum() == pytest.approx(1.0, abs=1e-9)
    places = np.array(law.support)
    mean = np.exp(law.log_probabilities) @ places
    assert mean == pytest.approx(0.731 * ones + 0.269 * zeros)
    just_outside = np.array([law.support.start - 1, law.support.stop])
    assert law.log_density(just_outside) == pytest.approx(
        [
            2 * law.log_probabilities[0] - law.log_probabilities[1],
            2 * law.log_probabilities[-1] - law.log_probabilities[-2],
        ],
        abs=1e-2,
    )


def test_no_shuffling_helps_pure_dp():
    """Where everybody answers the same, the one who differs is as exposed as without shuffling."""
    mechanism = ShuffledResponse(0.7, 5000, 1e-6)
    pair = mechanism.worst_pairs()[0]
    laws = mechanism(pair.x), mechanism(pair.x_prime)
    assert exact.exact_parameter(PureDP(0.7), *laws) == pytest.approx(0.7, rel=1e-6)


def brute_force(held, truth):
    """Law of the histogram by summing over what each user answers."""
    answers = len(held)
    law = HistogramLaw(held, truth)
    users = [answer for answer, number in enumerate(held) for _ in range(number)]
    table = {}
    for given_ in itertools.product(range(answers), repeat=len(users)):
        histogram = tuple(given_.count(answer) for answer in range(answers))
        chance = math.prod(law.chances[holds, gives] for holds, gives in zip(users, given_, strict=True))
        table[histogram] = table.get(histogram, 0.0) + chance
    return FiniteLaw(list(table), np.log(list(table.values())))


@pytest.mark.parametrize("answers", [2, 3, 4])
def test_histograms_and_their_losses_against_enumeration(answers):
    mechanism = ShuffledResponse(1.3, 6, 1e-3, answers) if answers > 2 else None
    truth = 1.0 / (1.0 + (answers - 1) * math.exp(-1.3))
    pairs = [((6, 0), (5, 1))] if mechanism is None else [(p.x, p.x_prime) for p in mechanism.worst_pairs()]
    for x, x_prime in pairs:
        sides = [HistogramLaw(held, truth) for held in (x, x_prime)]
        truths = [brute_force(held, truth) for held in (x, x_prime)]
        for side, true in zip(sides, truths, strict=True):
            histograms = np.array(true.support)
            assert side.log_density(histograms) == pytest.approx(true.log_density(list(true.support)), abs=1e-9)
        for at in (0.0, 0.1, 0.4):
            for order in (1, -1):
                assert exact.delta(*sides[::order], at) == pytest.approx(exact.delta(*truths, at), rel=1e-6)
        assert exact.epsilon(*sides, 1e-3) == pytest.approx(exact.epsilon(*truths, 1e-3), rel=1e-6)
        bound = numeric(1.3, 6, 1e-3, answers)
        assert exact.epsilon(*truths, 1e-3) <= bound * (1 + 1e-9)


def test_where_the_exact_loss_is_not_known_it_says_so():
    for held, other in (((3, 2, 3), (2, 3, 3)), ((1, 0, 9999), (0, 1, 9999))):
        with pytest.raises(exact.NotKnownError, match="is not known"):
            exact.delta(HistogramLaw(held, 0.5), HistogramLaw(other, 0.5), 0.1)


def test_others_who_hold_a_third_answer_hide_less_and_the_variation_ratio_pair_is_no_bound_from_four_answers_on():
    for answers, below in ((3, False), (4, True), (6, True)):
        mechanism = ShuffledResponse(1.0, 60, 1e-4, answers)
        worse, alike = (exact.epsilon(mechanism(p.x), mechanism(p.x_prime), 1e-4) for p in mechanism.worst_pairs())
        ratio = variation_ratio(1.0, 60, 1e-4, answers)
        assert alike < worse <= mechanism.claim.parameter
        assert (ratio < worse * (1 - 1e-6)) == below
        assert below or ratio == pytest.approx(worse, rel=1e-6)


def test_later_numeric_bounds_are_lower():
    for epsilon in (0.5, 1.0, 3.0):
        assert numeric(epsilon, 5000, 1e-6) < numeric_2021(epsilon, 5000, 1e-6) < closed_form_2021(epsilon, 5000, 1e-6)
        assert variation_ratio(epsilon, 5000, 1e-6, 2) == pytest.approx(numeric(epsilon, 5000, 1e-6), rel=1e-6)
        assert numeric(epsilon, 5000, 1e-6, 8) <= numeric(epsilon, 5000, 1e-6)


def test_a_local_epsilon_is_the_greatest_that_may_be_spent():
    for answers in (2, 40):
        local = local_epsilon(0.5, 20_000, 1e-6, lambda epsilon, answers=answers: answers)
        assert numeric(local, 20_000, 1e-6, answers) <= 0.5 < numeric(1.001 * local, 20_000, 1e-6, answers)


def test_honest_users_keep_the_amplification_of_their_own_number():
    mechanism = ShuffledWithMalicious(2.0, 100, 1e-3, malicious=10)
    (pair,) = mechanism.worst_pairs()
    honest = ShuffledResponse(2.0, 90, 1e-3)
    assert mechanism.claim == honest.claim
    truth = exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), 1e-3)
    assert truth == pytest.approx(exact.epsilon(honest(pair.x), honest(pair.x_prime), 1e-3))
    result = audit(mechanism, trials=60_000, seed=6)
    assert 0.3 * truth < result.lower_bound <= truth < mechanism.claim.parameter
    # all but one in ten malicious, with everybody's amplification claimed, is `ShuffledWithDropouts`
    with pytest.raises(AuditError, match="honest"):
        ShuffledWithMalicious(2.0, 100, 1e-3, malicious=99)


def test_two_answers_as_a_histogram_or_as_a_count_lose_the_same():
    histograms = HistogramLaw((2000, 0), 0.731), HistogramLaw((1999, 1), 0.731)
    counts = TwoBinomials(0, 2000, 0.731), TwoBinomials(1, 1999, 0.731)
    assert exact.epsilon(*histograms, 1e-6) == pytest.approx(exact.epsilon(*counts, 1e-6), rel=1e-6)


def test_golden_values():
    # local epsilon 1, 10^4 reports, delta 1e-6
    mechanism = ShuffledResponse(1.0, 10_000, 1e-6)
    pair = mechanism.worst_pairs()[0]
    assert exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), 1e-6) == pytest.approx(0.0357, abs=5e-5)
    assert numeric(1.0, 10_000, 1e-6) == pytest.approx(0.0432, abs=5e-5)
    assert closed_form_2022(1.0, 10_000, 1e-6) == pytest.approx(0.180, abs=5e-4)
    assert closed_form_2021(1.0, 10_000, 1e-6) == pytest.approx(0.214, abs=5e-4)
    # the source's equation (1), by hand
    by_hand = math.log(1 + 16 * (math.e - 1) / (math.e + 1) * math.sqrt(math.e * math.log(4e6) / 1e4))
    assert closed_form(1.0, 10_000, 1e-6) == pytest.approx(by_hand)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.1, 3.0), st.sampled_from([200, 2000, 50_000]), st.sampled_from([1e-3, 1e-6]), st.data())
def test_exact_values_are_below_the_numeric_bound_and_that_below_the_closed_forms(epsilon, users, delta, data):
    ones = data.draw(st.integers(0, users - 1))
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    laws = TwoBinomials(ones, users - ones, truth), TwoBinomials(ones + 1, users - ones - 1, truth)
    bound = numeric(epsilon, users, delta)
    assert exact.epsilon(*laws, delta) <= bound * (1 + 1e-6) <= epsilon * (1 + 1e-6)
    for form in (closed_form_2022, closed_form_2021):
        try:
            assert bound <= form(epsilon, users, delta)
        except AuditError as error:
            assert "does not hold" in str(error)  # noqa: PT017  # either may hold alone
    if 0.0 < bound < epsilon:
        assert clones_delta(bound, epsilon, users) == pytest.approx(delta, rel=1e-4)


def test_draws_follow_the_law(fit):
    # p-values below 1e-6 fail
    rng = np.random.default_rng(4)
    law = TwoBinomials(30, 70, 0.7)
    assert fit(law, law.sample(100_000, rng)) > 1e-6
    assert fit(law, TwoBinomials(30, 70, 0.71).sample(100_000, rng)) < 1e-6
    histograms = HistogramLaw((1, 0, 5), 0.6)
    drawn = histograms.sample(50_000, rng)
    true = brute_force((1, 0, 5), 0.6)
    codes = FiniteLaw([int(code) for code in np.array(true.support) @ (1, 10, 100)], true.log_probabilities)
    assert fit(codes, drawn @ (1, 10, 100)) > 1e-6


@pytest.mark.parametrize("answers", [2, pytest.param(5, marks=pytest.mark.nightly)])
def test_shuffled_responses_are_audited(answers):
    mechanism = ShuffledResponse(2.0, 100, 1e-3, answers)
    result = audit(mechanism, trials=60_000, seed=4)
    assert 0.3 * result.proven < result.lower_bound <= result.proven
    if answers > 2:
        pair = mechanism.worst_pairs()[0]
        oracle = [Oracle(mechanism(pair.x), mechanism(pair.x_prime))]
        best = audit(mechanism, pair, trials=60_000, seed=4, witnesses=oracle)
        assert result.lower_bound > 0.8 * best.lower_bound > 0.0


def test_counting_users_who_drop_out_is_refuted():
    broken = ShuffledWithDropouts(1.0, 1000, 1e-3)
    result = audit(broken, trials=100_000, seed=5, confidence=0.999)
    assert result.violates_claim
    assert result.lower_bound <= result.exact
    assert not audit(ShuffledResponse(1.0, 1000, 1e-3), trials=100_000, seed=5, confidence=0.999).violates_claim


def test_what_is_out_of_range_is_a_sentence():
    with pytest.raises(AuditError, match=r"does not hold for a local epsilon of 4\.45"):  # 85.16 is the most, not 86.16
        closed_form_2022(4.45, 10_000, 1e-6)
    with pytest.raises(AuditError, match="does not hold for a local epsilon of 8"):
        closed_form(8.0, 1000, 1e-6)
    with pytest.raises(AuditError, match="number of users is 1"):
        ShuffledResponse(1.0, 1, 1e-6)
    with pytest.raises(AuditError, match="must say how many of 10 users"):
        ShuffledResponse(1.0, 10, 1e-6)((4, 4))
    with pytest.raises(AuditError, match="all users but one"):
        HistogramLaw((2, 2, 2), 0.5).log_density(np.zeros((1, 3)))
    with pytest.raises(AuditError):
        OneHolds().check(DatasetPair((5, 5), (7, 3)))
    claims = ShuffledResponse(0.5, 100, 1e-6).claims
    assert isinstance(claims[0], ApproxDP)
    assert claims[1] == PureDP(0.5)
    assert claims[0].epsilon <= 0.5
