"""Searches by down sensitivity: laws against the source's own pseudocode, claims, accuracy, and incorrect variants."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.down_sensitivity import (
    BoundedSearchCountedOnce,
    PublishedBinarySearch,
)
from epsaudit.mechanisms.down_sensitivity import (
    BoundedBinarySearch,
    CosineLaw,
    GaussianBinarySearch,
    LaplaceBinarySearch,
    ShiftedInverseSensitivity,
    TolerantSearch,
    crowds,
)
from epsaudit.mechanisms.interior_point import InteriorPoint, PrefixInteriorPoint
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.quasi_concave import _Table
from epsaudit.mechanisms.queries import KthLargest, Maximum, Total
from epsaudit.mechanisms.search import ListedTolerantLaw

SEARCHES = [LaplaceBinarySearch, GaussianBinarySearch, PublishedBinarySearch]
DATA = st.lists(st.integers(0, 20), max_size=12).map(tuple)


def tree(mechanism, dataset):
    """Probability of every output and the depth of the search, following the source's pseudocode line by line."""
    query, noise = mechanism.query, mechanism.noise
    losses, chances, deepest = query.losses(dataset), np.zeros(query.size), 0
    first = -1 if type(mechanism) is not PublishedBinarySearch else 0
    stack = [(first, query.size - 1, 1.0, 0)]
    while stack:
        i_min, i_max, chance, depth = stack.pop()
        if not i_min + 1 < i_max:
            chances[i_max] += chance
            deepest = max(deepest, depth)
            continue
        k = (i_min + i_max) // 2
        left = math.exp(noise.log_cdf(mechanism.tau - losses[k]))
        stack += [(i_min, k, chance * left, depth + 1), (k, i_max, chance * (1.0 - left), depth + 1)]
    return chances, deepest


@pytest.mark.parametrize("search", SEARCHES)
@given(size=st.integers(2, 40), dataset=DATA)
def test_a_search_has_the_law_and_the_depth_of_the_pseudocode(search, size, dataset):
    mechanism = search.calibrated(Maximum(range(size)), 1.0, beta=0.5)
    chances, deepest = tree(mechanism, dataset)
    assert np.exp(mechanism(dataset).log_density(mechanism.query.outputs)) == pytest.approx(chances, abs=1e-12)
    assert mechanism.steps == deepest


