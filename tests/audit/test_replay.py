"""Refuted events are kept, and tried first in the next run: sooner where the leak is left, as valid where it is not."""

import math
import re

import fastjsonschema  # noqa: F401  # pytester forgets what is imported inside
import numpy as np
import pytest
import scipy.stats  # noqa: F401
import sklearn.ensemble  # noqa: F401
from scipy.stats import binom

import epsaudit.audits.training
import epsaudit.testing.fixture  # noqa: F401
from epsaudit import DatasetPair, PureDP, audit_sequentially, vectorized
from epsaudit.audits.sequential.betting import Bet
from epsaudit.audits.verify import load
from epsaudit.testing.replay import LONGER, SHARE, Failures, Kept, replayed
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
    """The replay alone, at 5 %; 40 seeds."""
    failed = sum(
        replayed(KEPT, noisy(1.0), CLAIM, PAIR, trials=10**6, seconds=math.inf, confidence=0.95, seed=seed)[0]
        is not None
        for seed in range(40)
    )
    assert failed <= most(40, 0.05)


@pytest.mark.nightly(seconds=1_100)
def test_a_check_with_an_entry_fails_as_seldom_as_one_without():
    """A mechanism exactly at its claim, and the best event kept: replay and check together, 2,000 seeds at 5 %."""
    outcomes = np.array([fails(1.0, seed, 0.05, 300) for seed in range(2_000)])
    print(f"replays {outcomes[:, 0].sum()}, checks {outcomes[:, 1].sum()}, either {outcomes.any(axis=1).sum()}")
    assert outcomes.any(axis=1).sum() <= most(2_000, 0.05)


MODULE = """
    import os
    import numpy as np

    PAIR = (["ann"], ["ann", "bob"])
    OWN = np.random.default_rng(0)

    def count(people, size, rng):
        return len(people) + rng.laplace(scale=float(os.environ["SCALE"]), size=size)

    def owner(people):
        return len(people) + OWN.laplace(scale=0.3)

    def test_count(privacy_audit):
        privacy_audit.check(count, PAIR, epsilon=float(os.environ.get("EPSILON", 1)), runs=1_000)
"""
TRIED, IGNORED = "the event of an earlier failure was tried first", "the event kept of an earlier failure was ignored"


@pytest.fixture
def suite(pytester, monkeypatch):
    """Function that runs the test of `MODULE` with so much noise, and returns what is printed and what is then kept."""
    pytester.makepyfile(test_mine=MODULE)

    def run(scale, *options, **environment):
        for name, value in {"EPSILON": 1, **environment, "SCALE": scale}.items():
            monkeypatch.setenv(name, str(value))
        text = pytester.runpytest_inprocess("-rA", *options).stdout.str()
        return text, sorted(pytester.path.glob(".pytest_cache/d/epsaudit/*"))

    return run


def runs_in(text):
    return int(re.search(r"    runs +([\d,]+) of", text).group(1).replace(",", ""))


def test_a_leak_that_is_left_fails_by_its_event_and_one_that_is_mended_forgets_it(suite):
    alone, kept = suite(0.3)
    assert len(kept) == 1
    assert Kept.read(kept[0].read_text()).test == "test_mine.py::test_count:1"
    again, kept = suite(0.3)
    assert f"caught; {TRIED}" in again
    assert "wrong with probability 5e-08" in again  # a tenth
    assert "    before     this event refuted the claim in an earlier run" in again
    assert runs_in(again) <= LONGER * runs_in(alone)
    mended, kept = suite(1.0)
    assert f"{TRIED}, in {LONGER * runs_in(alone)} runs, and does not refute the claim now" in mended
    assert "1 passed" in mended
    assert kept == []
    assert TRIED not in suite(1.0)[0]


def test_what_says_nothing_of_the_check_is_ignored_in_a_sentence(suite):
    _, (file,) = suite(0.3)
    entry = file.read_text()
    for text, environment, words in (
        ("{", {}, "as it cannot be read"),
        (entry.replace('"past": ', '"past": -'), {}, "as it cannot be read"),
        (entry, {"EPSILON": 2}, "another claim was refuted, PureDP(epsilon=1.0)"),
        (entry.replace('"datasets": "', '"datasets": "0'), {}, "it is of other datasets, ['ann'] against"),
    ):
        file.write_text(text)
        said, kept = suite(1.0, **environment)
        assert "1 passed" in said
        assert f"{IGNORED}" in said
        assert words in said
        assert kept == []


def test_nothing_is_kept_without_pytests_cache(suite):
    assert suite(0.3, "-p", "no:cacheprovider")[1] == []


def test_a_session_that_reports_learns_afresh_and_tells_how_bounds_moved(suite, pytester):
    suite(0.3)
    text, kept = suite(0.3, "--privacy-report=old.json")
    assert TRIED not in text
    assert len(kept) == 1
    (result,) = load(pytester.path / "old.json")
    assert (result.mechanism, result.verdict) == ("test_mine.py::test_count", "violated")
    assert result.execution["command"].startswith("pytest test_mine.py::test_count --privacy-runs=1000")
    same, _ = suite(0.3, "--privacy-compare=old.json")
    assert "no, the same runs" in same
    less, _ = suite(1.0, "--privacy-compare=old.json")
    assert "1 passed" in less
    assert "other counts: the same seed and budget gave other counts than before" in " ".join(less.split())
    assert "0 only in old.json, 0 only in this session." in less
    nowhere = pytester.runpytest_inprocess("--privacy-compare=nowhere.json")
    assert "nowhere.json cannot be read as a result file" in nowhere.stderr.str()


def test_what_may_draw_the_same_noise_again_is_not_kept(suite, pytester):
    """A generator with a seed of its own begins anew in the next process: with the very noise that chose the event."""
    own = "    test_count = lambda privacy_audit: privacy_audit.check(owner, PAIR, epsilon=1.0)"
    pytester.makepyfile(test_mine=f"{MODULE}\n{own}\n")
    text, kept = suite(0.3)
    assert "owner leaks more than its claim" in text
    assert kept == []


def test_a_session_sees_what_was_kept_before_it(tmp_path):
    failures, later = Failures(tmp_path), Failures(tmp_path)
    assert failures.of("a") == (None, "")
    failures.keep("a", KEPT)
    assert failures.of("a") == (None, "")
    assert later.of("a") == (KEPT, "")
    later.forget("a")
    assert later.of("a") == (KEPT, "")
    assert Failures(tmp_path).of("a") == (None, "")
    Failures(None).keep("a", KEPT)
    Failures(tmp_path / "file" / "below").forget("a")
