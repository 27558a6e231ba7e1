"""Scores, their events, and one rule of choice: what each event is expected to give, and which is worth most.

A score is one number an output, larger where x is likelier; its events are its tails. Training outputs alone are used
here, so that choosing costs no confidence.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dpttrf, dpttrs
from scipy.special import expit, logit, ndtri, rel_entr

from epsaudit.bounds.certificates import Box, Certificate, Counts, MembershipGame
from epsaudit.claims.definitions import Claim
from epsaudit.outputs.arrays import Codes, Floats, Outputs
from epsaudit.outputs.atoms import find_atoms
from epsaudit.outputs.normal_form import to_float
from epsaudit.witnesses.events import Event, Feature, Interval, Region, Witness, parts_of

SURE = 4.0
"""[measured] Standard deviations of chance beyond which an event's own counts are believed and not what was pooled. No
noise once in 2,000 runs, a million runs, 24 seeds: seen by 15 with 6, by 22 with 5, by 24 with 4, where what is
certified of Laplace and of report noisy max 3 and 4 over 20 to 30 seeds is the same."""
LEVELS = 60
"""[time] Thresholds of a score that are compared: half of them in geometric steps towards the ends."""
ERRORS = 2.0
"""[measured] Standard errors by which the log odds of a correct guess are lowered, for one score. At 1.5 the mean share
is 0.90, and 0.89 at 2; but scores of noise without any difference promise up to 0.14 at 1.5, next to nothing at 2."""
OPTIMISTIC, OWN = 0.25, 1.0
"""[measured] Standard errors by which an optimistic bound is lowered, and of an event's own counts, if that is more,
those by which a cautious one is. Gaussian noise audited as Gaussian DP, a million runs, 60 seeds: where bounds are
taken for known that are not cautious, 4 end with 0, as pooled log odds of rare outputs were too high; else none."""
WALKS, BENDS = tuple(np.geomspace(1e-6, 10.0, 7)), tuple(np.geomspace(1e-5, 1e-1, 4))
"""[chosen] Variances of the log odds, and of their slope, along the logit of the rank; the likeliest is taken."""
PROBIT = 1.7
"""[formula] Logits in a probit of the rank at which the logistic and the normal distribution are nearest, within 0.01.
Log odds may be a line along that, too, as those of Gaussian noise are. Without such lines 10 of the 60 audits above end
with 0, and 4 with; prefix sums certify 0.810 on average of 24 seeds, and 0.827."""
STEEP = 0.15
"""[measured] Log odds may be a line along the hyperbolic sine of so many times the logit of the rank, too: in the tails
a power of the rank, as near the end of a support.
Report noisy max 4, 4.3 million runs: the chosen events are worth 0.78 of an oracle's without such lines, 0.87 with, and
0.85 with 0.25; no other row of the public benchmark changes by more than 0.006."""
FLATS = (1.0, 3.0, math.inf)
"""[measured] Logits of the rank beyond which the log odds may be constant, as those of a pure mechanism are. Laplace
learnt from 20,000 outputs a side: the lowest decile of what a million runs certify is 0.993, and 0.991 without."""
FEW_LEVELS = 16
"""[measured] Levels up to which the log odds of each are its own. A sequential audit of a function that raises on one
side alone is over after 605 runs, and after 2,070 if this is 4."""
ROUNDS = 2
"""[measured] Newton's steps towards the likeliest log odds of counts, which tell more where none was seen of many.
Report noisy max 4 at 4.3 million runs: a median of 0.57 of an oracle's without a step, and 0.67 with two."""
TANGENTS = 24
"""[time] Points of a claim's privacy profile that are compared, in proportion to which it takes time."""


class Score(Protocol):
    """A fitted score.

    One with an attribute ``learnt`` that is true was fitted so closely that the outputs it was fitted on overstate it.
    """

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """Return shape (size,), larger where x is likelier, NaN where the score has no opinion."""

    def at_least(self, threshold: float) -> Event:
        """Return the event that the score is at least ``threshold``."""

    def at_most(self, threshold: float) -> Event:
        """Return the event that the score is at most ``threshold``."""


