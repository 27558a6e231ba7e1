"""Ways to cut a score and to certify the event: of each kind of certificate the one that promises the largest bound.

The cuts of a score and a claim enter; places of the thresholds leave, with the certificate and the bound predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.certificates import Box, Certificate, Counts, MembershipGame
from epsaudit.claims import Claim
from epsaudit.witnesses.contenders import Contender
from epsaudit.witnesses.cuts import Cuts, predict

Floats = NDArray[np.float64]
TANGENTS = 24


@dataclass(frozen=True)
class Way:
    """A certificate, and the places of the thresholds that cut its upper and its lower event (None: no such event)."""

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
    ) -> Way:
        """Take one of many that were evaluated together."""
        up, low = int(upper[index]), int(lower[index])
        lead = float((counts.correct - counts.wrong)[index] / counts.runs)
        return cls(float(bounds[index]), lead, certificate, up if up >= 0 else None, low if low >= 0 else None)

    def bound(self, cuts: Cuts, claim: Claim, runs: int, confidence: float) -> float:
        """Return the bound that the same certificate and event are expected to give where ``cuts`` tells the counts."""
        upper, lower = (np.array([-1 if place is None else place]) for place in (self.upper, self.lower))
        return float(self.certificate.parameter(claim, predict(cuts, upper, lower, runs), confidence)[0])


def ways_to_certify(cuts: Cuts, claim: Claim, runs: int, confidence: float) -> Iterator[Way]:
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


def best_way(contender: Contender, claim: Claim, runs: int, confidence: float, doubt: float) -> Way:
    """Return the most promising way of all."""
    candidates = ways_to_certify(contender.cuts(doubt), claim, runs, confidence)
    return max(candidates, key=lambda candidate: candidate.merit)


def _best(
    certificate: Certificate,
    cuts: Cuts,
    claim: Claim,
    runs: int,
    confidence: float,
    upper: NDArray[np.int64],
    lower: NDArray[np.int64],
) -> Way:
    """Evaluate one certificate on many cuts (index -1: no such event) and keep the best."""
    worth = _undominated(predict(cuts, upper, lower, runs))
    upper, lower = upper[worth], lower[worth]
    counts = predict(cuts, upper, lower, runs)
    bounds = certificate.parameter(claim, counts, confidence)
    best = _first_of_the_largest(bounds, counts)
    return Way.of(certificate, bounds, counts, upper, lower, best)


def _best_tangent(
    tangents: Floats,
    cuts: Cuts,
    claim: Claim,
    runs: int,
    confidence: float,
    upper: NDArray[np.int64],
    lower: NDArray[np.int64],
) -> Way:
    """Evaluate the game at one tangent for each cut, all in one inversion of the profile, and keep the best."""
    counts = predict(cuts, upper, lower, runs)
    bounds = claim.least_at(tangents, MembershipGame().delta(counts, tangents, confidence))
    best = _first_of_the_largest(bounds, counts)
    return Way.of(MembershipGame(float(tangents[best])), bounds, counts, upper, lower, best)


def _undominated(counts: Counts) -> NDArray[np.int64]:
    """Places of cuts than which no other has more correct and fewer wrong guesses: limits take their time."""
    order = np.lexsort((-counts.correct, counts.wrong))
    most = np.maximum.accumulate(counts.correct[order])
    return np.sort(order[np.diff(most, prepend=-1.0) > 0.0])


def _first_of_the_largest(bounds: Floats, counts: Counts) -> int:
    """Index of the largest bound; where none is above 0, of the largest lead of correct over wrong guesses."""
    return int(np.argmax(bounds if np.max(bounds) > 0.0 else counts.correct - counts.wrong))


def _tangents(cuts: Cuts) -> Floats:
    """Slopes worth trying: from 0 up to the largest log ratio seen between the two sides."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log((cuts.upper.counts[0] + 0.5) / (cuts.upper.counts[1] + 0.5)))
    return np.linspace(0.0, max(float(np.max(ratios)), 0.1), TANGENTS)
