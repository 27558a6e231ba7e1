"""Candidate pairs to search: patterns of query answers, datasets at the ends of their range, strategies of hypothesis.

Each function returns a list of pairs, from a few numbers or a hypothesis strategy. Given to `epsaudit.audit` as
``pairs``, more than four go through successive halving on training runs, and the best is certified alone: searching
costs no confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsaudit.errors import AuditError, finite_at_least, whole_at_least
from epsaudit.neighbours import AddRemove, Adjacency, DatasetPair, Substitution


def patterns(size: int, bound: float = 1.0, base: float = 0.0) -> list[DatasetPair]:
    """List pairs of vectors of query answers of which each changes by at most ``bound``.

    The categories of Ding, Wang, Wang, Zhang and Kifer (2018), 'Detecting violations of differential privacy', Table 1,
    with the odd answer out at either end, because some mechanisms stop early.

    Parameters
    ----------
    size : int
        Number of answers, at least 1.
    bound : float
        Largest change of an answer, for `MaxChange`.
    base : float
        Answers on x where nothing else is said.

    Examples
    --------
    >>> for pair in patterns(4)[:3]:
    ...     print(pair.name, pair.x, pair.x_prime)
    all above (0.0, 0.0, 0.0, 0.0) (1.0, 1.0, 1.0, 1.0)
    all below (0.0, 0.0, 0.0, 0.0) (-1.0, -1.0, -1.0, -1.0)
    first above (0.0, 0.0, 0.0, 0.0) (1.0, 0.0, 0.0, 0.0)
    """
    size = whole_at_least(size, 1, "size")
    bound = finite_at_least(bound, 0.0, "bound")
    flat, half = np.zeros(size), np.arange(size) < size // 2
    first, last = np.eye(size)[[0, -1]]
    rest, before = 1.0 - first, 1.0 - last
    moves = {
        "all above": flat + 1.0,
        "all below": flat - 1.0,
        "first above": first,
        "first below": -first,
        "last above": last,
        "last below": -last,
        "first above, rest below": first - rest,
        "first below, rest above": rest - first,
        "last above, rest below": last - before,
        "last below, rest above": before - last,
        "half above, half below": np.where(half, 1.0, -1.0),
        "half above": np.where(half, 1.0, 0.0),
    }
    pairs: dict[str, tuple[Any, Any]] = {name: (flat, move) for name, move in moves.items()}
    pairs["crossed"] = (half * 1.0, 1.0 - half)
    found: dict[tuple[Any, Any], DatasetPair] = {}
    for name, sides in pairs.items():
        x, x_prime = (tuple((base + bound * side).tolist()) for side in sides)
        if x != x_prime and (x, x_prime) not in found:
            found[x, x_prime] = DatasetPair(x, x_prime, name)
    return list(found.values())


def boundary(low: float, high: float, size: int, adjacency: Adjacency | None = None) -> list[DatasetPair]:
    """List pairs of datasets of numbers that sit at the ends of their range, where sensitivity usually is.

    Parameters
    ----------
    low, high : float
        The range of one record's number.
    size : int
        Records in x: at least 1.
    adjacency : AddRemove or Substitution, optional
        Whether a record is added or replaced; by default added.

    Raises
    ------
    AuditError
        For another relation, or an empty range.

    Examples
    --------
    >>> len(boundary(0, 10, 3)), boundary(0, 10, 3)[0].x_prime
    (8, (0, 0, 0, 0))
    """
    size = whole_at_least(size, 1, "size")
    if not low < high:
        raise AuditError(f"The range from {low!r} to {high!r} is empty; low must be below high.")
    half = (low,) * (size - size // 2) + (high,) * (size // 2)
    bases: list[tuple[float, ...]] = [(low,) * size, (high,) * size, half, (low,) * (size - 1) + (high,)]
    if adjacency is None or isinstance(adjacency, AddRemove):
        pairs = [(x, (*x, record)) for x in [*bases, ()] for record in (low, high)]
    elif isinstance(adjacency, Substitution):
        pairs = [
            (x, (*x[:place], other, *x[place + 1 :]))
            for x in bases
            for old, other in ((low, high), (high, low))
            if old in x
            for place in [x.index(old)]
        ]
    else:
        raise AuditError(f"boundary() does not know the relation '{adjacency}'; give AddRemove() or Substitution().")
    return [DatasetPair(*pair) for pair in dict.fromkeys(pairs)]


def drawn(strategy: Any, count: int = 64, seed: int = 0, adjacency: Adjacency | None = None) -> list[DatasetPair]:
    """Draw different pairs from a hypothesis strategy of yours, which gives (x, x_prime) or `DatasetPair`.

    Needs hypothesis (in the extra ``test``).

    Parameters
    ----------
    strategy : hypothesis.strategies.SearchStrategy
        What makes pairs; those that are not adjacent are left out.
    count : int
        How many examples are drawn at most; simple and extreme ones are among them.
    seed : int
        The same seed gives the same pairs.
    adjacency : Adjacency, optional
        The relation to keep; None keeps all pairs.

    Raises
    ------
    AuditError
        If no pair was adjacent, or what was drawn is no pair.

    Examples
    --------
    >>> from hypothesis import strategies as st
    >>> people = st.lists(st.integers(0, 9), min_size=1, max_size=5).map(tuple)
    >>> pairs = drawn(people.map(lambda x: (x, x[1:])), seed=1, adjacency=AddRemove())
    >>> len(pairs) > 10, all(len(pair.x) == len(pair.x_prime) + 1 for pair in pairs)
    (True, True)
    """
    try:
        import hypothesis
    except ImportError as error:
        raise AuditError("Pairs drawn from a strategy need hypothesis: pip install hypothesis.") from error

    found: dict[str, DatasetPair] = {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=whole_at_least(count, 1, "count"),
        phases=[hypothesis.Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(drawn_pair: Any) -> None:
        pair = _as_pair(drawn_pair)
        if adjacency is None or adjacency.holds(pair.x, pair.x_prime):
            found.setdefault(repr((pair.x, pair.x_prime)), pair)

    collect()
    if not found:
        raise AuditError(f"None of {count} examples of the strategy were neighbours under '{adjacency}'.")
    return list(found.values())


def _as_pair(value: Any) -> DatasetPair:
    if isinstance(value, DatasetPair):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        return DatasetPair(*value)
    raise AuditError(f"The strategy gave {value!r}; it must give (x, x_prime) or a DatasetPair.")
