"""Wealth of all bets against every parameter, updated round by round, and the running bound that follows from it.

`Accounts` is told what each strategy bets on in a round, then how often it guessed correctly. The audit keeps it while
it runs, and the result recomputes it from the recorded rounds, so that a bound read from a file is one of its rounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.sequential import betting
from epsaudit.claims.definitions import Claim
from epsaudit.witnesses import Witness


@dataclass(frozen=True)
class Bet:
    """What a strategy bets on in a round, decided by the past.

    Attributes
    ----------
    witness : Witness
        The events.
    tangent : float or None
        Where the profile of a claim about a curve is tested; None for pure and approximate DP.
    correct, wrong : float
        Probabilities of a correct and of a wrong guess, as the past has them: a parameter is bet against only where
        they violate it.
    past : int
        How many runs that past had.
    """

    witness: Witness
    tangent: float | None
    correct: float
    wrong: float
    past: int


class Accounts:
    """Log-wealth of every bet against every parameter of the grid, shape (strategies, parameters, bets).

    ``confidence`` is that of the running bound, at all times.
    """

    def __init__(self, claim: Claim, confidence: float, strategies: int) -> None:
        self.claim, self.strategies = claim, strategies
        self.grid = betting.parameter_grid(claim)
        self.at_claim = int(np.flatnonzero(self.grid == claim.parameter)[0])
        self.needed = -math.log1p(-confidence)
        shape = (strategies, len(self.grid), len(betting.FRACTIONS))
        self.log_wealth, self.factors = np.zeros(shape), np.zeros((strategies, 3, *shape[1:]))
        self._ever = np.zeros(len(self.grid), bool)

    @property
    def bound(self) -> float:
        """The largest parameter up to which every one of the grid was rejected, or 0."""
        left = np.flatnonzero(~self._ever)
        rejected = int(left[0]) if len(left) else len(self.grid)
        return float(self.grid[rejected - 1]) if rejected else 0.0

    def open(self, strategies: Sequence[Bet]) -> None:
        """Begin a round: decide who bets against what, and divide the wealth anew; by the past only."""
        shares, growth = np.empty_like(self.log_wealth), np.empty(self.log_wealth.shape[:2])
        for index, strategy in enumerate(strategies):
            epsilon, delta = _points(self.claim, strategy.tangent)
            rates, events = (strategy.correct, strategy.wrong), strategy.witness.events
            factors = betting.log_factors(epsilon, delta, events)
            violated = rates[0] - np.exp(epsilon) * rates[1] - events * delta / 2.0 > 0.0
            self.factors[index] = np.where(violated[:, None], factors, 0.0)
            shares[index], growth[index] = betting.shares(*rates, strategy.past, self.factors[index])
        self.log_wealth = betting.divided(self.log_wealth, shares * betting.parts(growth)[..., None])

    def close(self, tallies: betting.Floats) -> None:
        """End a round in which so many guesses were correct, wrong and none: shape (strategies, 3)."""
        self.log_wealth = self.log_wealth + np.einsum("so,sopb->spb", tallies, self.factors)

    def against_claim(self, tallies: betting.Floats) -> betting.Floats:
        """Log-evidence against the claim after such tallies of the round, shape (looks, strategies, 3)."""
        at = self.at_claim
        wealth = self.log_wealth[:, at] + np.einsum("lso,sob->lsb", tallies, self.factors[:, :, at])
        return betting.average(wealth, axis=(-2, -1)) + math.log(betting.STAKE)

    def look(self, tallies: betting.Floats) -> None:
        """Reject every parameter that these tallies of the round, shape (strategies, 3), contradict."""
        wealth = self.log_wealth + np.einsum("so,sopb->spb", tallies, self.factors)
        average = betting.average(wealth, axis=(0, 2))
        at_claim = average[self.at_claim, None]
        self._ever |= betting.evidence(average, at_claim, self.grid, self.claim.parameter) >= self.needed


@functools.lru_cache(maxsize=256)
def point(claim: Claim, tangent: float | None) -> tuple[float, float]:
    """The (epsilon, delta) at which the claim is tested: its own, or that of its profile at the tangent."""
    if claim.claimed_point is not None:
        return claim.claimed_point
    return (float(tangent or 0.0), claim.profile(float(tangent or 0.0)))


def _points(claim: Claim, tangent: float | None) -> tuple[betting.Floats, betting.Floats]:
    """Return the same of every parameter of the grid; delta is never too small."""
    epsilon, delta = (values.copy() for values in betting.points(claim, tangent))
    at = betting.parameter_grid(claim) == claim.parameter
    epsilon[at], delta[at] = point(claim, tangent)
    return epsilon, delta


def tally_of(runs: int, correct: int, wrong: int) -> NDArray[np.float64]:
    """Correct guesses, wrong ones and none, in this order."""
    return np.array([correct, wrong, runs - correct - wrong], float)
