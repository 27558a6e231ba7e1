"""Additive noise, histograms, responses and counts by group: profiles of the textbooks, attained on the worst pair."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.stats import norm

from epsaudit import ZCDP, AuditError, DatasetPair, RenyiDP
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, SphericalGaussian, SphericalLaw
from epsaudit.mechanisms.broken.selection import GaussianHistogramOneTooLow
from epsaudit.mechanisms.composition import ProductLaw
from epsaudit.mechanisms.groups import AsinhCounts, GroupCounts, NoisyTwiceLaw, renyi_per_group
from epsaudit.mechanisms.histogram import GaussianHistogram, StableHistogram
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, LaplaceLaw, NormalLaw
from epsaudit.mechanisms.queries import ClippedSum, NumericQuery
from epsaudit.mechanisms.response import HadamardResponse, RandomisedResponse

EPSILONS = st.floats(0.01, 10.0)


def laws(mechanism):
    (pair,) = mechanism.worst_pairs()
    mechanism.adjacency.check(pair)
    return mechanism(pair.x), mechanism(pair.x_prime)


@given(EPSILONS, st.integers(1, 5))
def test_discrete_laplace_attains_its_claim(epsilon, sensitivity):
    query = NumericQuery(lambda data: sensitivity * len(data), sensitivity)
    law, law_prime = laws(DiscreteLaplace(epsilon, query))
    outputs = list(range(-20, 21))
    losses = law.log_density(outputs) - law_prime.log_density(outputs)
    assert max(abs(losses)) == pytest.approx(epsilon, rel=1e-9)


@given(EPSILONS, st.floats(1e-12, 0.3), st.floats(0.1, 10.0))
def test_gaussian_meets_its_delta_and_no_less(epsilon, delta, sensitivity):
    query = NumericQuery(lambda data: sensitivity * len(data), sensitivity)
    ratio = sensitivity / Gaussian(epsilon, delta, query).sigma
    spent = norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio)
    assert spent == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize("dimension", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_spherical_noise_has_the_profile_of_a_number(dimension):
    """Whatever the direction: of the sum of the coordinates' losses, computed by composition, too."""
    mechanism = SphericalGaussian(1.0, 1e-3, ClippedSum(dimension))
    plain = Gaussian(1.0, 1e-3)
    for claim in mechanism.claims:
        assert exact.exact_parameter(claim, *laws(mechanism)) == pytest.approx(claim.parameter, rel=1e-6)
    assert mechanism.sigma == plain.sigma
    law, law_prime = laws(mechanism)
    parts = [ProductLaw(tuple(NormalLaw(at, one.sigma) for at in one.centre)) for one in (law, law_prime)]
    assert exact.renyi(*parts, 3.0) == pytest.approx(exact.renyi(law, law_prime, 3.0), rel=1e-9)
    draws = law.sample(1000, np.random.default_rng(0))
    assert law.log_density(draws) == pytest.approx(parts[0].log_density(draws))
    with pytest.raises(AuditError, match="is not known"):
        exact.delta(law, SphericalLaw(law.centre, 2.0 * law.sigma), 1.0)


def test_a_new_key_shows_with_half_of_delta():
    mechanism = StableHistogram(0.7, 0.01)
    pair = mechanism.worst_pairs()[1]
    mechanism.adjacency.check(pair)
    with_key, without = (mechanism(x).marginal("b") for x in (pair.x, pair.x_prime))
    shows = -math.expm1(float(with_key.log_probabilities[0]))
    assert shows == pytest.approx(math.exp(-0.7 * (mechanism.threshold - 1.0)) / 2.0)
    assert exact.delta(with_key, without, 0.0) == pytest.approx(0.005)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_the_marginals_of_all_neighbours_respect_the_claim(epsilon):
    mechanism = StableHistogram(epsilon, 0.01)
    laws = [mechanism(("a",) * count).marginal("a") for count in range(25)]
    assert max(exact.delta(x, x_prime, epsilon) for x, x_prime in itertools.pairwise(laws)) <= 0.01
    assert exact.epsilon(laws[2], laws[1], 0.0) == pytest.approx(epsilon)


