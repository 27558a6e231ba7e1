"""How the tests of other libraries decide whether noise is right, beside those here: rules, each a function of noise.

What enters is how much Laplace noise there is, as a share of the right one at epsilon = 1; a rule draws what its source
draws, and says whether it rejects. The rules are written anew from their sources, which are named; what is simplified
is said. Those of opendp and Tumult see the noise alone and know its law: they could not see a wrong sensitivity.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kstwo, laplace, norm

from epsaudit import PureDP, audit_sequentially
from epsaudit.errors import PowerWarning
from epsaudit.mechanisms.additive import Laplace
from epsaudit.tools.testing import frozen

Floats = NDArray[np.float64]
EPSILON = 1.0
FALSE_ALARM, RUNS = 1e-6, 100_000
"""Of the fixture ``privacy_audit``, unless told otherwise; the first check of a test gets half of the former."""


@dataclass(frozen=True)
class Rule:
    """A test of noise.

    Attributes
    ----------
    name : str
        Whose it is.
    runs : int
        Runs on both datasets that it takes at most.
    rejects : function of (ratio, rng)
        Whether it rejects noise of ``ratio`` times the right scale.
    """

    name: str
    runs: int
    rejects: Callable[[float, np.random.Generator], bool]


def distance(sample: ArrayLike, scale: float) -> float:
    """Kolmogorov-Smirnov distance of a sample to Laplace noise of this scale.

    Examples
    --------
    >>> round(distance([0.0, 0.0], 1.0), 3)
    0.5
    """
    law = laplace.cdf(np.sort(sample), scale=scale)
    steps = np.arange(len(law) + 1) / len(law)
    return float(max(np.max(steps[1:] - law), np.max(law - steps[:-1])))


def opendp(ratio: float, rng: np.random.Generator) -> bool:
    """5,000 samples, Kolmogorov-Smirnov at 1e-6: `check_kolmogorov_smirnov` in opendp's rust/src/traits/samplers."""
    return distance(rng.laplace(scale=ratio, size=5_000), 1.0) > kstwo(5_000).isf(1e-6)


def tumult(ratio: float, rng: np.random.Generator) -> bool:
    """100,000 samples: the right scale must pass Kolmogorov-Smirnov at 1e-20, and 30 % less and more must not.

    Tumult Core, test/system/noise_distribution_tests and `run_test_using_ks_test`.
    """
    sample = rng.laplace(scale=ratio, size=100_000)
    good, less, more = (kstwo.sf(distance(sample, scale), 100_000) for scale in (1.0, 0.7, 1.3))
    return not (good > 1e-20 and less < 1e-20 and more < 1e-20)


def diffprivlib(ratio: float, rng: np.random.Generator) -> bool:
    """10,000 runs each: P[M(0) <= 0] must exceed P[M(1) <= 0], by e^epsilon times and 0.1 at most.

    IBM's differential-privacy-library, `test_neighbours` of tests/mechanisms/test_Laplace.py.
    """
    first, second = (np.mean(at + rng.laplace(scale=ratio, size=10_000) <= 0.0) for at in (0.0, 1.0))
    return bool(first <= second or first > np.exp(EPSILON) * second + 0.1)


def google(ratio: float, rng: np.random.Generator) -> bool:
    """50 datasets of three records, of which one after the other is left out, 10,000 samples of each: histograms.

    Google's differential-privacy, cc/testing/stochastic_tester.h. A pair fails if in some bin one count is above
    e^epsilon times the other beyond confidence bands at 5 % for both histograms; more than a twentieth of the pairs
    must fail. Simplified: the count is real, and the values of records, on which it does not depend, are not drawn.
    """
    failed = 0
    for _ in range(50):
        samples = [size + rng.laplace(scale=ratio, size=10_000) for size in (3, 2, 1, 0)]
        failed += sum(violates(x, y) for x, y in itertools.pairwise(samples))
        if failed > 0.05 * 150:
            return True
    return False


def violates(x: Floats, y: Floats) -> bool:
    """Whether `CheckDpPredicate` of Google's stochastic tester finds a violation between two samples of one size."""
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
    """The first check of a test with the fixture ``privacy_audit``, at its default terms."""
    mechanism, seed = Laplace(EPSILON / ratio), int(rng.integers(1 << 32))
    found = audit_sequentially(
        mechanism, claim=PureDP(EPSILON), trials=RUNS, confidence=1.0 - FALSE_ALARM / 2.0, seed=seed, n_jobs=1
    )
    return found.violates_claim


def frozen_rule(seed: int) -> Rule:
    """Return a frozen test that was learnt from the right noise, at its default terms."""
    test = frozen.freeze(Laplace(EPSILON), seed=seed)

    def rejects(ratio: float, rng: np.random.Generator) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PowerWarning)  # other noise makes it stale, which is no rejection
            return test.check(Laplace(EPSILON / ratio), seed=int(rng.integers(1 << 32))).refuted

    return Rule("epsaudit, frozen test", test.runs, rejects)


def rules(seed: int) -> list[Rule]:
    """All of them, ours first."""
    return [
        Rule("epsaudit, privacy_audit", RUNS, fixture),
        frozen_rule(seed),
        Rule("Tumult Core", 100_000, tumult),
        Rule("opendp", 5_000, opendp),
        Rule("Google, stochastic tester", 50 * 4 * 10_000, google),
        Rule("diffprivlib", 20_000, diffprivlib),
    ]
