"""Candidate scores and their expected rates.

The rates use only outputs that a score was not learnt from, and treat both sides alike.
"""

import numpy as np
import pytest
from scipy import stats

from epsaudit import PureDP
from epsaudit.bounds.certificates import Box
from epsaudit.search import Bound, CandidateScore, LikelihoodRatio, Tails, best_of, candidate_scores, smoothing
from epsaudit.search.scores import Monotone
from epsaudit.search.selection import _find_undominated
from epsaudit.search.smoothing import PriorCovariances, smooth_log_odds
from epsaudit.witnesses.conditions import MAX_CONDITION_LENGTH, MAX_SIMPLE_PARTS, count_condition_parts, write_condition
from epsaudit.witnesses.parts import Value

MANY = 5_000
GROUP = np.repeat(np.array([0, 1], np.int8), MANY)


def normal(shift, seed):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(shift, size=MANY), rng.normal(size=MANY)])


def candidate(scores, out_of_fold=None, group=GROUP):
    found = CandidateScore.of(Monotone(Value(), 1), scores, group, np.ones(len(scores)), out_of_fold)
    assert found is not None
    return found


def test_fresh_outputs_are_added_to_the_counts():
    before = candidate(normal(0.5, 0))
    fresh = normal(0.5, 2)
    after = before.with_counts_of(fresh[:MANY], fresh[MANY:])
    assert after.size == 2 * MANY
    middle = len(after.thresholds) // 2
    more = np.count_nonzero(fresh[:MANY] >= after.thresholds[middle])
    assert after.upper[0, middle] == before.upper[0, middle] + more


def test_what_a_score_was_learnt_on_does_not_judge_it():
    """A score memorised its training outputs. Models that have not seen these outputs show that it reveals nothing."""
    final, out_of_fold = normal(3.0, 1), normal(0.0, 0)
    odds = []
    for one in (candidate(final), candidate(final, out_of_fold)):
        _, _, correct, wrong = one.rates()[0]
        odds.append(np.max((correct / wrong)[10:50]))
    assert odds[0] > 10.0
    assert odds[1] < 1.2


def test_tails_of_gaussian_noise_are_not_overrated():
    """The log odds of Gaussian noise grow as the probit of the rank.

    A line along the logit of the rank would be 0.1 to 0.2 too high.
    """
    shares = np.geomspace(2e-5, 0.5, 30)
    cuts, off = stats.norm.ppf(np.concatenate([shares, 1.0 - shares[-2::-1]])), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sides = np.sort(rng.normal(size=50_000)), np.sort(rng.normal(0.27, size=50_000))
        odds, _ = smooth_log_odds(np.array([np.searchsorted(side, cuts) for side in sides], float))
        off.append((odds - stats.norm.logcdf(cuts) + stats.norm.logcdf(cuts - 0.27))[[3, 6, 10]])
    assert np.max(np.abs(np.mean(off, axis=0))) < 0.06


def test_log_odds_near_the_end_of_a_support_are_followed():
    """The log odds of the maximum of five exponential variables grow as a power of the rank.

    Without lines along the hyperbolic sine, the estimates near the end of the support were 0.63 and 0.28 too low.
    """
    shares, off = np.geomspace(2e-6, 0.5, 30), []
    ends = stats.expon.ppf(np.concatenate([shares, 1.0 - shares[-2::-1]]) ** 0.2, scale=20.0)
    log_chance = 5.0 * stats.expon.logcdf([ends, ends - 1.0], scale=20.0)
    cells = np.diff(np.exp(log_chance), axis=1, prepend=0.0, append=1.0)
    for seed in range(20):
        counts = np.random.default_rng(seed).multinomial(600_000, cells)
        odds, _ = smooth_log_odds(np.cumsum(counts, axis=1)[:, :-1].astype(float))
        off.append((odds - log_chance[0] + log_chance[1])[[8, 11]])
    assert np.all(np.abs(np.mean(off, axis=0)) < [0.4, 0.15])


