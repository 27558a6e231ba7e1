"""Frozen tests: learnt once, they refute what leaks, pass what does not, and say when they are stale."""

import dataclasses
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from epsaudit import ZCDP, ApproxDP, AuditError, Claim, DatasetPair, GaussianDP, PureDP, vectorized
from epsaudit.errors import PowerWarning
from epsaudit.outputs.arrays import pack
from epsaudit.tools.cli.main import main
from epsaudit.tools.testing import frozen
from epsaudit.tools.testing.freezing import freeze

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


@pytest.mark.parametrize("mechanism", [count, sums])
def test_a_test_learnt_from_the_right_mechanism_refutes_half_the_noise(mechanism, tmp_path):
    """False alarms have a probability below 1e-6 each."""
    freeze(mechanism(1.0), trials=12_000, seed=1).save(tmp_path / "witness.json")
    test = frozen.read(tmp_path / "witness.json")
    right, half = test.check(mechanism(1.0), seed=2), test.check(mechanism(0.5), seed=2)
    assert not right.refuted
    assert right.runs == 20_000
    assert not right.stale
    assert half.refuted
    assert half.runs < 3_000


TRUTH = math.e / (1.0 + math.e)
BIT = DatasetPair((0,), (1,))


def response(data, size, rng):
    """Randomised response, which attains 1-DP."""
    return np.where(rng.random(size) < TRUTH, data[0], 1.0 - data[0])


def some_refuse(data, size, rng):
    """One run in 700 fails, whatever the data is."""
    outputs = response(data, size, rng).astype(object)
    outputs[rng.random(size) < 1 / 700] = None
    return outputs


def some_tell(data, size, rng):
    """(1, 0.05)-DP, attained: one run in twenty tells the data."""
    return np.where(rng.random(size) < 0.05, 10.0 * data[0] - 5.0, response(data, size, rng))


def odd(data, size, rng):
    """Ties, infinities and NaN in place of numbers."""
    return np.choose(rng.integers(3, size=size), [0.5, np.nan, 1.0]) + np.where(response(data, size, rng), np.inf, 0.0)


def gaussian(data, size, rng):
    return data[0] + rng.normal(size=size)


@dataclasses.dataclass(frozen=True)
class Right:
    """A mechanism with a law: quicker to begin with than a function, whose randomness must be found out."""

    sampled: Callable
    claim: Claim
    data: tuple = ()
    name: str = "right"
    adjacency: None = None

    def __call__(self, data):
        return dataclasses.replace(self, data=data)

    def worst_pairs(self):
        return [BIT]

    def sample(self, size, rng):
        return self.sampled(self.data, size, rng)


ATTAINED = {
    "two events": (response, PureDP(1.0), {}),
    "one event, failures": (some_refuse, PureDP(1.0), {"guess_x_prime": ()}),
    "the other event, failures": (some_refuse, PureDP(1.0), {"guess_x": ()}),
    "delta": (some_tell, ApproxDP(1.0, 0.05), {}),
    "ties and NaN": (odd, PureDP(1.0), {}),
    "a tangent of mu-GDP": (gaussian, GaussianDP(1.0), {}),
    "a tangent of zCDP": (gaussian, ZCDP(0.5), {}),
}


DAILY = ("one event, failures", "delta", "a tangent of mu-GDP")


@pytest.mark.parametrize("case", [pytest.param(one, marks=[pytest.mark.slow] * (one not in DAILY)) for one in ATTAINED])
def test_false_alarms_are_as_rare_as_they_say(case):
    """Each mechanism attains its claim, and at most a twentieth of 200 tests may refute it.

    More than 25 do with a probability below 1e-5. Were one failure to void the guesses of its block, 43 would; without
    delta, all.
    """
    sampled, claim, changes = ATTAINED[case]
    test = freeze(Right(response if changes else sampled, claim), trials=4_000, runs=1_500, false_alarm=0.05, seed=1)
    test = dataclasses.replace(test, **changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PowerWarning)  # a test whose events were changed is stale
        refuted = sum(test.check(Right(sampled, claim), seed=seed).refuted for seed in range(200))
    assert refuted <= binom.isf(1e-5, 200, 0.05)


