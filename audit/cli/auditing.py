"""``epsaudit audit`` and ``freeze``: audit what is registered, one's own object, or a program, or freeze a test of it.

An audit prints a table and writes files. Ctrl-C and SIGTERM keep what is finished. With ``--stop-early`` audits are
sequential, shared out as `epsaudit.audits.suite` shares those of fixed size."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from epsaudit.adapters.external import command, with_tuples
from epsaudit.adapters.registry import Entry, chosen, library, matching, own_object
from epsaudit.audits import suite
from epsaudit.audits.question import Question, jobs_of, recording, trials_of
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.sequential.auditing import refuse_if_irrefutable
from epsaudit.claims.accounting import CLAIMS, claim_from_numbers
from epsaudit.claims.definitions import Claim
from epsaudit.cli import AS_EXPECTED, INTERRUPTED, SURPRISED, read_json, sayer, those
from epsaudit.data.neighbours import DatasetPair
from epsaudit.engine import provenance
from epsaudit.engine.sampling import ProgressCallback
from epsaudit.engine.streams import entropy
from epsaudit.engine.workers import Workers
from epsaudit.errors import AuditError, MissingExtraError, left_out, needs
from epsaudit.reporting import progress, tables
from epsaudit.reporting.studies import write_figure
from epsaudit.results import result as results
from epsaudit.results import stored
from epsaudit.results.result import Result


def audit(options: SimpleNamespace) -> int:
    """Audit, print and write."""
    given = options.trials if options.trials is not None else 100_000 if options.library else 1_000_000
    trials = trials_of(given, "--trials")
    if options.seed is not None:
        entropy(options.seed)
    jobs_of(options.jobs, "--jobs")
    if options.out is not None:
        _refuse_if_unwritable(options.out)
    entries, missing = _of_libraries(options) if options.library else (entries_of(options), [])
    audits = SimpleNamespace(run=_run_early, checkpointed=_checkpointed_early) if options.stop_early else suite

    with contextlib.ExitStack() as stack:
        if options.cluster is not None:
            from epsaudit.engine.workers import cluster

            stack.enter_context(cluster(options.cluster))
        checkpoint = None
        if options.checkpoint is not None:
            opened = audits.checkpointed(options.checkpoint, entries, trials, options.confidence, options.seed)
            checkpoint = stack.enter_context(opened)
        seed = entropy(options.seed) if checkpoint is None else checkpoint.seed
        stack.enter_context(provenance.typed(options.typed(seed=seed)))
        started = time.perf_counter()
        done, interrupted = _audited(options, audits, entries, trials, seed, checkpoint)
        if options.out is not None and done:
            _write(done, options.confidence, options.out)
            if not (interrupted or options.names or options.program or options.library):
                _write_origin(options, done, seed, time.perf_counter() - started)
        if interrupted:
            print(f"epsaudit: interrupted; {_kept(options, done)}.", file=sys.stderr)
            return INTERRUPTED
        _show(options, done, seed)
        for sentence in missing:
            print(f"epsaudit: {sentence}", file=sys.stderr)
        return SURPRISED if missing or any(result.surprising for result in done) else AS_EXPECTED


def _audited(
    options: SimpleNamespace, audits: Any, entries: Sequence[Entry], trials: int, seed: int, checkpoint: Any
) -> tuple[list[Result], bool]:
    """Return the results that were finished, and whether somebody interrupted."""
    done: list[Result] = []
    how = {"trials": trials, "family_confidence": options.confidence, "seed": seed, "n_jobs": options.jobs}
    names = [entry.name for entry in entries]
    with progress.board(names, quiet=options.quiet or options.json) as board, _terminable():
        try:
            for result in audits.run(entries, **how, progress=board.of, checkpoint=checkpoint):
                done.append(result)  # one at a time: Ctrl-C keeps what is done
                board.ended(result.mechanism)
        except KeyboardInterrupt:
            return done, True
    return done, False


def _kept(options: SimpleNamespace, done: Sequence[Result]) -> str:
    parts = []
    if options.out is not None and done:
        parts.append(f"{len(done)} finished audits are in {options.out}")
    if options.checkpoint is not None:
        parts.append(f"the same command goes on from the chunks in {options.checkpoint}")
    keeping = "--out FOLDER would have kept whole audits, --checkpoint FILE the chunks of one"
    advice = keeping if options.stop_early else "--checkpoint FILE would have kept finished chunks"
    return ", and ".join(parts) or f"nothing was written ({advice})"


NO_PAIR = """{} needs two neighbouring datasets, for instance --pair '["ann"]' '["ann", "bob"]'."""


def numbers_of_claim(options: SimpleNamespace) -> dict[str, float]:
    """Return the numbers of a claim that were given."""
    given = those(options, "epsilon", "delta", "order", "rho", "mu")
    return {name: value for name, value in given.items() if value is not None}


def claim_of(numbers: dict[str, float], who: str) -> Claim:
    """Return the claim that these numbers make; where they make none, an `AuditError` says ``who`` needs one."""
    claim = claim_from_numbers(numbers)
    if claim is None:
        words = "; ".join(" ".join(f"--{name}" for name in names) for names in CLAIMS)
        raise AuditError(f"{who} needs a claim to audit, one of: {words}.")
    return claim


def entries_of(options: SimpleNamespace) -> list[Entry]:
    """Return the registered mechanisms, or the program, that the options name."""
    numbers = numbers_of_claim(options)
    if options.program is None:
        if options.pair or numbers:
            raise AuditError("--pair and the claim's numbers go with --command; other mechanisms know their own.")
        return chosen(options.names, by_value=getattr(options, "cluster", None) is not None)
    if options.names:
        raise AuditError(f"Give either --command or names, not both ({options.names[0]!r}).")
    if not options.pair:
        raise AuditError(NO_PAIR.format("--command"))
    mechanism: Any = command(options.program, pairs=_pairs(options), timeout=options.timeout)
    return [Entry(mechanism.name, mechanism, claim_of(numbers, "--command"))]


def _pairs(options: SimpleNamespace) -> list[DatasetPair]:
    return [DatasetPair(*(read_json(one, "--pair", with_tuples) for one in pair)) for pair in options.pair]


def _of_libraries(options: SimpleNamespace) -> tuple[list[Entry], list[str]]:
    """Install the libraries; return the entries to audit, and why the others cannot be."""
    if options.program is not None or options.pair or numbers_of_claim(options):
        other = "--command and what goes with it are another way"
        raise AuditError(f"--library knows its programs, pairs and claims; {other}.")
    if options.cluster is not None:
        raise AuditError("--library runs in environments of this machine; it does not go with --cluster.")
    found = [library(name) for name in dict.fromkeys(options.library)]
    entries: list[Entry] = []
    missing: list[str] = []
    for one, rows in zip(found, matching(found, options.names).values(), strict=True):
        try:
            entries += one.entries(rows) if rows else []
        except AuditError as error:
            missing.append(str(error))
    if not entries:
        raise AuditError(" ".join(missing))
    return entries, missing


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM, by which batch systems end a job, be as gentle as Ctrl-C, and both be told in one sentence."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=".*still being processed by the workers have been cancelled")
        with contextlib.suppress(ValueError):  # not in the main thread
            before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # which raises KeyboardInterrupt
            stack.callback(signal.signal, signal.SIGTERM, before)
        yield


def _show(options: SimpleNamespace, done: Sequence[Result], seed: int) -> None:
    if options.json:
        print(results.text(done), end="")
    elif len(done) == 1 and not options.quiet:
        print(done[0])
    elif not options.quiet:
        from rich.console import Console

        console = Console(markup=False, emoji=False, highlight=False)
        console.print(tables.render(done, console.width), soft_wrap=True)
        console.print(f"{tables.caption(done, options.confidence)} Seed {seed}.")


def _write(done: Sequence[Result], confidence: float, out: Path) -> None:
    """Write what needs no extra first, so that it is there whatever else is missing."""
    results.save(done, out / "audit.json")
    provenance.write_whole(out / "audit.csv", tables.results_to_csv(done))
    provenance.write_whole(out / "audit.tex", tables.results_to_latex(done, confidence))
    try:
        with needs("report"):
            from epsaudit.reporting import figures, page
    except MissingExtraError as error:
        left_out("Figures and page are", error)
        return
    write_figure(out / "audit", figures.certified_against_proven(done, confidence))
    if set(figures.TELLING) <= {result.mechanism for result in done}:
        write_figure(out / "front", figures.front(done, confidence))
    provenance.write_whole(out / "audit.html", page.render(done, confidence, str(out / "audit.json")))


def _write_origin(options: SimpleNamespace, done: Sequence[Result], seed: int, seconds: float) -> None:
    """Say beside the table of everything that is registered which code it depends on, and what it shows."""
    modules = sorted({point.module for point in entry_points(group="epsaudit.registry")})
    ran = {**provenance.execution(seconds), "seconds": round(seconds, 1)}
    facts = {"seed": seed, **stored.provenance_of("epsaudit.audits.suite", *modules), "execution": ran}
    stored.write_provenance(options.out, facts)
    question = "What does an audit certify of every registered mechanism, beside the claim and the exact value?"
    stored.write_readme(options.out, question, tables.caption(done, options.confidence), facts)


def _refuse_if_unwritable(out: Path) -> None:
    """Raise before any run if results could not be written after the last."""
    probe = out / ".epsaudit"
    made = not out.exists()
    provenance.write_whole(probe, "")
    probe.unlink()
    if made:
        out.rmdir()


def freeze_test(options: SimpleNamespace) -> int:
    """``epsaudit freeze``: learn what to count and how to bet, and write a frozen test of one mechanism."""
    from epsaudit.testing.frozen import freeze  # which sequential audits come with

    if options.names == () and options.program is None:
        raise AuditError("freeze needs one mechanism: a name, package.module:object, or --command.")
    mechanism, claim, pairs = _to_freeze(options)
    seed = entropy(options.seed)
    trials, how = trials_of(options.trials, "--trials"), those(options, "runs", "false_alarm")
    test = freeze(mechanism, pairs, claim=claim, trials=trials, seed=seed, **how)
    test.save(options.out)
    correct, wrong, none = test.learnt
    say = sayer(options)
    say(f"{options.out}: {test.text}")
    say(f"{correct:,} of {correct + wrong + none:,} runs guessed right, {wrong:,} wrong; seed {seed}")
    return AS_EXPECTED


def _to_freeze(options: SimpleNamespace) -> tuple[Any, Claim | None, list[DatasetPair] | None]:
    """Return what is frozen, its claim, and the pairs where they are given for an object of the user's own."""
    numbers = numbers_of_claim(options)
    if options.program is None and (options.pair or numbers) and len(options.names) == 1 and ":" in options.names[0]:
        found = own_object(options.names[0])
        if not options.pair and not hasattr(found, "worst_pairs"):
            raise AuditError(NO_PAIR.format(options.names[0]))
        known = numbers or getattr(found, "claim", None) is None  # else it has one
        return found, claim_of(numbers, options.names[0]) if known else None, _pairs(options) or None
    entries = entries_of(options)
    if len(entries) != 1:
        raise AuditError(f"freeze takes one mechanism at a time; these are {len(entries)}.")
    return entries[0].mechanism, entries[0].claim, None


