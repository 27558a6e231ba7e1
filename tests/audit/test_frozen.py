"""Frozen tests: learnt once, they refute what leaks, pass what does not, and say when they are stale."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from epsaudit import AuditError, DatasetPair, GaussianDP, PureDP, black_box, frozen, vectorized
from epsaudit.cli.main import main

PAIR = DatasetPair(("ann",), ("ann", "bob"))


def count(scale):
    return vectorized(
        lambda data, size, rng: len(data) + rng.laplace(scale=scale, size=size),
        name="count", claim=PureDP(1.0), pairs=[PAIR],
    )  # fmt: skip


def sums(scale):
    return vectorized(
        lambda data, size, rng: np.array(data) + rng.normal(scale=math.sqrt(3) * scale, size=(size, 3)),
        name="sums", claim=GaussianDP(1.0), pairs=[DatasetPair((0,) * 3, (1,) * 3)],
    )  # fmt: skip


def whole(scale):
    odds = 1.0 - math.exp(-1.0 / scale)
    return vectorized(
        lambda data, size, rng: len(data) + rng.geometric(odds, size=size) - rng.geometric(odds, size=size),
        name="whole", claim=PureDP(1.0), pairs=[PAIR],
    )  # fmt: skip


def smallest(scale):
    """The minimum is all that tells: of ten numbers, a tenth of the noise is on the least."""

    def several(data, size, rng):
        others = rng.uniform(10.0, 11.0, size=(size, 10))
        least = len(data) + rng.laplace(scale=scale, size=size)
        others[np.arange(size), rng.integers(10, size=size)] = least
        return others

    return vectorized(several, name="least", claim=PureDP(1.0), pairs=[PAIR])


@pytest.mark.parametrize("mechanism", [count, sums, whole, smallest])
def test_a_test_learnt_from_the_right_mechanism_refutes_half_the_noise(mechanism, tmp_path):
    """False alarms have a probability below 1e-6 each."""
    frozen.freeze(mechanism(1.0), trials=12_000, seed=1).save(tmp_path / "witness.json")
    test = frozen.read(tmp_path / "witness.json")
    right, half = test.check(mechanism(1.0), seed=2), test.check(mechanism(0.5), seed=2)
    assert not right.refuted
    assert right.runs == 20_000
    assert not right.stale
    assert half.refuted
    assert half.runs < 3_000


def test_false_alarms_are_as_rare_as_they_say():
    """Randomised response attains its claim, so that wealth has mean 1: at 0.2 no more than a fifth is refuted.

    With 150 tests, more than 52 would be refuted with a probability below 1e-5 if a fifth were.
    """
    truth = math.e / (1.0 + math.e)
    response = vectorized(
        lambda data, size, rng: np.where(rng.random(size) < truth, data[0], 1.0 - data[0]),
        name="response", claim=PureDP(1.0), pairs=[DatasetPair((0,), (1,))],
    )  # fmt: skip
    test = frozen.freeze(response, trials=4_000, runs=1_000, false_alarm=0.2, seed=1)
    assert test.learnt[2] == 0
    refuted = sum(test.check(response, seed=seed).refuted for seed in range(150))
    assert 0 < refuted <= 52


def test_other_noise_is_said_to_make_the_test_stale():
    test = frozen.freeze(count(1.0), trials=40_000, seed=1)
    verdict = test.check(count(2.0), seed=1)
    assert (verdict.refuted, verdict.stale) == (False, True)
    assert str(verdict).endswith("stale: the mechanism is not what it was when this was frozen")


def test_datasets_that_json_cannot_tell_are_given_again():
    pair = (np.zeros(3), np.array([0.0, 0.0, 1.0]))

    def total(data, rng):
        return data.sum() + rng.laplace(scale=0.5)  # of an array, not of a tuple

    test = frozen.freeze(total, pair, epsilon=1.0, trials=4_000, seed=1)
    assert test.check(total, pair, seed=1).refuted


def test_what_outputs_a_test_cannot_read_is_refused_in_a_sentence():
    words = black_box(lambda data, rng: "yes" if rng.random() < 0.5 else "no", name="words", pairs=[PAIR])
    with pytest.raises(AuditError, match=r"words gives .*; a frozen test reads numbers, and vectors of numbers"):
        frozen.freeze(words, epsilon=1.0, trials=400, seed=1)


def test_what_nothing_tells_apart_is_refused_in_a_sentence():
    noise = vectorized(lambda data, size, rng: rng.normal(size=size), name="noise", claim=PureDP(1.0), pairs=[PAIR])
    with pytest.raises(AuditError, match="Nothing tells the two datasets apart that a frozen test can write down"):
        frozen.freeze(noise, trials=400, seed=1)


@pytest.mark.parametrize("change", [{"version": 2}, {"bets": [[1.5, 1.0]]}, {"bets": [[0.5, 2.0]]}, {"terms": None}])
def test_a_file_that_is_no_valid_test_is_refused(change, tmp_path):
    data = json.loads((Path(__file__).parents[2] / "docs/clients/count.json").read_text(encoding="utf-8"))
    (tmp_path / "witness.json").write_text(json.dumps(data | change), encoding="utf-8")
    with pytest.raises(AuditError, match=r"is not a frozen test of version 1|bets what no claim allows"):
        frozen.read(tmp_path / "witness.json")


def test_the_command_writes_a_test(tmp_path, capsys):
    out = tmp_path / "witness.json"
    assert main(["freeze", "laplace", "--trials", "4000", "--seed", "1", "--out", str(out)]) == 0
    assert "runs guessed right" in capsys.readouterr().out
    assert frozen.read(out).coordinates == 1
    assert main(["freeze", "--out", str(out)]) == 2
    assert "freeze needs one mechanism" in capsys.readouterr().err
