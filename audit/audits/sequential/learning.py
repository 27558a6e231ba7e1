"""Plans for the next round of a sequential audit: a witness, the tangent to test it at, and estimated rates.

They are made from the past outputs of one pair. Two strategies bet in parallel: a conservative one uses the scores and
the penalty of the fixed-size audit, best after many runs; an aggressive one bets after a few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.sequential import betting
from epsaudit.audits.sequential.accounts import Bet
from epsaudit.certificates import MembershipGame
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.outputs.normal_form import Outputs
from epsaudit.witnesses import (
    ANYTHING,
    Bound,
    CandidateScore,
    Choice,
    Classifiers,
    Family,
    LikelihoodRatio,
    Tails,
    Witness,
    best_of,
    candidate_scores,
)

Floats = NDArray[np.float64]
LEAST_TO_CHOOSE = 64
"""Past runs from which the conservative strategy begins to choose. Set by hand in the first round; no measurement
is recorded."""
MOST_FOR_AGGRESSIVE = 5_000
"""Past runs on each dataset that the aggressive strategy learns from."""
LEARN_EVERY = 3
"""Rounds from one choice of the conservative strategy's event to the next: past runs grow 3.4 times between them. Five
leaks in vectors of 20 and in numbers, seeds 100 and 101, are refuted after 0.96 to 1.4 times the runs that a choice in
every round takes, 1.00 in the median, for 0.38 to 0.7 of its processor time."""
SIMPLE: tuple[Family, ...] = (Tails(), LikelihoodRatio())
JOINT: tuple[Family, ...] = (Classifiers(trees=False),)


@dataclass(frozen=True)
class Plan(Bet):
    """What one strategy does in the next round, and the growth of log-wealth a run that it expects; 0 for none."""

    growth: float


Plans = tuple[Plan, Plan]


@dataclass(frozen=True)
class Growth:
    """The objective of a sequential audit: growth of log-wealth a run against the claim.

    A bound predicted for few runs would prefer common events, which may never refute the claim.

    Parameters
    ----------
    points : sequence of (epsilon, delta)
        Where the claim is tested.
    more_wrong : float
        Wrong guesses that are added to those seen: the best of many events is overestimated.
    """

    points: Sequence[tuple[float, float]]
    more_wrong: float = 0.0

    @property
    def nothing(self) -> Choice:
        """See `epsaudit.witnesses.Objective`."""
        return Choice(ANYTHING, MembershipGame(), 0.0, 0.0)

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> Iterator[Choice]:
        """See `epsaudit.witnesses.Objective`."""
        for upper, lower in candidate.events():
            correct, wrong = candidate.rates(upper, lower, errors)
            wrong = wrong + self.more_wrong / candidate.size
            events = int(upper[0] >= 0) + int(lower[0] >= 0)
            for epsilon, delta in self.points:
                growing = np.flatnonzero(correct - math.exp(epsilon) * wrong > events * delta)
                if len(growing) == 0:
                    continue
                grows = betting.growth(correct[growing] / 2, wrong[growing] / 2, epsilon, delta, events)
                at = growing[int(np.argmax(grows))]
                witness = candidate.witness(int(upper[at]), int(lower[at]))
                yield Choice(witness, MembershipGame(), float(np.max(grows)), 0.0)


def aggressive_plan(outputs: Outputs, outputs_prime: Outputs, claim: Claim) -> Plan:
    """Plan from any number of past runs: simple scores, chosen by growth against the claim without a penalty.

    Where none grows, any difference between the sides is bet on. Of a vector, all coordinates count jointly: of many
    tested one by one, some would look good by chance.
    """
    past = min(len(outputs), len(outputs_prime))
    size = min(past, MOST_FOR_AGGRESSIVE)
    if size < 4:
        return no_bet(claim)
    both = outputs[:size], outputs_prime[:size]
    candidates = list(candidate_scores(JOINT, *both)) or list(candidate_scores(SIMPLE, *both))
    for points in (betting.tangents(claim), [(0.0, 0.0)]):
        choice = best_of(candidates, Growth(points, more_wrong=1.0), errors=0.0)
        if choice.predicted > 0.0:
            return _plan(choice.witness, claim, *_rates(choice.witness, outputs, outputs_prime), 2 * past)
    return no_bet(claim)


def plans(families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs, claim: Claim, alpha: float) -> Plans:
    """Plan the next round for the conservative and the aggressive strategy; the first copies the second at the start.

    The conservative strategy applies the fixed-size audit's penalty to that audit's candidate scores, and takes the
    event with the greatest growth against the claim; where no event grows, it takes the fixed-size audit's choice for
    as many runs as there were. For a claim about a curve, that is against the (epsilon, delta) of the aggressive
    strategy's tangent.
    """
    eager = aggressive_plan(outputs, outputs_prime, claim)
    size = min(len(outputs), len(outputs_prime))
    if 2 * size < LEAST_TO_CHOOSE:
        return eager, eager
    candidates = list(candidate_scores(families, outputs[:size], outputs_prime[:size]))
    witness = fastest(candidates, claim)
    if witness is None:
        against = claim
        if eager.tangent is not None:
            against = ApproxDP(*next(point for point in betting.tangents(claim) if point[0] == eager.tangent))
        # the next round is about as long as all before it
        choice = best_of(candidates, Bound(against, 4 * size, 1.0 - alpha))
        if choice.predicted == 0.0:
            return eager, eager
        witness = choice.witness
    return _plan(witness, claim, *_rates(witness, outputs, outputs_prime), 2 * size), eager


def renewed(before: Plans, outputs: Outputs, outputs_prime: Outputs, claim: Claim) -> Plans:
    """Plan the next round with the conservative strategy's event of the last one, at its rates in all the past.

    The aggressive strategy's event is chosen anew while there are more runs to choose it from.
    """
    past = min(len(outputs), len(outputs_prime))

    def again(plan: Plan) -> Plan:
        return _plan(plan.witness, claim, *_rates(plan.witness, outputs, outputs_prime), 2 * past)

    conservative, eager = before
    more = eager.past < 2 * MOST_FOR_AGGRESSIVE
    new = aggressive_plan(outputs, outputs_prime, claim) if more else again(eager)
    return new if conservative is eager else again(conservative), new


def fastest(candidates: Sequence[CandidateScore], claim: Claim) -> Witness | None:
    """Return the witness with the greatest penalised growth of log-wealth against the claim; None if none grows."""
    choice = best_of(candidates, Growth(betting.tangents(claim)))
    return choice.witness if choice.predicted > 0.0 else None


def no_bet(claim: Claim) -> Plan:
    """Return the plan without past runs: no bet."""
    return Plan(ANYTHING, None if claim.claimed_point is not None else 0.0, 0.5, 1.0, 0, 0.0)


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
