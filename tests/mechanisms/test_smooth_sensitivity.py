"""Smooth sensitivity, propose-test-release and private bounds: against enumeration, claims on all neighbours."""

import functools
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp

from epsaudit import ApproxDP, AuditError
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.local_sensitivity import (
    FallbackOnLocalSensitivity,
    PublishedBoundedRatio,
    RatioOnItsGrid,
)
from epsaudit.mechanisms.broken.selection import PublishedMode
from epsaudit.mechanisms.discrete_ratio import CountsRatioLaw, DiscreteCountsRatio
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw
from epsaudit.mechanisms.private_bound import (
    EitherChange,
    JoinBound,
    LaplaceAtBound,
    PrivatelyBounded,
    RatioByRecords,
    SmoothMedian,
    join_size,
)
from epsaudit.mechanisms.ratio import (
    BoundedRatio,
    BoundedRatioLaw,
    CountsRatio,
    NaiveRatio,
    RatioLaw,
    answers,
    greatest_gap,
    local_sensitivity,
)
from epsaudit.mechanisms.stability import (
    CauchyLaw,
    ProposeTestFallback,
    ProposeTestRelease,
    SmoothMedianCauchy,
    SmoothMedianLaplace,
    StableMedian,
    StableMode,
    smooth_sensitivity,
)

UNIT = StableMedian(0.0, 1.0)
GRID = (0.0, 0.05, 0.2, 0.7, 1.0)


def changes(x, y):
    return (Counter(x) - Counter(y)).total()


def neighbours(size):
    datasets = list(itertools.combinations_with_replacement(GRID, size))
    return [(x, y) for x, y in itertools.combinations(datasets, 2) if changes(x, y) == 1]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("beta", [0.1, 0.7, 3.0])
def test_smooth_sensitivity_against_enumeration(size, beta):
    datasets = list(itertools.combinations_with_replacement(GRID, size))
    local = {x: max(abs(UNIT(x) - UNIT(y)) for y in datasets if changes(x, y) <= 1) for x in datasets}
    for x in datasets:
        reference = max(local[y] * math.exp(-beta * changes(x, y)) for y in datasets)
        assert smooth_sensitivity(UNIT, x, beta) == pytest.approx(reference, rel=1e-12)


def test_smooth_sensitivity_is_smooth_on_larger_data():
    rng = np.random.default_rng(1)
    for _ in range(200):
        x = rng.random(41)
        x_prime = x.copy()
        x_prime[rng.integers(41)] = rng.random()
        one, other = (smooth_sensitivity(UNIT, data, 0.2) for data in (x, x_prime))
        assert abs(math.log(one / other)) <= 0.2 + 1e-12
        assert min(one, other) >= abs(UNIT(x) - UNIT(x_prime)) - 1e-12


def test_the_loss_of_cauchy_laws_is_the_hyperbolic_distance():
    rng = np.random.default_rng(2)
    for _ in range(20):
        one, other = (CauchyLaw(float(rng.normal()), float(np.exp(rng.normal()))) for _ in range(2))
        gap = (one.centre - other.centre) ** 2 + (one.scale - other.scale) ** 2
        distance = math.acosh(1.0 + gap / (2.0 * one.scale * other.scale))
        assert exact.epsilon(one, other, 0.0) == pytest.approx(distance, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_cauchy_noise_is_pure_on_all_neighbours_and_attains_it(epsilon):
    mechanism = SmoothMedianCauchy(UNIT, epsilon)
    losses = []
    for x, x_prime in [*neighbours(1), *neighbours(3), *neighbours(5)]:
        one, other = mechanism(x), mechanism(x_prime)
        gap = (one.centre - other.centre) ** 2 + (one.scale - other.scale) ** 2
        losses.append(math.acosh(1.0 + gap / (2.0 * one.scale * other.scale)))
    assert 0.97 * epsilon < max(losses) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3)])
def test_laplace_noise_is_approximately_private_on_all_neighbours(epsilon, delta):
    mechanism = SmoothMedianLaplace(UNIT, epsilon, delta)
    pairs = [*neighbours(1), *neighbours(3)]
    assert max(exact.delta(mechanism(x), mechanism(y), epsilon) for x, y in pairs) <= delta
    pair = mechanism.worst_pairs()[0]
    assert exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), delta) > 0.5 * epsilon


