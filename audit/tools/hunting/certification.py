"""The certification of a refuted claim: by an event in fresh runs or, if there is no time for this, by an audit's bets.

An event is chosen by training runs and counted in certification runs, none of which was used to find or to refute the
pair. If a hunt is about to exceed its time limit, the audit that refuted the claim is the certificate itself: its bets
hold at any stopping time, and its share of the error probability is already spent.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from epsaudit.audits.sequential import SequentialResult
from epsaudit.audits.sequential.checks import MAX_CALLS, RUNS_PER_CALL, RUNS_PER_STREAM
from epsaudit.audits.spec import AuditSpec
from epsaudit.audits.suite import entry_seed
from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import Claim
from epsaudit.results.result import AuditResult
from epsaudit.running.copies import PROCESSES
from epsaudit.running.programs import CommandMechanism, alternating
from epsaudit.running.runs import Runs
from epsaudit.search import Bound, best_of, candidate_scores
from epsaudit.tools.hunting.candidate import Candidate
from epsaudit.tools.hunting.context import HuntContext
from epsaudit.tools.hunting.exact_law import ExactLaw, with_law
from epsaudit.tools.hunting.result import Finding
from epsaudit.tools.hunting.screening import RUNS_TO_COMPARE_PROCESSES
from epsaudit.tools.hunting.shrinking import without_name
from epsaudit.tools.hunting.time_budget import is_slow
from epsaudit.tools.hunting.tracing import HuntTracer
from epsaudit.witnesses.conditions import MAX_CONDITION_LENGTH, MAX_SIMPLE_PARTS

MAX_ATTEMPTS = 3
"""[chosen] Largest number of certifications of one pair. Each makes four times as many runs as the one before, and has
its own share of the error probability."""
SUFFICIENT_SHARE_OF_BOUND = 0.75
"""[chosen] A number of certification runs is sufficient if it certifies this share of the bound that the largest number
of runs would certify."""
MAX_EVENT_TRAINING_RUNS = 20_000
"""[chosen] Largest number of training runs for an event; if the refutation took more runs than this, its number is the
limit instead, because an event that needs more runs is not found with fewer. Otherwise the training takes half of the
runs that may certify the event, or eight times the runs that refuted the claim, whichever is larger. For a loss of
10, an event that is chosen by 2,000 training runs certifies 5.2."""
MIN_CERTIFICATION_RUNS = 128
"""[chosen] Smallest number of certification runs; larger numbers are this number doubled repeatedly."""
PROCESS_TEST_LEVEL = 1e-4
"""[formula] Probability that the comparison with new processes rejects a refutation although the runs are independent.

