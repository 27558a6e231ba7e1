"""Neighbouring relations that a description of data needs beside those of the core.

They cover the rows of one person, and query answers within a distance in a norm. The module stands alone because both
descriptions and schema files refer to these relations, by class and by name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from epsaudit.data.neighbours import AddRemove, Adjacency, Substitution
from epsaudit.errors import AuditError, finite_at_least, suggest_name

Norm = Literal["linf", "l1", "l2"]
"""Norms in which the distance of two vectors of query answers is measured."""
NORM_ORDERS: Mapping[str, float] = {"linf": np.inf, "l1": 1, "l2": 2}
"""The argument ``ord`` of `numpy.linalg.norm` for each norm."""


@dataclass(frozen=True)
class _PersonRelation(Adjacency):
    """A neighbouring relation under which two datasets differ in the rows of exactly one person.

    A subclass says which differences are allowed. A column of each row names the person.
    """

    owner: int = field(default=0, compare=False)
    """Position of the column that names the person. Relations of tables with different positions compare as equal."""
    accepted_changes: ClassVar[tuple[list[tuple[bool, bool]], ...]]
    """The accepted lists of changes. A list has one entry (has rows in x, has rows in x') for every person whose rows
    differ, and is sorted."""

    def holds(self, x: Any, x_prime: Any) -> bool:
        persons: dict[str, Any] = defaultdict(lambda: (Counter(), Counter()))
        for side, rows in enumerate((x, x_prime)):
            for row in rows:  # rows are compared as text, so that two NaN are equal
                persons[repr(row[self.owner])][side][repr(tuple(row))] += 1
        changes = sorted((bool(a), bool(b)) for a, b in persons.values() if a != b)
        return changes in self.accepted_changes


@dataclass(frozen=True)
class AddRemovePerson(_PersonRelation):
    """The neighbouring relation "add or remove one person": one dataset lacks all rows of one person."""

    name = "add or remove one person"
    description = "the presence of all rows of exactly one person"
    accepted_changes = [(False, True)], [(True, False)]


@dataclass(frozen=True)
class SubstitutePerson(_PersonRelation):
    """The neighbouring relation "substitute one person": the rows of one person are replaced.

    The new rows belong to the same person or to a person who is not in the other dataset.
    """

    name = "substitute one person's rows"
    description = "the rows of exactly one person, or one person in place of another"
    accepted_changes = [(True, True)], [(False, True), (True, False)]


@dataclass(frozen=True)
class AlreadyChecked(Adjacency):
    """A relation that accepts every pair of datasets.

    It is given to a mechanism so that the mechanism does not check its datasets. The hunt has already checked the
    relation on the rows from which the datasets were made.
    """

    def holds(self, x: Any, x_prime: Any) -> bool:
        return True


@dataclass(frozen=True)
class WithinNorm(Adjacency):
    """A neighbouring relation between vectors of query answers: their distance in a norm is at most ``bound``.

    `epsaudit.MaxChange` is the same relation for the norm 'linf'.
    """

    bound: float = 1.0
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        finite_at_least(self.bound, 0.0, "bound of WithinNorm")
        if self.norm not in NORM_ORDERS:
            raise AuditError(f"The norm is {self.norm!r}; it must be 'l1', 'l2' or 'linf'.")

    @property
    def description(self) -> str:  # type: ignore[override]  # depends on the bound
        return f"their query answers by at most {self.bound:g} in the {self.norm} norm"

    def holds(self, x: Any, x_prime: Any) -> bool:
        a, b = np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(x_prime, float))
        return a.shape == b.shape and bool(np.linalg.norm(a - b, NORM_ORDERS[self.norm]) <= self.bound * (1 + 1e-12))

    def __str__(self) -> str:
        return f"query answers within {self.bound:g} in {self.norm}"


RELATIONS_BY_NAME: Mapping[str, Adjacency] = {
    "add-remove": AddRemove(),
    "substitution": Substitution(),
    "add-remove-person": AddRemovePerson(),
    "substitute-person": SubstitutePerson(),
}
"""The relations that schema files and the command line can name."""


def relation_named(name: str) -> Adjacency:
    """Return the neighbouring relation with this name, such as 'add-remove'; raise `AuditError` for an unknown name."""
    if name not in RELATIONS_BY_NAME:
        known = ", ".join(RELATIONS_BY_NAME)
        raise AuditError(f"{name!r} is no relation; there are {known}.{suggest_name(name, RELATIONS_BY_NAME)}")
    return RELATIONS_BY_NAME[name]


def are_neighbours(relation: Adjacency, x: Any, x_prime: Any) -> bool:
    """Return whether two datasets are neighbours under a relation.

    Also return False if the relation raises an exception, because it may not support the type of the datasets.
    """
    try:
        return bool(relation.holds(x, x_prime))
    except Exception:  # relations and datasets may come from the caller and raise anything
        return False
