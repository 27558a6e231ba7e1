"""Where randomness comes from: turns of the datasets, generators of a function of its own, and global ones."""

import random

import numpy as np
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.running.copies import FIRST_RUNS
from epsaudit.running.randomness import _global_states

PAIRS = [DatasetPair(0, 1)]


class Pool:
    """Noise around a level that is drawn anew every ``size`` calls: not independent, and deaf to its data."""

    def __init__(self, size):
        self.size, self.calls, self.rng, self.level = size, 0, np.random.default_rng(1), 3.0

    def __call__(self, data):
        self.calls += 1
        if self.calls % self.size == 0:
            self.level = 3.0 * self.rng.normal()
        return self.level + self.rng.laplace()


@pytest.mark.parametrize(("run", "size"), [(audit, 50), (audit_sequentially, 1000)])
def test_a_pool_of_noise_is_no_leak_but_a_dependence(run, size):
    # with all runs on x of a chunk before those on x', the sequential audit refuted two of the three
    mechanism = black_box(Pool(size), claim=PureDP(0.1), pairs=PAIRS, name="pool")
    with pytest.raises(AuditError, match="depend on one another"):
        run(mechanism, trials=40_000, confidence=0.9999, seed=1, n_jobs=1)


@pytest.mark.parametrize("run", [audit, pytest.param(audit_sequentially, marks=pytest.mark.slow)])
def test_turns_alone_keep_a_pool_from_being_a_leak(run, monkeypatch):
    for module in ("epsaudit.running.sampling", "epsaudit.audits.sequential.checks"):
        monkeypatch.setattr(f"{module}.refuse", lambda finding, side: None)
    monkeypatch.setattr("epsaudit.running.rates.Rates.refuse_if_moved", lambda rates, later, **how: None)
    result = run(black_box(Pool(1000), claim=PureDP(0.1)), PAIRS, trials=40_000, confidence=0.9999, seed=1, n_jobs=1)
    assert result.lower_bound == 0.0


@pytest.mark.parametrize("run", [audit, audit_sequentially])
def test_datasets_take_turns(run):
    seen = []
    mechanism = black_box(
        lambda data, rng: (seen.append(data), data + rng.laplace())[1], claim=PureDP(1.0), pairs=PAIRS
    )
    result = run(mechanism, trials=20_000, seed=0, n_jobs=1)
    runs = result.runs if run is audit_sequentially else 20_000 - FIRST_RUNS  # copies are asked elsewhere
    assert len(seen) == runs
    switches = np.count_nonzero(np.diff(seen))
    assert abs(switches - len(seen) / 2) < 5 * np.sqrt(len(seen)) / 2


def response_with(rng):
    def response(data):
        return data if rng.random() < np.e / (1 + np.e) else 1 - data

    return response


def owned(**promise):
    return black_box(response_with(np.random.default_rng(0)), claim=PureDP(1.0), pairs=PAIRS, **promise)


@pytest.mark.parametrize("run", [audit, audit_sequentially])
def test_more_jobs_are_refused_without_a_promise(run):
    with pytest.raises(AuditError, match=r"takes no rng.*no bound holds.*fresh_randomness=True"):
        run(owned(), trials=400, n_jobs=2)


OWN = np.random.default_rng(0)


class Noisy:
    def __init__(self):
        self.own = random.Random(0)

    def answer(self, data, rng):
        return data + self.own.random()

    def __call__(self, data, rng):
        return self.answer(data, rng)


def in_an_expression(data, rng):
    return data + sum(OWN.random() for _ in range(1))


def in_an_inner_function(data, rng):
    def draw():
        return OWN.random()

    return data + draw()


def hidden(own):
    return lambda data, rng: data + own.random()


