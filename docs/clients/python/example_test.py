"""Frozen tests of a correct noisy count and of a count with half of the required noise.

Run them with `python -m unittest example_test` or with pytest.
"""

import pathlib
import unittest

import epsaudit_frozen

COUNT = pathlib.Path(__file__).resolve().parents[1] / "count.json"


def count(scale):
    """Return a mechanism that counts records and adds Laplace noise of the given scale."""
    return lambda data, rng: len(data) + scale * (rng.expovariate(1.0) - rng.expovariate(1.0))


class CountTest(unittest.TestCase):
    """The frozen test passes for the correct noise and refutes half of the noise."""

    def test_the_right_noise_passes(self):
        """The correct noise is not refuted; otherwise `check` raises `Refuted`."""
        print(epsaudit_frozen.read(COUNT).check(count(1.0), seed=1))

    def test_half_the_noise_is_refuted(self):
        """Half of the noise is refuted, which shows that the test above can fail."""
        with self.assertRaises(epsaudit_frozen.Refuted) as refuted:
            epsaudit_frozen.read(COUNT).check(count(0.5), seed=1)
        print(refuted.exception)
