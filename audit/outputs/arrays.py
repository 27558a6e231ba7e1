"""Arrays of outputs: the outputs of many runs in one numpy array, packed, joined, and brought to one dtype.

A float64 array holds outputs that are all numbers, or tuples and arrays of numbers of one shape. A string array holds
strings. An object array holds any outputs in normal form.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.normal_form import (
    NUMBER_TYPES,
    Array,
    fit_in_floats,
    kind_of_type,
    list_floats,
    list_items,
    normalise,
    to_float,
    without_added_dtype,
)
from epsaudit.serve import tensor_to_array

Outputs = NDArray[Any]
"""Outputs in normal form, shape (size, ...). The dtype is float64, a string dtype, or object. A float64 array of two
dimensions holds tuples of numbers; one of three or more dimensions holds `Array` objects."""

_EXACT_FLOAT_TYPES = {float, bool, np.float64, np.float32, np.bool_}
_FAST_NUMBER_TYPES = {*_EXACT_FLOAT_TYPES, int, np.int64, np.int32, np.uint64}
_IMMUTABLE_TYPES = {*_FAST_NUMBER_TYPES, str, type(None), bytes}
_UNCONVERTED_TYPES = {*_FAST_NUMBER_TYPES, np.ndarray}
"""Types of values that `freeze_output` returns without their normal form; `pack_frozen` converts them all at once."""


def freeze_output(value: Any) -> Any:
    """Return a copy of an output that later changes of the output do not affect, as `pack_frozen` takes it.

    Numbers, strings and copies of numeric arrays are returned without conversion, because converting many of them
    together is faster. Any other output is returned in normal form, which is a plain value that compares the same way
    whatever type the mechanism returned.
    """
    kind = type(value)
    if kind in _IMMUTABLE_TYPES:
        return value
    return value.copy() if kind is np.ndarray and value.dtype.kind in "biuf" else normalise(value)


def pack(values: Sequence[Any]) -> Outputs:
    """Return one array with the outputs of many single runs, each converted to its normal form.

    The normal form is a plain value that compares the same way whatever type the mechanism returned. The result is a
    float64 array if all normal forms are floats, or sequences of floats of one length, or arrays of floats of one
    shape. Otherwise it is an object array.

    >>> pack([1.5, 2, True]), pack([(1, 2), [3, 4]]).tolist(), pack(["no", None, 1])
    (array([1.5, 2. , 1. ]), [[1.0, 2.0], [3.0, 4.0]], array(['no', None, 1.0], dtype=object))
    """
    return pack_frozen(list(map(freeze_output, values)))


def pack_frozen(values: Sequence[Any]) -> Outputs:
    """Return one array of outputs in normal form, as `pack` does, from values that `freeze_output` returned."""
    kinds = set(map(type, values))
    if kinds and kinds <= _FAST_NUMBER_TYPES:
        with contextlib.suppress(OverflowError):  # a whole number may be larger than all floats
            numbers = np.array(values, np.float64)
            if kinds <= _EXACT_FLOAT_TYPES or fit_in_floats(numbers):
                return numbers
    if kinds == {np.ndarray} and len({(value.shape, value.dtype) for value in values}) == 1:
        return normalise_array(np.array(values))
    return pack_normal([normalise(value) if type(value) in _UNCONVERTED_TYPES else value for value in values])


def pack_normal(values: list[Any]) -> Outputs:
    """Return one array of outputs that are in normal form already.

    The result is a float64 array if all outputs are floats, or tuples of floats of one length, or `Array` objects of
    floats of one shape. Otherwise it is an object array.
    """
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values, np.float64)
    if kinds in ({tuple}, {Array}) and len(shapes := {getattr(value, "shape", (len(value),)) for value in values}) == 1:
        flat = list(itertools.chain.from_iterable(values))
        if set(map(type, flat)) == {float}:
            return np.array(flat, np.float64).reshape(len(values), *shapes.pop())
    return pack_objects(values)


def pack_objects(values: list[Any]) -> Outputs:
    """Return an object array with these values as its items, whatever their types are."""
    outputs = np.empty(len(values), dtype=object)
    outputs[:] = values
    return outputs


def normalise_array(outputs: Any) -> Outputs:
    """Convert an array with the outputs of many runs to normal form; the first axis of the array counts runs.

    The result shares memory with the argument only if the argument is a float64 array or tensor.
    """
    if isinstance(outputs, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(outputs)
        outputs = outputs.data.astype(object)
        outputs[masked] = None
    array: Outputs = np.asarray(tensor_to_array(outputs) if hasattr(outputs, "resolve_conj") else outputs)
    array = without_added_dtype(array) if array.dtype.kind == "V" else array
    kind = array.dtype.kind
    if kind == "U" and array.ndim == 1:
        return array.copy()
    if kind == "b" or array.dtype == np.float64 or (kind in "iuf" and fit_in_floats(array)):
        return np.ascontiguousarray(array, dtype=np.float64)
    return pack_normal(list(map(normalise, list_items(array) if array.ndim == 1 else array)))


def values_of(outputs: Outputs) -> list[Any]:
    """Return a list with the outputs of an array as Python objects in normal form."""
    if outputs.dtype != np.float64:
        return list(outputs.tolist())
    flat = list_floats(outputs)
    if outputs.ndim == 1:
        return flat
    size = int(np.prod(outputs.shape[1:]))
    rows = [tuple(flat[place * size : (place + 1) * size]) for place in range(len(outputs))]
    return rows if outputs.ndim == 2 else [Array.of(row, outputs.shape[1:]) for row in rows]


def join_outputs(blocks: Sequence[Outputs]) -> Outputs:
    """Return one array with the outputs of all blocks, which may have different dtypes and shapes."""
    first = blocks[0]
    for block in blocks[1:]:
        if block.dtype.kind != first.dtype.kind or block.shape[1:] != first.shape[1:]:
            return pack_objects([value for block in blocks for value in values_of(block)])
    return first if len(blocks) == 1 else np.concatenate(blocks)


def align_dtypes(first: Outputs, second: Outputs) -> tuple[Outputs, Outputs]:
    """Convert two arrays of outputs to the same dtype and the same shape per output, and return both.

    After the conversion `numpy.concatenate` can join them.
    """
    if first.dtype == second.dtype and first.shape[1:] == second.shape[1:]:
        return first, second
    both = join_outputs([first, second])
    return both[: len(first)], both[len(first) :]


def select_same_shape(outputs: Outputs, other: Outputs) -> Outputs:
    """Return the ``outputs`` that consist of floats only and have the same shape as the outputs in ``other``."""
    parts = [pack_normal([one]) for one in outputs.tolist()] if outputs.dtype == object else [outputs]
    found = [one for one in parts if one.dtype == np.float64 and one.shape[1:] == other.shape[1:]]
    return join_outputs(found) if found else other[:0]


def numbers_of(outputs: Outputs) -> NDArray[np.float64]:
    """Return an array of shape (size,) with every output as a number, and NaN for every output that is not a number."""
    if outputs.dtype == np.float64 and outputs.ndim == 1:
        return outputs
    values = outputs.tolist() if outputs.dtype == object else []
    if not any(issubclass(kind, NUMBER_TYPES) for kind in set(map(type, values))):
        return np.full(len(outputs), np.nan)
    return np.array([value if type(value) is float else to_float(value) for value in values], float)


def rows_of(outputs: Outputs) -> NDArray[np.float64] | None:
    """Return outputs that are arrays of numbers as a matrix, shape (size, coordinates); None for other outputs."""
    return outputs.reshape(len(outputs), -1) if outputs.dtype == np.float64 and outputs.ndim > 1 else None


def kinds_of(outputs: Outputs) -> list[str]:
    """Return the kind of every output as a word, such as 'number' or 'string'.

    The words are those of `epsaudit.outputs.normal_form.kind_of`.
    """
    if outputs.dtype == object:
        return list(map(kind_of_type, map(type, outputs.tolist())))
    kind = ("string" if outputs.dtype.kind == "U" else "number", "sequence", "array")[min(outputs.ndim, 3) - 1]
    return [kind] * len(outputs)
