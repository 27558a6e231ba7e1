"""Blocks of float64 numbers as bytes: what a program that announced ``"binary": true`` may answer in place of lines.

A frame is a header of 16 bytes and the numbers, all little-endian; docs/how-to/other-languages.md specifies it. The
first byte, 0, begins no line of JSON.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

HEADER = struct.Struct("<4sIQ")
"""What an output is, how many numbers it has, and the bytes that follow."""
FIRST = b"\0"
NUMBERS, VECTORS = b"\0num", b"\0vec"
"""Outputs are numbers, or vectors: a vector of one number is not a number."""
LARGEST_BLOCK = 1 << 31
"""Bytes of one block at most: a greater number is taken for garbage, not for memory to reserve."""


def shape_announced(header: bytes, size: int) -> tuple[int, ...]:
    """Return the shape of the outputs that a header announces: (size,) of numbers, (size, width) of vectors.

    Raises
    ------
    ValueError
        If it is no header of ``size`` outputs; the message says what the program did, without naming it.

    Examples
    --------
    >>> shape_announced(HEADER.pack(VECTORS, 3, 5 * 3 * 8), 5)
    (5, 3)
    """
    kind, width, length = HEADER.unpack(header)
    if kind not in (NUMBERS, VECTORS):
        raise ValueError(f"began a frame with {kind!r}; it must be {NUMBERS!r} or {VECTORS!r}")
    if width == 0 or (kind == NUMBERS and width != 1):
        meant = "1 for numbers" if kind == NUMBERS else "at least 1 for vectors; empty outputs are lines"
        raise ValueError(f"announced a frame of width {width:,}; it must be {meant}")
    if length != 8 * size * width or length > LARGEST_BLOCK:
        raise ValueError(
            f"announced a frame of {length:,} bytes for {size:,} outputs of width {width:,}; it must be 8 bytes a "
            f"number, {8 * size * width:,}, and at most 2^31"
        )
    return (size,) if kind == NUMBERS else (size, width)


def outputs_of(data: bytearray, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the numbers of a frame as outputs of this shape; they share the memory of ``data`` where they can."""
    return np.frombuffer(data, "<f8").astype(np.float64, copy=False).reshape(shape)
