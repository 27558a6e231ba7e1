"""Blocks of outputs: brought to the few kinds of arrays that witnesses read, and put together.

Arrays as mechanisms return them enter; arrays of numbers, one-dimensional arrays of strings and one-dimensional arrays
of Python objects leave. An output is the same output whatever else is in its block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from epsaudit.mechanism import Outputs, as_outputs


def plain(outputs: Outputs) -> Outputs:
    """Return outputs of any dtype as numbers of at most 64 bits, as strings, or as Python objects.

    Bytes, complex numbers, dates, records and arrays of strings become objects; a masked number becomes None.

    Examples
    --------
    >>> plain(np.array([b"a", b"b"])), plain(np.array([["a", "b"]]))
    (array([b'a', b'b'], dtype=object), array([('a', 'b')], dtype=object))
    """
    if isinstance(outputs, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(outputs)
        outputs = outputs.data.astype(object)
        outputs[masked] = None
    outputs = np.asarray(outputs)  # a matrix is an array
    if outputs.dtype.kind == "f" and outputs.dtype.itemsize > 8:
        return outputs.astype(float)
    if outputs.dtype.kind in "biuf" or (outputs.dtype.kind in "UO" and outputs.ndim == 1):
        return outputs
    return as_outputs(list(outputs))


def joined(blocks: Sequence[Any]) -> Outputs:
    """Put blocks of outputs together; arrays become tuples where other outputs are no arrays of their shape.

    Examples
    --------
    >>> joined([np.zeros((1, 2)), np.array([None], dtype=object)])
    array([(0.0, 0.0), None], dtype=object)
    """
    if len({block.shape[1:] for block in blocks}) > 1:
        blocks = [block if block.ndim == 1 else as_tuples(block) for block in blocks]
    if len({block.dtype == object for block in blocks}) > 1:
        blocks = [block.astype(object) for block in blocks]
    return np.concatenate(blocks)


def as_tuples(outputs: Outputs) -> Outputs:
    """Write arrays as tuples of their numbers, in C order."""
    tuples = np.empty(len(outputs), dtype=object)
    tuples[:] = list(map(tuple, outputs.reshape(len(outputs), -1).tolist()))
    return tuples


def numeric(outputs: Outputs, like: Outputs) -> Outputs:
    """Return the outputs that are numbers, or arrays of numbers, of the shape of those in ``like``; leave out the rest.

    Examples
    --------
    >>> numeric(np.array([(0.0, 1.0), None, "no", (2.0, 3.0)], dtype=object), np.zeros((5, 2)))
    array([[0., 1.],
           [2., 3.]])
    """
    shape = like.shape[1:]
    if outputs.dtype == object:
        values: list[Any] = outputs.tolist()
        if shape:
            size = math.prod(shape)
            values = [value for value in values if isinstance(value, tuple) and len(value) == size]
            kept = [value for value in values if all(isinstance(part, (int, float)) for part in value)]
        else:
            kept = [value for value in values if isinstance(value, (int, float))]
        outputs = np.array(kept).reshape(len(kept), *shape)
    if outputs.shape[1:] != shape or outputs.dtype.kind not in "biuf" or len(outputs) == 0:
        return like[:0]
    return outputs
