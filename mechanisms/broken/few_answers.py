"""A limit taken for a curve, and an odometer that is read too late.

Claims are what they should be or what the limit makes of them; what gets out is more.
"""

from __future__ import annotations

import math

from epsaudit.claims.curves import TradeOff
from epsaudit.claims.definitions import Claim, GaussianDP
from epsaudit.mechanisms.budgets import Ledger, Request
from epsaudit.mechanisms.few_answers import RepeatedResponse
from epsaudit.mechanisms.odometers import StopAt


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
