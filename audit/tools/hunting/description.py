"""A short description of data, and the neighbouring datasets that it gives: what a hunt tries where no pair is known.

Of tables, bases (from none to many records) are joined with records that differ from them, at, near and beyond what is
described, as long as both together are simple enough.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from epsaudit.data.candidates import patterns
from epsaudit.data.neighbours import (
    RELATION_NOTE,
    AddRemove,
    Adjacency,
    DatasetPair,
    MaxChange,
    Relation,
    Substitution,
    adjacency_of,
)
from epsaudit.errors import AuditError, clipped, finite_at_least, needs, suggest_name, whole_at_least

Norm = Literal["linf", "l1", "l2"]
ORDERS: Mapping[str, float] = {"linf": np.inf, "l1": 1, "l2": 2}
Form = Literal["list", "array", "records", "columns", "frame", "counts", "one"]
"""What a mechanism takes a dataset as: a list (of values, or of rows as lists), an array of numpy, a list of
dictionaries, a dictionary of lists, a frame of pandas, how often each value occurs, or the one record (local model)."""
Type = Literal["float", "integer", "boolean", "category"]
Role = Literal["value", "weight", "owner"]
Rows: TypeAlias = tuple[tuple[Any, ...], ...]
"""The records of a dataset as tuples, one value a column."""
Description: TypeAlias = "Table | Answers"
"""What makes candidates."""
CROWD = 20
"""Records of a large dataset: more than usual thresholds on counts, few enough to be read in every run."""
COARSE = 2.0**50
"""Bounds whose next float is far enough to tell: at 2^50, by a quarter."""
FAR = 1000
"""How many widths of the range beyond a bound a value lies: at epsilon = 1 it moves a sum by a thousand times the
noise."""
MOST = 4
"""Complexity of a base and a record together up to which they are joined. Numbers between bounds have 154 pairs: at 2,
3 and 5 they would have 43, 110 and 178. At 4 all numbers come beside large datasets, ends of types beside one."""
INTEGERS = (2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
"""Ends of 32 and 64 bits, beyond which sums of arrays wrap around."""
FLOATS = (sys.float_info.max, -sys.float_info.max, math.inf, -math.inf)
"""Floats whose sums overflow or are not numbers."""
SURPLUS = 10
"""How many times the rows that a person may have, one who has too many has."""
LONGEST_NOTE = 300
"""Signs of a note, for whoever reads it: the rest of long parameters is in the stored command."""


@dataclass(frozen=True)
class _OfPersons(Adjacency):
    owner: int = field(default=0, compare=False)
    """Position of the column that names the person; relations of different tables are equal."""
    accepted: ClassVar[tuple[list[tuple[bool, bool]], ...]]
    """Of every person whose rows differ, whether there are any on x and on x', sorted."""

    def holds(self, x: Any, x_prime: Any) -> bool:
        persons: dict[str, Any] = defaultdict(lambda: (Counter(), Counter()))
        for side, rows in enumerate((x, x_prime)):
            for row in rows:  # as text, so that NaN is NaN
                persons[repr(row[self.owner])][side][repr(tuple(row))] += 1
        return sorted((bool(a), bool(b)) for a, b in persons.values() if a != b) in self.accepted


@dataclass(frozen=True)
class AddRemovePerson(_OfPersons):
    """One dataset is the other without all rows of one person."""

    name = "add or remove one person"
    description = "the presence of all rows of exactly one person"
    accepted = [(False, True)], [(True, False)]


@dataclass(frozen=True)
class SubstitutePerson(_OfPersons):
    """The rows of one person are replaced by other rows of this person, or by those of a person who is new."""

    name = "substitute one person's rows"
    description = "the rows of exactly one person, who has some in both"
    accepted = [(True, True)], [(False, True), (True, False)]


@dataclass(frozen=True)
class AsChecked(Adjacency):
    """What a mechanism is told of candidates: their relation was checked on the rows, before these got their form."""

    def holds(self, x: Any, x_prime: Any) -> bool:
        return True


