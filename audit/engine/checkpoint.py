"""A checkpoint: a file of lines, one a finished chunk, from which a killed audit goes on to the identical result.

Lines are JSON arrays of a checksum and a record, appended and never changed; reading one runs no code.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from epsaudit.engine.provenance import write_whole
from epsaudit.engine.streams import Chunk, Tallies, Tally, entropy
from epsaudit.errors import AuditError
from epsaudit.outputs.as_json import block_from_json, block_to_json
from epsaudit.outputs.normal_form import Outputs
from epsaudit.outputs.packed import are_objects

try:
    import fcntl
except ImportError:  # not POSIX: nothing keeps two audits from sharing a file
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

FORMAT = 2
"""Version of the file's format, which is written in its first line."""
SYNC_SHARE = 100
"""Waiting for the disk takes at most this part of the time; a kill loses nothing of what is not yet on it."""
MOST_CHUNKS = 1 << 26
"""A chunk's number is below this: 7e13 runs of the largest chunks."""
LARGEST_BLOCK = 1 << 24
"""Bytes of a chunk's outputs beyond which they are drawn again instead of recorded."""
WORTH_WRITING = 50
"""Outputs are recorded if drawing them took at least so many times as long as writing them does, about."""
SENSELESS = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, EOFError)
"""What reading a record raises that says nothing; `AuditError` is one, too."""
Identity = Mapping[str, Any]
Found = TypeVar("Found")


