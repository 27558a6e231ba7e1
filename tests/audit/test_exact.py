"""The exact profile against closed forms, against enumeration of every event, and against scipy's quadrature."""

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.special import log_ndtr, logsumexp, ndtr

from epsaudit import ZCDP, ApproxDP, ApproxZCDP, GaussianDP, PureDP, RenyiDP, TradeOff
from epsaudit.mechanisms.exact import (
    NotKnownError,
    PrivacyProfile,
    delta,
    epsilon,
    exact_parameter,
    likelihood_ratio_events,
    renyi,
)
from epsaudit.mechanisms.groups import AsinhCounts
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, LaplaceLaw, NormalLaw

EPSILONS = [0.01, 0.5, 1.0, 5.0]
FAMILIES = [
    PureDP(1.0),
    ApproxDP(1.0, 0.01),
    ZCDP(1.0),
    RenyiDP(3.0, 1.0),
    GaussianDP(1.0),
    ApproxZCDP(1.0, 0.01),
    TradeOff(((0.0, 0.4), (1.0, 0.1), (3.0, 0.01))),
]


@dataclass(frozen=True)
class ScipyLaw:
    """A frozen scipy distribution as a law."""

    law: object
    knots: tuple[float, ...]
    scale: float = 1.0

    def log_density(self, outputs):
        return self.law.logpdf(outputs)


@dataclass(frozen=True)
class Clipped:
    """Laplace noise clipped to [0, 1]: an atom at either end, a density between; refuses to be asked at an atom."""

    centre: float
    noise: float
    support: ClassVar = (0.0, 1.0)

    @property
    def log_probabilities(self):
        law = stats.laplace(self.centre, self.noise)
        return np.array([law.logcdf(0.0), law.logsf(1.0)])

    @property
    def knots(self):
        return (self.centre,)

    @property
    def scale(self):
        return self.noise

    def log_density(self, outputs):
        assert not np.isin(outputs, self.support).any()
        density = -np.abs(outputs - self.centre) / self.noise - math.log(2.0 * self.noise)
        return np.where((outputs > 0.0) & (outputs < 1.0), density, -np.inf)


@dataclass(frozen=True)
class NormalMixture:
    """Normal laws in shares, of (share, mean, standard deviation) each."""

    components: tuple[tuple[float, float, float], ...] = ((0.5, 0.0, 1.0), (0.5, 1.0, 1.0))
    knots: ClassVar = (0.0,)
    scale: ClassVar = 1.0

    def log_density(self, outputs):
        densities = [
            math.log(share / scale / math.sqrt(2.0 * math.pi)) - ((outputs - mean) / scale) ** 2 / 2.0
            for share, mean, scale in self.components
        ]
        return np.logaddexp.reduce(densities, axis=0)


def finite(*probabilities):
    with np.errstate(divide="ignore"):
        return FiniteLaw(range(len(probabilities)), np.log(probabilities))


chances = st.floats(0.0, 1.0).map(lambda chance: chance if chance > 1e-3 else 0.0)
weights = st.integers(2, 7).flatmap(
    lambda k: st.tuples(*[st.lists(chances, min_size=k, max_size=k).filter(lambda w: sum(w) > 0.01)] * 2)
)


def laws_of(pair):
    return tuple(finite(*(np.array(w) / sum(w))) for w in pair)


def all_events(law, law_prime):
    p, q = np.exp(law.log_probabilities), np.exp(law_prime.log_probabilities)
    events = np.array(list(itertools.product([0, 1], repeat=len(p))), float)
    return np.minimum(events @ p, 1.0), np.minimum(events @ q, 1.0)


# Finite laws: every event can be enumerated


@given(weights, st.floats(0.0, 5.0))
def test_delta_is_the_best_of_all_events(pair, eps):
    law, law_prime = laws_of(pair)
    p, q = all_events(law, law_prime)
    profile = PrivacyProfile(law, law_prime)
    assert profile.hockey_stick(eps) == pytest.approx(np.max(p - math.exp(eps) * q), abs=1e-13)
    assert profile.delta(eps) == pytest.approx(
        max(np.max(p - math.exp(eps) * q), np.max(q - math.exp(eps) * p)), abs=1e-13
    )


