"""The objective, and the one rule of choice: what the events of a candidate score are worth, and which is worth most.

Training outputs alone are used here, so that choosing costs no confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.certificates import Box, Certificate, Counts, MembershipGame
from epsaudit.claims.definitions import Claim
from epsaudit.outputs.normal_form import Outputs
from epsaudit.witnesses.calibration import CandidateScore
from epsaudit.witnesses.encoding import Encoding, encode
from epsaudit.witnesses.events import Interval, Region, Witness
from epsaudit.witnesses.scores import Family, FromTable
from epsaudit.witnesses.settings import HARD_TO_READ, TANGENTS

Floats = NDArray[np.float64]
Levels = NDArray[np.int64]
ANYTHING = Witness(Region(intervals=(Interval(),)), None)
"""For outputs on which no family has an opinion."""


@dataclass(frozen=True)
class Choice:
    """A witness, the certificate to use with it, and the bound that training predicts for the two.

    The significance compares choices of which no bound above 0 is predicted: correct less wrong guesses, a run.
    ``learnt`` says whether the witness cuts a learnt score.
    """

    witness: Witness
    certificate: Certificate
    predicted: float
    significance: float = -math.inf
    learnt: bool = False

    @property
    def rank(self) -> tuple[float, float]:
        """What choices are compared by."""
        return self.predicted, self.significance


class Objective(Protocol):
    """What events are chosen for."""

    @property
    def nothing(self) -> Choice:
        """The choice where there is no candidate."""

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> Iterator[Choice]:
        """Yield the best events of a candidate, its log odds lowered by so many errors, by default its own."""


def best_of(candidates: Iterable[CandidateScore], objective: Objective, errors: float | None = None) -> Choice:
    """Return the best choice of all candidates; near ties go to the earlier and simpler one."""
    best = objective.nothing
    for candidate in candidates:
        choice = max(objective.choices(candidate, errors), key=lambda one: one.rank, default=best)
        if choice.rank > (best.predicted * (1.0 + candidate.margin), best.significance):
            best = choice
    return best


def candidate_scores(
    families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs, data: Encoding | None = None
) -> Iterator[CandidateScore]:
    """Yield the candidates of all families, simpler ones first; ``data`` is the outputs' table, if there is one."""
    data = data or encode(outputs, outputs_prime)
    for family in families:
        if isinstance(family, FromTable):
            yield from family.candidates(data)
            continue
        half = len(outputs) // 2
        held_out = outputs[half:], outputs_prime[half:]
        group = np.repeat(np.array([0, 1], np.int8), [len(side) for side in held_out])
        for score in family.fit(outputs[:half], outputs_prime[:half]):
            values = np.concatenate([np.asarray(score(side), float) for side in held_out])
            margin = HARD_TO_READ if getattr(score, "learnt", False) else 0.0
            found = CandidateScore.of(score, values, group, np.ones(len(group)), margin=margin)
            if found is not None:
                yield found


@dataclass(frozen=True)
class Bound:
    """The objective of an audit of fixed size: the bound that a certificate is predicted to give.

    Parameters
    ----------
    claim : Claim
        Whose parameter is bounded.
    runs : int
        Certification runs to come, on both datasets together.
    confidence : float
        Confidence of the certificate.

    Examples
    --------
    >>> from epsaudit.claims.definitions import PureDP
    >>> from epsaudit.witnesses.scores import Tails
    >>> rng = np.random.default_rng(0)
    >>> found = candidate_scores([Tails()], rng.normal(size=1000), rng.normal(1.0, size=1000))
    >>> choice = best_of(found, Bound(PureDP(1.0), 100_000, 0.95))
    >>> choice.certificate, choice.predicted > 1.0
    (MembershipGame(tangent=None, share=0.03), True)
    """

    claim: Claim
    runs: int
    confidence: float

    @property
    def nothing(self) -> Choice:
        """See `Objective`."""
        return Choice(ANYTHING, MembershipGame() if self.claim.claimed_point is not None else Box(), 0.0)

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> Iterator[Choice]:
        """Yield the best events of every certificate, alone and in pairs."""
        half, touched = self.runs / 2.0, []
        for upper, lower in candidate.events():
            correct, wrong = candidate.rates(upper, lower, errors)
            worth = _undominated(correct, wrong)
            upper, lower, right, false = upper[worth], lower[worth], half * correct[worth], half * wrong[worth]
            events = int(upper[0] >= 0) + int(lower[0] >= 0)
            counts = self._counts(right, false, events)
            small = right + false <= half  # of a larger event the box reads the complement, which is a candidate, too
            if events == 1 and small.any():
                bounds = np.where(small, Box().parameter(self.claim, counts, self.confidence), 0.0)
                box = Box("x" if upper[0] >= 0 else "x_prime")
                yield self._best(candidate, box, bounds, counts, upper, lower)
            if self.claim.claimed_point is not None:
                bounds = MembershipGame().parameter(self.claim, counts, self.confidence)
                yield self._best(candidate, MembershipGame(), bounds, counts, upper, lower)
                continue
            steepest = float(np.max(np.log((right + 0.5) / (false + 0.5))))
            tangents = np.linspace(0.0, max(steepest, 0.1), TANGENTS)
            # at slope e^tangent the best event is the one that gains most over it
            at = np.argmax(right - np.exp(tangents)[:, None] * false, axis=1)
            touched.append((tangents, self._counts(right[at], false[at], events), upper[at], lower[at]))
        if not touched:
            return
        deltas = [MembershipGame().delta(counts, tangents, self.confidence) for tangents, counts, *_ in touched]
        # all at once: a curve is searched about as fast for many tangents as for one
        found = self.claim.least_at(np.concatenate([tangents for tangents, *_ in touched]), np.concatenate(deltas))
        for (tangents, counts, upper, lower), bounds in zip(touched, np.split(found, len(touched)), strict=True):
            game = MembershipGame(float(tangents[int(np.argmax(bounds))]))
            yield self._best(candidate, game, bounds, counts, upper, lower)

    def _counts(self, correct: Floats, wrong: Floats, events: int) -> Counts:
        """Counts of guesses 'x', whichever event they are of: no certificate of one game tells these apart."""
        half, none = self.runs / 2.0, np.zeros_like(correct)
        return Counts(half, half, correct, wrong, none, none, events=events)

    def _best(
        self,
        candidate: CandidateScore,
        certificate: Certificate,
        bounds: Floats,
        counts: Counts,
        upper: Levels,
        lower: Levels,
    ) -> Choice:
        """Keep the largest bound; where none is above 0, the largest lead of correct over wrong guesses."""
        lead = (counts.correct - counts.wrong) / counts.runs
        index = int(np.argmax(bounds if np.max(bounds) > 0.0 else lead))
        witness = candidate.witness(int(upper[index]), int(lower[index]))
        learnt = bool(getattr(candidate.score, "learnt", False))
        return Choice(witness, certificate, float(bounds[index]), float(lead[index]), learnt)


def _undominated(correct: Floats, wrong: Floats) -> Levels:
    """Indices of events than which no other has more correct and fewer wrong guesses: limits are slow to compute."""
    order = np.lexsort((-correct, wrong))
    most = np.maximum.accumulate(correct[order])
    return np.asarray(np.sort(order[np.diff(most, prepend=-1.0) > 0.0]))
