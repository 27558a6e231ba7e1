"""Privacy filters, which refuse what the budget does not cover, and odometers, which report what is spent so far."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from epsaudit.claims.definitions import ZCDP, ApproxDP, ApproxZCDP, Claim, GaussianDP, PureDP, RenyiDP
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms import accounting
from epsaudit.mechanisms.base import positive
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.running.protocols import Mechanism

Budget = PureDP | ApproxDP | ZCDP | ApproxZCDP | RenyiDP | GaussianDP
BOUGHT: dict[type[Claim], tuple[type[Claim], ...]] = {
    PureDP: (PureDP,),
    ApproxDP: (PureDP, ApproxDP),
    ZCDP: (ZCDP,),
    ApproxZCDP: (ApproxZCDP, ZCDP, PureDP, ApproxDP),
    RenyiDP: (RenyiDP, PureDP, ZCDP),
    GaussianDP: (GaussianDP,),
}
"""Kinds of claims that each kind of budget can pay for. A mechanism is paid for by the first of its claims that is of
one of these kinds, or by its main claim if it has none of these kinds."""
ROUNDING = 1 + 1e-12
"""Factor by which rounding may take a sum of parameters above the budget."""


@dataclass(frozen=True)
class Request:
    """An analyst's request: a mechanism to be run on the data, through one of the open sessions."""

    mechanism: Mechanism
    session: int = 0
    # a question to a mechanism with a hidden state, which is paid for once per session, by its first question
    question: Hashable = None

    @property
    def asked(self) -> tuple[Mechanism, int]:
        return self.mechanism, self.session


@dataclass(frozen=True)
class Ledger:
    """All requests in their order, each with whether it was granted.

    The ledger is all that a filter knows, and it holds nothing private.

    >>> from epsaudit.mechanisms.response import RandomisedResponse
    >>> ledger = Ledger().after(Request(RandomisedResponse(0.5)), True).after(Request(RandomisedResponse(1.0)), False)
    >>> print(ledger.spent(PureDP(0.0)), [request.session for request in ledger.granted])
    0.5-DP [0]
    """

    entries: tuple[tuple[Request, bool], ...] = ()

    @property
    def granted(self) -> tuple[Request, ...]:
        return tuple(request for request, granted in self.entries if granted)

    def after(self, request: Request, granted: bool) -> Ledger:
        return Ledger((*self.entries, (request, granted)))

    def spent(self, unit: Budget) -> Budget:
        """Compose the claims of the granted requests in the definition of ``unit``."""
        return total(unit, self.granted)


def total(unit: Budget, requests: Sequence[Request]) -> Budget:
    """Compose the requests' claims in the unit of a budget.

    A mechanism with a hidden state counts once per session.
    """
    paid = [
        one
        for place, one in enumerate(requests)
        if one.question is None or all(earlier.asked != one.asked for earlier in requests[:place])
    ]
    whole = accounting.together(unit, [claim_of(one.mechanism, BOUGHT[type(unit)]) for one in paid])
    if isinstance(unit, PureDP) and not isinstance(whole, PureDP):
        raise AuditError(f"A request is for {whole}; a budget of pure DP buys pure DP only.")
    return whole  # type: ignore[return-value]  # of the kind of the unit


def claim_of(mechanism: Mechanism, kinds: tuple[type[Claim], ...]) -> Claim:
    """Return the first of a mechanism's claims that is of one of these kinds, or its main claim if there is none."""
    offered: Sequence[Claim] = getattr(mechanism, "claims", (mechanism.claim,))
    return next((claim for claim in offered if isinstance(claim, kinds)), mechanism.claim)


class Filter(ABC):
    """A rule that grants or refuses each request before it is answered; the granted answers satisfy ``claim``."""

    @property
    @abstractmethod
    def claim(self) -> Budget:
        """The claim that the transcript of any analyst satisfies, whatever requests the analyst chose."""

    @abstractmethod
    def admits(self, ledger: Ledger, request: Request) -> bool:
        """Return whether to grant a request, given the ledger of earlier requests."""


