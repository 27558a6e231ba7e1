"""Parts of structured outputs: the value at one path inside every output of an array, and the places that all share.

Many features read the same parts, so the parts of an array are computed once and kept for as long as the array exists.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from epsaudit.outputs.arrays import Outputs, pack_normal, rows_of, values_of
from epsaudit.outputs.normal_form import Array, Items

OutputPath = tuple[Hashable, ...]
"""Where a part lies inside an output: the positions, keys and readings that lead to it."""


class Layout(NamedTuple):
    """The places that all outputs of an array have in common: the positions of a sequence, or the keys of a mapping.

    ``kind`` is 'sequence' or 'mapping'.
    """

    kind: str
    places: tuple[Hashable, ...]


_CACHE: dict[int, dict[Hashable, Any]] = {}
"""Parts and layouts of the object arrays that exist, by the address of the array and the name of the part."""


def layout_of(outputs: Outputs) -> Layout | None:
    """Return the places that all outputs of an object array have in common; None if there are none, or they differ.

    A slice of consecutive rows has the layout of the whole array, for which the layout is computed once.
    """
    if outputs.dtype != object or outputs.ndim != 1 or len(outputs) == 0:
        return None
    found: Layout | None = _compute_once(_find_whole(outputs)[0], "layout", _find_layout)
    return found


def parts_at(outputs: Outputs, path: Sequence[Hashable]) -> Outputs:
    """Return an array with the part at one path inside every output, and None for an output that has no part there.

    A path consists of steps. A step is a position in a sequence, the key of a mapping, or a reading, which is a
    function of a value. For example, the path ('sum', 0) leads to 3 in the output {'sum': [3, 4]}.
    """
    for step in path:
        whole, rows = _find_whole(outputs)
        part = _compute_once(whole, (type(step), step), functools.partial(_read_step, step=step))
        outputs = part if outputs is whole else part[rows]
    return outputs


def count_parts(value: Any) -> int:
    """Return the number of numbers, characters and other atomic values inside an output in normal form."""
    if isinstance(value, Items):
        return sum(map(count_parts, value.parts))
    if isinstance(value, Array):
        return len(value)
    if isinstance(value, (tuple, frozenset)):
        return sum(map(count_parts, value))
    return len(value) if isinstance(value, (str, bytes)) else 1


def _find_whole(outputs: Outputs) -> tuple[Outputs, slice]:
    """Return the array of which ``outputs`` is a slice of consecutive rows, and the slice.

    If ``outputs`` is no such slice, return ``outputs`` itself and the slice of all rows.
    """
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


def _compute_once(outputs: Outputs, key: Hashable, compute: Callable[[Outputs], Any]) -> Any:
    """Return ``compute(outputs)``; if the array holds objects, compute it once and cache it under ``key``."""
    if outputs.dtype != object:  # other arrays may be the memory of a mechanism, which may overwrite it
        return compute(outputs)
    if id(outputs) not in _CACHE:
        _CACHE[id(outputs)] = {}
        weakref.finalize(outputs, _CACHE.pop, id(outputs), None)
    known = _CACHE[id(outputs)]
    if key not in known:
        known[key] = compute(outputs)
    return known[key]


def _read_step(outputs: Outputs, step: Hashable) -> Outputs:
    """Return an array with the part of every output to which one step of a path leads.

    The step is a position, a key, or a reading. The part is None for an output to which the step does not apply.
    """
    if callable(step):  # a reading
        return pack_normal(list(map(step, values_of(outputs))))
    rows = rows_of(outputs) if len(outputs) else None
    place = step if isinstance(step, int) else None
    if rows is not None and place is not None and -rows.shape[1] <= place < rows.shape[1]:
        return rows[:, place]
    if outputs.dtype != object or len(outputs) == 0:
        return np.full(len(outputs), None)
    layout, found = layout_of(outputs), list[Any]()
    if layout and step in layout.places and (layout.kind == "mapping" or place is not None):
        at, values = layout.places.index(step), outputs.tolist()
        return pack_normal(
            [one.parts[at] for one in values] if layout.kind == "mapping" else [one[at] for one in values]
        )
    for value in _compute_once(outputs, "containers", _list_containers):
        if type(value) is dict:
            found.append(value.get(step))
        else:
            there = place is not None and value is not None and -len(value) <= place < len(value)
            found.append(value[place] if there else None)
    return pack_normal(found)


def _list_containers(outputs: Outputs) -> list[Any]:
    """Return a list with every output of an array, where mappings are dicts, which are fast to search.

    Sequences are tuples, and any other output is replaced by None.
    """
    return [
        dict(iter(value)) if isinstance(value, Items) else value if isinstance(value, tuple) else None
        for value in outputs.tolist()
    ]


def _find_layout(outputs: Outputs) -> Layout | None:
    """Return the layout if all outputs are tuples of one length, or mappings with the same keys; otherwise None."""
    values = outputs.tolist()
    kinds = set(map(type, values))
    if kinds == {tuple} and set(map(len, values)) == {size := len(values[0])} != {0}:
        return Layout("sequence", tuple(range(size)))
    keys = values[0].keys if kinds == {Items} else ()
    same_keys = keys and all(key == key for key in keys) and {value.keys for value in values} == {keys}
    return Layout("mapping", keys) if same_keys else None
