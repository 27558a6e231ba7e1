"""The screen of a hunt: few runs of each candidate, by which the candidates are ranked.

The screen certifies nothing. It decides in which order candidates are audited and, if nothing limits the hunt, which of
them are audited at all.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import defaultdict
from typing import Any

import numpy as np

from epsaudit.audits.spec import AuditSpec, check_families
from epsaudit.audits.suite import entry_seed
from epsaudit.errors import AuditError, clipped
from epsaudit.outputs.arrays import Outputs, align_dtypes, join_outputs, values_of
from epsaudit.outputs.normal_form import Raised
from epsaudit.running.copies import PROCESSES
from epsaudit.running.runs import Runs
from epsaudit.tools.hunting.candidate import MAX_NOTE_LENGTH
from epsaudit.tools.hunting.context import HuntContext, ScreenedCandidate, first_of_each_combination
from epsaudit.tools.hunting.ranking import screening_rank

SCREENING_RUNS = 128
"""[chosen] Number of runs on each side by which the screen ranks a candidate. Slow candidates get fewer runs if time is
limited."""
MAX_KEPT_CANDIDATES = 12
"""[chosen] Number of candidates that are audited if nothing limits the hunt. The best candidate of each parameter value
and each relation is audited in any case."""
RUNS_TO_COMPARE_PROCESSES = 16
"""[chosen] Number of runs on each side with which new processes are compared if the bets of an audit are the
certificate."""


def screen_remaining(context: HuntContext) -> list[ScreenedCandidate]:
    """Rank candidates by a small number of runs of each (screening), and return them, the most promising first.

    Candidates that a trace suspects, or for which the claim is already refuted, are not screened. Screening takes at
    most a third of the time that is left. If the largest number of audits is already reached, only the first candidate
    of each combination of a relation and a parameter value is screened.
    """
    remaining = [one for one in context.everyone if not one.kept and not context.is_refuted(one.candidate)]
    most = 0 if len(context.attempts) == context.options.audits else len(remaining)
    until, screened = time.perf_counter() + context.budget.left() / 3.0, list[ScreenedCandidate]()
    for one in first_of_each_combination(remaining, most):
        if screened and time.perf_counter() > until:
            break
        screened.append(one)
        context.options.report_progress(f"screening: {len(screened)} of {len(remaining)} candidates")
        screen_candidate(context, one, until, len(remaining) - len(screened) + 1)
    usable = sorted((one for one in screened if not one.failure), key=lambda one: one.rank, reverse=True)
    for one in first_of_each_combination(usable, MAX_KEPT_CANDIDATES):
        one.kept = True
    return sorted(screened, key=lambda one: (one.kept, *one.rank), reverse=True)


def screen_candidate(
    context: HuntContext, one: ScreenedCandidate, end: float, n_waiting: int, most: int = SCREENING_RUNS
) -> bool:
    """Run a candidate (a pair of datasets with parameter values) a few times, to decide whether to audit it.

    Stores its rank, the duration of a run, and the share of runs that raised an exception.

    Parameters
    ----------
    context : HuntContext
        The hunt.
    one : ScreenedCandidate
        The candidate, which is changed.
    end : float
        Time, as returned by `time.perf_counter`, at which screening should end.
    n_waiting : int
        Number of candidates, this one included, that share the time until then.
    most : int
        Largest number of runs on each side.

    Returns
    -------
    bool
        False if the candidate cannot be audited; its ``failure`` then has the reason.
    """
    one.seen = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _screen_by_runs(context, one, end, n_waiting, most)
    except AuditError as error:
        one.failure = str(error)
    return not one.failure


def _screen_by_runs(context: HuntContext, one: ScreenedCandidate, end: float, n_waiting: int, most: int) -> None:
    """Make the runs for `screen_candidate` and store their results in the candidate ``one``.

    The arguments are those of `screen_candidate`. Raises `AuditError` if the runs cannot be made.
    """
    claim, mechanism = context.target.claim(one.candidate), context.target.mechanism(one.candidate)
    spec = AuditSpec.of(mechanism, [one.candidate.pair], claim=claim, trials=context.options.trials)
    seed, before_start = entry_seed(context.seed, f"screen {one.number}"), time.perf_counter()
    runs = Runs(spec, seed, n_jobs=1)
    runs.prepare()
    start = time.perf_counter()
    both: Any = runs.draw(0, 1, 1)  # measure a first run, as some functions take a hundred times as long as others
    first_run = max(time.perf_counter() - start, 1e-9)
    n_affordable = ((end - start) / n_waiting - first_run) / first_run
    if n_affordable >= 1.0:
        more = runs.draw(0, int(min(n_affordable, most - 1)), 0)
        both = align_dtypes(*map(join_outputs, zip(both, more, strict=True)))
    context.runs += runs.total
    one.pace = (time.perf_counter() - start) / (2 * len(both[0]))  # without the start of a program
    if context.target.keeps_a_process(one.candidate):
        _estimate_process_start(context, start - before_start, one.pace)
    one.raised = _share_raised(both[0]), _share_raised(both[1])
    _refuse_if_all_raised_alike(both)
    one.rank = screening_rank(both[0], both[1], claim, check_families(context.options.witnesses))


def _estimate_process_start(context: HuntContext, start_seconds: float, pace: float) -> None:
    """Update the estimated time for starting the processes that will check a refutation of a program.

    The estimate is increased if this program takes longer than the ones before. Each process starts and makes four runs
    on each dataset, and the processes share the cores. The runs to which the processes are compared are included.
    """
    for_processes = PROCESSES * (start_seconds + 8.0 * pace) / (os.cpu_count() or 1)
    estimate = for_processes + 2 * RUNS_TO_COMPARE_PROCESSES * pace
    context.budget.process_seconds = max(context.budget.process_seconds, estimate)


def _share_raised(outputs: Outputs) -> float:
    return float(np.mean([isinstance(value, Raised) for value in values_of(outputs)]))


def _refuse_if_all_raised_alike(both: tuple[Outputs, Outputs]) -> None:
    """Raise `AuditError` if every run on both datasets raised the same exception: then there is nothing to compare."""
    values = [value for side in both for value in values_of(side)]
    if isinstance(values[0], Raised) and len(set(map(repr, values))) == 1:
        raise AuditError(f"every run {values[0]!r}")


def failure_sentences(context: HuntContext) -> tuple[str, ...]:
    """Return sentences about the candidates (pairs of datasets) that could not be run, for the report of the hunt.

    There is one sentence per parameter value, with the number of failures and the first error message.
    """
    by_value: dict[str, list[ScreenedCandidate]] = defaultdict(list)
    for one in context.examined:
        for with_value in [f" with {name}={value!r}" for name, value in one.candidate.parameters.items()] or [""]:
            by_value[with_value].append(one)
    sentences = []
    for with_value, candidates in by_value.items():
        failures = [one.failure for one in candidates if one.failure]
        if failures:
            failed = "All" if len(failures) == len(candidates) else f"{len(failures):,} of"
            sentences.append(
                f"{failed} {len(candidates):,} candidates{clipped(with_value, MAX_NOTE_LENGTH)} failed; "
                f"the first: {failures[0].rstrip('.')}."
            )
    return tuple(sentences)
