"""``epsaudit hunt``: find datasets and parameters that refute a claim, shrink them, and write what shows it."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from epsaudit.audits.question import trials_of
from epsaudit.cli import AS_EXPECTED, INTERRUPTED, SURPRISED, read_json, say_json, sayer, those
from epsaudit.cli.auditing import claim_of, numbers_of_claim
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.engine.identity import digest
from epsaudit.engine.provenance import write_whole
from epsaudit.engine.streams import entropy
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.hunting.certifying import Finding
from epsaudit.hunting.description import Candidate, Description, Table
from epsaudit.hunting.hunt import candidate_of, hunt
from epsaudit.hunting.options import Options
from epsaudit.hunting.outcome import Hunt, reserved
from epsaudit.hunting.parameters import candidates, description_at, read_schema, served, stated_claims
from epsaudit.hunting.relations import NAMED, relation_named
from epsaudit.reporting import tables
from epsaudit.reporting.progress import LOG_SECONDS
from epsaudit.reporting.studies import print_table
from epsaudit.results import result as results
from epsaudit.text import for_json

NUMBER, VERDICT = tables.Column("number", "audit", "count"), tables.Column("verdict", "verdict")
TRIED = tuple(tables.Column(name, name) for name in ("parameters", "tries", "relation"))
BOUNDS = (
    tables.Column("proven", "claimed", "number"),
    tables.Column("certified", "certified", "lower"),
    tables.Column("runs", "runs", "count"),
)
COLUMNS = (NUMBER, *TRIED, *BOUNDS, VERDICT)
SHOWN = (NUMBER, VERDICT, *BOUNDS, tables.Column("tried", "what was tried"))
WIDTH = 80
"""Characters of a line of a terminal."""


def run(options: SimpleNamespace) -> int:
    """Hunt, print and write, where no other hunt does."""
    out, checkpoint = options.out, options.checkpoint
    if out is not None and checkpoint is not None and out.resolve() == checkpoint.resolve():
        raise AuditError(f"--out and --checkpoint are both {out}; give two folders.")
    with contextlib.nullcontext() if out is None else reserved(out):
        return _run(options)


def _run(options: SimpleNamespace) -> int:
    words = options.words
    if len(words) not in (1, 2):
        raise AuditError(f"hunt takes an environment and module:function, or this alone; these are {len(words)} words.")
    environment, function = words if len(words) == 2 else (None, words[0])
    numbers = numbers_of_claim(options)
    if options.claim is not None and numbers:
        raise AuditError("Give either --claim, which reads what the library states, or the numbers of a claim.")
    claim: Any = None if options.claim is not None else claim_of(numbers, "A hunt")
    known, describe, adjacency, data = _candidates(options)
    if options.claim is not None:
        values = list({digest(dict(one.parameters)): one.parameters for one in known}.values())
        claim = stated_claims(options.claim, environment, values, timeout=options.timeout)
    seed = entropy(options.seed) if options.seed is not None or options.checkpoint is None else None
    with _progress(options) as say:
        asked = Options(
            adjacency=adjacency,
            describe=describe,
            audits=whole_at_least(options.audits, 1, "--audits"),
            trials=trials_of(options.trials, "--trials"),
            seed=seed,
            n_jobs=options.jobs,
            progress=say,
            name=function,
            **those(options, "confidence", "seconds", "witnesses", "checkpoint"),
        )
        target = served(function, environment, data=data, timeout=options.timeout)
        found = hunt(target, known, claim=claim, options=asked)
    given = {
        **{name: repr(number) for name, number in numbers.items()},
        "claim": options.claim,
        "adjacency": next((name for name, relation in NAMED.items() if relation == adjacency), None),
        **{name: str(getattr(asked, name)) for name in ("witnesses", "confidence", "trials")},
    }
    command = ["epsaudit", "hunt", *words, "--data", data]
    command += [word for name, one in given.items() if one is not None for word in (f"--{name}", one)]
    findings = [_with_command(one, command, found.seed) for one in found.findings]
    if options.out is not None:
        _write(found, findings, options.out)
    say_json(options, {**_facts(found), "findings": [one.to_dict() for one in findings]})
    tell = sayer(options)
    for one in findings:
        tell(f"{one}\n")
    if found.attempts:
        tell(_table(found.rows()))
    tell(f"{found.sentence()} Seed {found.seed}.")
    if found.interrupted:
        return INTERRUPTED
    if not found.audits:  # which refutes nothing, and shows nothing either
        raise AuditError(f"Nothing was audited: {next((one.failure for one in found.attempts), 'out of time')}.")
    return SURPRISED if found.refuted else AS_EXPECTED


def _table(rows: list[dict[str, Any]]) -> str:
    """One line or more an audit: the verdict with its numbers, and what was tried."""
    shown = []
    for row in rows:
        tried = "; ".join(row[key] for key in ("tries", "relation", "parameters") if row[key])
        shown.append({**row, "tried": f"{tried[:1].upper()}{tried[1:]}."})
    drawn = io.StringIO()
    print_table(shown, SHOWN, file=drawn, width=WIDTH)
    return drawn.getvalue()


def _candidates(
    options: SimpleNamespace,
) -> tuple[list[Candidate], Callable[[Any], Description] | None, Adjacency | None, str]:
    """Candidates, what describes their data, the claim's relation, and what the function takes data as."""
    adjacency = None if options.adjacency is None else relation_named(options.adjacency)
    parameters = read_json(options.parameters or "{}", "--parameters")
    if (options.schema is None) == (not options.pair):
        raise AuditError("Give either --schema FILE, a description of the data, or --pair X X_PRIME.")
    if options.pair:
        pairs = [DatasetPair(*(read_json(one, "--pair") for one in pair)) for pair in options.pair]
        known = [dataclasses.replace(candidate_of(pair, adjacency), parameters=parameters) for pair in pairs]
        return known, None, adjacency, options.data or "plain"
    schema = read_schema(options.schema)
    adjacency = adjacency or schema.adjacency
    forms: dict[str, Any] = {"array": "list", "frame": "columns"}  # as the protocol sends what the child makes these of
    data = options.data or "plain"

    def describe(values: Any) -> Description:
        nonlocal data
        described = description_at(schema.description, values)
        if isinstance(described, Table) and described.form in forms:
            data = described.form
            return dataclasses.replace(described, form=forms[data])
        return described

    values = {**schema.parameters, **{name: [value] for name, value in parameters.items()}}
    known = candidates(describe, values)  # which says what the data are
    return known, describe, adjacency, data


