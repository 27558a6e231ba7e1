"""The ``epsaudit`` command: list what is registered, audit it or one's own mechanism, write results.

It parses the command line and prints a table, writes files and sets the exit status: 0 if every verdict is as expected,
1 if one is not, 2 if the input was wrong, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from epsaudit import compare, libraries, results, suite
from epsaudit.claims import Claim
from epsaudit.commands import AS_EXPECTED, BAD_INPUT, INTERRUPTED, SURPRISED, auditing, experiment, report, verify
from epsaudit.errors import AuditError
from epsaudit.extras import LeftOut
from epsaudit.registry import Entry, chosen, registered
from epsaudit.results import AuditResult
from epsaudit.sampling import entropy


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; errors are one sentence on standard error."""
    options = _parser().parse_args(arguments)
    try:
        with _sentences():
            return int(options.command(options))
    except AuditError as error:
        print(f"epsaudit: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("epsaudit: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return AS_EXPECTED


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """Print what is left out as a sentence, and other warnings as they are."""
    with warnings.catch_warnings():
        otherwise = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, LeftOut):
                print(f"epsaudit: {message}", file=sys.stderr)
            else:
                otherwise(message, category, *rest, **more)

        warnings.showwarning = show
        yield


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="epsaudit", description="Certified lower bounds on privacy loss.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="list the registered mechanisms, or those of released libraries")
    listing.add_argument(
        "--library", nargs="?", const="", metavar="NAME", help="list this released library's instead, or all libraries'"
    )
    listing.set_defaults(command=_list)

    auditing.add(commands)

    comparing = commands.add_parser("compare", help="say whether bounds moved beyond chance; exit status 1 if one did")
    comparing.add_argument("old", type=Path, metavar="OLD.json")
    comparing.add_argument("new", type=Path, metavar="NEW.json")
    comparing.add_argument("--error", type=float, default=0.01, help="of saying so if nothing did (default 0.01)")
    comparing.set_defaults(command=_compare)

    recounting = commands.add_parser("recount", help="count the events of OLD.json on today's code, to compare")
    recounting.add_argument("old", type=Path, metavar="OLD.json")
    recounting.add_argument("--seed", type=int, help="other than the old one (default: a fresh one)")
    recounting.add_argument("--jobs", type=int, help="parallel workers (default: every core)")
    recounting.add_argument("--out", type=Path, required=True, metavar="NEW.json")
    recounting.set_defaults(command=_recount)

    for part in (experiment, report, verify):
        part.add(commands)
    return parser


def _list(options: argparse.Namespace) -> int:
    console = Console()
    if options.library is None:
        _print_entries(console, [(entry, entry.claim) for entry in registered().values()])
        return AS_EXPECTED
    for one in [libraries.library(options.library)] if options.library else libraries.libraries().values():
        there = one.built() or "not installed yet: the first audit does that"
        console.print(f"--library {one.name}: {one.version}, {there}", highlight=False, soft_wrap=True)
        _print_entries(console, [(row, _stated_claim(row)) for row in one.rows])
    return AS_EXPECTED


def _stated_claim(row: libraries.Listed) -> Claim | str:
    """The claim, or why it cannot be calculated here."""
    try:
        return row.stated_claim
    except AuditError as error:
        return f"({error})"


def _print_entries(console: Console, entries: Sequence[tuple[Entry | libraries.Listed, Claim | str]]) -> None:
    first = max((len(entry.name) for entry, _ in entries), default=0)
    for entry, claim in entries:
        console.print(f"{entry.name:<{first}}  {claim}, {entry.expected}", highlight=False, soft_wrap=True)
        console.print(Padding(Text(entry.reason or entry.source, style="dim"), (0, 0, 0, 2)))


def _compare(options: argparse.Namespace) -> int:
    drift = compare.compare(results.load(options.old), results.load(options.new), options.error)
    if drift.comparisons or drift.not_compared:
        print(drift)
    if not drift.comparisons:
        raise AuditError(f"Nothing in {options.new} can be compared with {options.old}.")
    return SURPRISED if drift.moved else AS_EXPECTED


def _recount(options: argparse.Namespace) -> int:
    old = [result for result in results.load(options.old) if isinstance(result, AuditResult)]
    if not old:
        raise AuditError(f"{options.old} has no result of an audit of fixed size; only their events are counted again.")
    seed = entropy(options.seed)
    entries = {result.mechanism: chosen([result.mechanism])[0] for result in old}
    counted = []
    for result in old:
        entry = entries[result.mechanism]
        pairs = entry.pairs or entry.mechanism.worst_pairs()
        pair = next((pair for pair in pairs if str(pair) == result.pair), None)
        own = suite.entry_seed(seed, result.mechanism)
        counted.append(compare.recount(result, entry.mechanism, pair, seed=own, n_jobs=options.jobs))
    results.save(counted, options.out)
    count = "1 result" if len(counted) == 1 else f"{len(counted)} results"
    print(f"{count} recounted with seed {seed}: {options.out}")
    return AS_EXPECTED


if __name__ == "__main__":
    sys.exit(main())
