from .auditor import audit as audit
from .claims import ZCDP, ApproxDP, Claim, GaussianDP, PureDP, RenyiDP
from .errors import AuditError, PowerWarning
from .estimators import estimator
from .external import command
from .mechanism import Mechanism, OutputDistribution, black_box, vectorized
from .neighbours import AddRemove, DatasetPair, MaxChange, Substitution
from .one_run import OneRunResult, audit_one_run, audit_scores
from .results import AuditResult
from .sequential import SequentialResult, audit_sequentially

__all__ = [
    "ZCDP",
    "AddRemove",
    "ApproxDP",
    "AuditError",
    "AuditResult",
    "Claim",
    "DatasetPair",
    "GaussianDP",
    "MaxChange",
    "Mechanism",
    "OneRunResult",
    "OutputDistribution",
    "PowerWarning",
    "PureDP",
    "RenyiDP",
    "SequentialResult",
    "Substitution",
    "audit",
    "audit_one_run",
    "audit_scores",
    "audit_sequentially",
    "black_box",
    "command",
    "estimator",
    "vectorized",
]
