"""Features and readings: the numbers that each returns for outputs of its kind, and the text of its event."""

import datetime

import numpy as np
import pytest

from epsaudit.experiments.black_box_functions import BOXES
from epsaudit.outputs.arrays import pack
from epsaudit.outputs.normal_form import Items, normalise
from epsaudit.outputs.readings import MAX_REPEAT_LENGTH, Reading, suitable_readings
from epsaudit.search.output_fields import OutputFields
from epsaudit.search.readers import find_features
from epsaudit.search.structure import list_structure_features
from epsaudit.witnesses.combinations import Combination, CoordinateStatistic, FirstOrLastNumber, FirstOrLastPosition
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.digits import (
    Deviation,
    Exponent,
    FilledForTrees,
    LowestBit,
    NegativeZero,
    Residue,
    Scaled,
    TrailingZeros,
)
from epsaudit.witnesses.events import Interval, Region, Witness, event_from_dict
from epsaudit.witnesses.learnt import AdditiveModel, Term, Tree
from epsaudit.witnesses.parts import CategoryCode, Contains, Coordinate, HasKind, Length, NumberAt, PositionOf, Value
from epsaudit.witnesses.serialisation import FEATURE_KINDS, feature_from_dict, feature_to_dict

NAN = np.nan
Y = Value()
MIN_SHARE_WITH_GAPS = np.array([[-np.inf, 3.5, 1.0], [NAN, NAN, NAN]])
LEAVES = Tree((Coordinate(0),), (0, -1, -1), (0.5, 0.0, 0.0), (1, 0, 0), (2, 0, 0), (0.0, -1.0, 1.0))


def objects(*values):
    found = np.empty(len(values), object)
    found[:] = values
    return found


@pytest.mark.parametrize(
    ("feature", "outputs", "numbers", "label"),
    [
        (Y, objects(1.5, None, "no"), [1.5, NAN, NAN], "y"),
        (Coordinate(1), np.array([[1.0, 2.0], [3.0, 4.0]]), [2, 4], "y[1]"),
        (NumberAt((1, 0)), objects(("no", (2.5, 3)), None), [2.5, NAN], "y[1][0]"),
        (CategoryCode((1,), ("no", "yes")), objects((1.5, "yes"), (2.5, None)), [1, NAN], "number of y[1]"),
        (Length(), objects("no", (1, 2, 3), None), [2, 3, NAN], "len(y)"),
        (Length(), np.array(["no", "yes", ""]), [2, 3, 0], "len(y)"),
        (HasKind("string"), objects("no", 1.5), [1, 0], "[y is a string]"),
        (Contains("ann"), objects(Items.of({"ann": 3}), Items.of({})), [1, 0], "[y has 'ann']"),
        (Contains("no", (Reading("tokens"),)), objects("oh, no!", "nobody"), [1, 0], "[tokens(y) has 'no']"),
        (PositionOf("ann"), objects(("bob", "ann"), None), [1, NAN], "place of 'ann'"),
        (PositionOf("ann", (0,)), objects((("bob", "ann"),), None), [1, NAN], "place of 'ann' in y[0]"),
        (Deviation(Y, 1.0), np.array([0.0, 4.0]), [1, 3], "|y - 1|"),
        (TrailingZeros(Y), np.array([1.0, 1.5, 1.0 + 2**-52]), [52, 51, 0], "trailing zero bits of y"),
        (Exponent(Y), np.array([1.0, -0.4, 0.0]), [0, -2, NAN], "exponent of y"),
        (LowestBit(Y), np.array([1.0, 0.75, 1.0 + 2**-52]), [0, -2, -52], "lowest bit of y"),
        (NegativeZero(Y), np.array([0.0, -0.0, -1.0]), [0, 1, 0], "[y is -0.0]"),
        (Residue(Y, 2), np.array([4.0, 7.0, 0.5]), [0, 1, NAN], "y mod 2"),
        (Residue(Y, 7), objects(7**30 + 3, 14), [3, 0], "y mod 7"),
        (Scaled(Y, 2), np.array([0.29, 1.239]), [29, 123], "floor(100 y)"),
        (FilledForTrees(Y), np.array([1.0, np.inf, NAN]), [1, 1e30, -2e30], "y"),
        (Combination("-", Coordinate(0), Coordinate(1)), np.array([[5.0, 3.0]]), [2], "y[0] - y[1]"),
        (
            Combination("==", Coordinate(0), Coordinate(1)),
            np.array([[5.0, 3.0], [NAN, 1.0]]),
            [0, NAN],
            "[y[0] = y[1]]",
        ),
        (CoordinateStatistic("argmax", 3), np.array([[1.0, 7.0, 2.0], [1.0, 1.0, 1.0]]), [1, 3], "argmax(y)"),
        (FirstOrLastPosition(3), MIN_SHARE_WITH_GAPS, [1, NAN], "place of the first number"),
        (FirstOrLastPosition(3, last=True), MIN_SHARE_WITH_GAPS, [2, NAN], "place of the last number"),
        (FirstOrLastNumber(3), MIN_SHARE_WITH_GAPS, [3.5, NAN], "first number"),
        (FirstOrLastNumber(3, last=True), MIN_SHARE_WITH_GAPS, [1, NAN], "last number"),
        (
            CrossTable(Coordinate(0), Coordinate(1), (0.0,), (0.0, 1.0)),
            np.array([[-1.0, 0.5], [3.0, 2.0]]),
            [1, 5],
            "cell of (y[0], y[1])",
        ),
        (Term(Y, (0.0, 1.0), (0.0, 2.0), missing=-5.0), np.array([0.25, 9.0, NAN]), [0.5, 2, -5], "f(y)"),
        (
            AdditiveModel(tuple(Term(Coordinate(i), (0.0, 1.0), (0.0, 1.0 + i)) for i in range(2))),
            np.array([[1.0, 1.0]]),
            [3],
            "score of (y[1], y[0])",
        ),
        (LEAVES, np.array([[0.2], [0.7]]), [-1, 1], "score of (y[0])"),
    ],
    ids=lambda one: type(one).__name__ if hasattr(one, "label") else "",
)
def test_a_feature_reads_numbers_has_a_label_and_survives_json(feature, outputs, numbers, label):
    np.testing.assert_allclose(feature(outputs), numbers, atol=1e-9)
    assert feature.label == label
    assert feature_from_dict(feature_to_dict(feature)) == feature
    assert np.isfinite(feature(objects())).all(), "of no outputs there are no numbers"


