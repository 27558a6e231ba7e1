"""Every library version that is audited, one virtual environment each: built on demand, cached, never incomplete.

From a file of pinned requirements and the Pythons that it supports it builds an environment with exactly these packages
and returns the path of its Python, or raises `NotInstalledError` with the reason. Environments are built under another
name and renamed when they are complete, under a lock, so that no process ever uses one that another is still building.
They are in $EPSAUDIT_LIBRARIES, by default $XDG_CACHE_HOME/epsaudit/libraries or ~/.cache/epsaudit/libraries; any of
them may be deleted.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from epsaudit.errors import AuditError
from epsaudit.experiments.libraries import interpreters
from epsaudit.experiments.libraries.interpreters import Interpreter
from epsaudit.running.files import write_whole

REQUIREMENTS = Path(__file__).parent / "requirements"
SECONDS = 1200.0
"""How long pip may take."""
LONGEST_REASON = 400
HOLLOW = ("Ignored the following versions", "subprocess-exited-with-error")
"""How pip's errors begin that say nothing of the reason."""


class NotInstalledError(AuditError):
    """A library version that cannot be had on this machine; the message is the sentence that reports say.

    Attributes
    ----------
    environment : str
        Its name.
    reason : str
        Why, without the name.
    """

    def __init__(self, environment: str, reason: str) -> None:
        super().__init__(f"{environment} is not installed: {reason}")
        self.environment = environment
        self.reason = reason


@dataclass(frozen=True)
class Environment:
    """A library version and what it runs on.

    Parameters
    ----------
    name : str
        'library-version', which is also the name of its file of requirements.
    pythons : tuple of str
        Versions of Python that it runs on, 'major.minor', the best first.
    from_source : tuple of str
        Packages that have no wheel: pip builds them, with whatever compiler they want. All others must have wheels.
    requirements : Path, optional
        A file of requirements, every one pinned by '==', dependencies included: pip installs nothing else. By default
        ``requirements/NAME.txt`` of this package.

    Raises
    ------
    AuditError
        If there is no such file, or a requirement is not pinned.

    Examples
    --------
    >>> Environment("opendp-0.16.0", ("3.11",)).pins["opendp"]
    '0.16.0'
    """

    name: str
    pythons: tuple[str, ...]
    from_source: tuple[str, ...] = ()
    requirements: Path | None = None

    def __post_init__(self) -> None:
        _ = self.pins  # or raise

    @property
    def file(self) -> Path:
        """The file of requirements."""
        return self.requirements or REQUIREMENTS / f"{self.name}.txt"

    @property
    def pins(self) -> dict[str, str]:
        """Version of each package."""
        try:
            lines = self.file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise AuditError(f"{self.file} cannot be read ({error.strerror or error}).") from error
        found = {}
        for line in filter(None, (line.partition("#")[0].strip() for line in lines)):
            name, _, version = (part.strip() for part in line.partition("=="))
            if not (name and version):
                raise AuditError(f"{self.file} requires {line!r}; write every requirement as 'name==version'.")
            found[name.lower()] = version
        return found

    def key(self, interpreter: Interpreter) -> str:
        """Digest of everything that decides what is installed: the pins, and the Python under them."""
        what = json.dumps([sorted(self.pins.items()), interpreter.version, interpreter.path])
        return hashlib.sha256(what.encode()).hexdigest()[:16]

    def folder(self, interpreter: Interpreter) -> Path:
        """Where it stands once it is built."""
        return cache() / f"{self.name}-{self.key(interpreter)}"

    def interpreter(self) -> Interpreter:
        """Find the Python to build it on; raises `NotInstalledError` if the machine has none of those wanted."""
        for wanted in self.pythons:
            if found := interpreters.find(wanted):
                return found
        wanted = " or ".join(self.pythons)
        raise NotInstalledError(
            self.name, f"it wants Python {wanted}, and none is on PATH, in pyenv's versions folder or known to uv."
        )

    def built(self) -> Path | None:
        """Return its Python if it is built; None if not, or if it cannot be."""
        try:
            python = _python(self.folder(self.interpreter()))
        except NotInstalledError:
            return None
        return python if python.exists() else None

    def python(self) -> Path:
        """Return its Python, and build it first if it is not there.

        Raises
        ------
        NotInstalledError
            With the reason, if the machine has no fitting Python or pip fails.
        """
        interpreter = self.interpreter()
        folder = self.folder(interpreter)
        if not _python(folder).exists():
            with _locked(folder):
                if not _python(folder).exists():  # nobody built it while this process waited
                    self._build(interpreter, folder)
        return _python(folder)

    def _build(self, interpreter: Interpreter, folder: Path) -> None:
        print(f"{self.name}: installing into {folder} ...", file=sys.stderr, flush=True)
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # what a killed build left
        try:
            self._run([interpreter.path, "-I", "-m", "venv", str(partial)])
            install = ["install", "--no-deps", "--no-input", "--disable-pip-version-check", "--only-binary=:all:"]
            install += [f"--no-binary={package}" for package in self.from_source]
            self._run([str(_python(partial)), "-I", "-m", "pip", *install, "--requirement", str(self.file)])
            facts = {"name": self.name, "python": interpreter.version, "pins": self.pins}
            write_whole(partial / "environment.json", json.dumps(facts, indent=1) + "\n")
            shutil.rmtree(folder, ignore_errors=True)  # what somebody deleted the Python of
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _run(self, words: list[str]) -> None:
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise NotInstalledError(self.name, f"it took longer than {SECONDS:.0f} seconds.") from None
        except OSError as error:
            raise NotInstalledError(self.name, f"{words[0]} cannot be run ({error.strerror or error}).") from error
        if done.returncode != 0:
            raise NotInstalledError(self.name, _reason(done.stderr or done.stdout))


