"""Registry entries of the mechanisms beyond global sensitivity: inverse sensitivity, stability, smoothness, ratios.

Parameters are chosen as in `epsaudit.mechanisms.registry`: claims nearly attained, or clearly broken, in common events.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from epsaudit.claims import ZCDP, Claim, PureDP
from epsaudit.conversions import pure_to_zcdp
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken.covariance_mean import EmpiricalMean, PublishedCovarianceAwareMean
from epsaudit.mechanisms.broken.local_sensitivity import NOTES_PAIR, POST_PAIR, LaplaceAtLocalSensitivity
from epsaudit.mechanisms.broken.noisy_max import (
    NoisyMaxAsBoundedRange,
    NoisyMaxExponentialAsBoundedRange,
    NoisyMaxWithoutFactorTwo,
)
from epsaudit.mechanisms.broken.ratio import (
    CountsRatioUnderSubstitution,
    NaiveRatioHalfNoise,
    PublishedBoundedRatio,
    PublishedTail,
)
from epsaudit.mechanisms.broken.selection import ExponentialWithoutFactorTwo
from epsaudit.mechanisms.broken.stability import (
    GapMaxAtTheGap,
    HistogramWithoutThreshold,
    PublishedMode,
    UntestedRelease,
)
from epsaudit.mechanisms.covariance_mean import CovarianceAwareMean
from epsaudit.mechanisms.histogram import StableHistogram
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses, Selector
from epsaudit.mechanisms.noisy_max import GapMax, NoisyMaxExponential, NoisyMaxGumbel, NoisyMaxLaplace
from epsaudit.mechanisms.queries import Utilities
from epsaudit.mechanisms.ratio import BoundedRatio, CountsRatio, NaiveRatio, SubstitutedCountsRatio
from epsaudit.mechanisms.selection import ExponentialMechanism, PermuteAndFlip
from epsaudit.mechanisms.smooth_sensitivity import SmoothMedianCauchy, SmoothMedianLaplace
from epsaudit.mechanisms.stability import ProposeTestRelease, StableMedian, StableMode
from epsaudit.mechanisms.tukey_mean import TukeyMean
from epsaudit.neighbours import DatasetPair
from epsaudit.registry import Entry

INVERSE_SENSITIVITY = "differentialprivacy.org, 'Beyond global sensitivity via inverse sensitivity'"
PURE_TO_ZCDP = "differentialprivacy.org, 'Tight RDP & zCDP bounds from pure DP', Theorem 5"
BOUNDED_RANGE = "differentialprivacy.org, 'A better privacy analysis of the exponential mechanism'"
LOCAL_SENSITIVITY = "'Privately bounding local sensitivity' (2024)"
STABILITY_NOTES = "lecture notes on propose-test-release"
AFFINE = "Brown, Hopkins and Smith 2023"
TUKEY = "Brown, Gaboardi, Smith, Ullman and Zakynthinou 2021"
SMOOTH = "Nissim, Raskhodnikova and Smith 2007"

SELECTORS: dict[str, tuple[Callable[[float, Utilities], Selector], str]] = {
    "exponential": (ExponentialMechanism, "Theorem 2"),
    "permute-and-flip": (PermuteAndFlip, "note 7; McKenna and Sheldon 2020, Theorem 1"),
    "noisy-max-laplace": (NoisyMaxLaplace, "note 7; Dwork and Roth 2014, Claim 3.9"),
    "noisy-max-exponential": (NoisyMaxExponential, "note 7; Ding et al. 2021"),
    "noisy-max-gumbel": (NoisyMaxGumbel, "note 7; Gumbel noise is the exponential mechanism"),
    "gap-max": (GapMax, "note 7; Chaudhuri, Hsu and Song 2014"),
}
MEDIAN = MedianLosses(tuple(range(32)))
INTERVAL = StableMedian(0.0, 100.0)


def entries() -> list[Entry]:
    """Every mechanism of the family: the sound ones first, then those under ``broken/``.

    Examples
    --------
    >>> [entry.name for entry in entries()][:2]
    ['inverse-median-exponential', 'inverse-median-exponential-zcdp']
    """
    return [*_inverse(), *_noisy_max(), *_stable(), *_smooth(), *_means(), *_ratios(), *_broken()]


def _inverse() -> list[Entry]:
    rows = []
    for name, (selector, source) in SELECTORS.items():
        mechanism = InverseSensitivity(1.0, MEDIAN, selector)
        rows += _claims(f"inverse-median-{name}", mechanism, f"{INVERSE_SENSITIVITY}, {source}")
    return rows


def _noisy_max() -> list[Entry]:
    return [
        *_claims("noisy-max-laplace", NoisyMaxLaplace(1.0), "Dwork and Roth 2014, Claim 3.9"),
        *_claims("noisy-max-exponential", NoisyMaxExponential(1.0), "Ding et al. 2021"),
        *_claims("noisy-max-gumbel", NoisyMaxGumbel(1.0), BOUNDED_RANGE),
        *_claims("gap-max", GapMax(1.0), "Chaudhuri, Hsu and Song 2014; Bun, Dwork, Rothblum and Steinke 2018"),
    ]


def _stable() -> list[Entry]:
    ptr = f"{STABILITY_NOTES}; Dwork and Lei 2009"
    return [
        *_claims("ptr-median", ProposeTestRelease(INTERVAL, 0.5, 1e-3, bound=1.0), ptr),
        *_claims("ptr-median-reals", ProposeTestRelease(StableMedian(), 0.5, 1e-3, bound=1.0), ptr),
        *_claims("ptr-mode", ProposeTestRelease(StableMode(), 1.0, 1e-3), f"{STABILITY_NOTES}, mode, corrected"),
        *_each_pair("stable-histogram", StableHistogram(1.0, 1e-3), f"{STABILITY_NOTES}, stable histograms"),
    ]


def _smooth() -> list[Entry]:
    return [
        *_claims("smooth-median-cauchy", SmoothMedianCauchy(INTERVAL, 1.0), f"{SMOOTH}, Lemma 2.7, loss computed"),
        *_claims("smooth-median-laplace", SmoothMedianLaplace(INTERVAL, 1.0, 1e-3), f"{SMOOTH}, Lemma 2.9"),
    ]


def _means() -> list[Entry]:
    aware = CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=2)
    return [
        *_claims("covariance-aware-mean", aware, f"{AFFINE}, Algorithms 1 to 3, constants derived anew"),
        *_claims("tukey-mean", TukeyMean(4.0, 0.01), f"{TUKEY}, Section 3, constants derived anew"),
    ]


def _ratios() -> list[Entry]:
    counts = f"{LOCAL_SENSITIVITY}; Kulesza, Suresh and Wang 2024, Algorithm 3"
    return [
        *_claims("ratio-naive", NaiveRatio(1.0), LOCAL_SENSITIVITY),
        *_claims("ratio-bounded", BoundedRatio(1.0, 1e-6), f"{LOCAL_SENSITIVITY}, Theorem 2, corrected"),
        *_claims("ratio-counts", CountsRatio(1.0), counts),
        *_claims("ratio-counts-substitution", SubstitutedCountsRatio(1.0), counts),
    ]


def _broken() -> list[Entry]:
    variants: list[tuple[str, Reference, str, str]] = [
        (
            "inverse-median-factor-two",
            InverseSensitivity(1.0, MEDIAN, ExponentialWithoutFactorTwo),
            f"{INVERSE_SENSITIVITY}, Theorem 2, misapplied",
            "weight exp(-epsilon loss), not exp(-epsilon loss / 2)",
        ),
        (
            "noisy-max-factor-two",
            NoisyMaxWithoutFactorTwo(1.0),
            "Dwork and Roth 2014, Claim 3.9, for utilities that are not monotone",
            "scale 1/epsilon where one utility falls and another rises",
        ),
        (
            "noisy-max-bounded-range",
            NoisyMaxAsBoundedRange(1.0),
            f"{BOUNDED_RANGE}, for another mechanism",
            "the exponential mechanism's epsilon^2/8-zCDP; Laplace noise",
        ),
        (
            "noisy-max-exponential-bounded-range",
            NoisyMaxExponentialAsBoundedRange(1.0),
            f"{BOUNDED_RANGE}, for another mechanism",
            "the exponential mechanism's epsilon^2/8-zCDP; exponential noise",
        ),
        (
            "gap-max-at-the-gap",
            GapMaxAtTheGap(1.0, delta=1e-2),
            "Chaudhuri, Hsu and Song 2014, misapplied",
            "distance one too long",
        ),
        (
            "ptr-untested",
            UntestedRelease(INTERVAL, 0.5, 1e-3, bound=1.0),
            f"{STABILITY_NOTES}, step 3 left out",
            "refuses by the exact distance",
        ),
        (
            "mode-published",
            ProposeTestRelease(PublishedMode(), 2.0, 1e-2),
            f"{STABILITY_NOTES}, mode, as published",
            "the lead is one more than the distance: delta e^epsilon / 2 in truth",
        ),
        (
            "histogram-without-threshold",
            HistogramWithoutThreshold(1.0, 1e-3),
            f"{STABILITY_NOTES}, named there as the mistake to avoid",
            "a key that only one record has always shows",
        ),
        (
            "median-local-sensitivity-post",
            LaplaceAtLocalSensitivity(1.0, POST_PAIR),
            f"{INVERSE_SENSITIVITY}, shown there as a mistake",
            "local sensitivity 1 against 0: the scale tells",
        ),
        (
            "median-local-sensitivity-notes",
            LaplaceAtLocalSensitivity(1.0, NOTES_PAIR),
            f"{STABILITY_NOTES}, shown there as a mistake",
            "local sensitivity 0 against 10^6: the scale tells",
        ),
        (
            "covariance-aware-mean-published-test",
            PublishedCovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=2),
            f"{AFFINE}, code as published",
            "the test's probability falls from far above delta to 0 at once",
        ),
        (
            "empirical-mean-and-covariance",
            EmpiricalMean(4.0, 0.01, outlier=6.0, dimension=2),
            f"{TUKEY}, Section 1, shown there as a mistake",
            "no test: a subspace that all but one share",
        ),
        (
            "ratio-bounded-published",
            PublishedBoundedRatio(1.0, 1e-6),
            f"{LOCAL_SENSITIVITY}, Theorem 2, code as published",
            "a_lower where the derivation has a_upper, and the reverse",
        ),
        (
            "ratio-tail-published",
            PublishedTail(1.0, math.exp(-3.0)),
            f"{LOCAL_SENSITIVITY}, proof of Theorem 2",
            "one tail of the discrete Laplace law, where a bound fails on both sides",
        ),
        (
            "ratio-naive-half-noise",
            NaiveRatioHalfNoise(1.0),
            f"{LOCAL_SENSITIVITY}, misapplied",
            "scale 1/epsilon on each of two counts that one record moves",
        ),
        (
            "ratio-counts-wrong-adjacency",
            CountsRatioUnderSubstitution(1.0),
            f"{LOCAL_SENSITIVITY}, which warns of it",
            "the noise for add/remove, claimed under substitution",
        ),
    ]
    return [
        Entry(f"broken/{name}", mechanism, mechanism.claim, expected="violated", source=source, reason=reason)
        for name, mechanism, source, reason in variants
    ]


def _claims(name: str, mechanism: Reference, source: str) -> list[Entry]:
    """One entry for each claim that is proven for the mechanism, each with the pair that comes nearest to it."""
    pairs = mechanism.worst_pairs()
    return [
        _entry(name if place == 0 else f"{name}-zcdp", mechanism, claim, pairs[min(place, len(pairs) - 1)], source)
        for place, claim in enumerate(mechanism.claims)
    ]


def _each_pair(name: str, mechanism: Reference, source: str) -> list[Entry]:
    """One entry for each of the mechanism's pairs, all against its main claim."""
    return [
        _entry(name if place == 0 else f"{name}-{place + 1}", mechanism, mechanism.claim, pair, source)
        for place, pair in enumerate(mechanism.worst_pairs())
    ]


def _entry(name: str, mechanism: Reference, claim: Claim, pair: DatasetPair, source: str) -> Entry:
    main = mechanism.claim
    converted = isinstance(main, PureDP) and claim == ZCDP(pure_to_zcdp(main.epsilon))
    return Entry(name, mechanism, claim, pairs=(pair,), source=f"{source}; {PURE_TO_ZCDP}" if converted else source)
