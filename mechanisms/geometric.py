"""The truncated geometric mechanism on counts from 0 to n, in exact rational arithmetic.

It releases a count as a noisy count: Balcer and Vadhan (2018), Algorithm GeoSample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from epsaudit.claims import Claim, PureDP
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.neighbours import DatasetPair, MaxChange


@dataclass(frozen=True)
class TruncatedGeometric(Reference):
    """Geometric noise on a count in {0, ..., n}, with probabilities that are multiples of one integer's inverse.

    With k = ceil(log(2 / epsilon)) the ratio of neighbouring probabilities is 1 + 2^-k: log(1 + 2^-k)-DP, where
    2^-k is at most epsilon / 2 for logarithms to base 2; with natural logarithms, as here and in the benchmark, it
    may exceed epsilon. Balcer and Vadhan (2018), Section 4.

    Raises
    ------
    AuditError
        If a parameter or a count is out of range.

    Examples
    --------
    >>> mechanism = TruncatedGeometric(0.1)
    >>> round(mechanism.claim.parameter, 4), np.exp(mechanism(2).log_probabilities).round(4).tolist()
    (0.1178, [0.4183, 0.0523, 0.0588, 0.0523, 0.0465, 0.3718])
    """

    epsilon: float  # what k is computed from, above 0; the claim is log(1 + 2^-k)
    n: int = 5  # greatest count
    name: ClassVar[str] = "truncated geometric"
    adjacency = MaxChange(1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.n, 1, "n")

    @property
    def k(self) -> int:
        """Bits of the ratio."""
        return max(0, math.ceil(math.log(2.0 / self.epsilon)))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (PureDP(math.log1p(2.0**-self.k)),)

    def __call__(self, dataset: Any) -> FiniteLaw:
        """Prepare the law on one count: both tails fall by the ratio with each step away from it."""
        count = whole_at_least(dataset, 0, "count")
        if count > self.n:
            raise AuditError(f"The count is {count}; it must be at most n = {self.n}.")
        ratio = Fraction(2**self.k, 2**self.k + 1)
        below = [ratio ** (count - z) / (1 + ratio) for z in range(count)]
        above = [1 - ratio ** (z - count + 1) / (1 + ratio) for z in range(count, self.n)]
        steps = [Fraction(0), *below, *above, Fraction(1)]
        masses = [float(high - low) for low, high in pairwise(steps)]
        return FiniteLaw(tuple(range(self.n + 1)), np.log(masses))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Neighbouring counts in the middle."""
        return (DatasetPair(2, 1),)
