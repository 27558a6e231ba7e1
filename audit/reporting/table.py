"""The main table: one row a mechanism and claim, for the terminal, as CSV, LaTeX and Markdown.

It is made from results, as styled or plain text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from epsaudit.reporting import columns
from epsaudit.reporting.columns import Column
from epsaudit.reporting.numbers import SYMBOLS, count, lower, percent, plain
from epsaudit.results import Result

KINDS = {
    "PureDP": "pure DP",
    "ApproxDP": "approximate DP",
    "ZCDP": "zCDP",
    "RenyiDP": "Rényi DP",
    "GaussianDP": "Gaussian DP",
}


def render(results: Sequence[Result], width: int = 80) -> Text:
    """Lay out the terminal table: a line of numbers for each result, and its witness event below.

    Lower bounds are rounded down. A verdict that theory does not expect is marked, at any width: a narrow terminal goes
    without the exact values, then without the proven ones, and breaks names. Confidence and runs get columns of their
    own from 100 columns on; `caption` says them in any case.
    """
    headings = ["proven", "exact", "certified", "conf.", "runs", "verdict"]
    every = list(map(_cells, results))
    sizes = [max(len(heading), *(len(row[place]) for row in every)) for place, heading in enumerate(headings)]
    kept = [0, 1, 2, 3, 4, 5] if width >= 100 else [0, 1, 2, 5]
    for place in (1, 0):
        if width - sum(sizes[i] + 2 for i in kept) < len("mechanism"):
            kept.remove(place)
    columns, cells = [headings[i] for i in kept], [[row[i] for i in kept] for row in every]
    widths = [sizes[i] for i in kept]
    first = max(width - sum(widths) - 2 * len(widths), 0)

    def line(name: str, row: Sequence[str]) -> str:
        broken = "\n".join(name[start : start + width] for start in range(0, len(name), width))
        start = f"{name:<{first}}" if len(name) <= first else f"{broken}\n{'':<{first}}"
        aligned = [f"{cell:>{size}}" for cell, size in zip(row[:-1], widths[:-1], strict=True)]
        return "  ".join([start, *aligned, row[-1]])

    text = Text(line("mechanism", columns).rstrip() + "\n", style="bold")
    text = Text("").append_text(text)
    for result, row in zip(results, cells, strict=True):
        body = line(result.mechanism, row).rstrip()
        verdict = "bold red" if result.surprising else "yellow" if result.violates_claim else "green"
        text.append(body[: -len(row[-1])]).append(row[-1] + "\n", style=verdict)
        event = f"  {result.describe_event()}"
        text.append((event if len(event) <= width else event[: width - 3] + "...") + "\n", style="dim")
    return text


def _cells(result: Result) -> list[str]:
    return [
        f"{SYMBOLS[result.claim.symbol]} {plain(result.proven)}",
        plain(result.exact),
        lower(result.lower_bound),
        percent(result.confidence),
        count(result.spent),
        _verdict(result),
    ]


def _verdict(result: Result) -> str:
    return result.verdict + (" (!)" if result.surprising else "")


def kind_of(result: Result) -> str:
    """Name the privacy definition of a result's claim."""
    name = type(result.claim).__name__
    return KINDS.get(name, name)


def caption(results: Sequence[Result], family_confidence: float) -> str:
    """Say in sentences what the table shows, with what confidence, and what it does not show."""
    violated = sum(result.violates_claim for result in results)
    surprises = [result.mechanism for result in results if result.surprising]
    confidences = {percent(result.confidence) for result in results}
    each = confidences.pop() if len(confidences) == 1 else "the stated confidence"
    sentences = [
        f"{len(results)} audits: {violated} violated, {len(results) - violated} consistent (which is not a proof).",
        f"{runs_each(results)} each. Every certified bound is a lower bound at {each} on its own; all hold together at "
        f"{percent(family_confidence)} (Bonferroni).",
        "'exact' is the true value for the audited pair, where both output laws are known.",
    ]
    limited = sum(result.limits is not None for result in results)
    if limited:
        sentences.append(f"{limited} could not have refuted their claim at this budget; their results say what would.")
    if surprises:
        sentences.append(f"Not as expected (!): {', '.join(surprises)}.")
    return " ".join(sentences)


def runs_each(results: Sequence[Result]) -> str:
    """Say how many runs of its mechanism each result took."""
    numbers = sorted({result.spent for result in results})
    words = " or ".join(map(count, numbers)) if len(numbers) < 4 else f"{count(numbers[0])} to {count(numbers[-1])}"
    return words + (" run" if numbers == [1] else " runs")


def family_confidence(results: Sequence[Result]) -> float:
    """Confidence of all bounds together: 1 less the sum of their error probabilities (Bonferroni), at least 0.

    Examples
    --------
    >>> family_confidence([])
    1.0
    """
    return max(0.0, round(1.0 - math.fsum(1.0 - result.confidence for result in results), 12))


def to_csv(results: Sequence[Result]) -> str:
    """Return the table as CSV text, numbers in full precision."""
    return columns.to_csv([result.row() for result in results])


def to_latex(results: Sequence[Result], family: float) -> str:
    """Return the table as LaTeX, certified bounds rounded down; see `epsaudit.reporting.columns.to_latex`."""
    return columns.to_latex(_rows(results), PAPER, caption(results, family), label="tab:audit")


def to_markdown(results: Sequence[Result], family: float) -> str:
    """Return the table as Markdown with its caption below, certified bounds rounded down."""
    return f"{columns.to_markdown(_rows(results), PAPER)}\n{caption(results, family)}\n"


def _rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    return [
        {
            "mechanism": result.mechanism,
            "claim": str(result.claim),
            "exact": result.exact,
            "certified": result.lower_bound,
            "verdict": _verdict(result),
        }
        for result in results
    ]


PAPER = (  # exact and certified in the parameter that the proven claim names
    Column("mechanism", "mechanism", "code", width="4.6cm"),
    Column("claim", "proven", "formula"),
    Column("exact", "exact", "number"),
    Column("certified", "certified", "lower"),
    Column("verdict", "verdict"),
)
