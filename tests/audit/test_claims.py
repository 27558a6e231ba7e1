"""Privacy definitions: the least parameters of events, privacy profiles, and the conversion of profiles to
parameters.
"""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, rel_entr

from epsaudit import ZCDP, ApproxDP, ApproxZCDP, AuditError, GaussianDP, PureDP, RenyiDP, TradeOff
from epsaudit.claims.conversions import bernoulli_renyi
from epsaudit.claims.definitions import Claim, claim_given

CLAIMS = [
    PureDP(1.0),
    ApproxDP(1.0, 0.001234567890123),
    ZCDP(0.5),
    RenyiDP(3.0, 0.7),
    GaussianDP(1.0),
    ApproxZCDP(0.5, 0.001234567890123),
    TradeOff.of(GaussianDP(1.0).profile),
]
DECADES = [1e-3, 1e-2, 0.1, 1.0, 10.0]
every_claim = pytest.mark.parametrize("claim", CLAIMS, ids=str)
chances = st.floats(0.0, 1.0).map(lambda chance: round(chance, 9))
inner_chances = st.floats(1e-6, 1 - 1e-6)


def zcdp_conversion(rho, epsilon):
    """Return delta at epsilon by Corollary 13 of Canonne, Kamath and Steinke (2020), minimised over the order."""

    def log_delta(log_below):
        below = math.exp(log_below)
        a = 1 + below
        return below * (a * rho - epsilon) - math.log(below) + a * math.log1p(-1 / a)

    return math.exp(minimize_scalar(log_delta, bounds=(-10, 12), method="bounded", options={"xatol": 1e-12}).fun)


def relative_entropy(p, q):
    return float(rel_entr(p, q) + rel_entr(1 - p, 1 - q))


def divergence_of_order_two(p, q):
    p, q = Fraction(p), Fraction(q)
    return math.log(p * p / q + (1 - p) ** 2 / (1 - q))


# Events


