"""Functions whose release is private and whose runs share a draw, an object or their dataset: refused, not refuted.

Each was certified as a leak once, by an audit of runs that share a draw, a stream or an answer. At 99.99 % a sound
audit of independent runs is refuted by chance once in 10,000."""

import functools
import math
import random
import types

import numpy as np
import pandas as pd
import pytest

from epsaudit import AuditError, AuditResult, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.running import copies
from epsaudit.running.copying import by_value
from epsaudit.running.dependence import unevenness_of_copies
from epsaudit.running.sampling import COPIED

TRUE = math.e / (1.0 + math.e)
"""Probability of the true answer in randomised response at epsilon 1."""
BITS, COUNTS = DatasetPair(0, 1), DatasetPair(2, 3)


def keeps_its_draw():
    kept = {}

    def jittered(data, rng):
        if data not in kept:
            kept[data] = data + rng.laplace()
        return kept[data] + rng.normal(scale=0.01)

    return jittered


def fits_once():
    """Randomised response by a bit that itself is one, drawn once: ln((q^2 + p^2) / 2pq) = 0.43."""
    kept = {}

    def sampled(data, rng):
        if data not in kept:
            kept[data] = data if rng.random() < TRUE else 1 - data
        return kept[data] if rng.random() < TRUE else 1 - kept[data]

    return sampled


def caches_its_answer():
    kept = [None] * 4

    def cached(data, rng):
        if kept[data] is None:
            kept[data] = data + rng.laplace()
        return kept[data]

    return cached


