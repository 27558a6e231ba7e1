"""Frames of pandas and polars are written in one line, and are outputs as mappings of their columns are."""

import math

import pandas as pd
import polars as pl
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, black_box
from epsaudit.outputs.normal_form import normal

DATA = {"age": [31, 40, 52], "name": ["ann", "bob", "cy"]}
libraries = pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])


@libraries
class TestWriting:
    def test_shape_columns_and_the_first_row_that_differs(self, library):
        x = library.DataFrame(DATA)
        other = library.DataFrame({**DATA, "age": [31, 41, 53]})
        said = "DataFrame of 3 rows: age, name against 3 rows; row 1 is (40, 'bob') against (41, 'bob')"
        assert str(DatasetPair(x, other)) == said
        assert str(DatasetPair(x, x)).endswith("; no row differs")
        assert str(DatasetPair(x[:2], x)).endswith("; row 2 is none against (52, 'cy')")
        assert str(DatasetPair(x, 3)) == "DataFrame of 3 rows: age, name against 3"
        assert str(DatasetPair(x, other, name="mine")) == "mine"


@libraries
class TestOutputs:
    def test_a_frame_is_the_mapping_of_its_columns_and_a_series_its_values(self, library):
        frame = library.DataFrame({"a": [1, 2], "b": ["x", None]})
        assert normal(frame).get("a") == (1.0, 2.0)
        assert normal(library.DataFrame(DATA)) == normal(DATA)
        assert normal(library.Series([1.5, 2.0])) == (1.5, 2.0)
        assert normal([library.Series(["a"])]) == (("a",),)

    def test_a_leak_in_a_cell_is_found(self, library):
        def release(data, rng):
            return library.DataFrame({"group": ["a", "b"], "count": [len(data) + rng.laplace(), rng.laplace()]})

        x = library.DataFrame(DATA)
        result = audit(
            black_box(release, claim=PureDP(0.5), pairs=[DatasetPair(x, x[:2])]), trials=1_500, seed=1, n_jobs=1
        )
        assert result.violates_claim
        assert "y['count'][0]" in str(result.witness)
        sound = audit(
            black_box(release, claim=PureDP(1.0), pairs=[DatasetPair(x, x[:2])]), trials=1_500, seed=1, n_jobs=1
        )
        assert not sound.violates_claim


def test_columns_of_one_name_are_no_mapping():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(AuditError, match="DataFrame of 1 row: a, a of type DataFrame"):
        normal(frame)
    assert math.isnan(normal(pd.Series([math.nan]))[0])
