"""``epsaudit experiment``: list the studies that packages register, run one of them or all.

It parses the command line and writes folders of data, figures and tables.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from epsaudit.commands import AS_EXPECTED
from epsaudit.errors import AuditError
from epsaudit.studies import Study, studies


def add(commands: Any) -> None:
    """Add the subcommand to the parser's ``add_subparsers`` object."""
    experiment = commands.add_parser("experiment", help="list or run the studies behind the published results")
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
    running.set_defaults(command=_run)


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
        study.run(out / study.name, seed=options.seed, quick=options.quick)
        print(f"{study.name}: {out / study.name}, {time.perf_counter() - started:.0f} seconds", flush=True)
    return AS_EXPECTED


def _chosen(name: str) -> list[Study]:
    found = studies()
    if name == "all":
        return list(found.values())
    if name not in found:
        raise AuditError(f"{name!r} is not a study; there are {', '.join(found)}, and 'all'.")
    return [found[name]]
