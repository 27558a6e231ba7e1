"""The catalogue: every reference mechanism and incorrect variant of the main table, with its source and its mistake.

Parameters are chosen so that 10^6 runs often show events in which a claim is nearly attained, or clearly broken. Where
one output summarises many noisy answers, a claim by composition is far from attained; such rows use the best pairs that
were found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from epsaudit.claims.definitions import ZCDP, ApproxDP, ApproxZCDP, Claim, GaussianDP, PureDP, RenyiDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.additive import (
    DiscreteLaplace,
    Gaussian,
    Laplace,
    SnappedLaplace,
    SphericalGaussian,
    TruncatedGeometric,
)
from epsaudit.mechanisms.analysts import (
    Follower,
    Gambler,
    Interleaver,
    Juggler,
    NoisyGambler,
    Partitioner,
    RepeatedResponse,
    Repeater,
)
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken import (
    accounting,
    additive,
    down_sensitivity,
    local_sensitivity,
    means,
    selection,
    sparse_vector,
)
from epsaudit.mechanisms.budgets import (
    AdaptiveSessions,
    AdvancedFilter,
    ConcentratedOdometer,
    PureOdometer,
    RenyiOdometer,
    StopAt,
    SubSessions,
    TotalFilter,
)
from epsaudit.mechanisms.composition import Sequential
from epsaudit.mechanisms.covariance_mean import CovarianceAwareMean
from epsaudit.mechanisms.discrete_ratio import DiscreteCountsRatio
from epsaudit.mechanisms.down_sensitivity import (
    BoundedBinarySearch,
    GaussianBinarySearch,
    LaplaceBinarySearch,
    ShiftedInverseSensitivity,
    TolerantSearch,
)
from epsaudit.mechanisms.enumerated_losses import EnumeratedLosses, interquartile_range
from epsaudit.mechanisms.groups import AsinhCounts, GroupCounts
from epsaudit.mechanisms.histogram import GaussianHistogram, StableHistogram
from epsaudit.mechanisms.interactive import Interaction
from epsaudit.mechanisms.interior_point import InteriorPoint, PrefixInteriorPoint
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses, SlopeLosses
from epsaudit.mechanisms.private_bound import (
    JoinBound,
    LaplaceAtBound,
    PrivatelyBounded,
    RatioByRecords,
    SmoothMedian,
    SubstitutedRatio,
    join_size,
    match_for_all,
)
from epsaudit.mechanisms.queries import ClippedSum, DistinctValues, Maximum, MonotoneHull, Sum, Total
from epsaudit.mechanisms.ratio import BoundedRatio, CountsRatio, NaiveRatio, SubstitutedCountsRatio
from epsaudit.mechanisms.response import HadamardResponse, LeakyResponse, RandomisedResponse, Rappor
from epsaudit.mechanisms.selection import (
    SELECTORS,
    ExponentialMechanism,
    GapMax,
    MonotoneExponentialMechanism,
    NoisyMaxGumbel,
    NoisyMaxLaplace,
    PermuteAndFlip,
)
from epsaudit.mechanisms.shuffling import ShuffledResponse, ShuffledWithMalicious
from epsaudit.mechanisms.sparse_vector import NumericalSparseVector, SparseVector1, SparseVector2
from epsaudit.mechanisms.stability import (
    ProposeTestFallback,
    ProposeTestRelease,
    SmoothMedianCauchy,
    SmoothMedianLaplace,
    StableMedian,
    StableMode,
)
from epsaudit.mechanisms.tukey_mean import TukeyMean
from epsaudit.mechanisms.vectors import IndexOfMax, NoisyHistogram, ParallelLaplace, RunningSums

PURE_TO_ZCDP = "differentialprivacy.org, 'Tight RDP & zCDP bounds from pure DP', Theorem 5"
BOUNDED_RANGE = "differentialprivacy.org, 'A better privacy analysis of the exponential mechanism'"
DOWN_SENSITIVITY = "differentialprivacy.org, 'Beyond local sensitivity via down sensitivity'"
INVERSE_SENSITIVITY = "differentialprivacy.org, 'Beyond global sensitivity via inverse sensitivity'"
LOCAL_SENSITIVITY = "'Privately bounding local sensitivity' (2024)"
STABILITY_NOTES = "lecture notes on propose-test-release"
SMOOTH = "Nissim, Raskhodnikova and Smith 2007"
_BLOG = "differentialprivacy.org"
_DP_SNIPER = "Bichsel, Steffen, Bogunovic and Vechev 2021"
_APPROXIMATE = "Whitehouse, Ramdas, Rogers and Wu 2023"
_FILTERS = "Rogers, Roth, Ullman and Vadhan 2016"
_GENERIC = f"{_BLOG}, 'Open problems - How generic can composition results be?'"
_FLIP = "McKenna and Sheldon 2020"
_GHOSH = "Ghosh, Roughgarden and Sundararajan 2012"
_RAPPOR = "Erlingsson, Pihur and Korolova 2014, Theorem"
_STATDP = "Ding, Wang, Wang, Zhang and Kifer 2018, Algorithm"
_TUKEY = "Brown, Gaboardi, Smith, Ullman and Zakynthinou 2021"
_EIGHT = Maximum(tuple(range(8)))
_THREE = Maximum((0, 1, 2))
_MEDIAN = MedianLosses(tuple(range(32)))
_SLOPES = SlopeLosses(tuple(range(32)), most=10)
_QUARTILES = (interquartile_range, tuple(range(6)), 5)
_INTERVAL = StableMedian(0.0, 100.0)
_MEAN = {"epsilon": 4.0, "delta": 0.01, "outlier": 6.0, "dimension": 2}
# numbers of records that hold 0, 1, 2, ...; hill climbing on the exact epsilon, or delta, of the pair found them
_TIGHTEST = (17, 2, 0, 1, 7, 15, 0, 11)
_LEAKIEST = (0, 2, 6, 0, 13, 10, 1, 4, 2, 16, 5, 6, 2, 17, 0, 0, 0, 0, 11, 19, 0, 0, 11, 21, 0, 1, 2, 20, 5, 18, 5, 0)


@dataclass(frozen=True)
class Row:
    """A mechanism of the main table, with one entry for its main claim and one for each further sourced claim."""

    name: str  # begins with "broken/" for an incorrect variant, which an audit must refute
    mechanism: Reference
    source: str
    reason: str = ""  # what is wrong, in one line
    zcdp: str = ""  # ``zcdp`` and ``gdp`` are sources of such claims, audited as ``name``-zcdp and ``name``-gdp
    gdp: str = ""
    claim: Claim | None = None  # replaces the mechanism's main claim
    pair: DatasetPair | int | None = None  # a pair, or the place of one of the mechanism's own pairs; by default all
    in_bits: bool = False  # whether the claim covers an implementation including the last bits of its outputs


def rows() -> list[Row]:
    """Return the mechanisms of the main table, in the order of the table."""
    of_groups = AsinhCounts(0.5, 0.3)
    ten = DatasetPair((9,), (10,), "groups of 9 and 10")  # the main claim is about the smallest group
    hull = MonotoneHull(range(4), function=sum, domain=(-1, 3))
    points = Maximum(tuple(range(32)))
    gambler = Gambler((0.4, 0.6), 4, delta=0.005, lead=1)
    # fmt: off
    return [
        Row("laplace", Laplace(1.0), "Dwork et al. 2006, Proposition 1"),
        Row("discrete-laplace", DiscreteLaplace(0.5), _GHOSH, pair=0),
        Row("gaussian", Gaussian(1.0, 1e-5), "Balle and Wang 2018, Theorem 8",
            gdp="Dong, Roth and Su 2022, Theorem 2.7", zcdp="Bun and Steinke 2016, Proposition 1.6"),
        Row("gaussian-vector", SphericalGaussian(4.0, 1e-2, ClippedSum(3)),
            f"{INVERSE_SENSITIVITY}, note 1; Balle and Wang 2018, Theorem 8"),
        Row("randomised-response", RandomisedResponse(3.0), "Warner 1965", zcdp=PURE_TO_ZCDP),
        Row("kary-randomised-response", RandomisedResponse(1.0, answers=4), "Kairouz, Bonawitz and Ramage 2016",
            pair=0),
        Row("exponential", ExponentialMechanism(1.0), "McSherry and Talwar 2007, Theorem 6", zcdp=BOUNDED_RANGE),
        Row("exponential-monotone", MonotoneExponentialMechanism(1.0), "McSherry and Talwar 2007, monotone utilities",
            pair=0),
        Row("permute-and-flip", PermuteAndFlip(1.0), f"{_FLIP}, Theorem 1", pair=0),
        Row("shifted-inverse", ShiftedInverseSensitivity(_EIGHT, 1.0, beta=0.5), f"{DOWN_SENSITIVITY}, Theorem 4",
            pair=0),
        Row("binary-search-laplace", LaplaceBinarySearch.calibrated(_EIGHT, 1.0, beta=0.5),
            f"{DOWN_SENSITIVITY}, noisy_binary_search, steps corrected", pair=0),
        Row("binary-search-gaussian", GaussianBinarySearch.calibrated(_EIGHT, 0.5, beta=0.5),
            f"{DOWN_SENSITIVITY}, note 6, steps corrected", gdp="Dong, Roth and Su 2022, Corollary 3.3"),
        Row("broken/laplace-half-noise", additive.LaplaceHalfNoise(1.0), "Dwork et al. 2006, misapplied",
            "half the scale"),
        Row("broken/gaussian-sensitivity", additive.GaussianSensitivityOffByTwo(1.0, 1e-5),
            "Balle and Wang 2018, misapplied", "sensitivity 1 where a substitution moves the sum by 2"),
        Row("broken/gaussian-vector-per-coordinate", additive.SphericalGaussianPerCoordinate(2.0, 1e-2, ClippedSum(4)),
            f"{INVERSE_SENSITIVITY}, note 1, misapplied",
            "sensitivity of one coordinate, where the vector moves by sqrt(d) times that"),
        Row("broken/gaussian-classical", additive.ClassicalGaussian(8.0, 0.2),
            "Dwork and Roth 2014, Theorem A.1, beyond epsilon = 1",
            "sqrt(2 log(1.25/delta)) / epsilon is too small for large epsilon"),
        Row("broken/randomised-response-coin", additive.ResponseWithCoin(1.0), "Warner 1965, misapplied",
            "a coin in place of the lie tells the truth half of the time"),
        Row("broken/kary-randomised-response-forgets-k", additive.ResponseForgettingAnswers(1.0),
            "Kairouz, Bonawitz and Ramage 2016, misapplied",
            "truthful as often as for two answers, where there are four"),
        Row("broken/exponential-factor-two", selection.ExponentialWithoutFactorTwo(1.0),
            "McSherry and Talwar 2007, misapplied", "weight exp(epsilon u), not exp(epsilon u / 2)"),
        Row("broken/exponential-monotone-moving-votes", selection.MonotoneExponentialOnMovingVotes(1.0),
            "McSherry and Talwar 2007, misapplied", "utilities are not monotone where one vote moves"),
        Row("broken/permute-and-flip-bounded-range", selection.PermuteAndFlipAsBoundedRange(1.0),
            f"{BOUNDED_RANGE}, for another mechanism", "the exponential mechanism's epsilon^2/8-zCDP"),
        Row("broken/binary-search-published",
            down_sensitivity.PublishedBinarySearch.calibrated(Maximum(tuple(range(6))), 3.0, 0.5),
            f"{DOWN_SENSITIVITY}, noisy_binary_search, as published",
            "up to 3 comparisons among 6 outputs, not log2 6 = 2.58"),
        # the public benchmark, on which every auditor is measured, and similar mechanisms; their outputs are vectors
        Row("sparse-vector-1", SparseVector1(1.0), "Lyu, Su and Li 2017, Algorithm 1"),
        Row("sparse-vector-2", SparseVector2(1.0), "Lyu, Su and Li 2017, Algorithm 2"),
        Row("numerical-sparse-vector", NumericalSparseVector(1.0), "Lyu, Su and Li 2017, Algorithm 7"),
        Row("report-noisy-max-1", IndexOfMax(1.0), f"{_STATDP} 5"),
        Row("report-noisy-max-2", IndexOfMax(1.0, noise="exponential"), f"{_STATDP} 6"),
        Row("noisy-histogram", NoisyHistogram(1.0), f"{_STATDP} 9"),
        Row("prefix-sum", RunningSums(0.1), _DP_SNIPER),
        Row("laplace-parallel", ParallelLaplace(1.0), _DP_SNIPER),
        Row("truncated-geometric", TruncatedGeometric(0.1), "Balcer and Vadhan 2018, GeoSample"),
        Row("rappor", Rappor(), f"{_RAPPOR} 2"),
        Row("rappor-one-time", Rappor(f=0.95, p=0.0, q=1.0), f"{_RAPPOR} 1"),
        Row("snapped-laplace", SnappedLaplace(1.0), "Mironov 2012, Theorem 1", in_bits=True),
        Row("broken/sparse-vector-3", sparse_vector.SparseVector3(1.0), "Lyu, Su and Li 2017, Algorithm 3",
            "releases the noisy answer that was compared"),
        Row("broken/sparse-vector-4", sparse_vector.SparseVector4(1.0), "Lyu, Su and Li 2017, Algorithm 4",
            "noise on queries ignores their number"),
        Row("broken/sparse-vector-5", sparse_vector.SparseVector5(1.0), "Lyu, Su and Li 2017, Algorithm 5",
            "no noise on queries"),
        Row("broken/sparse-vector-6", sparse_vector.SparseVector6(1.0), "Lyu, Su and Li 2017, Algorithm 6",
            "does not halt, noise as if it did"),
        Row("broken/sparse-vector-3-and-4", sparse_vector.SideBySide(1.0), "Lyu, Su and Li 2017, Algorithms 3 and 4",
            "both broken, and composition not paid"),
        Row("broken/report-noisy-max-3", sparse_vector.ValueOfMax(1.0), f"{_STATDP} 7",
            "releases the value of the maximum"),
        Row("broken/report-noisy-max-4", sparse_vector.ValueOfMax(1.0, noise="exponential"), f"{_STATDP} 8",
            "releases the value, with noise that is never negative"),
        Row("broken/noisy-histogram-upside-down", sparse_vector.NoisyHistogramUpsideDown(0.2), f"{_STATDP} 10",
            "scale epsilon"),
        Row("broken/laplace-in-doubles", additive.LaplaceInDoubles(1.0), "Mironov 2012, misapplied",
            "low bits show the answer", in_bits=True),
        # beyond global sensitivity
        Row("inverse-median-exponential", InverseSensitivity(1.0, _MEDIAN, SELECTORS["exponential"]),
            f"{INVERSE_SENSITIVITY}, Theorem 2", pair=0),
        Row("inverse-slope", InverseSensitivity(1.0, _SLOPES),
            f"{INVERSE_SENSITIVITY}, Theorem 2; Asi and Duchi 2020; loss in mechanisms/inverse_sensitivity.py",
            pair=0),
        Row("inverse-enumerated", InverseSensitivity(1.0, EnumeratedLosses(*_QUARTILES)),
            f"{INVERSE_SENSITIVITY}, Theorem 2, for any function by enumeration: an interquartile range", pair=0),
        Row("noisy-max-laplace", NoisyMaxLaplace(1.0), "Dwork and Roth 2014, Claim 3.9", pair=0),
        Row("noisy-max-gumbel", NoisyMaxGumbel(1.0), BOUNDED_RANGE, pair=0),
        Row("gap-max", GapMax(1.0), "Chaudhuri, Hsu and Song 2014; Bun, Dwork, Rothblum and Steinke 2018"),
        Row("ptr-median", ProposeTestRelease(_INTERVAL, 0.5, 1e-3, bound=1.0),
            f"{STABILITY_NOTES}; Dwork and Lei 2009"),
        Row("ptr-median-fallback", ProposeTestFallback(_INTERVAL, 0.5, 1e-3, bound=1.0),
            f"{STABILITY_NOTES}, global sensitivity for a refusal; proof in docs/explanation/mechanisms.md"),
        Row("ptr-mode", ProposeTestRelease(StableMode(), 1.0, 1e-3), f"{STABILITY_NOTES}, mode, corrected"),
        Row("stable-histogram", StableHistogram(1.0, 1e-3), f"{STABILITY_NOTES}, stable histograms", pair=0),
        Row("stable-histogram-2", StableHistogram(1.0, 0.1),
            f"{STABILITY_NOTES}, stable histograms, case 2: a key that appears",
            claim=ApproxDP(0.0, 0.1 / 2.0), pair=1),  # a new key costs a delta, and no epsilon
        Row("gaussian-histogram", GaussianHistogram(0.5, 0.01),
            f"{_GENERIC}; Swanberg, Desfontaines and Haney 2023; proof in docs/explanation/mechanisms.md", pair=0),
        Row("smooth-median-cauchy", SmoothMedianCauchy(_INTERVAL, 1.0), f"{SMOOTH}, Lemma 2.7, loss computed", pair=0),
        Row("smooth-median-laplace", SmoothMedianLaplace(_INTERVAL, 1.0, 1e-3), f"{SMOOTH}, Lemma 2.9"),
        Row("covariance-aware-mean", CovarianceAwareMean(**_MEAN),
            "Brown, Hopkins and Smith 2023, Algorithms 1 to 3, constants derived anew", pair=0),
        Row("tukey-mean", TukeyMean(4.0, 0.01), f"{_TUKEY}, Section 3, constants derived anew"),
        Row("ratio-naive", NaiveRatio(1.0), LOCAL_SENSITIVITY, pair=0),
        Row("ratio-bounded", BoundedRatio(1.0, 1e-6), f"{LOCAL_SENSITIVITY}, Theorem 2, corrected"),
        Row("ratio-counts", CountsRatio(1.0), f"{LOCAL_SENSITIVITY}; Kulesza, Suresh and Wang 2024, Algorithm 3",
            pair=0),
        Row("ratio-counts-discrete", DiscreteCountsRatio(1.0),
            f"{LOCAL_SENSITIVITY}, note 1; Kulesza, Suresh and Wang 2024, Algorithm 3; {_GHOSH}", pair=0),
        Row("ratio-counts-substitution", SubstitutedCountsRatio(1.0),
            f"{LOCAL_SENSITIVITY}; Kulesza, Suresh and Wang 2024, Algorithm 3", pair=0),
        Row("ratio-by-records", PrivatelyBounded(RatioByRecords(), 1.0, 1e-6),
            f"{LOCAL_SENSITIVITY}, Theorem 1 as proven, note 3", pair=0),
        Row("ratio-substitution", SubstitutedRatio(1.0),
            f"{LOCAL_SENSITIVITY}, for a known number of records; Dwork et al. 2006, Proposition 1"),
        Row("median-private-bound", PrivatelyBounded(SmoothMedian(_INTERVAL, 0.005), 1.0, 1e-3, share=0.2),
            f"{LOCAL_SENSITIVITY}, Theorem 1 as proven; {SMOOTH}"),
        Row("join-size-private-bound",
            LaplaceAtBound(join_size, JoinBound(0.1, 1e-3, 2), 0.9, 1e-3, (match_for_all(400),)),
            f"{LOCAL_SENSITIVITY}, Theorem 1 as proven, for any query and any private bound"),
        Row("broken/inverse-slope-residuals", InverseSensitivity(1.0, selection.SumOfResiduals((0, 1), most=10)),
            f"{INVERSE_SENSITIVITY}, Theorem 2, misapplied",
            "the residuals for losses, which one record moves by more than 1"),
        Row("broken/inverse-enumerated-answers", InverseSensitivity(1.0, selection.DistanceOfAnswers(*_QUARTILES)),
            f"{INVERSE_SENSITIVITY}, Theorem 2, misapplied",
            "the distance of answers for that of datasets: one record moves a loss by up to 5"),
        Row("broken/noisy-max-factor-two", selection.NoisyMaxWithoutFactorTwo(1.0),
            "Dwork and Roth 2014, Claim 3.9, for utilities that are not monotone",
            "scale 1/epsilon where one utility falls and another rises"),
        Row("broken/gap-max-at-the-gap", selection.GapMaxAtTheGap(1.0, delta=1e-2),
            "Chaudhuri, Hsu and Song 2014, misapplied", "distance one too long"),
        Row("broken/ptr-untested", selection.UntestedRelease(_INTERVAL, 0.5, 1e-3, bound=1.0),
            f"{STABILITY_NOTES}, step 3 left out", "refuses by the exact distance"),
        Row("broken/ptr-fallback-local",
            local_sensitivity.FallbackOnLocalSensitivity(_INTERVAL, 0.5, 1e-3, bound=1.0),
            f"{STABILITY_NOTES}, misapplied", "the local sensitivity, not the global one, where the test fails"),
        Row("broken/mode-published", ProposeTestRelease(selection.PublishedMode(), 2.0, 1e-2),
            f"{STABILITY_NOTES}, mode, as published",
            "the lead is one more than the distance: delta e^epsilon / 2 in truth"),
        Row("broken/histogram-one-too-low", selection.HistogramOneTooLow(1.0, 0.1),
            f"{STABILITY_NOTES}, stable histograms, misapplied",
            "the threshold without its one record more: delta e^epsilon / 2 in truth"),
        Row("broken/gaussian-histogram-one-too-low", selection.GaussianHistogramOneTooLow(0.5, 0.01),
            f"{_GENERIC}, misapplied", "the threshold without its one record more: a new key shows 9 times too often"),
        Row("broken/histogram-without-threshold", selection.HistogramWithoutThreshold(1.0, 1e-3),
            f"{STABILITY_NOTES}, named there as the mistake to avoid", "a key that only one record has always shows"),
        Row("broken/median-local-sensitivity-post",
            local_sensitivity.LaplaceAtLocalSensitivity(1.0),
            f"{INVERSE_SENSITIVITY} and {STABILITY_NOTES}, shown there as a mistake",
            "local sensitivity 1 against 0: the scale tells"),
        Row("broken/covariance-aware-mean-published-test", means.PublishedCovarianceAwareMean(**_MEAN),
            "Brown, Hopkins and Smith 2023, code as published",
            "the test's probability falls from far above delta to 0 at once"),
        Row("broken/empirical-mean-and-covariance", means.EmpiricalMean(**_MEAN),
            f"{_TUKEY}, Section 1, shown there as a mistake", "no test: a subspace that all but one share"),
        Row("broken/ratio-bounded-published", local_sensitivity.PublishedBoundedRatio(1.0, 1e-6),
            f"{LOCAL_SENSITIVITY}, Theorem 2, code as published",
            "a_lower where the proof has a_upper, and the reverse"),
        Row("broken/ratio-discrete-on-its-grid", local_sensitivity.RatioOnItsGrid(1.0),
            f"{LOCAL_SENSITIVITY}, note 1, misapplied", "discrete noise in steps of 1 / b, which tell b"),
        Row("broken/ratio-bounded-substitution", local_sensitivity.BoundedRatioUnderSubstitution(4.0, 1e-3),
            f"{LOCAL_SENSITIVITY}, 'no degradation in the substitution relation'",
            "the bound is for add/remove: about half of 1 / b for half and half"),
        Row("broken/private-bound-from-below",
            local_sensitivity.BoundedFromBelow(RatioByRecords(4), 2.0, 1e-3, share=0.3),
            f"{LOCAL_SENSITIVITY}, Theorem 1 as stated",
            "its condition is reversed: noise at a lower bound on the local sensitivity"),
        Row("broken/join-size-exact-bound",
            LaplaceAtBound(join_size, local_sensitivity.ExactJoinBound(0.5, 1e-3, 2), 0.5, 1e-3),
            f"{LOCAL_SENSITIVITY}, shown there as a mistake",
            "the local sensitivity itself for a private bound: the scale tells"),
        Row("broken/ratio-tail-published", local_sensitivity.PublishedTail(1.0, math.exp(-3.0)),
            f"{LOCAL_SENSITIVITY}, proof of Theorem 2",
            "the continuous Laplace law's tails for those of the discrete one"),
        Row("broken/ratio-counts-wrong-adjacency", local_sensitivity.CountsRatioUnderSubstitution(1.0),
            f"{LOCAL_SENSITIVITY}, which warns of it", "the noise for add/remove, claimed under substitution"),
        # down sensitivity beyond the first searches on the maximum
        Row("shifted-inverse-distinct", ShiftedInverseSensitivity(DistinctValues(_EIGHT.grid), 1.0, beta=0.5),
            f"{DOWN_SENSITIVITY}, Theorem 4"),
        Row("shifted-inverse-sum", ShiftedInverseSensitivity(Sum(_EIGHT.grid), 1.0, beta=0.5),
            f"{DOWN_SENSITIVITY}, Theorem 4"),
        Row("binary-search-laplace-hull", LaplaceBinarySearch.calibrated(hull, 1.0, beta=0.5),
            f"{DOWN_SENSITIVITY}, noisy_binary_search, steps corrected"),
        Row("binary-search-gaussian-total", GaussianBinarySearch.calibrated(Total(range(8)), 0.5, beta=0.5),
            f"{DOWN_SENSITIVITY}, note 6, steps corrected"),
        Row("tolerant-search", TolerantSearch.calibrated(_THREE, 0.5, beta=0.5, error=0.02),
            f"{DOWN_SENSITIVITY}, note 7; Karp and Kleinberg 2007; proof in docs/explanation/mechanisms.md", pair=0),
        Row("bounded-search", BoundedBinarySearch(_EIGHT, 1.0, 0.01),
            f"{DOWN_SENSITIVITY}, note 7; Dagan and Kur 2022; proof in docs/explanation/mechanisms.md"),
        Row("interior-point", InteriorPoint(_EIGHT, epsilon=4.0, delta=0.01, beta=0.5),
            f"{DOWN_SENSITIVITY}, Theorem 6; Beimel, Nissim and Stemmer 2013; proof in docs/explanation/mechanisms.md",
            pair=_one_more(_TIGHTEST, 7)),
        Row("common-prefixes", PrefixInteriorPoint(_EIGHT, epsilon=4.0, delta=0.01, beta=0.5),
            f"{DOWN_SENSITIVITY}, Theorem 6; after Bun et al. 2015; proof in docs/explanation/mechanisms.md"),
        Row("broken/shifted-inverse-not-monotone",
            down_sensitivity.ShiftedInverseOfAnySum(down_sensitivity.any_sum(10), 1.0, beta=0.5),
            f"{DOWN_SENSITIVITY}, 'Monotonicity Assumption', misapplied",
            "a sum with a negative record: one record moves losses by 10, and Theorem 4 needs 1"),
        Row("broken/bounded-search-counted-once",
            down_sensitivity.BoundedSearchCountedOnce(Maximum(tuple(range(64))), 1.0, 0.01),
            f"{DOWN_SENSITIVITY}, note 7, misapplied", "6 comparisons are made, noise is for 1"),
        Row("broken/common-prefixes-without-margin", down_sensitivity.PrefixWithoutMargin(points, 2.0, 0.001, 0.5),
            "Bun et al. 2015, misapplied",
            "points that a neighbour may not have are as likely as beta allows, not delta", pair=-1),
        Row("broken/common-prefixes-by-quality", down_sensitivity.PrefixByQualityAlone(points, 2.0, 0.001, 0.5),
            "Bun et al. 2015, misapplied", "points are chosen by their quality, whatever their prefix", pair=-1),
        Row("broken/interior-point-untested",
            down_sensitivity.InteriorPointUntested(Maximum(tuple(range(32))), epsilon=2.0, delta=0.001, beta=0.9),
            "Beimel, Nissim and Stemmer 2013, misapplied", "the best block is taken however small its lead is",
            pair=_one_more(_LEAKIEST, 25)),
        # a few compositions that are cheap to audit; experiments/interactive.py and similar studies audit more
        Row("composed-response", Sequential.copies(RandomisedResponse(1.0), 2),
            f"{_BLOG}, 'Composition basics', Basic Composition"),
        Row("repeated-response", RepeatedResponse(0.5, 3), "Kairouz, Oh and Viswanath 2015, Theorem 3.3"),
        Row("filtered-response", Interaction(Gambler((0.4, 0.6), 2, lead=1), TotalFilter(PureDP(1.0))), _FILTERS),
        Row("filter-approx", Interaction(gambler, TotalFilter(ApproxDP(1.0, 0.01))), _FILTERS),
        Row("filter-approx-advanced",
            Interaction(Repeater((0.5,), 4, delta=1e-3), AdvancedFilter(ApproxDP(1.9, 0.05), spent=0.004)),
            f"{_APPROXIMATE}, Theorem 1"),
        Row("filter-zcdp", Interaction(Repeater((0.5,), 5), TotalFilter(ZCDP(0.49))), "Feldman and Zrnic 2021"),
        Row("filter-approx-zcdp", Interaction(gambler, TotalFilter(ApproxZCDP(0.35, 0.015))), _APPROXIMATE),
        Row("filter-gdp", Interaction(Gambler((0.4, 1.0, 2.0), 4, lead=1), TotalFilter(GaussianDP(2.5))),
            "Smith and Thakurta 2022"),
        Row("filter-renyi", Interaction(Gambler((0.4, 0.8, 1.2), 4, lead=1), TotalFilter(RenyiDP(4.0, 1.0))),
            "Feldman and Zrnic 2021"),
        Row("odometer-pure", Interaction(Gambler((0.4, 0.6), 3, lead=1), StopAt(PureOdometer(), 1.0)), _FILTERS),
        Row("odometer-gdp",
            Interaction(NoisyGambler((1.0, 1.4), 4, lead=1, cells=6), StopAt(ConcentratedOdometer(0.05, 2.0), 6.9)),
            f"{_APPROXIMATE}, Gaussian DP taken as zCDP"),
        Row("odometer-renyi", Interaction(Repeater((0.3,), 7), StopAt(RenyiOdometer(4.0, 0.05), 2.3)),
            "Feldman and Zrnic 2021"),
        Row("sub-sessions", Interaction(Interleaver((0.4, 0.3, 0.3), 4), SubSessions(PureDP(1.0), (0.3, 0.3))),
            "Vadhan and Wang 2021"),
        Row("partitioned-sessions", Interaction(Partitioner(), AdaptiveSessions(PureDP(3.0))),
            f"{_GENERIC}, the diagram of Tumult Analytics; Haney et al. 2023"),
        Row("sparse-vector-sessions", Interaction(Juggler(1.0, 2, 8), TotalFilter(PureDP(2.0))),
            "Vadhan and Wang 2021; Lyu, Su and Li 2017, Algorithm 1"),
        Row("shuffled-response", ShuffledResponse(2.0, 100, 1e-3),
            f"{_BLOG}, 'Privacy Doona'; Feldman, McMillan and Talwar 2022"),
        Row("shuffled-response-malicious", ShuffledWithMalicious(2.0, 100, 1e-3, malicious=10),
            f"{_BLOG}, 'Privacy Doona', note 2; Feldman, McMillan and Talwar 2022"),
        Row("hadamard-response", HadamardResponse(1.0, 12), "Acharya, Sun and Zhang 2019", pair=0),
        Row("group-counts", GroupCounts(0.5, 0.3),
            f"{_BLOG}, 'Open problem - Better privacy guarantees for larger groups', Algorithm 1"),
        Row("asinh-counts", of_groups,
            f"{_BLOG}, 'Open problem', its alternative path; proof in docs/explanation/group-wise-privacy.md", pair=0),
        Row("asinh-counts-10", of_groups,
            f"{_BLOG}, 'Open problem', a group of 10; proof in docs/explanation/group-wise-privacy.md",
            claim=of_groups.groupwise.at(ten), pair=ten),
        Row("broken/filter-late", Interaction(Repeater((0.6,), rounds=2), accounting.LateFilter(PureDP(1.0))),
            f"{_FILTERS}, misapplied", "checks the budget after answering"),
        Row("broken/odometer-gdp-late",
            Interaction(NoisyGambler((1.0, 3.0), 2, lead=1, cells=6),
                        accounting.LateStop(ConcentratedOdometer(0.05, 1.0), 4.5)),
            f"{_APPROXIMATE}, misapplied", "reads the odometer before the request, not with it"),
        Row("broken/repeated-response-limit", accounting.ResponseByCentralLimit(0.5, 3),
            "Dong, Roth and Su 2022, central limit theorem, misapplied",
            "the limit for many answers, claimed of three"),
        Row("broken/filter-privacy-loss",
            Interaction(Follower(RandomisedResponse(0.3), RandomisedResponse(2.0), LeakyResponse(0.1, 0.1311), 0.5),
                        accounting.PrivacyLossFilter(ApproxDP(2.0, 0.1312))),
            f"{_GENERIC}, if read so", "composes what was granted as if it had been fixed before the answers"),
        Row("broken/sub-sessions-forgetful",
            Interaction(Interleaver((0.35, 0.3, 0.3), 6), accounting.ForgetfulSubSessions(PureDP(1.0), (0.3, 0.3))),
            "Vadhan and Wang 2021, misapplied", "takes only the first share off the budget"),
        Row("broken/partitioned-sessions-moves",
            Interaction(Partitioner(accounting.PresenceUnderMoves), AdaptiveSessions(PureDP(3.0))),
            f"{_GENERIC}, misapplied", "a record that moves is in two parts, each pays once"),
        Row("broken/sparse-vector-sessions-paid-once",
            Interaction(Juggler(1.0, 5, 10), accounting.OncePerMechanism(PureDP(1.0))),
            "Vadhan and Wang 2021, misapplied",
            "pays for a mechanism once, however many sessions of it have a secret of their own"),
        Row("broken/shuffled-response-dropouts", additive.ShuffledWithDropouts(2.0, 1000, 1e-3),
            f"{_BLOG}, 'Privacy Doona'; Feldman, McMillan and Talwar 2022, misapplied",
            "counts nine in ten users who drop out"),
        Row("broken/asinh-counts-by-slope", accounting.AsinhCountsBySlope(0.5, 2.0),
            "docs/explanation/group-wise-privacy.md, misapplied",
            "the slope at the group's size in place of the step that a record makes"),
        Row("broken/group-counts-as-gaussian", accounting.GroupCountsAsGaussian(0.5, 1.0, size=6),
            f"{_BLOG}, 'Open problem - Better privacy guarantees for larger groups', if read so",
            "a Gaussian's loss, where the scale of the noise tells the size, too"),
        Row("broken/laplace-bounded-range", additive.LaplaceAsBoundedRange(1.0),
            f"{BOUNDED_RANGE}, for another mechanism", "the exponential mechanism's epsilon^2/8-zCDP"),
    ]
    # fmt: on


def _one_more(holders: tuple[int, ...], joining: int) -> DatasetPair:
    """Return a dataset with the given numbers of holders of 0, 1, 2, ..., and the same with one more record.

    The value of the additional record is ``joining``.
    """
    x = tuple(value for value, count in enumerate(holders) for _ in range(count))
    return DatasetPair(x, (*x, joining), f"{len(x)} records against one more with {joining}")
