"""Atoms: single outputs that occur with positive probability, and how to find them in an array of outputs.

NaN counts as equal to NaN, and a row of numbers counts as equal to the tuple of these numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Bools
from epsaudit.outputs.arrays import Outputs, rows_of
from epsaudit.outputs.formatting import MAX_EXACT_INTEGER, format_value, list_names
from epsaudit.outputs.normal_form import NAN, Raised, TimedOut

MAX_COMPARED_TEXTS = 16
"""[measured] Number of texts up to which comparing all outputs with each text is faster than looking up every output.
For 65,536 outputs comparing takes 3 ms with 2 texts, 17 with 16 and 33 with 32; looking up takes 20."""


def is_atom(outputs: Outputs, atoms: Sequence[Hashable]) -> Bools:
    """Return a mask, shape (size,), that selects the outputs that are equal to one of the ``atoms``.

    An atom is a single output that occurs with positive probability.
    """
    return find_atoms(outputs, atoms) >= 0


def find_atoms(outputs: Outputs, atoms: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return the index of each output in the sequence ``atoms``, shape (size,), or -1 if the output is not in it.

    An atom is a single output that occurs with positive probability.
    """
    if outputs.dtype.kind == "U" and len(atoms) <= MAX_COMPARED_TEXTS:
        found = np.full(len(outputs), -1)
        for at, atom in enumerate(atoms):
            if isinstance(atom, str) and not atom.endswith("\0"):  # numpy drops trailing null characters
                found[outputs == atom] = at
        return found
    if outputs.dtype != np.float64:
        index = {atom: i for i, atom in enumerate(atoms)}
        return np.fromiter((index.get(value, -1) for value in outputs.tolist()), np.int64, len(outputs))
    where = []
    for at, atom in enumerate(atoms):
        numbers, shape = (atom, getattr(atom, "shape", (len(atom),))) if isinstance(atom, tuple) else ((atom,), ())
        if shape == outputs.shape[1:] and set(map(type, numbers)) <= {float}:  # an empty array has no types
            where.append(at)
    if not where:
        return np.full(len(outputs), -1)
    codes = hash_rows(outputs.reshape(len(outputs), -1))
    targets = hash_rows(np.array([atoms[at] for at in where], np.float64).reshape(len(where), -1))
    order = np.argsort(targets)
    place = order[np.minimum(np.searchsorted(targets[order], codes), len(order) - 1)]
    return np.where(targets[place] == codes, np.array(where)[place], -1)


def find_distinct(outputs: Outputs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the position of the first occurrence of every distinct output, and the inverse indices.

    The inverse indices say, for every output, to which of the distinct outputs it is equal, as those of `numpy.unique`
    do. The outputs need not be sortable.
    """
    if outputs.dtype == object:
        code: dict[Hashable, int] = {}
        place = np.array([code.setdefault(value, len(code)) for value in outputs.tolist()], np.int64)
        return np.unique(place, return_index=True)[1], place
    rows = rows_of(outputs)
    codes = outputs if rows is None else hash_rows(rows)
    ordered = np.sort(codes)  # a tenth of the time of numpy.unique
    if np.all(ordered[1:] > ordered[:-1]):  # all outputs differ, and none is NaN
        return (every := np.arange(len(codes))), every
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    return first, place


def hash_rows(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row of numbers.

    Equal rows have equal hashes, where 0 equals -0 and NaN equals NaN. Different rows almost certainly have different
    hashes.
    """
    codes = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        numbers = column + 0.0
        numbers[numbers != numbers] = NAN
        codes = (codes ^ numbers.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(29)
    return codes


def describe_atoms(negation: str, atoms: Sequence[Hashable], digits: int = 6) -> str:
    """Return the condition "the output y is one of the atoms" as text.

    If ``negation`` is 'not ', the condition is that y is none of the atoms. An atom is a single output that occurs with
    positive probability.

    >>> describe_atoms("", [1.0]), describe_atoms("not ", [1.0, "a"])
    ('y = 1', "y not in {1, 'a'}")
    >>> describe_atoms("not ", [Raised("ValueError")])
    'not (raises ValueError)'
    """
    if len(atoms) == 1:
        shown = _format_atom(atoms[0], digits)
        said = f"not ({shown})" if negation else shown
        return said if isinstance(atoms[0], (Raised, TimedOut)) else f"y {'!=' if negation else '='} {shown}"
    return f"y {negation}in {{{list_names([_format_atom(atom, digits) for atom in atoms])}}}"


def _format_atom(atom: Hashable, digits: int) -> str:
    rounded = type(atom) is float and not (atom.is_integer() and abs(atom) <= MAX_EXACT_INTEGER)
    return f"{atom:.{digits}g}" if rounded else format_value(atom)
