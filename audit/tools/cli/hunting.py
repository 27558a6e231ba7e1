"""The command ``epsaudit hunt``, which searches for datasets and parameters that refute a claim."""

from __future__ import annotations

import dataclasses
import io
import json
import shlex
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from epsaudit.audits.sequential import SequentialResult
from epsaudit.codec import to_json
from epsaudit.data.neighbours import Adjacency, adjacency_of
from epsaudit.errors import AuditError
from epsaudit.results import result as results
from epsaudit.results.result import AuditResult
from epsaudit.running.files import refuse_unwritable, write_whole
from epsaudit.running.served import Served, stated_claims
from epsaudit.text import lower
from epsaudit.tools.cli import (
    AS_EXPECTED,
    INTERRUPTED,
    SURPRISED,
    Words,
    attributes,
    print_json,
    printer,
    read_json,
    recorded_command,
)
from epsaudit.tools.cli.targets import read_function, read_pairs, required_claim
from epsaudit.tools.hunting import hunt as hunting
from epsaudit.tools.hunting.candidate import Candidate, as_candidate
from epsaudit.tools.hunting.description import Description, Table
from epsaudit.tools.hunting.options import Options
from epsaudit.tools.hunting.parameters import candidates, description_at, read_schema
from epsaudit.tools.hunting.relations import relation_named
from epsaudit.tools.hunting.result import Finding
from epsaudit.tools.hunting.target import HuntTarget
from epsaudit.tools.reporting import tables
from epsaudit.tools.reporting.progress import Display

NOT_REFUTED = "not refuted"
MAX_ROWS = 10
"""[chosen] Largest number of rows that are printed without --verbose."""
HUNT_COLUMNS = (
    tables.TableColumn("number", "audit", "count"),
    tables.TableColumn("verdict", "verdict"),
    tables.TableColumn("proven", "claimed", "number"),
    tables.TableColumn("certified", "certified", "lower"),
    tables.TableColumn("runs", "runs", "count"),
    tables.TableColumn("tried", "what was tried"),
)
"""Columns of the table of audits."""


def hunt_function(
    words: Words,
    *,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    dry_run: bool,
    timeout: float,
    fresh: bool,
    claim: str | None,
    jobs: int | None,
    numbers: dict[str, float],
    **asked: Any,
) -> int:
    """Run ``epsaudit hunt``: search for datasets and parameters that refute a claim; print and write the findings.

    ``words`` name the function and, optionally, its environment. ``numbers`` are the parameters of the claim. ``asked``
    contains the options that describe the data, and the remaining fields of `Options`. Returns the exit status.
    """
    if out is not None and not dry_run:
        refuse_unwritable(out / "hunt.json")
    environment, function = read_function(words, "hunt")
    described = (asked.pop(name) for name in ("schema", "pair", "parameters", "adjacency", "data"))
    if claim is not None and numbers:
        raise AuditError("Give either --claim, which reads the claim from the library, or the numbers of a claim.")
    claimed: Any = None if claim is not None else required_claim(numbers, "A hunt")
    known, describe, relation, form = _read_candidates(*described)
    if claim is not None:
        values = list({one.parameters_key: one.parameters for one in known}.values())
        claimed = stated_claims(claim, environment, values, timeout=timeout)

    def save_finding(number: int, finding: Finding, seed: int) -> None:
        """Write a certified refutation to a file of the folder ``out``.

        The pair of datasets may have been simplified. If the original pair gives a larger bound, this result is
        written, too.
        """
        for which, one in (("refuted", finding), ("strongest", finding.strongest)):
            if one is not None and out is not None:
                results.save([_with_command(one, form, seed)], out / f"{which}-{number}.json")

    target = Served(function, environment, data=form, timeout=timeout, fresh=fresh)
    with Display(quiet=quiet or as_json) as display:
        asked |= {"adjacency": relation, "describe": describe, "n_jobs": jobs}
        options = Options(**asked, progress=display.show, found=save_finding, name=function)
        if dry_run:
            from epsaudit.tools.cli import planning  # imported only when needed

            kept = hunting.under_relation(known, adjacency_of(options.adjacency))
            planned = planning.plan_hunt(HuntTarget(target, claimed, function), kept, options)
            print_json(as_json, planned)
            printer(quiet or as_json)(textwrap.fill(planning.describe_hunt(planned), tables.WIDTH))
            return AS_EXPECTED
        found = hunting.hunt(target, known, claim=claimed, options=options)
    findings = [dataclasses.replace(one, result=_with_command(one, form, found.seed)) for one in found.findings]
    rows = found.rows()
    facts = {
        **attributes(found, "name", "candidates", "screened", "left_out", "runs", "seconds", "seed"),
        **attributes(options, "confidence", "trials", "witnesses"),
        "adjacency": None if relation is None else str(relation),
        "sentence": found.sentence(),
        "verdicts": found.verdicts(),
        "audits": rows,
    }
    if out is not None:
        write_whole(out / "hunt.json", json.dumps(to_json(facts), indent=1, ensure_ascii=False))
        write_whole(out / "hunt.md", f"{tables.to_markdown(rows, HUNT_COLUMNS)}\n{found.sentence()}\n")
        if found.audits:
            results.save(found.audits, out / "audited.json")
    print_json(as_json, {**facts, "findings": [one.to_dict() for one in findings]})
    show = printer(quiet or as_json)
    for one in findings:
        show(f"{one}\n")
    told = rows if verbose else [row for row in rows if row["verdict"] != NOT_REFUTED][:MAX_ROWS]
    if told:
        drawn = io.StringIO()
        tables.print_table(told, HUNT_COLUMNS, file=drawn, width=tables.WIDTH)
        show(drawn.getvalue())
    if len(told) < len(rows):
        show(_describe_others(rows, len(told)))
    show(f"{found.sentence()} Seed {found.seed}.")
    if found.interrupted:
        return INTERRUPTED
    if not found.audits and not found.refuted:  # then the hunt shows nothing
        why = next((one.failure for one in found.attempts), "out of time")
        raise AuditError(f"Nothing was audited: {why}{'' if why.endswith(('.', '?', '!')) else '.'}")
    return SURPRISED if found.refuted else AS_EXPECTED


