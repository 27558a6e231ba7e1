"""README and tutorials, followed literally by a newcomer: every install line and block, in empty environments.

The daily tests run the same blocks in the environment of the tests (`tests/test_docs.py`), where nothing is installed.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLLOW = f"""
import json, os, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT / "docs")!r})
import blocks

blocks.INSTALL, blocks.SOURCE, blocks.EXTRAS = True, sys.argv[1], json.loads(sys.argv[2])
wrong = []
for number, page in enumerate(sys.argv[3:]):
    folder = Path(f"folder{{number}}").resolve()
    folder.mkdir()
    os.chdir(folder)
    wrong += [str(one) for one in blocks.failures(Path(page))]
    os.chdir("..")
sys.exit("\\n".join(wrong) or None)
"""
READERS = ["pyyaml", "sybil"]
"""What runs the blocks of a page."""
TUTORIALS = [
    f"docs/tutorials/{name}.md"
    for name in ("first-audit", "privacy-test", "first-model", "train-and-test", "audit-to-paper")
]
WITHOUT_COMMAND = ["README.md", "docs/index.md", "docs/tutorials/first-model.md", "docs/tutorials/train-and-test.md"]
"""Pages that need only the core and libraries that they install by name."""
TRAINING = ["docs/how-to/check-training.md", "docs/how-to/audit-training.md"]
BUILT = os.environ.get("EPSAUDIT_DIST", "").split()
"""Files that `make dist` has built, in place of a copy of the tracked files."""


@pytest.fixture(scope="module", params=BUILT or [None], ids=lambda path: path and Path(path).name)
def source(request, tmp_path_factory):
    """What is installed: a file that was built, or a folder with the tracked files, as in a clone."""
    if request.param is not None:
        return Path(request.param).resolve()
    folder, tree = tmp_path_factory.mktemp("clone"), str(tmp_path_factory.mktemp("tree") / "tree.tar")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-C", str(ROOT), "--null", "-T-", "-cf", tree], input=files, check=True)
    subprocess.run(["tar", "-C", str(folder), "-xf", tree], check=True)
    return folder


@pytest.fixture
def run(tmp_path):
    """A function that runs a program of an empty environment in an empty folder, and returns what it printed."""
    environment, folder = tmp_path / "environment", tmp_path / "folder"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    folder.mkdir()
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "COV"))}

    def run_program(name, *words, status=0):
        done = subprocess.run(
            [environment / "bin" / name, *words], cwd=folder, env=clean, capture_output=True, text=True, timeout=3_600
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    run_program.folder = folder
    return run_program


def follow(run, source, pages, extras=None):
    """Run all blocks of some pages, each in an empty folder. If ``extras`` is text, pages install these extras."""
    run("python", "-m", "pip", "install", "--quiet", *READERS)
    run("python", "-c", FOLLOW, str(source), json.dumps(extras), *(str(ROOT / page) for page in pages))


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/index.md", *TUTORIALS, "docs/how-to/containers-and-hooks.md"])
def test_a_newcomer_follows_a_page_to_the_letter(page, run, source):
    """The environment has what the page itself installs, and nothing else."""
    follow(run, source, [page])
    if page == "docs/tutorials/first-audit.md":
        hint = run("epsaudit", "experiment", "run", "validity", status=2)
        assert hint.stderr == f"epsaudit: matplotlib is not installed; pip install '{source}[studies]'.\n"
        assert not list(run.folder.glob("results*/validity")), "it is said before any work"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "pages"),
    [("", WITHOUT_COMMAND), ("report", ["README.md", *TUTORIALS]), ("training", [*WITHOUT_COMMAND, *TRAINING])],
    ids=["core", "report", "training"],
)
def test_pages_work_with_each_install(extra, pages, run, source):
    """Pages that need no more than an extra work with this extra alone, whatever they install themselves."""
    run("python", "-m", "pip", "install", "--quiet", f"{source}[{extra}]" if extra else str(source))
    brought = "from epsaudit.errors import EXTRAS as E; from importlib.util import find_spec as found; "
    there = set(run("python", "-c", f"{brought}print(*{{E[name] for name in E if found(name)}})").stdout.split())
    assert there == {"": set(), "report": {"tools", "report"}}.get(extra, there)
    follow(run, source, pages, extra)


@pytest.mark.slow
def test_the_notebook_runs_with_what_it_says_to_install(run, source):
    path = ROOT / "docs" / "tutorials" / "notebook.ipynb"
    (extra,) = re.findall(r"pip install '/path/to/epsaudit\[(\w+)\]'", path.read_text(encoding="utf-8"))
    run("python", "-m", "pip", "install", "--quiet", f"{source}[{extra}]", "ipykernel", "nbclient")
    run("python", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); import notebook; notebook.executed()")
