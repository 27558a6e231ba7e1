"""Functions whose single release is private, and whose runs are not independent: refused, never refuted.

Each was certified as a leak once, by an audit of runs that share a draw, a stream or an answer. At 99.99 % a sound
audit of independent runs is refuted by chance once in 10,000.
"""

import functools
import hashlib
import math
import secrets
import sys
import types

import numpy as np
import pandas as pd
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.engine.independence import FIRST_RUNS, unevenness_of_copies

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


def keeps_it_on_the_frame():
    def marked(frame, rng):
        if not hasattr(frame, "answer"):
            frame.answer = len(frame) + rng.laplace()
        return frame.answer

    return marked


def repeats_at_a_distance(data, size, rng):
    uniform = np.tile(rng.random(-(-size // 8)), 8)[:size]
    return np.where(uniform < TRUE, data, 1 - data)


class Model:
    """Releases what it kept of its first answer, with a little fresh noise."""

    def __init__(self):
        self.kept = {}

    def release(self, data, rng):
        return self.kept.setdefault(data, data + rng.laplace()) + rng.normal(scale=0.01)


class Slotted(Model):
    __slots__ = ("kept",)

    def __call__(self, data, rng):
        return self.release(data, rng)


def keeps_it_in_a_cache():
    noise = functools.lru_cache(lambda data: np.random.laplace())  # noqa: NPY002
    return lambda data, rng: data + noise(data) + rng.normal(scale=0.01)


def keeps_it_in_a_module(name):
    """A module of the user's own, reached through another."""
    module = types.ModuleType(name)
    module.__file__ = __file__
    source = "CACHE = {}\ndef release(data, rng):\n    return CACHE.setdefault(data, data + rng.laplace())\n"
    exec(source, vars(module))  # as an import would
    sys.modules[name] = module
    return lambda data, rng: module.release(data, rng) + rng.normal(scale=0.01)


FRAMES = DatasetPair(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 2, 3]}))
DEPENDENT = {
    "a draw beside jitter": (lambda: black_box(keeps_its_draw(), claim=PureDP(1.0)), COUNTS),
    "an answer": (lambda: black_box(caches_its_answer(), claim=PureDP(1.0)), COUNTS),
    "an answer on a data frame": (lambda: black_box(keeps_it_on_the_frame(), claim=PureDP(1.0)), FRAMES),
    "a draw in a cache": (lambda: black_box(keeps_it_in_a_cache(), claim=PureDP(1.0)), COUNTS),
    "a draw in a module": (lambda: black_box(keeps_it_in_a_module("kept"), claim=PureDP(1.0)), COUNTS),
    "draws used again in a call": (lambda: vectorized(repeats_at_a_distance, claim=PureDP(1.0)), BITS),
}


@pytest.mark.parametrize("kind", DEPENDENT)
def test_a_fixed_audit_is_refused(kind, tmp_path):
    """With a new checkpoint, too, before which a function must not have been called either."""
    make, pair = DEPENDENT[kind]
    for options in ({"seed": 0}, {"seed": 1}, {"seed": 2, "checkpoint": tmp_path / "checkpoint"}):
        with pytest.raises(
            AuditError, match=r"keeps a draw|depend on one another|remembers|answer otherwise|Use one job"
        ):
            audit(make(), pair, trials=6_000, n_jobs=1, confidence=0.9999, **options)


@pytest.mark.parametrize("kind", DEPENDENT)
def test_a_sequential_audit_is_refused(kind):
    make, pair = DEPENDENT[kind]
    for seed in range(2):
        with pytest.raises(AuditError, match=r"keeps a draw|depend on one another|remembers|answer otherwise"):
            audit_sequentially(make(), pair, trials=60_000, seed=seed, n_jobs=1, confidence=0.9999)


@pytest.mark.parametrize("run", [audit, pytest.param(audit_sequentially, marks=pytest.mark.nightly)])
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


def rarely_weak():
    """Randomised response at epsilon 1, in one process of twenty at 3: 1.05 in all."""
    kept = []

    def answer(data, rng):
        if not kept:
            kept.append(3.0 if rng.random() < 0.05 else 1.0)
        return data if rng.random() < 1.0 / (1.0 + math.exp(-kept[0])) else 1 - data

    return answer


