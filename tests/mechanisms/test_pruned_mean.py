"""The pruned mean: the law of the surviving set by enumeration, Lemmas 6 and 7 on it, exact delta, draws, refusals."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import AuditError, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.means import FixedThresholds
from epsaudit.mechanisms.covariance_mean import release_scale
from epsaudit.mechanisms.exact.losses import NotKnownError
from epsaudit.mechanisms.pruned_mean import GROWTH, PrunedLaw, PrunedMean, PrunedStableMean, Pruning, hazard
from epsaudit.mechanisms.stable_mean import leverages

THRESHOLD, SPREAD = 2.5, 0.4


def norms_in(points, places, star=None, limit=0.0):
    """Squared norms of the points at ``places``, where ``star`` joins if its own norm with them is within ``limit``."""
    m = len(points) + 1
    if star is not None:
        both = m * leverages(np.vstack([points[places], star]))
        if both[-1] <= limit:
            return both[:-1]
    return m * leverages(points[places])


def law_of_survivors(points, star=None, limit=0.0):
    """Probability of each surviving set but for ``star``, by all ways to get there, and its total hazard."""
    law, hazards = {}, {}
    waiting = [(tuple(range(len(points))), np.zeros(len(points)), 1.0)]
    while waiting:
        kept, seen, chance = waiting.pop()
        now = seen.copy()
        places = list(kept)
        now[places] = hazard(norms_in(points, places, star, limit), THRESHOLD, SPREAD) if kept else []
        falls = dict(zip(places, -np.expm1(seen[places] - now[places]), strict=True))
        for size in range(len(places) + 1):
            for gone in itertools.combinations(places, size):
                p = chance * math.prod(falls[i] if i in gone else 1.0 - falls[i] for i in places)
                left = tuple(i for i in places if i not in gone)
                if p > 0.0 and gone:
                    waiting.append((left, now, p))
                elif p > 0.0:
                    law[left] = law.get(left, 0.0) + p
                    hazards[left] = float(now[places].sum())
    return law, hazards


def data_near_thresholds(seed, d):
    """Five points, and one more along the first axis and a limit on its norm, below 6."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(5, d)) * rng.choice([0.3, 1.0, 2.0], (5, 1))
    star = np.zeros(d)
    star[0] = rng.choice([0.5, 1.0, 2.0, 4.0]) * np.linalg.norm(points[:, 0]) / math.sqrt(5)
    return points, star, float(rng.uniform(1.0, 4.0))


cases = st.tuples(st.integers(0, 10**6), st.integers(1, 2))


@pytest.mark.nightly
@settings(max_examples=12, deadline=None)
@given(cases)
def test_surviving_sets_are_close_to_those_without_the_changed_difference(case):
    """Lemma 7, both directions for every set and for every number that makes many, at the changed one's threshold."""
    points, star, limit = data_near_thresholds(*case)
    eta = -math.log1p(-limit / 6.0) / SPREAD
    law, _ = law_of_survivors(points, star, limit)
    without, hazards = law_of_survivors(points)
    assert sum(law.values()) == pytest.approx(1.0)
    for kept in law.keys() | without.keys():
        gone = len(points) - len(kept)
        ratio = math.log(law[kept] / without[kept])
        assert -gone * eta - 1e-9 <= ratio <= -math.expm1(-GROWTH * eta) * hazards[kept] + 1e-9
    for many in range(1, 6):
        p, q = (sum(chance for kept, chance in one.items() if 5 - len(kept) >= many) for one in (law, without))
        assert p <= q * (1 + 1e-9)
        assert q <= math.exp(many * eta) * p * (1 + 1e-9)


def test_lemma_7_is_nearly_attained_in_both_directions():
    """A changed difference in line with one point near its threshold: smaller shifts or growth would not do."""
    limit, ones = 0.2, np.ones((4, 1))
    eta = -math.log1p(-limit / 6.0) / SPREAD
    points = np.vstack([[[math.sqrt(4.0 * THRESHOLD / (6.0 - THRESHOLD))]], ones])  # the first is at its threshold
    star = math.sqrt(limit / (6.0 - limit) * float(np.sum(np.square(points))))  # the norm of this is the limit
    (law, _), (without, hazards) = law_of_survivors(points, [star - 1e-9], limit), law_of_survivors(points)
    ratio = math.log(law[0, 1, 2, 3, 4] / without[0, 1, 2, 3, 4])
    assert 0.9 * hazards[0, 1, 2, 3, 4] < ratio / -math.expm1(-GROWTH * eta) < hazards[0, 1, 2, 3, 4]
    points[0] = 3.0
    (law, _), (without, _) = law_of_survivors(points, [0.64], limit), law_of_survivors(points)
    least = min(math.log(law[kept] / without[kept]) / (5 - len(kept)) for kept in law if len(kept) < 5)
    assert -eta <= least < -0.9 * eta


