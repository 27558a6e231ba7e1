"""The study of how soon sequential audits refute: others' laws, the least number of runs, what it says."""

import math

import numpy as np
import pytest

from epsaudit import PureDP
from epsaudit.experiments.sequential import Case, fastest_growth
from epsaudit.experiments.sequential_published import LEAST_SIZE, NoisyMean
from epsaudit.mechanisms.broken.additive import LaplaceHalfNoise


@pytest.mark.parametrize("noise", ["laplace", "norm"])
@pytest.mark.parametrize("noisy_size", [False, True])
def test_densities_are_those_of_what_is_drawn(noise, noisy_size):
    """In bins of distances from 0 to 1e17; more than five standard errors off with a probability below 1e-5."""
    law, draws = NoisyMean(noise, noisy_size, 0.1)((0.0, 1.0)), 100_000
    distance = np.abs(law.sample(draws, np.random.default_rng(1)) - 0.5)
    ends = np.array([0.0, 1.0, 10.0, 1e2, 1e4, 1e8, 1.0 / LEAST_SIZE, 1e17])
    seen = np.histogram(distance, ends)[0] / draws
    for low, high, share in zip(ends[:-1], ends[1:], seen, strict=True):
        at = np.geomspace(max(low, 1e-7), high, 4001)
        density = 2.0 * np.exp(law.log_density(0.5 + at))
        mass = float(np.sum((density[1:] + density[:-1]) / 2.0 * np.diff(at)))
        assert abs(share - mass) < 5.0 * math.sqrt(mass / draws) + 2e-4, (low, high)


def test_the_least_number_of_runs_is_that_of_the_page_on_power():
    """Half of the noise: 70 runs at 5 %, from 200,000 draws."""
    growth = fastest_growth(Case("half", LaplaceHalfNoise(1.0), PureDP(1.0)))
    assert math.log(20.0) / growth == pytest.approx(70.0, rel=0.01)
