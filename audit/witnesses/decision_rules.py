"""Decision rules: the thresholds of a score and the certificate that together predict the largest bound.

From the expected counts at the thresholds of a score and a claim, this finds for each kind of certificate the event or
pair of events with the largest predicted bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.certificates import Box, Certificate, Counts, MembershipGame
from epsaudit.claims import Claim
from epsaudit.witnesses.candidate_scores import CandidateScore
from epsaudit.witnesses.thresholds import ExpectedCounts, predict

Floats = NDArray[np.float64]
TANGENTS = 24
"""Tangents that are compared for a claim about a curve; more cost time in proportion. Set by hand in the first
round; no measurement is recorded."""


@dataclass(frozen=True)
class DecisionRule:
    """A certificate, and the indices of the thresholds of its upper and its lower event (None: no such event).

    ``predicted`` is the predicted bound; ``significance`` is the expected lead of correct over wrong guesses a run.
    """

    predicted: float
    significance: float
    certificate: Certificate
    upper: int | None
    lower: int | None

    @property
    def rank(self) -> tuple[float, float]:
        """What decision rules are compared by; the significance decides where no bound above 0 is predicted."""
        return (self.predicted, self.significance)

    def clearly_beats(self, rank: tuple[float, float], margin: float) -> bool:
        """Whether its rank is greater by a margin: simpler families come first and win near ties."""
        return self.rank > tuple(part + margin * abs(part) for part in rank)

    @classmethod
    def of(
        cls,
        certificate: Certificate,
        bounds: Floats,
        counts: Counts,
        upper: NDArray[np.int64],
        lower: NDArray[np.int64],
        index: int,
    ) -> DecisionRule:
        """Return one of many that were evaluated together."""
        up, low = int(upper[index]), int(lower[index])
        lead = float((counts.correct - counts.wrong)[index] / counts.runs)
        return cls(float(bounds[index]), lead, certificate, up if up >= 0 else None, low if low >= 0 else None)

    def bound(self, expected: ExpectedCounts, claim: Claim, runs: int, confidence: float) -> float:
        """Return the bound predicted for the same certificate and events from other expected counts."""
        upper, lower = (np.array([-1 if index is None else index]) for index in (self.upper, self.lower))
        return float(self.certificate.parameter(claim, predict(expected, upper, lower, runs), confidence)[0])


def best_rules(expected: ExpectedCounts, claim: Claim, runs: int, confidence: float) -> Iterator[DecisionRule]:
    """Yield the best decision rule of every kind of certificate."""
    levels = np.arange(len(expected.thresholds))
    none = np.full(len(levels), -1)
    for event, up, low in (("x", levels, none), ("x_prime", none, levels)):
        yield _best(Box(event), expected, claim, runs, confidence, up, low)
    if claim.claimed_point is not None:
        game = MembershipGame()
        yield _best(game, expected, claim, runs, confidence, levels, none)
        yield _best(game, expected, claim, runs, confidence, none, levels)
        up, low = np.nonzero(expected.thresholds[:, None] > expected.thresholds[None, :])
        if len(up):
            yield _best(game, expected, claim, runs, confidence, up, low)
        return
    tangents = _tangents(expected)
    # at slope e^tangent the best event on each side is the one that gains most over it
    up, low = (
        np.argmax(likely - np.exp(tangents)[:, None] * rare, axis=1)
        for likely, rare in (expected.upper.counts, expected.lower.counts[::-1])
    )
    absent, apart = np.full(TANGENTS, -1), expected.thresholds[up] > expected.thresholds[low]
    yield _best_tangent(tangents, expected, claim, runs, confidence, up, absent)
    yield _best_tangent(tangents, expected, claim, runs, confidence, absent, low)
    if np.any(apart):
        yield _best_tangent(tangents[apart], expected, claim, runs, confidence, up[apart], low[apart])


def best_rule(candidate: CandidateScore, claim: Claim, runs: int, confidence: float, penalty: float) -> DecisionRule:
    """Return the decision rule with the largest predicted bound of all certificates."""
    return max(best_rules(candidate.expected(penalty), claim, runs, confidence), key=lambda rule: rule.rank)


def _best(
    certificate: Certificate,
    expected: ExpectedCounts,
    claim: Claim,
    runs: int,
    confidence: float,
    upper: NDArray[np.int64],
    lower: NDArray[np.int64],
) -> DecisionRule:
    """Evaluate one certificate on many events (index -1: no such event) and keep the best."""
    worth = _undominated(predict(expected, upper, lower, runs))
    upper, lower = upper[worth], lower[worth]
    counts = predict(expected, upper, lower, runs)
    bounds = certificate.parameter(claim, counts, confidence)
    best = _first_of_the_largest(bounds, counts)
    return DecisionRule.of(certificate, bounds, counts, upper, lower, best)


def _best_tangent(
    tangents: Floats,
    expected: ExpectedCounts,
    claim: Claim,
    runs: int,
    confidence: float,
    upper: NDArray[np.int64],
    lower: NDArray[np.int64],
) -> DecisionRule:
    """Evaluate the game at one tangent for each event, all in one inversion of the profile, and keep the best."""
    counts = predict(expected, upper, lower, runs)
    bounds = claim.least_at(tangents, MembershipGame().delta(counts, tangents, confidence))
    best = _first_of_the_largest(bounds, counts)
    return DecisionRule.of(MembershipGame(float(tangents[best])), bounds, counts, upper, lower, best)


def _undominated(counts: Counts) -> NDArray[np.int64]:
    """Indices of events than which no other has more correct and fewer wrong guesses: limits are slow to compute."""
    order = np.lexsort((-counts.correct, counts.wrong))
    most = np.maximum.accumulate(counts.correct[order])
    return np.sort(order[np.diff(most, prepend=-1.0) > 0.0])


def _first_of_the_largest(bounds: Floats, counts: Counts) -> int:
    """Index of the largest bound; where none is above 0, of the largest lead of correct over wrong guesses."""
    return int(np.argmax(bounds if np.max(bounds) > 0.0 else counts.correct - counts.wrong))


def _tangents(expected: ExpectedCounts) -> Floats:
    """Slopes worth trying: from 0 up to the largest log ratio expected between the two sides."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log((expected.upper.counts[0] + 0.5) / (expected.upper.counts[1] + 0.5)))
    return np.linspace(0.0, max(float(np.max(ratios)), 0.1), TANGENTS)
