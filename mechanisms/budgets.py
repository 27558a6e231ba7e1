"""Privacy filters, which refuse a request that the budget does not cover, and odometers, which report what is spent.

Both read a ledger of what was granted. Budgets may be chosen from earlier answers (fully adaptive composition), and
several sessions may be open at once (concurrent composition).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from epsaudit.adapters.functions import Mechanism
from epsaudit.claims import accounting
from epsaudit.claims.definitions import ZCDP, Claim, PureDP
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms.base import positive

Budget = PureDP | ZCDP
_ROUNDING = 1 + 1e-12


@dataclass(frozen=True)
class Request:
    """What an analyst asks for: a mechanism to be run on the data, through one of the open sessions."""

    mechanism: Mechanism
    session: int = 0


@dataclass(frozen=True)
class Ledger:
    """Requests in their order, each with whether it was granted: all that a filter knows, and nothing private.

    Examples
    --------
    >>> from epsaudit.mechanisms.response import RandomisedResponse
    >>> ledger = Ledger().after(Request(RandomisedResponse(0.5)), True).after(Request(RandomisedResponse(1.0)), False)
    >>> print(ledger.spent(PureDP(0.0)), [request.session for request in ledger.granted])
    0.5-DP [0]
    """

    entries: tuple[tuple[Request, bool], ...] = ()

    @property
    def granted(self) -> tuple[Request, ...]:
        """Requests that were granted."""
        return tuple(request for request, granted in self.entries if granted)

    def after(self, request: Request, granted: bool) -> Ledger:
        """Return the ledger with one more entry."""
        return Ledger((*self.entries, (request, granted)))

    def spent(self, unit: Budget) -> Budget:
        """Add up what was granted, as pure DP or zCDP."""
        return total(unit, self.granted)


def total(unit: Budget, requests: Sequence[Request]) -> Budget:
    """Compose the requests' claims in the unit of a budget: epsilons for pure DP, rhos for zCDP."""
    if not requests:
        return type(unit)(0.0)
    if isinstance(unit, ZCDP):
        return accounting.concentrated([claim_of(one.mechanism, (ZCDP,)) for one in requests])
    whole = accounting.basic([claim_of(one.mechanism, (PureDP,)) for one in requests])
    if not isinstance(whole, PureDP):
        raise AuditError(f"A request is for {whole}; a budget of pure DP buys pure DP only.")
    return whole


def claim_of(mechanism: Mechanism, kinds: tuple[type[Claim], ...]) -> Claim:
    """First of a mechanism's claims of one of these kinds, or else its main one."""
    offered: Sequence[Claim] = getattr(mechanism, "claims", (mechanism.claim,))
    return next((claim for claim in offered if isinstance(claim, kinds)), mechanism.claim)


class Filter(ABC):
    """A rule that grants or refuses each request before it is answered; what it lets pass satisfies ``claim``."""

    @property
    @abstractmethod
    def claim(self) -> Budget:
        """What any analyst's transcript satisfies, however requests were chosen."""

    @abstractmethod
    def admits(self, ledger: Ledger, request: Request) -> bool:
        """Whether to grant a request after what the ledger holds."""


@dataclass(frozen=True)
class TotalFilter(Filter):
    """Grant a request if what was granted and it do not exceed the budget together, over all sessions.

    For pure DP: Rogers, Roth, Ullman and Vadhan (2016); for zCDP: Feldman and Zrnic (2021), Whitehouse, Ramdas, Rogers
    and Wu (2023). Sessions that share it are composed concurrently: Vadhan and Wang (2021), Lyu (2022).

    Examples
    --------
    >>> from epsaudit.mechanisms.response import RandomisedResponse
    >>> ask, guard = Request(RandomisedResponse(0.6)), TotalFilter(PureDP(1.0))
    >>> guard.admits(Ledger(), ask), guard.admits(Ledger().after(ask, True), ask)
    (True, False)
    """

    budget: Budget

    def __post_init__(self) -> None:
        if not isinstance(self.budget, (PureDP, ZCDP)):
            raise AuditError(f"The budget is {self.budget}; it must be PureDP(epsilon) or ZCDP(rho).")

    @property
    def claim(self) -> Budget:
        return self.budget

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return covers(self.budget.parameter, self.budget, (*ledger.granted, request))


