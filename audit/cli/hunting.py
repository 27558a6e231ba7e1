"""``epsaudit hunt``: find datasets and parameters that refute a claim, shrink them, and write what shows it."""

from __future__ import annotations

import dataclasses
import io
import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from epsaudit.audits.question import trials_of
from epsaudit.cli import AS_EXPECTED, INTERRUPTED, SURPRISED, read_json, say_json, sayer, those
from epsaudit.cli.auditing import claim_of, numbers_of_claim, refuse_if_unwritable
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.engine.provenance import digest, write_whole
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.hunting.certifying import Finding
from epsaudit.hunting.description import NAMED, Candidate, Description, Table, relation_named
from epsaudit.hunting.hunt import Hunt, candidate_of, hunt
from epsaudit.hunting.parameters import Options, Served, candidates, description_at, read_schema, stated_claims
from epsaudit.reporting import tables
from epsaudit.reporting.progress import Display
from epsaudit.reporting.tables import print_table
from epsaudit.results import result as results
from epsaudit.text import for_json

COLUMNS = (
    tables.Column("number", "audit", "count"),
    tables.Column("verdict", "verdict"),
    tables.Column("proven", "claimed", "number"),
    tables.Column("certified", "certified", "lower"),
    tables.Column("runs", "runs", "count"),
    tables.Column("tried", "what was tried"),
)
WIDTH = 80
"""Characters of a line of a terminal."""


def run(
    words: tuple[str, ...],
    *,
    out: Path | None,
    checkpoint: Path | None,
    as_json: bool,
    quiet: bool,
    schema: Path | None,
    pair: Sequence[tuple[str, str]],
    parameters: str | None,
    adjacency: str | None,
    data: str | None,
    fresh: bool,
    audits: int,
    trials: float,
    seconds: float | None,
    witnesses: str,
    timeout: float,
    confidence: float,
    seed: int | None,
    jobs: int | None,
    claim: str | None,
    **numbers: float | None,
) -> int:
    """Hunt, print and write, where no other hunt does."""
    if out is not None:
        refuse_if_unwritable(out)
    if len(words) not in (1, 2):
        raise AuditError(f"hunt takes an environment and module:function, or this alone; these are {len(words)} words.")
    environment, function = words if len(words) == 2 else (None, words[0])
    given = numbers_of_claim(numbers)
    if claim is not None and given:
        raise AuditError("Give either --claim, which reads what the library states, or the numbers of a claim.")
    claimed: Any = None if claim is not None else claim_of(given, "A hunt")
    known, describe, relation, form = _candidates(schema, pair, parameters, adjacency, data)
    if claim is not None:
        values = list({digest(dict(one.parameters)): one.parameters for one in known}.values())
        claimed = stated_claims(claim, environment, values, timeout=timeout)
    with Display(quiet=quiet or as_json) as display:
        asked = Options(
            adjacency=relation,
            describe=describe,
            audits=whole_at_least(audits, 1, "--audits"),
            trials=trials_of(trials, "--trials"),
            confidence=confidence,
            seconds=seconds,
            witnesses=witnesses,
            checkpoint=checkpoint,
            seed=seed,
            n_jobs=jobs,
            progress=display.say,
            name=function,
        )
        target = Served(function, environment, data=form, timeout=timeout, fresh=fresh)
        found = hunt(target, known, claim=claimed, options=asked)
    options = {
        "data": form,
        **{name: repr(number) for name, number in given.items()},
        "claim": claim,
        "adjacency": next((name for name, one in NAMED.items() if one == relation), None),
        **{name: str(getattr(asked, name)) for name in ("witnesses", "confidence", "trials")},
    }
    command = ["epsaudit", "hunt", *words, *["--fresh"] * fresh]
    command += [word for name, one in options.items() if one is not None for word in (f"--{name}", one)]
    findings = []
    for one in found.findings:  # `epsaudit reproduce` reads the pair and parameters of the command
        if (case := one.as_json()) is not None:
            x, x_prime, arguments = map(json.dumps, case)
            own = shlex.join([*command, "--pair", x, x_prime, "--parameters", arguments, "--seed", str(found.seed)])
            execution = {**one.result.execution, "command": own}
            one = dataclasses.replace(one, result=dataclasses.replace(one.result, execution=execution))
        findings.append(one)
    if out is not None:
        _write(found, findings, out)
    say_json(as_json, {**_facts(found), "findings": [one.to_dict() for one in findings]})
    say = sayer(quiet or as_json)
    for one in findings:
        say(f"{one}\n")
    if found.attempts:
        drawn = io.StringIO()
        print_table(_told(found), COLUMNS, file=drawn, width=WIDTH)
        say(drawn.getvalue())
    say(f"{found.sentence()} Seed {found.seed}.")
    if found.interrupted:
        return INTERRUPTED
    if not found.audits:  # which refutes nothing, and shows nothing either
        raise AuditError(f"Nothing was audited: {next((one.failure for one in found.attempts), 'out of time')}.")
    return SURPRISED if found.refuted else AS_EXPECTED


def _candidates(
    schema_file: Path | None, pair: Sequence[tuple[str, str]], given: str | None, relation: str | None, form: str | None
) -> tuple[list[Candidate], Callable[[Any], Description] | None, Adjacency | None, str]:
    """Candidates, what describes their data, the claim's relation, and what the function takes data as."""
    adjacency = None if relation is None else relation_named(relation)
    parameters = read_json(given or "{}", "--parameters")
    if (schema_file is None) == (not pair):
        raise AuditError("Give either --schema FILE, a description of the data, or --pair X X_PRIME.")
    if schema_file is None:
        pairs = [DatasetPair(*(read_json(one, "--pair") for one in both)) for both in pair]
        known = [dataclasses.replace(candidate_of(pair, adjacency), parameters=parameters) for pair in pairs]
        return known, None, adjacency, form or "plain"
    schema = read_schema(schema_file)
    adjacency = adjacency or schema.adjacency
    forms: dict[str, Any] = {"array": "list", "frame": "columns"}  # as the protocol sends what the child makes these of
    data = form or "plain"

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


def _told(found: Hunt) -> list[dict[str, Any]]:
    """The rows of the table, what was tried in one cell."""
    told = []
    for row in found.rows():
        tried = "; ".join(row[key] for key in ("tries", "relation", "parameters") if row[key])
        told.append({**row, "tried": f"{tried[:1].upper()}{tried[1:]}."})
    return told


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
    write_whole(out / "hunt.md", f"{tables.to_markdown(_told(found), COLUMNS)}\n{found.sentence()}\n")
    for number, one in enumerate(findings, start=1):
        results.save([one.result], out / f"refuted-{number}.json")
    if found.audits:
        results.save(found.audits, out / "audited.json")
