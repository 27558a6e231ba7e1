"""Audits that stop when their claim is refuted: ``epsaudit audit --stop-early``."""

import json
import os
import shlex
import sys

import pytest
from recorded import cut, records

from epsaudit import (
    DatasetPair,
    audit_sequentially,
)
from epsaudit.adapters.registry import chosen
from epsaudit.audits import suite
from epsaudit.audits.verify import load
from epsaudit.cli import AS_EXPECTED, BAD_INPUT, INTERRUPTED, SURPRISED
from epsaudit.cli.main import main
from epsaudit.results.result import comparable

PAIR = DatasetPair((1,), (1, 2))
EARLY = ["--stop-early", "--trials", "2000", "--seed", "1", "--jobs", "1"]
MINE = """
from epsaudit import DatasetPair, PureDP, vectorized

def noisy(scale, epsilon=1.0):
    return vectorized(lambda data, size, rng: data + rng.laplace(scale=scale, size=size), claim=PureDP(epsilon),
                      pairs=[DatasetPair(0, 1)])

sound, leaky, weak = noisy(1.0), noisy(0.5), noisy(1.0, 200.0)
"""
PROGRAM = """
import json, random, sys
print(json.dumps({"epsaudit": 1, "seeded": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    rng = random.Random(request["seed"])
    for _ in range(request["size"]):
        print(len(request["dataset"]) + (rng.expovariate(1) - rng.expovariate(1)) / 2)
    sys.stdout.flush()
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

    def test_several_are_a_table_with_what_each_took(self, mine, capsys):
        assert main(["audit", "laplace", "mine:leaky", "broken/laplace-half-noise", *EARLY]) == SURPRISED
        printed = capsys.readouterr().out
        heading, first = printed.splitlines()[:2]
        assert heading.split() == ["mechanism", "proven", "exact", "certified", "runs", "verdict"]
        assert first.split()[:3] + first.split()[5:] == ["laplace", "ε", "1", "2,000", "consistent"]
        assert all(len(line) <= 80 for line in printed.splitlines())
        assert "3 audits: 2 violated, 1 consistent" in printed
        assert "Not as expected (!): mine:leaky." in " ".join(printed.split())

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

    @pytest.mark.nightly
    def test_files_do_not_depend_on_the_workers(self, mine, capsys):
        for jobs in ("1", "2"):
            names = ["laplace", "broken/laplace-half-noise", "gaussian-gdp"]
            assert main(["audit", *names, *EARLY[:-1], jobs, "--out", jobs]) == AS_EXPECTED
        assert comparable(mine / "1" / "audit.json") == comparable(mine / "2" / "audit.json")

    def test_other_commands_take_the_file(self, mine, capsys):
        assert main(["audit", "mine:sound", "mine:leaky", *EARLY, "--out", "out", "--quiet"]) == SURPRISED
        assert capsys.readouterr().out == ""
        file = "out/audit.json"
        assert main(["verify", file]) == AS_EXPECTED
        assert main(["compare", file, file]) == AS_EXPECTED
        assert main(["report", file, "--markdown", "--methods"]) == AS_EXPECTED
        assert main(["verify", file, "--rerun"]) == BAD_INPUT
        assert "it can be recomputed, not run again" in capsys.readouterr().err

    def test_a_program(self, mine, capsys):
        (mine / "count.py").write_text(PROGRAM)
        program = f"{shlex.quote(sys.executable)} count.py"
        words = ["audit", *EARLY, "--command", program, "--pair", '["a"]', '["a", "b"]', "--epsilon", "1", "--json"]
        assert main(words) == SURPRISED
        (result,) = json.loads(capsys.readouterr().out)["results"]
        assert (result["kind"], result["stopped"], result["mechanism"]) == ("sequential", "refuted", "count.py")

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

    def test_a_checkpoint_keeps_several_audits(self, mine, capsys):
        words = ["audit", "mine:sound", "mine:leaky", *EARLY, "--checkpoint", "run.checkpoint", "--json"]
        assert main(words) == SURPRISED
        first = json.loads(capsys.readouterr().out)["results"]
        cut(mine / "run.checkpoint", len(records(mine / "run.checkpoint")) - 3)
        assert main(words) == SURPRISED
        again = json.loads(capsys.readouterr().out)["results"]
        assert [{**one, "execution": 0} for one in first] == [{**one, "execution": 0} for one in again]

    def test_interruption_keeps_what_is_finished(self, mine, capsys, monkeypatch):
        def interrupted(shared, told):
            if told[0].entry.name == "mine:leaky":
                raise KeyboardInterrupt
            return original(shared, told)

        original = suite._result_of
        monkeypatch.setattr(suite, "_result_of", interrupted)
        words = ["audit", "mine:sound", "mine:leaky", *EARLY]
        assert main([*words, "--out", "out"]) == INTERRUPTED
        assert "1 finished audits are in out." in capsys.readouterr().err
        assert [result.mechanism for result in load(mine / "out" / "audit.json")] == ["mine:sound"]
        assert main(words) == INTERRUPTED
        assert "--checkpoint FILE would have kept finished chunks" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (["mine:weak", "--checkpoint", "run.checkpoint"], "No number of runs refutes a claim as weak as 200-DP"),
            (["mine:sound", "mine:weak"], "No number of runs refutes a claim as weak as 200-DP"),
        ],
    )
    def test_what_cannot_be_is_refused_before_any_run(self, words, sentence, mine, capsys, monkeypatch):
        monkeypatch.setattr(suite, "certified_in_rounds", None)
        before = sorted(os.listdir())
        assert main(["audit", *words, *EARLY]) == BAD_INPUT
        said = capsys.readouterr().err
        assert sentence in said
        assert said.count("\n") == 1
        assert sorted(set(os.listdir()) - {"__pycache__"}) == before
