"""Nothing that a file names is imported or run without the user's word, and no text of a file becomes code."""

import copy
import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, vectorized
from epsaudit.audits.verify import recompute
from epsaudit.bounds.certificates import MembershipGame
from epsaudit.data.neighbours import RELATION_NOTE
from epsaudit.results.result import AuditResult
from epsaudit.tools.cli.main import main
from epsaudit.tools.reporting.reproducer import AuditedFunction, Reproducer
from epsaudit.witnesses.combinations import Combination, CoordinateStatistic
from epsaudit.witnesses.digits import Deviation, LowestBit, Residue, Scaled
from epsaudit.witnesses.events import Interval, Region, Witness
from epsaudit.witnesses.parts import Coordinate, Length, NumberAt, Value
from epsaudit.witnesses.serialisation import feature_from_dict

MARK = """
from pathlib import Path
Path("ran").write_text("imported")
import numpy as np
from epsaudit import DatasetPair, PureDP, vectorized

def count(records, rng):
    return len(records) + rng.laplace(scale=0.5)

mechanism = vectorized(
    lambda data, size, rng: len(data) + rng.laplace(scale=0.5, size=size),
    claim=PureDP(1.0), pairs=[DatasetPair([1], [1, 1])], name="marked:mechanism",
)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "marked.py").write_text(MARK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "marked", raising=False)


@pytest.fixture(scope="module")
def stored():
    """An honest result of half the noise; its game can be replayed from the counts."""
    mechanism = vectorized(
        lambda data, size, rng: len(data) + rng.laplace(scale=0.5, size=size), name="marked:mechanism"
    )
    result = audit(mechanism, [DatasetPair([1], [1, 1])], claim=PureDP(1.0), trials=20_000, seed=1, n_jobs=1)
    return dataclasses.replace(result, certificate=MembershipGame()).to_dict()


def file_of(stored, command="", **changes):
    """Write a result file whose result records this command."""
    one = {**copy.deepcopy(stored), **changes}
    one["provenance"] = (
        {**one["provenance"], "command": command} if "command" in one["provenance"] else one["provenance"]
    )
    one["execution"] = {**one.get("execution", {}), "command": command}
    Path("audit.json").write_text(json.dumps({"schema": 1, "results": [one]}))
    return "audit.json"


HUNT = "epsaudit hunt marked.py:count --epsilon 1 --data plain --pair '[1]' '[1, 1]' --parameters '{}'"
SERVED = shlex.join(
    [
        "epsaudit",
        "audit",
        "--command",
        f"epsaudit serve --python {sys.executable} marked.py:count",
        "--pair",
        "[1]",
        "[1, 1]",
    ]
)


@pytest.mark.parametrize("command", [HUNT, SERVED], ids=["hunt", "audit of a program"])
def test_reproduce_runs_what_a_file_names_only_with_run(stored, command, capsys):
    file = file_of(stored, command)
    assert main(["reproduce", file, "--out", "script.py"]) == 0
    assert not Path("ran").exists()
    assert "Not run, because only audit.json names it: " in (said := capsys.readouterr().err)
    assert "marked.py:count" in said
    assert "marked" not in Path("script.py").read_text().partition('"""\n')[2]
    assert main(["reproduce", file, "--run", "--out", "script.py"]) == 0
    assert Path("ran").exists()
    assert "marked.py" in Path("script.py").read_text()


@pytest.mark.parametrize("command", ["epsaudit hunt --epsilon 1", "epsaudit hunt python marked.py:count more"])
def test_reproduce_runs_no_hunt_that_names_no_single_function(stored, command, capsys):
    assert main(["reproduce", file_of(stored, command), "--run", "--out", "script.py"]) == 0
    assert "The function is not known; give it as MODULE:FUNCTION." in capsys.readouterr().err
    assert not Path("ran").exists()


def test_reproduce_runs_what_the_user_names(stored):
    assert (
        main(
            ["reproduce", file_of(stored), "--function", "marked.py:count", "--pair", "[1]", "[1, 1]", "--out", "s.py"]
        )
        == 0
    )
    assert Path("ran").exists()


@pytest.mark.parametrize("words", [["verify", "--rerun"], ["recount", "--out", "new.json"]], ids=["verify", "recount"])
def test_the_name_of_a_result_is_imported_only_with_run(stored, words, capsys):
    name, *options = words
    file = file_of(stored)
    assert main([name, file, *options]) == 2
    assert not Path("ran").exists()
    assert "Not run, because only audit.json names it: marked:mechanism would be imported." in capsys.readouterr().err
    main([name, file, *options, "--run"])
    assert Path("ran").exists()


def test_the_mechanism_of_the_user_is_imported(stored):
    main(["verify", file_of(stored), "--rerun", "--mechanism", "marked:mechanism"])
    assert Path("ran").exists()


