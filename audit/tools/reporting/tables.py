"""Tables as LaTeX (booktabs), Markdown or CSV, and on the terminal.

A column knows what its numbers are, so that a certified lower bound is never rounded up and an upper one never down.
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
"""Columns of an old terminal, from which the table has all its numbers."""
LONGEST = 45
"""Most rows of a table of LaTeX that stays on one page."""

_EXPONENT = re.compile(r"\b(\d+(?:\.\d+)?)e([-+]?\d+)\b")
_NUMERIC = {"lower": text.lower, "upper": text.upper, "number": nearest, "count": lambda value, digits: f"{value:,.0f}"}


@dataclass(frozen=True)
class Column:
    """One column; None and NaN are shown in it as a dash."""

    key: str
    """What of a row it shows; also its heading in CSV."""
    heading: str
    """Its heading on paper, plain text; Greek letters become mathematics."""
    kind: Kind = "text"
    """Code is in typewriter; a formula is text that may hold numbers such as 1e-05; a number is rounded to nearest."""
    digits: int = 4
    """Significant ones."""
    width: str = ""
    """In LaTeX, a width such as '4cm' at which text is broken into lines."""

    def show(self, row: Row) -> str:
        value = row.get(self.key)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        return _NUMERIC[self.kind](float(value), self.digits) if self.numeric else str(value)

    @property
    def numeric(self) -> bool:
        return self.kind in _NUMERIC

    def show_in_latex(self, row: Row) -> str:
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
    return ("" if mantissa == "1" else rf"{mantissa}\cdot ") + f"10^{{{int(exponent)}}}"


def to_latex(rows: Sequence[Row], columns: Sequence[Column], caption: str, label: str = "") -> str:
    r"""Write a LaTeX table for ``\usepackage{booktabs}``, everything escaped; each 45 rows are one, of one number."""
    columns = with_values(rows, columns)
    alignment = "".join("r" if one.numeric else f"p{{{one.width}}}" if one.width else "l" for one in columns)
    heading = " & ".join(text.latex(column.heading) for column in columns) + r" \\"
    lines = [r"% \usepackage{booktabs}"]
    for first in range(0, max(len(rows), 1), LONGEST):
        title = text.latex(caption) if first == 0 else "(continued)"
        lines += [r"\begin{table*}"] + [r"\addtocounter{table}{-1}"] * (first > 0)
        lines += [rf"\caption{{{title}}}" + (rf"\label{{{label}}}" if label and first == 0 else "")]
        lines += [r"\centering\footnotesize\setlength{\tabcolsep}{4pt}", rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}"]
        lines += [r"\toprule", heading, r"\midrule"]
        for row in rows[first : first + LONGEST]:
            lines.append(" & ".join(column.show_in_latex(row) for column in columns) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table*}"]
    return "\n".join([*lines, ""])


def with_values(rows: Sequence[Row], columns: Sequence[Column]) -> Sequence[Column]:
    """Leave out the columns in which no row has anything."""
    return [column for column in columns if not rows or any(column.show(row) != "-" for row in rows)]


def to_markdown(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Write a Markdown table."""
    columns = with_values(rows, columns)
    cells = [[column.heading for column in columns], *([column.show(row) for column in columns] for row in rows)]
    heading, *body = ("| " + " | ".join(map(text.markdown, line)) + " |\n" for line in cells)
    return "".join([heading, "|" + "|".join("---:" if column.numeric else "---" for column in columns) + "|\n", *body])


