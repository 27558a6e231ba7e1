"""Filters that lose count: after the answer, of a sub-session, of a second session, or of what might have been asked.

Claims are the budgets; what an analyst gets out of them is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epsaudit.claims.definitions import ApproxDP
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.exact import PrivacyProfile
from epsaudit.mechanisms.budgets import Ledger, Request, SubSessions, TotalFilter, covers
from epsaudit.mechanisms.composition import ProductLaw
from epsaudit.mechanisms.groups import PresenceResponse


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
    >>> from epsaudit.mechanisms.hidden_state import SparseVectorSession
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
