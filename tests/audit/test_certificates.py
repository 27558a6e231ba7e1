"""Certificates: formulas against independent computations, golden values, edges, and coverage by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest, norm

from epsaudit import ZCDP, ApproxDP, ApproxZCDP, AuditError, GaussianDP, PureDP, RenyiDP, TradeOff
from epsaudit.bounds.certificates import (
    Box,
    Certificate,
    MembershipGame,
    clopper_pearson_lower,
    clopper_pearson_upper,
    reach,
    runs_to_reach,
)
from epsaudit.bounds.counts import Counts
from epsaudit.claims.conversions import bernoulli_renyi

CONFIDENCE = 0.95


def draw_counts(rng, p, p_prime, q, q_prime, runs, audits):
    """Counts of ``audits`` games: (p, p') of the event for x, (q, q') of the event for x', on x and x'."""
    on_x = rng.binomial(runs, 0.5, audits)
    a = rng.binomial(on_x, p)
    c = rng.binomial(on_x - a, min(q / (1 - p), 1.0)) if p < 1 else np.zeros(audits)
    b = rng.binomial(runs - on_x, p_prime)
    d = rng.binomial(runs - on_x - b, min(q_prime / (1 - p_prime), 1.0)) if p_prime < 1 else np.zeros(audits)
    return Counts(on_x, runs - on_x, a, b, c, d, events=2 if q or q_prime else 1)


class TestClopperPearson:
    @given(st.integers(0, 300), st.integers(1, 300), st.sampled_from([0.05, 1e-3, 1e-6]))
    def test_limits_are_those_of_scipy_binomtest(self, k, n, alpha):
        k = min(k, n)
        lower = binomtest(k, n, alternative="greater").proportion_ci(1 - alpha, method="exact").low
        upper = binomtest(k, n, alternative="less").proportion_ci(1 - alpha, method="exact").high
        # scipy solves by brentq, to 2e-12: of 1 in 2 at 1e-6 it says 5.0000025e-7 where 1 - sqrt(1 - 1e-6) is exact
        assert clopper_pearson_lower(k, n, alpha) == pytest.approx(lower, rel=1e-9, abs=4e-12)
        assert clopper_pearson_upper(k, n, alpha) == pytest.approx(upper, rel=1e-9, abs=4e-12)

    @pytest.mark.parametrize("alpha", [0.05, 1e-6, 1e-9])
    @pytest.mark.parametrize("n", [1, 2, 300])
    def test_limits_of_one_success_or_failure_have_a_closed_form(self, n, alpha):
        exact = -math.expm1(math.log1p(-alpha) / n)
        assert clopper_pearson_lower(1, n, alpha) == pytest.approx(exact, rel=1e-12)
        assert clopper_pearson_upper(n - 1, n, alpha) == pytest.approx(1 - exact, rel=1e-12)

    def test_the_side_is_pinned(self):
        # statsmodels' proportion_confint(alternative="larger") returns (0, upper), the reverse of scipy's: pin ours
        assert clopper_pearson_lower(9, 10, 0.05) == pytest.approx(beta.ppf(0.05, 9, 2))
        assert clopper_pearson_upper(9, 10, 0.05) == pytest.approx(beta.ppf(0.95, 10, 1))

    def test_edges_are_decided(self):
        assert clopper_pearson_lower(0, 50, 0.05) == 0.0
        assert clopper_pearson_upper(50, 50, 0.05) == 1.0
        assert clopper_pearson_lower(50, 50, 0.05) == pytest.approx(0.05 ** (1 / 50))
        assert clopper_pearson_upper(0, 50, 0.05) == pytest.approx(1 - 0.05 ** (1 / 50))


class TestMembershipGame:
    def test_pure_bound_is_the_logit_of_one_clopper_pearson_limit(self):
        counts = Counts(5000, 5000, 3000, 1200, 1000, 2900)
        low = beta.ppf(0.05, 5900, 2201)
        assert MembershipGame().epsilon(counts, 0.0, CONFIDENCE) == pytest.approx(math.log(low / (1 - low)))

    def test_approximate_bound_is_the_formula_of_the_design(self):
        counts, delta, share = Counts(5000, 5000, 300, 120, 100, 290), 1e-3, 0.03
        s = beta.ppf(0.05 * share, 810, 10_000 - 810 + 1)
        pi = 2 * delta / (2 * s)
        low = beta.ppf(0.05 * (1 - share), 590, 810 - 590 + 1)
        expected = math.log((low - pi) / (1 - pi) / (1 - (low - pi) / (1 - pi)))
        assert MembershipGame().epsilon(counts, delta, CONFIDENCE) == pytest.approx(expected)

    def test_delta_and_epsilon_bounds_are_the_same_test(self):
        counts = Counts(5000, 5000, 300, 120, 100, 290)
        game = MembershipGame()
        epsilon = float(game.epsilon(counts, 1e-3, CONFIDENCE))
        assert game.delta(counts, epsilon, CONFIDENCE) == pytest.approx(1e-3, rel=1e-9)

    def test_one_event_pays_for_one_delta(self):
        two = Counts(5000, 5000, 300, 120, 0, 0, events=2)
        one = Counts(5000, 5000, 300, 120, 0, 0, events=1)
        game = MembershipGame()
        assert game.epsilon(one, 1e-3, CONFIDENCE) > game.epsilon(two, 1e-3, CONFIDENCE)

    def test_nothing_seen_shows_nothing(self):
        nothing = Counts(500, 500, 0, 0, 0, 0)
        for claim in (PureDP(1), ApproxDP(1, 1e-5)):
            assert MembershipGame().parameter(claim, nothing, CONFIDENCE) == 0.0
        assert MembershipGame(0.5).parameter(GaussianDP(1), nothing, CONFIDENCE) == 0.0
        assert MembershipGame().delta(nothing, 1.0, CONFIDENCE) == 0.0

    def test_a_curve_needs_a_tangent(self):
        with pytest.raises(AuditError, match="needs a tangent"):
            MembershipGame().parameter(GaussianDP(1.0), Counts(10, 10, 5, 0, 0, 5), CONFIDENCE)


class TestBox:
    counts = Counts(5000, 5000, 300, 120, 0, 0, events=1)

    def test_corner_is_two_limits_at_half_the_error(self):
        low, up = Box().corner(self.counts, CONFIDENCE)
        assert low == pytest.approx(beta.ppf(0.025, 300, 4701))
        assert up == pytest.approx(beta.ppf(0.975, 121, 4880))

    def test_every_family_reads_its_parameter_off_the_corner(self):
        low, up = (float(v) for v in Box().corner(self.counts, CONFIDENCE))
        bound = {type(c): float(Box().parameter(c, self.counts, CONFIDENCE)) for c in (PureDP(1), ApproxDP(1, 1e-3))}
        assert bound[PureDP] == pytest.approx(math.log(low / up))
        assert bound[ApproxDP] == pytest.approx(math.log((low - 1e-3) / up))
        assert Box().parameter(GaussianDP(1), self.counts, CONFIDENCE) == pytest.approx(norm.ppf(low) - norm.ppf(up))
        renyi = max(float(bernoulli_renyi(3.0, low, up)), float(bernoulli_renyi(3.0, up, low)))
        assert Box().parameter(RenyiDP(3.0, 1.0), self.counts, CONFIDENCE) == pytest.approx(renyi)
        orders = 1 + np.geomspace(1e-4, 1e4, 4001)
        rho = np.max(np.maximum(bernoulli_renyi(orders, low, up), bernoulli_renyi(orders, up, low)) / orders)
        assert Box().parameter(ZCDP(1.0), self.counts, CONFIDENCE) == pytest.approx(rho, rel=1e-4)

    def test_the_mirrored_event_gives_the_mirrored_bound(self):
        mirrored = Counts(5000, 5000, 0, 0, 120, 300, events=1)
        for claim in (PureDP(1), ApproxDP(1, 1e-4), ZCDP(1), GaussianDP(1)):
            there = Box("x_prime").parameter(claim, mirrored, CONFIDENCE)
            assert there == Box().parameter(claim, self.counts, CONFIDENCE)

    @pytest.mark.parametrize("delta", [0.0, 1e-3, 0.01])
    @pytest.mark.parametrize("seen", [(300, 120), (4880, 4700)], ids=["a rare event", "a common one"])
    def test_epsilon_and_delta_are_those_of_the_event_or_of_its_complement(self, seen, delta):
        counts = Counts(5000, 5000, *seen, 0, 0, events=1)
        low, up = (float(limit) for limit in Box().corner(counts, CONFIDENCE))
        sides = [(low, up), (1.0 - up, 1.0 - low)]
        epsilon = float(Box().epsilon(counts, delta, CONFIDENCE))
        assert epsilon == pytest.approx(max(math.log((p - delta) / p_prime) for p, p_prime in sides))
        assert float(Box().delta(counts, epsilon, CONFIDENCE)) == pytest.approx(delta, abs=1e-12)

    def test_overlapping_limits_show_nothing(self):
        same = Counts(5000, 5000, 120, 120, 0, 0, events=1)
        for claim in (PureDP(1), ApproxDP(1, 1e-4), ZCDP(1), RenyiDP(2, 1), GaussianDP(1)):
            assert Box().parameter(claim, same, CONFIDENCE) == 0.0


@pytest.mark.parametrize("certificate", [MembershipGame(), MembershipGame(0.3, 0.05), Box(), Box("x_prime", 0.3)])
def test_certificates_survive_json(certificate):
    assert Certificate.from_dict(certificate.to_dict()) == certificate


class TestReach:
    def test_no_method_certifies_more_than_about_log_runs(self):
        for runs in (1000, 10**6):
            most = reach(PureDP(1.0), runs, CONFIDENCE)
            assert most == pytest.approx(math.log(runs) - math.log(math.log(20)), abs=0.01)

    @pytest.mark.parametrize("claim", [PureDP(9.0), ApproxDP(9.0, 1e-5), GaussianDP(5.0), ZCDP(8.0)])
    def test_runs_to_reach_is_where_reach_passes_the_claim(self, claim):
        runs = runs_to_reach(claim, CONFIDENCE)
        assert reach(claim, runs, CONFIDENCE) > claim.parameter > reach(claim, int(runs * 0.97), CONFIDENCE)


# Coverage. Each case draws 20,000 games from a mechanism that attains its claim on the event, so that the bound must
# exceed the claim in at most 5 % of them. The tolerance is the 1 - 1e-6 quantile of Binomial(20,000, 0.05): a false
# alarm once in a million (seeds are fixed, so in practice never).
AUDITS = 20_000
TOLERATED = int(binom.isf(1e-6, AUDITS, 0.05))


def share_above(certificate, claim, counts):
    return int(np.count_nonzero(certificate.parameter(claim, counts, CONFIDENCE) > claim.parameter * (1 + 1e-12)))


def pure(epsilon, mass):
    """Events of probability (mass, mass e^-eps) and the mirror image, as for Laplace with mass 1/2."""
    return mass, mass * math.exp(-epsilon), mass * math.exp(-epsilon), mass


@pytest.mark.parametrize("runs", [200, 2000])
@pytest.mark.parametrize(("epsilon", "mass"), [(0.1, 0.5), (1.0, 0.5), (1.0, 0.02), (3.0, 0.9), (5.0, 0.5)])
def test_game_covers_pure_dp(epsilon, mass, runs):
    counts = draw_counts(np.random.default_rng(1), *pure(epsilon, mass), runs, AUDITS)
    assert share_above(MembershipGame(), PureDP(epsilon), counts) <= TOLERATED


@pytest.mark.parametrize("delta", [1e-3, 0.02])
@pytest.mark.parametrize(("epsilon", "mass"), [(0.5, 0.3), (1.0, 0.05), (3.0, 0.5)])
def test_game_covers_approximate_dp_that_is_attained(epsilon, mass, delta):
    # p = e^eps p' + delta on both events
    p_prime = (mass - delta) * math.exp(-epsilon)
    counts = draw_counts(np.random.default_rng(2), mass, p_prime, p_prime, mass, 2000, AUDITS)
    assert share_above(MembershipGame(), ApproxDP(epsilon, delta), counts) <= TOLERATED


def test_game_covers_a_leak_that_is_all_delta():
    counts = draw_counts(np.random.default_rng(3), 0.02, 0.0, 0.0, 0.02, 1000, AUDITS)
    assert share_above(MembershipGame(), ApproxDP(0.3, 0.02), counts) <= TOLERATED


OF_THE_GAUSSIAN = [GaussianDP(1.0), ZCDP(0.5), RenyiDP(2.0, 1.0), TradeOff.of(GaussianDP(1.0).profile)]


@pytest.mark.parametrize("threshold", [-0.5, 0.5, 1.5])
@pytest.mark.parametrize("claim", [*OF_THE_GAUSSIAN, ApproxZCDP(0.4961, 1e-3)], ids=str)
def test_box_covers_claims_about_a_curve(claim, threshold):
    # N(1, 1) against N(0, 1) attains mu = 1; its zCDP and Renyi parameters are 0.5 and 1, attained by no event
    p, p_prime = norm.sf(threshold - 1), norm.sf(threshold)
    counts = draw_counts(np.random.default_rng(4), p, p_prime, 0.0, 0.0, 1000, 2000)
    wrong = share_above(Box(), claim, counts)
    assert wrong <= int(binom.isf(1e-6, 2000, 0.05))


@pytest.mark.parametrize("epsilon", [*(pytest.param(at, marks=pytest.mark.slow) for at in (0.0, 0.5)), 1.5])
def test_game_covers_a_gaussian_at_a_tangent(epsilon):
    # {llr >= eps} and its mirror image attain the profile of mu = 1 at eps
    t = epsilon + 0.5
    p, p_prime = norm.sf(t - 1), norm.sf(t)
    counts = draw_counts(np.random.default_rng(5), p, p_prime, p_prime, p, 1000, AUDITS)
    for claim in OF_THE_GAUSSIAN:
        assert share_above(MembershipGame(epsilon), claim, counts) <= TOLERATED


@pytest.mark.parametrize("epsilon", [0.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_game_covers_approximate_zcdp_where_half_of_the_runs_tell_all(epsilon):
    """Mixtures of N(1, 1) and N(0, 1), of weight a half, and two points: exactly 0.5-approximate 0.5-zCDP."""
    t = epsilon + 0.5
    p, p_prime = 0.5 + 0.5 * norm.sf(t - 1), 0.5 * norm.sf(t)
    counts = draw_counts(np.random.default_rng(6), p, p_prime, p_prime, p, 1000, AUDITS)
    assert share_above(MembershipGame(epsilon), ApproxZCDP(0.5, 0.5), counts) <= TOLERATED
    assert share_above(MembershipGame(epsilon), ZCDP(0.5), counts) > 10 * TOLERATED


def of_pure(epsilon, error):
    """Trade-off curve of epsilon-DP at an error."""
    return np.maximum(1 - math.exp(epsilon) * error, math.exp(-epsilon) * (1 - error))


def of_gaussian(mu, error):
    """Trade-off curve of N(0, 1) and N(mu, 1)."""
    return norm.cdf(norm.isf(error) - mu)


def events_of_gaussian(mu, threshold, mirrored):
    p, p_prime = norm.sf(threshold - mu), norm.sf(threshold)
    return (p, p_prime, p_prime, p) if mirrored else (p, p_prime, 0.0, 0.0)


CORNERS = [
    *((of_pure, 1.0, pure(1.0, mass)) for mass in (0.5, 0.05)),
    (of_pure, 1.0, (*pure(1.0, 0.5)[:2], 0.0, 0.0)),
    *((of_gaussian, 1.0, events_of_gaussian(1.0, t, mirrored)) for t in (0.7, 2.0) for mirrored in (True, False)),
]


@pytest.mark.parametrize("certificate", [MembershipGame(), Box()])
@pytest.mark.parametrize(("curve", "parameter", "chances"), CORNERS)
def test_the_trade_off_curve_passes_below_the_corner_and_the_profile_above_it(certificate, curve, parameter, chances):
    counts = draw_counts(np.random.default_rng(9), *chances, 1000, AUDITS)
    p, p_prime = certificate.corner(counts, CONFIDENCE)
    wrong = np.count_nonzero(curve(parameter, p_prime) > 1 - p + 1e-12)
    assert wrong <= TOLERATED
    # for every epsilon at once: the profile is the greatest 1 - f(a) - e^epsilon a, so no more can be wrong
    claim = PureDP(parameter) if curve is of_pure else GaussianDP(parameter)
    above = [p - math.exp(e) * p_prime > claim.profile(e) + 1e-12 for e in np.linspace(0.0, 3.0, 13)]
    assert np.count_nonzero(np.any(above, axis=0)) <= wrong


def test_a_corner_at_the_estimates_is_caught():
    p, p_prime, *_ = chances = events_of_gaussian(1.0, 0.7, False)
    counts = draw_counts(np.random.default_rng(10), *chances, 1000, AUDITS)
    p, p_prime = counts.guess_x_on_x / counts.runs_x, counts.guess_x_on_x_prime / counts.runs_x_prime
    assert np.count_nonzero(of_gaussian(1.0, p_prime) > 1 - p) > TOLERATED


@pytest.mark.parametrize("event", ["x", "x_prime"])
def test_the_profile_through_the_corner_is_the_certificates_own_bound_on_delta(event):
    counts = Counts(3700, 3800, 1850, 700, 680, 1900)
    for certificate in (MembershipGame(), Box(event)):
        p, p_prime = certificate.corner(counts, CONFIDENCE)
        assert certificate.delta(counts, 0.3, CONFIDENCE) == pytest.approx(float(p - math.exp(0.3) * p_prime))


@pytest.mark.parametrize("certificate", [MembershipGame(), Box()])
def test_nothing_seen_shows_nothing(certificate):
    p, p_prime = certificate.corner(Counts(100, 100, 0, 0, 0, 0), CONFIDENCE)
    assert float(p) <= float(p_prime)


class TestCoverageHasTeeth:
    """The same simulation catches certificates that are known to be wrong."""

    def test_an_uncorrected_maximum_over_events_is_caught(self):
        rng = np.random.default_rng(6)
        bounds = [
            MembershipGame().parameter(PureDP(1.0), draw_counts(rng, *pure(1.0, mass), 2000, AUDITS), CONFIDENCE)
            for mass in (0.5, 0.4, 0.3)
        ]
        assert np.count_nonzero(np.max(bounds, axis=0) > 1.0) > TOLERATED

    def test_a_game_that_forgets_delta_is_caught(self):
        p_prime = (0.05 - 0.02) * math.exp(-1.0)
        counts = draw_counts(np.random.default_rng(7), 0.05, p_prime, p_prime, 0.05, 2000, AUDITS)
        bounds = MembershipGame().epsilon(counts, 0.0, CONFIDENCE)
        assert np.count_nonzero(bounds > 1.0) > TOLERATED

    def test_a_box_with_the_whole_error_on_both_sides_is_caught(self):
        counts = draw_counts(np.random.default_rng(8), *pure(1.0, 0.5)[:2], 0.0, 0.0, 2000, AUDITS)
        assert share_above(Box(), PureDP(1.0), counts) <= TOLERATED
        low = clopper_pearson_lower(counts.guess_x_on_x, counts.runs_x, 0.05)
        up = clopper_pearson_upper(counts.guess_x_on_x_prime, counts.runs_x_prime, 0.05)
        twice = np.count_nonzero(np.log(low) - np.log(up) > 1.0)
        assert twice <= TOLERATED  # two limits at 5 % each are conservative for a ratio ...
        estimate = np.log(counts.guess_x_on_x / counts.runs_x) - np.log(counts.guess_x_on_x_prime / counts.runs_x_prime)
        assert np.count_nonzero(estimate > 1.0) > TOLERATED  # ... an estimate is no bound
