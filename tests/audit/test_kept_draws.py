"""Functions whose single release is private, and whose runs are not independent: refused, never refuted.

Each was certified as a leak once, by an audit of runs that share a draw, a stream or an answer. At 99.99 % a sound
audit of independent runs is refuted by chance once in 10,000.
"""

import functools
import hashlib
import math
import secrets
import types

import numpy as np
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.engine.independence import unevenness_of_copies

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


def keeps_it_in_a_cache():
    noise = functools.lru_cache(lambda data: np.random.laplace())  # noqa: NPY002
    return lambda data, rng: data + noise(data) + rng.normal(scale=0.01)


DEPENDENT = {
    "a draw beside jitter": (lambda: black_box(keeps_its_draw(), claim=PureDP(1.0)), COUNTS),
    "an answer": (lambda: black_box(caches_its_answer(), claim=PureDP(1.0)), COUNTS),
    "a draw in a cache": (lambda: black_box(keeps_it_in_a_cache(), claim=PureDP(1.0)), COUNTS),
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
        audit(function, BITS, claim=PureDP(1.0), trials=20_000, seed=0, n_jobs=1)


def test_noise_that_grows_from_run_to_run_is_refused():
    class Tired:
        calls = 0

        def __call__(self, data, rng):
            self.calls += 1
            return data + rng.laplace(scale=0.2 + self.calls / 500)

    with pytest.raises(AuditError, match="far from the median"):
        audit(black_box(Tired(), claim=PureDP(1.0)), BITS, trials=4_000, seed=1, n_jobs=1)
