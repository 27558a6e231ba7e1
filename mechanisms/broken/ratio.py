"""Private ratios as published or misapplied: bounds exchanged, noise for another adjacency, tails counted once."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.ratio import (
    BoundedRatio,
    FailedBound,
    NaiveRatio,
    SubstitutedCountsRatio,
    answers,
    greatest_gap,
    pairs,
)


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
