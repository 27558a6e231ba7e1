"""Outputs of one shape as columns: tuples of one length, and mappings with the same keys, read once.

A hundred features read the same training outputs: they share the columns, which only say faster what the outputs say.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.outputs.normal_form import Items, Outputs, are_objects, pack_normal


@dataclass(frozen=True)
class Columns:
    """What lies at each place of outputs of one shape: at positions of a 'sequence', or at keys of a 'mapping'."""

    kind: str
    places: tuple[Hashable, ...]
    parts: tuple[Outputs, ...]

    def part(self, place: Hashable) -> Outputs | None:
        """Return the outputs at a place, None where there is none."""
        return self.parts[self.places.index(place)] if place in self.places else None


_KNOWN: dict[int, Columns | None] = {}
"""Columns of arrays that are in use, by their place in memory."""


def columns_of(outputs: Outputs) -> Columns | None:
    """Return the columns of outputs that are objects of one shape; those of a slice are slices of the whole's.

    Examples
    --------
    >>> outputs = np.empty(2, object)
    >>> outputs[:] = [("no", 1.5), ("yes", 2.5)]
    >>> columns_of(outputs[1:]).part(1), columns_of(np.array(["no", None], dtype=object)) is None
    (array([2.5]), True)
    """
    if not are_objects(outputs) or outputs.ndim != 1 or len(outputs) == 0:
        return None
    whole = outputs if outputs.base is None else outputs.base
    if not (isinstance(whole, np.ndarray) and whole.ndim == 1 and are_objects(whole) and outputs.strides[0] > 0):
        return _split(outputs.tolist())
    if id(whole) not in _KNOWN:
        _KNOWN[id(whole)] = _split(whole.tolist())
        weakref.finalize(whole, _KNOWN.pop, id(whole), None)
    found = _KNOWN[id(whole)]
    if found is None or outputs is whole:
        return found
    size, step = whole.itemsize, outputs.strides[0] // whole.itemsize
    start = (outputs.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // size
    rows = slice(start, start + step * len(outputs), step)
    return Columns(found.kind, found.places, tuple(part[rows] for part in found.parts))


def inside(outputs: Outputs, path: Sequence[Hashable]) -> Outputs | None:
    """Return what lies at a path inside outputs that all have it; None where shapes differ on the way."""
    for step in path:
        found = columns_of(outputs)
        part = None if found is None or (found.kind == "sequence" and type(step) is not int) else found.part(step)
        if part is None:
            return None
        outputs = part
    return outputs


def _split(values: list[Any]) -> Columns | None:
    kinds, size = set(map(type, values)), len(values[0]) if isinstance(values[0], tuple) else 0
    if size == 0 or kinds not in ({tuple}, {Items}) or set(map(len, values)) != {size}:
        return None
    flat = list(itertools.chain.from_iterable(values))
    parts = [flat[place::size] for place in range(size)]
    if kinds == {tuple}:
        return Columns("sequence", tuple(range(size)), tuple(map(pack_normal, parts)))
    keys = tuple(key for key, _ in values[0])
    if any(key != key or any(own != key for own, _ in part) for key, part in zip(keys, parts, strict=True)):
        return None
    return Columns("mapping", keys, tuple(pack_normal([value for _, value in part]) for part in parts))
