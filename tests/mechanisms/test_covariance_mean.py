"""Covariance-aware mean: every lemma of its proof on small and adversarial data, exact delta, and what breaks it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import AuditError, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.means import (
    EmpiricalMean,
    HalfOfTheNoise,
    PublishedCovarianceAwareMean,
    PublishedScoreTest,
    TooFewLevels,
    UntrimmedMean,
)
from epsaudit.mechanisms.covariance_mean import (
    COVARIANCE_SHARE,
    CovarianceAwareMean,
    Stability,
    StableMean,
    SubstituteInPlace,
    covariance_divergence,
    covariance_loss,
    leverages,
    poles,
    score,
    weights_of,
)
from epsaudit.mechanisms.refusable_normal import RefusableNormal, ScoreTest

SMALL = Stability(400, 5, 8.0)  # few records, so that gamma is 0.16
KINDS = ("normal", "heavy tails", "clusters", "near a subspace", "ramp")


def hockey_sticks(law, law_prime, epsilon):
    """Greatest and least that delta can be: a convolution knows two bounds, all else is exact."""
    pair = law.loss_against(law_prime)
    return [max(above(one, epsilon) for one in (side, side.swapped)) for side in (pair, pair.lower or pair)]


def above(pair, epsilon):
    """P[E] - e^epsilon P'[E] of the best event of a pair in one direction."""
    values, losses = pair.above(epsilon)
    return float(np.sum(np.exp(values[0]) * -np.expm1(np.minimum(epsilon - losses, 0.0))))


def adversarial(kind, seed, n, d):
    """Data of one kind, most of which bring some points between the levels, and a neighbour in one place."""
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(size=(n, d)), -1.5, 1.5)
    if kind == "heavy tails":
        x = rng.standard_t(rng.uniform(2.0, 20.0), size=(n, d))
        x = np.clip(x, -1.8, 1.8) if seed % 2 else x
    elif kind == "clusters":
        x = rng.choice([-1.0, 1.0], (n, d)) * (rng.random((n, 1)) < rng.uniform(0.2, 1.0)) + 1e-3 * x
    elif kind == "near a subspace":
        x[:, -1] *= rng.choice([0.0, 1.0, 1e-9], n, p=[0.5, 0.49, 0.01])
    elif kind == "ramp":
        few = rng.integers(0, n, 5)
        x = rng.choice([-1.0, 0.0, 1.0], (n, d)) + 0.1 * x
        x[few] *= rng.uniform(1.0, 3.0, (5, 1))
    x_prime = x.copy()
    place = int(rng.integers(n))
    x_prime[place] = rng.normal(size=d) * rng.choice([0.0, 0.5, 1.0, 2.0, 4.0, 100.0])
    return x, x_prime, place


pairs = st.tuples(st.sampled_from(KINDS), st.integers(0, 10**6), st.integers(1, 3))


def fits(case, bounds=SMALL):
    kind, seed, d = case
    x, x_prime, place = adversarial(kind, seed, bounds.records, d)
    return StableMean(x, bounds), StableMean(x_prime, bounds), place


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_good_subsets_are_the_largest_by_enumeration(d, seed):
    """Lemma 1: of all subsets that are good at a level, one contains all others, and it is the one that is found."""
    m = 8
    bounds = Stability(2 * m, 1, 2.2)
    x = np.random.default_rng(seed).standard_t(2.0, (2 * m, d))
    fit = StableMean(x, bounds)
    for level in range(3):
        good = set()
        for size in range(d, m + 1):
            for subset in itertools.combinations(range(m), size):
                norms = m * leverages(fit.differences[list(subset)])
                if (norms <= bounds.threshold(level)).all():
                    good |= set(subset)
        assert good == set(np.flatnonzero(fit.difference_levels <= level).tolist())


