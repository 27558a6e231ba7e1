"""A checkpoint: a SQLite file of finished chunks, from which a killed audit continues to the identical result.

Every record is committed by itself, so a kill loses at most the record that is being written. Reading a file runs no
code.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.running.streams import entropy

APPLICATION_ID, FORMAT_VERSION = 0x65707361, 3
"""[chosen] Two numbers in the header of the file: the mark of a checkpoint ("epsa" in ASCII) and the format version."""
RECORDS = """CREATE TABLE records (
    audit TEXT, kind TEXT, key TEXT, data TEXT NOT NULL, checksum INTEGER NOT NULL, UNIQUE (audit, kind, key))"""
FAILURE_MESSAGES: dict[str | tuple[str, ...], str] = {
    "SQLITE_BUSY": "The checkpoint {path} is in use by another audit; wait for it, or give another file.",
    "SQLITE_NOTADB": "{path} is not a checkpoint of this version; give another file.",
    # SQLITE_ERROR occurs if the name of the table or of a column is damaged
    ("SQLITE_CORRUPT", "SQLITE_ERROR"): "The checkpoint {path} is damaged ({error}); restore it, or give another file.",
    (
        "SQLITE_READONLY",
        "SQLITE_CANTOPEN",
    ): "The checkpoint {path} cannot be opened ({error}); give a file that you may read and write.",
    "": "{path} cannot be written ({error}). The chunks recorded in it are safe: make room and run the same again to "
    "go on from them.",
}
"""The message for an error of SQLite, by the beginning of the error's name."""
Identity = Mapping[str, Any]
"""The facts that identify an audit, each under a name that a message can quote."""


class Checkpoint:
    """An open checkpoint file, which only one audit or suite may use at a time. A missing file is created.

    The file is a SQLite database with one table of records. A record holds JSON data and a checksum, and is found by
    the name of an audit, a kind and a key. The kinds are ``head`` (the seed and the identities of the audits),
    ``counts`` (counts of a certification chunk), ``chunk`` (outputs of a training chunk, or counts and outputs of a
    sequential chunk), ``choice`` (what training chose) and ``result``.

    Parameters
    ----------
    path : path
        The file.
    audits : mapping of str to Identity
        What identifies each audit of the file, by its name.
    seed : int, optional
        The seed; by default that of the file, or a fresh one.

    Raises
    ------
    AuditError
        If the file cannot be read or written, or if it belongs to other audits; the message names the differences.
    """

    def __init__(self, path: str | os.PathLike[str], audits: Mapping[str, Identity], seed: int | None = None) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():
            raise AuditError(f"The checkpoint {path} is not a file; give one.")
        with suppress(OSError):
            self.path.parent.mkdir(parents=True)
        with self._readable_errors():
            self._database = sqlite3.connect(self.path, timeout=0.0, isolation_level=None)
        try:
            with self._readable_errors():
                self._open({"seed": entropy(seed), "audits": audits})
            head, audits = self.read("", "head"), json.loads(json.dumps(audits))
            try:
                self.seed, theirs = int(head["seed"]), dict(head["audits"])
            except (KeyError, TypeError, ValueError) as error:
                raise AuditError(FAILURE_MESSAGES["SQLITE_NOTADB"].format(path=path)) from error
            differences = [f"seed ({self.seed} there, {seed} here)"] if seed not in (None, self.seed) else []
            if list(theirs) != list(audits):
                differences.append(f"mechanism ({_few(theirs)} there, {_few(audits)} here)")
            for name, here in audits.items():
                there, where = theirs.get(name, here), f" of {name}" if len(audits) > 1 else ""
                for field in {**here, **there}:
                    one, other = there.get(field), here.get(field)
                    if one != other:
                        digests = re.fullmatch("[0-9a-f]{16}", str(one)) or re.fullmatch("[0-9a-f]{16}", str(other))
                        differences.append(field + where + ("" if digests else f" ({one} there, {other} here)"))
            if differences:
                raise AuditError(
                    f"The checkpoint {path} belongs to another audit: it differs in {_few(differences, 4)}. Give what "
                    "it was begun with, or another file."
                )
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        with self._readable_errors():
            self._database.close()

    def read(self, audit: str, kind: str, key: str = "") -> Any:
        """Return the data of one record, or None if there is no such record."""
        return next((data for found, data in self.every(audit, kind, key) if found == key), None)

    def every(self, audit: str, kind: str, key: str | None = None) -> Iterator[tuple[str, Any]]:
        """Yield the key and the data of every record of a kind, or only of the record with the given key."""
        query = "SELECT key, data, checksum FROM records WHERE audit = ? AND kind = ? AND key = ifnull(?, key)"
        with self._readable_errors():
            for found, text, checksum in self._database.execute(f"{query} ORDER BY rowid", (audit, kind, key)):
                if checksum != _checksum(audit, kind, found, text):
                    raise sqlite3.DatabaseError(f"the {kind} of {audit or 'the file'} is not what was written")
                yield found, json.loads(text)

    def write(self, audit: str, kind: str, key: str, data: Any) -> None:
        """Write one record, completely or not at all. Raises `AuditError` if the file cannot be written."""
        text = json.dumps(data, separators=(",", ":"))
        row = (audit, kind, key, text, _checksum(audit, kind, key, text))
        with self._readable_errors():
            self._database.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", row)

    def _open(self, head: Mapping[str, Any]) -> None:
        """Lock the file, make its table if the file is new, and check that the file is intact."""
        run = self._database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        mark = [run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        if mark == [0, 0] and run("SELECT 1 FROM sqlite_master").fetchone() is None:
            run(f"PRAGMA application_id = {APPLICATION_ID}")
            run(f"PRAGMA user_version = {FORMAT_VERSION}")
            run(RECORDS)
            self.write("", "head", "", head)
        elif mark != [APPLICATION_ID, FORMAT_VERSION]:
            raise AuditError(FAILURE_MESSAGES["SQLITE_NOTADB"].format(path=self.path))
        run("COMMIT")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")  # after a power failure the last chunks may be missing; they are drawn again
        if (found := run("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(" ".join(found.split()))

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Re-raise errors of SQLite as `AuditError` with a readable message."""
        try:
            yield
        except (sqlite3.Error, json.JSONDecodeError, RecursionError) as error:
            kind = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")
            said = next(said for name, said in FAILURE_MESSAGES.items() if kind.startswith(name))
            raise AuditError(said.format(path=self.path, error=error)) from error


def _checksum(*parts: str | bytes) -> int:  # damaged text may be read as bytes
    return zlib.crc32("\0".join(map(str, parts)).encode())


def _few(names: Iterable[str], most: int = 3) -> str:
    """Return names as text, with at most ``most`` of them in full, for example 'a, b, c, and 2 more'."""
    listed = list(names)
    return ", ".join(listed[:most]) + (f", and {len(listed) - most} more" if len(listed) > most else "")
