"""Upper bounds of sound mechanisms as plain functions, beside the exact loss on a pair on which they lose most.

The functions are those of ``upper_bound_functions.py``. A bound is certain or comes from 10,000 runs on each dataset,
and is *tight* if it is at most 1.02 times the exact loss. Expected: no bound is below the exact loss, and at least 22
are tight. ``timings.json`` has the processor seconds of each bound and of one aligned run, and their medians. An
aligned run is a run on x, the search of the shift, and two runs on x'; the smallest of three measurements is used.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epsaudit import bound_above
from epsaudit.errors import AuditError
from epsaudit.experiments.studies import write_data, write_json, write_table
from epsaudit.experiments.tracing import time_action
from epsaudit.experiments.upper_bound_functions import Case, cases
from epsaudit.running.functions import black_box
from epsaudit.tools.reporting.tables import TableColumn
from epsaudit.tools.tracing.alignment.aligned import AllKept
from epsaudit.tools.tracing.alignment.many_pairs import in_processes
from epsaudit.tools.tracing.alignment.run import runner
from epsaudit.tools.tracing.alignment.sampled import sample_losses
from epsaudit.tools.tracing.calls import call_of

RUNS, QUICK = 10_000, 500
CONFIDENCE = 0.999
"""[chosen] Confidence of each bound from runs."""
TIGHT = 1.02
"""[chosen] Largest ratio of a tight bound to the exact loss."""
ROUNDING = 1e-5
"""[formula] Relative slack of a bound from runs, which is larger than the largest loss by a factor of 1 + 1e-6."""
ALIGNED, REPEATS = 100, 3
"""[time] Number of runs whose time is measured together, and of measurements."""
COLUMNS = (
    TableColumn("name", "mechanism", width="4.5cm"),
    TableColumn("claim", "claim"),
    TableColumn("exact", "exact", "number", 4),
    TableColumn("bound", "upper bound", "number", 4),
    TableColumn("ratio", "ratio", "number", 4),
    TableColumn("how", "how"),
    TableColumn("delta", "left out", "number", 1),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Bound every mechanism, and write data, times and a table to ``out``; ``quick`` leaves out two of three."""
    chosen = cases()[:: 3 if quick else 1]
    found = [row(case, seed, QUICK if quick else RUNS) for case in chosen]
    rows, seconds = [one for one, _ in found], [one for _, one in found]
    aligned = [seconds_of_aligned_run(case, seed) for case in chosen]
    times = {"median of bounds": statistics.median(seconds), "median of aligned runs": statistics.median(aligned)}
    times |= {f"bound: {case.name}": one for case, one in zip(chosen, seconds, strict=True)}
    times |= {f"aligned run: {case.name}": one for case, one in zip(chosen, aligned, strict=True)}
    write_json(out / "timings.json", {"seconds": sum(seconds), "rows": times})
    write_data(out, rows, seed=seed, confidence=CONFIDENCE)
    write_table(out, rows, COLUMNS, "Upper bounds of sound mechanisms beside the exact loss on the same pair.")
    if below := [one["name"] for one in rows if one["bound"] < one["exact"] * (1.0 - ROUNDING)]:
        raise AuditError(f"The upper bound is below the exact loss for {', '.join(below)}.")
    return answer(rows)


def row(case: Case, seed: int, runs: int) -> tuple[dict[str, Any], float]:
    """Return the row of one mechanism, and the processor seconds of its bound."""
    how: Any = {"claim": case.claim, "runs": runs, "confidence": CONFIDENCE, "seed": seed, "n_jobs": 1}
    found, seconds = time_action(lambda: bound_above(case.function, (case.x, case.x_prime), **how))
    exact = case.exact
    cells = {
        "name": case.name,
        "claim": str(case.claim),
        "exact": exact,
        "bound": found.upper_bound,
        "ratio": found.upper_bound / exact if exact else 1.0 + found.upper_bound,
        "how": f"certain, {found.paths} path{'s' * (found.paths != 1)}" if found.certain else f"{runs:,} runs",
        "delta": found.delta,
    }
    return cells, seconds


def seconds_of_aligned_run(case: Case, seed: int) -> float:
    """Return the processor seconds of one run on x that is aligned with x', in a process of its own."""

    def measure(_: int) -> float:
        call = call_of(black_box(case.function, name=case.name))
        both = [runner(call, data) for data in (case.x, case.x_prime)]
        measured = []
        for _ in range(REPEATS):
            started = time.process_time()
            sample_losses(AllKept(), *both, range(seed, seed + ALIGNED))
            measured.append((time.process_time() - started) / ALIGNED)
        return min(measured)

    ((_, seconds),) = in_processes(measure, [0], n_jobs=1, name=case.name)
    return seconds


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a text that counts tight and certain bounds, and names the mechanisms whose bound is not tight."""
    tight = [one for one in rows if one["ratio"] <= TIGHT]
    loose = [f"{one['name']} ({one['ratio']:.2f})" for one in rows if one not in tight]
    certain = sum(one["how"].startswith("certain") for one in rows)
    return (
        f"Of {len(rows)} sound mechanisms, {len(tight)} have an upper bound of at most {TIGHT} times the exact loss, "
        f"and {certain} of the bounds are certain. Larger ratios: {', '.join(loose) or 'none'}."
    )
