"""Atoms: single outputs that occur again and again, as hashable values that can be counted, found and saved.

Arrays of outputs of any kind enter; what leaves are tables of counts, masks and positions. Vectors meet tuples,
and NaN meets NaN.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.mechanism import Items, Outputs, Raised, TimedOut

Mask = NDArray[np.bool_]
FEW_ATOMS = 6
PLAIN = (str, int, type(None), bytes, Raised, TimedOut)
NAN = float("nan")


def canonical(value: Any) -> Hashable:
    """Return the output such that equal outputs are equal keys: every NaN is one object.

    Raises
    ------
    AuditError
        If the output cannot be hashed; the message shows it.
    """
    if isinstance(value, float):
        return NAN if value != value else value
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Items):
        return Items((canonical(key), canonical(part)) for key, part in value)
    if isinstance(value, tuple):
        return tuple(canonical(part) for part in value)
    try:
        hash(value)
        comparable = isinstance(value, Enum) or any("__eq__" in kind.__dict__ for kind in type(value).__mro__[:-1])
    except TypeError:
        comparable = False
    if not comparable:  # an object that equals only itself would make every output a new one, and hide any leak
        raise AuditError(
            f"The mechanism returned {value!r} of type {type(value).__name__}, which cannot be compared; return "
            "numbers, strings, None, or tuples, lists, sets, mappings and arrays of these."
        )
    return value  # type: ignore[no-any-return]  # hashable, as just checked


def is_atom(outputs: Outputs, atoms: Sequence[Hashable]) -> Mask:
    """Say of each output whether it equals one of ``atoms``; NaN equals NaN, vectors equal tuples.

    Examples
    --------
    >>> is_atom(np.array([1, 2, 3]), (2, "no"))
    array([False,  True, False])
    """
    if outputs.ndim > 1:
        return find_rows(outputs, atoms) >= 0
    if outputs.dtype == object:
        keys = {canonical(atom) for atom in atoms}
        return np.fromiter((canonical(value) in keys for value in outputs.tolist()), bool, len(outputs))
    if outputs.dtype.kind in "iufb":
        numbers = [atom for atom in atoms if isinstance(atom, (int, float))]
        has_nan = any(atom != atom for atom in numbers)
        found = _among(outputs, [atom for atom in numbers if atom == atom])
        return found | np.isnan(outputs) if has_nan and outputs.dtype.kind == "f" else found
    return np.isin(outputs, [atom for atom in atoms if isinstance(atom, str)])


def repeated(outputs: Outputs, outputs_prime: Outputs, least: int) -> tuple[list[Hashable], NDArray[np.int64]]:
    """Return outputs seen at least so often on both sides together, commonest first, and their counts on x and on x'.

    The counts have shape (2, number of atoms).

    Examples
    --------
    >>> atoms, counts = repeated(np.array([2.0, 1.0, 2.0]), np.array([3.0, 2.0]), 2)
    >>> atoms, counts.tolist()
    ([2.0], [[2], [1]])
    """
    pooled = np.concatenate([outputs, outputs_prime])
    if outputs.dtype == object:
        code: dict[Hashable, int] = {}
        place = np.array([code.setdefault(canonical(value), len(code)) for value in pooled.tolist()], np.int64)
        first = np.unique(place, return_index=True)[1]
    else:
        codes = row_codes(pooled.reshape(len(pooled), -1)) if outputs.ndim > 1 else pooled
        _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    counts = np.stack(
        [np.bincount(side, minlength=len(first)) for side in (place[: len(outputs)], place[len(outputs) :])]
    )
    seen = counts.sum(axis=0)
    order = np.argsort(-seen, kind="stable")
    kept = order[seen[order] >= least]
    values = pooled[first[kept]].reshape(len(kept), -1 if outputs.ndim > 1 and len(kept) else 1)
    rows = values.tolist()
    return [canonical(tuple(row) if outputs.ndim > 1 else row[0]) for row in rows], counts[:, kept]


def row_codes(rows: NDArray[Any]) -> NDArray[np.uint64]:
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
        if column.dtype.kind == "f":
            numbers = column.astype(float) + 0.0
            numbers[numbers != numbers] = NAN
            bits = numbers.view(np.uint64)
        else:
            bits = column.astype(np.int64).view(np.uint64)
        codes = (codes ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(29)
    return codes


def find_rows(outputs: Outputs, atoms: Sequence[Hashable]) -> NDArray[np.int64]:
    """Position of each output, a vector or matrix, among atoms that are tuples of as many numbers; -1 for none."""
    flat = outputs.reshape(len(outputs), -1)
    where = [i for i, atom in enumerate(atoms) if isinstance(atom, tuple) and len(atom) == flat.shape[1]]
    if not where:
        return np.full(len(outputs), -1)
    rows = np.array([atoms[i] for i in where]).astype(flat.dtype)
    codes, targets = row_codes(flat), row_codes(rows)
    order = np.argsort(targets)
    place = order[np.minimum(np.searchsorted(targets[order], codes), len(order) - 1)]
    return np.where(targets[place] == codes, np.array(where)[place], -1)


def find_atoms(outputs: Outputs, atoms: Sequence[Hashable]) -> NDArray[np.int64]:
    """Position of each output among ``atoms``, -1 for none, shape (size,)."""
    if outputs.ndim == 1 and outputs.dtype.kind in "iufb":
        numbers = np.array([atom for atom in atoms if isinstance(atom, (int, float))])
        where = np.array([i for i, atom in enumerate(atoms) if isinstance(atom, (int, float))])
        if len(numbers) == 0:
            return np.full(len(outputs), -1)
        order = np.argsort(numbers)  # NaN sorts last, and NaN outputs find it there
        place = np.minimum(np.searchsorted(numbers[order], outputs), len(numbers) - 1)
        found = numbers[order][place]
        same = (found == outputs) | ((found != found) & (outputs != outputs))
        return np.where(same, where[order][place], -1)
    if outputs.ndim > 1:
        return find_rows(outputs, atoms)
    index = {atom: i for i, atom in enumerate(atoms)}
    return np.fromiter((index.get(canonical(value), -1) for value in outputs.tolist()), np.int64, len(outputs))


def atom_to_json(atom: Hashable) -> Any:
    """Return a JSON value that `atom_from_json` turns back into the atom; other objects become their repr."""
    if atom is None or isinstance(atom, (str, bool, int)):
        return atom
    if isinstance(atom, float):
        return {"float": repr(atom)}
    if isinstance(atom, Items):
        return {"items": [[atom_to_json(key), atom_to_json(value)] for key, value in atom]}
    if isinstance(atom, frozenset):
        return {"set": [atom_to_json(part) for part in sorted(atom, key=repr)]}
    if isinstance(atom, TimedOut):
        return {"timeout": True}
    if isinstance(atom, tuple):
        return {"tuple": [atom_to_json(part) for part in atom]}
    if isinstance(atom, Raised):
        return {"raises": atom.exception}
    return {"repr": repr(atom)}


def atom_from_json(data: Any) -> Hashable:
    """Rebuild an atom; raises `AuditError` for what is none.

    Examples
    --------
    >>> atom_from_json(atom_to_json((1, None, 0.1)))
    (1, None, 0.1)
    """
    match data:
        case None | str() | bool() | int() | float():
            return data
        case {"float": str(text)}:
            return float(text)
        case {"tuple": list(parts)} | list(parts):
            return tuple(atom_from_json(part) for part in parts)
        case {"items": list(pairs)}:
            return Items((atom_from_json(key), atom_from_json(value)) for key, value in pairs)
        case {"set": list(parts)}:
            return frozenset(atom_from_json(part) for part in parts)
        case {"timeout": True}:
            return TimedOut()
        case {"raises": str(name)}:
            return Raised(name)
        case {"repr": str(text)}:
            return text
    raise AuditError(f"{data!r} is not an output.")


def _among(outputs: Outputs, numbers: list[Any]) -> Mask:
    if len(numbers) > FEW_ATOMS:
        return np.isin(outputs, numbers)
    found = np.zeros(len(outputs), bool)
    for number in numbers:
        found |= outputs == number
    return found


def describe_atoms(negation: str, atoms: Sequence[Hashable], most: int = 8) -> str:
    """Write membership in a set of atoms as a condition on y; ``negation`` is '' or 'not '."""

    def text(atom: Hashable) -> str:
        return f"{atom:.6g}" if isinstance(atom, float) else repr(atom)

    if len(atoms) == 1:
        return (
            text(atoms[0])
            if isinstance(atoms[0], (Raised, TimedOut))
            else f"y {'!=' if negation else '='} {text(atoms[0])}"
        )
    shown = ", ".join(text(atom) for atom in atoms[:most])
    more = f", ... {len(atoms) - most} more" if len(atoms) > most else ""
    return f"y {negation}in {{{shown}{more}}}"
