"""A noisy count, right and with half the noise that it needs: `python -m unittest example_test`, or pytest."""

import pathlib
import unittest

import epsaudit_frozen

COUNT = pathlib.Path(__file__).resolve().parents[1] / "count.json"


def count(scale):
    """Mechanism that counts records with Laplace noise."""
    return lambda data, rng: len(data) + scale * (rng.expovariate(1.0) - rng.expovariate(1.0))


class CountTest(unittest.TestCase):
    """The frozen test passes the right noise, and refutes half of it."""

    def test_the_right_noise_passes(self):
        """Raises `Refuted` if not."""
        print(epsaudit_frozen.read(COUNT).check(count(1.0), seed=1))

    def test_half_the_noise_is_refuted(self):
        """So the test above can fail."""
        with self.assertRaises(epsaudit_frozen.Refuted) as refuted:
            epsaudit_frozen.read(COUNT).check(count(0.5), seed=1)
        print(refuted.exception)
