"""Private ratios as published or misapplied: bounds exchanged, noise for another adjacency, tails counted once.

The claims are as made; the laws are what the text or the mistake makes of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from audit.claims import ApproxDP, Claim
from audit.errors import fraction
from audit.neighbours import AddRemove, Adjacency, DatasetPair
from mechanisms.base import Reference, positive
from mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, Floats
from mechanisms.queries import Dataset
from mechanisms.ratio import (
    BoundedRatio,
    NaiveRatio,
    SubstitutedCountsRatio,
    answers,
    greatest_gap,
    ones_and_persons,
    pairs,
)


@dataclass(frozen=True)
class PublishedBoundedRatio(BoundedRatio):
    """``private_ratio_local_sensitivity`` as published: a_lower where its derivation has a_upper, and reversely.

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

    @property
    def margin(self) -> int:
        """The published margin, rounded outwards as the code does."""
        return math.ceil(math.log(2.0 / self.delta) / self.rate)

    def bound(self, noisy_ones: Floats, noisy_persons: Floats) -> Floats:
        """As published."""
        a_low, a_high = np.maximum(noisy_ones - self.margin, 0.0), noisy_ones + self.margin
        b_low, b_high = noisy_persons - self.margin, noisy_persons + self.margin
        with np.errstate(divide="ignore", invalid="ignore"):
            published = np.maximum(a_low / pairs(b_low), greatest_gap(a_high, a_low, b_low, b_high))
        return np.where(b_low > 1.0, published, np.nan)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Half and half: both bounds on the number of ones are far from it."""
        return (DatasetPair(answers(200, 200), answers(200, 199), "200/400 against 200/399"),)


@dataclass(frozen=True)
class NaiveRatioHalfNoise(NaiveRatio):
    """The naive ratio with noise of scale 1 / epsilon on each of two counts, both of which a person moves.

    Examples
    --------
    >>> NaiveRatioHalfNoise(1.0).noise, NaiveRatio(1.0).noise
    (1.0, 2.0)
    """

    name: ClassVar[str] = "private ratio, naive, half the noise"

    @property
    def noise(self) -> float:
        """Half of what the claim needs."""
        return super().noise / 2.0


@dataclass(frozen=True)
class CountsRatioUnderSubstitution(SubstitutedCountsRatio):
    """The ratio of ones and zeros with the noise that suffices under add/remove, claimed under substitution.

    The source warns of it: the sensitivity of the pair of counts becomes 2.

    Examples
    --------
    >>> CountsRatioUnderSubstitution(1.0).noise, SubstitutedCountsRatio(1.0).noise
    (1.0, 2.0)
    """

    name: ClassVar[str] = "private ratio, add/remove noise under substitution"

    @property
    def noise(self) -> float:
        """Half of what the claim needs."""
        return super().noise / 2.0


@dataclass(frozen=True)
class PublishedTail(Reference):
    """What a failed bound may cost: a noisy count that misses by ``misses`` or more gives its owner away, else nothing.

    Source: 'Privately bounding local sensitivity' (2024), proof of Theorem 2, which takes P[|Z| >= T] = e^(-rate T)
    for discrete Laplace Z; both tails together have 2 e^(-rate T) / (1 + e^-rate). A mechanism that may do anything
    when its bound fails, as in Theorem 1, leaks with that probability. In the published code the bounds fail only one
    person beyond the margin, rounded up, and that makes up for it.

    Parameters
    ----------
    rate : float
        Privacy loss of the noisy count, above 0.
    delta : float
        Claimed failure probability, in (0, 1).

    Examples
    --------
    >>> mechanism = PublishedTail(1.0, math.exp(-3.0))
    >>> mechanism.misses, str(mechanism.claim), round(float(np.exp(mechanism((1,)).log_probabilities[0])), 4)
    (3, '(0, 0.0497871)-DP', 0.0728)
    """

    rate: float
    delta: float
    name: ClassVar[str] = "failed bound, published tail"

    def __post_init__(self) -> None:
        positive(self.rate, "rate")
        fraction(self.delta, "delta", open_below=True)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The failure probability as published."""
        return (ApproxDP(0.0, self.delta),)

    @property
    def adjacency(self) -> Adjacency:
        """Add or remove one person."""
        return AddRemove()

    @property
    def misses(self) -> int:
        """T: how far off the noisy count must be, by the published tail rounded up."""
        return math.ceil(round(math.log(1.0 / self.delta) / self.rate, 9))

    def __call__(self, dataset: Dataset) -> FiniteLaw:
        """Prepare the law of what gets out: the count, or None."""
        ones, _ = ones_and_persons(dataset)
        noise = DiscreteLaplaceLaw(0, 1.0 / self.rate)
        inside = np.exp(noise.log_density(np.arange(1 - self.misses, self.misses))).sum()
        outcomes: tuple[Any, ...] = (ones, None)
        return FiniteLaw(outcomes, np.log([1.0 - inside, inside]))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One person more."""
        return (DatasetPair((1,), (1, 1), "counts 1 and 2"),)
