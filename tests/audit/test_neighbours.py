"""Neighbouring relations as algebra on multisets; generated pairs are exactly the neighbours that they should be."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import AddRemove, AuditError, DatasetPair, MaxChange, Substitution
from epsaudit.data.neighbours import leave_one_out, replace_one

records = st.one_of(st.integers(0, 3), st.sampled_from(["ann", "bob"]), st.tuples(st.integers(0, 1), st.integers(0, 1)))
datasets = st.lists(records, max_size=6)
RELATIONS = [AddRemove(), Substitution()]
every_relation = pytest.mark.parametrize("relation", RELATIONS, ids=str)


@every_relation
@given(x=datasets, y=datasets)
def test_adjacency_is_symmetric_irreflexive_and_blind_to_order(relation, x, y):
    assert relation.holds(x, y) == relation.holds(y, x) == relation.holds(x[::-1], tuple(y))
    assert not relation.holds(x, x[::-1])


@given(datasets, records)
def test_adding_a_record_makes_a_neighbour(x, record):
    assert AddRemove().holds(x, [record, *x])
    assert not AddRemove().holds(x, [record, *x, record])
    assert not Substitution().holds(x, [record, *x])


@given(datasets, records, records)
def test_replacing_a_record_makes_a_neighbour(x, record, other):
    assert Substitution().holds([*x, record], [other, *x]) == (record != other)
    assert not AddRemove().holds([*x, record], [other, *x])


@given(datasets)
def test_leave_one_out_yields_every_smaller_neighbour_once(x):
    pairs = list(leave_one_out(x))
    assert len(pairs) == len(set(x))
    for pair in pairs:
        AddRemove().check(pair)
        assert len(pair.x_prime) == len(x) - 1
    assert len({tuple(sorted(map(repr, pair.x_prime))) for pair in pairs}) == len(pairs)


@given(datasets, st.lists(records, max_size=3))
def test_replace_one_yields_every_replacement_once(x, candidates):
    pairs = list(replace_one(x, candidates))
    assert len(pairs) == sum(record != other for record in set(x) for other in set(candidates))
    for pair in pairs:
        Substitution().check(pair)


def test_arrays_are_datasets_of_their_rows():
    rows = np.array([[1, 2], [1, 2], [3, 4]])
    assert AddRemove().holds(rows, rows[1:])
    assert not AddRemove().holds(rows, rows[:1])
    assert [pair.x_prime for pair in leave_one_out(rows)] == [((1, 2), (3, 4)), ((1, 2), (1, 2))]
    assert Substitution().holds(np.array([0, 1]), [1, 1])


def test_mappings_are_datasets_of_their_entries():
    assert AddRemove().holds({"a": 2}, {"b": 4, "a": 2})
    assert Substitution().holds({"a": 2}, {"a": 3})
    assert not AddRemove().holds({"a": 2}, {"a": 3, "b": 4})
    assert AddRemove().holds([{"a": [1]}, {"b": np.ones(2)}, [1, {2}]], [{"b": np.ones(2)}, [1, {2}]])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_datasets_of_their_rows(frame):
    people = frame({"age": [31, 40, None], "name": ["ann", "bob", None]})
    assert AddRemove().holds(people, people[:2])
    assert Substitution().holds(people, frame({"age": [31, 41, None], "name": ["ann", "bob", None]}))
    assert not AddRemove().holds(people, frame({"age": [31, 41], "name": ["ann", "bob"]}))
    assert not Substitution().holds(people, people[::-1])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_one_record_of_a_frame_or_a_mapping_is_left_out(frame):
    people = frame({"age": [31, 40, 31], "name": ["ann", "bob", "ann"]})
    pairs = list(leave_one_out(people))
    assert [pair.x_prime["age"].to_list() for pair in pairs] == [[40, 31], [31, 31]]
    assert all(type(pair.x_prime) is frame and AddRemove().holds(pair.x, pair.x_prime) for pair in pairs)
    assert [pair.x_prime for pair in leave_one_out({"ann": [1], "bob": [1]})] == [{"bob": [1]}, {"ann": [1]}]


def test_missing_answers_are_records_like_any_other():
    """NaN is not equal to itself, so without care every record with a missing answer would differ from itself."""
    ages = np.array([31.0, math.nan, math.nan])
    assert AddRemove().holds(ages, ages[:2])
    assert not AddRemove().holds(ages, ages.copy())
    assert len(list(leave_one_out(ages))) == 2
    assert Substitution().holds([("ann", math.nan)], [("ann", 3.0)])
    assert not Substitution().holds([("ann", float("nan"))], [("ann", float("nan"))])


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=4), st.data())
def test_query_answers_within_the_bound(answers, data):
    changes = data.draw(st.lists(st.integers(-3, 3), min_size=len(answers), max_size=len(answers)))
    moved = np.add(answers, changes)
    assert MaxChange(2.0).holds(answers, moved) == (max(map(abs, changes)) <= 2)


def test_query_answers_of_different_lengths_are_not_adjacent():
    assert not MaxChange(1.0).holds([0, 0], [0])
    assert MaxChange(0.1).holds([0.3], [0.1 + 0.1 + 0.2])  # rounding is forgiven


@pytest.mark.parametrize(
    ("relation", "pair", "words"),
    [
        (AddRemove(), DatasetPair((1, 2), (3, 4)), r"\(1, 2\) against \(3, 4\) is not adjacent.*exactly one record"),
        (Substitution(), DatasetPair((1, 2), (1,)), "substitute one record"),
        (MaxChange(0.5), DatasetPair([0], [2], "far apart"), "far apart is not adjacent.*at most 0.5"),
        (AddRemove(), DatasetPair(3, 4), "3 against 4 cannot be compared"),
        (AddRemove(), DatasetPair([object], [[[{1}]]]), "is not adjacent"),
        (AddRemove(), DatasetPair([bytearray(b"a")], []), "cannot be compared.*unhashable.*adjacency=None"),
        (AddRemove(), DatasetPair({"a": 2}, {"a": 99, "b": 4}), "exactly one record"),
        (Substitution(), DatasetPair({"a": 2}, {"b": 2, "a": 2}), "exactly one record"),
        *(
            (AddRemove(), DatasetPair(frame({"a": [1]}), frame({column: [7, 2]})), words)
            for frame in (pd.DataFrame, pl.DataFrame)
            for column, words in (("a", "exactly one record"), ("b", r"their columns are \['a'\] and \['b'\]"))
        ),
        (MaxChange(1.0), DatasetPair(["a"], ["b"]), "cannot be compared"),
    ],
)
def test_a_pair_that_is_not_adjacent_is_named(relation, pair, words):
    with pytest.raises(AuditError, match=words):
        relation.check(pair)


def test_pairs_print_and_swap():
    pair = DatasetPair(tuple(range(100)), (1,))
    assert len(str(pair)) < 80
    assert str(DatasetPair(0, 1, "nobody against ann")) == "nobody against ann"
    assert pair.swapped().swapped() == pair
    assert pair.swapped().x == (1,)
