"""Choose the witness and the certificate together, by the bound they are predicted to certify.

Training outputs enter: one part fits the scores, the other part judges every way to cut them, and where there are
enough runs, the few most promising scores are rehearsed on many fresh outputs of which only counts are kept.
Certification runs are never seen here, so choosing costs no confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from epsaudit.certificates import Box, Certificate, MembershipGame
from epsaudit.claims import Claim
from epsaudit.outputs import Outputs
from epsaudit.witnesses.contenders import Contender, contenders_of
from epsaudit.witnesses.events import Interval, Region, Witness
from epsaudit.witnesses.scores import Family
from epsaudit.witnesses.ways import Way, best_way, ways_to_certify

PLACES = ((0.5, 8), (1.0, 4))
"""How many scores are rehearsed: so many by the bound predicted with half the caution, more by that with all of it."""
STILL_ALIVE = 24
"""How many are judged with all caution after those with half of it."""
WORTH_A_REHEARSAL, MORE_HOPE = 1.25, 1.05
DOUBT_OF_COUNTS = 2.0
HARDLY, ONE_ERROR = 0.25, 0.5


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

    def unsettled(self, hope: float) -> bool:
        """Whether a rehearsal may gain more than the runs that it costs, if some contender promises ``hope``.

        Learnt scores and rare events promise more than they keep, and where little is known a rarer event may be
        better than it looks.
        """
        rare = self.predicted > WORTH_A_REHEARSAL * self.by_counts
        return self.learnt or rare or hope > MORE_HOPE * self.predicted


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


def shortlist(contenders: Sequence[Contender], claim: Claim, runs: int, confidence: float) -> Shortlist:
    """Return the contenders that promise most, with half of the caution or with all of it."""
    alive = list(range(len(contenders)))
    chosen: set[int] = set()
    for doubt, places in PLACES:
        cuts = {place: best_way(contenders[place], claim, runs, confidence, doubt).merit for place in alive}
        different = {merit: place for place, merit in reversed(cuts.items())}  # of equals the simplest
        order = [different[merit] for merit in sorted(different, reverse=True)]
        chosen.update([place for place in order if place not in chosen][:places])
        alive = sorted(order[:STILL_ALIVE])
    return Shortlist(tuple(contenders[place].afresh() for place in sorted(chosen)))


def promise(contenders: Iterable[Contender], claim: Claim, runs: int, confidence: float) -> float:
    """Return the largest bound that any of the contenders promises if seen with hardly any caution."""
    return max((best_way(one, claim, runs, confidence, HARDLY).merit[0] for one in contenders), default=0.0)


@dataclass(frozen=True)
class Shortlist:
    """The scores that deserve a rehearsal on fresh outputs before anybody settles on one.

    Attributes
    ----------
    contenders : tuple of Contender
        The scores that promise most with less caution, simpler ones first; they have not seen the fresh outputs yet.
    """

    contenders: tuple[Contender, ...]

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


def best_of(contenders: Iterable[Contender], claim: Claim, runs: int, confidence: float, doubt: float = 1.0) -> Choice:
    """Cut every contender where it promises most, and return the most promising; near ties go to the simpler one."""
    anything = Witness(Region(intervals=(Interval(),)), None)  # for outputs on which no family has an opinion
    best = Choice(anything, MembershipGame() if claim.claimed_point is not None else Box(), 0.0)
    merit, winner = (0.0, -math.inf), None
    for contender in contenders:
        for candidate in ways_to_certify(contender.cuts(doubt), claim, runs, confidence):
            if candidate.clearly_beats(merit, contender.margin):
                best, merit, winner = _choice(candidate, contender), candidate.merit, (contender, candidate)
    if winner is None:
        return best
    contender, candidate = winner
    by_counts = candidate.bound(contender.counted(doubt * DOUBT_OF_COUNTS), claim, runs, confidence)
    hoped = candidate.bound(contender.cuts(ONE_ERROR), claim, runs, confidence)
    return replace(best, by_counts=by_counts, hoped=hoped)


def _choice(way: Way, contender: Contender) -> Choice:
    witness = contender.witness(way.upper, way.lower)
    return Choice(witness, way.certificate, way.predicted, way.significance, contender.learnt)
