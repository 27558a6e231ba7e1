"""Find two neighbours, one that always raises and one that never does, on a way between two datasets far apart.

An exception that depends on the data loses everything where it is certain, and a description of data need not have a
pair at its boundary: a count that fails from 13 records on fails on all large datasets and on no small one. The way
from one dataset to the other goes by neighbours, and is bisected by a few runs at each step; what is found is a
candidate like any other, which certifies nothing.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from epsaudit.data.neighbours import AddRemove, Adjacency, Substitution
from epsaudit.tools.hunting.description import AddRemovePerson, SubstitutePerson, holds

Rows = tuple[Any, ...]
BY_RECORDS = (AddRemove, Substitution, AddRemovePerson, SubstitutePerson)
"""Relations under which datasets of records are connected by single steps."""


def nearest(raising: Sequence[Rows], calm: Sequence[Rows], relation: Adjacency) -> list[Rows] | None:
    """Return the shortest way from a dataset that raises to one that does not; None if the relation connects none.

    Every dataset on it is a neighbour of the next one under the relation. Substitution keeps the number of records, so
    that data that raise because of their size alone are connected with none of another size.

    >>> nearest([(0, 0, 0, 0)], [(1, 1, 1), (0, 1)], AddRemove())
    [(0, 0, 0, 0), (0, 0, 0, 0, 1), (0, 0, 0, 1), (0, 0, 1), (0, 1)]
    """
    if not isinstance(relation, BY_RECORDS):
        return None
    pairs = [(one, other) for one in raising for other in calm]
    for one, other in sorted(pairs, key=lambda pair: _distance(*pair)):
        way = way_between(one, other, relation)
        if way is not None:
            return way
    return None


def way_between(x: Rows, x_prime: Rows, relation: Adjacency) -> list[Rows] | None:
    """Return datasets from x to x', each a neighbour of the one before; None if single steps do not lead there."""
    owner = getattr(relation, "owner", None)
    units, units_prime = _units(x, owner), _units(x_prime, owner)
    if isinstance(relation, Substitution | SubstitutePerson):
        places = [place for place, (a, b) in enumerate(zip(units, units_prime, strict=False)) if repr(a) != repr(b)]
        ends = [places[:done] for done in range(len(places) + 1)] if len(units) == len(units_prime) else []
        way = [_flat(units_prime[place] if place in end else unit for place, unit in enumerate(units)) for end in ends]
    else:
        match = difflib.SequenceMatcher(None, list(map(repr, units)), list(map(repr, units_prime)), autojunk=False)
        merged: list[tuple[Rows, bool, bool]] = []  # a unit, and whether it is in x, and in x'
        for kind, a, b, c, d in match.get_opcodes():
            merged += [(unit, True, kind == "equal") for unit in units[a:b]]
            merged += [(unit, False, True) for unit in units_prime[c:d] if kind != "equal"]
        added = [place for place, (_, before, _) in enumerate(merged) if not before]
        removed = [place for place, (_, _, after) in enumerate(merged) if not after]
        # additions first, so that no dataset is smaller than both ends; a person has to leave before another version
        changes = [*added, *removed] if owner is None else [*removed, *added]
        within = {place for place, (_, before, _) in enumerate(merged) if before}
        way = [_flat(merged[place][0] for place in sorted(within))]
        for place in changes:
            within ^= {place}
            way.append(_flat(merged[place][0] for place in sorted(within)))
    connected = len(way) > 1 and all(holds(relation, one, other) for one, other in itertools.pairwise(way))
    return way if connected else None


def bisected(way: Sequence[Any], raises: Callable[[int], tuple[bool, bool] | None]) -> int | None:
    """Return the place in a way after which it no longer raises, by asking about few neighbours.

    The first dataset raises, and the last does not. ``raises(place)`` runs the dataset at a place and the next one, and
    says of both whether they do, or None where they cannot be run.

    >>> bisected(range(40), lambda place: (place < 27, place + 1 < 27))
    26
    """
    low, high = 0, len(way) - 1
    while low < high:
        middle = (low + high - 1) // 2
        told = raises(middle)
        if told is None:
            return None
        if told == (True, False):
            return middle
        low, high = (middle + 1, high) if told[0] else (low, middle)
    return None


def steps_of(way: Sequence[Any]) -> int:
    """How many pairs a bisection of a way runs at most."""
    return math.ceil(math.log2(max(len(way), 2))) + 1


def _units(rows: Rows, owner: int | None) -> list[Rows]:
    """What one step changes: single records, or all records of a person, in the order of their first ones."""
    if owner is None:
        return [(row,) for row in rows]
    persons: dict[str, list[Any]] = {}
    for row in rows:
        persons.setdefault(repr(row[owner]), []).append(row)
    return [tuple(some) for some in persons.values()]


def _flat(units: Iterable[Rows]) -> Rows:
    return tuple(row for unit in units for row in unit)


def _distance(x: Rows, x_prime: Rows) -> int:
    ours, theirs = Counter(map(repr, x)), Counter(map(repr, x_prime))
    return (ours - theirs).total() + (theirs - ours).total()