@dataclass(frozen=True)
class TotalFilter(Filter):
    """Grant a request if the granted requests and this one together do not exceed the budget, over all sessions.

    For pure and approximate DP: Rogers, Roth, Ullman and Vadhan (2016); zCDP and Renyi DP: Feldman and Zrnic (2021);
    approximate zCDP: Whitehouse, Ramdas, Rogers and Wu (2023); Gaussian DP: Smith and Thakurta (2022). Sessions that
    share the budget are composed concurrently: Vadhan and Wang (2021), Lyu (2022), Haney et al. (2023). See
    docs/explanation/composition.md for what is open for approximate zCDP.

    >>> from epsaudit.mechanisms.response import RandomisedResponse
    >>> ask, guard = Request(RandomisedResponse(0.6)), TotalFilter(PureDP(1.0))
    >>> guard.admits(Ledger(), ask), guard.admits(Ledger().after(ask, True), ask)
    (True, False)
    """

    budget: Budget

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget):
            kinds = ", ".join(kind.__name__ for kind in BOUGHT)
            raise AuditError(f"The budget is {self.budget}; it must be one of {kinds}.")

    @property
    def claim(self) -> Budget:
        return self.budget

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return covers(self.budget.parameter, self.budget, (*ledger.granted, request))


@dataclass(frozen=True)
class AdvancedFilter(TotalFilter):
    """Advanced composition as a filter: an (epsilon, delta)-DP budget that is spent as approximate zCDP.

    The part ``spent`` of delta pays for the deltas of requests. The rest of delta turns the sum of the rhos into an
    epsilon. Requests for pure DP, approximate DP, zCDP and approximate zCDP may come in any order, and the total does
    not depend on it (Whitehouse, Ramdas, Rogers and Wu 2023, Theorem 1, with the tight conversion of `ApproxZCDP`).

    >>> guard = AdvancedFilter(ApproxDP(1.0, 1e-6), spent=5e-7)
    >>> print(guard.claim, guard.inner)
    (1, 1e-06)-DP 5e-07-approximate 0.0229374-zCDP
    """

    budget: ApproxDP
    spent: float  # the part of delta for the requests' deltas, less than delta

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.spent < self.budget.delta:
            raise AuditError(f"{self.spent!r} of delta is spent; it must be at least 0 and below {self.budget.delta}.")

    @property
    def inner(self) -> ApproxZCDP:
        point = (self.budget.epsilon, self.budget.delta)
        return ApproxZCDP(float(ApproxZCDP(0.0, self.spent).least_at(*point)), self.spent)

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return TotalFilter(self.inner).admits(ledger, request)


@dataclass(frozen=True)
class Opening:
    """A request that opens sessions, each with the given share of the budget.

    With several ``parts`` each session sees one part of the data. The answer is always 0. The request costs the share
    only once, because a record is in one part only (parallel composition).
    """

    share: float
    parts: int = 1
    adjacency: Any = None
    claim: ClassVar[Claim] = PureDP(0.0)

    def __call__(self, dataset: Any) -> FiniteLaw:
        return FiniteLaw((0.0,), [0.0])


