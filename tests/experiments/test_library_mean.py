"""The mean of a released library as a baseline: what it answers where it is installed, and that it may be missing."""

import numpy as np
import pytest

from epsaudit.experiments import library_mean as module
from epsaudit.experiments.libraries.environments import Environment


def test_without_the_library_there_is_no_baseline(monkeypatch):
    monkeypatch.setattr(module, "LIBRARY", Environment("diffprivlib-0.6.6", ("2.7",)))
    with module.library_mean() as library:
        assert library is None


@pytest.mark.nightly
@pytest.mark.skipif(module.LIBRARY.built() is None, reason="diffprivlib 0.6.6 is not installed here")
def test_the_mean_of_clipped_columns_comes_back_with_noise_from_the_seed():
    """Laplace noise of scale 2 d bound / (n epsilon), within 30 of it; one far record is clipped."""
    data = np.full((10_000, 2), [1.0, -2.0])
    data[0] = 1e9
    with module.library_mean() as library:
        one, same, other = (library(data, 10.0, 1.0, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one == pytest.approx([1.0, -2.0], abs=30.0 * 4e-3)
    assert (one == same).all()
    assert (one != other).all()
    assert one[0] - 1.0 != pytest.approx(one[1] + 2.0, abs=1e-4)  # columns have noise of their own
