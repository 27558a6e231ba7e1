"""The parts that an output has beside its values: index, categories, order of keys, exit code, message.

Each leaky function releases Laplace noise of a sound scale, and reveals the dataset in such a part of every output, so
that its privacy loss is infinite. Its sound twin reveals nothing in that part. At 99.9 % confidence, one sound twin in
a thousand is refuted by chance.
"""

import ipaddress
import pathlib
import sys
import types
import uuid
from collections import Counter

import pandas as pd
import pytest

from epsaudit import DatasetPair, PureDP, audit, audit_sequentially, black_box
from epsaudit.outputs.arrays import pack
from epsaudit.outputs.normal_form import normalise
from epsaudit.witnesses.conditions import NoShortCondition, write_condition
from epsaudit.witnesses.events import Region

ANN, BOB = 1, 2  # Votes are numbers, because pairs of texts start another process, which takes a second.
VOTES = DatasetPair((ANN, ANN, BOB), (BOB, BOB, ANN))


def noisy(votes, rng):
    return {name: votes.count(name) + rng.laplace(scale=4.0) for name in (ANN, BOB)}


def counted(votes, rng):
    """Return noisy counts in the order of the true counts."""
    true = pd.Series(votes).value_counts()
    return true + rng.laplace(scale=4.0, size=len(true))


def grouped(votes, rng):
    """Return noisy sums of groups, with the labels that occur in the data."""
    sums = pd.DataFrame({"name": votes[:2], "n": 1}).groupby("name")["n"].sum()
    return pd.Series(rng.laplace(scale=4.0), index=sums.index[:1])


def frame(votes, rng):
    return pd.DataFrame({"n": [rng.laplace(scale=4.0)]}, index=[votes[0]])


def categories(votes, rng):
    return pd.Series(pd.Categorical([str(rng.integers(2))], categories=["0", "1", f"voter {votes[0]}"]))


def ordered(votes, rng):
    counts = noisy(votes, rng)
    return {name: counts[name] for name, _ in Counter(votes).most_common()}


def exits(votes, rng):
    if rng.random() < 0.5:
        sys.exit(3 if votes[0] == ANN else 4)
    return rng.laplace()


def stream(votes, rng):
    """Return a generator that ends or raises depending on the data."""
    yield rng.laplace(scale=4.0)
    if votes[0] == ANN:
        raise ValueError("of ann")


LEAKY = {
    "index of value_counts()": counted,
    "labels of groups": grouped,
    "index of a frame": frame,
    "categories": categories,
    "order of a mapping": ordered,
    "exit code": exits,
    "a generator that raises": stream,
    "UUID": lambda votes, rng: uuid.UUID(int=2 * int(rng.integers(4)) + (votes[0] == ANN)),
    "path": lambda votes, rng: pathlib.Path("out") / str(votes[0]) / str(rng.integers(4)),
    "address": lambda votes, rng: ipaddress.ip_address(2 * int(rng.integers(4)) + (votes[0] == ANN)),
    "namespace": lambda votes, rng: types.SimpleNamespace(first=votes[0], noise=rng.laplace()),
    "object": lambda votes, rng: Released(votes[0], rng.laplace()),
}
BLIND = DatasetPair(VOTES.x, (*VOTES.x, ANN))
"""A pair that no function distinguishes by more than its noisy counts: the first vote and the winner are the same."""


class Released:
    """An object with two attributes."""

    def __init__(self, first, noise):
        self.first, self.noise = first, noise


DAILY = {"index of value_counts()", "order of a mapping", "exit code", "UUID", "object"} | {
    "time zone",
    "what lies under a mask",
}


def some_daily(kinds):
    return [pytest.param(kind, marks=() if kind in DAILY else pytest.mark.slow) for kind in kinds]


@pytest.mark.parametrize("kind", some_daily(LEAKY))
def test_what_lies_beside_the_values_is_read(kind):
    leaky = black_box(LEAKY[kind], claim=PureDP(1.0))
    assert audit(leaky, VOTES, trials=1_000, seed=1, n_jobs=1).violates_claim
    assert not audit(leaky, BLIND, trials=1_000, confidence=0.999, seed=1, n_jobs=1).violates_claim


def shuffled(votes, rng):
    """Return noisy counts in an order that follows from the noisy counts only.

    This is sound at epsilon = 1, since each count has a sensitivity of 2 and noise of scale 4.
    """
    counts = noisy(votes, rng)
    return {name: counts[name] for name in sorted(counts, key=counts.get)}


def named(votes, rng):
    return pd.Series(noisy(votes, rng))


@pytest.mark.parametrize("function", [shuffled, pytest.param(named, marks=pytest.mark.slow)])
def test_an_order_or_an_index_that_tells_no_more_is_not_refuted(function):
    sound = black_box(function, claim=PureDP(1.0))
    assert not audit(sound, VOTES, trials=10_000, confidence=0.999, seed=0, n_jobs=1).violates_claim


def fails(votes, rng):
    """Raise in half of the runs on any dataset, with a message that reveals the dataset."""
    if rng.random() < 0.5:
        raise ValueError(f"row {7 if votes[0] == ANN else 3}: {votes[0]} after {rng.integers(1000)} ms")
    return rng.laplace()


def test_messages_of_exceptions_are_read_where_all_is():
    leaky = black_box(fails, claim=PureDP(1.0))
    assert not audit(leaky, VOTES, trials=4_000, confidence=0.999, seed=1, n_jobs=1).violates_claim
    found = audit(leaky, VOTES, trials=4_000, seed=1, n_jobs=1, witnesses="all")
    assert found.violates_claim, found
    assert "message(y)" in str(found.witness)
    assert not audit(leaky, BLIND, trials=4_000, confidence=0.999, seed=1, n_jobs=1, witnesses="all").violates_claim


@pytest.mark.parametrize("value", [10**6000, (10**6000, "a")], ids=["alone", "tuple"])
def test_an_integer_of_6000_digits(value):
    [atom] = [normalise(value)]
    with pytest.raises(NoShortCondition):
        write_condition(Region(intervals=(), included=(atom,)))
    function = lambda data, rng: value if rng.random() < (0.9 if data else 0.1) else "no"  # noqa: E731
    found = audit(black_box(function, claim=PureDP(1.0)), (0, 1), trials=2_000, seed=1, n_jobs=1)
    assert found.violates_claim
    assert "0x" in str(found.witness)
    assert pack([value, "no"])[0] == atom


@pytest.mark.parametrize("run", [audit, audit_sequentially])
def test_a_dataset_with_an_integer_of_6000_digits(run):
    result = run(lambda data, rng: rng.laplace(), ([10**6000], [1]), claim=PureDP(1.0), trials=1_000, seed=1, n_jobs=1)
    assert not result.violates_claim
