"""Comparison of versions: p-values are exact, changes of noise are found, and results without a counterpart are
named.
"""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from scipy.stats import binom
from small import noisy

from epsaudit import AuditError, DatasetPair, PureDP, audit, vectorized
from epsaudit.bounds.certificates import Box, MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.results.compare import compare, fisher_p_value, recount
from epsaudit.results.result import save
from epsaudit.tools.cli.main import main


@pytest.fixture(scope="module")
def before():
    return audit(noisy(1.0), trials=20_000, seed=1, n_jobs=1)


def with_counts(result, correct, wrong, seed):
    counts = Counts(correct + wrong, 0, correct, 0, wrong, 0)
    return dataclasses.replace(
        result, counts=counts, certificate=MembershipGame(), trials=correct + wrong, training_runs=0, seed=seed
    )


def test_p_values_are_exact(before):
    """For all outcomes of two samples of 12 guesses, p <= t has probability at most t, by enumeration."""
    size = 12
    for odds in (0.5, 0.731):
        weights = binom.pmf(np.arange(size + 1), size, odds)
        table = {
            (a, b): fisher_p_value(with_counts(before, a, size - a, 1), with_counts(before, b, size - b, 2))
            for a, b in itertools.product(range(size + 1), repeat=2)
        }
        for level in (0.3, 0.05, 0.01):
            assert sum(weights[a] * weights[b] for (a, b), p in table.items() if p <= level) <= level
        assert table[0, size] < 1e-5
        assert table[6, 6] == 1.0


def test_a_change_of_noise_is_seen_and_no_change_is_not(before):
    """The noise is 10 % smaller in 100,000 runs.

    Without a change, one of two comparisons errs with probability 0.002.
    """
    again = [recount(before, noisy(scale), seed=2, trials=100_000, n_jobs=1) for scale in (1.0, 0.9)]
    same, less = (compare([before], [result], error=0.001) for result in again)
    assert not same.moved
    assert less.moved
    assert "moved: no, p = " in str(same)
    assert "1 of 1 moved. Fisher's exact test" in str(less)
    assert again[1].witness == before.witness
    assert again[1].runs == 100_000 == again[1].counts.runs


def test_a_box_is_compared_side_by_side(before):
    old = dataclasses.replace(before, certificate=Box(), counts=Counts(500, 500, 300, 100, 0, 0, events=1))
    new = dataclasses.replace(old, counts=Counts(500, 500, 300, 250, 0, 0, events=1), seed=9)
    assert fisher_p_value(old, old) == 1.0
    assert fisher_p_value(old, new) < 1e-10


def test_the_rate_of_guesses_counts_too(before):
    """The same share of guesses is correct, but there are far fewer guesses or none, so the bound is another one."""
    old, fewer, none = (
        dataclasses.replace(before, certificate=MembershipGame(), counts=Counts(*numbers), seed=seed)
        for seed, numbers in enumerate(
            [(500, 500, 300, 100, 100, 300), (500, 500, 150, 50, 50, 150), (500, 500, 0, 0, 0, 0)]
        )
    )
    assert fisher_p_value(old, old) == 1.0
    assert fisher_p_value(old, fewer) < 1e-10
    assert fisher_p_value(old, none) < 1e-10


def test_an_event_that_is_not_seen_any_more_has_moved(before):
    gone = vectorized(
        lambda data, size, rng: ["gone"] * size, claim=PureDP(1.0), name="noisy", pairs=[DatasetPair(0, 1)]
    )
    drift = compare([before], [recount(before, gone, seed=2, n_jobs=1)])
    assert drift.moved
    assert "0 now; moved: yes" in str(drift)


def test_errors_are_shared_among_comparisons(before):
    """At an error of 0.05, p = 0.04 is significant for a single comparison and not for one of two comparisons."""
    old, new = with_counts(before, 600, 400, 1), with_counts(before, 651, 349, 2)
    assert 0.025 < fisher_p_value(old, new) < 0.05
    assert compare([old], [new], error=0.05).moved
    other_old, other_new = (dataclasses.replace(old, mechanism="other", seed=seed) for seed in (3, 4))
    assert not compare([old, other_old], [new, other_new], error=0.05).moved


def test_what_cannot_be_compared_is_said(before):
    elsewhere = audit(noisy(1.0), trials=20_000, seed=5, n_jobs=1)
    for new in (
        elsewhere,
        dataclasses.replace(before, claim=PureDP(2.0)),
        dataclasses.replace(before, pair="other"),
        dataclasses.replace(before, mechanism="new"),
        dataclasses.replace(before, certificate=Box()),
    ):
        drift = compare([before], [new])
        assert not drift.moved
        assert not drift.comparisons
        assert "no new result has its claim, pair, event and certificate" in str(drift)
        assert "only in the new results" in str(drift)
    assert "only in the new results" in str(compare([], [before]))


def test_recounting_refuses_what_would_not_be_a_fair_sample(before):
    with pytest.raises(AuditError, match="Seed 1 is that of the old audit"):
        recount(before, noisy(1.0), seed=1)
    with pytest.raises(AuditError, match="has no pair named '0 against 1'"):
        recount(before, vectorized(lambda data, size, rng: rng.random(size), claim=PureDP(1.0)), seed=2)


def test_the_command_exits_with_one_if_a_bound_moved(before, tmp_path, capsys):
    files = {name: tmp_path / f"{name}.json" for name in ("old", "same", "moved", "other")}
    save([before], files["old"])
    save([recount(before, noisy(1.0), seed=2, n_jobs=1)], files["same"])
    save([recount(before, noisy(0.7), seed=2, n_jobs=1)], files["moved"])
    save([dataclasses.replace(before, mechanism="other")], files["other"])
    assert [main(["compare", str(files["old"]), str(new)]) for new in files.values()] == [0, 0, 1, 2]
    written = capsys.readouterr()
    assert "moved" in written.out
    assert "have no results in common" in written.err
    assert main(["compare", str(files["old"]), str(files["moved"]), "--json"]) == 1  # events end at infinities
    (one,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert one["p_value"] < one["level"]
    stored = [json.loads(files[name].read_text())["results"][0] for name in ("old", "moved")]
    for result, known in zip((one["old"], one["new"]), stored, strict=True):  # as in the files, with kinds and bounds
        assert result == {name: value for name, value in known.items() if name != "execution"}
        assert result["claim"]["kind"] == "PureDP"
        assert result["lower_bound"] > 0.0


def test_the_command_recounts_registered_mechanisms(tmp_path, capsys):
    assert main(["audit", "laplace", "--trials", "4000", "--seed", "3", "--jobs", "1", "--out", str(tmp_path)]) == 0
    new = tmp_path / "new.json"
    assert main(["recount", str(tmp_path / "audit.json"), "--seed", "4", "--jobs", "1", "--out", str(new)]) == 0
    assert main(["compare", str(tmp_path / "audit.json"), str(new)]) == 0
    assert "laplace, 1-DP" in capsys.readouterr().out
