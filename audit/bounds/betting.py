"""Test supermartingales: money won by betting that guesses are correct more often than a claim allows.

A run is guessed by a witness with m events that the past decides. Under (epsilon, delta)-DP the factor

    1 + bet (1[correct] - e^epsilon 1[wrong] - m delta / 2),   0 <= bet <= 1 / (e^epsilon + m delta / 2),

is nonnegative, with mean at most 1 given the past. Proofs: docs/explanation/theory.md#testing-by-betting.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import Claim

FRACTIONS: Floats = np.geomspace(2e-3, 0.95, 60)
"""[measured] The sixty bets, as fractions of the largest bet allowed. The small ones are for claims that are nearly
right. With 15 and with 240 bets the median runs to a refutation differ by at most 7 % in six cases of 12 seeds each."""
LARGEST_EPSILON, LARGEST_DELTA = 100.0, 1.0 - 1e-9
"""[chosen] The largest epsilon and delta that can be bet against; no number of runs refutes a weaker claim."""
STAKE = 0.9
"""[chosen] The weight w of the bets against the claim in `evidence`."""
DIVIDED, RECOMMENDED = 0.5, 0.9
"""[measured] The share of the wealth that is divided anew before each round, and the part of it that is divided as the
past recommends. With 0.9 for the former, refutations of 17 claims at 5 % and 1e-6 take 2 % fewer runs (12 seeds), and
the bounds of three vectors that satisfy their claims are 3 to 13 % lower (8 seeds); other bounds are the same."""
MIN_STRATEGY_SHARE = 0.1
"""[chosen] The least share of the divided wealth that a strategy gets, however small its estimated growth is."""


def log_factors(epsilon: ArrayLike, delta: ArrayLike, events: int, fractions: Floats = FRACTIONS) -> Floats:
    """Return the logarithm of the factor by which a bet changes its wealth: after a correct, a wrong, and no guess.

    Parameters
    ----------
    epsilon, delta : arrays of shape (...)
        The points under test.
    events : int
        The number of events of the witness, 1 or 2.
    fractions : array of shape (bets,)
        The bets, as fractions of the largest bet allowed.

    Returns
    -------
    array of shape (3, ..., bets)
    """
    ratio, leak = np.broadcast_arrays(np.exp(np.asarray(epsilon, float)), events * np.asarray(delta, float) / 2.0)
    ratio, leak = ratio[..., None], leak[..., None]
    bets = fractions / (ratio + leak)
    lost = np.broadcast_to(np.log1p(-fractions), bets.shape)
    return np.stack([np.log1p(bets * (1.0 - leak)), lost, np.log1p(-bets * leak)])


def average(log_wealth: Floats, axis: int | tuple[int, ...] = -1) -> Floats:
    """Return the logarithm of the average wealth along ``axis``, from the logarithms of the single wealths."""
    most = np.max(log_wealth, axis=axis, keepdims=True)
    return np.asarray(np.log(np.mean(np.exp(log_wealth - most), axis=axis)) + np.squeeze(most, axis=axis))


def shares(correct: float, wrong: float, runs: int, log_factors: Floats) -> tuple[Floats, Floats]:
    """Return how to divide a strategy's wealth among its bets, as its past runs advise, and the growth of the best bet.

    The shares have shape (parameters, 60), because a strategy makes sixty bets of different size against each
    parameter. ``correct`` and ``wrong`` are estimated probabilities of a correct and of a wrong guess. A bet gets a
    share in proportion to the wealth that it would have made in the past ``runs`` with these probabilities, and a tenth
    is divided evenly. If all ``log_factors`` are 0, everything is divided evenly. The growth, shape (parameters,), is
    the expected growth of log-wealth in one run, or 0 if it is negative.
    """
    grows = np.tensordot([correct, wrong, max(1.0 - correct - wrong, 0.0)], log_factors, 1)
    most = np.max(grows, axis=-1, keepdims=True)
    made = np.exp(runs * (grows - most))
    shared = RECOMMENDED * made / made.sum(axis=-1, keepdims=True) + (1.0 - RECOMMENDED) / len(FRACTIONS)
    return shared, np.maximum(most[:, 0], 0.0)


def divided(log_wealth: Floats, shares: Floats) -> Floats:
    """Return the log-wealth of all bets after half of it was pooled for each parameter and divided in the given shares.

    Both arrays have shape (strategies, parameters, bets). The shares of each parameter sum to 1.
    """
    everybody = average(log_wealth, axis=(0, -1))[None, ..., None]
    with np.errstate(divide="ignore"):
        anew = everybody + np.log(shares) + math.log(DIVIDED * shares.shape[0] * shares.shape[-1])
    return np.logaddexp(log_wealth + math.log1p(-DIVIDED), anew)


def evidence(log_wealth: Floats, log_wealth_at_claim: Floats, parameters: Floats, claimed: float) -> Floats:
    """Return the logarithm of the evidence E against each parameter, from the logarithm of the average wealth W.

    W is the average wealth of the bets against the parameter, W_claim is that of the bets against the claim, and w is
    `STAKE`. E is (1 - w) W + w W_claim for parameters below the claim, w W_claim at the claim, and W above it. The
    running bound is the largest parameter up to which every E has reached 1 / alpha; with probability 1 - alpha it
    never exceeds the truth. Arrays have shape (..., parameters).
    """
    staked = log_wealth_at_claim + math.log(STAKE)
    shared = np.logaddexp(log_wealth + math.log1p(-STAKE), staked)
    return np.where(parameters < claimed, shared, np.where(parameters == claimed, staked, log_wealth))


def growth(correct: ArrayLike, wrong: ArrayLike, epsilon: float, delta: float, events: int) -> Floats:
    """Return the expected growth of log-wealth in one run for the bet with the greatest growth, or 0 if it is negative.

    ``correct`` and ``wrong`` are the probabilities of a correct and of a wrong guess, and the point (epsilon, delta) is
    tested. At delta = 0 the growth is, up to the grid of bets, the probability of a guess times the relative entropy of
    its correctness to what the claim allows; 1 / growth is the information limit of docs/explanation/power.md.
    """
    correct, wrong = np.broadcast_arrays(np.asarray(correct, float), np.asarray(wrong, float))
    factors = log_factors(epsilon, delta, events)
    rates = np.stack([correct, wrong, np.maximum(1.0 - correct - wrong, 0.0)], axis=-1)
    return np.asarray(np.maximum(np.max(rates @ factors, axis=-1), 0.0))


def parameter_grid(claim: Claim) -> Floats:
    """Return the parameters that a sequential audit tests, in ascending order.

    Up to the claim the steps are a hundredth of the claim, and from there to four times the claim they are 2 %. If the
    claimed parameter is 0, the grid is 0 and values from 0.001 to 4. For a claim about a curve there are half as many
    parameters, because each of them costs a point of its privacy profile.
    """
    below, above = (100, 70) if claim.claimed_point is not None else (50, 35)
    claimed = claim.parameter
    rising = 4.0 ** (np.arange(1, above + 1) / above)
    if claimed == 0.0:
        return np.concatenate([[0.0], 1e-3 * 4000.0 ** (np.arange(above + 1) / above)])
    return np.concatenate([claimed * np.arange(1, below) / below, [claimed], claimed * rising])


@functools.lru_cache(maxsize=256)
def tangents(claim: Claim) -> tuple[tuple[float, float], ...]:
    """Return the points (epsilon, delta) of the claim's privacy profile that are worth testing, down to delta = 1e-8.

    For pure and approximate DP this is only the claimed point, from which all others follow.
    """
    if claim.claimed_point is not None:
        return (claim.claimed_point,)
    total = claim.profile(0.0)
    deltas = total * np.array([0.8, 0.6, 0.4, 0.25, 0.12, 0.05, 0.02])
    rare = np.array([1e-3, 1e-5, 1e-6, 1e-8])
    tested = np.array([*deltas, *rare[rare < 0.01 * total]])
    tested = tested[
        np.asarray(claim.least_at(LARGEST_EPSILON, tested)) > claim.parameter
    ]  # points whose epsilon is at most `LARGEST_EPSILON`
    points = [claim.approximate(float(delta)) for delta in tested]
    return ((0.0, total), *((point.epsilon, point.delta) for point in points if point.epsilon > 0.0))


@functools.lru_cache(maxsize=256)
def points(claim: Claim, tangent: float | None) -> tuple[Floats, Floats]:
    """Return the epsilon and the delta at which each parameter of `parameter_grid` is tested.

    For a claim about a curve, all epsilons are ``tangent``, and the deltas are those of the privacy profile of each
    parameter at this epsilon. They are exact at the claim and rounded up elsewhere: `Claim.least_at` is tabulated, and
    an interpolated delta that is too small is replaced by the next entry of the table. For pure and approximate DP,
    ``tangent`` is None, the epsilons are the parameters, and the delta is that of the claim.
    """
    grid = parameter_grid(claim)
    if tangent is None:
        assert claim.claimed_point is not None
        return grid, np.full(len(grid), claim.claimed_point[1])
    table = np.concatenate([np.geomspace(1e-14, 0.01, 25), np.linspace(0.02, 1.0, 24)])
    least = np.maximum.accumulate(np.asarray(claim.least_at(tangent, table), float))
    next_up = table[np.minimum(np.searchsorted(least, grid), len(table) - 1)]
    finite = np.isfinite(least) & (least > 0.0)
    positive = np.maximum(grid, 1e-300)
    guess = np.exp(np.interp(np.log(positive), np.log(least[finite]), np.log(table[finite]))) * 1.01
    proposal = np.minimum(guess, next_up)
    enough = np.asarray(claim.least_at(tangent, proposal), float) >= grid
    delta = np.minimum(np.where(enough, proposal, next_up), 1.0)
    delta[grid == claim.parameter] = claim.profile(tangent)
    return np.full(len(grid), tangent), delta


@functools.lru_cache(maxsize=32)
def log_factors_at(claim: Claim, tangent: float | None, events: int) -> Floats:
    """Return the `log_factors` of every parameter of `parameter_grid`, shape (3, parameters, bets).

    ``tangent`` is the epsilon at which a claim about a curve is tested; None for pure and approximate DP.
    """
    return log_factors(*points(claim, tangent), events)


class GuessingWitness(Protocol):
    """A witness as the accounts of the bets see it: they need only its number of events, 1 or 2."""

    @property
    def events(self) -> int: ...


class Bet(Protocol):
    """What a strategy bets on in one round; it is chosen from the outputs of earlier rounds only.

    Attributes
    ----------
    witness
        The witness whose guesses are bet on.
    tangent : float, optional
        The epsilon at which the profile of a claim about a curve is tested; None for pure and approximate DP.
    correct, wrong : float
        Estimated probabilities of a correct and of a wrong guess. A parameter is bet against only if they violate it.
    past : int
        The number of earlier runs that the decision was made from.
    """

    @property
    def witness(self) -> GuessingWitness: ...
    @property
    def tangent(self) -> float | None: ...
    @property
    def correct(self) -> float: ...
    @property
    def wrong(self) -> float: ...
    @property
    def past(self) -> int: ...


class Accounts:
    """The wealth of all bets in a sequential audit, and the running bound that follows from it.

    Every strategy bets against every parameter of `parameter_grid`. `open` begins a round with what each strategy bets
    on, and `close` ends the round with the numbers of correct and wrong guesses.

    Parameters
    ----------
    claim : Claim
        The claim to bet against.
    confidence : float
        The probability that the running bound never exceeds the truth.
    strategies : int
        The number of strategies.

    Attributes
    ----------
    log_wealth : array of shape (strategies, parameters, bets)
        The logarithm of the wealth of every bet.
    bound : float
        The running bound: the largest parameter up to which every parameter of the grid was rejected, or 0.
    needed : float
        The log-evidence that rejects a parameter.
    """

    def __init__(self, claim: Claim, confidence: float, strategies: int) -> None:
        self.claim = claim
        self.grid = parameter_grid(claim)
        self._claimed = claim.parameter
        self.at_claim = int(np.flatnonzero(self.grid == self._claimed)[0])
        self.needed = -math.log1p(-confidence)
        shape = (strategies, len(self.grid), len(FRACTIONS))
        self.log_wealth, self.factors = np.zeros(shape), np.zeros((strategies, 3, *shape[1:]))
        self._ever, self.bound = np.zeros(len(self.grid), bool), 0.0

    def open(self, strategies: Sequence[Bet]) -> None:
        """Begin a round: set what every strategy bets on, and divide the wealth anew among the bets."""
        advised, grows = np.empty_like(self.log_wealth), np.empty(self.log_wealth.shape[:2])
        for index, strategy in enumerate(strategies):
            epsilon, delta = points(self.claim, strategy.tangent)
            rates, events = (strategy.correct, strategy.wrong), strategy.witness.events
            factors = log_factors_at(self.claim, strategy.tangent, events)
            violated = rates[0] - np.exp(epsilon) * rates[1] - events * delta / 2.0 > 0.0
            self.factors[index] = np.where(violated[:, None], factors, 0.0)
            advised[index], grows[index] = shares(*rates, strategy.past, self.factors[index])
        grows += 1e-12
        parts = MIN_STRATEGY_SHARE + (1.0 - len(grows) * MIN_STRATEGY_SHARE) * (grows / grows.sum(axis=0))
        self.log_wealth = divided(self.log_wealth, advised * parts[..., None])

    def close(self, tallies: Floats) -> None:
        """End a round: change the wealth by the outcomes of the round.

        ``tallies`` has shape (strategies, 3). It holds the numbers of correct guesses, of wrong guesses, and of runs
        without a guess.
        """
        self.log_wealth = self.log_wealth + np.einsum("so,sopb->spb", tallies, self.factors)

    def against_claim(self, tallies: Floats) -> Floats:
        """Return the log-evidence against the claim at several moments of the current round, shape (looks,).

        ``tallies`` has shape (looks, strategies, 3) and holds the numbers of correct guesses, wrong guesses and runs
        without a guess in this round so far.
        """
        at = self.at_claim
        wealth = self.log_wealth[:, at] + np.einsum("lso,sob->lsb", tallies, self.factors[:, :, at])
        return average(wealth, axis=(-2, -1)) + math.log(STAKE)

    def look(self, tallies: Floats) -> None:
        """Reject every parameter against which there is enough evidence now, and raise the running bound.

        ``tallies`` has shape (strategies, 3) and holds the numbers of correct guesses, wrong guesses and runs without a
        guess in this round so far.
        """
        wealth = self.log_wealth + np.einsum("so,sopb->spb", tallies, self.factors)
        most = wealth.max(axis=(0, 2))  # the average wealth is at most this maximum
        likely = np.flatnonzero((np.maximum(most, most[self.at_claim]) >= self.needed) & ~self._ever)
        if not len(likely):
            return
        everybody, at_claim = average(wealth[:, likely], axis=(0, 2)), average(wealth[:, self.at_claim], axis=(0, 1))
        self._ever[likely] = evidence(everybody, at_claim, self.grid[likely], self._claimed) >= self.needed
        rejected = int(np.argmin(np.append(self._ever, False)))
        self.bound = float(self.grid[rejected - 1]) if rejected else 0.0


@functools.lru_cache(maxsize=256)
def point(claim: Claim, tangent: float | None) -> tuple[float, float]:
    """Return the point (epsilon, delta) at which a claim is tested.

    It is the claimed point for pure and approximate DP. For a claim about a curve it is the point of the privacy
    profile at epsilon = ``tangent``.
    """
    return claim.claimed_point or (float(tangent or 0.0), claim.profile(float(tangent or 0.0)))
