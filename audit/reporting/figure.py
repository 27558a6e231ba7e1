"""The main figure: certified bounds against proven ones, with the exact value of each pair.

Results enter, PNG and PDF bytes leave; identical results give identical files.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from audit.reporting.numbers import percent
from audit.results import AuditResult

STYLE = {"consistent": ("#0072B2", "o"), "violated": ("#D55E00", "s")}  # Okabe and Ito's palette, and shapes


def certified_against_proven(results: Sequence[AuditResult], family_confidence: float) -> Figure:
    """Draw every result as a share of its claim: the certified bound, the one-sided interval, the exact value.

    A bound to the right of 1 contradicts the claim. Violated ones come last.
    """
    shown = sorted((result for result in results if result.proven > 0.0), key=lambda result: result.violates_claim)
    figure = Figure(figsize=(7.0, 1.3 + 0.19 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shares = [result.lower_bound / result.proven for result in shown]
    exacts = [(result.exact or 0.0) / result.proven for result in shown]
    right = 1.08 * max([1.2, *shares, *(min(exact, 4.0) for exact in exacts)])
    for height, (result, share) in enumerate(zip(shown, shares, strict=True)):
        colour, marker = STYLE[result.verdict]
        axes.plot([share, right], [height, height], color=colour, linewidth=1.0, alpha=0.35)
        axes.plot(share, height, marker=marker, markersize=4.5, color=colour, linestyle="none")
        if result.exact is not None and exacts[height] <= right:
            axes.plot(exacts[height], height, marker="|", markersize=9, markeredgewidth=1.4, color="black")
    axes.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(shown)), [result.mechanism for result in shown], fontsize=7)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0.0, right)
    runs = {f"{result.trials:,}" for result in shown}
    axes.set_xlabel("privacy loss as a share of the proven bound (in the claim's own parameter)")
    title = f"Certified lower bounds, {' or '.join(sorted(runs))} runs each"
    axes.set_title(f"{title}; all hold together at {percent(family_confidence)}", fontsize=9, loc="left")
    for verdict, (colour, marker) in STYLE.items():
        axes.plot([], [], marker=marker, color=colour, markersize=4.5, label=f"certified, {verdict}")
    axes.plot([], [], marker="|", color="black", linestyle="none", markersize=9, label="exact for the pair")
    axes.plot([], [], color="black", linewidth=0.8, linestyle="--", label="proven")
    axes.legend(fontsize=7, loc="lower left", framealpha=0.95)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
    return figure


def render(figure: Figure, kind: str) -> bytes:
    """Return the figure as 'png' or 'pdf' bytes, without the date that would make files differ."""
    buffer = io.BytesIO()
    metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()
