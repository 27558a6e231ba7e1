"""Events and messages read as sentences: articles, denials, and single values in place of inequalities."""

import pytest

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
