"""A pair that fails a test is made simpler as long as it fails: fewer records first, then simpler values.

Values are ordered as by hypothesis. Every proposal is a pair of neighbours under all relations of the one given.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from epsaudit.data.neighbours import DatasetPair
from epsaudit.hunting.description import Candidate, holds
from epsaudit.hunting.parameters import MOST_STEPS, Values

KINDS = (list, tuple, np.ndarray)
"""Datasets of which records can be taken away without a description of the data."""

Rows = Sequence[Any]


def shrink(
    candidate: Candidate,
    still: Callable[[Candidate], bool],
    *,
    describe: Callable[[Values], Any] = lambda parameters: None,
    values: Mapping[str, Sequence[Any]] | None = None,
    until: float = math.inf,
    most_steps: int = MOST_STEPS,
) -> tuple[Candidate, int]:
    """Return the simplest candidate found that passes the test ``still``, and how many were tested.

    ``describe`` gives the description of the data at values of the parameters; without, records are items of lists,
    tuples and arrays, and numbers stay between the least and the greatest of their column. ``values`` are those of each
    parameter, the simplest first; ``until`` is of `time.perf_counter`.

    >>> from epsaudit.data.neighbours import AddRemove
    >>> pair = DatasetPair([3, 9, 4, 7], [3, 9, 4, 7, 120])
    >>> found, steps = shrink(Candidate(pair, (AddRemove(),), ""), lambda one: max(one.pair.x_prime) > 10)
    >>> found.pair.x, found.pair.x_prime, steps
    ([], [11], 12)
    """
    ranges: dict[int, tuple[Any, Any]] = {}
    if candidate.rows is None or describe(candidate.parameters) is None:  # how rows become a dataset is not known
        candidate = dataclasses.replace(candidate, rows=None)
        for column, cells in _columns(*(rows_of(candidate) or ((), ()))).items():
            numbers = [cell for cell in cells if isinstance(cell, (int, float, np.number)) and cell == cell]
            if numbers:
                ranges[column] = min(numbers), max(numbers)
    tested = set[str]()
    while True:
        for one in _simpler(candidate, describe, values or {}, ranges):
            key = repr((one.pair.x, one.pair.x_prime, dict(one.parameters)))
            if key in tested:
                continue
            if len(tested) >= most_steps or time.perf_counter() > until:
                return candidate, len(tested)
            tested.add(key)
            if still(one):
                candidate = one
                break
        else:
            return candidate, len(tested)


def _simpler(
    candidate: Candidate,
    describe: Callable[[Values], Any],
    values: Mapping[str, Sequence[Any]],
    ranges: Mapping[int, tuple[Any, Any]],
) -> Iterator[Candidate]:
    """Yield proposals, those that take most away first."""
    relations, parameters = candidate.adjacencies, candidate.parameters
    rows = rows_of(candidate) if relations else None  # a caller vouched for the pair that was given, and for no other
    proposed: list[tuple[Any, Values]] = []
    if rows is not None:
        proposed = [(one, parameters) for one in (*_fewer(*rows), *_plainer(*rows, ranges))]
    for name, value in parameters.items():
        for other in values.get(name, ()):
            if repr(other) == repr(value):
                break
            proposed.append((rows, {**parameters, name: other}))
    for sides, parameters in proposed:
        made: Candidate | None = candidate
        if sides is not None and candidate.rows is not None:
            made = describe(parameters).candidate(*sides, candidate.tries)
        elif sides is not None:
            pair = list[Any]()
            for records, dataset in zip(sides, (candidate.pair.x, candidate.pair.x_prime), strict=True):
                if isinstance(dataset, np.ndarray):
                    pair.append(np.array(records, dtype=dataset.dtype).reshape(len(records), *dataset.shape[1:]))
                else:
                    pair.append(type(dataset)(records))
            held = tuple(one for one in relations if holds(one, *pair))
            made = Candidate(DatasetPair(*pair), held, candidate.tries)
        if made is not None and {*relations} <= {*made.adjacencies}:
            alone = dataclasses.replace(made.pair, name="")
            yield dataclasses.replace(made, pair=alone, adjacencies=relations, parameters=parameters)


def rows_of(candidate: Candidate) -> tuple[Rows, Rows] | None:
    """Return the records of both datasets; None where a dataset is of a kind whose records are not known."""
    if candidate.rows is not None:
        return candidate.rows
    sides = candidate.pair.x, candidate.pair.x_prime
    if not all(isinstance(side, KINDS) and getattr(side, "ndim", 1) > 0 for side in sides):
        return None
    x, x_prime = (tuple(side.tolist() if isinstance(side, np.ndarray) else side) for side in sides)
    return x, x_prime


def _fewer(x: Rows, x_prime: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Without common records: all, halves, quarters, ..., one; without those of one dataset alone; all common alike."""
    match = difflib.SequenceMatcher(None, list(map(repr, x)), list(map(repr, x_prime)), autojunk=False)
    common = [(block.a + n, block.b + n) for block in match.get_matching_blocks() for n in range(block.size)]
    shared, shared_prime = map(set, zip(*common, strict=True)) if common else (set(), set())
    own = [place for place in range(len(x)) if place not in shared]
    own_prime = [place for place in range(len(x_prime)) if place not in shared_prime]
    sizes = (len(common) >> halvings for halvings in range(len(common).bit_length()))
    left_out: list[Sequence[tuple[int, int]]] = [
        *(common[start : start + size] for size in sizes for start in range(0, len(common), size)),
        *([(place, -1)] for place in own),
        *([(-1, place)] for place in own_prime),
        *([both] for both in zip(own, own_prime, strict=False)),
    ]
    for places in left_out:
        out, out_prime = map(set, zip(*places, strict=True))
        kept = tuple(row for place, row in enumerate(x) if place not in out)
        yield kept, tuple(row for place, row in enumerate(x_prime) if place not in out_prime)
    if len({repr(x[place]) for place in shared}) > 1:
        first = x[common[0][0]]
        alike = tuple(first if place in shared else row for place, row in enumerate(x))
        yield alike, tuple(first if place in shared_prime else row for place, row in enumerate(x_prime))


