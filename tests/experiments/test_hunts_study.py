"""The study of hunts: what a user writes is short and valid, and nothing sound may be refuted in silence."""

import ast
import csv
import dataclasses
import sys

import pytest

from epsaudit import AuditError, DatasetPair, PureDP, vectorized
from epsaudit.adapters.registry import Entry
from epsaudit.experiments import hunts
from epsaudit.experiments.hunts import answer, bugs, hunted_from_schema
from epsaudit.experiments.libraries.environments import Environment
from epsaudit.experiments.libraries.versions import ENVIRONMENTS
from epsaudit.hunting.parameters import candidates, read_schema

each_bug = pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.name)


LITTLE = "sum(data) + random.expovariate(1) - random.expovariate(1)"


def half(data, size, rng):
    return data + rng.laplace(scale=0.5, size=size)


@each_bug
def test_a_user_writes_a_one_line_function_and_a_schema(bug):
    assert bug.version in ENVIRONMENTS
    (function,) = [one for one in ast.parse(bug.code, feature_version=(3, 8)).body if isinstance(one, ast.FunctionDef)]
    assert len(function.body) == 1
    assert bug.lines <= 12
    schema = {"data": bug.data, **({"adjacency": bug.adjacency} if bug.adjacency else {})}
    assert candidates(*read_schema(schema))


def test_names_are_unique():
    assert len({bug.name for bug in bugs()}) == len(bugs())


@pytest.mark.nightly
def test_a_bug_is_found_from_its_schema(monkeypatch):
    """The whole way, in this environment: a sum of values up to 2 with noise for 1."""
    monkeypatch.setattr(Environment, "python", lambda environment: sys.executable)
    data = {"numbers": [0, 2], "integer": True}
    bug = dataclasses.replace(bugs()[0], imports="import random", line=LITTLE, data=data, adjacency="add-remove")
    found = hunted_from_schema(bug, confidence=0.999, seed=1, n_jobs=1, audits=1, steps=5)
    assert found.refuted


def test_the_table_is_written_before_a_false_refutation_is_an_error(tmp_path, monkeypatch):
    mechanism = vectorized(half, claim=PureDP(1.0), pairs=[DatasetPair(0.0, 1.0)], name="half")
    monkeypatch.setattr(hunts, "_sound", lambda quick: iter([Entry("half", mechanism, PureDP(1.0))]))
    monkeypatch.setattr(hunts, "QUICK", {**hunts.QUICK, "steps": 0})
    with pytest.raises(AuditError, match=r"is not as expected: refuted are half\."):
        hunts.main(tmp_path, seed=1, quick=True)
    (row,) = csv.DictReader((tmp_path / "data.csv").open(encoding="utf-8"))
    assert (row["kind"], row["name"], row["verdict"]) == ("sound", "half", "refuted")


def test_what_cannot_be_hunted_is_said_and_counted_for_nothing(monkeypatch):
    def failing(bug, **settings):
        raise AuditError("no such thing")

    monkeypatch.setattr(hunts, "hunted_from_schema", failing)
    row, results = hunts._hunted(bugs()[0], 0.99, 1, False)
    assert (row["verdict"], results) == ("not hunted: no such thing", [])
    rows = [
        {"kind": "bug", **row},
        {"kind": "bug", "verdict": "refuted", "seconds": 30.0},
        {"kind": "sound", "verdict": "not refuted"},
    ]
    assert answer(rows) == ("Of 2 bugs 1 are found, in 30 seconds at the median. Of 1 sound mechanisms 0 are refuted.")
