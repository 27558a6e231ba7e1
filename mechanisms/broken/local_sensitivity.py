"""Noise at the local sensitivity itself, or at a bound that is none or not private: the scale of the noise tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import FiniteLaw, Floats, LaplaceLaw
from epsaudit.mechanisms.private_bound import JoinBound, PrivatelyBounded
from epsaudit.mechanisms.queries import Dataset
from epsaudit.mechanisms.ratio import (
    BoundedRatio,
    FailedBound,
    NaiveRatio,
    SubstitutedCountsRatio,
    answers,
    greatest_gap,
    pairs,
)

POST_PAIR = DatasetPair((1, 2, 2), (2, 2, 2))
"""differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity': local sensitivities 1 and 0."""

NOTES_PAIR = DatasetPair(
    (0,) * 7 + (10**6,) * 4, (0,) * 6 + (10**6,) * 5, "seven zeros and four 10^6s against six and five"
)
"""Lecture notes on propose-test-release: both medians are 0, the local sensitivities 0 and 10^6."""


@dataclass(frozen=True)
class LaplaceAtLocalSensitivity(Reference):
    """The median plus Laplace noise of scale LS(x) / epsilon, claimed to be epsilon-DP.

    The median of an even number of records is the lower of the two in the middle. Where the local sensitivity is 0 the
    median comes out as it is, with certainty: no epsilon will do. Both sources show this and warn of it.

    Raises `AuditError` if epsilon is not a finite number above 0, or a dataset is empty.

    Examples
    --------
    >>> mechanism = LaplaceAtLocalSensitivity(1.0)
    >>> mechanism((1, 2, 2)), mechanism((2, 2, 2)).support
    (LaplaceLaw(centre=2.0, scale=1.0), (2.0,))
    """

    epsilon: float
    pair: DatasetPair = POST_PAIR  # neighbours of which one has local sensitivity 0
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


