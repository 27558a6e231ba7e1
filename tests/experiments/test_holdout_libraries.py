"""The study of synthetic tables of libraries: what it asks for, and what it stores. Nothing is installed here."""

import json

import pandas as pd
import pytest

from epsaudit import AuditError
from epsaudit.experiments import holdout_libraries
from epsaudit.experiments.holdout_libraries import Synthesizer, audit_release, main, synthesizers


def test_quick_data_are_the_stored_rows(tmp_path):
    assert main(tmp_path, quick=True) == "0 of 4 synthetic tables of libraries exceed their claim."
    stored = json.loads((holdout_libraries.STORED / "data.json").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "data.json").read_text(encoding="utf-8"))["rows"] == stored["rows"]
    asked = [(one.environment.name, one.method, str(one.claim)) for one in synthesizers()]
    assert [(row["library"], row["method"], row["claim"]) for row in stored["rows"]] == asked


@pytest.mark.parametrize("made", [True, False])
def test_a_release_that_cannot_be_made_has_a_reason_and_no_bound(made, monkeypatch):
    def release(self, train, seed):
        if not made:
            raise AuditError("MST made no table: no memory")
        return train.iloc[:60]

    monkeypatch.setattr(Synthesizer, "release", release)
    table = pd.DataFrame({"x": range(400), "y": range(400)})
    order = table.sample(frac=1.0, random_state=1)
    found = audit_release(next(synthesizers()), order.iloc[:200], order.iloc[200:], 0)
    assert (found["certified"] is None) is not made
    if made:
        assert found["certified"] > 1.0
    else:
        assert found["reason"] == "MST made no table: no memory"
