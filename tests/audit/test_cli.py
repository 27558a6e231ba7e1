"""The command line: what it prints, writes, and answers to bad input."""

import csv
import json
import os
import subprocess
import sys

import pytest

from epsaudit.adapters.registry import registered
from epsaudit.audits.verify import load
from epsaudit.cli import AS_EXPECTED, INTERRUPTED, NOBODY_READS, OWN_CODE, SURPRISED
from epsaudit.cli.main import main

QUICK = ["--trials", "20000", "--seed", "1", "--jobs", "1"]

OWN = """
import numpy as np
from epsaudit import DatasetPair, PureDP, ApproxDP, vectorized

pairs = [DatasetPair(0, 1)]
sound = vectorized(lambda d, n, rng: d + rng.laplace(size=n), claim=PureDP(1.0), pairs=pairs)
leaky = vectorized(lambda d, n, rng: d + rng.laplace(size=n) / 2, claim=PureDP(1.0), pairs=pairs)
claimless = vectorized(lambda d, n, rng: d + rng.laplace(size=n), pairs=pairs)
number = 7

def raising(data, size, rng):
    raise RuntimeError("out of noise")

raises = vectorized(raising, claim=PureDP(1.0), pairs=pairs)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("mine", None)


class TestList:
    def test_every_entry_is_named_in_full(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        assert main(["list"]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert all(name in printed for name in registered())


class TestAudit:
    def test_one_mechanism_prints_its_result(self, capsys):
        assert main(["audit", "laplace", *QUICK]) == AS_EXPECTED
        printed = capsys.readouterr().out
        for part in ("laplace: 1-DP claimed", "does not refute", "witness", "counts", "seed"):
            assert part in printed

    def test_a_table_has_a_row_for_each_and_says_its_confidence(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        assert main(["audit", "laplace", "broken/laplace-half-noise", *QUICK]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert "broken/laplace-half-noise" in printed
        assert "violated" in printed
        assert "97.5%" in printed
        assert "together at 95%" in " ".join(printed.split())
        assert all(len(line) <= 80 for line in printed.splitlines())
        assert "\x1b" not in printed

    def test_files_hold_what_is_needed_to_recompute(self, tmp_path, capsys):
        out = tmp_path / "results"
        assert main(["audit", "laplace", "broken/laplace-half-noise", *QUICK, "--out", str(out)]) == AS_EXPECTED
        kinds = ("csv", "html", "json", "pdf", "png", "tex")
        assert sorted(p.name for p in out.iterdir()) == [f"audit.{kind}" for kind in kinds]
        results = load(out / "audit.json")
        rows = list(csv.DictReader((out / "audit.csv").open()))
        stored = json.loads((out / "audit.json").read_text())["results"]
        for result, row, data in zip(results, rows, stored, strict=True):
            assert result.mechanism == row["mechanism"]
            assert result.lower_bound == float(row["lower_bound"]) == data["lower_bound"]
            assert result.verdict == row["verdict"] == result.expected
        assert (out / "audit.png").read_bytes().startswith(b"\x89PNG")
        assert (out / "audit.pdf").read_bytes().startswith(b"%PDF")

    def test_ones_own_mechanism(self, own, capsys):
        assert main(["audit", "mine:sound", *QUICK]) == AS_EXPECTED
        assert main(["audit", "mine:leaky", *QUICK]) == SURPRISED
        assert "contradicts the claim" in capsys.readouterr().out


class TestBadInput:
    def test_a_folder_made_for_nothing_is_removed(self, own, capsys):
        assert main(["audit", "mine:raises", "--out", "new"]) == OWN_CODE
        assert not (own / "new").exists()


class TestInterruption:
    def test_finished_audits_are_kept(self, tmp_path, capsys, monkeypatch):
        from epsaudit.audits import suite

        def interrupted(entries, **options):
            yield from original(entries[:1], **options)
            raise KeyboardInterrupt

        original = suite.run
        monkeypatch.setattr(suite, "run", interrupted)
        assert main(["audit", "laplace", "gaussian", *QUICK, "--out", str(tmp_path)]) == INTERRUPTED
        assert [result.mechanism for result in load(tmp_path / "audit.json")] == ["laplace"]
        assert "1 finished audits are in" in capsys.readouterr().err


class TestProgress:
    command = [sys.executable, "-m", "epsaudit.cli.main", "audit", "laplace", "--trials", "300000", "--seed", "1"]

    def test_none_in_a_pipe(self):
        done = subprocess.run(self.command, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        assert "laplace: 1-DP claimed" in done.stdout


@pytest.mark.parametrize("words", ["audit laplace gaussian --trials 100", "list laplace", "--help"])
def test_who_stops_reading_is_told_neither_of_a_refuted_claim_nor_of_a_defect(words):
    command = [sys.executable, "-m", "epsaudit", *words.split()]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (NOBODY_READS, b"")
