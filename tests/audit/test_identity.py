"""What an audit is of: a checkpoint goes on with the code, the packages and the arguments that it was begun with."""

import importlib
import subprocess
import sys

import hypothesis
import pytest

from epsaudit import serve
from epsaudit.running.identity import fingerprint, sources

MINE = """
import helper
from epsaudit import DatasetPair, PureDP, black_box

SCALE = 0.3


def count(data, rng):
    return len(data) + helper.noise(rng, SCALE)


mechanism = black_box(count, claim=PureDP(1.0), pairs=[DatasetPair((1,), (1, 2))], name="count")
"""
HELPER = """
def noise(rng, scale):
    import deeper

    return deeper.noise(rng, scale)
"""
DEEPER = """
def noise(rng, scale):
    return rng.laplace(scale=scale)
"""


@pytest.fixture
def project(tmp_path):
    for name, text in {"mine.py": MINE, "helper.py": HELPER, "deeper.py": DEEPER}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def audited(folder, *words):
    """What ``epsaudit audit`` prints, with a checkpoint, in a process of its own."""
    command = [sys.executable, "-m", "epsaudit", "audit", *(words or ["mine:mechanism"]), "--checkpoint", "run"]
    command += ["--trials", "500", "--seed", "1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def mend(file, before, after):
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def refused(said, what):
    return "belongs to another audit" in said and f"differs in {what}. Give what it was begun with" in said


SCRIPT = """
import sys
sys.path.insert(0, "lib")
from epsaudit import AddRemove, DatasetPair, PureDP, audit, audit_sequentially, black_box
from package.noises import Noisy

scale = 0.3


class Own(Noisy):
    def release(self, data, rng):
        return len(data) + self.noise(rng) * scale


release = Own().release
mechanism = black_box(release, claim=PureDP(1.0), pairs=[DatasetPair((1,), (1, 2))], name="count")
run = audit_sequentially if "sequential" in sys.argv else audit
print(run(mechanism, trials=1_000, seed=1, n_jobs=1, checkpoint="run"))
"""
PACKAGE = {
    "script.py": SCRIPT,
    "lib/package/__init__.py": "from .other import *\n",
    "lib/package/other.py": "FACTOR = 1.0\n",
    "lib/package/noises.py": "from . import other\n\nFACTOR = 1.0\n\n\n"
    "class Noisy:\n    def noise(self, rng):\n        return rng.laplace() * other.FACTOR * FACTOR\n",
    "lib/package/unused.py": "SCALE = 1\n",
}


@pytest.mark.parametrize(
    ("kind", "file", "before", "after", "what"),
    [
        pytest.param(
            "fixed", "script.py", "scale = 0.3", "scale = 0.6", "the code of script.py", marks=pytest.mark.slow
        ),
        ("sequential", "lib/package/other.py", "1.0", "0.5", "the code of package/other.py"),
        pytest.param("sequential", "lib/package/unused.py", "1", "2", None, marks=pytest.mark.slow),
    ],
)
def test_a_script_with_a_method_of_a_package_of_its_own(kind, file, before, after, what, tmp_path):
    def run():
        words = [sys.executable, "script.py", kind]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert "contradicts" in (first := run()).stdout
    mend(tmp_path / file, before, after)
    again = run()
    if what is None:
        assert again.stdout == first.stdout
    else:
        assert "differs in " in again.stderr
        assert what in again.stderr.splitlines()[-1]


def test_code_that_was_typed_in_counts_by_what_it_names():
    def of(text):
        names = {}
        exec(f"SCALE = 1.0\ncalls = 0\ndef helper(rng): return rng.laplace()\n{text}", names)
        return fingerprint(names["noisy"])

    noisy = "def noisy(data, rng):\n    global calls\n    calls += 1\n    return data + SCALE * helper(rng)\n"
    assert of(noisy) == of(noisy) == of(f"UNUSED = 1\n{noisy}") == of(f"{noisy}\ncalls = 7")
    assert len({*map(str, map(of, (noisy, f"{noisy}\nSCALE = 2.0", f"{noisy}\ndef helper(rng): return 0")))}) == 3
    listed = noisy.replace("SCALE", "SCALES[0]")
    assert of(f"SCALES = [1.0]\n{listed}") != of(f"SCALES = [0.3]\n{listed}")
    assert list(of(noisy)) == ["the mechanism's code or parameters"]


def test_the_packages_that_a_module_imports_count_by_their_versions(project, monkeypatch):
    monkeypatch.syspath_prepend(project)
    (project / "uses_packages.py").write_text(
        "import json, hypothesis.strategies\n\ndef noisy(data, rng):\n    import yaml\n    return rng.laplace()\n"
    )
    module = importlib.import_module("uses_packages")
    found = sources(module.noisy)
    assert [name for name in found if name.startswith("version")] == ["version of PyYAML", "version of hypothesis"]
    assert found["version of hypothesis"] == hypothesis.__version__


def test_a_program_is_refused_by_the_file_that_changed(project):
    words = [
        "--command",
        f"{sys.executable} {serve.__file__} mine.py:count",  # starts in a tenth of a second
        "--epsilon",
        "1",
        "--pair",
        "[1]",
        "[1, 2]",
    ]
    assert "contradicts the claim" in audited(project, *words)
    mend(project / "helper.py", "rng, scale)\n", "rng, 3 * scale)\n")
    assert refused(audited(project, *words), "the code of helper.py")


def test_a_table_of_settings_counts_as_it_is_in_memory(project, monkeypatch):
    (project / "settings.py").write_text("TABLE = {'scale': 0.3}\n\ndef count(data, rng):\n    return TABLE['scale']\n")
    monkeypatch.syspath_prepend(project)
    settings = importlib.import_module("settings")
    before = fingerprint(settings.count)
    assert fingerprint(settings.count) == before
    settings.TABLE["scale"] = 1.0
    assert fingerprint(settings.count) != before