def _plainer(x: Rows, x_prime: Rows, ranges: Mapping[int, tuple[Any, Any]]) -> Iterator[tuple[Rows, Rows]]:
    """With one value, wherever a column holds it, made simpler, within the column's range if that is known."""

    def replaced(row: Any) -> Any:
        cells = [other if at == column and repr(cell) == repr(value) else cell for at, cell in enumerate(_cells(row))]
        return type(row)(cells) if isinstance(row, (list, tuple)) else cells[0]

    for column, values in _columns(x, x_prime).items():
        low, high = ranges.get(column, (-math.inf, math.inf))
        for value in {repr(value): value for value in values}.values():
            for other in simpler_values(value):
                if low <= other <= high:
                    yield tuple(map(replaced, x)), tuple(map(replaced, x_prime))


def _columns(x: Rows, x_prime: Rows) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row in (*x, *x_prime):
        for place, value in enumerate(_cells(row)):
            found.setdefault(place, []).append(value)
    return found


def _cells(row: Any) -> Sequence[Any]:
    return row if isinstance(row, (list, tuple)) else (row,)


def simpler_values(value: Any) -> list[Any]:
    """List simpler values of the same type, the simplest first; none for what has no order of its own, as text."""

    def order(number: Any) -> tuple[bool, float, bool]:
        return (number != int(number), abs(number), number < 0)

    if isinstance(value, (bool, np.bool_)):
        return [False] if value else []
    number: Any
    if isinstance(value, (int, np.integer)):
        number = int(value)
        others = [0, 1, abs(number), number // 2, number - (1 if number > 0 else -1)]
    elif isinstance(value, (float, np.floating)):
        number = float(value)
        if not math.isfinite(number):
            return [0.0, 1.0]
        others = [0.0, 1.0, abs(number), float(int(number)), float(int(number / 2)), round(number, 1)]
        others.append(number - math.copysign(1.0, number))
    else:
        return []
    return sorted({other for other in others if order(other) < order(number)}, key=order)
