"""The audit of all constructors of OpenDP that can be built, one after the other, with a checkpoint file."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.errors import AuditError, clipped
from epsaudit.running.files import write_whole
from epsaudit.running.streams import entropy
from epsaudit.tools.maps.audit import audit_subject
from epsaudit.tools.maps.process import ServedSubject
from epsaudit.tools.maps.result import MapAudit

ConstructorProgress = Callable[[int, int, str], None]
"""A function that is called with the number of finished constructors, the number of all constructors, and the name
of the next one."""
MOST_OBJECTS = 1_000
"""[chosen] The error probability is divided by this number, which is larger than the number of objects that can be
built. All statistical refutations therefore hold together."""


@dataclass(frozen=True)
class ConstructorAudit:
    """Result of the audit of all objects that were built with one constructor of OpenDP."""

    name: str
    built: int
    """Number of objects that could be built and were audited."""
    pairs: int
    """Number of pairs of neighbours that were compared."""
    verdict: str
    """'refuted', 'inconsistent', 'not refuted', 'not built' or 'not audited'."""
    refuted: int = 0
    """Number of objects that were refuted."""
    smallest: str = ""
    """The disproof (or inconsistency) with the shortest text, including its pair of inputs, on one line."""
    found: str = ""
    """The result for the object of this disproof as text. Without a disproof: reasons why objects were not audited."""

    def row(self) -> dict[str, Any]:
        """Return the result as a dictionary, which is a row of a table."""
        return dict(vars(self))


def audit_constructors(
    environment: str | None,
    *,
    seconds: float = 600.0,
    trials: int = 4_000,
    confidence: float = 1.0 - 1e-6,
    seed: int | None = None,
    checkpoint: Path | None = None,
    progress: ConstructorProgress | None = None,
) -> Iterator[ConstructorAudit]:
    """Audit the objects of every constructor of the OpenDP that is installed in an environment.

    Parameters
    ----------
    environment : str, optional
        The Python, or the folder of the virtual environment, that has OpenDP.
    seconds : float
        Processor time for the whole audit. Every constructor gets an equal share of the time that is left, and at least
        half a second.
    trials : int
        Largest number of runs on each input of a coupling test, and of runs in the audit of a measurement.
    confidence : float
        Confidence with which all refutations by statistics hold together.
    seed : int, optional
        Seed of the search.
    checkpoint : Path, optional
        File to which the results of finished constructors are appended. Constructors in it are not audited again.
    progress : ConstructorProgress, optional
        Called before each constructor.

    Yields
    ------
    ConstructorAudit

    Raises
    ------
    AuditError
        If OpenDP cannot be imported there, or if the checkpoint is of another version of OpenDP or not readable.
    """
    seed, confidence = entropy(seed), 1.0 - (1.0 - confidence) / MOST_OBJECTS
    library = _Restarted(environment)
    try:
        done = _open(checkpoint, library.ask("version"))
        names, used = library.ask("names"), 0.0
        for number, name in enumerate(names):
            if progress is not None:
                progress(number, len(names), name)
            if name not in done:
                share = max((seconds - used) / (len(names) - number), 0.5)
                started = library.processor_time()
                done[name] = _audit_constructor(library, name, share, trials, confidence, seed)
                used += library.processor_time() - started
                if checkpoint is not None:
                    with checkpoint.open("a", encoding="utf-8") as file:
                        print(json.dumps(done[name].row()), file=file)
            yield done[name]
    finally:
        library.close()


class _Restarted:
    """The process in which OpenDP runs. It can be started again if an object has ended it.

    It has the interface of `epsaudit.tools.maps.process.Subject`.
    """

    def __init__(self, environment: str | None) -> None:
        self._environment = environment
        self._served = ServedSubject("opendp", environment)

    def ask(self, what: str, **request: Any) -> Any:
        """Send a request to the process of OpenDP and return its answer."""
        return self._served.ask(what, **request)

    def processor_time(self) -> float:
        """Return the processor time of this process and of all processes of the library, in seconds."""
        ended = os.times()  # of child processes that have ended
        spent = time.process_time() + ended.children_user + ended.children_system
        with contextlib.suppress(AuditError):  # the process has ended
            spent += float(self._served.ask("processor time"))
        return spent

    def restart_if_ended(self) -> bool:
        """Start the process of OpenDP again if it has ended, and return whether it had ended."""
        if self._served.is_running():
            return False
        self._served.close()
        self._served = ServedSubject("opendp", self._environment)
        return True

    def close(self) -> None:
        self._served.close()


def _open(checkpoint: Path | None, version: str) -> dict[str, ConstructorAudit]:
    """Return the finished results that a checkpoint file has, by the name of the constructor.

    If the file is new, write the version of OpenDP to its first line. Raises `AuditError` if the file cannot be read or
    has another version.
    """
    if checkpoint is None:
        return {}
    try:
        if not checkpoint.exists():
            checkpoint.write_text(json.dumps({"opendp": version}) + "\n", encoding="utf-8")
            return {}
        text = checkpoint.read_text(encoding="utf-8")
        first, *lines = [line for line in text.splitlines() if line.endswith("}")]
        if not text.endswith("\n"):  # the audit was stopped while a line was written
            write_whole(checkpoint, "".join(f"{line}\n" for line in (first, *lines)))
        known = json.loads(first)["opendp"]
        rows = [json.loads(line) for line in lines]
        done = {row["name"]: ConstructorAudit(**row) for row in rows}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AuditError(f"{checkpoint} cannot be read as a checkpoint of 'epsaudit map' ({error}).") from None
    if known != version:
        raise AuditError(f"{checkpoint} is of OpenDP {known}, and the environment has {version}; give another file.")
    return done


def _audit_constructor(
    library: _Restarted, name: str, share: float, trials: int, confidence: float, seed: int
) -> ConstructorAudit:
    """Audit the objects that one constructor builds, and return the joint result.

    ``share`` is the processor time in seconds for all of them. An object that cannot be audited is left out. If it has
    ended the process of OpenDP, the process is started again.
    """
    pairs, audited, reasons = 0, 0, dict[str, None]()
    disproved: list[MapAudit] = []
    try:
        labels = library.ask("build", name=name)
        if not labels:
            return ConstructorAudit(name, 0, 0, "not built", found=library.ask("why not", name=name))
        started = library.processor_time()
        for place, label in enumerate(labels):
            left = share - (library.processor_time() - started)
            # at least an equal share, whatever the objects before have used
            own = max(left / (len(labels) - place), share / len(labels))
            try:
                library.ask("choose", label=label)
                result = audit_subject(library, label, 10**6, own, trials, confidence, seed)
            except AuditError as error:
                reasons[str(error)] = None
                if library.restart_if_ended():
                    library.ask("build", name=name)  # the new process has no objects yet
                continue
            pairs += result.pairs
            audited += bool(result.pairs)
            reasons.update(dict.fromkeys(result.notes))
            if result.verdict != "not refuted":
                disproved.append(result)
    except AuditError as error:
        reasons[str(error)] = None
        library.restart_if_ended()
    if not disproved:
        verdict = "not refuted" if audited else "not audited"
        return ConstructorAudit(name, audited, pairs, verdict, found=clipped(" ".join(reasons), 300))
    refuted = [one for one in disproved if one.refuted]
    shown = min(refuted or disproved, key=lambda one: len(one.smallest()))
    verdict = "refuted" if refuted else "inconsistent"
    return ConstructorAudit(name, audited, pairs, verdict, len(refuted), shown.smallest(), str(shown))
