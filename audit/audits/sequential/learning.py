"""Plans for the next round of a sequential audit: a witness, the tangent to test it at, and estimated rates.

They are made from the past outputs of one pair. Two strategies bet in parallel: a conservative one uses the scores and
the penalty of the fixed-size audit, best after many runs; an aggressive one bets after a few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from epsaudit.audits.sequential import betting
from epsaudit.audits.sequential.betting import Bet
from epsaudit.certificates import MembershipGame
from epsaudit.claims.conversions import Floats
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.outputs.normal_form import Outputs, rows_of
from epsaudit.witnesses import (
    ANYTHING,
    Bound,
    CandidateScore,
    Choice,
    Classifiers,
    Encoding,
    Event,
    Family,
    Features,
    Interval,
    LikelihoodRatio,
    Region,
    Tails,
    Witness,
    best_of,
    candidate_scores,
    encode,
    settings,
)
from epsaudit.witnesses.encoding import screen
from epsaudit.witnesses.features import Combined, Coordinate, Feature, Value
from epsaudit.witnesses.learning import FromTable, Sum, bases_of, interacting, judged_by, often_odd, planted, sums_of
from epsaudit.witnesses.selection import Readable
from epsaudit.witnesses.settings import LEAST_TO_LEARN

HEAVY = 1_000.0
"""Times the middle fifth of all numbers that they must span for tails to be cut; with Laplace noise it is fifty."""
CENTRAL = (0.75, 0.5, 0.35, 0.25)
"""Shares of all numbers, in the middle, within which tails may be cut: they halve the runs that a heavy tail takes."""


@dataclass(frozen=True)
class Nearness:
    """Distance from a point, negative, or with ``sign`` -1 positive, as the score.

    >>> score = Nearness(Value(), 1, 2.0)
    >>> score(np.array([1.0, 5.0])).tolist(), str(score.at_least(-0.5)), str(score.at_most(-3.0))
    ([-1.0, -3.0], '{1.5 <= y <= 2.5}', '{y < -1 or y > 5}')
    """

    feature: Feature
    sign: int
    middle: float

    def __call__(self, outputs: Outputs) -> Floats:
        return -self.sign * np.abs(np.asarray(self.feature(outputs), float) - self.middle)

    def at_least(self, threshold: float) -> Event:
        return self._near(-threshold) if self.sign > 0 else self._far(threshold)

    def at_most(self, threshold: float) -> Event:
        return self._far(-threshold) if self.sign > 0 else self._near(threshold)

    def _near(self, distance: float) -> Event:
        return Region(self.feature, (Interval(self.middle - distance, self.middle + distance),))

    def _far(self, distance: float) -> Event:
        below = Interval(-math.inf, self.middle - distance, includes_high=False)  # no number is near and far
        return Region(self.feature, (below, Interval(self.middle + distance, math.inf, includes_low=False)))


@dataclass(frozen=True)
class Within:
    """A number between two others, or its negative, as the score, which has no opinion on what lies outside.

    >>> score = Within(Value(), 1, 0.0, 9.0)
    >>> score(np.array([4.0, 1e14])).tolist(), str(score.at_most(3.0)), str(score.at_least(4.0))
    ([4.0, nan], '{0 <= y <= 3}', '{4 <= y <= 9}')
    """

    feature: Feature
    sign: int
    low: float
    high: float

    def __call__(self, outputs: Outputs) -> Floats:
        numbers = np.asarray(self.feature(outputs), float)
        return np.where((numbers >= self.low) & (numbers <= self.high), self.sign * numbers, np.nan)

    def at_least(self, threshold: float) -> Event:
        interval = Interval(threshold, self.high) if self.sign > 0 else Interval(self.low, -threshold)
        return Region(self.feature, (interval,))

    def at_most(self, threshold: float) -> Event:
        interval = Interval(self.low, threshold) if self.sign > 0 else Interval(-threshold, self.high)
        return Region(self.feature, (interval,))


@dataclass(frozen=True)
class Middles(FromTable):
    """Distance from the median, and tails within central quantiles where the outer ones are heavy.

    Of the only feature of single numbers that hardly repeat.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        feature = next(iter(data.features.alone), None)
        if not (isinstance(feature, Value) or feature == Coordinate(0)) or data.features.groups:
            return
        known = np.sort(data.numbers(feature)[data.row])
        known = known[np.isfinite(known)]
        if len(data.outputs) < len(data.row) or len(known) < settings.FEW_VALUES:
            return
        middle = float(np.median(known))
        scores: list[tuple[Nearness, Nearness] | tuple[Within, Within]] = []
        scores.append((Nearness(feature, 1, middle), Nearness(feature, -1, middle)))
        low, high = np.quantile(known, [0.4, 0.6])
        with np.errstate(over="ignore"):
            heavy = 0.0 < high - low < (known[-1] - known[0]) / HEAVY
        for share in CENTRAL if heavy else ():
            ends = [float(end) for end in np.quantile(known, [0.5 - share / 2, 0.5 + share / 2], method="nearest")]
            scores.append((Within(feature, 1, *ends), Within(feature, -1, *ends)))
        for score, mirrored in scores:
            found = CandidateScore.of(score, score(data.outputs)[data.row], data.group, data.weight)
            if found is not None and len(found.thresholds) > 1:
                yield found
                yield found.mirrored(mirrored)


