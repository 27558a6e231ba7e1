"""The option ``--dry-run`` of audits and hunts: what would run, how long it would take, and what it could show."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from epsaudit.audits.spec import AuditSpec
from epsaudit.audits.suite import confidence_of_each
from epsaudit.bounds.certificates import reach
from epsaudit.running.drawing import draw
from epsaudit.running.pool import Workers
from epsaudit.running.registry import Entry
from epsaudit.running.runs import Runs
from epsaudit.search.search import first_training_runs
from epsaudit.text import percent
from epsaudit.tools.hunting.candidate import Candidate
from epsaudit.tools.hunting.options import Options
from epsaudit.tools.hunting.screening import MAX_KEPT_CANDIDATES, SCREENING_RUNS
from epsaudit.tools.hunting.target import HuntTarget
from epsaudit.tools.reporting import tables
from epsaudit.tools.reporting.progress import in_words

TIMED_SECONDS, MOST_TIMED = 0.2, 1 << 16
"""[chosen] Seconds and runs after which a mechanism is not timed any longer."""
PLAN_COLUMNS = (
    tables.TableColumn("mechanism", "mechanism"),
    tables.TableColumn("claim", "claim"),
    tables.TableColumn("pairs", "pairs", "count"),
    tables.TableColumn("time", "time"),
    tables.TableColumn("at_most", "at most"),
)
"""Columns of the table of planned audits."""


def plan(entries: Sequence[Entry], runs: int, confidence: float, jobs: int | None) -> list[dict[str, Any]]:
    """Return one table row per planned audit, with its time in seconds and the largest bound that it could certify.

    Each mechanism is run a few times to estimate the time. The time for choosing events is not included. ``runs`` is
    the number of runs per mechanism, and ``jobs`` the number of workers.
    """
    each, certifying = confidence_of_each(entries, confidence), runs - first_training_runs(runs)
    alone = len(entries) == 1
    rows = []
    for entry in entries:
        spec = AuditSpec.of(entry.mechanism, entry.pairs, claim=entry.claim, trials=runs)
        timed = Runs(spec, 0, 1)
        workers = Workers.suited_to(timed.mechanism, jobs).number_for(runs) if alone else 1
        seconds = _seconds_per_run(timed) * runs / workers
        most = reach(entry.claim, certifying, each)
        rows.append(
            {
                "mechanism": entry.name,
                "claim": str(entry.claim),
                "pairs": len(spec.pairs),
                "runs": runs,
                "seconds": seconds,
                "time": f"{seconds:.0f} s" if seconds < 90.0 else in_words(seconds),
                "reach": most,
                "at_most": f"{entry.claim.symbol} {most:.4g}" + " (too few runs)" * (most <= entry.claim.parameter),
            }
        )
    return rows


def describe(rows: Sequence[dict[str, Any]], confidence: float, jobs: int | None) -> str:
    """Return a sentence with the number of planned audits and the total time. ``rows`` are the rows from `plan`."""
    workers = 1 if len(rows) == 1 else min(Workers(jobs).number_for(sum(row["runs"] for row in rows)), len(rows))
    total = max(sum(row["seconds"] for row in rows) / workers, *(row["seconds"] for row in rows), 0.0)
    audits = "1 audit" if len(rows) == 1 else f"{len(rows)} audits"
    return (
        f"Nothing was audited. {audits} of {rows[0]['runs']:,} runs at {percent(confidence)} confidence would take "
        f"{_about(total)}, and the time to choose events. No audit can certify more than the last column says, however "
        "much its mechanism leaks."
    )


def plan_hunt(target: HuntTarget, candidates: Sequence[Candidate], options: Options) -> dict[str, Any]:
    """Return a dictionary that describes a planned hunt.

    It contains the numbers of candidates and runs, the time in seconds, and the largest bound that an audit could
    certify. The first candidate is run a few times to estimate the time. Raises `AuditError` if it cannot be run.
    """
    first = candidates[0]
    claim, mechanism = target.claim(first), target.mechanism(first)
    target.refuse_if_not_served(first)
    runs = Runs(AuditSpec.of(mechanism, [first.pair], claim=claim, trials=options.trials), 0, 1)
    each = _seconds_per_run(runs)
    audits = options.audits or (None if options.seconds else min(MAX_KEPT_CANDIDATES, len(candidates)))
    most = None if audits is None else audits * options.trials * each
    return {
        "candidates": len(candidates),
        "runs_of_screening": 2 * SCREENING_RUNS,
        "seconds_of_screening": 2 * SCREENING_RUNS * each * len(candidates),
        "audits": audits,
        "runs_of_an_audit": options.trials,
        "most_seconds_of_audits": most,
        "seconds": options.seconds,
        "claim": str(claim),
        "reach": reach(claim, options.trials, options.confidence_of_test(1)),
        "symbol": claim.symbol,
    }


def describe_hunt(planned: dict[str, Any]) -> str:
    """Return sentences that describe a planned hunt: what would run, how long it takes, what it could certify.

    ``planned`` is the dictionary from `plan_hunt`.
    """
    screening = _about(planned["seconds_of_screening"])
    if planned["audits"] is None:
        audits = f"as many as fit into {planned['seconds']:g} seconds"
    else:
        audits = f"{planned['audits']:,} or so (at most {in_words(planned['most_seconds_of_audits'])})"
        audits += f", or as many as fit into {planned['seconds']:g} seconds" if planned["seconds"] else ""
    return (
        f"Nothing was hunted. A hunt would trace {planned['candidates']:,} candidates, screen them by "
        f"{planned['runs_of_screening']} runs each ({screening}), and audit {audits}, by at most "
        f"{planned['runs_of_an_audit']:,} runs each. An audit can certify at most {planned['symbol']} "
        f"{planned['reach']:.4g}, where {planned['claim']} is claimed, however much the function leaks."
    )


def _about(seconds: float) -> str:
    return f"about {in_words(seconds)}" if seconds >= 45.0 else "less than a minute"


def _seconds_per_run(runs: Runs) -> float:
    """Return the duration of one run on the first dataset in seconds.

    The number of runs is increased until they take `TIMED_SECONDS` or there are `MOST_TIMED` runs.
    """
    law, size, rng = runs.laws[0][0], 1, np.random.default_rng(0)
    while True:
        started = time.perf_counter()
        draw(law, size, rng)
        seconds = time.perf_counter() - started
        if seconds >= TIMED_SECONDS or size >= MOST_TIMED:
            return seconds / size
        size *= 4
