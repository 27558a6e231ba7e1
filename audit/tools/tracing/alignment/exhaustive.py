"""All neighbouring pairs of small datasets over a domain of a few records.

A dataset is a multiset of records: a list in the order of the domain. A bound on all pairs of a size is then a
statement about every dataset up to this size, apart from the order of its records.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from epsaudit.data.neighbours import AddRemove, DatasetPair, Relation, Substitution, adjacency_of
from epsaudit.data.records import comparison_value, shorten
from epsaudit.errors import AuditError, whole_at_least

MAX_PAIRS = 100_000
"""[time] Largest number of pairs: at 0.12 s each, they take 100 minutes on two cores."""


def neighbouring_pairs(
    domain: Sequence[Any], k: int, adjacency: Relation = AddRemove, least: int = 0
) -> list[DatasetPair]:
    """Return all neighbouring pairs of datasets with at most ``k`` records, the smallest datasets first.

    Each pair is listed in one order only, because an upper bound covers both directions.

    Parameters
    ----------
    domain : sequence
        The possible records, each of them once.
    k : int
        The largest number of records in a dataset.
    adjacency : relation
        `AddRemove` (of one record) or `Substitution` (of one record).
    least : int
        The smallest number of records in a dataset.

    Raises
    ------
    AuditError
        If the domain repeats a record or is too small, if the relation is another one, or if there are more than
        `MAX_PAIRS` pairs.

    Examples
    --------
    >>> [(one.x, one.x_prime) for one in neighbouring_pairs("ab", 1)]
    [([], ['a']), ([], ['b'])]
    >>> [(one.x, one.x_prime) for one in neighbouring_pairs("ab", 2, Substitution)][1:]
    [(['a', 'a'], ['a', 'b']), (['a', 'b'], ['b', 'b'])]
    """
    records, k, relation = list(domain), whole_at_least(k, 1, "k"), adjacency_of(adjacency)
    substitutes = isinstance(relation, Substitution)
    if not substitutes and not isinstance(relation, AddRemove):
        raise AuditError(f"All pairs can be listed under AddRemove() and Substitution(), and not under {relation}.")
    if len({comparison_value(one) for one in records}) < len(records):
        raise AuditError(f"The domain {shorten(records)} has a record twice; give each possible record once.")
    if len(records) < 1 + substitutes:
        raise AuditError(f"The domain {shorten(records)} is too small; give the possible records.")
    changes: list[tuple[tuple[int, ...], tuple[int, ...]]] = (
        [((one,), (other,)) for one, other in itertools.combinations(range(len(records)), 2)]
        if substitutes
        else [((), (one,)) for one in range(len(records))]
    )
    n_pairs = math.comb(len(records) + k - 1, k - 1) * len(changes)
    if n_pairs > MAX_PAIRS:
        advice = "take fewer records or a smaller domain"
        raise AuditError(f"There are {n_pairs:,} pairs of at most {k} records; {advice} (at most {MAX_PAIRS:,} pairs).")

    def dataset(places: tuple[int, ...]) -> list[Any]:
        return [records[place] for place in sorted(places)]

    return [
        DatasetPair(dataset((*common, *own)), dataset((*common, *own_prime)))
        for common in _multisets(len(records), k)
        for own, own_prime in changes
        if len(common) + len(own) >= least
    ]


def _multisets(n_records: int, k: int) -> Iterator[tuple[int, ...]]:
    """Yield every multiset of fewer than ``k`` records, the smallest first.

    Records are given by their numbers, which are below ``n_records``.
    """
    for size in range(k):
        yield from itertools.combinations_with_replacement(range(n_records), size)
