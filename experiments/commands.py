"""The commands that the studies add to ``epsaudit``: ``experiment`` and ``bisect``."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epsaudit.errors import AuditError, refuse_without, suggest_name
from epsaudit.tools.cli import AS_EXPECTED, SURPRISED, Command, attributes, print_json, printer

if TYPE_CHECKING:
    from epsaudit.experiments.libraries.bisecting import Tried
    from epsaudit.running.registry import Listed


def list_studies(*, as_json: bool, quiet: bool) -> int:
    """Print a list of the studies."""
    from epsaudit.experiments.studies import studies

    found = studies().values()
    first = max((len(study.name) for study in found), default=0)
    for study in found:
        printer(quiet or as_json)(f"{study.name:<{first}}  {study.summary}")
    print_json(as_json, [{"name": study.name, "summary": study.summary} for study in found])
    return AS_EXPECTED


def run_studies(name: str, *, quick: bool, seed: int, out: Path | None, quiet: bool) -> int:
    """Run one study or all studies."""
    from epsaudit.experiments.studies import studies

    found = studies()
    parts = {part: one for study in found.values() for part, one in study.parts().items()}
    if name != "all" and name not in {**found, **parts}:
        there = ", ".join(found)
        raise AuditError(
            f"There is no study {name!r}; choose one of {there}, or 'all'.{suggest_name(name, [*found, *parts, 'all'])}"
        )
    if out is None:
        out = Path("results-quick" if quick else "results")
    from epsaudit.running.files import refuse_unwritable

    refuse_unwritable(out / "README.md")
    show = printer(quiet)
    chosen = [study for study in found.values() if not study.network] if name == "all" else [{**found, **parts}[name]]
    for extra in ("studies", "report"):
        if any(study.extra == extra for study in chosen):
            refuse_without(extra)
    for study in chosen:
        started = time.perf_counter()
        show(f"{study.name}: {study.summary}")
        study.run(out / study.name, seed=seed, quick=quick)
        show(f"{study.name}: {out / study.name}, {time.perf_counter() - started:.0f} seconds")
    return AS_EXPECTED


def bisect(
    library: str,
    row: str,
    *,
    start: str | None,
    every: bool,
    trials: float,
    confidence: float,
    seed: int | None,
    jobs: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Search the versions of a library for those that are affected, and print the result."""
    from epsaudit.audits.spec import check_n_jobs, check_trials
    from epsaudit.experiments.libraries import bisecting
    from epsaudit.tools.reporting.tables import TableColumn, print_table

    affected = _affected_row(library, row)
    if not isinstance(affected, bisecting.Row):
        raise AuditError(
            f"{affected.name} is not a row of epsaudit's own libraries, so bisect cannot install other versions of it; "
            "choose a row of these libraries."
        )
    silent = quiet or as_json
    found = bisecting.bisect(
        affected,
        start=start,
        every=every,
        trials=check_trials(trials, "--trials"),
        confidence=confidence,
        seed=seed,
        n_jobs=check_n_jobs(jobs, "--jobs"),
        progress=None if silent else _print_progress,
    )
    fields = [field.name for field in dataclasses.fields(found) if field.name != "tried"]
    facts = attributes(found, "first_affected", "last_affected", "first_not_refuted", *fields)
    print_json(as_json, {**facts, "sentence": found.sentence(), "tried": found.rows()})
    if not silent:
        kinds = {"certified": "lower", "runs": "count", "seconds": "count"}
        names = ("version", "verdict", "claim", "certified", "runs", "seconds")
        columns = [TableColumn(name, name, kinds.get(name, "text")) for name in names]  # type: ignore[arg-type]
        print_table(found.rows(), columns, f"{found.package}/{found.label}")
    show = printer(silent)
    for one in found.tried:
        if one.reason:
            show(f"{one.version} {one.verdict}: {one.reason}")
    for name, text in found.lines():
        show(f"{name:<17}  {text}")
    show(f"{found.sentence()} Seed {found.seed}.")
    return AS_EXPECTED if found.affected else SURPRISED


def _affected_row(name: str, pattern: str) -> Listed:
    """Return the mechanism that ``pattern`` names, preferably one that is known to be affected.

    If the library itself has no such mechanism, or none with a known fault, other versions of the library are searched.
    """
    from epsaudit.running.registry import libraries, library, matching

    named = library(name)
    package = named.version.rpartition("-")[0]
    others = [one for one in libraries().values() if one.version.rpartition("-")[0] == package]
    known = [named, *(one for one in others if one.version != named.version and named.name != named.version)]
    rows: Sequence[Listed] = [row for found in matching(known, [pattern]).values() for row in found]
    if len(labels := dict.fromkeys(row.name.partition("/")[2] for row in rows)) > 1:
        raise AuditError(f"{pattern!r} matches several mechanisms ({', '.join(labels)}); name one of them.")
    return next((row for row in rows if row.expected == "violated"), rows[0])


def _print_progress(one: Tried) -> None:
    print(f"epsaudit: {one.version}: {one.verdict}, {one.seconds:.0f} s", file=sys.stderr, flush=True)


BISECT = Command(
    "bisect",
    runs=bisect,
    about="Find the first and the last released version of a library that is affected. The versions come from pip "
    "(docs: how-to/released-libraries). Each audited version is installed into an environment of its own. The search "
    "goes on with the middle version between one that is refuted and one that is not.",
    params=[
        ["library", "Name of the library, as for audit --library."],
        ["row", "A mechanism of the library or of another version of it, as epsaudit list --library names it."],
        [
            "--from VERSION",
            "An affected version, at which to start.  [default: the version of the mechanism]",
            {"name": "start"},
        ],
        ["--all", "Audit every version, without assumptions on versions in between.", {"name": "every"}],
        [
            "--trials",
            "Maximum number of runs of each version. Without --all, an audit stops after 16 times the runs that "
            "refuted the first version.",
            {"type": "number", "default": 100_000},
        ],
        ["--confidence", "Joint confidence of all verdicts.", {"type": "confidence", "default": 0.95}],
        "drawn",
        "printed",
    ],
    examples="""
epsaudit bisect smartnoise-synth covariance
epsaudit bisect opendp laplace-bits --from 0.4.0
""",
)
EXPERIMENT = click.Group(
    "experiment",
    [
        Command("list", runs=list_studies, about="List the studies.", params=["printed"]),
        Command(
            "run",
            runs=run_studies,
            about="Run one study or all; the same seed gives the same data.",
            params=[
                [
                    "name",
                    "Name of a study, such as libraries; of a part of one, such as libraries/hunts; or 'all' for every "
                    "study that does not install libraries.",
                ],
                ["--quick", "Run for a few seconds instead of minutes, for a quick look."],
                ["--seed", "Root seed of all random streams.", {"type": "whole", "default": 0}],
                [
                    "--out",
                    "Folder that holds one folder per study.  [default: results, or results-quick with --quick]",
                    {"type": "path"},
                ],
                "quiet",
            ],
        ),
    ],
    help="List or run the published studies.",
    no_args_is_help=False,
)