GRID_STABILITY = (0, 1, 2, 4, 5)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_distances_of_the_median_against_enumeration(size):
    median = StableMedian(0.0, 5.0)
    datasets = list(itertools.combinations_with_replacement(GRID_STABILITY, size))
    sensitivity = {x: max(abs(median(x) - median(y)) for y in datasets if changes(x, y) <= 1) for x in datasets}
    for x in datasets:
        for bound in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0):
            unstable = [changes(x, y) for y in datasets if sensitivity[y] > bound]
            assert median.distance(x, bound) == min(unstable, default=math.inf)


def test_neighbours_have_distances_within_one():
    rng = np.random.default_rng(0)
    for median in (StableMedian(), StableMedian(0.0, 20.0)):
        for _ in range(300):
            x = rng.integers(0, 20, 9)
            x_prime = x.copy()
            x_prime[rng.integers(9)] = rng.integers(0, 20)
            bound = float(rng.integers(0, 6))
            one, other = median.distance(x, bound), median.distance(x_prime, bound)
            assert one == other or abs(one - other) <= 1


@pytest.mark.parametrize("size", [3])
def test_ptr_of_the_median_holds_on_all_neighbours(size):
    mechanism = ProposeTestRelease(StableMedian(0.0, 5.0), 0.8, 0.05, bound=1.0)
    datasets = list(itertools.combinations_with_replacement(GRID_STABILITY, size))
    deltas = [
        exact.delta(mechanism(x), mechanism(y), mechanism.claim.epsilon)
        for x, y in itertools.combinations(datasets, 2)
        if changes(x, y) == 1
    ]
    assert 0.015 < max(deltas) <= 0.05


def labelled_delta(law, law_prime, epsilon):
    """Delta of the output that also says which noise it has, by a fine grid that is good to 1e-4."""
    total = 0.0
    for scale in ("narrow", "wide"):
        chances = [math.exp(one.log_passes if scale == "narrow" else one.log_fails) for one in (law, law_prime)]
        y = np.linspace(-15.0, 15.0, 100_001) * max(getattr(one, scale) for one in (law, law_prime))
        p, q = (
            chance * stats.laplace.pdf(y, one.centre, getattr(one, scale))
            for chance, one in zip(chances, (law, law_prime), strict=True)
        )
        total += float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)) * (y[1] - y[0]))
    return total


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_ptr_with_a_way_out_holds_on_all_neighbours_and_with_the_local_sensitivity_does_not(size):
    """Theorem 10: delta / 2 is enough, whether or not the output says which noise it has."""
    datasets = list(itertools.combinations_with_replacement(GRID_STABILITY, size))
    pairs = [(x, y) for x, y in itertools.permutations(datasets, 2) if changes(x, y) == 1]
    deltas = []
    for kind in (ProposeTestFallback, FallbackOnLocalSensitivity):
        mechanism = kind(StableMedian(0.0, 5.0), 0.8, 0.05, bound=1.0)
        laws = [(mechanism(x), mechanism(y)) for x, y in pairs]
        deltas.append(max(exact.delta(*both, 1.6) for both in laws))
        deltas.append(max(labelled_delta(*both, 1.6) for both in laws))
    assert 0.0 <= deltas[0] <= deltas[1] + 1e-4
    assert 0.01 < deltas[1] <= 0.025 + 1e-4
    assert deltas[3] + 1e-4 >= deltas[2] > 0.05


