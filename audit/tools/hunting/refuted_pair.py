"""What a hunt does with a pair that refutes a claim: certify it, shrink it, and certify the shrunk pair."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from epsaudit.audits.sequential import SequentialResult
from epsaudit.errors import AuditError
from epsaudit.tools.hunting.candidate import Candidate, covered_combinations
from epsaudit.tools.hunting.certification import find_certificate
from epsaudit.tools.hunting.context import HuntContext, ScreenedCandidate
from epsaudit.tools.hunting.exact_law import ExactLaw
from epsaudit.tools.hunting.parameters import description_at
from epsaudit.tools.hunting.result import Finding
from epsaudit.tools.hunting.screening import screen_candidate
from epsaudit.tools.hunting.shrinking import degenerate_kind, shrink
from epsaudit.tools.hunting.single_audit import audit_candidate
from epsaudit.tools.hunting.tracing import HuntTracer

SHRINKING_CONFIDENCE = 0.99
"""[chosen] Confidence of each test of shrinking. A wrong step costs no more than a certification that fails."""
SHRINKING_RUNS = 500, 20_000
"""[chosen] Smallest and largest number of runs of a test of shrinking. Between these limits a test makes four times as
many runs as the refutation took."""


def certified_finding(
    context: HuntContext, tracer: HuntTracer, number: int, refuted: ScreenedCandidate, audited: SequentialResult
) -> Finding | None:
    """Certify the refutation of a claim on a pair of datasets, shrink the pair, and certify the simpler pair as well.

    Shrinking replaces the pair by simpler pairs that still refute the claim. It takes place only if there is time left.

    Parameters
    ----------
    context, tracer
        The hunt.
    number : int
        Number of the audit.
    refuted : ScreenedCandidate
        The candidate that refutes the claim.
    audited : SequentialResult
        The audit. If the exact law of the output is known, the audit need not refute the claim.

    Returns
    -------
    Finding or None
        The finding for the shrunk pair if it could be certified, else the finding for the pair as it was found, or None
        if neither could be certified.
    """
    law, best = refuted.law, None
    place = 1 + sum(one.finding is not None for one in context.attempts)
    try:
        best = find_certificate(context, tracer, refuted.candidate, refuted.pace, audited, law=law)
        if best is not None:
            context.options.report_finding(place, best, context.seed)
        smallest, steps = _shrink_refuted(context, tracer, number, refuted.candidate, audited, law)
        if smallest is refuted.candidate:
            return best
        screened = ScreenedCandidate(-1, smallest)  # a smaller dataset may take longer than the one that was found
        if not screen_candidate(context, screened, time.perf_counter() + context.budget.left(0.25), 1):
            return best
        if law is not None:
            law = tracer.exact_law(smallest)
            if law is None:
                return best
        found = find_certificate(context, tracer, smallest, screened.pace, audited, steps, law)
        if found is not None:
            stronger = best is not None and best.result.lower_bound > found.result.lower_bound
            best = dataclasses.replace(found, strongest=best if stronger else None)
            context.options.report_finding(place, best, context.seed)
    except (AuditError, KeyboardInterrupt) as error:
        if best is None:
            raise
        if isinstance(error, KeyboardInterrupt):
            context.interrupt()
    return best


def _shrink_refuted(
    context: HuntContext,
    tracer: HuntTracer,
    number: int,
    refuted: Candidate,
    audited: SequentialResult,
    law: ExactLaw | None,
) -> tuple[Candidate, int]:
    """Return the simplest candidate found that still refutes the claim, and the number of tests that were made.

    A candidate is a pair of datasets with parameter values. A test is a short audit of a simpler candidate or, if the
    exact distribution of the output is known, a trace.
    """
    fewest, most = SHRINKING_RUNS
    trials, budget = min(max(4 * audited.runs, fewest), most), context.budget
    n_tests, end = 0, time.perf_counter() + (budget.left() - budget.certification_seconds) / 2.0

    def strength(one: Candidate) -> float:
        """Return how clearly a candidate refutes the claim, for `shrink`.

        The result is 0 if the claim is not refuted. Otherwise it is the exact loss, if it is known, or one divided by
        the number of runs that the refutation took.
        """
        nonlocal n_tests
        if _is_already_reported(context, one, refuted):
            return 0.0
        n_tests += 1
        context.options.report_progress(f"shrinking, step {n_tests}: {one.pair}")
        if law is not None:
            shown = tracer.exact_law(one)
            return 0.0 if shown is None else shown.exact
        seconds = (end - time.perf_counter()) / 4.0  # leave time for further tests
        try:
            name = f"shrink {number} {n_tests}"
            result = audit_candidate(context, one, SHRINKING_CONFIDENCE, trials, name, seconds)
        except AuditError:
            return 0.0
        return 1.0 / result.runs if result.violates_claim else 0.0

    description: Any = context.options.describe  # description_at returns None for None
    smallest, _ = shrink(
        refuted,
        strength,
        describe=lambda values: description_at(description, values),
        values=_parameter_values(context),
        until=end,
        max_tests=context.options.steps,
    )
    return smallest, n_tests


def _is_already_reported(context: HuntContext, one: Candidate, refuted: Candidate) -> bool:
    """Return whether a finding for the proposed candidate ``one`` would only repeat an earlier finding of the hunt.

    This is the case if its parameters differ from those of the ``refuted`` candidate and the claim is already refuted
    for them. It is also the case if its data are of another kind (see `degenerate_kind`) and the claim is already
    refuted on data of this kind.
    """
    if one.parameters != refuted.parameters and context.is_refuted(one):
        return True
    kind = degenerate_kind(one)
    if kind == degenerate_kind(refuted):
        return False
    return all(kind in context.refuted_kinds[combination] for combination in covered_combinations(one))


def _parameter_values(context: HuntContext) -> dict[str, list[Any]]:
    """Return, for each parameter, all values that occur in candidates of the hunt, in the order of the candidates."""
    values: dict[str, dict[str, Any]] = {}
    for one in context.everyone:
        for parameter, value in one.candidate.parameters.items():
            values.setdefault(parameter, {}).setdefault(repr(value), value)
    return {parameter: list(by_text.values()) for parameter, by_text in values.items()}
