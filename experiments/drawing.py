"""What several studies draw: how often bounds were wrong beside how often they may be, and what stands nowhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from epsaudit.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.reporting.style import BLUE, ONE_COLUMN, TWO_COLUMNS, VERMILION, blank, legend_below, styled, words
from epsaudit.text import percent


@styled()
def wrong_bounds(
    rows: Sequence[tuple[str, int, int]],
    allowed: float,
    confidence: float = 0.99,
    what: str = "share of audits above the truth",
) -> Figure:
    """Draw the share of audits whose bound exceeded the truth, with its Clopper-Pearson interval, a row a mechanism.

    Parameters
    ----------
    rows : sequence of (name, wrong, audits)
    allowed : float
        The share that the audits' confidence allows; intervals wholly above it are drawn as violations.
    confidence : float
        Of each interval, two-sided.
    what : str
        Label of the axis.
    """
    figure = blank(TWO_COLUMNS if len(rows) > 12 else ONE_COLUMN, 1.3 + 0.2 * len(rows))
    axes = figure.add_subplot()
    tail = (1.0 - confidence) / 2.0
    for height, (_, wrong, audits) in enumerate(rows):
        low, high = (float(f(wrong, audits, tail)) for f in (clopper_pearson_lower, clopper_pearson_upper))
        colour, marker = (VERMILION, "s") if low > allowed else (BLUE, "o")
        axes.plot([low, high], [height, height], color=colour, linestyle="-")
        axes.plot(wrong / audits, height, color=colour, marker=marker, linestyle="none")
    axes.axvline(allowed, color="black", linewidth=0.8, linestyle="--", label=f"allowed: {allowed:.3g}")
    marks = {line.get_marker() for line in axes.lines}
    for colour, marker, what_of in ((BLUE, "o", "seen"), (VERMILION, "s", "seen, above what is allowed")):
        if marker in marks:
            label = f"{what_of}, {percent(confidence)} interval"
            axes.plot([], [], color=colour, marker=marker, linestyle="-", label=label)
    axes.set_yticks(range(len(rows)), [f"{words(name)} ({audits:,})" for name, _, audits in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0.0)
    axes.set_xlabel(what)
    legend_below(figure)
    return figure


def not_drawn(label: str, values: Sequence[float | None], *, positive: bool = False) -> str:
    """Add to a label how many of its values stand nowhere, and why: unknown, infinite, or 0 on a logarithmic axis."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    counts = {
        "unknown": len(values) - len(known),
        "infinite": sum(map(math.isinf, known)),
        "of 0": sum(value <= 0.0 for value in known) if positive else 0,
    }
    said = ", ".join(f"{number} {why}" for why, number in counts.items() if number)
    return f"{label} (not drawn: {said})" if said else label
