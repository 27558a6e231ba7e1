"""Results that a page quotes are those of today's code; of the others, the stale ones are named in a warning."""

import re
import warnings
from pathlib import Path

import pytest

from epsaudit.stored import status

ROOT = Path(__file__).parents[1]
QUOTED = re.compile(r"results/([\w-]+)(?=[/)#\s`'\"]|$)")


def quoted():
    """Folders of results that README.md or docs/ name; results/ itself where its files are."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    found = {name for text in texts for name in QUOTED.findall(text)}
    files = any(re.search(r"results/(audit|front)\.\w+", text) for text in texts)
    return {ROOT / "results" / name for name in found} | ({ROOT / "results"} if files else set())


def test_results_that_are_quoted_are_those_of_the_code_that_is_here():
    folders = quoted()
    assert len(folders) > 5
    found = {one.folder: one for one in status(ROOT / "results")}
    known = {folder for folder in folders if folder in found}
    stale = {folder: found[folder].why_stale for folder in known if found[folder].why_stale}
    stale |= {folder: "no provenance.json" for folder in folders - known if folder.is_dir()}
    others = [
        f"{one.folder.name}: {one.why_stale}" for one in found.values() if one.why_stale and one.folder not in stale
    ]
    if others:
        warnings.warn(f"stale results that no page quotes: {'; '.join(others)}", stacklevel=1)
    lines = [f"  {folder.relative_to(ROOT)}: {why}" for folder, why in sorted(stale.items())]
    if lines:
        pytest.fail("\n".join(["pages quote results that are stale; `make results` makes them anew:", *lines]), False)


def test_every_study_has_its_results():
    from epsaudit.studies import studies

    stored = {one.folder.name for one in status(ROOT / "results")}
    assert set(studies()) <= stored
