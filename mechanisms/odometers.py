"""Privacy odometers, which report what is spent so far, whatever it is, and filters that stop at a reading."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from epsaudit.claims.curves import ApproxZCDP
from epsaudit.claims.definitions import ApproxDP, PureDP, RenyiDP
from epsaudit.errors import fraction
from epsaudit.mechanisms.base import positive
from epsaudit.mechanisms.budgets import ROUNDING, Budget, Filter, Ledger, Request


class Odometer(Protocol):
    """Reports what is spent: a bound on the privacy loss that holds at all times but with probability ``failure``."""

    @property
    def failure(self) -> float:
        """Probability that the loss ever exceeds the reading."""

    def reading(self, ledger: Ledger) -> float:
        """Bound on the privacy loss of the transcript so far, in nats."""


@dataclass(frozen=True)
class StopAt(Filter):
    """A filter made of an odometer: nothing is granted that takes its reading beyond ``most``.

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
    """Epsilon spent so far: the privacy loss of what was seen never exceeds it (Rogers et al. 2016).

    >>> PureOdometer().reading(Ledger())
    0.0
    """

    failure: ClassVar[float] = 0.0

    def reading(self, ledger: Ledger) -> float:
        return ledger.spent(PureDP(0.0)).parameter


@dataclass(frozen=True)
class RenyiOdometer:
    """Bound on the loss from the divergences of one order: exp((order - 1) (L - R)) is a supermartingale.

    L is the privacy loss so far and R the sum of the divergences: by Ville's inequality L <= R + log(1/delta) / (order
    - 1) at all times with probability 1 - delta (Feldman and Zrnic 2021).

    >>> round(RenyiOdometer(4.0, 0.05).reading(Ledger()), 3)
    0.999
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
    """Bound on the privacy loss that holds at all times at once, except with probability delta + lost.

    Under rho-zCDP steps of any adaptive choice, exp(s L - s (s + 1) R), with L the privacy loss and R the sum of rhos
    so far, is a supermartingale for each s > 0, so by Ville's inequality L <= (s + 1) R + log(1/delta) / s at all times
    with probability 1 - delta; Whitehouse, Ramdas, Rogers and Wu (2023) mix it over s. The bound is tightest where R
    is near ``target``. It reads Gaussian DP as mu^2 / 2-zCDP, and approximate DP and zCDP while their deltas add up to
    at most ``lost``, from when on it reads infinity.

    >>> round(ConcentratedOdometer(1e-3, 0.5).slope, 3)
    3.717
    """

    delta: float
    target: float  # the rho at which it is as tight as rho + 2 sqrt(rho log(1/delta))
    lost: float = 0.0  # what the deltas of requests may add up to

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
