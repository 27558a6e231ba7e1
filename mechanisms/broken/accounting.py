"""Filters and odometers that lose count, a limit taken for a curve, losses by group's size that are too small."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from epsaudit.claims.curves import TradeOff
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, GaussianDP
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.exact import PrivacyProfile
from epsaudit.mechanisms.analysts import RepeatedResponse
from epsaudit.mechanisms.budgets import Ledger, Request, SubSessions, TotalFilter, covers
from epsaudit.mechanisms.composition import ProductLaw
from epsaudit.mechanisms.groups import AsinhCounts, GroupCounts, GroupwiseZCDP, PresenceResponse
from epsaudit.mechanisms.odometers import StopAt


class LateFilter(TotalFilter):
    """Checks whether the budget is spent, not whether it covers the request: the last answer is given on credit.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> from epsaudit.mechanisms.response import RandomisedResponse
    >>> ask = Request(RandomisedResponse(0.6))
    >>> LateFilter(PureDP(1.0)).admits(Ledger().after(ask, True), ask)
    True
    """

    def admits(self, ledger: Ledger, request: Request) -> bool:
        """Whether anything is left."""
        return ledger.spent(self.budget).parameter < self.budget.parameter


class ForgetfulSubSessions(SubSessions):
    """Takes the first sub-session's share off the budget, and forgets those of all others.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> round(ForgetfulSubSessions(PureDP(1.0), (0.3, 0.3)).rest, 6)
    0.7
    """

    @property
    def rest(self) -> float:
        """What session 0 thinks is left."""
        return self.budget.parameter - self.shares[0]


class OncePerMechanism(TotalFilter):
    """Remembers which mechanisms were paid, not in which session: a second session with its own secret is free.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> from epsaudit.mechanisms.analysts import SparseVectorSession
    >>> asks = [Request(SparseVectorSession(1.0), session, 1.0) for session in (0, 1)]
    >>> ledger = Ledger().after(asks[0], True)
    >>> OncePerMechanism(PureDP(1.0)).admits(ledger, asks[1]), TotalFilter(PureDP(1.0)).admits(ledger, asks[1])
    (True, False)
    """

    def admits(self, ledger: Ledger, request: Request) -> bool:
        """Whether mechanisms that are all different cost at most the budget."""
        different = {one.mechanism: one for one in (*ledger.granted, request)}
        return covers(self.budget.parameter, self.budget, tuple(different.values()))


class PrivacyLossFilter(TotalFilter):
    """The obvious filter of privacy loss distributions: what was granted is composed as if it had been fixed before.

    Refuted where an analyst chooses between requests that use up delta alike but at different losses: after each
    answer the one that leaks more is asked for. Whether there is a sound filter of this kind is open.
    """

    budget: ApproxDP

    def admits(self, ledger: Ledger, request: Request) -> bool:
        """Whether the granted requests, composed, have at most the budget's delta at its epsilon, for bits 0 and 1."""
        asked = [one.mechanism for one in (*ledger.granted, request)]
        sides = (ProductLaw(tuple(one((bit,)) for one in asked)) for bit in (0, 1))
        return PrivacyProfile(*sides).delta(self.budget.epsilon) <= self.budget.delta * (1.0 + 1e-9)


@dataclass(frozen=True)
class Moves(Adjacency):
    """Datasets are the sizes of groups, and one record goes from one group to another."""

    description = "the group of one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        changes = sorted(b - a for a, b in zip(x, x_prime, strict=False) if a != b)
        return len(x) == len(x_prime) and changes == [-1, 1]

    def __str__(self) -> str:
        return "one record in another group"


class PresenceUnderMoves(PresenceResponse):
    """Asked in sessions of a partition: a record that moves changes two parts, which then cost twice the share.

    Examples
    --------
    >>> [PresenceUnderMoves(1.0, part)((1, 0)).answer for part in (0, 1)]
    [1, 0]
    """

    adjacency = Moves()
    pair = DatasetPair((1, 0), (0, 1))


class ResponseByCentralLimit(RepeatedResponse):
    """The trade-off curve of a Gaussian, to which that of many answers tends, claimed of a few.

    Source: Dong, Roth and Su (2022), the central limit theorem for compositions, which bounds how far off the limit
    may be. The mu of k answers is 2 sqrt(k) K / sqrt(V - K^2), K the mean of the privacy loss, epsilon
    tanh(epsilon / 2), and V that of its square, epsilon^2.

    Examples
    --------
    >>> mechanism = ResponseByCentralLimit(0.5, 3)
    >>> round(mechanism.mu, 4), mechanism.claim.profile(0.0) < RepeatedResponse(0.5, 3).claim.profile(0.0)
    (0.8751, True)
    """

    name = "repeated randomised response, central limit"

    @property
    def mu(self) -> float:
        """Of the limit."""
        mean = self.epsilon * math.tanh(self.epsilon / 2.0)
        return 2.0 * math.sqrt(self.copies) * mean / math.sqrt(self.epsilon**2 - mean**2)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """As the limit has it."""
        return (TradeOff.of(GaussianDP(self.mu).profile),)


class LateStop(StopAt):
    """Reads the odometer before the request, not with it: the last answer is given on credit.

    Examples
    --------
    >>> from epsaudit.mechanisms.odometers import PureOdometer
    >>> from epsaudit.mechanisms.response import RandomisedResponse
    >>> ask = Request(RandomisedResponse(1.5))
    >>> LateStop(PureOdometer(), 1.0).admits(Ledger(), ask), StopAt(PureOdometer(), 1.0).admits(Ledger(), ask)
    (True, False)
    """

    def admits(self, ledger: Ledger, request: Request) -> bool:
        """Whether the reading has not reached ``most``."""
        return self.odometer.reading(ledger) < self.most


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
