"""A short description of data, and the neighbouring datasets that it gives: what a hunt tries where no pair is known.

Besides the relations of records there are those of one person's rows, and of answers within a norm. Which values and
datasets are tried is in `epsaudit.hunting.cases`.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from epsaudit.data.candidates import patterns
from epsaudit.data.neighbours import (
    UNDER,
    AddRemove,
    Adjacency,
    DatasetPair,
    MaxChange,
    Relation,
    Substitution,
    adjacency_of,
)
from epsaudit.errors import AuditError, clipped, finite_at_least, meant, needs, whole_at_least

if TYPE_CHECKING:
    from epsaudit.hunting.cases import Change

Norm = Literal["linf", "l1", "l2"]
ORDERS: Mapping[str, float] = {"linf": np.inf, "l1": 1, "l2": 2}


Form = Literal["list", "array", "records", "columns", "frame", "counts", "one"]
"""What a mechanism takes a dataset as: a list (of values, or of rows as lists), an array of numpy, a list of
dictionaries, a dictionary of lists, a frame of pandas, a dictionary of how often each value occurs, or the one record
itself (local model)."""
Type = Literal["float", "integer", "boolean", "category"]
Role = Literal["value", "weight", "owner"]
Rows: TypeAlias = tuple[tuple[Any, ...], ...]
"""The records of a dataset as tuples, one value a column."""
Description: TypeAlias = "Table | Answers"
"""What makes candidates."""
CROWD = 20
"""Records of a large dataset: more than usual thresholds on counts, few enough to be read in every run."""
LONGEST_NOTE = 300
"""Signs of a note, for whoever reads it: the rest of long parameters is in the stored command."""


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
    name = "add or remove one person"
    description = "the presence of all rows of exactly one person"

    def holds(self, x: Any, x_prime: Any) -> bool:
        changed = _changed(x, x_prime, self.owner)
        return len(changed) == 1 and not all(changed[0])


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
    name = "substitute one person's rows"
    description = "the rows of exactly one person, who has some in both"

    def holds(self, x: Any, x_prime: Any) -> bool:
        changed = _changed(x, x_prime, self.owner)
        if len(changed) == 1:
            return all(changed[0])
        return {tuple(map(bool, sides)) for sides in changed} == {(False, True), (True, False)} and len(changed) == 2


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
        return f"their query answers by at most {self.bound:g} in the {self.norm} norm"

    def holds(self, x: Any, x_prime: Any) -> bool:
        a, b = np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(x_prime, float))
        return a.shape == b.shape and bool(np.linalg.norm(a - b, ORDERS[self.norm]) <= self.bound * (1 + 1e-12))

    def __str__(self) -> str:
        return f"query answers within {self.bound:g} in {self.norm}"


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


@dataclass(frozen=True)
class Candidate:
    """A pair to try, with what is known of it."""

    pair: DatasetPair
    """The datasets as the mechanism takes them; its name is ``tries``."""
    adjacencies: tuple[Adjacency, ...]
    """The relations under which they are neighbours, of those that the description knows, as was checked on the rows:
    audit it with ``adjacency=None``. The pair refutes only a claim for one of these; none where a caller vouches."""
    tries: str
    """What it tries, in a few words: 'a value beyond the upper bound added to empty data'."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the mechanism besides the dataset; see `epsaudit.hunting.parameters`."""
    rows: tuple[Any, Any] | None = None
    """The records behind both datasets (of `Answers`, both vectors), of which a shrinker may take some away:
    `Description.candidate` renders and labels what is left."""
    complexity: int = 0
    """What candidates are sorted by."""

    @property
    def given(self) -> str:
        """The parameters as a call has them: 'clip=1, k=3'; empty if there are none."""
        return ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a result does not say by itself: the relations, and the parameters if there are any."""
        relations = " and ".join(f"'{one}'" for one in self.adjacencies)
        vouched = "whoever gave the datasets vouches for it that they are neighbours"
        under = f"{UNDER}{relations}" if relations else vouched
        return (under, *([f"parameters {clipped(self.given, LONGEST_NOTE)}"] if self.given else []))


@dataclass(frozen=True)
class Column:
    """A column: `Column("age", "integer", bounds=(0, 120), missing=True)`."""

    name: str = "value"
    """Key of the records, or name of the frame's column; what cases are called by."""
    type: Type = "float"
    bounds: tuple[float, float] | None = None
    """What the mechanism is told of the values, which may lie beyond if the table says so."""
    categories: Sequence[Any] = ()
    """All values that there are, of whatever type."""
    missing: bool = False
    """Whether a value may be missing: NaN, or None in a category."""
    role: Role = "value"
    """A weight multiplies its record; an owner names the person whose record it is."""

    def __post_init__(self) -> None:
        one_of(self.type, Type, f"type of column {self.name!r}")
        one_of(self.role, Role, f"role of column {self.name!r}")
        object.__setattr__(self, "categories", tuple(self.categories))
        if self.bounds is not None:
            object.__setattr__(self, "bounds", bounds_of(self.bounds, f"bounds of column {self.name!r}"))
        if self.type == "category" and len(self.categories) == 1:
            raise AuditError(f"Column {self.name!r} has one category, {self.categories[0]!r}; it needs two or none.")

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers of a range."""
        return self.type in ("float", "integer") and not self.categories


@dataclass(frozen=True)
class Table:
    """A dataset of records with columns.

    Examples
    --------
    >>> ages = Table([Column("age", "integer", bounds=(0, 120))])
    >>> print(*(f"{one.pair.x} {one.pair.x_prime} {one.tries}" for one in ages.pairs(AddRemove())[:2]), sep="\\n")
    [] [120] the greatest age added to empty data
    [] [0] the least age added to empty data
    """

    columns: Sequence[Column]
    """One column alone makes a plain list or vector of its values."""
    form: Form = "list"
    """What the mechanism takes it as."""
    most_rows_a_person: int = 1
    """How many records a person (of the column whose role is 'owner') has at most."""
    norm: float | None = None
    """The largest Euclidean norm of a record's numbers that the mechanism is told."""
    beyond: bool = True
    """Whether records may lie beyond bounds and norm, and persons have more rows: where it promises to clamp."""
    least: int = 0
    """The fewest records that the mechanism accepts; 0 where the empty dataset is one."""
    size: int = CROWD
    """How many records a large dataset has, where that matters."""

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        object.__setattr__(self, "columns", columns)
        one_of(self.form, Form, "form of the table")
        whole_at_least(self.most_rows_a_person, 1, "most_rows_a_person")
        whole_at_least(self.least, 0, "least")
        whole_at_least(self.size, 2, "size of a large dataset")
        if self.norm is not None:
            finite_at_least(self.norm, 0.0, "norm of a record")
        names = [column.name for column in columns]
        if not names or len({*names}) < len(names):
            raise AuditError(f"The columns of the table are {names}; it needs some, each of a name of its own.")
        if sum(column.role == "owner" for column in columns) > 1:
            raise AuditError(f"Several of the columns {names} name the owner of a record; one may.")
        if self.form == "counts" and len(names) > 1:
            raise AuditError(f"The columns of the table are {names}; only the values of one column are counted.")

    @property
    def owner(self) -> int | None:
        """Position of the column that names a record's owner."""
        return next((place for place, column in enumerate(self.columns) if column.role == "owner"), None)

    @property
    def relations(self) -> tuple[Adjacency, ...]:
        """The neighbouring relations that it knows."""
        if self.form == "one":
            return (Substitution(),)
        persons = () if self.owner is None else (AddRemovePerson(self.owner), SubstitutePerson(self.owner))
        return (AddRemove(), Substitution(), *persons)

    def pairs(self, adjacency: Relation | None = None) -> list[Candidate]:
        """List candidates, simplest first, always in the same order; those of one relation alone if it is given."""
        from epsaudit.hunting.cases import changes  # which reads descriptions

        relation = relation_of(self, adjacency)
        different: dict[str, Change] = {}
        for change in sorted(changes(self), key=lambda change: change[-1]):
            sides = [sorted(rows, key=repr) if self.form == "counts" else rows for rows in change[:2]]
            different.setdefault(repr(sides), change)  # the mechanism cannot tell equal ones apart
        made = [self.candidate(*change) for change in different.values()]
        return [one for one in made if one is not None and (relation is None or relation in one.adjacencies)]

    def candidate(self, x: Any, x_prime: Any, tries: str = "", complexity: int = 0) -> Candidate | None:
        """Render and label two datasets given as rows; None if no relation holds, or the description excludes one."""
        x, x_prime = tuple(map(tuple, x)), tuple(map(tuple, x_prime))
        for rows in (x, x_prime):
            if len(rows) < self.least or (self.form == "one" and len(rows) != 1):
                return None
            if self.owner is not None and not self.beyond and rows:
                owners = Counter(repr(row[self.owner]) for row in rows)
                if max(owners.values()) > self.most_rows_a_person:
                    return None
        holding = tuple(relation for relation in self.relations if relation.holds(x, x_prime))
        if not holding:
            return None
        pair = DatasetPair(self.dataset(x), self.dataset(x_prime), tries)
        return Candidate(pair, holding, tries, rows=(x, x_prime), complexity=complexity)

    def dataset(self, rows: Rows) -> Any:
        """Return rows in the form that the mechanism takes."""
        names = [column.name for column in self.columns]
        if self.form == "records":
            return [dict(zip(names, row, strict=True)) for row in rows]
        if self.form in ("columns", "frame"):
            by_name = {name: [row[place] for row in rows] for place, name in enumerate(names)}
            if self.form == "columns":
                return by_name
            with needs("studies"):
                import pandas as pd
            kinds = {column.name: dtype_of(column, by_name[column.name]) for column in self.columns}
            return pd.DataFrame({name: pd.Series(values, dtype=kinds[name]) for name, values in by_name.items()})
        single = len(names) == 1
        listed = [row[0] if single else list(row) for row in rows]
        if self.form == "one":
            return listed[0]
        if self.form == "counts":
            return dict(Counter(listed))
        if self.form == "list":
            return listed
        of_columns = {dtype_of(column, listed) for column in self.columns}
        kind = of_columns.pop() if len(of_columns) == 1 else "object" if "object" in of_columns else "float64"
        array = np.array(listed, dtype=None if kind == "object" else kind)
        return array if single else array.reshape(len(listed), len(names))