@pytest.mark.parametrize(
    "mechanism",
    [
        ShiftedInverseSensitivity(Maximum((0, 1, 2)), 1.0, beta=0.5),
        LaplaceBinarySearch.calibrated(Maximum((0, 1, 2)), 1.0, beta=0.5),
        GaussianBinarySearch.calibrated(Maximum((0, 1, 2)), 0.5, beta=0.5),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_all_small_neighbours_respect_every_claim(mechanism):
    for n in range(5):
        for dataset in itertools.combinations_with_replacement((0, 1, 2), n):
            for record in (0, 1, 2):
                law, law_prime = mechanism(dataset), mechanism((*dataset, record))
                for claim in mechanism.claims:
                    assert exact.exact_parameter(claim, law, law_prime) <= claim.parameter * (1 + 1e-9)


@pytest.mark.parametrize(
    "calibrated",
    [ShiftedInverseSensitivity, LaplaceBinarySearch.calibrated_to_rho, *[search.calibrated for search in SEARCHES[:2]]],
)
@given(dataset=DATA, beta=st.floats(0.01, 0.5), size=st.integers(2, 25))
def test_accuracy(calibrated, dataset, beta, size):
    """f(x) >= M(x) >= f(x) - DS^{2 tau}(x) with probability 1 - beta: source 000, Theorems 4 and 5."""
    query = Maximum(tuple(range(size)))
    mechanism = calibrated(query, 2.0, beta)
    removed = min(len(dataset), math.floor(2 * mechanism.tau))
    least = query.value(sorted(dataset)[: len(dataset) - removed])
    chances = np.exp(mechanism(dataset).log_density(query.outputs))
    accurate = (query.outputs >= least) & (query.outputs <= query.value(dataset))
    assert chances[accurate].sum() >= 1.0 - beta - 1e-12


def test_shifted_inverse_sensitivity_follows_its_formula():
    # l and lbar written out by hand for the data 1, 1, 2 on the grid 0, 1, 2
    mechanism = ShiftedInverseSensitivity(Maximum((0, 1, 2)), 2.0, beta=0.9)
    losses, strict, tau = [3, 1, 0], [math.inf, 3, 1], math.ceil(math.log(3 / 0.9))
    weights = [-max(a - tau, tau - b) for a, b in zip(losses, strict, strict=True)]
    law = mechanism((1, 1, 2))
    assert law.log_probabilities == pytest.approx(FiniteLaw((0, 1, 2), weights).log_probabilities)


THREE = Maximum((0, 1, 2))


@pytest.mark.parametrize(("grid", "rounds"), [((0, 1, 2), 9), ((0, 1, 2), 2), ((0, 1), 8)])
def test_draws_follow_the_enumerated_law_and_not_its_variant(grid, rounds, fit):
    # p-values below 1e-6 fail: the false-alarm chance. Fewer rounds than outputs split pieces, more list them
    def law(sigma):
        return TolerantSearch(Maximum(grid), sigma, 2.5, rounds, 0.3)((1, 1, 2))

    draws = law(2.0).sample(200_000, np.random.default_rng(5))
    assert isinstance(law(2.0), ListedTolerantLaw)
    assert fit(law(2.0), draws) > 1e-6
    assert fit(law(2.3), draws) < 1e-6


@given(st.lists(st.sampled_from((0, 1, 2)), max_size=8).map(tuple), st.sampled_from((0, 1, 2)))
@settings(max_examples=25)
def test_neighbours_respect_every_claim(dataset, joining):
    mechanism = TolerantSearch(THREE, 2.0, 2.0, 9, 0.35)
    law, law_prime = mechanism(dataset), mechanism((*dataset, joining))
    for claim in mechanism.claims:
        assert exact.exact_parameter(claim, law, law_prime) <= claim.parameter * (1 + 1e-9)


@pytest.mark.parametrize("dataset", [(), (0,) * 60, (1,) * 60, (2,) * 60, (0, 1, 2) * 20, (0,) * 60 + (2,)])
def test_exact_accuracy_on_three_outputs(dataset):
    mechanism = TolerantSearch.calibrated(THREE, 1.0, beta=0.5, error=0.05)
    law, answer = mechanism(dataset), THREE.value(dataset)
    least = answer - THREE.down_sensitivity(dataset, int(2 * mechanism.tau))
    inside = [least <= output <= answer for output in law.support]
    assert np.exp(law.log_probabilities)[inside].sum() >= 0.5


def composed_delta(law: CosineLaw, epsilon: float, steps: int) -> float:
    """Exactly, by going through all tuples of outcomes."""
    p, q = np.exp(np.append(law.log_probabilities, -np.inf)), np.exp(np.append(-np.inf, law.log_probabilities))
    all_p, all_q = p, q
    for _ in range(steps - 1):
        all_p, all_q = np.multiply.outer(all_p, p).ravel(), np.multiply.outer(all_q, q).ravel()
    return float(np.maximum(all_p - np.exp(epsilon) * all_q, 0.0).sum())


@pytest.mark.parametrize(("reach", "power", "steps"), [(4, 3, 1), (12, 4, 2), (20, 5, 3), (9, 10, 4)])
def test_the_bound_is_above_the_exact_composition_and_within_a_factor(reach, power, steps):
    law = CosineLaw(reach, power)
    for epsilon in (0.3, 1.0, 2.0):
        truth = composed_delta(law, epsilon, steps)
        assert truth <= law.delta(epsilon, steps) <= 20 * truth + 1e-12


@pytest.mark.parametrize("query", [Maximum(range(50)), Total(range(0, 50))])
def test_every_run_is_accurate(query):
    mechanism, rng = BoundedBinarySearch(query, 1.0, 1e-3), np.random.default_rng(2)
    wrap = (lambda v: (None,) * v) if isinstance(query, Total) else (lambda v: v)
    for records in (0, 3, 90, 400):
        dataset = tuple(wrap(int(value)) for value in rng.integers(0, 4, records))
        answer = query.value(dataset)
        least = answer - query.down_sensitivity(dataset, 2 * mechanism.tau)
        outputs = mechanism(dataset).sample(2000, rng)
        assert least <= outputs.min() <= outputs.max() <= answer
        # and not only as far as runs go: no other output is possible
        law = mechanism(dataset)
        possible = np.array(law.support)[np.exp(law.log_probabilities) > 0.0]
        assert least <= possible.min() <= possible.max() <= answer


def test_the_claim_holds_for_every_crowd_and_that_of_one_comparison_does_not():
    sound, broken = (one(Maximum(range(64)), 1.0, 0.01) for one in (BoundedBinarySearch, BoundedSearchCountedOnce))
    for mechanism, exceeds in ((sound, False), (broken, True)):
        pairs = [crowds(mechanism.query, loss) for loss in range(2 * mechanism.tau + 1)]
        worst = max(exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), 0.01) for pair in pairs)
        assert (worst > 1.0) == exceeds
        assert audit(mechanism, trials=40_000, seed=3, confidence=0.999).violates_claim == exceeds


