"""Tables of results as LaTeX (booktabs), Markdown and CSV, and on the terminal.

A column knows the kind of its numbers, so that a certified lower bound is never rounded up and an upper bound never
down.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from epsaudit import text
from epsaudit.data.neighbours import DatasetPair
from epsaudit.data.records import is_frame, shorten
from epsaudit.text import count, nearest, percent

if TYPE_CHECKING:
    from epsaudit.results.result import Result

Kind = Literal["text", "code", "formula", "lower", "upper", "number", "count"]
Row = Mapping[str, Any]
WIDTH = 80
"""Smallest terminal width, in characters, at which the table shows all of its numbers."""
ROWS_PER_PAGE = 45
"""Maximum number of rows of one LaTeX table, so that it fits on a page."""

_EXPONENT = re.compile(r"\b(\d+(?:\.\d+)?)e([-+]?\d+)\b")
_NUMERIC = {"lower": text.lower, "upper": text.upper, "number": nearest, "count": lambda value, digits: f"{value:,.0f}"}


@dataclass(frozen=True)
class TableColumn:
    """A column of a results table, with its heading and number format. The values None and NaN are shown as a dash."""

    key: str
    """Key of the shown value in each row; also the heading in CSV files."""
    heading: str
    """Heading in all other tables, as plain text. LaTeX shows Greek letters as mathematics."""
    kind: Kind = "text"
    """Kind of the values. 'code' is set in typewriter. 'formula' is text that may contain numbers such as 1e-05.
    'lower' is rounded down, 'upper' up, and 'number' to nearest."""
    digits: int = 4
    """Number of significant digits."""
    width: str = ""
    """Column width in LaTeX, such as '4cm', at which text is broken into lines; '' for the natural width."""

    def show(self, row: Row) -> str:
        """Return this column's cell of a row as plain text, with a number rounded according to the column's kind."""
        value = row.get(self.key)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        return _NUMERIC[self.kind](float(value), self.digits) if self.numeric else str(value)

    @property
    def numeric(self) -> bool:
        """Whether the column contains numbers."""
        return self.kind in _NUMERIC

    def show_in_latex(self, row: Row) -> str:
        """Return this column's cell of a row as LaTeX code."""
        shown = self.show(row)
        if shown == "-" or self.numeric:
            mantissa, e, exponent = shown.partition("e")
            number = f"${_power(mantissa, exponent)}$" if e else f"${shown}$" if shown.startswith("-") else shown
            return {"-": "--", "inf": r"$\infty$", "-inf": r"$-\infty$"}.get(shown, number)
        escaped = text.latex(shown)
        if self.kind == "formula":
            escaped = _EXPONENT.sub(lambda found: f"${_power(found[1], found[2])}$", escaped)
        if self.kind == "code":
            broken = re.sub(r"([-/])(?=\w)", r"\1\\allowbreak{}", escaped) if self.width else escaped
            escaped = rf"\texttt{{{broken}}}"
        return rf"\raggedright {escaped}" if self.width else escaped


def _power(mantissa: str, exponent: str) -> str:
    """Return LaTeX code for a mantissa times a power of 10, for example for 2 times 10^-5."""
    return ("" if mantissa == "1" else rf"{mantissa}\cdot ") + f"10^{{{int(exponent)}}}"


def to_latex(rows: Sequence[Row], columns: Sequence[TableColumn], caption: str, label: str = "") -> str:
    r"""Return a LaTeX table of the rows for ``\usepackage{booktabs}``, with all text escaped.

    A table has at most 45 rows; longer tables are continued on further pages under the same table number.
    """
    columns = nonempty_columns(rows, columns)
    alignment = "".join("r" if one.numeric else f"p{{{one.width}}}" if one.width else "l" for one in columns)
    heading = " & ".join(text.latex(column.heading) for column in columns) + r" \\"
    lines = [r"% \usepackage{booktabs}"]
    for first in range(0, max(len(rows), 1), ROWS_PER_PAGE):
        title = text.latex(caption) if first == 0 else "(continued)"
        lines += [r"\begin{table*}"] + [r"\addtocounter{table}{-1}"] * (first > 0)
        lines += [rf"\caption{{{title}}}" + (rf"\label{{{label}}}" if label and first == 0 else "")]
        lines += [r"\centering\footnotesize\setlength{\tabcolsep}{4pt}", rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}"]
        lines += [r"\toprule", heading, r"\midrule"]
        for row in rows[first : first + ROWS_PER_PAGE]:
            lines.append(" & ".join(column.show_in_latex(row) for column in columns) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table*}"]
    return "\n".join([*lines, ""])


