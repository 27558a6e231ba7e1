"""Short descriptions of data, from which a hunt makes candidate pairs where no pair is known.

`Table` describes records with columns, `Answers` describes vectors of query answers. Both list neighbouring datasets:
at, near and beyond the limits that the description states, the simplest first.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from epsaudit.data.candidates import patterns
from epsaudit.data.neighbours import (
    AddRemove,
    Adjacency,
    DatasetPair,
    MaxChange,
    Relation,
    Substitution,
    adjacency_of,
)
from epsaudit.errors import AuditError, finite_at_least, needs, whole_at_least
from epsaudit.tools.hunting.candidate import Candidate
from epsaudit.tools.hunting.columns import Column, checked_bounds, require_choice
from epsaudit.tools.hunting.relations import NORM_ORDERS, AddRemovePerson, Norm, SubstitutePerson, WithinNorm
from epsaudit.tools.hunting.table_changes import TableChange, TableRows, TableShape, table_changes

DatasetForm = Literal["list", "array", "records", "columns", "frame", "counts", "one"]
"""The form in which a mechanism takes a dataset: a list of values or of rows (which are lists), a numpy array, a list
of dictionaries, a dictionary of lists, a pandas frame, a dictionary with the number of occurrences of each value, or
the single record alone (local model)."""
Description: TypeAlias = "Table | Answers"
"""The descriptions of data that can list candidates."""
LARGE_DATASET_SIZE = 20
"""[chosen] Number of records in a large dataset: more than usual thresholds on counts, and few enough to be read in
every run."""


@dataclass(frozen=True)
class Table:
    r"""A description of datasets whose records have the given columns. A hunt derives pairs of datasets from it.

    >>> ages = Table([Column("age", "integer", bounds=(0, 120))])
    >>> print(*(f"{one.pair.x} {one.pair.x_prime} {one.tries}" for one in ages.pairs(AddRemove())[:2]), sep="\n")
    [] [120] the greatest age added to empty data [] [0] the least age added to empty data
    """

    columns: Sequence[Column]
    """The columns of a record. If there is a single column, a dataset is a plain list or vector of its values."""
    form: DatasetForm = "list"
    """The form in which the mechanism takes the dataset."""
    most_rows_a_person: int = 1
    """The largest number of rows that one person may have. The column with the role 'owner' names the person."""
    beyond: bool = True
    """Whether records may lie beyond the bounds, and persons may have too many rows. Leave this true if the mechanism
    promises to clamp values and to limit rows."""
    least: int = 0
    """The smallest number of records that the mechanism accepts."""
    size: int = LARGE_DATASET_SIZE
    """Number of records in a large dataset."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        require_choice(self.form, DatasetForm, "form of the table")
        whole_at_least(self.most_rows_a_person, 1, "most_rows_a_person")
        whole_at_least(self.least, 0, "least")
        whole_at_least(self.size, 2, "size of a large dataset")
        names = [column.name for column in self.columns]
        if not names or len({*names}) < len(names):
            raise AuditError(
                f"The columns of the table are {names}; it needs at least one column, and each needs a different name."
            )
        if sum(column.role == "owner" for column in self.columns) > 1:
            raise AuditError(f"Several of the columns {names} have the role 'owner'; at most one may have it.")
        if self.form == "counts" and len(names) > 1:
            raise AuditError(f"The columns of the table are {names}; the form 'counts' accepts a single column.")

    @property
    def owner(self) -> int | None:
        """Position of the column that names the person to whom a record belongs, or None if there is no such column."""
        return next((place for place, column in enumerate(self.columns) if column.role == "owner"), None)

    @property
    def relations(self) -> tuple[Adjacency, ...]:
        """The neighbouring relations under which datasets of this table can be neighbours."""
        if self.form == "one":
            return (Substitution(),)
        persons = () if self.owner is None else (AddRemovePerson(self.owner), SubstitutePerson(self.owner))
        return (AddRemove(), Substitution(), *persons)

    def pairs(self, adjacency: Relation | None = None) -> list[Candidate]:
        """Return pairs of datasets that fit the description, as candidates for a hunt, the simplest first.

        The order is always the same. If ``adjacency`` is given, only neighbours under this relation are returned.
        """
        relation = checked_relation(self, adjacency)
        shape = TableShape(self.columns, self.owner, self.most_rows_a_person, self.beyond, self.size)
        different: dict[str, TableChange] = {}
        for change in sorted(table_changes(shape), key=lambda change: change.complexity):
            both = change.x, change.x_prime
            sides = [sorted(rows, key=repr) if self.form == "counts" else rows for rows in both]
            different.setdefault(repr(sides), change)  # keep one of several changes that the mechanism sees as equal
        made = [self.candidate(*change) for change in different.values()]
        return [one for one in made if one is not None and (relation is None or relation in one.adjacencies)]

    def candidate(self, x: Any, x_prime: Any, tries: str = "", complexity: int = 0) -> Candidate | None:
        """Return a candidate for two datasets that are given as rows.

        Returns None if the datasets are not neighbours under any relation of the table, or if one of them does not fit
        the description. ``tries`` describes the pair in words, and ``complexity`` is its sort key.
        """
        x, x_prime = tuple(map(tuple, x)), tuple(map(tuple, x_prime))
        if not (self._accepts(x) and self._accepts(x_prime)):
            return None
        holding = tuple(relation for relation in self.relations if relation.holds(x, x_prime))
        if not holding:
            return None
        pair = DatasetPair(self.dataset(x), self.dataset(x_prime), tries)
        return Candidate(pair, holding, tries, rows=(x, x_prime), complexity=complexity)

    def _accepts(self, rows: TableRows) -> bool:
        """Return whether a dataset fits the description.

        The number of rows, all values, and the number of rows per person are checked.
        """
        if len(rows) < self.least or (self.form == "one" and len(rows) != 1):
            return False
        cells = itertools.chain.from_iterable(zip(self.columns, row, strict=True) for row in rows)
        if not all(column.accepts(cell, self.beyond) for column, cell in cells):
            return False
        owners = Counter(repr(row[self.owner]) for row in rows if self.owner is not None and not self.beyond)
        return max(owners.values(), default=0) <= self.most_rows_a_person

    def dataset(self, rows: TableRows) -> Any:
        """Convert rows to the form in which the mechanism expects a dataset, such as a list or a pandas frame."""
        names = [column.name for column in self.columns]
        if self.form == "records":
            return [dict(zip(names, row, strict=True)) for row in rows]
        by_name = {name: [row[place] for row in rows] for place, name in enumerate(names)}
        if self.form == "columns":
            return by_name
        if self.form == "frame":
            with needs("studies"):
                import pandas as pd
            typed = zip(by_name.items(), self.columns, strict=True)
            return pd.DataFrame({name: pd.Series(values, dtype=column.dtype) for (name, values), column in typed})
        single = len(names) == 1
        listed = [row[0] if single else list(row) for row in rows]
        if self.form == "one":
            return listed[0]
        if self.form == "counts":
            return dict(Counter(listed))
        if self.form == "list":
            return listed
        dtypes = {column.dtype for column in self.columns}
        dtype = dtypes.pop() if len(dtypes) == 1 else "object" if "object" in dtypes else "float64"
        array = np.array(listed, dtype=None if dtype == "object" else dtype)
        return array if single else array.reshape(len(listed), len(names))


