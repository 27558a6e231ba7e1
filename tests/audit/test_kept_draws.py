"""Functions whose single release is private, and whose runs are not independent: refused, never refuted.

Each was certified as a leak once, by an audit of runs that share a draw, a stream or an answer. At 99.99 % a sound
audit of independent runs is refuted by chance once in 10,000.
"""

import functools
import hashlib
import math
import secrets

import numpy as np
import pandas as pd
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.dependence import unevenness_of_copies

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


FRAMES = DatasetPair(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 2, 3]}))
DEPENDENT = {
    "a draw beside jitter": (lambda: black_box(keeps_its_draw(), claim=PureDP(1.0)), COUNTS),
    "an answer": (lambda: black_box(caches_its_answer(), claim=PureDP(1.0)), COUNTS),
    "an answer on a data frame": (lambda: black_box(keeps_it_on_the_frame(), claim=PureDP(1.0)), FRAMES),
    "draws used again in a call": (lambda: vectorized(repeats_at_a_distance, claim=PureDP(1.0)), BITS),
}


@pytest.mark.parametrize("kind", DEPENDENT)
def test_a_fixed_audit_is_refused(kind, tmp_path):
    """With a new checkpoint, too, before which a function must not have been called either."""
    make, pair = DEPENDENT[kind]
    for options in ({"seed": 0}, {"seed": 1}, {"seed": 2, "checkpoint": tmp_path / "checkpoint"}):
        with pytest.raises(AuditError, match=r"copies|depend on one another|remembers|answer otherwise|Use one job"):
            audit(make(), pair, trials=6_000, n_jobs=1, confidence=0.9999, **options)


@pytest.mark.parametrize("kind", DEPENDENT)
def test_a_sequential_audit_is_refused(kind):
    make, pair = DEPENDENT[kind]
    for seed in range(2):
        with pytest.raises(AuditError, match=r"copies|depend on one another|remembers|answer otherwise"):
            audit_sequentially(make(), pair, trials=6_000, seed=seed, n_jobs=1, confidence=0.9999)


@pytest.mark.parametrize("run", [audit, audit_sequentially])
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
    assert any("copies that saw the event more often than others" in outcome for outcome in outcomes)


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
        with pytest.raises(AuditError, match="draws its noise once"):
            run(mechanism, COUNTS, seed=seed, n_jobs=1, confidence=0.9999)


def test_who_ignores_its_rng_for_a_generator_of_its_own_has_one_process():
    key, calls = secrets.token_bytes(8), [0]

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
    assert len(calls) == 500
