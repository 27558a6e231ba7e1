"""Columns of files: the arrays of a .csv, .parquet, .npz or .npy file by name.

A file may be damaged in any way. This module turns every such problem into an `AuditError` with one sentence. What the
columns mean is decided by the callers, which read scores or tables.
"""

from __future__ import annotations

import contextlib
import csv
import os
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import QUOTED, AuditError, clipped, needs

ColumnArray = NDArray[Any]
"""The values of one column, shape (rows,)."""
Columns = dict[str, ColumnArray]
NameMatrix = Callable[[Path, NDArray[Any]], Columns]
"""A function that names the columns of an .npy file without names; it raises `AuditError` for other shapes."""
POLARS_PANIC = "PanicException"
"""Name of the exception that polars, a library written in Rust, raises for internal errors. It is not an
`Exception`."""


def read_columns(file: Path, layout: str, name_matrix: NameMatrix) -> Columns:
    """Return the columns of a file by name.

    Parameters
    ----------
    file : Path
        The ending of the name selects the format. Columns of a CSV file are text, of type object.
    layout : str
        What the file must contain. Messages about empty files end with "Give ...".
    name_matrix : callable
        Names the columns of an .npy file.

    Raises `AuditError` with one sentence if the file cannot be read.
    """
    readers: dict[str, Callable[[], Columns]] = {
        ".csv": lambda: _read_csv(file, layout),
        ".parquet": lambda: _read_parquet(file),
        ".npz": lambda: _read_npz(file),
        ".npy": lambda: _read_npy(file, name_matrix),
    }
    kind = file.suffix.lower()
    if kind not in readers:
        raise AuditError(f"{file} ends in {kind!r}; it must end in {', '.join(readers)}.")
    try:
        with file.open("rb") as stream:
            if not stream.read(1):
                raise AuditError(f"{file} is empty. Give {layout}.")
        return {name: _as_text(column) for name, column in readers[kind]().items()}
    except OSError as error:
        raise AuditError(f"{file} cannot be read: {error.strerror or error}.") from None
    except MemoryError:
        raise AuditError(f"{file} cannot be read: there is not enough memory for the size that it states.") from None
    except BaseException as error:
        if isinstance(error, AuditError) or not (isinstance(error, Exception) or type(error).__name__ == POLARS_PANIC):
            raise
        # decoders raise many types of errors for damaged files: zlib.error, BadZipFile, csv.Error, ComputeError
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        said = clipped(lines[0].rstrip(".:"), 3 * QUOTED)
        raise AuditError(f"{file} cannot be read as {kind}; it may be damaged ({said}).") from None


def _as_text(column: ColumnArray) -> ColumnArray:
    """Convert a column of bytes to text; return other columns unchanged."""
    if column.dtype.kind == "S":
        return np.array([one.decode("utf-8", "replace") for one in column.reshape(-1).tolist()]).reshape(column.shape)
    return column


def _read_csv(file: Path, layout: str) -> Columns:
    """Return the columns of a CSV file as text; the first line of the file contains their names."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = [[cell.strip() for cell in row] for row in csv.reader(stream) if row]
    head, *rows = rows or [[]]
    if twice := [name for name, times in Counter(head).items() if times > 1]:
        raise AuditError(f"{file} has {twice[0]!r} more than once in its first line; a column must have its own name.")
    if not rows:
        raise AuditError(f"{file} has no rows below its first line, which names the columns. Give {layout}.")
    if any(len(row) != len(head) for row in rows):
        raise AuditError(f"{file} has rows of different lengths; its first line names {len(head)} columns.")
    return {name: np.array(column, object) for name, column in zip(head, zip(*rows, strict=True), strict=True)}


def _read_parquet(file: Path) -> Columns:
    """Return the columns of a Parquet file."""
    with needs("parquet"):
        import polars
    with _silenced():
        return {one.name: one.to_numpy() for one in polars.read_parquet(file)}


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Return a context manager that discards everything that native code writes to standard error.

    It is needed because polars prints an internal error in addition to raising it.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _read_npz(file: Path) -> Columns:
    """Return the arrays of an .npz file."""
    if not zipfile.is_zipfile(file):
        raise AuditError(f"{file} is not a numpy .npz file, or is truncated.")
    with np.load(file, allow_pickle=False) as found:
        if twice := [name for name, times in Counter(found.files).items() if times > 1]:
            raise AuditError(f"{file} has {twice[0]!r} more than once.")
        columns = {name: found[name] for name in found.files}
    if other := [name for name, column in columns.items() if not isinstance(column, np.ndarray)]:
        raise AuditError(f"{file} contains {other[0]!r}, which is not a numpy array.")
    return columns


def _read_npy(file: Path, name_matrix: NameMatrix) -> Columns:
    """Return the columns of an .npy file by name; ``name_matrix`` names them if the array of the file has no names."""
    with file.open("rb") as stream:
        if stream.read(6) != b"\x93NUMPY":
            raise AuditError(f"{file} is not a numpy .npy file.")
    found = np.array(np.load(file, mmap_mode="r", allow_pickle=False))  # mapping fails early if the file is too short
    if found.dtype.names:
        return {name: found[name] for name in found.dtype.names}
    return name_matrix(file, found)
