"""The choice of an event: the objectives of audits, and one rule that compares all candidates.

Only training outputs are used here, so that the choice costs no confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np

from epsaudit.array_types import Floats, Ints
from epsaudit.bounds.certificates import Box, Certificate, MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import Claim
from epsaudit.search.candidate import CandidateScore
from epsaudit.witnesses.conditions import count_condition_parts
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
    """A chosen witness and certificate, with the bound that training predicts for them.

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
    """A quantity that the choice of an event maximises, for example the predicted bound."""

    def choices(self, candidate: CandidateScore, n_errors: float | None = None) -> Sequence[Choice]:
        """Return the best events of a candidate as choices.

        The log odds of a correct guess are lowered by ``n_errors`` standard errors; None stands for the candidate's own
        number of standard errors.
        """


def best_of(
    candidates: Iterable[CandidateScore], objective: Objective, n_errors: float | None = None, parts: float = math.inf
) -> Choice:
    """Return the best choice of an event among all candidates according to the objective.

    A later candidate must exceed the best bound so far by its margin, so that an earlier and simpler candidate wins a
    near tie. Only events with at most ``parts`` thresholds and single outputs are considered (see
    `count_condition_parts`). ``n_errors`` is passed to the objective.
    """
    best = NO_CHOICE
    for candidate in candidates:
        for choice in sorted(objective.choices(candidate, n_errors), key=choice_rank, reverse=True):
            if choice_rank(choice) <= (best.predicted * (1.0 + candidate.margin), best.significance):
                break
            if parts == math.inf or count_condition_parts(choice.witness) <= parts:
                best = choice
                break
    return best