def to_csv(rows: Sequence[Row]) -> str:
    """Write CSV with numbers in full precision, of every field that any row has, in order of appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = (json.dumps(cell) if isinstance(cell, (list, tuple, dict)) else cell for cell in map(row.get, names))
        writer.writerow(map(text.csv_cell, cells))
    return buffer.getvalue()


BOUNDS = Column("exact", "exact", "number"), Column("certified", "certified", "lower")
VERDICT = Column("verdict", "verdict")
NAME = Column("mechanism", "mechanism", "code", width="4.2cm")
PAPER = (NAME, Column("claim", "proven", "formula", width="2.8cm"), *BOUNDS, VERDICT)
DRIFT = (
    Column("name", "name"),
    Column("old", "old bound", "lower"),
    Column("new", "new bound", "lower"),
    Column("difference", "difference"),
    Column("moved", "moved"),
)
"""What a terminal shows of the rows of `epsaudit.results.compare.Drift`."""


def result_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return what `PAPER` shows of each result."""
    return [
        {
            "mechanism": result.mechanism,
            "claim": str(result.claim),
            "exact": result.exact,
            "certified": result.lower_bound,
            "verdict": result.verdict + (" (!)" if result.surprising else ""),
            "style": "bold red" if result.surprising else "yellow" if result.violates_claim else None,
        }
        for result in results
    ]


def results_to_latex(results: Sequence[Result], family: float) -> str:
    """Return the table of results as LaTeX; ``family`` is the confidence of all bounds together."""
    return to_latex(result_rows(results), PAPER, caption(results, family), label="tab:audit")


def results_to_markdown(results: Sequence[Result], family: float) -> str:
    """Return the table of results as Markdown with its caption below."""
    return f"{to_markdown(result_rows(results), PAPER)}\n{caption(results, family)}\n"


def kind_of(result: Result) -> str:
    """Name the privacy definition of a result's claim."""
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


def caption(results: Sequence[Result], family_confidence: float) -> str:
    """Say in sentences what the table shows, with what confidence, and what it does not show."""
    violated = sum(result.violates_claim for result in results)
    confidences = {percent(result.confidence) for result in results}
    each = confidences.pop() if len(confidences) == 1 else "the stated confidence"
    sentences = [
        f"{len(results)} audits: {violated} violated, {len(results) - violated} consistent (which is not a proof).",
        f"{runs_each(results)} each. Every certified bound is a lower bound at {each} on its own;",
        f"all hold together at {percent(family_confidence)} (Bonferroni).",
    ]
    if any(result.exact is not None for result in results):
        sentences.append("'exact' is the true value for the audited pair, where both output laws are known.")
    if limited := sum(result.limits is not None for result in results):
        sentences.append(f"{limited} could not have refuted their claim at this budget; their results say what would.")
    if surprises := [result.mechanism for result in results if result.surprising]:
        sentences.append(f"Not as expected (!): {', '.join(surprises)}.")
    return " ".join(sentences)


def runs_each(results: Sequence[Result]) -> str:
    """Say how many runs of its mechanism each result took."""
    numbers = sorted({result.total_runs for result in results})
    words = " or ".join(map(count, numbers)) if len(numbers) < 4 else f"{count(numbers[0])} to {count(numbers[-1])}"
    return words + (" run" if numbers == [1] else " runs")


def family_confidence(results: Sequence[Result]) -> float:
    """Confidence of all bounds together: 1 less the sum of their error probabilities (Bonferroni), at least 0."""
    return max(0.0, round(1.0 - math.fsum(1.0 - result.confidence for result in results), 12))


def told_apart(pair: DatasetPair) -> str:
    """Write both datasets; where their texts are cut short and look alike, or are frames, where they differ."""
    x, x_prime = shorten(pair.x), shorten(pair.x_prime)
    if x == x_prime or (is_frame(pair.x) and is_frame(pair.x_prime)):
        return str(DatasetPair(pair.x, pair.x_prime))
    return f"x = {x}, x' = {x_prime}"


def print_table(
    rows: Sequence[Row],
    columns: Sequence[Column],
    title: str = "",
    file: IO[str] | None = None,
    width: int | None = None,
) -> None:
    """Print a table to the terminal, or a file, its numbers rounded by kind."""
    from rich.console import Console  # slow to import
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=Text(title) if title else None)  # Text, as rich takes [words] and :words: for markup
    columns = with_values(rows, columns)
    for column in columns:
        shown.add_column(Text(column.heading), justify="right" if column.numeric else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(column.show(row)) for column in columns), style=row.get("style"))
    Console(file=file, width=width).print(shown)
