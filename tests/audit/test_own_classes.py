"""Classes of a user's own script: audits leave them as they are, and see what runs leave on them.

Right mechanisms at 99.9 %: each is refuted by chance once in a thousand times.
"""

import threading

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
    with pytest.raises(AuditError, match=r"a copy that was never called|Copies of the function answer otherwise"):
        audited(run, function)


def test_it_is_said_of_a_function_that_cannot_be_copied():
    lock = threading.Lock()

    def locked(data, rng):
        with lock:
            return len(data) + rng.laplace()

    for run in (audit, audit_sequentially):
        assert any(note.startswith("the function cannot be copied") for note in audited(run, locked).notes)
        assert not any(note.startswith("the function cannot be copied") for note in audited(run, Count()).notes)
