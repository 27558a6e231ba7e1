"""``epsaudit audit``, ``freeze``, ``list``, ``hunt`` and ``trace``: what is registered, one's own object, or a program.

An audit prints a table and writes files. Ctrl-C and SIGTERM keep what is finished.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import io
import json
import shlex
import shutil
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epsaudit.audits import suite
from epsaudit.audits.sequential import SequentialResult
from epsaudit.audits.spec import check_n_jobs, check_trials
from epsaudit.claims.definitions import CLAIMS, Claim, claim_from_numbers
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError, MissingExtraError, left_out, meant, needs
from epsaudit.results import result as results
from epsaudit.results.result import AuditResult, Result
from epsaudit.running import provenance, registry
from epsaudit.running.files import refuse_unwritable, write_whole
from epsaudit.running.identity import digest
from epsaudit.running.programs import command, with_tuples
from epsaudit.running.registry import Entry, Listed, chosen, matching, own_object, registered
from epsaudit.running.served import Served, stated_claims
from epsaudit.running.streams import entropy
from epsaudit.text import for_json
from epsaudit.tools.cli import AS_EXPECTED, INTERRUPTED, SURPRISED, Words, read_json, recorded, say_json, sayer, those
from epsaudit.tools.hunting import hunt as hunting
from epsaudit.tools.hunting.description import Candidate, Description, Table, relation_named
from epsaudit.tools.hunting.hunt import Finding
from epsaudit.tools.hunting.parameters import Options, candidates, description_at, read_schema
from epsaudit.tools.reporting import tables
from epsaudit.tools.reporting.progress import Display

HUNTED = (
    tables.Column("number", "audit", "count"),
    tables.Column("verdict", "verdict"),
    tables.Column("proven", "claimed", "number"),
    tables.Column("certified", "certified", "lower"),
    tables.Column("runs", "runs", "count"),
    tables.Column("tried", "what was tried"),
)
Pairs = Sequence[tuple[str, str]]
"""Pairs of datasets as they are typed, in JSON."""


def audit(
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
    **program: Any,
) -> int:
    """Audit, print and write; ``program`` are the options of a program, which `entries_of` takes."""
    runs = check_trials(trials if trials is not None else 100_000 if library else 1_000_000, "--trials")
    if seed is not None:
        entropy(seed)
    check_n_jobs(jobs, "--jobs")
    if out is not None:
        refuse_unwritable(out / "audit.json")
    missing: list[str] = []
    if library:
        if any(value for name, value in program.items() if name != "timeout"):
            other = "--command and what goes with it are another way"
            raise AuditError(f"--library knows its programs, pairs and claims; {other}.")
        if cluster is not None:
            raise AuditError("--library runs in environments of this machine; it does not go with --cluster.")
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
        entries = entries_of(names, by_value=cluster is not None, **program)
    with contextlib.ExitStack() as stack:
        if cluster is not None:
            from epsaudit.running.workers import cluster as workers_of

            stack.enter_context(workers_of(cluster))
        record = None
        if checkpoint is not None:
            record = stack.enter_context(suite.checkpointed(checkpoint, entries, runs, confidence, seed, stop_early))
        root = entropy(seed) if record is None else record.seed
        stack.enter_context(provenance.typed(recorded(root)))
        display = stack.enter_context(Display(len(entries), quiet=quiet or as_json))
        done: list[Result] = []
        interrupted = False
        with _terminable():
            try:
                how: Any = {"trials": runs, "family_confidence": confidence, "seed": root, "n_jobs": jobs}
                how |= {"stop_early": stop_early, "progress": display.callback, "checkpoint": record}
                for result in suite.run(entries, **how):
                    done.append(result)  # one at a time: Ctrl-C keeps what is done
                    display.finish_one()
            except KeyboardInterrupt:
                interrupted = True
        if out is not None and done:
            _write(done, confidence, out)
        if interrupted:
            kept = [f"{len(done)} finished audits are in {out}"] if out is not None and done else []
            kept += [f"the same command goes on from the chunks in {checkpoint}"] if checkpoint is not None else []
            nothing = "nothing was written (--checkpoint FILE would have kept finished chunks)"
            print(f"epsaudit: interrupted; {', and '.join(kept) or nothing}.", file=sys.stderr)
            return INTERRUPTED
    if as_json:
        print(results.text(done), end="")
    elif len(done) == 1 and not quiet:
        print(done[0])
    elif not quiet:
        tables.print_table(tables.result_rows(done), tables.RESULT_COLUMNS)
        for result in done:
            if result.violates_claim:  # the event gives it away
                print(textwrap.shorten(f"{result.mechanism}: {result.describe_event()}", 160))
        print(textwrap.fill(f"{tables.caption(done, confidence)} Seed {root}.", shutil.get_terminal_size().columns))
    for sentence in missing:
        print(f"epsaudit: {sentence}", file=sys.stderr)
    bad = any(result.surprising or (result.expected is None and result.violates_claim) for result in done)
    return SURPRISED if missing or bad else AS_EXPECTED


def numbers_of_claim(options: Mapping[str, float | None]) -> dict[str, float]:
    """Return the numbers of a claim that were given."""
    return {name: value for name, value in options.items() if value is not None}


def claim_of(numbers: dict[str, float], who: str) -> Claim:
    """Return the claim that these numbers make; where they make none, an `AuditError` says ``who`` needs one."""
    claim = claim_from_numbers(numbers)
    if claim is None:
        words = "; ".join(" ".join(f"--{name}" for name in names) for names in CLAIMS)
        raise AuditError(f"{who} needs a claim to audit, one of: {words}.")
    return claim


def entries_of(
    names: Words,
    *,
    by_value: bool = False,
    program: str | None,
    pair: Pairs,
    timeout: float,
    fresh: bool,
    **numbers: Any,
) -> list[Entry]:
    """Return the registered mechanisms, or the program, that the options name."""
    known = numbers_of_claim(numbers)
    if program is None:
        if pair or known:
            raise AuditError("--pair and the claim's numbers go with --command; other mechanisms know their own.")
        return chosen(names, by_value=by_value)
    if names:
        raise AuditError(f"Give either --command or names, not both ({names[0]!r}).")
    if not pair:
        what = "--command needs two neighbouring datasets, for instance"
        raise AuditError(f"""{what} --pair '["ann"]' '["ann", "bob"]'.""")
    mechanism: Any = command(program, pairs=_pairs(pair), timeout=timeout, fresh=fresh)
    return [Entry(mechanism.name, mechanism, claim_of(known, "--command"), expected=None)]


def _pairs(pair: Pairs) -> list[DatasetPair]:
    return [DatasetPair(*(read_json(one, "--pair", with_tuples) for one in both)) for both in pair]


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


def _write(done: Sequence[Result], confidence: float, out: Path) -> None:
    """Write what needs no extra first, so that it is there whatever else is missing."""
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
        write_whole(out / f"audit.{kind}", figures.render(drawn, kind))
    write_whole(out / "audit.html", page.render(done, confidence, str(out / "audit.json")))


def freeze_test(
    names: Words,
    *,
    out: Path,
    trials: float,
    runs: int,
    false_alarm: float,
    seed: int | None,
    quiet: bool,
    **program: Any,
) -> int:
    """``epsaudit freeze``: learn what to count and how to bet, and write a frozen test of one mechanism."""
    from epsaudit.tools.testing.freezing import freeze  # which sequential audits come with

    refuse_unwritable(out)
    if not names and program["program"] is None:
        raise AuditError("freeze needs one mechanism: a name, package.module:object, or --command.")
    numbers = numbers_of_claim({name: program[name] for name in ("epsilon", "delta", "order", "rho", "mu")})
    given = program["pair"] or numbers
    mechanism: Any
    if program["program"] is None and given and len(names) == 1 and ":" in names[0]:  # an object of the user's own
        mechanism, pairs = own_object(names[0]), _pairs(program["pair"]) or None
        claim = claim_of(numbers, names[0]) if numbers else None
    else:
        entries = entries_of(names, **program)
        if len(entries) != 1:
            raise AuditError(f"freeze takes one mechanism at a time; these are {len(entries)}.")
        mechanism, claim, pairs = entries[0].mechanism, entries[0].claim, None
    root, trials = entropy(seed), check_trials(trials, "--trials")
    test = freeze(mechanism, pairs, claim=claim, trials=trials, seed=root, runs=runs, false_alarm=false_alarm)
    test.save(out)
    correct, wrong, none = test.learnt
    say = sayer(quiet)
    say(f"{out}: {test.text}")
    say(f"{correct:,} of {correct + wrong + none:,} runs guessed right, {wrong:,} wrong; seed {root}")
    return AS_EXPECTED


def listing(pattern: str | None, *, long: bool, library: str | None, as_json: bool, quiet: bool) -> int:
    """List the mechanisms whose name matches the pattern, or holds it."""
    groups: dict[str, Sequence[Entry | Listed]] = {}
    if library is None:
        groups[""] = list(registered().values())
    else:
        for one in [registry.library(library)] if library else registry.libraries().values():
            built = one.built() or "not installed yet: the first audit does that"
            groups[f"--library {one.name}: {one.version}, {built}"] = one.rows
    names = [row.name for rows in groups.values() for row in rows]
    kept = {name for name in names if pattern is None or pattern in name or fnmatch.fnmatchcase(name, pattern)}
    if pattern is not None and not kept:
        raise AuditError(f"Nothing that is listed matches {pattern!r}.{meant(pattern, names)}")
    say, listed, first = sayer(quiet or as_json), [], max(map(len, kept), default=0)
    for heading, rows in groups.items():
        shown = [row for row in rows if row.name in kept]
        if heading and shown:
            say(heading)
        for row in shown:
            try:
                claim = str(row.stated_claim if hasattr(row, "stated_claim") else row.claim)
            except AuditError as error:  # it cannot be calculated here
                claim = f"({error})"
            say(f"{row.name:<{first}}  {claim}, {row.expected}" + f"\n  {row.reason or row.source}" * long)
            listed.append({"name": row.name, "claim": claim, **those(row, "expected", "source", "reason")})
    say_json(as_json, listed)
    return AS_EXPECTED


def hunt(
    words: Words,
    *,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    timeout: float,
    fresh: bool,
    claim: str | None,
    jobs: int | None,
    **asked: Any,
) -> int:
    """Hunt, print and write, where no other hunt does; ``asked`` are its options, and what `_candidates` takes."""
    if out is not None:
        refuse_unwritable(out / "hunt.json")
    if len(words) not in (1, 2):
        raise AuditError(f"hunt takes an environment and module:function, or this alone; these are {len(words)} words.")
    environment, function = words if len(words) == 2 else (None, words[0])
    described = (asked.pop(name) for name in ("schema", "pair", "parameters", "adjacency", "data"))
    numbers = numbers_of_claim({name: asked.pop(name) for name in ("epsilon", "delta", "order", "rho", "mu")})
    if claim is not None and numbers:
        raise AuditError("Give either --claim, which reads what the library states, or the numbers of a claim.")
    claimed: Any = None if claim is not None else claim_of(numbers, "A hunt")
    known, describe, relation, form = _candidates(*described)
    if claim is not None:
        values = list({digest(dict(one.parameters)): one.parameters for one in known}.values())
        claimed = stated_claims(claim, environment, values, timeout=timeout)

    def hold(number: int, finding: Finding, seed: int) -> None:
        """Write a finding as soon as it is certified."""
        for which, one in (("refuted", finding), ("strongest", finding.strongest)):
            if one is not None and out is not None:
                results.save([_told(one, form, seed)], out / f"{which}-{number}.json")

    with Display(quiet=quiet or as_json) as display:
        asked |= {"adjacency": relation, "describe": describe, "n_jobs": jobs}
        options = Options(**asked, progress=display.say, found=hold, name=function)
        target = Served(function, environment, data=form, timeout=timeout, fresh=fresh)
        found = hunting.hunt(target, known, claim=claimed, options=options)
    findings = [dataclasses.replace(one, result=_told(one, form, found.seed)) for one in found.findings]
    rows = found.rows()
    facts = {
        **those(found, "name", "candidates", "screened", "left_out", "runs", "seconds", "seed"),
        **those(options, "confidence", "trials", "witnesses"),
        "adjacency": None if relation is None else str(relation),
        "sentence": found.sentence(),
        "verdicts": found.verdicts(),
        "audits": rows,
    }
    if out is not None:
        write_whole(out / "hunt.json", json.dumps(for_json(facts), indent=1, ensure_ascii=False))
        write_whole(out / "hunt.md", f"{tables.to_markdown(rows, HUNTED)}\n{found.sentence()}\n")
        if found.audits:
            results.save(found.audits, out / "audited.json")
    say_json(as_json, {**facts, "findings": [one.to_dict() for one in findings]})
    say = sayer(quiet or as_json)
    for one in findings:
        say(f"{one}\n")
    if rows:
        drawn = io.StringIO()
        tables.print_table(rows, HUNTED, file=drawn, width=tables.WIDTH)
        say(drawn.getvalue())
    say(f"{found.sentence()} Seed {found.seed}.")
    if found.interrupted:
        return INTERRUPTED
    if not found.audits and not found.refuted:  # which refutes nothing, and shows nothing either
        raise AuditError(f"Nothing was audited: {next((one.failure for one in found.attempts), 'out of time')}.")
    return SURPRISED if found.refuted else AS_EXPECTED


def _told(finding: Finding, form: str, seed: int) -> AuditResult | SequentialResult:
    """Return a finding's result with its pair in the command, where `epsaudit reproduce` reads it, if JSON can."""
    if (case := finding.as_json()) is None:
        return finding.result
    x, x_prime, arguments = map(json.dumps, case)
    more = shlex.join(["--data", form, "--pair", x, x_prime, "--parameters", arguments])
    execution = {**finding.result.execution, "command": f"{recorded(seed)} {more}"}
    return dataclasses.replace(finding.result, execution=execution)


