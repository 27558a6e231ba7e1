"""The candidate: one pair of datasets that a hunt tries, with values of the mechanism's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epsaudit.data.neighbours import RELATION_NOTE, AddRemove, Adjacency, DatasetPair, Substitution, pair_of
from epsaudit.errors import clipped
from epsaudit.running.identity import digest
from epsaudit.tools.hunting.relations import are_neighbours

ParameterValues = Mapping[str, Any]
"""One value for each parameter of the mechanism besides the dataset, by the parameter's name."""
Records = Sequence[Any]
"""The records of a dataset; a record with several columns is a tuple or a list."""
MAX_NOTE_LENGTH = 300
"""[chosen] Characters of a note about parameters. A longer note is cut; the stored command has the whole values."""


@dataclass(frozen=True)
class Candidate:
    """A pair of datasets that a hunt tries, together with values of the mechanism's other parameters."""

    pair: DatasetPair
    """The datasets in the form that the mechanism takes; the name of the pair is ``tries``."""
    adjacencies: tuple[Adjacency, ...]
    """The relations under which the datasets are neighbours, checked on the rows. The pair can refute only a claim for
    one of these relations. The tuple is empty if the caller guarantees that the datasets are neighbours."""
    tries: str
    """A few words on what the pair tries: 'a value beyond the upper bound added to empty data'."""
    parameters: ParameterValues = field(default_factory=dict)
    """Arguments of the mechanism besides the dataset; see `epsaudit.tools.hunting.parameters`."""
    rows: tuple[Any, Any] | None = None
    """The records from which both datasets were made (for `Answers`, both vectors). Shrinking removes some of them."""
    complexity: int = 0
    """The key by which candidates are sorted, the smallest first."""

    @property
    def parameters_key(self) -> str:
        """A digest of the parameter values. Candidates with equal parameters have equal digests.

        The text of the values cannot serve for this, because ``repr`` shortens long arrays.
        """
        return digest(dict(self.parameters))

    @property
    def given(self) -> str:
        """The parameter values as text, such as 'clip=3, k=1'."""
        return ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the result of an audit: the neighbouring relations of the datasets, and the parameter values."""
        under = "the caller guarantees that the datasets are neighbours"
        if self.adjacencies:
            under = RELATION_NOTE + " and ".join(f"'{one}'" for one in self.adjacencies)
        return (under, *([f"parameters {clipped(self.given, MAX_NOTE_LENGTH)}"] if self.given else []))


def as_candidate(pair: Any, adjacency: Adjacency | None = None) -> Candidate:
    """Return a `Candidate` for a pair of datasets; return an argument that already is a `Candidate` unchanged.

    The candidate gets all relations among ``adjacency``, `epsaudit.AddRemove` and `epsaudit.Substitution` under which
    the two datasets are neighbours.
    """
    if isinstance(pair, Candidate):
        return pair
    both = pair_of(pair)
    tried = dict.fromkeys([*([adjacency] if adjacency is not None else []), AddRemove(), Substitution()])
    return Candidate(both, tuple(one for one in tried if are_neighbours(one, both.x, both.x_prime)), both.name)


RelationAndValue = tuple[str, str, str]
"""A relation, the name of a parameter, and a digest of the parameter's value. Once the claim is refuted for a
combination, a hunt audits no other candidate that covers only refuted combinations."""


def covered_combinations(candidate: Candidate) -> list[RelationAndValue]:
    """Return all combinations of a relation and a parameter value that a candidate can test.

    A candidate with two relations and two parameters has four combinations. Each is a tuple (relation, name of the
    parameter, digest of its value).
    """
    values = [(name, digest(value)) for name, value in candidate.parameters.items()] or [("", "")]
    return [(repr(one), *value) for one in candidate.adjacencies or (None,) for value in values]
