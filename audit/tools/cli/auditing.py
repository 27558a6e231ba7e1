"""The command ``epsaudit audit``, which prints a table of results and writes files.

Ctrl-C and SIGTERM end the audit, and finished results are kept.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from epsaudit.audits import suite
from epsaudit.audits.spec import check_n_jobs, check_trials
from epsaudit.errors import AuditError, MissingExtraError, left_out, needs
from epsaudit.results import result as results
from epsaudit.results.result import Result
from epsaudit.running import provenance, registry
from epsaudit.running.files import refuse_unwritable, write_whole
from epsaudit.running.registry import Entry, matching
from epsaudit.running.streams import entropy
from epsaudit.tools.cli import AS_EXPECTED, INTERRUPTED, SURPRISED, Words, print_json, recorded_command
from epsaudit.tools.cli.targets import read_entries
from epsaudit.tools.reporting import github, tables
from epsaudit.tools.reporting.progress import Display


def audit_mechanisms(
    names: Words,
    *,
    trials: float | None,
    confidence: float,
    seed: int | None,
    jobs: int | None,
    stop_early: bool,
    cluster: str | None,
    library: tuple[str, ...],
    out: Path | None,
    checkpoint: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    dry_run: bool,
    output_format: str,
    program: dict[str, Any],
    numbers: dict[str, float],
) -> int:
    """Run the command ``epsaudit audit``: audit mechanisms, print the results and write files.

    Most arguments are options of the command. ``program`` contains the options that describe an external program
    (--command, --pair, --timeout, --fresh), and ``numbers`` the parameters of the claim, such as epsilon. Returns the
    exit status. It is 1 if a claim was refuted unexpectedly, if a mechanism known to be incorrect was not refuted, or
    if a library could not be installed.
    """
    runs = check_trials(trials if trials is not None else 100_000 if library else 1_000_000, "--trials")
    if seed is not None:
        entropy(seed)
    check_n_jobs(jobs, "--jobs")
    if out is not None and not dry_run:
        refuse_unwritable(out / "audit.json")
    missing: list[str] = []
    if library:
        if numbers or any(value for name, value in program.items() if name != "timeout"):
            raise AuditError(
                "--library already contains programs, pairs and claims; leave out --command and its options."
            )
        if dry_run:
            raise AuditError("--dry-run runs mechanisms to time them, and would install --library; leave out one.")
        if cluster is not None:
            raise AuditError("--library runs on this machine and cannot be combined with --cluster; leave out one.")
        entries: list[Entry] = []
        found = [registry.library(name) for name in dict.fromkeys(library)]
        for one, rows in zip(found, matching(found, names).values(), strict=True):
            try:
                entries += one.entries(rows) if rows else []
            except AuditError as error:
                missing.append(str(error))
        if not entries:
            raise AuditError(" ".join(missing))
    else:
        entries = read_entries(names, by_value=cluster is not None, numbers=numbers, **program)
    if dry_run:
        from epsaudit.tools.cli import planning  # imported only when needed

        planned = planning.plan(entries, runs, confidence, jobs)
        print_json(as_json, planned)
        if not (quiet or as_json):
            tables.print_table(planned, planning.PLAN_COLUMNS)
            sentence = planning.describe(planned, confidence, jobs)
            print(textwrap.fill(sentence, shutil.get_terminal_size().columns))
        return AS_EXPECTED
    done: list[Result] = []
    interrupted = False
    with contextlib.ExitStack() as stack:
        if cluster is not None:
            from epsaudit.running.workers import cluster as workers_of

            stack.enter_context(workers_of(cluster))
        record = None
        if checkpoint is not None:
            record = stack.enter_context(suite.open_checkpoint(checkpoint, entries, runs, confidence, seed, stop_early))
        root = entropy(seed) if record is None else record.seed
        stack.enter_context(provenance.typed(recorded_command(root)))
        display = stack.enter_context(Display(len(entries), quiet=quiet or as_json))
        with _sigterm_as_interrupt():
            try:
                how: Any = {"trials": runs, "family_confidence": confidence, "seed": root, "n_jobs": jobs}
                how |= {"stop_early": stop_early, "progress": display.callback, "checkpoint": record}
                for result in suite.run_suite(entries, **how):
                    done.append(result)  # results are kept one by one, so that Ctrl-C keeps finished ones
                    display.finish_one()
            except KeyboardInterrupt:
                interrupted = True
        if out is not None and done:
            _write_files(done, confidence, out)
    _print_results(done, confidence, root, as_json, quiet)
    if verbose and len(done) > 1 and not (quiet or as_json):
        for result in done:
            print(f"\n{result}")
    if output_format == "github":
        mechanisms = {entry.name: entry.mechanism for entry in entries}
        for result in done:
            if result.violates_claim and result.expected != "violated":
                place = github.place_of(mechanisms[result.mechanism]) or (None, None)
                print(github.error_line(f"{result.sentence()} {result.describe_event()}", "privacy audit", *place))
    if interrupted:
        was, are = ("was", "is") if len(done) == 1 else ("were", "are")
        where = "" if out is None else f", and {are} in {out}"
        said = [f"{len(done)} of {len(entries)} audits {was} finished{where}"] if done else []
        said += [f"the same command goes on from the chunks in {checkpoint}"] if checkpoint is not None else []
        nothing = "nothing was finished (--checkpoint FILE would have kept finished chunks)"
        print(f"epsaudit: interrupted; {'; '.join(said) or nothing}.", file=sys.stderr)
        return INTERRUPTED
    for sentence in missing:
        print(f"epsaudit: {sentence}", file=sys.stderr)
    bad = any(result.surprising or (result.expected is None and result.violates_claim) for result in done)
    return SURPRISED if missing or bad else AS_EXPECTED


def _print_results(done: Sequence[Result], confidence: float, seed: int, as_json: bool, quiet: bool) -> None:
    """Print the finished results as JSON, as the full text of a single result, or as a table of several results.

    Below a table, the events that refute claims are printed.
    """
    if as_json:
        print(results.format_file(done), end="")
    elif len(done) == 1 and not quiet:
        print(done[0])
    elif done and not quiet:
        tables.print_table(tables.result_rows(done), tables.RESULT_COLUMNS)
        for result in done:
            if result.violates_claim:  # the event shows how the mechanism leaks
                print(textwrap.shorten(f"{result.mechanism}: {result.describe_event()}", 160))
        print(textwrap.fill(f"{tables.caption(done, confidence)} Seed {seed}.", shutil.get_terminal_size().columns))


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Raise `KeyboardInterrupt` on SIGTERM, too, inside this context. Batch systems end a job with SIGTERM."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=".*still being processed by the workers have been cancelled")
        with contextlib.suppress(ValueError):  # raised outside the main thread
            before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt
            stack.callback(signal.signal, signal.SIGTERM, before)
        yield


def _write_files(done: Sequence[Result], confidence: float, out: Path) -> None:
    """Write the result files of an audit to the folder ``out``: JSON, CSV, LaTeX, figures and an HTML page.

    Figures and page need the optional dependencies of the extra ``report``. They are written last, so that the other
    files exist even if these dependencies are missing.
    """
    results.save(done, out / "audit.json")
    write_whole(out / "audit.csv", tables.to_csv([result.row() for result in done]))
    write_whole(out / "audit.tex", tables.results_to_latex(done, confidence))
    try:
        with needs("report"):
            from epsaudit.tools.reporting import figures, page
    except MissingExtraError as error:
        left_out("Figures and page are", error)
        return
    drawn = figures.plot_certified_against_proven(done, confidence)
    for kind in ("png", "pdf"):
        write_whole(out / f"audit.{kind}", figures.render_figure(drawn, kind))
    write_whole(out / "audit.html", page.render_page(done, confidence, str(out / "audit.json")))
