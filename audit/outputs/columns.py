"""Many outputs at once: what lies at a path inside each, read once however many features ask; which differ; and atoms.

A step of a path is a position, a key, or a `Reading` of what lies there, as of text as a record. An atom is a single
output that occurs again and again, which can be counted, found and described.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.normal_form import (
    NAN,
    WHOLE_IN_FLOATS,
    Array,
    Items,
    Mask,
    Outputs,
    Raised,
    TimedOut,
    are_numbers,
    are_objects,
    pack_normal,
    rows_of,
    values_of,
    written,
)


@dataclass(frozen=True)
class Columns:
    """What lies at each place of outputs of one shape: at positions of a 'sequence', or at keys of a 'mapping'.

    ``read`` makes the column of the place with this number.
    """

    kind: str
    places: tuple[Hashable, ...]
    read: Callable[[int], Outputs]

    def part(self, place: Hashable) -> Outputs | None:
        """Return the outputs at a place, None where there is none."""
        if self.kind == "sequence":
            if not isinstance(place, int):
                return None
            place += len(self.places) if place < 0 else 0
        return self.read(self.places.index(place)) if place in self.places else None


def size_inside(value: Any) -> int:
    """How many numbers, symbols and characters are inside a normal form."""
    if isinstance(value, Items):
        return sum(size_inside(part) for _, part in value)
    if isinstance(value, Array):
        return len(value)
    if isinstance(value, (tuple, frozenset)):
        return sum(map(size_inside, value))
    return len(value) if isinstance(value, (str, bytes)) else 1


_KNOWN: dict[int, dict[Hashable, Any]] = {}
"""What was read of arrays that are in use, by their place in memory."""


def columns_of(outputs: Outputs) -> Columns | None:
    """Return the columns of outputs that are objects of one shape; those of a slice are slices of the whole's."""
    if not are_objects(outputs) or outputs.ndim != 1 or len(outputs) == 0:
        return None
    whole, rows = _whole(outputs)
    found: Columns | None = _once(whole, "columns", _split)
    if found is None or outputs is whole:
        return found
    return Columns(found.kind, found.places, lambda number: found.read(number)[rows])


def inside(outputs: Outputs, path: Sequence[Hashable]) -> Outputs:
    """Return what lies at a path inside every output, None where nothing does."""
    for step in path:
        whole, rows = _whole(outputs)
        part = _once(whole, (type(step), step), functools.partial(_part, step=step))
        outputs = part if outputs is whole else part[rows]
    return outputs


def _whole(outputs: Outputs) -> tuple[Outputs, slice]:
    """The array that this one is some rows in a row of, if that is all that it is, and which."""
    whole = outputs.base
    if (
        isinstance(whole, np.ndarray)
        and len(outputs) > 0
        and outputs.strides[0] > 0
        and (whole.dtype, whole.shape[1:], whole.strides) == (outputs.dtype, outputs.shape[1:], outputs.strides)
    ):
        here, there = (one.__array_interface__["data"][0] for one in (outputs, whole))
        start, rest = divmod(here - there, outputs.strides[0])
        if rest == 0:
            return whole, slice(start, start + len(outputs))
    return outputs, slice(None)


def _once(outputs: Outputs, key: Hashable, make: Callable[[Outputs], Any]) -> Any:
    if not are_objects(outputs):  # others may be the memory of a mechanism, which uses it again
        return make(outputs)
    if id(outputs) not in _KNOWN:
        _KNOWN[id(outputs)] = {}
        weakref.finalize(outputs, _KNOWN.pop, id(outputs), None)
    known = _KNOWN[id(outputs)]
    if key not in known:
        known[key] = make(outputs)
    return known[key]


def _part(outputs: Outputs, step: Hashable) -> Outputs:
    """What lies at a step inside outputs, None where nothing does."""
    if callable(step):  # a reading
        return pack_normal(list(map(step, values_of(outputs))))
    rows = rows_of(outputs) if len(outputs) else None
    place = step if isinstance(step, int) else None
    if rows is not None and place is not None and -rows.shape[1] <= place < rows.shape[1]:
        return rows[:, place]
    if not are_objects(outputs) or len(outputs) == 0:
        return np.full(len(outputs), None)
    if columns := columns_of(outputs):
        part = columns.part(step)
        return np.full(len(outputs), None) if part is None else part
    found: list[Any] = []
    for value in _once(outputs, "entries", _entries):
        if type(value) is dict:
            found.append(value.get(step))
        else:
            there = place is not None and value is not None and -len(value) <= place < len(value)
            found.append(value[place] if there else None)
    return pack_normal(found)


