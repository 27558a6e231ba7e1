"""Monotone queries answered with too little noise, or with a step count that is too small for the claim.

The claims are as published or as wrongly made; the laws are what the mistake makes of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from audit.claims import ZCDP, Claim, PureDP
from audit.errors import fraction
from mechanisms.base import positive
from mechanisms.down_sensitivity import GaussianBinarySearch, LaplaceBinarySearch, ShiftedInverseSensitivity
from mechanisms.laws import NormalLaw
from mechanisms.queries import MonotoneQuery


@dataclass(frozen=True)
class ShiftedInverseWithoutFactorTwo(ShiftedInverseSensitivity):
    """Shifted inverse sensitivity with weight exp(-epsilon max(l - tau, tau - lbar)): up to 2 epsilon in truth.

    Examples
    --------
    >>> from mechanisms.queries import Maximum
    >>> query = Maximum((0, 1, 2, 3))
    >>> ShiftedInverseWithoutFactorTwo(query, 1.0).rate, ShiftedInverseSensitivity(query, 1.0).rate
    (1.0, 0.5)
    """

    name: ClassVar[str] = "shifted inverse sensitivity, factor 2 forgotten"

    @property
    def rate(self) -> float:
        """Twice of what the claim allows."""
        return self.epsilon


@dataclass(frozen=True)
class PublishedBinarySearch(LaplaceBinarySearch):
    """Binary search as published: started on the indices 0 and |Y| - 1, and claimed to make log2 |Y| comparisons.

    It makes up to ceil(log2(|Y| - 1)), which is more unless |Y| is a power of two or one above. At |Y| = 6, epsilon = 3
    and beta = 1/2 epsilon is 3 / sigma = 3.482 in truth. Source: differentialprivacy.org, 'Beyond Local Sensitivity
    via Down Sensitivity', noisy_binary_search and the parameters that follow it.

    Examples
    --------
    >>> from mechanisms.queries import Maximum
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
        """The claims as published."""
        steps = math.log2(self.query.size)
        return (PureDP(steps / self.sigma), ZCDP(steps / (2.0 * self.sigma**2)))

    @property
    def candidates(self) -> int:
        """The least output is never returned."""
        return self.query.size - 1


@dataclass(frozen=True)
class GaussianSearchHalfSigma(GaussianBinarySearch):
    """Binary search with Gaussian noise of half the standard deviation: up to four times the claimed rho.

    Examples
    --------
    >>> from mechanisms.queries import Maximum
    >>> GaussianSearchHalfSigma(Maximum((0, 1, 2, 3)), sigma=1.0, tau=0.5).noise
    NormalLaw(centre=0.0, scale=0.5)
    """

    name: ClassVar[str] = "binary search, half of sigma"

    @property
    def noise(self) -> NormalLaw:
        """Noise of half of what the claim needs."""
        return NormalLaw(0.0, self.sigma / 2.0)