COUNTS = st.lists(st.integers(0, 25), min_size=16, max_size=16)
SMALL = InteriorPoint(Maximum(tuple(range(16))), 4.0, 0.01, beta=0.5)


def holders(counts):
    return tuple(value for value, count in enumerate(counts) for _ in range(count))


@given(COUNTS)
def test_some_point_of_the_best_block_is_good_at_every_good_scale(counts):
    stage, levels = SMALL.stage, SMALL(holders(counts)).levels
    scales = stage.scale_levels(levels).at(np.arange(5, dtype=np.uint64))
    offsets = np.arange(stage.blocks)
    for scale in np.flatnonzero(scales >= 1):
        table = _Table.of(stage, levels, np.full(stage.blocks, scale), offsets)
        assert np.all(levels.at(table.points).max(axis=1) > stage.low)
        # all cuts but two leave a lead that passes but for beta / 4
        assert np.sum(np.exp(table.log_pass) < 1 - 0.5 / 4) <= 2


@given(COUNTS, st.integers(0, 15))
def test_neighbours_respect_the_claim(counts, joining):
    dataset = holders(counts)
    law, law_prime = SMALL(dataset), SMALL((*dataset, joining))
    assert exact.delta(law, law_prime, 4.0) <= 0.01
    assert exact.delta(law_prime, law, 4.0) <= 0.01


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_exact_accuracy_on_boundary_datasets(depth, beta):
    mechanism = InteriorPoint(KthLargest(tuple(range(16)), place=2), 2.0, 1e-4, beta, depth)
    query = mechanism.query
    for dataset in ((), (0,) * 1500, (7,) * 1500, (15,) * 1500, (3,) * 1500 + (15,), tuple(range(16)) * 90, (3, 9)):
        answer = query.value(dataset)
        least = answer - query.down_sensitivity(dataset, 2 * mechanism.tau)
        law = mechanism(dataset)
        inside = [output is not None and least <= output <= answer for output in law.support]
        assert np.exp(law.log_probabilities)[inside].sum() >= 1 - beta


def test_the_distance_has_sensitivity_1_where_the_gap_has_2():
    for gap, other in itertools.product(range(60), range(60)):
        if abs(gap - other) <= 2:
            assert abs(SMALL.stage.distance(np.array(gap)) - SMALL.stage.distance(np.array(other))) <= 1
    assert SMALL.stage.distance(np.array([0, 1, 2, 3])).tolist() == [0, 0, 0, 1]


PREFIX_COUNTS = st.lists(st.integers(0, 2), min_size=16, max_size=16)
SMALL_PREFIXES = PrefixInteriorPoint(Maximum(tuple(range(16))), 4.0, 0.05, beta=0.5)
DEEP = PrefixInteriorPoint(Maximum(tuple(range(16))), 4.0, 0.05, beta=0.5, depth=2)
DEEPER = PrefixInteriorPoint(Maximum(tuple(range(12))), 4.0, 0.05, beta=0.5, depth=3)


def hockey_stick(law, law_prime, epsilon):
    """Delta both ways, from what each output has."""
    chances, others = (dict(zip(one.support, np.exp(one.log_probabilities), strict=True)) for one in (law, law_prime))
    outputs = chances.keys() | others.keys()
    return max(
        sum(max(0.0, one.get(y, 0.0) - math.exp(epsilon) * other.get(y, 0.0)) for y in outputs)
        for one, other in ((chances, others), (others, chances))
    )


@given(PREFIX_COUNTS, st.integers(0, 15), st.sampled_from([SMALL_PREFIXES, DEEP, DEEPER]))
@settings(deadline=None)
def test_lengths_have_sensitivity_1_and_labels_keep_their_meaning(counts, joining, mechanism):
    datasets = holders(counts), (*holders(counts), joining)
    levels, levels_prime = map(mechanism.levels, datasets)
    plan = mechanism.plan
    while plan:
        lengths = range(plan.bits + 1)
        for c in range(1, plan.promise):  # the levels of neighbours interleave
            assert levels.first[c - 1] <= levels_prime.first[c]
            assert levels.last[c - 1] >= levels_prime.last[c]
        shared, shared_prime = plan.shared(levels), plan.shared(levels_prime)
        assert shared == sorted(shared)
        following, following_prime = ([sum(z >= at for z in z_s) for at in lengths] for z_s in (shared, shared_prime))
        named, named_prime = plan.named(levels, lengths), plan.named(levels_prime, lengths)
        for length in lengths:
            assert abs(following[length] - following_prime[length]) <= 1
            if max(following[length], following_prime[length]) >= 2:
                assert named[3 * length : 3 * length + 3] == named_prime[3 * length : 3 * length + 3]
        if plan.below is None:
            change = plan.qualities(levels, lengths) - plan.qualities(levels_prime, lengths)
            assert np.abs(change).max() <= 1
            break
        levels, levels_prime = (plan.length_levels(one, plan.below.promise) for one in (levels, levels_prime))
        plan = plan.below


