"""README and the first tutorial, followed literally by a newcomer: the core and the tools, in an empty environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLLOW = f"""
import importlib.util, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT / "docs")!r})
import blocks
from epsaudit.errors import EXTRAS

assert {{EXTRAS[name] for name in EXTRAS if importlib.util.find_spec(name)}} <= {{"tools"}}
wrong = [str(one) for page in sys.argv[1:] for one in blocks.failures(Path(page))]
sys.exit("\\n".join(wrong) or None)
"""


BUILT = os.environ.get("EPSAUDIT_DIST", "").split()
"""Files that `make dist` has built, in place of a copy of the tracked files."""


@pytest.mark.slow
@pytest.mark.parametrize("source", BUILT or [None], ids=lambda path: path and Path(path).name)
def test_a_newcomer_follows_the_first_pages_with_the_tools_installed(source, tmp_path):
    environment, folder = tmp_path / "environment", tmp_path / "folder"
    if source is None:
        source, tree = tmp_path / "source", str(tmp_path / "tree.tar")
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        source.mkdir()
        subprocess.run(["tar", "-C", str(ROOT), "--null", "-T-", "-cf", tree], input=files, check=True)
        subprocess.run(["tar", "-C", str(source), "-xf", tree], check=True)
    source = Path(source).resolve()
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "COV"))}
    readers = ["pytest", "pyyaml", "sybil"]  # what runs a page's blocks
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{source}[tools]", *readers], env=clean, check=True)
    folder.mkdir()
    pages = [str(ROOT / page) for page in ("README.md", "docs/tutorials/first-audit.md")]
    done = subprocess.run(
        [python, "-c", FOLLOW, *pages], cwd=folder, env=clean, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    hint = subprocess.run(
        [environment / "bin" / "epsaudit", "experiment", "run", "validity"],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
    )
    assert hint.returncode == 2
    assert hint.stderr == f"epsaudit: matplotlib is not installed; pip install '{source}[studies]'.\n"
    assert not list(folder.glob("results*/validity")), "it is said before any work"