def test_exact_values_of_both_pairs():
    """A key that appears costs a delta of its own and no epsilon; keys that differ in no count cost nothing."""
    mechanism = StableHistogram(1.0, 1e-3)
    crowd, new_key = (
        exact.PrivacyProfile(mechanism(pair.x), mechanism(pair.x_prime)) for pair in mechanism.worst_pairs()
    )
    assert crowd.epsilon(1e-3) == pytest.approx(0.995, abs=1e-3)
    assert (new_key.epsilon(1e-3), new_key.delta(1.0)) == (0.0, pytest.approx(5e-4, rel=1e-9))
    assert math.isinf(new_key.epsilon(4e-4))
    same = exact.PrivacyProfile(mechanism(("a", "b")), mechanism(("b", "a")))
    assert same.delta(0.0) == 0.0
    # two keys that differ, as in no neighbours, are independent parts: twice the loss of one, nearly always released
    many = ("a",) * 40 + ("b",) * 40
    both = exact.PrivacyProfile(mechanism(many), mechanism(many[1:-1]))
    assert both.epsilon(0.0) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(("rho", "delta"), [(0.02, 1e-3), (0.5, 0.01), (2.0, 0.2)])
def test_keys_of_an_unknown_domain_keep_approximate_zcdp_on_all_neighbours(rho, delta):
    """Divergences of counts from 1 on are at most rho; a new key shows with probability delta, and not more often."""
    mechanism, too_low = GaussianHistogram(rho, delta), GaussianHistogramOneTooLow(rho, delta)
    counts = range(1, math.ceil(mechanism.threshold + 6.0 * mechanism.sigma) + 9)
    laws = [mechanism(("a",) * count).marginal("a") for count in counts]
    for order in (1.5, 2.0, 8.0):
        found = [exact.renyi(*pair, order) / order for pair in itertools.pairwise(laws)]
        assert max(found) <= rho * (1 + 1e-9)
        assert found[-1] == pytest.approx(rho, rel=1e-3)
    for histogram, shows in ((mechanism, delta), (too_low, norm.sf(norm.isf(delta) - math.sqrt(2.0 * rho)))):
        alone, nobody = histogram(("a",)).marginal("a"), histogram(()).marginal("a")
        assert exact.delta(alone, nobody, 0.0) == pytest.approx(shows, rel=1e-9)
        draws = histogram(("a", "b", "b")).sample(20_000, np.random.default_rng(4))
        seen = np.mean(["a" in dict(iter(output)) for output in draws.tolist()])
        assert seen == pytest.approx(shows, abs=5.0 * math.sqrt(shows / 20_000))  # a false alarm in 10^6


@given(st.floats(0.01, 8.0), st.integers(2, 9))
def test_every_pair_of_answers_attains_the_claim(epsilon, answers):
    mechanism = RandomisedResponse(epsilon, answers)
    for a, b in itertools.permutations(range(answers), 2):
        losses = mechanism((a,)).log_probabilities - mechanism((b,)).log_probabilities
        assert np.max(losses) == pytest.approx(epsilon, rel=1e-9)
    assert np.exp(mechanism((0,)).log_probabilities).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("epsilon", "answers"), [(0.1, 2), (1.0, 12), (3.0, 100), (9.0, 12)])
def test_hadamard_response_is_private_unbiased_and_hides_in_clones(epsilon, answers):
    mechanism = HadamardResponse(epsilon, answers)
    chances = mechanism.chances
    assert chances.sum(axis=1) == pytest.approx(1.0)
    assert math.log(chances.max() / chances.min()) == pytest.approx(epsilon)
    shares = np.random.default_rng(0).dirichlet(np.ones(answers))
    assert mechanism.estimate(shares @ chances) == pytest.approx(shares, abs=1e-12)
    apart = max(np.maximum(one - other, 0.0).sum() for one in chances for other in chances)
    assert apart == pytest.approx(math.expm1(epsilon) / (math.exp(epsilon) + mechanism.clone_answers - 1.0))


