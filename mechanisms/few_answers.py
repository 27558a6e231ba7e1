"""Mechanisms of few answers about one user's bit whose claims are none of pure DP: Gaussian DP, and a whole curve.

Both have finite laws, so that they, and transcripts that are made of them, have an exact value. `NoisyGambler` asks for
the first through a filter of `epsaudit.mechanisms.budgets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from epsaudit.adapters.functions import Mechanism
from epsaudit.claims.curves import TradeOff
from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP, PureDP
from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError
from epsaudit.mechanisms.analysts import Gambler
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.budgets import Ledger
from epsaudit.mechanisms.laws import FiniteLaw, Floats


@dataclass(frozen=True)
class RoundedGaussian(Reference):
    """A user's bit plus Gaussian noise of standard deviation 1 / mu, of which only the cell is told: mu-GDP.

    Cells are as wide as the noise's standard deviation and symmetric about 1/2; the outer two have no end. Rounding
    looks at nothing but the noisy bit (Dong, Roth and Su 2022, Theorem 2.7; Bun and Steinke 2016, Proposition 1.6).

    Raises `AuditError` if a parameter is out of range, or if a dataset is not one user's bit.

    Examples
    --------
    >>> mechanism = RoundedGaussian(1.0, cells=4)
    >>> np.exp(mechanism((1,)).log_probabilities).round(4).tolist(), str(mechanism.claims[1])
    ([0.0668, 0.2417, 0.3829, 0.3085], '0.5-zCDP')
    """

    mu: float
    cells: int = 3  # how many there are, at least 2. Outputs are their numbers, 0 for the lowest
    name: ClassVar[str] = "rounded Gaussian noise on a bit"
    adjacency = Substitution()
    pair = DatasetPair((0,), (1,))
    wholes = {"cells": (2, "number of cells")}

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (GaussianDP(self.mu), ZCDP(self.mu**2 / 2.0))

    def __call__(self, dataset: tuple[int, ...]) -> FiniteLaw:
        ends = np.arange(1, self.cells) - self.cells / 2.0 + (0.5 - _bit(dataset)) * self.mu  # of the noise, in sigmas
        low, high = np.concatenate([[-np.inf], ends]), np.concatenate([ends, [np.inf]])
        flip = low > 0.0  # so that cells far above keep their digits
        chances = np.where(flip, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        return FiniteLaw(range(self.cells), np.log(chances))


@dataclass(frozen=True)
class RepeatedResponse(Reference):
    """How many of k randomised responses on a user's bit are yes: DP along a curve that no composition goes beyond.

    Outcomes in which i of k answers lie have the loss (k - 2 i) epsilon. At these the curve has its kinks, delta_i =
    sum over l < i of C(k, l) (e^((k - l) epsilon) - e^((k - 2 i + l) epsilon)) / (1 + e^epsilon)^k, and between them
    the privacy profile is a line in e^epsilon. Kairouz, Oh and Viswanath (2015), Theorem 3.3, which proves that any k
    epsilon-DP mechanisms, chosen from earlier answers, are DP along it, too.

    Raises `AuditError` if a parameter is out of range, or if a dataset is not one user's bit.

    Examples
    --------
    >>> mechanism = RepeatedResponse(0.5, 3)
    >>> print(mechanism.claim, [(epsilon, round(delta, 4)) for epsilon, delta in mechanism.claim.points])
    DP along a curve of 2 points [(1.5, 0.0), (0.5, 0.1525)]
    """

    epsilon: float  # of an answer
    copies: int  # k, at least 1
    name: ClassVar[str] = "repeated randomised response"
    adjacency = Substitution()
    pair = DatasetPair((0,), (1,))
    wholes = {"copies": (1, "number of copies")}

    @property
    def claims(self) -> tuple[Claim, ...]:
        kinks = range(self.copies, -1, -2)
        chances = np.exp(self((1,)).log_probabilities)
        losses = (2 * np.arange(self.copies + 1) - self.copies) * self.epsilon
        above = (chances @ -np.expm1(np.minimum(kink * self.epsilon - losses, 0.0)) for kink in kinks)
        points = [(kink * self.epsilon, float(delta)) for kink, delta in zip(kinks, above, strict=True)]
        # nearer 0 digits are lost, and the claim would say too much; rounded to 1 it says nothing
        told = (points[0], *(point for point in points if np.finfo(float).tiny < point[1] < 1.0))
        return (TradeOff(told), PureDP(self.copies * self.epsilon))

    def __call__(self, dataset: tuple[int, ...]) -> FiniteLaw:
        count = np.arange(self.copies + 1)
        lies = self.copies - count if _bit(dataset) else count
        ways = -gammaln(count + 1.0) - gammaln(self.copies - count + 1.0)  # up to a constant
        return FiniteLaw(count.tolist(), ways - lies * self.epsilon)


@dataclass(frozen=True)
class NoisyGambler(Gambler):
    """Asks for `RoundedGaussian`, with less noise where the cells so far lean to one side.

    Examples
    --------
    >>> NoisyGambler((0.5, 1.0), lead=2).choose(np.array([[2.0, 2.0], [2.0, 0.0]]), Ledger()).tolist()
    [1, 0]
    """

    cells: int = 3

    def response(self, epsilon: float) -> Mechanism:
        """What is asked for at a price of mu = epsilon."""
        return RoundedGaussian(epsilon, self.cells)

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        """As the parent does; a cell counts by how many cells it is from the middle."""
        lean = np.nansum(answers - (self.cells - 1) / 2.0, axis=1)
        refused = sum(not granted for _, granted in ledger.entries)
        dear = max(len(self.epsilons) - 1 - refused, 0)
        return np.where(np.abs(lean) >= self.lead, dear, 0).astype(np.int64)


def _bit(dataset: Any) -> int:
    if len(dataset) != 1 or dataset[0] not in (0, 1):
        raise AuditError(f"The dataset is {dataset!r}; it must be one user's bit, (0,) or (1,).")
    return int(dataset[0])
