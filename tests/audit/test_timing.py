"""Times as outputs: only where asked for, in steps, with a control of the clock."""

from epsaudit import PureDP, audit, black_box
from epsaudit.adapters.functions import same_twice, timed

PAIR = (["ann"], ["ann", "bob"])


class Clock:
    """Time that passes as the function says."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def made(seconds):
    clock = Clock()

    def count(people, rng):
        clock.now += seconds(people) + 0.002 * rng.random()
        return rng.laplace()

    return timed(count, 0.001, clock=clock)


def test_a_time_that_tells_is_a_leak_and_only_where_it_is_asked_for():
    slow = made(lambda people: 0.004 * ("bob" in people))
    found = audit(black_box(slow, claim=PureDP(1.0), pairs=[PAIR]), trials=2_000, seed=1, n_jobs=1)
    assert found.violates_claim
    assert "y['time']" in str(found.witness)
    plain = black_box(slow.__wrapped__, claim=PureDP(1.0), pairs=[PAIR])
    assert not audit(plain, trials=2_000, seed=1, n_jobs=1).violates_claim


def test_a_clock_that_both_see_alike_shows_nothing():
    for mechanism in (
        black_box(made(lambda people: 0.004), claim=PureDP(0.1), pairs=[PAIR]),
        same_twice(made(lambda people: 0.004 * ("bob" in people)), ["ann", "bob"], PureDP(0.1)),
    ):
        assert audit(mechanism, trials=2_000, confidence=0.9999, seed=1, n_jobs=1).lower_bound == 0.0


def test_a_drifting_clock_is_not_taken_for_a_leak():
    clock = Clock()

    def count(people, rng):
        clock.now += 0.002 * rng.random() + 1e-4 * clock.now
        return rng.laplace()

    mechanism = black_box(timed(count, 0.001, clock=clock), claim=PureDP(0.1), pairs=[PAIR])
    assert audit(mechanism, trials=10_000, confidence=0.9999, seed=1, n_jobs=1).lower_bound == 0.0
    assert clock.now > 10.0
