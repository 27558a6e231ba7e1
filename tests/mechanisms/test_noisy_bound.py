"""Noise at any private bound: the claim on all small neighbours, the law of the bound, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from epsaudit import ApproxDP, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.local_sensitivity import ExactJoinBound
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw
from epsaudit.mechanisms.private_bound import JoinBound, LaplaceAtBound, join_size

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


def test_an_exact_bound_is_never_too_low_and_not_private():
    bound = ExactJoinBound(0.5, 1e-3, keys=2)
    assert all(bound(x).support[0] >= max(bound.counts(x)) for x in SMALL)
    whole = LaplaceAtBound(join_size, bound, 0.5, 1e-3)
    pair = whole.worst_pairs()[0]
    # noise of scale 4 against 2, both around 0: the loss is above 1 beyond t, 4 (1 + log 2)
    t = 4.0 * (1.0 + math.log(2.0))
    expected = math.exp(-t / 4.0) - math.e * math.exp(-t / 2.0)
    assert exact.delta(whole(pair.x), whole(pair.x_prime), 1.0) == pytest.approx(expected, rel=1e-6)
    assert expected > 50 * 1e-3
    assert audit(whole, trials=20_000, confidence=0.999, seed=1, n_jobs=1).violates_claim
