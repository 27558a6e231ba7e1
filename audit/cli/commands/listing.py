"""``epsaudit list`` and ``epsaudit experiment``: what is registered or stored, one line each, and studies that run."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from epsaudit.adapters import registry
from epsaudit.adapters.registry import Entry, Listed, library, registered
from epsaudit.claims.definitions import Claim
from epsaudit.cli.commands import AS_EXPECTED, SURPRISED, say_json, sayer
from epsaudit.errors import AuditError, meant

Row = Entry | Listed


def listing(options: SimpleNamespace) -> int:
    """List the mechanisms whose name matches the pattern, or holds it."""
    if options.library is None:
        groups: dict[str, Sequence[Row]] = {"": list(registered().values())}
    else:
        chosen = [library(options.library)] if options.library else registry.libraries().values()
        groups = {
            f"--library {one.name}: {one.version}, {one.built() or 'not installed yet: the first audit does that'}": (
                one.rows
            )
            for one in chosen
        }
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
    facts = ("commit", "seconds", "why_stale")
    say_json(options, [{"folder": str(one.folder), **{name: getattr(one, name) for name in facts}} for one in found])
    return SURPRISED if stale else AS_EXPECTED
