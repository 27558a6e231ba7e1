"""The rules by which tests of other libraries decide whether noise is correct, beside the tests of epsaudit.

Each rule is a function of the scale of Laplace noise, given as a ratio to the correct scale at epsilon = 1. The rule
draws the samples that its source draws and returns whether it rejects the noise. All rules are reimplemented from the
named sources, and their docstrings say which parts are simplified. The rules of opendp and Tumult see only the noise
and know its law, so they could not detect a wrong sensitivity. The rules stand in a module of their own, so that each
rule can be compared with its source.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import kstwo, laplace, norm

from epsaudit import PureDP, audit_sequentially
from epsaudit.array_types import Floats
from epsaudit.errors import PowerWarning
from epsaudit.mechanisms.additive import Laplace
from epsaudit.tools.testing.freezing import freeze

EPSILON = 1.0
FALSE_ALARM, RUNS = 1e-6, 100_000
"""Default false-alarm probability and number of runs of the fixture ``privacy_audit``. The first check of a test gets
half of the false-alarm probability."""


@dataclass(frozen=True)
class Rule:
    """A test of noise.

    Attributes
    ----------
    name : str
        The library or tool whose rule this is.
    runs : int
        Largest number of runs, on both datasets together.
    rejects : function of (ratio, rng)
        Returns whether the rule rejects noise whose scale is ``ratio`` times the correct one.
    """

    name: str
    runs: int
    rejects: Callable[[float, np.random.Generator], bool]


def distance(sample: ArrayLike, scale: float) -> float:
    """Return the Kolmogorov-Smirnov distance between a sample and the law of Laplace noise of this scale.

    Examples
    --------
    >>> round(distance([0.0, 0.0], 1.0), 3)
    0.5
    """
    law = laplace.cdf(np.sort(sample), scale=scale)
    steps = np.arange(len(law) + 1) / len(law)
    return float(max(np.max(steps[1:] - law), np.max(law - steps[:-1])))


def opendp(ratio: float, rng: np.random.Generator) -> bool:
    """Apply the rule of opendp: a Kolmogorov-Smirnov test of 5,000 samples at level 1e-6.

    The source is `check_kolmogorov_smirnov` in opendp's rust/src/traits/samplers.
    """
    return distance(rng.laplace(scale=ratio, size=5_000), 1.0) > kstwo(5_000).isf(1e-6)


def tumult(ratio: float, rng: np.random.Generator) -> bool:
    """Apply the rule of Tumult Core: Kolmogorov-Smirnov tests of 100,000 samples at level 1e-20.

    The test must accept the correct scale, and must reject a scale that is 30 % smaller and one that is 30 % larger.
    The source is test/system/noise_distribution_tests and `run_test_using_ks_test`.
    """
    sample = rng.laplace(scale=ratio, size=100_000)
    good, less, more = (kstwo.sf(distance(sample, scale), 100_000) for scale in (1.0, 0.7, 1.3))
    return not (good > 1e-20 and less < 1e-20 and more < 1e-20)


def diffprivlib(ratio: float, rng: np.random.Generator) -> bool:
    """Apply the rule of diffprivlib: compare P[M(0) <= 0] and P[M(1) <= 0] in 10,000 runs each.

    The first probability must exceed the second, and must be at most e^epsilon times the second plus 0.1. The source is
    `test_neighbours` of tests/mechanisms/test_Laplace.py in IBM's differential-privacy-library.
    """
    first, second = (np.mean(at + rng.laplace(scale=ratio, size=10_000) <= 0.0) for at in (0.0, 1.0))
    return bool(first <= second or first > np.exp(EPSILON) * second + 0.1)


def google(ratio: float, rng: np.random.Generator) -> bool:
    """Apply the rule of Google's stochastic tester: compare histograms of 10,000 samples on neighbouring datasets.

    There are 50 datasets of three records, whose records are left out one after the other. A pair fails if, in some
    bin, one count exceeds e^epsilon times the other beyond confidence bands at 5 % for both histograms. The rule
    rejects if more than a twentieth of the pairs fail. The source is cc/testing/stochastic_tester.h of Google's
    differential-privacy. Simplified: the noise is added to the real count, and the values of the records, on which the
    count does not depend, are not drawn.
    """
    failed = 0
    for _ in range(50):
        samples = [size + rng.laplace(scale=ratio, size=10_000) for size in (3, 2, 1, 0)]
        failed += sum(violates(x, y) for x, y in itertools.pairwise(samples))
        if failed > 0.05 * 150:
            return True
    return False


def violates(x: Floats, y: Floats) -> bool:
    """Return whether `CheckDpPredicate` of Google's tester finds a violation between two samples of equal size."""
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    width = float(np.mean([2.0 * np.subtract(*np.quantile(one, [0.75, 0.25])) / np.cbrt(len(one)) for one in (x, y)]))
    bins = max(2, int(np.ceil((high - low) / width)))
    shares = [np.bincount(((one - low) / width).astype(int), minlength=bins) / len(one) for one in (x, y)]
    band = norm.isf(0.05 / 2.0 / bins) * np.sqrt(bins / len(x)) / 2.0
    lower, upper = ([(np.sqrt(share * bins) + sign * band) ** 2 / bins for share in shares] for sign in (-1.0, 1.0))
    odds = np.exp(EPSILON)
    return bool(
        np.any((shares[0] > 0.0) & (lower[0] > odds * upper[1]))
        or np.any((shares[1] > 0.0) & (lower[1] > odds * upper[0]))
    )


def fixture(ratio: float, rng: np.random.Generator) -> bool:
    """Apply the first check of a test with the fixture ``privacy_audit``, with the default settings."""
    mechanism, seed = Laplace(EPSILON / ratio), int(rng.integers(1 << 32))
    found = audit_sequentially(
        mechanism, claim=PureDP(EPSILON), trials=RUNS, confidence=1.0 - FALSE_ALARM / 2.0, seed=seed, n_jobs=1
    )
    return found.violates_claim


def frozen_rule(seed: int) -> Rule:
    """Return the rule of a frozen test that was trained on correct noise, with the default settings."""
    test = freeze(Laplace(EPSILON), seed=seed)

    def rejects(ratio: float, rng: np.random.Generator) -> bool:
        with warnings.catch_warnings():
            # other noise makes the frozen test warn that it is stale, which is not a rejection
            warnings.simplefilter("ignore", PowerWarning)
            return test.check(Laplace(EPSILON / ratio), seed=int(rng.integers(1 << 32))).refuted

    return Rule("epsaudit, frozen test", test.runs, rejects)


def rules(seed: int) -> list[Rule]:
    """Return all rules, those of epsaudit first."""
    return [
        Rule("epsaudit, privacy_audit", RUNS, fixture),
        frozen_rule(seed),
        Rule("Tumult Core", 100_000, tumult),
        Rule("opendp", 5_000, opendp),
        Rule("Google, stochastic tester", 50 * 4 * 10_000, google),
        Rule("diffprivlib", 20_000, diffprivlib),
    ]