@settings(max_examples=150, deadline=None)
@given(pairs)
def test_levels_move_by_one_but_for_the_changed_point(case):
    """Lemma 1: S_l without the changed point lies in the neighbour's S_(l+1); a level past 2 k counts as 2 k + 1."""
    x, x_prime, place = fits(case)
    same = np.arange(SMALL.differences) != place % SMALL.differences
    assert np.abs(x.difference_levels - x_prime.difference_levels)[same].max() <= 1
    if max(x.covariance_score, x_prime.covariance_score) < SMALL.levels:
        same = np.arange(SMALL.records) != place
        assert np.abs(x.record_levels - x_prime.record_levels)[same].max() <= 1


@settings(max_examples=150, deadline=None)
@given(pairs)
def test_scores_have_sensitivity_two(case):
    x, x_prime, _ = fits(case)
    assert abs(x.covariance_score - x_prime.covariance_score) <= 2
    assert abs(x.score - x_prime.score) <= 2


def test_scores_of_any_levels_have_sensitivity_two():
    """Of all levels of three points for k = 2, and all that neighbours' can be."""
    k, m = 2, 3
    reached = set()
    for levels in itertools.product(range(2 * k + 2), repeat=m):
        others = [(own - 1, own, own + 1) for own in levels[1:]]
        for moved in itertools.product(range(2 * k + 2), *others):
            moved = np.clip(moved, 0, 2 * k + 1)
            reached.add(score(np.array(levels), k) - score(moved, k))
    assert reached == {-2, -1, 0, 1, 2}


@settings(max_examples=200, deadline=None)
@given(pairs)
def test_covariances_and_means_are_close_where_both_scores_are_below_k(case):
    """Lemmas 2 and 4: eigenvalues within gamma, their sums too, and means within Delta."""
    x, x_prime, _ = fits(case)
    if max(x.covariance_score, x_prime.covariance_score) == SMALL.levels:
        return
    gamma = SMALL.covariance
    root = np.linalg.inv(np.linalg.cholesky(x.covariance))
    ratios = np.linalg.eigvalsh(root @ x_prime.covariance @ root.T)
    assert np.maximum(1.0 - ratios, 0.0).sum() <= gamma * (1 + 1e-9)
    assert np.maximum(1.0 - 1.0 / ratios, 0.0).sum() <= gamma * (1 + 1e-9)
    if max(x.score, x_prime.score) < SMALL.levels:
        assert np.linalg.norm(root @ (x.mean - x_prime.mean)) <= SMALL.mean * (1 + 1e-9)


def test_pairs_of_these_kinds_reach_every_case():
    """The properties above are not vacuous: all scores of both parts occur, and all changes of them."""
    cases = [fits((kind, seed, d)) for kind, seed, d in itertools.product(KINDS, range(10), (1, 2))]
    assert {x.covariance_score for x, _, _ in cases} == {x.score for x, _, _ in cases} == set(range(6))
    assert {abs(x.score - x_prime.score) for x, x_prime, _ in cases} == {0, 1, 2}
    assert {x.difference_levels.max() for x, _, _ in cases} >= {0, 11}


def test_poles_come_near_the_greatest_shift_of_the_mean():
    bounds = Stability(200_000, 24, 6.0)
    pair = poles(bounds, 1, 23)
    x, x_prime = StableMean(pair.x, bounds), StableMean(pair.x_prime, bounds)
    shift = abs(x.mean - x_prime.mean)[0] / math.sqrt(x.covariance[0, 0])
    assert 0.95 * bounds.mean < shift <= bounds.mean


def test_covariances_come_near_the_greatest_distance_of_neighbours():
    """k - 1 differences lose a level each, and the greatest that is good at level 0 goes: gamma can be no smaller."""
    bounds = Stability(40_000, 12, 6.0)
    m, k = bounds.differences, bounds.levels
    y = np.ones(m)
    y[0] = math.sqrt(bounds.outlier * (1.0 - 1e-3) * (m - k) / (m - bounds.outlier))
    for level in range(k + 1, 2 * k):  # one by one, at the ends of different levels
        place = level - k
        within = np.sum(np.square(np.delete(y, range(place, k))))
        y[place:k] = math.sqrt(within / (m / bounds.threshold(level) / (1.0 - 1e-7) - (k - place)))
    x = np.concatenate([y * math.sqrt(2.0), np.zeros(m)])[:, None]
    x_prime = x.copy()
    x_prime[0] = 0.0
    one, other = StableMean(x, bounds), StableMean(x_prime, bounds)
    assert max(one.covariance_score, other.covariance_score) < k
    assert 0.95 * bounds.covariance < 1.0 - (other.covariance / one.covariance).item() <= bounds.covariance