def _run_early(
    entries: Sequence[Entry],
    *,
    trials: int,
    family_confidence: float,
    seed: int,
    n_jobs: int | None,
    progress: Callable[[str], ProgressCallback | None],
    checkpoint: SimpleNamespace | None,
) -> Iterator[SequentialResult]:
    """As `epsaudit.audits.suite.run`; ``checkpoint`` is what `checkpointed` yields, of one entry."""
    for entry in entries:
        refuse_if_irrefutable(entry.claim)
    alone = len(entries) == 1
    shared: dict[str, Any] = {"trials": trials, "confidence": suite.confidence_of_each(entries, family_confidence)}
    shared |= {"n_jobs": n_jobs if alone else 1, "checkpoint": checkpoint and checkpoint.path}
    seeds = (seed if alone else suite.entry_seed(seed, entry.name) for entry in entries)
    tasks = (
        (entry, {**shared, "seed": own, "progress": progress(entry.name)})
        for entry, own in zip(entries, seeds, strict=True)
    )
    for _, result in Workers(1 if alone else n_jobs, "processes").each(
        _audit_early, None, tasks, trials, in_order=True
    ):
        known = {**result.execution, "command": provenance.command()}  # which a worker does not know
        yield result if alone else dataclasses.replace(result, provenance=provenance.provenance(), execution=known)


def _checkpointed_early(
    path: Path, entries: Sequence[Entry], trials: int, confidence: float, seed: int | None
) -> contextlib.AbstractContextManager[SimpleNamespace]:
    """Make or check the checkpoint of one audit, and yield its path and its seed; the audit opens it again."""
    if len(entries) != 1:
        raise AuditError(f"--checkpoint keeps one audit that stops early, and these are {len(entries)}; name one.")
    (entry,) = entries
    refuse_if_irrefutable(entry.claim)
    asked = (entry.mechanism, entry.pairs, entry.claim, None, 0.0, None)
    question = Question.of(*asked, trials, confidence, entry.witnesses)
    with recording(path, question, seed, {"kind of audit": "sequential", "near": None}) as (_, root):
        return contextlib.nullcontext(SimpleNamespace(path=path, seed=root))


def _audit_early(_: None, task: tuple[Entry, dict[str, Any]]) -> SequentialResult:
    entry, how = task
    result = audit_sequentially(entry.mechanism, entry.pairs, claim=entry.claim, witnesses=entry.witnesses, **how)
    return dataclasses.replace(result, mechanism=entry.name, expected=entry.expected)