@dataclass(frozen=True)
class SubSessions(TotalFilter):
    """A session with a budget that opens sub-sessions, each with a share of it; all may be asked in any order.

    Session 0 keeps what the shares leave. Each session is an interactive mechanism of its own, and the sum of their
    budgets holds for all together: Vadhan and Wang (2021) for pure DP, Lyu (2022) for zCDP.

    Raises `AuditError` if the shares exceed the budget, or one is not above 0.

    Examples
    --------
    >>> from epsaudit.mechanisms.response import RandomisedResponse
    >>> guard = SubSessions(PureDP(1.0), (0.3, 0.3))
    >>> [guard.admits(Ledger(), Request(RandomisedResponse(0.35), session)) for session in (0, 1, 2)]
    [True, False, False]
    """

    shares: tuple[float, ...]  # budgets of sessions 1, 2, ... in the unit of the whole

    def __post_init__(self) -> None:
        super().__post_init__()
        for share in self.shares:
            positive(share, "share of a sub-session")
        if math.fsum(self.shares) > self.budget.parameter:
            raise AuditError(f"The shares {self.shares} add up to more than the budget, {self.budget}.")

    @property
    def rest(self) -> float:
        """What session 0 keeps."""
        return self.budget.parameter - math.fsum(self.shares)

    def admits(self, ledger: Ledger, request: Request) -> bool:
        if not 0 <= request.session <= len(self.shares):
            raise AuditError(f"Session {request.session} is not open; there are sessions 0 to {len(self.shares)}.")
        own = (self.rest, *self.shares)[request.session]
        before = tuple(one for one in ledger.granted if one.session == request.session)
        return covers(own, self.budget, (*before, request))


@dataclass(frozen=True)
class Unlimited(Filter):
    """Grants everything: for an odometer to watch. The claim is what the given number of requests can cost at most.

    Examples
    --------
    >>> Unlimited(PureDP(3.0)).claim
    PureDP(epsilon=3.0)
    """

    worst: Budget  # stated by the caller

    @property
    def claim(self) -> Budget:
        return self.worst

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return True


@dataclass(frozen=True)
class PureOdometer:
    """Epsilon spent so far: the privacy loss of what was seen never exceeds it (Rogers et al. 2016).

    Examples
    --------
    >>> PureOdometer().reading(Ledger())
    0.0
    """

    def reading(self, ledger: Ledger) -> float:
        """Bound on the privacy loss of the transcript so far, in nats; holds always."""
        return ledger.spent(PureDP(0.0)).parameter


@dataclass(frozen=True)
class ConcentratedOdometer:
    """Bound on the privacy loss that holds at all times at once, except with probability delta.

    Under rho-zCDP steps of any adaptive choice, exp(s L - s (s + 1) R), with L the privacy loss and R the sum of rhos
    so far, is a supermartingale for each s > 0, so by Ville's inequality L <= (s + 1) R + log(1/delta) / s at all times
    with probability 1 - delta; Whitehouse, Ramdas, Rogers and Wu (2023) mix it over s. The bound is tightest where R
    is near ``target``.

    Examples
    --------
    >>> round(ConcentratedOdometer(1e-3, 0.5).slope, 3)
    3.717
    """

    delta: float
    target: float  # the rho at which it is as tight as rho + 2 sqrt(rho log(1/delta))

    def __post_init__(self) -> None:
        fraction(self.delta, "delta of the odometer", open_below=True)
        positive(self.target, "target rho of the odometer")

    @property
    def slope(self) -> float:
        """The s of the bound."""
        return math.sqrt(math.log(1.0 / self.delta) / self.target)

    def reading(self, ledger: Ledger) -> float:
        """Bound on the privacy loss of the transcript so far, in nats."""
        rho = ledger.spent(ZCDP(0.0)).parameter
        return (self.slope + 1.0) * rho + math.log(1.0 / self.delta) / self.slope


def covers(budget: float, unit: Budget, requests: Sequence[Request]) -> bool:
    """Whether a budget in the given unit covers the requests together."""
    return total(unit, requests).parameter <= budget * _ROUNDING
