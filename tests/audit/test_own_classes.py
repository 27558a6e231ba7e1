"""Classes of a user's own script: audits leave them as they are, and see what runs leave on them.

Right mechanisms at 99.9 %: each is refuted by chance once in a thousand times.
"""

import enum
import functools
import math
import secrets
import threading

import numpy as np
import pytest

from epsaudit import AuditError, PureDP, audit, audit_sequentially

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


@functools.cache
def offset(size):
    return float(np.random.default_rng(secrets.randbits(60)).laplace())


class Cached:
    @functools.cache  # noqa: B019
    def own(self, size):
        return offset.__wrapped__(size)

    @staticmethod
    @functools.cache
    def static(size):
        return offset.__wrapped__(size)

    def named(self, size):
        return offset(size)

    def by_own(self, data, rng):
        return len(data) + self.own(len(data)) + 0.02 * rng.laplace()

    def by_static(self, data, rng):
        return len(data) + Cached.static(len(data)) + 0.02 * rng.laplace()

    def by_named(self, data, rng):
        return len(data) + self.named(len(data)) + 0.02 * rng.laplace()


@pytest.fixture(autouse=True)
def nothing_kept():
    Kept.offsets, Pool.drawn = {}, None
    for cached in (offset, Cached.own, Cached.static):
        cached.cache_clear()


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
    with pytest.raises(AuditError, match=r"a copy that was never called|Copies of the function answer otherwise"):
        audited(run, function)


@either
@pytest.mark.parametrize("name", ["by_own", "by_static", "by_named"])
def test_caches_that_a_method_reaches_through_another_are_emptied_for_copies(run, name):
    with pytest.raises(AuditError, match=r"a copy that was never called|Copies of the function answer otherwise"):
        audited(run, getattr(Cached(), name))


def test_a_generator_on_a_class_goes_on_from_training_to_certification():
    class Drawn:
        rng = np.random.default_rng(0)

    seen = []

    def noisy(data, rng):
        seen.append(Drawn.rng.laplace())
        return len(data) + seen[-1]

    audited(audit, noisy, trials=2_000)
    assert len(set(seen)) == len(seen)


def test_it_is_said_of_a_function_that_cannot_be_copied():
    lock = threading.Lock()

    def locked(data, rng):
        with lock:
            return len(data) + rng.laplace()

    for run in (audit, audit_sequentially):
        assert any(note.startswith("the function cannot be copied") for note in audited(run, locked).notes)
        assert not any(note.startswith("the function cannot be copied") for note in audited(run, Count()).notes)


class Box:
    def __init__(self, size):
        self.size = size


class Answer(enum.Enum):
    NO = 0
    YES = 1


def of_a_box(data, rng):
    if not isinstance(data, Box):
        raise TypeError("no box")
    return data.size + rng.laplace()


def of_an_answer(data, rng):
    told = rng.random() < math.e / (1.0 + math.e)
    return (data is Answer.YES) == told


@either
@pytest.mark.parametrize(
    ("function", "pair"), [(of_a_box, (Box(0), Box(1))), (of_an_answer, (Answer.NO, Answer.YES))], ids=["box", "enum"]
)
def test_datasets_of_own_classes_are_what_a_function_takes_them_for(run, function, pair):
    found = audited(run, function, pair, adjacency=None)
    assert not found.violates_claim
    assert found.lower_bound > 0.5