def nonempty_columns(rows: Sequence[Row], columns: Sequence[TableColumn]) -> Sequence[TableColumn]:
    """Return the columns in which at least one row has a value; all columns if there are no rows."""
    return [column for column in columns if not rows or any(column.show(row) != "-" for row in rows)]


def to_markdown(rows: Sequence[Row], columns: Sequence[TableColumn]) -> str:
    """Return a Markdown table of the rows. Columns without any value are left out."""
    columns = nonempty_columns(rows, columns)
    cells = [[column.heading for column in columns], *([column.show(row) for column in columns] for row in rows)]
    heading, *body = ("| " + " | ".join(map(text.markdown, line)) + " |\n" for line in cells)
    return "".join([heading, "|" + "|".join("---:" if column.numeric else "---" for column in columns) + "|\n", *body])


def to_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV text, with numbers in full precision.

    There is one column for every key that occurs in any row, in the order in which the keys first appear.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = (json.dumps(cell) if isinstance(cell, (list, tuple, dict)) else cell for cell in map(row.get, names))
        writer.writerow(map(text.csv_cell, cells))
    return buffer.getvalue()


BOUNDS = TableColumn("exact", "exact", "number"), TableColumn("certified", "certified", "lower")
VERDICT = TableColumn("verdict", "verdict")
NAME = TableColumn("mechanism", "mechanism", "code", width="4.2cm")
INTERVAL = TableColumn("interval", "interval")
RESULT_COLUMNS = (NAME, TableColumn("claim", "proven", "formula", width="2.8cm"), *BOUNDS, INTERVAL, VERDICT)
DRIFT_COLUMNS = (
    TableColumn("name", "name"),
    TableColumn("old", "old bound", "lower"),
    TableColumn("new", "new bound", "lower"),
    TableColumn("difference", "difference"),
    TableColumn("moved", "moved"),
)
"""Columns of a terminal table of the rows of `epsaudit.results.compare.Drift`."""


def result_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return one table row per result, as a dictionary with the values for `RESULT_COLUMNS`."""
    return [
        {
            "mechanism": result.mechanism,
            "claim": str(result.claim),
            "exact": result.exact,
            "certified": result.lower_bound,
            "interval": getattr(result, "interval", None),
            "verdict": result.verdict + (" (!)" if result.surprising else ""),
            "style": "bold red" if result.surprising else "yellow" if result.violates_claim else None,
        }
        for result in results
    ]


def results_to_latex(results: Sequence[Result], family: float, audits: int | None = None) -> str:
    """Return a LaTeX table of results. ``family`` and ``audits`` are explained in `caption`."""
    return to_latex(result_rows(results), RESULT_COLUMNS, caption(results, family, audits), label="tab:audit")


def results_to_markdown(results: Sequence[Result], family: float, audits: int | None = None) -> str:
    """Return a Markdown table of results, followed by its caption.

    ``family`` and ``audits`` are explained in `caption`.
    """
    return f"{to_markdown(result_rows(results), RESULT_COLUMNS)}\n{caption(results, family, audits)}\n"


def privacy_definition(result: Result) -> str:
    """Return the name of the privacy definition of a result's claim, such as 'approximate DP'."""
    name = type(result.claim).__name__
    return {
        "PureDP": "pure DP",
        "ApproxDP": "approximate DP",
        "RenyiDP": "Rényi DP",
        "GaussianDP": "Gaussian DP",
        "ZCDP": "zCDP",
        "ApproxZCDP": "approximate zCDP",
        "TradeOff": "f-DP",
    }.get(name, name)