@every_claim
@given(p=chances, q=chances)
def test_least_does_not_mind_a_swap_or_the_complement(claim, p, q):
    least = float(claim.least(p, q))
    for other in ((q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
        assert float(claim.least(*other)) == pytest.approx(least, rel=1e-6, abs=1e-7)


@every_claim
@given(p=chances)
def test_equal_probabilities_ask_for_nothing(claim, p):
    assert float(claim.least(p, p)) == 0.0


@every_claim
@given(p=inner_chances, q=inner_chances, share=st.floats(0.0, 1.0))
def test_events_further_apart_ask_for_more(claim, p, q, share):
    between = p + share * (q - p)
    assert float(claim.least(p, between)) <= float(claim.least(p, q)) * (1 + 1e-6) + 1e-9


@every_claim
def test_impossible_on_one_side_only(claim):
    allowed = claim.delta if isinstance(claim, (ApproxDP, ApproxZCDP)) else 0.0
    # where a curve allows delta at its last point, so many times that much is allowed at some finite advantage
    most = 0.1 / min(delta for _, delta in claim.points) if isinstance(claim, TradeOff) else math.inf
    assert float(claim.least(allowed + 0.1, 0.0)) == pytest.approx(most)
    assert float(claim.least(1.0, 0.9 - allowed)) == pytest.approx(most)
    assert float(claim.least(allowed, 0.0)) == 0.0


@given(inner_chances, inner_chances)
def test_least_by_the_definition(p, q):
    likely, rare = max(p, q), min(p, q)
    pure = max(math.log(likely / rare), math.log((1 - rare) / (1 - likely)))
    assert float(PureDP(1.0).least(p, q)) == pytest.approx(pure, abs=1e-9)
    second = max(divergence_of_order_two(p, q), divergence_of_order_two(q, p))
    assert float(RenyiDP(2.0, 1.0).least(p, q)) == pytest.approx(second, rel=1e-9, abs=1e-14)


@given(inner_chances, inner_chances)
def test_zcdp_never_asks_for_more_than_the_supremum_over_orders(p, q):
    """A computed bound may be smaller than the truth but must not exceed it."""
    orders = 1 + np.geomspace(1e-7, 1e6, 20_001)
    fine = np.max(np.maximum(bernoulli_renyi(orders, p, q), bernoulli_renyi(orders, q, p)) / orders)
    limit = max(relative_entropy(p, q), relative_entropy(q, p))
    least = float(ZCDP(1.0).least(p, q))
    assert least <= max(float(fine), limit) * (1 + 1e-6)
    assert least >= float(fine) * (1 - 1e-3) - 1e-30


def test_small_divergences_keep_their_digits():
    for gap in (1e-2, 1e-5, 1e-8):
        p, q = 0.3 + gap, 0.3
        assert float(bernoulli_renyi(2.0, p, q)) == pytest.approx(divergence_of_order_two(p, q), rel=1e-7)


# Profiles


@every_claim
def test_profile_falls_from_the_greatest_distance_towards_zero(claim):
    values = [claim.profile(e) for e in (0.0, 0.2, 1.0, 3.0)]
    assert all(0.0 <= b <= a < 1.0 for a, b in itertools.pairwise(values))
    assert values[0] > 0.0


@every_claim
def test_profile_grows_with_the_parameter(claim):
    values = [claim.with_parameter(t).profile(0.5) for t in (0.0, 0.3, 1.0, 2.0)]
    assert values == sorted(values)


@every_claim
def test_no_event_of_a_claim_exceeds_its_profile(claim):
    """If an event needs parameter t, then p <= e^epsilon p' + delta_t(epsilon) for every epsilon."""
    rng = np.random.default_rng(5)
    for p, q in rng.uniform(0.02, 0.98, (4, 2)):
        needed = claim.with_parameter(float(claim.least(p, q)) * (1 + 1e-9) + 1e-12)
        for epsilon in (0.0, 0.7):
            assert max(p - math.exp(epsilon) * q, q - math.exp(epsilon) * p) <= needed.profile(epsilon) + 1e-6


@pytest.mark.parametrize("parameter", DECADES)
@every_claim
def test_round_trip_from_parameter_to_profile_and_back(claim, parameter):
    claim = claim.with_parameter(parameter)
    for epsilon in (0.0, 0.5 * min(parameter, 3.0)):
        delta = claim.profile(epsilon)
        if 1e-12 < delta < 1 - 1e-9 and (claim.claimed_point is None or epsilon < parameter):
            assert float(claim.least_at(epsilon, delta)) == pytest.approx(parameter, rel=1e-5)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@every_claim
def test_round_trip_through_approximate_dp(claim, delta):
    if isinstance(claim, (ApproxDP, ApproxZCDP)) and delta < claim.delta:
        with pytest.raises(AuditError, match=f"{delta:g}"):
            claim.approximate(delta)
        return
    implied = claim.approximate(delta)
    assert implied.delta == delta
    if implied.epsilon > 0.0:
        assert claim.profile(implied.epsilon) == pytest.approx(delta, rel=1e-5)


@every_claim
def test_nothing_is_needed_for_no_delta(claim):
    assert np.all(claim.least_at([0.0, 1.0], 0.0) == ([0.0, 1.0] if isinstance(claim, PureDP) else [0.0, 0.0]))
    least = float(claim.least_at(0.5, 1.0))
    if isinstance(claim, GaussianDP):  # whose profile is within rounding of 1 from mu = 16.7 on
        assert claim.with_parameter(least).profile(0.5) > 1.0 - 1e-15 > claim.with_parameter(0.9 * least).profile(0.5)
    else:
        assert least == math.inf


def test_profile_of_pure_and_approximate_dp():
    """Randomised response attains the profile: its event has probabilities e^eps / (1 + e^eps) and 1 / (1 + e^eps)."""
    for eps, epsilon in ((1.0, 0.0), (3.0, 1.0), (0.1, 0.05)):
        truth = 1 / (1 + math.exp(-eps))
        best = truth - math.exp(epsilon) * (1 - truth)
        assert PureDP(eps).profile(epsilon) == pytest.approx(best, rel=1e-12)
        assert ApproxDP(eps, 0.01).profile(epsilon) == pytest.approx(0.01 + 0.99 * best, rel=1e-12)
    assert PureDP(1.0).profile(1.0) == 0.0
    assert ApproxDP(1.0, 1e-5).profile(7.0) == 1e-5
    assert ApproxDP(1.0, 1e-5).claimed_point == (1.0, 1e-5)


def test_gaussian_golden():
    """(1, 1e-5) needs a standard deviation of 3.7306316 sensitivities (Balle and Wang 2018; catalogue section E)."""
    assert 1 / float(GaussianDP(1.0).least_at(1.0, 1e-5)) == pytest.approx(3.7306316, abs=5e-8)
    assert GaussianDP(1 / 3.7306316).approximate(1e-5).epsilon == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("rho", [1e-3, 0.1, 0.5, 5.0])
def test_zcdp_profile_lies_between_the_gaussian_and_the_published_conversion(rho):
    mu = math.sqrt(2 * rho)
    for epsilon in (0.5 * mu, rho + 2 * mu):
        profile = ZCDP(rho).profile(epsilon)
        assert GaussianDP(mu).profile(epsilon) * (1 - 1e-9) <= profile <= zcdp_conversion(rho, epsilon) * (1 + 1e-6)


def test_a_curve_of_one_point_is_that_point_and_one_of_many_is_the_claim_they_are_of():
    for epsilon, delta in ((1.0, 0.0), (0.5, 1e-3), (0.0, 0.2)):
        one, point = TradeOff(((epsilon, delta),)), ApproxDP(epsilon, delta)
        for at in (0.0, 0.3, 0.5, 2.0):
            assert one.profile(at) == pytest.approx(point.profile(at), abs=1e-12)
    slack = TradeOff(((0.0, 0.4), (1.0, 0.38), (2.0, 0.1), (3.0, 0.1)))  # the second and the last follow from others
    assert len(slack._lines[0]) == 2
    for mu in (1.0, 3.0):
        curve, whole = TradeOff.of(GaussianDP(mu).profile), GaussianDP(mu)
        for at in (0.0, 0.25, 1.0, 1.1, 2.5):
            assert whole.profile(at) * (1 - 1e-9) <= curve.profile(at) <= whole.profile(at) * 1.05


@given(p=inner_chances, q=inner_chances, delta=st.floats(1e-9, 0.5))
def test_approximate_zcdp_asks_for_the_nearest_rest(p, q, delta):
    """For all decompositions p = (1 - delta) a + delta c and q = (1 - delta) b + delta d, (a, b) needs at least this
    rho.
    """
    least = float(ApproxZCDP(0.0, delta).least(p, q))
    c, d = np.meshgrid(np.linspace(0.0, 1.0, 9), np.linspace(0.0, 1.0, 9))
    a, b = (p - delta * c) / (1 - delta), (q - delta * d) / (1 - delta)
    possible = (a >= 0.0) & (a <= 1.0) & (b >= 0.0) & (b <= 1.0)
    assert np.all(ZCDP(0.0).least(a[possible], b[possible]) >= least * (1 - 1e-6) - 1e-12)


def test_weaker_definitions_imply_larger_profiles():
    """eps-DP implies eps tanh(eps / 2)-zCDP, which implies Renyi DP of order 2 with twice that rho (catalogue C1)."""
    for eps in (0.3, 2.0):
        rho = eps * math.tanh(eps / 2)
        for epsilon in (0.0, 0.5 * eps):
            profiles = [claim.profile(epsilon) for claim in (PureDP(eps), ZCDP(rho), RenyiDP(2.0, 2 * rho))]
            assert profiles[0] <= profiles[1] * (1 + 1e-6)
            assert profiles[1] <= profiles[2] * (1 + 1e-6)


@given(st.floats(0.0, 5.0), st.floats(1e-6, 0.9))
@settings(max_examples=20)
def test_least_at_is_where_the_line_first_touches(epsilon, delta):
    """Every event on the line p = e^epsilon p' + delta needs at least this parameter."""
    p_prime = (1 - delta) * math.exp(-epsilon) * np.linspace(1e-4, 1 - 1e-4, 50)
    for claim in CLAIMS:
        least = float(claim.least_at(epsilon, delta))
        if not isinstance(claim, ApproxDP) or delta > claim.delta:
            assert np.min(claim.least(np.exp(epsilon) * p_prime + delta, p_prime)) >= least * (1 - 1e-6) - 1e-9


def renyi_either_way(order, p, q):
    return np.maximum(bernoulli_renyi(order, p, q), bernoulli_renyi(order, q, p))


def needed_rho(p, q):
    """Return the supremum over all orders from 1, by a search that shares no code with the library's."""
    logs = np.linspace(-12.0, 14.0, 500)
    for _ in range(2):
        orders = 1 + np.exp(logs)
        ratios = renyi_either_way(orders, p, q) / orders
        best = logs[np.argmax(ratios)]
        logs = np.linspace(best - 0.06, best + 0.06, 500)
    return max(ratios.max(), float(renyi_either_way(1.0, p, q)))


@pytest.mark.parametrize("order", [1.5, 20.0, None], ids=["order 1.5", "order 20", "zCDP"])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.4), (0.1, 0.9), (0.3, 0.6), (1.0, 1e-3), (2.0, 1e-6), (9.0, 0.02)]
)
def test_least_at_is_never_above_the_true_value_and_hardly_below_it(epsilon, delta, order):
    """The true value is the minimum over the line of the maximum over all orders, by nested searches."""

    def needed(logit):
        p, q = delta + (1 - delta) * expit(logit), (1 - delta) * math.exp(-epsilon) * expit(logit)
        return needed_rho(p, q) if order is None else float(renyi_either_way(order, p, q))

    logits = np.linspace(math.log(delta) - 20.0, epsilon, 40)  # at the last one p + q = 1, where the directions meet
    best = int(np.argmin([needed(logit) for logit in logits]))
    around = logits[best - 1], logits[min(best + 1, 39)]
    found = minimize_scalar(needed, bounds=around, method="bounded", options={"xatol": 1e-7})
    true = min(found.fun, needed(epsilon))
    claim = ZCDP(1.0) if order is None else RenyiDP(order, 1.0)
    assert true * (1 - 1e-4) <= float(claim.least_at(epsilon, delta)) <= true


