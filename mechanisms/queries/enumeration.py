"""Sensitivities of any function, monotone or not, by enumeration of all datasets within a distance.

They are separate from `epsaudit.mechanisms.queries.monotone`, whose staircase of answers exists only for monotone
queries. A dataset is a multiset, here a sorted tuple; its neighbours have one record more or less.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from epsaudit.errors import whole_at_least

Function = Callable[[tuple[Any, ...]], float]


def sub_multisets(dataset: Sequence[Any], removals: int) -> set[tuple[Any, ...]]:
    """Return every dataset that results from at most ``removals`` removals, including the dataset itself.

    >>> sorted(sub_multisets((1, 1, 2), 1))
    [(1, 1), (1, 1, 2), (1, 2)]
    """
    ordered, fewest = sorted(dataset), max(0, len(dataset) - whole_at_least(removals, 0, "number of removals"))
    return {part for size in range(fewest, len(ordered) + 1) for part in itertools.combinations(ordered, size)}


def down_sensitivity(function: Function, dataset: Sequence[Any], k: int = 1) -> float:
    """Return the k-down sensitivity DS^k of any function: its greatest change, up or down, by up to k removals.

    differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity', Equation 1.

    >>> down_sensitivity(sum, (1, 1, 1), 2), down_sensitivity(sum, (1, 1, 1, -300), 2)
    (2.0, 300.0)
    """
    answer = function(tuple(sorted(dataset)))
    return float(max(abs(answer - function(part)) for part in sub_multisets(dataset, k)))


def down_sensitivity_at_distance(
    function: Function, dataset: Sequence[Any], k: int, universe: Sequence[Any] = ()
) -> float:
    """Return the down sensitivity at distance k, DS^(k): the greatest DS^1 of datasets within k changes.

    A change adds or removes a record. The records of ``universe`` may be added; by default there are none, so that only
    the given data matter. Either way DS^k is at most k DS^(k - 1) for k >= 1 (the source's note 2), since each of k
    removals starts from a dataset within a distance of k - 1.

    >>> down_sensitivity(max, (1, 2, 4, 9), 2), down_sensitivity_at_distance(max, (1, 2, 4, 9), 1)
    (7.0, 7.0)
    """
    return max(
        down_sensitivity(function, (*part, *joining))
        for part in sub_multisets(dataset, k)
        for more in range(k - (len(dataset) - len(part)) + 1 if universe else 1)
        for joining in itertools.combinations_with_replacement(universe, more)
    )


def removals_until(function: Function, dataset: Sequence[Any], output: float) -> int | None:
    """Return the loss l(x, y): the fewest removals after which the function is at most ``output``.

    It is None if no removals suffice.

    >>> removals_until(sum, (1, 1, 1), 1), removals_until(sum, (1, 1, 1, -300), 1)
    (2, 0)
    """
    ordered = sorted(dataset)
    for removed in range(len(ordered) + 1):
        if any(function(part) <= output for part in itertools.combinations(ordered, len(ordered) - removed)):
            return removed
    return None
