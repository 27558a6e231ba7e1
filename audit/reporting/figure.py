"""The main figure: certified bounds against proven ones, with the exact value of each pair.

It is drawn from results; `epsaudit.reporting.style.render` writes it, as equal files for equal results.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from epsaudit.reporting.numbers import count, percent
from epsaudit.reporting.style import BLUE, ONE_COLUMN, TWO_COLUMNS, VERMILION, blank, legend_below, styled
from epsaudit.results import AuditResult

STYLE = {"consistent": (BLUE, "o"), "violated": (VERMILION, "s")}
ROWS = 54
"""Most results in a panel."""


@styled()
def certified_against_proven(results: Sequence[AuditResult], family_confidence: float) -> Figure:
    """Draw every result as a share of its claim: the certified bound, the one-sided interval, the exact value.

    Consistent results stand in panels on a linear axis that ends just above 1, violated ones in a panel of their own
    on a logarithmic axis. Claims whose parameter is 0 have no share and are left out. One panel is as wide as a
    column of a paper, two as its text, more as a screen.
    """
    shown = [result for result in results if result.proven > 0.0]
    consistent = [result for result in shown if not result.violates_claim]
    violated = [result for result in shown if result.violates_claim]
    panels = [consistent[start : start + ROWS] for start in range(0, len(consistent), ROWS)] + [violated] * bool(
        violated
    )
    tallest = max((len(panel) for panel in panels), default=1)
    short = max((len(result.mechanism) for result in shown), default=0) <= 24
    width = ONE_COLUMN if len(panels) == 1 and short else max(len(panels) / 2, 1.0) * TWO_COLUMNS
    figure = blank(width, 1.3 + 0.145 * tallest)
    for axes, panel in zip(figure.subplots(1, max(len(panels), 1), squeeze=False)[0], panels, strict=False):
        _draw(axes, panel, tallest)
    runs = " or ".join(sorted({count(result.trials) for result in shown}))
    about = f"Certified lower bounds on privacy loss, {runs} runs each"
    together = f"all hold together at {percent(family_confidence)} confidence"
    figure.suptitle(f"{about};{chr(10) if width == ONE_COLUMN else ' '}{together}", fontsize=8)
    for verdict in dict.fromkeys(result.verdict for result in shown):
        colour, marker = STYLE[verdict]
        figure.axes[0].plot([], [], marker=marker, color=colour, linestyle="-", label=f"certified, {verdict}")
    figure.axes[0].plot([], [], marker="|", color="black", linestyle="none", markersize=8, label="exact for the pair")
    figure.axes[0].plot([], [], color="black", linewidth=0.8, linestyle="--", label="proven")
    legend_below(figure, 2 if width == ONE_COLUMN else 4)
    return figure


def _draw(axes: Axes, panel: Sequence[AuditResult], tallest: int) -> None:
    """Draw one panel: a marker at each certified bound, a line for the interval above it, a tick at the exact value."""
    shares = [result.lower_bound / result.proven for result in panel]
    exacts = [None if result.exact is None else result.exact / result.proven for result in panel]
    if panel[0].violates_claim:
        left, right = 0.8, 1.5 * max([2.0, *shares])
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(lambda share, _: f"{share:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        left, right = 0.0, 1.15 * max([1.0, *shares])
    for height, (result, share, exact) in enumerate(zip(panel, shares, exacts, strict=True)):
        colour, marker = STYLE[result.verdict]
        axes.plot([share, right], [height, height], color=colour, linewidth=1.0, linestyle="-", alpha=0.35)
        axes.plot(share, height, marker=marker, color=colour, linestyle="none", clip_on=False)
        if exact is not None and exact <= right:
            axes.plot(exact, height, marker="|", markersize=8, markeredgewidth=1.4, color="black")
    axes.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(panel)), [result.mechanism for result in panel])
    axes.set_ylim(tallest - 0.4, -0.6)
    axes.set_xlim(left, right)
    axes.set_xlabel("certified / proven")
    axes.tick_params(labelsize=6.5)
