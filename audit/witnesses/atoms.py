"""Atoms: single outputs that occur again and again, as hashable values that can be counted, found and saved.

Arrays of outputs of any kind enter; what leaves are tables of counts, masks and positions. Two outputs are one atom if
Python calls them equal: True is 1 is 1.0 is Decimal(1), and 0.0 is -0.0 (``witnesses='all'`` tells these two apart). A
list or a vector is the tuple of its parts, a set is its frozenset, and NaN meets NaN.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Hashable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError
from epsaudit.mechanism import Items, Outputs, Raised, TimedOut

Mask = NDArray[np.bool_]
FEW_ATOMS = 6
PLAIN = (str, int, type(None), bytes, Raised, TimedOut)
NAN, COMPLEX_NAN, DECIMAL_NAN = float("nan"), complex("nan"), Decimal("nan")
WHOLE_IN_FLOATS = 2**53
"""Whole numbers beyond are not all floats."""


def canonical(value: Any) -> Hashable:
    """Return the output such that equal outputs are equal keys, which can be saved: every NaN is one object.

    Raises
    ------
    AuditError
        If the output cannot be compared with what was saved of another; the message shows it.
    """
    if isinstance(value, float):
        return NAN if value != value else value
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Items):
        return Items((canonical(key), canonical(part)) for key, part in value)
    if isinstance(value, tuple):
        return tuple(canonical(part) for part in value)
    if isinstance(value, frozenset):
        return frozenset(map(canonical, value))
    if isinstance(value, (complex, Decimal, Fraction)):
        return _number(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    if isinstance(value, (Fraction, datetime.date, datetime.time, datetime.timedelta)):
        return value
    if isinstance(value, np.generic):
        return canonical(float(value) if isinstance(value, np.floating) else value.item())
    raise _refused(value)  # an object that equals only itself would make every output a new one, and hide any leak


def is_atom(outputs: Outputs, atoms: Sequence[Hashable]) -> Mask:
    """Say of each output whether it equals one of ``atoms``; NaN equals NaN, vectors equal tuples.

    Examples
    --------
    >>> is_atom(np.array([1, 2, 3]), (2, "no"))
    array([False,  True, False])
    """
    if outputs.ndim > 1:
        return find_rows(outputs, atoms) >= 0
    if outputs.dtype == object or _too_large_for_floats(atoms):
        keys = {canonical(atom) for atom in atoms}
        return np.fromiter((canonical(value) in keys for value in outputs.tolist()), bool, len(outputs))
    if outputs.dtype.kind in "iufb":
        numbers = [atom for atom in atoms if isinstance(atom, (int, float))]
        has_nan = any(atom != atom for atom in numbers)
        if outputs.dtype.kind == "f":
            outputs = outputs.astype(float, copy=False)  # numpy would round a number to a shorter float before
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
    where = [i for i, atom in enumerate(atoms) if _is_row(atom, flat.shape[1])]
    if not where:
        return np.full(len(outputs), -1)
    if any(_too_large_for_floats(atoms[i]) for i in where):  # type: ignore[arg-type]  # tuples, as just checked
        index = {atoms[i]: i for i in where}
        return np.array([index.get(canonical(tuple(row)), -1) for row in flat.tolist()], np.int64)
    rows = np.array([atoms[i] for i in where])
    if rows.dtype != flat.dtype:
        if rows.dtype.kind == "f" and flat.dtype.kind != "f":
            flat = flat.astype(float)
        elif flat.dtype.kind == "f":
            flat, rows = flat.astype(float, copy=False), rows.astype(float, copy=False)
    codes, targets = row_codes(flat), row_codes(rows)
    order = np.argsort(targets)
    place = order[np.minimum(np.searchsorted(targets[order], codes), len(order) - 1)]
    return np.where(targets[place] == codes, np.array(where)[place], -1)


def find_atoms(outputs: Outputs, atoms: Sequence[Hashable]) -> NDArray[np.int64]:
    """Position of each output among ``atoms``, -1 for none, shape (size,)."""
    if outputs.ndim == 1 and outputs.dtype.kind in "iufb" and not _too_large_for_floats(atoms):
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
    """Return a JSON value that `atom_from_json` turns back into the atom; raises `AuditError` where there is none.

    Examples
    --------
    >>> atom_to_json((1, b"a")), atom_to_json(Fraction(1, 3))
    ({'tuple': [1, {'bytes': '61'}]}, {'fraction': [1, 3]})
    """
    match atom:
        case None | str() | bool() | int():
            return atom
        case float():
            return {"float": repr(float(atom))}
        case Items():
            return {"items": [[atom_to_json(key), atom_to_json(value)] for key, value in atom]}
        case frozenset():
            return {"set": sorted(map(atom_to_json, atom), key=json.dumps)}
        case TimedOut():
            return {"timeout": True}
        case tuple():
            return {"tuple": [atom_to_json(part) for part in atom]}
        case Raised():
            return {"raises": atom.exception}
        case bytes():
            return {"bytes": atom.hex()}
        case complex():
            return {"complex": [repr(atom.real), repr(atom.imag)]}
        case Decimal():
            return {"decimal": str(atom)}
        case Fraction():
            return {"fraction": [atom.numerator, atom.denominator]}
        case datetime.datetime():
            return {"datetime": atom.isoformat()}
        case datetime.date():
            return {"date": atom.isoformat()}
        case datetime.time():
            return {"time": atom.isoformat()}
        case datetime.timedelta():
            return {"timedelta": [atom.days, atom.seconds, atom.microseconds]}
    raise _refused(atom)


def atom_from_json(data: Any) -> Hashable:
    """Rebuild an atom; raises `AuditError` for what is none.

    Examples
    --------
    >>> atom_from_json(atom_to_json((1, None, 0.1)))
    (1, None, 0.1)
    """
    try:
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
            case {"bytes": str(text)}:
                return bytes.fromhex(text)
            case {"complex": [str(real), str(imaginary)]}:
                return complex(float(real), float(imaginary))
            case {"decimal": str(text)}:
                return Decimal(text)
            case {"fraction": [int(over), int(under)]}:
                return Fraction(over, under)
            case {"datetime": str(text)}:
                return datetime.datetime.fromisoformat(text)
            case {"date": str(text)}:
                return datetime.date.fromisoformat(text)
            case {"time": str(text)}:
                return datetime.time.fromisoformat(text)
            case {"timedelta": [int(days), int(seconds), int(microseconds)]}:
                return datetime.timedelta(days, seconds, microseconds)
            case {"repr": str(text)}:  # files from before these kinds were written
                return text
    except (ValueError, TypeError, ArithmeticError):
        pass
    raise AuditError(f"{data!r} is not an output.")


def _number(value: complex | Decimal | Fraction) -> Hashable:
    """The float that it equals, where it equals one: among outputs that are all numbers it would be that."""
    if value != value:
        return COMPLEX_NAN if isinstance(value, complex) else DECIMAL_NAN
    if isinstance(value, complex):
        return value if value.imag else value.real
    try:
        return float(value) if float(value) == value else value
    except OverflowError:
        return value


def _refused(value: Any) -> AuditError:
    return AuditError(
        f"The mechanism returned {value!r} of type {type(value).__name__}, which cannot be compared; return numbers, "
        "strings, bytes, dates, None, or tuples, lists, sets, mappings and arrays of these."
    )


def _too_large_for_floats(atoms: Sequence[Hashable]) -> bool:
    """Whether some are whole numbers that numpy would round where it makes floats of them."""
    return any(isinstance(atom, int) and not -WHOLE_IN_FLOATS <= atom <= WHOLE_IN_FLOATS for atom in atoms)


def _is_row(atom: Hashable, size: int) -> bool:
    """Whether it may equal an array of so many numbers."""
    return isinstance(atom, tuple) and len(atom) == size and all(isinstance(part, (int, float)) for part in atom)


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
        return f"{atom:.6g}" if isinstance(atom, float) else _written(atom)

    if len(atoms) == 1:
        return (
            text(atoms[0])
            if isinstance(atoms[0], (Raised, TimedOut))
            else f"y {'!=' if negation else '='} {text(atoms[0])}"
        )
    shown = ", ".join(text(atom) for atom in atoms[:most])
    more = f", ... {len(atoms) - most} more" if len(atoms) > most else ""
    return f"y {negation}in {{{shown}{more}}}"


def _written(atom: Hashable) -> str:
    """As `repr`, with the elements of a set in an order that does not change from one process to the next."""
    if isinstance(atom, frozenset):
        return f"frozenset({{{', '.join(sorted(map(_written, atom)))}}})" if atom else "frozenset()"
    if type(atom) is tuple:
        return f"({', '.join(map(_written, atom))}{',' if len(atom) == 1 else ''})"
    return repr(atom)