@pytest.mark.parametrize("seed", range(5))
def test_a_bounded_loss_is_not_overrated_in_the_tail_and_one_that_grows_is_followed(seed):
    rng = np.random.default_rng(seed)
    masses = np.geomspace(1e-5, 0.5, 30)
    bins = np.diff(masses, prepend=0.0) * 1e6
    for odds, within in ((np.full(30, 0.1), 0.05), (np.minimum(-0.2 * np.log(2 * masses), 2.0), 0.6)):
        correct = rng.poisson(bins / (1.0 + np.exp(-odds)))
        tails = np.cumsum([correct, rng.poisson(bins / (1.0 + np.exp(odds)))], axis=1).astype(float)
        estimate, error = smooth_log_odds(tails)
        truth = np.cumsum(bins / (1.0 + np.exp(-odds))) / np.cumsum(bins)
        assert np.max(np.abs(estimate - np.log(truth / (1.0 - truth)))[3:]) < within
        assert np.all(error > 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_tail_that_one_side_hardly_has_is_not_pulled_to_what_is_common(seed):
    """Of 5,000 outputs, 75 lie beyond a value, e^3 of x for each of x'.

    No single threshold has enough of these outputs alone.
    """
    rng = np.random.default_rng(seed)
    masses = np.concatenate([np.geomspace(2e-4, 0.015, 20), [0.5]])
    bins, odds = np.diff(masses, prepend=0.0) * 5_000, np.append(np.full(20, 3.0), 0.0)
    tails = np.cumsum([rng.poisson(bins / (1.0 + np.exp(side * odds))) for side in (-1, 1)], axis=1).astype(float)
    estimate, error = smooth_log_odds(tails)
    assert min(3.0, np.log(tails[0, 19] / tails[1, 19])) - estimate[19] < 0.6
    assert abs(estimate[19] - 3.0) < 4.0 * error[19]


def list_covariances(place):
    """Return all prior covariances as docs/explanation/smoothing.md states them."""
    far, same = np.abs(place), np.equal.outer(place > 0.0, place > 0.0)
    near, found = np.minimum.outer(far, far), []
    for variance in smoothing.WALK_VARIANCES:
        for plateau in smoothing.PLATEAU_LOGITS:
            found.append(smoothing.LEVEL_VARIANCE + variance * np.minimum(near, plateau) * same)
    probit = smoothing.LOGITS_PER_PROBIT * stats.norm.ppf(1.0 / (1.0 + np.exp(-place)))
    steep = np.sinh(smoothing.SINH_RATE * place) / smoothing.SINH_RATE
    few = smoothing.BEND_VARIANCES[:2]
    for along, variances in ((place, smoothing.BEND_VARIANCES), (probit, smoothing.BEND_VARIANCES), (steep, few)):
        low, high = (choose.outer(np.abs(along), np.abs(along)) for choose in (np.minimum, np.maximum))
        line = smoothing.LEVEL_VARIANCE + smoothing.LINE_VARIANCE * np.outer(along, along)
        found += [line + variance * low**2 * (3.0 * high - low) / 6.0 * same for variance in variances]
    return found


def test_the_covariance_with_the_largest_marginal_likelihood_is_selected():
    """One object selects for several observations at the same ranks, which are drawn from every covariance in turn."""
    rng, place = np.random.default_rng(0), np.linspace(-9.0, 7.0, 40)
    covariances, prior, winners = list_covariances(place), PriorCovariances(place), set()
    for covariance in covariances:
        noise = rng.uniform(1e-3, 0.1, len(place))
        raw = rng.multivariate_normal(np.zeros(len(place)), covariance + np.diag(noise))
        evidence = [stats.multivariate_normal.logpdf(raw, cov=one + np.diag(noise)) for one in covariances]
        best = int(np.argmax(evidence))
        np.testing.assert_allclose(prior.select(raw, noise), covariances[best], rtol=1e-12)
        winners.add(best)
    assert len(winners) > 10


@pytest.mark.parametrize("size", [300, 50_000, 10**8])
@pytest.mark.parametrize("apart", [1, 12, 24])
def test_log_odds_of_what_is_apart_are_no_more_than_its_counts_tell(size, apart):
    """All outputs of x are in the first levels, and all outputs of x' in the other levels."""
    weights = np.random.default_rng(0).dirichlet(np.ones(25))
    shares = np.array([weights * (np.arange(25) < apart), weights * (np.arange(25) >= apart)])
    tails = np.cumsum(np.rint(size * shares / shares.sum(axis=1, keepdims=True)), axis=1)
    estimate, error = smooth_log_odds(tails)
    assert np.all(np.isfinite(estimate))
    assert np.all(np.isfinite(error[:-1]))
    assert 0.5 * np.log(size) < estimate[0] < np.log(4.0 * size)


def test_a_box_of_either_side_is_predicted_alike():
    rare = (np.random.default_rng(0).random(5_000) < 0.02) * 1.0
    found = {}
    for side, outputs in (("x", (rare, 0.0 * rare)), ("x_prime", (0.0 * rare, rare))):
        objective = Bound(PureDP(1.0), 200_000, 0.95)
        choices = [one for score in candidate_scores([Tails()], *outputs) for one in objective.choices(score)]
        found[side] = [(one.predicted, one.optimistic, one.cautious) for one in choices if one.certificate == Box(side)]
    assert found["x"] == found["x_prime"] != []
    assert min(min(one) for one in found["x"]) > 3.0


def test_an_event_of_nearly_everything_promises_nothing():
    """In an event of nearly all outputs, the estimated rates of the two sides need not add up to 1.

    The box certificate would use their complements, and promise too much.
    """
    rng = np.random.default_rng(1)
    outputs = np.where(rng.random((2, MANY)) < [[0.001], [0.0005]], 1.0, 2.0)
    choice = best_of(candidate_scores([Tails()], *outputs), Bound(PureDP(0.3), 20_000, 0.95))
    assert choice.predicted < 1.0


def test_many_scores_without_a_difference_promise_nothing():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(10, 2, 20_000))  # x and x' have the same law, so that all differences are chance
    objective = Bound(PureDP(1.0), 1_000_000, 0.95)
    assert max(best_of(candidate_scores([Tails()], *pair), objective).predicted for pair in noise) < 0.02


