"""Update the generated blocks on the pages of docs/findings.

The pages are written by hand, except for one block between two comments on each page. On the page of a finding, this
block has the status, the affected versions, and the results stored in results/libraries/library-bugs, or a statement
that they are not measured yet. On index.md, the block is the list of all findings. ``python docs/findings.py``
regenerates all blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epsaudit.experiments import library_bugs, maps_of_libraries
from epsaudit.experiments.libraries.rows import Bug, findings
from epsaudit.experiments.maps_of_libraries import Statement, statements
from epsaudit.experiments.studies import stored_rows
from epsaudit.text import lower

PAGES = Path(__file__).parent / "findings"
BLOCK = re.compile(r"(<!-- facts: docs/findings\.py writes them -->\n).*?(<!-- end of facts -->)", re.DOTALL)
UNREPORTED = "**not reported yet: report to the maintainers before publishing**"
MISSING = "not measured yet"


def stored(folder: Path = library_bugs.STORED) -> dict[str, dict[str, Any]]:
    """Return the rows of the stored results, keyed by the name of the mechanism."""
    return {row["mechanism"]: row for row in json.loads((folder / "data.json").read_text(encoding="utf-8"))["rows"]}


def rows(bug: Bug, known: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rows of a finding by case name. A row without a stored result says that it is not measured yet."""
    return {
        case.name: known.get(case.name) or library_bugs.row(bug, case, {}, {case.name: MISSING}) for case in bug.cases
    }


def facts(bug: Bug, known: Mapping[str, dict[str, Any]]) -> str:
    """Return the generated block for the page of one finding."""
    return "\n".join(
        [
            f"- Status: {', '.join(map(library_bugs.link, bug.reports)) or UNREPORTED}",
            f"- Affected: {bug.affected}",
            f"- Fixed: {bug.fixed}",
            f"- Pair and event: {bug.trigger}.",
            "",
            *library_bugs.table_of_bug(bug, rows(bug, known)),
            "",
            "All bounds together hold at 99.9 % confidence. The command `epsaudit experiment run libraries` measures",
            "them. The folder `results/libraries/library-bugs` has a result file for each bound, and `epsaudit verify`",
            "recomputes the bound from this file.",
            "",
        ]
    )


def map_facts(page: str) -> str:
    """Return the generated block for the page of a finding about a map or an accountant."""
    cases = [one for one in statements() if one.page == page]
    known = stored_map_rows()
    lines = [
        f"- Status: {', '.join(map(library_bugs.link, cases[0].reports)) or UNREPORTED}",
        f"- Affected: {cases[0].affected}",
        f"- Fixed: {cases[0].fixed}",
        "",
        "| version and constructor | is | verdict | smallest disproof |",
        "|---|---|---|---|",
    ]
    for case in cases:
        row = known.get((case.name, case.role), {"verdict": MISSING, "smallest": ""})
        cells = (f"`{case.name}`", case.role, row["verdict"], cell(row["smallest"]))
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "`epsaudit experiment run libraries` measures this table from the constructor alone. A disproof by one pair of",
        "datasets, or by one sequence of events, needs no statistics.",
        "",
    ]
    return "\n".join(lines)


def stored_map_rows() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the stored rows of the study of maps, by the name and the role."""
    if not (maps_of_libraries.STORED / "data.json").exists():
        return {}
    return {(row["name"], row["role"]): row for row in stored_rows(maps_of_libraries.STORED)}


def cell(text: str) -> str:
    """Return a text for a cell of a Markdown table, as code."""
    return f"`{text.replace('|', '/').replace('`', '')}`" if text else ""


def map_overview() -> list[str]:
    """Return the lines of index.md about maps and accountants that had no public report."""
    found: dict[str, Statement] = {}
    for one in statements():
        if one.page:
            found.setdefault(one.page, one)
    lines = ["", "| finding about a map or an accountant | affected | report |", "|---|---|---|"]
    for page, one in found.items():
        title = f"{one.title[0].upper()}{one.title[1:]}"
        report = ", ".join(map(library_bugs.link, one.reports)) or "not reported yet"
        lines.append(f"| [{title}]({page}.md) | {one.affected} | {report} |")
    return lines


def overview(known: Mapping[str, dict[str, Any]]) -> str:
    """Return the generated block for index.md: a table of all findings that an audit showed."""
    lines = ["| finding | affected | claimed | certified | report |", "|---|---|---|---|---|"]
    for bug in findings():
        affected = [case.name for case in bug.cases if case.role == "affected"]
        if not affected:  # known from a report only, not shown by an audit
            continue
        first = rows(bug, known)[affected[0]]
        title = f"{bug.title[0].upper()}{bug.title[1:]}"
        title = f"[{title}]({bug.page}.md)" if (PAGES / f"{bug.page}.md").exists() else title
        bound = MISSING if first["certified"] is None else f"{first['parameter']} ≥ {lower(first['certified'])}"
        report = ", ".join(map(library_bugs.link, bug.reports)) or "not reported yet"
        lines.append(f"| {title} | {bug.affected} | {first['claim']} | {bound} | {report} |")
    return "\n".join([*lines, *map_overview(), ""])


def written(page: Path, known: Mapping[str, dict[str, Any]]) -> str:
    """Return the text of a page with its block regenerated from the stored results `known`."""
    pages = {bug.page: bug for bug in findings() if bug.page}
    if page.stem == "index":
        block = overview(known)
    else:
        block = facts(pages[page.stem], known) if page.stem in pages else map_facts(page.stem)
    return BLOCK.sub(lambda match: f"{match[1]}{block}{match[2]}", page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(written(path, stored()), encoding="utf-8")
