"""A result with an upper bound: reports show an interval, and files store it beside what the counts certify."""

import csv
import dataclasses
import io
import json

import numpy as np
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
    from epsaudit.tools.reporting.page import render_page

    assert "epsilon in [0.9111, 1.000]" in render_page([result.with_upper_bound(found)], 0.95)
    assert "<dt>interval</dt>" not in render_page([result], 0.95)


def test_csv_has_both_ends_in_full_precision(result, found):
    ending = dataclasses.replace(found, upper_bound=1.0 + 2**-40, delta=4e-4)
    rows = list(csv.DictReader(io.StringIO(tables.to_csv([result.with_upper_bound(ending).row(), result.row()]))))
    assert [(float(rows[0][name])) for name in ("lower_bound", "upper_bound", "upper_delta")] == [
        result.lower_bound,
        1.0 + 2**-40,
        4e-4,
    ]
    assert rows[1]["upper_bound"] == rows[1]["upper_delta"] == ""


@pytest.mark.parametrize("end", [1.0, 1.5])
def test_figures_end_the_interval_at_the_upper_bound(result, found, end):
    pytest.importorskip("matplotlib")
    from epsaudit.tools.reporting import figures

    def line_beside(one):
        axes = figures.plot_certified_against_proven([one], 0.95).axes[0]
        return axes.lines[0].get_xdata()[-1] / axes.get_xlim()[1], axes.get_legend_handles_labels()[1]

    two_sided = result.with_upper_bound(dataclasses.replace(found, upper_bound=end))
    width, labels = line_beside(two_sided)
    assert width == pytest.approx(1.0 / 1.15)
    assert "upper bound (alignment)" in labels
    width, labels = line_beside(result)
    assert width == 1.0
    assert "upper bound (alignment)" not in labels


def test_the_profile_shows_what_the_upper_bound_allows(result, found):
    """Half of the claim: at epsilon 0 the profile of 0.5-DP and the probability that the bound leaves out."""
    pytest.importorskip("matplotlib")
    from epsaudit.tools.reporting import figures

    both = result.with_upper_bound(dataclasses.replace(found, upper_bound=0.5, delta=0.01))
    lines = {line.get_label(): line for line in figures.plot_privacy_profile(both).axes[0].lines}
    epsilons, deltas = lines["at most (alignment)"].get_data()
    assert epsilons[0] == 0.0
    assert deltas[0] == pytest.approx(np.tanh(0.25) + 0.01)
    assert deltas[-1] == pytest.approx(0.01)
    assert "at most (alignment)" not in str(
        [line.get_label() for line in figures.plot_privacy_profile(result).axes[0].lines]
    )


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
