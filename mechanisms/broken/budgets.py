"""Filters that lose count: one checks the budget after answering, one forgets a sub-session that it opened.

Claims are the budgets; what an analyst gets out of them is more.
"""

from __future__ import annotations

from epsaudit.mechanisms.budgets import Ledger, Request, SubSessions, TotalFilter


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
