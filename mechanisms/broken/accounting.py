"""Filters and odometers that lose count, a limit taken for a curve, losses by group's size that are too small."""

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
    """Checks whether the budget is spent, not whether it covers the request: the last answer is given on credit."""

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return ledger.spent(self.budget).parameter < self.budget.parameter


class ForgetfulSubSessions(SubSessions):
    """Takes the first sub-session's share off the budget, and forgets those of all others."""

    @property
    def rest(self) -> float:
        return self.budget.parameter - self.shares[0]


class OncePerMechanism(TotalFilter):
    """Remembers which mechanisms were paid, not in which session: a second session with its own secret is free."""

    def admits(self, ledger: Ledger, request: Request) -> bool:
        different = {one.mechanism: one for one in (*ledger.granted, request)}
        return covers(self.budget.parameter, self.budget, tuple(different.values()))


class PrivacyLossFilter(TotalFilter):
    """What was granted, composed by its privacy losses as if it had been fixed before the answers.

    Refuted where an analyst asks for what leaks more after each answer. Whether there is a sound one is open.
    """

    budget: ApproxDP

    def admits(self, ledger: Ledger, request: Request) -> bool:
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
    """Asked in sessions of a partition: a record that moves changes two parts, which then cost twice the share."""

    adjacency = Moves()
    pair = DatasetPair((1, 0), (0, 1))


class ResponseByCentralLimit(RepeatedResponse):
    """The Gaussian trade-off curve, to which many answers tend, claimed of a few (Dong, Roth and Su 2022).

    The mu of k answers is 2 sqrt(k) K / sqrt(V - K^2), K the mean of the privacy loss, epsilon tanh(epsilon / 2), and V
    that of its square, epsilon^2.
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
    """Reads the odometer before the request, not with it: the last answer is given on credit."""

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return self.odometer.reading(ledger) < self.most


@dataclass(frozen=True)
class AsinhCountsBySlope(AsinhCounts):
    """The loss of a group of x by the slope T'(x) instead of the step from x - 1 to x, which is longer."""

    name: ClassVar[str] = "group counts on an asinh scale, loss by the slope"

    def loss(self, size: int) -> float:
        return 1.0 / ((1.0 + (size / self.width) ** 2) * 2.0 * self.sigma**2)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (self.groupwise.at(self.worst_pairs()[0]),)


@dataclass(frozen=True)
class GroupCountsAsGaussian(GroupCounts):
    """Algorithm 1 claimed to lose 1 / (2 (sigma^2 + (r x)^2)), as the open problem hopes, like a Gaussian.

    The scale of the noise tells the size, too, about 1 + 2 r^2 times as much at order 1; at high orders the loss tends
    to rho / 2 whatever the size. ``size`` is that of the group of which the main claim is.
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
