"""Clients: what those in other languages say over the protocol is audited, and all frozen tests refute and pass.

A language whose toolchain is missing is skipped; Python's client needs none, and is tested every day.
"""

import ast
import dataclasses
import importlib.util
import json
import math
import re
import shutil
import subprocess
import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit_sequentially, command
from epsaudit.outputs.as_json import from_json
from epsaudit.outputs.normal_form import pack
from epsaudit.testing import frozen

CLIENTS = Path(__file__).parents[2] / "docs" / "clients"
PAIR = DatasetPair(("ann",), ("ann", "bob"))
BUILDS = {
    "cpp": ("g++", ["g++", "-std=c++17", "-Wall", "-Werror", "-o", "{out}/example", "example.cpp"]),
    "java": ("javac", ["javac", "-Xlint:all", "-Werror", "-d", "{out}", "Epsaudit.java", "Example.java"]),
}
RUNS = {
    "cpp": ["{out}/example"],
    "java": ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", "{out}", "Example"],
}
EVERY_NIGHT = [pytest.param(name, marks=pytest.mark.nightly) for name in RUNS]
REFUSED = [
    {"version": 2}, {"epsaudit": "result"}, {"combine": "median"}, {"bets": [[1.5, 1.0]]}, {"bets": [[0.0, 1.0]]},
    {"bets": [[0.5, 0.6], [0.25, 0.6]]}, {"bets": [[0.5, 2.0], [0.25, -1.5]]}, {"bets": []}, {"epsilon": None},
    {"epsilon": -1.0}, {"delta": None}, {"delta": -0.1}, {"false_alarm": 1.0}, {"false_alarm": 0.0}, {"runs": 0},
]  # fmt: skip
"""Changes of a file that make it no valid test, or one without power."""