@dataclass(frozen=True)
class Monotone:
    """A feature itself, or its negative, as the score: its events are tails."""

    feature: Feature
    sign: int
    learnt: bool = False

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        numbers = self.feature(outputs)
        return numbers if self.sign > 0 else -numbers

    def at_least(self, threshold: float) -> Event:
        return Region(self.feature, (Interval(low=threshold) if self.sign > 0 else Interval(high=-threshold),))

    def at_most(self, threshold: float) -> Event:
        return Monotone(self.feature, -self.sign).at_least(-threshold)


@dataclass(frozen=True)
class PiecewiseRatio:
    """A log-likelihood ratio that is constant on single outputs (atoms) and on intervals of a feature."""

    feature: Feature
    atoms: tuple[Hashable, ...]
    atom_values: Floats
    edges: Floats
    interval_values: Floats

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        values = np.full(len(outputs), np.nan)
        if len(self.interval_values):
            numbers = self.feature(outputs)
            known = ~np.isnan(numbers)
            values[known] = self.interval_values[np.searchsorted(self.edges, numbers[known], side="left")]
        if self.atoms:
            position = find_atoms(outputs, self.atoms)
            values = np.where(position >= 0, self.atom_values[position], values)
        return values

    def at_least(self, threshold: float) -> Event:
        bounds = np.concatenate([[-np.inf], self.edges, [np.inf]])
        turns = np.diff(self.interval_values >= threshold, prepend=False, append=False)
        intervals: list[Interval] = []
        for low, high in bounds[np.flatnonzero(turns)].reshape(-1, 2):
            intervals.append(Interval(float(low), float(high), includes_low=False))
        included, excluded = [], []
        for atom, value in zip(self.atoms, self.atom_values, strict=True):
            if value >= threshold:
                included.append(atom)
            elif any(one.contains(np.array([to_float(atom)]))[0] for one in intervals):
                excluded.append(atom)
        return Region(self.feature, tuple(intervals), tuple(included), tuple(excluded))

    def at_most(self, threshold: float) -> Event:
        negative = replace(self, atom_values=-self.atom_values, interval_values=-self.interval_values)
        return negative.at_least(-threshold)


LEVEL, SLOPE = 4.0, 0.01
"""[chosen] Prior variances of the log odds at the median, and of their slope along the logit of the rank: wide."""