@dataclass(frozen=True)
class WithinNorm(Adjacency):
    """Query answers that one record changes by at most ``bound`` in a norm; that of 'linf' is `MaxChange`."""

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
        raise AuditError(f"{name!r} is no relation; there are {', '.join(NAMED)}.{suggest_name(name, NAMED)}")
    return NAMED[name]


def holds(relation: Adjacency, x: Any, x_prime: Any) -> bool:
    """Whether two datasets are neighbours; not where they are of a kind that the relation does not know."""
    try:
        return bool(relation.holds(x, x_prime))
    except Exception:  # relations and datasets are anybody's
        return False


@dataclass(frozen=True)
class Candidate:
    """A pair to try, with what is known of it."""

    pair: DatasetPair
    """The datasets as the mechanism takes them; its name is ``tries``."""
    adjacencies: tuple[Adjacency, ...]
    """The relations under which they are neighbours, as was checked on the rows; none where a caller vouches. The pair
    refutes only a claim for one of these."""
    tries: str
    """What it tries, in a few words: 'a value beyond the upper bound added to empty data'."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the mechanism besides the dataset; see `epsaudit.tools.hunting.parameters`."""
    rows: tuple[Any, Any] | None = None
    """The records behind both datasets (of `Answers`, both vectors), of which a shrinker may take some away."""
    complexity: int = 0
    """What candidates are sorted by."""

    @property
    def given(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())

    @property
    def notes(self) -> tuple[str, ...]:
        under = "whoever gave the datasets vouches for it that they are neighbours"
        if self.adjacencies:
            under = RELATION_NOTE + " and ".join(f"'{one}'" for one in self.adjacencies)
        return (under, *([f"parameters {clipped(self.given, LONGEST_NOTE)}"] if self.given else []))


@dataclass(frozen=True)
class Column:
    """A column: `Column("age", "integer", bounds=(0, 120), missing=True)`."""

    name: str = "value"
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

    def accepts(self, value: Any, beyond: bool) -> bool:
        """Whether a record may hold a value, beyond the bounds if so said."""
        if self.categories and value in self.categories:
            return True
        if value is None or value != value:
            return self.missing
        if self.role == "owner" or self.type in ("boolean", "category"):
            return not self.categories
        low, high = self.bounds or (-math.inf, math.inf)
        return (self.type == "float" or value == math.floor(value)) and (beyond or low <= value <= high)


@dataclass(frozen=True)
class Table:
    """A dataset of records with columns.

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
    """Of the column whose role is 'owner'."""
    beyond: bool = True
    """Whether records may lie beyond bounds, and persons have more rows: where it promises to clamp."""
    least: int = 0
    """The fewest records that the mechanism accepts."""
    size: int = CROWD
    """Records of a large dataset."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        one_of(self.form, Form, "form of the table")
        whole_at_least(self.most_rows_a_person, 1, "most_rows_a_person")
        whole_at_least(self.least, 0, "least")
        whole_at_least(self.size, 2, "size of a large dataset")
        names = [column.name for column in self.columns]
        if not names or len({*names}) < len(names):
            raise AuditError(f"The columns of the table are {names}; it needs some, each of a name of its own.")
        if sum(column.role == "owner" for column in self.columns) > 1:
            raise AuditError(f"Several of the columns {names} name the owner of a record; one may.")
        if self.form == "counts" and len(names) > 1:
            raise AuditError(f"The columns of the table are {names}; only the values of one column are counted.")

    @property
    def owner(self) -> int | None:
        return next((place for place, column in enumerate(self.columns) if column.role == "owner"), None)

    @property
    def relations(self) -> tuple[Adjacency, ...]:
        if self.form == "one":
            return (Substitution(),)
        persons = () if self.owner is None else (AddRemovePerson(self.owner), SubstitutePerson(self.owner))
        return (AddRemove(), Substitution(), *persons)

    def pairs(self, adjacency: Relation | None = None) -> list[Candidate]:
        """List candidates, simplest first, always in the same order; those of one relation alone if it is given."""
        relation = relation_of(self, adjacency)
        different: dict[str, tuple[Rows, Rows, str, int]] = {}
        for change in sorted(_changes(self), key=lambda change: change[-1]):
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
            cells = itertools.chain.from_iterable(zip(self.columns, row, strict=True) for row in rows)
            if not all(column.accepts(cell, self.beyond) for column, cell in cells):
                return None
            owners = Counter(repr(row[self.owner]) for row in rows if self.owner is not None and not self.beyond)
            if max(owners.values(), default=0) > self.most_rows_a_person:
                return None
        holding = tuple(relation for relation in self.relations if relation.holds(x, x_prime))
        if not holding:
            return None
        pair = DatasetPair(self.dataset(x), self.dataset(x_prime), tries)
        return Candidate(pair, holding, tries, rows=(x, x_prime), complexity=complexity)

    def dataset(self, rows: Rows) -> Any:
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
            return pd.DataFrame({name: pd.Series(values, dtype=dtype_of(column)) for (name, values), column in typed})
        single = len(names) == 1
        listed = [row[0] if single else list(row) for row in rows]
        if self.form == "one":
            return listed[0]
        if self.form == "counts":
            return dict(Counter(listed))
        if self.form == "list":
            return listed
        kinds = set(map(dtype_of, self.columns))
        kind = kinds.pop() if len(kinds) == 1 else "object" if "object" in kinds else "float64"
        array = np.array(listed, dtype=None if kind == "object" else kind)
        return array if single else array.reshape(len(listed), len(names))