def test_norms_come_near_the_greatest_of_lemma_2():
    """k - 1 differences at the threshold of level 2 k: 1 / norm is at least 1 / lambda_0 - (3 k - 1) / m, and near."""
    bounds = Stability(800, 12, 8.0)
    m, k = bounds.differences, bounds.levels
    y = np.ones(m)
    y[: k - 1] = math.sqrt((m - k + 1) / (m / bounds.threshold(2 * k) * (1.0 + 1e-9) - (k - 1)))
    fit = StableMean(np.concatenate([y * math.sqrt(2.0), np.zeros(m)])[:, None], bounds)
    assert fit.covariance_score < k
    assert weights_of(fit.difference_levels, k)[0] == pytest.approx(1.0 / k)
    norm = bounds.covariance * m / (2.0 - 1.0 / k)  # Lemma 2's B, of which gamma is made
    assert 0.85 * norm < float(y[0] ** 2 / fit.covariance.item()) <= norm


def test_record_levels_are_as_defined():
    """The least l at which all but l references at most are within (1 - gamma)^-l 2 lambda_0, by a loop."""
    bounds = Stability(400, 5, 8.0)
    fit = StableMean(np.random.default_rng(5).standard_t(3.0, (400, 2)), bounds)
    inverse, levels = np.linalg.inv(fit.covariance), []
    for record in fit.data:
        steps = fit.data[:22] - record
        distances = np.einsum("ij,jk,ik->i", steps, inverse, steps)
        missed = [np.sum(distances > 16.0 * (1.0 - bounds.covariance) ** -level) for level in range(11)]
        levels.append(next((level for level in range(11) if missed[level] <= level), 11))
    assert fit.record_levels.tolist() == levels
    assert 3 < len(set(levels)) < 12


def test_levels_score_and_mean_follow_affine_maps():
    """Under x -> A x + b with a condition number of 10^6; the covariance goes to A covariance A'."""
    rng = np.random.default_rng(3)
    bounds = Stability(400, 6, 12.0)
    x = rng.standard_t(4.0, (400, 3))
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    change, shift = turn @ np.diag([1.0, 1e-3, 1e3]) @ rng.normal(size=(3, 3)), np.array([5.0, -7.0, 1e3])
    one, other = StableMean(x, bounds), StableMean(x @ change.T + shift, bounds)
    assert one.difference_levels.tolist() == other.difference_levels.tolist()
    assert one.record_levels.tolist() == other.record_levels.tolist()
    assert one.difference_levels.max() > 0
    assert other.mean == pytest.approx(change @ one.mean + shift, rel=1e-9)
    expected = change @ one.covariance @ change.T
    assert other.covariance == pytest.approx(expected, rel=1e-9, abs=1e-12 * expected.max())


def test_weights_are_shares_of_levels_above_k():
    levels = np.arange(10)
    by_definition = [np.mean([level <= one for one in range(5, 9)]) for level in levels]
    assert weights_of(levels, 4).tolist() == by_definition


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), [(1.0, 1e-6, 2), (0.3, 0.01, 2), (2.0, 0.2, 1)])
def test_the_test_of_scores_keeps_its_promise_and_attains_it(epsilon, delta, sensitivity):
    """Lemma 5: two outcomes are (epsilon, delta)-close for all scores, score 0 passes and k fails."""
    test = ScoreTest(epsilon, delta, sensitivity)
    assert test.log_chances(0)[0] == 0.0
    assert test.log_chances(test.levels)[0] == -math.inf
    greatest = 0.0
    for one in range(test.levels + 1):
        for other in range(max(one - sensitivity, 0), min(one + sensitivity, test.levels) + 1):
            p, q = np.exp(test.log_chances(one)), np.exp(test.log_chances(other))
            greatest = max(greatest, *(p - math.exp(epsilon) * q))
    assert 0.3 * delta < greatest <= delta * (1 + 1e-9)