@pytest.mark.parametrize("others", [(), (None,), ((1, "b"), None), ({"a": 1},)])
def test_a_vector_has_a_number_that_is_nan_whatever_lies_beside_it(others):
    assert Contains(NAN)(pack([(0.0, NAN), *others]))[0] == 1.0


def test_the_most_telling_key_comes_first_and_vectors_keep_their_coordinates():
    x = pack([{"a": 1.0, "b": 2.0}] * 50 + [{"a": 1.0}] * 50)
    x_prime = pack([{"a": 1.0}] * 100)
    assert list_structure_features(x, x_prime, []) == [Contains("b")], "all have the other"
    assert NumberAt(("b",)) in find_features(x, x_prime).univariate
    plain = pack([(1.0, 2.0, 3.0)] * 10 + [None])
    assert Coordinate(0) in find_features(plain, plain).univariate


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
        (Combination("==", Coordinate(0), Coordinate(1)), "{y[0] = y[1]}", "{y[0] != y[1]}"),
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


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("commas", "new york, 7,-0.5e1,00ff", ("new york", 7.0, -5.0, "00ff")),
        ("commas", 'a,"b, ""c""",7', ("a", 'b, "c"', 7.0)),
        ("bars", "9007199254740993|1.|x", (2**53 + 1, 1.0, "x")),
        ("tokens", "(at 2026-03-01) 10.3.44.1: 7!", ("at", datetime.date(2026, 3, 1), "10.3.44.1", 7.0)),
        ("named", 'took=17 ms, name="a b"; at: x2 took=3', normalise({"at": "x2", "name": "a b", "took": 17})),
        ("xml", "<r><n>7</n><i>1</i><i>a</i>end</r>", normalise({"#text": "end", "i": [1, "a"], "n": 7})),
        ("xml", "<r><n>7</r>", None),
        ("xml", '<!DOCTYPE r [<!ENTITY a "b">]><r>&a;</r>', None),
        ("xml", "<r>" * 100_000, None),
    ],
)
def test_text_is_read_as_a_record(name, text, read):
    assert Reading(name)(text) == read


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8, 11, 30, MAX_REPEAT_LENGTH, MAX_REPEAT_LENGTH + 9])
def test_the_longest_repeat_is_exact_up_to_a_length(size):
    part = "".join(chr(1000 + place) for place in range(size))
    assert Reading("text")(f"{part}.{part}").get("longest repeat") == min(size, MAX_REPEAT_LENGTH)


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["a=1 b=2", "b=3 a=4", "b=1 c=1"], ["named", "words", "text", "characters"]),
        (["one 7", "two 8", "six 9"], ["words", "text", "characters"]),
        (["x", "x y 7", "x y z 8 z"], ["tokens with digits", "words", "text", "characters"]),
        (["a;b c;7", "a b c d;e;8", "x y z;z;9"], ["semicolons", "words", "text", "characters"]),
        (["<r/>", "<r>7</r>", "no"], ["xml"]),
    ],
)
def test_readings_are_those_that_over_half_of_a_sample_agrees_on(texts, names):
    assert list(suitable_readings(texts, [], 8)) == names


