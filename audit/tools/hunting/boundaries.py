"""Paths of neighbouring datasets between two datasets that are far apart, and bisection along such a path.

An exception that depends on the data has an infinite loss where the exception is certain. A description of data need
not list a pair at the boundary: a count that fails from 13 records on fails on all large datasets and on no small one.
Two datasets far apart, one that raises an exception and one that does not, are therefore connected by a path of
neighbours. Bisection with a few runs at each step finds the place at which the exception ends. The pair found is a
candidate like any other, and certifies nothing.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from epsaudit.data.neighbours import AddRemove, Adjacency, Substitution
from epsaudit.tools.hunting.relations import AddRemovePerson, SubstitutePerson, are_neighbours

RecordTuple = tuple[Any, ...]
"""The records of one dataset on a path."""
RECORD_RELATIONS = (AddRemove, Substitution, AddRemovePerson, SubstitutePerson)
"""Relations under which single steps connect datasets of records."""


def shortest_path(
    raising: Sequence[RecordTuple], quiet: Sequence[RecordTuple], relation: Adjacency
) -> list[RecordTuple] | None:
    """Return the shortest path from a dataset that raises an exception to one that does not.

    Parameters
    ----------
    raising, quiet : sequence of tuples
        Datasets on which the function raised, and datasets on which it did not.
    relation : Adjacency
        The relation under which each dataset of the path is a neighbour of the next.

    Returns
    -------
    list of tuples or None
        The datasets of the path, or None if no two of the datasets are connected. Substitution keeps the number of
        records, so that it connects only datasets of the same size.

    Examples
    --------
    >>> shortest_path([(0, 0, 0, 0)], [(1, 1, 1), (0, 1)], AddRemove())
    [(0, 0, 0, 0), (0, 0, 0, 0, 1), (0, 0, 0, 1), (0, 0, 1), (0, 1)]
    """
    if not isinstance(relation, RECORD_RELATIONS):
        return None
    pairs = [(one, other) for one in raising for other in quiet]
    for one, other in sorted(pairs, key=lambda pair: _count_edits(*pair)):
        path = path_between(one, other, relation)
        if path is not None:
            return path
    return None


def path_between(x: RecordTuple, x_prime: RecordTuple, relation: Adjacency) -> list[RecordTuple] | None:
    """Return a list of datasets that leads from x to x', in which each dataset is a neighbour of the previous one.

    Return None if x and x' cannot be connected in this way under the given relation.
    """
    owner = getattr(relation, "owner", None)
    units, units_prime = _units(x, owner), _units(x_prime, owner)
    if isinstance(relation, Substitution | SubstitutePerson):
        path = _path_of_substitutions(units, units_prime)
    else:
        path = _path_of_additions(units, units_prime, remove_first=owner is not None)
    neighbours = (are_neighbours(relation, one, other) for one, other in itertools.pairwise(path))
    return path if len(path) > 1 and all(neighbours) else None


def _path_of_substitutions(units: Sequence[RecordTuple], units_prime: Sequence[RecordTuple]) -> list[RecordTuple]:
    """Return a path of datasets on which the differing units are replaced one after another.

    A unit is a record, or all records of a person. The k-th dataset of the path has the first k differing units of x'.
    The path is empty if the two lists have different lengths, because a substitution keeps the number of units.
    """
    if len(units) != len(units_prime):
        return []
    places = [place for place, (a, b) in enumerate(zip(units, units_prime, strict=True)) if repr(a) != repr(b)]
    replaced_places = [places[:n_done] for n_done in range(len(places) + 1)]
    return [
        _join_units(units_prime[place] if place in replaced else unit for place, unit in enumerate(units))
        for replaced in replaced_places
    ]


def _path_of_additions(
    units: Sequence[RecordTuple], units_prime: Sequence[RecordTuple], remove_first: bool
) -> list[RecordTuple]:
    """Return a path of datasets on which one unit is added or removed at each step.

    A unit is a record, or all records of a person. Additions come first, so that no dataset on the path is smaller than
    both ends. If ``remove_first`` is true, removals come first: with units that are persons, a person has to be removed
    before another version of the same person can be added.
    """
    match = difflib.SequenceMatcher(None, list(map(repr, units)), list(map(repr, units_prime)), autojunk=False)
    merged: list[tuple[RecordTuple, bool, bool]] = []  # a unit, whether it is in x, and whether it is in x'
    for kind, a, b, c, d in match.get_opcodes():
        merged += [(unit, True, kind == "equal") for unit in units[a:b]]
        merged += [(unit, False, True) for unit in units_prime[c:d] if kind != "equal"]
    added = [place for place, (_, before, _) in enumerate(merged) if not before]
    removed = [place for place, (_, _, after) in enumerate(merged) if not after]
    present = {place for place, (_, before, _) in enumerate(merged) if before}
    path = [_join_units(merged[place][0] for place in sorted(present))]
    for place in [*removed, *added] if remove_first else [*added, *removed]:
        present ^= {place}
        path.append(_join_units(merged[place][0] for place in sorted(present)))
    return path


def bisect_path(path: Sequence[Any], raises: Callable[[int], tuple[bool, bool] | None]) -> int | None:
    """Find, by bisection, the place in a path of datasets after which the function no longer raises an exception.

    Parameters
    ----------
    path : sequence
        Datasets; the function raises on the first one and not on the last one.
    raises : callable
        ``raises(place)`` runs the function on the dataset at this place and on the next one, and returns whether it
        raises on each. It returns None if these two datasets cannot be run.

    Returns
    -------
    int or None
        The place of a dataset that raises and whose successor does not; None if there is none, or if two datasets
        could not be run.

    Examples
    --------
    >>> bisect_path(range(40), lambda place: (place < 27, place + 1 < 27))
    26
    """
    low, high = 0, len(path) - 1
    while low < high:
        middle = (low + high - 1) // 2
        both = raises(middle)
        if both is None:
            return None
        if both == (True, False):
            return middle
        low, high = (middle + 1, high) if both[0] else (low, middle)
    return None


def max_bisection_steps(path: Sequence[Any]) -> int:
    """Return the largest number of pairs of datasets on which `bisect_path` runs the function for this path."""
    return math.ceil(math.log2(max(len(path), 2))) + 1


def _units(rows: RecordTuple, owner: int | None) -> list[RecordTuple]:
    """Split the records of a dataset into the units that one step of a path adds, removes or replaces.

    A unit is a single record or, if ``owner`` is the position of a column that names persons, all records of one
    person. Persons are in the order of their first record.
    """
    if owner is None:
        return [(row,) for row in rows]
    persons: dict[str, list[Any]] = {}
    for row in rows:
        persons.setdefault(repr(row[owner]), []).append(row)
    return [tuple(some) for some in persons.values()]


def _join_units(units: Iterable[RecordTuple]) -> RecordTuple:
    return tuple(row for unit in units for row in unit)


def _count_edits(x: RecordTuple, x_prime: RecordTuple) -> int:
    """Return the number of records that have to be added or removed to get from x to x'."""
    counts, counts_prime = Counter(map(repr, x)), Counter(map(repr, x_prime))
    return (counts - counts_prime).total() + (counts_prime - counts).total()
