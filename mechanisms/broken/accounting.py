"""Filters and odometers that count wrongly, a limit that is claimed as a curve, and group losses that are too small."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, GaussianDP, TradeOff
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.mechanisms.analysts import RepeatedResponse
from epsaudit.mechanisms.budgets import Ledger, Request, StopAt, SubSessions, TotalFilter, covers
from epsaudit.mechanisms.composition import ProductLaw
from epsaudit.mechanisms.exact import PrivacyProfile
from epsaudit.mechanisms.groups import AsinhCounts, GroupCounts, GroupwiseZCDP, PresenceResponse


class LateFilter(TotalFilter):
    """A filter that checks whether the budget is spent, not whether it covers the request.

    The last answer is given on credit.
    """

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return ledger.spent(self.budget).parameter < self.budget.parameter


class ForgetfulSubSessions(SubSessions):
    """Sub-sessions that subtract only the first one's share from the budget, and forget the shares of all others."""

    @property
    def rest(self) -> float:
        return self.budget.parameter - self.shares[0]


class OncePerMechanism(TotalFilter):
    """A filter that remembers which mechanisms were paid, but not in which session they were asked.

    A second session, which has a secret of its own, is therefore free.
    """

    def admits(self, ledger: Ledger, request: Request) -> bool:
        different = {one.mechanism: one for one in (*ledger.granted, request)}
        return covers(self.budget.parameter, self.budget, tuple(different.values()))


class PrivacyLossFilter(TotalFilter):
    """A filter that composes the privacy losses of the granted requests as if they had been fixed before the answers.

    The claim is refuted by an analyst who chooses requests that leak more as the answers come in. Whether a sound
    filter of this kind exists is open.
    """

    budget: ApproxDP

    def admits(self, ledger: Ledger, request: Request) -> bool:
        asked = [one.mechanism for one in (*ledger.granted, request)]
        sides = (ProductLaw(tuple(one((bit,)) for one in asked)) for bit in (0, 1))
        return PrivacyProfile(*sides).delta(self.budget.epsilon) <= self.budget.delta * (1.0 + 1e-9)


@dataclass(frozen=True)
class Moves(Adjacency):
    """Adjacency of datasets that are the sizes of groups: one record moves from one group to another."""

    description = "the group of one record"

    def holds(self, x: Any, x_prime: Any) -> bool:
        changes = sorted(b - a for a, b in zip(x, x_prime, strict=False) if a != b)
        return len(x) == len(x_prime) and changes == [-1, 1]

    def __str__(self) -> str:
        return "one record in another group"


class PresenceUnderMoves(PresenceResponse):
    """A response about presence that is asked in sessions of a partition, where a record may move between parts.

    A record that moves changes two parts, so the sessions of the partition cost twice their share.
    """

    adjacency = Moves()
    pair = DatasetPair((1, 0), (0, 1))


class ResponseByCentralLimit(RepeatedResponse):
    """A few randomised responses that claim the Gaussian trade-off curve, which is only the limit of many responses.

    Dong, Roth and Su (2022): the mu of k answers is 2 sqrt(k) K / sqrt(V - K^2), with K the mean of the privacy loss,
    epsilon tanh(epsilon / 2), and V the mean of its square, epsilon^2.
    """

    name = "repeated randomised response, central limit"

    @property
    def mu(self) -> float:
        mean = self.epsilon * math.tanh(self.epsilon / 2.0)
        return 2.0 * math.sqrt(self.copies) * mean / math.sqrt(self.epsilon**2 - mean**2)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (TradeOff.of(GaussianDP(self.mu).profile),)


class LateStop(StopAt):
    """A stop that reads the odometer before the request and not with it.

    The last answer is given on credit.
    """

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return self.odometer.reading(ledger) < self.most


@dataclass(frozen=True)
class AsinhCountsBySlope(AsinhCounts):
    """Counts that compute the loss of a group of x from the slope T'(x), not from the step from x - 1 to x.

    The step is larger than the slope, so the claimed loss is too small.
    """

    name: ClassVar[str] = "group counts on an asinh scale, loss by the slope"

    def loss(self, size: int) -> float:
        return 1.0 / ((1.0 + (size / self.width) ** 2) * 2.0 * self.sigma**2)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (self.groupwise.at(self.worst_pairs()[0]),)


@dataclass(frozen=True)
class GroupCountsAsGaussian(GroupCounts):
    """Algorithm 1, claimed to have the loss of Gaussian noise, 1 / (2 (sigma^2 + (r x)^2)), as the open problem hopes.

    The scale of the noise reveals the size, too: the loss is about 1 + 2 r^2 times as large at order 1, and at high
    orders it tends to rho / 2 whatever the size. The main claim is about a group of ``size`` records.
    """

    size: int = 10
    name: ClassVar[str] = "noisy group counts, as if Gaussian"

    def loss(self, size: int) -> float:
        return 1.0 / (2.0 * (self.sigma**2 + (self.relative * size) ** 2))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(GroupwiseZCDP(self.loss).at(self.worst_pairs()[0]).rho),)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (DatasetPair((self.size - 1,), (self.size,), f"groups of {self.size - 1} and {self.size}"),)