def test_a_kept_draw_that_few_copies_have_is_seen_by_what_is_drawn():
    said = []
    for seed in range(4):
        try:
            mechanism = black_box(rarely_weak(), claim=PureDP(1.1))
            said.append(str(audit(mechanism, BITS, trials=6_000, seed=seed, n_jobs=1, confidence=0.9999).verdict))
        except AuditError as error:
            said.append(str(error))
    assert all("keeps a draw" in one for one in said)


@pytest.mark.parametrize("run", [audit, audit_sequentially])
@pytest.mark.parametrize(
    "wrap",
    [lambda model: model.release, lambda model: functools.partial(model.release), lambda model: model],
    ids=["method", "partial", "slots"],
)
def test_what_kept_a_draw_is_refused_ever_after(run, wrap):
    """A second audit began with the draw that the first had made it keep, and certified 6.2 of 1."""
    model = Slotted()
    for seed in range(3):
        with pytest.raises(AuditError, match=r"keeps a draw|answer otherwise"):
            run(black_box(wrap(model), claim=PureDP(1.0)), COUNTS, trials=6_000, seed=seed, n_jobs=1)
    run(black_box(lambda data, rng: data + rng.laplace(), claim=PureDP(1.0)), COUNTS, trials=500, seed=0, n_jobs=1)


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


@pytest.mark.parametrize("run", [audit, audit_sequentially])
def test_how_a_function_has_numpy_treat_underflow_is_its_own_affair(run):
    def strict(data, rng):
        np.seterr(all="raise")
        return data + rng.laplace()

    assert not run(black_box(strict, claim=PureDP(1.0)), COUNTS, trials=4_000, seed=0, n_jobs=1).violates_claim
    assert np.geterr()["under"] == "ignore"


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


def test_who_ignores_its_rng_for_a_generator_of_its_own_has_one_process():
    key, calls = bytes(8), [0]

    def own(data, rng):
        calls[0] += 1
        digest = hashlib.sha256(key + calls[0].to_bytes(8, "big")).digest()
        return data if int.from_bytes(digest[:8], "big") < TRUE * 2**64 else 1 - data

    mechanism = black_box(own, claim=PureDP(1.0))
    with pytest.raises(AuditError, match="Use one job"):
        audit(mechanism, BITS, trials=6_000, seed=0, n_jobs=2)
    result = audit(mechanism, BITS, trials=6_000, seed=0, n_jobs=1, confidence=0.9999)
    assert not result.reproducible
    assert not result.violates_claim


@pytest.mark.parametrize("run", [audit, audit_sequentially])
def test_a_vectorised_function_of_a_global_generator_does_not_share_its_noise(run):
    """Both datasets had the same noise, and one in seven sound audits was refuted at 95 %."""
    drawn = ([], [])

    def answered(data, size):
        uniform = np.random.random(size)  # noqa: NPY002
        drawn[data].extend(uniform.tolist())
        return np.where(uniform < TRUE, data, 1 - data)

    result = run(vectorized(answered, claim=PureDP(1.0)), BITS, trials=2_000, seed=0, n_jobs=1)
    assert result.reproducible
    assert min(map(len, drawn)) > 500
    assert len(set(drawn[0]) | set(drawn[1])) == len(drawn[0]) + len(drawn[1])


def test_a_function_has_not_been_called_before_its_audit():
    """What looks at its randomness calls a copy: a cache that it filled would hide that the answer is kept."""
    calls = []

    def counted(data, rng):
        calls.append(data)
        return data + rng.laplace()

    audit(black_box(counted, claim=PureDP(1.0)), BITS, trials=500, seed=0, n_jobs=1)
    assert len(calls) == 500 - FIRST_RUNS


def test_what_copies_were_asked_is_told():
    system = secrets.SystemRandom()

    def half_noise(data):
        return data + 0.3 * (system.expovariate(1.0) - system.expovariate(1.0))

    result = audit_sequentially(half_noise, BITS, claim=PureDP(1.0), trials=60_000, seed=1, n_jobs=1)
    assert "2,688 more runs looked at copies" in result.notes


class Rappor:
    """Permanent answers, each reported with 0.95: epsilon 0.89, where they are fresh."""

    def __init__(self):
        self.answers = {}

    def __call__(self, bit, rng):
        if bit not in self.answers:
            self.answers[bit] = bit if rng.random() < TRUE else 1 - bit
        return self.answers[bit] if rng.random() < 0.95 else 1 - self.answers[bit]


