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
from epsaudit.audits.sequential.betting import Bet
from epsaudit.audits.sequential.scores import Middles, Sums, is_long, is_vector, table_of, trees_of
from epsaudit.certificates import MembershipGame
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.outputs.normal_form import Outputs
from epsaudit.witnesses import (
    ANYTHING,
    Bound,
    CandidateScore,
    Choice,
    Classifiers,
    Encoding,
    Family,
    Features,
    LikelihoodRatio,
    Tails,
    Witness,
    best_of,
    candidate_scores,
    encode,
)
from epsaudit.witnesses.learning import FromTable
from epsaudit.witnesses.selection import Readable
from epsaudit.witnesses.settings import LEAST_TO_LEARN

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
ENOUGH_NUMBERS = 20_000
"""Numbers of x from which the aggressive strategy learns of long vectors in two of three rounds, of the features that
the last choice of the conservative one was from; in one of three while its last event does not grow, which changed no
median runs of four leaks in vectors of 10, 20 and 200 (seeds 100 to 107, 5 % and 1e-6), and takes a passing check of
200 about a tenth less time (seeds 101 to 103). Features as old at any size cost power: a shift in one of twenty
coordinates then took 423 runs at 5 % in the median (seeds 100 to 107), 329 if features are chosen anew, 303 before."""
PROMISING, SHORTLISTED = 1.0, 6
"""Standard errors by which log odds are lowered before a score counts as promising, and scores of long vectors learnt
from a part that all outputs judge. Set by hand; at their own 2 errors, candidates without any difference promise next
to nothing (`epsaudit.witnesses.settings.ERRORS`), at 1 one in six would."""
SIMPLE: tuple[FromTable, ...] = (Tails(), Middles(), LikelihoodRatio())


def sequential_families(families: Sequence[Family]) -> Sequence[Family]:
    """Return the families that 'auto' or 'all' stand for in a sequential audit: after tails their middles, too.

    >>> sequential_families([Tails(), LikelihoodRatio()])
    [Tails(), Middles(), LikelihoodRatio()]
    """
    return [one for family in families for one in ([family, Middles()] if family == Tails() else [family])]


@dataclass(frozen=True)
class Plan(Bet):
    """What one strategy does in the next round, and the growth of log-wealth a run that it expects; 0 for none."""

    growth: float


Plans = tuple[Plan, Plan]


@dataclass(frozen=True)
class Growth:
    """The objective of a sequential audit: growth of log-wealth a run against the claim at the best of some ``points``.

    A bound predicted for few runs would prefer common events, which may never refute the claim. ``more_wrong`` guesses
    are added to those seen: the best of many events is overestimated.
    """

    points: Sequence[tuple[float, float]]
    more_wrong: float = 0.0

    @property
    def nothing(self) -> Choice:
        return Choice(ANYTHING, MembershipGame(), 0.0, 0.0)

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> Iterator[Choice]:
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


