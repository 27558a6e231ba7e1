"""Published estimators: the smallest counterexample found to each that is no bound, and the coverage of the others.

Probabilities of two-point laws, orders and coins are added up exactly; where runs are drawn, a right test fails at most
once in a million (`PATIENCE`), seeds are fixed.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from epsaudit import PureDP
from epsaudit.experiments import scores
from epsaudit.experiments.estimators import ESTIMATORS, ONE_RUN, SEQUENTIAL_TESTS, TEXTS, thinned_p_value

PATIENCE = 1e-6
TWO, ONE = {one.name: one for one in ESTIMATORS}, {one.name: one for one in ONE_RUN}
SEQUENTIAL = {one.name: one for one in SEQUENTIAL_TESTS}
SAME, RESPONSE_1, RESPONSE_3 = (0.5, 0.5), *((1 / (1 + math.exp(-e)), 1 / (1 + math.exp(e))) for e in (1, 3))
SMALL = scores.Law(
    "small response",
    PureDP(0.4),
    lambda rng, size: tuple((rng.random(size) < 1 / (1 + math.exp(e))).astype(float) for e in (-0.4, 0.4)),
)
LAWS = {law.name: law for law in (*scores.LAWS, SMALL)}


def bits(ones, runs):
    return np.repeat([1.0, 0.0], [ones, runs - ones])


def share_above(name, n, p, p_prime, m=None, delta=0.0):
    """Probability that a bound at 95 % exceeds the truth where outputs are 1 with these probabilities and else 0."""
    m, rng = m or n, np.random.default_rng(0)
    truth = max(abs(math.log(p / p_prime)), abs(math.log((1 - p) / (1 - p_prime))))
    masses = [binom.pmf(np.arange(runs + 1), runs, one) for runs, one in ((n, p), (m, p_prime))]
    counts = [np.flatnonzero(one > 1e-6) for one in masses]
    return sum(
        masses[0][k] * masses[1][j]
        for k, j in itertools.product(*counts)
        if TWO[name].bound(bits(k, n), bits(j, m), delta, 0.95, rng) > truth + 1e-9
    )


def drawn_above(name, law, runs, audits, confidence=0.95):
    """How many bounds of drawn outputs exceed the truth."""
    rng, claim = np.random.default_rng(1), LAWS[law].claim
    delta = claim.claimed_point[1]
    bounds = [TWO[name].bound(*LAWS[law].draw(rng, runs), delta, confidence, rng) for _ in range(audits)]
    return sum(bound > claim.parameter + 1e-9 for bound in bounds)


def most_chance(audits, level=0.05):
    return binom.isf(PATIENCE, audits, level)


def test_every_estimator_says_what_it_rests_on_and_takes_equal_outputs():
    names = [one.name for one in (*ESTIMATORS, *ONE_RUN, *SEQUENTIAL_TESTS)]
    assert sorted(names) == sorted(TEXTS)
    for one, delta in itertools.product(ESTIMATORS, (0.0, 0.01)):
        for outputs in (np.zeros(8), np.repeat([-1.0, 1.0], 4)):
            found = one.bound(outputs, outputs.copy(), delta, 0.95, np.random.default_rng(0))
            assert 0.0 <= found < 10.0, one.name


@pytest.mark.parametrize(
    ("name", "n", "law", "least"),
    [
        ("joint-Beta", 1, SAME, 0.999),
        ("joint-Beta", 5, (1 / (1 + math.exp(-0.3)), 1 / (1 + math.exp(0.3))), 0.08),
        ("histogram ratio", 4, SAME, 0.7),
        ("kernel density ratio", 4, SAME, 0.7),
        ("Gaussian fit of outputs", 4, SAME, 0.7),
        ("Gaussian-DP curve", 10, RESPONSE_3, 0.37),
        ("grid of claims from the claim upwards", 1, SAME, 0.999),
    ],
)
def test_what_is_no_bound_is_above_the_truth_of_a_bit(name, n, law, least):
    assert TWO[name].valid == ""
    assert share_above(name, n, *law) > least


@pytest.mark.parametrize(
    ("name", "p", "above"), [("Wilson", 0.19, True), ("Jeffreys", 0.13, True), ("Clopper-Pearson", 0.13, False)]
)
def test_one_run_on_x_and_ten_thousand_on_x_prime_tell_exact_limits_from_others(name, p, above):
    """The only run on x is in an event of probability p, which the other limits take for unlikely."""
    found = share_above(f"{name}, fixed threshold", 1, p, 0.1, m=10_000)
    assert found > 0.1 if above else found <= 0.05


@pytest.mark.parametrize("law", [SAME, RESPONSE_1, (0.05 * math.e, 0.05)])
def test_a_fixed_event_is_covered(law):
    assert share_above("Clopper-Pearson, fixed threshold", 20, *law) <= 0.05


def test_the_fewest_errors_of_four_runs_are_not_binomial():
    """Of 70 orders of four outputs on x and four on x', all equally likely where nothing leaks, 8 show a leak."""
    found = [
        TWO["order statistics"].bound(np.array(some, float), np.setdiff1d(np.arange(8.0), some), 0.0, 0.95, rng)
        for rng in [np.random.default_rng(0)]
        for some in itertools.combinations(range(8), 4)
    ]
    assert np.sum(np.array(found) > 0.0) == 8


