"""Audits that stop when their claim is refuted: ``epsaudit audit --stop-early``."""

import json
import sys

import pytest
from recorded import cut, records

from epsaudit import audit_sequentially
from epsaudit.adapters.registry import chosen
from epsaudit.audits import suite
from epsaudit.audits.verify import load
from epsaudit.cli import AS_EXPECTED, SURPRISED
from epsaudit.cli.main import main

EARLY = ["--stop-early", "--trials", "2000", "--seed", "1", "--jobs", "1"]
MINE = """
from epsaudit import DatasetPair, PureDP, vectorized

def noisy(scale, epsilon=1.0):
    return vectorized(lambda data, size, rng: data + rng.laplace(scale=scale, size=size), claim=PureDP(epsilon),
                      pairs=[DatasetPair(0, 1)])

sound, leaky, weak = noisy(1.0), noisy(0.5), noisy(1.0, 200.0)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    yield tmp_path
    sys.modules.pop("mine", None)


class TestCommand:
    def test_one_result_is_printed_whole(self, mine, capsys):
        assert main(["audit", "mine:leaky", *EARLY]) == SURPRISED
        assert "of at most 2,000 runs: the claim was refuted" in capsys.readouterr().out
        assert main(["audit", "mine:sound", *EARLY]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert "does not refute the claim" in printed
        assert "after 2,000 of at most 2,000 runs: the runs were spent" in printed

    def test_confidence_and_seeds_are_shared_out_as_in_a_suite(self, mine, capsys):
        names = ["laplace", "broken/laplace-half-noise"]
        assert main(["audit", *names, *EARLY, "--confidence", "0.9", "--out", "out"]) == AS_EXPECTED
        found = load(mine / "out" / "audit.json")
        for result, entry in zip(found, chosen(names), strict=True):
            alone = audit_sequentially(
                entry.mechanism,
                claim=entry.claim,
                trials=2_000,
                confidence=0.95,
                seed=suite.entry_seed(1, entry.name),
                n_jobs=1,
            )
            assert (result.mechanism, result.confidence) == (entry.name, 0.95)
            assert result.rounds == alone.rounds
            typed = " ".join(["epsaudit audit", *names, *EARLY])
            assert result.execution["command"].startswith(typed)

    def test_a_checkpoint_keeps_one_audit_and_its_seed(self, mine, capsys, monkeypatch):
        words = ["audit", "mine:sound", "--stop-early", "--trials", "2000", "--checkpoint", "run.checkpoint", "--json"]
        words += ["--confidence", "0.9999"]  # a new seed each time: refuted by chance once in 10,000
        assert main(words) == AS_EXPECTED
        first = json.loads(capsys.readouterr().out)["results"][0]
        cut(mine / "run.checkpoint", len(records(mine / "run.checkpoint")) - 3)
        assert main(words) == AS_EXPECTED
        again = json.loads(capsys.readouterr().out)["results"][0]
        assert {**first, "execution": 0} == {**again, "execution": 0}
        assert f"--seed {first['seed']}" in again["execution"]["command"]