def client_of_python():
    """The file itself, as a module."""
    spec = importlib.util.spec_from_file_location("epsaudit_frozen", CLIENTS / "python" / "epsaudit_frozen.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


CLIENT = client_of_python()


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Function of a language: the words that run its example, which is built once."""
    built = {}

    def words(language):
        if language not in built:
            tool, build = BUILDS[language]
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed on this machine")
            out = tmp_path_factory.mktemp(language)
            subprocess.run([word.format(out=out) for word in build], cwd=CLIENTS / language, check=True)
            built[language] = [word.format(out=out) for word in RUNS[language]]
        return built[language]

    return words


@pytest.mark.parametrize("language", EVERY_NIGHT)
def test_the_protocol_carries_the_noise(example, language):
    def audited(which):
        name = f"{language}, {which}"
        mechanism = command(
            [*example(language), "serve", which], folder=CLIENTS / language, name=name, claim=PureDP(1.0), pairs=[PAIR]
        )
        return audit_sequentially(mechanism, trials=4_000, confidence=1 - 1e-6, seed=1)

    assert audited("half").violates_claim
    right = audited("right")
    assert right.reproducible
    assert right.lower_bound <= 1.0


@pytest.mark.parametrize("language", EVERY_NIGHT)
def test_datasets_and_outputs_are_read_and_written_as_json(example, language):
    """What stands for a record counts as one, whatever JSON it is; the right noise has mean 0 and scale 1."""
    data = '["a\\\\\\"]\\u00e9\\ud83d\\ude00", {"k": [1, null, true]}, -1.5e-3, [], 1e-320, 1000000000000000000000, -0]'
    request = '{"dataset": %s, "size": 4000, "seed": %d}\n'
    asked = request % (data, 2**53 - 1) + request % ("[]", 7)
    said = subprocess.run(
        [*example(language), "serve", "right"], cwd=CLIENTS / language, input=asked, capture_output=True, text=True,
        check=True,
    ).stdout.splitlines()  # fmt: skip
    assert json.loads(said[0]) == {"epsaudit": 1, "seeded": True}
    numbers = [float(line) for line in said[1:]]
    assert len(numbers) == 8000
    for found, mean in ((numbers[:4000], 7.0), (numbers[4000:], 0.0)):
        assert abs(sum(found) / 4000 - mean) < 6 * math.sqrt(2 / 4000)
        assert abs(sum(abs(one - mean) for one in found) / 4000 - 1.0) < 6 / math.sqrt(4000)


@pytest.mark.parametrize("language", EVERY_NIGHT)
def test_its_example_refutes_half_the_noise_and_passes_the_right_one(example, language):
    subprocess.run(example(language), cwd=CLIENTS / language, check=True)


@pytest.mark.parametrize("language", EVERY_NIGHT)
def test_a_check_fails_for_half_the_noise_alone(example, language):
    """So the runner of before would have failed for a client that refutes nothing, or everything."""
    status = [
        subprocess.run([*example(language), "check", which, "../count.json"], cwd=CLIENTS / language).returncode
        for which in ("right", "half")
    ]
    assert status[0] == 0
    assert status[1] != 0


@pytest.mark.parametrize("language", EVERY_NIGHT)
def test_every_language_refuses_by_one_sentence_what_is_no_valid_test(example, language, tmp_path):
    path = tmp_path / "witness.json"
    data = json.loads((CLIENTS / "count.json").read_text(encoding="utf-8"))
    path.write_text(json.dumps(data | {"bets": [[0.3, 0.5], [0.5, 0.5 + 5e-10]]}), encoding="utf-8")
    words = [*example(language), "check", "right", str(path)]
    allowed = subprocess.run(words, cwd=CLIENTS / language, capture_output=True, text=True, check=True)
    assert "not refuted by 20000 runs" in allowed.stdout
    ran = []
    for change in REFUSED:
        path.write_text(json.dumps(data | change), encoding="utf-8")
        with pytest.raises(ValueError, match=r"\.$") as of_python:
            CLIENT.read(path)
        sentence = re.sub(r" \(.*\)\.$", ".", str(of_python.value))
        done = subprocess.run(words, cwd=CLIENTS / language, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode == 0 or sentence not in said or "refuted" in said:
            ran.append((change, sentence, said))
    assert ran == []


FIRST_NUMBER = {
    "cpp": """
#include "epsaudit.hpp"
int main() {
    std::cout << epsaudit::check(epsaudit::frozen("witness.json"), 1, [](const epsaudit::Json& data, epsaudit::Rng&) {
        double first = data.parts[0].value;
        return data.parts[1]["age"].value == first ? epsaudit::Json(first) : epsaudit::Json();
    });
}
""",
    "java": """
import java.util.*;
public final class Example {
    public static void main(String[] words) throws Exception {
        System.out.println(Epsaudit.check(Epsaudit.frozen("witness.json"), 1, (data, rng) -> {
            List<?> parts = (List<?>) data;
            return ((Map<?, ?>) parts.get(1)).get("age").equals((Double) parts.get(0)) ? parts.get(0) : null;
        }));
    }
}
""",
}
"""Programs that run a frozen test on the first number of a dataset, if its second part is an object with the same."""


@pytest.mark.nightly
@pytest.mark.parametrize("language", sorted(FIRST_NUMBER))
def test_numbers_that_json_lacks_are_numbers_in_datasets(language, tmp_path):
    """Every guess is right, so that the first look refutes."""
    tool, build = BUILDS[language]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed on this machine")
    for file in (CLIENTS / language).glob("[Ee]psaudit.*"):
        shutil.copy(file, tmp_path)
    source = {"cpp": "example.cpp", "java": "Example.java"}[language]
    (tmp_path / source).write_text(FIRST_NUMBER[language], encoding="utf-8")
    sides = {"x": [-math.inf, {"age": -math.inf}], "x_prime": [math.inf, {"age": math.inf}]}
    dataclasses.replace(frozen.read(CLIENTS / "count.json"), false_alarm=1e-3, **sides).save(tmp_path / "witness.json")
    words = [word.format(out=tmp_path) for word in build if word != "-Werror"]
    subprocess.run(words, cwd=tmp_path, check=True)
    words = [word.format(out=tmp_path) for word in RUNS[language]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "refuted after 64 runs, 64 guessed right and 0 wrong" in done.stdout + done.stderr


@pytest.mark.parametrize("language", [*EVERY_NIGHT, "python"])
@pytest.mark.parametrize("combine", ["sum", "max"])
def test_every_language_guesses_and_bets_as_epsaudit_does(example, language, combine, tmp_path):
    test = several(combine)
    rows = outputs_of(test)
    lines = [json.dumps([_odd(one) for one in row]) for row in rows.tolist()]
    lines += ["3.5", "null", "[1.0, 2.0]", '"y"', "[1, true, false]", '[1, null, "y"]', "[0, 1e-320, -0.0]"]
    expected = guessed_alike(test, lines, example, language, tmp_path)
    assert expected[: len(rows)] == test.guesses(rows).tolist()
    assert expected[len(rows) :][:4] == [0, 0, 0, 0]
    assert set(expected) == {-1, 0, 1}


@pytest.mark.parametrize("language", [*EVERY_NIGHT, "python"])
def test_every_language_reads_odd_outputs_as_epsaudit_does(example, language, tmp_path):
    """A number of one term with knots, which has a value for what is no number; nothing is ever a guess of x'."""
    lines = [
        "null", '"y"', "true", "false", "[1.0]", "[true]", "[null]", "[]", "[[1.0]]", "-0.0", "-0", "1e-320", "1e308",
        str(10**30), str(-(10**30)), '{"float": "-inf"}', '{"float": "inf"}', '{"float": "nan"}', '{"set": [1.0]}',
    ]  # fmt: skip
    term = {"coordinate": 0, "knots": [0.0, 1.0], "values": [1.0, 2.0], "below": 3.0, "above": 4.0, "missing": 5.0}
    seen = []
    for low, high in ((1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0)):
        test = dataclasses.replace(
            frozen.read(CLIENTS / "count.json"), terms=(term,), guess_x=((low, high, True, True),), guess_x_prime=()
        )
        seen.append(guessed_alike(test, lines, example, language, tmp_path))
    found = np.array(seen).T @ [1, 2, 3, 4, 5]
    assert found.tolist() == [5, 5, 2, 1, 2, 2, 5, 0, 5, 1, 1, 1, 2, 2, 1, 3, 4, 5, 5]


def guessed_alike(test, lines, example, language, folder):
    """What epsaudit guesses of these outputs, of which the client guesses the same and has the same wealth."""
    test.save(folder / "witness.json")
    outputs = [from_json(json.loads(line)) for line in lines]
    expected = test.guesses(pack(outputs)).tolist()
    tally = [expected.count(kind) for kind in (1, -1, 0)]
    if language == "python":
        client = CLIENT.read(folder / "witness.json")
        guesses, wealth = list(map(client.guess, outputs)), client.log_wealth(tally)
    else:
        done = subprocess.run(
            [*example(language), "guess", str(folder / "witness.json")],
            cwd=CLIENTS / language, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True,
        )  # fmt: skip
        guesses, wealth = map(json.loads, done.stdout.splitlines())
    assert guesses == expected
    assert wealth == pytest.approx(float(test.log_wealth(tally)), rel=1e-9)
    return expected


def several(combine):
    """A frozen test of three coordinates with all that the format has."""
    test = frozen.read(CLIENTS / "count.json")
    odd = {"below": -4.0, "above": 4.0, "missing": 1.0}
    terms = (
        {"coordinate": 2, "slope": -0.5},
        {"coordinate": 0, "slope": 2.0},
        {"coordinate": 1, "knots": [-1.0, 0.0, 2.0], "values": [0.5, -1.0, 3.0], **odd},
    )
    return dataclasses.replace(
        test, coordinates=3, combine=combine, terms=terms, delta=0.1,
        guess_x=((-math.inf, -1.0, True, False), (4.0, 4.0, True, True), (5.0, 6.0, False, True)),
        guess_x_prime=((1.0, 3.0, True, True), (5.5, 7.0, True, True)),
    )  # fmt: skip


def outputs_of(test):
    """Outputs of every kind, also at ends of intervals and of knots."""
    rng = np.random.default_rng(1)
    rows = rng.normal(scale=2.0, size=(400, 3)).round(1)
    rows[rng.random(rows.shape) < 0.1] = 0.0
    for odd in (np.nan, np.inf, -np.inf):
        rows[rng.random(rows.shape) < 0.03] = odd
    return rows


def _odd(number):
    return number if math.isfinite(number) else {"float": repr(number)}


@pytest.mark.parametrize("name", ["java/Epsaudit.java", "cpp/epsaudit.hpp", "python/epsaudit_frozen.py"])
def test_a_client_has_at_most_200_lines_and_no_dependency(name):
    lines = (CLIENTS / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 200
    assert max(map(len, lines)) <= 120
    if name.endswith(".py"):
        nodes = list(ast.walk(ast.parse("\n".join(lines), feature_version=(3, 8))))
        names = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
        names |= {node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
        assert names <= sys.stdlib_module_names


class TestPython:
    """What the other clients leave to their languages: verdicts, outputs of libraries, files that are refused."""

    def test_its_example_refutes_and_passes_without_any_package(self):
        words = [sys.executable, "-B", "-S", "-m", "unittest", "example_test"]
        done = subprocess.run(words, cwd=CLIENTS / "python", capture_output=True, text=True, check=True)
        assert "Ran 2 tests" in done.stderr
        assert sorted("not refuted" in line for line in done.stdout.splitlines()) == [False, True]

    @pytest.mark.parametrize("scale", [1.0, 0.5, 0.8, 2.0])
    @pytest.mark.parametrize("runs", [310, 20_000])
    def test_its_verdict_is_that_of_epsaudit_on_the_same_runs(self, scale, runs, tmp_path):
        """The looks at the wealth, the runs until a refutation, the sentence, its warning; 310 refute at their end."""
        test = dataclasses.replace(frozen.read(CLIENTS / "count.json"), runs=runs)
        test.save(tmp_path / "witness.json")
        drawn = []

        def mechanism(data, rng):
            noise = scale * (rng.expovariate(1.0) - rng.expovariate(1.0))
            drawn.append((data, None if len(drawn) % 50 == 7 else len(data) + noise))
            return drawn[-1][1]

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                said, refuted = CLIENT.read(tmp_path / "witness.json").check(mechanism, seed=1), False
            except CLIENT.Refuted as error:
                said, refuted = str(error), True
        sides = np.array([1 if data == ("ann",) else -1 for data, _ in drawn])
        right = sides * test.guesses(pack([output for _, output in drawn]))
        looks = [*range(64, len(drawn) + 1, 64), *([len(drawn)] if len(drawn) % 64 else [])]
        tallies = [[int(np.sum(right[:look] == kind)) for kind in (1, -1, 0)] for look in looks]
        won = [bool(test.log_wealth(tally) >= -math.log(test.false_alarm)) for tally in tallies]
        assert won == [False] * (len(looks) - 1) + [refuted]
        assert refuted or len(drawn) == runs
        verdict = frozen.Verdict(test, refuted, tuple(tallies[-1]))
        assert said == str(verdict)
        assert [(type(one.message), str(one.message)) for one in caught] == (
            [(CLIENT.PowerWarning, said)] if verdict.stale else []
        )
        assert abs(np.sum(sides)) < 6 * math.sqrt(len(drawn))

    def test_outputs_of_libraries_are_read_as_epsaudit_does(self):
        whole = frozen.read(CLIENTS / "count.json")
        one = [
            2, True, np.float64(2), np.float32(2.5), np.int64(1), np.bool_(True), np.array(3.0), np.array([3.0]),
            np.array([[3.0]]), [np.array(3.0)], [np.array([3.0])], Decimal("0.5"), Decimal("nan"),
            Fraction(7, 2), 10**400, -(10**400), "3", b"3", None, {"a": 3.0}, {3.0}, (), [3.0, 3.0], np.array([]),
            np.array(["3"]), np.array([None]), [[3.0]], 3 + 1j, np.ma.array([1.0], mask=[True]),
        ]  # fmt: skip
        two = [
            np.array([1.0, 2.0]), np.array([[1.0], [2.0]]), np.array([[1.0, 2.0]], order="F"), [1, Decimal(2)],
            (np.float32(1), np.int8(2)), [1, None], np.array([1, 2], np.uint8), [[1.0, 2.0]], [[1.0], [2.0]], 1.0,
        ]  # fmt: skip
        terms = ({"coordinate": 0, "slope": 1.0}, {"coordinate": 1, "slope": 1.0})
        odd = {"knots": [0.0], "values": [1.0], "below": 1.0, "above": 3.0, "missing": 3.0}
        missing = dataclasses.replace(whole, terms=({"coordinate": 0, **odd},))
        pairs = dataclasses.replace(whole, coordinates=2, terms=terms)
        for test, outputs in ((whole, one), (missing, one), (pairs, two)):
            client = CLIENT.FrozenTest(**dataclasses.asdict(test))
            expected = [int(test.guesses(pack([output]))[0]) for output in outputs]
            assert list(map(client.guess, outputs)) == expected
            assert len(set(expected)) > 1

    @pytest.mark.parametrize(
        "change",
        [
            *REFUSED, {"terms": None}, {"terms": []}, {"terms": [{"coordinate": 1, "slope": 1.0}]}, {"more": 1},
            {"terms": [{"coordinate": 0}]}, {"terms": [{"coordinate": 0, "knots": [0.0], "values": [1.0]}]},
            {"terms": [{"coordinate": 0, "knots": [0.0], "values": [1.0, 2.0], "below": 0, "above": 0, "missing": 0}]},
            {"guess_x_prime": [[0.0, 1.0]]}, {"learnt": [None, 1, 1]}, {"runs": 1.5},
        ],
        ids=str,
    )  # fmt: skip
    def test_it_refuses_the_files_that_epsaudit_refuses(self, change, tmp_path):
        path = tmp_path / "witness.json"
        data = json.loads((CLIENTS / "count.json").read_text(encoding="utf-8"))
        path.write_text(json.dumps(data | change), encoding="utf-8")
        said = []
        for read, kind in ((frozen.read, AuditError), (CLIENT.read, ValueError)):
            with pytest.raises(kind, match=r"is not a frozen test of version 1|bets what no claim allows") as refused:
                read(path)
            said.append(str(refused.value).split(" (")[0])
        assert said[0] == said[1]

    @pytest.mark.parametrize(
        "change",
        [{"terms": [{"coordinate": -1, "slope": 1.0}]}, {"epsilon": 1e4}, {"learnt": [1, 2]}],
        ids=str,
    )
    def test_it_refuses_what_the_format_has_not(self, change, tmp_path):
        data = json.loads((CLIENTS / "count.json").read_text(encoding="utf-8"))
        (tmp_path / "witness.json").write_text(json.dumps(data | change), encoding="utf-8")
        with pytest.raises(ValueError, match=r"witness.json is not a frozen test of version 1 \(.+\)\.$"):
            CLIENT.read(tmp_path / "witness.json")

    def test_no_run_sees_what_another_did_to_its_dataset(self, tmp_path):
        data = {"x": [[1.0, {"float": "inf"}]], "x_prime": [{"name": "ann", "ages": [1, 2]}]}
        dataclasses.replace(frozen.read(CLIENTS / "count.json"), runs=64, **data).save(tmp_path / "witness.json")
        seen = []

        def mechanism(data, rng):
            seen.append(repr(data))
            if isinstance(data[0], dict):
                data[0].clear()
            return 1.5

        with pytest.warns(CLIENT.PowerWarning):
            CLIENT.read(tmp_path / "witness.json").check(mechanism, seed=1)
        assert set(seen) == {"((1.0, inf),)", "({'name': 'ann', 'ages': (1, 2)},)"}

    @pytest.mark.parametrize("tally", [[0, 10**6, 0], [10**6, 0, 0], [0, 0, 0]], ids=str)
    def test_wealth_is_lost_cut_off_and_begins_as_in_epsaudit(self, tally):
        path = CLIENTS / "count.json"
        expected = float(frozen.read(path).log_wealth(tally))
        assert CLIENT.read(path).log_wealth(tally) == pytest.approx(expected, rel=1e-9, abs=1e-12)

    def test_what_was_learnt_from_no_run_is_not_stale(self):
        test = dataclasses.replace(CLIENT.read(CLIENTS / "count.json"), learnt=[0, 0, 0], runs=10)
        assert test.check(lambda data, rng: 0.0, seed=1).endswith(" wrong")
