"""``epsaudit bisect``: the first and the last released version of a library in which a claim is refuted."""

from __future__ import annotations

import dataclasses
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from epsaudit.adapters import registry
from epsaudit.adapters.registry import Listed, library, matching
from epsaudit.audits.question import jobs_of, trials_of
from epsaudit.cli.commands import AS_EXPECTED, SURPRISED, say_json, sayer
from epsaudit.errors import AuditError
from epsaudit.reporting.tables import Column

OF_ROWS = "epsaudit.experiments.libraries.bisecting"
"""What knows how rows are installed: a name, since nothing here imports what is audited."""

COLUMNS = (
    Column("version", "version"),
    Column("verdict", "verdict"),
    Column("claim", "claim"),
    Column("certified", "certified", "lower"),
    Column("runs", "runs", "count"),
    Column("seconds", "seconds", "count"),
)


def run(options: SimpleNamespace) -> int:
    """Search and print."""
    from epsaudit.studies import print_table  # which takes a second to import

    bisecting, row = import_module(OF_ROWS), _row(options.library, options.row)
    if not isinstance(row, bisecting.Row):
        raise AuditError(f"{row.name} does not say what it is installed from; bisect takes epsaudit's own rows alone.")
    found = bisecting.bisect(
        row,
        start=options.start,
        every=options.every,
        trials=trials_of(options.trials, "--trials"),
        confidence=options.confidence,
        seed=options.seed,
        n_jobs=jobs_of(options.jobs, "--jobs"),
        progress=None if options.quiet or options.json else _tell,
    )
    facts = {name: getattr(found, name) for name in ("first_affected", "last_affected", "first_not_refuted")}
    facts |= {field.name: getattr(found, field.name) for field in dataclasses.fields(found) if field.name != "tried"}
    say_json(options, {**facts, "sentence": found.sentence(), "tried": found.rows()})
    if not (options.quiet or options.json):
        print_table(found.rows(), COLUMNS, f"{found.package}/{found.label}")
    say = sayer(options)
    for one in found.tried:
        if one.reason:
            say(f"{one.version} {one.verdict}: {one.reason}")
    for name, text in found.lines():
        say(f"{name:<17}  {text}")
    say(f"{found.sentence()} Seed {found.seed}.")
    return AS_EXPECTED if found.affected else SURPRISED


def _row(name: str, pattern: str) -> Listed:
    """The mechanism of the library, or of another version where it has none or none with a known fault."""
    named = library(name)
    package = named.version.rpartition("-")[0]
    others = [one for one in registry.libraries().values() if one.version.rpartition("-")[0] == package]
    known = [named, *(one for one in others if one.version != named.version and named.name != named.version)]
    rows = [row for found in matching(known, [pattern]).values() for row in found]
    if len(labels := dict.fromkeys(row.name.partition("/")[2] for row in rows)) > 1:
        raise AuditError(f"{pattern!r} names {', '.join(labels)}; name one.")
    return next((row for row in rows if row.expected == "violated"), rows[0])


def _tell(one: Any) -> None:
    print(f"epsaudit: {one.version}: {one.verdict}, {one.seconds:.0f} s", file=sys.stderr, flush=True)
