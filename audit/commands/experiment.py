"""``epsaudit experiment``: list the studies that packages register, run one of them or all, say which are stale.

It parses the command line and writes folders of data, figures and tables.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from epsaudit import stored
from epsaudit.commands import AS_EXPECTED, SURPRISED
from epsaudit.errors import AuditError
from epsaudit.studies import Study, studies


def add(commands: Any) -> None:
    """Add the subcommand to the parser's ``add_subparsers`` object."""
    experiment = commands.add_parser(
        "experiment", help="list or run the studies behind the published results, or say which are stale"
    )
    actions = experiment.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the studies")
    listing.set_defaults(command=_list)
    running = actions.add_parser("run", help="run one study or all; the same seed gives the same data")
    running.add_argument("name", metavar="NAME", help="a study of the list, or 'all'")
    running.add_argument("--quick", action="store_true", help="a few seconds instead of minutes, for a look")
    running.add_argument("--seed", type=int, default=0, help="root of all random streams (default 0)")
    running.add_argument(
        "--out",
        type=Path,
        help="folder; each study writes to OUT/NAME (default: results, or results-quick with --quick)",
    )
    running.add_argument("--allow-modified", action="store_true", help=stored.ALLOW_MODIFIED)
    running.set_defaults(command=_run)
    standing = actions.add_parser("status", help="say which stored results are older than the code that they depend on")
    standing.add_argument("folder", nargs="?", type=Path, default=Path("results"), help="default: results")
    standing.set_defaults(command=_status)


def _list(options: argparse.Namespace) -> int:
    found = studies().values()
    first = max((len(study.name) for study in found), default=0)
    for study in found:
        print(f"{study.name:<{first}}  {study.summary}")
    return AS_EXPECTED


def _run(options: argparse.Namespace) -> int:
    chosen = _chosen(options.name)
    out = options.out if options.out is not None else Path("results-quick" if options.quick else "results")
    for study in chosen:
        started = time.perf_counter()
        print(f"{study.name}: {study.summary}", flush=True)
        study.run(out / study.name, seed=options.seed, quick=options.quick, allow_modified=options.allow_modified)
        print(f"{study.name}: {out / study.name}, {time.perf_counter() - started:.0f} seconds", flush=True)
    return AS_EXPECTED


def _status(options: argparse.Namespace) -> int:
    found = stored.status(options.folder)
    if not found:
        raise AuditError(f"{options.folder} has no stored results: no provenance.json, in it or one folder deeper.")
    first = max(len(str(one.folder)) for one in found)
    for one in found:
        took = "   ? s" if one.seconds is None else f"{one.seconds:4.0f} s"
        print(f"{one.folder!s:<{first}}  {one.commit:<18}  {took}  {one.why_stale or 'up to date'}")
    stale = sum(bool(one.why_stale) for one in found)
    known = sum(one.seconds or 0.0 for one in found)
    print(f"{stale} of {len(found)} are stale; all took {known / 60:.0f} minutes, where the time is known.")
    return SURPRISED if stale else AS_EXPECTED


def _chosen(name: str) -> list[Study]:
    found = studies()
    if name == "all":
        return list(found.values())
    if name not in found:
        raise AuditError(f"{name!r} is not a study; there are {', '.join(found)}, and 'all'.")
    return [found[name]]