def test_the_published_test_leaks_what_its_code_says():
    """At (1, 1e-6): probability 0.27 at score 29 and 0.56 at 28, but 0 at 30; the threshold that is needed is 55."""
    test = PublishedScoreTest(1.0, 1e-6)
    p = [math.exp(test.log_chances(score)[0]) for score in (28, 29, 30)]
    assert p == pytest.approx([0.5576, 0.2706, 0.0], abs=1e-4)
    assert (test.levels, ScoreTest(1.0, 1e-6).levels) == (32, 55)


@pytest.mark.parametrize("gamma", [0.002, pytest.param(0.02, marks=pytest.mark.nightly), 0.1])
def test_covariances_within_gamma_cost_no_more_than_computed(gamma):
    """Lemma 3 on normal pairs on the line and in the plane that use up gamma, exactly."""
    delta = 1e-3
    bound = covariance_loss(gamma, delta)
    in_the_plane = [[1.0 - gamma, 1.0 / (1.0 - gamma)]] if gamma == 0.02 else []  # slow
    for ratios in ([1.0 - gamma], [1.0 / (1.0 - gamma)], *in_the_plane):
        d = len(ratios)
        law, law_prime = RefusableNormal(np.zeros(d), np.eye(d)), RefusableNormal(np.zeros(d), np.diag(ratios))
        assert max(hockey_sticks(law, law_prime, bound)) <= delta


@pytest.mark.parametrize(("order", "gamma"), [(1.5, 0.01), (5.0, 0.01), (10.0, 0.02)])
def test_divergence_of_covariances_is_bounded_and_nearly_so_great(order, gamma):
    """Lemma 3 by quadrature, for two eigenvalues at the ends of what gamma allows."""
    found = 0.0
    for ratio in (1.0 - gamma, 1.0 / (1.0 - gamma)):
        x = np.linspace(-40.0, 40.0, 400_001)
        log_p, log_q = -0.5 * x**2, -0.5 * (x**2 / ratio + math.log(ratio))
        density = np.exp(order * log_p + (1.0 - order) * log_q) / math.sqrt(2.0 * math.pi)
        found += math.log(density.sum() * (x[1] - x[0])) / (order - 1.0)
    bound = covariance_divergence(order, gamma)
    assert 0.75 * bound < found <= bound


def test_the_noise_pays_for_shift_and_covariance_and_no_more():
    """Theorem 1's chain at the noise used: epsilon_a + epsilon_b = epsilon_r, and their deltas make delta_r."""
    mechanism, n = CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=2), 3000
    bounds, release, delta = mechanism.bounds(n), 4.0 * (1.0 - mechanism.test_share), 0.005
    delta_b = COVARIANCE_SHARE * delta * math.exp(-release)
    epsilon_a = release - covariance_loss(bounds.covariance, delta_b)
    shift = bounds.mean / mechanism.noise(n)
    laws = [RefusableNormal(np.array([mean]), np.eye(1)) for mean in (0.0, shift)]
    delta_a = exact.delta(*laws, epsilon_a)
    assert delta_a + math.exp(epsilon_a) * delta_b == pytest.approx(delta, rel=1e-6)
    assert mechanism.test.epsilon + release == pytest.approx(4.0)
    assert mechanism.test.delta + delta == pytest.approx(0.01)


@pytest.mark.nightly
def test_loss_of_vectors_is_that_of_the_independent_normals_they_are_made_of():
    """Shifts and a scale under a linear map, half refused; by simulation within 5 standard errors."""
    rng = np.random.default_rng(4)
    change = rng.normal(size=(3, 3))
    law = RefusableNormal(np.zeros(3), change @ change.T, math.log(0.5), math.log(0.5))
    moved = change @ np.diag([1.0, 1.0, 0.5]) @ change.T
    other = RefusableNormal(change @ [1.0, 0.3, 0.2], moved, math.log(0.4), math.log(0.6))
    draws = law.sample(200_000, rng)
    loss = law.log_density(draws) - other.log_density(draws)
    pair = law.loss_against(other)
    for epsilon in (0.0, 0.5, 2.0):
        terms = np.maximum(-np.expm1(epsilon - loss), 0.0)
        error = 5.0 * terms.std() / math.sqrt(len(terms))
        assert above(pair.lower, epsilon) - error < terms.mean() < above(pair, epsilon) + error
        assert above(pair, epsilon) - above(pair.lower, epsilon) < 1e-4