@contextlib.contextmanager
def _progress(options: SimpleNamespace) -> Iterator[Callable[[str], None] | None]:
    """A line that changes on a terminal, one now and then in a log."""
    if options.quiet or options.json:
        yield None
    elif sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("screen") as status:
            yield lambda sentence: status.update(sentence.replace("[", "\\["))
    else:
        said = -LOG_SECONDS

        def say(sentence: str) -> None:
            nonlocal said
            if time.monotonic() - said >= LOG_SECONDS:
                said = time.monotonic()
                print(f"epsaudit: {sentence}", file=sys.stderr, flush=True)

        yield say


def _with_command(finding: Finding, words: list[str], seed: int) -> Finding:
    """Record the command that hunts on this pair alone: `epsaudit reproduce` reads the pair and parameters of it."""
    known = finding.as_json()
    if known is None:
        return finding
    x, x_prime, parameters = map(json.dumps, known)
    command = shlex.join([*words, "--pair", x, x_prime, "--parameters", parameters, "--seed", str(seed)])
    execution = {**finding.result.execution, "command": command}
    return dataclasses.replace(finding, result=dataclasses.replace(finding.result, execution=execution))


def _facts(found: Hunt) -> dict[str, Any]:
    options = found.options
    return {
        **those(found, "name", "candidates", "screened", "left_out", "runs", "seconds", "seed"),
        **those(options, "confidence", "trials", "witnesses"),
        "adjacency": None if options.adjacency is None else str(options.adjacency),
        "sentence": found.sentence(),
        "verdicts": found.verdicts(),
        "audits": found.rows(),
    }


def _write(found: Hunt, findings: list[Finding], out: Path) -> None:
    write_whole(out / "hunt.json", json.dumps(for_json(_facts(found)), indent=1, ensure_ascii=False))
    write_whole(out / "hunt.md", f"{tables.to_markdown(found.rows(), COLUMNS)}\n{found.sentence()}\n")
    for number, one in enumerate(findings, start=1):
        results.save([one.result], out / f"refuted-{number}.json")
        if one.learnt is not None:
            results.save([one.learnt], out / f"learnt-{number}.json")
    if found.audits:
        results.save(found.audits, out / "audited.json")
