"""The audit of all constructors, on a small library with the names of OpenDP: two are wrong, one ends its process."""

import json
import time

import pytest

from epsaudit import AuditError
from epsaudit.tools.cli import SURPRISED
from epsaudit.tools.cli.main import main
from epsaudit.tools.maps import every_constructor
from epsaudit.tools.maps.every_constructor import _audit_constructor, _open, _Restarted, audit_constructors
from epsaudit.tools.maps.opendp_constructors import is_space
from epsaudit.tools.maps.result import MapAudit

LIBRARY = '''
import os
import types

from epsaudit.tools.maps.domains import Atom, Mapping, Vector
from epsaudit.tools.maps.subject import Adapter

KINDS = {int: "int", float: "float", str: "str", bool: "bool"}


def enable_features(*names):
    pass


def atom_domain(T, bounds=(None, None), nan=False):
    return Atom(KINDS.get(T, T), *bounds, nan=nan)


def vector_domain(atom, size=None):
    return Vector(atom, size)


def symmetric_distance():
    return "SymmetricDistance"


def insert_delete_distance():
    return "InsertDeleteDistance"


class Made:
    def __init__(self, domain, metric, call, map, output_metric):
        self.input_domain, self.input_metric, self.map = domain, metric, map
        self.output_metric, self.call = output_metric, call

    def __call__(self, data):
        return self.call(data)


def make_sum(input_domain, input_metric):
    """The bug: a record may move the sum by the lower bound as well."""
    low, high = input_domain.atom.low, input_domain.atom.high
    return Made(input_domain, input_metric, sum, lambda d: d * high, "AbsoluteDistance")


def make_count(input_domain, input_metric):
    return Made(input_domain, input_metric, len, lambda d: d, "AbsoluteDistance")


def make_resize(input_domain, input_metric, size, constant, MO="SymmetricDistance"):
    if MO not in ("SymmetricDistance", "InsertDeleteDistance") or input_domain.size is not None:
        raise ValueError(MO)
    if not isinstance(constant, int) or input_domain.atom.kind != "int":
        raise ValueError(constant)
    return Made(input_domain, input_metric, list, lambda d: d, MO)


def make_crash(input_domain, input_metric):
    if input_domain.atom.kind != "bool":
        raise ValueError(input_domain)
    return Made(input_domain, input_metric, lambda data: os._exit(3), lambda d: d, "AbsoluteDistance")


def make_opaque(expr):
    pass


t = types.SimpleNamespace(
    make_count=make_count, make_crash=make_crash, make_opaque=make_opaque, make_resize=make_resize, make_sum=make_sum
)
m = types.SimpleNamespace()
c = types.SimpleNamespace()
'''


def write_library(folder):
    (folder / "opendp").mkdir()
    (folder / "opendp" / "__init__.py").write_text("")
    (folder / "opendp" / "prelude.py").write_text(LIBRARY)


