"""What made a result: versions, the commit, the machine and the command."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("epsaudit", "numpy", "scipy", "joblib")
GIT_SECONDS = 3.0
"""[chosen] Time that git may take for an answer: enough for a slow disk, and little enough if a repository hangs."""


@functools.cache
def provenance() -> dict[str, str]:
    """Return the versions of epsaudit, its libraries and Python, and the platform; in a git checkout also the commit.

    If files differ from the commit, the commit ends in "-dirty" and ``modified`` names the files. If git does not
    answer in time, ``modified`` says so.
    """
    found = {name: version(name) for name in LIBRARIES}
    found |= {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    root = repository()
    if root is None:
        return found
    try:
        found["commit"] = _git(root, "rev-parse", "--short=12", "HEAD").strip()
        changed = modified(root)
    except (OSError, subprocess.SubprocessError) as error:
        changed = [f"unknown, as git did not say ({type(error).__name__})"]
    if changed:
        found |= {"commit": f"{found.get('commit', 'unknown')}-dirty", "modified": ", ".join(changed)}
    return found


@functools.cache
def repository() -> Path | None:
    """Return the folder of the git checkout that contains this code, or None if the code is installed as a package."""
    here = Path(__file__).resolve()
    try:
        _git(here.parent, "ls-files", "--error-unmatch", here.name)
        _git(here.parent, "rev-parse", "--verify", "HEAD")  # fails before the first commit
        return Path(_git(here.parent, "rev-parse", "--show-toplevel").strip())
    except (OSError, subprocess.SubprocessError):
        return None


def modified(root: Path) -> list[str]:
    """List the files under ``root`` that differ from the commit, except under results/, where studies write."""
    lines = _git(root, "status", "--porcelain", "--untracked-files=all", "-z", "--", ".", ":!results").split("\0")
    return sorted(line[3:] for line in lines if line[2:3] == " ")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=GIT_SECONDS, check=True
    )
    return done.stdout


def execution(seconds: float) -> dict[str, str]:
    """Return when, on what machine and by which command a computation ran that ends now.

    ``seconds`` is the duration of the computation. The names of the host and of the user are left out. In a worker
    process the command is left out too, because the worker does not know it.
    """
    started = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = {"started": started, "machine": machine()}
    if multiprocessing.current_process().name == "MainProcess":  # a worker process does not know the command
        made["command"] = typed_command()
    return made


@functools.cache
def machine() -> str:
    """Return the operating system, the number of cores and the name of the processor."""
    found = None
    with contextlib.suppress(OSError):  # not Linux
        found = re.search(r"model name\s*: (.*\S)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    processor = found[1] if found else platform.processor()
    words = f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores, {processor}"
    return words.removesuffix(", ")


_typed: ContextVar[str | None] = ContextVar("typed", default=None)


@contextmanager
def typed(words: str) -> Iterator[None]:
    """Set the command that `typed_command` returns inside the block.

    ``words`` is a command that repeats the run. Unlike the command that the user typed, it may contain the seed that
    was drawn.
    """
    before = _typed.set(words)
    try:
        yield
    finally:
        _typed.reset(before)


def typed_command() -> str:
    """Return the command of this process as one would type it, without the folder of the program.

    Inside a block of `typed`, its command is returned instead.
    """
    if (words := _typed.get()) is not None:
        return words
    given = sys.orig_argv[1:]
    if given[:1] in (["-m"], ["-c"]):
        return shlex.join(["python", *given])
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