The processes make at least four runs on each side. Suppose that each process keeps its noise. If 3 to 13 of the 16
processes see the event, the test that compares the processes has a p-value of at most 1.1e-6 (one divided by "32 choose
6"), which is significant at the level of one of the 64 tests, 1.6e-6. If fewer or more processes see it, the test that
compares them with the 16 runs, of which none or all see the event, has a p-value of at most 2.7e-11 ("24 choose 16"
divided by "80 choose 16")."""


def find_certificate(
    context: HuntContext,
    tracer: HuntTracer,
    candidate: Candidate,
    pace: float,
    audited: SequentialResult,
    steps: int = 0,
    law: ExactLaw | None = None,
) -> Finding | None:
    """Certify the refutation of a claim on one pair of datasets by an event in fresh runs; return None if that fails.

    If there is no time for fresh runs, or if they do not refute the claim, the sequential audit that refuted the claim
    serves as the certificate, provided that `_bets_certify` permits this.

    Parameters
    ----------
    context : HuntContext
        The hunt.
    tracer : HuntTracer
        Names the line that leaks in a note of the result.
    candidate : Candidate
        The pair that was found, or that it was shrunk to.
    pace : float
        Duration of a run in seconds.
    audited : SequentialResult
        The audit that refuted the claim on the pair that was found. If ``law`` is given, it need not refute the claim.
    steps : int
        Number of tests that shrinking made; 0 for the pair that was found.
    law : ExactLaw, optional
        The exact law of the output, which refutes the claim by itself. The result of the runs is then reported even if
        it does not refute the claim.
    """
    budget = context.budget
    for attempt in range(MAX_ATTEMPTS if audited.violates_claim else 1):
        min_runs = audited.runs * 4**attempt
        is_optional = attempt > 0 or steps > 0
        if is_optional and budget.left() <= budget.certification_seconds:
            break
        if _is_out_of_time(context, candidate, pace, min_runs):
            break
        started = time.perf_counter()
        context.n_certifications += 1
        context.options.report_progress(f"certifying {candidate.pair}")
        certify = functools.partial(certify_event, context, tracer, candidate, pace, min_runs)
        result = context.once(f"certify {context.n_certifications}", AuditResult, certify)
        context.runs += result.trials
        budget.certification_seconds = time.perf_counter() - started
        if result.violates_claim or law is not None:
            return Finding(with_law(result, law), candidate, steps, law=law)
    if steps:
        return None
    if audited.violates_claim and _bets_certify(context, candidate, pace):
        return Finding(with_law(_certify_by_bets(context, candidate, audited), law), candidate, law=law)
    return None if law is None else Finding(with_law(audited, law), candidate, law=law)


def _is_out_of_time(context: HuntContext, candidate: Candidate, pace: float, min_runs: int) -> bool:
    """Return whether certification by an event in fresh runs has to be skipped because there is too little time.

    It is skipped only if even the smallest number of runs would end too late, and if the sequential audit that refuted
    the claim can serve as the certificate instead.
    """
    n_training = max(2 * min_runs, _min_training_runs(context, candidate, pace))
    needed = 2 * n_training + max(2 * min_runs, 2 * MIN_CERTIFICATION_RUNS)
    return context.budget.affordable_runs(pace) < needed and _bets_certify(context, candidate, pace)


def _min_training_runs(context: HuntContext, candidate: Candidate, pace: float) -> int:
    """Return the number of runs on each dataset that are needed to detect that a program's runs depend on each other.

    A mechanism that is not a program needs no such runs; the result is then 1.
    """
    if not isinstance(context.target.mechanism(candidate), CommandMechanism):
        return 1
    return MAX_CALLS * (RUNS_PER_STREAM if is_slow(pace) else RUNS_PER_CALL)


def _bets_certify(context: HuntContext, candidate: Candidate, pace: float) -> bool:
    """Return whether the sequential audit that refuted the claim can serve as the certificate.

    The audit bets on the outputs, and its bets are valid only if runs are independent. For a program whose process
    answers many runs, this requires that each run was a separate call, which the program promises. Otherwise the
    outputs of one request may depend on each other, and the audit itself did not test this.
    """
    if not context.target.keeps_a_process(candidate):
        return True
    mechanism = context.target.mechanism(candidate)
    return is_slow(pace) and context.budget.is_limited and alternating(mechanism) is not mechanism


def _certify_by_bets(context: HuntContext, candidate: Candidate, audited: SequentialResult) -> SequentialResult:
    """Return the sequential audit that refuted the claim as the certificate, with a note that says so.

    If the audited program keeps a process, the outputs of new processes must first lie in the event as often. Raises
    `AuditError` if they do not.
    """
    if context.target.keeps_a_process(candidate):
        _report_process_start(context)
        claim, mechanism = context.target.claim(candidate), alternating(context.target.mechanism(candidate))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs = [without_name(candidate.pair)]
            spec = AuditSpec.of(mechanism, pairs, claim=claim, trials=context.options.trials)
            runs, witness = Runs(spec, audited.seed, n_jobs=1), audited.witness
            outputs: Any = runs.draw(0, RUNS_TO_COMPARE_PROCESSES, 0)
            (a, c), (b, d) = map(witness.count, outputs)
            size = RUNS_TO_COMPARE_PROCESSES
            counts = Counts(size, size, a, b, c, d, events=witness.events)
            made = runs.compare_copies(
                0, witness, counts, True, context.budget.latest, fewest=2, level=PROCESS_TEST_LEVEL
            )
        context.runs += 2 * RUNS_TO_COMPARE_PROCESSES + made
    why = "the bets of the audit certify it, as there was no time to certify an event by fresh runs"
    return dataclasses.replace(audited, notes=(*audited.notes, why))


def _report_process_start(context: HuntContext) -> None:
    seconds = context.budget.process_seconds
    context.options.report_progress(f"starting {PROCESSES} processes to check it, which takes some {seconds:.0f} s")


def certify_event(
    context: HuntContext, tracer: HuntTracer, candidate: Candidate, pace: float, min_runs: int
) -> AuditResult:
    """Choose an event by training runs, count it in certification runs, and return the certified result.

    Parameters
    ----------
    context, tracer, candidate, pace
        As for `find_certificate`.
    min_runs : int
        Number of runs that the refutation took, or a multiple of it. The numbers of training runs and certification
        runs grow with this number.
    """
    started, mechanism = time.perf_counter(), context.target.mechanism(candidate)
    mechanism = alternating(mechanism) if is_slow(pace) else mechanism
    affordable = max(context.budget.left(0.5) / max(pace, 1e-6), 4.0 * min_runs, 2.0 * MIN_CERTIFICATION_RUNS)
    claim, options = context.target.claim(candidate), context.options
    max_runs, confidence = 4 * options.trials, options.confidence_of_test(context.n_certifications)
    seed = entry_seed(context.seed, f"certify {context.n_certifications}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = AuditSpec.of(
            mechanism,
            [without_name(candidate.pair)],
            claim=claim,
            trials=max_runs,
            confidence=confidence,
            witnesses=options.witnesses,
        )
        runs = Runs(spec, seed, options.n_jobs)
        runs.prepare()
        room = context.budget.affordable_runs(pace)
        n_training = _n_training_runs(max_runs, min_runs, affordable)
        n_training = max(n_training, _min_training_runs(context, candidate, pace))
        outputs = runs.draw(0, n_training, 0)
        runs.test(0, outputs)
        scores = list(candidate_scores(spec.families, *outputs))
    choice, n_sufficient = _choose_event(scores, claim, confidence, _possible_sizes(max_runs, affordable))
    # twice the sufficient number of runs, in case the counts are unlucky
    n_runs = int(min(2 * n_sufficient, max_runs, max(room - 2 * n_training, MIN_CERTIFICATION_RUNS)))
    counts = runs.count(0, choice.witness, n_runs)
    notes = [*runs.notes(0), *candidate.notes]
    notes.append("the pair and the event were chosen by earlier runs, none of which counts")
    notes += _trace_notes(context, tracer, candidate)
    shared = runs.result_fields(0, notes)
    result = AuditResult(
        **{**shared, "trials": 2 * n_training + n_runs, "seed": seed},
        training_runs=2 * n_training,
        certificate=choice.certificate,
        witness=choice.witness,
        counts=counts,
        families="hunt",
    )
    if result.lower_bound > 0.0:
        now = time.perf_counter()
        # a quarter more if certifying took longer than there was time, but never longer than a hunt may be late
        until = min(max(context.budget.until, now + (now - started) / 4.0), context.budget.latest)
        if result.violates_claim and context.target.keeps_a_process(candidate):
            _report_process_start(context)
        runs.compare_copies(0, choice.witness, counts, result.violates_claim, until)
    return result


def _n_training_runs(max_runs: int, min_runs: int, affordable: float) -> int:
    """Return the number of training runs on each dataset; `MAX_EVENT_TRAINING_RUNS` states the rule.

    ``max_runs`` is the largest number of certification runs, ``min_runs`` the number of runs that refuted the claim or
    a multiple of it, and ``affordable`` the number of runs for which there is time.
    """
    return int(
        min(
            max(4 * min_runs, max_runs // 4),
            max(MAX_EVENT_TRAINING_RUNS, min_runs) // 2,
            affordable / 4.0,
        )
    )


def _possible_sizes(max_runs: int, affordable: float) -> list[int]:
    """Return the numbers of certification runs to choose from, in ascending order.

    They are `MIN_CERTIFICATION_RUNS` doubled repeatedly, up to ``max_runs`` and to half of the ``affordable`` runs.
    """
    doubled = {min(MIN_CERTIFICATION_RUNS << k, max_runs) for k in range(max_runs.bit_length())}
    return [size for size in sorted(doubled) if size <= affordable / 2.0]


def _choose_event(scores: Sequence[Any], claim: Claim, confidence: float, sizes: Sequence[int]) -> tuple[Any, int]:
    """Return the event to certify, and the number of certification runs that is sufficient for it.

    There are three classes of events: events that are simple to read, events that a generated script can count, and all
    events. The first class is chosen whose best event is expected to refute the claim with the largest possible number
    of runs. ``scores`` are the candidate events, and ``sizes`` the possible numbers of runs in ascending order.
    """

    def best_event_for(max_parts: float) -> Callable[[int], Any]:
        return functools.cache(lambda n_runs: best_of(scores, Bound(claim, n_runs, confidence), parts=max_parts))

    for max_parts in (MAX_SIMPLE_PARTS, MAX_CONDITION_LENGTH, math.inf):
        best_event = best_event_for(max_parts)
        largest_bound = best_event(sizes[-1]).predicted
        if largest_bound > claim.parameter:
            break
    enough = max(np.nextafter(claim.parameter, np.inf), SUFFICIENT_SHARE_OF_BOUND * largest_bound)
    place = bisect.bisect_left(sizes, enough, key=lambda n_runs: best_event(n_runs).predicted)
    n_runs = sizes[min(place, len(sizes) - 1)]
    return best_event(n_runs), n_runs


def _trace_notes(context: HuntContext, tracer: HuntTracer, candidate: Candidate) -> list[str]:
    """Return a list with a note that names the leaking line of code, or an empty list if a trace suspects no line.

    The trace may take a quarter of the time until the hunt has to end.
    """
    now = time.perf_counter()
    traces = tracer.traces([candidate], now + (context.budget.latest - now) / 4.0)
    return [f"a trace names {one.sentence()}" for one in traces if one and one.suspicious]