CLOSE = 1.0 + 1e-9


@pytest.mark.parametrize(
    ("guess_x", "guess_x_prime", "text"),
    [
        (
            Region(intervals=(Interval(high=1.0),)),
            Region(intervals=(Interval(low=CLOSE),)),
            "{y <= 1} for x, {y >= 1.000000001}",
        ),
        (
            Region(included=(0.1,)),
            Region(included=(np.nextafter(0.1, 1.0).item(),)),
            "{y = 0.10000000000000001} for x, {y = 0",
        ),
        (Region(intervals=(Interval(1.0, CLOSE),)), None, "{1 <= y <= 1.000000001}"),
        (
            Region(intervals=(Interval(0.3, 2.0),), excluded=(0.3000000001,)),
            None,
            "{0.3 <= y <= 2 and y != 0.3000000001}",
        ),
        (Region(Deviation(Value(), 1e9 + 0.25), (Interval(high=0.5),)), None, "{|y - 1000000000.2| <= 0.5}"),
        (Region(intervals=(Interval(low=1234567.0),)), None, "{y >= 1234567}"),
        (
            Region(CrossTable(Y, Y, (2.5, 2.5 + 1e-8), ()), (Interval(0.5, 1.5),)),
            None,
            "{(2.5 < y <= 2.50000001 and y is a number)}",
        ),
        (
            Region(intervals=(Interval(high=1.05893123),)),
            Region(intervals=(Interval(low=2.0173912),)),
            "{y <= 1.05893} for x, {y >= 2.01739}",
        ),
        (Region(intervals=(Interval(NAN, 2.0),), included=(NAN,)), None, "{nan <= y <= 2 or y = nan}"),
    ],
)
def test_a_witness_prints_so_many_digits_that_different_numbers_differ(guess_x, guess_x_prime, text):
    """Numbers have six digits, and more if different numbers would look equal. Whole numbers are in full."""
    assert str(Witness(guess_x, guess_x_prime)).startswith(text)


def test_a_number_whose_parity_alone_tells_is_kept_among_more_places_than_are_read():
    """Of 900 places of a line with free text 512 are kept; by its values, the number between would be kept by luck."""
    box, rng = BOXES["number between free text in a CSV line"], np.random.default_rng(1)
    sides = [pack(box.draw(dataset, 1_000, rng)).astype(object) for dataset in (0, 1)]
    found = OutputFields.find(*sides)
    assert found.left_out > 0
    assert NumberAt((Reading("commas"), 1)) in found.numbers


STORED_KINDS = {
    "Additive", "At", "Code", "Combined", "Contains", "Coordinate", "Deviation", "Exponent", "Filled", "HasKind",
    "Length", "LowestBit", "NegativeZero", "Place", "PlaceOf", "Reading", "Reduced", "Release", "Residue", "Scaled",
    "Term", "Together", "TrailingZeros", "Tree", "Value",
}  # fmt: skip


def test_files_of_earlier_versions_stay_readable():
    """Files name features by these kinds, whatever the classes are called now."""
    assert set(FEATURE_KINDS) == STORED_KINDS
    at = {"kind": "At", "path": ["a"]}
    stored = {"kind": "Together", "first": at, "second": {"kind": "Value"}, "edges": [0.5], "edges_second": []}
    read = feature_from_dict(stored)
    assert read == CrossTable(NumberAt(("a",)), Value(), (0.5,), ())
    assert feature_to_dict(read) == stored
