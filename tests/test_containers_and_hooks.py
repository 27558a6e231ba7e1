"""The Dockerfile copies what exists, and its lines make an environment that audits, also where there is no Docker."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = [
    line.split(" ", 1)
    for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def arguments(instruction):
    """The arguments of all lines of the Dockerfile with an instruction."""
    return [rest for name, rest in LINES if name == instruction]


def test_it_copies_all_that_an_installation_needs():
    copied = [path for line in arguments("COPY") for path in shlex.split(line)[:-1]]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    build = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    folders = set(re.findall(r'^"epsaudit[\w.]*" = "(\w+)"$', build, re.MULTILINE))
    assert len(folders) == 3
    assert folders | {"pyproject.toml", "README.md", "LICENSE"} == set(copied)


def test_its_python_is_one_that_the_package_supports():
    (version,) = re.findall(r"^python:3\.(\d+)-slim$", "\n".join(arguments("FROM")), re.MULTILINE)
    assert int(version) >= 11


def test_it_stays_short():
    assert len(LINES) <= 12


@pytest.mark.slow
def test_its_lines_make_an_environment_that_audits(tmp_path):
    """Each line is carried out as Docker would, but in a folder and an environment of Python instead of an image."""
    image, environment, work = tmp_path / "image", tmp_path / "environment", tmp_path / "work"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    work.mkdir()
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "COV"))}
    clean["PATH"] = f"{environment / 'bin'}{os.pathsep}{clean['PATH']}"
    for instruction, rest in LINES:
        if instruction == "COPY":
            *paths, target = shlex.split(rest)
            for path in paths:  # Docker copies what is in a folder, and a file into a folder whose name ends with /
                place = image / target.lstrip("/")
                if (ROOT / path).is_dir():
                    shutil.copytree(ROOT / path, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    place.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / path, place)
        elif instruction == "RUN":
            subprocess.run(["sh", "-c", rest.replace("/src", f"{image}/src")], env=clean, check=True, timeout=1_800)
        elif instruction == "ENV":
            clean |= dict(word.replace("/work", str(work)).split("=") for word in shlex.split(rest))
    (entry,), (command,) = map(json.loads, arguments("ENTRYPOINT")), map(json.loads, arguments("CMD"))

    def run(*words):
        program = [environment / "bin" / words[0], *words[1:]]
        return subprocess.run(program, cwd=work, env=clean, capture_output=True, text=True, timeout=300)

    assert "Usage" in run(*entry, *command).stdout
    (work / "mine.py").write_text(
        "from epsaudit import PureDP, black_box\n\n\n"
        "def count(data, rng):\n    return len(data) + rng.laplace(scale=0.5)\n\n\n"
        "mechanism = black_box(count, claim=PureDP(1.0), pairs=[(['ann'], [])])\n"
    )
    done = run(*entry, "audit", "mine:mechanism", "--trials", "2e4", "--seed", "1", "--out", "results")
    assert done.returncode == 1, done.stderr
    assert "contradicts the claim" in done.stdout
    assert {path.suffix for path in (work / "results").iterdir()} >= {".json", ".html", ".png"}
    assert "privacy_audit" in run("pytest", "--fixtures").stdout
