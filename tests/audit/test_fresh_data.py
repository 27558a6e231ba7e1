"""Every run sees its dataset as it was given, whatever runs do to it; what cannot be given twice is refused."""

import numpy as np
import pandas as pd
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.engine.sampling import COPIED

RUNS = [audit, audit_sequentially]


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
    ("run", "changer"), [(audit, "array"), (audit, "consumed"), (audit_sequentially, "array"), (audit, "frame")]
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
        audit(black_box(function, claim=PureDP(1.0), pairs=pairs), trials=2_000, seed=5, n_jobs=jobs)
        for function in (add_to_array, copying)
        for jobs in (1, 2)
    ]
    assert len({result.counts for result in results}) == 1
    assert [COPIED in result.notes for result in results] == [True, True, False, False]


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
    for run in RUNS:
        result = run(mechanism, trials=20_000, confidence=0.9999, seed=1)
        assert 0.8 < result.lower_bound <= 1.0
        assert COPIED in result.notes