@dataclass(frozen=True)
class Answers:
    """A description of the input of a noise mechanism: a vector of query answers, or a single answer.

    Adding or changing one record changes the answers by at most ``sensitivity`` in a norm, so that two vectors within
    this distance count as neighbours. A hunt derives pairs of vectors from the description.

    >>> [(one.pair.x, one.pair.x_prime) for one in Answers().pairs()[:2]]
    [(0.0, 1.0), (0.0, -1.0)]
    """

    size: int | None = None
    """Number of answers; None describes a plain number."""
    sensitivity: float = 1.0
    """Largest distance of the answers on neighbouring datasets."""
    norm: Norm = "linf"
    """The norm of this distance."""
    integer: bool = False
    """Whether every answer is a whole number."""
    bounds: tuple[float, float] | None = None
    """The lower and the upper bound of every answer."""

    def __post_init__(self) -> None:
        if self.size is not None:
            whole_at_least(self.size, 1, "size of the answers")
        finite_at_least(self.sensitivity, 0.0, "sensitivity of the answers")
        require_choice(self.norm, Norm, "norm of the answers")
        if self.bounds is not None:
            object.__setattr__(self, "bounds", checked_bounds(self.bounds, "bounds of the answers"))

    @property
    def relations(self) -> tuple[Adjacency, ...]:
        """The only neighbouring relation of query answers: their distance is at most the sensitivity."""
        return (MaxChange(self.sensitivity) if self.norm == "linf" else WithinNorm(self.sensitivity, self.norm),)

    def pairs(self, adjacency: Relation | None = None) -> list[Candidate]:
        """Return pairs of vectors as candidates for a hunt.

        A pair is a pattern of `epsaudit.data.candidates.patterns`, scaled to the sensitivity and added to a base value.
        """
        checked_relation(self, adjacency)
        made: dict[Any, Candidate] = {}
        for complexity, (base, words) in enumerate(self._bases()):
            for pattern in patterns(self.size or 1):
                both = np.array([pattern.x, pattern.x_prime])
                both = base + both * self.sensitivity / np.linalg.norm(both[0] - both[1], NORM_ORDERS[self.norm])
                x, x_prime = (
                    tuple(int(value) if self.integer and value.is_integer() else value for value in side)
                    for side in both.tolist()
                )
                if (candidate := self.candidate(x, x_prime, f"{pattern.name}{words}", complexity)) is not None:
                    made.setdefault((x, x_prime), candidate)
        return list(made.values())

    def _bases(self) -> list[tuple[float, str]]:
        """Return the base values to which patterns are added, each with words for the description of the candidate.

        Examples are 0, a bound, or a number so large that small differences are lost.
        """
        low, high = self.bounds or (-math.inf, math.inf)
        bases = [(0.0, "")] if low <= 0.0 <= high else []
        if self.bounds is None:
            return bases + [(base, f", from {base:.0f}") for far in (2.0**31, 2.0**52) for base in (far, -far)]
        return [
            *bases,
            (low, ", from the lower bound"),
            (high, ", from the upper bound"),
            ((low + high) / 2, ", between"),
        ]

    def candidate(self, x: Any, x_prime: Any, tries: str = "", complexity: int = 0) -> Candidate | None:
        """Return a candidate for two vectors of query answers.

        Returns None if the vectors do not fit the description, or if they are not neighbours.
        """
        (low, high), values = self.bounds or (-np.inf, np.inf), np.array([*x, *x_prime], float)
        fits = np.all((low <= values) & (values <= high)) and not (self.integer and np.any(values != np.round(values)))
        if not fits or tuple(x) == tuple(x_prime) or not self.relations[0].holds(x, x_prime):
            return None
        one, other = (side[0] if self.size is None else list(side) for side in (x, x_prime))
        pair = DatasetPair(one, other, tries)
        return Candidate(pair, self.relations, tries, rows=(tuple(x), tuple(x_prime)), complexity=complexity)


def numbers(
    low: float, high: float, *, integer: bool = False, missing: bool = False, form: DatasetForm = "list", **more: Any
) -> Table:
    """Return the description of a dataset that is a plain list or array of numbers between two bounds.

    ``more`` are further attributes of `Table`, for instance ``beyond``.
    """
    return Table([Column(type="integer" if integer else "float", bounds=(low, high), missing=missing)], form, **more)


def symbols(*categories: Any, form: DatasetForm = "list", **more: Any) -> Table:
    """Return the description of a dataset that is a plain list of categories, such as ``["yes", "no", "yes"]``.

    ``categories`` are all values that occur; ``more`` are further attributes of `Table`, for instance ``least``.
    """
    return Table([Column(type="category", categories=categories)], form, **more)


def checked_relation(description: Description, adjacency: Relation | None) -> Adjacency | None:
    """Return a neighbouring relation as an `Adjacency` object; return None for None.

    Raises `AuditError` if no datasets of this description can be neighbours under the relation.
    """
    relation = adjacency_of(adjacency)
    if relation is not None and relation not in description.relations:
        known = "', '".join(map(str, description.relations))
        raise AuditError(f"The described data has no neighbours under '{relation}'; it has neighbours under '{known}'.")
    return relation
