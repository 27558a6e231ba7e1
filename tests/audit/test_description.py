"""Neighbours from a description of the data: complete, in order, and labelled with what holds for them."""

import itertools
import math

import numpy as np
import pytest

from epsaudit import AddRemove, AuditError, MaxChange
from epsaudit.tools.hunting.columns import Column
from epsaudit.tools.hunting.description import LARGE_DATASET_SIZE, Answers, Table, numbers, symbols
from epsaudit.tools.hunting.parameters import candidates, read_schema
from epsaudit.tools.hunting.relations import AddRemovePerson, SubstitutePerson, WithinNorm

VISITS = Table(
    [
        Column("ward", "category", categories=("a", "b", "c")),
        Column("cost", bounds=(0, 10), missing=True),
        Column("weight", role="weight"),
        Column("who", "category", role="owner"),
    ],
    form="records",
    most_rows_a_person=3,
)
TABLES = [
    numbers(0, 1, missing=True),
    symbols("yes", "no", "perhaps"),
    symbols("yes", "no", form="counts"),
    Table([Column("a", bounds=(0, 1)), Column("b", "boolean", missing=True)], form="frame"),
    Table([Column("a", bounds=(0, 1)), Column("n", "integer")], form="columns", least=2),
    VISITS,
]


@pytest.mark.parametrize(
    "table",
    [pytest.param(one, marks=pytest.mark.slow if one.form == "frame" else ()) for one in TABLES],
    ids=range(len(TABLES)),
)
def test_every_label_is_what_holds_and_the_order_is_fixed(table):
    found = table.pairs()
    for one in found:
        assert one.adjacencies == tuple(relation for relation in table.relations if relation.holds(*one.rows))
        assert one.adjacencies
        assert str(one.pair) == one.tries
    assert [one.complexity for one in found] == sorted(one.complexity for one in found)
    shown = [repr((one.pair.x, one.pair.x_prime)) for one in found]
    assert len(shown) == len({*shown})
    for relation in table.relations:
        assert any(relation in one.adjacencies for one in found), f"no pair under {relation}"


