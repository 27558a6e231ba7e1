"""Noise at a bound that was not made private.

The claim is that of a private one; the scale of the noise tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.noisy_bound import JoinBound


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