@given(weights, st.floats(1e-6, 0.9))
def test_epsilon_is_the_best_of_all_events(pair, target):
    law, law_prime = laws_of(pair)
    p, q = all_events(law, law_prime)
    expected = float(np.max(ApproxDP(0.0, target).least(p, q)))
    found = epsilon(law, law_prime, target)
    if not math.isfinite(found):  # an impossible event of probability target, but for rounding, may go either way
        expected = float(np.max(ApproxDP(0.0, target * (1 - 1e-9)).least(p, q)))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9) or delta(law, law_prime, found) == pytest.approx(target)


@given(weights)
def test_pure_epsilon_is_the_greatest_loss(pair):
    law, law_prime = laws_of(pair)
    with np.errstate(invalid="ignore"):
        losses = np.abs(law.log_probabilities - law_prime.log_probabilities)
    # outcomes whose losses agree to 1e-13 count as one
    assert epsilon(law, law_prime, 0.0) == pytest.approx(np.nanmax(losses, initial=0.0), abs=2e-13)


@given(weights)
def test_gaussian_parameter_is_the_best_of_all_events(pair):
    law, law_prime = laws_of(tuple([x + 0.01 for x in w] for w in pair))
    p, q = (np.round(chances, 13) for chances in all_events(law, law_prime))
    inside = (p > 0) & (q > 0) & (p < 1) & (q < 1)
    expected = np.max(GaussianDP(1.0).least(p[inside], q[inside]), initial=0.0)
    assert exact_parameter(GaussianDP(1.0), law, law_prime) == pytest.approx(expected, abs=1e-7)


@given(weights, st.floats(1.01, 30.0))
def test_renyi_divergence_is_its_power_sum(pair, order):
    law, law_prime = laws_of(tuple([x + 0.01 for x in w] for w in pair))
    log_p, log_q = law.log_probabilities, law_prime.log_probabilities
    expected = logsumexp(order * log_p + (1 - order) * log_q) / (order - 1)
    assert renyi(law, law_prime, order) == pytest.approx(expected, rel=1e-9, abs=1e-13)
    assert renyi(law, law_prime, 1.0) == pytest.approx(np.sum(np.exp(log_p) * (log_p - log_q)), rel=1e-9, abs=1e-13)


@given(weights)
@settings(max_examples=30)
def test_concentrated_parameter_is_the_supremum_over_orders(pair):
    law, law_prime = laws_of(tuple([x + 0.01 for x in w] for w in pair))
    orders = 1 + np.geomspace(1e-3, 1e3, 3000)
    log_p, log_q = (one.log_probabilities[:, None] for one in (law, law_prime))
    best = 0.0
    for a, b in ((log_p, log_q), (log_q, log_p)):
        best = max(best, float(np.max(logsumexp(orders * a + (1 - orders) * b, axis=0) / ((orders - 1) * orders))))
        best = max(best, float(np.sum(np.exp(a) * (a - b))))  # the limit at order 1
    assert exact_parameter(ZCDP(1.0), law, law_prime) == pytest.approx(best, rel=1e-4, abs=1e-9)
    assert exact_parameter(ZCDP(1.0), law, law_prime) >= best * (1 - 1e-8) - 1e-12


@given(weights, st.sampled_from(FAMILIES))
@settings(max_examples=50)
def test_no_event_asks_for_more_than_the_whole_law(pair, claim):
    law, law_prime = laws_of(pair)
    p, q = all_events(law, law_prime)
    p, q = np.round(p, 12), np.round(q, 12)  # summing must not turn certain events into uncertain ones
    least = exact_parameter(claim, law, law_prime)
    assert np.max(claim.least(p, q), initial=0.0) <= least * (1 + 1e-7) + 1e-7


@given(weights, st.lists(st.integers(0, 2), min_size=7, max_size=7), st.sampled_from(FAMILIES))
@settings(max_examples=50)
def test_post_processing_never_costs_privacy(pair, names, claim):
    law, law_prime = laws_of(pair)
    merged = []
    for one in (law, law_prime):
        sums = np.zeros(3)
        np.add.at(sums, names[: len(one.support)], np.exp(one.log_probabilities))
        merged.append(finite(*(sums / sums.sum())))
    assert exact_parameter(claim, *merged) <= exact_parameter(claim, law, law_prime) * (1 + 1e-9) + 1e-6


