"""A checkpoint: a file of lines, one a finished chunk, from which a killed audit goes on to the identical result.

It stores the identity of audits and their finished chunks, and returns what is already finished. Lines are JSON arrays
of a checksum and a record, appended and never changed; reading one runs no code. See `Checkpoint` for what they hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.results import write_whole
from epsaudit.sampling import entropy
from epsaudit.section import SENSELESS, Section

try:
    import fcntl
except ImportError:  # not POSIX: nothing keeps two audits from sharing a file
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

FORMAT = 2
"""Version of the file's format, which is written in its first line."""
SYNC_SHARE = 100
"""Waiting for the disk takes at most this part of the time; a kill loses nothing of what is not yet on it."""

Identity = Mapping[str, Any]


class Checkpoint:
    """An open checkpoint file, which one audit or suite at a time may use.

    Each line is ``["CRC32 in hexadecimal", {...}]``; the checksum is that of the record's text. Records are

    - ``{"checkpoint": 2, "seed": ..., "audits": {name: identity, ...}}``, the first line, written whole;
    - ``{"audit": name, "training": key, "size": n, "outputs": [on x, on x']}``, a finished training chunk that took
      long: the others are drawn again;
    - ``{"audit": name, "choice": {...}}``, the witness and certificate that training chose;
    - ``{"audit": name, "chunk": i, "counts": [...]}``, a finished certification chunk: runs on x and x', outputs in
      the event for x, outputs in the event for x';
    - ``{"audit": name, "result": {...}}``, a finished audit.

    Parameters
    ----------
    path : path
        The file, made if it is missing.
    audits : mapping of str to Identity
        What each audit is, by name, in words that a refusal can quote.
    seed : int, optional
        Root of all random streams. None takes the file's, or a fresh one for a new file.

    Raises
    ------
    AuditError
        If the file cannot be read or written, is in use, is no checkpoint, is damaged before its last line, or belongs
        to other audits; the sentence says in what they differ.
    """

    def __init__(self, path: str | os.PathLike[str], audits: Mapping[str, Identity], seed: int | None = None) -> None:
        self.path = Path(path)
        asked = None if seed is None else entropy(seed)
        if _is_new(self.path):
            write_whole(self.path, _line({"checkpoint": FORMAT, "seed": entropy(seed), "audits": audits}))
        self._handle = self._open()
        self._last_sync, self._sync_cost = time.monotonic(), 0.0
        try:
            self._read(json.loads(json.dumps(audits)), asked)
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def section(self, name: str) -> Section:
        """Return what the file holds of one audit."""
        return self._sections[name]

    def close(self) -> None:
        """Wait for the disk and let others use the file."""
        with contextlib.suppress(OSError):
            os.fsync(self._handle)
        os.close(self._handle)

    def append(self, record: Mapping[str, Any], *, now: bool = False) -> None:
        """Write one line; with ``now`` wait until it is on the disk.

        Raises
        ------
        AuditError
            If the disk is full or gone.
        """
        left = memoryview(_line(record))
        try:
            while left:
                left = left[os.write(self._handle, left) :]
            started = time.monotonic()
            if now or started - self._last_sync > SYNC_SHARE * self._sync_cost:
                os.fsync(self._handle)
                self._last_sync = time.monotonic()
                self._sync_cost = self._last_sync - started
        except OSError as error:
            raise AuditError(
                f"{self.path} cannot be written ({error.strerror or error}). The chunks recorded in it are safe: make "
                "room and run the same again to go on from them."
            ) from error

    def _open(self) -> int:
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise AuditError(
                f"The checkpoint {self.path} cannot be opened ({error.strerror or error}); give a file that you may "
                "read and write."
            ) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise AuditError(f"The checkpoint {self.path} is not a file; give one.")
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(handle)
                raise AuditError(
                    f"The checkpoint {self.path} is in use by another audit; wait for it, or give another file."
                ) from error
        return handle

    def _read(self, audits: dict[str, Any], seed: int | None) -> None:
        """Take up all whole lines, drop a torn last one, and refuse what belongs to other audits."""
        whole = 0
        self._sections: dict[str, Section] = {}
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, start=1):
                record = _record(line)
                if number == 1:
                    if record is None or not _is_head(record):
                        raise AuditError(f"{self.path} is not a checkpoint of this version; give another file.")
                    self._take_up(record, audits, seed)
                elif record is None:
                    if file.read(1):
                        raise AuditError(
                            f"The checkpoint {self.path} is damaged in line {number}; restore it, or give another file."
                        )
                    break
                else:
                    self._sort(record, number, whole, len(line))
                whole += len(line)
        os.ftruncate(self._handle, whole)

    def _take_up(self, head: dict[str, Any], audits: dict[str, Any], seed: int | None) -> None:
        theirs = head["audits"]
        differences = []
        if seed is not None and head["seed"] != seed:
            differences.append(f"seed ({head['seed']} there, {seed} here)")
        if list(theirs) != list(audits):
            differences.append(f"mechanism ({_few(theirs)} there, {_few(audits)} here)")
        for name in audits:
            there, here = theirs.get(name, {}), audits[name]
            where = f" of {name}" if len(audits) > 1 else ""
            differences += [
                _difference(field + where, there[field], here[field])
                for field in here
                if field in there and there[field] != here[field]
            ]
        if differences:
            more = f", and {len(differences) - 4} more" if len(differences) > 4 else ""
            raise AuditError(
                f"The checkpoint {self.path} belongs to another audit: it differs in {', '.join(differences[:4])}"
                f"{more}. Give what it was begun with, or another file."
            )
        self.seed = int(head["seed"])
        self._sections = {name: Section(self, name) for name in audits}

    def _sort(self, record: dict[str, Any], number: int, start: int, length: int) -> None:
        try:
            self._sections[record["audit"]].take_up(record, start, length)
        except SENSELESS as error:
            raise AuditError(
                f"The checkpoint {self.path} makes no sense in line {number}; restore it, or give another file."
            ) from error

    def read_record(self, start: int, length: int) -> dict[str, Any]:
        """Read the line at an offset again."""
        with open(self.path, "rb") as file:
            file.seek(start)
            record = _record(file.read(length))
        if record is None:
            raise AuditError(f"The checkpoint {self.path} was changed while it was in use.")
        return record


def _line(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":")).encode()
    return b'["%08x",%s]\n' % (zlib.crc32(text), text)


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the record of a whole line, None for a torn or damaged one."""
    text = line[12:-2]
    if line[:2] != b'["' or line[10:12] != b'",' or line[-2:] != b"]\n" or line[2:10] != b"%08x" % zlib.crc32(text):
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _is_head(record: Mapping[str, Any]) -> bool:
    audits = record.get("audits")
    known = isinstance(audits, dict) and all(isinstance(identity, dict) for identity in audits.values())
    return record.get("checkpoint") == FORMAT and type(record.get("seed")) is int and known


def _is_new(path: Path) -> bool:
    try:
        return path.stat().st_size == 0 and path.is_file()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # opening it says what is wrong


def _few(names: Sequence[str] | Mapping[str, Any]) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


def _difference(field: str, theirs: Any, ours: Any) -> str:
    if any(re.fullmatch("[0-9a-f]{16}", str(value)) for value in (theirs, ours)):
        return field  # digests tell nobody anything
    return f"{field} ({theirs} there, {ours} here)"
