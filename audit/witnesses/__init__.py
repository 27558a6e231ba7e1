"""Find an event that tells M(x) from M(x′): features, scores, events, and the choice among them.

Training outputs enter; one witness leaves, with the certificate that is predicted to get most out of it.
"""

from audit.witnesses.events import Event, Interval, Region, Witness, event_from_json, witness_from_json
from audit.witnesses.scores import Family, LikelihoodRatio, Score, Tails
from audit.witnesses.selection import Choice, choose

DEFAULT_FAMILIES: tuple[Family, ...] = (Tails(), LikelihoodRatio())

__all__ = [
    "DEFAULT_FAMILIES",
    "Choice",
    "Event",
    "Family",
    "Interval",
    "LikelihoodRatio",
    "Region",
    "Score",
    "Tails",
    "Witness",
    "choose",
    "event_from_json",
    "witness_from_json",
]