def test_name_and_shame_attains_its_approximate_claim():
    """Kairouz, Oh and Viswanath (2015): the pair that attains (epsilon, delta)-DP."""
    eps, rare = 1.0, 1e-6
    truth = (1 - rare) / (1 + math.exp(-eps))
    pair = finite(rare, truth, 1 - rare - truth, 0.0), finite(0.0, 1 - rare - truth, truth, rare)
    assert epsilon(*pair, rare) == pytest.approx(eps, abs=1e-9)
    assert epsilon(*pair, rare * 0.999) == math.inf
    assert delta(*pair, 5.0) == pytest.approx(rare, rel=1e-12)


def test_outcomes_of_any_kind_are_told_apart():
    support = [None, "no", ("no", 3.5), float("nan"), 2, math.inf]
    law = FiniteLaw(support, np.log([0.5, 0.1, 0.1, 0.1, 0.1, 0.1]))
    law_prime = FiniteLaw([*support[:3], float("nan"), *support[4:]][::-1], np.log([0.1, 0.1, 0.1, 0.1, 0.1, 0.5]))
    assert delta(law, law_prime, 0.0) == pytest.approx(0.0, abs=1e-15)
    assert delta(law, FiniteLaw(support[1:], np.zeros(5)), 1.0) == pytest.approx(0.5)


@pytest.mark.parametrize("claim", FAMILIES, ids=str)
def test_identical_laws_cost_nothing_and_disjoint_ones_everything(claim):
    for law in (finite(0.25, 0.0, 0.75), LaplaceLaw(3.0, 2.0), NormalLaw(0.0, 1.0), Clipped(0.3, 0.5)):
        assert exact_parameter(claim, law, law) == 0.0
    everything = 100.0 if isinstance(claim, TradeOff) else math.inf  # a hundred times what its last point allows
    assert exact_parameter(claim, finite(1.0, 0.0), finite(0.0, 1.0)) == pytest.approx(everything)
    uniform = [ScipyLaw(stats.uniform(left, 1.0), (left, left + 1.0)) for left in (0.0, 5.0)]
    assert exact_parameter(claim, *uniform) == pytest.approx(everything)
    assert exact_parameter(claim, finite(0.5, 0.5), NormalLaw(0.0, 1.0)) == pytest.approx(everything)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([1e-3, 0.05, 0.3]))