def test_ptr_with_a_way_out_has_the_law_of_its_recipe():
    """Kolmogorov-Smirnov p-values below 1e-6 fail; the incorrect variant always has noise at the bound."""
    mechanism, x = ProposeTestFallback(StableMedian(0.0, 100.0), 0.5, 0.2, bound=1.0), (40.0,) * 4 + (50.0,)
    rng, runs = np.random.default_rng(8), 50_000
    distance, law = mechanism.median.distance(x, 1.0), mechanism(x)
    test, narrow, wide = (rng.laplace(scale=scale, size=runs) for scale in (2.0, 2.0, 200.0))
    drawn = 40.0 + np.where(distance + test > math.log(5.0) / 0.5, narrow, wide)
    shares = [stats.laplace.sf(math.log(5.0) / 0.5 - distance, scale=2.0)]
    shares.append(1.0 - shares[0])
    laws = stats.laplace(40.0, 2.0), stats.laplace(40.0, 200.0)

    def cdf(y):
        return sum(share * one.cdf(y) for share, one in zip(shares, laws, strict=True))

    for outputs, agrees in ((drawn, True), (law.sample(runs, rng), True), (40.0 + narrow, False)):
        assert bool(stats.kstest(outputs, cdf).pvalue > 1e-6) is agrees
    points = np.array([-500.0, 30.0, 39.9, 40.0, 41.0, 90.0, 900.0])
    density = sum(share * one.pdf(points) for share, one in zip(shares, laws, strict=True))
    assert np.exp(law.log_density(points)) == pytest.approx(density, rel=1e-12)


@pytest.mark.parametrize(
    ("median", "bound", "said"),
    [
        (StableMedian(), 1.0, "a finite one"),
        (StableMedian(0.0, 1.0), 0.0, "above 0"),
        (StableMedian(0.0, 1.0), 1.0, "below the global sensitivity"),
    ],
)
def test_ptr_with_a_way_out_says_what_it_needs(median, bound, said):
    with pytest.raises(AuditError, match=said):
        ProposeTestFallback(median, 0.5, 0.1, bound)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_mode_holds_on_all_neighbours_and_as_published_does_not_above_log_two(epsilon):
    datasets = [d for n in range(7) for d in itertools.combinations_with_replacement("abc", n)]
    pairs = [
        (x, y)
        for x, y in itertools.combinations(datasets, 2)
        if abs(len(x) - len(y)) == 1 and StableMode().adjacency.holds(x, y)
    ]
    delta = {}
    for query in (StableMode(), PublishedMode()):
        mechanism = ProposeTestRelease(query, epsilon, 0.01)
        delta[type(query)] = max(exact.delta(mechanism(x), mechanism(y), epsilon) for x, y in pairs)
    assert delta[StableMode] == pytest.approx(0.005)
    assert delta[PublishedMode] == pytest.approx(0.005 * math.exp(epsilon))
    assert (delta[PublishedMode] > 0.01) == (epsilon > math.log(2.0))


KNOWN = tuple(itertools.product(("left", "right"), (0, 1)))
SMALL = [x for size in range(5) for x in itertools.combinations_with_replacement(KNOWN, size)]
NEIGHBOURS = [(x, tuple(sorted((*x, one)))) for x in SMALL if len(x) < 4 for one in KNOWN]


def test_the_join_moves_by_the_greatest_count_at_most():
    bound, moved = JoinBound(1.0, 0.01, keys=2), dict.fromkeys(SMALL, 0.0)
    for x, y in NEIGHBOURS:
        apart = abs(join_size(x) - join_size(y))
        assert apart <= min(max(bound.counts(x)), max(bound.counts(y)))
        moved[x] = max(moved[x], apart)
    assert all(moved[x] == max(bound.counts(x)) for x in SMALL if len(x) < 4)  # and no less, when a record joins
    assert join_size((("left", 0), ("left", 1), ("right", 1), ("right", 1))) == 2.0


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (0.3, 1e-3)])
def test_the_bound_is_seldom_too_low_and_a_smaller_margin_is_too_low_too_often(epsilon, delta):
    bound = JoinBound(epsilon, delta, keys=2)
    for x in SMALL:
        law, most = bound(x), max(bound.counts(x))
        too_low = np.exp(law.log_probabilities)[np.array(law.support) < most].sum()
        assert too_low <= delta * (1 + 1e-9)
    fails = math.exp(-epsilon * bound.margin) / (1.0 + math.exp(-epsilon))  # of one count, with a margin of one less
    assert fails > delta


