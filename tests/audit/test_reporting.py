"""Numbers never flatter, tables fit and compile, figures and curves show what they should, and are written."""

import csv
import io
import math
import os
import re
import shutil
import subprocess
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import small
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from epsaudit import ZCDP, ApproxDP, AuditResult, GaussianDP, PureDP, RenyiDP, audit
from epsaudit.audits import suite
from epsaudit.audits.suite import run_suite
from epsaudit.audits.verify import load
from epsaudit.experiments import front
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.broken.additive import LaplaceHalfNoise
from epsaudit.mechanisms.exact import PrivacyProfile
from epsaudit.results.result import save
from epsaudit.running.registry import Entry
from epsaudit.text import lower, percent, upper
from epsaudit.tools.cli.main import main
from epsaudit.tools.reporting import figures, tables
from epsaudit.tools.reporting.figures import (
    certified_polygon,
    certified_profile,
    plot_trade_off,
)
from epsaudit.tools.reporting.page import methods
from epsaudit.tools.reporting.tables import ROWS_PER_PAGE, TableColumn, to_csv, to_latex, to_markdown

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
    return list(suite.run_suite(entries, trials=20_000, n_jobs=1))


class TestTable:
    @pytest.mark.parametrize("width", [80, 100, 140])
    def test_it_fits_and_names_everything(self, results, width):
        tables.print_table(
            tables.result_rows(results), tables.RESULT_COLUMNS, file=(drawn := io.StringIO()), width=width
        )
        text = drawn.getvalue()
        assert all(len(line) <= width for line in text.splitlines())
        for result in results:
            assert result.mechanism in text or width < 140  # a long name is folded, and stands whole when it is joined
            assert result.mechanism[:20] in text
            assert lower(result.lower_bound) in text

    def test_surprises_are_marked_and_named(self, results):
        flipped = [replace(results[0], expected="violated"), results[1]]
        tables.print_table(tables.result_rows(flipped), tables.RESULT_COLUMNS, file=(drawn := io.StringIO()), width=80)
        assert "(!)" in drawn.getvalue()
        assert "Not as expected (!): laplace." in tables.caption(flipped, 0.95)
        assert r"| consistent (\!) |" in tables.results_to_markdown(flipped, 0.95)
        assert "consistent (!) " in tables.results_to_latex(flipped, 0.95)
        assert "Not as expected" not in tables.caption(results, 0.95)

    def test_the_caption_says_what_was_not_shown(self, results):
        assert "not a proof" in tables.caption(results, 0.95)
        assert "lower bound" in tables.caption(results, 0.95)

    def test_the_caption_has_no_quotation_marks_which_latex_would_print_as_two_apostrophes(self, results):
        assert "An exact value is the true value" in tables.caption(results, 0.95)
        for some in (results, results[:1]):
            (title,) = re.findall(r"\\caption\{(.*)\}\\label", tables.results_to_latex(some, 0.95))
            assert not set(title) & set("'\"`")

    def test_the_caption_of_one_result_says_of_how_many_its_level_is(self, results):
        alone = tables.caption(results[:1], 0.975)
        assert alone.startswith(
            "1 audit: 0 violated, 1 consistent (which is not a proof). 20k runs. The certified bound"
        )
        assert "Bonferroni" not in alone
        selected = tables.caption(results[:1], 0.95, 2)
        assert "at 97.5% on its own; all 2 bounds of the result file hold together at 95% (Bonferroni)." in selected
        assert "on its own; all hold together at 95% (Bonferroni)." in tables.caption(results, 0.95, 2)


