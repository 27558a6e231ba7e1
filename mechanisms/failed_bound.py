"""A bound that may fail: the worst case of a mechanism whose noisy bound is below its count.

From a count and a failure probability, the output is the count where the bound fails and else nothing. It isolates one
step of the proof for noise that is scaled to a private bound on the local sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsaudit.claims import ApproxDP, Claim
from epsaudit.mechanisms.base import Reference, positive
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw
from epsaudit.mechanisms.queries import Dataset
from epsaudit.mechanisms.ratio import ones_and_records
from epsaudit.neighbours import AddRemove, DatasetPair


@dataclass(frozen=True)
class FailedBound(Reference):
    """A count that gets out where its discrete Laplace noise is ``misses`` or more off, else nothing: (0, delta)-DP.

    Where a bound holds the proof goes on; where it fails the mechanism may do anything, and the failure probability is
    paid in full ('Privately bounding local sensitivity', Theorem 1). Both tails of the noise together have
    probability 2 e^(-rate T) / (1 + e^-rate) at T, which must not exceed delta.

    Raises
    ------
    AuditError
        If a parameter is out of range, or a record is not 0 or 1.

    Examples
    --------
    >>> mechanism = FailedBound(1.0, 0.05)
    >>> mechanism.misses, round(float(np.exp(mechanism((1,)).log_probabilities[0])), 4)
    (4, 0.0268)
    """

    rate: float  # privacy loss of the noisy count, above 0
    delta: float  # failure probability, in (0, 1)
    name: ClassVar[str] = "failed bound, both tails"
    adjacency = AddRemove()

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.rate, "rate")

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxDP(0.0, self.delta),)

    @property
    def misses(self) -> int:
        """T: how far off the noisy count must be."""
        return max(1, math.ceil(math.log(2.0 / (self.delta * (1.0 + math.exp(-self.rate)))) / self.rate))

    def __call__(self, dataset: Dataset) -> FiniteLaw:
        """Prepare the law of what gets out: the number of ones, or None."""
        ones, _ = ones_and_records(dataset)
        noise = DiscreteLaplaceLaw(0, 1.0 / self.rate)
        inside = np.exp(noise.log_density(np.arange(1 - self.misses, self.misses))).sum()
        outcomes: tuple[Any, ...] = (ones, None)
        return FiniteLaw(outcomes, np.log([1.0 - inside, inside]))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One more record: every output but None tells the two apart."""
        return (DatasetPair((1,), (1, 1), "counts 1 and 2"),)
