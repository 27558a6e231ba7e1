"""The wheel holds the tree under one name, and works beside folders of the user's that are called as ours are.

It is built and installed into an environment of its own, offline: that borrows the libraries of the running one. What
the extras bring is then kept from being imported, where the core is to be shown to do without.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from epsaudit.errors import EXTRAS
from epsaudit.running.registry import registered

ROOT = Path(__file__).parents[1]
FOLDERS = {"audit": "epsaudit", "mechanisms": "epsaudit/mechanisms", "experiments": "epsaudit/experiments"}
BLOCKER = """
import os, sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in os.environ["WITHOUT"].split():
            return super().find_spec(name, path, target)

if os.environ.get("WITHOUT"):
    sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""
THEIRS = {
    "audit/__init__.py": "OWNER = 'user'\n",
    "audit/claims.py": "OWNER = 'user'\n",
    "mechanisms/__init__.py": """
from audit import OWNER
from audit.claims import OWNER
from epsaudit import DatasetPair, PureDP, vectorized


def count(data, size, rng):
    return len(data) + rng.laplace(size=size)


noisy = vectorized(count, claim=PureDP(1.0), name="noisy", pairs=[DatasetPair(("ann",), ())])
""",
    "experiments/__init__.py": "from mechanisms import noisy\n",
    "results.py": "OWNER = 'user'\n",
    "errors.py": "raise AssertionError('nobody asked for this module')\n",
    "conftest.py": """
import audit, experiments, results

assert audit.OWNER == results.OWNER == 'user'
assert experiments.noisy.name == 'noisy'
""",
    "test_privacy.py": """
from experiments import noisy


def test_private(privacy_audit):
    privacy_audit.check(noisy)
""",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source, out = tmp_path_factory.mktemp("build") / "source", tmp_path_factory.mktemp("wheel")
    source.mkdir()
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    command = ["-m", "pip", "wheel", str(source), "--no-deps", "--no-build-isolation", "--quiet", "-w", str(out)]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def user(wheel, tmp_path_factory):
    """A folder of the user's, and a function that runs a program of the new environment in it."""
    environment, folder = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("project")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    install = ["-m", "pip", f"--python={programs / 'python'}", "install", "--no-deps", "--no-index", "--quiet", wheel]
    subprocess.run([sys.executable, *install], check=True)
    (packages,) = environment.glob("[Ll]ib/**/site-packages")
    borrowed = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    (packages / "sitecustomize.py").write_text(BLOCKER)
    for name, text in THEIRS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    def run(*words, extras=False, tools=True):
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "COV"))}
        without = [name for name, extra in EXTRAS.items() if not (tools and extra == "tools")]
        given = clean if extras else {**clean, "WITHOUT": " ".join(without)}
        program = [str(programs / words[0]), *words[1:]]
        return subprocess.run(program, cwd=folder, env=given, capture_output=True, text=True, timeout=300)

    run.folder, run.packages, run.wheel = folder, packages, wheel
    return run


def test_the_wheel_has_one_name_and_every_file_of_the_tree(wheel):
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")]
    own = {name for name in names if name.startswith("epsaudit/")}
    metadata = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    assert {name.partition("/")[0] for name in names} == {"epsaudit", metadata}
    expected = {
        f"{place}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, place in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert own == expected


def test_the_package_in_use_is_the_installed_one_and_the_folders_are_the_users(user):
    told = "import epsaudit, epsaudit.mechanisms, audit, mechanisms; print(epsaudit.__file__, mechanisms.__file__)"
    ours, theirs = user("python", "-c", told).stdout.split()
    assert Path(ours).is_relative_to(user.packages)
    assert Path(theirs).is_relative_to(user.folder)


@pytest.mark.slow
def test_pytest_with_the_fixture_works_without_the_extras(user):
    done = user("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_package_runs_as_a_module_too(user):
    assert user("python", "-m", "epsaudit", "--help").stdout == user("epsaudit", "--help").stdout != ""


def test_the_core_audits_without_the_tools_and_the_command_says_what_is_missing(user):
    audit = "import mechanisms, epsaudit; print(epsaudit.audit(mechanisms.noisy, trials=1000, seed=1).sentence())"
    done = user("python", "-c", audit, tools=False)
    assert done.stdout.startswith("noisy: 1-DP claimed; certified lower bound"), done.stderr
    command = user("epsaudit", "list", tools=False)
    assert command.returncode == 2
    assert command.stderr == f"epsaudit: click is not installed; pip install '{user.wheel}[tools]'.\n"


def test_an_audit_works_without_the_extras_and_says_what_it_left_out(user):
    done = user("epsaudit", "audit", "mechanisms:noisy", "--trials", "2e4", "--seed", "1", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "noisy: 1-DP claimed; certified lower bound" in done.stdout
    assert done.stderr.strip().endswith(
        f"Figures and page are left out: matplotlib is not installed; pip install '{user.wheel}[report]'."
    )
    assert {path.name for path in (user.folder / "out").iterdir()} == {"audit.json", "audit.csv", "audit.tex"}
    assert user("epsaudit", "verify", "out/audit.json").returncode == 0


def test_the_list_leaves_out_what_needs_an_extra_in_one_sentence(user):
    quiet = user("epsaudit", "list")
    assert (quiet.returncode, quiet.stderr) == (0, ""), "nobody asked what is left out"
    done = user("epsaudit", "list", "--verbose")
    assert done.returncode == 0
    assert done.stdout == quiet.stdout
    assert "\nbroken/laplace-half-noise " in done.stdout
    assert "anes96/" not in done.stdout
    sentence, _versions = done.stderr.splitlines()
    assert sentence.endswith(f"are left out: statsmodels is not installed; pip install '{user.wheel}[studies]'.")
    assert any(name.startswith("anes96/") for name in registered())  # here, where the extras are
    named = user("epsaudit", "audit", "laplace", "--trials", "1e3", "--seed", "1")
    assert (named.returncode, named.stderr) == (0, ""), "nobody asked for the surveys"


@pytest.fixture(scope="module")
def audited(user):
    """The user, who has audited something already."""
    rarely_wrong = ("--trials", "2e3", "--confidence", "0.9999", "--seed", "1")
    assert user("epsaudit", "audit", "mechanisms:noisy", *rarely_wrong, "--out", ".").returncode == 0
    (user.folder / "audit.json").replace(user.folder / "out.json")
    return user


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        pytest.param(["report", "out.json", "--html", "page.html"], "report", marks=pytest.mark.slow),
        pytest.param(["report", "out.json", "--methods"], "report", marks=pytest.mark.slow),
        (["audit", "mechanisms:noisy", "--cluster", "tcp://127.0.0.1:1"], "cluster"),
        pytest.param(["experiment", "run", "curves"], "report", marks=pytest.mark.slow),
        (["experiment", "run", "all"], "studies"),
    ],
)
def test_a_missing_extra_is_one_sentence(user, request, words, extra):
    done = (request.getfixturevalue("audited") if words[0] == "report" else user)("epsaudit", *words)
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("epsaudit: ")
    assert sentence.endswith(f" is not installed; pip install '{user.wheel}[{extra}]'.")