def test_the_law_of_the_bound_is_that_of_the_greatest_noisy_count():
    """A chi-square p-value below 1e-6 fails; the incorrect variant has one record more in the greatest count."""
    bound, x = JoinBound(0.7, 0.05, keys=2), (("left", 0),) * 4 + (("right", 1),) * 3
    rng, noise = np.random.default_rng(5), DiscreteLaplaceLaw(0, 1.0 / 0.7)
    noisy = np.array(bound.counts(x))[:, None] + [noise.sample(40_000, rng) for _ in range(4)]
    drawn = np.maximum(noisy.max(axis=0) + bound.margin, 1)
    for dataset, agrees in ((x, True), ((("left", 0), *x), False)):
        law = bound(dataset)
        expected = np.exp(law.log_probabilities) * len(drawn)
        seen = np.array([np.count_nonzero(drawn == value) for value in law.support])
        common = expected > 10.0
        seen, expected = (np.append(one[common], one[~common].sum()) for one in (seen, expected))
        p_value = stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue
        assert bool(p_value > 1e-6) is agrees


def test_the_bound_is_private_and_so_is_the_answer_on_all_small_neighbours():
    bound = JoinBound(1.0, 0.05, keys=2)
    whole = LaplaceAtBound(join_size, bound, 1.0, 0.05)
    assert whole.claim == ApproxDP(2.0, 0.05)
    for x, y in NEIGHBOURS:
        support = sorted({*bound(x).support, *bound(y).support})
        laws = [FiniteLaw(support, one.log_density(support)) for one in (bound(x), bound(y))]
        assert exact.delta(*laws, 1.0) < 1e-12
    for x, y in NEIGHBOURS[::30]:
        assert exact.delta(whole(x), whole(y), 2.0) <= 0.05


@pytest.mark.parametrize(("epsilon", "keys"), [(0.1, 2), (0.5, 2), (2.0, 3)])
def test_the_bound_has_an_exact_value_on_every_pair_and_attains_its_claim_on_its_own(epsilon, keys):
    """Rare bounds keep their digits: differences of a distribution function near 1 would be of rounding alone."""
    bound = JoinBound(epsilon, 1e-3, keys)
    for x, y in [*NEIGHBOURS[::7], *((pair.x, pair.x_prime) for pair in bound.worst_pairs())]:
        assert exact.exact_parameter(bound.claim, bound(x), bound(y)) == pytest.approx(epsilon, abs=1e-12)


GRID_PRIVATE = (0.0, 0.5, 2.0, 5.0)
MEDIAN = SmoothMedian(StableMedian(0.0, 5.0), 0.4)


def ratio_pairs(most):
    """Every pair of datasets of up to ``most`` zeros and ones that are neighbours in either sense."""
    datasets = [answers(ones, n - ones) for n in range(most + 1) for ones in range(n + 1)]
    return [pair for pair in itertools.combinations(datasets, 2) if EitherChange().holds(*pair)]


def median_pairs(size):
    datasets = list(itertools.combinations_with_replacement(GRID_PRIVATE, size))
    return [(x, y) for x, y in itertools.combinations(datasets, 2) if (Counter(x) - Counter(y)).total() == 1]


@pytest.mark.parametrize(
    ("query", "pairs"),
    [(RatioByRecords(), ratio_pairs(7)), (MEDIAN, median_pairs(3)), (MEDIAN, median_pairs(4))],
    ids=["ratio", "median of 3", "median of 4"],
)
def test_bounds_hold_and_levels_move_by_one_at_most(query, pairs):
    for x, x_prime in pairs:
        levels = query.level(x), query.level(x_prime)
        assert abs(levels[0] - levels[1]) <= 1
        assert abs(query(x) - query(x_prime)) <= min(query.bound(np.array(levels, float))) * (1 + 1e-12)
    everywhere = query.bound(np.arange(-60.0, 60.0))
    assert np.all(np.diff(everywhere) >= 0.0)
    assert np.all(everywhere > 0.0)