def _reason(said: str) -> str:
    """The errors that pip names, or the last line of what it said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("error:")]
    errors += [line.removeprefix("×").strip() for line in lines if line.startswith("×")]
    words = "; ".join(error for error in dict.fromkeys(errors) if not error.startswith(HOLLOW))
    return f"pip says: {(words or ' '.join(lines[-1:]) or 'nothing')[:LONGEST_REASON]}"


def cache() -> Path:
    """Return the folder of all environments.

    Examples
    --------
    >>> cache().is_absolute()
    True
    """
    if given := os.environ.get("EPSAUDIT_LIBRARIES"):
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "epsaudit" / "libraries"


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of one environment; another process that wants to build it waits."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f"{folder.name}.lock").open("w")
    except OSError as error:
        raise AuditError(
            f"{folder.parent} cannot be written ({error.strerror or error}); set EPSAUDIT_LIBRARIES to a folder that "
            "you may write to."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


ANY = ("3.11", "3.12", "3.13", "3.10")
"""Pythons that a version has been seen to run on, the best first. To add a version, write its file of requirements
(``pip list --format=freeze`` in an environment where it works) and a line below."""
OPENDP = ("0.2.4", "0.4.0", "0.6.2", "0.14.0", "0.14.1", "0.14.2", "0.15.0", "0.15.1", "0.16.0")

ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment
    for environment in (
        Environment("diff-priv-laplace-python-1.0.5", ("3.11", "3.12"), from_source=("diff-priv-laplace-python",)),
        Environment("diffpriv-pure-0.1.0", ANY[:3]),
        Environment("diffprivlib-0.3.0", ("3.10", "3.9", "3.8"), from_source=("diffprivlib",)),
        Environment("diffprivlib-0.5.2", ("3.9", "3.8"), from_source=("crlibm",)),
        Environment("diffprivlib-0.6.6", ("3.11", "3.12")),
        Environment("dpsprt-1.2.0", ANY[:3]),
        Environment("eeprivacy-0.0.5", ANY[:3]),
        Environment("inf-tda-0.1", ("3.11", "3.12")),
        Environment("jax-privacy-2.0.0", ("3.11",)),
        Environment("opacus-1.6.0", ("3.11",)),
        Environment("opake-auditing-0.16.1", ("3.11",)),
        *(Environment(f"opendp-{version}", ANY) for version in OPENDP),
        Environment("ornl-presto-0.1.29", ("3.11", "3.12")),
        Environment("pipeline-dp-0.3.1", ("3.11", "3.12", "3.13")),
        Environment("privacy-estimates-0.1.0.post1", ("3.11",)),
        Environment("privacyguard-platform-0.0.2", ("3.11",)),
        Environment("privateab-0.0.2", ("3.11", "3.12")),
        Environment("smartnoise-synth-1.0.5", ("3.11", "3.12")),
        Environment("smartnoise-synth-1.0.6", ("3.11", "3.12")),
        Environment("smartnoise-synth-1.0.8", ("3.11", "3.12")),
        Environment("tmlt-core-0.20.0", ("3.11",), from_source=("pyspark",)),
        Environment("trasgodp-2.1.0", ("3.11", "3.12")),
    )
}
