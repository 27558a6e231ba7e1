"""The study of maps and accountants of libraries: its rows, its verdicts, and what is stored."""

import dataclasses
import json

import pytest

from epsaudit import AuditError
from epsaudit.experiments import maps_of_libraries
from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.experiments.maps_of_libraries import STORED, Statement, answer, audit_row, code_of, statements, unexpected
from epsaudit.tools.maps.library_accountants import ACCOUNTANTS

REPORTS = {report for one in statements() for report in one.reports}


def test_rows_name_an_environment_and_a_constructor_or_an_accountant():
    for one in statements():
        assert one.version in ENVIRONMENTS or one.version == ""
        assert bool(one.make) != bool(one.accountant)
        assert one.accountant in ACCOUNTANTS or not one.accountant
        assert one.role in ("affected", "fixed", "control")
        assert bool(one.reports) != bool(one.page), "a finding has a public report or a page"
        if one.make:
            compile(code_of(one), one.name, "exec")
    assert len({(one.name, one.make, one.accountant) for one in statements()}) == len(statements())
    assert len(REPORTS) >= 12


def test_every_fault_has_an_affected_row():
    titles = {one.title for one in statements()}
    assert titles == {one.title for one in statements() if one.role == "affected"}


def row(role, verdict, report="a/b#1"):
    return {"name": f"{role} {verdict}", "role": role, "verdict": verdict, "report": report}


def test_a_verdict_that_is_not_expected_is_an_error(monkeypatch, tmp_path):
    rows = [
        row("affected", "not refuted"),
        row("fixed", "refuted"),
        row("affected", "refuted"),
        row("control", "inconsistent"),
    ]
    assert unexpected(rows) == ["affected not refuted", "fixed refuted"]
    assert unexpected([row("affected", "not audited: no wheel")]) == []
    assert answer([*rows, row("affected", "refuted", "no report")]).startswith(
        "From the constructor alone 2 of 3 affected maps and accountants are refuted, of 1 public reports"
    )
    rows = [{**one, "smallest": "", "title": "", "tried": 0, "found": ""} for one in rows]
    monkeypatch.setattr(maps_of_libraries, "audit_rows", lambda seed: rows)
    with pytest.raises(AuditError, match="unexpected verdicts: affected not refuted, fixed refuted"):
        maps_of_libraries.main(tmp_path)
    assert len(json.loads((tmp_path / "data.json").read_text())["rows"]) == 4


def test_an_accountant_of_the_own_environment_is_audited():
    faulty = next(one for one in statements() if "randomised response" in one.accountant and one.role == "affected")
    found = audit_row(dataclasses.replace(faulty, pairs=4), seed=1)
    assert found["verdict"] == "refuted"
    assert found["smallest"].startswith("loss: epsilon")
    assert found["name"].startswith("dp-accounting-")
    unknown = audit_row(dataclasses.replace(faulty, accountant="none"), seed=1)
    assert unknown["verdict"].startswith("not audited: The environment")


def test_an_object_is_made_from_its_code(monkeypatch):
    monkeypatch.setattr(
        maps_of_libraries,
        "code_of",
        lambda one: (
            "from epsaudit.tools.maps import Adapter, Atom, Vector\n\ndef make():\n    return Adapter("
            "Vector(Atom('int', 0, 9)), 'SymmetricDistance', sum, lambda d: 5 * d, 'AbsoluteDistance')\n"
        ),
    )
    found = audit_row(Statement("t", "a", "f", "", "affected", make="make_sum()", pairs=200), seed=1)
    assert found["verdict"] == "refuted"
    assert "outputs are at distance 9 where the map allows 5" in found["smallest"]


def test_stored_rows_are_those_of_the_file_and_as_expected(tmp_path):
    if not (STORED / "data.json").exists():
        pytest.skip("not measured yet: run the study libraries")
    said = maps_of_libraries.main(tmp_path, quick=True)
    rows = json.loads((tmp_path / "data.json").read_text())["rows"]
    assert [(one["name"], one["role"]) for one in rows] == [(one.name, one.role) for one in statements()]
    assert unexpected(rows) == []
    refuted = [one for one in rows if one["role"] == "affected" and one["verdict"] == "refuted"]
    found = {report for one in refuted for report in one["report"].split(", ")}
    assert len(found - {"no report"}) >= 12, said


@pytest.mark.libraries
@pytest.mark.parametrize("statement", statements(), ids=lambda one: f"{one.name}-{one.role}")
def test_a_statement_is_refuted_if_and_only_if_it_is_affected(statement):
    """False-alarm probability 1e-6 for each fixed version and control with random outputs, and 0 for the others."""
    found = audit_row(statement, seed=1)
    assert not found["verdict"].startswith("not audited")
    assert unexpected([found]) == []
