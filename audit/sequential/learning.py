"""Plans for the next round of a sequential audit: a witness, the tangent to test it at, and estimated rates.

They are made from the past outputs of one pair. Two strategies bet in parallel: a conservative one uses the scores and
the penalty of the fixed-size audit, best after many runs; an aggressive one bets after a few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims import ApproxDP, Claim
from epsaudit.outputs import Outputs
from epsaudit.sequential import betting
from epsaudit.sequential.accounts import Bet
from epsaudit.witnesses import (
    CandidateScore,
    Family,
    Interval,
    LikelihoodRatio,
    Region,
    Score,
    SharedAdditive,
    Tails,
    Witness,
    best_of,
    candidate_scores,
)

Floats = NDArray[np.float64]
ANYTHING = Witness(Region(intervals=(Interval(),)), None)
MOST_THRESHOLDS = 16
"""Thresholds of a score that the aggressive strategy compares. Set by hand in the first round; no measurement is
recorded."""
LEAST_TO_CHOOSE = 64
"""Past runs from which the conservative strategy begins to choose. Set by hand in the first round; no measurement
is recorded."""
MOST_FOR_AGGRESSIVE = 5_000
"""Past runs on each dataset that the aggressive strategy learns from."""
JOINT = SharedAdditive(least=4)


@dataclass(frozen=True)
class Plan(Bet):
    """What one strategy does in the next round, and the growth of log-wealth a run that it expects; 0 for none."""

    growth: float


Plans = tuple[Plan, Plan]


def aggressive(outputs: Outputs, outputs_prime: Outputs, claim: Claim) -> Plan:
    """Plan from any past: simple scores cut at a few quantiles, chosen by estimated growth without a penalty."""
    size = min(len(outputs), len(outputs_prime), MOST_FOR_AGGRESSIVE)
    if size < 4:
        return no_bet(claim)
    both = (outputs[:size], outputs_prime[:size])
    halves = [tuple(side[part] for side in both) for part in (slice(size // 2), slice(size // 2, None))]
    # of a vector, all coordinates jointly: of many tested one by one, some would look good by chance
    scores = [_Thresholds(score, *halves[1]) for score in JOINT.fit(*halves[0])]
    if not scores:
        scores = [_Thresholds(score, *both) for score in Tails().fit(*both)]
        scores += [_Thresholds(score, *halves[1]) for score in LikelihoodRatio(leaves=4).fit(*halves[0])]
    for points in (betting.tangents(claim), ((0.0, 0.0),)):  # at 0 any difference between the sides counts
        best, found = 0.0, None
        for score in scores:
            for events, correct, wrong, witness in score.candidates():
                values = np.max([betting.growth(correct, wrong, *point, events) for point in points], axis=0)
                index = int(np.argmax(values))
                if values[index] > best:
                    best, found = float(values[index]), (witness, index, correct[index], wrong[index])
        if found is not None:
            witness, index, correct_rate, wrong_rate = found
            return _plan(witness(index), claim, float(correct_rate), float(wrong_rate), 2 * size)
    return no_bet(claim)


def plans(families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs, claim: Claim, alpha: float) -> Plans:
    """Plan the next round for the conservative and the aggressive strategy; the first copies the second at the start.

    The conservative strategy applies the fixed-size audit's penalty to that audit's candidate scores, and takes the
    event with the greatest growth against the claim; where no event grows, it takes the fixed-size audit's choice for
    as many runs as there were. For a claim about a curve, that is against the (epsilon, delta) of the aggressive
    strategy's tangent.
    """
    eager = aggressive(outputs, outputs_prime, claim)
    size = min(len(outputs), len(outputs_prime))
    if 2 * size < LEAST_TO_CHOOSE:
        return eager, eager
    candidates = list(candidate_scores(families, outputs[:size], outputs_prime[:size]))
    witness = fastest(candidates, claim)
    if witness is not None:
        return _plan(witness, claim, *_rates(witness, outputs, outputs_prime), 2 * size), eager
    against = claim
    if eager.tangent is not None:
        against = ApproxDP(*next(point for point in betting.tangents(claim) if point[0] == eager.tangent))
    # the next round is about as long as all before it
    choice = best_of(candidates, against, 4 * size, 1.0 - alpha)
    if choice.predicted == 0.0:
        return eager, eager
    return _plan(choice.witness, claim, *_rates(choice.witness, outputs, outputs_prime), 2 * size), eager


def fastest(candidates: Sequence[CandidateScore], claim: Claim) -> Witness | None:
    """Return the witness with the greatest penalised growth of log-wealth against the claim; None if none grows.

    A bound predicted for few runs would prefer common events, which may never refute the claim.
    """
    best, found = 0.0, None
    for candidate in candidates:
        for upper, lower, rates in candidate.rates():
            for epsilon, delta in betting.tangents(claim):
                growing = np.flatnonzero(rates.correct - math.exp(epsilon) * rates.wrong > rates.events * delta)
                if len(growing) == 0:
                    continue
                grows = betting.growth(
                    rates.correct[growing] / 2, rates.wrong[growing] / 2, epsilon, delta, rates.events
                )
                index = int(np.argmax(grows))
                if grows[index] > best * (1.0 + candidate.margin):
                    best, found = float(grows[index]), (candidate, upper[growing[index]], lower[growing[index]])
    if found is None:
        return None
    candidate, *indices = found
    return candidate.witness(*(None if index < 0 else int(index) for index in indices))


def no_bet(claim: Claim) -> Plan:
    """Return the plan without past runs: no bet."""
    return Plan(ANYTHING, None if claim.claimed_point is not None else 0.0, 0.5, 1.0, 0, 0.0)


class _Thresholds:
    """The events of one score at a few quantiles, one or two at a time, with the rates of guesses."""

    def __init__(self, score: Score, outputs: Outputs, outputs_prime: Outputs) -> None:
        values = [score(side) for side in (outputs, outputs_prime)]
        values = [side[~np.isnan(side)] for side in values]
        pooled = np.unique(np.concatenate(values))
        kept = np.unique(np.linspace(0, len(pooled) - 1, min(MOST_THRESHOLDS, len(pooled))).astype(int))
        self.score, self.thresholds, self.runs = score, pooled[kept], 2 * len(outputs)
        # shape (2 sides, thresholds): how many are at or beyond each threshold
        self.above = np.array([np.sum(side[:, None] >= self.thresholds, axis=0) for side in values], float)
        self.below = np.array([np.sum(side[:, None] <= self.thresholds, axis=0) for side in values], float)

    def candidates(self) -> Iterator[tuple[int, Floats, Floats, Callable[[int], Witness]]]:
        """Yield (events, rates of correct guesses, rates of wrong ones, maker of the witness) for each form."""
        if len(self.thresholds) == 0:
            return
        score, thresholds = self.score, self.thresholds
        yield (
            1,
            *self._smoothed(self.above[0], self.above[1]),
            lambda i: Witness(score.at_least(thresholds[i].item()), None),
        )
        yield (
            1,
            *self._smoothed(self.below[1], self.below[0]),
            lambda i: Witness(None, score.at_most(thresholds[i].item())),
        )
        up, low = np.nonzero(thresholds[:, None] > thresholds[None, :])
        if len(up) == 0:
            return
        rates = self._smoothed(self.above[0][up] + self.below[1][low], self.above[1][up] + self.below[0][low])
        yield (
            2,
            *rates,
            lambda i: Witness(score.at_least(thresholds[up[i]].item()), score.at_most(thresholds[low[i]].item())),
        )

    def _smoothed(self, correct: Floats, wrong: Floats) -> tuple[Floats, Floats]:
        """Rates with one more wrong guess than was seen: the best of many events is overestimated."""
        return correct / (self.runs + 1.0), (wrong + 1.0) / (self.runs + 1.0)


def _rates(witness: Witness, outputs: Outputs, outputs_prime: Outputs) -> tuple[float, float]:
    (right, wrong_prime), (wrong, right_prime) = witness.count(outputs), witness.count(outputs_prime)
    runs, runs_prime = len(outputs) + 1.0, len(outputs_prime) + 1.0
    return (right / runs + right_prime / runs_prime) / 2.0, (
        (wrong + 0.5) / runs_prime + (wrong_prime + 0.5) / runs
    ) / 2


def _plan(witness: Witness, claim: Claim, correct: float, wrong: float, runs: int) -> Plan:
    """Add the tangent of the greatest growth against the claim, or, if there is none, the one nearest to growth.

    The rates are those of the past with one more run, in which the guess was wrong: at an estimated rate of 0 wrong
    guesses the best bet would be everything, and lost with the first.
    """
    correct, wrong = correct * runs / (runs + 1.0), (wrong * runs + 1.0) / (runs + 1.0)
    points = betting.tangents(claim)
    grows = [float(betting.growth(correct, wrong, *point, witness.events)) for point in points]
    best = int(np.argmax(grows))
    if grows[best] == 0.0:
        best = int(np.argmax([(correct - math.exp(e) * wrong) / max(delta, 1e-12) for e, delta in points]))
    tangent = None if claim.claimed_point is not None else points[best][0]
    return Plan(witness, tangent, correct, wrong, runs, grows[best])
