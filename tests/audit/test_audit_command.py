"""``epsaudit audit`` on programs of any language, with checkpoints and on a cluster: what it accepts and refuses."""

import shlex
import sys

import pytest
from recorded import records

from epsaudit.audits import suite
from epsaudit.cli import AS_EXPECTED, INTERRUPTED, SURPRISED
from epsaudit.cli.main import main
from epsaudit.results.result import comparable

PROGRAM = """
import json, random, sys
print(json.dumps({"epsaudit": 1, "seeded": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    rng = random.Random(request["seed"])
    for _ in range(request["size"]):
        print(len(request["dataset"]) + float(sys.argv[1]) * (rng.expovariate(1) - rng.expovariate(1)))
    sys.stdout.flush()
"""
QUICK = ["--trials", "20000", "--seed", "1", "--jobs", "1"]


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "count.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return [
        "audit",
        *QUICK,
        "--pair",
        '["ann"]',
        '["ann", "bob"]',
        "--command",
        f"{shlex.quote(sys.executable)} count.py",
    ]


class TestPrograms:
    def test_the_claim_is_audited(self, program, capsys):
        sound, leaky = (
            [*program[:-1], f"{program[-1]} {scale}", "--epsilon", "1", "--confidence", "0.9999"]
            for scale in (1.0, 0.5)
        )
        assert main(sound) == AS_EXPECTED
        assert main(leaky) == SURPRISED
        printed = capsys.readouterr().out
        assert "count.py: 1-DP claimed" in printed
        assert "('ann',) against ('ann', 'bob')" in printed

    @pytest.mark.parametrize(
        ("claim", "said"),
        [
            ("--epsilon 1 --delta 1e-5", "(1, 1e-05)-DP"),
            ("--order 2 --epsilon 1", "(2, 1)-Renyi DP"),
            ("--rho 0.5", "0.5-zCDP"),
            ("--rho 0.5 --delta 1e-6", "1e-06-approximate 0.5-zCDP"),
            ("--mu 1", "1-GDP"),
        ],
    )
    def test_every_claim(self, program, claim, said, capsys):
        main([*program[:-1], f"{program[-1]} 1.0", *claim.split(), "--trials", "500"])
        assert f"count.py: {said} claimed" in capsys.readouterr().out


class TestCheckpoints:
    names = ["laplace", "gaussian"]

    @pytest.mark.slow
    def test_an_interrupted_suite_goes_on_with_its_seed(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        options = [
            "audit",
            *self.names,
            "--trials",
            "20000",
            "--jobs",
            "1",
            "--out",
            "out",
            "--checkpoint",
            "run.checkpoint",
        ]

        def interrupted(entries, **given):
            for result in original(entries, **given):
                yield result
                raise KeyboardInterrupt

        original = suite.run
        with monkeypatch.context() as patched:
            patched.setattr(suite, "run", interrupted)
            assert main(options) == INTERRUPTED
        said = capsys.readouterr().err
        assert "1 finished audits are in out, and the same command goes on from the chunks in run.checkpoint" in said
        assert main(options) == AS_EXPECTED
        seed = records(tmp_path / "run.checkpoint")[0][3]["seed"]
        assert f"Seed {seed}" in " ".join(capsys.readouterr().out.split())
        assert main(["audit", *self.names, *QUICK, "--seed", str(seed), "--out", "whole"]) == AS_EXPECTED
        assert comparable(tmp_path / "out" / "audit.json") == comparable(tmp_path / "whole" / "audit.json")
