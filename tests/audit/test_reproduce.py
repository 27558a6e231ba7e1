"""`epsaudit reproduce`: short scripts that show a refuted claim without epsaudit, and issues."""

import dataclasses
import math
import re
import runpy
import shlex
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

from epsaudit import ZCDP, ApproxDP, AuditError, DatasetPair, PureDP, audit, audit_sequentially, vectorized
from epsaudit.bounds.certificates import Box, MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.outputs.normal_form import Items, Raised, normalise
from epsaudit.results.result import save
from epsaudit.tools.cli.main import main
from epsaudit.tools.reporting.reproducer import MAX_LINES, AuditedFunction, Reproducer
from epsaudit.tools.reporting.templating import fill_template
from epsaudit.witnesses.combinations import Combination, CoordinateStatistic
from epsaudit.witnesses.conditions import write_condition, write_literal
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.digits import Deviation, LowestBit, Residue, Scaled
from epsaudit.witnesses.events import Interval, Region, Witness
from epsaudit.witnesses.parts import CategoryCode, Contains, Coordinate, HasKind, Length, NumberAt, Value

OWN = """
import random
print("a library that says hello")

def count(records, scale=0.5):
    return len(records) + random.expovariate(1 / scale) - random.expovariate(1 / scale)

def refuses(records, seed):
    if len(records) > 1 and random.Random(seed).random() < 0.5:
        raise OverflowError("too many")
    return 0.0
"""
PAIR = DatasetPair([1], [1, 1])


def p_value(certificate, claim, counts):
    """Return the least error probability at which a certificate refutes a claim, down to about 1e-12."""

    def excess(logarithm):
        bound = float(certificate.parameter(claim, counts, 1.0 - math.exp(logarithm)))
        return bound - claim.parameter if bound > 0.0 else -1.0

    least, most = math.log(0.5e-12), math.log(1.0 - 1e-9)
    if excess(most) <= 0.0:
        return 1.0
    if excess(least) > 0.0:
        return math.exp(least)
    return math.exp(float(brentq(excess, least, most)))


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture(scope="module")
def refuted():
    """Laplace noise of half the scale."""
    mechanism = vectorized(lambda data, size, rng: len(data) + rng.laplace(scale=0.5, size=size), name="count")
    return audit(mechanism, claim=PureDP(1.0), pairs=[PAIR], trials=20_000, seed=1, n_jobs=1)


def audited(function, *, trials=1_500):
    """The file that the command writes of a served function."""
    words = f"epsaudit serve --python {sys.executable} {function}"
    program = f"{sys.executable} -m {words}"
    pair = ["--pair", "[1]", "[1, 1]", "--epsilon", "1"]
    more = shlex.split(f"--trials {trials} --seed 1 --out out -q --jobs 1")
    assert main(["audit", "--command", program, *pair, *more]) == 1
    return "out/audit.json"


def ran(path):
    """The p-values that a script prints, run by a Python of its own."""
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=True)
    return p_values(done.stdout)


def ran_here(text, capsys):
    """The p-values that a script prints, run in this Python."""
    with open("script.py", "w", encoding="utf-8") as file:
        file.write(text)
    capsys.readouterr()
    runpy.run_path("script.py")
    return p_values(capsys.readouterr().out)


def p_values(printed):
    return [float(found) for found in re.findall(r"(?:p-value|counts:) ([\d.e-]+)", printed)]


@pytest.mark.slow  # 16 or 48 processes are started, by the command
@pytest.mark.parametrize(("function", "event"), [("own.py:refuses", "raises OverflowError"), ("own:count", "y")])
def test_a_served_function_is_reproduced_by_a_script_that_stands_alone(function, event, capsys):
    """Fresh runs are as many as give 1e-6, twice; a p-value of 1e-2 has a probability below 1e-6 then."""
    file = audited(function)
    assert main(["reproduce", file, "--run", "--out", "script.py", "--issue", "issue.md"]) == 0
    assert capsys.readouterr().err.startswith("epsaudit: p-value of fresh runs by ")
    with open("script.py", encoding="utf-8") as script:
        text = script.read()
    assert len(text.splitlines()) <= MAX_LINES
    assert "epsaudit" not in "".join(line for line in text.splitlines() if "import" in line)
    assert function.split(":")[1] in text
    stored, fresh = ran("script.py")
    assert stored < 1e-6
    assert fresh < 1e-2
    with open("issue.md", encoding="utf-8") as issue:
        said = issue.read()
    assert text in said
    assert all(part in said for part in ("`x = [1], x' = [1, 1]`", "1-DP does not hold", event))


def test_what_is_too_long_is_a_sentence_and_its_counts_are_checked(refuted, capsys):
    long = dataclasses.replace(refuted, witness=Witness(Region(included=tuple(map(float, range(400)))), None))
    reproducer = Reproducer(long, PAIR, AuditedFunction("own:count"))
    (sentence,) = reproducer.omissions()
    assert "makes no new runs, because the event" in sentence
    assert "names too many outputs or intervals" in sentence
    script = reproducer.script()
    assert len(script.splitlines()) <= MAX_LINES
    (stored,) = ran_here(script, capsys)
    assert stored < 0.05, "the confidence of the bound, which refutes the claim"


