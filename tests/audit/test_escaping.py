"""Text from a stranger's file comes through every format without being taken for anything else."""

import csv
import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit.reporting.columns import Column, to_csv, to_latex, to_markdown
from epsaudit.reporting.escaping import csv_cell, latex, markdown, visible

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
    columns = [Column("name", text, "code"), Column("bound", "bound", "lower")]
    lines = to_markdown(rows, columns).splitlines()
    assert len(lines) == 4
    assert all(line.replace("\\\\", "").replace("\\|", "").count("|") == 3 for line in lines)
    body = to_latex(rows, columns, text).split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(body) == 2
    assert all(line.replace(r"\&", "").count("&") == 1 and line.endswith(r"\\") for line in body)
