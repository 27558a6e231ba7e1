"""``epsaudit verify``: recompute stored bounds from their counts, or run the audits again from their seeds.

It reads a result file, prints one line a result and sets the exit status: 1 if anything is not as stored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epsaudit import results, verify
from epsaudit.commands import AS_EXPECTED, SURPRISED
from epsaudit.commands.report import matching
from epsaudit.libraries import entry_of
from epsaudit.registry import Entry, chosen, registered
from epsaudit.reporting.escaping import visible
from epsaudit.reporting.numbers import lower, percent


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
    work = [(item, name) for item, name in zip(stored, names, strict=True) if name in kept]
    entries = [_entry(options.mechanism or name) if options.rerun else None for _, name in work]
    with_exact = [name for item, name in work if item.get("exact") is not None]
    known = _with_known_laws(with_exact, options.mechanism)
    failed = 0
    unchecked: set[str] = set()
    for (item, name), entry in zip(work, entries, strict=True):
        found = verify.rerun(item, entry, options.jobs) if entry else verify.recompute(item, known.get(name))
        failed += not found.holds
        unchecked.update(found.unchecked)
        print(_line(found), flush=True)
        for difference in found.differences:
            print(f"  {visible(difference)}")
    print(f"{len(work) - failed} of {len(work)} results are as stored.")
    for what in sorted(unchecked):
        print(f"Not checked: {what}.")
    return SURPRISED if failed else AS_EXPECTED


def _line(found: verify.Verification) -> str:
    """Say of one result what is certified, at which confidence, what was done, and whether it is as stored."""
    result, name = found.result, visible(found.result.mechanism)
    if not found.possible:
        return f"{name}: no audit can have given this: DIFFERENT"
    certified = f"{result.claim.symbol} >= {lower(result.lower_bound)} at {percent(result.confidence)} confidence"
    exact = ", exact not checked" if verify.EXACT in found.unchecked else ""
    return f"{name}: {certified}, {found.how}{exact}: {'as stored' if found.holds else 'DIFFERENT'}"


def _entry(name: str) -> Entry:
    """What runs a name again: a mechanism of a library in its environment, or what is registered."""
    return entry_of(name) or chosen([name])[0]


def _with_known_laws(names: Sequence[str], own: str | None) -> dict[str, Entry]:
    """Entries that may know the laws behind the exact values of these results: what is registered, or one's own."""
    if not names:
        return {}
    return dict.fromkeys(names, chosen([own])[0]) if own else registered()
