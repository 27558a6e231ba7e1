"""Plans for the next round of a sequential audit: a witness, the tangent to test it at, and estimated rates.

Plans are made from the past outputs of one pair. Two strategies bet in parallel. The conservative one uses the scores
and the penalty of the fixed-size audit and is best after many runs; the aggressive one bets after a few runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from epsaudit.audits.sequential.bets import StrategyBet
from epsaudit.bounds import betting
from epsaudit.bounds.certificates import MembershipGame
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.outputs.arrays import Outputs, rows_of
from epsaudit.search import (
    FALLBACK_WITNESS,
    Bound,
    CandidateScore,
    Choice,
    Classifiers,
    Encoding,
    Family,
    Features,
    LikelihoodRatio,
    Tails,
    best_of,
    candidate_scores,
    encode,
)
from epsaudit.search.candidate import DEFAULT_SD
from epsaudit.search.difference_tests import select_most_different
from epsaudit.search.family import TableFamily
from epsaudit.search.field_pairs import MAX_COORDINATES_ALL_PAIRS
from epsaudit.search.limits import MAX_DISTINCT_KNOTS, MIN_OUTPUTS_TO_LEARN
from epsaudit.search.readers import find_features
from epsaudit.witnesses.combinations import Combination
from epsaudit.witnesses.conditions import MAX_SIMPLE_PARTS
from epsaudit.witnesses.digits import Deviation
from epsaudit.witnesses.events import Witness
from epsaudit.witnesses.parts import Coordinate, Value


@dataclass(frozen=True)
class DistanceFromMedian(TableFamily):
    """A family of scores for outputs that are single numbers and rarely repeat: the distance from the median.

    The events of such a score are outputs near the median, or far from it.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        feature = next(iter(data.features.univariate), None)
        if not (isinstance(feature, Value) or feature == Coordinate(0)) or data.features.groups:
            return
        numbers = data.numbers(feature)
        known = numbers[np.isfinite(numbers)]
        if len(data.outputs) == len(data.row) and len(known) >= MAX_DISTINCT_KNOTS:
            yield from Tails().candidates(data, [Deviation(feature, float(np.median(known)))], DEFAULT_SD)


SIMPLE_FAMILIES: tuple[Family, ...] = (Tails(), DistanceFromMedian(), LikelihoodRatio())
"""The families of the aggressive strategy, whose events are easy to read."""

NUMBERS_TO_CHOOSE, MIN_TO_SCREEN = 80_000, 1_000
"""[chosen] The features of vectors longer than `MAX_COORDINATES_ALL_PAIRS` are chosen from outputs that contain about
this many numbers on each dataset, and from at least this many outputs."""
N_SINGLE_FEATURES = 4
"""[chosen] Number of features of long vectors that are scored one by one. With more of them, fewer sums and products of
features are detected."""
RUNNING_CORRELATION = 0.3
"""[chosen] The differences of neighbouring coordinates are learnt if the signs of neighbours have a mean correlation
above this value. For running sums it is above 0.7."""


