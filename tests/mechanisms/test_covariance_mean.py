"""Covariance-aware mean: every lemma of its proof on small and adversarial data, exact delta, and what breaks it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.means import PublishedScoreTest
from epsaudit.mechanisms.covariance_mean import (
    COVARIANCE_SHARE,
    CovarianceAwareMean,
    Stability,
    StableMean,
    SubstituteInPlace,
    covariance_loss,
    leverages,
    poles,
    score,
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


@given(pairs)
def test_levels_move_by_one_but_for_the_changed_point(case):
    """Lemma 1: S_l without the changed point lies in the neighbour's S_(l+1); a level past 2 k counts as 2 k + 1."""
    x, x_prime, place = fits(case)
    same = np.arange(SMALL.differences) != place % SMALL.differences
    assert np.abs(x.difference_levels - x_prime.difference_levels)[same].max() <= 1
    if max(x.covariance_score, x_prime.covariance_score) < SMALL.levels:
        same = np.arange(SMALL.records) != place
        assert np.abs(x.record_levels - x_prime.record_levels)[same].max() <= 1


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


@pytest.mark.parametrize("gamma", [0.002, 0.1])
def test_covariances_within_gamma_cost_no_more_than_computed(gamma):
    """Lemma 3 on normal pairs on the line that use up gamma, exactly."""
    delta = 1e-3
    bound = covariance_loss(gamma, delta)
    for ratio in (1.0 - gamma, 1.0 / (1.0 - gamma)):
        law, law_prime = RefusableNormal(np.zeros(1), np.eye(1)), RefusableNormal(np.zeros(1), np.diag([ratio]))
        assert max(hockey_sticks(law, law_prime, bound)) <= delta


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


def test_laws_on_different_subspaces_are_told_apart_surely_and_on_one_are_not():
    line, plane = np.diag([1.0, 0.0]), np.eye(2)
    on_line = RefusableNormal(np.zeros(2), line)
    assert exact.delta(on_line, RefusableNormal(np.zeros(2), plane), 5.0) == 1.0
    assert exact.delta(on_line, RefusableNormal(np.array([0.0, 1e-3]), line), 5.0) == 1.0
    expected = exact.delta(RefusableNormal(np.zeros(1), np.eye(1)), RefusableNormal(np.ones(1), np.eye(1)), 1.0)
    assert exact.delta(on_line, RefusableNormal(np.array([1.0, 0.0]), line), 1.0) == pytest.approx(expected)
    assert on_line.log_density(np.array([[0.3, 0.1]])) == -math.inf


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


class HalfOfTheNoise(CovarianceAwareMean):
    """c halved, for so many records that the constants of the proof are near their limits."""

    def noise(self, records):
        return 0.5 * super().noise(records)

    def worst_pairs(self):
        return (self.poles(16),)


def test_half_of_the_noise_exceeds_delta():
    mechanism = HalfOfTheNoise(4.0, 0.01, outlier=6.0, dimension=1)
    pair = mechanism.worst_pairs()[0]
    mechanism.adjacency.check(pair)
    assert exact.delta(mechanism(pair.x), mechanism(pair.x_prime), 4.0) > 0.02
