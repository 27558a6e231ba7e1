"""What a sequential audit would have caught: the least parameter that its runs would have refuted by events as it saw.

Takes the rounds of an audit; returns a parameter, of a mechanism that is imagined. Nothing here is a bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from epsaudit.audits.sequential import betting
from epsaudit.audits.sequential.accounts import point
from epsaudit.claims.curves import ApproxZCDP
from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP, RenyiDP

Floats = betting.Floats
ERRORS = 3.0
"""Standard errors by which the guesses of an event are taken to be worse before events are compared: an audit saw some
forty, and at 2 a rare one was the best by luck in 1 of 60 right Laplace audits (seeds 0 to 59)."""
RARER = tuple(2.0 ** (-np.arange(13) / 2.0))
"""Shares of the most common event seen that are tried where a Gaussian is imagined: its tails may be cut anywhere."""
LEAST = 0.1
"""Least parameter up to which is searched: four times a claim of 0 is 0."""


@dataclass(frozen=True)
class Seen:
    """An event, or two, as an audit saw them over all rounds: where they were tested, how many, and their guesses."""

    tangent: float | None
    events: int
    runs: int
    correct: int
    wrong: int

    @property
    def share(self) -> float:
        """Share of the runs that were guessed."""
        return (self.correct + self.wrong) / self.runs if self.runs else 0.0

    def odds(self, delta: float) -> float:
        """Logarithm of correct to wrong guesses, those left out that delta allows, each so many `ERRORS` worse.

        Their limits are Wilson's of rare counts: of none, ERRORS squared may have been expected.
        """
        half = ERRORS**2 / 2.0
        correct = self.correct + half - ERRORS * math.sqrt(self.correct + half / 2.0)
        wrong = self.wrong + half + ERRORS * math.sqrt(self.wrong + half / 2.0)
        return math.log(max(correct - self.events * delta / 2.0 * self.runs, 1.0) / wrong)


def gaussian(claim: Claim) -> float | None:
    """Mean mu of the Gaussian of scale 1 that attains a claim; None for others, such as (epsilon, delta).

    Its Renyi divergence of order a is a mu^2 / 2.

    Examples
    --------
    >>> gaussian(ZCDP(0.5)), gaussian(RenyiDP(4.0, 2.0)), gaussian(GaussianDP(2.0))
    (1.0, 1.0, 2.0)
    """
    if isinstance(claim, GaussianDP):
        return claim.mu
    if isinstance(claim, ZCDP | ApproxZCDP):
        return math.sqrt(2.0 * claim.rho)
    return math.sqrt(2.0 * claim.epsilon / claim.order) if isinstance(claim, RenyiDP) else None


def detectable(claim: Claim, seen: Sequence[Seen], runs: int, log_needed: float, share: float = 0.9) -> float | None:
    """Least parameter that ``runs`` would have refuted with probability about ``share``, by events as common as those.

    Solved on the law of the game by a normal approximation to the number of correct guesses. Where a Gaussian attains
    the claim, it is imagined, guessed by its likelihood ratio at most as often as by one of the events, and tested at
    the best tangent; else a mechanism that attains its parameter on the event that tells most. ``log_needed`` is the
    log-wealth at which the claim is refuted. None if not even four times the claim would have been.
    """
    seen = [one for one in seen if one.share > 0.0]
    if not seen or runs == 0:
        return None
    if gaussian(claim) is None:
        points = [point(claim, one.tangent) for one in seen]
        told = [one.odds(delta) - epsilon for one, (epsilon, delta) in zip(seen, points, strict=True)]
        best = int(np.argmax(told))
        bets = [(points[best], seen[best].events, seen[best].share)]
    else:
        most = {events: max(one.share for one in seen if one.events == events) for events in {o.events for o in seen}}
        bets = [(at, *one) for at in betting.tangents(claim) for one in itertools.product(most, RARER)]
        bets = [(at, events, most[events] * rarer) for at, events, rarer in bets]
    factors = np.stack([betting.log_factors(*at, number) for at, number, _ in bets])
    events, guesses = np.array([one[1] for one in bets]), runs * np.array([one[2] for one in bets])
    epsilons = np.array([at[0] for at, _, _ in bets])
    quantile = float(ndtri(share))

    def caught(parameter: float) -> bool:
        odds = _odds(claim.with_parameter(parameter), epsilons, events, guesses / runs)
        right = np.maximum(guesses * odds - quantile * np.sqrt(guesses * odds * (1.0 - odds)), 0.0)
        tallies = np.stack([right, guesses - right, runs - guesses], axis=-1)
        return bool(np.any(betting.average(np.einsum("eo,eob->eb", tallies, factors)) >= log_needed))

    low, high = claim.parameter, max(4.0 * claim.parameter, LEAST)
    if not caught(high):
        return None
    while high - low > 1e-3 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if caught(middle) else (middle, high)
    return high


def with_half_noise(claim: Claim) -> float:
    """How many times the claim half of the noise spends: twice; four times where the parameter is squared in noise.

    Examples
    --------
    >>> with_half_noise(GaussianDP(0.5)), with_half_noise(ZCDP(0.5))
    (2.0, 4.0)
    """
    return 4.0 if isinstance(claim, ZCDP | ApproxZCDP | RenyiDP) else 2.0


def _odds(imagined: Claim, epsilons: Floats, events: Floats, guesses: Floats) -> Floats:
    """Probability that a guess is correct under the mechanism that is imagined, where so many runs are guessed."""
    mu = gaussian(imagined)
    if mu is None:
        epsilon, delta = np.transpose([point(imagined, float(tangent)) for tangent in epsilons])
        return np.asarray(
            np.minimum((np.exp(epsilon) * guesses + events * delta / 2) / (1.0 + np.exp(epsilon)) / guesses, 1.0)
        )
    either = 2.0 * guesses / events  # probability of the event on x plus that on x'
    low, high = np.full(len(guesses), -40.0), np.full(len(guesses), 40.0)
    for _ in range(40):
        middle = (low + high) / 2.0
        more = ndtr(mu / 2.0 - middle) + ndtr(-mu / 2.0 - middle) > either
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray(ndtr(mu / 2.0 - low) / (ndtr(mu / 2.0 - low) + ndtr(-mu / 2.0 - low)))
