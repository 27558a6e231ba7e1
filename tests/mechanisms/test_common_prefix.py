"""Interior points by common prefixes: each step of the proofs, the law, its claim, its accuracy, incorrect variants."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.down_sensitivity import PrefixByQualityAlone, PrefixWithoutMargin
from epsaudit.mechanisms.interior_point import PrefixInteriorPoint
from epsaudit.mechanisms.queries import KthLargest, Maximum

COUNTS = st.lists(st.integers(0, 2), min_size=16, max_size=16)
SMALL = PrefixInteriorPoint(Maximum(tuple(range(16))), 4.0, 0.05, beta=0.5)
DEEP = PrefixInteriorPoint(Maximum(tuple(range(16))), 4.0, 0.05, beta=0.5, depth=2)
DEEPER = PrefixInteriorPoint(Maximum(tuple(range(12))), 4.0, 0.05, beta=0.5, depth=3)


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


@pytest.mark.parametrize("variant", [PrefixByQualityAlone, PrefixWithoutMargin])
def test_incorrect_variants_break_the_claim_where_the_sound_one_keeps_it(variant):
    sound = PrefixInteriorPoint(Maximum(range(2**64)), 1.0, 0.01, beta=0.5)
    broken = variant(sound.query, sound.epsilon, sound.delta, sound.beta)
    moving = broken.worst_pairs()[-1]
    assert exact.delta(broken(moving.x), broken(moving.x_prime), 1.0) > 10 * 0.01
    assert exact.delta(sound(moving.x), sound(moving.x_prime), 1.0) <= 0.01
    result = audit(broken, moving, trials=20_000, confidence=0.999, seed=0)
    assert result.violates_claim
