"""Clients: what those in other languages say over the protocol is audited, and all frozen tests refute and pass.

A language whose toolchain is missing is skipped; Python's client needs none, and is tested every day.
"""

import dataclasses
import importlib.util
import json
import math
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from epsaudit import DatasetPair, PureDP, audit_sequentially, command
from epsaudit.bounds.counts import Counts
from epsaudit.outputs.arrays import pack
from epsaudit.outputs.json_form import output_from_json
from epsaudit.tools.testing import frozen

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
EVERY_LANGUAGE = [pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
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


@pytest.mark.parametrize("language", EVERY_LANGUAGE)
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


@pytest.mark.parametrize("language", EVERY_LANGUAGE)
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


@pytest.mark.parametrize("language", EVERY_LANGUAGE)
def test_its_example_refutes_half_the_noise_and_passes_the_right_one(example, language):
    subprocess.run(example(language), cwd=CLIENTS / language, check=True)


@pytest.mark.parametrize("language", EVERY_LANGUAGE)
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


@pytest.mark.parametrize("language", [*EVERY_LANGUAGE, "python"])
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


def counts_of(tally):
    """Return the counts of a client's numbers of correct, wrong and missing guesses."""
    return Counts.of_outcomes(sum(tally), *tally[:2])


def guessed_alike(test, lines, example, language, folder):
    """What epsaudit guesses of these outputs, of which the client guesses the same and has the same wealth."""
    test.save(folder / "witness.json")
    outputs = [output_from_json(json.loads(line)) for line in lines]
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
    assert wealth == pytest.approx(float(test.log_wealth(counts_of(tally))), rel=1e-9)
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
        won = [bool(test.log_wealth(counts_of(tally)) >= -math.log(test.false_alarm)) for tally in tallies]
        assert won == [False] * (len(looks) - 1) + [refuted]
        assert refuted or len(drawn) == runs
        verdict = frozen.Verdict(test, refuted, counts_of(tallies[-1]))
        assert said == str(verdict)
        assert [(type(one.message), str(one.message)) for one in caught] == (
            [(CLIENT.PowerWarning, said)] if verdict.stale else []
        )
        assert abs(np.sum(sides)) < 6 * math.sqrt(len(drawn))

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
        expected = float(frozen.read(path).log_wealth(counts_of(tally)))
        assert CLIENT.read(path).log_wealth(tally) == pytest.approx(expected, rel=1e-9, abs=1e-12)