def test_what_the_issue_lists_is_tried():
    """Each line of the list that a description of numbers, of keys, of weights and of persons must cover."""

    def tried(found, condition):
        return any(condition(*one.rows) for one in found)

    one, many = numbers(0, 1, missing=True).pairs(), VISITS.pairs()
    values = lambda rows: [row[0] for row in rows]  # noqa: E731
    assert tried(one, lambda x, y: x == () and y == ((1.0,),))
    assert tried(one, lambda x, y: x == ((0.0,),) and y == ((1.0,),))
    assert tried(one, lambda x, y: values(x) == [0.0] * LARGE_DATASET_SIZE and sorted(values(y))[-1] == 1.0)  # constant
    assert tried(one, lambda x, y: sorted(values(x)) == [0.0, 1.0] and len(y) == 3)  # a tie
    assert tried(one, lambda x, y: any(value > 100 for value in values(y)))  # beyond
    assert tried(one, lambda x, y: sum(map(math.isnan, values(x))) > LARGE_DATASET_SIZE / 2 and values(y)[-1] == 1.0)
    assert tried(one, lambda x, y: len(x) == 1 and y == x * 2)  # a duplicate
    assert tried(one, lambda x, y: math.inf in values(y))
    assert tried(numbers(0, 1, integer=True).pairs(), lambda x, y: 2**63 - 1 in values(y))
    assert tried(
        one, lambda x, y: values(x) == [0.0, 1.0] * (LARGE_DATASET_SIZE // 2) and len(y) == LARGE_DATASET_SIZE + 1
    )  # in turn
    many_more = Table([Column()], size=100).pairs()
    assert {len(rows) for one in many_more for rows in one.rows} >= {0, 1, 2, 100, 101}
    for place in (0, LARGE_DATASET_SIZE // 2, LARGE_DATASET_SIZE):
        assert tried(
            one, lambda x, y, place=place: len(y) > LARGE_DATASET_SIZE and y[place] == (1.0,) and y.count((1.0,)) == 1
        )
    assert tried(
        many, lambda x, y: "b" in values(y) and "b" not in values(x) and len(x) == LARGE_DATASET_SIZE
    )  # a key on one side
    assert tried(many, lambda x, y: any(row[2] > 1 for row in y) and all(row[2] == 1 for row in x))  # a weight
    assert tried(many, lambda x, y: len(y) == len(x) + 3)  # all rows of a person
    assert tried(many, lambda x, y: len(y) == len(x) + 30)  # and too many


def test_a_record_of_zeros_is_tried_alone_and_beside_others_where_it_may_be():
    """All columns at once, as norms and totals of it are zero; columns that hold no zero are at their least."""

    def zeros(*columns, **more):
        pairs = Table(columns, **more).pairs()
        return [one for one in pairs if "of zeros" in one.tries]

    a, b = Column("a", bounds=(-1, 1)), Column("b", "integer", bounds=(-1, 1))
    kind, far = Column("kind", "category", categories=("x", "y")), Column("far", bounds=(2, 3))
    tried = {repr(one.rows) for one in zeros(a, b)}
    assert {repr(((), ((0.0, 0),))), repr((((0.0, 0),), ((0.0, 0), (1.0, 1))))} <= tried
    assert any(one.rows == (((-1.0,) * 2,), ((0.0,) * 2,)) for one in zeros(a, Column("c", bounds=(-1, 1)), form="one"))
    assert all((0.0, "x", 2.0) in [*x, *y] for x, y in (one.rows for one in zeros(a, kind, far, beyond=False)))
    assert all((0.0, "x", 0.0) in [*x, *y] for x, y in (one.rows for one in zeros(a, kind, far)))
    assert not zeros(Column("a", bounds=(0, 1)), Column("b", bounds=(0, 1))), "it is the least record"


def test_no_dataset_that_the_description_excludes():
    table = Table(
        [Column("v", bounds=(0, 1)), Column("who", role="owner")], least=3, beyond=False, most_rows_a_person=2
    )
    for one in table.pairs():
        for rows in one.rows:
            assert len(rows) >= 3
            assert all(0 <= row[0] <= 1 for row in rows)
            assert max(len([*group]) for _, group in itertools.groupby(sorted(row[1] for row in rows))) <= 2


def test_persons():
    add, substitute = AddRemovePerson(), SubstitutePerson()
    ann, bob = [("ann", 1), ("ann", 2)], [("bob", 1)]
    assert add.holds(ann + bob, bob)
    assert not substitute.holds(ann + bob, bob)
    assert substitute.holds(ann, [("ann", 1)])
    assert not add.holds(ann, [("ann", 1)])
    assert substitute.holds(ann, bob)
    assert not any(relation.holds(ann + bob, [("cy", 1)]) for relation in (add, substitute))
    assert not any(relation.holds(ann, ann[::-1]) for relation in (add, substitute))
    assert not any(relation.holds(x, y) for relation in (add, substitute) for x, y in [(ann + bob, [])])
    nan = [("ann", float("nan"))]
    assert not any(relation.holds(nan, [("ann", float("nan"))]) for relation in (add, substitute))


@pytest.mark.parametrize("norm", ["linf", "l1", "l2"])
def test_answers_move_by_the_sensitivity_and_no_further(norm):
    answers = Answers(4, sensitivity=3.0, norm=norm)
    orders = {"linf": np.inf, "l1": 1, "l2": 2}
    found = answers.pairs()
    for one in found:
        moved = np.linalg.norm(np.subtract(one.pair.x, one.pair.x_prime), orders[norm])
        assert moved <= 3.0 * (1 + 1e-12)
        assert moved == pytest.approx(3.0) or "from" in one.tries  # far from 0, a float may not tell as much
    assert {one.adjacencies for one in found} == {(MaxChange(3.0) if norm == "linf" else WithinNorm(3.0, norm),)}
    assert len(found) > 20


def test_whole_answers_within_bounds():
    found = Answers(3, norm="l1", integer=True, bounds=(0, 5)).pairs()
    sides = [value for one in found for side in (one.pair.x, one.pair.x_prime) for value in side]
    assert {type(value) for value in sides} == {int}
    assert (min(sides), max(sides)) == (0, 5)


def test_parameters_are_joined_with_pairs_the_usual_values_first():
    ranges = [(0.0, 1.0), (1000.0, 1001.0)]
    found = candidates(lambda values: numbers(*values["bounds"]), {"bounds": ranges, "k": [1, 2, 3]}, AddRemove())
    assert {(one.parameters["bounds"], one.parameters["k"]) for one in found} == set(
        itertools.product(ranges, (1, 2, 3))
    )
    assert found[0].parameters == {"bounds": (0.0, 1.0), "k": 1}
    assert any(one.pair.x_prime == [1001.0] and one.parameters["bounds"] == (1000.0, 1001.0) for one in found)
    assert all(one.adjacencies == (AddRemove(),) for one in found)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: numbers(1, 1), r"bounds of column 'value' are \(1, 1\); they must be \(low, high\)"),
        (lambda: Column("age", "int"), "type of column 'age' is 'int'; it must be 'float', 'integer'"),
        (lambda: Table([Column("a"), Column("b")], form="counts"), "accepts a single column"),
        (
            lambda: numbers(0, 1).pairs(MaxChange(1.0)),
            "has no neighbours under 'query answers within 1'; it has neighbours under",
        ),
        (lambda: read_schema({"data": {"colums": []}}), "it needs one of numbers, symbols, columns, answers"),
        (lambda: read_schema({"data": {"numbers": [0, 1]}, "adjacency": "add-remov"}), "Did you mean 'add-remove'"),
        (lambda: read_schema("nowhere.json"), "cannot be read"),
    ],
)
def test_what_is_wrong_is_said(make, words):
    with pytest.raises(AuditError, match=words):
        make()
