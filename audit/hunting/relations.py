"""Neighbouring relations that descriptions know besides those of records: one person's rows, and answers within a norm.

All are symmetric. Those of persons are about rows (tuples) of which one column names the person.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from epsaudit.data.neighbours import AddRemove, Adjacency, MaxChange, Substitution
from epsaudit.errors import AuditError, finite_at_least, meant

Norm = Literal["linf", "l1", "l2"]
ORDERS: Mapping[str, float] = {"linf": np.inf, "l1": 1, "l2": 2}


@dataclass(frozen=True)
class AddRemovePerson(Adjacency):
    """One dataset is the other without all rows of one person.

    Examples
    --------
    >>> AddRemovePerson().holds([("ann", 1), ("ann", 2), ("bob", 1)], [("bob", 1)])
    True
    >>> AddRemovePerson().holds([("ann", 1), ("ann", 2)], [("ann", 1)])
    False
    """

    owner: int = field(default=0, compare=False)
    """Position of the column that names the person; relations of different tables are equal."""
    description = "the presence of all rows of exactly one person"

    def holds(self, x: Any, x_prime: Any) -> bool:
        """See `Adjacency.holds`."""
        changed = _changed(x, x_prime, self.owner)
        return len(changed) == 1 and not all(changed[0])

    def __str__(self) -> str:
        return "add or remove one person"


@dataclass(frozen=True)
class SubstitutePerson(Adjacency):
    """The rows of one person are replaced by other rows of this person, or by those of a person who is new.

    Examples
    --------
    >>> SubstitutePerson().holds([("ann", 1), ("ann", 2)], [("ann", 3)])
    True
    >>> SubstitutePerson().holds([("ann", 1)], [("bob", 1), ("bob", 2)])
    True
    """

    owner: int = field(default=0, compare=False)
    """As for `AddRemovePerson`."""
    description = "the rows of exactly one person, who has some in both"

    def holds(self, x: Any, x_prime: Any) -> bool:
        """See `Adjacency.holds`."""
        changed = _changed(x, x_prime, self.owner)
        if len(changed) == 1:
            return all(changed[0])
        return {tuple(map(bool, sides)) for sides in changed} == {(False, True), (True, False)} and len(changed) == 2

    def __str__(self) -> str:
        return "substitute one person's rows"


@dataclass(frozen=True)
class WithinNorm(Adjacency):
    """Datasets are vectors of query answers that one record can change by at most ``bound`` in the l1 or l2 norm.

    For the greatest single change, 'linf', there is `MaxChange`.
    """

    bound: float = 1.0
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        finite_at_least(self.bound, 0.0, "bound of WithinNorm")
        if self.norm not in ORDERS:
            raise AuditError(f"The norm is {self.norm!r}; it must be 'l1', 'l2' or 'linf'.")

    @property
    def description(self) -> str:  # type: ignore[override]  # depends on the bound
        """See `Adjacency.description`."""
        return f"their query answers by at most {self.bound:g} in the {self.norm} norm"

    def holds(self, x: Any, x_prime: Any) -> bool:
        """See `Adjacency.holds`; a relative slack of 1e-12 forgives rounding."""
        a, b = np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(x_prime, float))
        return a.shape == b.shape and bool(np.linalg.norm(a - b, ORDERS[self.norm]) <= self.bound * (1 + 1e-12))

    def __str__(self) -> str:
        return f"query answers within {self.bound:g} in {self.norm}"


def within(bound: float, norm: Norm) -> Adjacency:
    """Return the relation of answers that change by at most ``bound`` in a norm."""
    return MaxChange(bound) if norm == "linf" else WithinNorm(bound, norm)


NAMED: Mapping[str, Adjacency] = {
    "add-remove": AddRemove(),
    "substitution": Substitution(),
    "add-remove-person": AddRemovePerson(),
    "substitute-person": SubstitutePerson(),
}
"""Relations as schema files and the command line name them."""


def relation_named(name: str) -> Adjacency:
    """Return the relation of a name, 'add-remove' for instance."""
    if name not in NAMED:
        raise AuditError(f"{name!r} is no relation; there are {', '.join(NAMED)}.{meant(name, NAMED)}")
    return NAMED[name]


def holds(relation: Adjacency, x: Any, x_prime: Any) -> bool:
    """Whether two datasets are neighbours; not where they are of a kind that the relation does not know."""
    try:
        return bool(relation.holds(x, x_prime))
    except Exception:  # relations and datasets are anybody's
        return False


def _changed(x: Iterable[Any], x_prime: Iterable[Any], owner: int) -> list[tuple[Counter[Hashable], Counter[Hashable]]]:
    """Rows, as text so that NaN is NaN, on both sides of every person who has not the same on both."""
    persons: dict[str, tuple[Counter[Hashable], Counter[Hashable]]] = defaultdict(lambda: (Counter(), Counter()))
    for side, rows in enumerate((x, x_prime)):
        for row in rows:
            persons[repr(row[owner])][side][repr(tuple(row))] += 1
    return [sides for sides in persons.values() if sides[0] != sides[1]]
