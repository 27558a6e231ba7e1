"""Monotone queries answered with too little noise for the claim, or with a loss that is not the one of the proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP, PureDP
from epsaudit.errors import fraction
from epsaudit.mechanisms.base import positive
from epsaudit.mechanisms.bounded_noise import BoundedBinarySearch, CosineLaw, least_noise
from epsaudit.mechanisms.down_sensitivity import (
    GaussianBinarySearch,
    LaplaceBinarySearch,
    ShiftedInverseSensitivity,
    TolerantSearch,
)
from epsaudit.mechanisms.interior_point import InteriorPoint, Plan, PrefixInteriorPoint
from epsaudit.mechanisms.laws import FiniteLaw, Floats, NormalLaw
from epsaudit.mechanisms.quasi_concave import Levels, Stage
from epsaudit.mechanisms.queries import Indices, LossCurve, MonotoneQuery
from epsaudit.mechanisms.search import SearchLaw, comparisons

NO_REMOVAL = 2**62


class ShiftedInverseWithoutFactorTwo(ShiftedInverseSensitivity):
    """Shifted inverse sensitivity with weight exp(-epsilon max(l - tau, tau - lbar)): up to 2 epsilon in truth."""

    name: ClassVar[str] = "shifted inverse sensitivity, factor 2 forgotten"

    @property
    def rate(self) -> float:
        return self.epsilon


class PublishedBinarySearch(LaplaceBinarySearch):
    """Binary search as published: started on the indices 0 and |Y| - 1, and claimed to make log2 |Y| comparisons.

    It makes up to ceil(log2(|Y| - 1)), which is more unless |Y| is a power of two or one above. At |Y| = 6, epsilon = 3
    and beta = 1/2 epsilon is 3 / sigma = 3.482 in truth. Source: differentialprivacy.org, 'Beyond Local Sensitivity
    via Down Sensitivity', noisy_binary_search and the parameters that follow it.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = PublishedBinarySearch.calibrated(Maximum(range(6)), epsilon=3.0, beta=0.5)
    >>> str(mechanism.claim), round(mechanism.steps / mechanism.sigma, 3)
    ('3-DP', 3.482)
    """

    name: ClassVar[str] = "binary search, published step count"

    @classmethod
    def calibrated(cls, query: MonotoneQuery, epsilon: float, beta: float = 0.05) -> PublishedBinarySearch:
        """Choose sigma and tau as published."""
        sigma = math.log2(query.size) / positive(epsilon, "epsilon")
        return cls(query, sigma, sigma * math.log(math.log2(query.size) / fraction(beta, "beta", open_below=True)))

    @property
    def claims(self) -> tuple[Claim, ...]:
        steps = math.log2(self.query.size)
        return (PureDP(steps / self.sigma), ZCDP(steps / (2.0 * self.sigma**2)))

    @property
    def candidates(self) -> int:
        """The least output is never returned."""
        return self.query.size - 1


class GaussianSearchHalfSigma(GaussianBinarySearch):
    """Binary search with Gaussian noise of half the standard deviation: up to four times the claimed rho."""

    name: ClassVar[str] = "binary search, half of sigma"

    @property
    def noise(self) -> NormalLaw:
        """Noise of half of what the claim needs."""
        return NormalLaw(0.0, self.sigma / 2.0)


class PublishedConcentratedSearch(LaplaceBinarySearch):
    """Binary search as published in Theorem 5: Laplace noise of scale sqrt(log2 |Y| / (2 rho)), started as published.

    Its step count is off as that of `PublishedBinarySearch`, but eps^2/2-zCDP is so loose a bound for Laplace noise
    that rho held on all crowds tried (0.94 rho at |Y| = 18); what fails is the accuracy where f(x) = min Y, which is
    never returned.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = PublishedConcentratedSearch.calibrated(Maximum(range(6)), rho=0.5)
    >>> str(mechanism.claim), round(mechanism.sigma, 3), round(mechanism.tau, 3)
    ('0.5-zCDP', 1.608, 6.343)
    """

    name: ClassVar[str] = "binary search of Theorem 5, as published"

    @classmethod
    def calibrated(cls, query: MonotoneQuery, rho: float, beta: float = 0.05) -> PublishedConcentratedSearch:
        """Choose sigma and tau as published."""
        steps = math.log2(query.size)
        sigma = math.sqrt(steps / (2.0 * positive(rho, "rho")))
        return cls(query, sigma, sigma * math.log(steps / fraction(beta, "beta", open_below=True)))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(math.log2(self.query.size) / (2.0 * self.sigma**2)),)

    @property
    def candidates(self) -> int:
        """The least output is never returned."""
        return self.query.size - 1


class TolerantSearchCountedOnce(TolerantSearch):
    """The tolerant search with noise for log2 |Y| comparisons, as if those repeated for safety were free.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = TolerantSearchCountedOnce.calibrated(Maximum((0, 1, 2)), rho=0.5, beta=0.5, error=0.02)
    >>> str(mechanism.claim), round(mechanism.rounds / (2 * mechanism.sigma**2), 6)
    ('0.5-zCDP', 6.0)
    """

    name: ClassVar[str] = "tolerant search, repetitions not counted"

    @classmethod
    def calibrated(
        cls, query: MonotoneQuery, rho: float, beta: float = 0.05, error: float = 0.1
    ) -> TolerantSearchCountedOnce:
        """Choose T, tau / sigma and q as in the sound mechanism, and sigma too small."""
        sound = TolerantSearch.calibrated(query, rho, beta, error)
        sigma = math.sqrt(comparisons(query.size) / (2.0 * rho))
        return cls(query, sigma, sound.tau * sigma / sound.sigma, sound.rounds, sound.assumed_error)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What a plain search with this noise satisfies."""
        steps = comparisons(self.query.size)
        return (ZCDP(steps / (2.0 * self.sigma**2)), GaussianDP(math.sqrt(steps) / self.sigma))


