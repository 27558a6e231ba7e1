"""Write what tables and stored results say of findings into the pages of docs/findings.

A page of a finding is written by a person, but for the block between two comments: status, versions, and what
results/libraries/library-bugs has of it, or that it is not measured yet. ``python docs/findings.py`` writes the blocks
anew; the block of index.md is the list of all findings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epsaudit.experiments import library_bugs
from epsaudit.experiments.libraries.rows import Bug, findings
from epsaudit.text import lower

PAGES = Path(__file__).parent / "findings"
BLOCK = re.compile(r"(<!-- facts: docs/findings\.py writes them -->\n).*?(<!-- end of facts -->)", re.DOTALL)
UNREPORTED = "**not reported yet: report to the maintainers before publishing**"
MISSING = "not measured yet"


def stored(folder: Path = library_bugs.STORED) -> dict[str, dict[str, Any]]:
    """Rows of the stored results by mechanism."""
    return {row["mechanism"]: row for row in json.loads((folder / "data.json").read_text(encoding="utf-8"))["rows"]}


def rows(bug: Bug, known: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows of a finding; one that is not stored says so."""
    return {
        case.name: known.get(case.name) or library_bugs.row(bug, case, {}, {case.name: MISSING}) for case in bug.cases
    }


def facts(bug: Bug, known: Mapping[str, dict[str, Any]]) -> str:
    """The block of a page."""
    return "\n".join(
        [
            f"- Status: {', '.join(map(library_bugs.link, bug.reports)) or UNREPORTED}",
            f"- Affected: {bug.affected}",
            f"- Fixed: {bug.fixed}",
            f"- Pair and event: {bug.trigger}.",
            "",
            *library_bugs.measured(bug, rows(bug, known)),
            "",
            "All bounds hold together at 99.9 % confidence. `epsaudit experiment run libraries` measures",
            "them, and `results/libraries/library-bugs` has a file for each, which `epsaudit verify` recomputes.",
            "",
        ]
    )


def overview(known: Mapping[str, dict[str, Any]]) -> str:
    """The block of the index."""
    lines = ["| finding | affected | claimed | certified | report |", "|---|---|---|---|---|"]
    for bug in findings():
        affected = [case.name for case in bug.cases if case.role == "affected"]
        if not affected:  # what a report says, and no audit showed
            continue
        first = rows(bug, known)[affected[0]]
        title = f"{bug.title[0].upper()}{bug.title[1:]}"
        title = f"[{title}]({bug.page}.md)" if (PAGES / f"{bug.page}.md").exists() else title
        bound = MISSING if first["certified"] is None else f"{first['parameter']} ≥ {lower(first['certified'])}"
        report = ", ".join(map(library_bugs.link, bug.reports)) or "not reported yet"
        lines.append(f"| {title} | {bug.affected} | {first['claim']} | {bound} | {report} |")
    return "\n".join([*lines, ""])


def written(page: Path, known: Mapping[str, dict[str, Any]]) -> str:
    """The page as this script writes it."""
    pages = {bug.page: bug for bug in findings() if bug.page}
    block = overview(known) if page.stem == "index" else facts(pages[page.stem], known)
    return BLOCK.sub(lambda match: f"{match[1]}{block}{match[2]}", page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(written(path, stored()), encoding="utf-8")
