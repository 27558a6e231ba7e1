"""Interior points by common prefixes: each step of the proofs, the law, its claim, its accuracy, incorrect variants."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import AuditError, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.down_sensitivity import PrefixByQualityAlone, PrefixWithoutMargin
from epsaudit.mechanisms.interior_point import PrefixInteriorPoint, plan_for
from epsaudit.mechanisms.quasi_concave import Levels
from epsaudit.mechanisms.queries import KthLargest, Maximum, Total

COUNTS = st.lists(st.integers(0, 2), min_size=16, max_size=16)
SMALL = PrefixInteriorPoint(Maximum(tuple(range(16))), 4.0, 0.05, beta=0.5)
DEEP = PrefixInteriorPoint(Maximum(tuple(range(16))), 4.0, 0.05, beta=0.5, depth=2)
DEEPER = PrefixInteriorPoint(Maximum(tuple(range(12))), 4.0, 0.05, beta=0.5, depth=3)
ALL_LENGTHS = range(5)


def holders(counts):
    return tuple(value for value, count in enumerate(counts) for _ in range(count))


def hockey_stick(law, law_prime, epsilon):
    """Delta both ways, from what each output has."""
    chances, others = (dict(zip(one.support, np.exp(one.log_probabilities), strict=True)) for one in (law, law_prime))
    outputs = chances.keys() | others.keys()
    return max(
        sum(max(0.0, one.get(y, 0.0) - math.exp(epsilon) * other.get(y, 0.0)) for y in outputs)
        for one, other in ((chances, others), (others, chances))
    )


@given(COUNTS, st.integers(0, 15), st.sampled_from([SMALL, DEEP, DEEPER]))
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


@given(COUNTS)
def test_the_best_length_has_what_the_proof_promises(counts):
    plan, levels = SMALL.plan, SMALL.levels(holders(counts))
    quality = levels.at(np.array(plan.named(levels, ALL_LENGTHS), np.uint64)).reshape(5, 3).max(axis=1)
    shared = plan.shared(levels)
    for length in ALL_LENGTHS:
        if shared[-1] >= length:  # some level set is as short: one of three points is in every wider one
            assert quality[length] >= sum(z <= length for z in shared)
    assert plan.qualities(levels, ALL_LENGTHS).max() >= plan.near + plan.margin


@given(COUNTS)
def test_the_quality_of_lengths_is_the_one_of_the_docstring(counts):
    plan, levels = DEEP.plan, DEEP.levels(holders(counts))
    shared, promise = plan.shared(levels), plan.below.promise
    expected = [
        min(sum(z <= at for z in shared) - plan.near + 1, sum(z >= at for z in shared) - 1) for at in ALL_LENGTHS
    ]
    found = plan.length_levels(levels, promise).at(np.arange(5, dtype=np.uint64))
    assert found.tolist() == np.clip(expected, 0, promise).tolist()
    assert found.max() == promise


@given(COUNTS, st.integers(0, 15), st.sampled_from([SMALL, DEEP, DEEPER]))
@settings(deadline=None)
def test_neighbours_respect_the_claim(counts, joining, mechanism):
    dataset = holders(counts)
    law, law_prime = mechanism(dataset), mechanism((*dataset, joining))
    both = exact.delta(law, law_prime, 4.0), exact.delta(law_prime, law, 4.0)
    assert max(both) <= 0.05
    assert hockey_stick(law, law_prime, 4.0) == pytest.approx(max(both), abs=1e-12)


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


def test_the_claim_is_nearly_attained():
    mechanism = PrefixInteriorPoint(Maximum(range(2**64)), 1.0, 1e-6)
    crowd, _ = mechanism.worst_pairs()
    assert 0.995 < exact.epsilon(mechanism(crowd.x), mechanism(crowd.x_prime), 1e-6) <= 1.0
    mechanism = PrefixInteriorPoint(Maximum(range(2**64)), 4.0, 0.01, beta=0.5)
    _, moving = mechanism.worst_pairs()
    assert 0.4 * 0.01 < exact.delta(mechanism(moving.x), mechanism(moving.x_prime), 4.0) <= 0.01


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("beta", [0.05, 0.5])
@pytest.mark.parametrize("size", [2, 3, 16, 21, 2**64 - 5, 2**64])
def test_exact_accuracy_on_boundary_datasets(depth, beta, size):
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


def test_a_seventh_of_the_guaranteed_failures_is_seen():
    mechanism = PrefixInteriorPoint(Maximum(range(2**64)), 4.0, 0.05, beta=0.1)
    dataset = (2**64 - 2,) * 11 + (2**63 + 1,) * 4
    least = 2**64 - 2 - mechanism.query.down_sensitivity(dataset, 2 * mechanism.tau)
    law = mechanism(dataset)
    outside = [not least <= int(output) <= 2**64 - 2 for output in law.support]
    assert 0.1 / 7 < np.exp(law.log_probabilities)[outside].sum() <= 0.1


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


def test_a_second_level_mixes_choices_over_the_lengths_that_it_finds():
    plan, levels = DEEP.plan, DEEP.levels(holders([3] * 16))
    law, expected = plan.law(levels), dict.fromkeys(range(16), 0.0)
    for length, chance in plan.below.law(plan.length_levels(levels, plan.below.promise)).items():
        points = plan.named(levels, [min(length, 4)])
        weights = [math.exp(plan.epsilon * int(levels.at(np.array([y], np.uint64))[0]) / 2) for y in points]
        for y, weight in zip(points, weights, strict=True):
            expected[y] += chance * weight / sum(weights)
    assert sum(law.values()) == pytest.approx(1.0)
    assert {y: law.get(y, 0.0) for y in expected} == pytest.approx(expected)


@given(st.integers(1, 70), st.floats(0.1, 8), st.floats(1e-12, 0.09), st.floats(0.001, 0.9), st.integers(1, 4))
@settings(deadline=None)
def test_a_plan_spends_what_it_has_and_keeps_its_inequalities(bits, epsilon, delta, beta, depth):
    plan, spent, failing = plan_for(bits, epsilon, delta, beta, depth), 0.0, beta
    share = delta / depth
    while plan.below:
        spent += plan.epsilon
        assert 2 * math.exp(-plan.epsilon * plan.near / 2) <= failing / 2 * (1 + 1e-9)
        assert plan.promise == 2 * plan.below.promise + plan.near - 1
        assert plan.below.bits == plan.bits.bit_length()
        failing, plan = min(share, failing / 2), plan.below
    labels, best = 3 * (plan.bits + 1), plan.near + plan.margin
    assert spent + plan.epsilon == pytest.approx(epsilon)
    assert labels * math.exp(-plan.epsilon * plan.near / 2) <= failing * (1 + 1e-9)
    assert labels * math.exp(-plan.epsilon * best / 2) <= share * (1 + 1e-9)
    assert plan.promise == 2 * plan.near + plan.margin


def test_sixty_four_bits_lose_none():
    plan = plan_for(64, 1.0, 1e-6, 0.05, 1)
    best = 2**64 - 3
    levels = Levels(*(np.full(plan.promise, best, np.uint64),) * 2)
    points = plan.named(levels, [0, 1, 63, 64])
    assert points[:6] == [2**63, 0, 2**64 - 1, 3 * 2**62, 2**63, 2**64 - 1]
    assert points[6:] == [best, best - 1, best, best, best, best]
    assert plan.shared(levels) == [64] * plan.promise
    law = PrefixInteriorPoint(Maximum(range(2**64)), 1.0, 1e-6)((best,) * 200)
    assert {int(y): chance > 0.1 for y, chance in zip(law.support, np.exp(law.log_probabilities), strict=True)}[best]
    assert len(law.support) == len({int(y) for y in law.support})


@pytest.mark.parametrize("variant", [PrefixByQualityAlone, PrefixWithoutMargin])
def test_incorrect_variants_break_the_claim_where_the_sound_one_keeps_it(variant):
    sound = PrefixInteriorPoint(Maximum(range(2**64)), 1.0, 0.01, beta=0.5)
    broken = variant(sound.query, sound.epsilon, sound.delta, sound.beta)
    moving = broken.worst_pairs()[-1]
    assert exact.delta(broken(moving.x), broken(moving.x_prime), 1.0) > 10 * 0.01
    assert exact.delta(sound(moving.x), sound(moving.x_prime), 1.0) <= 0.01
    result = audit(broken, moving, trials=20_000, confidence=0.999, seed=0)
    assert result.violates_claim


def test_queries_without_an_order_of_records_have_a_worst_pair_too():
    mechanism = PrefixInteriorPoint(Total(range(0, 64, 4)), 2.0, 0.01, beta=0.5)
    (pair,) = mechanism.worst_pairs()
    assert 0.3 < exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), 0.01) <= 2.0


def test_wrong_parameters_are_sentences():
    query = Maximum((0, 1))
    with pytest.raises(AuditError, match="delta is"):
        PrefixInteriorPoint(query, 1.0, 0.1)
    with pytest.raises(AuditError, match="depth is 0"):
        PrefixInteriorPoint(query, 1.0, 0.01, depth=0)
    with pytest.raises(AuditError, match="epsilon is 0"):
        PrefixInteriorPoint(query, 0.0, 0.01)
