"""The command line: what it prints, writes and keeps, of mechanisms, programs and audits that stop early."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest
from recorded import cut, records

from epsaudit import audit_sequentially
from epsaudit.audits import suite
from epsaudit.audits.verify import load
from epsaudit.errors import MissingExtraError
from epsaudit.running import registry
from epsaudit.running.registry import chosen, registered
from epsaudit.tools.cli import AS_EXPECTED, BAD_INPUT, INTERRUPTED, NOBODY_READS, OWN_CODE, SURPRISED
from epsaudit.tools.cli.main import EPSAUDIT, main
from epsaudit.tools.reporting import progress
from epsaudit.tools.reporting.github import error_line

QUICK = ["--trials", "20000", "--seed", "1", "--jobs", "1"]

OWN = """
import numpy as np
from epsaudit import DatasetPair, PureDP, vectorized

pairs = [DatasetPair(0, 1)]
sound = vectorized(lambda d, n, rng: d + rng.laplace(size=n), claim=PureDP(1.0), pairs=pairs)
leaky = vectorized(lambda d, n, rng: d + rng.laplace(size=n) / 2, claim=PureDP(1.0), pairs=pairs)

def raising(data, size, rng):
    raise RuntimeError("out of noise")

raises = vectorized(raising, claim=PureDP(1.0), pairs=pairs)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


