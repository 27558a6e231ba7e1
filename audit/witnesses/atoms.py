"""Atoms: single outputs that occur again and again, which can be counted, found and described.

An atom is an output in the normal form of `epsaudit.outputs.normal_form`, which decides what counts as one output. The
functions here take arrays of such outputs, and return tables of counts, masks and positions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.normal_form import (
    NAN,
    WHOLE_IN_FLOATS,
    Array,
    Outputs,
    Raised,
    TimedOut,
    are_numbers,
    are_objects,
    rows_of,
    written,
)

Mask = NDArray[np.bool_]
FEW_ATOMS = 6
"""Up to so many numbers are compared one by one, which is faster than `numpy.isin`; it changes no result."""


def is_atom(outputs: Outputs, atoms: Sequence[Hashable]) -> Mask:
    """Say of each output whether it equals one of ``atoms``; NaN equals NaN, rows of numbers equal tuples.

    Examples
    --------
    >>> is_atom(np.array([1.0, 2.0, 3.0]), (2.0, "no"))
    array([False,  True, False])
    """
    if are_objects(outputs):
        keys = set(atoms)
        return np.fromiter((value in keys for value in outputs.tolist()), bool, len(outputs))
    if outputs.ndim > 1:
        return find_rows(outputs, atoms) >= 0
    if are_numbers(outputs):
        numbers = [atom for atom in atoms if type(atom) is float]
        found = _among(outputs, [atom for atom in numbers if atom == atom])
        return found | np.isnan(outputs) if any(atom != atom for atom in numbers) else found
    return np.isin(outputs, [atom for atom in atoms if isinstance(atom, str)])


def distinct(outputs: Outputs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each of the different outputs is first, and which of these every output is.

    Examples
    --------
    >>> distinct(np.array([2.0, 1.0, 2.0]))
    (array([1, 0]), array([1, 0, 1]))
    """
    if are_objects(outputs):
        code: dict[Hashable, int] = {}
        place = np.array([code.setdefault(value, len(code)) for value in outputs.tolist()], np.int64)
        return np.unique(place, return_index=True)[1], place
    rows = rows_of(outputs)
    codes = outputs if rows is None else row_codes(rows)
    if are_numbers(outputs):  # `numpy.unique` sorts stably, four times as slowly
        order = np.argsort(codes)
        ordered = codes[order]
        new = np.append(True, (ordered[1:] != ordered[:-1]) & (ordered[:-1] == ordered[:-1]))[: len(order)]
        place = np.empty(len(order), np.int64)
        place[order] = np.cumsum(new) - 1
        return (np.minimum.reduceat(order, np.flatnonzero(new)) if len(order) else order), place
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    return first, place


def row_codes(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Mix every row of numbers into 64 bits: equal rows have equal codes, different ones with near certainty not.

    Zero is zero whatever its sign, and NaN is NaN whatever its bits.

    Examples
    --------
    >>> codes = row_codes(np.array([[0.0, np.nan], [-0.0, np.nan], [1.0, 2.0]]))
    >>> (codes[0] == codes[1]).item(), (codes[0] == codes[2]).item()
    (True, False)
    """
    codes = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        numbers = column + 0.0
        numbers[numbers != numbers] = NAN
        codes = (codes ^ numbers.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(29)
    return codes


def find_rows(outputs: Outputs, atoms: Sequence[Hashable]) -> NDArray[np.int64]:
    """Position of each output, an array of numbers, among atoms; -1 for none."""
    flat = outputs.reshape(len(outputs), -1)
    where = np.array([i for i, atom in enumerate(atoms) if _is_row(atom, outputs.shape[1:])], np.int64)
    if len(where) == 0:
        return np.full(len(outputs), -1)
    rows = np.array([atoms[i] for i in where], np.float64)
    codes, targets = row_codes(flat), row_codes(rows)
    order = np.argsort(targets)
    place = order[np.minimum(np.searchsorted(targets[order], codes), len(order) - 1)]
    met = np.flatnonzero(targets[place] == codes)
    same = np.all((flat[met] == rows[place[met]]) | (np.isnan(flat[met]) & np.isnan(rows[place[met]])), axis=1)
    found = np.full(len(outputs), -1)
    found[met[same]] = where[place[met[same]]]
    return found


def find_atoms(outputs: Outputs, atoms: Sequence[Hashable]) -> NDArray[np.int64]:
    """Position of each output among ``atoms``, -1 for none, shape (size,)."""
    if not are_numbers(outputs):
        index = {atom: i for i, atom in enumerate(atoms)}
        return np.fromiter((index.get(value, -1) for value in outputs.tolist()), np.int64, len(outputs))
    if outputs.ndim > 1:
        return find_rows(outputs, atoms)
    where = np.array([i for i, atom in enumerate(atoms) if type(atom) is float], np.int64)
    if len(where) == 0:
        return np.full(len(outputs), -1)
    numbers = np.array([atoms[i] for i in where])
    order = np.argsort(numbers)  # NaN sorts last, and NaN outputs find it there
    place = np.minimum(np.searchsorted(numbers[order], outputs), len(numbers) - 1)
    found = numbers[order][place]
    same = (found == outputs) | ((found != found) & (outputs != outputs))
    return np.where(same, where[order][place], -1)


def describe_atoms(negation: str, atoms: Sequence[Hashable], most: int = 8) -> str:
    """Write membership in a set of atoms as a condition on y; ``negation`` is '' or 'not '."""
    if len(atoms) == 1:
        shown = _shown(atoms[0])
        return shown if isinstance(atoms[0], (Raised, TimedOut)) else f"y {'!=' if negation else '='} {shown}"
    more = f", ... {len(atoms) - most} more" if len(atoms) > most else ""
    return f"y {negation}in {{{', '.join(map(_shown, atoms[:most]))}{more}}}"


def _shown(atom: Hashable) -> str:
    rounded = type(atom) is float and not (atom.is_integer() and abs(atom) <= WHOLE_IN_FLOATS)
    return f"{atom:.6g}" if rounded else written(atom)


def _is_row(atom: Any, shape: tuple[int, ...]) -> bool:
    """Whether it may equal an array of numbers of this shape."""
    if len(shape) == 1:
        alike = type(atom) is tuple and len(atom) == shape[0]
    else:
        alike = isinstance(atom, Array) and atom.shape == shape
    return alike and all(type(part) is float for part in atom)


def _among(outputs: Outputs, numbers: list[float]) -> Mask:
    if len(numbers) > FEW_ATOMS:
        return np.isin(outputs, numbers)
    found = np.zeros(len(outputs), bool)
    for number in numbers:
        found |= outputs == number
    return found
