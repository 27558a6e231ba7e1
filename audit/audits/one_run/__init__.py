"""One-run audits: many canaries, one training run, and guesses about which of them were in; theorems in `bounds`."""

from epsaudit.audits.one_run.guesses import Bonferroni, Fixed, GuessRule, Planned, SeparateHalf, Threshold
from epsaudit.audits.one_run.play import CanaryMechanism, OneRunResult, audit_one_run, audit_scores

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
]
