"""Refuted events are kept, and tried first in the next run: sooner where the leak is left, as valid where it is not."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from epsaudit import DatasetPair, PureDP, audit_sequentially, vectorized
from epsaudit.audits.sequential.accounts import Bet
from epsaudit.replay import SHARE, Kept, replayed
from epsaudit.witnesses.events import Interval, Region, Witness

pytest_plugins = ["pytester"]

PAIR, CLAIM = DatasetPair(0, 1), PureDP(1.0)
TAILS = Witness(Region(intervals=(Interval(high=0.0),)), Region(intervals=(Interval(low=1.0),)))
"""The best event against too little noise: the odds of a guess are those of the claim where there is just enough."""
KEPT = Kept(
    test="test_mine.py::test_noisy",
    claim=repr(CLAIM),
    pair=str(PAIR),
    datasets=Kept.of_datasets(PAIR),
    bet=Bet(TAILS, None, 0.5, 0.16, 2_000),
    runs=300,
)


def noisy(scale):
    return vectorized(lambda data, size, rng: data + rng.laplace(scale=scale, size=size), name="noisy", claim=CLAIM)


def fails(scale, seed, false_alarm, runs):
    """What a check does that has an entry: does the replay refute, and does the check?"""
    terms = {"trials": runs, "seconds": math.inf}
    first, _ = replayed(KEPT, noisy(scale), CLAIM, PAIR, confidence=1 - SHARE * false_alarm, seed=2 * seed, **terms)
    second = audit_sequentially(
        noisy(scale), [PAIR], trials=runs, confidence=1 - (1 - SHARE) * false_alarm, seed=2 * seed + 1
    )
    return first is not None, second.violates_claim


def most(seeds, level):
    """As many failures of so many seeds as happen by chance once in a million, at a probability of ``level`` each."""
    return binom.isf(1e-6, seeds, level)


def test_a_mechanism_at_its_claim_fails_as_seldom_as_stated():
    """The replay alone, at 5 %; 100 seeds."""
    failed = sum(
        replayed(KEPT, noisy(1.0), CLAIM, PAIR, trials=10**6, seconds=math.inf, confidence=0.95, seed=seed)[0]
        is not None
        for seed in range(100)
    )
    assert failed <= most(100, 0.05)


@pytest.mark.nightly
def test_a_check_with_an_entry_fails_as_seldom_as_one_without():
    """A mechanism exactly at its claim, and the best event kept: replay and check together, 2,000 seeds at 5 %."""
    outcomes = np.array([fails(1.0, seed, 0.05, 300) for seed in range(2_000)])
    print(f"replays {outcomes[:, 0].sum()}, checks {outcomes[:, 1].sum()}, either {outcomes.any(axis=1).sum()}")
    assert outcomes.any(axis=1).sum() <= most(2_000, 0.05)
