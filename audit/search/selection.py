"""DOC"""

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
from epsaudit.witnesses.events import Interval, Region
from epsaudit.witnesses.witness import Witness

OPTIMISTIC_SD = 0.25
"""[measured] Standard errors by which an optimistic bound is lowered, and of an event's own counts, if that is more,
those by which a cautious one is. Gaussian noise audited as Gaussian DP, a million runs, 60 seeds: where bounds are
taken for known that are not cautious, 4 end with 0, as pooled log odds of rare outputs were too high; else none."""
CAUTIOUS_SD = 1.0
"""[measured] Standard errors by which an optimistic bound is lowered, and of an event's own counts, if that is more,
those by which a cautious one is. Gaussian noise audited as Gaussian DP, a million runs, 60 seeds: where bounds are
taken for known that are not cautious, 4 end with 0, as pooled log odds of rare outputs were too high; else none."""
N_TANGENTS = 24
"""[time] Points of a claim's privacy profile that are compared, in proportion to which it takes time."""
FALLBACK_WITNESS = Witness(Region(intervals=(Interval(),)), None)
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


choice_rank = attrgetter("predicted", "significance")
"""What choices are compared by."""
NO_CHOICE = Choice(FALLBACK_WITNESS, Box(), 0.0)


class Objective(Protocol):
    """What events are chosen for."""

    def choices(self, candidate: CandidateScore, n_errors: float | None = None) -> Sequence[Choice]:
        """Return the best events of a candidate, its log odds lowered by so many errors, by default its own."""


def best_of(
    candidates: Iterable[CandidateScore], objective: Objective, n_errors: float | None = None, parts: float = math.inf
) -> Choice:
    """Return the best choice of all, or of events of at most so many ``parts``, which `count_parts` counts.

    Near ties go to the earlier and simpler one.
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
    """The objective of an audit of fixed size: the bound that a certificate is predicted to give.

    It is on the parameter of the ``claim``, after so many certification ``runs`` on both datasets together.

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
    """Choices of before: limits take most of the time."""

    def choices(self, candidate: CandidateScore, n_errors: float | None = None) -> list[Choice]:
        if (candidate, n_errors) in self._known:
            return self._known[candidate, n_errors]
        half, point = self.runs / 2.0, self.claim.claimed_point
        found: list[tuple[Certificate, Floats, Counts, Codes, Codes]] = []
        touched = []
        for upper, lower, correct, wrong in candidate.rates(n_errors):
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
            tangents = np.linspace(0.0, max(steepest, 0.1), N_TANGENTS)
            # at slope e^tangent the best event is the one that gains most over it
            at = np.argmax(right - np.exp(tangents)[:, None] * false, axis=1)
            counts = Counts(half, half, right[at], false[at], none, none, events=events)
            deltas = MembershipGame().delta(counts, tangents, self.confidence)
            touched.append((tangents, deltas, counts, upper[at], lower[at]))
        if touched:  # all at once: a curve is searched about as fast for many tangents as for one
            together = (np.concatenate([one[part] for one in touched]) for part in (0, 1))
            smallest = np.split(self.claim.least_at(*together), len(touched))
            for (tangents, _, *rest), bounds in zip(touched, smallest, strict=True):
                found.append((MembershipGame(float(tangents[int(np.argmax(bounds))])), bounds, *rest))
        best = []
        for certificate, bounds, counts, upper, lower in found:
            # the largest bound; where none is above 0, the largest lead of correct over wrong guesses
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
