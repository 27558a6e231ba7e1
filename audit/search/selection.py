"""The choice of an event: the objectives of audits, and one rule that compares all candidates.

Only training outputs are used here, so that the choice costs no confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

import numpy as np

from epsaudit.bounds.certificates import Box, Certificate, Counts, MembershipGame
from epsaudit.claims.definitions import Claim
from epsaudit.outputs.normal_form import (
    Codes,
    Floats,
)
from epsaudit.search.candidate import CandidateScore
from epsaudit.witnesses.conditions import count_parts
from epsaudit.witnesses.events import Interval, Region, Witness

OPTIMISTIC_SD = 0.25
"""[measured] Number of standard errors by which log odds are lowered for an optimistic bound. See `CAUTIOUS_SD` for the
measurement."""
CAUTIOUS_SD = 1.0
"""[measured] Number of standard errors of an event's own counts by which log odds are lowered for a cautious bound, if
that is more than usual. Gaussian noise was audited as Gaussian DP with a million runs and 60 seeds. If bounds are
treated as known without this caution, 4 audits end with a bound of 0, because pooled log odds of rare outputs were too
high; with it, none does."""
N_TANGENTS = 24
"""[time] Number of points of a claim's privacy profile that are compared. The time is proportional to it."""
FALLBACK_WITNESS = Witness(Region(intervals=(Interval(),)), None)
"""The witness for outputs to which no family applies. Its event contains every number."""


@dataclass(frozen=True)
class Choice:
    """A witness, the certificate to use with it, and the bound that training predicts for both.

    Attributes
    ----------
    witness : Witness
        The chosen events.
    certificate : Certificate
        The certificate that turns the counts of these events into a bound.
    predicted : float
        The bound that training predicts.
    significance : float
        Rate of correct minus wrong guesses. It compares choices for which no bound above 0 is predicted.
    learnt : bool
        Whether the events are tails of a learnt score.
    optimistic : float
        The predicted bound if log odds are lowered less.
    cautious : float
        The predicted bound if log odds are lowered by the standard error of the event's own counts, where that is more.
    """

    witness: Witness
    certificate: Certificate
    predicted: float
    significance: float = -math.inf
    learnt: bool = False
    optimistic: float = 0.0
    cautious: float = 0.0


choice_rank = attrgetter("predicted", "significance")
"""Key by which choices are compared: the predicted bound first, then the significance."""
NO_CHOICE = Choice(FALLBACK_WITNESS, Box(), 0.0)
"""The choice if there is no candidate."""


class Objective(Protocol):
    """The quantity for which events are chosen."""

    def choices(self, candidate: CandidateScore, n_errors: float | None = None) -> Sequence[Choice]:
        """Return the best events of a candidate.

        Log odds are lowered by ``n_errors`` standard errors, by default by the candidate's own number.
        """


def best_of(
    candidates: Iterable[CandidateScore], objective: Objective, n_errors: float | None = None, parts: float = math.inf
) -> Choice:
    """Return the best choice among all candidates, restricted to events of at most ``parts`` parts (see `count_parts`).

    A later candidate must exceed the best bound so far by its margin, so that near ties go to the earlier and simpler
    one.
    """
    best = NO_CHOICE
    for candidate in candidates:
        for choice in sorted(objective.choices(candidate, n_errors), key=choice_rank, reverse=True):
            if choice_rank(choice) <= (best.predicted * (1.0 + candidate.margin), best.significance):
                break
            if parts == math.inf or count_parts(choice.witness) <= parts:
                best = choice
                break
    return best


