"""Traces of rows of released libraries on their pairs: the line of a known bug is named, and no line of a sound row.

Functions, pairs and claims are those of ``libraries/bugs.toml``. Each is traced in an environment of its own, without a
certificate. Seconds are processor time of the traced process, including the import of the library. With ``quick``
nothing is installed or run, and the table is made again from the stored data. The study expects that only affected rows
are suspected.
"""

from __future__ import annotations

import resource
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.experiments.libraries.rows import Row, findings, sound
from epsaudit.experiments.studies import stored_rows, write_data, write_table
from epsaudit.running.served import Served
from epsaudit.tools.reporting.tables import TableColumn
from epsaudit.tools.tracing import trace

STORED = Path(__file__).parents[1] / "results" / "libraries" / "traced-libraries"
COLUMNS = (
    TableColumn("name", "mechanism", "code", width="4.5cm"),
    TableColumn("role", "is", width="1.4cm"),
    TableColumn("verdict", "grey box", width="3.5cm"),
    TableColumn("at", "file and line", "code", width="3.5cm"),
    TableColumn("seconds", "seconds", "count"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Trace every row that has a pair, and write data and a table to ``out``."""
    rows = stored_rows(STORED) if quick else traced(seed)
    write_data(out, rows, seed=seed)
    write_table(out, rows, COLUMNS, "Released libraries traced: affected versions, fixed ones, controls, sound ones.")
    if suspected := [one["name"] for one in rows if one["role"] != "affected" and one["at"]]:
        raise AuditError(f"The table in {out} has unexpected verdicts: sound but suspected are {', '.join(suspected)}.")
    return answer(rows)


def traced(seed: int) -> list[dict[str, Any]]:
    """Trace all rows. A row that cannot be installed or run states the reason."""
    rows = []
    for case in [*(case for bug in findings() for case in bug.cases), *sound()]:
        if case.pairs:
            rows.append(row(case, seed))
            print(f"{case.name}: {rows[-1]['verdict']}", flush=True)
    return rows


def row(case: Row, seed: int) -> dict[str, Any]:
    """Trace one row, and return the row of the table."""
    how: Any = {"claim": case.stated_claim, "bits": case.witnesses == "all", "seed": seed, "timeout": 600.0}
    found, before = None, resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        served = Served(f"{case.file()}:run", str(case.environment.python()))({})
        found = trace(served, case.pairs[0], **how)
    except AuditError as error:
        verdict = f"not traced: {error}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "name": case.name,
        "role": case.role,
        "verdict": verdict if found is None else found.verdict,
        "at": str(found.suspicions[0]).partition(" ")[0] if found is not None and found.suspicious else None,
        "sentence": found and found.sentence(),
        "seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a text that counts affected rows in which a line is named, and other rows that are suspected."""
    rows = [one for one in rows if not one["verdict"].startswith("not traced")]
    affected, others = ([one for one in rows if (one["role"] == "affected") is known] for known in (True, False))
    named, suspected = (sum(one["at"] is not None for one in side) for side in (affected, others))
    return (
        f"Of {len(affected)} affected rows a trace names file and line in {named}; of {len(others)} others "
        f"{suspected} are suspected. Processor seconds of a trace at the median: "
        f"{statistics.median(one['seconds'] for one in rows):.2g}."
    )