COUNTS = Counts(500, 480, 100, 40, 30, 80)


@pytest.mark.parametrize(
    ("rule", "claim"),
    [*((MembershipGame(), claim) for claim in (PureDP(0.3), ApproxDP(0.1, 0.03))), (MembershipGame(0.4), ZCDP(0.01))],
    ids=str,
)
def test_a_script_computes_the_error_at_which_the_certificate_refutes(refuted, rule, claim, capsys):
    result = dataclasses.replace(refuted, certificate=rule, claim=claim, counts=COUNTS)
    with open("script.py", "w", encoding="utf-8") as file:
        file.write(Reproducer(result).script())
    found = runpy.run_path("script.py")
    assert {*found} & {"scipy", "np", "binom"} == set(), "the standard library alone"
    exact = found["p_value"](found["STORED"])
    least = p_value(rule, claim, COUNTS)
    assert 1e-9 < least < 0.05
    assert exact == pytest.approx(least, rel=1e-3)


@pytest.mark.parametrize("claim", [ApproxDP(0.5, 0.02), ZCDP(0.1)])
def test_what_a_box_refutes_is_reproduced_by_fresh_runs_of_a_game(refuted, claim, capsys):
    boxed = dataclasses.replace(refuted, certificate=Box(), claim=claim)
    text = Reproducer(boxed, PAIR, AuditedFunction("own:count")).script()
    assert "STORED" not in text
    (fresh,) = ran_here(text, capsys)
    assert fresh < 1e-2
    with pytest.raises(AuditError, match="count has no script"):
        Reproducer(boxed, PAIR).script()


OUTPUTS = [
    *(0.0, 1.0, -1.5, 2, True, math.inf, -math.inf, math.nan, None, "a", "bc", (1.0, 2.0), [2, 1], (1, "a"), (3,), ()),
    *({"a": 1, "b": 0.5}, {"b": 2}, {1, 2}, frozenset(), np.array([1.0, 2.0]), np.float32(1), np.int64(2)),
    *(ValueError("of x"), KeyError(), (math.nan, 1.0), [2.0, 2.0], np.array([0.5, 0.5, 7.0])),
    *(np.bool_(True), Decimal("1"), np.float16(0.9), [1.0, np.bool_(True)], np.eye(2)),
    *(
        7,
        2**60 + 1,
        [[0.0], [1.0]],
        b"a",
        pd.DataFrame({"a": [1.0], "b": [2.0]}),
        pd.DataFrame({"b": [1.0]}),
        np.array(0.8),
    ),
]
HALF = (Interval(low=0.75),)
EVENTS = [
    *(Region(Value(), (Interval(*ends),)) for ends in ((-1.0, 1.0), (-math.inf, 0.5), (1.0, math.inf, False), ())),
    Region(Value(), (Interval(high=0.0), Interval(low=1.5)), (None, "a"), ()),
    Region(Value(), (Interval(),), (), (1.0, math.inf)),
    *(
        Region(included=atoms)
        for atoms in (
            (Raised("ValueError"), 1.0, (1.0, 2.0), frozenset({1.0, 2.0})),
            (normalise(math.nan), Items.of({"b": 2}), ()),
        )
    ),
    *(Region(Coordinate(i), (Interval(low=0.6, high=2.0),)) for i in range(3)),
    *(
        Region(feature, HALF)
        for feature in (
            Deviation(Value(), 1.0),
            Length(),
            NumberAt(("b",)),
            Contains(1.0),
            Contains("a"),
            Contains((0.0,)),
        )
    ),
    *(Region(HasKind(kind), HALF) for kind in ("string", "mapping", "set")),
    *(Region(Combination(sign, Coordinate(0), Coordinate(1)), HALF) for sign in ("+", "-", "max", "min", "==")),
    *(Region(Combination("==", Coordinate(0), Coordinate(1)), (Interval(high=0.25),)) for _ in range(1)),
    *(Region(CoordinateStatistic(name, 2), HALF) for name in ("sum", "max", "min", "norm")),
    *(Region(LowestBit(Value()), (Interval(*ends),)) for ends in ((-1.5, 0.5), (-math.inf, -0.5), ())),
    Region(LowestBit(Coordinate(1)), HALF),
    *(Region(Residue(inner, 2), HALF) for inner in (Value(), Coordinate(0), Scaled(Coordinate(1), 1))),
    Region(Scaled(Value(), 1), (Interval(low=8.5),)),
    Region(CrossTable(CategoryCode((0,), (1.0, 2.0)), Contains(2.0), (0.5,), (0.5,)), (Interval(2.5, 3.5),)),
    Region(CrossTable(Coordinate(0), Coordinate(1), (0.5, 1.5), (1.0,)), (Interval(low=2.5),)),
]


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_a_condition_holds_for_the_outputs_of_its_event(event):
    text = write_condition(event)
    names = {"math": math}
    exec(f"{fill_template('helpers.txt', conditions=text)}\ndef holds(y): return bool({text})", names)
    as_one = [Raised(type(y).__name__) if isinstance(y, Exception) else normalise(y) for y in OUTPUTS]
    objects = np.empty(len(OUTPUTS), object)
    objects[:] = as_one
    expected = event.contains(objects).tolist()
    assert [names["holds"](y) for y in OUTPUTS] == expected


