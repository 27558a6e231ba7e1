"""Access to the audited object, which lives in this process or in a process of another environment.

A process of another environment answers requests that are lines of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from epsaudit import serve
from epsaudit.errors import AuditError, cause_of
from epsaudit.running.served import python_of
from epsaudit.tools.maps.child import from_wire, read_made, to_wire
from epsaudit.tools.maps.subject import UnreadableDomainError

START_SCRIPT = """import sys, types
folder = sys.argv.pop(1)
for name in ("epsaudit", "epsaudit.claims", "epsaudit.tools", "epsaudit.tools.maps"):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [folder + name[len("epsaudit"):].replace(".", "/")]
from epsaudit.tools.maps.child import main
main()"""
"""The program that runs in an environment without epsaudit. It imports the modules that need no package by their path,
and nothing else of epsaudit."""


OWN_START_SCRIPT = "from epsaudit.tools.maps.child import main; main()"
"""The program that runs in the environment of epsaudit."""
FASTER = {"RUST_BACKTRACE": "0", "RUST_LIB_BACKTRACE": "0"}
"""Environment variables for the process. Without them, each error of OpenDP describes its stack, which takes 25 ms."""


class Subject(Protocol):
    """Interface to an audited object, which answers requests in this process or in another one.

    `epsaudit.tools.maps.child.answer_request` implements the requests.
    """

    def ask(self, what: str, **request: Any) -> Any:
        """Send a request of the kind ``what`` and return the answer.

        Raises `AuditError` if the object or its process cannot give an answer.
        """

    def close(self) -> None:
        """End the process of the object, if it has its own process."""


class OwnSubject:
    """An audited object that lives in this process."""

    def __init__(self, original: Any) -> None:
        try:
            self._made = read_made(original)
        except (UnreadableDomainError, TypeError) as error:
            raise AuditError(f"The object cannot be audited: {error}.") from None

    def ask(self, what: str, **request: Any) -> Any:
        if "data" in request:
            request["data"] = to_wire(request["data"])  # as for a process, because dictionaries are members of domains
        try:
            return self._made({"what": what, **request})
        except Exception as error:  # libraries raise exceptions of their own
            raise AuditError(f"The object raised {type(error).__name__}: {str(error)[:300]}") from error

    def close(self) -> None:
        pass


class ServedSubject:
    """An audited object that lives in a process of its own, usually with the Python of another environment.

    The function that ``make`` names as 'module:make' makes the object there. ``environment`` is a Python or the folder
    of a virtual environment; None is the current Python. A request fails after ``timeout`` seconds without an answer.
    """

    def __init__(self, make: str, environment: str | None, timeout: float = 600.0) -> None:
        self._make, self._timeout = make, timeout
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        folder = str(Path(serve.__file__).parent)
        start = [OWN_START_SCRIPT] if environment is None else [START_SCRIPT, folder]
        words = [python_of(environment), "-c", *start, make]
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                env={**os.environ, **FASTER},
            )
        except OSError as error:
            raise AuditError(f"{words[0]} cannot be run ({error.strerror or error}).") from None
        self._read()

    def ask(self, what: str, **request: Any) -> Any:
        assert self._process.stdin is not None
        if "data" in request:
            request["data"] = to_wire(request["data"])
        try:
            print(json.dumps({"what": what, **request}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise AuditError(f"{self._make} ended its process. {self._cause()}") from None
        return self._read()

    def _read(self) -> Any:
        output = self._process.stdout
        assert output is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(output, selectors.EVENT_READ)
            if not waiting.select(self._timeout):
                self.close()
                raise AuditError(f"{self._make} was silent for {self._timeout:g} seconds.")
        line = output.readline()
        if not line:
            raise AuditError(f"{self._make} ended its process. {self._cause()}")
        said = json.loads(line)
        if "error" in said:
            raise AuditError(f"{self._make}: {said['error']}")
        return from_wire(said["answer"])

    def _cause(self) -> str:
        """Return a sentence with the error that the ended process wrote to standard error; empty if there is none."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10.0)
        self._errors.seek(0)
        cause = cause_of(self._errors.read().decode("utf-8", "replace"))
        return f"Its standard error says: {cause!r}." if cause else ""

    def is_running(self) -> bool:
        """Return whether the process is still running."""
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what is left in the buffer of a broken pipe
                    pipe.close()


class PipelineStage:
    """Access to one stage of a pipeline, with the interface of a separate object."""

    def __init__(self, pipeline: Subject, number: int) -> None:
        self._pipeline, self._number = pipeline, number

    def ask(self, what: str, **request: Any) -> Any:
        return self._pipeline.ask(what, stage=self._number, **request)

    def close(self) -> None:
        """Do nothing, because the process belongs to the whole pipeline."""


def sampler(subject: Subject) -> Any:
    """Return a function ``sample(data, number)`` that runs the audited object on the same input several times.

    It returns a list of ``number`` independent outputs.
    """

    def sample(data: Any, number: int) -> Sequence[Any]:
        found: list[Any] = subject.ask("sample", data=data, number=number)
        return found

    return sample