def _describe_others(rows: Sequence[dict[str, Any]], n_told: int) -> str:
    """Return a line on the audits that the table does not list, with the largest bound that did not refute the claim.

    ``rows`` are the rows of all audits, and ``n_told`` is the number of rows in the printed table.
    """
    others = [row for row in rows if row["verdict"] == NOT_REFUTED and row["certified"] is not None]
    audits = "1 audit" if len(rows) - n_told == 1 else f"{len(rows) - n_told} audits"
    if not others:
        return f"{audits} not listed (--verbose lists all)."
    best = max(others, key=lambda row: row["certified"] / max(row["proven"], 1e-300))
    bound = f"{lower(best['certified'])} of {best['proven']:.4g} claimed"
    said = f"{audits} did not refute the claim; the largest certified bound is {bound} ({best['tried'].rstrip('.')})."
    return textwrap.fill(f"{said} --verbose lists all.", tables.WIDTH)


def _with_command(finding: Finding, form: str, seed: int) -> AuditResult | SequentialResult:
    """Return the result of a finding, with its pair and parameters added as options to the recorded command.

    The command `epsaudit reproduce` reads the pair and the parameters from there. The result is unchanged if JSON
    cannot represent the pair.
    """
    if (case := finding.as_json()) is None:
        return finding.result
    x, x_prime, arguments = map(json.dumps, case)
    more = shlex.join(["--data", form, "--pair", x, x_prime, "--parameters", arguments])
    execution = {**finding.result.execution, "command": f"{recorded_command(seed)} {more}"}
    return dataclasses.replace(finding.result, execution=execution)


def _read_candidates(
    schema_file: Path | None, pair: Sequence[tuple[str, str]], given: str | None, relation: str | None, form: str | None
) -> tuple[list[Candidate], Callable[[Any], Description] | None, Adjacency | None, str]:
    """Read what a hunt should try: candidates, that is pairs of datasets together with parameter values.

    The candidates come from the schema file or from the given pairs. Given pairs replace the candidates of the schema,
    and the parameters then have their first values. Returns the candidates, a function that describes the data for
    given parameters (None without a schema), the neighbouring relation, and the form of a dataset.
    """
    adjacency = None if relation is None else relation_named(relation)
    parameters = read_json(given or "{}", "--parameters")
    if schema_file is None and not pair:
        raise AuditError("Give --schema FILE, a description of the data, or --pair X X_PRIME.")
    data, describe = form or "plain", None
    known: list[Candidate] = []
    if schema_file is not None:
        schema = read_schema(schema_file)
        adjacency = adjacency or schema.adjacency
        # data are sent in these forms, and the server converts them
        forms: dict[str, Any] = {"array": "list", "frame": "columns"}

        def describe(values: Any) -> Description:
            nonlocal data
            described = description_at(schema.description, values)
            if isinstance(described, Table) and described.form in forms:
                data = described.form
                return dataclasses.replace(described, form=forms[data])
            return described

        values = {**schema.parameters, **{name: [value] for name, value in parameters.items()}}
        known = candidates(describe, values)  # also determines the type of the data
        parameters = {name: some[0] for name, some in values.items()}
    if pair:
        known = [dataclasses.replace(as_candidate(one, adjacency), parameters=parameters) for one in read_pairs(pair)]
    return known, describe, adjacency, data
