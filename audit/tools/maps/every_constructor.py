"""The audit of all constructors of OpenDP that can be built, one after the other, with a file to resume from."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.errors import AuditError, clipped
from epsaudit.running.streams import entropy
from epsaudit.tools.maps.audit import audit_subject
from epsaudit.tools.maps.process import ServedSubject

Progress = Callable[[int, int, str], None]
"""A function of the number of finished constructors, the number of all, and the name of the next one."""


@dataclass(frozen=True)
class ConstructorAudit:
    """What was tried and found for one constructor."""

    name: str
    built: int
    """Number of objects that could be built."""
    pairs: int
    """Number of pairs of neighbours that were tried."""
    verdict: str
    """'refuted', 'not refuted', 'not built' or 'not audited'."""
    found: str = ""
    """The first finding as text, with its smallest pair, or the reason why the objects were not audited."""

    def row(self) -> dict[str, Any]:
        """Return the row of a table."""
        return dict(vars(self))


def audit_constructors(
    environment: str | None,
    *,
    seconds: float = 600.0,
    trials: int = 4_000,
    confidence: float = 1.0 - 1e-6,
    seed: int | None = None,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[ConstructorAudit]:
    """Audit every constructor of the OpenDP in an environment, in about ``seconds``.

    Each constructor gets the same share of the time. With a ``checkpoint``, finished constructors are read from the
    file and not audited again.
    """
    seed, done = entropy(seed), _read(checkpoint)
    library = ServedSubject("opendp", environment)
    try:
        names = library.ask("names")
        share = seconds / len(names)
        for number, name in enumerate(names):
            if progress is not None:
                progress(number, len(names), name)
            if name not in done:
                library, done[name] = _audit_constructor(library, environment, name, share, trials, confidence, seed)
                if checkpoint is not None:
                    with checkpoint.open("a", encoding="utf-8") as file:
                        print(json.dumps(done[name].row()), file=file)
            yield done[name]
    finally:
        library.close()


def _read(checkpoint: Path | None) -> dict[str, ConstructorAudit]:
    """Return the finished constructors of a checkpoint."""
    if checkpoint is None or not checkpoint.exists():
        return {}
    try:
        rows = [json.loads(line) for line in checkpoint.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        return {row["name"]: ConstructorAudit(**row) for row in rows}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AuditError(f"{checkpoint} cannot be read as a checkpoint of 'epsaudit map' ({error}).") from None


def _audit_constructor(
    library: ServedSubject, environment: str | None, name: str, share: float, trials: int, confidence: float, seed: int
) -> tuple[ServedSubject, ConstructorAudit]:
    """Audit the objects of one constructor; a process that ended is replaced by a new one."""
    started, pairs, found, left_out = time.monotonic(), 0, "", ""
    try:
        labels = library.ask("build", name=name)
        for place, label in enumerate(labels):
            library.ask("choose", label=label)
            left = share - (time.monotonic() - started)
            if left < -share:
                break  # audits of measurements took longer than their share
            limit = max(left / (len(labels) - place), 0.2)
            try:
                result = audit_subject(library, label, 10**6, limit, trials, confidence, seed)
            except AuditError as error:
                left_out = str(error)
                continue
            pairs += result.pairs
            left_out = left_out or " ".join(result.notes)
            if result.refuted and not found:
                found = str(result)
    except AuditError as error:  # the process of the library ended
        library.close()
        return ServedSubject("opendp", environment), ConstructorAudit(name, 0, pairs, "not audited", str(error))
    if not labels:
        return library, ConstructorAudit(name, 0, 0, "not built")
    verdict = "refuted" if found else "not refuted" if pairs else "not audited"
    return library, ConstructorAudit(name, len(labels), pairs, verdict, found or clipped(left_out, 300))
