"""Text from an untrusted file appears in every report format as text, and never as code or markup."""

import csv
import dataclasses
import html
import io
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import kinds

from epsaudit import AuditResult, SequentialResult
from epsaudit.experiments import studies
from epsaudit.text import csv_cell, latex, markdown, visible
from epsaudit.tools.reporting import figures, page, tables
from epsaudit.tools.reporting.tables import TableColumn, print_table, to_csv, to_latex, to_markdown

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='x",
    "a\u202egnp.exe",
    "\u2066isolated\u2069",
    "zero\u200bwidth",
    "\\input{/etc/passwd}",
    "50% & $x_1^2$ #3 ~ {y}",
    "a|b`c*d_e[f](javascript:1)",
    '=HYPERLINK("http://x")',
    "@SUM(1)",
    "-2+3",
    "line\r\nbreak\x00\x07",
    "中文 é ß ε ∞",
    "--- ---",
]


@given(st.text())
def test_nothing_invisible_or_reordering_is_left(text):
    shown = visible(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") for c in shown)
    assert visible(shown) == shown


@given(st.text())
def test_latex_is_ascii_or_latin_and_balanced(text):
    written = latex(text)
    assert all(ord(c) < 0x180 for c in written)
    bare = written.replace(r"\{", "").replace(r"\}", "").replace(r"\$", "")
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert "%" not in written.replace(r"\%", "")


@given(st.text())
def test_markdown_has_no_html_and_stays_in_its_cell(text):
    written = markdown(text)
    assert "<" not in written
    assert ">" not in written
    assert "\n" not in written
    for special in "|`*_[]":
        unescaped = written.replace("\\\\", "").replace(f"\\{special}", "")
        assert special not in unescaped


@given(st.text())
def test_csv_comes_back_as_it_was_but_for_an_apostrophe(text):
    written = to_csv([{"name": text}, {"name": "next"}])
    _, row, following = csv.reader(io.StringIO(written, newline=""), strict=True)
    assert following == ["next"]
    one_end = text.replace("\r\n", "\n").replace("\r", "\n")
    assert "".join(row) in (one_end, f"'{one_end}")  # an empty row is empty text
    assert not str(csv_cell(text)).startswith(("=", "@", "|", "\t", "\n", "\r"))


@pytest.mark.parametrize("number", ["-1", "+2.5", "-inf", -3.0, 0, None, True])
def test_numbers_in_csv_stay_numbers(number):
    assert csv_cell(number) == number


@pytest.mark.parametrize("text", HOSTILE)
def test_tables_keep_their_shape(text):
    rows = [{"name": text, "bound": 0.5}, {"name": "next", "bound": None}]
    columns = [TableColumn("name", text, "code"), TableColumn("bound", "bound", "lower")]
    lines = to_markdown(rows, columns).splitlines()
    assert len(lines) == 4
    assert all(line.replace("\\\\", "").replace("\\|", "").count("|") == 3 for line in lines)
    body = to_latex(rows, columns, text).split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(body) == 2
    assert all(line.replace(r"\&", "").count("&") == 1 and line.endswith(r"\\") for line in body)


NAMES = [
    "lib:m:",
    ":smile:",
    "[accounting]",
    "[bold]b[/bold]",
    "[/]",
    "<b>&amp;</b>",
    "a$b$c",
    "$x_1",
    "_x",
    r"\\input{x}",
]
"""What rich, HTML, LaTeX or matplotlib would take for something else."""


@pytest.fixture(scope="module")
def results():
    return [dataclasses.replace(kinds()[AuditResult], mechanism=name) for name in NAMES]


def drawn(picture):
    """Return the words of a figure as they occur in its file."""
    return [
        html.unescape(text)
        for text in re.findall(r"<text[^>]*>([^<]*)</text>", figures.render_figure(picture, "svg").decode())
    ]


class TestNamesStayAsTheyAre:
    def test_in_the_terminal(self, results, capsys):
        tables.print_table(tables.result_rows(results), tables.RESULT_COLUMNS, width=200)
        printed = capsys.readouterr().out
        assert all(f" {name} " in printed for name in NAMES)
        print_table([{"name": name} for name in NAMES], [TableColumn("name", "[name] :m:")], "a [title]")
        printed = capsys.readouterr().out
        assert all(name in printed for name in [*NAMES, "[name] :m:", "a [title]"])

    def test_on_the_page_and_in_a_notebook(self, results):
        written = page.render_page(results, 0.95)
        for name, result in zip(NAMES, results, strict=True):
            assert f"<bdi>{html.escape(name, quote=False)}</bdi>" in written.replace("&#34;", '"').replace("&#39;", "'")
            assert html.escape(name) in result._repr_html_()

    def test_in_csv(self, results):
        rows = csv.DictReader(io.StringIO(tables.to_csv([one.row() for one in results])))
        assert [row["mechanism"] for row in rows] == NAMES

    def test_in_figures(self, results):
        said = [text.strip() for text in drawn(figures.plot_certified_against_proven(results, 0.95))]
        assert set(NAMES) <= set(said)
        for result in results[-4:]:
            assert result.mechanism in " ".join(drawn(figures.plot_trade_off(result)))
        paths = dict.fromkeys(NAMES[-4:], kinds()[SequentialResult])
        said = [text.strip() for text in drawn(figures.plot_running_bound(paths))]
        assert set(NAMES[-4:]) <= set(said)

    def test_in_the_readme_of_a_study(self, tmp_path):
        ran = {"seconds": 3.0, "started": "2026-01-01T00:00:00Z", "command": "x"}
        studies.write_json(tmp_path / "provenance.json", {"commit": "abc", "execution": ran})
        studies.write_readme(tmp_path, "Is <b> *it*?", "a_b, [c](d) and `e`.")
        written = (tmp_path / "README.md").read_text()
        assert r"Is &lt;b&gt; \*it\*?" in written
        assert r"a\_b, \[c\](d) and \`e\`." in written