def test_laws_on_different_subspaces_are_told_apart_surely_and_on_one_are_not():
    line, plane = np.diag([1.0, 0.0]), np.eye(2)
    on_line = RefusableNormal(np.zeros(2), line)
    assert exact.delta(on_line, RefusableNormal(np.zeros(2), plane), 5.0) == 1.0
    assert exact.delta(on_line, RefusableNormal(np.array([0.0, 1e-3]), line), 5.0) == 1.0
    expected = exact.delta(RefusableNormal(np.zeros(1), np.eye(1)), RefusableNormal(np.ones(1), np.eye(1)), 1.0)
    assert exact.delta(on_line, RefusableNormal(np.array([1.0, 0.0]), line), 1.0) == pytest.approx(expected)
    assert on_line.log_density(np.array([[0.3, 0.1]])) == -math.inf


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.integers(1, 2))
def test_exact_delta_holds_on_adversarial_neighbours(kind, seed, d):
    """Theorem 1, with as few records as it allows."""
    mechanism = CovarianceAwareMean(4.0, 0.02, outlier=4.0, dimension=d)
    x, x_prime, _ = adversarial(kind, seed, mechanism.least_records, d)
    assert max(hockey_sticks(mechanism(x), mechanism(x_prime), 4.0)) <= 0.02


@pytest.mark.parametrize("outliers", range(0, 17, 2))
def test_exact_delta_holds_along_the_poles(outliers):
    mechanism = CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=2)
    pair = poles(mechanism.bounds(4 * mechanism.least_records), 2, outliers)
    SubstituteInPlace().check(pair)
    x, x_prime = mechanism.fit(pair.x), mechanism.fit(pair.x_prime)
    assert (x.score, x_prime.score) == (min(outliers + 2, mechanism.test.levels), outliers)
    assert exact.delta(mechanism(pair.x), mechanism(pair.x_prime), 4.0) <= 0.01


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_exact_delta_holds_where_the_majority_of_two_clusters_moves_by_one(more):
    """Clusters at 1 and -1 of equal size but for ``more``, and a record that changes sides; references in both."""
    mechanism = CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=1)
    n = 4 * mechanism.least_records
    x = np.where(np.arange(n) < n // 2 + more, 1.0, -1.0)[np.random.default_rng(0).permutation(n), None]
    x_prime = x.copy()
    x_prime[0] = -x[0]
    law, law_prime = mechanism(x), mechanism(x_prime)
    assert law.log_passes > -0.1
    assert exact.delta(law, law_prime, 0.01) > 0.0
    assert exact.delta(law, law_prime, 4.0) <= 0.01


def test_the_pair_of_a_subspace_is_refused_by_the_sound_mechanism():
    """All records in a subspace, or one off it, tell the empirical mean apart surely."""
    pair = EmpiricalMean(4.0, 0.01, outlier=6.0, dimension=2).worst_pairs()[0]
    sound = CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=2)
    assert sound(pair.x).log_refuses == sound(pair.x_prime).log_refuses == 0.0


def test_hill_climbing_from_the_poles_does_not_pass_the_claim():
    """Some records of both datasets change at a time, and stay where delta grows, at half of the claimed epsilon."""
    mechanism = CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=1)
    pair = poles(mechanism.bounds(2 * mechanism.least_records), 1, 8)
    changed = int(np.flatnonzero((pair.x != pair.x_prime).any(axis=1))[0])
    rng, best = np.random.default_rng(0), pair.x.copy()
    start = reached = exact.delta(mechanism(pair.x), mechanism(pair.x_prime), 2.0)
    for _ in range(60):
        x = best.copy()
        x[np.setdiff1d(rng.integers(0, len(x), 8), changed)] = rng.choice([-1.05, -1.0, 0.0, 1.0, 1.05])
        x_prime = x.copy()
        x_prime[changed] = pair.x_prime[changed]
        delta = exact.delta(mechanism(x), mechanism(x_prime), 2.0)
        if delta > reached:
            best, reached = x, delta
        assert exact.delta(mechanism(x), mechanism(x_prime), 4.0) <= 0.01
    assert reached > start