CARRIERS = {
    "closure": hidden(np.random.default_rng(0)),
    "global": lambda data, rng: data + OWN.random(),
    "object": Noisy(),
    "generator expression": in_an_expression,
    "inner function": in_an_inner_function,
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_who_takes_an_rng_and_carries_another_has_the_same_rule(carrier):
    """Measured: 19 of 60 audits at 90 % were above the truth with eight workers."""
    mechanism = black_box(CARRIERS[carrier], claim=PureDP(1.0), pairs=PAIRS)
    assert not mechanism.reproducible
    with pytest.raises(AuditError, match="carries a generator of its own"):
        audit(mechanism, trials=400, n_jobs=2)


def test_no_checkpoint_is_kept_without_a_promise(tmp_path):
    with pytest.raises(AuditError, match="no checkpoint can be kept"):
        audit(owned(), trials=400, checkpoint=tmp_path / "run.checkpoint")
    assert not list(tmp_path.iterdir())


def test_by_default_everything_runs_in_this_process():
    rng, calls = np.random.default_rng(0), []

    def response(data):
        calls.append(data)  # of this function; copies that are looked at have a list, and a generator, of their own
        return data if rng.random() < np.e / (1 + np.e) else 1 - data

    mechanism = black_box(response, claim=PureDP(1.0), pairs=PAIRS)
    before = rng.bit_generator.state["state"]["state"]
    result = audit(mechanism, trials=30_000)  # enough for several workers, were they allowed
    assert rng.bit_generator.state["state"]["state"] != before
    assert not result.reproducible
    drawn = np.random.default_rng(0)
    assert 26_000 < len(calls) < 30_000
    drawn.random(len(calls))
    assert rng.bit_generator.state == drawn.bit_generator.state  # every run was drawn here, and only once


def test_who_promises_gets_workers_and_a_checkpoint(tmp_path):
    # no seed reaches this randomness: at 95 % a sound mechanism failed the test by chance, once in twenty runs
    def response(data):
        return data if random.SystemRandom().random() < np.e / (1 + np.e) else 1 - data

    mechanism = black_box(response, claim=PureDP(1.0), pairs=PAIRS, fresh_randomness=True)
    result = audit(mechanism, trials=2_000, confidence=1 - 1e-6, n_jobs=2, checkpoint=tmp_path / "run.checkpoint")
    assert not result.violates_claim
    noise = vectorized(
        lambda data, size: np.array([random.SystemRandom().random() for _ in range(size)]),
        claim=PureDP(1.0),
        fresh_randomness=True,
    )
    assert not audit(noise, PAIRS, trials=400, confidence=1 - 1e-6, n_jobs=2).violates_claim


def numpys(data, rng):
    return data + np.random.laplace()  # noqa: NPY002


def pythons(data, rng):
    return data + random.expovariate(1.0) - random.expovariate(1.0)


def without_rng(data):
    return data + np.random.laplace()  # noqa: NPY002


def both(data, rng):
    return data + rng.laplace() + 1e-9 * np.random.normal()  # noqa: NPY002


def many(data, size, rng):
    return data + np.random.laplace(size=size)  # noqa: NPY002


def mechanism(function):
    wrap = vectorized if function is many else black_box
    return wrap(function, claim=PureDP(1.0), pairs=PAIRS)


@pytest.mark.parametrize(
    ("function", "run"),
    [(without_rng, audit), (many, audit), (both, audit_sequentially)],  # all wrappers, generators, audits
)
def test_a_seed_gives_the_same_result_with_any_number_of_workers(function, run):
    one, several = (run(mechanism(function), trials=2_000, seed=4, n_jobs=jobs) for jobs in (1, 2))
    assert one == several
    assert one.reproducible
    other = run(mechanism(function), trials=2_000, seed=5, n_jobs=1)
    assert other.counts != one.counts


@pytest.mark.parametrize("function", [numpys, pythons, without_rng, many])
def test_an_audit_leaves_the_global_generators_as_they_were(function):
    np.random.seed(1)  # noqa: NPY002
    random.seed(1)
    np.random.normal()  # noqa: NPY002  # legacy normal keeps a second one
    before = np.random.get_state(), random.getstate()  # noqa: NPY002
    audit(mechanism(function), trials=4_000, seed=4, n_jobs=1)
    after = np.random.get_state(), random.getstate()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before[0], after[0], strict=True))
    assert before[1] == after[1]


def test_a_resumed_audit_does_not_repeat_itself(tmp_path):
    whole = audit(mechanism(without_rng), trials=12_000, seed=4, n_jobs=1)

    class StopError(Exception):
        pass

    def stop(step):
        if step.stage == "certification" and step.runs_done > 3_000:
            raise StopError

    path = tmp_path / "run.checkpoint"
    with pytest.raises(StopError):
        audit(mechanism(without_rng), trials=12_000, seed=4, n_jobs=1, checkpoint=path, progress=stop)
    assert audit(mechanism(without_rng), trials=12_000, seed=4, n_jobs=1, checkpoint=path) == whole


LATE = {
    "numpy's": lambda: np.random.laplace(),  # noqa: NPY002
    "Python's": lambda: random.expovariate(1.0) - random.expovariate(1.0),
}


@pytest.mark.parametrize("draw", LATE.values(), ids=LATE)
def test_use_that_begins_late_is_found(draw):
    results = []
    for _ in range(2):
        calls = iter(range(10**9))

        def late(data, rng, calls=calls):
            return data + (rng.laplace() if next(calls) < 5_000 else draw())

        result = audit(mechanism(late), trials=12_000, seed=4, n_jobs=1)
        assert not result.violates_claim
        results.append(result)
        draw()  # the state of the global generators does not matter
    assert results[0] == results[1]


DRAWS = {
    "number": random.random,
    "one of two bits": lambda: random.getrandbits(1),
    "normal number": lambda: random.gauss(0.0, 1.0),  # drawn in pairs
    "numpy's number": np.random.random,
    "numpy's bytes": lambda: np.random.bytes(1),  # noqa: NPY002
}


@pytest.mark.parametrize("kind", DRAWS)
def test_every_draw_from_a_global_generator_shows_in_their_states(kind):
    random.seed(1)
    for _ in range(700):  # more numbers than a state holds
        before = _global_states()
        DRAWS[kind]()
        assert _global_states() != before
    assert _global_states() == _global_states()


def test_a_function_with_other_randomness_is_not_called_reproducible():
    own = random.SystemRandom()

    def mixed(data):
        return data + np.random.laplace() + own.random()  # noqa: NPY002

    assert not audit(mechanism(mixed), trials=2_000, seed=4).reproducible
