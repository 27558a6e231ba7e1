"""Files of scores for ``epsaudit scores``: the columns of a .csv, .parquet, .npz or .npy file.

A file may be damaged in any way. This module turns every such problem into an `AuditError` with one sentence.
"""

from __future__ import annotations

import contextlib
import csv
import os
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.score_checks import ROW_LAYOUT, explain_rows
from epsaudit.errors import QUOTED, AuditError, clipped, needs, suggest_name

Column = NDArray[Any]
Columns = dict[str, Column]
ROLES = ("included", "score", "run", "canary", "scored")
"""Roles of columns."""
MATRIX_ROLES = ROLES[:4]
"""Roles of the columns of a matrix in an .npy file, in this order."""
MEMBERSHIP = {"1": True, "true": True, "in": True, "yes": True, "0": False, "false": False, "out": False, "no": False}
"""Words that a file may contain for membership."""
POLARS_PANIC = "PanicException"
"""Name of the exception that polars, a library written in Rust, raises for internal errors. It is not an
`Exception`."""


@dataclass(frozen=True)
class Scores:
    """The columns of a file of scores by role, all of the same length.

    ``notes`` says what was assumed about the file.
    """

    included: NDArray[np.bool_]
    score: NDArray[np.float64]
    run: Column | None
    canary: Column | None
    scored: Column | None
    notes: tuple[str, ...] = ()


def read_scores(file: Path, names: str = "") -> Scores:
    """Read a file of scores; raise `AuditError` with one sentence if it cannot be read.

    Parameters
    ----------
    file : Path
        The ending of the name selects the format.
    names : str
        Names of columns that differ from their roles, such as 'score=loss,included=member'. A minus sign before the
        column of the scores reverses their order: 'score=-loss'.
    """
    chosen = _parse_names(names)
    columns, notes = read_columns(file)
    if not columns:
        raise AuditError(f"{file} has no columns. Give {ROW_LAYOUT}.")
    if {"in", "out"} <= columns.keys() and not {"included", "score"} & columns.keys():
        columns = _join_in_and_out(columns, file)
    found = {role: _find_column(columns, role, chosen, file) for role in ROLES}
    included, score = found["included"], found["score"]
    assert included is not None  # _find_column raises an error for missing columns
    assert score is not None
    for role, column in found.items():
        if column is not None and column.ndim != 1:
            raise AuditError(f"{role} in {file} has shape {column.shape}. {explain_rows(column.shape)}")
        if column is not None and len(column) != len(included):
            raise AuditError(f"{file} has {len(included):,} rows of included and {len(column):,} of {role}.")
    if len(included) == 0:
        raise AuditError(f"{file} has no rows. Give {ROW_LAYOUT}.")
    members = to_membership(included, file)
    reversed_scores = chosen.get("score", "").startswith("-") and chosen["score"] not in columns
    values = _to_numbers(score, file) * (-1.0 if reversed_scores else 1.0)
    if members.all() or not members.any():
        kind = "members" if members.all() else "not members"
        raise AuditError(f"All {len(members):,} scores in {file} are of canaries that are {kind}; both are needed.")
    return Scores(members, values, found["run"], found["canary"], found["scored"], tuple(notes))


def _parse_names(text: str) -> dict[str, str]:
    """Return the column names by role from the text of --names."""
    names: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        role, sign, column = (word.strip() for word in part.partition("="))
        if role not in ROLES:
            raise AuditError(f"--names has {role!r}; it must be one of {', '.join(ROLES)}.{suggest_name(role, ROLES)}")
        if not (sign and column):
            raise AuditError(f"--names has {part!r}; give ROLE=COLUMN, as in score=loss or score=-loss.")
        if role in names:
            raise AuditError(f"--names has two columns for {role!r}, {names[role]!r} and {column!r}; give one.")
        names[role] = column
    return names


def _find_column(columns: Columns, role: str, names: Mapping[str, str], file: Path) -> Column | None:
    """Return the column with this role, or None if it is optional and missing."""
    name = names.get(role, role)
    if name in columns:
        return columns[name]
    if role == "score" and name.startswith("-") and name[1:] in columns:
        return columns[name[1:]]
    if role in names or role in ("included", "score"):
        there = clipped(", ".join(map(repr, columns)), 5 * QUOTED)
        raise AuditError(f"{file} has no column {name!r}; it has {there}. See --names.")
    return None


def _join_in_and_out(columns: Columns, file: Path) -> Columns:
    """Convert the columns 'in' and 'out' to one row for each run.

    The columns contain scores of runs with the canary and of runs without the canary.
    """
    for name in ("in", "out"):
        if columns[name].ndim != 1:
            raise AuditError(f"{name} in {file} has shape {columns[name].shape}; give one score for each run.")
    sides = [columns[name] for name in ("in", "out")]
    if file.suffix.lower() in (".csv", ".parquet"):  # empty cells fill up the shorter column
        sides = [np.array([one for one in side.tolist() if one not in ("", None)]) for side in sides]
    members = np.repeat([True, False], [len(side) for side in sides])
    values = np.concatenate([_to_numbers(side, file) for side in sides])
    return {"included": members, "score": values, "run": np.arange(len(members))}