@pytest.mark.parametrize("claim", [ZCDP(1.0), RenyiDP(1.0001, 1.0), RenyiDP(1e5, 1.0)], ids=str)
def test_least_at_is_a_number_on_every_line(claim):
    epsilon = np.array([0.0, 1e-6, 1.0, 800.0, 6586.7, 1e5])[:, None]
    least = claim.least_at(epsilon, [1e-305, 1e-300, 1e-12, 0.5, 1 - 1e-15])
    assert np.all(np.isfinite(least))
    assert np.all(np.diff(least, axis=1) >= 0.0)


# The objects themselves


@every_claim
def test_json_round_trip(claim):
    assert Claim.from_dict(json.loads(json.dumps(claim.to_dict()))) == claim


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PureDP(-1.0), "epsilon of the claim is -1.0"),
        (lambda: PureDP(math.nan), "nan"),
        (lambda: ApproxDP(1.0, 1.0), "delta of the claim is 1.0"),
        (lambda: ZCDP(-0.5), "rho of the claim is -0.5"),
        (lambda: GaussianDP(-3.0), "mu of the claim is -3.0"),
        (lambda: TradeOff(()), "no points"),
        (lambda: TradeOff(((1.0, 1.5),)), "delta of a point is 1.5"),
        (lambda: PureDP(1.0).profile(-0.25), "epsilon is -0.25"),
        (lambda: GaussianDP(1.0).approximate(1.5), "delta is 1.5"),
        (lambda: Claim.from_dict({"kind": "Secret"}), "Secret"),
        (lambda: Claim.from_dict({"kind": "ZCDP", "rho": "x"}), "'x'"),
        (lambda: Claim.from_dict({"kind": "TradeOff", "points": [[1.0, 0.1, 0.0]]}), "must be pairs"),
    ],
)
def test_bad_numbers_are_named(make, words):
    with pytest.raises(AuditError, match=words):
        make()


def test_numbers_of_a_claim_that_may_be_swapped_are_asked_about():
    with pytest.warns(UserWarning, match="epsilon is 1e-05 and delta 0.5: they may be swapped"):
        claim_given(None, epsilon=1e-5, delta=0.5)
    with pytest.raises(AuditError, match="epsilon of the claim is '1'"):
        PureDP("1")
    with pytest.raises(AuditError, match="epsilon, mu together make no claim; give one of: epsilon; epsilon, delta"):
        claim_given(None, epsilon=1.0, mu=1.0)