class TestFigure:
    def test_each_result_is_drawn_at_its_share_of_the_claim(self, results):
        panels = figures.plot_certified_against_proven(results, 0.95).axes
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
        drawn = figures.plot_certified_against_proven([results[0], nothing, in_delta, endless], 0.95)
        names = [label.get_text() for axes in drawn.axes for label in axes.get_yticklabels()]
        assert names == [results[0].mechanism, nothing.mechanism, f"{in_delta.mechanism} (in δ)", endless.mechanism]
        assert figures.share_of_claim(in_delta).bound == pytest.approx(in_delta.delta_lower / 0.1)
        assert figures.share_of_claim(nothing).bound == math.inf
        legend = [text.get_text() for text in drawn.legends[0].get_texts()]
        assert "exact: infinite" in legend
        arrows = [line for line in drawn.axes[1].lines if line.get_marker() == ">" and len(line.get_xdata()) == 1]
        assert len(arrows) == 1
        plain = figures.plot_certified_against_proven(results, 0.95).legends[0].get_texts()
        assert "exact: infinite" not in {text.get_text() for text in plain}

    def test_every_row_of_the_registry_is_drawn(self):
        stored = load(Path(__file__).parents[2] / "results" / "audit.json")
        panels = figures.plot_certified_against_proven(stored, 0.95).axes
        assert sum(len(axes.get_yticks()) for axes in panels) == len(stored)
        assert all(
            figures.share_of_claim(result).bound < math.inf for result in stored if result.mechanism in front.SHOWN
        )

    @pytest.mark.parametrize("chosen", [[0], [1], [0, 1]])
    def test_the_legend_names_the_marks_that_occur_and_no_others(self, results, chosen):
        shown = [replace(results[number], exact=None if number else results[number].exact) for number in chosen]
        legend = {text.get_text() for text in figures.plot_certified_against_proven(shown, 0.95).legends[0].get_texts()}
        verdicts = {f"certified, {result.verdict}" for result in shown}
        exact = {"exact for the pair"} if 0 in chosen else set()
        assert legend == verdicts | exact | {"proven"}


def test_labels_are_drawn_as_they_are():
    assert (figures.matplotlib_text("a$b$"), figures.matplotlib_text("_x")) == (r"a\$b\$", " _x")


STRANGE = "50%_&#{}~^\\ \"'<script>|中\u202e--$é"
DOCUMENT = "\\documentclass[{}]{{article}}\\usepackage{{booktabs}}\n\\begin{{document}}\\input{{{}}}\\end{{document}}\n"


