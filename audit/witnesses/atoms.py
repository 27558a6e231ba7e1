"""Atoms: single outputs that occur again and again, as hashable values that can be counted, found and saved.

Arrays of outputs of any kind enter; what leaves are tables of counts, masks and positions. Vectors meet tuples,
and NaN meets NaN.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.mechanism import Outputs, Raised

Mask = NDArray[np.bool_]
FEW_ATOMS = 6
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
    if isinstance(value, tuple):
        return tuple(canonical(part) for part in value)
    try:
        hash(value)
    except TypeError:
        raise AuditError(
            f"The mechanism returned {value!r} of type {type(value).__name__}, which cannot be compared; return "
            "numbers, strings, None, or tuples, lists and arrays of these."
        ) from None
    return value  # type: ignore[no-any-return]  # hashable, as just checked


def is_atom(outputs: Outputs, atoms: Sequence[Hashable]) -> Mask:
    """Say of each output whether it equals one of ``atoms``; NaN equals NaN, vectors equal tuples.

    Examples
    --------
    >>> is_atom(np.array([1, 2, 3]), (2, "no"))
    array([False,  True, False])
    """
    if outputs.ndim > 1:
        rows = [np.asarray(atom) for atom in atoms if isinstance(atom, tuple)]
        found = np.zeros(len(outputs), bool)
        axes = tuple(range(1, outputs.ndim))
        for row in rows:
            if row.size == math.prod(outputs.shape[1:]):
                found |= np.all(outputs == row.reshape(outputs.shape[1:]), axis=axes)
        return found
    if outputs.dtype == object:
        keys = {canonical(atom) for atom in atoms}
        return np.fromiter((canonical(value) in keys for value in outputs.tolist()), bool, len(outputs))
    if outputs.dtype.kind in "iufb":
        numbers = [atom for atom in atoms if isinstance(atom, (int, float))]
        has_nan = any(atom != atom for atom in numbers)
        found = _among(outputs, [atom for atom in numbers if atom == atom])
        return found | np.isnan(outputs) if has_nan and outputs.dtype.kind == "f" else found
    return np.isin(outputs, [atom for atom in atoms if isinstance(atom, str)])


def tabulate(outputs: Outputs) -> dict[Hashable, int]:
    """Count equal outputs.

    Examples
    --------
    >>> tabulate(np.array([2.0, 1.0, 2.0]))
    {1.0: 1, 2.0: 2}
    """
    if outputs.dtype == object:
        table: dict[Hashable, int] = {}
        for value in outputs.tolist():
            key = canonical(value)
            table[key] = table.get(key, 0) + 1
        return table
    flat = outputs.reshape(len(outputs), -1) if outputs.ndim > 1 else outputs
    values, counts = np.unique(flat, return_counts=True, axis=0)
    atoms = [tuple(row) for row in values.tolist()] if outputs.ndim > 1 else values.tolist()
    return dict(zip(atoms, counts.tolist(), strict=True))


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
    index = {atom: i for i, atom in enumerate(atoms)}
    values = outputs.tolist() if outputs.ndim == 1 else map(tuple, outputs.reshape(len(outputs), -1).tolist())
    return np.fromiter((index.get(canonical(value), -1) for value in values), np.int64, len(outputs))


def atom_to_json(atom: Hashable) -> Any:
    """Return a JSON value that `atom_from_json` turns back into the atom; other objects become their repr."""
    if atom is None or isinstance(atom, (str, bool, int)):
        return atom
    if isinstance(atom, float):
        return {"float": repr(atom)}
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
        case None | str() | bool() | int():
            return data
        case {"float": str(text)}:
            return float(text)
        case {"tuple": list(parts)}:
            return tuple(atom_from_json(part) for part in parts)
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
        return text(atoms[0]) if isinstance(atoms[0], Raised) else f"y {'!=' if negation else '='} {text(atoms[0])}"
    shown = ", ".join(text(atom) for atom in atoms[:most])
    more = f", ... {len(atoms) - most} more" if len(atoms) > most else ""
    return f"y {negation}in {{{shown}{more}}}"
