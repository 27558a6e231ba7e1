"""Small functions that leak on one line, and sound twins: what a trace names, beside what an audit of the pair refutes.

The functions are those of ``traced_functions.py``. The black box is a sequential audit of the pair with at most 20,000
runs; all audits hold together at 99.9 % confidence. The grey box is a trace without a certificate. Seconds are
processor time of this process and its children; for traces the smallest of three measurements is used. Expected: the
first line that a trace names is the marked one; no sound function is suspected; and a trace takes tens of milliseconds.
"""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from epsaudit import Trace, audit_sequentially, trace
from epsaudit.errors import AuditError
from epsaudit.experiments.studies import write_data, write_table
from epsaudit.experiments.traced_functions import CASES, Case
from epsaudit.tools.reporting.tables import TableColumn

JOINT_CONFIDENCE = 0.999
"""Joint confidence of all audits."""
RUNS, QUICK = 20_000, 2_000
REPEATS = 3
COLUMNS = (
    TableColumn("kind", "class"),
    TableColumn("name", "function", "code", width="4.5cm"),
    TableColumn("black box", "black box"),
    TableColumn("audit seconds", "seconds", "number", 2),
    TableColumn("grey box", "grey box", width="3.5cm"),
    TableColumn("trace seconds", "seconds", "number", 2),
    TableColumn("line", "line named"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Trace and audit every function, and write data and a table to ``out``."""
    # one after another, since traces take twice as long if other processes run
    rows = [row(case, seed, QUICK if quick else RUNS) for case in CASES]
    write_data(out, rows, seed=seed, confidence=JOINT_CONFIDENCE)
    caption = "Functions that leak on one line, and sound ones: a sequential audit of the pair, and a trace of it."
    write_table(out, rows, COLUMNS, caption)
    if unexpected := [one["name"] for one in rows if one["line"] not in ("yes", "-")]:
        raise AuditError(f"The table in {out} has unexpected lines for {', '.join(unexpected)}.")
    return answer(rows)


def row(case: Case, seed: int, runs: int) -> dict[str, Any]:
    """Trace and audit one function, and return the row of the table."""
    each = 1.0 - (1.0 - JOINT_CONFIDENCE) / len(CASES)
    how: Any = {"claim": case.claim, "trials": runs, "confidence": each, "seed": seed, "n_jobs": 1}
    traced = [time_action(lambda: trace(case.function, case.pair, claim=case.claim, seed=seed)) for _ in range(REPEATS)]
    result, seconds = time_action(lambda: audit_sequentially(case.function, [case.pair], **how))
    found: Trace = traced[0][0]
    named = found.suspicions[0].line if found.suspicious else None
    return {
        "kind": case.kind,
        "name": case.name,
        "leaks": case.leaks,
        "black box": "refuted" if result.violates_claim else "not refuted",
        "audit seconds": seconds,
        "grey box": found.verdict,
        "sentence": found.sentence(),
        "exact": found.exact,
        "trace seconds": min(one for _, one in traced),
        "line": "-" if named is None and case.line is None else "yes" if named == case.line else "no",
    }


def time_action(action: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of an action, and the processor time that it takes in this process and its children."""
    before = processor_seconds()
    found = action()
    return found, processor_seconds() - before


def processor_seconds() -> float:
    """Return the processor time of this process and of its child processes that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a text that counts named lines and suspected or refuted functions, and states the seconds."""
    leaky, sound = ([one for one in rows if one["leaks"] is leaks] for leaks in (True, False))
    named = sum(one["line"] == "yes" for one in leaky)
    refuted = [sum(one["black box"] == "refuted" for one in side) for side in (leaky, sound)]
    suspected = sum(one["line"] == "no" for one in sound)
    seconds = [statistics.median(one[name] for one in rows) for name in ("trace seconds", "audit seconds")]
    return (
        f"Of {len(leaky)} functions that leak, traces name the line of {named}, and audits refute {refuted[0]}; of "
        f"{len(sound)} sound ones they suspect {suspected} and refute {refuted[1]}. Processor seconds at the median: "
        f"{seconds[0]:.2g} a trace, {seconds[1]:.2g} an audit."
    )
