"""Find a Python of a given version on this machine: on PATH, in pyenv's versions folder, or among the Pythons of uv.

For a version such as '3.9' the module returns an interpreter that can create virtual environments, or None. It runs
every candidate to ask for its version, because a pyenv shim may be on PATH without a working Python behind it.
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

VERSION_PROGRAM = (
    "import ensurepip, json, platform, sys, venv; "
    "print(json.dumps([platform.python_version(), getattr(sys, '_base_executable', sys.executable), "
    "platform.python_implementation()]))"
)
SECONDS = 20.0
"""Maximum time in seconds that a candidate may take to report its version."""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter that reported its version when it was run.

    Attributes
    ----------
    version : str
        The full version, for example '3.9.18'.
    path : str
        Path of the executable, outside any virtual environment.
    """

    version: str
    path: str


@functools.cache
def find(wanted: str) -> Interpreter | None:
    """Return an interpreter of the version ``wanted``, given as 'major.minor', or None if the machine has none.

    Examples
    --------
    >>> find(".".join(map(str, sys.version_info[:2]))).version.split(".")[0]
    '3'
    >>> find("2.0") is None
    True
    """
    for candidate in _candidates(wanted):
        found = _identify(candidate)
        if found is not None and found.version.split(".")[:2] == wanted.split("."):
            return found
    return None


def _candidates(wanted: str) -> Iterator[str]:
    yield sys.executable
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if found := shutil.which(f"python{wanted}", path=folder):
            yield found
    for root in _pyenv_roots():
        versions = sorted((root / "versions").glob(f"{wanted}.*/bin/python"), key=_version_key, reverse=True)
        yield from map(str, versions)
    if uv := shutil.which("uv"):
        yield from _printed_lines([uv, "python", "find", "--no-project", wanted])


def _pyenv_roots() -> Iterator[Path]:
    if root := os.environ.get("PYENV_ROOT"):
        yield Path(root)
    if pyenv := shutil.which("pyenv"):
        yield from map(Path, _printed_lines([pyenv, "root"]))
    yield Path.home() / ".pyenv"


def _version_key(path: Path) -> tuple[int, ...]:
    """Return the version in a path such as '.../3.9.18/bin/python' as numbers, by which versions are sorted."""
    return tuple(int(part) for part in path.parts[-3].split(".") if part.isdigit())


@functools.cache
def _identify(executable: str) -> Interpreter | None:
    try:
        version, path, implementation = json.loads("".join(_printed_lines([executable, "-I", "-c", VERSION_PROGRAM])))
    except ValueError:
        return None
    return Interpreter(version, path) if implementation == "CPython" else None


def _printed_lines(words: list[str]) -> list[str]:
    """Return the lines that a program prints; return an empty list if the program fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line for line in done.stdout.splitlines() if line]
