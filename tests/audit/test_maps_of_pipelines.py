"""Pipelines: all stages together, each stage, and whether they fit together."""

import random
import sys

import pytest

from epsaudit import AuditError
from epsaudit.tools.cli.main import main
from epsaudit.tools.maps import Adapter, Atom, Vector, audit_map

INTS = Vector(Atom("int", -10, 10))
CLAMP = Adapter(
    INTS, "SymmetricDistance", lambda data: [min(max(x, 0), 5) for x in data], lambda d: d, "SymmetricDistance"
)
TOTAL = Adapter(Vector(Atom("int", 0, 5)), "SymmetricDistance", sum, lambda d: 5 * d, "AbsoluteDistance")
NOISE = Adapter(
    Atom("int"),
    "AbsoluteDistance",
    lambda value: value + random.expovariate(0.2) - random.expovariate(0.2),
    lambda d: d / 5,
)
FEW = {"pairs": 300, "trials": 4_000, "seed": 1}


def test_a_sound_pipeline_and_its_stages_are_not_refuted():
    found = audit_map([CLAMP, TOTAL, NOISE], **FEW)
    assert found.verdict == "not refuted"
    assert [one.verdict for one in found.stages] == ["not refuted"] * 3
    assert found.joints == ()
    assert found.measured
    assert [one.claim.epsilon for one in found.measured] == [1.0, 2.0, 5.0]


@pytest.mark.parametrize(
    ("stages", "broken"),
    [
        ([CLAMP._replace(call=lambda data: [min(max(x, 0), 5) for x in data + data[:1]]), TOTAL, NOISE], 1),
        ([CLAMP, TOTAL._replace(map=lambda d: 3 * d), NOISE], 2),
        ([CLAMP, TOTAL, NOISE._replace(map=lambda d: d / 20)], 3),
    ],
)
def test_the_broken_stage_is_named(stages, broken):
    found = audit_map(stages, **{**FEW, "trials": 20_000} if broken == 3 else FEW)
    assert found.broken_stages == [broken]
    assert f"stage {broken} of 3: refuted" in str(found)
    assert found.to_dict()["stages"][broken - 1]["verdict"] == "refuted"


def test_faults_that_cancel_each_other_are_found_in_their_stages():
    """The whole keeps its map: the first stage doubles records, and the map of the second is three times too large."""
    doubles = CLAMP._replace(call=lambda data: [min(max(x, 0), 5) for x in data for _ in range(2)])
    found = audit_map([doubles, TOTAL._replace(map=lambda d: 15 * d)], **FEW)
    assert found.findings == ()
    assert found.broken_stages == [1]
    assert found.refuted


def test_stages_that_do_not_fit_together_are_not_audited_together():
    """A pipeline states nothing if a stage has inputs outside its domain, or under another metric."""
    found = audit_map([CLAMP._replace(call=list), TOTAL], **FEW)
    assert found.verdict == "inconsistent"
    assert found.pairs == 0
    assert "not in the input domain of stage 2" in found.joints[0]
    ordered = TOTAL._replace(input_metric="InsertDeleteDistance")
    assert "and stage 2 has inputs under InsertDeleteDistance" in audit_map([CLAMP, ordered], **FEW).joints[0]


@pytest.mark.parametrize(("stages", "said"), [([], "at least one stage"), ([NOISE, TOTAL], "only the last stage")])
def test_what_is_no_pipeline_is_refused(stages, said):
    with pytest.raises(AuditError, match=said):
        audit_map(stages)


MINE = """
from epsaudit.tools.maps import Adapter, Atom, Vector
INTS = Vector(Atom("int", 0, 5))

class Shift:
    input_domain, input_metric, output_metric = INTS, "SymmetricDistance", "SymmetricDistance"
    map = staticmethod(lambda d: d)
    def __call__(self, data):
        return data

class Total(Shift):
    output_metric = "AbsoluteDistance"
    map = staticmethod(lambda d: 3 * d)
    def __call__(self, data):
        return sum(data)

def make():
    return [Shift(), Total()]
"""


def test_a_pipeline_is_made_in_another_process_and_its_script_shows_the_stage(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    assert main(["map", "mine:make", "--pairs", "200", "--seed", "1", "--script", "shows.py"]) == 1
    assert "stage 2 of 2: refuted" in capsys.readouterr().out
    script = (tmp_path / "shows.py").read_text()
    assert "[1]  # stage 2 of 2" in script
    monkeypatch.syspath_prepend(str(tmp_path))
    exec(compile(script, "shows.py", "exec"), {})
    outputs = [int(line) for line in capsys.readouterr().out.split()]
    assert abs(outputs[0] - outputs[1]) == 5
    sys.modules.pop("mine", None)
