"""Choose the witness and the certificate together, by the bound they are predicted to certify.

One part of the training outputs fits the scores, the held-out part predicts the bound of every decision rule, and
where there are enough runs, a shortlist of scores is validated on many fresh outputs of which only counts are kept.
Certification runs are never used here, so choosing costs no confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from epsaudit.certificates import Box, Certificate, MembershipGame
from epsaudit.claims import Claim
from epsaudit.outputs import Outputs
from epsaudit.witnesses.candidate_scores import CandidateScore, candidate_scores
from epsaudit.witnesses.decision_rules import DecisionRule, best_rule, best_rules
from epsaudit.witnesses.events import Interval, Region, Witness
from epsaudit.witnesses.scores import Family

SHORTLISTED = ((0.5, 8), (1.0, 4))
"""(penalty, number) of scores to validate: so many by the bound predicted with half the penalty, more with all."""
KEPT = 24
"""How many scores are ranked with the full penalty after the ranking with half of it."""
WORTH_VALIDATING, OPTIMISTIC_GAIN = 1.25, 1.05
"""Ratios to the predicted bound from which validation is worth its runs: over the bound by counts alone, and of the
optimistic bound. Set by hand in the first round; no measurement is recorded."""
PENALTY_OF_COUNTS = 2.0
"""Scale of the penalty for the bound by counts alone, which makes rare events look doubtful. Set by hand in the
first round; no measurement is recorded."""
OPTIMISTIC, ONE_ERROR = 0.25, 0.5
"""Scales of the penalty, which is about two standard errors in full."""


@dataclass(frozen=True)
class Choice:
    """A witness, the certificate to use with it, and the bound that training predicts for the two.

    The significance compares choices of which no bound above 0 is predicted: correct less wrong guesses in training,
    a run, less the penalty. ``learnt`` says whether the witness cuts a learnt score. ``by_counts`` is the bound
    predicted from the event's raw counts with twice the penalty: small for a rare event that was frequent by chance,
    or is only extrapolated. ``lenient`` is the bound predicted with a penalty of one standard error, by which choices
    made from different outputs are compared.
    """

    witness: Witness
    certificate: Certificate
    predicted: float
    significance: float = -math.inf
    learnt: bool = False
    by_counts: float = 0.0
    lenient: float = 0.0

    def needs_validation(self, optimistic: float) -> bool:
        """Whether validation may gain more than the runs that it costs; ``optimistic`` is as of `optimistic_bound`.

        Predicted bounds of learnt scores and rare events are often too large, and from few outputs a rarer event may
        be better than predicted.
        """
        rare = self.predicted > WORTH_VALIDATING * self.by_counts
        return self.learnt or rare or optimistic > OPTIMISTIC_GAIN * self.predicted


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
        Training outputs of M(x) and M(x'), equally many; the first halves fit, the second halves are counted.
    claim : Claim
        The claim under audit.
    runs : int
        Certification runs to come, on both datasets together.
    confidence : float
        Confidence of the certificate.
    """
    return best_of(candidate_scores(families, outputs, outputs_prime), claim, runs, confidence)


def shortlist(candidates: Sequence[CandidateScore], claim: Claim, runs: int, confidence: float) -> Shortlist:
    """Return the candidates with the largest predicted bounds, at half of the penalty and at all of it."""
    kept = list(range(len(candidates)))
    chosen: set[int] = set()
    for penalty, number in SHORTLISTED:
        ranks = {index: best_rule(candidates[index], claim, runs, confidence, penalty).rank for index in kept}
        different = {rank: index for index, rank in reversed(ranks.items())}  # of equals the simplest
        order = [different[rank] for rank in sorted(different, reverse=True)]
        chosen.update([index for index in order if index not in chosen][:number])
        kept = sorted(order[:KEPT])
    return Shortlist(tuple(candidates[index].without_counts() for index in sorted(chosen)))


def optimistic_bound(candidates: Iterable[CandidateScore], claim: Claim, runs: int, confidence: float) -> float:
    """Return the largest bound predicted of any candidate with a quarter of the standard-error penalty."""
    return max((best_rule(one, claim, runs, confidence, OPTIMISTIC).rank[0] for one in candidates), default=0.0)


@dataclass(frozen=True)
class Shortlist:
    """The scores to validate on fresh outputs before one is chosen.

    Attributes
    ----------
    candidates : tuple of CandidateScore
        The scores with the largest predicted bounds, simpler ones first, and the counts of fresh outputs so far.
    """

    candidates: tuple[CandidateScore, ...]

    def counting(self, outputs: Outputs, outputs_prime: Outputs) -> Shortlist:
        """Add the counts of fresh outputs, equally many a side, to every candidate."""
        return replace(self, candidates=tuple(one.counting(outputs, outputs_prime) for one in self.candidates))

    @property
    def learnt(self) -> bool:
        """Whether a learnt score is among them."""
        return any(candidate.learnt for candidate in self.candidates)

    def extended_by(self, candidates: Iterable[CandidateScore]) -> Shortlist:
        """Add candidates that have counted the same fresh outputs."""
        return replace(self, candidates=(*self.candidates, *candidates))

    def select(self, claim: Claim, runs: int, confidence: float) -> Choice:
        """Choose by the validation outputs alone."""
        return best_of(self.candidates, claim, runs, confidence)


def best_of(
    candidates: Iterable[CandidateScore], claim: Claim, runs: int, confidence: float, penalty: float = 1.0
) -> Choice:
    """Return the choice with the largest predicted bound over all candidates; near ties go to the simpler score."""
    anything = Witness(Region(intervals=(Interval(),)), None)  # for outputs on which no family has an opinion
    best = Choice(anything, MembershipGame() if claim.claimed_point is not None else Box(), 0.0)
    rank, winner = (0.0, -math.inf), None
    for candidate in candidates:
        for rule in best_rules(candidate.expected(penalty), claim, runs, confidence):
            if rule.clearly_beats(rank, candidate.margin):
                best, rank, winner = _choice(rule, candidate), rule.rank, (candidate, rule)
    if winner is None:
        return best
    candidate, rule = winner
    by_counts = rule.bound(candidate.unsmoothed(penalty * PENALTY_OF_COUNTS), claim, runs, confidence)
    lenient = rule.bound(candidate.expected(ONE_ERROR), claim, runs, confidence)
    return replace(best, by_counts=by_counts, lenient=lenient)


def _choice(rule: DecisionRule, candidate: CandidateScore) -> Choice:
    witness = candidate.witness(rule.upper, rule.lower)
    return Choice(witness, rule.certificate, rule.predicted, rule.significance, candidate.learnt)
