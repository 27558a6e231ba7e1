"""Candidate pairs of datasets: patterns of query answers, datasets at the ends of a range, and drawn datasets.

If more than four pairs are given to `epsaudit.audit`, it selects the best pair by successive halving on training runs
and certifies only this pair. So the search costs no confidence.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from epsaudit.data.neighbours import (
    AddRemove,
    Adjacency,
    DatasetPair,
    MaxChange,
    Relation,
    Substitution,
    adjacency_of,
    is_strategy,
    pair_of,
)
from epsaudit.data.records import shorten
from epsaudit.errors import AuditError, finite_at_least, whole_at_least

N_EXAMPLES = 256
"""[measured] Number of examples that are drawn from a strategy to find the range of its records. It finds the ends of
floats(0, 10) to 1 %."""


def patterns(size: int, bound: float = 1.0, base: float = 0.0) -> list[DatasetPair]:
    """Return pairs of vectors of ``size`` query answers in which every answer changes by at most ``bound``.

    The pairs are the categories of Ding, Wang, Wang, Zhang and Kifer (2018), 'Detecting violations of differential
    privacy', Table 1. The single answer that differs may be the first or the last, because some mechanisms stop early.
    Answers on x are ``base``, except where the name of the pair says otherwise.

    >>> [pair.x_prime for pair in patterns(3) if pair.name == "first above"]
    [(1.0, 0.0, 0.0)]
    """
    size = whole_at_least(size, 1, "size")
    bound, base = finite_at_least(bound, 0.0, "bound"), finite_at_least(base, -math.inf, "base")
    flat, half = np.zeros(size), np.arange(size) < size // 2
    first, last = np.eye(size)[[0, -1]]
    rest, before = 1.0 - first, 1.0 - last
    moves: dict[str, Any] = {
        **{"all above": flat + 1.0, "all below": flat - 1.0},
        **{"first above": first, "first below": -first, "last above": last, "last below": -last},
        **{"first above, rest below": first - rest, "first below, rest above": rest - first},
        **{"last above, rest below": last - before, "last below, rest above": before - last},
        **{"half above, half below": np.where(half, 1.0, -1.0), "half above": half * 1.0, "crossed": 1.0 - half},
    }
    found: dict[tuple[Any, Any], DatasetPair] = {}
    for name, move in moves.items():
        sides = (half if name == "crossed" else flat, move)
        x, x_prime = (tuple((base + bound * side).tolist()) for side in sides)
        if x != x_prime:
            found.setdefault((x, x_prime), DatasetPair(x, x_prime, name))
    return list(found.values())


def boundary(low: float, high: float, size: int, adjacency: Relation | None = None) -> list[DatasetPair]:
    """Return pairs of datasets of numbers at the ends of a range, where sensitivity is usually largest.

    The dataset x has ``size`` records, which are ``low`` or ``high``. For `AddRemove`, the default, x' has one record
    more, and x may also be empty. For `Substitution`, one record of x is replaced in x'. Raises `AuditError` if the
    range is empty, or if the relation is another one.

    >>> len(boundary(0, 10, 3)), boundary(0, 10, 3)[0].x_prime
    (8, (0, 0, 0, 0))
    """
    size = whole_at_least(size, 1, "size")
    adjacency = adjacency_of(adjacency)
    ordered = False
    with contextlib.suppress(TypeError):
        ordered = low < high
    if not ordered:
        raise AuditError(f"The range from {low!r} to {high!r} is empty; low must be below high.")
    half = (low,) * (size - size // 2) + (high,) * (size // 2)
    bases: list[tuple[float, ...]] = [(low,) * size, (high,) * size, half, (low,) * (size - 1) + (high,)]
    if adjacency is None or isinstance(adjacency, AddRemove):
        pairs = [(x, (*x, record)) for x in [*bases, ()] for record in (low, high)]
    elif isinstance(adjacency, Substitution):
        replaced = [(x, x.index(old), new) for x in bases for old, new in ((low, high), (high, low)) if old in x]
        pairs = [(x, (*x[:place], new, *x[place + 1 :])) for x, place, new in replaced]
    else:
        raise AuditError(f"boundary() does not know the relation '{adjacency}'; give AddRemove() or Substitution().")
    return [DatasetPair(*pair) for pair in dict.fromkeys(pairs)]


def drawn(strategy: Any, count: int = 16, seed: int = 0, adjacency: Relation | None = None) -> list[DatasetPair]:
    """Draw distinct pairs from a strategy of hypothesis, and add boundary cases made from the drawn records.

    Random datasets are rarely those with the largest sensitivity. So the smallest and the largest drawn record are
    combined to datasets of the drawn sizes, as `boundary` does, or as `patterns` does for `MaxChange`.

    The ``strategy`` must draw tuples (x, x_prime) or `DatasetPair` objects. At most ``count`` of the drawn pairs are
    kept. Pairs that are not neighbours under ``adjacency`` are dropped. Without ``adjacency`` all pairs are kept, and
    boundary cases are added only if every pair adds or removes one record. The same seed gives the same pairs with the
    same version of hypothesis. Raises `AuditError` if hypothesis is not installed or if no pair was drawn.

    >>> from hypothesis import strategies as st
    >>> people = st.lists(st.integers(0, 9), min_size=1, max_size=5).map(tuple)
    >>> len(drawn(people.map(lambda x: (x, x[1:])), seed=1, adjacency=AddRemove())) > 10
    True
    """
    from unittest import mock

    try:
        import hypothesis
        from hypothesis.internal.conjecture.providers import HypothesisProvider
    except ImportError as error:
        needed = "Pairs drawn from a strategy need hypothesis 6.131 or newer: pip install -U hypothesis."
        raise AuditError(needed) from error

    if not is_strategy(strategy):
        raise AuditError(f"{shorten(strategy)} is no strategy of hypothesis; give one that draws pairs (x, x_prime).")
    count, adjacency = whole_at_least(count, 1, "count"), adjacency_of(adjacency)
    examples = max(N_EXAMPLES, count)
    found: dict[str, DatasetPair] = {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        phases=[hypothesis.Phase.generate],
        backend="hypothesis",
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(drawn_pair: Any) -> None:
        try:
            pair = pair_of(drawn_pair)
        except AuditError:
            how = "it must give pairs, as .map(lambda x: (x, x[1:])) does"
            raise AuditError(f"The strategy gave {shorten(drawn_pair)}; {how}.") from None
        if adjacency is None or adjacency.holds(pair.x, pair.x_prime):
            found.setdefault(repr((pair.x, pair.x_prime)), pair)

    # without this, hypothesis also draws constants from the user's imported modules, so pairs would depend on them
    no_constants = mock.patch.object(HypothesisProvider, "_maybe_draw_constant", return_value=None, create=True)
    try:
        with no_constants:
            collect()
    except AuditError:
        raise
    except Exception as error:
        raise AuditError(f"The strategy raised {type(error).__name__}: {error}.") from error
    if not found:
        raise AuditError(f"None of the {examples} examples of the strategy were neighbours under '{adjacency}'.")
    pairs = list(found.values())
    relation = adjacency or common_relation(pairs)
    kept = pairs[:: -(-len(pairs) // count)]
    kept += _boundary_cases(pairs, relation) if relation else []
    return list({repr((pair.x, pair.x_prime)): pair for pair in kept}.values())


def common_relation(pairs: Sequence[DatasetPair]) -> Adjacency | None:
    """Return `AddRemove` if all pairs are neighbours under this relation, otherwise None.

    Other relations cannot be inferred from pairs. For example, pairs that differ by the substitution of one record may
    also be meant as neighbours under `MaxChange`.
    """
    with contextlib.suppress(Exception):  # datasets may have any type
        return AddRemove() if all(AddRemove().holds(pair.x, pair.x_prime) for pair in pairs) else None
    return None


def _boundary_cases(pairs: Sequence[DatasetPair], adjacency: Adjacency) -> list[DatasetPair]:
    """Return the boundary cases that `drawn` adds, made from the smallest and the largest record in the given pairs.

    The list is empty if the records have no order or are all equal, or if the datasets are not lists, tuples or arrays
    of one type.
    """
    datasets = [dataset for pair in pairs for dataset in (pair.x, pair.x_prime)]
    kind = type(datasets[0])
    if not all(type(dataset) is kind for dataset in datasets) or not issubclass(kind, (list, tuple, np.ndarray)):
        return []
    try:
        listed = [dataset.tolist() if kind is np.ndarray else dataset for dataset in datasets]
        records = [record for dataset in listed for record in dataset if record == record]
        low, high, sizes = min(records), max(records), sorted({len(dataset) for dataset in listed})
        if isinstance(adjacency, MaxChange):
            made = [pair for base in (low, high) for pair in patterns(sizes[-1], adjacency.bound, base)]
        else:
            forms = [adjacency] if isinstance(adjacency, (AddRemove, Substitution)) else [AddRemove(), Substitution()]
            ends = sorted({max(size, 1) for size in (sizes[0], sizes[-1] - 1, sizes[-1])})
            made = [pair for form in forms for size in ends for pair in boundary(low, high, size, form)]
    except (TypeError, ValueError):  # AuditError is a ValueError; it means that the range is empty
        return []

    def seen(side: Any) -> bool:
        return sizes[0] <= len(side) <= sizes[-1] and all(low <= record <= high for record in side)

    made = [pair for pair in made if seen(pair.x) and seen(pair.x_prime) and adjacency.holds(pair.x, pair.x_prime)]
    different = {frozenset(tuple(sorted(side)) for side in (pair.x, pair.x_prime)): pair for pair in made}
    make = np.array if kind is np.ndarray else kind
    return [DatasetPair(make(pair.x), make(pair.x_prime), pair.name) for pair in different.values()]
