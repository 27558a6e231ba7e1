"""Audits of one run with many canaries.

A fair coin decides for every canary whether it is in the dataset. The mechanism runs once and gives every canary a
score. From the scores the audit guesses which canaries were in, and the number of correct guesses bounds the privacy
loss.
"""

from epsaudit.audits.one_run.audit import CanaryMechanism, StepCallback, audit_one_run
from epsaudit.audits.one_run.result import OneRunResult
from epsaudit.audits.one_run.rules import Bonferroni, Fixed, Guesses, GuessRule, Planned, Signs, Threshold

__all__ = [
    "Bonferroni",
    "CanaryMechanism",
    "Fixed",
    "GuessRule",
    "Guesses",
    "OneRunResult",
    "Planned",
    "Signs",
    "StepCallback",
    "Threshold",
    "audit_one_run",
]