class TestList:
    def test_every_entry_is_named_in_full(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        assert main(["list"]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert all(name in printed for name in registered())


class TestAudit:
    def test_a_table_has_a_row_for_each_and_files_hold_what_is_needed_to_recompute(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        out = tmp_path / "results"
        assert main(["audit", "laplace", "broken/laplace-half-noise", *QUICK, "--out", str(out)]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert "broken/laplace-half-noise" in printed
        assert "violated" in printed
        assert "97.5%" in printed
        assert "together at 95%" in " ".join(printed.split())
        assert all(len(line) <= 80 for line in printed.splitlines())
        assert "\x1b" not in printed
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
        assert main(["audit", "mine.py:leaky", *QUICK]) == SURPRISED
        assert "contradicts the claim" in capsys.readouterr().out


class TestBadInput:
    def test_a_folder_made_for_nothing_is_removed(self, own, capsys):
        assert main(["audit", "mine:raises", "--out", "new"]) == OWN_CODE
        assert not (own / "new").exists()


FUNCTIONS = """
def right(data, rng):
    return len(data) + rng.laplace()

def half(data, rng):
    data.append(0)  # a list, as in JSON
    return len(data) + rng.laplace(scale=0.5)

def make():
    return right
"""
CASE = ["--pair", '["a"]', '["a", "b"]', "--epsilon", "1", "--trials", "4000", "--seed", "1"]


class TestOwnFunctions:
    """A function needs no wrapper: --pair and a claim make an audit of it."""

    @pytest.fixture(autouse=True)
    def here(self, tmp_path, monkeypatch):
        (tmp_path / "plain.py").write_text(FUNCTIONS)
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize("name", ["plain.py:right", "plain:right"])
    def test_a_sound_one(self, name, capsys):
        assert main(["audit", name, *CASE]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert f"{name}: 1-DP claimed" in printed
        assert "pair       ['a'] against ['a', 'b']" in printed

    def test_one_that_leaks_and_a_sound_one(self, capsys):
        assert main(["audit", "plain.py:half", "plain.py:right", *CASE]) == SURPRISED
        assert "2 audits: 1 violated, 1 consistent" in capsys.readouterr().out

    def test_what_makes_the_function(self, capsys):
        assert main(["audit", "plain.py:make", "--fresh", *CASE]) == AS_EXPECTED

    def test_a_mechanism_may_get_another_claim(self, own, capsys):
        assert main(["audit", "mine:sound", "--epsilon", "0.1", "--trials", "4000", "--seed", "1"]) == SURPRISED
        assert "0.1-DP claimed" in capsys.readouterr().out

    def test_it_is_run_again_by_verify(self, capsys):
        assert main(["audit", "plain.py:right", *CASE, "--out", "results"]) == AS_EXPECTED
        assert main(["verify", "results/audit.json", "--rerun", "--run"]) == AS_EXPECTED
        assert "run again from seed 1: as stored" in capsys.readouterr().out


class TestEveryCommand:
    """All commands have -q and -v, and the command without words prints its help."""

    @pytest.mark.parametrize("name", sorted(EPSAUDIT.commands.keys() - {"experiment"}))
    def test_quiet_and_verbose(self, name):
        words = {word for parameter in EPSAUDIT.commands[name].params for word in parameter.opts}
        assert words >= {"-q", "--quiet", "-v", "--verbose"}

    def test_no_words_print_the_help(self, capsys):
        assert main([]) == AS_EXPECTED
        assert capsys.readouterr().out.startswith("Usage: epsaudit [OPTIONS] COMMAND [ARGS]...")

    def test_verbose_prints_time_and_versions(self, capsys):
        assert main(["list", "laplace", "-v"]) == AS_EXPECTED
        assert re.search(
            r"^epsaudit: \d+\.\d seconds; epsaudit .*numpy .*scipy .*python ", capsys.readouterr().err, re.M
        )

    def test_verbose_prints_the_traceback_of_an_error(self, capsys):
        assert main(["audit", "laplace", "--trials", "1", "-v"]) == BAD_INPUT
        assert capsys.readouterr().err.startswith("Traceback (most recent call last):")

    def test_verbose_prints_every_result_in_full(self, capsys):
        assert main(["audit", "laplace", "gaussian", *QUICK, "-v"]) == AS_EXPECTED
        assert capsys.readouterr().out.count("  counts ") == 2


class TestLeftOut:
    """Plug-ins whose libraries are missing are named only where they are asked for."""

    @pytest.fixture(autouse=True)
    def missing(self, monkeypatch):
        def entries():
            raise MissingExtraError("polars is not installed")

        point = SimpleNamespace(name="a", value="surveys:entries", load=lambda: entries)
        known = registry.entry_points

        def points(group):
            return [*known(group=group), point] if group == "epsaudit.registry" else known(group=group)

        monkeypatch.setattr(registry, "entry_points", points)

    NOTE = "epsaudit: The mechanisms of surveys:entries are left out: polars is not installed\n"

    @pytest.mark.parametrize(
        ("words", "status", "note"),
        [
            ("list", AS_EXPECTED, ""),
            ("list laplace", AS_EXPECTED, ""),
            ("list --verbose", AS_EXPECTED, NOTE),
            ("list surveys/age", BAD_INPUT, NOTE),
            ("audit laplace --trials 1000 --seed 1", AS_EXPECTED, ""),
        ],
    )
    def test_what_is_printed(self, words, status, note, capsys):
        assert main(words.split()) == status
        printed = capsys.readouterr().err
        assert printed.count("left out") == (1 if note else 0)
        assert note in printed

    def test_verify(self, tmp_path, capsys):
        assert main(["audit", "laplace", *QUICK, "--out", str(tmp_path)]) == AS_EXPECTED
        assert main(["verify", str(tmp_path / "audit.json")]) == AS_EXPECTED
        assert "left out" not in capsys.readouterr().err


class TestDryRun:
    def test_it_says_what_would_run_and_audits_nothing(self, capsys, tmp_path, monkeypatch):
        monkeypatch.setattr(suite, "run_suite", None)
        monkeypatch.setenv("COLUMNS", "80")
        words = ["audit", "laplace", "gaussian", "--trials", "1e6", "--dry-run", "--out", str(tmp_path / "out")]
        assert main(words) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert re.search(r"│ laplace +│ 1-DP +│ +\d+ │ \d+ s +│ epsilon 12\.", printed)
        said = " ".join(printed.split())
        assert "Nothing was audited. 2 audits of 1,000,000 runs at 95% confidence would take less than a minute" in said
        assert not (tmp_path / "out").exists()

    def test_a_slow_function(self, capsys, tmp_path, monkeypatch):
        (tmp_path / "slow.py").write_text(
            "import time\ndef slow(data, rng):\n    time.sleep(0.02)\n    return len(data) + rng.laplace()\n"
        )
        monkeypatch.chdir(tmp_path)
        words = ["audit", "slow.py:slow", "--pair", "[1]", "[1, 2]", "--epsilon", "9", "--jobs", "1", "--dry-run"]
        assert main([*words, "--json"]) == AS_EXPECTED
        (row,) = json.loads(capsys.readouterr().out)
        assert row["seconds"] >= 20_000.0
        assert main([*words, "--trials", "10000"]) == AS_EXPECTED
        assert " (too few runs)" in capsys.readouterr().out


class TestGithub:
    def test_a_refuted_claim_is_annotated_at_its_code(self, own, capsys):
        words = ["audit", "mine:leaky", "mine:sound", *QUICK, "--format", "github", "--quiet"]
        assert main(words) == SURPRISED
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith(
            "::error file=mine.py,line=7,title=privacy audit::mine:leaky: 1-DP claimed; certified lower"
        )
        assert "97.5%25 confidence" in line

    def test_an_expected_refutation_is_none(self, capsys):
        assert main(["audit", "broken/laplace-half-noise", *QUICK, "--format", "github", "-q"]) == AS_EXPECTED
        assert capsys.readouterr().out == ""

    def test_other_lines_than_one_are_escaped(self):
        assert error_line("a\nb: 5%", "t,1", "x.py", 2) == "::error file=x.py,line=2,title=t%2C1::a%0Ab: 5%25"


class TestSettings:
    """The table [tool.epsaudit] of the nearest pyproject.toml gives defaults for ``epsaudit audit``."""

    @pytest.fixture
    def settings(self, tmp_path, monkeypatch):
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path / "sub")
        return lambda text: (tmp_path / "pyproject.toml").write_text(f"[tool.epsaudit]\n{text}")

    def test_they_are_defaults(self, settings, capsys, tmp_path):
        settings('names = ["laplace", "gaussian"]\ntrials = 4e3\nseed = 5\nstop-early = true\njobs = 1\n')
        assert main(["audit", "--json"]) == AS_EXPECTED
        found = json.loads(capsys.readouterr().out)["results"]
        assert [(one["mechanism"], one["trials"], one["kind"]) for one in found] == [
            ("laplace", 4_000, "sequential"),
            ("gaussian", 4_000, "sequential"),
        ]
        command = found[0]["execution"]["command"]
        assert command.startswith("epsaudit audit laplace gaussian --trials 4000.0 ")
        assert command.endswith(" --seed 5 --jobs 1 --stop-early --json")

    def test_what_is_typed_overrides_them(self, settings, capsys):
        settings('names = ["gaussian"]\ntrials = 4e3\nseed = 5\n')
        assert main(["audit", "laplace", "--trials", "2000", "--json"]) == AS_EXPECTED
        (found,) = json.loads(capsys.readouterr().out)["results"]
        assert (found["mechanism"], found["trials"], found["seed"]) == ("laplace", 2_000, 5)

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("trails = 1000", "has 'trails', which is no option of audit. Did you mean 'trials'?"),
            ("names = 'laplace'", "must be a list"),
            ("seed = [1]", "must be a single value"),
            ("seed = 'x'", "Invalid value for '--seed'"),
            ("seed = ", "cannot be read"),
        ],
    )
    def test_a_mistake_is_one_sentence(self, settings, text, says, capsys):
        settings(text)
        assert main(["audit", "laplace"]) == BAD_INPUT
        printed = capsys.readouterr()
        assert says in printed.err
        assert printed.err.count("\n") == 1

    def test_they_are_of_audits_only(self, settings, capsys):
        settings("trails = 1000")
        assert main(["list", "laplace"]) == AS_EXPECTED


@pytest.mark.parametrize(
    ("words", "number", "completed"),
    [
        ("epsaudit audit laplace-p", 2, ["plain,laplace-parallel"]),
        ("epsaudit audit gaussian broken/laplace-half", 3, ["plain,broken/laplace-half-noise"]),
        ("epsaudit audit mine.", 2, ["file,mine."]),
        ("epsaudit audit --library opaq", 3, ["file,opaq"]),
        ("epsaudit audit --library opendp lapla", 4, ["plain,laplace"]),
        ("epsaudit freeze laplace-p", 2, ["plain,laplace-parallel"]),
    ],
)
def test_the_shell_completes_mechanisms(words, number, completed, monkeypatch, capsys):
    for name, value in {"COMP_WORDS": words, "COMP_CWORD": str(number), "_EPSAUDIT_COMPLETE": "bash_complete"}.items():
        monkeypatch.setenv(name, value)
    assert main(["audit"]) == AS_EXPECTED
    assert sorted({*capsys.readouterr().out.splitlines()}) == completed


class TestInterruption:
    def test_finished_audits_are_kept(self, tmp_path, capsys, monkeypatch):
        from epsaudit.audits import suite

        def interrupted(entries, **options):
            yield from original(entries[:1], **options)
            raise KeyboardInterrupt

        original = suite.run_suite
        monkeypatch.setattr(suite, "run_suite", interrupted)
        assert main(["audit", "laplace", "gaussian", *QUICK, "--out", str(tmp_path)]) == INTERRUPTED
        assert [result.mechanism for result in load(tmp_path / "audit.json")] == ["laplace"]
        printed = capsys.readouterr()
        assert "laplace: 1-DP claimed" in printed.out
        assert printed.err == f"epsaudit: interrupted; 1 of 2 audits was finished, and is in {tmp_path}.\n"


class TestProgress:
    def test_none_but_on_a_terminal(self, capsys, monkeypatch):
        words = ["audit", "laplace", "--trials", "300000", "--seed", "1", "--jobs", "1"]
        assert main(words) == AS_EXPECTED
        printed = capsys.readouterr()
        assert printed.err == ""
        assert "laplace: 1-DP claimed" in printed.out
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setattr(progress, "REDRAW_SECONDS", 0.01)
        assert main(words) == AS_EXPECTED
        assert "of 300,000 runs, " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [pytest.param("audit laplace gaussian --trials 100", marks=pytest.mark.slow), "--help"]
)
def test_who_stops_reading_is_told_neither_of_a_refuted_claim_nor_of_a_defect(words):
    command = [sys.executable, "-m", "epsaudit", *words.split()]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (NOBODY_READS, b"")


@pytest.mark.parametrize("encoding", [pytest.param("ascii", marks=pytest.mark.slow), "cp1252"])
def test_a_terminal_without_greek_letters_gets_words(encoding, tmp_path):
    made = 'vectorized(lambda d, n, rng: d + rng.laplace(size=n), claim=PureDP(1.0), pairs=[(0, 1)], name="ε ≥ 1")'
    text = f"from epsaudit import PureDP, vectorized\nown = {made}\n"
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "epsaudit", *shlex.split("audit mine.py:own --trials 1e3 --seed 1 --jobs 1")]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path)
    assert done.returncode == AS_EXPECTED, done.stderr
    assert b"epsilon >= 1: " in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said_in_a_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "epsaudit", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (
        2,
        "epsaudit: The output cannot be written (No space left on device).\n",
    )


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


