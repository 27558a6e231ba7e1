"""Every feature: what it reads off outputs of its kind, and how its event names it. All read NaN off what has none."""

import numpy as np
import pytest

from epsaudit.outputs.normal_form import Items, pack
from epsaudit.outputs.readings import Reading
from epsaudit.witnesses import features as f
from epsaudit.witnesses.encoding import Features, structure_of

NAN = np.nan
Y = f.Value()
HOLES = np.array([[-np.inf, 3.5, 1.0], [NAN, NAN, NAN]])
LEAVES = f.Tree((f.Coordinate(0),), (0, -1, -1), (0.5, 0.0, 0.0), (1, 0, 0), (2, 0, 0), (0.0, -1.0, 1.0))


def objects(*values):
    found = np.empty(len(values), object)
    found[:] = values
    return found


@pytest.mark.parametrize(
    ("feature", "outputs", "numbers", "label"),
    [
        (Y, objects(1.5, None, "no"), [1.5, NAN, NAN], "y"),
        (f.Coordinate(1), np.array([[1.0, 2.0], [3.0, 4.0]]), [2, 4], "y[1]"),
        (f.At((1, 0)), objects(("no", (2.5, 3)), None), [2.5, NAN], "y[1][0]"),
        (f.Code((1,), ("no", "yes")), objects((1.5, "yes"), (2.5, None)), [1, NAN], "number of y[1]"),
        (f.Length(), objects("no", (1, 2, 3), None), [2, 3, NAN], "len(y)"),
        (f.HasKind("string"), objects("no", 1.5), [1, 0], "[y is a string]"),
        (f.Contains("ann"), objects(Items.of({"ann": 3}), Items.of({})), [1, 0], "[y has 'ann']"),
        (f.Contains("no", (Reading("tokens"),)), objects("oh, no!", "nobody"), [1, 0], "[tokens(y) has 'no']"),
        (f.PlaceOf("ann"), objects(("bob", "ann"), None), [1, NAN], "place of 'ann'"),
        (f.PlaceOf("ann", (0,)), objects((("bob", "ann"),), None), [1, NAN], "place of 'ann' in y[0]"),
        (f.Deviation(Y, 1.0), np.array([0.0, 4.0]), [1, 3], "|y - 1|"),
        (f.TrailingZeros(Y), np.array([1.0, 1.5, 1.0 + 2**-52]), [52, 51, 0], "trailing zero bits of y"),
        (f.Exponent(Y), np.array([1.0, -0.4, 0.0]), [0, -2, NAN], "exponent of y"),
        (f.LowestBit(Y), np.array([1.0, 0.75, 1.0 + 2**-52]), [0, -2, -52], "lowest bit of y"),
        (f.NegativeZero(Y), np.array([0.0, -0.0, -1.0]), [0, 1, 0], "[y is -0.0]"),
        (f.Residue(Y, 2), np.array([4.0, 7.0, 0.5]), [0, 1, NAN], "y mod 2"),
        (f.Residue(Y, 7), objects(7**30 + 3, 14), [3, 0], "y mod 7"),
        (f.Scaled(Y, 2), np.array([0.29, 1.239]), [29, 123], "floor(100 y)"),
        (f.Filled(Y), np.array([1.0, np.inf, NAN]), [1, 1e30, -2e30], "y"),
        (f.Combined("-", f.Coordinate(0), f.Coordinate(1)), np.array([[5.0, 3.0]]), [2], "y[0] - y[1]"),
        (
            f.Combined("==", f.Coordinate(0), f.Coordinate(1)),
            np.array([[5.0, 3.0], [NAN, 1.0]]),
            [0, NAN],
            "[y[0] = y[1]]",
        ),
        (f.Reduced("argmax", 3), np.array([[1.0, 7.0, 2.0], [1.0, 1.0, 1.0]]), [1, 3], "argmax(y)"),
        (f.Place(3), HOLES, [1, NAN], "place of the first number"),
        (f.Place(3, last=True), HOLES, [2, NAN], "place of the last number"),
        (f.Release(3), HOLES, [3.5, NAN], "first number"),
        (f.Release(3, last=True), HOLES, [1, NAN], "last number"),
        (f.Wave(3, "cos"), np.cos(2 * np.pi * 3 * np.arange(100) / 100)[None], [5], "cos of 3 cycles in y"),
        (f.Wave(3, "power"), np.cos(2 * np.pi * 3 * np.arange(100) / 100)[None], [25], "power of 3 cycles in y"),
        (f.Patch((0, 1), (2, 3)), np.arange(6.0).reshape(1, 2, 3), [12], "sum of y[0:2, 1:3]"),
        (
            f.Together(f.Coordinate(0), f.Coordinate(1), (0.0,), (0.0, 1.0)),
            np.array([[-1.0, 0.5], [3.0, 2.0]]),
            [1, 5],
            "cell of (y[0], y[1])",
        ),
        (f.Term(Y, (0.0, 1.0), (0.0, 2.0), missing=-5.0), np.array([0.25, 9.0, NAN]), [0.5, 2, -5], "f(y)"),
        (
            f.Additive(tuple(f.Term(f.Coordinate(i), (0.0, 1.0), (0.0, 1.0 + i)) for i in range(2))),
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
    assert f.feature_from_dict(f.feature_to_dict(feature)) == feature
    assert np.isfinite(feature(objects())).all(), "of no outputs there are no numbers"


def test_the_most_telling_key_comes_first_and_vectors_keep_their_coordinates():
    x = pack([{"a": 1.0, "b": 2.0}] * 50 + [{"a": 1.0}] * 50)
    x_prime = pack([{"a": 1.0}] * 100)
    assert structure_of(x, x_prime, []) == [f.Contains("b")], "all have the other"
    assert f.At(("b",)) in Features.of(x, x_prime).alone
    plain = pack([(1.0, 2.0, 3.0)] * 10 + [None])
    assert f.Coordinate(0) in Features.of(plain, plain).alone
