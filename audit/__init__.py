"""epsaudit: certified lower bounds on the privacy loss of a mechanism, beside the bounds that were proven."""

from audit.claims import ApproxDP, Claim, GaussianDP, PureDP, RenyiDP, ZCDP
from audit.errors import AuditError
from audit.mechanism import Mechanism, OutputDistribution, black_box, vectorized
from audit.neighbours import AddRemove, DatasetPair, MaxChange, Substitution

__all__ = [
    "ZCDP",
    "AddRemove",
    "ApproxDP",
    "AuditError",
    "Claim",
    "DatasetPair",
    "GaussianDP",
    "MaxChange",
    "Mechanism",
    "OutputDistribution",
    "PureDP",
    "RenyiDP",
    "Substitution",
    "black_box",
    "vectorized",
]