def test_what_is_guessed_of_an_output_does_not_depend_on_the_others():
    test = frozen.read(Path(__file__).parents[2] / "docs/clients/count.json")
    outputs = np.array([0.0, 3.0, "yes", None, (0.0,), (0.0, 0.0), 2**70, True], object)
    together = test.guesses(outputs)
    assert together.tolist() == [1, -1, 0, 0, 1, 0, -1, 1]
    assert [int(test.guesses(pack([one]))[0]) for one in outputs.tolist()] == together.tolist()


def test_a_coordinate_is_read_of_vectors_and_of_lists_alike():
    test = frozen.read(Path(__file__).parents[2] / "docs/clients/count.json")
    test = dataclasses.replace(test, coordinates=2, terms=({"coordinate": 1, "slope": 1.0},))
    assert test.guesses(np.array([[9.0, 0.0], [-9.0, 3.0]])).tolist() == [1, -1]
    assert test.guesses(pack([(9.0, 0.0), "yes", (-9.0, 3.0), 0.0])).tolist() == [1, 0, -1, 0]


def test_other_noise_is_said_to_make_the_test_stale():
    test = freeze(count(1.0), trials=40_000, seed=1)
    with pytest.warns(PowerWarning, match="stale: the mechanism is not what it was when this was frozen$"):
        verdict = test.check(count(2.0), seed=1)
    assert (verdict.refuted, verdict.stale) == (False, True)


class TestRefusal:
    """What the runs that estimate the rates refute is not frozen."""

    @pytest.mark.parametrize("mechanism", [count, sums])
    def test_half_of_the_noise(self, mechanism):
        with pytest.raises(
            AuditError, match=r"^The runs from which .* would be frozen refute it already: (epsilon|mu) >= 1"
        ):
            freeze(mechanism(0.5), trials=12_000, seed=1)

    def test_an_incorrect_mechanism_is_frozen_if_it_is_declared(self):
        test = freeze(count(0.5), trials=12_000, seed=1, incorrect=True)
        assert test.check(count(0.5), seed=2).refuted

    def test_right_mechanisms_are_not_refused(self):
        """Each of 20 that attain their claim is refused with probability at most 1e-3."""
        for seed in range(20):
            assert freeze(Right(response, PureDP(1.0)), trials=4_000, seed=seed).detectable > 1.0


class TestPower:
    """A test says what it would catch, and warns if it could hardly have failed."""

    def test_it_catches_what_it_says_nine_times_in_ten(self):
        test = freeze(Right(response, PureDP(1.0)), trials=12_000, runs=2_000, seed=1)
        odds = math.exp(test.detectable)

        def leaks(data, size, rng):
            return np.where(rng.random(size) < odds / (1.0 + odds), data[0], 1.0 - data[0])

        assert 1.1 < test.detectable < 1.6
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PowerWarning)  # other odds are stale
            caught = sum(test.check(Right(leaks, PureDP(1.0)), seed=seed).refuted for seed in range(100))
        assert 80 <= caught <= 98  # others have a probability of 3e-3

    def test_a_test_with_few_runs_warns(self):
        test = freeze(count(1.0), trials=12_000, runs=200, seed=1)
        with pytest.warns(PowerWarning, match="could hardly have failed: its runs do not show epsilon = 2 where 1-DP"):
            assert not test.check(count(1.0), seed=1).refuted

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("mechanism", [count, sums])
    def test_a_test_with_enough_runs_does_not(self, mechanism):
        assert not freeze(mechanism(1.0), trials=12_000, seed=1).check(mechanism(1.0), seed=1).refuted


def test_datasets_that_json_cannot_tell_are_given_again():
    pair = (np.zeros(3), np.array([0.0, 0.0, 1.0]))

    def total(data, rng):
        return data.sum() + rng.laplace(scale=0.5)  # of an array, not of a tuple

    test = freeze(total, pair, epsilon=1.0, trials=4_000, seed=1, incorrect=True)
    assert test.check(total, pair, seed=1).refuted


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2}, {"bets": [[1.5, 1.0]]}, {"bets": [[0.5, 2.0]]}, {"bets": []}, {"terms": None}, {"delta": -0.1},
        {"epsilon": -1.0}, {"false_alarm": 1.0}, {"runs": 0}, {"terms": [{"coordinate": 1, "slope": 1.0}]},
        {"terms": [{"coordinate": -1, "slope": 1.0}]}, {"combine": "mean"},
    ],
)  # fmt: skip
def test_a_file_that_is_no_valid_test_is_refused(change, tmp_path):
    data = json.loads((Path(__file__).parents[2] / "docs/clients/count.json").read_text(encoding="utf-8"))
    (tmp_path / "witness.json").write_text(json.dumps(data | change), encoding="utf-8")
    with pytest.raises(AuditError, match=r"is not a frozen test of version 1|has bets whose weights"):
        frozen.read(tmp_path / "witness.json")


