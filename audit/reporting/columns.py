"""Tables for papers: rows and columns written as LaTeX (booktabs), Markdown or CSV.

A column knows what its numbers are, so that a certified lower bound is never rounded up and an upper one never down.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from epsaudit.reporting import escaping
from epsaudit.reporting.numbers import lower, plain, upper

Kind = Literal["text", "code", "formula", "lower", "upper", "number", "count"]
Row = Mapping[str, Any]
_EXPONENT = re.compile(r"\b(\d+(?:\.\d+)?)e([-+]?\d+)\b")
LONGEST = 45
"""Most rows of a table that stays on one page; a longer one becomes a longtable."""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes
    ----------
    key : str
        What of a row it shows; also its heading in CSV.
    heading : str
        Its heading on paper, plain text; Greek letters become mathematics.
    kind : str
        'text', 'code' (names, in typewriter), 'formula' (text that may hold numbers such as 1e-05), 'lower' (a
        certified lower bound), 'upper' (an upper one), 'number' (neither, to nearest) or 'count'. None and NaN are
        shown as a dash.
    digits : int
        Significant digits.
    width : str
        In LaTeX, a width such as '4cm' at which text is broken into lines.
    """

    key: str
    heading: str
    kind: Kind = "text"
    digits: int = 4
    width: str = ""

    def show(self, row: Row) -> str:
        """Write the row's value as plain text, rounded by kind.

        Examples
        --------
        >>> Column("bound", "certified", "lower").show({"bound": 0.99999})
        '0.9999'
        """
        value = row.get(self.key)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        if not self.numeric:
            return str(value)
        value = float(value)
        if self.kind == "count":
            return f"{value:,.0f}" if math.isfinite(value) else str(value)
        rounded: dict[str, Callable[[float, int], str]] = {"lower": lower, "upper": upper, "number": plain}
        return rounded[self.kind](value, self.digits)

    @property
    def numeric(self) -> bool:
        """Whether the column is aligned to the right."""
        return self.kind not in ("text", "code", "formula")


def to_latex(rows: Sequence[Row], columns: Sequence[Column], caption: str, label: str = "") -> str:
    r"""Write a LaTeX table that compiles as it is: ``\usepackage{booktabs}``, and longtable beyond 45 rows.

    Parameters
    ----------
    rows, columns
        What is shown; everything is escaped.
    caption : str
        Plain text. It must say the confidence and the number of runs.
    label : str
        For ``\ref``.

    Examples
    --------
    >>> print(to_latex([{"name": "a_b", "bound": 0.99999}], [Column("name", "mechanism"),
    ...     Column("bound", "ε", "lower")], "One row."))
    % \usepackage{booktabs}
    \begin{table}
    \caption{One row.}
    \centering\footnotesize\setlength{\tabcolsep}{4pt}
    \begin{tabular}{lr}
    \toprule
    mechanism & $\varepsilon$ \\
    \midrule
    a\_b & 0.9999 \\
    \bottomrule
    \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    alignment = "".join(
        "r" if column.numeric else f"p{{{column.width}}}" if column.width else "l" for column in columns
    )
    heading = " & ".join(escaping.latex(column.heading) for column in columns) + r" \\"
    body = [" & ".join(_latex_cell(column, row) for column in columns) + r" \\" for row in rows]
    title = rf"\caption{{{escaping.latex(caption)}}}" + (rf"\label{{{label}}}" if label else "")
    if len(rows) > LONGEST:
        return "\n".join(
            [
                r"% \usepackage{booktabs,longtable}",
                r"{\footnotesize\setlength{\tabcolsep}{4pt}",
                rf"\begin{{longtable}}{{{alignment}}}",
                rf"{title}\\",
                r"\toprule",
                heading,
                r"\midrule",
                r"\endfirsthead",
                r"\toprule",
                heading,
                r"\midrule",
                r"\endhead",
                r"\bottomrule",
                r"\endfoot",
                *body,
                r"\end{longtable}}",
                "",
            ]
        )
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            title,
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            heading,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def to_markdown(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Write a Markdown table.

    Examples
    --------
    >>> print(to_markdown([{"bound": 0.99999}], [Column("bound", "certified", "lower")]))
    | certified |
    |---:|
    | 0.9999 |
    <BLANKLINE>
    """
    lines = [
        "| " + " | ".join(escaping.markdown(column.heading) for column in columns) + " |",
        "|" + "|".join("---:" if column.numeric else "---" for column in columns) + "|",
        *("| " + " | ".join(escaping.markdown(column.show(row)) for column in columns) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def to_csv(rows: Sequence[Row], fields: Sequence[str] | None = None) -> str:
    """Write CSV with numbers in full precision; by default every field that any row has, in order of appearance.

    Examples
    --------
    >>> print(to_csv([{"name": "a", "bound": 0.1 + 0.2}, {"name": "=b", "runs": 3}]))
    name,bound,runs
    a,0.30000000000000004,
    '=b,,3
    <BLANKLINE>
    """
    names = list(fields) if fields is not None else list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([escaping.csv_cell(_flat(row.get(name))) for name in names] for row in rows)
    return buffer.getvalue()


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, tuple, dict)) else value


def _latex_cell(column: Column, row: Row) -> str:
    text = column.show(row)
    if text == "-" or column.numeric:
        return {"-": "--", "inf": r"$\infty$", "-inf": r"$-\infty$"}.get(text, _scientific(text))
    escaped = escaping.latex(text)
    if column.kind == "formula":
        escaped = _EXPONENT.sub(lambda found: f"${_times(found[1])}10^{{{int(found[2])}}}$", escaped)
    if column.kind == "code":
        broken = re.sub(r"([-/])(?=\w)", r"\1\\allowbreak{}", escaped) if column.width else escaped
        escaped = rf"\texttt{{{broken}}}"
    return rf"\raggedright {escaped}" if column.width else escaped


def _scientific(text: str) -> str:
    mantissa, e, exponent = text.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    number = f"{_times(mantissa)}10^{{{int(exponent)}}}" if e else mantissa
    return f"${number}$" if sign or e else number


def _times(mantissa: str) -> str:
    return "" if mantissa == "1" else rf"{mantissa}\cdot "
