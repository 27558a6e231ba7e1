"""Alarms in ten to thirty runs: each finds the mistake that it is for, and sound mechanisms raise none."""

import numpy as np
import pytest

from epsaudit import ApproxDP, AuditError, DatasetPair, PureDP
from epsaudit.engine.sampling import draw
from epsaudit.hunting.screening import LUCK, alarms
from epsaudit.mechanisms.registry import entries
from epsaudit.outputs.normal_form import values_of


def alarms_of(function, x, x_prime, runs=10, claim=None, **more):
    rng = np.random.default_rng(7)
    sides = [[function(data, rng) for _ in range(runs)] for data in (x, x_prime)]
    return alarms(*sides, DatasetPair(x, x_prime), claim, **more)


def only(found, kind):
    assert [one.kind for one in found] == [kind]
    return str(found[0])


def histogram(data, rng, keys=("a", "b")):  # noise for the keys of the data alone
    return {key: data.count(key) + rng.laplace() for key in keys if key in data}


def raises_on_empty(data, rng):
    return sum(data) / len(data) + rng.laplace()


@pytest.mark.parametrize(
    ("function", "x", "x_prime", "sentence"),
    [
        (lambda data, rng: max(data), [1, 2], [1, 5], "The output is 2 in all 10 runs on x and is 5 in all 10 on x'"),
        (
            lambda data, rng: (len(data), sum(data) + rng.laplace()),
            [1],
            [1, 1],
            "y[0] is 1 in all 10 runs on x and is 2 in all 10 on x': no noise is added to it.",
        ),
        (
            lambda data, rng: (data + rng.laplace(size=len(data))).tolist(),
            np.zeros(2),
            np.zeros(3),
            "The length of y is 2 in all 10 runs on x and is 3 in all 10 on x': it tells the datasets apart.",
        ),
        (histogram, ["a"], ["a", "b"], "The length of y is 1 in all 10 runs on x and is 2 in all"),
        (
            histogram,
            ["a", "a"],
            ["b", "b"],
            "The key of y['a'] is there in all 10 runs on x and is not there",
        ),
        (
            lambda data, rng: {"n": {"exact": len(data)}, "sum": rng.laplace()},
            [],
            [1],
            "y['n']['exact'] is 0 in all 10 runs on x and is 1 in all 10 on x'",
        ),
        (lambda data, rng: [*data[:-1], rng.random()], ["a", 0], ["b", 0], "y[0] is 'a' in all 10 runs on x"),
    ],
)
def test_what_has_no_noise(function, x, x_prime, sentence):
    assert only(alarms_of(function, x, x_prime), "constant").startswith(sentence)


def test_an_exception_on_one_side_alone_is_an_alarm():
    from epsaudit.outputs.normal_form import Raised

    found = alarms([Raised("ZeroDivisionError")] * 10, [0.5 + n for n in range(10)])
    assert "The type of y is raised in all 10 runs on x and is number in all 10" in only(found, "constant")


def shared(data, rng):
    return np.array(data) + rng.laplace()


def antithetic(data, rng):
    noise = rng.laplace()
    return [data[0] + noise, data[1] - noise]


def centred(data, rng):
    noise = rng.laplace(size=len(data))
    return np.array(data) + noise - noise.mean()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            shared,
            "The difference of y[0] and y[1] is 1 in all 10 runs on x and is 0 in all 10 on x': they have the same",
        ),
        (antithetic, "The sum of y[0] and y[1] is 3 in all 10 runs on x and is 2 in all 10 on x'"),
        (centred, "The sum of all numbers is 3 in all 10 runs on x and is 2 in all 10 on x': their noise cancels."),
    ],
)
def test_noise_that_coordinates_share(function, words):
    x, x_prime = ([2, 1, 0], [1, 1, 0]) if function is centred else ([2, 1], [1, 1])
    assert only(alarms_of(function, x, x_prime), "shared noise").startswith(words)


def test_what_is_shared_and_the_same_on_both_sides_is_no_alarm():
    assert alarms_of(lambda data, rng: np.cumsum([rng.laplace(), 1.0, 2.0]), [0], [1]) == []  # differences of 1 and 2
    assert alarms_of(lambda data, rng: [(p := rng.random()), 1 - p], [0], [1]) == []  # shares