@dataclass(frozen=True, eq=False)
class CandidateScore:
    """A score with thresholds, and how often outputs that did not teach it were at or beyond each.

    Of increasing ``thresholds``, shape (levels,), ``upper`` and ``lower``, shape (2, levels), say how many outputs of x
    and of x' score at least, and at most, each, of ``size`` a side. The log odds of correct guesses are lowered by so
    many standard ``errors``; by a share of ``margin`` must its predicted bound exceed that of the simpler ones before.
    """

    score: Score
    thresholds: NDArray[Any]
    upper: Floats
    lower: Floats
    size: float
    errors: float = ERRORS
    margin: float = 0.0
    _rates: dict[float, list[tuple[Codes, Codes, Floats, Floats]]] = field(init=False, default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        score: Score,
        final: Floats,
        group: NDArray[np.int8],
        weight: Floats,
        judged: Floats | None = None,
        **options: float,
    ) -> CandidateScore | None:
        """Choose thresholds at quantiles and count; None where no output has a score.

        All arrays have shape (entries,): ``final`` is what the score gives, ``group`` twice the fold of an entry, and 1
        more for x', ``weight`` how often it was seen. Of a score that was learnt from these outputs, ``judged`` is what
        models give that have not seen the entry's fold; events of equal mass are taken for each other.
        """
        values, counts = _ordered(final, group, weight)
        if len(values) == 0:
            return None
        thresholds, total = values[np.append(True, values[1:] > values[:-1])], float(counts[:, -1].sum())
        if len(thresholds) > LEVELS:  # quantiles that crowd geometrically towards both ends
            tail = np.geomspace(1.0 / total, 0.5, LEVELS // 2)
            ranks = np.concatenate([tail, 1.0 - tail, np.linspace(0.0, 1.0, LEVELS // 2)])
            thresholds = np.unique(values[_places(counts, ranks)])
        upper = counts[:, -1:] - counts[:, np.searchsorted(values, thresholds, "left")]
        lower = counts[:, np.searchsorted(values, thresholds, "right")]
        if judged is not None:
            above, below = upper.sum(axis=0) / total, lower.sum(axis=0) / total
            upper, lower = np.zeros((2, 2, len(thresholds)))
            for fold in np.unique(group // 2):
                part = group // 2 == fold
                values, counts = _ordered(judged[part], group[part], weight[part])
                if len(values) == 0:
                    continue
                both = counts[:, -1:]
                for tails, shares, upwards in ((upper, above, True), (lower, below, False)):
                    cuts = values[_places(counts, 1.0 - shares + 0.5 / both.sum() if upwards else shares)]
                    right = counts[:, np.searchsorted(values, cuts, "right")]
                    left = counts[:, np.searchsorted(values, cuts, "left")]
                    closed, opened = (both - left, both - right) if upwards else (right, left)
                    wanted = shares * both.sum()
                    nearer = np.abs(opened.sum(axis=0) - wanted) < np.abs(closed.sum(axis=0) - wanted)
                    tails += np.where(nearer, opened, closed)
        size = options.pop("size", float(weight[group % 2 == 0].sum()))
        return cls(score, thresholds, upper, lower, size, **options)

    def counting(self, outputs: Outputs, outputs_prime: Outputs) -> CandidateScore:
        """Add the counts of fresh outputs, equally many a side."""
        upper, lower = self.upper.copy(), self.lower.copy()
        for side, fresh in enumerate((outputs, outputs_prime)):
            values = self.score(fresh)
            values = np.sort(values[~np.isnan(values)])
            upper[side] += len(values) - np.searchsorted(values, self.thresholds, "left")
            lower[side] += np.searchsorted(values, self.thresholds, "right")
        return replace(self, upper=upper, lower=lower, size=self.size + len(outputs))

    @property
    def lead(self) -> float:
        """Most standard deviations of chance by which correct guesses outnumber wrong ones, of any event."""
        correct, wrong = np.concatenate([self.upper, self.lower[::-1]], axis=1)
        return float(np.max((correct - wrong) / np.sqrt(correct + wrong + 1.0)))

    def rates(self, errors: float | None = None) -> list[tuple[Codes, Codes, Floats, Floats]]:
        """Correct and wrong guesses that events are expected to give in one run on each dataset.

        For upper events alone, lower ones alone, and both, these are the indices of their thresholds, -1 for none, and
        the rates of each. Log odds are lowered by so many standard errors, by default the candidate's own. Where an
        event's own counts say more than what was pooled, beyond any chance, they are believed.
        """
        errors = self.errors if errors is None else errors
        if errors not in self._rates:
            found = self._of_tails(errors)
            events = [one for one in _events(len(self.thresholds)) if len(one[0])]
            self._rates[errors] = [(*one, *_joined(found, *one)) for one in events]
        return self._rates[errors]

    def rates_of(self, upper: Codes, lower: Codes, errors: float | None, own: float = 0.0) -> tuple[Floats, Floats]:
        """Correct and wrong guesses, as `rates` has them, of events whose thresholds have these indices.

        Log odds are lowered by so many standard errors of their own counts, if that is more.
        """
        return _joined(self._of_tails(self.errors if errors is None else errors, own), upper, lower)

    def _of_tails(self, errors: float, own: float = 0.0) -> list[Floats]:
        """Correct and wrong guesses of upper and of lower events, a run, and by how much the errors lower them."""
        found = []
        for guesses, odds, error, single in self._believed:
            right, fall = guesses * expit(odds), np.maximum(errors * error, own * single)
            rates = np.array([right, guesses - right, right - guesses * expit(odds - fall)]) / self.size
            found.append(np.append(rates, np.zeros((3, 1)), axis=1))  # the last is no event
        return found

    @functools.cached_property
    def _believed(self) -> list[tuple[Floats, Floats, Floats, Floats]]:
        """Guesses, log odds of a correct one, their standard error, and that of their own counts, of both tails."""
        found = []
        for tails, (odds, error) in zip((self.upper, self.lower[::-1]), self._tails, strict=True):
            guesses, seen = tails.sum(axis=0), tails + 0.5
            own, noise = np.log(seen[0] / seen[1]), (1.0 / seen).sum(axis=0)
            deviance = 2.0 * rel_entr(tails, guesses * expit([odds, -odds])).sum(axis=0)
            believed = (own > odds) & (deviance > SURE**2)
            single = np.where(seen.min(axis=0) == 0.5, _unseen(own, guesses + 1.0), noise)
            found.append((guesses, *np.where(believed, [own, np.sqrt(noise)], [odds, error]), np.sqrt(single)))
        return found

    @functools.cached_property
    def turned(self) -> CandidateScore:
        """The candidate of a feature's other sign, whose events guess the other side."""
        score, thresholds = replace(self.score, sign=-self.score.sign), -self.thresholds[::-1]  # type: ignore[type-var,attr-defined]  # `Monotone`
        found = replace(self, score=score, thresholds=thresholds, upper=self.lower[:, ::-1], lower=self.upper[:, ::-1])
        vars(found)["turned"] = self
        return found

    @functools.cached_property
    def _tails(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        if "_tails" in vars(vars(self).get("turned", self)):  # of the same counts
            upper, lower = ((-odds[::-1], error[::-1]) for odds, error in self.turned._tails)
            return lower, upper
        odds, error = smoothed(self.upper[:, ::-1])
        return (odds[::-1], error[::-1]), smoothed(self.lower[::-1])

    def witness(self, upper: int, lower: int) -> Witness:
        """Return the witness whose events are cut at the thresholds of these indices, -1 for no such event."""
        return Witness(
            None if upper < 0 else self.score.at_least(self.thresholds[upper].item()),
            None if lower < 0 else self.score.at_most(self.thresholds[lower].item()),
        )


@functools.lru_cache(2 * LEVELS)
def _events(levels: int) -> tuple[tuple[Codes, Codes], ...]:
    """Indices of the thresholds of upper events alone, of lower ones alone, and of both; -1 for none."""
    every, none = np.arange(levels), np.full(levels, -1)
    return (every, none), (none, every), np.tril_indices(levels, -1)


def _joined(found: list[Floats], upper: Codes, lower: Codes) -> tuple[Floats, Floats]:
    right, wrong, _ = found[0][:, upper] + found[1][:, lower]
    falls = found[0][2, upper], found[1][2, lower]
    fall = np.copysign(np.hypot(*falls), sum(falls))  # other outputs, whose errors are their own
    return right - fall, wrong + fall


def smoothed(tails: Floats) -> tuple[Floats, Floats]:
    """Log odds of a correct guess, and their standard error, of nested events; both of shape (levels,).

    ``tails`` are counts of correct and of wrong guesses, increasing along axis 1. The log odds between neighbouring
    events are a Gaussian process along the logit of their rank that leaves the median as a random walk, or as a line
    that bends, there, along the probit, or along a power of the rank. Of some variances the likeliest is taken: one
    that hardly moves, as where a loss is bounded, pools far tails with what is common; one that moves follows the
    counts.
    """
    seen = np.diff(tails, axis=1, prepend=0.0) + 0.5
    pooled = seen.sum(axis=0)
    raw, noise, total = np.log(seen[0] / seen[1]), (1.0 / seen).sum(axis=0), np.cumsum(pooled)
    if len(raw) <= FEW_LEVELS:
        prior = (LEVEL + WALKS[-1]) * np.eye(len(raw))
        noise = np.where((seen.min(axis=0) == 0.5) & (pooled > 1.0), _unseen(raw, pooled), noise)
    else:
        place, counts, correct = logit((total - pooled / 2.0) / total[-1]), pooled - 1.0, seen[0] - 0.5
        prior = _likeliest(place, raw, noise)  # for all steps; one that hardly moves would overshoot
        for _ in range(ROUNDS):
            factor, _ = dpotrf(prior + np.diag(noise))
            odds = raw - noise * dpotrs(factor, raw)[0]
            share = expit(odds)
            noise = 1.0 / np.maximum(counts * share * (1.0 - share), 1e-9)
            raw = odds + noise * (correct - counts * share)
        prior = _likeliest(place, raw, noise)
    inverse = np.triu(dpotri(dpotrf(prior + np.diag(noise))[0])[0])
    inverse += np.triu(inverse, 1).T
    share = expit(raw - noise * (inverse @ raw))
    correct, weights = np.cumsum(pooled * share), pooled * share * (1.0 - share)
    weighed = weights * noise
    explained = np.tril(weighed[:, None] * inverse * weighed)  # twice, but for what lies on the diagonal
    explained = np.cumsum(2.0 * explained.sum(axis=1) - np.diagonal(explained))
    variance = np.cumsum(weights * weighed) - explained
    error = np.sqrt(np.maximum(variance, 0.0)) * total / (correct * (total - correct))
    return logit(correct / total), error


def _unseen(odds: Floats, seen: Floats) -> Floats:
    """Variance of log odds where one side was never seen: the deviance from even odds tells it better than counts."""
    return np.asarray(odds**2 / (2.0 * math.log(2.0) * seen))


def _likeliest(place: Floats, raw: Floats, noise: Floats) -> Floats:
    """Covariance of the process under which ``raw``, seen at increasing places with these variances, is likeliest."""
    far, same = np.abs(place), np.sign(place)[:, None] == np.sign(place)
    near = np.minimum(far[:, None], far)
    # steps of walks away from the median, on both sides, are independent: their sums are one tridiagonal system
    order = np.lexsort((far, place >= 0.0))
    first = np.diff(place[order] >= 0.0, prepend=place[0] < 0.0)

    def steps(values: Floats) -> Floats:
        return np.where(first, 0.0, np.roll(values, 1, axis=-1))

    own, flats = noise[order], np.minimum(far[order], np.array(FLATS)[:, None])
    seen = np.array([raw[order], np.ones(len(raw))])
    seen -= steps(seen)
    walks = np.multiply.outer(WALKS, flats - steps(flats)).reshape(-1, len(raw))
    pivots, ratios, _ = dpttrf((walks + own + steps(own)).ravel(), np.tile(-steps(own), len(walks))[1:])
    solved = dpttrs(pivots, ratios, np.tile(seen, len(walks)).T)[0].T.reshape(2, *walks.shape)
    (fit, both), (_, level) = np.einsum("avn,bn->abv", solved, seen)
    gains = 1.0 + LEVEL * level  # of a level that is the same on both sides
    evidence = LEVEL * both**2 / gains - fit - np.log(gains) - np.log(pivots).reshape(walks.shape).sum(axis=1)
    curves = []
    probit, steep = PROBIT * ndtri(expit(place)), np.sinh(STEEP * place) / STEEP
    for along, bends in ((place, BENDS), (probit, BENDS), (steep, BENDS[:2])):
        ends = np.abs(along)
        low, high = np.minimum(ends[:, None], ends), np.maximum(ends[:, None], ends)
        bend, line = low**2 * (3.0 * high - low) / 6.0 * same, LEVEL + SLOPE * np.outer(along, along)
        curves.append(line + np.multiply.outer(bends, bend))
    bent = np.concatenate(curves)
    # in a last row, the root of a covariance with what was seen holds that in units of chance
    roots = np.zeros((len(bent), len(raw) + 1, len(raw) + 1))
    roots[:, -1] = np.append(raw, 1.0 + raw @ (raw / noise))
    roots[:, :-1, :-1] = bent
    np.einsum("bll->bl", roots)[:, :-1] += noise
    roots[...] = np.linalg.cholesky(roots)
    lost = roots[:, -1, :-1] ** 2 + 2.0 * np.log(np.diagonal(roots, axis1=1, axis2=2)[:, :-1])
    evidence = np.append(evidence, -lost.sum(axis=1))
    best = int(np.argmax(evidence))
    if best >= len(walks):
        return np.asarray(bent[best - len(walks)])
    walk, flat = divmod(best, len(FLATS))
    return np.asarray(LEVEL + WALKS[walk] * np.minimum(near, FLATS[flat]) * same)


def _ordered(values: Floats, group: NDArray[np.int8], weight: Floats) -> tuple[Floats, Floats]:
    """Scores in order, and how many outputs of x and of x' lie below each place, shape (2, entries + 1)."""
    order = np.argsort(values)  # whose speed is four times that of a stable one; equal values count together
    order = order[: len(order) - np.count_nonzero(np.isnan(values))]  # NaN sorts last
    counts = np.zeros((2, len(order) + 1))
    prime, seen = group[order] % 2 == 1, weight[order]
    np.cumsum(np.where(prime, 0.0, seen), out=counts[0, 1:])
    np.cumsum(np.where(prime, seen, 0.0), out=counts[1, 1:])
    return values[order], counts


def _places(counts: Floats, ranks: Floats) -> NDArray[np.int64]:
    """Places of quantiles among scores in order."""
    below = counts.sum(axis=0)
    return np.asarray(np.clip(np.searchsorted(below, ranks * below[-1], "left") - 1, 0, len(below) - 2))


ANYTHING = Witness(Region(intervals=(Interval(),)), None)
"""For outputs on which no family has an opinion."""


@dataclass(frozen=True)
class Choice:
    """A witness, the certificate to use with it, and the bound that training predicts for the two.

    The significance compares choices of which no bound above 0 is predicted: correct less wrong guesses, a run.
    ``learnt`` says whether the witness cuts a learnt score; ``optimistic`` is the bound if log odds are lowered less,
    ``cautious`` that if they are lowered by the error of the event's own counts, if it is more.
    """

    witness: Witness
    certificate: Certificate
    predicted: float
    significance: float = -math.inf
    learnt: bool = False
    optimistic: float = 0.0
    cautious: float = 0.0


RANK = attrgetter("predicted", "significance")
"""What choices are compared by."""
NOTHING = Choice(ANYTHING, Box(), 0.0)


class Objective(Protocol):
    """What events are chosen for."""

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> Sequence[Choice]:
        """Return the best events of a candidate, its log odds lowered by so many errors, by default its own."""


def best_of(
    candidates: Iterable[CandidateScore], objective: Objective, errors: float | None = None, parts: float = math.inf
) -> Choice:
    """Return the best choice of all, or of events of at most so many ``parts``, which `parts_of` counts.

    Near ties go to the earlier and simpler one.
    """
    best = NOTHING
    for candidate in candidates:
        for choice in sorted(objective.choices(candidate, errors), key=RANK, reverse=True):
            if RANK(choice) <= (best.predicted * (1.0 + candidate.margin), best.significance):
                break
            if parts == math.inf or parts_of(choice.witness) <= parts:
                best = choice
                break
    return best


@dataclass(frozen=True)
class Bound:
    """The objective of an audit of fixed size: the bound that a certificate is predicted to give.

    It is on the parameter of the ``claim``, after so many certification ``runs`` on both datasets together.

    >>> from epsaudit.claims.definitions import PureDP
    >>> from epsaudit.search.learning import Tails, candidate_scores
    >>> rng = np.random.default_rng(0)
    >>> found = candidate_scores([Tails()], rng.normal(size=1000), rng.normal(1.0, size=1000))
    >>> choice = best_of(found, Bound(PureDP(1.0), 100_000, 0.95))
    >>> choice.certificate, choice.predicted > 1.0
    (MembershipGame(tangent=None, share=0.03), True)
    """

    claim: Claim
    runs: int
    confidence: float
    _known: dict[tuple[CandidateScore, float | None], list[Choice]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Choices of before: limits take most of the time."""

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> list[Choice]:
        if (candidate, errors) in self._known:
            return self._known[candidate, errors]
        half, point = self.runs / 2.0, self.claim.claimed_point
        found: list[tuple[Certificate, Floats, Counts, Codes, Codes]] = []
        touched = []
        for upper, lower, correct, wrong in candidate.rates(errors):
            # of events than which no other has more correct and fewer wrong guesses, for limits are slow to compute
            order = np.lexsort((-correct, wrong))
            most = np.maximum.accumulate(correct[order])
            worth = np.sort(order[np.diff(most, prepend=-1.0) > 0.0])
            upper, lower, right, false = upper[worth], lower[worth], half * correct[worth], half * wrong[worth]
            events = int(upper[0] >= 0) + int(lower[0] >= 0)
            none = np.zeros(1)  # all as guesses 'x': no certificate of one game tells these apart
            counts = Counts(half, half, right, false, none, none, events=events)
            small = right + false <= half  # of a larger event the box reads the complement, which is a candidate, too
            if events == 1 and small.any():
                bounds = np.where(small, Box().parameter(self.claim, counts, self.confidence), 0.0)
                found.append((Box("x" if upper[0] >= 0 else "x_prime"), bounds, counts, upper, lower))
            if point is not None:
                bounds = MembershipGame().parameter(self.claim, counts, self.confidence)
                found.append((MembershipGame(), bounds, counts, upper, lower))
                continue
            steepest = float(np.max(np.log((right + 0.5) / (false + 0.5))))
            tangents = np.linspace(0.0, max(steepest, 0.1), TANGENTS)
            # at slope e^tangent the best event is the one that gains most over it
            at = np.argmax(right - np.exp(tangents)[:, None] * false, axis=1)
            counts = Counts(half, half, right[at], false[at], none, none, events=events)
            deltas = MembershipGame().delta(counts, tangents, self.confidence)
            touched.append((tangents, deltas, counts, upper[at], lower[at]))
        if touched:  # all at once: a curve is searched about as fast for many tangents as for one
            together = (np.concatenate([one[part] for one in touched]) for part in (0, 1))
            least = np.split(self.claim.least_at(*together), len(touched))
            for (tangents, _, *rest), bounds in zip(touched, least, strict=True):
                found.append((MembershipGame(float(tangents[int(np.argmax(bounds))])), bounds, *rest))
        best = []
        for certificate, bounds, counts, upper, lower in found:
            # the largest bound; where none is above 0, the largest lead of correct over wrong guesses
            lead = (counts.correct - counts.wrong) / counts.runs
            at = int(np.argmax(bounds if np.max(bounds) > 0.0 else lead))
            best.append((certificate, bounds[at], lead[at], counts.events, int(upper[at]), int(lower[at])))
        uppers, lowers = np.array([one[-2:] for one in best]).T
        chosen, learnt = [], bool(getattr(candidate.score, "learnt", False))
        likely = candidate.rates_of(uppers, lowers, OPTIMISTIC)
        careful = candidate.rates_of(uppers, lowers, errors, OWN)
        for one, *rates in zip(best, *likely, *careful, strict=True):
            certificate, bound, lead, events, *cut = one
            correct, wrong = half * np.reshape(rates, (2, 2)).T
            expected = Counts(half, half, correct, wrong, np.zeros(2), np.zeros(2), events=events)
            others = certificate.parameter(self.claim, expected, self.confidence).tolist()
            chosen.append(Choice(candidate.witness(*cut), certificate, float(bound), float(lead), learnt, *others))
        self._known[candidate, errors] = chosen
        return chosen
