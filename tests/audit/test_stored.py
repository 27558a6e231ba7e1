"""What stands beside results: what was found, and which code made them, when and by what command."""

import dataclasses
import json
import shutil
import subprocess
import sys

import pytest

from epsaudit import DatasetPair, PureDP, audit, vectorized
from epsaudit.engine import provenance
from epsaudit.experiments import studies
from epsaudit.experiments.studies import run
from epsaudit.reporting import methods


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of its own that this process takes for the one it is run from."""
    git(tmp_path, "init", "-q")
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "a b.py").write_text("X = 1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "First")
    monkeypatch.setattr(provenance, "repository", lambda: tmp_path)
    provenance.provenance.cache_clear()
    yield tmp_path
    provenance.provenance.cache_clear()


def test_results_do_not_make_a_checkout_dirty_and_sources_that_do_are_named(checkout):
    commit = git(checkout, "rev-parse", "--short=12", "HEAD").strip()
    (checkout / "results").mkdir()
    (checkout / "results" / "data.json").write_text("{}")
    assert provenance.provenance()["commit"] == commit
    assert "modified" not in provenance.provenance()
    (checkout / "audit" / "a b.py").write_text("X = 2\n")
    (checkout / "audit" / "new.py").write_text("Y = 1\n")
    provenance.provenance.cache_clear()
    found = provenance.provenance()
    assert found["commit"] == f"{commit}-dirty"
    assert found["modified"] == "audit/a b.py, audit/new.py"


def test_a_moved_file_is_one_that_differs(checkout):
    git(checkout, "mv", "audit/a b.py", "audit/c.py")
    assert provenance.modified(checkout) == ["audit/c.py"]


def test_installed_within_a_checkout_of_somebody_else_the_commit_is_not_theirs(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("venv\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Theirs")
    package = tmp_path / "venv" / "epsaudit_copy"
    package.mkdir(parents=True)
    shutil.copy(provenance.__file__, package / "provenance.py")
    told = "import provenance; print(provenance.repository())"
    done = subprocess.run([sys.executable, "-c", told], cwd=package, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"


def study(out, seed=0, quick=False):
    assert isinstance(seed, int)
    return "Two."


def test_what_was_found_command_date_and_commit_stand_beside_the_data(checkout):
    out = checkout / "results" / "study"
    run(study, out, 3, summary="One and one")
    facts = json.loads((out / "provenance.json").read_text())
    lines = (out / "README.md").read_text().splitlines()
    assert lines[0] == "# study"
    said = dict(line.removeprefix("- **").split("**: ", 1) for line in lines if line.startswith("- "))
    assert said["What"] == "One and one"
    assert said["Found"] == "Two."
    assert said["Command"] == f"`{facts['execution']['command']}`"
    assert said["Date"].startswith(facts["execution"]["started"][:10])
    assert said["Commit"] == facts["commit"]
    assert {"epsaudit", "numpy", "scipy", "python", "platform"} <= facts.keys()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"commit": "abc"}, r"commit \texttt{abc})."),
        ({"commit": "abc-dirty", "modified": "a_b.py"}, r"commit \texttt{abc}, with changes to \texttt{a\_b.py})."),
        (
            {"commit": "abc-dirty", "modified": "a.py, b.py, c.py, d.py, e.py"},
            r"with changes to \texttt{a.py}, \texttt{b.py}, \texttt{c.py} and 2 more files).",
        ),
        ({"commit": "abc-dirty"}, "with changes beyond the commit that are not recorded)."),
    ],
)  # fmt: skip
def test_the_methods_paragraph_says_in_words_what_differed_from_the_commit(found, said):
    noisy = vectorized(lambda d, n, rng: d + rng.laplace(size=n), claim=PureDP(1.0), pairs=[DatasetPair(0, 1)])
    result = dataclasses.replace(audit(noisy, trials=2_000, seed=1, n_jobs=1), provenance=found)
    text = methods.methods([result], 0.95)
    assert said in text
    assert "dirty" not in text
    other = dataclasses.replace(result, provenance={"commit": "def"})
    assert "several commits" in methods.methods([result, other], 0.9)
    assert ("not recorded" in methods.methods([result, other], 0.9)) == ("dirty" in found["commit"])


def test_what_a_study_writes_while_it_runs_is_no_change_and_what_is_ignored_neither(checkout):
    (checkout / ".gitignore").write_text(".venv/\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "Ignore")
    for name in ("results/audit.json", "results/study/data.json", ".venv/installed"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("{}")
    git(checkout, "add", "results/audit.json")
    assert provenance.modified(checkout) == []
    (checkout / "audit" / "results").mkdir()
    (checkout / "audit" / "results" / "x.py").write_text("")  # another folder of that name does count
    assert provenance.modified(checkout) == ["audit/results/x.py"]


def test_a_readme_names_what_differed_from_the_commit(tmp_path):
    ran = {"seconds": 3.0, "started": "2026-01-01T00:00:00Z", "command": "x"}
    facts = {"commit": "abc-dirty", "modified": "audit/a.py", "execution": ran}
    studies.write_json(tmp_path / "provenance.json", facts)
    studies.write_readme(tmp_path, "Q", "A.")
    assert "- **Commit**: abc-dirty, with changes to audit/a.py" in (tmp_path / "README.md").read_text()