@pytest.mark.parametrize("numbers", [(1.0, 1e-6, 0.1), (3.0, 0.05, 0.5), (0.5, 1e-3, 0.3)])
@pytest.mark.parametrize("kind", [functools.partial(PrivatelyBounded, RatioByRecords()), BoundedRatio])
def test_the_margin_meets_delta_and_one_less_does_not(kind, numbers):
    mechanism = kind(*numbers)

    def fails(margin):
        """Of one count on one side, or of two on either."""
        noise = np.arange(-margin - 2000, -margin)
        tail = np.exp(DiscreteLaplaceLaw(0, 1.0 / mechanism.rate).log_density(noise)).sum()
        return 4.0 * tail if kind is BoundedRatio else tail

    assert fails(mechanism.margin) <= mechanism.delta * (1 + 1e-9)
    assert fails(mechanism.margin - 1) > mechanism.delta


@pytest.mark.parametrize(
    ("query", "pairs"), [(RatioByRecords(), ratio_pairs(3)), (MEDIAN, median_pairs(2))], ids=["ratio", "median"]
)
def test_the_claim_holds_on_all_small_neighbours(query, pairs):
    """The level is not released, so that even a margin of 0 holds here: it is the proof that needs one."""
    mechanism = PrivatelyBounded(query, 4.0, 0.05, 0.5)
    deltas = [exact.delta(mechanism(x), mechanism(y), 4.0) for x, y in pairs]
    assert max(deltas) <= 0.05


def test_the_law_is_the_sum_over_the_noise_and_what_is_drawn():
    """A chi-square p-value below 1e-6 fails; the incorrect variant has three records more."""
    mechanism = PrivatelyBounded(RatioByRecords(), 2.0, 0.05, 0.5)
    law, variant = mechanism(answers(3, 9)), mechanism(answers(4, 11))
    noise = DiscreteLaplaceLaw(0, 1.0)
    scales = [max(1.0 / max(12 - k - mechanism.margin - 1, 1), 0.0) for k in range(-40, 41)]
    points = np.array([-2.0, 0.1, 0.25, 0.4, 1.5])
    expected = sum(
        math.exp(noise.log_density(np.array([k]))[0]) * stats.laplace.pdf(points, 0.25, scale)
        for k, scale in zip(range(-40, 41), scales, strict=True)
    )
    assert law.log_density(points) == pytest.approx(np.log(expected), abs=2e-8)
    draws = law.sample(100_000, np.random.default_rng(3))
    edges = np.quantile(draws, np.linspace(0.02, 0.98, 25))
    for one, agrees in ((law, True), (variant, False)):
        inner = [
            quad(lambda y, one=one: math.exp(one.log_density(np.array([y]))[0]), a, b, points=[one.centre])[0]
            for a, b in itertools.pairwise(edges)
        ]
        counts = np.histogram(draws, edges)[0]
        p_value = stats.chisquare(counts, np.array(inner) * counts.sum() / sum(inner)).pvalue
        assert bool(p_value > 1e-6) is agrees


SMALL_RATIO = BoundedRatio(2.0, 0.05, 0.5)


@pytest.mark.parametrize(("a", "b", "noise", "share"), [(3, 7, 2.0, False), (0, 4, 0.5, False), (5, 2, 1.0, True)])
def test_ratio_density_against_quadrature(a, b, noise, share):
    law = RatioLaw(float(a), float(b), noise, share)
    ratios = np.array([-20.0, -1.0, -0.3, 0.0, 1e-3, 0.4, 0.5, 0.99, 1.0, 1.01, 3.0])
    for ratio, found in zip(ratios, law.log_density(ratios), strict=True):
        slope = 1.0 - ratio if share else 1.0

        def integrand(t, ratio=ratio, slope=slope):
            return abs(t) * math.exp(-(abs(ratio * t - a) + abs(slope * t - b)) / noise) / (4 * noise**2)

        kinks = sorted({0.0, *(a / ratio for _ in "a" if ratio), *(b / slope for _ in "b" if slope)})
        edges = [-math.inf, *kinks, math.inf]
        total = sum(quad(integrand, low, high, epsrel=1e-11)[0] for low, high in itertools.pairwise(edges))
        assert found == pytest.approx(math.log(total), abs=1e-8)


