"""Outputs of many runs in one array: their normal forms, as floats where all are numbers or as many numbers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.normal_form import (
    REAL,
    Outputs,
    are_floats,
    items_of,
    kind_of,
    normal,
    number,
    of_numpy,
    of_tensor,
    values_of,
)

_FLOATS = {float, bool, np.float64, np.float32, np.bool_}
_NUMBERS = {*_FLOATS, int, np.int64, np.int32, np.uint64}
_UNCHANGING = {*_NUMBERS, str, type(None), bytes}
_UNFINISHED = {*_NUMBERS, np.ndarray}


def frozen(value: Any) -> Any:
    """Return something that stays as the output is now, however the mechanism goes on to use its objects.

    Cheaper than the normal form: numbers and arrays of numbers are left to `pack_frozen`, which takes many at once.
    """
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    return value.copy() if kind is np.ndarray and value.dtype.kind in "biuf" else normal(value)


def pack(values: Sequence[Any]) -> Outputs:
    """Put outputs of single runs into one array of normal forms: floats where all are numbers or as many numbers.

    Examples
    --------
    >>> pack([1.5, 2, True]), pack([(1, 2), [3, 4]]).tolist(), pack(["no", None, 1])
    (array([1.5, 2. , 1. ]), [[1.0, 2.0], [3.0, 4.0]], array(['no', None, 1.0], dtype=object))
    """
    return pack_frozen(list(map(frozen, values)))


def pack_frozen(values: Sequence[Any]) -> Outputs:
    """Put what `frozen` returned into one array of normal forms, as `pack` does."""
    kinds = set(map(type, values))
    if kinds and kinds <= _NUMBERS:
        with contextlib.suppress(OverflowError):  # a whole number beyond all floats
            numbers = np.array(values, np.float64)
            if kinds <= _FLOATS or are_floats(numbers):
                return numbers
    if kinds == {np.ndarray} and len({(value.shape, value.dtype) for value in values}) == 1:
        return normal_array(np.array(values))
    return pack_normal([normal(value) if type(value) in _UNFINISHED else value for value in values])


def pack_normal(values: list[Any]) -> Outputs:
    """Put normal forms into one array: floats, and tuples of as many floats, as arrays of floats."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values, np.float64)
    if kinds == {tuple} and len(set(map(len, values))) == 1:
        flat = list(itertools.chain.from_iterable(values))
        if set(map(type, flat)) == {float}:
            return np.array(flat, np.float64).reshape(len(values), -1)
    outputs = np.empty(len(values), dtype=object)
    outputs[:] = values
    return outputs


def normal_array(outputs: Any) -> Outputs:
    """Return an array whose first axis counts runs in normal form; never the mechanism's own memory but for floats.

    Masked numbers become None; arrays of bytes, dates or records become objects.
    """
    if isinstance(outputs, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(outputs)
        outputs = outputs.data.astype(object)
        outputs[masked] = None
    array: Outputs = of_numpy(np.asarray(of_tensor(outputs) if hasattr(outputs, "resolve_conj") else outputs))
    kind = array.dtype.kind
    if kind == "U" and array.ndim == 1:
        return array.copy()
    if kind == "b" or array.dtype == np.float64 or (kind in "iuf" and are_floats(array)):
        return np.ascontiguousarray(array, dtype=np.float64)
    return pack_normal(list(map(normal, items_of(array) if array.ndim == 1 else array)))


def join(blocks: Sequence[Outputs]) -> Outputs:
    """Put blocks of outputs in normal form together."""
    if len({(block.dtype.kind, block.shape[1:]) for block in blocks}) == 1:
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    values = [value for block in blocks for value in values_of(block)]
    outputs = np.empty(len(values), dtype=object)
    outputs[:] = values
    return outputs


def alike(first: Outputs, second: Outputs) -> tuple[Outputs, Outputs]:
    """Return two arrays of outputs as arrays of one kind, which `numpy.concatenate` can put together."""
    if first.dtype.kind == second.dtype.kind and first.shape[1:] == second.shape[1:]:
        return first, second
    both = join([first, second])
    return both[: len(first)], both[len(first) :]


def numbers_of(outputs: Outputs) -> NDArray[np.float64]:
    """Read every output as a number, shape (size,); NaN for what is none."""
    if outputs.dtype == np.float64 and outputs.ndim == 1:
        return outputs
    values = outputs.tolist() if outputs.dtype == object else []
    if not any(issubclass(kind, REAL) for kind in set(map(type, values))):
        return np.full(len(outputs), np.nan)
    return np.array([value if type(value) is float else number(value) for value in values], float)


def rows_of(outputs: Outputs) -> NDArray[np.float64] | None:
    """Return outputs that are arrays of numbers as a matrix, shape (size, coordinates); None for others."""
    return outputs.reshape(len(outputs), -1) if are_numbers(outputs) and outputs.ndim > 1 else None


def are_numbers(outputs: Outputs) -> bool:
    """Say whether all outputs are floats, or arrays of floats of one shape, and packed as such."""
    return outputs.dtype == np.float64


def are_objects(outputs: Outputs) -> bool:
    """Say whether outputs are kept as Python objects, which are slow to read."""
    return outputs.dtype == object


def like(outputs: Outputs, other: Outputs) -> Outputs:
    """Return only the outputs that are floats, or arrays of floats, of the shape of those in ``other``."""
    shape = other.shape[1:]
    if are_objects(outputs):
        outputs = pack_normal([value for value in outputs.tolist() if _shape_of(value) == shape])
    return outputs if are_numbers(outputs) and outputs.shape[1:] == shape else other[:0]


def kinds_of(outputs: Outputs) -> list[str]:
    """Name the kind of every output."""
    if outputs.dtype == object:
        return [kind_of(value) for value in outputs.tolist()]
    kind = ("string" if outputs.dtype.kind == "U" else "number", "sequence", "array")[min(outputs.ndim, 3) - 1]
    return [kind] * len(outputs)


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an output that is a float or a tuple of floats."""
    if type(value) is tuple and all(type(part) is float for part in value):
        return (len(value),)
    return () if type(value) is float else None