NARROW = 24
"""Features of a group up to which each has coefficients of its own at every knot; a fit takes their cube."""
NUMBERS_TO_CHOOSE, LEAST_TO_SCREEN = 80_000, 1_000
"""Numbers of either side by which features of vectors longer than `MOST_PAIRED` are chosen, and outputs at least."""
FEW_TO_LOOK_AT = 4
"""Features of such vectors that are looked at one by one; more cost power against what sums and products tell."""
CORRELATED = 0.3
"""Mean correlation of neighbours' signs from which their differences are learnt; running sums have above 0.7."""
PARTS = (1, 2, 4)
"""Into how many parts coordinates of a long vector are divided, whose coefficients at a knot are the same in each."""


def is_long(outputs: Outputs) -> bool:
    """Whether outputs are vectors that take long to learn from."""
    return _length(outputs) > settings.MOST_PAIRED


def table_of(
    outputs: Outputs, outputs_prime: Outputs, features: Features | None = None, *, learnt: bool = False
) -> Encoding:
    """Encode outputs, as many of x' as of x, with these features, or with those that a part of them shows to tell.

    If ``learnt``, the latter are only such that sums are learnt from, which are found in half the time.

    >>> x, x_prime = np.random.default_rng(0).normal(size=(2, 5000, 100))
    >>> len(table_of(x, x_prime).features.groups[0])
    100
    """
    if features is None and is_long(outputs):
        part = max(NUMBERS_TO_CHOOSE // _length(outputs), LEAST_TO_SCREEN)
        features = _telling(outputs[:part], outputs_prime[:part], learnt)
    return encode(outputs, outputs_prime, features, learnt=learnt)


def _telling(outputs: Outputs, outputs_prime: Outputs, learnt: bool) -> Features:
    """Features of long vectors: increments only of what looks like running sums, and few to look at one by one."""
    found = Features.of(outputs, outputs_prime, learnt=learnt)
    alone = tuple(screen(found.alone, outputs, outputs_prime, FEW_TO_LOOK_AT))
    rows = np.nan_to_num(np.asarray(rows_of(outputs), float), posinf=0.0, neginf=0.0)
    ranks = np.sign(rows - np.median(rows, axis=0))
    running = np.mean(ranks[:, 1:] * ranks[:, :-1]) > CORRELATED
    groups = found.groups
    if not running and any(isinstance(one, Combined) for one in groups[1]):
        groups = (groups[0], (), *groups[2:])
    return replace(found, alone=alone, groups=groups, alike=found.alike if running else 1)


@dataclass(frozen=True)
class Sums(FromTable):
    """Learnt sums: those of `epsaudit.witnesses.Classifiers`, of long vectors with few coefficients.

    The longest group is described by a line for each feature, or by one curve for all features of a part of the group;
    and the features of every group that tell most by a curve for each, but for coordinates that only lines are for.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        if not data.features.groups or data.size < settings.LEAST_TO_LEARN:
            return
        longest = max(data.features.groups, key=len)
        x, x_prime = (side[: 4 * LEAST_TO_SCREEN] for side in data.sides)
        groups = tuple(tuple(screen(group, x, x_prime, NARROW)) for group in _with_curves(data.features))
        narrow = replace(data, features=replace(data.features, groups=groups))
        if len(longest) > NARROW:
            yield from _wide_sum(data, longest)
        yield from Classifiers(trees=False).candidates(narrow)


def trees_of(data: Encoding, sums: Sequence[CandidateScore], promising: bool) -> Iterator[CandidateScore]:
    """Yield trees where something is ``promising``, or where products of two features tell more than the best sum.

    Of long vectors only the latter: some of their many sums promise by luck. Boosting takes most of the time.
    """
    features = tuple(dict.fromkeys(one for group in _with_curves(data.features) for one in group))
    if data.size < settings.LEAST_TO_PLANT or not 1 < len(features) <= settings.MOST_COORDINATES:
        return
    hopeful = promising and not is_long(data.outputs)
    if hopeful or interacting(data, next(group for group in data.features.groups if group), sums):
        yield from planted(data, features)


def _length(outputs: Outputs) -> int:
    """Coordinates of vectors; 0 of all else."""
    rows = rows_of(outputs) if len(outputs) else None
    return 0 if rows is None else int(rows.shape[1])


def _with_curves(features: Features) -> list[tuple[Feature, ...]]:
    """Groups that more is learnt of than a sum of lines."""
    return [group for group in features.groups if len(group) <= settings.MOST_COORDINATES]


def _wide_sum(data: Encoding, group: Sequence[Feature]) -> Iterator[CandidateScore]:
    """Yield the best sum of a long group: of a line for each feature, or of curves that parts of the group share."""
    numbers = np.array([data.numbers(feature) for feature in group])
    odd, everything = often_odd(numbers), np.arange(len(data.row))
    sums: list[Sum] = []
    lines = [basis for basis in bases_of(group, numbers, odd, linear=True) if basis.width]
    if lines:
        design = np.concatenate([basis.columns(data.numbers(basis.feature)) for basis in lines], axis=1)
        eye = np.eye(design.shape[1])
        shapes = [(eye, penalty * eye) for penalty in settings.PENALTIES]
        sums += sums_of(data, everything, design[data.row], shapes, lines)
    curves = bases_of(group, numbers, odd)
    width = curves[0].width
    if width and all(basis.width == width for basis in curves):
        finest = np.arange(len(curves)) * PARTS[-1] // len(curves)
        summed = np.zeros((PARTS[-1], len(numbers[0]), width), np.float32)
        for part, basis, one in zip(finest, curves, numbers, strict=True):
            summed[part] += basis.columns(one)
        summed -= summed.mean(axis=1, keepdims=True)  # all hats together are constant: single precision ends there
        for parts in PARTS:
            design = np.concatenate([some.sum(axis=0) for some in np.split(summed, parts)], axis=1)
            shares: Floats = np.kron(np.eye(parts)[finest * parts // PARTS[-1]], np.eye(width)).astype(float)
            eye = np.eye(design.shape[1])
            sums += sums_of(data, everything, design[data.row], [(eye, eye)], curves, shares)
    if sums:
        best = max(sums, key=attrgetter("gain"))
        yield from judged_by(data, best.entries, best.score, best.judged)


LEAST_TO_CHOOSE = 64
"""Past runs from which the conservative strategy begins to choose. Set by hand."""
MOST_FOR_AGGRESSIVE = 5_000
"""Past runs on each dataset that the aggressive strategy learns from."""
LEARN_EVERY = 3
"""Rounds from one choice of the conservative strategy's event to the next, in which past runs grow 3.4 times: half the
processor time for hardly more runs."""
ENOUGH_NUMBERS = 20_000
"""Numbers of x from which the aggressive strategy learns of long vectors in two of three rounds, or in one of three
while its last event does not grow. Features that old at any size would cost power."""
PROMISING, SHORTLISTED = 1.0, 6
"""Standard errors by which log odds are lowered before a score counts as promising, and scores of long vectors learnt
from a part that all outputs judge. Set by hand."""
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
        if self._plans is None or self.made % LEARN_EVERY == 0:
            self._plans = self._chosen(outputs, outputs_prime)
        else:
            conservative, last = self._plans
            eager = self._eager(outputs, outputs_prime)
            kept = eager if conservative is last else plan_again(conservative, self.claim, outputs, outputs_prime)
            self._plans = kept, eager
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
        candidates = self._candidates(self._table, outputs[:size], outputs_prime[:size])
        witness = fastest(candidates, self.claim)
        if witness is None:
            against = self.claim
            if eager.tangent is not None:
                against = ApproxDP(*next(at for at in betting.tangents(self.claim) if at[0] == eager.tangent))
            # the next round is about as long as all before it
            choice = best_of(candidates, Bound(against, 4 * size, 1.0 - self.alpha))
            if choice.predicted == 0.0:
                return eager, eager
            witness = choice.witness
        return plan_with(witness, self.claim, outputs, outputs_prime), eager

    def _candidates(self, table: Encoding, outputs: Outputs, outputs_prime: Outputs) -> list[CandidateScore]:
        """List candidates: of many long vectors learnt from a part, unless one of these is promising."""
        if self._found is None:
            self._found = candidates_of(self.families, table, self.claim, self._sums)
        part = table.size
        if len(outputs) == part:
            return self._found
        growth = Growth(betting.tangents(self.claim))
        ranked = sorted(self._found, key=lambda one: best_of([one], growth, PROMISING).rank, reverse=True)
        judged = [one.counting(outputs[part:], outputs_prime[part:]) for one in ranked[:SHORTLISTED]]
        if fastest(judged, self.claim, PROMISING) is None:
            return judged
        data = encode(outputs, outputs_prime, table.features)
        return candidates_of(self.families, data, self.claim, list(Sums().candidates(data)))

    def _eager(self, outputs: Outputs, outputs_prime: Outputs, shared: bool = False) -> Plan:
        """Choose the aggressive strategy's event while there are more runs to choose it from: by growth alone.

        Simple scores are chosen without a penalty, and where none grows, any difference between the sides is bet on. Of
        a vector, all coordinates count jointly: of many tested one by one, some would look good by chance.
        """
        last, claim = None if self._plans is None else self._plans[1], self.claim
        many = is_long(outputs) and outputs.size > ENOUGH_NUMBERS
        turn = self.made % LEARN_EVERY
        if last is not None:
            pause = many and (turn == 1 or (turn == 2 and last.growth == 0.0))
            if last.past >= 2 * MOST_FOR_AGGRESSIVE or pause:
                return plan_again(last, claim, outputs, outputs_prime)
        size = min(len(outputs), len(outputs_prime), MOST_FOR_AGGRESSIVE)
        if size < 4:
            return no_bet(claim)
        data, sums = self._table, self._sums
        if not shared or data is None:
            features = None if data is None or not many else data.features
            sides, learnt = (outputs[:size], outputs_prime[:size]), _length(outputs) > 1 and size >= LEAST_TO_LEARN
            data = table_of(*sides, features, learnt=learnt)  # beside sums nothing is looked at one by one
            sums = list(Sums().candidates(data))
            if learnt and not sums:
                data = table_of(*sides, features)
        candidates = sums or [one for family in self.simple for one in family.candidates(data)]
        witness = most_telling(candidates, claim)
        return no_bet(claim) if witness is None else plan_with(witness, claim, outputs, outputs_prime)


def most_telling(candidates: Sequence[CandidateScore], claim: Claim, readable: bool = False) -> Witness | None:
    """Return the event of the greatest growth, or that tells most where none grows; None for none."""
    for points in (betting.tangents(claim), [(0.0, 0.0)]):
        growth = Growth(points, more_wrong=1.0)
        choice = best_of(candidates, Readable(growth) if readable else growth, errors=0.0)
        if choice.predicted > 0.0:
            return choice.witness
    return None


def simpler_event(outputs: Outputs, outputs_prime: Outputs, claim: Claim) -> Witness | None:
    """Return the most telling event that reads well; None for none."""
    size = min(len(outputs), len(outputs_prime))
    data = table_of(outputs[:size], outputs_prime[:size])
    return most_telling([one for family in SIMPLE for one in family.candidates(data)], claim, readable=True)


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


def plan_again(plan: Plan, claim: Claim, outputs: Outputs, outputs_prime: Outputs) -> Plan:
    """Return a plan at its event's rates in all the past."""
    return plan_with(plan.witness, claim, outputs, outputs_prime) if plan.past else plan


def plan_with(witness: Witness, claim: Claim, outputs: Outputs, outputs_prime: Outputs) -> Plan:
    """Add the tangent of the greatest growth against the claim, or, if there is none, the one nearest to growth.

    The rates are those of the past with one more run, in which the guess was wrong: at an estimated rate of 0 wrong
    guesses the best bet would be everything, and lost with the first.
    """
    (right, wrong_prime), (wrong_on_x_prime, right_prime) = witness.count(outputs), witness.count(outputs_prime)
    on_x, on_x_prime, runs = len(outputs) + 1.0, len(outputs_prime) + 1.0, 2 * min(len(outputs), len(outputs_prime))
    correct = (right / on_x + right_prime / on_x_prime) / 2.0
    wrong = ((wrong_on_x_prime + 0.5) / on_x_prime + (wrong_prime + 0.5) / on_x) / 2
    correct, wrong = correct * runs / (runs + 1.0), (wrong * runs + 1.0) / (runs + 1.0)
    points = betting.tangents(claim)
    grows = [float(betting.growth(correct, wrong, *point, witness.events)) for point in points]
    best = int(np.argmax(grows))
    if grows[best] == 0.0:
        best = int(np.argmax([(correct - math.exp(e) * wrong) / max(delta, 1e-12) for e, delta in points]))
    tangent = None if claim.claimed_point is not None else points[best][0]
    return Plan(witness, tangent, correct, wrong, runs, grows[best])
