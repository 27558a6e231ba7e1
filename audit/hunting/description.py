"""A short description of data, and the neighbouring datasets that it gives: what a hunt tries where no pair is known.

A description enters, of columns or of query answers; `Candidate` pairs leave, simplest first, each with the relations
under which its datasets are neighbours.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from epsaudit.data.neighbours import Adjacency, DatasetPair, Relation

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Form = Literal["list", "array", "records", "frame", "counts", "one"]
"""What a mechanism takes a dataset as: a list (of values, or of rows as lists), an array of numpy, a list of
dictionaries, a frame of pandas, a dictionary of how often each value occurs, or the one record itself (local model)."""

Type = Literal["float", "integer", "boolean", "category"]
Role = Literal["value", "weight", "owner"]
Rows: TypeAlias = tuple[tuple[Any, ...], ...]
"""The records of a dataset as tuples, one value a column."""


@dataclass(frozen=True)
class Candidate:
    """A pair to try, with what is known of it.

    Attributes
    ----------
    pair : DatasetPair
        The datasets as the mechanism takes them; its name is ``tries``.
    adjacencies : tuple of Adjacency
        The relations under which they are neighbours, of those that the description knows; never empty. The pair
        refutes only a claim for one of these. (Audit it with ``adjacency=None``: these were checked on the rows.)
    tries : str
        What it tries, in a few words: 'a value beyond the upper bound is added to empty data'.
    parameters : mapping
        Arguments of the mechanism besides the dataset; see `epsaudit.hunting.parameters`.
    rows : pair of Rows, optional
        The records behind both datasets, from which a shrinker may take some away (`Description.candidate` renders
        and labels what is left).
    """

    pair: DatasetPair
    adjacencies: tuple[Adjacency, ...]
    tries: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[Rows, Rows] | None = None


class Description(Protocol):
    """What makes candidates: `Table` or `Answers`."""

    @property
    def relations(self) -> tuple[Adjacency, ...]:
        """The neighbouring relations that it knows."""

    def pairs(self, adjacency: Relation | None = None) -> list[Candidate]:
        """List candidates, simplest first, always in the same order; those of one relation alone if it is given."""

    def candidate(self, x: Any, x_prime: Any, tries: str = "") -> Candidate | None:
        """Render and label a pair of datasets given as rows (of `Answers`: as vectors); None if no relation holds."""

    def strategy(self, adjacency: Relation | None = None) -> SearchStrategy[Candidate]:
        """Draw candidates at random, which hypothesis shrinks to fewest and simplest records."""


@dataclass(frozen=True)
class Column:
    """A column: `Column("age", "integer", bounds=(0, 120), missing=True)`.

    Attributes
    ----------
    name : str
        Key of the records, or name of the frame's column.
    type : 'float', 'integer', 'boolean' or 'category'
    bounds : (low, high), optional
        What the mechanism is told of the values, which may lie beyond if the table says so.
    categories : sequence
        All values that there are, of whatever type.
    missing : bool
        Whether a value may be missing: NaN, or None in a category.
    role : 'value', 'weight' or 'owner'
        A weight multiplies its record; an owner names the person whose record it is.
    """

    name: str = "value"
    type: Type = "float"
    bounds: tuple[float, float] | None = None
    categories: Sequence[Any] = ()
    missing: bool = False
    role: Role = "value"


@dataclass(frozen=True)
class Table:
    """A dataset of records with columns.

    Attributes
    ----------
    columns : Column, or sequence of them
        One column of values makes a plain list or vector of them.
    form : str
        What the mechanism takes it as; see `Form`.
    most_rows_a_person : int
        How many records a person (of the column whose role is 'owner') has at most.
    norm : float, optional
        The largest Euclidean norm of a record's numbers that the mechanism is told.
    beyond : bool
        Whether records may lie beyond bounds and norm: true where the mechanism promises to clamp.
    least : int
        The fewest records that the mechanism accepts; 0 where the empty dataset is one.
    """

    columns: Column | Sequence[Column]
    form: Form = "list"
    most_rows_a_person: int = 1
    norm: float | None = None
    beyond: bool = True
    least: int = 0


@dataclass(frozen=True)
class Answers:
    """A vector of query answers, or a single one, which one record changes by at most ``sensitivity`` in a norm.

    Attributes
    ----------
    size : int, optional
        How many answers; None for a plain number.
    sensitivity : float
    norm : 'linf', 'l1' or 'l2'
        In which the change is bounded.
    integer : bool
        Whether answers are whole numbers.
    bounds : (low, high), optional
        Between which answers lie.
    """

    size: int | None = None
    sensitivity: float = 1.0
    norm: Literal["linf", "l1", "l2"] = "linf"
    integer: bool = False
    bounds: tuple[float, float] | None = None


def numbers(low: float, high: float, *, integer: bool = False, missing: bool = False, form: Form = "list") -> Table:
    """Describe a plain list (or array) of numbers between bounds, in one line."""
    raise NotImplementedError


def symbols(*categories: Any, form: Form = "list") -> Table:
    """Describe a plain list of symbols, in one line."""
    raise NotImplementedError


def read_description(source: str | os.PathLike[str] | Mapping[str, Any]) -> Description:
    """Read a description from a JSON or TOML file, or from what such a file holds."""
    raise NotImplementedError


def candidates(
    description: Description,
    parameters: Mapping[str, Any] | None = None,
    adjacency: Relation | None = None,
) -> list[Candidate]:
    """Join parameter values (lists or strategies of hypothesis) with pairs (in `epsaudit.hunting.parameters`)."""
    raise NotImplementedError