@dataclass(frozen=True)
class Bound:
    """The objective of an audit of fixed size: the bound that the certificate is predicted to give.

    It bounds the parameter of ``claim`` after ``runs`` certification runs on both datasets together.

    >>> from epsaudit.claims.definitions import PureDP
    >>> from epsaudit.search import Tails, candidate_scores
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
    """Choices of earlier calls. Confidence limits take most of the time."""

    def choices(self, candidate: CandidateScore, n_errors: float | None = None) -> list[Choice]:
        if (candidate, n_errors) in self._known:
            return self._known[candidate, n_errors]
        half, point = self.runs / 2.0, self.claim.claimed_point
        found: list[tuple[Certificate, Floats, Counts, Codes, Codes]] = []
        touched = []
        for upper, lower, correct, wrong in candidate.rates(n_errors):
            # Keep only events for which no other event has more correct and fewer wrong guesses, because confidence
            # limits are slow to compute.
            order = np.lexsort((-correct, wrong))
            most = np.maximum.accumulate(correct[order])
            worth = np.sort(order[np.diff(most, prepend=-1.0) > 0.0])
            upper, lower, right, false = upper[worth], lower[worth], half * correct[worth], half * wrong[worth]
            events = int(upper[0] >= 0) + int(lower[0] >= 0)
            # All guesses are counted as guesses 'x': certificates of one game make no difference between the sides.
            none = np.zeros(1)
            counts = Counts(half, half, right, false, none, none, events=events)
            # For a larger event, the box would use its complement, which is a candidate of its own.
            small = right + false <= half
            if events == 1 and small.any():
                bounds = np.where(small, Box().parameter(self.claim, counts, self.confidence), 0.0)
                found.append((Box("x" if upper[0] >= 0 else "x_prime"), bounds, counts, upper, lower))
            if point is not None:
                bounds = MembershipGame().parameter(self.claim, counts, self.confidence)
                found.append((MembershipGame(), bounds, counts, upper, lower))
                continue
            steepest = float(np.max(np.log((right + 0.5) / (false + 0.5))))
            tangents = np.linspace(0.0, max(steepest, 0.1), N_TANGENTS)
            # At the slope e^tangent, the best event is the one with the largest gain over this slope.
            at = np.argmax(right - np.exp(tangents)[:, None] * false, axis=1)
            counts = Counts(half, half, right[at], false[at], none, none, events=events)
            deltas = MembershipGame().delta(counts, tangents, self.confidence)
            touched.append((tangents, deltas, counts, upper[at], lower[at]))
        # All tangents are computed at once: many take about as long as one.
        if touched:
            together = (np.concatenate([one[part] for one in touched]) for part in (0, 1))
            smallest = np.split(self.claim.least_at(*together), len(touched))
            for (tangents, _, *rest), bounds in zip(touched, smallest, strict=True):
                found.append((MembershipGame(float(tangents[int(np.argmax(bounds))])), bounds, *rest))
        best = []
        for certificate, bounds, counts, upper, lower in found:
            # Take the largest bound, or, if no bound is above 0, the largest lead of correct over wrong guesses.
            lead = (counts.correct - counts.wrong) / counts.runs
            at = int(np.argmax(bounds if np.max(bounds) > 0.0 else lead))
            best.append((certificate, bounds[at], lead[at], counts.events, int(upper[at]), int(lower[at])))
        uppers, lowers = np.array([one[-2:] for one in best]).T
        chosen, learnt = [], bool(getattr(candidate.score, "learnt", False))
        likely = candidate.rates_of(uppers, lowers, OPTIMISTIC_SD)
        careful = candidate.rates_of(uppers, lowers, n_errors, CAUTIOUS_SD)
        for one, *rates in zip(best, *likely, *careful, strict=True):
            certificate, bound, lead, events, *cut = one
            correct, wrong = half * np.reshape(rates, (2, 2)).T
            expected = Counts(half, half, correct, wrong, np.zeros(2), np.zeros(2), events=events)
            others = certificate.parameter(self.claim, expected, self.confidence).tolist()
            chosen.append(Choice(candidate.witness(*cut), certificate, float(bound), float(lead), learnt, *others))
        self._known[candidate, n_errors] = chosen
        return chosen
