"""Choose the witness and the certificate together, by the bound they are predicted to certify.

Training outputs enter: one part fits the scores, the other part judges every way to cut them, and where there are
enough runs, the few most promising scores are rehearsed on many fresh outputs of which only counts are kept.
Certification runs are never seen here, so choosing costs no confidence.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtr

from audit.certificates import Box, Certificate, Counts, MembershipGame, clopper_pearson_lower
from audit.claims import Claim
from audit.mechanism import Outputs
from audit.witnesses.events import Interval, Region, Witness
from audit.witnesses.scores import Family, Score
from audit.witnesses.smoothing import Binned, Curve, keep_near, smooth

Floats = NDArray[np.float64]
LEVELS = 72
TANGENTS = 24
FEW_VALUES = 8
CAUTION = 2.0
NEAR, NEAR_IF_LEARNT = 2.0, 1.0
"""Standard errors by which a curve may differ from counts; the ends of a learnt score are often noise, and no curve."""
PLACES = ((0.5, 8), (1.0, 4))
"""How many scores are rehearsed: so many by the bound predicted with half the caution, more by that with all of it."""
STILL_ALIVE = 24
"""How many are judged with all caution after those with half of it."""
WORTH_A_REHEARSAL, MORE_HOPE = 1.25, 1.05
DOUBT_OF_COUNTS = 2.0
HARDLY, ONE_ERROR = 0.25, 0.5
FEW_PIECES = 4
EASY_TO_READ, HARD_TO_READ = 0.001, 0.02
"""Shares by which a score must beat the simpler ones before it: tails of one feature, or many pieces, a sum, a tree."""


@dataclass(frozen=True)
class Choice:
    """A witness, the certificate to use with it, and the bound that training predicts for the two.

    The significance compares choices of which no bound above 0 is predicted: correct less wrong guesses in training,
    in standard deviations and seen pessimistically. ``learnt`` says whether the witness cuts a learnt score, and
    ``by_counts`` is the bound that the event's own counts promise, doubted twice as much: little for a rare event that
    was lucky, or is only inferred. ``hoped`` is the bound predicted with one standard error of caution, by which two
    choices made from different outputs are compared: neither was picked for its luck in so far as the other was not.
    """

    witness: Witness
    certificate: Certificate
    predicted: float
    significance: float = -math.inf
    learnt: bool = False
    by_counts: float = 0.0
    hoped: float = 0.0


def choose(
    families: Sequence[Family],
    outputs: Outputs,
    outputs_prime: Outputs,
    claim: Claim,
    runs: int,
    confidence: float,
) -> Choice:
    """Return the choice with the largest predicted bound on the claim's parameter.

    Parameters
    ----------
    families : sequence of Family
        Where candidate scores come from.
    outputs, outputs_prime : ndarray, shape (m, ...)
        Training outputs of M(x) and M(x'), equally many; the first halves fit, the second halves judge.
    claim : Claim
        The claim under audit.
    runs : int
        Certification runs to come, on both datasets together.
    confidence : float
        Confidence of the certificate.
    """
    return best_of(contenders_of(families, outputs, outputs_prime), claim, runs, confidence)


def shortlist(contenders: Sequence[Contender], choice: Choice, claim: Claim, runs: int, confidence: float) -> Shortlist:
    """Return the contenders that might do better than ``choice``, which is the best of them seen with all caution."""
    alive, hope = list(range(len(contenders))), promise(contenders, claim, runs, confidence)
    chosen: set[int] = set()
    for doubt, places in PLACES:
        cuts = {place: _best_cut(contenders[place], claim, runs, confidence, doubt).merit for place in alive}
        different = {merit: place for place, merit in reversed(cuts.items())}  # of equals the simplest
        order = [different[merit] for merit in sorted(different, reverse=True)]
        chosen.update([place for place in order if place not in chosen][:places])
        alive = sorted(order[:STILL_ALIVE])
    return Shortlist(choice, tuple(contenders[place].afresh() for place in sorted(chosen)), hope)


def promise(contenders: Iterable[Contender], claim: Claim, runs: int, confidence: float) -> float:
    """Return the largest bound that any of the contenders promises if seen with hardly any caution."""
    return max((_best_cut(one, claim, runs, confidence, HARDLY).merit[0] for one in contenders), default=0.0)


@dataclass(frozen=True)
class Shortlist:
    """A choice, and the scores that deserve a rehearsal on fresh outputs before anybody settles on it.

    Attributes
    ----------
    choice : Choice
        What training prefers, seen with caution.
    contenders : tuple of Contender
        The scores that promise most with less caution, simpler ones first; they have not seen the fresh outputs yet.
    hope : float
        The largest bound that one of them promises, seen with hardly any caution.
    """

    choice: Choice
    contenders: tuple[Contender, ...]
    hope: float

    @property
    def unsettled(self) -> bool:
        """Whether a rehearsal may gain more than the runs that it costs.

        Learnt scores and rare events promise more than they keep, and where little is known a rarer event may be
        better than it looks.
        """
        predicted, by_counts = self.choice.predicted, self.choice.by_counts
        return self.choice.learnt or self.hope > MORE_HOPE * predicted or predicted > WORTH_A_REHEARSAL * by_counts

    def watch(self, outputs: Outputs, outputs_prime: Outputs) -> Shortlist:
        """Let every contender see fresh outputs, equally many a side."""
        return replace(self, contenders=tuple(one.watch(outputs, outputs_prime) for one in self.contenders))

    @property
    def learnt(self) -> bool:
        """Whether a learnt score is among them."""
        return any(contender.learnt for contender in self.contenders)

    def joined_by(self, contenders: Iterable[Contender]) -> Shortlist:
        """Add contenders that have been judged by the same fresh outputs."""
        return replace(self, contenders=(*self.contenders, *contenders))

    def settle(self, claim: Claim, runs: int, confidence: float) -> Choice:
        """Choose by the rehearsal alone."""
        return best_of(self.contenders, claim, runs, confidence)


def contenders_of(families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs) -> Iterator[Contender]:
    """Fit every family on the first half of the outputs, and show its scores the second; simpler families first."""
    half = len(outputs) // 2
    fitting, judging = ((outputs[part], outputs_prime[part]) for part in (slice(half), slice(half, None)))
    yield from fitted(families, fitting, judging)


def fitted(
    families: Iterable[Family], fitting: tuple[Outputs, Outputs], judging: tuple[Outputs, Outputs]
) -> Iterator[Contender]:
    """Fit every family on outputs of x and x', and show its scores others; simpler families first."""
    for score in (score for family in families for score in family.fit(*fitting)):
        contender = Contender.of(score, fitting, judging)
        if contender is not None:
            yield contender


def best_of(contenders: Iterable[Contender], claim: Claim, runs: int, confidence: float, doubt: float = 1.0) -> Choice:
    """Cut every contender where it promises most, and return the most promising; near ties go to the simpler one."""
    anything = Witness(Region(intervals=(Interval(),)), None)  # for outputs on which no family has an opinion
    best = Choice(anything, MembershipGame() if claim.claimed_point is not None else Box(), 0.0)
    merit, winner = (0.0, -math.inf), None
    for contender in contenders:
        for candidate in _candidates(contender.cuts(doubt), claim, runs, confidence):
            if candidate.clearly_beats(merit, contender.margin):
                best, merit, winner = candidate.choice(contender), candidate.merit, (contender, candidate)
    if winner is None:
        return best
    contender, candidate = winner
    by_counts = candidate.bound(contender.counted(doubt * DOUBT_OF_COUNTS), claim, runs, confidence)
    hoped = candidate.bound(contender.cuts(ONE_ERROR), claim, runs, confidence)
    return replace(best, by_counts=by_counts, hoped=hoped)


@dataclass(frozen=True)
class Contender:
    """A score with the thresholds at which it may be cut, and what was seen of both sides between them.

    Attributes
    ----------
    score : Score
        The score.
    thresholds : ndarray, shape (levels,)
        Where it may be cut, increasing.
    fitting : Binned
        Counts of outputs that nobody is judged by: they help to find the shape of a smooth log ratio.
    seen : Binned, Binned
        Counts of the outputs that judge, in two halves.
    size : int
        How many outputs a side judge.
    """

    score: Score
    thresholds: NDArray[Any]
    fitting: Binned
    seen: tuple[Binned, Binned]
    size: int

    @classmethod
    def of(cls, score: Score, fitting: tuple[Outputs, Outputs], judging: tuple[Outputs, Outputs]) -> Contender | None:
        """Place the thresholds by the outputs that judge; None if the score says nothing of them."""
        values = [score(side) for side in judging]
        thresholds = _levels(np.concatenate([side[~np.isnan(side)] for side in values]))
        if len(thresholds) == 0:
            return None
        seen = _halves(thresholds, *values)
        known = _binned(thresholds, *(_places(thresholds, score(side)) for side in fitting))
        return cls(score, thresholds, known, seen, len(judging[0]))

    @property
    def learnt(self) -> bool:
        """Whether only outputs that it was not fitted on can judge it."""
        return bool(getattr(self.score, "learnt", False))

    @property
    def margin(self) -> float:
        """Share by which it must beat the simpler ones before it."""
        return HARD_TO_READ if self.learnt or getattr(self.score, "pieces", 1) > FEW_PIECES else EASY_TO_READ

    def afresh(self) -> Contender:
        """Return the same score and cuts before anybody judged it: what was seen so far only helps with the shape."""
        nothing = _halves(self.thresholds, np.empty(0), np.empty(0))
        return replace(self, fitting=self.fitting + self.seen[0] + self.seen[1], seen=nothing, size=0)

    def watch(self, outputs: Outputs, outputs_prime: Outputs) -> Contender:
        """Add fresh outputs, equally many a side, to what was seen."""
        more = _halves(self.thresholds, self.score(outputs), self.score(outputs_prime))
        seen = (self.seen[0] + more[0], self.seen[1] + more[1])
        return replace(self, seen=seen, size=self.size + len(outputs))

    def cuts(self, doubt: float = 1.0) -> _Cuts:
        """How often each cut is expected to be seen; ``doubt`` scales the caution."""
        return self._cuts(self._curve, doubt)

    @functools.cached_property
    def _curve(self) -> Curve | None:
        if self.score.smooth and self.learnt:  # a learnt score flatters the outputs it was learnt on
            return smooth(_centres(self.thresholds), *self.seen)
        if self.score.smooth and len(self.thresholds) > FEW_VALUES:  # a handful is better counted than bent
            return smooth(_centres(self.thresholds), self.fitting, self.seen[0] + self.seen[1])
        return None

    def ways(self, doubt: float = 1.0) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Counts]]:
        """Yield all ways to cut it: places of the upper and of the lower event (-1: none), and the rates to expect.

        The rates are counts of one run on each dataset, seen as pessimistically as ``doubt`` says.
        """
        cuts = self.cuts(doubt)
        levels = np.arange(len(cuts.thresholds))
        none = np.full(len(levels), -1)
        up, low = np.nonzero(cuts.thresholds[:, None] > cuts.thresholds[None, :])
        for upper, lower in ((levels, none), (none, levels), (up, low)):
            if len(upper):
                yield upper, lower, _predict(cuts, upper, lower, 2)

    def witness(self, upper: int | None, lower: int | None) -> Witness:
        """Cut it at the thresholds in these places."""
        return Witness(
            None if upper is None else self.score.at_least(self.thresholds[upper].item()),
            None if lower is None else self.score.at_most(self.thresholds[lower].item()),
        )

    def counted(self, doubt: float = 1.0) -> _Cuts:
        """As `cuts`, by counts alone: no smooth curve tells of rare events from commoner ones."""
        return self._cuts(None, doubt)

    def _cuts(self, curve: Curve | None, doubt: float) -> _Cuts:
        seen = self.seen[0] + self.seen[1]
        near = NEAR_IF_LEARNT if self.learnt else NEAR
        upper, lower = (
            _tails(tail, side, seen, curve, near, self.size) for side, tail in enumerate((_from_above, _from_below))
        )
        return _Cuts(self.thresholds, upper, lower, self.size, doubt)


