"""Known privacy bugs of released libraries, each version audited in an environment of its own.

All bugs are listed in ``libraries/bugs.toml``, including those that had not been reported before. The study expects
that every affected version is refuted and that no other row is. All bounds hold together at 99.9 % confidence
(Bonferroni), so the probability that any fixed version in the table is refuted by chance is at most 1e-3. Each version
runs in its own environment, which is built on demand from the package registry. If a version cannot be installed, the
table shows the reason, and the study ends with an error that names the version.

Libraries draw their own random numbers, so the same seed gives the same table only up to chance, and not the same
counts. Every row has a result file ``audits/NAME.json``, which `epsaudit verify` recomputes. With ``quick`` the study
installs and runs nothing; it makes the table again from the result files that are stored in the repository.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epsaudit import AuditResult, audit
from epsaudit.audits.suite import entry_seed
from epsaudit.audits.verify import load
from epsaudit.errors import AuditError
from epsaudit.experiments.libraries.environments import NotInstalledError
from epsaudit.experiments.libraries.rows import Bug, Row, findings
from epsaudit.experiments.studies import write_data, write_figure, write_table
from epsaudit.results.result import save
from epsaudit.running.files import write_whole
from epsaudit.text import lower, markdown, nearest, percent
from epsaudit.tools.reporting.figures import plot_certified_against_proven
from epsaudit.tools.reporting.tables import TableColumn

STORED = Path(__file__).parents[1] / "results" / "libraries" / "library-bugs"
JOINT_CONFIDENCE = 0.999
"""Joint confidence of all bounds."""
COLUMNS = (
    TableColumn("issue", "report", width="1.9cm"),
    TableColumn("mechanism", "version and mechanism", "code", width="3.0cm"),
    TableColumn("role", "is", width="1.4cm"),
    TableColumn("claim", "claim", "formula", width="1.8cm"),
    TableColumn("certified", "certified", "lower"),
    TableColumn("verdict", "verdict"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit every case, and write a page, data, a table, a figure and one result file per case to ``out``."""
    found, missing = read_stored() if quick else audit_cases(out, seed)
    rows = [row(bug, case, found, missing) for bug in findings() for case in bug.cases]
    done = list(found.values())
    together = 1.0 - sum(1.0 - result.confidence for result in done)
    write_data(out, rows, seed=seed, confidence=together)
    write_figure(out / "library-bugs", plot_certified_against_proven(done, together))
    caption = (
        "Privacy bugs of released libraries, publicly reported or not, audited: lower bounds on the claim's parameter, "
        f"all of which hold together at {percent(together)} confidence."
    )
    write_table(out, rows, COLUMNS, caption)
    write_whole(out / "page.md", page(rows, together))
    unexpected = "; ".join(f"{one['mechanism']}: {one['verdict']}" for one in rows if one["verdict"] != one["expected"])
    if unexpected:
        raise AuditError(f"The table in {out} has unexpected verdicts: {unexpected}.")
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a sentence that counts the refuted claims for each role of a row."""
    parts = []
    for role in dict.fromkeys(row["role"] for row in rows):
        mine = [row["verdict"] == "violated" for row in rows if row["role"] == role]
        parts.append(f"{role}: {sum(mine)} of {len(mine)}")
    return f"Claims refuted, {', '.join(parts)}."


def audit_cases(out: Path, seed: int) -> tuple[dict[str, AuditResult], dict[str, str]]:
    """Audit every case that can be installed, and save each result in a file.

    Returns the results by the name of the case, and for every other case the reason why it has no result.
    """
    cases = [case for bug in findings() for case in bug.cases]
    each = 1.0 - (1.0 - JOINT_CONFIDENCE) / len(cases)
    found: dict[str, AuditResult] = {}
    missing: dict[str, str] = {}
    absent: dict[str, str] = {}
    for case in cases:
        started = time.perf_counter()
        try:
            if case.version in absent:  # do not try to install this version again for each of its rows
                raise NotInstalledError(case.version, absent[case.version])
            result = run(case, each, seed)
        except NotInstalledError as error:
            absent[error.environment] = error.reason
            missing[case.name] = f"not installed: {error.reason}"
        except AuditError as error:
            missing[case.name] = f"not audited: {error}"
        if case.name in missing:
            print(f"{case.name}: {missing[case.name]}", flush=True)
            continue
        found[case.name] = result
        save([result], out / file_of(case))
        bound = f"{result.claim.symbol} >= {lower(result.lower_bound)} of {nearest(result.proven)}"
        print(f"{case.name}: {result.verdict}, {bound}, {time.perf_counter() - started:.0f} seconds", flush=True)
    return found, missing


def run(case: Row, confidence: float, seed: int) -> AuditResult:
    """Audit one case, and add the library's version and its Python to the provenance of the result."""
    entry = case.entry()
    result = audit(
        entry.mechanism,
        trials=case.trials,
        confidence=confidence,
        seed=entry_seed(seed, entry.name),
        witnesses=entry.witnesses,
    )
    ran_on = {"library": case.version, "library python": case.environment.interpreter().version}
    return dataclasses.replace(result, expected=entry.expected, provenance={**result.provenance, **ran_on})