class Salted:
    """Permanent answers by the hash of a salt that is made with the object."""

    def __init__(self):
        self.salt = secrets.token_bytes(8)

    def __call__(self, bit, rng):
        digest = hashlib.sha256(self.salt + bytes([bit])).digest()
        answer = bit if int.from_bytes(digest[:8], "big") < TRUE * 2**64 else 1 - bit
        return answer if rng.random() < 0.95 else 1 - answer


class Leaky(Rappor):
    """The same, with the true answer reported with 0.95: epsilon 2.9."""

    def __call__(self, bit, rng):
        return self.answers.setdefault("reported", bit if rng.random() < 0.95 else 1 - bit)


@pytest.mark.parametrize("run", [audit, audit_sequentially])
@pytest.mark.parametrize("kind", [Rappor, Salted])
def test_a_fresh_object_for_each_run_makes_a_client_right_whatever_it_keeps(run, kind):
    """Half of these were refuted, as one object answered every run; at 1 - 1e-4 a sound one is, once in 10,000."""
    for seed in range(3):
        result = run(fresh=kind, pairs=BITS, claim=PureDP(1.0), trials=8_000, seed=seed, n_jobs=1, confidence=0.9999)
        assert not result.violates_claim
        assert result.lower_bound > 0.4
    result = run(fresh=Leaky, pairs=BITS, claim=PureDP(1.0), trials=8_000, seed=0, n_jobs=1, confidence=0.9999)
    assert result.violates_claim


def test_a_factory_that_is_stateless_makes_an_object_a_block():
    made = []

    class Counting:
        stateless = True

        def __init__(self):
            made.append(self)

        def __call__(self, bit, rng):
            return bit + rng.laplace()

    audit(fresh=Counting, pairs=BITS, claim=PureDP(1.0), trials=8_000, seed=0, n_jobs=1)
    assert len(made) < 1_000
    Counting.stateless = False
    made.clear()
    audit(fresh=Counting, pairs=BITS, claim=PureDP(1.0), trials=8_000, seed=0, n_jobs=1)
    assert len(made) == 8_000 - FIRST_RUNS + 2  # two to see what it takes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"fresh": 7}, "give either a mechanism, or by fresh="),
        ({"mechanism": Rappor(), "fresh": Rappor}, "give either a mechanism, or by fresh="),
        ({"fresh": lambda: 7}, "made an int, which is not callable"),
        ({"fresh": lambda needed: needed}, "when it was called without arguments"),
        ({}, "None is not a mechanism"),
    ],
)
def test_a_factory_that_cannot_be_used_is_named(arguments, said):
    with pytest.raises(AuditError, match=said):
        audit(**arguments, pairs=BITS, claim=PureDP(1.0), trials=1_000)


def test_all_looks_ask_at_most_a_tenth_of_the_runs_and_leave_caches_alone():
    """A loader of ten seconds was cleared and called 97 times for a hundred runs."""
    loaded = []

    @functools.lru_cache
    def load(data):
        loaded.append(data)
        return data

    def noisy(data, rng):
        return load(data) + rng.laplace()

    for trials, most in ((100, 64), (20_000, 2_000)):
        loaded.clear()
        load.cache_clear()
        result = audit(black_box(noisy, claim=PureDP(1.0)), BITS, trials=trials, seed=0, n_jobs=1)
        assert sorted(loaded) == [0, 1]  # by the function; copies have caches of their own
        assert result.trials == trials
        assert result.trials - result.counts.runs_x - result.counts.runs_x_prime <= trials // 4 + most


@pytest.mark.parametrize("left", [5, 50, 2_400, 2_532, 3_000])
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
        audit(function, BITS, claim=PureDP(1.0), trials=20_000, seed=0, n_jobs=1)


def test_outputs_rounded_on_any_grid_are_no_pool():
    for function in (
        lambda data, rng: round(data + rng.laplace(), 3),
        lambda data, rng: math.exp(round(rng.laplace(), 3)),
    ):
        for seed in range(4):
            audit(function, BITS, claim=PureDP(1.0), trials=4_000, seed=seed, n_jobs=1)


def test_noise_that_grows_from_run_to_run_is_refused():
    class Tired:
        calls = 0

        def __call__(self, data, rng):
            self.calls += 1
            return data + rng.laplace(scale=0.2 + self.calls / 500)

    with pytest.raises(AuditError, match="far from the median"):
        audit(black_box(Tired(), claim=PureDP(1.0)), BITS, trials=4_000, seed=1, n_jobs=1)
