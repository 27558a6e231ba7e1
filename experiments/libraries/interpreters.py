"""Find a Python of a wanted version on this machine: on PATH, in pyenv's versions folder, or where uv keeps its own.

For a version such as '3.9' it returns the path of an interpreter that can make virtual environments, or None. Every
candidate is run for its version: a shim on PATH may be there and still not run.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ASK = (
    "import ensurepip, json, platform, sys, venv; "
    "print(json.dumps([platform.python_version(), getattr(sys, '_base_executable', sys.executable), "
    "platform.python_implementation()]))"
)
SECONDS = 20.0
"""How long a candidate may take to say who it is."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that answered.

    Attributes
    ----------
    version : str
        All three numbers, '3.9.18'.
    path : str
        Its executable, outside any virtual environment.
    """

    version: str
    path: str


@functools.cache
def find(wanted: str) -> Interpreter | None:
    """Return an interpreter of the version ``wanted``, 'major.minor', or None if the machine has none.

    Examples
    --------
    >>> find(".".join(map(str, sys.version_info[:2]))).version.split(".")[0]
    '3'
    >>> find("2.0") is None
    True
    """
    for candidate in _candidates(wanted):
        found = _ask(candidate)
        if found is not None and found.version.split(".")[:2] == wanted.split("."):
            return found
    return None


def _candidates(wanted: str) -> Iterator[str]:
    yield sys.executable
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if found := shutil.which(f"python{wanted}", path=folder):
            yield found
    for root in _pyenv_roots():
        versions = sorted((root / "versions").glob(f"{wanted}.*/bin/python"), key=_patch, reverse=True)
        yield from map(str, versions)
    if uv := shutil.which("uv"):
        yield from _lines([uv, "python", "find", "--no-project", wanted])


def _pyenv_roots() -> Iterator[Path]:
    if root := os.environ.get("PYENV_ROOT"):
        yield Path(root)
    if pyenv := shutil.which("pyenv"):
        yield from map(Path, _lines([pyenv, "root"]))
    yield Path.home() / ".pyenv"


def _patch(path: Path) -> tuple[int, ...]:
    """The numbers of a folder's name, '3.9.18', for the newest first."""
    return tuple(int(part) for part in path.parts[-3].split(".") if part.isdigit())


@functools.cache
def _ask(executable: str) -> Interpreter | None:
    try:
        version, path, implementation = json.loads("".join(_lines([executable, "-I", "-c", ASK])))
    except ValueError:
        return None
    return Interpreter(version, path) if implementation == "CPython" else None


def _lines(words: list[str]) -> list[str]:
    """What a program prints; nothing if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line for line in done.stdout.splitlines() if line]