def read_stored() -> tuple[dict[str, AuditResult], dict[str, str]]:
    """Read the result files that are stored in the repository.

    Returns the results by the name of the case, and a message for every case without a result file.
    """
    found: dict[str, AuditResult] = {}
    missing: dict[str, str] = {}
    for case in (case for bug in findings() for case in bug.cases):
        path = STORED / file_of(case)
        if path.exists():
            (found[case.name],) = load(path)
        else:
            missing[case.name] = "no result is stored"
    if not found:
        raise AuditError(f"There are no results in {STORED}; run the study without --quick, in a checkout.")
    return found, missing


def file_of(case: Row) -> str:
    """Return the path of a case's result file, relative to the study's folder."""
    return f"audits/{case.name.replace('/', '.')}.json"


def row(bug: Bug, case: Row, found: Mapping[str, AuditResult], missing: Mapping[str, str]) -> dict[str, Any]:
    """Return the table row of one case, with its result or with the reason why there is none."""
    result = found.get(case.name)
    return {
        "report": ", ".join(bug.reports),
        "issue": " ".join([case.version.rpartition("-")[0], *(f"#{r.rpartition('#')[2]}" for r in bug.reports)]),
        "mechanism": case.name,
        "role": case.role,
        "claim": str(case.stated_claim),
        "dp-accounting": None if case.calculated is None else str(case.calculated()),
        "parameter": case.stated_claim.symbol,
        "claimed": case.stated_claim.parameter,
        "certified": None if result is None else result.lower_bound,
        "confidence": None if result is None else result.confidence,
        "trials": None if result is None else result.trials,
        "pair": str(case.pairs[0]) if result is None else result.pair,
        "event": None if result is None else str(result.witness),
        "counts": None if result is None else result.describe_counts(),
        "verdict": missing[case.name] if result is None else result.verdict,
        "expected": case.expected,
        "file": None if result is None else file_of(case),
    }


def page(rows: Sequence[dict[str, Any]], together: float) -> str:
    """Return the page as Markdown, with one section and one table for each bug."""
    refuted = sum(one["verdict"] == "violated" for one in rows)
    lines = [
        "# Privacy bugs of released libraries, found by audit",
        "",
        "Each row is a released version, installed from the package registry into an environment of its own and run",
        "as a user would. *Affected* versions should be refuted; *fixed* versions and *controls* should not: that they",
        f"are not refuted is no proof. {refuted} of {len(rows)} rows are refuted. Bounds are lower bounds on the",
        f"claim's own parameter and hold all together at {percent(together)} confidence. *dp-accounting* is what that",
        "library calculates for the noise as documented, in real numbers.",
        "",
    ]
    by_name = {one["mechanism"]: one for one in rows}
    for bug in findings():
        links = ", ".join(link(report) for report in bug.reports) or "No public report"
        links += f" ([more](../../docs/findings/{bug.page}.md))" if bug.page else ""
        lines += [
            f"## {bug.title[0].upper()}{bug.title[1:]}",
            "",
            f"{links}. Affected: {bug.affected}; fixed: {bug.fixed}. Trigger: {bug.trigger}.",
            "",
            *table_of_bug(bug, by_name),
            "",
        ]
    lines += [
        "The counts behind each bound are in `audits/`, and `epsaudit verify audits/NAME.json` computes it from them.",
        "Made by `epsaudit experiment run libraries`.",
    ]
    return "\n".join(lines) + "\n"


def table_of_bug(bug: Bug, by_name: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the Markdown lines of the table of one bug; ``by_name`` maps mechanism names to the rows of `row`."""
    return [
        "| version and mechanism | is | claim | dp-accounting | certified | runs | event | verdict |",
        "|---|---|---|---|---|---|---|---|",
        *(_line(by_name[case.name]) for case in bug.cases),
    ]


def link(report: str) -> str:
    """Return a Markdown link to a report.

    Examples
    --------
    >>> link("opendp/opendp#414")
    '[opendp/opendp#414](https://github.com/opendp/opendp/issues/414)'
    """
    return f"[{report}](https://github.com/{report.replace('#', '/issues/')})"


def _line(one: Mapping[str, Any]) -> str:
    name, calculated = f"`{one['mechanism']}`", one["dp-accounting"] or "-"
    start = f"| {name} | {one['role']} | {one['claim']} | {calculated} |"
    if one["certified"] is None:
        return f"{start} - | - | - | {markdown(one['verdict'])} |"
    bound = f"{one['parameter']} ≥ {lower(one['certified'])}"
    event = f"{markdown(one['event'])}: {one['counts']}"
    return f"{start} {bound} | {one['trials']:,} | {event} | {one['verdict']} |"