@pytest.mark.parametrize("variant", [PublishedCovarianceAwareMean, EmpiricalMean, HalfOfTheNoise, UntrimmedMean])
def test_incorrect_variants_exceed_delta(variant):
    mechanism = variant(4.0, 0.01, outlier=6.0, dimension=2 if variant is EmpiricalMean else 1)
    pair = mechanism.worst_pairs()[0]
    mechanism.adjacency.check(pair)
    assert exact.delta(mechanism(pair.x), mechanism(pair.x_prime), 4.0) > 0.02


def test_too_few_levels_exceed_delta():
    mechanism = TooFewLevels(4.0, 0.01, outlier=6.0, dimension=1)
    pair = mechanism.worst_pairs()[0]
    assert exact.delta(mechanism(pair.x), mechanism(pair.x_prime), 4.0) > 0.3
    sound = CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=1)
    assert exact.delta(sound(pair.x), sound(pair.x_prime), 4.0) == 0.0  # refuses both


@pytest.mark.parametrize(
    ("variant", "runs"),
    [
        (PublishedCovarianceAwareMean, 20_000),
        (EmpiricalMean, 20_000),
        (UntrimmedMean, 20_000),
        (TooFewLevels, 20_000),
        (HalfOfTheNoise, 600_000),  # 1.16 times the claim in truth: 4.29 were certified at 99 %
    ],
)
def test_audits_refute_incorrect_variants(variant, runs):
    """A right mechanism would be refuted with probability 1e-4."""
    mechanism = variant(4.0, 0.01, outlier=6.0, dimension=1 if variant in (UntrimmedMean, HalfOfTheNoise) else 2)
    result = audit(mechanism, mechanism.worst_pairs()[:1], trials=runs, confidence=1.0 - 1e-4, seed=1, n_jobs=1)
    assert result.violates_claim


def test_a_stable_mean_is_accurate_and_refuses_rarely_on_normal_data():
    """Mahalanobis error against that of the data's own mean, over 20 datasets; the bound is 4 standard errors up."""
    mechanism = CovarianceAwareMean(2.0, 1e-4, outlier=24.0, dimension=2)
    n, errors = 2 * mechanism.least_records, []
    for seed in range(20):
        law = mechanism(np.random.default_rng(seed).normal(size=(n, 2)) * [1.0, 1e6])
        assert law.log_passes > -0.1
        errors.append(np.linalg.norm(law.mean / [1.0, 1e6]) * math.sqrt(n))
    assert np.sqrt(np.mean(np.square(errors))) < math.sqrt(2.0) * (1.0 + 4.0 / math.sqrt(80))


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        (np.zeros((50, 2)), "50 records; the guarantee needs at least"),
        (np.full((5000, 2), np.nan), "all records must be finite"),
        (np.zeros((1, 2)), "1 records in 2 dimensions"),
        (np.zeros((5000, 3)), "n records of 2 numbers"),
        ("abc", "n records of 2 numbers"),
    ],
)
def test_bad_datasets_are_refused_in_a_sentence(dataset, sentence):
    with pytest.raises(AuditError, match=sentence):
        CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=2)(dataset)


def test_bad_parameters_are_refused_in_a_sentence():
    with pytest.raises(AuditError, match="lambda_0"):
        CovarianceAwareMean(4.0, 0.01, outlier=0.0, dimension=2)
    with pytest.raises(AuditError, match="dimension"):
        CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=0)


def test_a_dataset_of_equal_records_is_refused_surely():
    law = CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=2)(np.ones((5000, 2)))
    assert law.log_refuses == 0.0
    assert np.isnan(law.sample(5, np.random.default_rng(0))).all()
