"""Malformed commands: one sentence on standard error, the status that says whose fault it was, and nothing written."""

import json
import os
import shlex
import sys

import pytest

from epsaudit.errors import AuditError
from epsaudit.running.files import refuse_unwritable
from epsaudit.tools.cli import AS_EXPECTED, BAD_INPUT, INTERNAL, OWN_CODE, SURPRISED
from epsaudit.tools.cli.main import main

MINE = """
from epsaudit import DatasetPair, PureDP, black_box, vectorized

pairs = [DatasetPair(0, 1)]
sound = vectorized(lambda d, n, rng: d + rng.laplace(size=n), claim=PureDP(1.0), pairs=pairs)
leaky = vectorized(lambda d, n, rng: d + rng.laplace(size=n) / 3, claim=PureDP(1.0), pairs=pairs)
claimless = vectorized(lambda d, n, rng: d + rng.laplace(size=n), pairs=pairs)
pairless = vectorized(lambda d, n, rng: d + rng.laplace(size=n), claim=PureDP(1.0))
number, text, nothing, a_class, a_function = 7, "laplace", None, dict, len

def no_noise(data, rng):
    return data / 0

def quits(data, size, rng):
    raise SystemExit(5)

def falls(data, size, rng):
    raise RuntimeError("out of noise")

fails = black_box(no_noise, claim=PureDP(1.0), pairs=pairs)
falls, quits = (vectorized(one, claim=PureDP(1.0), pairs=pairs) for one in (falls, quits))

class Unprepared:
    name, claim, adjacency = "unprepared", PureDP(1.0), None

    def __call__(self, dataset):
        raise KeyError("no such column")

    def worst_pairs(self):
        return pairs

class Unpaired(Unprepared):
    def worst_pairs(self):
        raise OSError("the disk is gone")

unprepared, unpaired = Unprepared(), Unpaired()
"""
MODULES = {
    "mine.py": MINE,
    "unclosed.py": "x = (1\n",
    "divides.py": "x = 1 / 0\n",
    "leaves.py": "import sys\nsys.exit(5)\n",
}
HELLO = 'import sys, time; print(\'{"epsaudit": 1, "seeded": true}\', flush=True); sys.stdin.readline();'
CHILDREN = {
    "fails.py": "raise OSError('no noise device')",
    "complains.py": f"""{HELLO} print('{{"error": "the dataset is empty"}}', flush=True); time.sleep(60)""",
}
CLAIM = ["--pair", "0", "1", "--epsilon", "1"]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workplace")
    for name, text in {**MODULES, **CHILDREN}.items():
        (folder / name).write_text(text)
    (folder / "folder").mkdir()
    (folder / "empty.json").write_text("")
    (folder / "none.json").write_text('{"schema": 1, "results": []}')
    return folder