SIGMA, RELATIVE, RHO = 10.0, 0.3, 0.005
COUNTS = [0.0, 5.0, 50.0, 119.0, 121.0, 1000.0]


def law_of(count):
    return NoisyTwiceLaw(count, SIGMA, RELATIVE)


def direct_density(count, output):
    """Density of X (1 + r N) by adaptive integration over X, split wherever the integrand bends."""

    def integrand(z):
        if z == 0.0:
            return 0.0
        exponent = ((z - count) / SIGMA) ** 2 + ((output / z - 1.0) / RELATIVE) ** 2
        return math.exp(-0.5 * exponent) / (2.0 * math.pi * SIGMA * RELATIVE * abs(z))

    ends = sorted({count - 200, count - 60, count - 20, 0.0, output, count, count + 20, count + 60, count + 200})
    return sum(quad(integrand, a, b, epsabs=1e-16, epsrel=1e-11, limit=400)[0] for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize("count", COUNTS)
def test_densities_and_losses_against_direct_integration(count):
    outputs = np.array([0.7 * count - 3.0, count + 1.0, count + 40.0, -5.0])
    expected = np.array([direct_density(count, output) for output in outputs])
    more = np.array([direct_density(count + 1.0, output) for output in outputs])
    log_density, loss = law_of(count).loss(outputs)
    common = expected > 1e-12  # direct integration has absolute errors
    assert np.exp(log_density[common]) == pytest.approx(expected[common], rel=1e-9)
    assert loss[common] == pytest.approx(np.log(more[common] / expected[common]), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("count", [1000.0])
def test_no_order_exceeds_the_first_noise(count):
    orders = np.array([1.0, 1.5, 2.0, 8.0, 64.0])
    divergences = renyi_per_group(law_of(count), orders)
    assert np.all(np.diff(divergences) > 0.0)
    assert np.all(divergences <= orders * RHO)


def test_the_exact_parameter_agrees():
    mechanism = GroupCounts(RHO, RELATIVE)
    sides = mechanism((1000,)), mechanism((1001,))
    assert exact.exact_parameter(RenyiDP(4.0, 0.0), *sides) == pytest.approx(
        renyi_per_group(sides[0], [4.0])[0], rel=1e-5
    )


@pytest.mark.slow
def test_the_exact_rho_of_a_small_group_is_the_greatest_divergence_over_its_order():
    """About the pole at 0, too; eight seconds. The order is about 1.15."""
    sides = [GroupCounts(0.5, RELATIVE)((size,)) for size in (0, 1)]
    orders = np.linspace(1.0, 1.4, 81)
    rho = exact.exact_parameter(ZCDP(0.5), *sides)
    assert rho == pytest.approx(np.max(renyi_per_group(sides[0], orders) / orders), rel=1e-6)
    assert 0.46 < rho < 0.5


SIZES = (1, 2, 5, 30, 1000, 10_000)


@pytest.mark.parametrize("size", SIZES)
def test_the_claim_at_every_size_is_the_exact_value(size):
    mechanism = AsinhCounts(0.5, 0.3)
    pair = DatasetPair((7, size - 1), (7, size))
    claim = mechanism.groupwise.at(pair)
    laws = (mechanism((size - 1,)), mechanism((size,)))
    assert exact.exact_parameter(claim, *laws) == pytest.approx(claim.rho, rel=1e-9)
    step = mechanism.transformed(size) - mechanism.transformed(size - 1)
    assert claim.rho == pytest.approx(step**2 * mechanism.rho, rel=1e-6)


def test_the_error_that_the_open_problem_allows_is_kept_from_44_records_on_and_not_before():
    """The mean of |x' - x| by quadrature over the noise, beside r x; r = 0.3 and rho = 0.005 as on the page."""
    mechanism, nodes = AsinhCounts(0.005, 0.3), np.linspace(-12.0, 12.0, 200_001)
    weights = norm.pdf(nodes) * (nodes[1] - nodes[0])

    def error(count):
        outputs = mechanism.transformed(count) + mechanism.sigma * nodes
        return float(np.sum(weights * np.abs(mechanism.counts(outputs) - count)))

    for count in (0, 10, 43, 44, 1000):
        assert mechanism.expected_error(count) == pytest.approx(error(count), rel=1e-6)
    kept = [mechanism.expected_error(count) < 0.3 * count for count in range(1000)]
    assert kept == [count >= 44 for count in range(1000)]
    assert f"{error(0):.1f} {error(43):.1f}" == "7.9 12.9"


DRAWS = 200_000


def test_a_finite_law_draws_what_it_says_and_not_its_variant(fit):
    law = FiniteLaw(("a", "b", "c"), np.log([0.2, 0.3, 0.5]))
    draws = law.sample(DRAWS, np.random.default_rng(1))
    assert fit(law, draws) > 1e-6
    assert fit(FiniteLaw(("a", "b", "c"), np.log([0.21, 0.29, 0.5])), draws) < 1e-6


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=20, unique=True))
def test_the_density_of_numbers_agrees_with_that_of_symbols(support):
    weights = -np.abs(np.array(support)) / 10.0
    numbers, symbols = FiniteLaw(support, weights), FiniteLaw([str(value) for value in support], weights)
    asked = np.arange(-51, 52)
    assert np.array_equal(numbers.log_density(asked), symbols.log_density([str(value) for value in asked]))
    assert np.exp(numbers.log_density(asked)).sum() == pytest.approx(1.0)
    assert np.all(numbers.log_density(asked + 0.5) == -np.inf)