def _best_cut(contender: Contender, claim: Claim, runs: int, confidence: float, doubt: float) -> _Candidate:
    candidates = _candidates(contender.cuts(doubt), claim, runs, confidence)
    return max(candidates, key=lambda candidate: candidate.merit)


@dataclass(frozen=True)
class _Tails:
    """One side's cuts of a score: for each threshold, how often each dataset is expected at or beyond it.

    ``counts`` has shape (2, levels) for (x, x') out of the outputs that judge; ``error`` is the standard error of the
    logarithm of their ratio, shape (levels,).
    """

    counts: Floats
    error: Floats


@dataclass(frozen=True)
class _Cuts:
    """All cuts of a score: ``upper`` is {score >= t}, ``lower`` is {score <= t}, thresholds increasing."""

    thresholds: NDArray[Any]
    upper: _Tails
    lower: _Tails
    size: int
    doubt: float = 1.0

    @property
    def caution(self) -> float:
        """Standard errors by which the luckiest of so many cuts is to be doubted."""
        return self.doubt * _caution(len(self.thresholds))


def _tails(
    tail: Callable[[Floats], Floats], likely: int, seen: Binned, curve: Curve | None, near: float, size: int
) -> _Tails:
    """Sum bins into tails, from the counts alone or from the curve kept near the counts.

    ``likely`` is the side, 0 for x, that the tail's event speaks for. Counts alone are judged as strictly as a
    Clopper-Pearson limit would: 25 against 0 is no weak evidence, as a normal approximation would have it. Where the
    counts contradict the curve, its error says nothing.
    """
    counts = np.array([tail(seen.counts), tail(seen.counts_prime)])
    correct, wrong = counts[likely], counts[1 - likely]
    caution = _caution(counts.shape[1])
    least = logit(np.maximum(clopper_pearson_lower(correct, correct + wrong, ndtr(-caution)), 1e-12))
    raw_error = np.maximum(np.log(np.maximum(correct, 0.5) / (wrong + 0.5)) - least, 0.0) / caution
    if curve is None:
        return _Tails(counts, raw_error)
    divided = curve.divide(seen.pooled)
    by_curve = np.array([tail(divided.counts), tail(divided.counts_prime)])
    estimate = keep_near(by_curve, counts, size, near)
    pooled = np.maximum(tail(seen.pooled), 1e-9)
    error = np.minimum(tail(seen.pooled * curve.standard_error) / pooled, raw_error)
    return _Tails(estimate, np.where(np.all(estimate == by_curve, axis=0), error, raw_error))


