"""Could the rounds of a stored sequential audit have given its running bound? Not if their best order would not.

A result enters, sentences about its path leave. A file holds what was seen in each round, not in which order, nor
which parameters other than the claim were bet against, so every order and every such choice is allowed for: a path
that passes may still be made up, above all where few rounds bet against the claim; one that does not is impossible.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from audit.claims import Claim
from audit.sequential import betting
from audit.sequential.record import Play, Round, SequentialResult, changed, point, tally

SLACK = 1e-6
"""Log-wealth that rounding may make."""


def unreachable(result: SequentialResult) -> list[str]:
    """Say which rises of the running bound no order of the stored runs can have made.

    A rise rejects the least parameter that was left at that very look, all others up to the new bound then or before.

    Parameters
    ----------
    result : SequentialResult
        Its rounds and counts have to be possible.

    Returns
    -------
    list of str
    """
    grid, said, last = betting.parameter_grid(result.claim), [], 0.0
    needed = -math.log1p(-result.confidence) - SLACK
    stages = list(_stages(result))
    others = result.runs - sum(stage.runs for stage in stages)  # runs on pairs that were only looked at
    for runs, bound in result.path:
        risen = np.flatnonzero((grid <= bound * (1.0 + SLACK)) & (grid > last * (1.0 + SLACK)))
        last = bound
        if len(risen) == 0:
            continue
        now, ever = np.full((2, len(grid)), -math.inf)
        for stage in stages:
            low, high = max(runs - stage.before - others, 1), min(runs - stage.before, stage.runs)
            if low <= high:
                now = np.maximum(now, stage.most(low, high))
            if high >= 1:
                ever = np.maximum(ever, stage.most(1, high))
        if now[risen[0]] < needed or np.any(ever[risen[1:]] < needed):
            said.append(f"The bound is said to have reached {bound:.6g} after {runs:,} runs; these cannot give that.")
    return said


class _Stage:
    """A round, and the most that bettors can have had before it, shape (strategies, parameters, bets)."""

    def __init__(self, result: SequentialResult, round_: Round, before: int, wealth: betting.Floats) -> None:
        self.result, self.plays, self.before, self.wealth = result, round_.plays, before, wealth
        self.runs = int(round_.plays[0].counts.runs)
        self.factors, self.bet_on = zip(*(_factors(result.claim, play) for play in round_.plays), strict=True)
        self.known: dict[tuple[int, int], betting.Floats] = {}

    def most(self, low: int, high: int) -> betting.Floats:
        """Most log-evidence against each parameter after ``low`` to ``high`` runs of the round."""
        if (low, high) not in self.known:
            grid, claim = betting.parameter_grid(self.result.claim), self.result.claim
            average = betting.average(np.moveaxis(self.wealth + self.gains(low, high), 1, 0), axis=(-2, -1))
            at_claim = average[grid == claim.parameter]
            if not self.result.violates_claim:  # it would have stopped
                limit = -math.log1p(-self.result.confidence) - math.log(betting.STAKE) - 2.0 * SLACK
                at_claim = np.minimum(at_claim, limit)
            self.known[low, high] = betting.evidence(average, at_claim, grid, claim.parameter)
        return self.known[low, high]

    def gains(self, low: int, high: int) -> betting.Floats:
        """Most that each bettor can have won after ``low`` to ``high`` runs of the round.

        Correct guesses are worth most, then abstentions, then wrong ones: it is most if they came in that order, after
        the last correct one or as near to it as may be.
        """
        claim = self.result.claim
        grid = betting.parameter_grid(claim)
        found = []
        for play, factors, certain in zip(self.plays, self.factors, self.bet_on, strict=True):
            correct, _, abstained = (int(number) for number in tally(play.counts))
            runs = min(max(correct, low), high)
            right = min(runs, correct)
            none = min(runs - right, abstained)
            most = right * factors[betting.CORRECT] + none * factors[betting.ABSTAINED]
            most = most + (runs - right - none) * factors[betting.WRONG]
            most = np.where(certain[:, None], most, np.maximum(most, 0.0))
            found.append(np.where((grid == claim.parameter)[:, None] & (not play.bet), 0.0, most))
        return np.stack(found)


def _stages(result: SequentialResult) -> Iterator[_Stage]:
    shape = (len(result.rounds[0].plays), len(betting.parameter_grid(result.claim)), len(betting.FRACTIONS))
    before, wealth = 0, np.zeros(shape)
    for round_, last in zip(result.rounds, (None, *result.rounds), strict=False):
        if last is not None and changed(last.plays, round_.plays):
            wealth = betting.shared(wealth)
        stage = _Stage(result, round_, before, wealth)
        yield stage
        before, wealth = before + stage.runs, wealth + stage.gains(stage.runs, stage.runs)


def _factors(claim: Claim, play: Play) -> tuple[betting.Floats, NDArray[np.bool_]]:
    """Log-factors of a play against every parameter, those against the claim as the record has them, and which count.

    Who bets against the claim bets against every point with no more epsilon and no more delta.
    """
    epsilon, delta = (values.copy() for values in betting.points(claim, play.tangent))
    at = betting.parameter_grid(claim) == claim.parameter
    epsilon[at], delta[at] = claimed = point(claim, play.tangent)
    certain = play.bet & (epsilon <= claimed[0]) & (delta <= claimed[1])
    return betting.log_factors(epsilon, delta, play.witness.events), certain
