"""The audited library versions and their virtual environments, which are built on demand and cached.

An `Environment` combines a file of pinned requirements with the Python versions on which these packages run. It builds
a virtual environment with exactly these packages and returns the path of its Python, or raises `NotInstalledError` with
the reason. A build happens under a temporary name and a lock and is renamed when it is complete, so that no process
ever uses an environment that another process is still building. The environments are in $EPSAUDIT_LIBRARIES, by default
$XDG_CACHE_HOME/epsaudit/libraries or ~/.cache/epsaudit/libraries. Any of them may be deleted.
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
PIP_SECONDS = 1200.0
"""Maximum time in seconds that one call of pip may take."""
LONGEST_REASON = 400
UNINFORMATIVE_ERRORS = ("Ignored the following versions", "subprocess-exited-with-error")
"""Beginnings of those error lines of pip that do not give the reason of a failure."""


class NotInstalledError(AuditError):
    """A library version that cannot be installed on this machine; reports print the message as it is.

    Attributes
    ----------
    environment : str
        Name of the environment.
    reason : str
        Why it cannot be installed, without the name.
    """

    def __init__(self, environment: str, reason: str) -> None:
        super().__init__(f"{environment} is not installed: {reason}")
        self.environment = environment
        self.reason = reason


@dataclass(frozen=True)
class Environment:
    """A library version together with the packages and the Python versions on which it runs.

    Parameters
    ----------
    name : str
        'library-version'. This is also the name of the file of requirements.
    pythons : tuple of str
        Versions of Python on which the library runs, as 'major.minor', the preferred one first.
    from_source : tuple of str
        Packages that have no wheel. pip builds them from source with whatever compiler they need. All other packages
        must have wheels.
    requirements : Path, optional
        A file in which every requirement, dependencies included, is pinned by '=='. pip installs nothing else. By
        default ``requirements/NAME.txt`` of this package.

    Raises
    ------
    AuditError
        If the file does not exist, or if a requirement is not pinned.

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
        _ = self.pins  # raises an error if the file cannot be read

    @property
    def file(self) -> Path:
        """Path of the file of requirements."""
        return self.requirements or REQUIREMENTS / f"{self.name}.txt"

    @property
    def pins(self) -> dict[str, str]:
        """Pinned version of each package, by the package's name in lower case."""
        try:
            lines = self.file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise AuditError(
                f"The file of requirements {self.file} cannot be read ({error.strerror or error})."
            ) from error
        found = {}
        for line in filter(None, (line.partition("#")[0].strip() for line in lines)):
            name, _, version = (part.strip() for part in line.partition("=="))
            if not (name and version):
                raise AuditError(f"{self.file} requires {line!r}; write every requirement as 'name==version'.")
            found[name.lower()] = version
        return found

    def key(self, interpreter: Interpreter) -> str:
        """Return a digest of everything that decides what is installed: the pins, and the Python interpreter."""
        what = json.dumps([sorted(self.pins.items()), interpreter.version, interpreter.path])
        return hashlib.sha256(what.encode()).hexdigest()[:16]

    def folder(self, interpreter: Interpreter) -> Path:
        """Return the folder of the environment once it is built."""
        return cache() / f"{self.name}-{self.key(interpreter)}"

    def interpreter(self) -> Interpreter:
        """Find the Python on which to build the environment.

        Raises
        ------
        NotInstalledError
            If the machine has none of the wanted versions.
        """
        for wanted in self.pythons:
            if found := interpreters.find(wanted):
                return found
        wanted = " or ".join(self.pythons)
        raise NotInstalledError(
            self.name, f"it needs Python {wanted}, and none was found on PATH, in pyenv's versions folder or by uv."
        )

    def built(self) -> Path | None:
        """Return the path of the environment's Python, or None if the environment is not built or cannot be built."""
        try:
            python = _python_path(self.folder(self.interpreter()))
        except NotInstalledError:
            return None
        return python if python.exists() else None

    def python(self) -> Path:
        """Return the path of the environment's Python, and build the environment first if necessary.

        Raises
        ------
        NotInstalledError
            If the machine has no fitting Python, or if pip fails.
        """
        interpreter = self.interpreter()
        folder = self.folder(interpreter)
        if not _python_path(folder).exists():
            with _locked(folder):
                if not _python_path(folder).exists():  # no other process built it in the meantime
                    self._build(interpreter, folder)
        return _python_path(folder)

    def _build(self, interpreter: Interpreter, folder: Path) -> None:
        print(f"{self.name}: installing into {folder} ...", file=sys.stderr, flush=True)
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # remains of a build that was killed
        try:
            self._run([interpreter.path, "-I", "-m", "venv", str(partial)])
            install = ["install", "--no-deps", "--no-input", "--disable-pip-version-check", "--only-binary=:all:"]
            install += [f"--no-binary={package}" for package in self.from_source]
            self._run([str(_python_path(partial)), "-I", "-m", "pip", *install, "--requirement", str(self.file)])
            facts = {"name": self.name, "python": interpreter.version, "pins": self.pins}
            write_whole(partial / "environment.json", json.dumps(facts, indent=1) + "\n")
            shutil.rmtree(folder, ignore_errors=True)  # remains of an environment whose Python was deleted
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _run(self, words: list[str]) -> None:
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=PIP_SECONDS, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise NotInstalledError(self.name, f"pip took longer than {PIP_SECONDS:.0f} seconds.") from None
        except OSError as error:
            raise NotInstalledError(self.name, f"{words[0]} cannot be run ({error.strerror or error}).") from error
        if done.returncode != 0:
            raise NotInstalledError(self.name, _failure_reason(done.stderr or done.stdout))


def _failure_reason(said: str) -> str:
    """Return the errors that pip reports or, if there are none, the last line of its output."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("error:")]
    errors += [line.removeprefix("×").strip() for line in lines if line.startswith("×")]
    words = "; ".join(error for error in dict.fromkeys(errors) if not error.startswith(UNINFORMATIVE_ERRORS))
    return f"pip says: {(words or ' '.join(lines[-1:]) or 'nothing')[:LONGEST_REASON]}"


def cache() -> Path:
    """Return the folder that holds all environments.

    Examples
    --------
    >>> cache().is_absolute()
    True
    """
    if given := os.environ.get("EPSAUDIT_LIBRARIES"):
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "epsaudit" / "libraries"


def _python_path(folder: Path) -> Path:
    return folder / "bin" / "python"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of one environment, so that other processes that want to build the same environment wait."""
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
"""Versions of Python that most of the libraries run on, the preferred one first. To add a library version, write its
file of requirements (``pip list --format=freeze`` in an environment where it works) and add a line below."""
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