def trace_function(
    words: Words,
    *,
    pair: Pairs,
    parameters: str | None,
    data: str,
    fresh: bool,
    bits: bool,
    certify: bool,
    trials: float,
    confidence: float,
    timeout: float,
    seed: int,
    as_json: bool,
    quiet: bool,
    **numbers: Any,
) -> int:
    """``epsaudit trace``: trace a function on each pair, and say what is suspected."""
    from epsaudit.tools.tracing import trace

    if len(words) not in (1, 2):
        raise AuditError(
            f"trace takes an environment and module:function, or this alone; these are {len(words)} words."
        )
    python, function = words if len(words) == 2 else (None, words[0])
    known = numbers_of_claim(numbers)
    how: Any = {"claim": claim_of(known, "A trace") if known or certify else None, "seed": seed}
    how |= {"bits": bits, "certify": certify, "trials": trials, "confidence": confidence, "timeout": timeout}
    served = Served(function, python, data, timeout, fresh)(read_json(parameters or "{}", "--parameters"))
    pairs = [DatasetPair(*(read_json(one, "--pair") for one in both)) for both in pair]
    found = [trace(served, one, **how) for one in pairs]
    say_json(as_json, [one.to_dict() for one in found])
    say = sayer(quiet or as_json)
    for one in found:
        say(f"{one}\n" * (len(found) > 1) or str(one))
    surprised = [one.refuted if certify else one.suspicious for one in found]
    return SURPRISED if any(surprised) else AS_EXPECTED


