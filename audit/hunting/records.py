"""What a hunt remembers in a folder, so that one that was killed goes on: the order of the screen, audits, findings.

Audits keep checkpoints of their own there. How many pairs have been certified is written before each certification, so
that no share of the error probability is spent twice.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epsaudit.engine.provenance import write_whole
from epsaudit.engine.streams import entropy
from epsaudit.errors import AuditError
from epsaudit.hunting.certifying import Finding
from epsaudit.hunting.description import Candidate
from epsaudit.hunting.screening import Screened, as_record, from_record

try:
    import fcntl
except ImportError:  # not POSIX: nothing keeps two hunts from sharing a folder
    fcntl = None  # type: ignore[assignment]  # a module elsewhere


class Record:
    """A folder, or nothing."""

    def __init__(self, folder: Path | None, seed: int, facts: dict[str, Any]) -> None:
        self.folder, self.seed, self.facts = folder, seed, facts

    @classmethod
    @contextmanager
    def of(cls, folder: str | os.PathLike[str] | None, seed: int | None, identity: str) -> Iterator[Record]:
        """Open a folder, or begin one; raises `AuditError` for that of another hunt."""
        if folder is None:
            yield cls(None, entropy(seed), {})
            return
        path = Path(folder)
        with reserved(path):
            yield cls._opened(path, seed, identity)

    @classmethod
    def _opened(cls, path: Path, seed: int | None, identity: str) -> Record:
        facts: dict[str, Any] = {"hunt": identity, "seed": entropy(seed), "certified": 0}
        file = path / "hunt.json"
        if file.exists():
            try:
                known = json.loads(file.read_text(encoding="utf-8"))
                same = known["hunt"] == identity and (seed is None or known["seed"] == seed)
                int(known["certified"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise AuditError(f"{file} cannot be read ({error}); give another folder.") from None
            if not same:
                raise AuditError(f"{path} belongs to another hunt; give what it was begun with, or another folder.")
            facts = known
        record = cls(path, int(facts["seed"]), facts)
        record._write()
        return record

    def _write(self) -> None:
        if self.folder is not None:
            write_whole(self.folder / "hunt.json", json.dumps(self.facts))

    def screen(
        self, candidates: Sequence[Candidate], make: Callable[[], tuple[list[Screened], int]]
    ) -> tuple[list[Screened], int]:
        """Return the order of the candidates, as it is known or is made now."""
        if "screen" not in self.facts:
            found, runs = make()
            self.facts |= {"screen": as_record(found, candidates), "runs": runs}
            self._write()
            return found, runs
        return from_record(self.facts["screen"], candidates), int(self.facts["runs"])

    def checkpoint(self, name: str) -> Path | None:
        """Return the checkpoint of an audit."""
        return None if self.folder is None else self.folder / f"{name.replace(' ', '-')}.checkpoint"

    def next_certification(self) -> int:
        """Count a certification, before it is begun."""
        self.facts["certified"] = int(self.facts.get("certified", 0)) + 1
        self._write()
        return int(self.facts["certified"])

    def finding(self, number: int) -> Finding | None:
        """Return what the audit of this number was shrunk to, if that was finished."""
        known = self.facts.get("findings", {}).get(str(number))
        return None if known is None else Finding.from_dict(known)

    def keep(self, number: int, finding: Finding) -> None:
        """Remember it."""
        self.facts.setdefault("findings", {})[str(number)] = finding.to_dict()
        self._write()


@contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Let no other hunt write into a folder meanwhile, and leave no empty one.

    Raises
    ------
    AuditError
        If another hunt is at it, or it cannot be made.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = None if fcntl is None else os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise AuditError(
            f"{folder} cannot be written ({error.strerror or error}); give a folder that you may write to."
        ) from error
    try:
        if handle is not None:
            _lock(handle, folder)
        yield
    finally:
        if handle is not None:
            os.close(handle)
        if made:
            with contextlib.suppress(OSError):  # something was written
                folder.rmdir()


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AuditError(f"{folder} is in use by another hunt; wait for it, or give another folder.") from None
    except OSError:  # some network file systems lock no folders
        pass