@dataclass(frozen=True)
class Bound:
    """The objective of an audit of fixed size: the lower bound that the certificate is predicted to give.

    It is a bound of the parameter of ``claim``, from ``runs`` certification runs on both datasets together.

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
        if (candidate, n_errors) not in self._known:
            bounded = self._bound_events(candidate.rates(n_errors))
            self._known[candidate, n_errors] = self._choose(candidate, bounded, n_errors)
        return self._known[candidate, n_errors]

    def _bound_events(self, rates: Iterable[tuple[Ints, Ints, Floats, Floats]]) -> list[BoundedEvents]:
        """Return the predicted bounds of events with the given rates, once for each certificate that applies.

        ``rates`` is the result of `CandidateScore.rates`.
        """
        half, found, along_profile = self.runs / 2.0, list[BoundedEvents](), list[tuple[Floats, BoundedEvents]]()
        for upper, lower, correct, wrong in rates:
            kept = _find_undominated(correct, wrong)
            upper, lower, correct, wrong = upper[kept], lower[kept], half * correct[kept], half * wrong[kept]
            n_events = int(upper[0] >= 0) + int(lower[0] >= 0)
            counts = self._expect(correct, wrong, n_events)
            # For an event of more than half of the runs, the box would use its complement, which is a candidate of its
            # own.
            small = correct + wrong <= half
            if n_events == 1 and small.any():
                bounds = np.where(small, Box().parameter(self.claim, counts, self.confidence), 0.0)
                found.append(BoundedEvents(Box("x" if upper[0] >= 0 else "x_prime"), bounds, counts, upper, lower))
            if self.claim.claimed_point is not None:
                bounds = MembershipGame().parameter(self.claim, counts, self.confidence)
                found.append(BoundedEvents(MembershipGame(), bounds, counts, upper, lower))
                continue
            steepest = float(np.max(np.log((correct + 0.5) / (wrong + 0.5))))
            tangents = np.linspace(0.0, max(steepest, 0.1), N_TANGENTS)
            # At the slope e^tangent, the best event is the one with the largest gain over this slope.
            at = np.argmax(correct - np.exp(tangents)[:, None] * wrong, axis=1)
            counts = self._expect(correct[at], wrong[at], n_events)
            deltas = MembershipGame().delta(counts, tangents, self.confidence)
            along_profile.append((tangents, BoundedEvents(MembershipGame(), deltas, counts, upper[at], lower[at])))
        if along_profile:
            # The parameters of all tangents are computed at once: many take about as long as one.
            tangents = np.concatenate([one for one, _ in along_profile])
            deltas = np.concatenate([events.bounds for _, events in along_profile])
            parts = np.split(self.claim.least_at(tangents, deltas), len(along_profile))
            for (tangents, events), bounds in zip(along_profile, parts, strict=True):
                certificate = MembershipGame(float(tangents[int(np.argmax(bounds))]))
                found.append(events._replace(certificate=certificate, bounds=bounds))
        return found

    def _choose(
        self, candidate: CandidateScore, bounded: Sequence[BoundedEvents], n_errors: float | None
    ) -> list[Choice]:
        """Return the best event for each certificate, with a predicted, an optimistic and a cautious bound."""
        best = [events.find_best() for events in bounded]
        upper = np.array([events.upper[at] for events, at in zip(bounded, best, strict=True)])
        lower = np.array([events.lower[at] for events, at in zip(bounded, best, strict=True)])
        optimistic = np.transpose(candidate.rates_of(upper, lower, OPTIMISTIC_SD))
        cautious = np.transpose(candidate.rates_of(upper, lower, n_errors, CAUTIOUS_SD))
        chosen, half = [], self.runs / 2.0
        for number, (events, at) in enumerate(zip(bounded, best, strict=True)):
            correct, wrong = half * np.transpose([optimistic[number], cautious[number]])
            counts = self._expect(correct, wrong, events.counts.events)
            # `_expect` counts all guesses as guesses 'x', so that the box is that of guesses 'x' as well.
            certificate = Box() if isinstance(events.certificate, Box) else events.certificate
            others = certificate.parameter(self.claim, counts, self.confidence).tolist()
            choice = Choice(
                candidate.witness(int(upper[number]), int(lower[number])),
                events.certificate,
                float(events.bounds[at]),
                float(events.lead[at]),
                bool(getattr(candidate.score, "learnt", False)),
                *others,
            )
            chosen.append(choice)
        return chosen

    def _expect(self, correct: Floats, wrong: Floats, n_events: int) -> Counts:
        """Return the counts that certification is expected to give for these numbers of correct and wrong guesses.

        All guesses are counted as guesses 'x', also those of 'x''. This makes no difference to certificates that use
        only the numbers of correct and wrong guesses.
        """
        none = np.zeros(len(correct))
        return Counts(self.runs / 2.0, self.runs / 2.0, correct, wrong, none, none, events=n_events)


class BoundedEvents(NamedTuple):
    """Events of one candidate, with the bounds that one certificate is predicted to give for them.

    ``upper`` and ``lower`` are the threshold indices of the events, as `CandidateScore.rates` returns them.
    """

    certificate: Certificate
    bounds: Floats
    counts: Counts
    upper: Ints
    lower: Ints

    @property
    def lead(self) -> Floats:
        """The rate of correct guesses minus the rate of wrong guesses of every event."""
        return np.asarray((self.counts.correct - self.counts.wrong) / self.counts.runs)

    def find_best(self) -> int:
        """Return the index of the largest bound or, if no bound is above 0, of the largest lead."""
        return int(np.argmax(self.bounds if np.max(self.bounds) > 0.0 else self.lead))


def _find_undominated(correct: Floats, wrong: Floats) -> Ints:
    """Return the indices of events for which no other event has more correct and fewer wrong guesses.

    Bounds are computed for these events only, because confidence limits are slow to compute.
    """
    order = np.argsort(wrong, kind="stable")  # takes half as long as a sort by both numbers
    correct, wrong = correct[order], wrong[order]
    most = np.maximum.accumulate(correct)
    better = np.flatnonzero(np.append(True, correct[1:] > most[:-1]))
    # Of events with equally many wrong guesses, the last one has the most correct guesses.
    last = np.append(wrong[better[1:]] > wrong[better[:-1]], True)
    return np.sort(order[better[last]])