@pytest.mark.parametrize(
    "mechanism", [SMALL_RATIO, PublishedBoundedRatio(2.0, 0.05, 0.5)], ids=["corrected", "published"]
)
def test_the_merged_mixture_is_the_sum_over_the_noise(mechanism):
    law = BoundedRatioLaw(6, 30, mechanism)
    noise = np.arange(-60, 61)
    chances = DiscreteLaplaceLaw(0, 1.0 / mechanism.rate).log_density(noise)
    weights = (chances[:, None] + chances).ravel()
    scales = (mechanism.bound(6.0 + noise[:, None], 30.0 + noise) / mechanism.epsilon_release).ravel()
    points = law.centre + np.array([0.0, 1e-4, 1e-3, 0.01, 0.05, 0.2, 1.0, 4.0])
    released = ~np.isnan(scales)
    away = np.abs(points[:, None] - law.centre)
    sums = logsumexp(weights[released] - away / scales[released] - np.log(2 * scales[released]), axis=1)
    out = logsumexp(weights[~released])
    reference = np.logaddexp(sums, out + law.naive.log_density(points))
    assert law.log_density(points) == pytest.approx(reference, abs=2e-8)


def test_the_bound_is_the_greatest_local_sensitivity_within_the_margins():
    mechanism = BoundedRatio(2.0, 0.05, 0.5)
    for ones, records in itertools.product(range(-4, 40, 3), range(10, 40, 3)):
        bound = mechanism.bound(np.array([float(ones)]), np.array([float(records)]))[0]
        low, high = records - mechanism.margin, records + mechanism.margin
        if low <= 1:
            assert math.isnan(bound)
            continue
        counts = range(max(0, ones - mechanism.margin), max(0, ones + mechanism.margin) + 1)
        local = max(max(b - a, a) / (b * b - b) for b in range(low, high + 1) for a in counts)
        assert bound == pytest.approx(local)


def published_epsilon(ones, records):
    """Exact epsilon at delta = 1e-6 of the published ratio, where a zero leaves."""
    mechanism = PublishedBoundedRatio(1.0, 1e-6)
    laws = (BoundedRatioLaw(ones, size, mechanism) for size in (records, records - 1))
    return exact.epsilon(*laws, 1e-6)


def test_the_audited_pair_of_the_published_ratio_is_worse_than_ratios_of_one_half():
    pair = PublishedBoundedRatio(1.0, 1e-6).worst_pairs()[0]
    assert (sum(pair.x), len(pair.x), sum(pair.x_prime), len(pair.x_prime)) == (249, 332, 249, 331)
    assert published_epsilon(249, 332) == pytest.approx(5.8345, abs=1e-4)
    assert published_epsilon(162, 324) == pytest.approx(3.1358, abs=1e-4)
    assert published_epsilon(200, 400) == pytest.approx(2.7328, abs=1e-4)


