"""``epsaudit experiment``: list the studies that packages register, run one of them or all, say which are stale.

It parses the command line and writes folders of data, figures and tables.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

from epsaudit import stored
from epsaudit.commands import AS_EXPECTED, SURPRISED, say_json, sayer
from epsaudit.errors import AuditError, meant
from epsaudit.studies import Study, studies


def listing(options: SimpleNamespace) -> int:
    """List the studies."""
    found = studies().values()
    first = max((len(study.name) for study in found), default=0)
    for study in found:
        sayer(options)(f"{study.name:<{first}}  {study.summary}")
    say_json(options, [{"name": study.name, "summary": study.summary} for study in found])
    return AS_EXPECTED


def run(options: SimpleNamespace) -> int:
    """Run one study or all."""
    chosen = _chosen(options.name)
    out = options.out if options.out is not None else Path("results-quick" if options.quick else "results")
    say = sayer(options)
    for study in chosen:
        started = time.perf_counter()
        say(f"{study.name}: {study.summary}")
        study.run(out / study.name, seed=options.seed, quick=options.quick, allow_modified=options.allow_modified)
        say(f"{study.name}: {out / study.name}, {time.perf_counter() - started:.0f} seconds")
    return AS_EXPECTED


def status(options: SimpleNamespace) -> int:
    """Say which stored results are stale."""
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


def _chosen(name: str) -> list[Study]:
    found = studies()
    if name == "all":
        return list(found.values())
    if name not in found:
        there = ", ".join(found)
        raise AuditError(f"{name!r} is not a study; there are {there}, and 'all'.{meant(name, [*found, 'all'])}")
    return [found[name]]
