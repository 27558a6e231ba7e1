"""Hunts for known bugs of released libraries without a given pair, and hunts of sound mechanisms, none of them refuted.

`epsaudit.tools.hunting.hunt.hunt` takes the function, which is served in the library's own environment, a short
description of its data, and the claim, but no pair. Sound mechanisms are hunted as well: sound functions of libraries
in the same way, and the mechanisms of this repository and the sound rows of libraries from their own pairs. All
verdicts hold together at 99.9 % confidence, so that the probability that any sound mechanism is refuted is at most
1e-3 in the whole study. If one is refuted, the study ends with an error that names it.

The functions are those of ``libraries/bugs.toml``. Every affected function is hunted, and a function that cannot be
hunted counts as not found. A hunt may write a script for a finding. The study runs this script in the library's
environment, and the script reproduces the finding if its fresh runs have a p-value of at most 0.01. A refutation
counts whatever its cause, since a function may have a simpler fault than the one of its row; the data name the pair
and the event. A finding is short if its larger dataset has at most three records, or at most as many as the bug
needs, and if its events have at most two thresholds or single outputs. For a vector of answers, its numbers count as
records.

Each hunt uses one core, and all cores run hunts. Seconds are processor time of the hunt and of the library's process,
because other work on the machine would inflate wall-clock time. The limit of a hunt is in wall-clock time.

Libraries draw their own random numbers, so the same seed gives the same table only up to chance. With ``quick``
nothing is installed, and only three sound mechanisms are hunted.
"""

from __future__ import annotations

import math
import resource
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib

from epsaudit.audits.sequential import SequentialResult
from epsaudit.audits.suite import entry_seed
from epsaudit.errors import AuditError
from epsaudit.experiments.libraries.environments import NotInstalledError
from epsaudit.experiments.libraries.registry import libraries
from epsaudit.experiments.libraries.rows import Row, findings, sound
from epsaudit.experiments.studies import write_data, write_figure, write_table
from epsaudit.running.child_pool import CHILDREN
from epsaudit.running.registry import Entry, registered
from epsaudit.running.served import Served
from epsaudit.text import percent
from epsaudit.tools.hunting.hunt import hunt
from epsaudit.tools.hunting.options import Options
from epsaudit.tools.hunting.parameters import candidates, read_schema
from epsaudit.tools.hunting.result import Hunt
from epsaudit.tools.hunting.shrinking import records_of
from epsaudit.tools.reporting.figures import plot_certified_against_proven
from epsaudit.tools.reporting.reproducer import AuditedFunction, Reproducer
from epsaudit.tools.reporting.tables import TableColumn
from epsaudit.witnesses.conditions import MAX_SIMPLE_PARTS, count_condition_parts

