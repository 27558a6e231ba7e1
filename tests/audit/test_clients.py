"""Clients in other languages: what they say over the protocol is audited, and their frozen tests refute and pass.

A language whose toolchain is missing is skipped.
"""

import math
import shutil
import subprocess
from pathlib import Path

import pytest

from epsaudit import DatasetPair, PureDP, audit_sequentially, command

CLIENTS = Path(__file__).parents[2] / "docs" / "clients"
PAIR = DatasetPair(("ann",), ("ann", "bob"))
BUILDS = {
    "rust": ("rustc", ["rustc", "--edition", "2021", "-Cdebuginfo=0", "-o", "{out}/example", "example.rs"]),
    "cpp": ("g++", ["g++", "-std=c++17", "-Wall", "-Werror", "-o", "{out}/example", "example.cpp"]),
    "java": ("javac", ["javac", "-Xlint:all", "-Werror", "-d", "{out}", "Epsaudit.java", "Example.java"]),
}
RUNS = {
    "rust": ["{out}/example"],
    "cpp": ["{out}/example"],
    "java": ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", "{out}", "Example"],
}
EVERY_NIGHT = [pytest.param(name, marks=pytest.mark.nightly) for name in RUNS]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Function of a language: the words that run its example, which is built once."""
    built = {}

    def words(language):
        if language not in built:
            tool, build = BUILDS.get(language, (RUNS[language][0], None))
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed on this machine")
            out = tmp_path_factory.mktemp(language)
            if build is not None:
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
    data = '["a\\\\\\"]\\u00e9\\ud83d\\ude00", {"k": [1, null, true]}, -1.5e-3, []]'
    request = '{"dataset": %s, "size": 4000, "seed": %d}\n'
    asked = request % (data, 2**53 - 1) + request % ("[]", 7)
    said = subprocess.run(
        [*example(language), "serve", "right"], cwd=CLIENTS / language, input=asked, capture_output=True, text=True,
        check=True,
    ).stdout.splitlines()  # fmt: skip
    assert said[0] == '{"epsaudit": 1, "seeded": true}'
    numbers = [float(line) for line in said[1:]]
    assert len(numbers) == 8000
    for found, mean in ((numbers[:4000], 4.0), (numbers[4000:], 0.0)):
        assert abs(sum(found) / 4000 - mean) < 6 * math.sqrt(2 / 4000)
        assert abs(sum(abs(one - mean) for one in found) / 4000 - 1.0) < 6 / math.sqrt(4000)