@pytest.fixture
def library(tmp_path, monkeypatch):
    write_library(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(**given):
    return {one.name: one for one in audit_constructors(None, seconds=3.0, seed=1, **given)}


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """The results by name, the calls of ``progress``, and the lines of the checkpoint of one audit."""
    folder, seen = tmp_path_factory.mktemp("audited"), []
    write_library(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        found = audit(checkpoint=folder / "maps.jsonl", progress=lambda *call: seen.append(call))
    return found, seen, (folder / "maps.jsonl").read_text().splitlines()


def test_all_constructors_are_audited(audited):
    found, seen, lines = audited
    assert seen[0] == (0, 5, "t.make_count")
    assert {name: one.verdict for name, one in found.items()} == {
        "t.make_count": "not refuted",
        "t.make_crash": "not audited",
        "t.make_opaque": "not built",
        "t.make_resize": "refuted",  # the order of a multiset is arbitrary, so the output has no insert-delete distance
        "t.make_sum": "refuted",
    }
    assert "where the map allows" in found["t.make_sum"].smallest
    assert "ended its process" in found["t.make_crash"].found
    assert found["t.make_opaque"].found == "no values are known for expr"
    assert len(lines) == 1 + len(found)


def test_a_checkpoint_is_resumed(library, audited):
    found, _, lines = audited
    file = library / "maps.jsonl"
    file.write_text("\n".join(lines[:-1]) + "\n" + '{"name": "t.make_su')  # stopped while a line was written
    again = audit(checkpoint=file)
    assert {**again, "t.make_sum": None} == {**found, "t.make_sum": None}
    assert again["t.make_sum"].verdict == "refuted"
    assert len(file.read_text().splitlines()) == 6
    assert audit(checkpoint=file) == again


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (json.dumps({"opendp": "0.1"}), r"is of OpenDP 0\.1, and the environment has 0\.2"),
        ("nothing}", "cannot be read as a checkpoint"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(content, refusal, tmp_path):
    file = tmp_path / "maps.jsonl"
    file.write_text(content + "\n")
    with pytest.raises(AuditError, match=refusal):
        _open(file, "0.2")


def test_every_pair_of_metrics_has_an_object(library, monkeypatch):
    """Random combinations of arguments used to miss a pair of metrics, for instance that of make_resize."""
    monkeypatch.syspath_prepend(str(library))
    from epsaudit.tools.maps.opendp_constructors import ConstructorLibrary

    made = ConstructorLibrary().build("t.make_resize")
    assert {(one.input_metric, one.output_metric) for one in made.values()} == {
        (first, second)
        for first in ("SymmetricDistance", "InsertDeleteDistance")
        for second in ("SymmetricDistance", "InsertDeleteDistance")
    }


def test_metrics_are_tried_on_domains_of_their_kind_and_type():
    assert is_space("dp.vector_domain(dp.atom_domain(T=int))", "dp.symmetric_distance()")
    assert is_space("dp.vector_domain(dp.atom_domain(T=int))", "dp.l1_distance(T=int)")
    assert not is_space("dp.vector_domain(dp.atom_domain(T=int))", "dp.l1_distance(T=float)")
    assert not is_space("dp.atom_domain(T=int)", "dp.symmetric_distance()")
    assert is_space("dp.atom_domain(T='u32')", "dp.absolute_distance(T='u32')")


def test_the_command_prints_a_table(library, audited, capsys):
    """The first constructor is audited anew, and the results of the others are in the checkpoint."""
    file = library / "maps.jsonl"
    file.write_text("\n".join([audited[2][0], *audited[2][2:]]) + "\n")
    asked = ["map", "opendp", "--all", "--seconds", "3", "--seed", "1", "--checkpoint", str(file)]
    assert main(asked) == SURPRISED
    said = capsys.readouterr().out
    assert "2 refuted" in said
    assert "no values are known for expr" in said
    assert "objects are refuted. t.make_sum(" in said


def test_the_time_of_processes_that_have_ended_is_counted(library):
    """The operating system counts the time of processes that have ended in steps of 10 ms."""
    steps, asked = 0.05, _Restarted(None)
    try:
        before = asked.processor_time()
        asked._served._process.kill()
        asked._served._process.wait()
        assert asked.processor_time() >= before - steps
        assert asked.restart_if_ended()
        assert asked.processor_time() >= before - steps + asked.ask("processor time")
    finally:
        asked.close()


def test_an_object_that_uses_up_the_time_leaves_the_others_their_share(library, monkeypatch):
    given = []

    def audit_slowly(asked, name, pairs, seconds, *others):
        given.append(seconds)
        ends = time.process_time() + 0.05
        while time.process_time() < ends:
            pass
        return MapAudit(name, "", "", 1)

    monkeypatch.setattr(every_constructor, "audit_subject", audit_slowly)
    asked = _Restarted(None)
    try:
        audited = _audit_constructor(asked, "t.make_sum", 0.08, 1_000, 0.999, 1)
    finally:
        asked.close()
    assert audited.built == len(given) > 2
    assert min(given) == pytest.approx(0.08 / len(given))
