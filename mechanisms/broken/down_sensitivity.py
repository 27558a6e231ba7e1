"""Monotone queries answered with too little noise for the claim, or with a loss that is not the one of the proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ZCDP, Claim, PureDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import fraction
from epsaudit.mechanisms.base import positive
from epsaudit.mechanisms.down_sensitivity import (
    BoundedBinarySearch,
    CosineLaw,
    LaplaceBinarySearch,
    ShiftedInverseSensitivity,
    least_noise,
)
from epsaudit.mechanisms.interior_point import InteriorPoint, Plan, PrefixInteriorPoint
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.quasi_concave import Levels, Stage
from epsaudit.mechanisms.queries import Dataset, Indices, LossCurve, MonotoneHull, MonotoneQuery
from epsaudit.mechanisms.queries.enumeration import removals_until
from epsaudit.mechanisms.search import SearchLaw

NO_REMOVAL = 2**62


class PublishedBinarySearch(LaplaceBinarySearch):
    """Binary search as published: started on the indices 0 and |Y| - 1, and claimed to make log2 |Y| comparisons.

    It makes up to ceil(log2(|Y| - 1)): at |Y| = 6, epsilon = 3 and beta = 1/2 epsilon is 3 / sigma = 3.482 in truth,
    and the least output is never returned. Source: 'Beyond Local Sensitivity via Down Sensitivity',
    noisy_binary_search.
    """

    name: ClassVar[str] = "binary search, published step count"

    @classmethod
    def calibrated(cls, query: MonotoneQuery, epsilon: float, beta: float = 0.05) -> PublishedBinarySearch:
        sigma = math.log2(query.size) / positive(epsilon, "epsilon")
        return cls(query, sigma, sigma * math.log(math.log2(query.size) / fraction(beta, "beta", open_below=True)))

    @property
    def claims(self) -> tuple[Claim, ...]:
        steps = math.log2(self.query.size)
        return (PureDP(steps / self.sigma), ZCDP(steps / (2.0 * self.sigma**2)))

    @property
    def candidates(self) -> int:
        return self.query.size - 1


class PublishedConcentratedSearch(PublishedBinarySearch):
    """Binary search as published in Theorem 5, scale sqrt(log2 |Y| / (2 rho)): min Y is never returned.

    Its step count is off, too, but eps^2/2-zCDP is so loose for Laplace noise that rho held on all crowds tried (0.94
    rho at |Y| = 18): the accuracy fails.
    """

    name: ClassVar[str] = "binary search of Theorem 5, as published"

    @classmethod
    def calibrated(cls, query: MonotoneQuery, rho: float, beta: float = 0.05) -> PublishedConcentratedSearch:
        steps = math.log2(query.size)
        sigma = math.sqrt(steps / (2.0 * positive(rho, "rho")))
        return cls(query, sigma, sigma * math.log(steps / fraction(beta, "beta", open_below=True)))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(math.log2(self.query.size) / (2.0 * self.sigma**2)),)


class BoundedSearchCountedOnce(BoundedBinarySearch):
    """Bounded noise that is enough for a single comparison."""

    name: ClassVar[str] = "binary search, bounded noise for one comparison"

    @property
    def noise(self) -> CosineLaw:
        return least_noise(self.epsilon, self.delta, 1)


class SearchOfStrictLoss(LaplaceBinarySearch):
    """Binary search of lbar, the removals that bring f *below* y, where l, those that bring it to y, is meant.

    lbar has sensitivity 1 as well: privacy holds, but the search finds the output after the right one, and M(x) <= f(x)
    fails where all records agree.
    """

    name: ClassVar[str] = "binary search, wrong strictness"

    def __call__(self, dataset: Sequence[Any]) -> SearchLaw:
        law = super().__call__(dataset)
        return type(law)(law.query, partial(_strict, law.loss), law.candidates, law.tau, law.noise)


class ShiftedInverseWithoutRepair(ShiftedInverseSensitivity):
    """The exponential mechanism fed |l - tau|, of sensitivity 1, without the repair by lbar of the source's note 4.

    Privacy holds. Where the loss jumps over tau any output above f(x) is as likely as f(x) itself.
    """

    name: ClassVar[str] = "shifted inverse sensitivity, not repaired"

    def __call__(self, dataset: Sequence[Any]) -> FiniteLaw:
        return FiniteLaw(self.query.outputs.tolist(), -self.rate * np.abs(self.query.losses(dataset) - self.tau))


class HullForgotten(MonotoneHull):
    """Losses of the function itself where it is not monotone, so that one record may move them by any number."""

    def losses(self, dataset: Dataset) -> NDArray[np.int64]:
        found = [removals_until(self.function, dataset, output) for output in self.outputs.tolist()]
        return np.array([NO_REMOVAL if one is None else one for one in found], dtype=np.int64)


class ShiftedInverseOfAnySum(ShiftedInverseSensitivity):
    """Shifted inverse sensitivity of a sum with negative records, whose losses have no sensitivity of 1.

    The source's example: n ones have the loss n - y at y, and with one more record of -100 n the loss is 0 everywhere.
    """

    name: ClassVar[str] = "shifted inverse sensitivity, not monotone"

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """As many ones as Y has outputs above 0, without and with the record of -100 n."""
        ones = (1,) * (self.query.size - 1)
        least = -100 * len(ones)
        return (DatasetPair(ones, (*ones, least), f"{len(ones)} ones against the same and {least}"),)


def any_sum(ones: int) -> HullForgotten:
    """Return the sum of ones and of -100 times their number, as if it were monotone; it counts up to ``ones``."""
    return HullForgotten(range(ones + 1), function=sum, domain=(-100 * ones, 1))


def _strict(loss: LossCurve, indices: Indices) -> NDArray[np.int64]:
    """Return the number of removals that bring f strictly below each output.

    This is the loss at the preceding output. For the smallest output, it is more than the number of records.
    """
    return np.where(indices > 0, loss(np.maximum(indices, np.uint64(1)) - np.uint64(1)), NO_REMOVAL)


class UntestedStage(Stage):
    """Takes the best block however small its lead is."""

    def log_pass(self, gap: NDArray[np.int64]) -> Floats:
        return np.zeros(np.shape(gap))


class InteriorPointUntested(InteriorPoint):
    """Never refuses: neighbours whose best blocks differ have outputs that tell them apart."""

    name: ClassVar[str] = "interior point, test forgotten"

    @cached_property
    def stage(self) -> Stage:
        sound = super().stage
        return UntestedStage(**{part.name: getattr(sound, part.name) for part in fields(Stage)})


class QualityOnlyPlan(Plan):
    """Labels compete by the quality of their points alone."""

    def qualities(self, levels: Levels, lengths: Sequence[int]) -> Floats:
        return levels.at(np.array(self.named(levels, lengths), np.uint64)).astype(float)


class PrefixByQualityAlone(PrefixInteriorPoint):
    """Points read off the data are scored as if a neighbour, who may never have heard of the best, had the same."""

    name: ClassVar[str] = "interior point, prefixes not scored"

    @cached_property
    def plan(self) -> Plan:
        sound = super().plan
        return QualityOnlyPlan(**{part.name: getattr(sound, part.name) for part in fields(Plan)})


class PrefixWithoutMargin(PrefixInteriorPoint):
    """Labels without a fixed meaning are as rare as errors, beta, and not as rare as delta."""

    name: ClassVar[str] = "interior point, prefixes without margin"

    @cached_property
    def plan(self) -> Plan:
        sound = super().plan
        return replace(sound, margin=0, promise=2 * sound.near)
