"""Reading outputs of one shape column by column gives the same numbers as reading each output by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit.outputs.arrays import pack
from epsaudit.outputs.layouts import layout_of
from epsaudit.outputs.normal_form import normalise
from epsaudit.witnesses.combinations import STATISTICS, CoordinateStatistic, FirstOrLastPosition
from epsaudit.witnesses.parts import Contains, Coordinate, HasKind, Length, NumberAt, Value

parts = st.one_of(
    st.none(),
    st.sampled_from([0, -0.0, 1, 2.5, float("nan"), float("inf"), 2**60 + 1, "ab", "", b"a", True]),
    st.lists(st.sampled_from([1, 2.5, "ab"]), max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=1),
)
one_shape = st.one_of(
    st.lists(st.tuples(parts, st.floats(), parts), min_size=1, max_size=8),
    st.lists(st.fixed_dictionaries({"a": st.integers(0, 2), 1: parts}), min_size=1, max_size=8),
    st.lists(st.tuples(st.tuples(st.floats(0, 1), st.sampled_from("ab")), st.just("ab")), min_size=1, max_size=8),
    st.lists(st.tuples(st.fixed_dictionaries({"a": st.floats(0, 1), "b": st.lists(parts, min_size=2, max_size=2)}))),
)
PATHS = [(), (0,), (2,), (-1,), (True,), ("a",), (1,), (1.0,), (0, 0), (0, "a"), (0, "b", 1), ("b",), (1, 0)]
FEATURES = [
    Value(),
    *(Coordinate(i) for i in range(4)),
    *(NumberAt(path) for path in PATHS),
    *(Length(path) for path in PATHS),
    *(Contains(normalise(part)) for part in (0, 1, 2.5, float("nan"), "a", "ab", None, [1], 2**60 + 1, b"a")),
    *(HasKind(kind) for kind in ("sequence", "mapping", "number")),
    CoordinateStatistic("sum", 2),
]


@given(one_shape)
def test_columns_say_what_outputs_say(values):
    outputs = pack([*values, "of another shape"])[:-1]
    together = np.empty(len(values), object)
    together[:] = outputs.tolist()
    assert layout_of(outputs) is None
    assert values == [] or layout_of(together) is not None
    for feature in FEATURES:
        np.testing.assert_array_equal(feature(together), feature(outputs), str(feature))
        np.testing.assert_array_equal(feature(together[1::2]), feature(outputs[1::2]), str(feature))


@pytest.mark.parametrize("feature", [*(CoordinateStatistic(name, 2) for name in STATISTICS), FirstOrLastPosition(2)])
def test_vectors_of_nan_are_read_alike_beside_what_is_no_vector(feature):
    """If one exception in a block changed the numbers of the other outputs, the guesses would not be fair bets."""
    empty = (float("nan"), float("nan"))
    alone, among = (feature(pack(outputs))[0] for outputs in ([empty], [empty, None]))
    assert np.array_equal(alone, among, equal_nan=True)
    assert np.isnan(feature(pack([empty, None]))[1])
