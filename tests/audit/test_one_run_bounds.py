"""Bounds for one run: formulas against direct sums, golden values, published algorithms, and the worst mechanism of
all.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit, gammaln, log_expit, logsumexp, ndtr, ndtri
from scipy.stats import binom, norm

from epsaudit import ZCDP, ApproxDP, AuditError, GaussianDP, PureDP
from epsaudit.audits.one_run.planning import planned_guesses
from epsaudit.bounds import one_run as bounds
from epsaudit.bounds.certificates import MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.bounds.one_run import DELTA_ERROR_SHARE, GuessBound, GuessSet, epsilon_bound, guess_p_value
from epsaudit.claims.conversions import gaussian_accuracy
from epsaudit.experiments.group_privacy import group_privacy_bound, group_privacy_p_value
from epsaudit.experiments.one_run_worst_case import worst_case


def published_p_value(m, r, v, epsilon, delta):
    """Return the p-value of Steinke, Nasr and Jagielski (2023), summed term by term."""
    q = expit(epsilon)
    best, total = 0.0, 0.0
    for i in range(1, v + 1):
        total += binom.pmf(v - i, r, q)
        best = max(best, total / i)
    return min(1.0, binom.sf(v - 1, r, q) + 2 * m * delta * best)


def published_recursion_rejects(mu, m, guesses, correct, tau):
    """Return whether Algorithm 3 of Mahloujifar, Melis and Chaudhuri (2025) rejects, written without any shortcut."""
    h, r = [0.0] * (correct + 1), [0.0] * (correct + 1)
    r[correct], h[correct] = tau * correct / m, tau * (guesses - correct) / m
    for i in range(correct - 1, -1, -1):
        h[i] = max(h[i + 1], ndtr(ndtri(r[i + 1]) - mu))
        r[i] = min(1.0, r[i + 1] + i / (guesses - i) * (h[i] - h[i + 1]))
    return r[0] + h[0] > guesses / m + 1e-9


def worst_case_without_symmetry(m, v, epsilon, delta):
    """Return the largest probability of at least v correct guesses over all probabilities of outputs given inputs."""
    inputs = list(itertools.product((0, 1), repeat=m))
    n = len(inputs)
    place = {pair: k for k, pair in enumerate(itertools.product(inputs, inputs))}
    rows, limits, size = [], [], n * n
    for s in inputs:
        for i in range(m):
            other = tuple(1 - c if j == i else c for j, c in enumerate(s))
            slacks = range(size, size + n)
            for t, slack in zip(inputs, slacks, strict=True):
                rows.append({place[s, t]: 1.0, place[other, t]: -math.exp(epsilon), slack: -1.0})
                limits.append(0.0)
            rows.append(dict.fromkeys(slacks, 1.0))
            limits.append(delta)
            size += n
    dense = np.zeros((len(rows), size))
    for number, row in enumerate(rows):
        dense[number, list(row)] = list(row.values())
    sums = np.zeros((n, size))
    for k in range(n):
        sums[k, k * n : (k + 1) * n] = 1.0
    gain = np.zeros(size)
    for (s, t), k in place.items():
        gain[k] = -1.0 / n if sum(a == b for a, b in zip(s, t, strict=True)) >= v else 0.0
    return -linprog(gain, A_ub=dense, b_ub=limits, A_eq=sums, b_eq=np.ones(n)).fun


class TestPublishedBinomial:
    @pytest.mark.parametrize(
        ("numbers", "delta", "golden"), [((1000, 100, 75), 1e-4, 0.673), ((100_000, 1510, 1439), 1e-5, 2.675)]
    )
    def test_golden_values_of_the_design(self, numbers, delta, golden):
        # printed with three digits, rounded to nearest or down
        assert bounds.epsilon_bound(*numbers, delta, 0.95, "binomial") == pytest.approx(golden, abs=1e-3)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(1, 60), st.data(), st.floats(0.0, 4.0), st.floats(0.0, 0.1))
    def test_it_is_the_published_sum(self, r, data, epsilon, delta):
        v = data.draw(st.integers(1, r))
        m = r * data.draw(st.sampled_from([1, 3, 20]))
        ours = bounds.guess_p_value(m, r, v, epsilon, delta, "binomial")
        assert ours == pytest.approx(published_p_value(m, r, v, epsilon, delta), rel=1e-9, abs=1e-12)


class TestSharp:
    @pytest.mark.parametrize(
        ("m", "v", "epsilon", "delta"), [(2, 1, 1.0, 0.1), (3, 2, 0.5, 0.05), (3, 3, 1.0, 0.02), (4, 4, 0.0, 0.1)]
    )
    def test_it_is_the_worst_case_over_all_mechanisms(self, m, v, epsilon, delta):
        # no symmetry assumed: every probability of every output on every input is a variable
        worst = worst_case_without_symmetry(m, v, epsilon, delta)
        assert bounds.guess_p_value(m, m, v, epsilon, delta) == pytest.approx(worst, abs=1e-6)
        assert worst_case(m, {m: range(v, m + 1)}, [(epsilon, delta)]) == pytest.approx(worst, abs=1e-6)

    def test_it_is_the_worst_case_of_larger_games(self):
        rng = np.random.default_rng(5)
        for _ in range(150):
            r = int(rng.integers(1, 40))
            m, v = r * int(rng.choice([1, 2, 20])), int(rng.integers(1, r + 1))
            epsilon, delta = float(rng.uniform(0, 2)), float(10 ** rng.uniform(-5, -1))
            worst = worst_case(m, {r: range(v, r + 1)}, [(epsilon, delta)])
            assert bounds.guess_p_value(m, r, v, epsilon, delta) == pytest.approx(worst, abs=1e-5)

    def test_without_delta_it_is_one_clopper_pearson_limit(self):
        # the same counts in the many-run game
        game = MembershipGame().epsilon(Counts(500, 500, 365, 134, 135, 366), 0.0, 0.95)
        for method in ("sharp", "binomial"):
            assert bounds.epsilon_bound(1000, 1000, 731, 0.0, 0.95, method) == pytest.approx(float(game))

    def test_far_tails_keep_their_digits(self):
        # 900 of 1000 at even odds: tails of 1e-150; ratios of neighbouring masses from exact integers
        tail = sum(math.comb(1000, k) for k in range(990, 1001))
        exact = tail / math.comb(1000, 990) * (1 - tail / 2**1000) / 990
        assert exact <= bounds.sharp_delta_term(1000, 990, 0.0) <= 1.001 * exact

    @pytest.mark.parametrize("r", [1, 10, 300, 1_000, 1_100, 1_500, 5_000, 20_000, 100_000])
    def test_the_share_of_delta_is_the_sum_of_logarithms_and_never_below_it_however_rare(self, r):
        k = np.arange(r + 1)
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 12.0, 40.0):
            masses = (
                gammaln(r + 1)
                - gammaln(k + 1)
                - gammaln(r - k + 1)
                + k * log_expit(epsilon)
                + (r - k) * log_expit(-epsilon)
            )
            for v in {max(1, round(r * share)) for share in (1e-3, 0.1, 0.4, 0.5, 0.52, 0.55, 0.6, 0.7, 0.9, 0.99, 1)}:
                exact = math.exp(logsumexp(masses[v:]) + logsumexp(masses[:v]) - masses[v]) / v
                rare = masses[v] < bounds.MIN_LOG_MASS  # where a geometric series is put in place of the sum
                assert (
                    (1.0 - 1e-8) * exact
                    <= bounds.sharp_delta_term(r, v, epsilon)
                    <= (1.01 if rare else 1.0 + 1e-8) * exact
                )

    @pytest.mark.parametrize("r", [1_000, 2_000, 100_000])
    @pytest.mark.parametrize("method", ["sharp", "binomial"])
    def test_an_event_of_probability_one_half_shows_nothing_however_rare_it_should_be(self, r, method):
        # all r guesses are right with probability m delta / r = 1/2 where a mechanism reveals r canaries now and then
        assert bounds.epsilon_bound(10 * r, r, r, 0.05, 0.95, method) == 0.0
        assert 0.0 < bounds.delta_bound(10 * r, r, r, 0.0, 0.95, method) <= 0.005 * (1 + 1e-9)


@pytest.mark.parametrize("method", ["sharp", "binomial"])
class TestInverses:
    @settings(max_examples=40, deadline=None)
    @given(r=st.integers(20, 400), share=st.floats(0.6, 1.0), delta=st.sampled_from([0.0, 1e-5, 1e-3]))
    def test_the_bound_is_where_the_p_value_crosses(self, method, r, share, delta):
        v = int(share * r)
        bound = bounds.epsilon_bound(2 * r, r, v, delta, 0.95, method)
        assert bounds.guess_p_value(2 * r, r, v, bound + 1e-6, delta, method) > 0.05 - 1e-12
        if bound > 0.0:
            assert bounds.guess_p_value(2 * r, r, v, bound, delta, method) <= 0.05 + 1e-9
            found = bounds.delta_bound(2 * r, r, v, bound, 0.95, method)
            assert found == pytest.approx(delta, rel=1e-4, abs=1e-10)

    def test_more_right_guesses_and_less_delta_show_more(self, method):
        found = [bounds.epsilon_bound(1000, 100, v, 1e-4, 0.95, method) for v in range(101)]
        assert found == sorted(found)
        assert found[0] == 0.0
        found = [bounds.epsilon_bound(1000, 100, 90, d, 0.95, method) for d in (1e-2, 1e-3, 1e-4, 0.0)]
        assert found == sorted(found)

    def test_a_share_for_delta_costs_little_and_is_never_free(self, method):
        free = bounds.epsilon_bound(1000, 100, 90, 1e-5, 0.95, method)
        shared = bounds.epsilon_bound(1000, 100, 90, 1e-5, 0.95, method, DELTA_ERROR_SHARE)
        assert 0.95 * free < shared < free


class TestOutputsThatDecideHowManyToGuess:
    @pytest.mark.parametrize("numbers", [(6, 7, 9, 10, 11), (3, 12, 30), (20, 25)])
    def test_the_worst_of_them_keeps_the_level(self, numbers):
        m, epsilon = 30, 0.5
        for delta in (1e-4, 1e-3, 5e-3):
            rejected = {
                r: [v for v in range(1, r + 1) if bounds.epsilon_bound(m, r, v, delta, 0.95, "sharp", 0.15) > epsilon]
                for r in numbers
            }
            assert worst_case(m, rejected, [(epsilon, delta)]) <= 0.05 + 1e-7


class TestTradeoff:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(1, 80), st.data(), st.floats(0.05, 3.0))
    def test_it_is_the_published_recursion(self, guesses, data, mu):
        correct = data.draw(st.integers(1, guesses))
        m = guesses * data.draw(st.sampled_from([1, 4]))
        total = bounds.total_mass(bounds.gaussian_inverse, np.array([mu]), m, guesses, correct, 0.05)[0]
        assert (total > 1.0 + 1e-9) == published_recursion_rejects(mu, m, guesses, correct, 0.05)

    def test_the_bound_is_the_largest_mu_that_the_published_recursion_rejects(self):
        bound = bounds.parameter_bound(GaussianDP(1.0), 500, 100, 88, 0.95)
        assert published_recursion_rejects(bound, 500, 100, 88, 0.05)
        assert not published_recursion_rejects(bound * 1.0002 + 1e-5, 500, 100, 88, 0.05)

    @pytest.mark.parametrize(("m", "guesses"), [(1, 1), (5, 2), (10, 10), (30, 12), (40, 40)])
    @pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
    def test_no_gaussian_dp_mechanism_beats_the_level(self, m, guesses, mu):
        rejected = [
            v
            for v in range(1, guesses + 1)
            if bounds.total_mass(bounds.gaussian_inverse, np.array([mu]), m, guesses, v, 0.05)[0] > 1.0
        ]
        # 60 points of the profile leave a little more room than the curve: 1 % more
        points = [(e, GaussianDP(mu).profile(e)) for e in np.linspace(0.0, mu * mu / 2 + 5 * mu, 60)]
        assert worst_case(m, {guesses: rejected}, points) <= 0.05 * 1.01 + 1e-6

    def test_the_level_is_nearly_reached_when_all_guesses_have_to_be_right(self):
        # the recursion is exact there: the worst mechanism attains it
        points = [(e, GaussianDP(0.5).profile(e)) for e in np.linspace(0.0, 4.0, 80)]
        worst = worst_case(10, {10: [10]}, points)
        masses = [
            bounds.total_mass(bounds.gaussian_inverse, np.array([0.5]), 10, 10, 10, worst * factor)[0]
            for factor in (0.98, 1.02)
        ]
        assert masses[0] < 1.0 < masses[1]

    def test_inverses_undo_the_largest_probability_of_an_event(self):
        p = np.linspace(0.01, 0.99, 99)
        grown = norm.cdf(norm.ppf(p) + 0.7)
        np.testing.assert_allclose(bounds.gaussian_inverse(grown, np.full(99, 0.7)), p, rtol=1e-9)
        odds = np.exp(0.7)
        grown = np.minimum(np.minimum(odds * p + 0.05, 1 - (1 - 0.05 - p) / odds), 1.0)
        below = p < 0.94
        inverse = bounds.approximate_inverse(grown, np.full(99, 0.7), 0.05)
        np.testing.assert_allclose(inverse[below], p[below], rtol=1e-9)

    def test_delta_at_a_given_epsilon_is_the_one_whose_epsilon_is_given(self):
        delta = bounds.delta_bound_on_curve(300, 100, 90, 1.0, 0.95)
        assert bounds.parameter_bound(ApproxDP(1.0, delta), 300, 100, 90, 0.95) == pytest.approx(1.0, abs=1e-3)

    def test_other_definitions_are_refused(self):
        with pytest.raises(AuditError, match="PureDP, ApproxDP or GaussianDP"):
            bounds.parameter_bound(ZCDP(0.5), 100, 10, 9, 0.95)

    def test_nothing_right_shows_nothing(self):
        assert bounds.parameter_bound(PureDP(1.0), 100, 10, 0, 0.95) == 0.0
        assert bounds.delta_bound_on_curve(100, 10, 0, 0.0, 0.95) == 0.0


@pytest.mark.parametrize(
    ("mu", "canaries", "of_a_curve", "of_a_point"),
    [
        (1.0, 100, 0.30, 0.16),
        (1.0, 10_000, 0.685, 0.53),
        (1.0, 1_000_000, 0.79, 0.74),
        (0.5, 1_000_000, 0.78, 0.76),
        (2.0, 1_000_000, 0.73, 0.655),
    ],
)
def test_shares_of_epsilon_that_one_run_certifies_of_gaussian_noise(mu, canaries, of_a_curve, of_a_point):
    """The number of guesses is the planned one, the expected number is correct, and epsilon is taken at delta 1e-5."""
    point = GaussianDP(mu).approximate(1e-5)
    shares = []
    for claim, method in ((GaussianDP(mu), "trade-off"), (point, "sharp")):
        bound = GuessBound(claim, method, 0.95)
        guesses = planned_guesses(canaries, bound)
        right = math.floor(guesses * float(gaussian_accuracy(np.array([guesses / canaries]), mu)[0]))
        shown = bound.of(GuessSet.of(canaries, guesses, 0, right, 0))
        epsilon = GaussianDP(shown).approximate(1e-5).epsilon if method == "trade-off" else shown
        shares.append(epsilon / point.epsilon)
    assert shares == pytest.approx([of_a_curve, of_a_point], abs=0.005)


GROUP_EPSILONS = (0.1, 0.5, 1.0, 2.0)


@pytest.mark.parametrize("guesses", [1, 2, 5, 9])
def test_group_privacy_bounds_the_worst_mechanism_and_is_never_below_theorem_7(guesses):
    for correct, epsilon in itertools.product(range(guesses + 1), GROUP_EPSILONS):
        group, sharp = (
            group_privacy_p_value(guesses, correct, epsilon),
            guess_p_value(guesses, guesses, correct, epsilon, 0.0),
        )
        assert group >= sharp * (1 - 1e-12)
        if guesses <= 5:
            worst = worst_case(guesses, {guesses: range(correct, guesses + 1)}, [(epsilon, 0.0)])
            assert worst <= group + 1e-6
    fair = [math.comb(guesses, k) / 2**guesses for k in range(guesses + 1)]
    for correct in range(guesses + 1):
        assert group_privacy_p_value(guesses, correct, 0.0) == pytest.approx(sum(fair[correct:]), rel=1e-12)


@pytest.mark.parametrize("guesses", [20, 1000, 100_000])
def test_group_privacy_covers_and_never_certifies_log_two(guesses):
    """Coverage for randomised response is computed; the incorrect variant treats the group as one record."""
    for epsilon in GROUP_EPSILONS:
        law = binom(guesses, expit(epsilon))
        low, high = int(law.ppf(1e-9)), int(law.ppf(1 - 1e-9))
        grid = np.unique(np.linspace(low, high, 40).astype(int))
        bounds = np.array([group_privacy_bound(guesses, int(right), 0.95) for right in grid])
        assert np.all(np.diff(bounds) >= 0.0)
        assert law.sf(grid[bounds <= epsilon].max()) <= 0.05  # wrong for these counts and more
        assert bounds.max() < math.log(2.0)
        if guesses * epsilon > 100.0:
            assert law.sf(grid[bounds * guesses <= epsilon].max(initial=0)) > 0.9  # the variant's errors
        sharp = [epsilon_bound(guesses, guesses, int(right), 0.0, 0.95) for right in grid]
        assert np.all(bounds <= np.array(sharp) + 1e-12)
    everything = group_privacy_bound(guesses, guesses, 0.95)
    assert everything == pytest.approx(math.log(2.0) - math.log(20.0) / guesses)


@pytest.mark.parametrize("counts", [(0, 0, 0.9), (5, 6, 0.9), (5, -1, 0.9), (5, 3, 1.5)])
def test_group_privacy_refuses_counts_that_cannot_be(counts):
    with pytest.raises(AuditError):
        group_privacy_bound(*counts)
