"""The study of what libraries make from a train part: what it asks for, and what it stores. Nothing is installed."""

import json

import numpy as np
import pandas as pd
import pytest

from epsaudit import AuditError
from epsaudit.experiments import holdout_libraries
from epsaudit.experiments.holdout_libraries import DIGITS, SURVEY, audit_release, main, parts
from epsaudit.experiments.libraries.releases import LibraryRelease, library_releases

RELEASES = list(library_releases())
STORED = json.loads((holdout_libraries.STORED / "data.json").read_text(encoding="utf-8"))


def test_quick_data_are_the_stored_rows(tmp_path):
    said = main(tmp_path, quick=True)
    assert said.startswith("0 of ")
    assert "exceed their claim" in said
    assert json.loads((tmp_path / "data.json").read_text(encoding="utf-8"))["rows"] == STORED["rows"]
    assert (tmp_path / "holdout-libraries.pdf").exists()
    asked = [(one.environment.name, one.method, one.epsilon) for one in RELEASES]
    assert [(row["library"], row["method"], row["epsilon"]) for row in STORED["rows"]] == asked


def test_every_release_was_made_and_stays_below_its_claim():
    assert [row["reason"] for row in STORED["rows"] if row["reason"]] == []
    assert [row for row in STORED["rows"] if row["epsilon"] and row["certified"] > row["epsilon"]] == []


def test_the_parts_are_disjoint_halves_of_all_records():
    for name, size in ((SURVEY, 6366), (DIGITS, 1797)):
        train, holdout = parts(name, 3)
        assert len(train) + len(holdout) == size
        assert not set(train.index) & set(holdout.index)


@pytest.mark.parametrize("made", [True, False])
def test_a_release_that_cannot_be_made_has_a_reason_and_no_bound(made, monkeypatch):
    def make(self, train, records, seed):
        if not made:
            raise AuditError("MST made no table: no memory")
        return train.iloc[:600]

    monkeypatch.setattr(LibraryRelease, "make", make)
    table = pd.DataFrame({"x": range(4000), "y": range(4000)}).sample(frac=1.0, random_state=1)
    monkeypatch.setattr(holdout_libraries, "parts", lambda data, seed: (table.iloc[:2000], table.iloc[2000:]))
    found = audit_release(next(one for one in RELEASES if one.claim is None and not one.is_model), 0)
    assert found["claim"] == "none"
    assert (found["certified"] is None) is not made
    if made:
        assert found["certified"] > 1.0
    else:
        assert found["reason"] == "MST made no table: no memory"


def test_a_model_is_audited_by_its_probabilities_of_all_records(monkeypatch):
    def make(self, train, records, seed):
        assert records["target"].tolist()[: len(train)] == train["target"].tolist()
        targets = records["target"].to_numpy()
        sure = np.where(np.arange(len(records)) < len(train), 0.99, 0.6)  # a model that knows its records
        made = np.repeat((1.0 - sure)[:, None] / 9.0, 10, axis=1)
        made[np.arange(len(records)), targets] = sure
        return pd.DataFrame(made)

    monkeypatch.setattr(LibraryRelease, "make", make)
    private = next(one for one in RELEASES if one.is_model and one.claim is not None)
    found = audit_release(private, 0)
    assert found["certified"] > 2.0
    assert found["right"] == found["guesses"] > 0
