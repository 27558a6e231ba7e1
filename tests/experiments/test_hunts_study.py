"""The study of hunts: what a user writes is short and valid, and nothing sound may be refuted in silence."""

import ast
import csv

import pytest

from epsaudit import AuditError, DatasetPair, PureDP, vectorized
from epsaudit.adapters.registry import Entry, registered
from epsaudit.experiments import hunts
from epsaudit.experiments.hunts_bugs import bugs
from epsaudit.experiments.hunts_sound import sound
from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.experiments.libraries.registry import findings, libraries
from epsaudit.hunting.parameters import candidates, read_schema

each_target = pytest.mark.parametrize("target", [*bugs(), *sound()], ids=lambda target: target.name)
MOST_LINES = 15
"""Of Opacus, whose training is ten of them; all others have `USUAL_LINES` at most."""
USUAL_LINES = 10


def half(data, size, rng):
    return data + rng.laplace(scale=0.5, size=size)


@each_target
def test_a_user_writes_a_one_line_function_and_a_schema(target):
    assert target.version in ENVIRONMENTS
    functions = [one for one in ast.parse(target.code, feature_version=(3, 8)).body if isinstance(one, ast.FunctionDef)]
    assert [len(one.body) for one in functions if one.name == "run"] == [1]
    assert target.lines <= (MOST_LINES if target.version.startswith("opacus") else USUAL_LINES)
    assert candidates(*read_schema(target.schema))


def test_every_affected_row_of_the_corpus_is_hunted():
    affected = {case.row.name: case.row for bug in findings() for case in bug.cases if case.role == "affected"}
    assert {one.name for one in bugs()} == set(affected)
    for one in bugs():
        if one.name != "opacus-1.6.0/step":  # whose claim is for a number of records
            assert str(one.claim) == str(affected[one.name].stated_claim), one.name


def test_names_are_unique_and_thirty_sound_mechanisms_are_of_libraries():
    of_libraries = [row.name for library in libraries() for row in library.rows if row.expected == "consistent"]
    of_libraries += [one.name for one in sound()]
    names = [*(one.name for one in bugs()), *of_libraries, *registered()]
    assert len(set(names)) == len(names)
    assert len(of_libraries) >= 30


def test_the_table_is_written_before_a_false_refutation_is_an_error(tmp_path, monkeypatch):
    mechanism = vectorized(half, claim=PureDP(1.0), pairs=[DatasetPair(0.0, 1.0)], name="half")
    monkeypatch.setattr(hunts, "_sound", lambda quick: iter([Entry("half", mechanism, PureDP(1.0))]))
    monkeypatch.setattr(hunts, "QUICK", {**hunts.QUICK, "steps": 0})
    with pytest.raises(AuditError, match=r"is not as expected: refuted are half\."):
        hunts.main(tmp_path, seed=1, quick=True)
    (row,) = csv.DictReader((tmp_path / "data.csv").open(encoding="utf-8"))
    assert (row["kind"], row["name"], row["verdict"]) == ("sound", "half", "refuted")