def table_of(
    outputs: Outputs,
    outputs_prime: Outputs,
    features: Features | None = None,
    *,
    only_groups: bool = False,
    known: dict[int, Features] | None = None,
) -> Encoding:
    """Return the table of the features of two blocks of outputs, from which events are learnt.

    Parameters
    ----------
    outputs, outputs_prime : arrays
        Equally many outputs on x and on x'.
    features : Features, optional
        The features of the table; by default those that a part of the outputs shows to be promising.
    only_groups : bool
        Whether to find only the features that sums are learnt from, which takes half the time.
    known : dict of int to Features, optional
        The features that were found by a number of outputs; they are used again for up to twice that number. New ones
        are added.
    """
    length, known = length_of(outputs), {} if known is None else known
    part = min(max(NUMBERS_TO_CHOOSE // max(length, 1), MIN_TO_SCREEN), len(outputs))
    features = features or next((known[size] for size in known if size <= part <= 2 * size), None)
    if features is None and length > MAX_COORDINATES_ALL_PAIRS:
        # differences of neighbours only if the coordinates look like running sums, and few single features
        some, some_prime = outputs[:part], outputs_prime[:part]
        features = find_features(some, some_prime, only_groups=only_groups)
        univariate = tuple(select_most_different(features.univariate, some, some_prime, N_SINGLE_FEATURES))
        rows = np.nan_to_num(np.asarray(rows_of(some), float), posinf=0.0, neginf=0.0)
        ranks = np.sign(rows - np.median(rows, axis=0))
        running = np.mean(ranks[:, 1:] * ranks[:, :-1]) > RUNNING_CORRELATION
        groups = features.groups
        if not running and any(isinstance(one, Combination) for one in groups[1]):
            groups = (groups[0], (), *groups[2:])
        features = replace(
            features, univariate=univariate, groups=groups, n_ordered=features.n_ordered if running else 1
        )
        if not only_groups:
            known[part] = features
    return encode(outputs, outputs_prime, features, only_groups=only_groups)


def length_of(outputs: Outputs) -> int:
    """Return the number of coordinates if the outputs are vectors of numbers, and 0 otherwise."""
    rows = rows_of(outputs) if len(outputs) else None
    return 0 if rows is None else int(rows.shape[1])


MIN_TO_CHOOSE = 64
"""[chosen] The conservative strategy begins to choose after this many past runs."""
MAX_FOR_AGGRESSIVE = 5_000
"""[time] Maximum number of past runs on each dataset from which the aggressive strategy learns."""
LEARN_EVERY = 2
"""[measured] Number of rounds from one choice of the conservative strategy's event to the next; past runs grow by a
factor of four in between. Checks of 100,000 runs, 12 seeds: with 1, checks of vectors take 1.8 times as long, and the
mean bounds of seven mechanisms are within 5 %; with 3, the bound of prefix sum is 20 % lower."""
ENOUGH_NUMBERS = 20_000
"""[chosen] If the outputs on x are long vectors and contain more numbers than this, the aggressive strategy learns only
when the conservative strategy does, and uses the same features. With fewer numbers, features of an earlier round would
detect less."""
WEAKER_CLAIMS, N_PROMISING = (0.0, 0.25, 0.5, 0.75, 1.0), 3
"""[measured] At each of these shares of a claim, this many candidates are examined closely. Compared with examining all
candidates, 26 refuted claims take as many runs (4 to 8 seeds); of 19 claims that pass, 17 have the same bounds and the
others bounds within 0.3 %."""
SUMS = Classifiers(curves=24)
"""The family of learnt sums. It has few curves, because the time of a fit grows with the cube of their number, and
vectors may be long."""


@dataclass(frozen=True)
class PlannedBet(StrategyBet):
    """The bet of one strategy in the next round.

    ``growth`` is the growth of log-wealth in one run that the strategy expects; it is 0 if the strategy does not bet.
    """

    growth: float


PlannedBets = tuple[PlannedBet, PlannedBet]
"""The planned bets of the conservative and of the aggressive strategy."""


@dataclass(frozen=True)
class Growth:
    """The objective by which a sequential audit compares events: the expected growth of log-wealth in one run.

    Attributes
    ----------
    points : sequence of (float, float)
        The points (epsilon, delta) of the claim to bet against; the best one counts.
    more_wrong : float
        Number of wrong guesses that is added to the observed one, because the best of many events is overestimated.
    """

    points: Sequence[tuple[float, float]]
    more_wrong: float = 0.0

    def choices(self, candidate: CandidateScore, n_errors: float | None = None) -> list[Choice]:
        """Return the best event of a candidate for each point of the claim at which a bet is expected to win.

        The candidate is a score, and its events are outputs with a score beyond a threshold. The estimated log odds of
        a correct guess are lowered by ``n_errors`` standard errors, by default the candidate's own number.
        """
        found = []
        for upper, lower, correct, wrong in candidate.rates(n_errors):
            wrong = wrong + self.more_wrong / candidate.size
            events = int(upper[0] >= 0) + int(lower[0] >= 0)
            for epsilon, delta in self.points:
                growing = np.flatnonzero(correct - math.exp(epsilon) * wrong > events * delta)
                if len(growing):
                    grows = betting.growth(correct[growing] / 2, wrong[growing] / 2, epsilon, delta, events)
                    at = growing[int(np.argmax(grows))]
                    witness = candidate.witness(int(upper[at]), int(lower[at]))
                    found.append(Choice(witness, MembershipGame(), float(np.max(grows))))
        return found


class Learner:
    """The planner of a sequential audit for one pair; before each round it chooses the bets of two strategies.

    The strategies read the same table of outputs, and share the weighted sums of features that were learnt from it, so
    that nothing is learnt twice. The conservative strategy chooses its event in every second round. The aggressive
    strategy uses these sums and simple families of events. It chooses in every round, but less often for long vectors.

    Parameters
    ----------
    families : sequence of Family
        The families of the conservative strategy.
    distances : bool
        Whether both strategies also score outputs by their distance from the median.
    claim : Claim
        The claim to bet against.
    confidence : float
        The confidence of the audit's bound.
    """

    def __init__(self, families: Sequence[Family], distances: bool, claim: Claim, confidence: float) -> None:
        self.families: list[Family] = []
        for family in families:
            self.families += [family, DistanceFromMedian()] if distances and family == Tails() else [family]
        self.simple = SIMPLE_FAMILIES if distances else (Tails(), LikelihoodRatio())
        self.claim, self.confidence = claim, confidence
        self.made = self.size = 0  # number of plans, and of outputs that the last plan was made from
        self._plans: PlannedBets | None = None
        self._features: Features | None = None  # of the last table
        self._known: dict[int, Features] = {}

    def plan(self, outputs: Outputs, outputs_prime: Outputs) -> PlannedBets:
        """Return the bets of the conservative and of the aggressive strategy for the next round, from all outputs.

        At first the conservative strategy copies the aggressive one. Later it compares the same scores as an audit of
        fixed size, with the same correction for choosing the best of many, and takes the event for which the greatest
        growth of wealth is expected. If wealth is not expected to grow with any event, it takes the event that an audit
        of fixed size would choose if it had as many runs as there are at the end of the next round.
        """
        size, claim, turn = min(len(outputs), len(outputs_prime)), self.claim, self.made % LEARN_EVERY
        table, sums = None, []
        if turn == 0 and 2 * size >= MIN_TO_CHOOSE:
            table = table_of(outputs[:size], outputs_prime[:size], known=self._known)
            self._features = table.features
            sums = list(SUMS.candidates(table))
        small = size <= MAX_FOR_AGGRESSIVE
        kept = eager = self._eager(outputs, outputs_prime, table if small else None, sums)
        if table is not None:
            candidates: list[CandidateScore] = []
            for family in self.families:
                learnt = type(family) is Classifiers  # a subclass may propose other scores
                candidates += sums if learnt else candidate_scores([family], *table.sides, table)
            candidates = promising(candidates, claim)
            witness = fastest(candidates, claim)
            if witness is None:
                against = claim
                if eager.tangent is not None:
                    against = ApproxDP(*next(at for at in betting.tangents(claim) if at[0] == eager.tangent))
                # the next round is about as long as all rounds before it, which had 2 * size runs
                choice = best_of(candidates, Bound(against, 4 * size, self.confidence))
                witness = choice.witness if choice.predicted > 0.0 else None
            kept = eager if witness is None else plan_with(witness, claim, outputs, outputs_prime)
        elif turn and self._plans is not None and self._plans[0] is not self._plans[1]:
            kept = self._plans[0]
            kept = plan_with(kept.witness, claim, outputs, outputs_prime) if kept.past else kept
        self._plans = kept, eager
        self.made, self.size = self.made + 1, len(outputs) + len(outputs_prime)
        return self._plans

    def _eager(
        self, outputs: Outputs, outputs_prime: Outputs, data: Encoding | None, sums: list[CandidateScore]
    ) -> PlannedBet:
        """Return the bet of the aggressive strategy: the event with the greatest estimated growth of wealth.

        The estimate is not corrected for choosing the best of many events. If wealth is not expected to grow with any
        event, the event whose probabilities on x and x' differ most is taken. The coordinates of vectors are scored
        jointly. After `MAX_FOR_AGGRESSIVE` runs on each dataset, the strategy stops learning and keeps its event.
        ``data`` is the table of the outputs, if there is one already, and ``sums`` are the sums learnt from it.
        """
        last, claim = None if self._plans is None else self._plans[1], self.claim
        many, turn = (
            length_of(outputs) > MAX_COORDINATES_ALL_PAIRS and outputs.size > ENOUGH_NUMBERS,
            self.made % LEARN_EVERY,
        )
        if last is not None and (last.past >= 2 * MAX_FOR_AGGRESSIVE or (many and turn)):
            return plan_with(last.witness, claim, outputs, outputs_prime) if last.past else last
        size = min(len(outputs), len(outputs_prime), MAX_FOR_AGGRESSIVE)
        if size < 4:
            return no_bet(claim)
        if data is None:
            features = self._features if many else None
            sides, only_groups = (
                (outputs[:size], outputs_prime[:size]),
                length_of(outputs) > 1 and size >= MIN_OUTPUTS_TO_LEARN,
            )
            data = table_of(*sides, features, only_groups=only_groups)  # only the features of sums
            sums = list(SUMS.candidates(data))
            if only_groups and not sums:
                data = table_of(*sides, features)
        candidates = sums or candidate_scores(self.simple, *data.sides, data)
        witness = most_telling(promising(candidates, claim), claim)
        return no_bet(claim) if witness is None else plan_with(witness, claim, outputs, outputs_prime)


def promising(candidates: Iterable[CandidateScore], claim: Claim) -> list[CandidateScore]:
    """Return the few candidates that are worth a close examination, in their original order.

    For each candidate, the function computes by how many standard deviations correct guesses exceed what a claim
    allows. This is quick, and the square root of a small growth of wealth is proportional to it. The best `N_PROMISING`
    candidates are kept for the claim, and also for each of some weaker claims.
    """
    candidates = list(candidates)
    epsilon, delta = np.transpose(betting.tangents(claim))
    ratio = np.exp(np.multiply.outer(WEAKER_CLAIMS, epsilon))[..., None]
    leads = np.zeros((len(candidates), len(WEAKER_CLAIMS)))
    for lead, one in zip(leads, candidates, strict=True):
        for right, wrong in (one.upper, one.lower[::-1]):  # events of large scores, and of small ones
            over = right - ratio * wrong - one.size * delta[:, None]
            far = over / np.sqrt(right + ratio**2 * wrong + 1.0)
            lead += np.maximum(far.max(axis=(1, 2)), 0.0) ** 2
        lead[:] = np.sqrt(lead) - one.n_errors
    best = np.argsort(-leads, axis=0, kind="stable")[:N_PROMISING]
    return [candidates[place] for place in np.unique(best)]


def most_telling(candidates: Iterable[CandidateScore], claim: Claim, parts: float = math.inf) -> Witness | None:
    """Return the events of the candidates with which the bets against the claim are expected to win most.

    If no bet against the claim is expected to win, return the events whose probabilities on x and x' differ most.
    Return None if no event has different probabilities. Events with more than ``parts`` parts are left out.
    """
    candidates = list(candidates)
    for points in (betting.tangents(claim), [(0.0, 0.0)]):
        choice = best_of(candidates, Growth(points, more_wrong=1.0), n_errors=0.0, parts=parts)
        if choice.predicted > 0.0:
            return choice.witness
    return None


def simpler_event(outputs: Outputs, outputs_prime: Outputs, claim: Claim) -> Witness | None:
    """Return the events, among those that are easy to read, with which bets against the claim are expected to win most.

    Return None if no easy event distinguishes the outputs on x from those on x'.
    """
    size = min(len(outputs), len(outputs_prime))
    data = table_of(outputs[:size], outputs_prime[:size])
    candidates = candidate_scores(SIMPLE_FAMILIES, *data.sides, data)
    return most_telling(candidates, claim, parts=MAX_SIMPLE_PARTS)


def fastest(candidates: Sequence[CandidateScore], claim: Claim) -> Witness | None:
    """Return the events of the candidates with which log-wealth is expected to grow fastest against the claim.

    Return None if log-wealth is not expected to grow with any of them.
    """
    choice = best_of(candidates, Growth(betting.tangents(claim)))
    return choice.witness if choice.predicted > 0.0 else None


def no_bet(claim: Claim) -> PlannedBet:
    """Return the plan of a strategy that does not bet, which is used before there are outputs."""
    return PlannedBet(FALLBACK_WITNESS, None if claim.claimed_point is not None else 0.0, 0.5, 1.0, 0, 0.0)


def plan_with(witness: Witness, claim: Claim, outputs: Outputs, outputs_prime: Outputs) -> PlannedBet:
    """Return the bet on a witness, at the point of the claim's profile where the greatest growth of wealth is expected.

    A witness is one or two events that guess the dataset of a run. If wealth is not expected to grow at any point, the
    point that comes nearest to growth is used. The rates of correct and wrong guesses are estimated from the outputs,
    with one more run and a wrong guess in it. Without this run, an estimated rate of 0 wrong guesses would make it best
    to bet everything, and the first wrong guess would lose everything.
    """
    (right, wrong_prime), (wrong_on_x_prime, right_prime) = witness.count(outputs), witness.count(outputs_prime)
    on_x, on_x_prime, runs = len(outputs) + 1.0, len(outputs_prime) + 1.0, 2 * min(len(outputs), len(outputs_prime))
    correct = (right / on_x + right_prime / on_x_prime) / 2.0
    wrong = ((wrong_on_x_prime + 0.5) / on_x_prime + (wrong_prime + 0.5) / on_x) / 2
    correct, wrong = correct * runs / (runs + 1.0), (wrong * runs + 1.0) / (runs + 1.0)
    epsilon, delta = np.transpose(betting.tangents(claim))
    rates = [correct, wrong, max(1.0 - correct - wrong, 0.0)]
    grows = np.max(np.tensordot(rates, betting.log_factors(epsilon, delta, witness.events), 1), axis=-1)
    growth = max(float(np.max(grows)), 0.0)
    if growth == 0.0:
        grows = (correct - np.exp(epsilon) * wrong) / np.maximum(delta, 1e-12)
    best = int(np.argmax(grows))
    tangent = None if claim.claimed_point is not None else float(epsilon[best])
    return PlannedBet(witness, tangent, correct, wrong, runs, growth)