@pytest.mark.slow
def test_the_audited_pair_of_the_published_ratio_is_the_worst_of_a_range():
    """Nearby pairs, and a coarse grid of pairs from 300 to 460 records and ratios from 0.4 to 1."""
    worst = published_epsilon(249, 332)
    near = [(249 + i, 332 + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    coarse = [
        (min(records * tenths // 10, records - 1), records)
        for records in range(300, 461, 40)
        for tenths in range(4, 11)
    ]
    assert max(published_epsilon(*pair) for pair in (*near, *coarse)) < worst


@pytest.mark.parametrize("records", range(2, 41))
def test_the_local_sensitivity_of_a_ratio_is_that_of_enumerated_neighbours(records):
    """The incorrect variant is the published formula, which is too large where all records say the same."""
    for ones in range(records + 1):
        dataset = answers(ones, records - ones)
        neighbours = [(*dataset, record) for record in (0, 1)]
        neighbours += [dataset[:place] + dataset[place + 1 :] for place in range(records)]
        moved = max(abs(sum(one) / len(one) - ones / records) for one in neighbours)
        assert local_sensitivity(ones, records) == pytest.approx(moved, rel=1e-12)
        published = max(records - ones, ones) / (records**2 - records)
        assert (published > moved * (1 + 1e-9)) == (ones in (0, records))


def test_greatest_gap_against_all_integers():
    for a, low in itertools.product(range(12), range(2, 9)):
        best = max((b - a) / (b * b - b) for b in range(low, low + 15))
        found = greatest_gap(*(np.array([float(x)]) for x in (a, a, low, low + 14)))[0]
        assert found == pytest.approx(best)


@pytest.mark.parametrize("mechanism", [NaiveRatio(1.0), CountsRatio(1.0)], ids=lambda m: m.name)
def test_pure_claims_hold_on_small_neighbours_under_add_remove(mechanism):
    for ones, zeros in itertools.product(range(3), range(1, 4)):
        for more in ((1, 0), (0, 1)):
            laws = mechanism(answers(ones, zeros)), mechanism(answers(ones + more[0], zeros + more[1]))
            assert exact.epsilon(*laws, 0.0) <= 1.0 + 1e-9


@pytest.mark.parametrize("counts", [(0, 0), (1, 2), (4, 1)])
@pytest.mark.parametrize("scale", [0.4, 1.0])
def test_the_law_of_a_discrete_ratio_is_the_sum_over_both_counts(counts, scale):
    """Every pair of noisy counts within 60 of the true ones, added up ratio by ratio."""
    law, chances = CountsRatioLaw(*counts, scale), Counter()
    ones, zeros = (DiscreteLaplaceLaw(count, scale) for count in counts)
    near = [np.arange(count - 60, count + 61) for count in counts]
    weights = [np.exp(one.log_density(places)) for one, places in zip((ones, zeros), near, strict=True)]
    for (a, p), (b, q) in itertools.product(*(zip(*both, strict=True) for both in zip(near, weights, strict=True))):
        a, b = max(int(a), 0), max(int(b), 0)
        chances[Fraction(a, a + b) if a + b else Fraction(0)] += p * q
    common = {float(ratio): chance for ratio, chance in chances.items() if chance > 1e-15}
    assert np.exp(law.log_density(list(common))) == pytest.approx(list(common.values()), rel=1e-9)
    assert np.exp(law.log_probabilities).sum() == pytest.approx(1.0, abs=1e-12)
    strange = [-0.1, 1.1, 0.1 + 1e-12, math.pi / 4.0]
    assert np.all(law.log_density(strange) == -np.inf)
    draws = law.sample(20_000, np.random.default_rng(1))
    for ratio in sorted(common, key=common.get)[-3:]:  # five standard errors: a false alarm in 10^6 each
        assert np.mean(draws == ratio) == pytest.approx(common[ratio], abs=5.0 * math.sqrt(common[ratio] / 20_000))


@pytest.mark.parametrize("epsilon", [*(pytest.param(one, marks=pytest.mark.slow) for one in (0.5, 1.0)), 2.0])
def test_discrete_ratios_keep_their_claim_on_small_neighbours_and_steps_of_1_over_b_do_not(epsilon):
    sound, broken = DiscreteCountsRatio(epsilon), RatioOnItsGrid(epsilon)
    for ones, zeros in itertools.product(range(3), range(1, 3)):
        for more in ((1, 0), (0, 1)):
            x, y = answers(ones, zeros), answers(ones + more[0], zeros + more[1])
            assert exact.epsilon(sound(x), sound(y), 0.0) <= epsilon * (1 + 1e-9)
            assert exact.delta(broken(x), broken(y), epsilon) > 0.1
    pair = sound.worst_pairs()[0]
    assert exact.epsilon(sound(pair.x), sound(pair.x_prime), 0.0) == pytest.approx(epsilon)


def test_discrete_noise_errs_less_than_continuous_noise_of_the_same_claim():
    """Mean absolute errors of the share by exact law and by 200,000 draws; few records, and where epsilon is large."""
    for ones, zeros, epsilon in ((3, 7, 1.0), (3, 7, 4.0), (30, 30, 2.0)):
        law, share = DiscreteCountsRatio(epsilon)(answers(ones, zeros)), ones / (ones + zeros)
        discrete = float(np.exp(law.log_probabilities) @ np.abs(np.array(law.support) - share))
        rng = np.random.default_rng(6)
        a, b = (np.maximum(count + rng.laplace(scale=1.0 / epsilon, size=200_000), 0.0) for count in (ones, zeros))
        errors = np.abs(a / np.maximum(a + b, 1e-300) - share)
        assert discrete < errors.mean() - 4.0 * errors.std() / math.sqrt(len(errors))