class Checkpoint:
    """An open checkpoint file, which one audit or suite at a time may use.

    Each line is ``["CRC32 in hexadecimal", {...}]``; the checksum is that of the record's text. Records are

    - ``{"checkpoint": 2, "seed": ..., "audits": {name: identity, ...}}``, the first line, written whole;
    - ``{"audit": name, "training": key, "size": n, "outputs": [on x, on x']}``, a finished training chunk that took
      long: the others are drawn again;
    - ``{"audit": name, "choice": {...}}``, the witness and certificate that training chose;
    - ``{"audit": name, "chunk": i, "counts": [...]}``, a finished certification chunk: runs on x and x', outputs in
      the event for x, outputs in the event for x';
    - ``{"audit": name, "sequential": key, "size": n, "planned": digest, "seen": [...], "changed": [...], "outputs":
      [on x, on x'] or null}``, a finished chunk of a sequential audit: counts at every interim look, and what is
      remembered, if anything is;
    - ``{"audit": name, "result": {...}}``, a finished audit.

    ``audits`` says what each is, by name, in words that a refusal can quote. The file is made if it is missing; a
    ``seed`` of None takes the file's, or a fresh one. `AuditError` is raised if the file cannot be read or written, is
    in use, is no checkpoint, is damaged before its last line, or belongs to other audits, with in what they differ.
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

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # wait for the disk, and let others use the file
            os.fsync(self._handle)
        os.close(self._handle)

    def section(self, name: str) -> Section:
        """Return what the file holds of one audit."""
        return self._sections[name]

    def append(self, record: Mapping[str, Any], *, now: bool = False) -> None:
        """Write one line; with ``now`` wait until it is on the disk; raises `AuditError` if that is full or gone."""
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


class Section:
    """What a checkpoint holds of one audit, checked, and where its chunks go; without a file it holds nothing."""

    def __init__(self, file: Checkpoint | None = None, name: str = "") -> None:
        self._file, self.name = file, name
        self._places: dict[tuple[tuple[int, ...], int], tuple[int, int]] = {}
        self._once: dict[str, dict[str, Any]] = {}
        self._done = bytearray()
        self.tallies = Tallies()

    @property
    def kept(self) -> bool:
        """Whether there is a file."""
        return self._file is not None

    def take_up(self, record: Mapping[str, Any], start: int, length: int) -> None:
        """Take up a record that stands at an offset of the file; raises one of `SENSELESS` for what is none."""
        for kind in ("training", "sequential"):
            if kind in record:
                self._places[tuple(record[kind]), record["size"]] = (start, length)
                return
        for kind in ("choice", "result"):
            if kind in record:
                self._once[kind] = dict(record[kind])
                return
        self._add(record["chunk"], np.array(record["counts"], dtype=np.int64))

    def recorded(self, chunk: Chunk) -> dict[str, Any] | None:
        """Return the record of a chunk of which outputs are kept, None if there is none; its outputs are arrays."""
        place = self._places.get((chunk.key, chunk.size))
        if place is None or self._file is None:
            return None
        record = self._file.read_record(*place)
        game = chunk.stage == "sequential"
        with self.making_sense("training"):
            if game and record["outputs"] is None:
                return record
            record["outputs"] = sides = tuple(side and block_from_json(side) for side in record["outputs"])
            sizes = [0 if side is None else len(side) for side in sides]
            if (sum(sizes) if game else sizes) != (chunk.size if game else [chunk.size] * 2):
                raise ValueError
        return record

    def record(self, chunk: Chunk, outputs: Sequence[Outputs | None] | None, seconds: float, **more: Any) -> None:
        """Remember a chunk and its outputs, unless these are quick to draw again, very long, or not exact in JSON."""
        written = None
        if not self.kept:
            return
        if outputs is not None:
            some = [side for side in outputs if side is not None]
            quick = seconds < WORTH_WRITING * sum(map(_seconds_to_write, some))
            if quick or any(side.nbytes > LARGEST_BLOCK for side in some):
                return
            written = [None if side is None else block_to_json(side) for side in outputs]
            if written.count(None) != len(outputs) - len(some):
                return
        kind = "sequential" if chunk.stage == "sequential" else "training"
        self._append({kind: chunk.key, "size": chunk.size, "outputs": written, **more})

    def counted(self, index: int) -> bool:
        """Say whether a certification chunk is recorded."""
        return index < len(self._done) and bool(self._done[index])

    def record_count(self, index: int, tally: Tally) -> None:
        """Remember the tally of a certification chunk."""
        self._append({"chunk": index, "counts": tally.tolist()})
        self._add(index, tally)

    def _add(self, index: int, tally: Tally) -> None:
        if type(index) is not int or not 0 <= index < MOST_CHUNKS or tally.shape != (6,) or self.counted(index):
            raise ValueError(index)
        self.tallies.add(index, tally)
        self._done.extend(bytes(max(index + 1 - len(self._done), 0)))
        self._done[index] = 1

    def once(self, kind: Literal["choice", "result"], read: Callable[[dict[str, Any]], Found]) -> Found | None:
        """Read what training chose, or the finished result; None before it is recorded."""
        if kind not in self._once:
            return None
        with self.making_sense(kind):
            return read(self._once[kind])

    def record_once(self, kind: Literal["choice", "result"], data: Callable[[], Mapping[str, Any]]) -> None:
        """Remember it, as a later run will read it, and wait until it is on the disk; raises if another is recorded."""
        if not self.kept:
            return
        written = json.loads(json.dumps(data()))
        if kind not in self._once:
            self._once[kind] = written
            self._append({kind: written}, now=True)
        elif self._once[kind] != written:
            self.refuse_other_events()

    def refuse_other_events(self) -> None:
        """Raise `AuditError`: what was drawn again is not what the recorded counts rest on."""
        raise AuditError(
            f"Training came to another event than the one that {self._path} has counts of, because the "
            "mechanism owns its randomness and its outputs cannot be written as JSON. Give another file."
        )

    @contextmanager
    def making_sense(self, what: str) -> Iterator[None]:
        """Turn the failure to read what is recorded into a sentence."""
        try:
            yield
        except SENSELESS as error:
            raise AuditError(f"The {what} of {self.name} in {self._path} makes no sense; give another file.") from error

    @property
    def _path(self) -> Path | None:
        return None if self._file is None else self._file.path

    def _append(self, record: dict[str, Any], *, now: bool = False) -> None:
        if self._file is not None:
            self._file.append({"audit": self.name, **record}, now=now)


def _seconds_to_write(outputs: Outputs) -> float:
    return 3e-6 * len(outputs) if are_objects(outputs) else 1e-8 * outputs.nbytes


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
