"""Find an event that tells M(x) from M(x′): a table of outputs, candidate scores, and the choice among their events.

`encode` puts training outputs of both datasets into a table, `candidate_scores` makes scores of its columns and judges
them by outputs that did not teach them, and `best_of` chooses the event that an objective values most: for an audit of
fixed size the `Bound` that is predicted.
"""

from epsaudit.witnesses.encoding import Encoding, Features, encode
from epsaudit.witnesses.events import Event, Interval, Region, Witness, event_from_dict, witness_from_dict
from epsaudit.witnesses.learning import (
    Classifiers,
    Family,
    FloatBits,
    LikelihoodRatio,
    Messages,
    Tails,
    candidate_scores,
)
from epsaudit.witnesses.selection import ANYTHING, Bound, CandidateScore, Choice, Objective, Score, best_of

DEFAULT_FAMILIES: tuple[Family, ...] = (Tails(), LikelihoodRatio(), Classifiers())
"""What 'auto' stands for: everything that treats floating-point numbers as the real numbers that proofs speak of."""
ALL_FAMILIES = (*DEFAULT_FAMILIES, FloatBits(), Messages())
"""What 'all' stands for: an implementation audited to the last bit, and to the text of its error messages."""
__all__ = [
    "ALL_FAMILIES",
    "ANYTHING",
    "DEFAULT_FAMILIES",
    "Bound",
    "CandidateScore",
    "Choice",
    "Classifiers",
    "Encoding",
    "Event",
    "Family",
    "Features",
    "FloatBits",
    "Interval",
    "LikelihoodRatio",
    "Messages",
    "Objective",
    "Region",
    "Score",
    "Tails",
    "Witness",
    "best_of",
    "candidate_scores",
    "encode",
    "event_from_dict",
    "witness_from_dict",
]
