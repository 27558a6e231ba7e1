"""The audits of a hunt: which candidate is next, how much time its audit has, and what a refutation leads to."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from epsaudit.errors import AuditError
from epsaudit.running.programs import CommandMechanism
from epsaudit.tools.hunting.candidate import covered_combinations
from epsaudit.tools.hunting.context import HuntContext, ScreenedCandidate
from epsaudit.tools.hunting.refuted_pair import certified_finding
from epsaudit.tools.hunting.result import Attempt
from epsaudit.tools.hunting.screening import MAX_KEPT_CANDIDATES
from epsaudit.tools.hunting.single_audit import audit_candidate
from epsaudit.tools.hunting.time_budget import is_slow
from epsaudit.tools.hunting.tracing import HuntTracer

MIN_AUDIT_RUNS = 512
"""[chosen] Number of runs for which an audit gets time, if there is any time left. With fewer runs only blatant
violations are refuted."""


def audit_in_order(
    context: HuntContext,
    tracer: HuntTracer,
    ordered: Sequence[ScreenedCandidate],
    more_to_come: bool = False,
    time_share: float = 0.5,
) -> None:
    """Audit candidates one after another, and append each attempt to ``context.attempts``.

    A candidate is a pair of datasets with values of the mechanism's parameters. Each combination of a neighbouring
    relation and a parameter value is audited once before any combination is audited again.

    Parameters
    ----------
    context, tracer
        The hunt.
    ordered : sequence of ScreenedCandidate
        The candidates, the most promising first.
    more_to_come : bool
        Whether further candidates follow, for which some of the time is left.
    time_share : float
        Largest share of the time that is left which an audit may take if it is expected to refute the claim within it.
    """
    budget, options = context.budget, context.options
    is_limited = options.audits is not None or budget.is_limited
    waiting = [one for one in ordered if not one.failure and (is_limited or one.kept)]
    while options.audits is None or len(context.attempts) < options.audits:
        waiting = [one for one in waiting if not context.is_refuted(one.candidate)]
        if not waiting or budget.left() <= budget.certification_seconds:  # keep the time to certify a refutation
            return
        chosen = min(waiting, key=lambda one: _priority(context, one, more_to_come))
        n_new = len({each for one in waiting for each in covered_combinations(one.candidate)} - {*context.n_audits})
        context.n_audits.update(covered_combinations(chosen.candidate))
        waiting.remove(chosen)
        # an even share of the time for each audit and for a certification; two more if others are still to come
        n_later = min(len(waiting), MAX_KEPT_CANDIDATES, (options.audits or math.inf) - len(context.attempts) - 1)
        share = 1.0 / max(2 + n_later + 2 * more_to_come, n_new)
        context.attempts.append(_attempt(context, tracer, chosen, share, time_share))


def _attempt(
    context: HuntContext, tracer: HuntTracer, chosen: ScreenedCandidate, share: float, time_share: float
) -> Attempt:
    """Audit one candidate, certify a refutation of the claim if the audit finds one, and return result and certificate.

    An error does not end the hunt: the returned `Attempt` then contains its message.

    Parameters
    ----------
    context, tracer
        The hunt.
    chosen : ScreenedCandidate
        The candidate.
    share : float
        Share of the time that is left which the audit may take.
    time_share : float
        As for `audit_in_order`.
    """
    number, candidate, law = len(context.attempts) + 1, chosen.candidate, chosen.law
    name, options, budget = f"audit {number}", context.options, context.budget
    result, finding, failure, stage, is_program = None, None, "", "its audit was done", False
    try:
        options.report_progress(f"{name}: {candidate.tries or candidate.pair}")
        is_program = isinstance(context.target.mechanism(candidate), CommandMechanism)
        seconds = max(budget.left(share), min(MIN_AUDIT_RUNS * chosen.pace, budget.left(0.5)))
        audited = audit_candidate(
            context,
            candidate,
            options.confidence_of_test(number),
            options.trials,
            name,
            seconds,
            max_seconds=budget.left(time_share),
            one_call_per_run=is_slow(chosen.pace) and budget.is_limited,
        )
        result = dataclasses.replace(audited, notes=(*audited.notes, *candidate.notes))
        if result.violates_claim or law is not None:
            stage = "it was certified"
            how = f"after {result.runs:,} runs" if law is None else "by the exact law of its output"
            options.report_progress(f"{name}: refuted {how}")
            finding = certified_finding(context, tracer, number, chosen, result)
    except AuditError as error:
        failure = f"refuted, and not certified anew: {error}" if result is not None else str(error)
    except KeyboardInterrupt:
        context.interrupt()
        failure = f"{'refuted; ' if result is not None else ''}interrupted before {stage}"
    refuted = result is not None and result.violates_claim
    if refuted and is_program and finding is None:  # no new process of the program has confirmed the refutation
        result, refuted, failure = None, False, failure or "refuted, and not certified anew"
    if refuted or law is not None:
        context.mark_refuted(candidate)
    return Attempt(candidate, result, failure, finding, law)


def _priority(context: HuntContext, one: ScreenedCandidate, suspected: bool) -> tuple[int, int]:
    """Return the sort key of a candidate; the waiting candidate with the smallest key is audited next.

    The first part of the key favours variety: a candidate covers combinations of a neighbouring relation and a
    parameter value, and this part is the number of audits of its least audited combination. The second part prefers
    usual parameter values if there is a time limit, because the time may end before later audits. Candidates that a
    trace suspects, or whose screening outputs suggest a refutation, come before all others with the same first part.
    """
    n_audits = min(context.n_audits[combination] for combination in covered_combinations(one.candidate))
    if suspected or not context.budget.is_limited or one.rank[0] > 1.0:
        return n_audits, -1
    return n_audits, context.places_of_parameters[one.candidate.parameters_key]
