"""Incorrect answers to monotone queries: the noise is too small for the claim, or the loss is not that of the proof.

A *loss* l(x, y) of a query is the number of removals that bring its answer down to y.
"""

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
    """Binary search as published: it starts on the indices 0 and |Y| - 1 and claims to make log2 |Y| comparisons.

    It makes up to ceil(log2(|Y| - 1)) comparisons: at |Y| = 6, epsilon = 3 and beta = 1/2 the true epsilon is 3 /
    sigma = 3.482. It also never returns the least output. Source: 'Beyond Local Sensitivity via Down
    Sensitivity', noisy_binary_search.
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
    """Binary search as published in Theorem 5, with scale sqrt(log2 |Y| / (2 rho)): it never returns min Y.

    Its number of comparisons is wrong, too. However, the conversion to eps^2/2-zCDP is so loose for Laplace noise that
    the claimed rho held on all datasets that were tried (0.94 rho at |Y| = 18). The accuracy guarantee is what fails.
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
    """Binary search with bounded noise that is enough for a single comparison only."""

    name: ClassVar[str] = "binary search, bounded noise for one comparison"

    @property
    def noise(self) -> CosineLaw:
        return least_noise(self.epsilon, self.delta, 1)


class SearchOfStrictLoss(LaplaceBinarySearch):
    """Binary search on the wrong loss: lbar, the removals that bring f *below* y, in place of l, which bring f to y.

    lbar has sensitivity 1 as well, so the privacy claim holds. But the search returns the output after the right one,
    and M(x) <= f(x) fails where all records agree.
    """

    name: ClassVar[str] = "binary search, wrong strictness"

    def __call__(self, dataset: Sequence[Any]) -> SearchLaw:
        law = super().__call__(dataset)
        return type(law)(law.query, partial(_strict, law.loss), law.candidates, law.tau, law.noise)


class ShiftedInverseWithoutRepair(ShiftedInverseSensitivity):
    """The exponential mechanism on |l - tau|, of sensitivity 1, without the repair by lbar of the source's note 4.

    The privacy claim holds. But where the loss jumps over tau, any output above f(x) is as likely as f(x) itself.
    """

    name: ClassVar[str] = "shifted inverse sensitivity, not repaired"

    def __call__(self, dataset: Sequence[Any]) -> FiniteLaw:
        return FiniteLaw(self.query.outputs.tolist(), -self.rate * np.abs(self.query.losses(dataset) - self.tau))


class HullForgotten(MonotoneHull):
    """Losses of a function that is not monotone, without its monotone hull: one record may move them by any number."""

    def losses(self, dataset: Dataset) -> NDArray[np.int64]:
        found = [removals_until(self.function, dataset, output) for output in self.outputs.tolist()]
        return np.array([NO_REMOVAL if one is None else one for one in found], dtype=np.int64)


class ShiftedInverseOfAnySum(ShiftedInverseSensitivity):
    """Shifted inverse sensitivity of a sum with negative records, whose losses do not have sensitivity 1.

    The source's example: a dataset of n ones has the loss n - y at y. With one more record of -100 n the loss is 0 for
    every y.
    """

    name: ClassVar[str] = "shifted inverse sensitivity, not monotone"

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return one pair: as many ones as Y has outputs above 0, without and with the record of -100 n."""
        ones = (1,) * (self.query.size - 1)
        least = -100 * len(ones)
        return (DatasetPair(ones, (*ones, least), f"{len(ones)} ones against the same and {least}"),)


def any_sum(ones: int) -> HullForgotten:
    """Return the sum of up to ``ones`` records of 1 and of records of -100 times ``ones``, as if it were monotone."""
    return HullForgotten(range(ones + 1), function=sum, domain=(-100 * ones, 1))


def _strict(loss: LossCurve, indices: Indices) -> NDArray[np.int64]:
    """Return the number of removals that bring f strictly below each output.

    This is the loss at the preceding output. For the smallest output, it is more than the number of records.
    """
    return np.where(indices > 0, loss(np.maximum(indices, np.uint64(1)) - np.uint64(1)), NO_REMOVAL)


class UntestedStage(Stage):
    """A stage that takes the best block even if its lead is small."""

    def log_pass(self, gap: NDArray[np.int64]) -> Floats:
        return np.zeros(np.shape(gap))


class InteriorPointUntested(InteriorPoint):
    """Interior point that never refuses: neighbours whose best blocks differ have different sets of outputs."""

    name: ClassVar[str] = "interior point, test forgotten"

    @cached_property
    def stage(self) -> Stage:
        sound = super().stage
        return UntestedStage(**{part.name: getattr(sound, part.name) for part in fields(Stage)})


class QualityOnlyPlan(Plan):
    """A plan in which labels compete by the quality of their points alone."""

    def qualities(self, levels: Levels, lengths: Sequence[int]) -> Floats:
        return levels.at(np.array(self.named(levels, lengths), np.uint64)).astype(float)


class PrefixByQualityAlone(PrefixInteriorPoint):
    """Interior point in which a point that is read off the data is scored as if a neighbour had this point, too.

    A neighbour may not contain the best point at all.
    """

    name: ClassVar[str] = "interior point, prefixes not scored"

    @cached_property
    def plan(self) -> Plan:
        sound = super().plan
        return QualityOnlyPlan(**{part.name: getattr(sound, part.name) for part in fields(Plan)})


class PrefixWithoutMargin(PrefixInteriorPoint):
    """Interior point where labels without a fixed meaning have the probability of an error, beta, in place of delta."""

    name: ClassVar[str] = "interior point, prefixes without margin"

    @cached_property
    def plan(self) -> Plan:
        sound = super().plan
        return replace(sound, margin=0, promise=2 * sound.near)
