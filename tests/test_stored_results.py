"""Results that README.md shows are those of today's code; of the others, the stale ones are named in a warning.

Pages under docs/ quote no figures but link to folders of results, each of which says its commit and date itself.
To make everything anew takes hours (`make results`), so a change of code does not wait for it.
"""

import re
import subprocess
import warnings
from pathlib import Path

import pytest

from epsaudit.results.stored import status

ROOT = Path(__file__).parents[1]
QUOTED = re.compile(r"results/([\w-]+)(?=[/)#\s`'\"]|$)")


def quoted():
    """Folders of results that README.md names; results/ itself where its files are."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files = re.search(r"results/(audit|front)\.\w+", text)
    return {ROOT / "results" / name for name in QUOTED.findall(text)} | ({ROOT / "results"} if files else set())


def test_results_that_are_quoted_are_those_of_the_code_that_is_here():
    folders = quoted()
    assert folders
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
        pytest.fail(
            "\n".join(
                ["README.md shows results that are stale; `make audit` or `make results` makes them anew:", *lines]
            ),
            False,
        )


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)


def test_the_commits_that_made_results_are_in_the_history():
    """A result of a commit that nobody has cannot be made again: a branch that was dropped, or rebased."""
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no history here")
    lost = [
        f"{one.folder.name}: {one.commit}"
        for one in status(ROOT / "results")
        if git("merge-base", "--is-ancestor", one.commit, "HEAD").returncode != 0
    ]
    assert not lost


def test_every_folder_of_results_belongs_to_a_study():
    from epsaudit.reporting.studies import studies

    stored = {one.folder.name for one in status(ROOT / "results")}
    assert stored - set(studies()) <= {
        "results",
        "overhead",
        "before-and-after",
        "public-benchmark-43M",
    }  # main table, two trees twice, longer run
    if missing := set(studies()) - stored:
        warnings.warn(f"studies that have no results yet: {', '.join(sorted(missing))}", stacklevel=1)