def test_no_rest_of_two_laws_is_nearer_zcdp_than_what_is_computed(seed, spared):
    """The exact rho of approximate zCDP: no part of weight delta leaves less, and no event needs more."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    true = exact_parameter(ApproxZCDP(1.0, spared), finite(*p), finite(*q))
    for at in (0.0, 0.3, 1.0):
        seen = delta(finite(*p), finite(*q), at)
        assert ApproxZCDP(1.0, spared).least_at(at, seen) <= true * (1 + 1e-9)
    for _ in range(5):
        taken = [np.minimum(law, spared * rng.dirichlet(np.full(6, 0.3))) for law in (p, q)]
        rests = [law - part for law, part in zip((p, q), taken, strict=True)]
        rests = [rest * (1 - spared) / rest.sum() for rest in rests]  # up to delta was taken; take the rest of it
        assert exact_parameter(ZCDP(1.0), *(finite(*rest / (1 - spared)) for rest in rests)) >= true * (1 - 1e-9)


def test_approximate_zcdp_of_densities_and_of_mixtures():
    pair = NormalLaw(0.0, 1.0), NormalLaw(1.0, 1.0)
    values = [exact_parameter(ApproxZCDP(1.0, delta), *pair) for delta in (0.0, 1e-6, 1e-3, 0.1, 0.4)]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(0.5)
    assert values[4] == 0.0  # more than their total variation distance
    fine = np.linspace(-9.0, 10.0, 40_001)  # the same densities as finite laws
    listed = [FiniteLaw(range(len(fine)), -0.5 * (fine - centre) ** 2) for centre in (0.0, 1.0)]
    assert exact_parameter(ApproxZCDP(1.0, 0.1), *listed) == pytest.approx(values[3], rel=1e-5)
    truth, delta = 1 / (1 + math.exp(-1.0)), 1e-3
    leaky = [(1 - delta) * truth, (1 - delta) * (1 - truth)]
    assert exact_parameter(
        ApproxZCDP(1.0, delta), finite(delta, *leaky, 0.0), finite(0.0, *leaky[::-1], delta)
    ) == pytest.approx(math.tanh(0.5))


def test_the_advantage_of_a_pair_is_where_its_profile_meets_the_curve():
    curve = TradeOff.of(GaussianDP(1.0).profile)
    assert exact_parameter(curve, NormalLaw(0.0, 1.0), NormalLaw(1.0, 1.0)) == pytest.approx(1.0)
    rare = TradeOff.of(GaussianDP(0.5).profile)  # 1e-57 at its last points, where rounding errors of delta are 1e-17
    noise = LaplaceLaw(0.0, 1.0), LaplaceLaw(1.0, 1.0)
    seen = np.max(rare.least(*(np.exp(law.log_cdf(np.linspace(-1.0, 2.0, 301))) for law in noise)))
    assert exact_parameter(rare, *noise) == pytest.approx(seen, rel=1e-3)
    rng = np.random.default_rng(0)
    for _ in range(2):
        p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
        events = np.array(list(itertools.product([0, 1], repeat=5)))
        seen = np.max(curve.least(events @ p, events @ q))
        assert exact_parameter(curve, finite(*p), finite(*q)) == pytest.approx(seen, rel=1e-9)


@pytest.mark.parametrize("scale", [0.2, 2.0, 100.0])
def test_tails_left_out_of_a_support_are_not_impossible(scale):
    """The two supports differ by one integer at either end, whose probability log_density still tells."""
    pair = DiscreteLaplaceLaw(0, scale), DiscreteLaplaceLaw(1, scale)
    assert epsilon(*pair, 0.0) == pytest.approx(1 / scale, rel=1e-10)
    assert exact_parameter(GaussianDP(1.0), *pair) == pytest.approx(-2 * stats.norm.ppf(1 / (1 + math.exp(1 / scale))))


# Laws on the line: closed forms


@pytest.mark.parametrize("eps", EPSILONS)
def test_laplace_profile(eps):
    """Catalogue section E."""
    profile = PrivacyProfile(LaplaceLaw(7.0, 1 / eps), LaplaceLaw(8.0, 1 / eps))
    for e in np.linspace(0.0, eps, 7):
        assert profile.delta(e) == pytest.approx(-math.expm1((e - eps) / 2), abs=1e-13)
    assert profile.delta(2 * eps) == 0.0
    assert profile.epsilon(0.0) == pytest.approx(eps, rel=1e-12)
    for target in (1e-9, 1e-4, 0.5 * -math.expm1(-eps / 2)):
        assert profile.epsilon(target) == pytest.approx(eps + 2 * math.log1p(-target), abs=1e-11)


@pytest.mark.parametrize("sigma", [0.05, 0.5, 3.7306316, 100.0])
def test_gaussian_in_every_family(sigma):
    """Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Theorem 2.7; Bun and Steinke (2016), Lemma 2.4."""
    mu = 1 / sigma
    profile = PrivacyProfile(NormalLaw(0.0, sigma), NormalLaw(1.0, sigma))
    assert profile.epsilon(0.0) == math.inf
    for e in (0.0, 0.3 * mu, mu, 3 * mu):
        assert profile.delta(e) == pytest.approx(GaussianDP(mu).profile(e), abs=1e-12)
    for claim, value in ((GaussianDP(1), mu), (ZCDP(1), mu**2 / 2), (RenyiDP(7, 1), 7 * mu**2 / 2)):
        assert exact_parameter(claim, NormalLaw(0.0, sigma), NormalLaw(1.0, sigma)) == pytest.approx(value, rel=1e-9)


NOISE = NormalMixture(((1.0, 0.0, 1.0),))


@pytest.mark.parametrize("shift", [1.0, 3.0])
@pytest.mark.parametrize("share", [0.5, 0.1, 1e-3])
def test_a_least_mu_beyond_the_rarest_events_is_not_known(share, shift):
    """A shift with some probability: no event needs mu = shift, {y >= t} comes near it as log(1 / share) / t falls."""
    shifted = NormalMixture(((1.0 - share, 0.0, 1.0), (share, shift, 1.0)))
    t = 36.0  # {y >= 36} has a probability of 1e-283
    at_t = stats.norm.isf(stats.norm.sf(t)) - stats.norm.isf(
        (1.0 - share) * stats.norm.sf(t) + share * stats.norm.sf(t - shift)
    )
    for pair in ((shifted, NOISE), (NOISE, shifted)):
        with pytest.raises(NotKnownError, match="rests on events less likely than 1e-300") as refusal:
            exact_parameter(GaussianDP(1.0), *pair)
        seen = float(str(refusal.value).split()[4])
        assert at_t - 1e-6 <= seen < shift


def test_normal_laws_of_different_variance():
    """{loss >= e} is the outside of an interval whose ends solve a quadratic equation."""
    narrow, wide = stats.norm(0.0, 1.0), stats.norm(0.5, 2.0)
    profile = PrivacyProfile(NormalLaw(0.5, 2.0), NormalLaw(0.0, 1.0))
    for e in (0.0, 0.4, 2.0, 9.0):
        low, high = np.sort(np.roots([0.5 - 0.125, 0.125, -0.125 * 0.25 - math.log(2.0) - e]))
        outside = wide.cdf(low) + wide.sf(high), narrow.cdf(low) + narrow.sf(high)
        assert profile.hockey_stick(e) == pytest.approx(outside[0] - math.exp(e) * outside[1], abs=1e-12)
        np.testing.assert_allclose(np.ravel(profile.events([e])), outside, rtol=1e-9)
    for claim in (PureDP(1), ZCDP(1), GaussianDP(1), RenyiDP(1.34, 1)):
        assert exact_parameter(claim, NormalLaw(0.5, 2.0), NormalLaw(0.0, 1.0)) == math.inf
    assert exact_parameter(RenyiDP(1.3, 1), NormalLaw(0.5, 2.0), NormalLaw(0.0, 1.0)) == pytest.approx(
        1.3 * 0.25 / (2 * (1.3 - 0.3 * 4)) - math.log(2.0) + math.log(1 / (1.3 - 0.3 * 4)) / (2 * 0.3), rel=1e-9
    )  # Gil, Alajaji and Linder (2013), table 2


# Mixtures


@pytest.mark.parametrize(("centres", "noise"), [((0.2, 0.9), 0.5), ((0.5, 0.5), 0.1), ((-0.3, 0.6), 2.0)])
def test_mixture_against_scipy_quadrature(centres, noise):
    law, law_prime = (Clipped(c, noise) for c in centres)
    profile = PrivacyProfile(law, law_prime)
    p, q = np.exp(law.log_probabilities), np.exp(law_prime.log_probabilities)
    for e in (0.0, 0.1, 0.7, 1.1):

        def excess(y, e=e):
            y = np.array([y])
            return max(0.0, float((np.exp(law.log_density(y)) - math.exp(e) * np.exp(law_prime.log_density(y)))[0]))

        crossing = (sum(centres) - e * noise) / 2
        places = sorted({0.0, 1.0, *(x for x in (*centres, crossing) if 0.0 < x < 1.0)})
        density = sum(quad(excess, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(places))
        atoms = np.sum(np.maximum(p - math.exp(e) * q, 0.0))
        assert profile.hockey_stick(e) == pytest.approx(density + atoms, abs=1e-11)
    assert profile.epsilon(0.0) == pytest.approx(abs(centres[0] - centres[1]) / noise, rel=1e-12, abs=1e-15)


def test_an_atom_where_the_other_law_has_density_gives_it_away():
    pair = Clipped(0.2, 0.5), LaplaceLaw(0.2, 0.5)
    atoms = float(np.exp(logsumexp(pair[0].log_probabilities)))
    assert PrivacyProfile(*pair).hockey_stick(3.0) == pytest.approx(atoms, abs=1e-13)
    assert epsilon(*pair, 0.0) == math.inf


# Laws that hold for every pair

PAIRS = {
    "finite": (finite(0.5, 0.3, 0.2), finite(0.2, 0.5, 0.3)),
    "one-sided": (finite(0.5, 0.3, 0.2), finite(0.0, 0.7, 0.3)),
    "Laplace": (LaplaceLaw(0.0, 1.0), LaplaceLaw(1.0, 1.0)),
    "normal": (NormalLaw(0.0, 1.0), NormalLaw(0.5, 1.2)),
    "mixture": (Clipped(0.2, 0.5), Clipped(0.9, 0.5)),
}
every_pair = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())


@every_pair
def test_profile_decreases_and_is_convex_in_exp_epsilon(pair):
    profile = PrivacyProfile(*pair)
    grid = np.linspace(0.0, 3.0, 25)
    deltas = np.array([profile.delta(e) for e in grid])
    assert np.all(np.diff(deltas) <= 1e-13)
    slopes = np.diff(deltas) / np.diff(np.exp(grid))
    assert np.all(np.diff(slopes) >= -1e-9)


@every_pair
def test_epsilon_inverts_delta(pair):
    profile = PrivacyProfile(*pair)
    for e in (0.05, 0.2, 0.45):
        target = profile.delta(e)
        found = profile.epsilon(target)
        assert profile.delta(found) == pytest.approx(target)
        assert found <= e + 1e-9  # the least, where the profile has a plateau
    assert delta(*pair, e) == target
    assert epsilon(*pair, target) == found


@every_pair
def test_the_event_of_a_threshold_attains_the_profile_there(pair):
    """Neyman and Pearson (1933): {loss >= e} is the best event at epsilon = e."""
    profile = PrivacyProfile(*pair)
    thresholds = np.linspace(0.0, 1.0, 11)
    p, p_prime = likelihood_ratio_events(*pair, thresholds)
    attained = p - np.exp(thresholds) * p_prime
    np.testing.assert_allclose(attained, [profile.hockey_stick(e) for e in thresholds], atol=1e-11)
    everything = np.ravel(profile.events([-np.inf]))
    np.testing.assert_allclose(everything, [1.0, 1.0], rtol=1e-9)


def test_an_event_holds_losses_equal_to_its_threshold():
    p, p_prime = likelihood_ratio_events(LaplaceLaw(0.0, 1.0), LaplaceLaw(1.0, 1.0), [1.0, 1.0 + 1e-9, np.inf])
    assert p.tolist() == pytest.approx([0.5, 0.0, 0.0])
    assert p_prime.tolist() == pytest.approx([0.5 * math.exp(-1.0), 0.0, 0.0])


# Bad input


def rounded_counts(size, reach, logarithms):
    """Law of the rounded counts of an asinh release, in the naive way, whose rare outcomes cancel, or as logarithms."""
    mechanism = AsinhCounts(0.5, 0.3)
    inner = (np.arange(-reach, reach) + 0.5) / float(mechanism.counts(mechanism.width)) * math.sinh(1.0)
    z = (mechanism.width * np.arcsinh(inner) - mechanism.transformed(size)) / mechanism.sigma
    edges = np.concatenate([[-np.inf], z, [np.inf]])
    with np.errstate(divide="ignore"):
        if not logarithms:
            return FiniteLaw(range(-reach, reach + 1), np.log(np.diff(ndtr(edges))))
        low, high = np.where(edges[:-1] + edges[1:] > 0.0, [-edges[1:], -edges[:-1]], [edges[:-1], edges[1:]])
        return FiniteLaw(range(-reach, reach + 1), log_ndtr(high) + np.log(-np.expm1(log_ndtr(low) - log_ndtr(high))))


def test_laws_that_rounding_alone_tells_apart_are_refused():
    """Rounded counts of an asinh release: rho is 0.4857, where differences of a cdf answered infinity."""
    naive, careful = ([rounded_counts(size, 200, kind) for size in (0, 1)] for kind in (False, True))
    rho = exact_parameter(ZCDP(1.0), *careful)
    assert rho == pytest.approx(0.4856, abs=1e-4)
    assert rho < AsinhCounts(0.5, 0.3).loss(1)  # rounding is post-processing
    for claim in (ZCDP(1.0), RenyiDP(2.0, 1.0), PureDP(1.0), GaussianDP(1.0)):
        with pytest.raises(NotKnownError, match=r"of probability \de-1\d in all .* which may be rounding"):
            exact_parameter(claim, *naive)
    careful_epsilon, naive_epsilon = (epsilon(*laws, 1e-3) for laws in (careful, naive))
    assert naive_epsilon == pytest.approx(careful_epsilon, rel=1e-9)
    # what is likelier is no rounding error
    sure = FiniteLaw("ab", np.log([1.0 - 1e-8, 1e-8])), FiniteLaw("ab", [0.0, -np.inf])
    assert exact_parameter(ZCDP(1.0), *sure) == math.inf
