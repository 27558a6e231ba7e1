"""Bounds as runs accumulate: the median audit beside an oracle's limit, and the path of one sequential audit.

They are drawn from numbers and results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from matplotlib.figure import Figure

from epsaudit.claims import Claim
from epsaudit.reporting.columns import Row
from epsaudit.reporting.numbers import SYMBOLS, percent
from epsaudit.reporting.style import (
    BLUE,
    GREEN,
    MARKERS,
    ONE_COLUMN,
    PURPLE,
    TWO_COLUMNS,
    VERMILION,
    blank,
    legend_below,
    styled,
    words,
)

COLOURS = (VERMILION, BLUE, GREEN, PURPLE, "black")


class Path(Protocol):
    """What is drawn of an `audit.SequentialResult`."""

    @property
    def claim(self) -> Claim:
        """What was audited."""

    @property
    def confidence(self) -> float:
        """Of the whole path."""

    @property
    def path(self) -> Sequence[tuple[int, float]]:
        """(runs, running bound) at every moment at which the bound rose, and at the end."""


@styled()
def bound_against_runs(rows: Sequence[Row], confidence: float, audits: int) -> Figure:
    """Draw, for each mechanism a panel, the median bound and its quartiles against the runs spent.

    Parameters
    ----------
    rows : sequence of mappings
        With mechanism, symbol, runs, median, lower quartile, upper quartile, oracle and exact.
    confidence : float
        Of every single bound.
    audits : int
        How many there are at each number of runs.
    """
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    wide = min(len(names), 2)
    tall = -(-len(names) // wide)
    figure = blank(TWO_COLUMNS if wide == 2 else ONE_COLUMN, 0.6 + 2.0 * tall)
    for axes, name in zip(figure.subplots(tall, wide, squeeze=False).flat, names, strict=False):
        mine = sorted((row for row in rows if row["mechanism"] == name), key=lambda row: row["runs"])
        runs, median, low, high, oracle = (
            [float(row[key]) for row in mine]
            for key in ("runs", "median", "lower quartile", "upper quartile", "oracle")
        )
        axes.fill_between(runs, low, high, color=VERMILION, alpha=0.25, linewidth=0.0, label="quartiles")
        axes.plot(runs, median, color=VERMILION, linestyle="-", marker="o", label=f"median of {audits} audits")
        axes.plot(runs, oracle, color=BLUE, linestyle="--", marker="|", markersize=6, label="oracle's limit")
        axes.axhline(float(mine[0]["exact"]), color="black", linewidth=0.8, linestyle=":", label="exact for the pair")
        axes.set(
            xscale="log", xlabel="runs", ylabel=f"{SYMBOLS[mine[0]['symbol']]}, certified at {percent(confidence)}"
        )
        axes.set_ylim(bottom=0.0)
        axes.set_title(words(name))
    for axes in figure.axes[len(names) :]:
        axes.remove()
    legend_below(figure, 4 if wide == 2 else 2)
    return figure


@styled()
def sequential_path(results: Mapping[str, Path]) -> Figure:
    """Draw the running bound of sequential audits against runs, each valid at every moment; see `bound_against_runs`.

    Parameters
    ----------
    results : mapping from a name to a `audit.SequentialResult`
        Of claims with one symbol; each claim's own parameter is drawn once.
    """
    figure = blank(ONE_COLUMN, 2.6)
    axes = figure.add_subplot()
    for place, (name, result) in enumerate(results.items()):
        runs, bounds = (np.array(values, float) for values in zip(*result.path, strict=True))
        colour = COLOURS[place % len(COLOURS)]
        axes.step(np.maximum(runs, 1.0), bounds, where="post", color=colour, label=words(name))
        axes.plot(runs[-1], bounds[-1], color=colour, marker=MARKERS[place % len(MARKERS)], linestyle="none")
    for proven in dict.fromkeys(result.claim.parameter for result in results.values()):
        axes.axhline(proven, color="black", linewidth=0.8, linestyle=":", label=f"claimed: {proven:.4g}")
    confidence = percent(min(result.confidence for result in results.values()))
    symbols = " or ".join(dict.fromkeys(SYMBOLS[result.claim.symbol] for result in results.values()))
    axes.set(xscale="log", xlabel="runs, on both datasets", ylabel=f"running bound on {symbols}")
    axes.set_ylim(bottom=0.0)
    axes.set_title(f"valid at every moment at {confidence} confidence")
    legend_below(figure)
    return figure
