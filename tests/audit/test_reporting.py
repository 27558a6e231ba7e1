"""Numbers never flatter, tables fit, figures show what they should."""

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import ApproxDP, PureDP
from epsaudit.adapters.registry import Entry
from epsaudit.audits import suite
from epsaudit.audits.verify import load
from epsaudit.experiments import front
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.broken.additive import LaplaceHalfNoise
from epsaudit.reporting import figures, style, tables
from epsaudit.text import count, lower, percent, plain, upper

POSITIVE = st.floats(1e-12, 1e12)


class TestNumbers:
    @given(POSITIVE, st.integers(1, 8))
    def test_a_lower_bound_is_never_rounded_up_nor_an_upper_one_down(self, value, digits):
        exact, step = Decimal(repr(value)), Decimal(10) ** (math.floor(math.log10(value)) - digits + 2)
        assert exact - step <= Decimal(lower(value, digits)) <= exact
        assert exact <= Decimal(upper(value, digits)) <= exact + step

    @given(st.floats(0.5, 1 - 1e-6))
    def test_a_confidence_is_never_rounded_up(self, value):
        shown = float(percent(value)[:-1]) / 100
        assert shown <= value + 1e-11
        assert (1 - shown) <= 1.15 * (1 - value) + 1e-11

    def test_edges(self):
        assert lower(math.inf) == "inf"
        assert lower(0.0) == "0"
        assert plain(None) == "-"
        assert count(10**9) == "1G"
        assert percent(0.999999) == "99.9999%"


@pytest.fixture(scope="module")
def results():
    entries = [
        Entry("laplace", Laplace(1.0), PureDP(1.0)),
        Entry(
            "broken/with-a-name-that-is-much-too-long-for-a-column",
            LaplaceHalfNoise(1.0),
            PureDP(1.0),
            expected="violated",
        ),
    ]
    return list(suite.run(entries, trials=20_000, n_jobs=1))


class TestTable:
    @pytest.mark.parametrize("width", [80, 100, 140])
    def test_it_fits_and_names_everything(self, results, width):
        text = tables.render(results, width).plain
        assert all(len(line) <= width for line in text.splitlines())
        for result in results:
            assert result.mechanism in text
            assert lower(result.lower_bound) in text

    @pytest.mark.parametrize("width", [30, 40, 50, 60, 72])
    def test_a_narrow_terminal_keeps_bounds_verdicts_and_the_mark_of_surprise(self, results, width):
        surprising = [replace(result, expected=None) for result in results]
        surprising += [replace(results[0], expected="violated"), replace(results[1], expected="consistent")]
        text = tables.render(surprising, width).plain
        assert all(len(line) <= width for line in text.splitlines())
        assert text.count("consistent (!)") == text.count("violated (!)") == 1
        assert text.count("consistent") == text.count("violated") == 2
        for result in results:
            assert result.mechanism in text.replace("\n", "")
            assert text.count(lower(result.lower_bound)) == 2
        assert ("exact" in text) == (width >= 60)

    def test_surprises_are_marked_and_named(self, results):
        flipped = [replace(results[0], expected="violated"), results[1]]
        assert "(!)" in tables.render(flipped).plain
        assert "Not as expected (!): laplace." in tables.caption(flipped, 0.95)
        assert r"| consistent (\!) |" in tables.results_to_markdown(flipped, 0.95)
        assert "consistent (!) " in tables.results_to_latex(flipped, 0.95)
        assert "Not as expected" not in tables.caption(results, 0.95)

    def test_the_caption_says_what_was_not_shown(self, results):
        assert "not a proof" in tables.caption(results, 0.95)
        assert "lower bound" in tables.caption(results, 0.95)


class TestFigure:
    def test_each_result_is_drawn_at_its_share_of_the_claim(self, results):
        panels = figures.certified_against_proven(results, 0.95).axes
        assert len(panels) == 2  # one for consistent results, one for violated ones
        for axes, result in zip(panels, results, strict=True):
            lines = [np.ravel(line.get_xdata()) for line in axes.lines]
            drawn = {round(float(numbers[0]), 9) for numbers in lines if len(numbers) == 1}
            assert round(result.lower_bound / result.proven, 9) in drawn
            assert round(result.exact / result.proven, 9) in drawn
            assert [label.get_text() for label in axes.get_yticklabels()] == [result.mechanism]

    def test_what_has_no_share_or_no_finite_value_is_not_dropped_silently(self, results):
        nothing, in_delta = (
            replace(results[1], claim=claim, exact=None) for claim in (PureDP(0.0), ApproxDP(0.0, 0.1))
        )
        endless = replace(results[1], exact=math.inf)
        drawn = figures.certified_against_proven([results[0], nothing, in_delta, endless], 0.95)
        names = [label.get_text() for axes in drawn.axes for label in axes.get_yticklabels()]
        assert names == [results[0].mechanism, f"{in_delta.mechanism} (in δ)", endless.mechanism, nothing.mechanism]
        assert figures.shares(in_delta).bound == pytest.approx(in_delta.delta_lower / 0.1)
        legend = [text.get_text() for text in drawn.legends[0].get_texts()]
        assert "exact: infinite" in legend
        below = drawn.axes[-1]
        assert below.get_xlabel() == "certified; the claim is 0"
        assert nothing.lower_bound in [float(np.ravel(line.get_xdata())[0]) for line in below.lines]
        arrows = [line for line in drawn.axes[1].lines if line.get_marker() == ">" and len(line.get_xdata()) == 1]
        assert len(arrows) == 1
        plain = figures.certified_against_proven(results, 0.95).legends[0].get_texts()
        assert "exact: infinite" not in {text.get_text() for text in plain}

    def test_every_row_of_the_registry_is_drawn(self):
        stored = load(Path(__file__).parents[2] / "results" / "audit.json")
        panels = figures.certified_against_proven(stored, 0.95).axes
        assert sum(len(axes.get_yticks()) for axes in panels) == len(stored)
        assert not any(figures.shares(result).of_nothing for result in stored if result.mechanism in front.TELLING)

    @pytest.mark.parametrize("chosen", [[0], [1], [0, 1]])
    def test_the_legend_names_the_marks_that_occur_and_no_others(self, results, chosen):
        shown = [replace(results[number], exact=None if number else results[number].exact) for number in chosen]
        legend = {text.get_text() for text in figures.certified_against_proven(shown, 0.95).legends[0].get_texts()}
        verdicts = {f"certified, {result.verdict}" for result in shown}
        exact = {"exact for the pair"} if 0 in chosen else set()
        assert legend == verdicts | exact | {"proven"}


def test_labels_are_drawn_as_they_are():
    assert (style.words("a$b$"), style.words("_x")) == (r"a\$b\$", " _x")
