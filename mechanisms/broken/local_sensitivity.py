"""Noise at the local sensitivity itself, or at a bound that is wrong or not private, so that the noise scale leaks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.discrete_ratio import DiscreteCountsRatio
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, LaplaceLaw
from epsaudit.mechanisms.private_bound import JoinBound, PrivatelyBounded
from epsaudit.mechanisms.queries import Dataset
from epsaudit.mechanisms.ratio import (
    BoundedRatio,
    FailedBound,
    SubstitutedCountsRatio,
    answers,
    greatest_gap,
    ones_and_records,
    pairs,
)
from epsaudit.mechanisms.stability import ProposeTestFallback

POST_PAIR = DatasetPair((1, 2, 2), (2, 2, 2))
"""Local sensitivities 1 and 0. From differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity'."""

NOTES_PAIR = DatasetPair(
    (0,) * 7 + (10**6,) * 4, (0,) * 6 + (10**6,) * 5, "seven zeros and four 10^6s against six and five"
)
"""Both medians are 0, and the local sensitivities are 0 and 10^6. From the lecture notes on propose-test-release."""


@dataclass(frozen=True)
class LaplaceAtLocalSensitivity(Reference):
    """The (lower) median plus Laplace noise of scale LS(x) / epsilon.

    Where the local sensitivity LS(x) is 0, the median is released without noise.
    """

    epsilon: float
    pair: DatasetPair = POST_PAIR  # neighbours, one of which has local sensitivity 0
    name: ClassVar[str] = "median, noise at local sensitivity"
    adjacency = Substitution()

    def __call__(self, dataset: Dataset) -> LaplaceLaw | FiniteLaw:
        ordered = np.sort(np.asarray(dataset, float))
        if ordered.size == 0:
            raise AuditError("The dataset is empty; a median needs a record.")
        middle = (ordered.size - 1) // 2
        around = ordered[max(middle - 1, 0) : middle + 2]
        sensitivity = float(np.max(np.abs(around - ordered[middle])))
        if sensitivity == 0.0:
            return FiniteLaw((float(ordered[middle]),), (0.0,))
        return LaplaceLaw(float(ordered[middle]), sensitivity / self.epsilon)


class FallbackOnLocalSensitivity(ProposeTestFallback):
    """Propose-test-release that falls back on the local sensitivity, not the global one, where the test fails.

    The test is private, but the scale of the fallback's noise is not: it shows whether the median can be moved far.
    """

    name: ClassVar[str] = "propose-test-release, local sensitivity otherwise"

    def fallback(self, dataset: Dataset) -> float:
        middle, ordered = (len(dataset) - 1) // 2, self.median.ordered(dataset)
        extended = np.concatenate([[self.median.lower], ordered, [self.median.upper]])
        return max(self.bound, float(np.max(np.abs(np.diff(extended[middle : middle + 3])))))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return one pair: a record moves, and the local sensitivity falls from the interval's length to 0."""
        low, high = self.median.lower, self.median.upper
        return (DatasetPair((low, low, high), (low, low, low), "two records of three at one end, against all"),)


@dataclass(frozen=True)
class BoundedRatioUnderSubstitution(BoundedRatio):
    """The bound for add/remove with corrected code, claimed under substitution, which moves a / b by 1 / b.

    The source, 'Privately bounding local sensitivity' (2024), says that its bound 'does not have a degradation' under
    substitution. If half of the records are ones, the bound is only half of 1 / b: at (1, 1e-6) the true epsilon is
    1.02, 1.70 and 1.79 for b = 2,000, 20,000 and 200,000.
    """

    name: ClassVar[str] = "private ratio, add/remove bound under substitution"
    adjacency = Substitution()

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (
            DatasetPair(answers(10_000, 10_000), answers(10_001, 9_999), "10,000 of 20,000 against 10,001 of 20,000"),
        )