def to_membership(column: Column, file: Path) -> NDArray[np.bool_]:
    """Return whether each row is a member, from numbers 0 and 1 or from the words in `MEMBERSHIP`."""
    if column.dtype.kind in "biuf" and np.all((column == 0) | (column == 1)):
        return column.astype(bool)
    words = [str(one).strip().lower() for one in column.tolist()]
    if unknown := next((word for word in words if word not in MEMBERSHIP), None):
        is_matrix = file.suffix.lower() == ".npy"
        order = f" An .npy has its columns in the order {', '.join(MATRIX_ROLES)}." if is_matrix else ""
        said = clipped(repr(unknown), QUOTED)
        raise AuditError(f"A value of included is {said}; it must be one of {', '.join(MEMBERSHIP)}.{order}")
    return np.array([MEMBERSHIP.get(word, False) for word in words], bool)


def _to_numbers(column: Column, file: Path) -> NDArray[np.float64]:
    """Return scores as numbers. Columns of text may contain numbers."""
    if column.dtype.kind in "fiub":
        return column.astype(float)
    if column.dtype.kind not in "OU":
        raise AuditError(f"The scores in {file} are of type {column.dtype}; they must be numbers.")
    numbers = np.empty(len(column))
    for place, text in enumerate(column.tolist()):
        try:
            numbers[place] = float(text)
        except (TypeError, ValueError, OverflowError):
            said = clipped(repr(text), QUOTED)
            raise AuditError(f"A score in {file} is {said}; it must be a number.") from None
    return numbers


def read_columns(file: Path) -> tuple[Columns, list[str]]:
    """Return the columns of a file by name, and notes about what was assumed."""
    readers: dict[str, Callable[[Path], tuple[Columns, list[str]]]] = {
        ".csv": _read_csv,
        ".parquet": _read_parquet,
        ".npz": _read_npz,
        ".npy": _read_npy,
    }
    kind = file.suffix.lower()
    if kind not in readers:
        raise AuditError(f"{file} ends in {kind!r}; it must end in {', '.join(readers)}.")
    try:
        with file.open("rb") as stream:
            if not stream.read(1):
                raise AuditError(f"{file} is empty. Give {ROW_LAYOUT}.")
        columns, notes = readers[kind](file)
        return {name: _as_text(column) for name, column in columns.items()}, notes
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


def _as_text(column: Column) -> Column:
    """Convert a column of bytes to text; return other columns unchanged."""
    if column.dtype.kind == "S":
        return np.array([one.decode("utf-8", "replace") for one in column.reshape(-1).tolist()]).reshape(column.shape)
    return column


def _read_csv(file: Path) -> tuple[Columns, list[str]]:
    """Return the columns of a CSV file as text. The first line contains their names."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = [[cell.strip() for cell in row] for row in csv.reader(stream) if row]
    head, *rows = rows or [[]]
    if twice := [name for name, times in Counter(head).items() if times > 1]:
        raise AuditError(f"{file} has {twice[0]!r} more than once in its first line; a column must have its own name.")
    if not rows:
        raise AuditError(f"{file} has no rows below its first line, which names the columns. Give {ROW_LAYOUT}.")
    if any(len(row) != len(head) for row in rows):
        raise AuditError(f"{file} has rows of different lengths; its first line names {len(head)} columns.")
    return {name: np.array(column, object) for name, column in zip(head, zip(*rows, strict=True), strict=True)}, []


def _read_parquet(file: Path) -> tuple[Columns, list[str]]:
    """Return the columns of a Parquet file."""
    with needs("parquet"):
        import polars
    with _silenced():
        return {one.name: one.to_numpy() for one in polars.read_parquet(file)}, []


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Discard what native code writes to standard error.

    Polars prints an internal error in addition to raising it.
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


def _read_npz(file: Path) -> tuple[Columns, list[str]]:
    """Return the arrays of an .npz file."""
    if not zipfile.is_zipfile(file):
        raise AuditError(f"{file} is not a numpy .npz file, or is truncated.")
    with np.load(file, allow_pickle=False) as found:
        if twice := [name for name, times in Counter(found.files).items() if times > 1]:
            raise AuditError(f"{file} has {twice[0]!r} more than once.")
        columns = {name: found[name] for name in found.files}
    if other := [name for name, column in columns.items() if not isinstance(column, np.ndarray)]:
        raise AuditError(f"{file} contains {other[0]!r}, which is not a numpy array.")
    return columns, []


def _read_npy(file: Path) -> tuple[Columns, list[str]]:
    """Return the columns of an .npy file, with a note if they have no names."""
    with file.open("rb") as stream:
        if stream.read(6) != b"\x93NUMPY":
            raise AuditError(f"{file} is not a numpy .npy file.")
    found = np.array(np.load(file, mmap_mode="r", allow_pickle=False))  # mapping fails early if the file is too short
    if found.dtype.names:
        return {name: found[name] for name in found.dtype.names}, []
    order = ", ".join(MATRIX_ROLES)
    if found.ndim == 1:
        raise AuditError(
            f"{file} has 1 dimension, of {len(found):,} values; an .npy has columns, in the order {order}, one row for "
            "each score. Scores of both kinds go into one .npz, as arrays in and out."
        )
    if found.ndim != 2 or not 2 <= found.shape[1] <= len(MATRIX_ROLES):
        raise AuditError(
            f"{file} has shape {found.shape}; an .npy has 2 to {len(MATRIX_ROLES)} columns, in the order {order}. "
            f"{explain_rows(found.shape)}"
        )
    names = MATRIX_ROLES[: found.shape[1]]
    note = f"The columns of {file} have no names; they were taken for {', '.join(names)}, in this order."
    if "run" not in names:
        note += (
            " No column says of which run a score is: one run was assumed, each row a canary with a coin of its own."
        )
    return {name: found[:, place] for place, name in enumerate(names)}, [note]