@dataclass(frozen=True)
class AdaptiveSessions(TotalFilter):
    """Sessions that are opened, and whose shares are chosen, by earlier answers: fully concurrent composition.

    Session 0 has the budget. A request for `Opening` in a session is granted if the session has the share left. The
    opened sessions get the next numbers. A mechanism that is asked in a session of a partition must be about the part
    of this session: its attribute ``part`` must equal the session's place in the partition. Adaptive shares: Haney,
    Shoemate, Tian, Vadhan, Vyrros, Xu and Zhang (2023).

    >>> guard = AdaptiveSessions(PureDP(3.0))
    >>> ledger = Ledger().after(Request(Opening(1.0, parts=2)), True)
    >>> [session.left for session in guard.open(ledger)]  # the diagram of Tumult Analytics
    [2.0, 1.0, 1.0]
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        _without_delta(self.budget)

    def open(self, ledger: Ledger) -> list[Session]:
        """Return all sessions after the requests of the ledger, in the order of their numbers."""
        sessions = [Session(self.budget.parameter)]
        for request in ledger.granted:
            mechanism, asked = request.mechanism, sessions[request.session]
            if isinstance(mechanism, Opening):
                sessions[request.session] = dataclasses.replace(asked, taken=asked.taken + mechanism.share)
                places = range(mechanism.parts) if mechanism.parts > 1 else (asked.part,)
                sessions += [Session(mechanism.share, part) for part in places]
            else:
                sessions[request.session] = dataclasses.replace(asked, asked=(*asked.asked, request))
        for place, session in enumerate(sessions):
            spent = total(self.budget, session.asked).parameter + session.taken
            sessions[place] = dataclasses.replace(session, left=session.share - spent)
        return sessions

    def admits(self, ledger: Ledger, request: Request) -> bool:
        sessions = self.open(ledger)
        if not 0 <= request.session < len(sessions):
            return False
        session = sessions[request.session]
        if isinstance(request.mechanism, Opening):
            again = request.mechanism.parts > 1 and session.part is not None
            return not again and request.mechanism.share <= session.left * ROUNDING
        if session.part is not None and getattr(request.mechanism, "part", None) != session.part:
            return False
        return covers(session.share - session.taken, self.budget, (*session.asked, request))


@dataclass(frozen=True)
class Session:
    """One open session: its share, its part of the data (None for all data), the granted requests, and its budget.

    ``taken`` is the budget given to sessions opened in this one, and ``left`` is the budget that remains.
    """

    share: float
    part: int | None = None
    asked: tuple[Request, ...] = ()
    taken: float = 0.0
    left: float = 0.0


@dataclass(frozen=True)
class SubSessions(TotalFilter):
    """A session whose budget is divided among itself and sub-sessions with fixed shares; all may be asked in any order.

    Session 0 keeps what the shares leave. Each session is an interactive mechanism of its own, and the sum of their
    budgets bounds the loss of all sessions together: Vadhan and Wang (2021) for pure DP, Lyu (2022) for zCDP.

    Raises `AuditError` if the shares exceed the budget, or if a share is not above 0.

    >>> from epsaudit.mechanisms.response import RandomisedResponse
    >>> guard = SubSessions(PureDP(1.0), (0.3, 0.3))
    >>> [guard.admits(Ledger(), Request(RandomisedResponse(0.35), session)) for session in (0, 1, 2)]
    [True, False, False]
    """

    shares: tuple[float, ...]  # budgets of sessions 1, 2, ... in the unit of the whole

    def __post_init__(self) -> None:
        super().__post_init__()
        _without_delta(self.budget)
        for share in self.shares:
            positive(share, "share of a sub-session")
        if math.fsum(self.shares) > self.budget.parameter:
            raise AuditError(f"The shares {self.shares} add up to more than the budget, {self.budget}.")

    @property
    def rest(self) -> float:
        return self.budget.parameter - math.fsum(self.shares)

    def admits(self, ledger: Ledger, request: Request) -> bool:
        if not 0 <= request.session <= len(self.shares):
            raise AuditError(f"Session {request.session} is not open; there are sessions 0 to {len(self.shares)}.")
        own = (self.rest, *self.shares)[request.session]
        before = tuple(one for one in ledger.granted if one.session == request.session)
        return covers(own, self.budget, (*before, request))


@dataclass(frozen=True)
class Unlimited(Filter):
    """A filter that grants every request, for use with an odometer.

    The claim is the most that the given number of requests can cost.
    """

    worst: Budget  # the greatest total cost of the requests, stated by the caller

    @property
    def claim(self) -> Budget:
        return self.worst

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return True


def _without_delta(budget: Budget) -> None:
    if getattr(budget, "delta", 0.0):
        raise AuditError(f"The budget is {budget}; sessions share one number, so it must have no delta.")


def covers(budget: float, unit: Budget, requests: Sequence[Request]) -> bool:
    """Return whether a budget in the given unit covers the requests together."""
    whole = total(unit, requests)
    fits = whole.parameter <= budget * ROUNDING
    return fits and getattr(whole, "delta", 0.0) <= getattr(unit, "delta", 0.0) * ROUNDING


class Odometer(Protocol):
    """A running bound on the privacy loss, which holds at all times except with probability ``failure``."""

    @property
    def failure(self) -> float:
        """Probability that the privacy loss ever exceeds the reading."""

    def reading(self, ledger: Ledger) -> float:
        """Bound on the privacy loss of the transcript so far, in nats."""


@dataclass(frozen=True)
class StopAt(Filter):
    """A filter made of an odometer: it refuses a request that would take the reading beyond ``most``.

    >>> StopAt(PureOdometer(), 1.0).claim, StopAt(RenyiOdometer(4.0, 0.01), 2.0).claim
    (PureDP(epsilon=1.0), ApproxDP(epsilon=2.0, delta=0.01))
    """

    odometer: Odometer
    most: float

    @property
    def claim(self) -> Budget:
        failure = self.odometer.failure
        return ApproxDP(self.most, failure) if failure else PureDP(self.most)

    def admits(self, ledger: Ledger, request: Request) -> bool:
        return self.odometer.reading(ledger.after(request, True)) <= self.most * ROUNDING


@dataclass(frozen=True)
class PureOdometer:
    """An odometer of the epsilon spent so far, which the privacy loss never exceeds (Rogers et al. 2016)."""

    failure: ClassVar[float] = 0.0

    def reading(self, ledger: Ledger) -> float:
        return ledger.spent(PureDP(0.0)).parameter


@dataclass(frozen=True)
class RenyiOdometer:
    """An odometer from the divergences of one order: exp((order - 1) (L - R)) is a supermartingale.

    L is the privacy loss so far and R the sum of the divergences. By Ville's inequality L <= R + log(1/delta) / (order
    - 1) at all times with probability 1 - delta (Feldman and Zrnic 2021).
    """

    order: float
    delta: float

    def __post_init__(self) -> None:
        fraction(self.delta, "delta of the odometer", open_below=True)
        RenyiDP(self.order, 0.0)

    @property
    def failure(self) -> float:
        return self.delta

    def reading(self, ledger: Ledger) -> float:
        return ledger.spent(RenyiDP(self.order, 0.0)).parameter + math.log(1.0 / self.delta) / (self.order - 1.0)


@dataclass(frozen=True)
class ConcentratedOdometer:
    """An odometer whose bound holds at all times at once, except with probability delta + lost.

    Let L be the privacy loss and R the sum of rhos so far. Under rho-zCDP steps of any adaptive choice, exp(s L - s (s
    + 1) R) is a supermartingale for each s > 0. By Ville's inequality, L <= (s + 1) R + log(1/delta) / s at all times
    with probability 1 - delta. Whitehouse, Ramdas, Rogers and Wu (2023) mix this supermartingale over s. The bound is
    tightest where R is near ``target``. The odometer reads Gaussian DP as mu^2 / 2-zCDP. It reads approximate DP and
    approximate zCDP while their deltas add up to at most ``lost``, and afterwards its reading is infinite.
    """

    delta: float
    target: float  # the rho at which the bound is as tight as rho + 2 sqrt(rho log(1/delta))
    lost: float = 0.0  # greatest sum of the deltas of requests

    def __post_init__(self) -> None:
        fraction(self.delta, "delta of the odometer", open_below=True)
        positive(self.target, "target rho of the odometer")
        fraction(self.lost + self.delta, "delta of the odometer and what may be lost")

    @property
    def failure(self) -> float:
        return self.delta + self.lost

    @property
    def slope(self) -> float:
        return math.sqrt(math.log(1.0 / self.delta) / self.target)

    def reading(self, ledger: Ledger) -> float:
        spent = ledger.spent(ApproxZCDP(0.0, 0.0))
        if spent.delta > self.lost * ROUNDING:
            return math.inf
        return (self.slope + 1.0) * spent.rho + math.log(1.0 / self.delta) / self.slope
