"""What a checkpoint holds, for tests: read from a copy, as an audit keeps others from its file, cut, and changed."""

import json
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from epsaudit.running.checkpoint import _checksum


def copied(path, folder):
    """Copy a checkpoint with what is in its log, as if it had been killed now."""
    for end in ("-wal", ""):  # in this order: what moves from the log to the file meanwhile is in both
        with suppress(FileNotFoundError):  # nobody has it open, or it was closed just now
            shutil.copyfile(f"{path}{end}", Path(folder, f"{Path(path).name}{end}"))
    return Path(folder, Path(path).name)


def records(path):
    """Audit, kind, key and data of every record, in the order in which they were written."""
    if not Path(path).exists():
        return []
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(copied(path, folder))) as file:
        try:
            rows = file.execute("SELECT audit, kind, key, data FROM records ORDER BY rowid").fetchall()
        except sqlite3.DatabaseError:  # it has just been made
            return []
    return [(audit, kind, key, json.loads(data)) for audit, kind, key, data in rows]


def counted(path):
    """How many certification chunks there are."""
    return sum(kind == "counts" for _, kind, _, _ in records(path))


def cut(path, number):
    """Leave the first records."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM records WHERE rowid > ?", (number,))


def rewrite(path, change):
    """Change the data of records, with checksums that fit: what somebody who means harm would do."""
    with closing(sqlite3.connect(path)) as file, file:
        for number, *place, data in file.execute("SELECT rowid, audit, kind, key, data FROM records").fetchall():
            text = json.dumps(change(place[1], json.loads(data)))
            row = (text, _checksum(*place, text), number)
            file.execute("UPDATE records SET data = ?, checksum = ? WHERE rowid = ?", row)


def put(path, audit, kind, key, data):
    """Add a record."""
    text = json.dumps(data)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?)", (audit, kind, key, text, _checksum(audit, kind, key, text))
        )