@pytest.mark.nightly
@settings(max_examples=25, deadline=None)
@given(cases, st.floats(0.05, 0.95))
def test_survivors_with_much_hazard_are_rare(case, theta):
    """Lemma 6's tail, at every value that the hazard takes and every number of dropped points."""
    law, hazards = law_of_survivors(data_near_thresholds(*case)[0])
    for r in range(6):
        for tau in set(hazards.values()):
            rare = sum(p for kept, p in law.items() if 5 - len(kept) <= r and hazards[kept] >= tau)
            assert rare <= math.exp(-(1.0 - theta) * tau) * theta**-r * (1 + 1e-9)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 3.0), st.floats(0.05, 2.0))
def test_hazard_grows_no_faster_than_said_and_so_fast_at_the_threshold(norm, eta, spread):
    before, after = hazard(np.array([norm, norm * math.exp(eta)]), 1.0, spread)
    assert after <= before * math.exp(GROWTH * eta / spread) * (1 + 1e-9)
    at, above = hazard(np.array([1.0, math.exp(1e-5)]), 1.0, 1.0)
    assert math.log(above / at) == pytest.approx(GROWTH * 1e-5, rel=1e-3)


def test_thresholds_pass_lambda_0_and_the_highest_with_the_probability_said():
    bounds = Pruning(100_000, 20, 6.0, 0.03, 0.001)
    falls = -np.expm1(-hazard(np.array([6.0, bounds.highest]), bounds.threshold(0), bounds.spread))
    assert falls == pytest.approx([0.001, 0.999])


def test_the_constants_of_lemma_7_are_recomputed():
    """By the formula on the page, with a search for theta of its own."""
    bounds, delta = Pruning(100_000, 20, 6.0, 0.03, 0.001), 0.001
    eta = -math.log(1.0 - bounds.highest / 50_000) / 0.03
    r = max(r for r in range(20) if 2 * r < 20)
    tails = [(math.log(1.0 / delta) - r * math.log(theta)) / (1.0 - theta) for theta in np.linspace(0.001, 0.999, 999)]
    tau = math.exp(eta / math.log(2.0)) * min(tails)
    expected = (r + 1) * eta + (1.0 - math.exp(-eta / math.log(2.0))) * tau
    assert expected <= bounds.loss(delta) <= expected * 1.001


MECHANISM = PrunedMean(4.0, 0.02, outlier=7.0, dimension=1, spread=0.05)


def revealed(law, law_prime, place, epsilon):
    """Greatest P[E] - e^epsilon P'[E] if the set but for ``place`` is seen too, and the rest put to the worse side.

    Sets of few uncertain differences are listed, with that at ``place`` on the side where it surely is.
    """
    sums = []
    for one, other in ((law, law_prime), (law_prime, law)):
        ours, theirs = ({kept[:place] + kept[place + 1 :]: (kept, p) for kept, p in listed(x)} for x in (one, other))
        total = 1.0 - sum(p for _, p in ours.values())
        for key, (kept, p) in ours.items():
            if key not in theirs:
                total += p
                continue
            kept_prime, q = theirs[key]
            pair = one.given(np.array(kept)).loss_against(other.given(np.array(kept_prime)))
            values, losses = pair.above(epsilon + math.log(q / p))
            total += p * float(
                np.sum(np.exp(values[0]) * -np.expm1(np.minimum(epsilon + math.log(q / p) - losses, 0.0)))
            )
        sums.append(total)
    return max(sums)


