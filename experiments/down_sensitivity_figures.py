"""Figures of the down sensitivity study: the loss of the source's Figure 1, tau against |Y| and against log* |Y|.

They are drawn from rows as `epsaudit.experiments.down_sensitivity` writes them, as PNG and PDF files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epsaudit.experiments.studies import write_figure
from epsaudit.reporting.style import ONE_COLUMN, blank, legend_below, styled

Rows = list[dict[str, Any]]


@styled()
def draw_loss(rows: Rows, out: Path) -> None:
    """Draw the loss of the maximum against y, as the source's Figure 1 does."""
    figure = blank(ONE_COLUMN, 2.2)
    axes = figure.subplots()
    y, loss = [row["y"] for row in rows], [row["loss"] for row in rows]
    records = loss[0] + 1  # all but the one at 0 are above it
    axes.step([y[0] - 1, *y, y[-1] + 1], [records, *loss, loss[-1]], where="post", label="loss of the maximum")
    axes.axvline(y[-1], color="0.5", linestyle="--", label="maximum")
    axes.set_xlabel("y, a candidate answer")
    axes.set_ylabel("loss: records to remove")
    axes.set_title("the maximum of 0, 1×5, 2×10, 3×10, 4×5, 5")
    legend_below(figure)
    write_figure(out / "figure-1-loss", figure)


@styled()
def draw_tau(rows: Rows, out: Path) -> None:
    """Draw tau of every route against log2 |Y|."""
    figure = blank(ONE_COLUMN, 3.4)
    axes = figure.subplots()
    for name in dict.fromkeys(row["mechanism"] for row in rows):
        points = [(row["bits"], row["tau"]) for row in rows if row["mechanism"] == name]
        axes.plot(*zip(*points, strict=True), label=name)
    axes.set_yscale("log")
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64], [f"$2^{{{bits}}}$" for bits in (1, 2, 4, 8, 16, 32, 64)])
    axes.set_xlabel("|Y|, number of outputs")
    axes.set_ylabel("τ: removals aimed at")
    axes.set_title("ε = 1, δ = 1e-6, β = 0.05")
    legend_below(figure, 1)
    write_figure(out / "tau", figure)


@styled()
def draw_towers(rows: Rows, out: Path) -> None:
    """Draw tau of both routes to Theorem 6 against log* |Y|, beside a doubling with every level."""
    figure = blank(ONE_COLUMN, 2.6)
    axes = figure.subplots()
    for name in dict.fromkeys(row["mechanism"] for row in rows):
        heights, taus = zip(*((row["height"], row["tau"]) for row in rows if row["mechanism"] == name), strict=True)
        axes.plot(heights, taus, "o-", markersize=3, label=f"{name}, best depth")
    doubled = [taus[-1] * 2.0 ** (height - heights[-1]) for height in heights]
    axes.plot(heights, doubled, color="0.5", linestyle="--", label="a factor of 2 a level")
    axes.set_yscale("log")
    axes.set_xlabel("log* |Y|: |Y| is a tower of so many twos")
    axes.set_ylabel("τ: removals aimed at")
    axes.set_title("ε = 1, δ = 1e-6, β = 0.05")
    legend_below(figure, 1)
    write_figure(out / "tau-towers", figure)
