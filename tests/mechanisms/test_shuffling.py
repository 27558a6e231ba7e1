"""Shuffled responses: laws against enumeration, exact values against bounds, and the catalogue's check values."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from epsaudit import AuditError, PureDP
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.amplification import (
    clones_delta,
    closed_form,
    closed_form_2021,
    closed_form_2022,
    numeric,
    variation_ratio,
)
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.shuffling import HistogramLaw, ShuffledResponse, TwoBinomials
from epsaudit.mechanisms.shuffling_search import can_be_searched, histograms, worst_neighbours


@pytest.mark.parametrize(("ones", "zeros"), [(0, 7), (7, 0), (3, 4), (1, 30)])
def test_counts_are_sums_of_binomials(ones, zeros):
    law = TwoBinomials(ones, zeros, 0.8)
    expected = np.convolve(
        stats.binom.pmf(np.arange(ones + 1), ones, 0.8), stats.binom.pmf(np.arange(zeros + 1), zeros, 0.2)
    )
    assert list(law.support) == list(range(ones + zeros + 1))
    assert np.exp(law.log_probabilities) == pytest.approx(expected, rel=1e-10)
    assert law.log_density([-1, 0.5, ones + zeros + 1]).tolist() == [-math.inf] * 3


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


def enumerated_worst(users, answers, truth, delta):
    """The greatest epsilon of all pairs of neighbours, by summing over what each user answers."""
    best = 0.0
    laws = {held: brute_force(held, truth) for held in histograms(users, answers)}
    for held, law in laws.items():
        for one, other in itertools.permutations(range(answers), 2):
            if held[one]:
                moved = tuple(count - (place == one) + (place == other) for place, count in enumerate(held))
                best = max(best, exact.epsilon(law, laws[moved], delta))
    return best


@pytest.mark.parametrize(("users", "answers", "delta"), [(6, 2, 0.05), (5, 3, 0.01), (4, 3, 0.1), (4, 4, 0.02)])
def test_the_worst_of_all_datasets_against_enumeration(users, answers, delta):
    mechanism = ShuffledResponse(1.0, users, delta, answers)
    worst = enumerated_worst(users, answers, mechanism.truth, delta)
    x, x_prime, epsilon = worst_neighbours(mechanism.truth, users, answers, delta)
    assert epsilon == pytest.approx(worst, rel=1e-9)
    pair = mechanism.worst_pairs()[0]
    assert (pair.x, pair.x_prime) == (x, x_prime)
    assert mechanism.adjacency.holds(x, x_prime)
    assert exact.epsilon(mechanism(x), mechanism(x_prime), delta) == pytest.approx(worst, rel=1e-9)
    assert worst <= mechanism.claim.parameter * (1 + 1e-9)


@pytest.mark.parametrize(
    ("local", "users", "answers", "delta", "worst", "simple"),
    [(1.0, 8, 3, 0.01, 0.6418, 0.6345), (2.0, 100, 2, 1e-3, 0.7220, 0.7182)],
)
def test_mixed_datasets_are_worse_than_the_simple_pairs(local, users, answers, delta, worst, simple):
    mechanism = ShuffledResponse(local, users, delta, answers)
    values = [exact.epsilon(mechanism(p.x), mechanism(p.x_prime), delta) for p in mechanism.worst_pairs()]
    assert values[0] == pytest.approx(worst, abs=5e-5)
    assert max(values[1:]) == pytest.approx(simple, abs=5e-5)


def test_a_mixed_dataset_of_seven_users_is_worse_than_the_simple_pair():
    """Seven users, local epsilon 1: delta(0.4) of (6, 1) against (5, 2) and of (7, 0) against (6, 1), enumerated."""
    truth = 1.0 / (1.0 + math.exp(-1.0))
    mixed = brute_force((6, 1), truth), brute_force((5, 2), truth)
    simple = brute_force((7, 0), truth), brute_force((6, 1), truth)
    assert exact.delta(*mixed, 0.4) == pytest.approx(0.05680, abs=5e-6)
    assert exact.delta(*simple, 0.4) == pytest.approx(0.05035, abs=5e-6)
    laws = TwoBinomials(1, 6, truth), TwoBinomials(2, 5, truth)
    assert exact.delta(*laws, 0.4) == pytest.approx(exact.delta(*mixed, 0.4), rel=1e-9)


def test_many_users_are_not_searched():
    mechanism = ShuffledResponse(1.0, 10_000, 1e-6)
    assert not can_be_searched(10_000, 2)
    assert mechanism.worst_pairs() == mechanism.simple_pairs()


def test_others_who_hold_a_third_answer_hide_less_and_the_variation_ratio_pair_is_no_bound_from_four_answers_on():
    for answers, below in ((3, False), (4, True), (6, True)):
        mechanism = ShuffledResponse(1.0, 60, 1e-4, answers)
        worse, alike = (exact.epsilon(mechanism(p.x), mechanism(p.x_prime), 1e-4) for p in mechanism.simple_pairs())
        ratio = variation_ratio(1.0, 60, 1e-4, answers)
        assert alike < worse <= mechanism.claim.parameter
        assert (ratio < worse * (1 - 1e-6)) == below
        assert below or ratio == pytest.approx(worse, rel=1e-6)


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


@settings(max_examples=5)
@given(st.floats(0.1, 3.0), st.sampled_from([200, 2000]), st.sampled_from([1e-3, 1e-6]), st.data())
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
