"""Events and messages read as sentences: articles, denials, and single values in place of inequalities."""

import numpy as np
import pytest

from epsaudit import AuditError
from epsaudit.adapters.external import dataset_to_json
from epsaudit.data.neighbours import refuse_if_consumed
from epsaudit.errors import with_article
from epsaudit.witnesses.events import Interval, Region, event_from_dict
from epsaudit.witnesses.features import Combined, Contains, Coordinate, Deviation, HasKind, NegativeZero, Residue, Value

BELOW, ABOVE = Interval(high=0.5), Interval(low=0.5)


@pytest.mark.parametrize(
    ("feature", "holds", "denies"),
    [
        (Contains("c"), "{y has 'c'}", "{y has no 'c'}"),
        (Contains(1.0), "{y has 1}", "{y has no 1}"),
        (HasKind("array"), "{y is an array}", "{y is not an array}"),
        (HasKind("string"), "{y is a string}", "{y is not a string}"),
        (HasKind("None"), "{y is None}", "{y is not None}"),
        (NegativeZero(Value()), "{y is -0.0}", "{y is not -0.0}"),
        (Combined("==", Coordinate(0), Coordinate(1)), "{y[0] = y[1]}", "{y[0] != y[1]}"),
    ],
)
def test_what_holds_and_what_does_not(feature, holds, denies):
    assert str(Region(feature, (ABOVE,))) == holds
    assert str(Region(feature, (BELOW,))) == denies
    assert str(Region(feature, (Interval(high=0.0),))) == denies
    assert str(event_from_dict(Region(feature, (BELOW,)).to_dict())) == denies


def test_a_distance_of_nothing_is_equality():
    assert str(Region(Deviation(Residue(Value(), 3), 1.0), (Interval(high=0.0),))) == "{y mod 3 = 1}"
    assert str(Region(Deviation(Value(), 1.0), (Interval(high=0.5),))) == "{|y - 1| <= 0.5}"


def test_what_is_taken_out_stands_behind():
    assert str(Region(intervals=(Interval(),), excluded=(2.0,))) == "{y is a number and y != 2}"
    assert str(Region(intervals=(BELOW, Interval(low=3.0)), excluded=(4.0,))) == "{(y <= 0.5 or y >= 3) and y != 4}"


@pytest.mark.parametrize(
    ("noun", "words"), [("int", "an int"), ("list", "a list"), ("uint8", "a uint8"), ("OrderedDict", "an OrderedDict")]
)
def test_articles(noun, words):
    assert with_article(noun) == words


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: refuse_if_consumed(enumerate("ab")), "The dataset is an enumerate"),
        (lambda: refuse_if_consumed([iter("ab")]), "The dataset holds a str_ascii_iterator|a str_iterator"),
        (lambda: dataset_to_json(Ellipsis), "an ellipsis, which JSON cannot write"),
        (lambda: dataset_to_json(np.dtype(int)), r"an? \w+, which JSON cannot write"),
    ],
)
def test_messages_with_the_names_of_types(make, words):
    with pytest.raises(AuditError, match=words):
        make()
