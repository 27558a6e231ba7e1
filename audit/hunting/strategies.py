"""Strategies of hypothesis for described data: candidates drawn at random, which shrink to few and simple records.

What `epsaudit.hunting.cases` lists is drawn often, beside anything within the bounds. Needs hypothesis.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from epsaudit.data.neighbours import AddRemove, Adjacency, Substitution
from epsaudit.errors import AuditError
from epsaudit.hunting.cases import person, values_of
from epsaudit.hunting.description import CROWD
from epsaudit.hunting.relations import ORDERS, AddRemovePerson

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from epsaudit.hunting.description import Answers, Candidate, Column, Table

PERSONS = 5
"""Persons among whom the records of a drawn dataset are shared: few, so that some have several."""

STEPS = 1000
"""Into how many parts bounds are divided, for values that are read easily and lie anywhere."""


def of_table(table: Table, relation: Adjacency | None) -> SearchStrategy[Candidate]:
    """Draw datasets of at most `CROWD` records and a change of one record, or of one person's, anywhere."""
    st = _strategies()
    row = st.tuples(*(_value(column, table.beyond) for column in table.columns))
    rows = st.lists(
        row, min_size=1 if table.form == "one" else table.least, max_size=1 if table.form == "one" else CROWD
    )
    changes = [_change_of(table, known, rows, row) for known in table.relations if relation in (None, known)]
    candidates: Any = st.one_of(changes).map(lambda sides: table.candidate(sides[0], sides[1], "drawn at random"))
    kept: SearchStrategy[Candidate] = candidates.filter(
        lambda one: one is not None and (relation is None or relation in one.adjacencies)
    )
    return kept


def of_answers(answers: Answers) -> SearchStrategy[Candidate]:
    """Draw vectors of answers and a change within the sensitivity."""
    st = _strategies()
    size, (low, high) = answers.size or 1, answers.bounds or (-1e6, 1e6)
    number: Any = st.integers(math.ceil(low), math.floor(high)) if answers.integer else st.floats(low, high)
    step: Any = st.integers(-1, 1) if answers.integer else st.sampled_from([0.0, 1.0, -1.0]) | st.floats(-1.0, 1.0)

    def changed(drawn: Any) -> Any:
        base, steps = (np.array(part, float) for part in drawn)
        length = float(np.linalg.norm(steps, ORDERS[answers.norm]))
        moved = base + answers.sensitivity * steps / max(length, 1.0)
        return answers.candidate(tuple(base.tolist()), tuple(moved.tolist()), "drawn at random")

    vectors = st.tuples(st.lists(number, min_size=size, max_size=size), st.lists(step, min_size=size, max_size=size))
    kept: SearchStrategy[Candidate] = vectors.map(changed).filter(lambda one: one is not None)
    return kept


def _change_of(table: Table, relation: Adjacency, rows: Any, row: Any) -> Any:
    """Pairs of rows that are mostly neighbours under a relation."""
    st = _strategies()
    if isinstance(relation, AddRemove):
        return st.tuples(rows, st.integers(0, CROWD), row).map(
            lambda drawn: (drawn[0], [*drawn[0][: drawn[1]], drawn[2], *drawn[0][drawn[1] :]])
        )
    some = rows.filter(len)
    if isinstance(relation, Substitution):
        return st.tuples(some, st.integers(0, CROWD), row).map(
            lambda drawn: (
                drawn[0],
                [*drawn[0][: drawn[1] % len(drawn[0])], drawn[2], *drawn[0][drawn[1] % len(drawn[0]) + 1 :]],
            )
        )
    owner = table.owner or 0
    new = st.lists(row, min_size=1, max_size=table.most_rows_a_person)

    def changed(drawn: Any) -> Any:
        x, place, others = drawn
        who = x[place % len(x)][owner]
        rest = [one for one in x if one[owner] != who]
        if isinstance(relation, AddRemovePerson):
            return rest, x
        return x, rest + [(*one[:owner], who, *one[owner + 1 :]) for one in others]

    return st.tuples(some, st.integers(0, CROWD), new).map(changed)


def _value(column: Column, beyond: bool) -> Any:
    st = _strategies()
    if column.role == "owner":
        return st.sampled_from([person(column, number) for number in range(PERSONS)])
    told = st.sampled_from([case.content for case in values_of(column, beyond)])
    if not column.is_number:
        return told
    low, high = column.bounds or (-1e6, 1e6)
    if column.type == "integer":
        return told | st.integers(math.ceil(low), math.floor(high))
    # most floats that hypothesis draws are near 0 or an end
    grid = st.integers(0, STEPS).map(lambda step: low + (high - low) * step / STEPS)
    return told | grid | st.floats(low, high)


def _strategies() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise AuditError("A strategy needs hypothesis: pip install -U hypothesis.") from error
    return strategies
