"""The option ``--dry-run`` of ``epsaudit audit``: what would run, how long it would take, and what it could show."""

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
from epsaudit.tools.reporting import tables
from epsaudit.tools.reporting.progress import in_words

TIMED_SECONDS, MOST_TIMED = 0.2, 1 << 16
"""[chosen] Seconds and runs after which a mechanism is not timed any longer."""
PLAN_COLUMNS = (
    tables.Column("mechanism", "mechanism"),
    tables.Column("claim", "claim"),
    tables.Column("pairs", "pairs", "count"),
    tables.Column("time", "time"),
    tables.Column("at_most", "at most"),
)
"""Columns of the table of planned audits."""


def plan(entries: Sequence[Entry], runs: int, confidence: float, jobs: int | None) -> list[dict[str, Any]]:
    """Return a row for each audit: its pairs, the seconds that it takes, and the largest bound that it could certify.

    Each mechanism is run a few times to be timed. The time to choose events is not included.
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
    """Return a sentence on the planned audits together."""
    workers = 1 if len(rows) == 1 else min(Workers(jobs).number_for(sum(row["runs"] for row in rows)), len(rows))
    total = max(sum(row["seconds"] for row in rows) / workers, *(row["seconds"] for row in rows), 0.0)
    time_needed = f"about {in_words(total)}" if total >= 45.0 else "less than a minute"
    audits = "1 audit" if len(rows) == 1 else f"{len(rows)} audits"
    return (
        f"Nothing was audited. {audits} of {rows[0]['runs']:,} runs at {percent(confidence)} confidence would take "
        f"{time_needed}, and the time to choose events. No audit can certify more than the last column says, however "
        "much its mechanism leaks."
    )


def _seconds_per_run(runs: Runs) -> float:
    """Return the seconds that a run on the first dataset takes, from more and more runs."""
    law, size, rng = runs.laws[0][0], 1, np.random.default_rng(0)
    while True:
        started = time.perf_counter()
        draw(law, size, rng)
        seconds = time.perf_counter() - started
        if seconds >= TIMED_SECONDS or size >= MOST_TIMED:
            return seconds / size
        size *= 4
