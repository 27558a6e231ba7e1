from . import bounds
from .audit import (
    Bonferroni,
    CanaryMechanism,
    Fixed,
    GuessRule,
    OneRunResult,
    Planned,
    SeparateHalf,
    Threshold,
    audit_one_run,
    audit_scores,
)

__all__ = [
    "Bonferroni",
    "CanaryMechanism",
    "Fixed",
    "GuessRule",
    "OneRunResult",
    "Planned",
    "SeparateHalf",
    "Threshold",
    "audit_one_run",
    "audit_scores",
    "bounds",
]
