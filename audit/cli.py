"""The ``epsaudit`` command: list what is registered, audit it or one's own mechanism, write results.

Words from the command line enter; a table, files and an exit status leave: 0 if every verdict is as expected, 1 if
one is not, 2 if the input was wrong, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from audit import compare, results, suite
from audit.auditor import LEAST_TRIALS
from audit.commands import experiment
from audit.errors import AuditError, fraction, whole_at_least
from audit.registry import chosen, registered
from audit.reporting import figure, progress, style, table
from audit.results import AuditResult
from audit.sampling import entropy

AS_EXPECTED, SURPRISED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; errors are one sentence on standard error."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except AuditError as error:
        print(f"epsaudit: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # the reader of a pipe has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return AS_EXPECTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="epsaudit", description="Certified lower bounds on privacy loss.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="list the registered mechanisms")
    listing.set_defaults(command=_list)

    auditing = commands.add_parser("audit", help="audit registered mechanisms, or your own")
    auditing.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="registered names or patterns ('broken/*'), or package.module:object for your own mechanism; default: all",
    )
    auditing.add_argument("--trials", type=_number, default=1_000_000, help="runs a mechanism, all told (default 1e6)")
    auditing.add_argument(
        "--confidence", type=float, default=0.95, help="of all bounds together, shared equally (default 0.95)"
    )
    auditing.add_argument("--seed", type=int, help="makes the result reproducible (default: a fresh one, printed)")
    auditing.add_argument("--jobs", type=int, help="parallel workers (default: every core)")
    auditing.add_argument("--out", type=Path, help="folder for audit.json, audit.csv, audit.png and audit.pdf")
    auditing.set_defaults(command=_audit)

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

    for part in (experiment,):
        part.add(commands)
    return parser


def _list(options: argparse.Namespace) -> int:
    console = Console()
    entries = registered().values()
    first = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        console.print(f"{entry.name:<{first}}  {entry.claim}, {entry.expected}", highlight=False, soft_wrap=True)
        console.print(Padding(Text(entry.reason or entry.source, style="dim"), (0, 0, 0, 2)))
    return AS_EXPECTED


def _audit(options: argparse.Namespace) -> int:
    trials = whole_at_least(options.trials, LEAST_TRIALS, "--trials")
    confidence = fraction(options.confidence, "--confidence", open_below=True)
    seed = entropy(options.seed)
    if options.jobs is not None and options.jobs == 0:
        raise AuditError("--jobs is 0; it must be a number of workers, or negative to count back from all cores.")
    entries = chosen(options.names)
    if options.out is not None:
        _writable(options.out)

    done: list[AuditResult] = []
    status = AS_EXPECTED
    with progress.bar(len(entries), Console(stderr=True)) as bar:
        try:
            audits = suite.run(
                entries,
                trials=trials,
                family_confidence=confidence,
                seed=seed,
                n_jobs=options.jobs,
                progress=bar.step,
            )
            for result in audits:
                done.append(result)  # one at a time: Ctrl-C keeps what is done
                bar.finished(result.mechanism, len(done))
        except KeyboardInterrupt:
            status = INTERRUPTED
    if options.out is not None and done:
        _write(done, confidence, options.out)
    if status == INTERRUPTED:
        kept = f"{len(done)} finished audits are in {options.out}" if options.out else "nothing was written"
        print(f"epsaudit: interrupted; {kept}.", file=sys.stderr)
        return status
    _show(done, confidence, seed)
    return SURPRISED if any(result.surprising for result in done) else AS_EXPECTED


def _compare(options: argparse.Namespace) -> int:
    drift = compare.compare(results.load(options.old), results.load(options.new), options.error)
    print(drift)
    if not drift.comparisons:
        raise AuditError(f"Nothing in {options.new} can be compared with {options.old}.")
    return SURPRISED if drift.moved else AS_EXPECTED


def _recount(options: argparse.Namespace) -> int:
    old = results.load(options.old)
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
    print(f"{len(counted)} results recounted with seed {seed}: {options.out}")
    return AS_EXPECTED


def _show(done: Sequence[AuditResult], confidence: float, seed: int) -> None:
    console = Console()
    if len(done) == 1:
        console.print(str(done[0]), highlight=False, markup=False, soft_wrap=True)
        return
    console.print(table.render(done, console.width), no_wrap=True, crop=False)
    console.print(f"{table.caption(done, confidence)} Seed {seed}.", highlight=False)


def _write(done: Sequence[AuditResult], confidence: float, out: Path) -> None:
    results.save(done, out / "audit.json")
    results.write_whole(out / "audit.csv", table.to_csv(done))
    drawn = figure.certified_against_proven(done, confidence)
    for kind in ("png", "pdf"):
        results.write_whole(out / f"audit.{kind}", style.render(drawn, kind))


def _writable(out: Path) -> None:
    """Raise before any run if results could not be written after the last."""
    probe = out / ".epsaudit"
    made = not out.exists()
    results.write_whole(probe, "")
    probe.unlink()
    if made:
        out.rmdir()


def _number(text: str) -> float:
    """Read '1000000' or '1e6'; `whole_at_least` turns it into a count or a sentence."""
    return float(text)


if __name__ == "__main__":
    sys.exit(main())
