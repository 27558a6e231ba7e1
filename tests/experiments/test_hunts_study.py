"""The study of hunts: what a user writes is short and valid, and nothing sound may be refuted in silence."""

import ast
import csv

import pytest

from epsaudit import AuditError, DatasetPair, PureDP, vectorized
from epsaudit.experiments import hunts
from epsaudit.experiments.hunts import bugs
from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.experiments.libraries.registry import libraries
from epsaudit.experiments.libraries.rows import sound
from epsaudit.running.registry import Entry
from epsaudit.tools.hunting.parameters import candidates, read_schema

each_row = pytest.mark.parametrize("row", [*bugs(), *sound()], ids=lambda row: row.name)


def half(data, size, rng):
    return data + rng.laplace(scale=0.5, size=size)


@each_row
def test_a_user_writes_a_one_line_function_and_a_schema(row):
    assert row.version in ENVIRONMENTS
    functions = [one for one in ast.parse(row.code, feature_version=(3, 8)).body if isinstance(one, ast.FunctionDef)]
    assert [len(one.body) for one in functions if one.name == "run"] == [1]
    assert row.data is None or candidates(*read_schema(row.schema))


def test_every_affected_row_is_hunted_and_thirty_that_are_sound():
    assert all(row.data is not None for row in bugs())
    of_libraries = [row.name for library in libraries() for row in library.rows if row.expected == "consistent"]
    assert len({*of_libraries, *(row.name for row in sound())}) >= 30


@pytest.mark.slow
def test_the_table_is_written_before_a_false_refutation_is_an_error(tmp_path, monkeypatch):
    mechanism = vectorized(half, claim=PureDP(1.0), pairs=[DatasetPair(0.0, 1.0)], name="half")
    monkeypatch.setattr(hunts, "_sound_mechanisms", lambda quick: iter([Entry("half", mechanism, PureDP(1.0))]))
    monkeypatch.setattr(hunts, "QUICK", {**hunts.QUICK, "steps": 0})
    with pytest.raises(AuditError, match=r"has unexpected verdicts: sound but refuted are half\."):
        hunts.main(tmp_path, seed=1, quick=True)
    (row,) = csv.DictReader((tmp_path / "data.csv").open(encoding="utf-8"))
    assert (row["kind"], row["name"], row["verdict"]) == ("sound", "half", "refuted")
