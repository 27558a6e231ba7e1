"""A result with an upper bound: reports show an interval, and files store it beside what the counts certify."""

import dataclasses
import json

import pytest

from epsaudit import AuditError, AuditResult, PureDP, audit, bound_above
from epsaudit.audits.verify import UPPER_BOUND, recompute, rerun
from epsaudit.results.compare import compare_runs, recount
from epsaudit.running.registry import Entry
from epsaudit.tools.reporting import tables

PAIR = (["a"], ["a", "b"])


def count(data, rng):
    return len(data) + rng.laplace()


def half(data, rng):
    return len(data) + rng.laplace(scale=0.5)


@pytest.fixture(scope="module")
def result():
    return audit(count, PAIR, epsilon=1.0, trials=10_000, seed=1, n_jobs=1)


@pytest.fixture(scope="module")
def found():
    return bound_above(count, PAIR, claim=PureDP(1.0))


def test_reports_show_the_interval(result, found):
    both = result.with_upper_bound(found)
    assert both.interval == "epsilon in [0.9111, 1.000]"
    assert "  interval   epsilon in [0.9111, 1.000]; upper bound from an alignment, certain" in str(both)
    assert "epsilon in [0.9111, 1.000]" in tables.results_to_latex([both, result], 0.95)
    assert r"epsilon in \[0.9111, 1.000\]" in tables.results_to_markdown([both], 0.95)
    assert "interval" not in str(result) + tables.results_to_latex([result], 0.95)


def test_the_page_shows_the_interval(result, found):
    pytest.importorskip("matplotlib")
    from epsaudit.tools.reporting.page import render

    assert "epsilon in [0.9111, 1.000]" in render([result.with_upper_bound(found)], 0.95)
    assert "<dt>interval</dt>" not in render([result], 0.95)


def test_a_bound_from_runs_says_what_it_leaves_out(result, found):
    from_runs = dataclasses.replace(found, certain=False, runs=10_000, delta=4e-4)
    said = "upper bound from an alignment except with probability 0.00040, confidence 95% (10,000 runs)"
    assert said in str(result.with_upper_bound(from_runs))


def test_rounding_that_runs_allow_for_is_not_shown(result, found):
    shown = [
        result.with_upper_bound(dataclasses.replace(found, upper_bound=end)).interval for end in (1.000001, 1.0001)
    ]
    assert shown == ["epsilon in [0.9111, 1.000]", "epsilon in [0.9111, 1.001]"]


def test_a_recount_of_other_code_drops_it(result, found):
    both = result.with_upper_bound(found)
    assert recount(both, _mechanism(), seed=2, n_jobs=1).upper is None
    assert compare_runs(both, result) == compare_runs(result, result)


def test_files_store_it_and_files_without_it_verify(result, found, tmp_path):
    both = result.with_upper_bound(found)
    both.save(tmp_path / "r.json")
    assert AuditResult.load(tmp_path / "r.json") == both
    assert "upper" not in result.to_dict()
    assert recompute(result.to_dict()).holds
    assert UPPER_BOUND not in recompute(result.to_dict()).unchecked
    told = recompute(json.loads(json.dumps(both.to_dict())))
    assert told.holds
    assert UPPER_BOUND in told.unchecked, "no counts of the file show it"


def test_an_audit_that_is_run_again_does_not_miss_it(found):
    entry = Entry("count", mechanism := _mechanism(), PureDP(1.0), expected=None)
    stored = audit(mechanism, trials=10_000, seed=1, n_jobs=1).with_upper_bound(found)
    assert rerun(stored.to_dict(), entry, n_jobs=1).holds


def _mechanism():
    from epsaudit import black_box

    return black_box(count, claim=PureDP(1.0), pairs=[PAIR])


def test_the_order_of_the_pair_does_not_matter(result):
    assert result.with_upper_bound(bound_above(count, PAIR[::-1], claim=PureDP(1.0))).upper is not None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"value": "many"}, "value is 'many'"),
        ({"delta": 2.0}, "delta is 2.0"),
        ({"more": 1}, "more"),
    ],
)
def test_a_malformed_bound_in_a_file_is_refused(changed, said, result, found):
    stored = result.with_upper_bound(found).to_dict()
    with pytest.raises(AuditError, match=said):
        recompute({**stored, "upper": {**stored["upper"], **changed}})


def test_the_bound_of_another_pair_or_claim_is_refused(result, found):
    for other in (bound_above(count, ([], ["b"]), claim=PureDP(1.0)), bound_above(count, PAIR, claim=PureDP(2.0))):
        with pytest.raises(AuditError, match="The upper bound is about"):
            result.with_upper_bound(other)
    with pytest.raises(AuditError, match="There is no upper bound to add"):
        result.with_upper_bound(dataclasses.replace(found, upper_bound=float("inf"), reason="it leaks"))


def test_a_contradiction_is_said(found):
    """The half noise is audited, and the bound is that of the whole noise."""
    wrong = audit(half, PAIR, epsilon=1.0, trials=10_000, seed=1, n_jobs=1).with_upper_bound(found)
    assert wrong.lower_bound > 1.0
    assert "the bounds contradict each other" in str(wrong)