def compile_latex(folder, name, layout="onecolumn"):
    """Run pdflatex on a two-line document around the file; skip where there is none, except in CI with LaTeX."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed: the structure is checked, the compilation is not")
    (folder / "main.tex").write_text(DOCUMENT.format(layout, name))
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "main.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "max_print_line": "1000"},
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def results_columns():
    gaussian = Gaussian(1.0, 1e-5)
    entries = [
        Entry(STRANGE, Laplace(1.0), PureDP(1.0)),
        *(Entry(f"gaussian-{i}", gaussian, claim) for i, claim in enumerate(gaussian.claims)),
    ]
    return list(run_suite(entries, trials=20_000, n_jobs=1))


@pytest.mark.parametrize("layout", ["onecolumn", "twocolumn"])
@pytest.mark.parametrize(("rows", "pages"), [(3, "1 page"), (ROWS_PER_PAGE + 20, "2 pages")])
def test_a_table_compiles_whatever_it_holds(rows, pages, layout, tmp_path):
    columns = [
        TableColumn("name", STRANGE),
        TableColumn("code", "code", "code"),
        TableColumn("bound", "bound", "lower"),
    ]
    content = [{"name": STRANGE, "code": STRANGE, "bound": 10.0 ** (9 - 3 * i) / 3} for i in range(rows)]
    (tmp_path / "table.tex").write_text(to_latex(content, columns, STRANGE, "tab:x"), encoding="utf-8")
    assert f"Output written on main.pdf ({pages}," in compile_latex(tmp_path, "table", layout)


@pytest.mark.parametrize("layout", ["onecolumn", "twocolumn"])
def test_the_main_table_compiles_within_the_width_of_a_page(results_columns, layout, tmp_path):
    plain = [result for result in results_columns if result.mechanism != STRANGE]
    (tmp_path / "audit.tex").write_text(tables.results_to_latex(plain, 0.95), encoding="utf-8")
    assert "Overfull" not in compile_latex(tmp_path, "audit", layout)


def test_the_methods_paragraphs_compile(results_columns, tmp_path):
    text = methods(results_columns, 0.95).partition("\n@")[0]
    (tmp_path / "methods.tex").write_text(text, encoding="utf-8")
    assert "Output written on main.pdf (1 page," in compile_latex(tmp_path, "methods")


@given(st.floats(1e-9, 1e9), st.integers(2, 6))
def test_bounds_are_rounded_to_the_safe_side_in_every_format(value, digits):
    rows = [{"low": value, "high": value}]
    columns = [TableColumn("low", "low", "lower", digits), TableColumn("high", "high", "upper", digits)]
    low, high = (cell.strip() for cell in to_markdown(rows, columns).splitlines()[2].strip("|").split("|"))
    assert Decimal(low) <= Decimal(repr(value)) <= Decimal(high)
    body = to_latex(rows, columns, "").split("\\midrule\n")[1].splitlines()[0].removesuffix(r" \\")
    low_tex, high_tex = (_number(cell) for cell in body.split(" & "))
    assert (low_tex, high_tex) == (Decimal(low), Decimal(high))
    assert float(to_csv(rows).splitlines()[1].split(",")[0]) == value


def _number(cell):
    plain = cell.strip().strip("$").replace(r"\cdot ", "x").replace("}", "").replace("10^{", "e")
    return Decimal(plain.replace("xe", "e") if plain[0] != "e" else f"1{plain}")


class TestMethods:
    def test_every_citation_has_its_entry_and_no_other(self, results_columns):

        text = methods(results_columns, 0.95)
        cited = {key for found in re.findall(r"\\cite\{([^}]*)\}", text) for key in found.split(",")}
        assert cited == set(re.findall(r"^@\w+\{(\w+),$", text, flags=re.MULTILINE))
        assert text.count("{") == text.count("}")

    def test_a_level_that_is_not_the_one_asked_for_is_explained_by_the_number_of_audits(self, results):
        """One of two audits holds at 97.5 %, which a reader of its paragraph alone would not understand."""
        told = (
            r" on its own, and all 2 bounds of the result file, of which this is one, hold together with 95\% (Bonferr"
        )
        assert rf"with 97.5\% confidence{told}oni~\cite{{dunn1961multiple}})." in methods(results[:1], 0.95, 2)
        assert "Bonferroni" not in methods(results[:1], 0.975)
        assert "on its own, and all 2 together with 95" in methods(results, 0.95)
        assert "bounds of the result file, of which these are 2, together with 90" in methods(results, 0.9, 3)

    def test_sequential_bounds_hold_together_too(self):
        entries = [Entry(name, Laplace(1.0), PureDP(1.0)) for name in ("a", "b")]
        stopped = list(suite.run_suite(entries, trials=1_000, n_jobs=1, stop_early=True))
        assert "all 2 together with 95" in methods(stopped, 0.95)


ERRORS = np.array([0.0, 1e-5, 0.01, 0.2, 0.5, 0.9, 1.0])
CLAIMS = [PureDP(1.0), ApproxDP(0.5, 0.01), GaussianDP(1.0), ZCDP(0.5), RenyiDP(2.0, 1.0)]


class TestAllowed:
    def test_closed_forms(self):
        e, delta = math.exp(0.5), 0.01
        expected = np.maximum.reduce([1 - delta - e * ERRORS, (1 - delta - ERRORS) / e, 0 * ERRORS])
        assert 1.0 - ApproxDP(0.5, delta).greatest(ERRORS) == pytest.approx(expected, abs=1e-12)
        assert 1.0 - GaussianDP(1.0).greatest(ERRORS) == pytest.approx(norm.cdf(norm.isf(ERRORS) - 1.0), abs=1e-12)

    @pytest.mark.parametrize("claim", CLAIMS, ids=str)
    def test_a_trade_off_curve_is_convex_decreasing_symmetric_and_below_chance(self, claim):
        errors = np.linspace(0.0, 1.0, 101)
        values = 1.0 - claim.greatest(errors)
        assert np.all(np.diff(values) <= 1e-12)
        assert np.all(np.diff(values, 2) >= -1e-9)
        assert np.all(values <= 1.0 - errors + 1e-12)
        inside = (values > 1e-6) & (values < 1 - 1e-6)
        assert 1.0 - claim.greatest(values[inside]) == pytest.approx(errors[inside], abs=1e-6)

    @pytest.mark.parametrize(
        "claim", [pytest.param(one, marks=pytest.mark.slow if isinstance(one, ZCDP) else ()) for one in CLAIMS], ids=str
    )
    def test_its_tangents_are_the_privacy_profile(self, claim):
        errors = np.concatenate([np.geomspace(1e-8, 1e-2, 200), np.linspace(0.01, 1.0, 2000)])
        values = 1.0 - claim.greatest(errors)
        for epsilon in (0.0, 0.3, 1.0):
            gain = np.max(1.0 - values - math.exp(epsilon) * errors)
            assert gain == pytest.approx(claim.profile(epsilon), abs=2e-4)


@cache
def result(mechanism, claim=None, **changes):
    return audit(mechanism, claim=claim, trials=50_000, seed=1, n_jobs=1, **changes)


@pytest.fixture(scope="module")
def stored():
    return result(Laplace(1.0)).to_dict()


def seen(stored, right, wrong):
    """The stored result, had its first event been seen so often in 500 runs a side, and its second never."""
    counts = {"runs_x": 500, "runs_x_prime": 500, "guess_x_on_x": right, "guess_x_on_x_prime": wrong}
    never = {"guess_x_prime_on_x": 0, "guess_x_prime_on_x_prime": 0}
    return AuditResult.from_dict({**stored, "counts": {**stored["counts"], **counts, **never}})


class TestExcluded:
    @pytest.mark.parametrize("mechanism", [Laplace(1.0), Gaussian(1.0, 0.05), LaplaceHalfNoise(1.0)])
    def test_the_exact_curve_stays_out_of_it(self, mechanism):
        pair = mechanism.worst_pairs()[0]
        exact = PrivacyProfile(mechanism(pair.x), mechanism(pair.x_prime))
        p, p_prime = exact.events(np.linspace(-3.0, 3.0, 201))
        order = np.argsort(p_prime)
        found = result(mechanism, confidence=0.999)
        polygon = certified_polygon(found)
        assert len(polygon) > 2
        for likely, rare in polygon[1:-1]:  # some test of the exact curve does as well as each corner
            assert np.interp(likely, p_prime[order], 1.0 - p[order]) <= rare + 1e-6

    @given(st.integers(0, 400), st.integers(0, 400))
    def test_it_is_convex_whatever_was_counted(self, stored, right, wrong):
        polygon = certified_polygon(seen(stored, right, wrong))
        slopes = np.diff(polygon[:, 1]) / np.diff(polygon[:, 0])
        assert np.all(np.diff(slopes) >= -1e-9)
        assert np.all(polygon.sum(axis=1) <= 1.0 + 1e-12)

    @pytest.mark.parametrize("mechanism", [Laplace(1.0), Gaussian(1.0, 0.05), LaplaceHalfNoise(1.0)])
    def test_the_certified_profile_is_the_certificates_bound_and_below_the_exact_one(self, mechanism):
        pair = mechanism.worst_pairs()[0]
        exact = PrivacyProfile(mechanism(pair.x), mechanism(pair.x_prime))
        found = result(mechanism, confidence=0.999)
        epsilons = np.linspace(0.0, 3.0, 13)
        certified = certified_profile(found, epsilons)
        assert np.all(certified <= np.array([exact.delta(e) for e in epsilons]) + 1e-12)
        own = found.certificate.delta(found.counts, found.point[0], found.confidence)
        assert certified_profile(found, np.array([found.point[0]]))[0] == pytest.approx(float(own), abs=1e-12)

    def test_a_refuted_claim_runs_through_it_and_a_kept_one_does_not(self):
        for mechanism, refuted in ((LaplaceHalfNoise(1.0), True), (Laplace(1.0), False)):
            found = result(mechanism)
            corners = certified_polygon(found)[1:-1]
            claimed = 1.0 - found.claim.greatest(corners[:, 0])
            assert np.any(claimed > corners[:, 1]) == refuted == found.violates_claim


class TestStudies:
    def test_text_in_pdf_is_text_and_colours_differ_in_grey(self):
        data = figures.render_figure(plot_trade_off(result(Laplace(1.0))), "pdf")
        assert b"/FontType 42" in data or b"/CIDFontType2" in data
        assert b"/Type3" not in data
        import matplotlib
        from matplotlib.colors import to_rgb

        with figures.styled():
            cycle = matplotlib.rcParams["axes.prop_cycle"].by_key()
            assert len({str(dash) for dash in cycle["linestyle"]}) == len(cycle["color"])
        assert matplotlib.rcParams["pdf.fonttype"] == matplotlib.rcParamsDefault["pdf.fonttype"]  # nothing leaks out
        greys = [np.dot(to_rgb(colour), [0.299, 0.587, 0.114]) for colour in (figures.BLUE, figures.VERMILION)]
        assert abs(greys[0] - greys[1]) > 0.05


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "audit.json"
    save(small.suite(), path)
    return path


@pytest.mark.parametrize(
    ("option", "parts"),
    [
        ("--latex", [r"\toprule", r"\texttt{laplace}", r"broken/\allowbreak{}laplace", r"95\%", "20k runs each"]),
        ("--markdown", ["| laplace |", "at 95% (Bonferroni)"]),
        ("--csv", ["mechanism,claim,parameter"]),
        ("--methods", [r"\cite{clopper1934use}", "@article{clopper1934use,"]),
    ],
)
def test_texts_are_printed_or_written(file, capsys, tmp_path, option, parts):
    assert main(["report", str(file), option]) == 0
    printed = capsys.readouterr().out
    assert all(part in printed for part in parts)
    assert main(["report", str(file), option, str(tmp_path / "new" / "text")]) == 0
    assert (tmp_path / "new" / "text").read_text(encoding="utf-8") == printed
    assert capsys.readouterr().out == ""


def test_only_some_results_keep_the_confidence_of_all(file, capsys):
    chosen = ["report", str(file), "--only", "broken/*", "--only", "laplace"]
    assert main([*chosen, "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert "gaussian" not in printed
    assert "2 audits" in printed
    assert f"all {len(small.NAMES)} bounds of the result file hold together at 95%" in printed
    assert main([*chosen[:-2], "--methods"]) == 0
    assert f"all {len(small.NAMES)} bounds of the result file, of which this is one" in capsys.readouterr().out
    assert main([*chosen, "--csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["mechanism"] for row in rows] == ["laplace", "broken/laplace-half-noise"]


@pytest.mark.parametrize("kind", ["profile", "trade-off"])
@pytest.mark.parametrize("name", small.NAMES)
def test_curves_of_one_result(file, tmp_path, kind, name):
    path = tmp_path / "curve.svg"
    assert main(["report", str(file), "--only", name, "--figure", str(path), "--kind", kind]) == 0
    text = path.read_text()
    axis = {"profile": "nats", "trade-off": "says x"}[kind]
    for part in (name, "20k runs", "98.", "confidence", "exact for the pair", "excluded", axis):
        assert part in text


@pytest.mark.parametrize(("ending", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_figures_in_every_format(file, tmp_path, ending, start):
    assert main(["report", str(file), "--figure", str(tmp_path / f"f.{ending}")]) == 0
    assert (tmp_path / f"f.{ending}").read_bytes().startswith(start)