def test_an_event_of_few_parts_gives_way_to_one_that_a_script_counts():
    """Seven scattered values of twenty leak together. A single value leaks only a little."""
    rng = np.random.default_rng(4)
    told = np.isin(np.arange(20), [1, 4, 5, 9, 11, 16, 18])
    outputs = [rng.choice(20, MANY, p=odds / odds.sum()) for odds in (1.0 + 2.0 * told, 3.0 - 2.0 * told)]
    scores = list(candidate_scores([Tails(), LikelihoodRatio()], *outputs))
    few, counted = (
        best_of(scores, Bound(PureDP(1.0), 20_000, 0.95), parts=most)
        for most in (MAX_SIMPLE_PARTS, MAX_CONDITION_LENGTH)
    )
    assert 0.0 < few.predicted < 1.0 < counted.predicted, "of log 3"
    assert count_condition_parts(few.witness) <= MAX_SIMPLE_PARTS < count_condition_parts(counted.witness)
    assert "plain(y) in [" in write_condition(counted.witness.guess_x)


@pytest.mark.parametrize("kinds", [1, 3, 10, 10_000])
def test_only_events_that_no_other_event_dominates_are_bounded(kinds):
    """Of events with equal counts, the first one is kept."""
    correct, wrong = np.random.default_rng(kinds).integers(kinds, size=(2, 60)).astype(float)
    kept = []
    for number, (right, false) in enumerate(zip(correct, wrong, strict=True)):
        as_good = (correct >= right) & (wrong <= false)
        better = as_good & ((correct > right) | (wrong < false))
        if not better.any() and not as_good[:number].any():
            kept.append(number)
    assert _find_undominated(correct, wrong).tolist() == kept
