"""Files conform to their schemas, and any other file is refused by one sentence that names the field."""

import copy
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small import kinds

from epsaudit import AuditError, PureDP, codec
from epsaudit.audits.sequential.record import StrategyRecord
from epsaudit.audits.verify import load
from epsaudit.bounds.certificates import Box, MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import ZCDP, ApproxDP, ApproxZCDP, GaussianDP, RenyiDP, TradeOff
from epsaudit.experiments.studies import stamp, write_data
from epsaudit.results.result import save
from epsaudit.running.provenance import provenance
from epsaudit.tools.cli.main import main

RESULTS = Path(__file__).parents[2] / "results"
SCHEMAS = {"provenance", "data", "timings"}
"""Names of files that are not of results; all others in results/ are, or facts and rows as in data.json."""


def schema_of(path):
    if path.stem in SCHEMAS:
        return path.stem
    return "results" if "schema" in json.loads(path.read_text(encoding="utf-8")) else "data"


def stored_files():
    return sorted(RESULTS.rglob("*.json"))


def test_stored_files_are_as_their_schemas_say():
    assert len(stored_files()) > 40
    wrong = {}
    for path in stored_files():
        try:
            codec.check_schema(json.loads(path.read_text(encoding="utf-8")), schema_of(path))
        except AuditError as error:
            wrong[path] = f"{path.relative_to(RESULTS)}: {error}"
    assert not wrong


def test_stored_results_are_read_and_follow_from_their_counts():
    assert len(load(RESULTS / "audit.json")) > 100


@pytest.fixture(scope="module")
def found():
    """The JSON objects of a result of each kind of audit, and of results with one event and with two events."""
    names = ("fixed", "sequential", "one run")
    return {
        name: json.loads(json.dumps(result.to_dict())) for name, result in zip(names, kinds().values(), strict=True)
    }


def written(folder, *items):
    path = folder / "audit.json"
    path.write_text(json.dumps({"schema": 1, "results": list(items)}), encoding="utf-8")
    return path


def changed(item, path, value):
    """Return a copy with another value at a path such as 'counts.runs_x'; the value ... removes the field."""
    item = copy.deepcopy(item)
    parent = item
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for key in way:
        parent = parent[key]
    if value is ...:
        del parent[last]
    else:
        parent[last] = value(parent[last]) if callable(value) else value
    return item


def test_files_that_are_written_now_are_as_their_schemas_say(found, tmp_path):
    save(kinds().values(), tmp_path / "audit.json")
    write_data(tmp_path, [{"runs": 3, "bound": np.inf}], seed=0, confidence=0.95)
    stamp(tmp_path, {"seed": 1, **provenance()}, 1.0)
    for path in tmp_path.glob("*.json"):
        codec.check_schema(json.loads(path.read_text(encoding="utf-8")), schema_of(path))
    assert load(written(tmp_path, *found.values()))


FIXED = [
    ("mechanism", ...),
    ("confidence", 0.2),
    ("claim.epsilon", ...),
    ("pair.x", [1]),
    ("trials", 10**400),
    ("training_runs", 3_999),
    ("counts.guess_x_on_x", 10**6),
    ("witness.guess_x", {"kind": "Region"}),
    ("lower_bound", "inf"),
    ("verdict", lambda said: {"violated": "consistent", "consistent": "violated"}[said]),
    ("execution", {"seconds": "long"}),
    ("comment", "hello"),
]
SEQUENTIAL = [
    ("rounds.0.strategies", []),
    ("rounds.0.strategies.0.counts.runs_x", 10**6),
    ("stopped", "tired"),
    ("log_evidence", 99.0),
]
ONE_RUN = [("canaries", 3), ("counts.0.correct_in", ...), ("delta_lower", 0.5)]
MALFORMED = [
    (kind, path, value)
    for kind, cases in (("fixed", FIXED), ("sequential", SEQUENTIAL), ("one run", ONE_RUN))
    for path, value in cases
]


