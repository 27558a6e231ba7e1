"""A pair that fails a test is made simpler as long as it fails: fewer records first, then simpler values.

Values are ordered as by hypothesis, but the ends of described bounds are simplest. Every proposal is a pair of
neighbours under all relations of the one given, and obeys the description of the data.
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
from epsaudit.tools.hunting.description import FAR, Candidate, Table, holds
from epsaudit.tools.hunting.parameters import MOST_STEPS, Values

KINDS = (list, tuple, np.ndarray)
"""Datasets of which records can be taken away without a description of the data."""

Rows = Sequence[Any]


def shrink(
    candidate: Candidate,
    still: Callable[[Candidate], float],
    *,
    describe: Callable[[Values], Any] = lambda parameters: None,
    values: Mapping[str, Sequence[Any]] | None = None,
    until: float = math.inf,
    most_steps: int = MOST_STEPS,
) -> tuple[Candidate, int]:
    """Return the simplest candidate found that passes the test ``still``, and how many were tested.

    The test gives 0 for what fails it, and else a number that is larger the more a candidate shows: of candidates alike
    in simplicity, which differ in the end of described bounds that a value is at, the one that shows most is kept.

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
    tested, shows = set[str](), 0.0
    while True:
        for one, alike in _simpler(candidate, describe, values or {}, ranges):
            key = repr((one.pair.x, one.pair.x_prime, dict(one.parameters)))
            if key in tested:
                continue
            if len(tested) >= most_steps or time.perf_counter() > until:
                return candidate, len(tested)
            tested.add(key)
            if alike:
                shows = shows or still(candidate)
            if (shown := still(one)) > (shows if alike else 0.0):
                candidate, shows = one, shown
                break
        else:
            return candidate, len(tested)


def _simpler(
    candidate: Candidate,
    describe: Callable[[Values], Any],
    values: Mapping[str, Sequence[Any]],
    ranges: Mapping[int, tuple[Any, Any]],
) -> Iterator[tuple[Candidate, bool]]:
    """Yield proposals, those that take most away first, and whether each is as simple as what there is."""
    relations, parameters = candidate.adjacencies, candidate.parameters
    rows = rows_of(candidate) if relations else None  # a caller vouched for the pair that was given, and for no other
    table, ends = describe(parameters) if candidate.rows is not None else None, {}
    if isinstance(table, Table):
        ends = {place: column.bounds for place, column in enumerate(table.columns) if column.bounds is not None}
    proposed: list[tuple[Any, Values]] = []
    alike: list[tuple[Any, Values]] = []
    if rows is not None:
        proposed = [(one, parameters) for one in (*_fewer(*rows), *_plainer(*rows, ranges, ends))]
        alike = [(one, parameters) for one in _plainer(*rows, ranges, ends, alike=True)]
    for name, value in parameters.items():
        for other in values.get(name, ()):
            if repr(other) == repr(value):
                break
            proposed.append((rows, {**parameters, name: other}))
    for place, (sides, parameters) in enumerate((*proposed, *alike)):
        made = candidate_with(candidate, sides, parameters, describe)
        if made is not None:
            yield made, place >= len(proposed)


def alone(pair: DatasetPair) -> DatasetPair:
    """Return a pair without the words for what it tries, so that it prints as its datasets."""
    return dataclasses.replace(pair, name="")


def candidate_with(
    candidate: Candidate, sides: tuple[Rows, Rows] | None, parameters: Values, describe: Callable[[Values], Any]
) -> Candidate | None:
    """Return a candidate with other records, or None for its own, and other values of the parameters.

    It is one if the description accepts the records and all relations of the given candidate hold for them, else None.
    """
    relations, made = candidate.adjacencies, candidate
    if sides is not None and candidate.rows is not None:
        described: Candidate | None = describe(parameters).candidate(*sides, candidate.tries)
        if described is None:
            return None
        made = described
    elif sides is not None:
        pair = list[Any]()
        for records, dataset in zip(sides, (candidate.pair.x, candidate.pair.x_prime), strict=True):
            if isinstance(dataset, np.ndarray):
                pair.append(np.array(records, dtype=dataset.dtype).reshape(len(records), *dataset.shape[1:]))
            else:
                pair.append(type(dataset)(records))
        held = tuple(one for one in relations if holds(one, *pair))
        made = Candidate(DatasetPair(*pair), held, candidate.tries)
    if not {*relations} <= {*made.adjacencies}:
        return None
    return dataclasses.replace(made, pair=alone(made.pair), adjacencies=relations, parameters=parameters)


def rows_of(candidate: Candidate) -> tuple[Rows, Rows] | None:
    """Return the records of both datasets; None where a dataset is of a kind whose records are not known."""
    if candidate.rows is not None:
        return candidate.rows
    sides = candidate.pair.x, candidate.pair.x_prime
    if not all(isinstance(side, KINDS) and getattr(side, "ndim", 1) > 0 for side in sides):
        return None
    x, x_prime = (tuple(side.tolist() if isinstance(side, np.ndarray) else side) for side in sides)
    return x, x_prime


def edge_of(candidate: Candidate) -> str:
    """Say 'empty' or 'missing' where a dataset has no record, or none without a missing value; else nothing."""
    sides = rows_of(candidate) or ()
    gone = [[any(cell is None or cell != cell for cell in _cells(row)) for row in side] for side in sides]
    return "empty" if not all(map(len, gone)) else "missing" if any(map(all, gone)) else ""


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


def _plainer(
    x: Rows, x_prime: Rows, ranges: Mapping[int, Any], ends: Mapping[int, Any], alike: bool = False
) -> Iterator[tuple[Rows, Rows]]:
    """With one value, wherever a column holds it, made simpler or, ``alike``, moved to the other end of its range."""

    def replaced(row: Any) -> Any:
        cells = [other if at == column and repr(cell) == repr(value) else cell for at, cell in enumerate(_cells(row))]
        return type(row)(cells) if isinstance(row, (list, tuple)) else cells[0]

    for column, values in _columns(x, x_prime).items():
        low, high = ranges.get(column, (-math.inf, math.inf))
        for value in {repr(value): value for value in values}.values():
            known = ends.get(column)
            others = [type(value)(end) for end in known if end != value] if known and value in known else []
            for other in others if alike else simpler_values(value, known):
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


def simpler_values(value: Any, ends: tuple[Any, Any] | None = None) -> list[Any]:
    """List simpler values of the same type, the simplest first; none for what has no order of its own, as text.

    With ``ends`` nothing is simpler than these, whatever is between them is simpler than what is beyond, and of that,
    what lies as far beyond as a description tries is left as it is: it shows most.
    """

    def order(number: Any) -> tuple[bool, float, bool]:
        return (number != int(number), abs(number), number < 0)

    if ends is not None and value in ends:
        return []
    if ends is not None and not isinstance(value, (str, bool, type(None))):
        low, high = ends
        far = FAR * (high - low)
        within = [other for other in simpler_values(value) if low < other < high]
        beyond = [low - far, high + far] if value < low - far or value > high + far else []
        return [type(value)(other) for other in (*ends, *within, *beyond)]

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
