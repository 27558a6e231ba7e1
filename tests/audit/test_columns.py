"""Tables for papers: numbers never flatter, and LaTeX compiles as it is inside a two-line document."""

import os
import shutil
import subprocess
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import PureDP
from epsaudit.adapters.registry import Entry
from epsaudit.audits.suite import run
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.reporting import tables
from epsaudit.reporting.methods import methods
from epsaudit.reporting.tables import LONGEST, Column, to_csv, to_latex, to_markdown

STRANGE = "50%_&#{}~^\\ \"'<script>|中\u202e--$é"
DOCUMENT = (
    "\\documentclass{{article}}\\usepackage{{booktabs,longtable}}\n\\begin{{document}}\\input{{{}}}\\end{{document}}\n"
)


def compile_latex(folder, name):
    """Run pdflatex on a two-line document around the file; skip where there is none, except in CI with LaTeX."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed: the structure is checked, the compilation is not")
    (folder / "main.tex").write_text(DOCUMENT.format(name))
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
def results():
    gaussian = Gaussian(1.0, 1e-5)
    entries = [
        Entry(STRANGE, Laplace(1.0), PureDP(1.0)),
        *(Entry(f"gaussian-{i}", gaussian, claim) for i, claim in enumerate(gaussian.claims)),
    ]
    return list(run(entries, trials=20_000, n_jobs=1))


@pytest.mark.parametrize(("rows", "pages"), [(3, "1 page"), (LONGEST + 20, "2 pages")])
def test_a_table_compiles_whatever_it_holds(rows, pages, tmp_path):
    columns = [Column("name", STRANGE), Column("code", "code", "code"), Column("bound", "bound", "lower")]
    content = [{"name": STRANGE, "code": STRANGE, "bound": 10.0 ** (9 - 3 * i) / 3} for i in range(rows)]
    (tmp_path / "table.tex").write_text(to_latex(content, columns, STRANGE, "tab:x"), encoding="utf-8")
    assert f"Output written on main.pdf ({pages}," in compile_latex(tmp_path, "table")


def test_the_main_table_compiles_within_the_width_of_a_page(results, tmp_path):
    plain = [result for result in results if result.mechanism != STRANGE]
    (tmp_path / "audit.tex").write_text(tables.results_to_latex(plain, 0.95), encoding="utf-8")
    assert "Overfull" not in compile_latex(tmp_path, "audit")


def test_the_methods_paragraphs_compile(results, tmp_path):
    text = methods(results, 0.95).partition("\n@")[0]
    (tmp_path / "methods.tex").write_text(text, encoding="utf-8")
    assert "Output written on main.pdf (1 page," in compile_latex(tmp_path, "methods")


@given(st.floats(1e-9, 1e9), st.integers(2, 6))
def test_bounds_are_rounded_to_the_safe_side_in_every_format(value, digits):
    rows = [{"low": value, "high": value}]
    columns = [Column("low", "low", "lower", digits), Column("high", "high", "upper", digits)]
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
    def test_every_citation_has_its_entry_and_no_other(self, results):
        import re

        text = methods(results, 0.95)
        cited = {key for found in re.findall(r"\\cite\{([^}]*)\}", text) for key in found.split(",")}
        assert cited == set(re.findall(r"^@\w+\{(\w+),$", text, flags=re.MULTILINE))
        assert text.count("{") == text.count("}")
