"""``epsaudit list``, ``experiment`` and ``bisect``: what is registered or stored, studies, versions of libraries."""

from __future__ import annotations

import dataclasses
import fnmatch
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from epsaudit.adapters import registry
from epsaudit.adapters.registry import Entry, Listed, library, matching, registered
from epsaudit.audits.question import jobs_of, trials_of
from epsaudit.claims.definitions import Claim
from epsaudit.cli import AS_EXPECTED, SURPRISED, say_json, sayer, those
from epsaudit.errors import AuditError, meant
from epsaudit.reporting.tables import Column

Row = Entry | Listed

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


def listing(options: SimpleNamespace) -> int:
    """List the mechanisms whose name matches the pattern, or holds it."""
    if options.library is None:
        groups: dict[str, Sequence[Row]] = {"": list(registered().values())}
    else:
        chosen = [library(options.library)] if options.library else registry.libraries().values()
        not_yet = "not installed yet: the first audit does that"
        groups = {f"--library {one.name}: {one.version}, {one.built() or not_yet}": one.rows for one in chosen}
    names, pattern = [row.name for rows in groups.values() for row in rows], options.pattern
    kept = {name for name in names if pattern is None or pattern in name or fnmatch.fnmatchcase(name, pattern)}
    if pattern is not None and not kept:
        raise AuditError(f"Nothing that is listed matches {pattern!r}.{meant(pattern, names)}")
    say = sayer(options)
    listed: list[dict[str, Any]] = []
    first = max(map(len, kept), default=0)
    for heading, rows in groups.items():
        if heading and any(row.name in kept for row in rows):
            say(heading)
        for row in (row for row in rows if row.name in kept):
            claim = _claim(row)
            say(f"{row.name:<{first}}  {claim}, {row.expected}")
            if options.long:
                say(f"  {row.reason or row.source}")
            facts = {"expected": row.expected, "source": row.source, "reason": row.reason}
            listed.append({"name": row.name, "claim": str(claim), **facts})
    say_json(options, listed)
    return AS_EXPECTED


def _claim(row: Row) -> Claim | str:
    """The claim, or why it cannot be calculated here."""
    try:
        return row.claim if isinstance(row, Entry) and not hasattr(row, "stated_claim") else row.stated_claim
    except AuditError as error:
        return f"({error})"


def list_studies(options: SimpleNamespace) -> int:
    """List the studies."""
    from epsaudit.reporting.studies import studies

    found = studies().values()
    first = max((len(study.name) for study in found), default=0)
    for study in found:
        sayer(options)(f"{study.name:<{first}}  {study.summary}")
    say_json(options, [{"name": study.name, "summary": study.summary} for study in found])
    return AS_EXPECTED


def run_studies(options: SimpleNamespace) -> int:
    """Run one study or all."""
    from epsaudit.reporting.studies import studies

    found, name = studies(), options.name
    if name != "all" and name not in found:
        there = ", ".join(found)
        raise AuditError(f"{name!r} is not a study; there are {there}, and 'all'.{meant(name, [*found, 'all'])}")
    out = options.out if options.out is not None else Path("results-quick" if options.quick else "results")
    say = sayer(options)
    for study in found.values() if name == "all" else [found[name]]:
        started = time.perf_counter()
        say(f"{study.name}: {study.summary}")
        study.run(out / study.name, seed=options.seed, quick=options.quick, allow_modified=options.allow_modified)
        say(f"{study.name}: {out / study.name}, {time.perf_counter() - started:.0f} seconds")
    return AS_EXPECTED


def status(options: SimpleNamespace) -> int:
    """Say which stored results are stale."""
    from epsaudit.results import stored

    found = stored.status(options.folder)
    if not found:
        raise AuditError(f"{options.folder} has no stored results: no provenance.json, in it or one folder deeper.")
    say = sayer(options)
    first = max(len(str(one.folder)) for one in found)
    for one in found:
        took = "   ? s" if one.seconds is None else f"{one.seconds:4.0f} s"
        say(f"{one.folder!s:<{first}}  {one.commit:<18}  {took}  {one.why_stale or 'up to date'}")
    stale = sum(bool(one.why_stale) for one in found)
    known = sum(one.seconds or 0.0 for one in found)
    say(f"{stale} of {len(found)} are stale; all took {known / 60:.0f} minutes, where the time is known.")
    say_json(options, [{"folder": str(one.folder), **those(one, "commit", "seconds", "why_stale")} for one in found])
    return SURPRISED if stale else AS_EXPECTED


def bisect(options: SimpleNamespace) -> int:
    """Search and print."""
    from epsaudit.reporting.studies import print_table

    bisecting, row = import_module(OF_ROWS), _affected(options.library, options.row)
    if not isinstance(row, bisecting.Row):
        raise AuditError(f"{row.name} does not say what it is installed from; bisect takes epsaudit's own rows alone.")
    loud = not (options.quiet or options.json)
    given = those(options, "start", "every", "confidence", "seed")
    trials, n_jobs = trials_of(options.trials, "--trials"), jobs_of(options.jobs, "--jobs")
    found = bisecting.bisect(row, **given, trials=trials, n_jobs=n_jobs, progress=_tell if loud else None)
    fields = [field.name for field in dataclasses.fields(found) if field.name != "tried"]
    facts = those(found, "first_affected", "last_affected", "first_not_refuted", *fields)
    say_json(options, {**facts, "sentence": found.sentence(), "tried": found.rows()})
    if loud:
        print_table(found.rows(), COLUMNS, f"{found.package}/{found.label}")
    say = sayer(options)
    for one in found.tried:
        if one.reason:
            say(f"{one.version} {one.verdict}: {one.reason}")
    for name, text in found.lines():
        say(f"{name:<17}  {text}")
    say(f"{found.sentence()} Seed {found.seed}.")
    return AS_EXPECTED if found.affected else SURPRISED


def _affected(name: str, pattern: str) -> Listed:
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
