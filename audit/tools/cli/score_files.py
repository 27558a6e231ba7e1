"""Files of scores for ``epsaudit scores``: the roles of the columns of a .csv, .parquet, .npz or .npy file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.score_checks import ROW_LAYOUT, explain_rows
from epsaudit.data.column_files import ColumnArray, Columns, read_columns
from epsaudit.errors import QUOTED, AuditError, clipped, suggest_name

ROLES = ("included", "score", "run", "canary", "scored")
"""Roles of columns."""
MATRIX_ROLES = ROLES[:4]
"""Roles of the columns of a matrix in an .npy file, in this order."""
MEMBERSHIP = {"1": True, "true": True, "in": True, "yes": True, "0": False, "false": False, "out": False, "no": False}
"""Words that a file may contain for membership."""


@dataclass(frozen=True)
class Scores:
    """The contents of a file of membership scores: one array per role of a column, all of the same length.

    Attributes
    ----------
    included : bool array
        Whether the canary of each row was in the training data.
    score : float array
        The score of each row.
    run, canary, scored : array or None
        The optional columns: see `epsaudit.audit_scores`.
    notes : tuple of str
        What was assumed about the file, as sentences for the result.
    """

    included: NDArray[np.bool_]
    score: NDArray[np.float64]
    run: ColumnArray | None
    canary: ColumnArray | None
    scored: ColumnArray | None
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
    notes: list[str] = []
    columns = read_columns(file, ROW_LAYOUT, lambda file, found: _name_roles(file, found, notes))
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
    values = _scores_to_numbers(score, file) * (-1.0 if reversed_scores else 1.0)
    if members.all() or not members.any():
        kind = "members" if members.all() else "not members"
        raise AuditError(f"All {len(members):,} scores in {file} are of canaries that are {kind}; both are needed.")
    return Scores(members, values, found["run"], found["canary"], found["scored"], tuple(notes))


def _parse_names(text: str) -> dict[str, str]:
    """Parse the text of the option --names, and return a dictionary from roles to column names.

    For example, 'score=loss,included=member' becomes ``{"score": "loss", "included": "member"}``.
    """
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


def _find_column(columns: Columns, role: str, names: Mapping[str, str], file: Path) -> ColumnArray | None:
    """Return the column that has the role ``role``; None if the role is optional and there is no such column.

    ``names`` maps roles to column names that differ from them. Raises `AuditError` if a required column is missing.
    """
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
    """Convert the two columns 'in' and 'out' to the columns 'included', 'score' and 'run', with one row per run.

    'in' contains the scores of runs with the canary, and 'out' the scores of runs without the canary.
    """
    for name in ("in", "out"):
        if columns[name].ndim != 1:
            raise AuditError(f"{name} in {file} has shape {columns[name].shape}; give one score for each run.")
    sides = [columns[name] for name in ("in", "out")]
    if file.suffix.lower() in (".csv", ".parquet"):  # empty cells fill up the shorter column
        sides = [np.array([one for one in side.tolist() if one not in ("", None)]) for side in sides]
    members = np.repeat([True, False], [len(side) for side in sides])
    values = np.concatenate([_scores_to_numbers(side, file) for side in sides])
    return {"included": members, "score": values, "run": np.arange(len(members))}


def to_membership(column: ColumnArray, file: Path) -> NDArray[np.bool_]:
    """Convert the column 'included' to booleans and return them.

    The column contains numbers 0 and 1, or words such as 'in' and 'out'; see `MEMBERSHIP`.
    """
    if column.dtype.kind in "biuf" and np.all((column == 0) | (column == 1)):
        return column.astype(bool)
    words = [str(one).strip().lower() for one in column.tolist()]
    if unknown := next((word for word in words if word not in MEMBERSHIP), None):
        is_matrix = file.suffix.lower() == ".npy"
        order = f" An .npy has its columns in the order {', '.join(MATRIX_ROLES)}." if is_matrix else ""
        said = clipped(repr(unknown), QUOTED)
        raise AuditError(f"A value of included is {said}; it must be one of {', '.join(MEMBERSHIP)}.{order}")
    return np.array([MEMBERSHIP.get(word, False) for word in words], bool)


def _scores_to_numbers(column: ColumnArray, file: Path) -> NDArray[np.float64]:
    """Convert a column of scores to floats and return them.

    Text is parsed. Raises `AuditError` if a value is not a number.
    """
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


def _name_roles(file: Path, found: NDArray[Any], notes: list[str]) -> Columns:
    """Return the columns of a two-dimensional array by role, in the order of `MATRIX_ROLES`.

    An .npy file has no column names. A sentence that states the assumed roles is therefore appended to ``notes``.
    """
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
            " No column says to which run a score belongs: one run was assumed, in which each row is a canary that was "
            "included by its own coin."
        )
    notes.append(note)
    return {name: found[:, place] for place, name in enumerate(names)}