@pytest.mark.parametrize("output", OUTPUTS, ids=repr)
def test_values_are_written_as_they_are_read(output):
    """What is written of an output, as a dataset or in an event, is the same output where it is read."""
    if isinstance(output, BaseException) or getattr(output, "ndim", 0) > 1 or isinstance(output, pd.DataFrame):
        return  # of which events write the name, or the numbers in a row
    if not isinstance(output, Decimal):
        assert repr(normalise(eval(write_literal(output), {"math": math}))) == repr(normalise(output))
    assert repr(normalise(eval(write_literal(normalise(output)), {"math": math}))) == repr(normalise(output))


def test_what_is_not_refuted_or_not_known_is_said(refuted, tmp_path, capsys):
    sound = dataclasses.replace(refuted, claim=PureDP(3.0), mechanism="sound")
    save([refuted, sound], tmp_path / "two.json")
    assert main(["reproduce", "two.json"]) == 2
    assert main(["reproduce", "two.json", "sound"]) == 2
    assert main(["reproduce", "two.json", "coun"]) == 2
    said = capsys.readouterr().err
    assert "has 2 such results; give one" in said
    assert "The claim of sound is not refuted" in said
    assert "no result named 'coun'. Did you mean 'count'" in said
    assert main(["reproduce", "two.json", "count"]) == 0
    heard = capsys.readouterr()
    assert "The function is not known" in heard.err
    assert "p_value(STORED)" in heard.out
    assert main(["reproduce", "two.json", "count", "--function", "own:count"]) == 0
    heard = capsys.readouterr()
    assert re.match(r"epsaudit: p-value of fresh runs by \S+: \S+e-\d+\n$", heard.err)
    assert "def count(records, scale=0.5)" in heard.out
    assert main(["reproduce", "two.json", "count", "--function", "own:count '{\"scale\": 1.5}'"]) == 2
    heard = capsys.readouterr()
    assert "The script of own:count shows nothing: its fresh runs have a p-value of" in heard.err
    assert heard.out == ""


SETUP = """
import random
import math
LOW, HIGH = 0.5, 2.0
try:
    import nowhere
except ImportError:
    nowhere = None
math.ready = 1  # as libraries ask that features are enabled
def helper(records):
    return len(records) * math.ready + LOW

def crowd(records):
    return "many" if helper(records) + random.gauss(0, 0.2) > HIGH else "few"

crowd.many = lambda records, size: ["few"] * size
"""


def test_a_script_has_all_that_a_function_needs_of_its_module(capsys):
    """Whatever is missing would raise in a run, and so look like an outcome."""
    names = {"__name__": "setup"}
    exec(SETUP, names)
    told = audit(names["crowd"], claim=PureDP(1.0), pairs=[PAIR], trials=2_000, seed=1, n_jobs=1)
    text = Reproducer(told, PAIR, AuditedFunction("setup.py:crowd", source=SETUP)).script()
    assert len(text.splitlines()) <= MAX_LINES
    assert "helper" in text, "the lines themselves, for the file is not there"
    assert ran_here(text, capsys)[1] < 1e-2


@pytest.mark.parametrize("claim", [PureDP(1.0), ZCDP(0.5)])
def test_a_sequential_audit_is_reproduced_by_fresh_runs_alone(claim, tmp_path, capsys):
    """Its own counts decided when it stopped. Twice the runs that give 1e-6 stay above 1e-2 once in a million."""
    leak = vectorized(lambda data, size, rng: len(data) + rng.laplace(scale=0.3, size=size), name="count", claim=claim)
    result = audit_sequentially(leak, [PAIR], confidence=1 - 1e-6, seed=1, n_jobs=1)
    result = dataclasses.replace(result, execution={"command": "pytest test_own.py::test_count"})
    reproducer = Reproducer(result, PAIR, AuditedFunction("own:count", {"scale": 0.3}))
    script = reproducer.script()
    assert "STORED" not in script
    assert len(script.splitlines()) <= MAX_LINES
    (fresh,) = ran_here(script, capsys)
    assert fresh < 1e-2
    issue = reproducer.issue()
    assert script in issue
    assert "```bash\npytest test_own.py::test_count\n```" in issue
    assert "p-value of these counts" not in issue
    save([result], tmp_path / "tests.json")
    assert main(["reproduce", str(tmp_path / "tests.json"), "--issue", "issue.md"]) == 0
    assert "The function is not known; give it as MODULE:FUNCTION." in capsys.readouterr().err
    assert main(["reproduce", str(tmp_path / "tests.json")]) == 2
    assert "count has no script. The function is not known" in capsys.readouterr().err
