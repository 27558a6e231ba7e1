"""Shrinking: a pair that shows a leak is replaced by simpler pairs as long as these show the leak, too.

Fewer records come first, then simpler values. Values are ordered as in hypothesis, except that the ends of described
bounds are the simplest values. Every proposed pair consists of neighbours under all relations of the given pair, and
fits the description of the data.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from epsaudit.data.neighbours import DatasetPair
from epsaudit.tools.hunting.candidate import Candidate, ParameterValues, Records
from epsaudit.tools.hunting.description import Table
from epsaudit.tools.hunting.relations import are_neighbours
from epsaudit.tools.hunting.simpler_values import simpler_values

MAX_SHRINKING_TESTS = 200
"""[measured] Largest number of tests when one pair is shrunk. No leaky function of the tests needed more than 60."""
RECORD_CONTAINERS = (list, tuple, np.ndarray)
"""Types of datasets from which records can be removed without a description of the data."""


def shrink(
    candidate: Candidate,
    test: Callable[[Candidate], float],
    *,
    describe: Callable[[ParameterValues], Any] = lambda parameters: None,
    values: Mapping[str, Sequence[Any]] | None = None,
    until: float = math.inf,
    max_tests: int = MAX_SHRINKING_TESTS,
) -> tuple[Candidate, int]:
    """Simplify a candidate as long as it still shows a leak; return the simplest candidate and the number of tests.

    A candidate is a pair of datasets with parameter values. It is simplified by leaving out records, by simpler values
    in records, and by simpler parameter values.

    Parameters
    ----------
    candidate : Candidate
        The candidate to start from.
    test : callable
        Returns 0 for a candidate that shows no leak, and otherwise a number that is larger the more clearly the
        candidate shows the leak. The number decides between equally simple candidates, which differ only in the end of
        the bounds at which a value lies.
    describe : callable, optional
        Returns the description of the data for given values of the parameters. Without a description, records are the
        items of lists, tuples and arrays, and numbers stay between the least and the greatest of their column.
    values : mapping, optional
        The values of each parameter, the simplest first. Parameters are shrunk, too.
    until : float
        Time, as returned by `time.perf_counter`, after which no test starts.
    max_tests : int
        Largest number of tests.

    Examples
    --------
    >>> from epsaudit.data.neighbours import AddRemove
    >>> pair = DatasetPair([3, 9, 4, 7], [3, 9, 4, 7, 120])
    >>> found, n_tests = shrink(Candidate(pair, (AddRemove(),), ""), lambda one: max(one.pair.x_prime) > 10)
    >>> found.pair.x, found.pair.x_prime, n_tests
    ([], [11], 12)
    """
    ranges: dict[int, tuple[Any, Any]] = {}
    if candidate.rows is None or describe(candidate.parameters) is None:
        # without a description, rows cannot be converted to a dataset
        candidate = dataclasses.replace(candidate, rows=None)
        ranges = _ranges_of_columns(candidate)
    tested, strength = set[str](), 0.0
    while True:
        for proposal in _proposals(candidate, describe, values or {}, ranges):
            one = proposal.candidate
            key = repr((one.pair.x, one.pair.x_prime, dict(one.parameters)))
            if key in tested:
                continue
            if len(tested) >= max_tests or time.perf_counter() > until:
                return candidate, len(tested)
            tested.add(key)
            if proposal.equally_simple:
                strength = strength or test(candidate)
            if (shown := test(one)) > (strength if proposal.equally_simple else 0.0):
                candidate, strength = one, shown
                break
        else:
            return candidate, len(tested)


class _Proposal(NamedTuple):
    """A pair of datasets with parameter values that `shrink` tests as a replacement for the present one."""

    candidate: Candidate
    equally_simple: bool
    """True if the candidate is as simple as the present one; false if it is simpler."""


def _ranges_of_columns(candidate: Candidate) -> dict[int, tuple[Any, Any]]:
    """Return the smallest and the largest number in each column of a candidate's datasets.

    The keys are positions of columns. Columns without numbers are left out.
    """
    ranges: dict[int, tuple[Any, Any]] = {}
    for column, cells in _values_by_column(*(records_of(candidate) or ((), ()))).items():
        numbers = [cell for cell in cells if isinstance(cell, (int, float, np.number)) and cell == cell]
        if numbers:
            ranges[column] = min(numbers), max(numbers)
    return ranges


def _proposals(
    candidate: Candidate,
    describe: Callable[[ParameterValues], Any],
    values: Mapping[str, Sequence[Any]],
    ranges: Mapping[int, tuple[Any, Any]],
) -> Iterator[_Proposal]:
    """Yield variants of a candidate (a pair of datasets with parameter values) that `shrink` tests in its place.

    Variants with the fewest records come first, and variants that are as simple as the candidate come last.
    ``describe`` and ``values`` are those of `shrink`, and ``ranges`` is the result of `_ranges_of_columns`.
    """
    relations, parameters = candidate.adjacencies, candidate.parameters
    # without a relation the caller guarantees only for this pair that its datasets are neighbours
    records = records_of(candidate) if relations else None
    table, bounds = describe(parameters) if candidate.rows is not None else None, {}
    if isinstance(table, Table):
        bounds = {place: column.bounds for place, column in enumerate(table.columns) if column.bounds is not None}
    simpler: list[tuple[Any, ParameterValues]] = []
    equally_simple: list[tuple[Any, ParameterValues]] = []
    if records is not None:
        simpler = [(one, parameters) for one in _with_fewer_records(*records)]
        simpler += [(one, parameters) for one in _with_simpler_values(*records, ranges, bounds)]
        moved = _with_simpler_values(*records, ranges, bounds, other_end=True)
        equally_simple = [(one, parameters) for one in moved]
    for name, value in parameters.items():
        for other in values.get(name, ()):
            if repr(other) == repr(value):
                break
            simpler.append((records, {**parameters, name: other}))
    for place, (sides, parameters) in enumerate((*simpler, *equally_simple)):
        made = candidate_with(candidate, sides, parameters, describe)
        if made is not None:
            yield _Proposal(made, place >= len(simpler))


def without_name(pair: DatasetPair) -> DatasetPair:
    """Return a copy of the pair without its name, so that the pair is printed as its two datasets."""
    return dataclasses.replace(pair, name="")


def candidate_with(
    candidate: Candidate,
    sides: tuple[Records, Records] | None,
    parameters: ParameterValues,
    describe: Callable[[ParameterValues], Any],
) -> Candidate | None:
    """Return a copy of a candidate with other records and other parameter values; None if the copy would be invalid.

    Parameters
    ----------
    candidate : Candidate
        The candidate to change.
    sides : pair of records or None
        The new records of x and of x'; None keeps the datasets of the candidate.
    parameters : mapping
        The new values of the parameters.
    describe : callable
        Returns the description of the data for given values of the parameters.

    Returns
    -------
    Candidate or None
        None if the description does not accept the records, or if one of the candidate's relations does not hold.
    """
    relations, made = candidate.adjacencies, candidate
    if sides is not None and candidate.rows is not None:
        described: Candidate | None = describe(parameters).candidate(*sides, candidate.tries)
        if described is None:
            return None
        made = described
    elif sides is not None:
        datasets = [
            _dataset_like(dataset, records)
            for records, dataset in zip(sides, (candidate.pair.x, candidate.pair.x_prime), strict=True)
        ]
        holding = tuple(one for one in relations if are_neighbours(one, *datasets))
        made = Candidate(DatasetPair(*datasets), holding, candidate.tries)
    if not {*relations} <= {*made.adjacencies}:
        return None
    return dataclasses.replace(made, pair=without_name(made.pair), adjacencies=relations, parameters=parameters)


def _dataset_like(dataset: Any, records: Records) -> Any:
    """Return the records as a dataset of the same type as ``dataset``.

    An array also keeps its dtype and the shape of its rows.
    """
    if isinstance(dataset, np.ndarray):
        return np.array(records, dtype=dataset.dtype).reshape(len(records), *dataset.shape[1:])
    return type(dataset)(records)


def records_of(candidate: Candidate) -> tuple[Records, Records] | None:
    """Return the records of both datasets of a candidate.

    Returns None if a dataset has a type, such as a dictionary, whose records are unknown.
    """
    if candidate.rows is not None:
        return candidate.rows
    sides = candidate.pair.x, candidate.pair.x_prime
    if not all(isinstance(side, RECORD_CONTAINERS) and getattr(side, "ndim", 1) > 0 for side in sides):
        return None
    x, x_prime = (tuple(side.tolist() if isinstance(side, np.ndarray) else side) for side in sides)
    return x, x_prime


def degenerate_kind(candidate: Candidate) -> str:
    """Classify the data of a candidate as 'empty', 'missing' or ordinary (the empty string).

    The result is 'empty' if one of the two datasets has no records, and 'missing' if every record of one of the
    datasets has a missing value. Leaks on such data are reported separately from leaks on ordinary data.
    """
    sides = records_of(candidate) or ()
    missing = [[any(cell is None or cell != cell for cell in _cells(row)) for row in side] for side in sides]
    return "empty" if not all(map(len, missing)) else "missing" if any(map(all, missing)) else ""


def _with_fewer_records(x: Records, x_prime: Records) -> Iterator[tuple[Records, Records]]:
    """Yield smaller variants of a pair of datasets.

    The first variants leave out records that occur in both datasets: all of them, then halves, quarters, and so on down
    to single records. The next ones leave out one record that only one dataset has, and then one such record of each
    dataset. The last variant has the original size, but all shared records are equal.
    """
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
        equal = tuple(first if place in shared else row for place, row in enumerate(x))
        yield equal, tuple(first if place in shared_prime else row for place, row in enumerate(x_prime))


def _with_simpler_values(
    x: Records, x_prime: Records, ranges: Mapping[int, Any], bounds: Mapping[int, Any], other_end: bool = False
) -> Iterator[tuple[Records, Records]]:
    """Yield variants of a pair of datasets in which one value of one column is replaced by a simpler value.

    The value is replaced in all records of both datasets in which it occurs.

    Parameters
    ----------
    x, x_prime : Records
        The records of both datasets.
    ranges : mapping
        The least and the greatest number that a column may hold, by the column's position.
    bounds : mapping
        The described bounds of a column, by the column's position.
    other_end : bool
        If true, a value at one end of the described bounds is moved to the other end instead.
    """

    def replace_value(row: Any) -> Any:
        cells = [other if at == column and repr(cell) == repr(value) else cell for at, cell in enumerate(_cells(row))]
        return type(row)(cells) if isinstance(row, (list, tuple)) else cells[0]

    for column, values in _values_by_column(x, x_prime).items():
        low, high = ranges.get(column, (-math.inf, math.inf))
        for value in {repr(value): value for value in values}.values():
            ends = bounds.get(column)
            others = [type(value)(end) for end in ends if end != value] if ends and value in ends else []
            for other in others if other_end else simpler_values(value, ends):
                if low <= other <= high:
                    yield tuple(map(replace_value, x)), tuple(map(replace_value, x_prime))


def _values_by_column(x: Records, x_prime: Records) -> dict[int, list[Any]]:
    """Return the values of each column, collected from both datasets. The keys are positions of columns."""
    found: dict[int, list[Any]] = {}
    for row in (*x, *x_prime):
        for place, value in enumerate(_cells(row)):
            found.setdefault(place, []).append(value)
    return found


def _cells(row: Any) -> Sequence[Any]:
    """Return the values of a record as a sequence. A record that is not a list or tuple is a single value."""
    return row if isinstance(row, (list, tuple)) else (row,)
