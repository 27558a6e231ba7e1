"""Selection that forgets a factor 2, or borrows a claim that is another mechanism's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims.definitions import ZCDP, Claim
from epsaudit.mechanisms.median_regression import SlopeLosses
from epsaudit.mechanisms.queries import VOTES, Utilities
from epsaudit.mechanisms.selection import ExponentialMechanism, MonotoneExponentialMechanism, PermuteAndFlip


class SumOfResiduals(SlopeLosses):
    """The residuals of median regression themselves for losses, as if one record moved their sum by 1 at most.

    Examples
    --------
    >>> SumOfResiduals((0, 1, 2), most=10).losses([(10, 10), (5, 11)]).tolist()
    [21, 6, 11]
    """

    def losses(self, dataset: Any) -> NDArray[np.int64]:
        """Sum of |b - t a| for every slope t."""
        a, b = np.array(dataset, dtype=np.int64).T
        return np.asarray(np.abs(b[:, None] - a[:, None] * np.array(self.candidates, dtype=np.int64)).sum(axis=0))


class AsBoundedRange:
    """Beside another mechanism: with the epsilon^2/8-zCDP claim that pure DP gives bounded-range mechanisms alone."""

    epsilon: float
    leads: ClassVar[tuple[int, ...]] = (1,)  # one vote decides an even race

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.epsilon**2 / 8.0),)


class ExponentialWithoutFactorTwo(ExponentialMechanism):
    """The exponential mechanism with weight exp(epsilon u / sensitivity): 2 epsilon in truth, as a lead grows."""

    name: ClassVar[str] = "exponential mechanism, factor 2 forgotten"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (5, 1)  # half the lead is as clear as for the right weights


@dataclass(frozen=True)
class MonotoneExponentialOnMovingVotes(MonotoneExponentialMechanism):
    """The exponential mechanism for monotone utilities where one vote moves: one utility falls and another rises.

    2 epsilon in truth, as a lead grows; the proof needs all utilities to move in the same direction.
    """

    utilities: Utilities = VOTES
    name: ClassVar[str] = "exponential mechanism, monotone, on moving votes"


class PermuteAndFlipWithoutFactorTwo(PermuteAndFlip):
    """Permute-and-flip with acceptance exp(epsilon (u - max u) / sensitivity): 2 epsilon in truth."""

    name: ClassVar[str] = "permute-and-flip, factor 2 forgotten"
    share: ClassVar[float] = 1.0


class PermuteAndFlipAsBoundedRange(AsBoundedRange, PermuteAndFlip):
    """Permute-and-flip, with the epsilon^2/8-zCDP claim of the exponential mechanism in whose place it is used.

    It is epsilon-DP, but not bounded-range: at epsilon = 1, where one vote decides an even race, rho is 0.327 in truth
    against a claim of 0.125.
    """

    name: ClassVar[str] = "permute-and-flip, as if bounded-range"