@pytest.fixture
def here(workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    monkeypatch.setattr("epsaudit.running.workers.WAIT_SECONDS", 1)
    return workplace


def refuse(arguments, capsys, status, words):
    """Run a command and see that it is refused with one sentence that holds the words, and writes nothing."""
    before = sorted(set(os.listdir()) - {"__pycache__"})
    assert main(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    first, _, lines = err.partition("\n")
    assert first.startswith("epsaudit: ")
    assert first.endswith((".", "?", ":", "'"))
    assert words in first
    assert "epsaudit/" not in lines  # no line of the package
    assert sorted(set(os.listdir()) - {"__pycache__"}) == before
    return lines


NUMBERS = [
    ("--trials many", "--trials is 'many'; it must be a finite number"),
    ("--trials 99", "at least 100"),
    ("--trials 1e300", "--trials is 1e+300; it must be at most"),
    ("--jobs 0", "--jobs is 0"),
    ("--timeout -1", "--timeout is -1.0"),
    ("--epsilon x", "'x' is not a valid float"),
    ("--out mine.py", "cannot be written"),
    ("--out /proc/nowhere", "cannot be written"),
    ("--checkpoint .", "is not a file; give one"),
    ("--checkpoint mine.py", "is not a checkpoint of this version"),
    ("--cluster tcp://127.0.0.1:9", "No dask scheduler answers at"),
    ("--library nothing", "'nothing' is not a library"),
    ("--trails 1000", "No such option '--trails'. Did you mean '--trials'?"),
    ("--quiet=yes", "does not take a value"),
]


@pytest.mark.parametrize(("words", "says"), NUMBERS, ids=[words for words, _ in NUMBERS])
def test_options_of_audit(words, says, here, capsys):
    refuse(["audit", "mine:sound", *shlex.split(words)], capsys, BAD_INPUT, says)


NAMES = [
    ("laplas", "'laplas' is not registered. Did you mean 'laplace'"),
    ("mine.sound", "'mine.sound' is not registered"),
    (":sound", "':sound' names no object"),
    ("nowhere.py:sound", "There is no file 'nowhere.py' for 'nowhere.py:sound'"),
    ("mine:soand", "mine has no 'soand'. Did you mean 'sound'?"),
    ("nowhere:thing", "There is no module 'nowhere'"),
    ("mine:number", "'mine:number' is of type int; it must be a mechanism, or a function"),
    ("mine:a_function", "is a builtin_function_or_method without datasets; give two neighbouring ones, such as --pair"),
    ("mine:a_function --pair 0 1", "'mine:a_function' has no claim to audit; give one, such as --epsilon 1"),
    ("laplace --pair 1 2", "registered mechanisms have their own"),
    ("laplace --epsilon 2", "registered mechanisms have their own"),
    ("--epsilon 2", "registered mechanisms have their own"),
    ("mime:sound", "There is no module 'mime' for 'mime:sound'; give package.module:object. Did you mean 'mine'?"),
    ("mime.py:sound", "Did you mean 'mine.py'"),
    ("mine:a_functoin", "Did you mean 'a_function'?"),
    ("mine:claimless", "has no claim to audit"),
    ("mine:pairless", "pairs"),
]


@pytest.mark.parametrize(("name", "says"), NAMES, ids=[name for name, _ in NAMES])
def test_names_of_audit(name, says, here, capsys):
    refuse(["audit", *name.split(), "--trials", "1000"], capsys, BAD_INPUT, says)


OWN = [
    ("unclosed:x", "unclosed cannot be imported: it raised SyntaxError", "x = (1"),
    ("divides:x", "divides cannot be imported: it raised ZeroDivisionError: division by zero.", "x = 1 / 0"),
    ("leaves:x", "leaves cannot be imported: it raised SystemExit: 5.", "sys.exit(5)"),
    ("mine:falls", "The mechanism raised RuntimeError (out of noise)", 'raise RuntimeError("out of noise")'),
    ("mine:fails", "ZeroDivisionError: division by zero", ""),
    ("mine:unprepared", "unprepared raised KeyError", 'raise KeyError("no such column")'),
    ("mine:unpaired", "The audited code raised OSError", 'raise OSError("the disk is gone")'),
]


@pytest.mark.parametrize(("name", "says", "line"), OWN, ids=[name for name, *_ in OWN])
def test_code_that_fails_is_told_from_wrong_input_and_shows_its_own_lines(name, says, line, here, capsys):
    assert line in refuse(["audit", name, "--trials", "1000"], capsys, OWN_CODE, says)


PROGRAMS = [
    ("--command true", "needs two neighbouring datasets"),
    ("--command true --pair 1 2", "--command needs a claim to audit"),
    ("--command true --pair 1 2 --epsilon -1", "-1"),
    ("--command true --pair 1 2 --epsilon 1 --order 0.5", "0.5"),
    ("--command true --pair '[1' 2 --mu 1", "--pair is '[1', which is not JSON"),
    ("--command true --pair 1 2 --mu 1 --timeout 0", "timeout is 0"),
    ("--command '' --pair 1 2 --mu 1", "The command is empty"),
    ("""--command "run 'it" --pair 1 2 --mu 1""", "cannot be split into words"),
    ("--command /nowhere/program --pair 1 2 --mu 1", "there is no program '/nowhere/program'"),
    ("--command true laplace", "Give either --command or names, not both"),
    ("--command true --library opendp", "--library already contains programs, pairs and claims"),
    ("--library opendp no-such-mechanism", "'no-such-mechanism' names none of"),
]


@pytest.mark.parametrize(("words", "says"), PROGRAMS, ids=[words for words, _ in PROGRAMS])
def test_commands_of_audit(words, says, here, capsys):
    refuse(["audit", *shlex.split(words), "--trials", "1000", "--jobs", "1"], capsys, BAD_INPUT, says)


@pytest.mark.parametrize(
    ("child", "says"), [("fails.py", "no noise device"), ("complains.py", "says: the dataset is empty")]
)
def test_programs_that_fail(child, says, here, capsys):
    command = ["--command", f"{shlex.quote(sys.executable)} -S {child}", *CLAIM, "--jobs", "1", "--trials", "1000"]
    refuse(["audit", *command], capsys, OWN_CODE, says)


OTHERS = [
    ("aduit", "No such command 'aduit'. Did you mean 'audit'?"),
    ("list nothing-of-the-kind", "No name matches 'nothing-of-the-kind'"),
    ("list laplas", "Did you mean 'laplace'"),
    ("list --library nothing", "'nothing' is not a library"),
    ("report", "Missing argument 'RESULT.json'"),
    ("report nowhere.json", "nowhere.json cannot be read"),
    ("report empty.json --markdown", "empty.json is empty; give a result file, which the option --out writes"),
    ("verify empty.json", "empty.json is empty"),
    ("recount empty.json --out new.json", "empty.json is empty"),
    ("report none.json --markdown", "none.json contains no results"),
    ("report none.json --kind pie", "'pie' is not one of"),
    ("verify nowhere.json", "nowhere.json cannot be read"),
    ("compare none.json nowhere.json", "nowhere.json cannot be read"),
    ("hunt --epsilon 1", "hunt takes module:function, or an environment and module:function; 0 words were given"),
    ("trace a b c --pair 1 2", "trace takes module:function, or an environment and module:function; 3 words were"),
    ("compare none.json none.json --error 2", "--error is 2.0"),
    ("recount none.json", "Missing option '--out'"),
    ("experiment ran", "No such command 'ran'. Did you mean 'run'?"),
    ("experiment run", "Missing argument 'NAME'"),
    ("experiment run validty", "Did you mean 'validity'"),
]


@pytest.mark.parametrize(("words", "says"), OTHERS, ids=[words for words, _ in OTHERS])
def test_other_commands(words, says, here, capsys):
    refuse(shlex.split(words), capsys, BAD_INPUT, says)


UNWRITABLE = [
    "audit mine:sound --out /proc/nowhere",
    "audit mine:sound --out mine.py",
    "freeze mine:sound --out /proc/nowhere/witness.json",
    "freeze mine:sound --out folder",
    "hunt mine.py:a_function --pair 1 2 --epsilon 1 --out /proc/nowhere",
    "recount none.json --out /proc/nowhere/new.json",
    "recount none.json --out folder",
    "reproduce none.json --out /proc/nowhere/script.py",
    "reproduce none.json --issue folder",
    "report none.json --html /proc/nowhere/page.html",
    "report none.json --markdown folder",
    "report none.json --figure mine.py/figure.png",
    "scores nothing.csv --epsilon 1 --out /proc/nowhere/scores.json",
    "scores nothing.csv --epsilon 1 --out folder",
    "scores --counts 1 2 3 4 --epsilon 1 --figure /proc/nowhere/scores.png",
    "experiment run validity --quick --out /proc/nowhere",
    "experiment run validity --quick --out mine.py",
]


@pytest.mark.parametrize("words", UNWRITABLE)
def test_what_cannot_be_written_is_refused_before_any_work(words, here, capsys, monkeypatch):
    def work(*_, **__):
        raise AssertionError("something was done before")

    # the modules of commands come first, because a module that is imported later would keep the replaced functions
    loads = "reports.load", "comparing.load", "reproducing.load"
    for name in ("hunting.hunting.hunt", *loads, "scores.audit_counts", "scores.audit_scores", "scores.read_scores"):
        monkeypatch.setattr(f"epsaudit.tools.cli.{name}", work)
    for name in ("suite.run_suite", "scores.audit_scores", "verify.load"):
        monkeypatch.setattr(f"epsaudit.audits.{name}", work)
    monkeypatch.setattr("epsaudit.tools.testing.freezing.freeze", work)
    refuse(shlex.split(words), capsys, BAD_INPUT, "cannot be written (")


def test_folders_that_are_missing_are_not_left_behind(here, tmp_path):
    refuse_unwritable(tmp_path / "a" / "b" / "found.json")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(AuditError, match="cannot be written"):
        refuse_unwritable(tmp_path / "a" / "b" / ("long" * 100))
    assert list(tmp_path.iterdir()) == []


def test_a_defect_of_the_package_is_not_the_users(here, monkeypatch, capsys):
    monkeypatch.setattr("epsaudit.audits.suite.run_suite", None)
    assert main(["audit", "mine:sound", "--trials", "1000"]) == INTERNAL
    assert "This is a defect of epsaudit; please report it" in capsys.readouterr().err


def test_a_refuted_claim_alone_has_status_one(here, capsys):
    arguments = ["--trials", "20000", "--seed", "1", "--jobs", "1"]
    assert main(["audit", "mine:leaky", *arguments, "--quiet"]) == SURPRISED
    assert capsys.readouterr() == ("", "")
    assert main(["audit", "mine:sound", *arguments, "--quiet"]) == AS_EXPECTED


class TestWords:
    def test_the_command_is_recorded_as_it_was_typed(self, here, tmp_path, monkeypatch, capsys):
        (tmp_path / "mine.py").write_text(MINE)
        monkeypatch.chdir(tmp_path)
        words = ["audit", "mine:sound", "--trials", "2000.0", "--jobs", "1", "--out", "run-1.0", "--seed", "4"]
        assert main(words) == AS_EXPECTED  # both numbers once lost their .0
        (result,) = json.loads((tmp_path / "run-1.0" / "audit.json").read_text())["results"]
        assert result["execution"]["command"] == " ".join(["epsaudit", *words])

    def test_what_is_printed_and_recorded_repeats_an_audit_without_a_seed(self, here, capsys):
        def result(arguments):
            assert main([*arguments, "--json"] if "--json" not in arguments else arguments) == AS_EXPECTED
            found = json.loads(capsys.readouterr().out)["results"][0]
            return found, found.pop("execution")["command"]

        sure = ["--trials", "2000", "--confidence", "0.9999"]  # a new seed each time: refuted by chance once in 10,000
        first, command = result(["audit", "mine:sound", *sure, "--jobs", "1"])
        assert result(shlex.split(command)[1:])[0] == first
        assert main(["audit", "mine:sound", *sure, "--seed", str(first["seed"])]) == AS_EXPECTED
        assert f"seed       {first['seed']}" in capsys.readouterr().out