@dataclass(frozen=True)
class BoundedFromBelow(PrivatelyBounded):
    """Noise at a private lower bound on the local sensitivity, which the condition of Theorem 1 as stated allows.

    The stated condition is Pr[g <= LS] >= 1 - delta, and the proof needs Pr[g >= LS] >= 1 - delta. For a share of
    ones, of local sensitivity 1 / b, the noisy level less the margin and less one meets the stated condition on
    every dataset.
    """

    name: ClassVar[str] = "noise at a private bound, from below"

    def scales(self, noisy_levels: Floats) -> Floats:
        return super().scales(noisy_levels - 2.0 * self.margin - 1.0)


class PublishedBoundedRatio(BoundedRatio):
    """``private_ratio_local_sensitivity`` as published, which exchanges a_lower and a_upper of its proof.

    At (1, 1e-6) the true epsilon is 5.834 on the worst pair that hill climbing over the numbers of ones and of records
    found. Among ratios of one half, 162 of 324 is the worst, with 3.136; 200 of 400 has 2.733. The fallback of the
    published code uses an undefined variable name, which is read here as the naive mechanism.
    """

    name: ClassVar[str] = "private ratio, bounded local sensitivity, as published"
    # a_lower in place of a_upper makes the bound too low, and the error grows with the number of ones; with more
    # records the margin matters less, and with fewer the code often takes its fallback
    pair = DatasetPair(answers(249, 83), answers(249, 82), "249/332 against 249/331")

    @property
    def margin(self) -> int:
        return math.ceil(math.log(2.0 / self.delta) / self.rate)

    def bound(self, noisy_ones: Floats, noisy_records: Floats) -> Floats:
        a_low, a_high = np.maximum(noisy_ones - self.margin, 0.0), noisy_ones + self.margin
        b_low, b_high = noisy_records - self.margin, noisy_records + self.margin
        with np.errstate(divide="ignore", invalid="ignore"):
            published = np.maximum(a_low / pairs(b_low), greatest_gap(a_high, a_low, b_low, b_high))
        return np.where(b_low > 1.0, published, np.nan)


class CountsRatioUnderSubstitution(SubstitutedCountsRatio):
    """The noise for add/remove, claimed under substitution, which moves both counts; the source warns of this."""

    name: ClassVar[str] = "private ratio, add/remove noise under substitution"
    moved: ClassVar[float] = 1.0


class RatioOnItsGrid(DiscreteCountsRatio):
    """The ratio plus discrete noise in steps of 1 / b, scaled to the sensitivity 1 / (b - 1): the steps reveal b.

    Noise of this scale may suffice to hide the ratio, but the grid must depend on public values only.
    """

    name: ClassVar[str] = "private ratio, discrete noise in steps of 1 / b"

    def __call__(self, dataset: Dataset) -> FiniteLaw:
        ones, records = ones_and_records(dataset)
        noise = DiscreteLaplaceLaw(ones, records / max(records - 1, 1) / self.epsilon)
        return FiniteLaw([step / records for step in noise.support], noise.log_probabilities)


class PublishedTail(FailedBound):
    """The tail P[|Z| >= T] of the continuous Laplace law, used for the discrete law, whose tail is larger.

    The tail of the discrete law is 2 e^(-rate T) / (1 + e^-rate). The proof of Theorem 2 uses the continuous tail,
    which is too small by 2.5 % at the source's rate of 0.05, and by 46 % at rate 1. In the published code a bound fails
    only one record beyond the rounded-up margin, which compensates for the error.
    """

    name: ClassVar[str] = "failed bound, published tail"

    @property
    def misses(self) -> int:
        return math.ceil(round(math.log(1.0 / self.delta) / self.rate, 9))


@dataclass(frozen=True)
class ExactJoinBound(JoinBound):
    """The local sensitivity itself, claimed to cost what a noisy bound costs: it is never too low, but not private."""

    name: ClassVar[str] = "greatest count, exact"

    def __call__(self, dataset: Sequence[tuple[str, int]]) -> FiniteLaw:
        return FiniteLaw((max(1, *self.counts(dataset)),), [0.0])

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        one = ("left", 0)
        return (DatasetPair((one,), (one, one), "1 row in one table against 2"),)