def _caution(cuts: int) -> float:
    """About the expected largest of so many standard normal errors, and at most ``CAUTION``."""
    return min(CAUTION, math.sqrt(2.0 * math.log(cuts + 1.0)))


@dataclass(frozen=True)
class _Candidate:
    predicted: float
    significance: float
    certificate: Certificate
    upper: int | None
    lower: int | None

    @property
    def merit(self) -> tuple[float, float]:
        """What candidates are compared by; the significance decides where no bound above 0 is predicted."""
        return (self.predicted, self.significance)

    def clearly_beats(self, merit: tuple[float, float], margin: float) -> bool:
        """Whether this one is better by a margin: simpler families come first and win near ties."""
        return self.merit > tuple(part + margin * abs(part) for part in merit)

    @classmethod
    def of(
        cls,
        certificate: Certificate,
        bounds: Floats,
        counts: Counts,
        upper: NDArray[np.int64],
        lower: NDArray[np.int64],
        index: int,
    ) -> _Candidate:
        up, low = int(upper[index]), int(lower[index])
        lead = float((counts.correct - counts.wrong)[index] / counts.runs)
        return cls(float(bounds[index]), lead, certificate, up if up >= 0 else None, low if low >= 0 else None)

    def bound(self, cuts: _Cuts, claim: Claim, runs: int, confidence: float) -> float:
        """Return the bound that the same certificate and event are expected to give where ``cuts`` tells the counts."""
        upper, lower = (np.array([-1 if place is None else place]) for place in (self.upper, self.lower))
        return float(self.certificate.parameter(claim, _predict(cuts, upper, lower, runs), confidence)[0])

    def choice(self, contender: Contender) -> Choice:
        witness = contender.witness(self.upper, self.lower)
        return Choice(witness, self.certificate, self.predicted, self.significance, contender.learnt)