@pytest.mark.parametrize(
    ("function", "x", "x_prime", "words"),
    [
        (
            lambda data, rng: sum(data) + rng.exponential(0.5),
            [3],
            [3, 1],
            "y is never below the sum of the data (3 on x",
        ),
        (
            lambda data, rng: len(data) + 1 - rng.geometric(0.9),
            [1, 7],
            [1],
            "y is never above the number of records (2 on x",
        ),
        (
            lambda data, rng: [v + abs(rng.laplace(0, 0.3)) for v in data],
            [0, 5],
            [1, 5],
            "y[0] is never below the data (0",
        ),
    ],
)
def test_noise_of_one_sign(function, x, x_prime, words):
    assert only(alarms_of(function, x, x_prime, runs=20), "one sign").startswith(words)


def test_noise_of_one_sign_on_an_answer_that_is_given():
    def spread(data):
        return max(data) - min(data) if data else 0

    def noisy(data, rng):
        return spread(data) + rng.exponential(0.5)

    assert alarms_of(noisy, [3, 9], [3, 9, 10], runs=20) == []
    found = alarms_of(noisy, [3, 9], [3, 9, 10], runs=20, before_noise=spread)
    assert "never below the answer without noise (6 on x, 7 on x')" in only(found, "one sign")


def test_a_record_that_comes_out_as_it_is():
    inside = 10 * (5**0.5 - 1) / 2

    def median(data, rng):  # an exponential mechanism among the data themselves
        return rng.choice(data)

    found = alarms_of(median, [1.0, 2.0, inside], [1.0, 2.0], runs=20)
    assert only(found, "repeat") == ("6.180339887498949, which x alone holds, comes out as it is in 9 of 20 runs on x.")
    assert alarms_of(median, [1.0, 2.0, 3.0], [1.0, 2.0], runs=20) == []  # 3 may be a candidate


def test_a_weak_claim_is_given_the_benefit_of_chance():
    def response(data, rng):  # randomised response that attains epsilon = 3
        return data if rng.random() < 1 / (1 + np.exp(-3.0)) else 1 - data

    rng = np.random.default_rng(0)
    found = dict.fromkeys((1.0, 3.0), 0)
    for _ in range(200):
        sides = [[response(data, rng) for _ in range(10)] for data in (0, 1)]
        for claim in found:
            found[claim] += bool(alarms(*sides, None, PureDP(claim)))
    assert found[3.0] == 0
    assert 50 < found[1.0] < 100  # both sides constant: 0.953^20 = 0.38 of 200, +- 7


@pytest.mark.parametrize("claim", [PureDP(1.0), PureDP(2.5), ApproxDP(0.5, 1e-3)])
def test_the_luck_of_an_event_is_what_a_mechanism_that_attains_its_claim_has(claim):
    from epsaudit.hunting.screening import _luck

    epsilon, delta = claim.epsilon, claim.delta if isinstance(claim, ApproxDP) else 0.0
    p = np.linspace(0.0, 1.0, 20_001)
    often = np.minimum(np.exp(epsilon) * p + delta, 1 - np.exp(-epsilon) * (1 - delta - p))
    exact = np.max((1 - p) ** 30 * np.clip(often, 0, 1) ** 30)
    assert _luck(claim, 30, 30, 30) == pytest.approx(exact, rel=0.15)  # half a step of the grid is 0.005, of 30 runs
    assert exact < LUCK


def test_too_few_runs_are_refused():
    with pytest.raises(AuditError, match="There are 9 and 10 outputs; alarms need 10 on each side"):
        alarms([1.0] * 9, [2.0] * 10)


def raised_by(entry, pairs, seeds):
    for pair in pairs:
        laws = [entry.mechanism(side) for side in (pair.x, pair.x_prime)]
        for seed in seeds:
            rng = np.random.default_rng(seed)
            outputs = [values_of(draw(law, 30, rng)) for law in laws]
            yield from (f"{entry.name} on {pair}: {one}" for one in alarms(*outputs, pair, entry.claim))


def test_sound_mechanisms_raise_none():
    sound = [entry for entry in entries() if entry.expected == "consistent"]
    pairs = {entry.name: list(entry.pairs or entry.mechanism.worst_pairs())[:1] for entry in sound}
    assert [one for entry in sound for one in raised_by(entry, pairs[entry.name], [0])] == []
    assert len(sound) > 80


@pytest.mark.nightly
def test_sound_mechanisms_raise_none_on_any_pair():
    sound = [entry for entry in entries() if entry.expected == "consistent"]
    found = [one for entry in sound for one in raised_by(entry, entry.pairs or entry.mechanism.worst_pairs(), range(3))]
    assert found == []


def test_incorrect_mechanisms_without_noise_raise_some():
    broken = {entry.name: entry for entry in entries() if entry.expected == "violated"}
    for name in ("broken/histogram-without-threshold", "broken/ptr-untested"):
        entry = broken[name]
        assert list(raised_by(entry, entry.pairs or entry.mechanism.worst_pairs(), [0])), name
