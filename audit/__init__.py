"""epsaudit: certified lower bounds on the privacy loss of a mechanism, beside the bounds that were proven."""

from audit.auditor import audit
from audit.claims import ZCDP, ApproxDP, Claim, GaussianDP, PureDP, RenyiDP
from audit.errors import AuditError
from audit.external import command
from audit.mechanism import Mechanism, OutputDistribution, black_box, vectorized
from audit.neighbours import AddRemove, DatasetPair, MaxChange, Substitution
from audit.one_run import OneRunResult, audit_one_run, audit_scores
from audit.results import AuditResult
from audit.sequential import SequentialResult, audit_sequentially

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
    "vectorized",
]