SAID = {
    "trials": "trials|runs in all",
    "training_runs": "training_runs|runs",
    "witness": "witness|event",
    "counts": "counts|seen|runs|GuessCounts|lower_bound",
}
"""What a sentence may call a field of a file, where it is not by its name."""


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    MALFORMED,
    ids=[f"{kind} {path} {place}" for place, (kind, path, _) in enumerate(MALFORMED)],
)
def test_what_is_malformed_or_edited_is_refused_in_one_sentence_that_names_the_field(
    found, tmp_path, capsys, kind, path, value
):
    file = written(tmp_path, found[kind], changed(found[kind], path, value))
    assert main(["report", str(file), "--csv"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "results[1]" in told.err
    assert len(told.err) < 400
    named = [SAID.get(part, part) for part in path.split(".") if not part.isdigit()]
    assert re.search("|".join(named), told.err)


@pytest.mark.parametrize("kind", ["fixed", "sequential", "one run"])
def test_a_field_given_twice_is_refused(found, tmp_path, capsys, kind):
    """JSON readers differ in which of two values they use."""
    file = written(tmp_path, found[kind])
    file.write_text(file.read_text().replace('"lower_bound":', '"lower_bound": 7.0, "lower_bound":'), encoding="utf-8")
    for options in (["report", str(file), "--csv"], ["verify", str(file)]):
        assert main(options) == 2
        assert "the field 'lower_bound' is given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
     "", "[]", "{", "3", "null", '{"schema": 1}', '{"schema": 2, "results": []}', '{"schema": 1, "results": {}}',
     '{"schema": 1, "results": [3]}', '{"schema": 1, "results": [[]]}', '{"schema": 1, "results": [], "more": 1}',
     '{"schema": 1, "results": [NaN]}', "[" * 100_000, '{"schema": 1, "results": []',
     "\x00", '{"schema": "1", "results": []}'],
)  # fmt: skip
def test_what_is_no_result_file_is_refused_in_one_sentence(tmp_path, capsys, text):
    path = tmp_path / "audit.json"
    path.write_text(text, encoding="utf-8")
    for command in (["report", str(path), "--csv"], ["verify", str(path)], ["compare", str(path), str(path)]):
        assert main(command) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.count("\n") == 1
        assert "audit.json" in told.err


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=2) | st.dictionaries(st.text(max_size=3), parts, max_size=2),
    max_leaves=4,
)


def paths(node, way=()):
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield (*way, str(key))
        yield from paths(node[key], (*way, str(key)))


@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("kind", ["fixed", "sequential", "one run"])
def test_whatever_stands_in_a_field_is_refused_or_changes_no_bound(found, tmp_path, kind, data):
    item = found[kind]
    path = data.draw(st.sampled_from([".".join(way) for way in paths(item) if not any("." in key for key in way)]))
    other = changed(item, path, data.draw(JSON))
    try:
        (read,) = load(written(tmp_path, other))
    except AuditError as error:
        told = str(error)
    else:
        told = ""
    assert "\n" not in told
    if told:
        return
    assert read.lower_bound == item["lower_bound"]
    assert read.verdict == item["verdict"]


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("claim", [PureDP, ApproxDP, ZCDP, RenyiDP, GaussianDP, ApproxZCDP, TradeOff]),
        ("certificate", [MembershipGame, Box]),
        ("counts", [Counts]),
        ("strategy", [StrategyRecord]),
    ],
)
def test_schemas_and_classes_name_the_same_fields(name, classes):
    definition = codec.schema("results")["definitions"][name]
    fields = {field.name for one in classes for field in dataclasses.fields(one) if field.init}
    assert set(definition["properties"]) - {"kind"} == fields
    kinds = definition["properties"].get("kind", {}).get("enum", [])
    assert kinds == ([one.__name__ for one in classes] if len(classes) > 1 else [])
