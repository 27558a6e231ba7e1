"""Medians compared: every quantile against draws, the local sensitivity of Gaussian data, and nearly tight coverage."""

import math

import numpy as np
import pytest

from epsaudit.experiments.inverse_accuracy import EPSILON
from epsaudit.experiments.medians import BETA, CAUCHY, DELTA, INVERSE, LAPLACE, SMOOTH, error_quantiles
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses
from epsaudit.mechanisms.stability import SmoothMedianCauchy, SmoothMedianLaplace, StableMedian

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