def caption(results: Sequence[Result], family_confidence: float, audits: int | None = None) -> str:
    """Return the caption of a table of results: what the table shows, at what confidence, and what it does not show.

    ``family_confidence`` is the confidence at which all bounds of a group of audits hold together, and ``audits`` is
    the number of audits in this group. By default, the group consists of the given results. If the given results were
    selected from a result file, it consists of all audits of the file.
    """
    number, violated = len(results), sum(result.violates_claim for result in results)
    confidences = {percent(result.confidence) for result in results}
    level = confidences.pop() if len(confidences) == 1 else "the stated confidence"
    together = f"hold together at {percent(family_confidence)} (Bonferroni)."
    sentences = [
        f"{number} audit{'s' * (number != 1)}: {violated} violated, {number - violated} consistent "
        "(which is not a proof).",
        f"{describe_runs(results)}{' each' * (number != 1)}.",
    ]
    if number == 1:
        sentences.append(f"The certified bound is a lower bound at {level}")
    else:
        sentences.append(f"Every certified bound is a lower bound at {level}")
    if audits is not None and audits > number:
        sentences[-1] += f" on its own; all {audits} bounds of the result file {together}"
    else:
        sentences[-1] += "." if number == 1 else f" on its own; all {together}"
    if any(result.exact is not None for result in results):
        sentences.append("An exact value is the true value for the audited pair, where both output laws are known.")
    if any(getattr(result, "interval", None) is not None for result in results):
        sentences.append(
            "An interval ends at an upper bound for the audited pair, which an alignment of the noise shows."
        )
    if limited := sum(result.limits is not None for result in results):
        sentences.append(f"{limited} could not have refuted their claim at this budget; their results say what would.")
    if surprises := [result.mechanism for result in results if result.surprising]:
        sentences.append(f"Not as expected (!): {', '.join(surprises)}.")
    return " ".join(sentences)


def describe_runs(results: Sequence[Result]) -> str:
    """Return the number of runs per result as text.

    Up to three different numbers are listed, such as '20k or 100k runs'; more are written as a range.
    """
    numbers = sorted({result.total_runs for result in results})
    words = " or ".join(map(count, numbers)) if len(numbers) < 4 else f"{count(numbers[0])} to {count(numbers[-1])}"
    return words + (" run" if numbers == [1] else " runs")


def family_confidence(results: Sequence[Result]) -> float:
    """Return the confidence at which the bounds of all given results hold together.

    It is 1 minus the sum of the error probabilities of the bounds (Bonferroni), but at least 0.
    """
    return max(0.0, round(1.0 - math.fsum(1.0 - result.confidence for result in results), 12))


def describe_pair(pair: DatasetPair) -> str:
    """Return a text that shows both datasets of a pair.

    If the shortened texts of the datasets are equal, or if the datasets are data frames, the text shows where they
    differ instead.
    """
    x, x_prime = shorten(pair.x), shorten(pair.x_prime)
    if x == x_prime or (is_frame(pair.x) and is_frame(pair.x_prime)):
        return str(DatasetPair(pair.x, pair.x_prime))
    return f"x = {x}, x' = {x_prime}"


def print_table(
    rows: Sequence[Row],
    columns: Sequence[TableColumn],
    title: str = "",
    file: IO[str] | None = None,
    width: int | None = None,
) -> None:
    """Print a table to the terminal or to a file, with numbers rounded according to the kind of their column."""
    from rich.console import Console  # slow to import
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=Text(title) if title else None)  # Text, as rich takes [words] and :words: for markup
    columns = nonempty_columns(rows, columns)
    for column in columns:
        shown.add_column(Text(column.heading), justify="right" if column.numeric else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(column.show(row)) for column in columns), style=row.get("style"))
    Console(file=file, width=width).print(shown)
