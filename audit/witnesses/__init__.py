"""Find an event that tells M(x) from M(x′): features, scores, events, and the choice among them.

Training outputs enter; one witness leaves, with the certificate that is predicted to get most out of it.
"""

from epsaudit.witnesses.along import AlongCoordinates
from epsaudit.witnesses.classifiers import Classifiers
from epsaudit.witnesses.contenders import Contender, contenders_of, fitted
from epsaudit.witnesses.events import Event, Interval, Region, Witness, event_from_json, witness_from_json
from epsaudit.witnesses.families import Combinations, FloatBits, Residues, Structure
from epsaudit.witnesses.oracle import Oracle
from epsaudit.witnesses.scores import Family, LikelihoodRatio, Score, Tails
from epsaudit.witnesses.selection import Choice, Shortlist, best_of, choose, promise, shortlist

DEFAULT_FAMILIES: tuple[Family, ...] = (
    Tails(),
    LikelihoodRatio(),
    Structure(),
    Combinations(),
    Residues(),
    AlongCoordinates(),
    Classifiers(),
)
"""What 'auto' stands for: everything that treats floating-point numbers as the real numbers that proofs speak of."""

ALL_FAMILIES: tuple[Family, ...] = (*DEFAULT_FAMILIES, FloatBits())
"""What 'all' stands for: an implementation audited to the last bit."""

__all__ = [
    "ALL_FAMILIES",
    "DEFAULT_FAMILIES",
    "AlongCoordinates",
    "Choice",
    "Classifiers",
    "Combinations",
    "Contender",
    "Event",
    "Family",
    "FloatBits",
    "Interval",
    "LikelihoodRatio",
    "Oracle",
    "Region",
    "Residues",
    "Score",
    "Shortlist",
    "Structure",
    "Tails",
    "Witness",
    "best_of",
    "choose",
    "contenders_of",
    "event_from_json",
    "fitted",
    "promise",
    "shortlist",
    "witness_from_json",
]
