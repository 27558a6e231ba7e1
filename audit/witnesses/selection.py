"""Choose the witness and the certificate together, by the bound they are predicted to certify.

Training outputs enter: one half fits the scores, the other half judges every way to cut them. Certification runs
are never seen here, so choosing costs no confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtr
from threadpoolctl import threadpool_limits

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
EASY_TO_READ, HARD_TO_READ = 0.001, 0.02
"""Shares by which a score must beat the simpler ones before it: one feature, or a sum or tree of many."""


@dataclass(frozen=True)
class Choice:
    """A witness, the certificate to use with it, and the bound that training predicts for the two.

    The significance compares choices of which no bound above 0 is predicted: correct less wrong guesses in training,
    in standard deviations and seen pessimistically.
    """

    witness: Witness
    certificate: Certificate
    predicted: float
    significance: float = -math.inf


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
    half = len(outputs) // 2
    fitting, judging = ((outputs[part], outputs_prime[part]) for part in (slice(half), slice(half, None)))
    anything = Witness(Region(intervals=(Interval(),)), None)  # for outputs on which no family has an opinion
    best = Choice(anything, MembershipGame() if claim.claimed_point is not None else Box(), 0.0)
    merit = (0.0, -math.inf)
    with threadpool_limits(1):  # the matrices are small, and the machine may be busy with other audits
        for score in (score for family in families for score in family.fit(*fitting)):
            cuts = _Cuts.of(score, fitting, judging)
            if cuts is None:
                continue
            for candidate in _candidates(cuts, claim, runs, confidence):
                if candidate.clearly_beats(merit, HARD_TO_READ if getattr(score, "learnt", False) else EASY_TO_READ):
                    best, merit = candidate.choice(score, cuts), candidate.merit
    return best


@dataclass(frozen=True)
class _Tails:
    """One side's cuts of a score: for each threshold, how often each dataset is expected at or beyond it.

    ``counts`` has shape (2, levels) for (x, x') out of the judging half; ``error`` is the standard error of the
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

    @property
    def caution(self) -> float:
        """Standard errors by which the luckiest of so many cuts is to be doubted."""
        return _caution(len(self.thresholds))

    @classmethod
    def of(cls, score: Score, fitting: tuple[Outputs, Outputs], judging: tuple[Outputs, Outputs]) -> _Cuts | None:
        values = [score(outputs) for outputs in (*fitting, *judging)]
        values = [side[~np.isnan(side)] for side in values]
        thresholds = _levels(np.concatenate(values[2:]))
        if len(thresholds) == 0:
            return None
        # bins: below the first threshold, then at each threshold and between it and the next
        places = [
            np.searchsorted(thresholds, side, side="left") + np.searchsorted(thresholds, side, side="right")
            for side in values
        ]
        size, bins = len(judging[0]), 2 * len(thresholds) + 1
        seen = Binned(*(_count(place, bins) for place in places[2:]))
        curve = None
        if score.smooth and getattr(score, "learnt", False):  # a learnt score flatters the outputs it was learnt on
            halves = (Binned(*(_count(place[part::2], bins) for place in places[2:])) for part in (0, 1))
            curve = smooth(_centres(thresholds), *halves)
        elif (
            score.smooth and len(thresholds) > FEW_VALUES
        ):  # a handful of values is better counted than bent to a curve
            curve = smooth(_centres(thresholds), Binned(*(_count(place, bins) for place in places[:2])), seen)
        upper, lower = (_tails(tail, i, seen, curve, size) for i, tail in enumerate((_from_above, _from_below)))
        return cls(thresholds, upper, lower, size)


def _tails(tail: Callable[[Floats], Floats], likely: int, seen: Binned, curve: Curve | None, size: int) -> _Tails:
    """Sum bins into tails, from the counts alone or from the curve kept near the counts.

    ``likely`` is the side, 0 for x, that the tail's event speaks for. Counts alone are judged as strictly as a
    Clopper-Pearson limit would: 25 against 0 is no weak evidence, as a normal approximation would have it.
    """
    counts = np.array([tail(seen.counts), tail(seen.counts_prime)])
    correct, wrong = counts[likely], counts[1 - likely]
    caution = _caution(counts.shape[1])
    least = logit(np.maximum(clopper_pearson_lower(correct, correct + wrong, ndtr(-caution)), 1e-12))
    raw_error = np.maximum(np.log(np.maximum(correct, 0.5) / (wrong + 0.5)) - least, 0.0) / caution
    if curve is None:
        return _Tails(counts, raw_error)
    divided = curve.divide(seen.pooled)
    estimate = keep_near(np.array([tail(divided.counts), tail(divided.counts_prime)]), counts, size)
    pooled = np.maximum(tail(seen.pooled), 1e-9)
    return _Tails(estimate, np.minimum(tail(seen.pooled * curve.standard_error) / pooled, raw_error))


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

    def choice(self, score: Score, cuts: _Cuts) -> Choice:
        guess_x = None if self.upper is None else score.at_least(cuts.thresholds[self.upper].item())
        guess_x_prime = None if self.lower is None else score.at_most(cuts.thresholds[self.lower].item())
        return Choice(Witness(guess_x, guess_x_prime), self.certificate, self.predicted, self.significance)


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


def _count(places: NDArray[np.int64], bins: int) -> Floats:
    return np.bincount(places, minlength=bins).astype(float)


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
