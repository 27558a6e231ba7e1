"""Functions that draw from numpy's and Python's global generators: reproducible, in parallel, and without a trace."""

import random

import numpy as np
import pytest

from epsaudit import DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized

PAIRS = [DatasetPair(0, 1)]


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


def test_use_that_begins_late_is_found():
    calls = iter(range(10**9))

    def late(data, rng):
        return data + (rng.laplace() if next(calls) < 5_000 else np.random.laplace())  # noqa: NPY002

    late_mechanism = mechanism(late)
    result = audit(late_mechanism, trials=12_000, seed=4, n_jobs=1)
    assert not result.violates_claim
    state = np.random.get_state()[2]  # noqa: NPY002
    audit(late_mechanism, trials=12_000, seed=4, n_jobs=1)
    assert np.random.get_state()[2] == state  # noqa: NPY002


def test_a_function_with_other_randomness_is_not_called_reproducible():
    own = random.SystemRandom()

    def mixed(data):
        return data + np.random.laplace() + own.random()  # noqa: NPY002

    assert not audit(mechanism(mixed), trials=2_000, seed=4).reproducible