EARLY = ["--stop-early", "--trials", "2000", "--seed", "1", "--jobs", "1"]


class TestCommand:
    def test_one_result_is_printed_whole(self, own, capsys):
        assert main(["audit", "mine:leaky", *EARLY]) == SURPRISED
        assert "of at most 2,000 runs: the claim was refuted" in capsys.readouterr().out
        assert main(["audit", "mine:sound", *EARLY]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert "does not refute the claim" in printed
        assert "after 2,000 of at most 2,000 runs: the runs were spent" in printed

    def test_confidence_and_seeds_are_shared_out_as_in_a_suite(self, own, capsys):
        names = ["laplace", "broken/laplace-half-noise"]
        few = ["--stop-early", "--trials", "500", "--seed", "1", "--jobs", "1"]
        main(["audit", *names, *few, "--confidence", "0.9", "--json"])  # a tenth of seeds surprises by chance
        (own / "audit.json").write_text(capsys.readouterr().out)
        found = load(own / "audit.json")
        for result, entry in zip(found, chosen(names), strict=True):
            alone = audit_sequentially(
                entry.mechanism,
                claim=entry.claim,
                trials=500,
                confidence=0.95,
                seed=suite.entry_seed(1, entry.name),
                n_jobs=1,
            )
            assert (result.mechanism, result.confidence) == (entry.name, 0.95)
            assert result.rounds == alone.rounds
            typed = " ".join(["epsaudit audit", *names, *few])
            assert result.execution["command"].startswith(typed)

    def test_a_checkpoint_keeps_one_audit_and_its_seed(self, own, capsys, monkeypatch):
        words = ["audit", "mine:sound", "--stop-early", "--trials", "2000", "--checkpoint", "run.checkpoint", "--json"]
        words += ["--confidence", "0.9999"]  # a new seed each time: refuted by chance once in 10,000
        assert main(words) == AS_EXPECTED
        first = json.loads(capsys.readouterr().out)["results"][0]
        cut(own / "run.checkpoint", len(records(own / "run.checkpoint")) - 3)
        assert main(words) == AS_EXPECTED
        again = json.loads(capsys.readouterr().out)["results"][0]
        assert {**first, "execution": 0} == {**again, "execution": 0}
        assert f"--seed {first['seed']}" in again["execution"]["command"]