def listed(law):
    """Surviving sets with their probabilities, of differences that fall with a probability above 1e-9 or surely."""
    found, m = {}, law.hazards(np.ones(law._bounds.differences, bool)).size
    waiting = [(np.ones(m, bool), np.zeros(m), 1.0)]
    while waiting:
        kept, seen, chance = waiting.pop()
        now = law.hazards(kept)
        falls = -np.expm1(np.minimum(seen - now, 0.0))
        open_ones = np.flatnonzero((falls > 1e-9) & (falls < 1.0 - 1e-9))
        assert len(open_ones) <= 8
        sure = kept & (falls <= 1.0 - 1e-9)
        stays = math.exp(-float((now - seen)[sure & (falls <= 1e-9)].sum()))
        for size in range(len(open_ones) + 1):
            for gone in itertools.combinations(open_ones.tolist(), size):
                left = sure.copy()
                left[list(gone)] = False
                p = chance * stays * math.prod(falls[i] if i in gone else 1.0 - falls[i] for i in open_ones)
                if (left != kept).any() and 2 * np.sum(~left) < law._bounds.levels:
                    waiting.append((left, now, p))
                else:
                    found[tuple(left.tolist())] = found.get(tuple(left.tolist()), 0.0) + p
    return found.items()


def data_far_below_thresholds(n):
    """Records at -1, 0 and 1 whose differences all surely survive, and the size of one at the median threshold."""
    bounds, x = MECHANISM.bounds(n), np.zeros((n, 1))
    x[: n // 2 : 3], x[1 : n // 2 : 3] = 1.0, -1.0
    return x, math.sqrt(2.0 / 3.0 * bounds.threshold(0))


@pytest.mark.parametrize("near", [0.9, 1.0, 1.2])
@pytest.mark.parametrize("star", [0.5, pytest.param(30.0, marks=pytest.mark.nightly)])
def test_exact_delta_holds_even_if_the_set_is_seen(near, star):
    """Theorem 3 where three differences are near their thresholds, and one record moves out, or far out."""
    x, unit = data_far_below_thresholds(MECHANISM.least_records)
    x[-3 - len(x) // 2 : -len(x) // 2, 0] = near * unit
    x_prime, place = x.copy(), 302
    x_prime[place] = star * unit
    assert x[place] == 0.0
    law, law_prime = MECHANISM(x), MECHANISM(x_prime)
    assert revealed(law, law_prime, place, 0.0) > 1e-4
    assert revealed(law, law_prime, place, 4.0) <= 0.02


def test_the_parts_of_the_claim_add_up():
    """Theorem 3: test, survivors and release share epsilon, and with the threshold out of range, delta."""
    n = 3 * MECHANISM.least_records
    bounds, quarter = MECHANISM.bounds(n), 0.02 / 4.0
    left = 4.0 - MECHANISM.test.epsilon - bounds.loss(quarter)
    assert MECHANISM.noise(n) == release_scale(bounds, left, quarter)
    assert MECHANISM.test.delta == bounds.chance == quarter


def test_worst_pair_has_an_exact_law_within_the_claim():
    mechanism = PrunedMean(4.0, 0.01, outlier=6.0, dimension=2)
    pair = mechanism.worst_pairs()[0]
    mechanism.adjacency.check(pair)
    law, law_prime = mechanism(pair.x), mechanism(pair.x_prime)
    assert 0.3 * 4.0 < exact.epsilon(law, law_prime, 0.01) < 4.0
    assert exact.delta(law, law_prime, 4.0) <= 0.01
    result = audit(mechanism, [pair], trials=20_000, seed=1, n_jobs=1)
    assert 0.0 < result.lower_bound < result.exact


def test_thresholds_without_noise_are_refuted():
    """A right mechanism would be refuted with probability 1e-4."""
    wrong = FixedThresholds(4.0, 0.01, outlier=12.0, dimension=2)
    pair = wrong.worst_pairs()[0]
    wrong.adjacency.check(pair)
    assert exact.delta(wrong(pair.x), wrong(pair.x_prime), 4.0) > 0.3
    result = audit(wrong, [pair], trials=20_000, confidence=1.0 - 1e-4, seed=1, n_jobs=1)
    assert result.violates_claim


def small_law(near=1.0):
    """One difference falls in half of the draws, one in nearly all, and all others surely stay."""
    x, unit = data_far_below_thresholds(MECHANISM.least_records)
    x[0], x[3] = near * unit, 1.1 * unit
    return MECHANISM(x)


def test_draws_follow_the_mixture():
    """Frequencies of each surviving set within 5 standard errors, and means and refusals given it."""
    law, size = small_law(), 40_000
    expected = dict(listed(law))
    assert sum(p > 0.01 for p in expected.values()) >= 2
    seen = dict.fromkeys(expected, 0)
    for kept, places in law._survivors(size, np.random.default_rng(1)):
        seen[tuple(kept.tolist())] += len(places)
    for kept, p in expected.items():
        assert abs(seen[kept] - size * p) <= 5.0 * math.sqrt(size * p * (1.0 - p)) + 1e-3
    draws = law.sample(size, np.random.default_rng(2))
    refused = sum(p * math.exp(law.given(np.array(kept)).log_refuses) for kept, p in listed(law))
    assert abs(np.isnan(draws).mean() - refused) < 2.5 / math.sqrt(size)


def test_the_law_is_not_called_exact_where_no_set_is_sure():
    law = small_law()
    kept, chance = law.surest
    assert chance == pytest.approx(dict(listed(law))[tuple(kept.tolist())])
    assert not kept[3]
    with pytest.raises(NotKnownError, match="is not known"):
        exact.delta(law, small_law(0.9), 1.0)


def test_surviving_sets_and_means_follow_affine_maps():
    mechanism = PrunedMean(4.0, 0.02, outlier=6.0, dimension=2, spread=0.05)
    rng = np.random.default_rng(3)
    x = rng.choice([-0.5, 0.0, 0.5], (mechanism.least_records, 2))
    x[0] = 50.0
    change, shift = np.array([[1e3, 2.0], [0.0, 1e-3]]), np.array([5.0, -7.0])
    one, other = mechanism(x), mechanism(x @ change.T + shift)
    assert one.surest[0].tolist() == other.surest[0].tolist()
    assert np.sum(~one.surest[0]) > 0
    law, moved = one.given(one.surest[0]), other.given(other.surest[0])
    assert law.log_passes > -math.inf
    assert moved.mean == pytest.approx(change @ law.mean + shift, rel=1e-9)
    assert moved.covariance == pytest.approx(change @ law.covariance @ change.T, rel=1e-8)


def test_neighbours_given_one_set_are_as_close_as_lemmas_2_and_4_say():
    """The changed difference stays in both, or in one: means within Delta, covariances within gamma."""
    n = MECHANISM.least_records
    bounds = MECHANISM.bounds(n)
    for seed, size in itertools.product(range(5), (0.5, 1.5, 20.0)):
        x = np.random.default_rng(seed).normal(size=(n, 1)).clip(-1.0, 1.0)
        x_prime = x.copy()
        x_prime[400] = size
        kept = np.ones(bounds.differences, bool)
        kept_prime = kept.copy()
        kept_prime[400] = size < 5.0
        a, b = PrunedStableMean(x, bounds, kept), PrunedStableMean(x_prime, bounds, kept_prime)
        assert abs(a.score - b.score) <= 2
        assert 1.0 - bounds.covariance <= (a.covariance / b.covariance).item() <= 1.0 / (1.0 - bounds.covariance)
        assert abs(a.mean - b.mean).item() <= bounds.mean * math.sqrt(a.covariance.item())


def test_dropped_differences_count_twice_and_the_others_are_not_weighted_anew():
    x, _ = data_far_below_thresholds(MECHANISM.least_records)
    kept = np.ones(len(x) // 2, bool)
    kept[:3] = False
    fit = PrunedStableMean(x, MECHANISM.bounds(len(x)), kept)
    assert fit.covariance_score == 6
    assert fit.covariance.item() == pytest.approx(np.sum(np.square(fit.differences[3:])) / len(kept))


def test_bad_input_is_refused_in_a_sentence():
    with pytest.raises(AuditError, match="spread of log-thresholds"):
        PrunedMean(4.0, 0.01, outlier=6.0, dimension=2, spread=0.0)
    with pytest.raises(AuditError, match="lambda_0"):
        PrunedMean(4.0, 0.01, outlier=-1.0, dimension=2)
    with pytest.raises(AuditError, match="the guarantee needs at least"):
        MECHANISM(np.zeros((50, 1)))
    with pytest.raises(AuditError, match="must be finite"):
        MECHANISM(np.full((50_000, 1), np.nan))


def test_data_in_a_subspace_are_refused_surely():
    mechanism = PrunedMean(4.0, 0.02, outlier=6.0, dimension=2)
    law = mechanism(np.ones((mechanism.least_records, 2)))
    assert np.isnan(law.sample(5, np.random.default_rng(0))).all()
    assert isinstance(law, PrunedLaw)
    assert law.surest[1] == 1.0
