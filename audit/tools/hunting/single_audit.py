"""One sequential audit of a candidate, as a hunt makes it to refute a claim and to test a shrunk pair."""

from __future__ import annotations

import math
import warnings

from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.suite import entry_seed
from epsaudit.running.programs import alternating, assumed_independent
from epsaudit.tools.hunting.candidate import Candidate
from epsaudit.tools.hunting.context import HuntContext
from epsaudit.tools.hunting.shrinking import without_name


def audit_candidate(
    context: HuntContext,
    candidate: Candidate,
    confidence: float,
    trials: int,
    name: str,
    seconds: float,
    max_seconds: float = 0.0,
    one_call_per_run: bool = False,
) -> SequentialResult:
    """Audit a candidate (a pair of datasets with parameter values) sequentially, and return the result.

    The audit ends when the claim is refuted or a limit is reached.

    Parameters
    ----------
    context : HuntContext
        The hunt.
    candidate : Candidate
        The candidate.
    confidence : float
        Confidence of the audit.
    trials : int
        Largest number of runs.
    name : str
        Name of the audit, which selects its random stream and its record in the checkpoint.
    seconds : float
        Time limit of the audit; infinite for no limit.
    max_seconds : float
        A longer time limit for an audit that approaches a refutation. The audit may take this time multiplied by the
        share, already done, of the runs that the refutation is expected to need.
    one_call_per_run : bool
        Whether each run of a program is a call of its own, alternating between both datasets. The bets of such an audit
        can serve as the certificate.
    """
    # dependence between the runs of a program is tested when the claim is certified
    mechanism = assumed_independent(context.target.mechanism(candidate))
    mechanism = alternating(mechanism) if one_call_per_run else mechanism
    options, claim = context.options, context.target.claim(candidate)

    def audit() -> SequentialResult:
        return audit_sequentially(
            mechanism,
            [without_name(candidate.pair)],
            claim=claim,
            trials=trials,
            seconds=None if math.isinf(seconds) else lambda share_done: max(seconds, share_done * max_seconds, 0.1),
            confidence=confidence,
            seed=entry_seed(context.seed, name),
            n_jobs=options.n_jobs,
            witnesses=options.witnesses,
            progress=lambda at: options.report_progress(f"{name}: {at.runs_done:,} of at most {at.runs_total:,} runs"),
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = context.once(name, SequentialResult, audit)
    context.runs += result.runs
    return result