def repeats_at_a_distance(data, size, rng):
    uniform = np.tile(rng.random(-(-size // 8)), 8)[:size]
    return np.where(uniform < TRUE, data, 1 - data)


DEPENDENT = {
    "a draw beside jitter": (lambda: black_box(keeps_its_draw(), claim=PureDP(1.0)), COUNTS),
    "draws used again in a call": (lambda: vectorized(repeats_at_a_distance, claim=PureDP(1.0)), BITS),
}


@pytest.mark.parametrize("kind", DEPENDENT)
def test_a_fixed_audit_is_refused(kind, tmp_path):
    """With a new checkpoint, too, before which a function must not have been called either."""
    make, pair = DEPENDENT[kind]
    for options in ({"seed": 0}, {"seed": 1}, {"seed": 2, "checkpoint": tmp_path / "checkpoint"}):
        with pytest.raises(
            AuditError, match=r"keeps a draw|depend on one another|remembers|give other outputs|Use one job"
        ):
            audit(make(), pair, trials=6_000, n_jobs=1, confidence=0.9999, **options)


@pytest.mark.parametrize("kind", DEPENDENT)
def test_a_sequential_audit_is_refused(kind):
    make, pair = DEPENDENT[kind]
    for seed in range(2):
        with pytest.raises(AuditError, match=r"keeps a draw|depend on one another|remembers|give other outputs"):
            audit_sequentially(make(), pair, trials=60_000, seed=seed, n_jobs=1, confidence=0.9999)


@pytest.mark.parametrize("run", [audit, pytest.param(audit_sequentially, marks=pytest.mark.slow)])
def test_a_draw_of_few_values_is_never_the_ground_of_a_refutation(run):
    """A quarter to a half of these were refuted, before events were counted again in copies."""
    outcomes = []
    for seed in range(8):
        try:
            mechanism = black_box(fits_once(), claim=PureDP(0.45))
            result = run(mechanism, BITS, trials=6_000, seed=seed, n_jobs=1, confidence=0.9999)
            outcomes.append(str(result.verdict))
        except AuditError as error:
            outcomes.append(str(error))
    assert "violated" not in outcomes
    assert all("keeps a draw" in outcome for outcome in outcomes)


class DrawsBefore:
    """A mechanism that draws its noise where it is given the dataset."""

    name, claim, adjacency = "draws before", PureDP(1.0), None

    def worst_pairs(self):
        return [COUNTS]

    def __call__(self, dataset):
        answer = dataset + np.random.laplace()  # noqa: NPY002
        return types.SimpleNamespace(sample=lambda size, rng: answer + rng.laplace(size=size))


@pytest.mark.parametrize("run", [audit, audit_sequentially])
def test_a_class_must_draw_from_its_rng(run):
    with pytest.raises(AuditError, match="other outputs for the same rng"):
        run(DrawsBefore(), trials=6_000, seed=0, n_jobs=1)


def test_datasets_are_pickled_once_for_all_copies(monkeypatch):
    pickled = []

    def counted(values, function):
        pickled.append(len(values))
        return by_value(values, function)

    monkeypatch.setattr(copies, "by_value", counted)
    noise = random.SystemRandom()
    mechanism = black_box(lambda data: data + noise.gauss(), pairs=[COUNTS], fresh_randomness=True)
    audit(mechanism, claim=PureDP(9.0), trials=5_000, seed=1, n_jobs=1)
    assert pickled == [3, 2]  # the function with the pair that is asked at first, and the certified pair


def test_copies_that_keep_nothing_are_found_uneven_no_more_often_than_the_level_says():
    """At level 0.1 of 4,000 tests: a binomial count beyond 0.1 by five deviations has probability below 1e-6."""
    rng = np.random.default_rng(5)
    level, tests = 0.1, 4_000
    found = sum(
        unevenness_of_copies(16, *rng.binomial(16, chance, size=(2, 48)), level) is not None
        for chance in (0.03, 0.3, 0.5, 0.9)
        for _ in range(tests // 4)
    )
    assert found <= level * tests + 5.0 * math.sqrt(level * (1.0 - level) * tests)
    kept = rng.choice([0.4, 0.6], size=(200, 48))
    assert all(unevenness_of_copies(64, *rng.binomial(64, chances, size=(2, 48)), 1e-4) for chances in kept)


@pytest.mark.parametrize(
    "run", [functools.partial(audit, trials=6_000), functools.partial(audit_sequentially, trials=600)]
)
def test_an_answer_that_an_earlier_audit_cached_is_refused_again(run):
    mechanism = black_box(caches_its_answer(), claim=PureDP(1.0))
    for seed in range(2):
        with pytest.raises(AuditError, match="keeps a draw"):
            run(mechanism, COUNTS, seed=seed, n_jobs=1, confidence=0.9999)


class Rappor:
    """Permanent answers, each reported with 0.95: epsilon 0.89, where they are fresh."""

    def __init__(self):
        self.answers = {}

    def __call__(self, bit, rng):
        if bit not in self.answers:
            self.answers[bit] = bit if rng.random() < TRUE else 1 - bit
        return self.answers[bit] if rng.random() < 0.95 else 1 - self.answers[bit]


class Leaky(Rappor):
    """The same, with the true answer reported with 0.95: epsilon 2.9."""

    def __call__(self, bit, rng):
        return self.answers.setdefault("reported", bit if rng.random() < 0.95 else 1 - bit)


@pytest.mark.parametrize("run", [audit, audit_sequentially])
def test_a_fresh_object_for_each_run_makes_a_client_right_whatever_it_keeps(run):
    """Half of these were refuted, as one object answered every run; at 1 - 1e-4 a sound one is, once in 10,000."""
    asked = {"pairs": BITS, "claim": PureDP(1.0), "trials": 8_000, "seed": 0, "n_jobs": 1, "confidence": 0.9999}
    assert 0.4 < run(fresh=Rappor, **asked).lower_bound <= 1.0
    assert run(fresh=Leaky, **asked).violates_claim


@pytest.mark.parametrize("left", [50, 2_532])
def test_a_budget_that_ends_is_never_called_consistent(left):
    """The answers before it ended leak epsilon 5; 20 of 20 were called consistent with 1."""
    kept = [left]

    def filtered(data, rng):
        kept[0] -= 1
        return data + 0.2 * rng.laplace() if kept[0] >= 0 else None

    def raising(data, rng):
        kept[0] -= 1
        if kept[0] < 0:
            raise RuntimeError("the budget is spent")
        return data + 0.2 * rng.laplace()

    for function in (filtered, raising):
        for run in (audit, audit_sequentially):
            kept[0], said = left, ""
            try:
                result = run(black_box(function, claim=PureDP(1.0)), BITS, trials=10_000, seed=1, n_jobs=1)
            except AuditError as error:
                said = str(error)
            assert "fresh=" in said or result.violates_claim  # refuted before the budget ended


def test_a_pool_of_noise_that_was_drawn_before_is_refused():
    pool = np.random.default_rng(0).laplace(size=2_000).tolist()
    for run in (audit, audit_sequentially):
        with pytest.raises(AuditError, match="seen again in all their digits"):
            run(lambda data, rng: data + pool[rng.integers(2_000)], BITS, claim=PureDP(1.0), trials=10_000, seed=0)


def test_a_grid_and_few_candidates_are_no_pool():
    candidates = np.random.default_rng(0).normal(size=300)
    for function in (
        lambda data, rng: (data + rng.geometric(0.3)) / 3,
        lambda data, rng: candidates[min(rng.geometric(0.02) + data, 299)],
        lambda data, rng: float(np.float32(rng.random()) + data),
        lambda data, rng: min(data + rng.laplace(), 1 / 3),
    ):
        result = audit(function, BITS, claim=PureDP(1.0), trials=20_000, seed=0, n_jobs=1)
        assert result.trials == 20_000, "an audit, and no refusal"


def test_noise_that_grows_from_run_to_run_is_refused():
    class Tired:
        calls = 0

        def __call__(self, data, rng):
            self.calls += 1
            return data + rng.laplace(scale=0.2 + self.calls / 500)

    with pytest.raises(AuditError, match="far from the median"):
        audit(black_box(Tired(), claim=PureDP(1.0)), BITS, trials=4_000, seed=1, n_jobs=1)


SCALE = 1.0
PAIR = ([1], [1, 1])
either = pytest.mark.parametrize("run", [audit, audit_sequentially])


def audited(run, function, pair=PAIR, **settings):
    settings = {"claim": PureDP(1.0), "confidence": 0.999, "trials": 20_000, "seed": 1, "n_jobs": 1, **settings}
    return run(function, [pair], **settings)


class Count:
    def __call__(self, data, rng):
        return len(data) + rng.laplace(scale=SCALE)


class Kept:
    """A draw for every size, on the class."""

    offsets = {}  # the point

    def __call__(self, data, rng):
        if len(data) not in Kept.offsets:
            Kept.offsets[len(data)] = rng.laplace()
        return len(data) + Kept.offsets[len(data)] + 0.02 * rng.laplace()


class Pool:
    drawn = None

    @classmethod
    def noise(cls, rng):
        if cls.drawn is None:
            cls.drawn = rng.laplace(size=64)
        return cls.drawn[rng.integers(64)]

    def __call__(self, data, rng):
        return len(data) + Pool.noise(rng)


def kept_by_a_class(data, rng):
    return Kept()(data, rng)


@pytest.fixture(autouse=True)
def nothing_kept():
    Kept.offsets, Pool.drawn = {}, None


@either
def test_an_audit_leaves_a_class_as_it_is(run, monkeypatch):
    assert not audited(run, Count()).violates_claim
    assert Count.__call__.__globals__ is globals()
    monkeypatch.setitem(globals(), "SCALE", 0.25)
    assert audited(run, Count()).violates_claim
    monkeypatch.undo()
    assert not audited(run, Count()).violates_claim


@either
@pytest.mark.parametrize("function", [Kept(), Pool(), kept_by_a_class], ids=["object", "class method", "function"])
def test_draws_that_a_class_keeps_are_refused(run, function):
    with pytest.raises(AuditError, match=r"a copy that was never called|Copies of the function give other outputs"):
        audited(run, function)


def add_to_array(data, rng):
    data += rng.laplace()
    return float(data[0])


def add_to_frame(data, rng):
    data["v"] = data["v"] + rng.laplace()
    return float(data["v"].iloc[0])


def eat(data, rng):
    count = 0
    while data:
        data.pop()
        count += 1
    return count + rng.laplace()


CHANGERS = {
    "array": (add_to_array, np.array([0.0]), np.array([1.0])),
    "frame": (add_to_frame, pd.DataFrame({"v": [0.0, 5.0]}), pd.DataFrame({"v": [1.0, 5.0]})),
    "consumed": (eat, [1, 2], [1, 2, 3]),
}


@pytest.mark.parametrize(
    ("run", "changer"),
    [(audit, "consumed"), (audit_sequentially, "array"), pytest.param(audit, "frame", marks=pytest.mark.slow)],
)
def test_who_changes_its_dataset_is_audited_as_if_it_did_not(run, changer):
    """Refuted, or with bound 0 where the first run had used the data up, while runs shared their dataset."""
    function, x, x_prime = CHANGERS[changer]
    mechanism = black_box(function, claim=PureDP(1.0), pairs=[DatasetPair(x, x_prime)])
    result = run(mechanism, trials=6_000, confidence=0.9999, seed=3, n_jobs=1)
    assert 0.6 < result.lower_bound <= 1.0
    assert COPIED in result.notes
    assert COPIED in str(result)
    assert type(result).from_dict(result.to_dict()).notes == result.notes


def test_the_bound_is_that_of_who_copies():
    pairs = [DatasetPair(np.array([0.0]), np.array([1.0]))]

    def copying(data, rng):
        return add_to_array(data.copy(), rng)

    results = [
        audit(black_box(function, claim=PureDP(1.0), pairs=pairs), trials=2_000, seed=5, n_jobs=1)
        for function in (add_to_array, copying)
    ]
    assert len({result.counts for result in results}) == 1
    assert [COPIED in result.notes for result in results] == [True, False]
    assert COPIED in str(results[0])
    assert AuditResult.from_dict(results[0].to_dict()).notes == results[0].notes


class Late:
    """Changes its dataset from some call on, once in a while."""

    def __init__(self, since, every):
        self.since, self.every, self.calls = since, every, 0

    def __call__(self, data, rng):
        self.calls += 1
        answer = data[0] + rng.laplace()
        if self.calls > self.since and self.calls % self.every == 0:
            data[0] += 100.0  # what this run says does not depend on its number, what later ones say would
        return answer


@pytest.mark.parametrize("since", [3, 12_000])
def test_a_change_that_comes_late_spoils_no_run(since):
    pairs = [DatasetPair([0.0], [1.0])]
    late, never = (
        audit(black_box(Late(since, every), claim=PureDP(1.0), pairs=pairs), trials=20_000, seed=1, n_jobs=1)
        for every in (7, 10**9)
    )
    assert COPIED in late.notes
    assert COPIED not in never.notes
    assert (late.counts, late.witness) == (never.counts, never.witness)


def test_who_changes_data_late_and_owns_its_randomness_is_refused():
    own, calls = np.random.default_rng(0), iter(range(10**9))

    def late(data):
        noise = own.laplace()
        if next(calls) > 1000:
            data.append(1)
        return len(data) + noise

    mechanism = black_box(late, claim=PureDP(1.0), pairs=[DatasetPair([], [1])])
    with pytest.raises(AuditError, match="changed its dataset in some runs only"):
        audit(mechanism, trials=20_000, seed=1)


def test_the_users_own_dataset_is_never_touched():
    x, x_prime = np.array([0.0]), np.array([1.0])
    audit(black_box(add_to_array, claim=PureDP(1.0)), DatasetPair(x, x_prime), trials=2_000, seed=1, n_jobs=1)
    assert (x[0], x_prime[0]) == (0.0, 1.0)


def test_every_call_of_a_vectorised_function_sees_the_dataset_as_given():
    def shifting(data, size, rng):
        data += 1.0
        return data[0] + rng.laplace(size=size)

    mechanism = vectorized(shifting, claim=PureDP(1.0), pairs=[DatasetPair(np.array([0.0]), np.array([1.0]))])
    for run in (audit, audit_sequentially):
        result = run(mechanism, trials=20_000, confidence=0.9999, seed=1)
        assert 0.8 < result.lower_bound <= 1.0
        assert COPIED in result.notes