class Learner:
    """Plans the rounds of one pair, and remembers between them what need not be learnt anew.

    Both strategies read one table and share the learnt sums. The conservative one, with these ``families``, chooses its
    event in every third round; the aggressive one, with `SIMPLE` ones and sums, in every round, or of long vectors in
    two of three, or in one of three where nothing grows, while there are more runs to choose it from. Of long vectors
    the first few thousand outputs are learnt from, and all only if a score is promising. The bound may be wrong with
    probability ``alpha``.
    """

    def __init__(self, families: Sequence[Family], claim: Claim, alpha: float) -> None:
        self.families, self.claim, self.alpha = families, claim, alpha
        self.simple = [one for one in SIMPLE if one in families or not isinstance(one, Middles)]
        self.made = 0
        self._plans: Plans | None = None
        self._table: Encoding | None = None
        self._sums: list[CandidateScore] = []
        self._found: list[CandidateScore] | None = None

    def plan(self, outputs: Outputs, outputs_prime: Outputs) -> Plans:
        """Plan the next round from all outputs so far."""
        choosing = self._plans is None or self.made % LEARN_EVERY == 0
        self._plans = self._chosen(outputs, outputs_prime) if choosing else self._renewed(outputs, outputs_prime)
        self.made += 1
        return self._plans

    def _chosen(self, outputs: Outputs, outputs_prime: Outputs) -> Plans:
        """Choose both events; at the start the conservative strategy copies the aggressive one.

        Else it applies the fixed-size audit's penalty to that audit's candidate scores, and takes the event with the
        greatest growth; where none grows, the fixed-size audit's choice for as many runs as there were, against the
        (epsilon, delta) of the aggressive strategy's tangent if the claim is about a curve.
        """
        size = min(len(outputs), len(outputs_prime))
        if 2 * size < LEAST_TO_CHOOSE:
            eager = self._eager(outputs, outputs_prime)
            return eager, eager
        part = min(size, MOST_FOR_AGGRESSIVE) if is_long(outputs) else size
        if self._table is None or self._table.size < part:
            self._table = table_of(outputs[:part], outputs_prime[:part])
            self._sums = list(Sums().candidates(self._table))
            self._found = None
        eager = self._eager(outputs, outputs_prime, shared=part <= MOST_FOR_AGGRESSIVE)
        candidates = self._candidates(outputs[:size], outputs_prime[:size])
        witness = fastest(candidates, self.claim)
        if witness is None:
            against = self.claim
            if eager.tangent is not None:
                points = betting.tangents(self.claim)
                against = ApproxDP(*next(point for point in points if point[0] == eager.tangent))
            # the next round is about as long as all before it
            choice = best_of(candidates, Bound(against, 4 * size, 1.0 - self.alpha))
            if choice.predicted == 0.0:
                return eager, eager
            witness = choice.witness
        return _plan(witness, self.claim, outputs, outputs_prime), eager

    def _candidates(self, outputs: Outputs, outputs_prime: Outputs) -> list[CandidateScore]:
        """List candidates: of many long vectors learnt from a part, unless one of these is promising."""
        assert self._table is not None
        part, size = self._table.size, len(outputs)
        if self._found is None:
            self._found = candidates_of(self.families, self._table, self.claim, self._sums)
        if size == part:
            return self._found
        growth = Growth(betting.tangents(self.claim))
        ranked = sorted(self._found, key=lambda one: best_of([one], growth, PROMISING).rank, reverse=True)
        judged = [one.counting(outputs[part:], outputs_prime[part:]) for one in ranked[:SHORTLISTED]]
        if fastest(judged, self.claim, PROMISING) is None:
            return judged
        data = encode(outputs, outputs_prime, self._table.features)
        return candidates_of(self.families, data, self.claim, list(Sums().candidates(data)))

    def _renewed(self, outputs: Outputs, outputs_prime: Outputs) -> Plans:
        """Keep the conservative strategy's event, at its rates in all the past."""
        assert self._plans is not None
        conservative, eager = self._plans
        new = self._eager(outputs, outputs_prime)
        return new if conservative is eager else _again(conservative, self.claim, outputs, outputs_prime), new

    def _eager(self, outputs: Outputs, outputs_prime: Outputs, shared: bool = False) -> Plan:
        """Choose the aggressive strategy's event while there are more runs to choose it from."""
        last = None if self._plans is None else self._plans[1]
        many = is_long(outputs) and outputs.size > ENOUGH_NUMBERS
        turn, nothing = self.made % LEARN_EVERY, last is not None and last.growth == 0.0
        pause = many and (turn == 1 or (turn == 2 and nothing))
        if last is not None and (last.past >= 2 * MOST_FOR_AGGRESSIVE or pause):
            return _again(last, self.claim, outputs, outputs_prime)
        features = self._table.features if self._table is not None and many else None
        table = self._table if shared else None
        return aggressive_plan(outputs, outputs_prime, self.claim, table, self._sums, features, self.simple)


def aggressive_plan(
    outputs: Outputs,
    outputs_prime: Outputs,
    claim: Claim,
    data: Encoding | None = None,
    sums: Sequence[CandidateScore] = (),
    features: Features | None = None,
    simple: Sequence[FromTable] = SIMPLE,
) -> Plan:
    """Plan from any number of past runs: simple scores, chosen by growth against the claim without a penalty.

    Where none grows, any difference between the sides is bet on. Of a vector, all coordinates count jointly: of many
    tested one by one, some would look good by chance. ``data`` is the table of the outputs and ``sums`` what was learnt
    from it, if there is one; ``features`` are those of an earlier one.
    """
    past = min(len(outputs), len(outputs_prime))
    size = min(past, MOST_FOR_AGGRESSIVE)
    if size < 4:
        return no_bet(claim)
    if data is None:
        sides, learnt = (outputs[:size], outputs_prime[:size]), is_vector(outputs) and size >= LEAST_TO_LEARN
        data = table_of(*sides, features, learnt=learnt)  # beside sums nothing is looked at one by one
        sums = list(Sums().candidates(data))
        if learnt and not sums:
            data = table_of(*sides, features)
    candidates = list(sums) or [one for family in simple for one in family.candidates(data)]
    for points in (betting.tangents(claim), [(0.0, 0.0)]):
        choice = best_of(candidates, Growth(points, more_wrong=1.0), errors=0.0)
        if choice.predicted > 0.0:
            return _plan(choice.witness, claim, outputs, outputs_prime)
    return no_bet(claim)