def test_a_classifier_learns_six_runs_by_heart():
    assert drawn_above("classifier on its training data", "nothing", 6, 20) == 20


def test_the_greatest_of_many_bounds_errs_more_often_than_each():
    """At 50 %, where a hundred runs show it; at 95 % it takes a thousand (results/scores)."""
    assert drawn_above("Clopper-Pearson, best threshold", "nothing", 100, 200, 0.5) > most_chance(200, 0.5)


def test_an_estimate_without_a_deviation_is_above_the_truth_about_half_of_the_time():
    assert drawn_above("Donsker-Varadhan", "randomised response", 1_000, 100) > most_chance(100)


def test_a_group_of_pairs_is_of_one_mechanism():
    assert drawn_above("Delta-Siege", "spilt response", 500, 30) > most_chance(30)


def test_ordering_two_counts_after_they_were_seen_doubles_the_error():
    """Of 50 runs on either dataset, all in an event of probability 1/2."""
    masses, rng, ordered, fixed = binom.pmf(np.arange(51), 50, 0.5), np.random.default_rng(0), 0.0, 0.0
    for more, less in itertools.combinations_with_replacement(range(50, -1, -1), 2):
        if masses[more] * masses[less] > 1e-9 and thinned_p_value(more, less, 50, 0.0, rng) <= 0.05:
            fixed += masses[more] * masses[less]
            ordered += masses[more] * masses[less] * (1 + (more > less))
    assert fixed <= 0.05 < ordered


@pytest.mark.parametrize("law", ["nothing", "randomised response", "Laplace"])
@pytest.mark.parametrize("name", [one.name for one in ESTIMATORS if one.valid])
def test_bounds_cover(name, law):
    """At 80 %, where fewer audits show what is wrong than at 95 %."""
    assert drawn_above(name, law, 400, 100, 0.8) <= most_chance(100, 0.2)


@pytest.mark.parametrize(
    ("name", "law", "runs", "confidence"),
    [
        ("Clopper-Pearson, Bonferroni on a fixed grid", "nothing", 2_000, 0.5),
        ("Rényi tester", "small response", 20_000, 0.95),
    ],
)
def test_bounds_cover_where_they_would_not_without_their_corrections(name, law, runs, confidence):
    assert drawn_above(name, law, runs, 60, confidence) <= most_chance(60, 1.0 - confidence)


@pytest.mark.parametrize("name", [one.name for one in ESTIMATORS if one.valid])
def test_bounds_see_a_leak(name):
    rng = np.random.default_rng(2)
    x, x_prime = (np.where(rng.random(20_000) < p, 1.0, 0.0) for p in RESPONSE_3)
    assert 0.1 < TWO[name].bound(x, x_prime, 0.0, 0.95, rng) <= 3.0


def test_the_best_number_of_guesses_errs_more_often_than_each():
    rng, found = np.random.default_rng(3), dict.fromkeys(ONE, 0)
    for coins in rng.random((400, 100)) < 0.5:
        for name, one in ONE.items():
            found[name] += one.bound(np.arange(100.0), coins, 0.0, 0.95) > 0.0
    best = found.pop("Steinke et al., best number of guesses")
    assert max(found.values()) <= most_chance(400) < best


@pytest.mark.parametrize(
    ("name", "above"), [("Steinke et al.", False), ("Mahloujifar et al.", False), ("Xiang et al.", True)]
)
def test_a_mechanism_that_tells_all_coins_with_probability_delta_refutes_independence(name, above):
    """It is (0, delta)-DP, delta = 0.1, and this happens in a tenth of its runs, twice as often as 5 %."""
    coins = np.arange(20) % 2 == 0
    assert (ONE[name].bound(coins.astype(float), coins, 0.1, 0.95) > 0.0) is above


@pytest.mark.parametrize("name", list(SEQUENTIAL))
def test_sequential_tests_refute_a_third_of_epsilon_and_rarely_epsilon(name):
    def draw(side, size, rng):
        return scores.response(rng, size)[side]

    test = SEQUENTIAL[name].runs_to_refute
    ended = {
        epsilon: [test(draw, epsilon, 0.0, 0.05, np.random.default_rng(seed), 2_000) for seed in range(25)]
        for epsilon in (0.3, 1.0)
    }
    assert all(ended[0.3])
    assert sum(runs is not None for runs in ended[1.0]) <= most_chance(25)