@dataclass(frozen=True)
class Answers:
    """A vector of query answers, or a single one, which one record changes by at most ``sensitivity`` in a norm.

    >>> [(one.pair.x, one.pair.x_prime) for one in Answers().pairs()[:2]]
    [(0.0, 1.0), (0.0, -1.0)]
    """

    size: int | None = None
    """How many answers; None for a plain number."""
    sensitivity: float = 1.0
    norm: Norm = "linf"
    integer: bool = False
    bounds: tuple[float, float] | None = None

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
        low, high = self.bounds or (-math.inf, math.inf)
        bases = [(0.0, "")] if low <= 0.0 <= high else []
        if self.bounds is None:
            bases += [(base, f", from {base:.0f}") for far in (2.0**31, 2.0**52) for base in (far, -far)]
        else:
            bases += [(low, ", from the lower bound"), (high, ", from the upper bound")]
            bases += [((low + high) / 2, ", between")]
        made: dict[Any, Candidate] = {}
        for complexity, (base, words) in enumerate(bases):
            for pattern in patterns(self.size or 1):
                both = np.array([pattern.x, pattern.x_prime])
                both = base + both * self.sensitivity / np.linalg.norm(both[0] - both[1], ORDERS[self.norm])
                x, x_prime = (
                    tuple(int(value) if self.integer and value.is_integer() else value for value in side)
                    for side in both.tolist()
                )
                if (candidate := self.candidate(x, x_prime, f"{pattern.name}{words}", complexity)) is not None:
                    made.setdefault((x, x_prime), candidate)
        return list(made.values())

    def candidate(self, x: Any, x_prime: Any, tries: str = "", complexity: int = 0) -> Candidate | None:
        (low, high), values = self.bounds or (-np.inf, np.inf), np.array([*x, *x_prime], float)
        described = np.all((low <= values) & (values <= high)) and not (
            self.integer and np.any(values != np.round(values))
        )
        if not described or tuple(x) == tuple(x_prime) or not self.relations[0].holds(x, x_prime):
            return None
        one, other = (side[0] if self.size is None else list(side) for side in (x, x_prime))
        pair = DatasetPair(one, other, tries)
        return Candidate(pair, self.relations, tries, rows=(tuple(x), tuple(x_prime)), complexity=complexity)


def numbers(
    low: float, high: float, *, integer: bool = False, missing: bool = False, form: Form = "list", **more: Any
) -> Table:
    """Describe a plain list (or array) of numbers between bounds; more, as ``beyond``, is as of `Table`."""
    return Table([Column(type="integer" if integer else "float", bounds=(low, high), missing=missing)], form, **more)


def symbols(*categories: Any, form: Form = "list", **more: Any) -> Table:
    """Describe a plain list of symbols, in one line; more, as ``least``, is as of `Table`."""
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


def dtype_of(column: Column) -> str:
    """Name numpy's type of a column."""
    if column.categories or column.type == "category":
        return "object"
    if column.type == "boolean":
        return "object" if column.missing else "bool"
    return "int64" if column.type == "integer" and not column.missing else "float64"


