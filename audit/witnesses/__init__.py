"""Find an event that tells M(x) from M(x′): features, scores, events, and the choice among them.

From training outputs of both datasets `choose` makes a `Choice`: a witness, and the certificate that is predicted to
give the largest bound with it.
"""

from epsaudit.witnesses.additive import SharedAdditive
from epsaudit.witnesses.candidate_scores import CandidateScore, candidate_scores, fitted
from epsaudit.witnesses.classifiers import Classifiers
from epsaudit.witnesses.events import Event, Interval, Region, Witness, event_from_dict, witness_from_dict
from epsaudit.witnesses.families import Combinations, FloatBits, Residues, Structure
from epsaudit.witnesses.oracle import Oracle
from epsaudit.witnesses.scores import Family, LikelihoodRatio, Score, Tails
from epsaudit.witnesses.selection import Choice, Shortlist, best_of, choose, optimistic_bound, shortlist

DEFAULT_FAMILIES: tuple[Family, ...] = (
    Tails(),
    LikelihoodRatio(),
    Structure(),
    Combinations(),
    Residues(),
    SharedAdditive(),
    Classifiers(),
)
"""What 'auto' stands for: everything that treats floating-point numbers as the real numbers that proofs speak of."""

ALL_FAMILIES: tuple[Family, ...] = (*DEFAULT_FAMILIES, FloatBits())
"""What 'all' stands for: an implementation audited to the last bit."""

__all__ = [
    "ALL_FAMILIES",
    "DEFAULT_FAMILIES",
    "CandidateScore",
    "Choice",
    "Classifiers",
    "Combinations",
    "Event",
    "Family",
    "FloatBits",
    "Interval",
    "LikelihoodRatio",
    "Oracle",
    "Region",
    "Residues",
    "Score",
    "SharedAdditive",
    "Shortlist",
    "Structure",
    "Tails",
    "Witness",
    "best_of",
    "candidate_scores",
    "choose",
    "event_from_dict",
    "fitted",
    "optimistic_bound",
    "shortlist",
    "witness_from_dict",
]
