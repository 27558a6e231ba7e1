"""Malformed commands: one sentence on standard error, the status that says whose fault it was, and nothing written."""

import json
import os
import shlex
import sys
from importlib.metadata import EntryPoint

import pytest

from epsaudit.cli import AS_EXPECTED, BAD_INPUT, INTERNAL, OWN_CODE, SURPRISED
from epsaudit.cli.main import main

MINE = """
from epsaudit import DatasetPair, PureDP, black_box, vectorized

pairs = [DatasetPair(0, 1)]
sound = vectorized(lambda d, n, rng: d + rng.laplace(size=n), claim=PureDP(1.0), pairs=pairs)
leaky = vectorized(lambda d, n, rng: d + rng.laplace(size=n) / 3, claim=PureDP(1.0), pairs=pairs)
claimless = vectorized(lambda d, n, rng: d + rng.laplace(size=n), pairs=pairs)
pairless = vectorized(lambda d, n, rng: d + rng.laplace(size=n), claim=PureDP(1.0))
few = vectorized(lambda d, n, rng: rng.laplace(size=3), claim=PureDP(1.0), pairs=pairs)
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
    "lacks.py": "import a_module_that_is_not_there\n",
    "lacks_name.py": "from math import a_name_that_is_not_there\n",
    "interrupted.py": "raise RecursionError('round and round')\n",
}
HELLO = 'import sys, time; print(\'{"epsaudit": 1, "seeded": true}\', flush=True); sys.stdin.readline();'
CHILDREN = {
    "ends.py": "",
    "fails.py": "raise OSError('no noise device')",
    "talks.py": "print('hello')",
    "greets_late.py": "print('{\"epsaudit\": 7}')",
    "greets_badly.py": 'print(\'{"epsaudit": 1, "seeded": "yes"}\')',
    "binary.py": "import sys, time; sys.stdout.buffer.write(bytes(range(256))); sys.stdout.flush(); time.sleep(60)",
    "binary_outputs.py": f"{HELLO} sys.stdout.buffer.write(bytes(range(32))); sys.stdout.flush(); time.sleep(60)",
    "words.py": f"{HELLO} print('many\\n' * 70000, flush=True); time.sleep(60)",
    "objects.py": f"{HELLO} print('{{\"y\": 1}}\\n' * 70000, flush=True); time.sleep(60)",
    "complains.py": f'{HELLO} print(\'{{"error": "the dataset is empty"}}\', flush=True); time.sleep(60)',
    "block.py": f"{HELLO} print('{{\"npy\": -1}}', flush=True); time.sleep(60)",
    "short_block.py": f"{HELLO} print('{{\"npy\": 4}}\\n1234', flush=True); time.sleep(60)",
    "dies.py": f"{HELLO} import os; os.kill(os.getpid(), 9)",
}
CLAIM = ["--pair", "0", "1", "--epsilon", "1"]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workplace")
    for name, text in {**MODULES, **CHILDREN}.items():
        (folder / name).write_text(text)
    (folder / "folder").mkdir()
    (folder / "empty.json").write_text("")
    (folder / "list.json").write_text("[1, 2]")
    (folder / "other.json").write_text('{"schema": 99, "results": []}')
    (folder / "none.json").write_text('{"schema": 1, "results": []}')
    (folder / "broken.json").write_text('{"schema": 1, "results": [{"mechanism": "x"}]}')
    (folder / "words.json").write_text("epsilon = 1")
    (folder / "bytes.json").write_bytes(bytes(range(256)))
    return folder


@pytest.fixture
def here(workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    monkeypatch.setattr("epsaudit.engine.workers.WAIT_SECONDS", 1)
    yield workplace
    for name in MODULES:
        sys.modules.pop(name.removesuffix(".py"), None)


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
    ("--trials nan", "--trials is nan"),
    ("--trials inf", "--trials is inf"),
    ("--trials -5", "--trials is -5.0"),
    ("--trials 0", "--trials is 0.0; it must be a whole number of at least 100"),
    ("--trials 99", "at least 100"),
    ("--trials 1000.5", "--trials is 1000.5; it must be a whole number"),
    ("--trials 1e300", "--trials is 1e+300; no audit ends"),
    ("--trials 1e14", "no audit ends that has more than"),
    ("--trials ''", "--trials is ''"),
    ("--confidence 1", "--confidence is 1.0; it must be at least 0.5 and below 1"),
    ("--confidence 1.5", "--confidence is 1.5"),
    ("--confidence 0.2", "--confidence is 0.2"),
    ("--confidence nan", "--confidence is nan"),
    ("--confidence high", "--confidence is 'high'"),
    ("--confidence 95%", "--confidence is '95%'"),
    ("--seed -1", "seed is -1; it must be a whole number of at least 0"),
    ("--seed 1.5", "'1.5' is not a valid integer"),
    ("--seed x", "'x' is not a valid integer"),
    ("--jobs 0", "--jobs is 0"),
    ("--jobs many", "'many' is not a valid integer"),
    ("--timeout -1", "--timeout is -1.0"),
    ("--timeout nan", "--timeout is nan"),
    ("--epsilon x", "'x' is not a valid float"),
    ("--epsilon 1", "go with --command"),
    ("--pair 1 2", "go with --command"),
    ("--pair 1", "Option '--pair' requires 2 arguments"),
    ("--out ''", "'' is no path"),
    ("--out '  '", "'  ' is no path"),
    ("--out mine.py", "cannot be written"),
    ("--out mine.py/deeper", "cannot be written"),
    ("--out /proc/nowhere", "cannot be written"),
    ("--checkpoint ''", "'' is no path"),
    ("--checkpoint .", "is not a file; give one"),
    ("--checkpoint mine.py", "is not a checkpoint of this version"),
    ("--checkpoint bytes.json", "is not a checkpoint of this version"),
    ("--checkpoint /proc/nowhere/run.checkpoint", "cannot be opened"),
    ("--cluster tcp://127.0.0.1:9", "No dask scheduler answers at"),
    ("--cluster nonsense://", "No dask scheduler answers at"),
    ("--library nothing", "'nothing' is not a library"),
    ("--trails 1000", "No such option '--trails'. Did you mean '--trials'?"),
    ("--trial 1000", "Did you mean '--trials'?"),
    ("--trials", "Option '--trials' requires an argument"),
    ("--quiet=yes", "does not take a value"),
]


@pytest.mark.parametrize(("words", "says"), NUMBERS, ids=[words for words, _ in NUMBERS])
def test_options_of_audit(words, says, here, capsys):
    refuse(["audit", "mine:sound", *shlex.split(words)], capsys, BAD_INPUT, says)


NAMES = [
    ("laplas", "'laplas' is not registered. Did you mean 'laplace'"),
    ("broken/laplas-half-noise", "Did you mean 'broken/laplace-half-noise'"),
    ("", "'' is not registered"),
    ("nothing/*", "'nothing/*' is not registered"),
    ("[accounting]", "'[accounting]' is not registered"),
    ("mine", "'mine' is not registered"),
    ("mine.sound", "'mine.sound' is not registered"),
    ("mine:", "'mine:' names no object"),
    (":sound", "':sound' names no object"),
    (":", "':' names no object"),
    ("mine:sound:more", "names no object"),
    ("mine.py:sound", "There is no module 'mine.py' for 'mine.py:sound'"),
    ("./mine.py:sound", "names no object"),
    ("mine:so und", "names no object"),
    ("..mine:sound", "names no object"),
    ("mine:soand", "mine has no 'soand'. Did you mean 'sound'?"),
    ("mine:sound.deeper", "mine has no 'sound.deeper'"),
    ("nowhere:thing", "There is no module 'nowhere'"),
    ("nowhere.at.all:thing", "There is no module 'nowhere'"),
    ("lib:m", "There is no module 'lib' for 'lib:m'"),
    ("mine:number", "'mine:number' is of type int, not a mechanism"),
    ("mine:text", "is of type str, not a mechanism"),
    ("mine:nothing", "is of type NoneType, not a mechanism"),
    ("mine:a_class", "is of type type, not a mechanism"),
    ("mine:a_function", "not a mechanism; wrap a function by epsaudit.black_box"),
    ("mine:claimless", "has no claim to audit"),
    ("mine:pairless", "pairs"),
    ("mine:few", "for"),
]


@pytest.mark.parametrize(("name", "says"), NAMES, ids=[name for name, _ in NAMES])
def test_names_of_audit(name, says, here, capsys):
    refuse(["audit", name, "--trials", "1000"], capsys, BAD_INPUT, says)


OWN = [
    ("unclosed:x", "unclosed cannot be imported: it raised SyntaxError", "x = (1"),
    ("divides:x", "divides cannot be imported: it raised ZeroDivisionError: division by zero.", "x = 1 / 0"),
    ("leaves:x", "leaves cannot be imported: it raised SystemExit: 5.", "sys.exit(5)"),
    ("lacks:x", "lacks cannot be imported: it raised ModuleNotFoundError", "import a_module_that_is_not_there"),
    ("lacks_name:x", "lacks_name cannot be imported: it raised ImportError", "import a_name_that_is_not_there"),
    ("interrupted:x", "interrupted cannot be imported: it raised RecursionError", "round and round"),
    ("mine:falls", "The mechanism raised RuntimeError (out of noise)", 'raise RuntimeError("out of noise")'),
    ("mine:quits", "The mechanism raised SystemExit (5)", "raise SystemExit(5)"),
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
    ("--command true --pair 1 2 --delta 0.1", "--command needs a claim to audit"),
    ("--command true --pair 1 2 --epsilon 1 --mu 1", "--command needs a claim to audit"),
    ("--command true --pair 1 2 --epsilon -1", "-1"),
    ("--command true --pair 1 2 --epsilon nan", "nan"),
    ("--command true --pair 1 2 --epsilon 1 --delta 2", "2"),
    ("--command true --pair 1 2 --epsilon 1 --order 0.5", "0.5"),
    ("--command true --pair 1 2 --rho -1", "-1"),
    ("--command true --pair 1 2 --mu inf", "inf"),
    ("--command true --pair '[1' 2 --mu 1", "--pair is '[1', which is not JSON"),
    ("--command true --pair '' 2 --mu 1", "--pair is '', which is not JSON"),
    ("--command true --pair ann bob --mu 1", "which is not JSON"),
    ("--command true --pair 1 2 --mu 1 --timeout 0", "timeout is 0"),
    ("--command '' --pair 1 2 --mu 1", "The command is empty"),
    ("--command '  ' --pair 1 2 --mu 1", "The command is empty"),
    ("""--command "run 'it" --pair 1 2 --mu 1""", "cannot be split into words"),
    ("--command /nowhere/program --pair 1 2 --mu 1", "there is no program '/nowhere/program'"),
    ("--command ./mine.py --pair 1 2 --mu 1", "there is no program './mine.py'"),
    ("--command ./folder --pair 1 2 --mu 1", "folder"),
    ("--command true laplace", "Give either --command or names, not both"),
    ("--command true --library opendp", "--command and what goes with it are another way"),
    ("--library opendp --pair 1 2", "are another way"),
    ("--library opendp --cluster tcp://somewhere", "does not go with --cluster"),
    ("--library opendp no-such-mechanism", "'no-such-mechanism' names none of"),
]


@pytest.mark.parametrize(("words", "says"), PROGRAMS, ids=[words for words, _ in PROGRAMS])
def test_commands_of_audit(words, says, here, capsys):
    refuse(["audit", *shlex.split(words), "--trials", "1000", "--jobs", "1"], capsys, BAD_INPUT, says)


FAULTS = {
    "ends.py": "ended with exit status 0",
    "fails.py": "no noise device",
    "talks.py": "began with 'hello'; it must say",
    "greets_late.py": "it must say",
    "greets_badly.py": "it must say",
    "binary.py": "which is no line of text",
    "binary_outputs.py": "which is no line of text",
    "words.py": "which is no output in JSON",
    "objects.py": "which is no output in JSON",
    "complains.py": "says: the dataset is empty",
    "block.py": "announced a block of -1 bytes",
    "short_block.py": "is not a .npy file of numbers",
    "dies.py": "was killed by SIGKILL",
}


@pytest.mark.parametrize("child", FAULTS)
def test_programs_that_fail(child, here, capsys):
    command = ["--command", f"{shlex.quote(sys.executable)} -S {child}", *CLAIM, "--jobs", "1", "--trials", "1000"]
    refuse(["audit", *command], capsys, OWN_CODE, FAULTS[child])


OTHERS = [
    ("", "Missing command"),
    ("aduit", "No such command 'aduit'. Did you mean 'audit'?"),
    ("--verbose", "No such option '--verbose'"),
    ("list nothing-of-the-kind", "Nothing that is listed matches 'nothing-of-the-kind'"),
    ("list laplas", "Did you mean 'laplace'"),
    ("list --library nothing", "'nothing' is not a library"),
    ("list a b", "Got unexpected extra argument (b)"),
    ("report", "Missing argument 'RESULT.json'"),
    ("report nowhere.json", "nowhere.json cannot be read"),
    ("report folder", "folder cannot be read"),
    ("report ''", "'' is no path"),
    ("report empty.json --markdown", "empty.json"),
    ("report list.json --markdown", "list.json"),
    ("report other.json --markdown", "other.json"),
    ("report broken.json --markdown", "claim"),
    ("report words.json --markdown", "words.json"),
    ("report bytes.json --markdown", "bytes.json"),
    ("report none.json --markdown", "none.json has no results"),
    ("report none.json --kind pie", "'pie' is not one of"),
    ("report none.json --html ''", "'' is no path"),
    ("verify nowhere.json", "nowhere.json cannot be read"),
    ("verify broken.json", "claim"),
    ("verify none.json", "none.json has no results"),
    ("verify none.json --jobs x", "'x' is not a valid integer"),
    ("compare none.json", "Missing argument 'NEW.json'"),
    ("compare none.json nowhere.json", "nowhere.json cannot be read"),
    ("compare none.json none.json --error 2", "--error is 2.0"),
    ("compare none.json none.json --error 0", "--error is 0.0"),
    ("compare none.json none.json --error x", "--error is 'x'"),
    ("recount none.json", "Missing option '--out'"),
    ("recount nowhere.json --out new.json", "nowhere.json cannot be read"),
    ("recount none.json --out new.json --seed -3", "seed is -3"),
    ("experiment", "Missing command"),
    ("experiment ran", "No such command 'ran'. Did you mean 'run'?"),
    ("experiment run", "Missing argument 'NAME'"),
    ("experiment run validty", "'validty' is not a study"),
    ("experiment run validty", "Did you mean 'validity'"),
    ("experiment run validity --seed x", "'x' is not a valid integer"),
]


@pytest.mark.parametrize(("words", "says"), OTHERS, ids=[words for words, _ in OTHERS])
def test_other_commands(words, says, here, capsys):
    refuse(shlex.split(words), capsys, BAD_INPUT, says)


def test_a_defect_of_the_package_is_not_the_users(here, monkeypatch, capsys):
    monkeypatch.setattr("epsaudit.audits.suite.run", None)
    assert main(["audit", "mine:sound", "--trials", "1000"]) == INTERNAL
    assert "This is a defect of epsaudit; please report it" in capsys.readouterr().err


def test_a_refuted_claim_alone_has_status_one(here, capsys):
    arguments = ["--trials", "20000", "--seed", "1", "--jobs", "1"]
    assert main(["audit", "mine:leaky", *arguments, "--quiet"]) == SURPRISED
    assert capsys.readouterr() == ("", "")
    assert main(["audit", "mine:sound", *arguments, "--quiet"]) == AS_EXPECTED


class TestRegistry:
    @pytest.fixture(autouse=True)
    def points(self, monkeypatch, here):
        (here / "theirs.py").write_text(
            "from epsaudit import PureDP, black_box\nfrom epsaudit.adapters.registry import Entry\n"
            "good = Entry('[bold]good:smile:[/]', black_box(len, claim=PureDP(1.0)), PureDP(1.0))\n"
            "good = Entry('[bold]good', good.mechanism, PureDP(1.0), source=':m: [accounting]')\n"
            "def some():\n    yield good\n    yield 7\n    yield Entry('', good.mechanism, good.claim)\n"
            "    yield good\n    yield Entry('x', len, good.claim)\n    yield Entry('y', good.mechanism, 3)\n"
            "def falls():\n    raise ZeroDivisionError('theirs')\n"
        )
        values = ("theirs:some", "theirs:falls", "theirs:nothing", "nowhere:entries")
        found = [EntryPoint(f"p{i}", value, "epsaudit.registry") for i, value in enumerate(values)]
        monkeypatch.syspath_prepend(str(here))
        monkeypatch.setattr("epsaudit.adapters.registry.entry_points", lambda group: found)
        yield
        sys.modules.pop("theirs", None)
        (here / "theirs.py").unlink()

    def test_what_is_wrong_is_named_and_the_rest_is_listed(self, capsys):
        assert main(["list", "--long"]) == OWN_CODE
        out, err = capsys.readouterr()
        assert out == "[bold]good  1-DP, consistent\n  :m: [accounting]\n"
        assert err.count("\n") == 8
        for words in (
            "One of the mechanisms of theirs:some is left out: 7 is no Entry.",
            "'' is no name",
            "the name '[bold]good' is taken",
            "what runs as 'x' is of type builtin_function_or_method, not a mechanism",
            "the claim of 'y' is 3",
            "The mechanisms of theirs:falls are left out: it raised ZeroDivisionError: theirs.",
            "The mechanisms of theirs:nothing are left out: it raised AttributeError",
            "The mechanisms of nowhere:entries are left out: it raised ModuleNotFoundError",
        ):
            assert words in err


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

    def test_json_of_the_other_commands(self, capsys):
        assert main(["list", "laplace", "--json"]) == AS_EXPECTED
        listed = json.loads(capsys.readouterr().out)
        assert {"laplace", "broken/laplace-half-noise"} <= {one["name"] for one in listed}
        assert all("laplace" in one["name"] for one in listed)
        assert main(["experiment", "list", "--json"]) == AS_EXPECTED
        assert "validity" in [one["name"] for one in json.loads(capsys.readouterr().out)]

    def test_the_version(self, capsys):
        assert main(["--version"]) == AS_EXPECTED
        assert capsys.readouterr().out.startswith("epsaudit ")

    def test_names_are_completed(self, monkeypatch, capsys):
        monkeypatch.setenv("_EPSAUDIT_COMPLETE", "bash_complete")
        for words, position, found in (
            ("epsaudit au", "1", "audit"),
            ("epsaudit audit broken/laplace-h", "2", "broken/laplace-half-noise"),
            ("epsaudit experiment run valid", "3", "validity"),
            ("epsaudit audit --tri", "2", "--trials"),
        ):
            monkeypatch.setenv("COMP_WORDS", words)
            monkeypatch.setenv("COMP_CWORD", position)
            assert main([]) == AS_EXPECTED
            assert f"plain,{found}\n" in capsys.readouterr().out

    def test_help_has_headings_and_examples_that_fit_eighty_columns(self, monkeypatch, capsys):
        monkeypatch.setenv("COLUMNS", "80")
        for command in ("audit", "list", "report", "verify", "compare", "recount"):
            assert main([command, "--help"]) == AS_EXPECTED
            printed = capsys.readouterr().out
            assert all(len(line) <= 80 for line in printed.splitlines())
        assert main(["audit", "--help"]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert "A program in any language" in printed
        assert "Examples:\n  epsaudit audit laplace" in printed
