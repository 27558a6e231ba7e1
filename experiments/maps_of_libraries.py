"""Stability maps, privacy maps and accountants of released libraries: known reports, found from the constructor alone.

The rows of ``libraries/maps.toml`` name a constructor or an accountant, and no datasets or events. Every version is
audited in an environment of its own. The study expects that affected versions are refuted, and that fixed versions and
controls are not. A disproof by a pair, or by a sequence of events, needs no statistics; the others hold together at
99.99 % confidence. With ``quick`` nothing is installed or run, and the table is made again from the stored data.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.experiments.studies import stored_rows, write_data, write_table
from epsaudit.tools.maps import audit_map
from epsaudit.tools.maps.accountants import audit_accountants
from epsaudit.tools.reporting.tables import TableColumn

FILE = Path(__file__).with_name("libraries") / "maps.toml"
STORED = Path(__file__).parents[1] / "results" / "libraries" / "maps-of-libraries"
CONFIDENCE = 1.0 - 1e-6
"""Confidence of each audit with random outputs. There are fewer than a hundred."""
PAIRS, SEQUENCES, TRIALS = 1_000, 6, 10_000
"""Numbers of pairs, of sequences of events, and of runs on each dataset, for rows that do not give others."""
COLUMNS = (
    TableColumn("report", "report", width="2.2cm"),
    TableColumn("name", "version and constructor", "code", width="4.0cm"),
    TableColumn("role", "is", width="1.4cm"),
    TableColumn("verdict", "verdict", width="1.8cm"),
    TableColumn("smallest", "smallest disproof", width="6.0cm"),
)


@dataclass(frozen=True)
class Statement:
    """What one version of a library states by a function.

    ``title``, ``affected``, ``fixed``, ``reports`` and ``page`` are about the fault, as in ``bugs.toml``. ``version``
    is the name of the environment, empty for that of epsaudit. ``make`` is the code of the object, and ``accountant``
    is the name of an accountant; one of them is empty.
    """

    title: str
    affected: str
    fixed: str
    version: str
    role: str
    reports: tuple[str, ...] = ()
    page: str = ""
    imports: str = "opendp"
    make: str = ""
    accountant: str = ""
    pairs: int = 0
    trials: int = TRIALS

    @property
    def name(self) -> str:
        """Version and constructor, or version and accountant, such as 'opendp-0.16.0/make_resize'."""
        found = re.findall(r"make_\w+", self.make)
        version = self.version or f"dp-accounting-{importlib.metadata.version('dp-accounting')}"
        return f"{version}/{found[0] if found else self.accountant}"


@functools.cache
def statements() -> tuple[Statement, ...]:
    """Return all rows of ``maps.toml``.

    Examples
    --------
    >>> statements()[0].name
    'opendp-0.14.1/make_b_ary_tree'
    """
    found = []
    for fields in tomllib.loads(FILE.read_text(encoding="utf-8"))["statement"]:
        shared = {name: value for name, value in fields.items() if name != "case"}
        for case in fields["case"]:
            merged = {**shared, **case, "reports": tuple(shared.get("reports", ()))}
            if "accountant" in case:
                merged.pop("make", None)
            found.append(Statement(**merged))
    return tuple(found)


def code_of(statement: Statement) -> str:
    """Return the file that makes the object of a row."""
    imports = tomllib.loads(FILE.read_text(encoding="utf-8"))["imports"][statement.imports]
    return f"{imports.strip()}\n\n\ndef make():\n    return {statement.make}\n"


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit every row, and write data and a table to ``out``."""
    rows = stored_rows(STORED) if quick else audit_rows(seed)
    write_data(out, rows, seed=seed)
    caption = "Stability maps, privacy maps and accountants of released libraries, audited without a given dataset."
    write_table(out, rows, COLUMNS, caption)
    if surprising := unexpected(rows):
        raise AuditError(f"The table in {out} has unexpected verdicts: {', '.join(surprising)}.")
    return answer(rows)


def audit_rows(seed: int) -> list[dict[str, Any]]:
    """Audit all rows. A row whose library cannot be installed states the reason."""
    rows = []
    for statement in statements():
        rows.append(audit_row(statement, seed))
        print(f"{rows[-1]['name']}: {rows[-1]['verdict']}", flush=True)
    return rows


def audit_row(statement: Statement, seed: int) -> dict[str, Any]:
    """Audit one row, and return the row of the table."""
    about = {
        "report": ", ".join(statement.reports) or "no report",
        "title": statement.title,
        "name": statement.name,
        "role": statement.role,
    }
    try:
        environment = str(ENVIRONMENTS[statement.version].python()) if statement.version else None
        return {**about, **(_audit_accountant if statement.accountant else _audit_object)(statement, environment, seed)}
    except AuditError as error:
        return {**about, "verdict": f"not audited: {error}", "smallest": "", "tried": 0, "found": ""}


def _audit_object(statement: Statement, environment: str | None, seed: int) -> dict[str, Any]:
    here = Path.cwd()
    with TemporaryDirectory() as folder:
        Path(folder, "made.py").write_text(code_of(statement), encoding="utf-8")
        try:
            os.chdir(folder)  # the name 'made.py:make' is part of the result, and a path would differ by machine
            result = audit_map(
                "made.py:make",
                environment=environment,
                pairs=statement.pairs or PAIRS,
                trials=statement.trials,
                confidence=CONFIDENCE,
                seed=seed,
                name=statement.name,
            )
        finally:
            os.chdir(here)
    return {"verdict": result.verdict, "smallest": result.smallest(), "tried": result.pairs, "found": str(result)}


def _audit_accountant(statement: Statement, environment: str | None, seed: int) -> dict[str, Any]:
    sequences = statement.pairs or SEQUENCES
    found = list(audit_accountants(environment, sequences=sequences, seed=seed, only=[statement.accountant]))
    if not found:
        raise AuditError(f"The environment {statement.version} has no accountant {statement.accountant!r}.")
    losses = [str(one) for one in found[0].findings if one.kind == "loss"]
    # the other findings are inconsistent statements, which are no privacy bugs
    verdict = "refuted" if found[0].refuted else "not refuted" if found[0].sequences else "not audited"
    return {
        "verdict": verdict,
        "smallest": losses[0] if losses else "",
        "tried": found[0].sequences,
        "found": str(found[0]),
    }


def unexpected(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of rows with a verdict other than the expected one; rows that were not audited are left out."""
    audited = [one for one in rows if not one["verdict"].startswith("not audited")]
    return [one["name"] for one in audited if (one["verdict"] == "refuted") != (one["role"] == "affected")]


def answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a text that counts refuted rows and public reports."""
    rows = [one for one in rows if not one["verdict"].startswith("not audited")]
    affected, others = ([one for one in rows if (one["role"] == "affected") is known] for known in (True, False))
    refuted = [one for one in affected if one["verdict"] == "refuted"]
    reports = {report for one in refuted for report in one["report"].split(", ")} - {"no report"}
    wrong = sum(one["verdict"] == "refuted" for one in others)
    return (
        f"From the constructor alone {len(refuted)} of {len(affected)} affected maps and accountants are refuted, of "
        f"{len(reports)} public reports; of {len(others)} fixed versions and controls {wrong} are."
    )