class BoundedSearchCountedOnce(BoundedBinarySearch):
    """The search with bounded noise that is enough for a single comparison.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> query = Maximum(range(64))
    >>> BoundedSearchCountedOnce(query, 1.0, 0.01).tau, BoundedBinarySearch(query, 1.0, 0.01).tau
    (8, 21)
    """

    name: ClassVar[str] = "binary search, bounded noise for one comparison"

    @property
    def noise(self) -> CosineLaw:
        """Composition forgotten."""
        return least_noise(self.epsilon, self.delta, 1)


class SearchOfStrictLoss(LaplaceBinarySearch):
    """Binary search of lbar, the removals that bring f *below* y, where l, those that bring it to y, is meant.

    lbar has sensitivity 1 as well: privacy holds. The search now finds the output after the right one: where all
    records agree on an answer it returns the next greater one, so that M(x) <= f(x) fails almost always.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> SearchOfStrictLoss(Maximum((0, 1, 2, 3)), 0.1, 5.0)((1,) * 20).sample(3, np.random.default_rng(0)).tolist()
    [2, 2, 2]
    """

    name: ClassVar[str] = "binary search, wrong strictness"

    def __call__(self, dataset: Sequence[Any]) -> SearchLaw:
        law = super().__call__(dataset)
        return type(law)(law.query, partial(_strict, law.loss), law.candidates, law.tau, law.noise)


class ShiftedInverseWithoutRepair(ShiftedInverseSensitivity):
    """The exponential mechanism fed |l - tau|, without the repair by lbar of the source's note 4.

    |l - tau| has sensitivity 1: privacy holds. Where the loss jumps over tau, as it does where all records agree, no
    output has |l - tau| < tau, and any output above f(x) is as likely as f(x) itself.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> law = ShiftedInverseWithoutRepair(Maximum((0, 1, 2, 3)), epsilon=1.0, beta=0.5)((1,) * 50)
    >>> np.exp(law.log_probabilities).round(3).tolist()
    [0.0, 0.333, 0.333, 0.333]
    """

    name: ClassVar[str] = "shifted inverse sensitivity, not repaired"

    def __call__(self, dataset: Sequence[Any]) -> FiniteLaw:
        return FiniteLaw(self.query.outputs.tolist(), -self.rate * np.abs(self.query.losses(dataset) - self.tau))


def _strict(loss: LossCurve, indices: Indices) -> NDArray[np.int64]:
    """Removals that bring f below each output: the loss at the one before, more than anybody has at the least one."""
    return np.where(indices > 0, loss(np.maximum(indices, np.uint64(1)) - np.uint64(1)), NO_REMOVAL)


class UntestedStage(Stage):
    """A `epsaudit.mechanisms.quasi_concave.Stage` that takes the best block however small its lead is."""

    def log_pass(self, gap: NDArray[np.int64]) -> Floats:
        """Every gap passes."""
        return np.zeros(np.shape(gap))


class InteriorPointUntested(InteriorPoint):
    """`InteriorPoint` that never refuses: neighbours whose best blocks differ have outputs that tell them apart."""

    name: ClassVar[str] = "interior point, test forgotten"

    @cached_property
    def stage(self) -> Stage:
        """The sound plan, without its test."""
        sound = super().stage
        return UntestedStage(**{part.name: getattr(sound, part.name) for part in fields(Stage)})


class QualityOnlyPlan(Plan):
    """A `Plan` whose labels compete by the quality of their points alone."""

    def qualities(self, levels: Levels, lengths: Sequence[int]) -> Floats:
        return levels.at(np.array(self.named(levels, lengths), np.uint64)).astype(float)


class PrefixByQualityAlone(PrefixInteriorPoint):
    """An exponential mechanism over points read off the data, scored as if they were the same for a neighbour.

    The longest prefix names the best point itself, of which a neighbour may never have heard.
    """

    name: ClassVar[str] = "interior point, prefixes not scored"

    @cached_property
    def plan(self) -> Plan:
        sound = super().plan
        return QualityOnlyPlan(**{part.name: getattr(sound, part.name) for part in fields(Plan)})


class PrefixWithoutMargin(PrefixInteriorPoint):
    """Depth 1 whose labels without a fixed meaning are as rare as errors, beta, and not as rare as delta."""

    name: ClassVar[str] = "interior point, prefixes without margin"

    @cached_property
    def plan(self) -> Plan:
        sound = super().plan
        return replace(sound, margin=0, promise=2 * sound.near)