DEEP = "[" * 2_000 + "]" * 2_000
ABSURD = [
    ('"coordinates": 1', '"coordinates": 1000000000', None),
    ('"coordinates": 1', f'"coordinates": {10**30}', None),
    ('"coordinate": 0', '"coordinate": 999999999', "a term reads coordinate 999999999, and the last"),
    ('"learnt": [27698, 10312, 11990]', '"learnt": [0, 0, 0]', "counts no runs"),
    ('"learnt": [27698, 10312, 11990]', f'"learnt": [{10**400}, 0, 0]', "int too large"),
    ('"runs": 20000', f'"runs": {10**400}', "int too large"),
    ('"x": ["ann"]', f'"x": {"[" * 100_000}', "nested too deeply"),
    ('"x": ["ann"]', f'"x": {DEEP}', "nested too deeply"),
    ('"epsilon": 1.0', '"epsilon": NaN', "NaN is not JSON"),
    ('"delta": 0.0', '"delta": NaN', "NaN is not JSON"),
    ('"epsilon": 1.0', '"epsilon": 1.0, "epsilon": 2.0', "the field 'epsilon' is given twice"),
    ('"slope": 1.0', '"slope": "1.0"', "is not a frozen test"),
    ('"slope": 1.0', '"slope": [1.0]', "stands where a number must be"),
    ('"slope": 1.0', '"slope": true', "stands where a number must be"),
    ('"slope": 1.0', '"knots": [0.0], "values": [], "below": 0, "above": 0, "missing": 0', "the knots of a term"),
    ('"slope": 1.0', '"knots": [1.0, 0.0], "values": [1, 2], "below": 0, "above": 0, "missing": 0', "the knots"),
    (
        '"slope": 1.0',
        '"knots": [1.0], "values": [1], "below": "low", "above": 0, "missing": 0',
        "stands where a number must be",
    ),
    ('"slope": 1.0', '"knots": [1.0], "values": [1]', "is not a frozen test"),
    ('{"float": "-inf"}', f"{DEEP}", "nested too deeply|too deep"),
    ('{"float": "-inf"}', '{"float": "nan"}', "stands where a number must be"),
    ('{"float": "-inf"}', '"low"', "stands where a number must be"),
]


@pytest.mark.parametrize(("part", "put", "says"), ABSURD, ids=[put[:40] for _, put, _ in ABSURD])
def test_absurd_numbers_take_neither_memory_nor_time(part, put, says, tmp_path):
    text = (Path(__file__).parents[2] / "docs/clients/count.json").read_text(encoding="utf-8")
    assert part in text
    (tmp_path / "witness.json").write_text(text.replace(part, put, 1), encoding="utf-8")
    if says is None:
        test = frozen.read(tmp_path / "witness.json")  # of outputs that nothing has: none is guessed
        assert test.guesses(np.zeros((3, 2))).tolist() == [0, 0, 0]
        assert test.guesses(pack([(1.0, 2.0), "yes"])).tolist() == [0, 0]
        return
    with pytest.raises(AuditError, match=says) as refused:
        frozen.read(tmp_path / "witness.json")
    assert len(str(refused.value)) < 400


def test_the_command_writes_a_test(tmp_path, capsys):
    out = tmp_path / "witness.json"
    assert main(["freeze", "laplace", "--trials", "4000", "--seed", "1", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "runs guessed right" in printed
    assert "would catch epsilon >= 1." in printed
    assert frozen.read(out).coordinates == 1
    assert main(["freeze", "--out", str(out)]) == 2
    assert "freeze needs one mechanism" in capsys.readouterr().err