def _levels(pooled: NDArray[Any]) -> NDArray[Any]:
    """Thresholds to try: all values if few, else quantiles that crowd geometrically towards both ends."""
    values = np.unique(pooled)
    if len(values) <= LEVELS:
        return values
    pooled, n = np.sort(pooled), len(pooled)
    tail = np.unique(np.geomspace(1, n // 2, LEVELS // 2).astype(int))
    middle = np.linspace(0, n - 1, LEVELS // 2).astype(int)
    return np.unique(pooled[np.concatenate([tail - 1, n - tail, middle])])


def _candidates(cuts: _Cuts, claim: Claim, runs: int, confidence: float) -> Iterator[_Candidate]:
    """Yield the best candidate of every kind of certificate."""
    levels = np.arange(len(cuts.thresholds))
    none = np.full(len(levels), -1)
    for event, up, low in (("x", levels, none), ("x_prime", none, levels)):
        yield _best(Box(event), cuts, claim, runs, confidence, up, low)
    if claim.claimed_point is not None:
        game = MembershipGame()
        yield _best(game, cuts, claim, runs, confidence, levels, none)
        yield _best(game, cuts, claim, runs, confidence, none, levels)
        up, low = np.nonzero(cuts.thresholds[:, None] > cuts.thresholds[None, :])
        if len(up):
            yield _best(game, cuts, claim, runs, confidence, up, low)
        return
    tangents = _tangents(cuts)
    # at slope e^tangent the best event on each side is the one that gains most over it
    up, low = (
        np.argmax(likely - np.exp(tangents)[:, None] * rare, axis=1)
        for likely, rare in (cuts.upper.counts, cuts.lower.counts[::-1])
    )
    absent, apart = np.full(TANGENTS, -1), cuts.thresholds[up] > cuts.thresholds[low]
    yield _best_tangent(tangents, cuts, claim, runs, confidence, up, absent)
    yield _best_tangent(tangents, cuts, claim, runs, confidence, absent, low)
    if np.any(apart):
        yield _best_tangent(tangents[apart], cuts, claim, runs, confidence, up[apart], low[apart])


def _best(
    certificate: Certificate,
    cuts: _Cuts,
    claim: Claim,
    runs: int,
    confidence: float,
    upper: NDArray[np.int64],
    lower: NDArray[np.int64],
) -> _Candidate:
    """Evaluate one certificate on many cuts (index -1: no such event) and keep the best."""
    counts = _predict(cuts, upper, lower, runs)
    worth = _undominated(counts)
    upper, lower = upper[worth], lower[worth]
    counts = _predict(cuts, upper, lower, runs)
    bounds = certificate.parameter(claim, counts, confidence)
    best = _first_of_the_largest(bounds, counts)
    return _Candidate.of(certificate, bounds, counts, upper, lower, best)


def _best_tangent(
    tangents: Floats,
    cuts: _Cuts,
    claim: Claim,
    runs: int,
    confidence: float,
    upper: NDArray[np.int64],
    lower: NDArray[np.int64],
) -> _Candidate:
    """Evaluate the game at one tangent for each cut, all in one inversion of the profile, and keep the best."""
    counts = _predict(cuts, upper, lower, runs)
    bounds = claim.least_at(tangents, MembershipGame().delta(counts, tangents, confidence))
    best = _first_of_the_largest(bounds, counts)
    return _Candidate.of(MembershipGame(float(tangents[best])), bounds, counts, upper, lower, best)


def _undominated(counts: Counts) -> NDArray[np.int64]:
    """Places of cuts than which no other has more correct and fewer wrong guesses: limits take their time."""
    order = np.lexsort((-counts.correct, counts.wrong))
    most = np.maximum.accumulate(counts.correct[order])
    return np.sort(order[np.diff(most, prepend=-1.0) > 0.0])


def _first_of_the_largest(bounds: Floats, counts: Counts) -> int:
    """Index of the largest bound; where none is above 0, of the largest lead of correct over wrong guesses."""
    return int(np.argmax(bounds if np.max(bounds) > 0.0 else counts.correct - counts.wrong))


def _predict(cuts: _Cuts, upper: NDArray[np.int64], lower: NDArray[np.int64], runs: int) -> Counts:
    """Counts to expect in ``runs`` certification runs, shifted to the pessimistic side.

    The log ratio of correct to wrong guesses is taken ``cuts.caution`` standard errors below its estimate, so that a
    lucky handful of training outputs does not pass for a strong event.
    """
    present = np.array([upper >= 0, lower >= 0])
    correct = np.where(present, [cuts.upper.counts[0][upper], cuts.lower.counts[1][lower]], 0.0)
    wrong = np.where(present, [cuts.upper.counts[1][upper], cuts.lower.counts[0][lower]], 0.0)
    error = np.where(present, [cuts.upper.error[upper], cuts.lower.error[lower]], 0.0)
    guesses = correct + wrong
    combined = np.sqrt(np.sum((guesses * error) ** 2, axis=0)) / np.maximum(np.sum(guesses, axis=0), 1e-9)
    # half of the shift falls on either kind, but correct guesses are never doubted beyond their own standard error:
    # against a delta it matters how many they are
    doubt = np.minimum(combined / 2, 1.0 / np.sqrt(np.maximum(np.sum(correct, axis=0), 1.0)))
    correct = correct * np.exp(-cuts.caution * doubt)
    wrong = (wrong + 0.5 * present) * np.exp(cuts.caution * (combined - doubt))
    correct, wrong = (np.minimum(counts, cuts.size) * (runs / 2 / cuts.size) for counts in (correct, wrong))
    return Counts(runs / 2, runs / 2, correct[0], wrong[0], wrong[1], correct[1], events=int(present.any(axis=1).sum()))


def _places(thresholds: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Bin of each score: below the first threshold, at each threshold, between it and the next; -1 for NaN."""
    above = np.searchsorted(thresholds, values, side="left")
    at = thresholds[np.minimum(above, len(thresholds) - 1)] == values
    return np.where(np.isnan(values), -1, 2 * above + at)


def _binned(thresholds: NDArray[Any], *places: NDArray[np.int64]) -> Binned:
    """Count the scores of both sides in each bin."""
    bins = 2 * len(thresholds) + 1
    return Binned(*(np.bincount(side + 1, minlength=bins + 1)[1:].astype(float) for side in places))


def _halves(thresholds: NDArray[Any], *values: NDArray[Any]) -> tuple[Binned, Binned]:
    places = [_places(thresholds, side) for side in values]
    first, second = (_binned(thresholds, *(side[part::2] for side in places)) for part in (0, 1))
    return first, second


def _from_above(counts: Floats) -> Floats:
    """Counts at or above each threshold."""
    return np.asarray(np.cumsum(counts[::-1])[::-1][1::2])


def _from_below(counts: Floats) -> Floats:
    """Counts at or below each threshold."""
    return np.asarray(np.cumsum(counts)[1::2])


def _centres(thresholds: NDArray[Any]) -> Floats:
    """A typical score for each bin: the thresholds themselves and the middles between them."""
    values = _finite(thresholds.astype(float))
    ends = (
        [2 * values[0] - values[1], 2 * values[-1] - values[-2]] if len(values) > 1 else [values[0] - 1, values[0] + 1]
    )
    centres = np.empty(2 * len(values) + 1)
    centres[1::2] = values
    centres[2:-1:2] = (values[:-1] + values[1:]) / 2
    centres[[0, -1]] = ends
    return centres


def _finite(values: Floats) -> Floats:
    """Put infinite scores a little beyond the finite ones: only the order of what lies there matters."""
    finite = values[np.isfinite(values)]
    if len(finite) == len(values):
        return values
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    margin = (high - low) / 4.0 or 1.0
    return np.clip(values, low - margin, high + margin)


def _tangents(cuts: _Cuts) -> Floats:
    """Slopes worth trying: from 0 up to the largest log ratio seen between the two sides."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log((cuts.upper.counts[0] + 0.5) / (cuts.upper.counts[1] + 0.5)))
    return np.linspace(0.0, max(float(np.max(ratios)), 0.1), TANGENTS)
