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
from epsaudit.engine.copies import COUNTED_AGAIN, IN_DOUBT, LEAST_OF_A_COPY, Copies, Patience
from epsaudit.engine.dependence import unevenness_of_copies

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
        with pytest.raises(AuditError, match=r"copies|depend on one another|remembers|answer otherwise|Use one job"):
            audit(make(), pair, trials=6_000, n_jobs=1, confidence=0.9999, **options)


@pytest.mark.parametrize("kind", DEPENDENT)
def test_a_sequential_audit_is_refused(kind):
    make, pair = DEPENDENT[kind]
    for seed in range(2):
        with pytest.raises(AuditError, match=r"copies|depend on one another|remembers|answer otherwise"):
            audit_sequentially(make(), pair, trials=6_000, seed=seed, n_jobs=1, confidence=0.9999)


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
    assert any("copies that saw the event more often than others" in outcome for outcome in outcomes)


def rarely_weak():
    """Randomised response at epsilon 1, in one process of twenty at 3: 1.05 in all."""
    kept = []

    def answer(data, rng):
        if not kept:
            kept.append(3.0 if rng.random() < 0.05 else 1.0)
        return data if rng.random() < 1.0 / (1.0 + math.exp(-kept[0])) else 1 - data

    return answer


@pytest.mark.nightly
def test_a_kept_draw_that_few_copies_have_is_told_by_the_function_itself():
    said = []
    for seed in range(40):
        try:
            mechanism = black_box(rarely_weak(), claim=PureDP(1.1))
            said.append(str(audit(mechanism, BITS, trials=6_000, seed=seed, n_jobs=1, confidence=0.9999).verdict))
        except AuditError as error:
            said.append(str(error))
    assert "violated" not in said
    assert any("of the function" in one for one in said)


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
        with pytest.raises(AuditError, match="kept a draw in an earlier audit" if seed else "keeps a draw"):
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
        with pytest.raises(AuditError, match="kept a draw in an earlier audit" if seed else "draws its noise once"):
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


@pytest.mark.parametrize("kind", DEPENDENT)
def test_an_audit_without_time_left_is_refused_too(kind, monkeypatch):
    """However few runs its safeguards then make."""
    monkeypatch.setattr("epsaudit.audits.sequential.auditing.Patience", lambda until: Patience(0.0))
    make, pair = DEPENDENT[kind]
    with pytest.raises(AuditError, match=r"copies|Copies|depend on one another|remembers|answer otherwise"):
        audit_sequentially(make(), pair, trials=6_000, seed=0, n_jobs=1, confidence=0.9999)


def test_a_slow_function_is_asked_less_again_where_no_time_is_left(monkeypatch):
    """Each side in 64 streams of two runs, by 48 copies of four runs, and as many of its own; a few show its pace."""
    asked = []
    for spent in (False, True):
        if spent:
            monkeypatch.setattr("epsaudit.audits.sequential.auditing.Patience", lambda until: Patience(0.0))
        calls = []
        mechanism = black_box(lambda data, rng, calls=calls: (calls.append(0), data + rng.laplace(scale=0.3))[1])
        result = audit_sequentially(mechanism, BITS, claim=PureDP(1.0), trials=6_000, seed=1, n_jobs=1)
        assert result.violates_claim
        asked.append(len(calls) - result.runs)
    few = 2 * 64 * 2 + 2 * 48 * LEAST_OF_A_COPY + 4 + 2 * 4
    assert asked[0] - asked[1] == 2 * 64 * 4 + COUNTED_AGAIN - few
    assert asked[1] < few + 16  # drawn with the run that refuted


def test_where_copies_may_differ_and_no_time_is_left_the_claim_is_not_refuted(monkeypatch):
    monkeypatch.setattr("epsaudit.audits.sequential.auditing.Patience", lambda until: Patience(0.0))
    monkeypatch.setattr(Copies, "_otherwise", lambda *asked: True if asked[-1] == IN_DOUBT else None)
    with pytest.raises(AuditError, match=r"there was no time to tell: .* 12,288 runs\. Give the audit more seconds"):
        audit_sequentially(black_box(half_noise), BITS, claim=PureDP(1.0), trials=6_000, seed=1, n_jobs=1)


def half_noise(data, rng):
    return data + rng.laplace(scale=0.3)