@dataclass(frozen=True)
class Answers:
    """A vector of query answers, or a single one, which one record changes by at most ``sensitivity`` in a norm.

    Examples
    --------
    >>> [(one.pair.x, one.pair.x_prime) for one in Answers().pairs()[:2]]
    [(0.0, 1.0), (0.0, -1.0)]
    >>> Answers(3, norm="l1", integer=True).pairs()[0].tries
    'first above'
    """

    size: int | None = None
    """How many answers; None for a plain number."""
    sensitivity: float = 1.0
    norm: Norm = "linf"
    """In which the change is bounded."""
    integer: bool = False
    """Whether answers are whole numbers."""
    bounds: tuple[float, float] | None = None
    """Between which answers lie."""

    def __post_init__(self) -> None:
        if self.size is not None:
            whole_at_least(self.size, 1, "size of the answers")
        finite_at_least(self.sensitivity, 0.0, "sensitivity of the answers")
        one_of(self.norm, Norm, "norm of the answers")
        if self.bounds is not None:
            object.__setattr__(self, "bounds", bounds_of(self.bounds, "bounds of the answers"))

    @property
    def relations(self) -> tuple[Adjacency, ...]:
        return (MaxChange(self.sensitivity) if self.norm == "linf" else WithinNorm(self.sensitivity, self.norm),)

    def pairs(self, adjacency: Relation | None = None) -> list[Candidate]:
        """See `Table`: the patterns of `epsaudit.data.candidates.patterns` from several bases."""
        relation_of(self, adjacency)
        if self.bounds is None:
            bases = [(0.0, "")]
            bases += [(base, f", from {base:.0f}") for far in (2.0**31, 2.0**52) for base in (far, -far)]
        else:
            low, high = self.bounds
            bases = [(0.0, "")] if low <= 0.0 <= high else []
            bases += [
                (low, ", from the lower bound"),
                (high, ", from the upper bound"),
                ((low + high) / 2, ", between"),
            ]
        made: dict[Any, Candidate] = {}
        for complexity, (base, words) in enumerate(bases):
            for pattern in patterns(self.size or 1):
                both = np.array([pattern.x, pattern.x_prime])
                scale = self.sensitivity / float(np.linalg.norm(both[0] - both[1], ORDERS[self.norm]))
                x, x_prime = (
                    tuple(int(value) if self.integer and value.is_integer() else value for value in side)
                    for side in (base + scale * both).tolist()
                )
                if (candidate := self.candidate(x, x_prime, f"{pattern.name}{words}", complexity)) is not None:
                    made.setdefault((x, x_prime), candidate)
        return list(made.values())

    def candidate(self, x: Any, x_prime: Any, tries: str = "", complexity: int = 0) -> Candidate | None:
        """See `Table`; the datasets are vectors."""
        low, high = self.bounds or (-np.inf, np.inf)
        described = all(
            low <= value <= high and (not self.integer or float(value).is_integer()) for value in (*x, *x_prime)
        )
        if not described or tuple(x) == tuple(x_prime) or not self.relations[0].holds(x, x_prime):
            return None
        one, other = (side[0] if self.size is None else list(side) for side in (x, x_prime))
        pair = DatasetPair(one, other, tries)
        return Candidate(pair, self.relations, tries, rows=(tuple(x), tuple(x_prime)), complexity=complexity)


