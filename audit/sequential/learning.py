"""What to bet on next, learned from past runs only: a witness, the tangent to test it at, and whether to bet at all.

Past outputs of one pair enter, plans for the next round leave. Two bettors play side by side: a careful one with the
fixed-size audit's own choice, best once there are many runs, and a blunter one that dares to bet after a few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims import ApproxDP, Claim
from epsaudit.mechanism import Outputs
from epsaudit.sequential import betting
from epsaudit.witnesses import (
    AlongCoordinates,
    Contender,
    Family,
    Interval,
    LikelihoodRatio,
    Region,
    Score,
    Tails,
    Witness,
    best_of,
    contenders_of,
)

Floats = NDArray[np.float64]
ANYTHING = Witness(Region(intervals=(Interval(),)), None)
CUTS = 16
LEAST_TO_CHOOSE = 64
MOST_TO_DARE = 5_000
"""Past runs on each dataset that the daring bettor looks at."""
TOGETHER = AlongCoordinates(least=4)


@dataclass(frozen=True)
class Plan:
    """What one strategy does in the next round.

    Attributes
    ----------
    witness : Witness
        The events.
    tangent : float or None
        Where the profile of a claim about a curve is tested; None for pure and approximate DP.
    correct, wrong : float
        Estimated probabilities of a correct and a wrong guess: a parameter is bet against only where they break it.
    growth : float
        Estimated growth of log-wealth a run against the claim; 0 if the claim looks right.
    """

    witness: Witness
    tangent: float | None
    correct: float
    wrong: float
    past: int
    growth: float


Plans = tuple[Plan, Plan]


@dataclass(frozen=True)
class Daring:
    """Simple scores cut at a few quantiles, by estimated growth against the claim and no margin."""

    def plan(self, outputs: Outputs, outputs_prime: Outputs, claim: Claim) -> Plan:
        """Plan from any number of past runs."""
        size = min(len(outputs), len(outputs_prime), MOST_TO_DARE)
        if size < 4:
            return nothing(claim)
        both = (outputs[:size], outputs_prime[:size])
        halves = [tuple(side[part] for side in both) for part in (slice(size // 2), slice(size // 2, None))]
        # of a vector, all coordinates together: of many that are looked at one by one, some are lucky
        cuts = [_Cuts(score, *halves[1]) for score in TOGETHER.fit(*halves[0])]
        if not cuts:
            cuts = [_Cuts(score, *both) for score in Tails().fit(*both)]
            cuts += [_Cuts(score, *halves[1]) for score in LikelihoodRatio(leaves=4).fit(*halves[0])]
        rules: list[Callable[[Floats, Floats, int], Floats]] = [
            lambda correct, wrong, events: np.max(
                [betting.growth(correct, wrong, *point, events) for point in betting.tangents(claim)], axis=0
            ),
            lambda correct, wrong, events: betting.growth(
                correct, wrong, 0.0, 0.0, events
            ),  # whatever tells them apart
        ]
        for rule in rules:
            best, found = 0.0, None
            for cut in cuts:
                for events, correct, wrong, witness in cut.candidates():
                    values = rule(correct, wrong, events)
                    place = int(np.argmax(values))
                    if values[place] > best:
                        best, found = float(values[place]), (witness, place, correct[place], wrong[place])
            if found is not None:
                witness, place, correct_rate, wrong_rate = found
                return _plan(witness(place), claim, float(correct_rate), float(wrong_rate), 2 * size)
        return nothing(claim)


def plans(families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs, claim: Claim, alpha: float) -> Plans:
    """Plan the next round for two bettors: the careful one follows the daring one until it has seen something itself.

    The careful one doubts its luck as the fixed-size audit does. Of that one's scores it cuts the one against which the
    claim loses fastest; where no cut seems to contradict the claim, it takes the fixed-size audit's choice for as many
    runs as there were. For a claim about a curve, that is against the (epsilon, delta) of the tangent that looks worst.
    """
    daring = Daring().plan(outputs, outputs_prime, claim)
    size = min(len(outputs), len(outputs_prime))
    if 2 * size < LEAST_TO_CHOOSE:
        return daring, daring
    contenders = list(contenders_of(families, outputs[:size], outputs_prime[:size]))
    witness = fastest(contenders, claim)
    if witness is not None:
        return _plan(witness, claim, *_rates(witness, outputs, outputs_prime), 2 * size), daring
    against = claim
    if daring.tangent is not None:
        against = ApproxDP(*next(point for point in betting.tangents(claim) if point[0] == daring.tangent))
    # the next round is about as long as all before it
    choice = best_of(contenders, against, 4 * size, 1.0 - alpha)
    if choice.predicted == 0.0:
        return daring, daring
    return _plan(choice.witness, claim, *_rates(choice.witness, outputs, outputs_prime), 2 * size), daring


def fastest(contenders: Sequence[Contender], claim: Claim) -> Witness | None:
    """Cut the contender with the greatest growth of log-wealth against the claim, seen with all caution; None if none.

    A bound predicted for few runs would prefer common events, which may never refute the claim.
    """
    best, found = 0.0, None
    for contender in contenders:
        for upper, lower, rates in contender.ways():
            for epsilon, delta in betting.tangents(claim):
                promising = np.flatnonzero(rates.correct - math.exp(epsilon) * rates.wrong > rates.events * delta)
                if len(promising) == 0:
                    continue
                grows = betting.growth(
                    rates.correct[promising] / 2, rates.wrong[promising] / 2, epsilon, delta, rates.events
                )
                place = int(np.argmax(grows))
                if grows[place] > best * (1.0 + contender.margin):
                    best, found = float(grows[place]), (contender, upper[promising[place]], lower[promising[place]])
    if found is None:
        return None
    contender, *places = found
    return contender.witness(*(None if place < 0 else int(place) for place in places))


def nothing(claim: Claim) -> Plan:
    """Return the plan of whoever has seen nothing: no bet."""
    return Plan(ANYTHING, None if claim.claimed_point is not None else 0.0, 0.5, 1.0, 0, 0.0)


class _Cuts:
    """All ways to cut one score at a few quantiles into one event or two, with the rates of guesses."""

    def __init__(self, score: Score, outputs: Outputs, outputs_prime: Outputs) -> None:
        values = [score(side) for side in (outputs, outputs_prime)]
        values = [side[~np.isnan(side)] for side in values]
        pooled = np.unique(np.concatenate(values))
        places = np.unique(np.linspace(0, len(pooled) - 1, min(CUTS, len(pooled))).astype(int))
        self.score, self.thresholds, self.runs = score, pooled[places], 2 * len(outputs)
        # shape (2 sides, cuts): how many are at or beyond each threshold
        self.above = np.array([np.sum(side[:, None] >= self.thresholds, axis=0) for side in values], float)
        self.below = np.array([np.sum(side[:, None] <= self.thresholds, axis=0) for side in values], float)

    def candidates(self) -> Iterator[tuple[int, Floats, Floats, Callable[[int], Witness]]]:
        """Yield (events, rates of correct guesses, rates of wrong ones, maker of the witness) for each form."""
        if len(self.thresholds) == 0:
            return
        score, cuts = self.score, self.thresholds
        yield (
            1,
            *self._smoothed(self.above[0], self.above[1]),
            lambda i: Witness(score.at_least(cuts[i].item()), None),
        )
        yield (
            1,
            *self._smoothed(self.below[1], self.below[0]),
            lambda i: Witness(None, score.at_most(cuts[i].item())),
        )
        up, low = np.nonzero(cuts[:, None] > cuts[None, :])
        if len(up) == 0:
            return
        rates = self._smoothed(self.above[0][up] + self.below[1][low], self.above[1][up] + self.below[0][low])
        yield (
            2,
            *rates,
            lambda i: Witness(score.at_least(cuts[up[i]].item()), score.at_most(cuts[low[i]].item())),
        )

    def _smoothed(self, correct: Floats, wrong: Floats) -> tuple[Floats, Floats]:
        """Rates with one more wrong guess than was seen: the best of many cuts was lucky."""
        return correct / (self.runs + 1.0), (wrong + 1.0) / (self.runs + 1.0)


def _rates(witness: Witness, outputs: Outputs, outputs_prime: Outputs) -> tuple[float, float]:
    (right, wrong_prime), (wrong, right_prime) = witness.count(outputs), witness.count(outputs_prime)
    runs, runs_prime = len(outputs) + 1.0, len(outputs_prime) + 1.0
    return (right / runs + right_prime / runs_prime) / 2.0, (
        (wrong + 0.5) / runs_prime + (wrong_prime + 0.5) / runs
    ) / 2


def _plan(witness: Witness, claim: Claim, correct: float, wrong: float, runs: int) -> Plan:
    """Add the tangent at which the claim looks most wrong, or, if it looks right, nearest to wrong.

    The rates of past runs are those with one more run, in which the guess was wrong: the best bet on none is ruin.
    """
    correct, wrong = correct * runs / (runs + 1.0), (wrong * runs + 1.0) / (runs + 1.0)
    points = betting.tangents(claim)
    grows = [float(betting.growth(correct, wrong, *point, witness.events)) for point in points]
    best = int(np.argmax(grows))
    if grows[best] == 0.0:
        best = int(np.argmax([(correct - math.exp(e) * wrong) / max(delta, 1e-12) for e, delta in points]))
    tangent = None if claim.claimed_point is not None else points[best][0]
    return Plan(witness, tangent, correct, wrong, runs, grows[best])
