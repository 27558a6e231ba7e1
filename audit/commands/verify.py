"""``epsaudit verify``: recompute stored bounds from their counts, or run the audits again from their seeds.

It reads a result file, prints one line a result and sets the exit status: 1 if anything is not as stored.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from epsaudit import results, verify
from epsaudit.commands import AS_EXPECTED, SURPRISED
from epsaudit.commands.report import matching
from epsaudit.libraries import entry_of
from epsaudit.registry import Entry, chosen
from epsaudit.reporting.escaping import visible
from epsaudit.reporting.numbers import lower


def add(commands: Any) -> None:
    """Add the subcommand to the parser's ``add_subparsers`` object."""
    verifying = commands.add_parser("verify", help="recompute stored bounds from their counts, or run them again")
    verifying.add_argument("file", type=Path, metavar="RESULT.json")
    verifying.add_argument("names", nargs="*", metavar="NAME", help="only these results; names or patterns")
    verifying.add_argument("--rerun", action="store_true", help="run the audits again from their seeds, and compare")
    verifying.add_argument(
        "--mechanism",
        metavar="PACKAGE.MODULE:OBJECT",
        help="what to run for a result that is not under a registered name (one result)",
    )
    verifying.add_argument("--jobs", type=int, help="parallel workers (default: every core)")
    verifying.set_defaults(command=_verify)


def _verify(options: argparse.Namespace) -> int:
    stored = results.read(options.file)
    names = [verify.rebuild(item).mechanism for item in stored]
    kept = set(matching(names, options.names or None, options.file))
    work = [item for item, name in zip(stored, names, strict=True) if name in kept]
    entries = [_entry(options.mechanism or item["mechanism"]) if options.rerun else None for item in work]
    failed = 0
    for item, entry in zip(work, entries, strict=True):
        found = verify.recompute(item)
        if found.holds and entry is not None:
            found = verify.rerun(item, entry, options.jobs)
        failed += not found.holds
        symbol, bound = found.result.claim.symbol, lower(found.result.lower_bound)
        said = "as stored" if found.holds else "DIFFERENT"
        print(f"{visible(item['mechanism'])}: {symbol} >= {bound}, {found.how}: {said}", flush=True)
        for difference in found.differences:
            print(f"  {visible(difference)}")
    print(f"{len(work) - failed} of {len(work)} results are as stored.")
    return SURPRISED if failed else AS_EXPECTED


def _entry(name: str) -> Entry:
    """What runs a name again: a mechanism of a library in its environment, or what is registered."""
    return entry_of(name) or chosen([name])[0]