JOINT_CONFIDENCE = 0.999
"""Joint confidence of all verdicts."""
BUGS: dict[str, Any] = {"trials": 400_000, "seconds": 60.0}
"""Limits of each hunt of a bug: runs, and wall-clock seconds that a user may be expected to wait."""
FEW = 3
"""Largest number of records of a short finding."""
SOUND: dict[str, Any] = {"audits": 2, "trials": 20_000, "seconds": 120.0}
"""Limits of each hunt of a sound mechanism, with wall-clock seconds. Most hunts take a few seconds on one core;
mechanisms that take 3 ms or more per run need longer."""
QUICK: dict[str, Any] = {"audits": 1, "trials": 2_000}
COLUMNS = (
    TableColumn("name", "mechanism", "code", width="4.5cm"),
    TableColumn("claim", "claim", "formula", width="1.8cm"),
    TableColumn("seconds", "seconds", "count"),
    TableColumn("runs", "runs", "count"),
    TableColumn("certified", "certified", "lower"),
    TableColumn("records", "records", "count"),
    TableColumn("parts", "thresholds", "count"),
    TableColumn("verdict", "verdict"),
    TableColumn("script", "p-value of the script", "number"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Hunt everything, and write data, table and figure to ``out``."""
    hunted: list[tuple[str, Any]] = [("sound", one) for one in _sound_mechanisms(quick)]
    limits = {"bug": BUGS, "sound": QUICK if quick else SOUND}
    if not quick:
        hunted = [("bug", one) for one in bugs()] + hunted
    each = 1.0 - (1.0 - JOINT_CONFIDENCE) / len(hunted)
    jobs = (joblib.delayed(_hunt_one)(one, seed, confidence=each, **limits[kind]) for kind, one in hunted)
    rows, done = [], []
    found = joblib.Parallel(n_jobs=-1, return_as="generator")(jobs)
    for (kind, _), (row, results) in zip(hunted, found, strict=True):
        rows.append({"kind": kind, **row})
        done += results
        print(f"{row['name']}: {row['verdict']}", flush=True)
    write_data(out, rows, seed=seed, confidence=JOINT_CONFIDENCE)
    write_figure(out / "hunts", plot_certified_against_proven(done, JOINT_CONFIDENCE))
    caption = (
        "Hunts with no pair given for known bugs of released libraries, by a schema and a one-line function, and for "
        f"what is sound; all verdicts hold together at {percent(JOINT_CONFIDENCE)} confidence. Seconds of processor "
        "time; records of the larger shrunk dataset; thresholds and single outputs of the event."
    )
    write_table(out, rows, COLUMNS, caption)
    if refuted := [row["name"] for row in rows if row["kind"] == "sound" and row["verdict"] == "refuted"]:
        raise AuditError(f"The table in {out} has unexpected verdicts: sound but refuted are {', '.join(refuted)}.")
    return answer(rows)


def answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a text that counts the bugs found, with their times and sizes, and the sound mechanisms refuted.

    Examples
    --------
    >>> row = {"kind": "bug", "verdict": "refuted", "seconds": 9.0, "script": 1e-9}
    >>> print(answer([{**row, "records": 2, "needs": 0, "parts": 1}]).partition(";")[0])
    Of 1 affected rows 1 are found (100%), in 9 seconds of processor time at the median
    """
    said = []
    if tried := [row for row in rows if row["kind"] == "bug"]:
        found = [row for row in tried if row["verdict"] == "refuted"]
        said.append(f"Of {len(tried)} affected rows {len(found)} are found ({100 * len(found) // len(tried)}%)")
        if found:
            seconds = statistics.median(row["seconds"] for row in found)
            known = [row for row in found if row["records"] is not None and row["parts"] is not None]
            short = sum(row["records"] <= max(FEW, row["needs"]) and row["parts"] <= MAX_SIMPLE_PARTS for row in known)
            said[-1] += (
                f", in {seconds:.0f} seconds of processor time at the median; {short} of them are shrunk to at most "
                f"{FEW} records, or as many as the bug needs, and events of at most {MAX_SIMPLE_PARTS} thresholds or "
                "outputs"
            )
        said[-1] += "."
        # older results have no column of scripts
        if scripts := [row["script"] is not None for row in tried if "script" in row]:
            said[-1] += f" Scripts of {sum(scripts)} reproduce it where the library is."
    sound = [row for row in rows if row["kind"] == "sound"]
    audited = [row for row in sound if row["verdict"] in ("refuted", "not refuted")]
    refuted = sum(row["verdict"] == "refuted" for row in sound)
    said.append(f"Of {len(audited)} sound mechanisms {refuted} are refuted.")
    return " ".join(said)


def bugs() -> list[Row]:
    """Return every affected row in the form in which it is hunted."""
    return [case.hunted for bug in findings() for case in bug.cases if case.role == "affected"]


def _sound_mechanisms(quick: bool) -> Iterator[Any]:
    """Yield the registered mechanisms, and the functions and rows of libraries, in which no fault is known."""
    entries = [entry for entry in registered().values() if entry.expected == "consistent"]
    yield from entries[:3] if quick else entries
    if not quick:
        yield from (row for library in libraries() for row in library.rows if row.expected == "consistent")
        yield from (row for row in sound() if not row.pairs)


def _hunt_one(one: Any, seed: int, **settings: Any) -> tuple[dict[str, Any], tuple[SequentialResult, ...]]:
    """Hunt a function, an entry or a row of a library; return the row of the table and the audits."""
    by_schema = isinstance(one, Row) and one.data is not None
    row = {"name": one.name, "claim": "", "needs": one.needs if by_schema else None, "script": None, "no_script": ""}
    settings |= {"seed": entry_seed(seed, one.name), "n_jobs": 1}
    before = _processor_seconds()
    try:
        if by_schema:
            found = hunted_from_schema(one, **settings)
        else:
            entry = one if isinstance(one, Entry) else one.entry()
            pairs = list(entry.pairs or entry.mechanism.worst_pairs())
            options = Options(name=entry.name, witnesses=entry.witnesses, **settings)
            found = hunt(entry.mechanism, pairs, claim=entry.claim, options=options)
        row["claim"] = str(one.claim if isinstance(one, Entry) else one.stated_claim)
    except NotInstalledError as error:
        return {**row, **_hunt_fields(None), "verdict": f"not installed: {error.reason}"}, ()
    except AuditError as error:
        return {**row, **_hunt_fields(None), "verdict": f"not hunted: {error}"}, ()
    finally:
        CHILDREN.close()
    timed = {"seconds": None, "clock": None}  # the other facts are the same for the same seed
    if by_schema:
        timed = {"seconds": _processor_seconds() - before, "clock": found.seconds}
        row |= _run_scripts(found, one)
    return {**row, **_hunt_fields(found), **timed}, found.audits


def _run_scripts(found: Hunt, row: Row) -> dict[str, Any]:
    """Run the scripts of the findings in the library's environment until one shows its finding.

    Returns the p-value of this script's fresh runs, or the reasons why there is none.
    """
    function = AuditedFunction(f"{row.file()}:run", source=row.code, python=str(row.environment.python()))
    why = []
    for one in (some for finding in found.findings for some in (finding, finding.strongest) if some is not None):
        reproducer = Reproducer(one.result, one.candidate.pair, function)
        try:
            if (p_value := reproducer.rerun(reproducer.script())) is not None:
                return {"script": p_value, "no_script": ""}
            why += reproducer.omissions()
        except AuditError as error:
            why.append(str(error))
    return {"script": None, "no_script": " ".join(why)}


def _processor_seconds() -> float:
    """Return the processor seconds of this process and of its child processes that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def hunted_from_schema(row: Row, **settings: Any) -> Hunt:
    """Hunt as the command ``epsaudit hunt ENV file.py:run --schema schema.json --seconds 60 --trials 400000`` does."""
    schema, python = read_schema(row.schema), str(row.environment.python())
    options = Options(
        adjacency=schema.adjacency, describe=schema.description, name=row.name, witnesses=row.witnesses, **settings
    )
    return hunt(Served(f"{row.file()}:run", python), candidates(*schema), claim=row.stated_claim, options=options)


def _hunt_fields(found: Hunt | None) -> dict[str, Any]:
    """Return the fields of a row that describe a hunt: its counts, and the pair and event of its first finding."""
    names = ("candidates", "screened", "runs")
    if found is None:
        more = ("audits", "certified", "pair", "event", "records", "parts", "steps", "seconds", "clock")
        return dict.fromkeys((*names, *more))
    failure = next((attempt.failure for attempt in found.attempts if attempt.failure), "out of time")
    first = found.findings[0] if found.findings else None
    rows = records_of(first.candidate) if first and first.candidate else None
    best = max((one.lower_bound for one in (*(one.result for one in found.findings), *found.audits)), default=None)
    parts = count_condition_parts(first.result.witness) if first else math.inf
    return {
        **{name: getattr(found, name) for name in names},
        "audits": len(found.audits),
        "certified": best,
        "pair": first.pair if first else None,
        "event": first.result.describe_event() if first else None,
        "records": max(map(len, rows)) if rows else None,
        "parts": parts if math.isfinite(parts) else None,
        "steps": first.steps if first else None,
        "verdict": "refuted" if found.refuted else "not refuted" if found.audits else f"not audited: {failure}",
    }