def _entries(outputs: Outputs) -> list[Any]:
    """Mappings as dicts, which are quick to look into, sequences as they are, None for the rest."""
    return [
        dict(iter(value)) if isinstance(value, Items) else value if isinstance(value, tuple) else None
        for value in outputs.tolist()
    ]


def _split(outputs: Outputs) -> Columns | None:
    values = outputs.tolist()
    kinds, size = set(map(type, values)), len(values[0]) if isinstance(values[0], tuple) else 0
    if size == 0 or kinds not in ({tuple}, {Items}) or set(map(len, values)) != {size}:
        return None
    flat = list(itertools.chain.from_iterable(values))
    if kinds == {tuple}:
        return Columns("sequence", tuple(range(size)), functools.cache(lambda place: pack_normal(flat[place::size])))
    keys = [key for key, _ in values[0]]
    flat = list(itertools.chain.from_iterable(flat))
    if any(key != key for key in keys) or flat[::2] != keys * len(values):
        return None
    return Columns("mapping", tuple(keys), functools.cache(lambda place: pack_normal(flat[2 * place + 1 :: 2 * size])))


def is_atom(outputs: Outputs, atoms: Sequence[Hashable]) -> Mask:
    """Say of each output whether it equals one of ``atoms``; NaN equals NaN, rows of numbers equal tuples."""
    return find_atoms(outputs, atoms) >= 0


def distinct(outputs: Outputs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each of the different outputs is first, and which of these every output is."""
    if are_objects(outputs):
        code: dict[Hashable, int] = {}
        place = np.array([code.setdefault(value, len(code)) for value in outputs.tolist()], np.int64)
        return np.unique(place, return_index=True)[1], place
    rows = rows_of(outputs)
    codes = outputs if rows is None else row_codes(rows)
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    return first, place


def row_codes(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Mix every row of numbers into 64 bits: equal rows have equal codes, different ones with near certainty not.

    Zero is zero whatever its sign, and NaN is NaN whatever its bits.
    """
    codes = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        numbers = column + 0.0
        numbers[numbers != numbers] = NAN
        codes = (codes ^ numbers.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(29)
    return codes


def find_atoms(outputs: Outputs, atoms: Sequence[Hashable]) -> NDArray[np.int64]:
    """Position of each output among ``atoms``, -1 for none, shape (size,)."""
    if not are_numbers(outputs):
        index = {atom: i for i, atom in enumerate(atoms)}
        return np.fromiter((index.get(value, -1) for value in outputs.tolist()), np.int64, len(outputs))
    where = [place for place, atom in enumerate(atoms) if _is_row(atom, outputs.shape[1:])]
    if not where:
        return np.full(len(outputs), -1)
    codes = row_codes(outputs.reshape(len(outputs), -1))
    targets = row_codes(np.array([atoms[place] for place in where], np.float64).reshape(len(where), -1))
    order = np.argsort(targets)
    place = order[np.minimum(np.searchsorted(targets[order], codes), len(order) - 1)]
    return np.where(targets[place] == codes, np.array(where)[place], -1)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Write the first of some names, and how many more there are."""
    return ", ".join(names[:most]) + (f", ... {len(names) - most} more" if len(names) > most else "")


def describe_atoms(negation: str, atoms: Sequence[Hashable]) -> str:
    """Write membership in a set of atoms as a condition on y; ``negation`` is '' or 'not '."""
    if len(atoms) == 1:
        shown = _shown(atoms[0])
        return shown if isinstance(atoms[0], (Raised, TimedOut)) else f"y {'!=' if negation else '='} {shown}"
    return f"y {negation}in {{{listed([_shown(atom) for atom in atoms])}}}"


def _shown(atom: Hashable) -> str:
    rounded = type(atom) is float and not (atom.is_integer() and abs(atom) <= WHOLE_IN_FLOATS)
    return f"{atom:.6g}" if rounded else written(atom)


def _is_row(atom: Any, shape: tuple[int, ...]) -> bool:
    """Whether it may equal a number, or an array of numbers of this shape."""
    if not isinstance(atom, tuple):
        return type(atom) is float and shape == ()
    return getattr(atom, "shape", (len(atom),)) == shape and set(map(type, atom)) == {float}