class _Case(NamedTuple):
    """A value of a column, a record, or a dataset; complexity sorts."""

    content: Any
    words: str
    complexity: int = 0


def _changes(table: Table) -> Iterator[tuple[Rows, Rows, str, int]]:
    """Yield all changes of a table: rows of x and of x', in words, and how complex it is."""
    values = [_values_of(column, table.beyond) for column in table.columns]
    low, high = (tuple(cases[min(side, len(cases) - 1)].content for cases in values) for side in (0, 1))
    zeros = tuple(_zero_of(column, least, table.beyond) for column, least in zip(table.columns, low, strict=True))
    most, owner = table.most_rows_a_person, table.owner

    # all columns at an end, then each value of one with the rest at an end
    if len(values) == 1:
        least, greatest, *others = values[0]
        records = [case._replace(content=(case.content,)) for case in (greatest, least, *others)]
    else:
        records = [_Case(high, "a record of the greatest values"), _Case(low, "a record of the least values")]
        records += [_Case(zeros, "a record of zeros", 1)] if repr(zeros) not in (repr(low), repr(high)) else []
    for place, cases in enumerate(values if len(values) > 1 else ()):
        for value, words, complexity in cases:
            for end, side, more in ((low, "least", 1), (high, "greatest", 0)):
                row = (*end[:place], value, *end[place + 1 :])
                records.append(_Case(row, f"a record with {words}, the others at their {side}", complexity + more))

    def owned(rows: Any, first: int = 0, same: bool = False) -> Any:
        if owner is None:
            return rows
        names = [_person(table.columns[owner], first if same else first + number) for number in range(len(rows))]
        return tuple((*row[:owner], name, *row[owner + 1 :]) for row, name in zip(rows, names, strict=True))

    # all rows of one person, with as many as allowed or more, alike or each different
    different = [case.content for case in records if case.complexity <= 1]
    alike = [_Case((one.content,) * most, f"{most} times {one.words}") for one in records[:2]]
    persons = [*alike, _Case((different * most)[:most], f"{most} different records", 1)]
    if table.beyond:
        too_many = f"{most * SURPLUS} times {records[0].words}, too many"
        persons.append(_Case((records[0].content,) * (most * SURPLUS), too_many, 1))

    # the datasets that are changed
    crowd, half = table.size, table.size // 2
    bases = [
        _Case((), "empty data"),
        _Case((low,), "the least value alone", 1),
        _Case((high,), "the greatest value alone", 1),
        *([_Case((zeros,), "a record of zeros alone", 2)] if repr(zeros) not in (repr(low), repr(high)) else []),
        _Case((low, high), "the least and the greatest value (a tie)", 2),
        _Case((low,) * crowd, f"{crowd} times the least value", 2),
        _Case((high,) * crowd, f"{crowd} times the greatest value", 2),
        _Case((low,) * half + (high,) * half, f"the least and the greatest value {half} times each", 3),
        _Case((low, high) * half, f"the least and the greatest value {half} times in turn", 3),
    ]
    for place, cases in enumerate(values):
        for value, words, _ in cases:
            row = (*low[:place], value, *low[place + 1 :])
            if words.startswith("a missing"):
                but_one = f"{crowd - 1} records with {words} and one without"
                bases.append(_Case((row, row), f"two records with {words}", 2))
                bases.append(_Case((low,) + (row,) * (crowd - 1), but_one, 3))
            elif words.endswith(("upper bound", "between the bounds")):
                bases.append(_Case((row,) * crowd, f"{crowd} times {words}", 3))
        column = table.columns[place]
        if column.bounds is not None and column.role == "value" and not column.categories:
            spread = np.linspace(*column.bounds, crowd).tolist()
            known = map(math.floor, spread) if column.type == "integer" else spread
            varied = tuple((*low[:place], value, *low[place + 1 :]) for value in known)
            bases.append(_Case(varied, f"{crowd} different values of {column.name}", 3))

    for base in bases:
        rows = owned(base.content)
        for record in records:
            complexity = base.complexity + record.complexity
            if complexity > MOST:
                continue
            (row,) = owned((record.content,), len(rows))
            words = f"{record.words} added to {base.words}"
            yield rows, (*rows, row), words, complexity
            if rows and record.complexity == 0 and repr(base.content[0]) != repr(record.content):
                for place, where in {len(rows) // 2: "middle", 0: "front"}.items():
                    yield rows, (*rows[:place], row, *rows[place:]), f"{words}, at the {where}", complexity + 1
            if owner is not None and rows and most > 1:
                words = f"{record.words} of a person of the data added to {base.words}"
                yield rows, (*rows, *owned((record.content,))), words, complexity + 1
            places = {len(rows) - 1: "last"} if rows else {}
            if record.complexity == 0 and len(rows) == table.size:
                places |= {0: "first", len(rows) // 2: "middle"}
            for place, where in places.items():
                (row,) = owned((record.content,), place)
                if repr(row) != repr(rows[place]):
                    which = "" if len(rows) == 1 else f"the {where} record of "
                    changed = (*rows[:place], row, *rows[place + 1 :])
                    words = f"{record.words} in place of {which}{base.words}"
                    yield rows, changed, words, complexity + (where != "last")
        for kind in persons if owner is not None else ():
            complexity, mine = base.complexity + kind.complexity + 1, owned(kind.content, len(rows), same=True)
            yield rows, (*rows, *mine), f"a person with {kind.words} added to {base.words}", complexity
            for other in alike:
                before = owned(other.content, len(rows), same=True)
                words = f"a person with {kind.words} in place of one with {other.words}, beside {base.words}"
                yield (*rows, *before), (*rows, *mine), words, complexity + 1


def _values_of(column: Column, beyond: bool) -> list[_Case]:
    name, whole = column.name, column.type == "integer"
    missing = [_Case(None if column.categories else math.nan, f"a missing {name}", 1)] if column.missing else []
    if column.role == "owner":
        return [_Case(_person(column, 0), f"a person of the data as {name}")]
    if column.categories or column.type in ("boolean", "category"):
        known = column.categories or ((False, True) if column.type == "boolean" else ("a", "b", ""))
        return [_Case(value, f"{name} {value!r}", min(place // 2, 1)) for place, value in enumerate(known)] + missing
    made: list[tuple[float, str, int]]
    if column.bounds is None:
        usual = (1, 1000, 0) if column.role == "weight" else (0, 1, -1)
        made = [(value, f"{name} {value}", place // 2) for place, value in enumerate(usual)]
    else:
        low, high = column.bounds
        middle, far = low + (high - low) * (math.sqrt(5.0) - 1.0) / 2.0, FAR * (high - low)  # of many digits
        made = [(low, f"the least {name}", 0), (high, f"the greatest {name}", 0)]
        made.append((math.floor(middle) if whole else middle, f"a {name} between the bounds", 1))
        made += [(0, f"{name} 0", 1)] * (low < 0 < high)
        if max(-low, high) >= COARSE:
            made.append((high - 1 if whole else math.nextafter(high, low), f"the {name} next to the greatest", 1))
        ends = {"upper": high + far, "lower": low - far} if beyond else {}
        made += [(value, f"a {name} beyond the {end} bound", 1) for end, value in ends.items()]
    if column.bounds is None or beyond:
        made += [(value, f"{name} {value:.3g}", 3) for value in (INTEGERS if whole else FLOATS)]
    least, greatest = INTEGERS[3], INTEGERS[2]
    return [
        _Case(int(min(max(value, least), greatest)) if whole else float(value), words, complexity)
        for value, words, complexity in made
    ] + missing


def _zero_of(column: Column, least: Any, beyond: bool) -> Any:
    """The zero of a column of numbers that may hold it, else its least value: a norm, or a total, of zero divides."""
    numeric = column.role != "owner" and column.type in ("float", "integer") and not column.categories
    zero = 0.0 if column.type == "float" else 0
    return zero if numeric and column.accepts(zero, beyond) else least


def _person(column: Column, number: int) -> Any:
    if column.categories:
        return column.categories[number % len(column.categories)]
    return number if column.type in ("integer", "float") else f"person {number}"