def numbers(
    low: float, high: float, *, integer: bool = False, missing: bool = False, form: Form = "list", **more: Any
) -> Table:
    """Describe a plain list (or array) of numbers between bounds, in one line; more, as ``beyond``, is as of `Table`.

    Examples
    --------
    >>> numbers(0, 1).pairs(Substitution())[0].tries
    'the greatest value in place of the least value alone'
    """
    return Table([Column(type="integer" if integer else "float", bounds=(low, high), missing=missing)], form, **more)


def symbols(*categories: Any, form: Form = "list", **more: Any) -> Table:
    """Describe a plain list of symbols, in one line; more, as ``least``, is as of `Table`.

    Examples
    --------
    >>> symbols("yes", "no", form="one").pairs()[0].pair
    DatasetPair(x='yes', x_prime='no', name="value 'no' in place of the least value alone")
    """
    return Table([Column(type="category", categories=categories)], form, **more)


def relation_of(description: Description, adjacency: Relation | None) -> Adjacency | None:
    """Return a relation that the description knows, or None for all; raise `AuditError` for another."""
    relation = adjacency_of(adjacency)
    if relation is not None and relation not in description.relations:
        known = "', '".join(map(str, description.relations))
        raise AuditError(f"The data described has no neighbours under '{relation}'; it has under '{known}'.")
    return relation


def one_of(value: Any, choices: Any, what: str) -> None:
    """Raise `AuditError` unless the value is one of a Literal's."""
    if value not in get_args(choices):
        raise AuditError(f"The {what} is {value!r}; it must be {', '.join(map(repr, get_args(choices)))}.")


def bounds_of(bounds: Any, what: str) -> tuple[float, float]:
    """Return bounds as a tuple; raise `AuditError` unless low < high."""
    with contextlib.suppress(TypeError, ValueError):
        low, high = bounds
        if low < high:
            return low, high
    raise AuditError(f"The {what} are {bounds!r}; they must be (low, high) with low below high.")


def dtype_of(column: Column, values: Sequence[Any]) -> str:
    """Name numpy's type of a column of these values."""
    if column.categories or column.type == "category":
        return "object"
    if column.type == "boolean":
        return "object" if column.missing else "bool"
    return "int64" if column.type == "integer" and not column.missing else "float64"
