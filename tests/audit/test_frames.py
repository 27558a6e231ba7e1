"""Frames of pandas and polars are written in one line, and are outputs as mappings of their columns are."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, black_box, vectorized
from epsaudit.outputs.normal_form import normal
from epsaudit.reporting import page

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

    def test_however_large_it_is_one_short_line(self, library):
        wide = library.DataFrame({f"a long name of a column {n}": ["a\nb" * 99] * 5 for n in range(500)})
        said = str(DatasetPair(wide, wide[:1]))
        assert "500 columns from a long name of a column 0 on" in said
        assert len(said) < 300
        assert "\n" not in said

    def test_other_columns_are_named(self, library):
        said = str(DatasetPair(library.DataFrame(DATA), library.DataFrame({"b": [1]})))
        assert said.startswith("DataFrame of 3 rows: age, name against DataFrame of 1 row: b; row 0 is ")

    def test_in_text_page_and_a_refusal_alike(self, library):
        def release(data, rng):
            return len(data) + rng.laplace()

        x = library.DataFrame(DATA)
        pair = DatasetPair(x, x[:2])
        result = audit(black_box(release, claim=PureDP(0.1), pairs=[pair]), trials=2_000, seed=1, n_jobs=1)
        assert f"  pair       {pair}\n" in str(result)
        assert result.row()["pair"] == str(pair) == result.to_dict()["pair"]["name"]
        assert "┌" not in page.render([result], 0.95)

        def odd(data, rng):
            return library.DataFrame({"what": [object()]})

        with pytest.raises(AuditError) as refused:
            audit(black_box(odd, claim=PureDP(0.1), pairs=[pair]), trials=2_000, seed=1, n_jobs=1)
        assert "\n" not in str(refused.value)
        assert "of type object, which cannot be compared" in str(refused.value)


@libraries
class TestOutputs:
    def test_a_frame_is_the_mapping_of_its_columns_and_a_series_its_values(self, library):
        frame = library.DataFrame({"a": [1, 2], "b": ["x", None]})
        assert normal(frame).get("a") == (1.0, 2.0)
        assert normal(library.DataFrame(DATA)) == normal(DATA)
        assert normal(library.Series([1.5, 2.0])) == (1.5, 2.0)
        assert normal([library.Series(["a"])]) == (("a",),)

    def test_a_frame_of_many_outputs_is_refused_by_its_name(self, library):
        frames = vectorized(lambda data, size, rng: library.DataFrame({"a": [1.0] * size, "b": [2.0] * size}))
        with pytest.raises(AuditError, match="returned DataFrame of 9 rows: a, b for 9 outputs"):
            frames(0).sample(9, np.random.default_rng(0))

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


def test_names_beside_the_values_are_noted_where_they_differ():
    def named(data, rng):
        return pd.Series([rng.laplace()], name="ab"[data])

    result = audit(named, (0, 1), claim=PureDP(1.0), trials=1_000, seed=1, n_jobs=1)
    assert any("names or types of a frame, a series or an index" in note for note in result.notes)
