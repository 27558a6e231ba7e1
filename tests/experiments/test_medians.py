"""Medians compared: every quantile against draws, the local sensitivity of Gaussian data, and nearly tight coverage."""

import math

import numpy as np
import pytest

from epsaudit.experiments import medians
from epsaudit.experiments.inverse_accuracy import AGES, EPSILON, cases
from epsaudit.experiments.medians import BETA, CAUCHY, DELTA, INVERSE, LAPLACE, SMOOTH, error_quantiles
from epsaudit.experiments.published_statements import statements
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses
from epsaudit.mechanisms.selection import ExponentialMechanism, NoisyMaxLaplace
from epsaudit.mechanisms.stability import ProposeTestRelease, SmoothMedianCauchy, SmoothMedianLaplace, StableMedian

QUERY, INTERVAL = MedianLosses(tuple(range(-300, 301))), StableMedian(-300, 300)
DATA = tuple(np.rint(100 * np.random.default_rng(5).standard_normal(401)).clip(-300, 300).astype(int).tolist())


def test_quantiles_are_exceeded_as_often_as_stated():
    """Five standard errors, a false alarm in 10^6 each; the incorrect variant, 0.8 of the error, is exceeded more."""
    runs, found = 50_000, error_quantiles(QUERY, DATA)
    rng, truth = np.random.default_rng(2), QUERY.value(DATA)
    spread = 5.0 * math.sqrt(BETA * (1.0 - BETA) / runs)
    for name, mechanism in (
        (CAUCHY, SmoothMedianCauchy(INTERVAL, EPSILON)),
        (SMOOTH, SmoothMedianLaplace(INTERVAL, EPSILON, DELTA)),
    ):
        off = np.abs(mechanism(DATA).sample(runs, rng) - truth)
        assert abs(np.mean(off > found[name]) - BETA) < spread
        assert np.mean(off > 0.8 * found[name]) > BETA + spread
    off = np.abs(InverseSensitivity(EPSILON, QUERY)(DATA).sample(runs, rng) - truth)
    assert np.mean(off > found[INVERSE]) < BETA + spread
    assert np.mean(off > found[INVERSE] - 1) > BETA - spread
    assert found[LAPLACE] == pytest.approx(600 * math.log(10.0))


def test_propose_test_release_counts_its_refusals():
    found = error_quantiles(QUERY, DATA)[medians.TESTED]
    rng, truth, shares = np.random.default_rng(3), QUERY.value(DATA), []
    for halvings in range(20):
        outputs = ProposeTestRelease(INTERVAL, EPSILON / 2, DELTA, 600 / 2**halvings)(DATA).sample(20_000, rng)
        off = np.array([math.inf if y is None else abs(y - truth) for y in outputs.tolist()])
        shares.append(np.mean(off > found))
    assert min(shares) == pytest.approx(BETA, abs=5.0 * math.sqrt(BETA / 20_000))
    assert max(shares) == 1.0  # a bound proposed too low is always refused


def test_the_local_sensitivity_of_gaussian_data_falls_as_k_over_n():
    """Against samples, and the limit k sqrt(2 pi) / n; Exponential gaps decide k = 1."""
    rows = {(row["records"], row["k"]): row for row in medians.local_sensitivities(4000, 0)}
    drawn = np.sort(np.random.default_rng(1).standard_normal((2000, 101)), axis=1)
    by_hand = np.maximum(drawn[:, 60] - drawn[:, 50], drawn[:, 50] - drawn[:, 40]) * 101 / 10
    assert rows[101, 10]["median"] == pytest.approx(np.median(by_hand), rel=0.03)
    assert rows[100_001, 2500]["median"] == pytest.approx(math.sqrt(math.tau), rel=0.05)
    greatest_of_two = -math.log(1.0 - math.sqrt(0.5)) * math.sqrt(math.tau)
    assert rows[100_001, 1]["median"] == pytest.approx(greatest_of_two, rel=0.1)
    assert all(row["99%"] < 20.0 for row in rows.values())


def test_theorem_4_fails_for_report_noisy_max():
    """The page's number is that of the mechanism itself; with the exponential mechanism the theorem holds there."""
    statement = next(one for one in statements() if one.name == "inverse sensitivity with report noisy max")
    query, right = MedianLosses(tuple(range(133))), []
    for selector in (NoisyMaxLaplace, ExponentialMechanism):
        mechanism = InverseSensitivity(1.0, query, selector)
        assert (mechanism.reach(0.01), query.local_sensitivity((50,) * 37, 18)) == (18, 0.0)
        right.append(math.exp(mechanism((50,) * 37).log_density([50])[0]))
    assert right[0] == pytest.approx(statement.exact, abs=1e-7)
    assert right[0] < 0.985 < 0.99 <= right[1]


def test_coverage_is_nearly_tight_where_all_records_are_equal():
    query, dataset = cases()["27 of one age"]
    mechanism = InverseSensitivity(EPSILON, query)
    assert (len(query.candidates), mechanism.reach(0.1), query.local_sensitivity(dataset, 13)) == (82, 13, 0.0)
    wrong = np.array(AGES.candidates) != query.value(dataset)
    fails = float(np.exp(mechanism(dataset).log_probabilities)[wrong].sum())
    assert fails == pytest.approx(81 / (81 + math.exp(7.0)))
    assert 0.068 < fails < 0.1
