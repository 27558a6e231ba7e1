from .audits.fixed import audit as audit
from .audits.holdout import HoldoutResult, audit_holdout
from .audits.many_runs import ManyRunsResult
from .audits.one_run import OneRunResult, audit_one_run
from .audits.scores import audit_scores
from .audits.sequential import SequentialResult, audit_sequentially
from .claims.definitions import ZCDP, ApproxDP, ApproxZCDP, Claim, GaussianDP, PureDP, RenyiDP, TradeOff
from .data.neighbours import AddRemove, DatasetPair, MaxChange, Substitution
from .errors import AuditError, PowerWarning
from .results.result import AuditResult
from .running.functions import black_box, vectorized
from .running.programs import command
from .running.protocols import Mechanism, OutputDistribution
from .tools.holdout import audit_tables
from .tools.maps import MapAudit, audit_map
from .tools.tracing import Trace, trace
from .tools.tracing.alignment.all_pairs import AllPairsBound, bound_above_all
from .tools.tracing.alignment.bound import UpperBound, bound_above

__all__ = [
    "ZCDP",
    "AddRemove",
    "AllPairsBound",
    "ApproxDP",
    "ApproxZCDP",
    "AuditError",
    "AuditResult",
    "Claim",
    "DatasetPair",
    "GaussianDP",
    "HoldoutResult",
    "ManyRunsResult",
    "MapAudit",
    "MaxChange",
    "Mechanism",
    "OneRunResult",
    "OutputDistribution",
    "PowerWarning",
    "PureDP",
    "RenyiDP",
    "SequentialResult",
    "Substitution",
    "Trace",
    "TradeOff",
    "UpperBound",
    "audit",
    "audit_holdout",
    "audit_map",
    "audit_one_run",
    "audit_scores",
    "audit_sequentially",
    "audit_tables",
    "black_box",
    "bound_above",
    "bound_above_all",
    "command",
    "trace",
    "vectorized",
]
