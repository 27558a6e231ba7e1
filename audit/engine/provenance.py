"""Where a result comes from: `provenance`, on which its numbers depend, and `execution`, on which they do not.

Only `epsaudit.results.result.save` adds the latter, so that results are equal for equal seeds.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from epsaudit.errors import AuditError

LIBRARIES = ("epsaudit", "numpy", "scipy", "joblib", "scikit-learn")
PATIENCE = 3.0
"""Seconds that git may take for an answer: a slow disk's, not that of a repository that hangs."""


@functools.cache
def provenance() -> dict[str, str]:
    """Versions of the harness, its libraries and Python, the platform, and in a checkout the commit.

    Where files differ from the commit, it ends in "-dirty" and ``modified`` names them; see `modified`. Audits ask
    before their runs; a git that fails or hangs costs some seconds, and what it did not say is said to be unknown.
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
    """Return the checkout that this code is run from; None where it is installed, be it inside somebody's checkout."""
    here = Path(__file__).resolve()
    try:
        _git(here.parent, "ls-files", "--error-unmatch", here.name)
        _git(here.parent, "rev-parse", "--verify", "HEAD")  # there is none before the first commit
        return Path(_git(here.parent, "rev-parse", "--show-toplevel").strip())
    except (OSError, subprocess.SubprocessError):
        return None


def modified(root: Path) -> list[str]:
    """List files under ``root`` that differ from the commit; not under results/, where studies write as they run."""
    lines = _git(root, "status", "--porcelain", "--untracked-files=all", "-z", "--", ".", ":!results").split("\0")
    return sorted(line[3:] for line in lines if line[2:3] == " ")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout


def execution(seconds: float) -> dict[str, str]:
    """When, where and by which command something ran that took ``seconds`` and ends now; no host or user is named."""
    started = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = multiprocessing.current_process().name == "MainProcess"  # a worker process does not know the command
    return {"started": started, "machine": machine(), **({"command": command()} if own else {})}


@functools.cache
def machine() -> str:
    """Name the operating system, the processor and the number of its cores."""
    processor = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux on a PC
    words = f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores, {processor}"
    return words.removesuffix(", ")


_typed: ContextVar[str | None] = ContextVar("typed", default=None)


@contextmanager
def typed(words: str) -> Iterator[None]:
    """Let `command` say these words, which repeat what is run inside: they hold a seed that was not given."""
    before = _typed.set(words)
    try:
        yield
    finally:
        _typed.reset(before)


def command() -> str:
    """Write the command of this process as it would be typed, without the folders of the programs."""
    if (words := _typed.get()) is not None:
        return words
    given = sys.orig_argv[1:]
    if given[:1] in (["-m"], ["-c"]):
        return shlex.join(["python", *given])
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name and rename it, so that no half file is ever left; raises `AuditError`."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    except OSError as error:
        raise AuditError(
            f"{path} cannot be written ({error.strerror or error}); give a folder that you may write to."
        ) from error
    finally:
        with contextlib.suppress(OSError):  # renamed, or never made
            temporary.unlink()