def test_all_small_datasets_respect_the_claim():
    # more than 2 tau records above the least output count no more: these are all datasets that there are
    mechanism = PrefixInteriorPoint(Maximum((0, 1, 2, 3)), 4.0, 0.09, beta=0.9)
    most = 2 * mechanism.tau
    laws = {
        counts: mechanism(holders((0, *counts)))
        for counts in itertools.product(range(most + 1), repeat=3)
        if sum(counts) <= most
    }
    worst = 0.0
    for counts, law in laws.items():
        for place in range(3):
            more = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            if more in laws:
                worst = max(worst, hockey_stick(law, laws[more], 4.0))
    assert len(laws) == math.comb(most + 3, 3)
    assert 0.001 < worst <= 0.09


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("beta", [0.05, 0.5])
@pytest.mark.parametrize("size", [2, 3, 16, 21, 2**64 - 5, 2**64])
def test_exact_accuracy_of_prefixes_on_boundary_datasets(depth, beta, size):
    mechanism = PrefixInteriorPoint(KthLargest(range(size), place=2), 2.0, 1e-4, beta, depth)
    query, n = mechanism.query, 2 * mechanism.tau + 50
    top, half, seed = size - 1, 1 << mechanism.plan.bits - 1, np.random.default_rng(0)
    spread = tuple(int(value * top) for value in seed.random(n))
    halving = tuple(top >> removals for removals in range(n))
    crowds = [(value,) * n for value in (0, top, min(half, top), half - 1)]
    for dataset in ((), (0,), (top,), (top, half - 1), (half - 1,) * n + (top,) * 3, spread, halving, *crowds):
        answer = query.value(dataset)
        least = answer - query.down_sensitivity(dataset, 2 * mechanism.tau)
        law = mechanism(dataset)
        inside = [least <= output <= answer for output in map(int, law.support)]
        assert np.exp(law.log_probabilities)[inside].sum() >= 1 - beta
        assert max(map(int, law.support)) <= top


def brute_force(mechanism, dataset, runs, rng):
    """The mechanism as the page describes it, with text for prefixes and Gumbel noise for exponential mechanisms."""
    size, tau, plan = mechanism.query.size, mechanism.tau, mechanism.plan
    losses, strict = mechanism.query.losses(dataset), mechanism.query.strict_losses(dataset)
    quality = dict(enumerate(np.clip(np.minimum(strict, 2 * tau - losses), 0, tau)))
    bits = max(1, len(f"{size - 1:b}"))
    level_sets = [[y for y in quality if quality[y] >= c] for c in range(1, tau + 1)]
    ends = [(f"{min(ys):0{bits}b}", f"{max(ys):0{bits}b}") for ys in level_sets]
    shared = [next((i for i in range(bits) if a[i] != b[i]), bits) for a, b in ends]
    points, scores = [], []
    for length in range(bits + 1):
        w, rest = ends[-1][0][:length], bits - length
        for text in (w + "1" + "0" * (rest - 1) if rest else w, w + "0" * rest, w + "1" * rest):
            y = int(text, 2)
            stable = sum(z >= length for z in shared) - 1
            scores.append(max(0, min(quality.get(y, 0) + plan.margin, stable)))
            points.append(min(y, size - 1))
    noisy = 0.5 * mechanism.epsilon * np.array(scores) + rng.gumbel(size=(runs, len(scores)))
    return np.array(points)[noisy.argmax(axis=1)]


@pytest.mark.parametrize("size", [2, 11, 16])
def test_the_law_is_that_of_a_brute_force_simulation(size, fit):
    # each p-value is below 1e-6 by chance with probability 1e-6
    mechanism = PrefixInteriorPoint(Maximum(tuple(range(size))), 2.0, 0.05, beta=0.5)
    rng = np.random.default_rng(5)
    for dataset in ((), (size - 1,) * mechanism.tau, tuple(rng.integers(0, size, mechanism.tau).tolist())):
        law = mechanism(dataset)
        assert fit(law, brute_force(mechanism, dataset, 50_000, rng)) > 1e-6
        assert fit(law, law.sample(50_000, rng)) > 1e-6
