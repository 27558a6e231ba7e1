"""What stands beside stored results: the code that made them, question and answer, and whether that code has changed.

Writes provenance.json and README.md from facts and sentences, and says of folders whether they are stale.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit import schema, sources
from epsaudit.errors import AuditError
from epsaudit.provenance import modified, provenance, repository
from epsaudit.results import write_whole
from epsaudit.text import markdown

ALLOW_MODIFIED = "store among this checkout's results although its files differ from the commit; they are named"


@dataclass(frozen=True)
class Stored:
    """Results in a folder.

    Attributes
    ----------
    folder : Path
        Where they are.
    commit : str
        Of the code that made them; with '-dirty' where files differed from it.
    seconds : float or None
        How long that took, where it is known.
    why_stale : str
        In a few words; empty where the code that they depend on says what it said then.
    """

    folder: Path
    commit: str
    seconds: float | None
    why_stale: str


def provenance_of(*modules: str) -> dict[str, Any]:
    """Versions and commit, and of modules of epsaudit a digest of all code that they depend on."""
    own = [name for name in modules if name.partition(".")[0] == sources.PACKAGE]
    return {**provenance(), **({"modules": own, "sources": sources.digest(*own)} if own else {})}


def write_provenance(out: Path, facts: Mapping[str, Any]) -> None:
    """Write provenance.json; raises `AuditError` if that cannot be."""
    write_whole(out / "provenance.json", json.dumps(facts, indent=1, allow_nan=False) + "\n")


def check_unmodified(out: Path) -> None:
    """Raise `AuditError` if ``out`` is among the results of this checkout and files in it differ from its commit."""
    root = repository()
    if root is None or not Path(out).resolve().is_relative_to(root / "results"):
        return
    changed = modified(root)
    if changed:
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise AuditError(
            f"Results are stored with the commit that made them, and {', '.join(changed[:5])}{more} "
            f"{'differs' if len(changed) == 1 else 'differ'} from it. "
            "Commit first, give another --out, or store them so by --allow-modified."
        )


def write_readme(out: Path, question: str, answer: str, facts: Mapping[str, Any]) -> None:
    """Write README.md: question, answer, command, date and commit, and a link to page.md where a study made one.

    Question and answer are plain sentences, of which nothing is taken for Markdown.
    """
    ran = facts["execution"]
    quick = " (a quick look, not a result)" if facts.get("quick") else ""
    changed = f", with changes to {facts['modified']}" if "modified" in facts else ""
    took = f", {ran['seconds'] / 60:.0f} minutes" if ran["seconds"] >= 90 else f", {ran['seconds']:.0f} seconds"
    lines = [
        f"# {out.name}\n",
        f"- **Question**: {markdown(question)}",
        f"- **Answer**{quick}: {markdown(answer)}",
        f"- **Command**: `{ran.get('command', '')}`",
        f"- **Date**: {ran['started'][:10]}{took}",
        f"- **Commit**: {markdown(facts.get('commit', 'not of a checkout') + changed)}",
    ]
    page = ["\nMore in [page.md](page.md)."] if (out / "page.md").exists() else []
    write_whole(out / "README.md", "\n".join(lines + page) + "\n")


def status(results: Path) -> list[Stored]:
    """Say of the folder and of each folder in it that has a provenance.json whether its results are stale.

    Raises
    ------
    AuditError
        If a provenance.json cannot be read.
    """
    files = [*results.glob("provenance.json"), *sorted(results.glob("*/provenance.json"))]
    return [_status(file) for file in files]


def _status(file: Path) -> Stored:
    facts = schema.read(file, "the provenance of results")
    schema.check(facts, "provenance", f"{file}: ")
    seconds = facts.get("execution", {}).get("seconds")
    return Stored(file.parent, facts.get("commit", "no commit"), seconds, _why_stale(facts))


def _why_stale(facts: dict[str, Any]) -> str:
    if facts.get("quick"):
        return "made by a quick run"
    if "execution" not in facts:
        return "the run did not finish"
    if "sources" not in facts:
        return "made before sources were recorded"
    try:
        same = sources.digest(*facts["modules"]) == facts["sources"]
    except ModuleNotFoundError as error:
        return f"{error.name} is no longer there"
    return "" if same else "code that it depends on has changed"
