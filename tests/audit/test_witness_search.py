"""Choosing among pairs by successive halving, 'all' witnesses, and the oracle. Seeds are fixed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from epsaudit import AuditError, DatasetPair, PureDP, audit, vectorized
from epsaudit.certificates import Box
from epsaudit.copies import COUNTED_AGAIN
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.broken.floating import LaplaceInDoubles
from epsaudit.witnesses import Choice, Oracle, Witness, choose, event_from_dict
from epsaudit.witnesses.classifiers import Classifiers, boosted_tree
from epsaudit.witnesses.events import Interval, Region
from epsaudit.witnesses.features import Coordinate, feature_from_dict, feature_to_dict
from epsaudit.witnesses.releases import releases_of
from epsaudit.witnesses.scores import Tails
from epsaudit.witnesses.smoothing import Binned, smooth


def one_leaky_pair(data, size, rng):
    return rng.normal(size=size) + 2.0 * (data == 37)


def test_one_leaking_pair_among_forty_is_found_and_certified_within_the_budget():
    drawn = []

    def counted(data, size, rng):
        drawn.append(size)
        return one_leaky_pair(data, size, rng)

    pairs = [DatasetPair(i, i + 0.5) for i in range(40)]
    mechanism = vectorized(counted, claim=PureDP(0.5))
    result = audit(mechanism, pairs, trials=60_000, confidence=0.999, seed=3, n_jobs=1)
    assert result.pair == "37 against 37.5"
    assert result.violates_claim
    assert sum(drawn) <= 60_000 + COUNTED_AGAIN


def test_halving_finds_nothing_where_no_pair_leaks():
    pairs = [DatasetPair(i, i + 0.5) for i in range(12)]
    mechanism = vectorized(one_leaky_pair, claim=PureDP(0.05))
    assert not audit(mechanism, pairs, trials=20_000, confidence=0.999, seed=3, n_jobs=1).violates_claim


def test_too_many_pairs_for_the_trials_are_refused():
    pairs = [DatasetPair(i, i + 0.5) for i in range(40)]
    with pytest.raises(AuditError, match="too few for 40 pairs"):
        audit(vectorized(one_leaky_pair, claim=PureDP(1.0)), pairs, trials=500, seed=1)


def test_auto_takes_doubles_for_real_numbers_and_all_does_not():
    mechanism = LaplaceInDoubles(1.0)
    assert not audit(mechanism, trials=20_000, confidence=0.999, seed=1, n_jobs=1).violates_claim
    assert audit(mechanism, trials=20_000, confidence=0.999, seed=1, n_jobs=1, witnesses="all").violates_claim


def test_the_oracle_is_asked_by_name_and_not_beaten_by_much():
    mechanism = Laplace(1.0)
    pair = mechanism.worst_pairs()[0]
    oracle = Oracle(mechanism(pair.x), mechanism(pair.x_prime))
    known = audit(mechanism, trials=100_000, seed=4, n_jobs=1, witnesses=[oracle]).lower_bound
    assert audit(mechanism, trials=100_000, seed=4, n_jobs=1).lower_bound == pytest.approx(known, abs=0.02)
    with pytest.raises(AuditError, match="log_density"):
        Oracle(object(), object())


def test_learnt_scores_survive_json_and_name_what_carries_them():
    rng = np.random.default_rng(2)
    x, x_prime = rng.normal(size=(3000, 4)), rng.normal(size=(3000, 4)) + np.array([0.0, 0.0, 1.5, 0.0])
    x[:50, 1], x[50:90, 0] = np.nan, np.inf
    for score in Classifiers().fit(x, x_prime):
        event = score.at_least(0.1)
        assert np.array_equal(event_from_dict(event.to_dict()).contains(x), event.contains(x))
        assert feature_from_dict(feature_to_dict(score.feature)) == score.feature
        assert "y[2]" in str(event)


def binned(log_ratio, pooled, rng):
    counts = rng.binomial(pooled.astype(int), expit(log_ratio)).astype(float)
    return Binned(counts, pooled - counts)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("log_ratio", "tail"), [(lambda y: np.clip(1 - 2 * y, -1, 1), 1.0), (lambda y: 0.5 - y, None)])
def test_a_curve_ends_flat_where_the_loss_is_bounded_and_goes_on_where_it_is_not(seed, log_ratio, tail):
    centres = np.linspace(-6.0, 6.0, 145)
    pooled = np.round(100_000 * np.exp(-np.abs(centres)) / np.sum(np.exp(-np.abs(centres))))
    rng = np.random.default_rng(seed)
    curve = smooth(centres, *(binned(log_ratio(centres), pooled, rng) for _ in range(2)))
    wrong = np.abs(curve.log_ratio - log_ratio(centres))[[0, -1]]
    assert np.all(wrong < (0.08 if tail else 0.4))
    assert np.all(curve.standard_error[[0, -1]] < 0.15)


def test_a_rare_event_frequent_by_chance_is_validated_and_a_common_one_is_not():
    by_chance = Choice(Witness(Region(intervals=(Interval(),)), None), Box(), predicted=0.4, by_counts=0.0)
    common = replace(by_chance, by_counts=0.38)
    assert by_chance.needs_validation(0.4)
    assert not common.needs_validation(0.4)
    assert common.needs_validation(0.6)


def test_the_bound_by_counts_is_small_for_noise_and_large_for_thousands():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(20, 2, 20_000))  # one law for x and x': all differences are chance
    by_chance = [choose([Tails()], *pair, PureDP(1.0), 1_000_000, 0.95) for pair in noise]
    assert max(choice.by_counts for choice in by_chance) == 0.0
    laplace = rng.laplace(0.0, size=20_000), rng.laplace(1.0, size=20_000)
    clear = choose([Tails()], *laplace, PureDP(1.0), 1_000_000, 0.95)
    assert clear.by_counts > 0.85 * clear.predicted > 0.7


def test_an_event_whose_counts_contradict_the_curve_is_judged_by_its_counts():
    rng = np.random.default_rng(21)  # a far tail has 35 outputs of x and 4 of x', and a curve that says 29 and 10
    laplace = rng.laplace(0.0, size=20_000), rng.laplace(1.0, size=20_000)
    choice = choose([Tails()], *laplace, PureDP(1.0), 1_000_000, 0.95)
    assert choice.predicted < 1.01
    assert choice.by_counts > 0.85


def test_scores_are_learnt_again_from_many_more_outputs_where_a_learnt_one_is_shortlisted():
    """The leak is in three of ten coordinates, and too weak to be learnt well from a twentieth of the runs."""

    def leaky(data, size, rng):
        return rng.normal(size=(size, 10)) + data * np.array([0.15, -0.1, 0.2] + [0.0] * 7)

    fitted_on = []

    class Counting(Classifiers):
        def fit(self, outputs, outputs_prime):
            fitted_on.append(len(outputs))
            return super().fit(outputs, outputs_prime)

    result = audit(
        vectorized(leaky), DatasetPair(0, 1), claim=PureDP(0.1), trials=200_000, seed=1, witnesses=[Counting()]
    )
    assert fitted_on == [5_000, 10_000 + 8_000]
    assert result.lower_bound > 0.3


def test_released_numbers_are_read_off_vectors_with_holes_only():
    full = np.random.default_rng(0).normal(size=(200, 4))
    holes = full.copy()
    holes[:100, :2] = -np.inf
    assert releases_of(full, full, 4) == []
    assert [feature.label for feature in releases_of(holes, full, 4)] == [
        "place of the first number",
        "first number",
        "place of the last number",
        "last number",
    ]
    for feature in releases_of(holes, full, 4):
        assert feature_from_dict(feature_to_dict(feature)) == feature


def test_numbers_beyond_single_precision_are_learnt_from():
    """scikit-learn's trees hold single precision, and refuse 1e300 as infinite; found by test_normal_form.py."""
    rng = np.random.default_rng(1)
    outputs = rng.choice([1e300, -1e300, np.inf, np.nan, 2.5], size=(400, 2))
    tree = boosted_tree([Coordinate(0), Coordinate(1)], outputs, np.where(outputs > 0, outputs, 2.5), leaves=8)
    assert np.isfinite(tree(outputs)).all()
