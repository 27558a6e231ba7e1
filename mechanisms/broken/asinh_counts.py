"""Losses by group's size that are too small: a slope in place of a step, a Gaussian's loss for what is none.

The laws are those of the sound mechanisms; the claims are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from epsaudit.claims.definitions import ZCDP, Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.asinh_counts import AsinhCounts, GroupwiseZCDP
from epsaudit.mechanisms.groups import GroupCounts


@dataclass(frozen=True)
class AsinhCountsBySlope(AsinhCounts):
    """The loss of a group of x taken from the slope T'(x) instead of the step from x - 1 to x, which is longer.

    Examples
    --------
    >>> AsinhCountsBySlope(0.5, 2.0).loss(1), round(AsinhCounts(0.5, 2.0).loss(1), 6)
    (0.1, 0.26051)
    """

    name: ClassVar[str] = "group counts on an asinh scale, loss by the slope"

    def loss(self, size: int) -> float:
        """T'(size)^2 / (2 sigma^2)."""
        return 1.0 / ((1.0 + (size / self.width) ** 2) * 2.0 * self.sigma**2)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (self.groupwise.at(self.worst_pairs()[0]),)


@dataclass(frozen=True)
class GroupCountsAsGaussian(GroupCounts):
    """Algorithm 1 claimed to lose 1 / (2 (sigma^2 + (r x)^2)), as a Gaussian of its variance at the group's size would.

    Source: differentialprivacy.org, 'Open problem - Better privacy guarantees for larger groups', which hopes for such
    a loss, shows that the outputs look Gaussian, and says that it could not prove one. The scale of the noise tells the
    size, too, about 1 + 2 r^2 times as much at order 1, and at high orders the loss tends to rho / 2 whatever the size.

    Parameters
    ----------
    size : int
        The group's size, of which the main claim is.

    Examples
    --------
    >>> str(GroupCountsAsGaussian(0.5, 0.3, size=10).claim)
    '0.05-zCDP'
    """

    size: int = 10
    name: ClassVar[str] = "noisy group counts, as if Gaussian"

    def loss(self, size: int) -> float:
        """v as hoped for."""
        return 1.0 / (2.0 * (self.sigma**2 + (self.relative * size) ** 2))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(GroupwiseZCDP(self.loss).at(self.worst_pairs()[0]).rho),)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """The group with and without one record."""
        return (DatasetPair((self.size - 1,), (self.size,), f"groups of {self.size - 1} and {self.size}"),)
