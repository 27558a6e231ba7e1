"""The two figures of the down sensitivity study: the loss of the source's Figure 1, and tau against |Y|.

Rows as `experiments.down_sensitivity` writes them enter, PNG and PDF files leave.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

Rows = list[dict[str, Any]]


def draw_loss(rows: Rows, out: Path) -> None:
    """Draw the loss of the maximum against y, as the source's Figure 1 does."""
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    axes = figure.subplots()
    y, loss = [row["y"] for row in rows], [row["loss"] for row in rows]
    persons = loss[0] + 1  # all but the one at 0 are above it
    axes.step([y[0] - 1, *y, y[-1] + 1], [persons, *loss, loss[-1]], where="post", label="loss of the maximum")
    axes.axvline(y[-1], color="0.5", linestyle="--", label="maximum")
    axes.set_xlabel("y")
    axes.set_ylabel("loss: persons to remove")
    axes.legend(frameon=False)
    _save(figure, out / "figure-1-loss")


def draw_tau(rows: Rows, out: Path) -> None:
    """Draw tau of every route against log2 |Y|."""
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.subplots()
    for name in dict.fromkeys(row["mechanism"] for row in rows):
        points = [(row["bits"], row["tau"]) for row in rows if row["mechanism"] == name]
        axes.plot(*zip(*points, strict=True), label=name)
    axes.set_yscale("log")
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64], [f"$2^{{{bits}}}$" for bits in (1, 2, 4, 8, 16, 32, 64)])
    axes.set_xlabel("|Y|")
    axes.set_ylabel("tau: removals aimed at")
    axes.set_title("epsilon = 1, delta = 1e-6, beta = 0.05", fontsize=9)
    axes.legend(frameon=False, fontsize=8)
    _save(figure, out / "tau")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})
    figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None, "Producer": None, "Creator": None})