def test_the_discrete_laplace_law_keeps_its_digits_in_both_tails():
    law, ranks = DiscreteLaplaceLaw(3, 2.0), np.arange(-60, 61)
    assert np.diff(np.exp(law.log_cdf(3 + ranks))) == pytest.approx(np.exp(law.log_density(4 + ranks[:-1])), abs=1e-15)
    survival = -np.expm1(law.log_cdf(3 + ranks))
    assert survival[:-1] == pytest.approx(np.exp(law.log_cdf(2 - ranks[:-1])), rel=1e-12)  # by symmetry


@pytest.mark.parametrize(
    ("law", "oracle", "variant"),
    [
        (LaplaceLaw(2.0, 3.0), stats.laplace(2.0, 3.0), stats.laplace(2.0, 3.15)),
        (NormalLaw(-1.0, 0.5), stats.norm(-1.0, 0.5), stats.norm(-1.0, 0.525)),
    ],
)
def test_continuous_laws_are_those_of_scipy(law, oracle, variant):
    points = law.centre + law.scale * np.linspace(-30.0, 30.0, 61)
    assert law.log_density(points) == pytest.approx(oracle.logpdf(points), rel=1e-12)
    assert law.log_cdf(points) == pytest.approx(oracle.logcdf(points), rel=1e-9)
    draws = law.sample(DRAWS, np.random.default_rng(2))
    assert stats.kstest(draws, oracle.cdf).pvalue > 1e-6
    assert stats.kstest(draws, variant.cdf).pvalue < 1e-6


@given(st.integers(-1000, 1000), st.floats(0.05, 50.0))
def test_the_discrete_laplace_law_lists_all_but_1e18_of_its_mass(centre, scale):
    law = DiscreteLaplaceLaw(centre, scale)
    tail = law.log_density(np.array([law.support[-1] + 1]))[0] - math.log(-math.expm1(-1.0 / scale))
    assert tail + math.log(2.0) < math.log(1e-18)
    assert np.exp(law.log_probabilities).sum() == pytest.approx(1.0, abs=1e-12)


def test_the_discrete_laplace_law_draws_what_it_says_and_not_its_variant(fit):
    draws = DiscreteLaplaceLaw(7, 2.0).sample(DRAWS, np.random.default_rng(3))
    assert fit(DiscreteLaplaceLaw(7, 2.0), draws) > 1e-6
    assert fit(DiscreteLaplaceLaw(7, 2.1), draws) < 1e-6
    assert DiscreteLaplaceLaw(7, 2.0).log_density(np.array([7.5]))[0] == -np.inf