@pytest.mark.parametrize(
    "words", [["verify"], ["report", "--markdown"], ["compare", "audit.json"]], ids=lambda words: words[0]
)
def test_other_commands_import_nothing(stored, words):
    name, *more = words
    main([name, file_of(stored, HUNT), *more])
    assert not Path("ran").exists()


FORGED = {
    "two commands": "epsaudit audit laplace; touch ran",
    "not closed": "epsaudit audit 'laplace",
    "substitution": "pytest $(touch ran)",
}
OUTSIDE = {
    "no such command": "epsaudit run laplace",
    "no such option": "epsaudit audit laplace --execute os.system",
    "a value out of range": "epsaudit audit laplace --confidence 7",
    "help": "epsaudit hunt --help",
}


@pytest.mark.parametrize("command", FORGED.values(), ids=FORGED)
def test_a_command_that_is_not_quoted_as_ours_is_refused_by_all_commands(stored, command, capsys):
    file = file_of(stored, command)
    assert main(["verify", file]) == 1
    assert "is not quoted as epsaudit writes commands" in capsys.readouterr().out
    for words in (["report", file, "--markdown"], ["reproduce", file, "--run"], ["recount", file, "--out", "new.json"]):
        assert main(words) == 2
    assert not Path("ran").exists()


@pytest.mark.parametrize("command", OUTSIDE.values(), ids=OUTSIDE)
def test_a_command_outside_of_the_grammar_is_called_forged(stored, command, capsys):
    assert main(["verify", file_of(stored, command)]) == 1
    assert "FORGED: the command" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", ["epsaudit audit laplace --seed 3 --out here", "pytest test_a.py::test_b", "mine.py", ""]
)
def test_honest_commands_hold(stored, command):
    assert main(["verify", file_of(stored, command)]) == 0


CODE = "0) or open('ran', 'w') or (0"
FEATURES = [
    Coordinate(1),
    NumberAt((1, "a")),
    Deviation(Value(), 0.5),
    LowestBit(Coordinate(1)),
    Residue(Value(), 7),
    Scaled(Value(), 2),
    Combination("+", Coordinate(0), Coordinate(1)),
    CoordinateStatistic("sum", 3),
    Length(()),
]


@pytest.mark.parametrize("feature", FEATURES, ids=lambda one: type(one).__name__)
def test_no_field_of_an_event_becomes_code(stored, feature):
    """Each plain field is replaced by a piece of Python; either the file is refused, or the script quotes it."""
    event = Witness(Region(feature, (Interval(low=0.5),)), None)
    honest = dataclasses.replace(AuditResult.from_dict(stored), witness=event)
    told = honest.witness.to_dict()

    def forge(value):
        if isinstance(value, dict):
            return {key: forge(part) if key != "kind" else part for key, part in value.items()}
        if isinstance(value, list):
            return [forge(part) for part in value]
        return CODE if type(value) in (int, float, str) else value

    fields = told["guess_x"]["feature"]
    changed = {**stored, "witness": {**told, "guess_x": {**told["guess_x"], "feature": forge(fields)}}}
    if forge(fields) == fields:
        return
    try:
        script = Reproducer(
            AuditResult.from_dict(changed), DatasetPair([1], [1, 1]), AuditedFunction("marked.py:count", source=MARK)
        ).script()
    except AuditError:
        return
    subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert not Path("ran").exists() or Path("ran").read_text() == "imported"


@pytest.mark.parametrize("field", ["index", "size", "decimals", "modulus"])
def test_a_text_in_place_of_a_number_is_no_feature(field):
    of = {
        "index": ("Coordinate", {}),
        "size": ("Reduced", {"statistic": "sum"}),
        "decimals": ("Scaled", {}),
        "modulus": ("Residue", {}),
    }
    kind, more = of[field]
    inner = {"feature": {"kind": "Value"}} if kind in ("Scaled", "Residue") else {}
    assert feature_from_dict({"kind": kind, field: 2, **more, **inner}) is not None
    with pytest.raises(AuditError, match="is not a feature of an output"):
        feature_from_dict({"kind": kind, field: CODE, **more, **inner})


def test_a_note_ends_no_comment(stored):
    note = f"{RELATION_NOTE}add-remove\nopen('ran', 'w').write('by a note')"
    result = AuditResult.from_dict({**stored, "notes": [note]})
    script = Reproducer(result, DatasetPair([1], [1, 1]), AuditedFunction("marked.py:count", source=MARK)).script()
    assert "by a note" in script
    assert not any(line.startswith("open(") for line in script.splitlines())


@pytest.mark.parametrize("where", ["parameters", "takes"])
def test_the_name_of_a_parameter_is_a_name(where):
    with pytest.raises(AuditError, match="it is not an identifier"):
        AuditedFunction("marked.py:count", **{where: {"rng=1, **{}": "rng"}})


def test_the_honest_file_verifies(stored):
    assert recompute(stored).holds
