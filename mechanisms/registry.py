"""The reference mechanisms and their incorrect variants as `epsaudit list` shows them, one entry a mechanism and claim.

Parameters are chosen so that each claim is nearly attained, or clearly broken, in events that 10^6 runs see often.
"""

from __future__ import annotations

from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.benchmark import entries as benchmark_entries
from epsaudit.mechanisms.beyond import entries as beyond_entries
from epsaudit.mechanisms.broken.additive import (
    ClassicalGaussian,
    DiscreteLaplaceHalfNoise,
    GaussianSensitivityOffByTwo,
    LaplaceHalfNoise,
)
from epsaudit.mechanisms.broken.down_sensitivity import (
    GaussianSearchHalfSigma,
    PublishedBinarySearch,
    ShiftedInverseWithoutFactorTwo,
)
from epsaudit.mechanisms.broken.response import ResponseForgettingAnswers, ResponseWithCoin
from epsaudit.mechanisms.broken.selection import (
    ExponentialWithoutFactorTwo,
    MonotoneExponentialOnMovingVotes,
    PermuteAndFlipAsBoundedRange,
    PermuteAndFlipWithoutFactorTwo,
)
from epsaudit.mechanisms.composed import entries as composed_entries
from epsaudit.mechanisms.down_sensitivity import GaussianBinarySearch, LaplaceBinarySearch, ShiftedInverseSensitivity
from epsaudit.mechanisms.down_sensitivity_entries import entries as down_sensitivity_entries
from epsaudit.mechanisms.queries import Maximum
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.mechanisms.selection import ExponentialMechanism, MonotoneExponentialMechanism, PermuteAndFlip
from epsaudit.registry import Entry

PURE_TO_ZCDP = "differentialprivacy.org, 'Tight RDP & zCDP bounds from pure DP', Theorem 5"
BOUNDED_RANGE = "differentialprivacy.org, 'A better privacy analysis of the exponential mechanism'"
DOWN_SENSITIVITY = "differentialprivacy.org, 'Beyond local sensitivity via down sensitivity'"


def entries() -> list[Entry]:
    """Every mechanism of this package: the sound ones first, then those under ``broken/``.

    Examples
    --------
    >>> [entry.name for entry in entries()][:3]
    ['laplace', 'laplace-zcdp', 'discrete-laplace']
    """
    return [
        *_sound(),
        *_broken(),
        *benchmark_entries(),
        *beyond_entries(),
        *down_sensitivity_entries(),
        *composed_entries(),
    ]


def _sound() -> list[Entry]:
    return [
        *_claims(Laplace(1.0), ["laplace", "laplace-zcdp"], ["Dwork et al. 2006, Proposition 1", PURE_TO_ZCDP]),
        *_claims(
            DiscreteLaplace(0.5),
            ["discrete-laplace", "discrete-laplace-zcdp"],
            ["Ghosh, Roughgarden and Sundararajan 2012", PURE_TO_ZCDP],
        ),
        *_claims(
            Gaussian(1.0, 1e-5),
            ["gaussian", "gaussian-gdp", "gaussian-zcdp"],
            [
                "Balle and Wang 2018, Theorem 8",
                "Dong, Roth and Su 2022, Theorem 2.7",
                "Bun and Steinke 2016, Proposition 1.6",
            ],
        ),
        *_claims(
            RandomisedResponse(3.0),
            ["randomised-response", "randomised-response-zcdp"],
            ["Warner 1965", PURE_TO_ZCDP],
        ),
        *_claims(
            RandomisedResponse(1.0, answers=4),
            ["kary-randomised-response", "kary-randomised-response-zcdp"],
            ["Kairouz, Bonawitz and Ramage 2016", PURE_TO_ZCDP],
        ),
        *_claims(
            ExponentialMechanism(1.0),
            ["exponential", "exponential-zcdp"],
            ["McSherry and Talwar 2007, Theorem 6", BOUNDED_RANGE],
        ),
        *_claims(
            MonotoneExponentialMechanism(1.0),
            ["exponential-monotone", "exponential-monotone-zcdp"],
            ["McSherry and Talwar 2007, monotone utilities", BOUNDED_RANGE],
        ),
        *_claims(
            PermuteAndFlip(1.0),
            ["permute-and-flip", "permute-and-flip-zcdp"],
            ["McKenna and Sheldon 2020, Theorem 1", PURE_TO_ZCDP],
        ),
        *_claims(
            ShiftedInverseSensitivity(Maximum(tuple(range(8))), 1.0, beta=0.5),
            ["shifted-inverse", "shifted-inverse-zcdp"],
            [f"{DOWN_SENSITIVITY}, Theorem 4", BOUNDED_RANGE],
        ),
        *_claims(
            LaplaceBinarySearch.calibrated(Maximum(tuple(range(8))), 1.0, beta=0.5),
            ["binary-search-laplace", "binary-search-laplace-zcdp"],
            [f"{DOWN_SENSITIVITY}, noisy_binary_search, steps corrected"] * 2,
        ),
        *_claims(
            GaussianBinarySearch.calibrated(Maximum(tuple(range(8))), 0.5, beta=0.5),
            ["binary-search-gaussian", "binary-search-gaussian-gdp"],
            [f"{DOWN_SENSITIVITY}, note 6, steps corrected", "Dong, Roth and Su 2022, Corollary 3.3"],
        ),
    ]