@dataclass(frozen=True)
class BoundedRatioUnderSubstitution(BoundedRatio):
    """The bound on the local sensitivity under add/remove, its code corrected, claimed under substitution.

    Source: 'Privately bounding local sensitivity' (2024), which says that its algorithm 'does not have a degradation in
    the substitution relation'. Substitution moves a / b by 1 / b; where half of the records are 1 the bound tends to
    half of that. At epsilon = 1 and delta = 1e-6, b / 2 against b / 2 + 1, epsilon is 1.02, 1.70 and 1.79 in truth for
    b = 2,000, 20,000 and 200,000; it tends to twice epsilon_2.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = BoundedRatioUnderSubstitution(1.0, 1e-6)
    >>> mechanism.bound(np.array([10_000.0]), np.array([20_000.0])) * 20_000 < 0.6  # of 1 / b
    array([ True])
    """

    name: ClassVar[str] = "private ratio, add/remove bound under substitution"
    adjacency = Substitution()

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Half and half, of so many that the bound is close to half of the sensitivity."""
        return (
            DatasetPair(answers(10_000, 10_000), answers(10_001, 9_999), "10,000 of 20,000 against 10,001 of 20,000"),
        )


@dataclass(frozen=True)
class BoundedFromBelow(PrivatelyBounded):
    """Noise at a private lower bound on the local sensitivity: at most that, but for probability delta.

    Source: 'Privately bounding local sensitivity' (2024), Theorem 1, whose condition is Pr[g <= LS] >= 1 - delta; its
    proof needs the converse. Of a share of ones, whose local sensitivity under substitution is 1 / b, the noisy level
    less the margin and one more meets the condition on every dataset.

    Examples
    --------
    >>> import numpy as np
    >>> from epsaudit.mechanisms.private_bound import RatioByRecords
    >>> queried = RatioByRecords(4), 2.0, 1e-3, 0.3
    >>> below, above = (kind(*queried).scales(np.array([-4.0])) * 1.4 for kind in (BoundedFromBelow, PrivatelyBounded))
    >>> below < 1 / 4, above > 1 / 4
    (array([ True]), array([ True]))
    """

    name: ClassVar[str] = "noise at a private bound, from below"

    def scales(self, noisy_levels: Floats) -> Floats:
        """As stated."""
        return super().scales(noisy_levels - 2.0 * self.margin - 1.0)


class PublishedBoundedRatio(BoundedRatio):
    """``private_ratio_local_sensitivity`` as published: a_lower where its proof has a_upper, and reversely.

    Source: 'Privately bounding local sensitivity' (2024), which calls its code a reference, not production-grade. The
    bound falls below the local sensitivity: at 200 of 400, epsilon = 1 and delta = 1e-6 epsilon is 2.733 in truth. The
    code's way out names a variable that it does not have; it is read as the naive mechanism.

    Examples
    --------
    >>> noisy = np.array([200.0]), np.array([400.0])
    >>> PublishedBoundedRatio(1.0, 1e-6).bound(*noisy) < 200 / (400 * 399) < BoundedRatio(1.0, 1e-6).bound(*noisy)
    array([ True])
    """

    name: ClassVar[str] = "private ratio, bounded local sensitivity, as published"
    # half and half: both bounds on the number of ones are far from it
    pair = DatasetPair(answers(200, 200), answers(200, 199), "200/400 against 200/399")

    @property
    def margin(self) -> int:
        """The published margin, rounded outwards as the code does."""
        return math.ceil(math.log(2.0 / self.delta) / self.rate)

    def bound(self, noisy_ones: Floats, noisy_records: Floats) -> Floats:
        """As published."""
        a_low, a_high = np.maximum(noisy_ones - self.margin, 0.0), noisy_ones + self.margin
        b_low, b_high = noisy_records - self.margin, noisy_records + self.margin
        with np.errstate(divide="ignore", invalid="ignore"):
            published = np.maximum(a_low / pairs(b_low), greatest_gap(a_high, a_low, b_low, b_high))
        return np.where(b_low > 1.0, published, np.nan)


class NaiveRatioHalfNoise(NaiveRatio):
    """The naive ratio with noise of scale 1 / epsilon on each of two counts, both of which a record moves."""

    name: ClassVar[str] = "private ratio, naive, half the noise"
    moved: ClassVar[float] = 1.0


class CountsRatioUnderSubstitution(SubstitutedCountsRatio):
    """The ratio of ones and zeros with the noise that suffices under add/remove, claimed under substitution.

    The source warns of it: the sensitivity of the pair of counts becomes 2.
    """

    name: ClassVar[str] = "private ratio, add/remove noise under substitution"
    moved: ClassVar[float] = 1.0


class PublishedTail(FailedBound):
    """A failed bound whose probability is taken from the continuous Laplace law.

    Source: 'Privately bounding local sensitivity' (2024), proof of Theorem 2, which has P[|Z| >= T] = e^(-rate T) for
    discrete Laplace Z. That is both tails of the continuous law; of the discrete one both have 2 e^(-rate T) / (1 +
    e^-rate), more by 2.5 % at the source's rate of 0.05 and by 46 % at rate 1. In the published code the bounds fail
    only one record beyond the margin, rounded up, and that makes up for it.

    Examples
    --------
    >>> mechanism = PublishedTail(1.0, math.exp(-3.0))
    >>> mechanism.misses, str(mechanism.claim), round(float(np.exp(mechanism((1,)).log_probabilities[0])), 4)
    (3, '(0, 0.0497871)-DP', 0.0728)
    """

    name: ClassVar[str] = "failed bound, published tail"

    @property
    def misses(self) -> int:
        """T by the published tail, rounded up."""
        return math.ceil(round(math.log(1.0 / self.delta) / self.rate, 9))


@dataclass(frozen=True)
class ExactJoinBound(JoinBound):
    """The local sensitivity itself, claimed to cost what a noisy bound costs: it is never too low, and not private.

    Source: 'Privately bounding local sensitivity' (2024), which says that what reveals the local sensitivity can reveal
    something about the data.

    Examples
    --------
    >>> ExactJoinBound(0.5, 1e-3, keys=1)((("left", 0),) * 2).support
    (2,)
    """

    name: ClassVar[str] = "greatest count, exact"

    def __call__(self, dataset: Sequence[tuple[str, int]]) -> FiniteLaw:
        """The greatest count, or 1."""
        return FiniteLaw((max(1, *self.counts(dataset)),), [0.0])

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One row in one table against two, and none to join with: the scale of the noise doubles."""
        one = ("left", 0)
        return (DatasetPair((one,), (one, one), "1 row in one table against 2"),)