def simpler_event(outputs: Outputs, outputs_prime: Outputs, claim: Claim) -> Witness | None:
    """Return the event that reads well of the greatest growth, or that tells most where none grows; None for none."""
    size = min(len(outputs), len(outputs_prime))
    data = table_of(outputs[:size], outputs_prime[:size])
    candidates = [one for family in SIMPLE for one in family.candidates(data)]
    for points in (betting.tangents(claim), [(0.0, 0.0)]):
        choice = best_of(candidates, Readable(Growth(points, more_wrong=1.0)), errors=0.0)
        if choice.predicted > 0.0:
            return choice.witness
    return None


def candidates_of(
    families: Sequence[Family], data: Encoding, claim: Claim, sums: Sequence[CandidateScore]
) -> list[CandidateScore]:
    """List the candidates of all families, with trees where they may tell."""
    candidates: list[CandidateScore] = []
    for family in families:
        if type(family) is not Classifiers:  # a subclass may find others
            candidates += candidate_scores([family], *data.sides, data)
            continue
        candidates += sums
        if family.trees:
            candidates += trees_of(data, sums, fastest(candidates, claim) is not None)
    return candidates


def fastest(candidates: Sequence[CandidateScore], claim: Claim, errors: float | None = None) -> Witness | None:
    """Return the witness with the greatest growth of log-wealth against the claim, odds lowered by ``errors``."""
    choice = best_of(candidates, Growth(betting.tangents(claim)), errors)
    return choice.witness if choice.predicted > 0.0 else None


def no_bet(claim: Claim) -> Plan:
    """Return the plan without past runs: no bet."""
    return Plan(ANYTHING, None if claim.claimed_point is not None else 0.0, 0.5, 1.0, 0, 0.0)


def _rates(witness: Witness, outputs: Outputs, outputs_prime: Outputs) -> tuple[float, float]:
    (right, wrong_prime), (wrong, right_prime) = witness.count(outputs), witness.count(outputs_prime)
    runs, runs_prime = len(outputs) + 1.0, len(outputs_prime) + 1.0
    wrongly = (wrong + 0.5) / runs_prime + (wrong_prime + 0.5) / runs
    return (right / runs + right_prime / runs_prime) / 2.0, wrongly / 2


def _again(plan: Plan, claim: Claim, outputs: Outputs, outputs_prime: Outputs) -> Plan:
    """Return a plan at its event's rates in all the past."""
    return _plan(plan.witness, claim, outputs, outputs_prime) if plan.past else plan


def _plan(witness: Witness, claim: Claim, outputs: Outputs, outputs_prime: Outputs) -> Plan:
    """Add the tangent of the greatest growth against the claim, or, if there is none, the one nearest to growth.

    The rates are those of the past with one more run, in which the guess was wrong: at an estimated rate of 0 wrong
    guesses the best bet would be everything, and lost with the first.
    """
    (correct, wrong), runs = _rates(witness, outputs, outputs_prime), 2 * min(len(outputs), len(outputs_prime))
    correct, wrong = correct * runs / (runs + 1.0), (wrong * runs + 1.0) / (runs + 1.0)
    points = betting.tangents(claim)
    grows = [float(betting.growth(correct, wrong, *point, witness.events)) for point in points]
    best = int(np.argmax(grows))
    if grows[best] == 0.0:
        best = int(np.argmax([(correct - math.exp(e) * wrong) / max(delta, 1e-12) for e, delta in points]))
    tangent = None if claim.claimed_point is not None else points[best][0]
    return Plan(witness, tangent, correct, wrong, runs, grows[best])