def _candidates(
    schema_file: Path | None, pair: Sequence[tuple[str, str]], given: str | None, relation: str | None, form: str | None
) -> tuple[list[Candidate], Callable[[Any], Description] | None, Adjacency | None, str]:
    adjacency = None if relation is None else relation_named(relation)
    parameters = read_json(given or "{}", "--parameters")
    if schema_file is None and not pair:
        raise AuditError("Give --schema FILE, a description of the data, or --pair X X_PRIME.")
    data, describe = form or "plain", None
    known: list[Candidate] = []
    if schema_file is not None:
        schema = read_schema(schema_file)
        adjacency = adjacency or schema.adjacency
        forms: dict[str, Any] = {"array": "list", "frame": "columns"}  # what the child makes these of is sent

        def describe(values: Any) -> Description:
            nonlocal data
            described = description_at(schema.description, values)
            if isinstance(described, Table) and described.form in forms:
                data = described.form
                return dataclasses.replace(described, form=forms[data])
            return described

        values = {**schema.parameters, **{name: [value] for name, value in parameters.items()}}
        known = candidates(describe, values)  # which says what the data are
        parameters = {name: some[0] for name, some in values.items()}
    if pair:
        pairs = [DatasetPair(*(read_json(one, "--pair") for one in both)) for both in pair]
        known = [dataclasses.replace(hunting.candidate_of(pair, adjacency), parameters=parameters) for pair in pairs]
    return known, describe, adjacency, data