def _broken() -> list[Entry]:
    grid = Maximum(tuple(range(4)))
    variants: list[tuple[str, Reference, str, str]] = [
        ("laplace-half-noise", LaplaceHalfNoise(1.0), "Dwork et al. 2006, misapplied", "half the scale"),
        (
            "discrete-laplace-half-noise",
            DiscreteLaplaceHalfNoise(0.5),
            "Ghosh, Roughgarden and Sundararajan 2012, misapplied",
            "half the scale",
        ),
        (
            "gaussian-sensitivity",
            GaussianSensitivityOffByTwo(1.0, 1e-5),
            "Balle and Wang 2018, misapplied",
            "sensitivity 1 where a substitution moves the sum by 2",
        ),
        (
            "gaussian-classical",
            ClassicalGaussian(8.0, 0.2),
            "Dwork and Roth 2014, Theorem A.1, beyond epsilon = 1",
            "sqrt(2 log(1.25/delta)) / epsilon is too small for large epsilon",
        ),
        (
            "randomised-response-coin",
            ResponseWithCoin(1.0),
            "Warner 1965, misapplied",
            "a coin in place of the lie tells the truth half of the time",
        ),
        (
            "kary-randomised-response-forgets-k",
            ResponseForgettingAnswers(1.0),
            "Kairouz, Bonawitz and Ramage 2016, misapplied",
            "truthful as often as for two answers, where there are four",
        ),
        (
            "exponential-factor-two",
            ExponentialWithoutFactorTwo(1.0),
            "McSherry and Talwar 2007, misapplied",
            "weight exp(epsilon u), not exp(epsilon u / 2)",
        ),
        (
            "exponential-monotone-moving-votes",
            MonotoneExponentialOnMovingVotes(1.0),
            "McSherry and Talwar 2007, misapplied",
            "utilities are not monotone where one vote moves",
        ),
        (
            "permute-and-flip-factor-two",
            PermuteAndFlipWithoutFactorTwo(1.0),
            "McKenna and Sheldon 2020, misapplied",
            "acceptance exp(epsilon (u - max u)), not half of it",
        ),
        (
            "permute-and-flip-bounded-range",
            PermuteAndFlipAsBoundedRange(1.0),
            f"{BOUNDED_RANGE}, for another mechanism",
            "the exponential mechanism's epsilon^2/8-zCDP",
        ),
        (
            "shifted-inverse-factor-two",
            ShiftedInverseWithoutFactorTwo(grid, 1.0, beta=0.9),
            f"{DOWN_SENSITIVITY}, Theorem 4, misapplied",
            "weight exp(-epsilon loss), not exp(-epsilon loss / 2)",
        ),
        (
            "binary-search-published",
            PublishedBinarySearch.calibrated(Maximum(tuple(range(6))), 3.0, beta=0.5),
            f"{DOWN_SENSITIVITY}, noisy_binary_search, as published",
            "up to 3 comparisons among 6 outputs, not log2 6 = 2.58",
        ),
        (
            "binary-search-half-sigma",
            GaussianSearchHalfSigma.calibrated(grid, 0.5, beta=0.5),
            f"{DOWN_SENSITIVITY}, note 6, misapplied",
            "half of sigma",
        ),
    ]
    return [
        Entry(f"broken/{name}", mechanism, mechanism.claim, expected="violated", source=source, reason=reason)
        for name, mechanism, source, reason in variants
    ]


def _claims(mechanism: Reference, names: list[str], sources: list[str]) -> list[Entry]:
    """One entry for each claim that is proven for the mechanism, each with the pair that comes nearest to it."""
    pairs = mechanism.worst_pairs()
    return [
        Entry(name, mechanism, claim, pairs=pairs[min(place, len(pairs) - 1) :][:1], source=source)
        for place, (name, claim, source) in enumerate(zip(names, mechanism.claims, sources, strict=True))
    ]
