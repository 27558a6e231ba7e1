"""Figures of the source texts, drawn again with certified points on them.

Every figure is drawn from formulas and from the stored data of other studies. Curves are proven or exact, and points
are lower bounds that audits certified; a certified point above its curve would refute the statement. This study audits
nothing and takes only seconds. To change its data, run the other studies first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import norm

from epsaudit.claims.conversions import pure_to_renyi, pure_to_zcdp
from epsaudit.experiments.conversions import laplace_renyi
from epsaudit.experiments.covariance_mean import DELTA, EPSILON, outlier_threshold
from epsaudit.experiments.groups import DRAWS, MECHANISM, RELATIVE, RHO, SIZE
from epsaudit.experiments.studies import stored_rows, write_data, write_figure, write_table
from epsaudit.mechanisms.covariance_mean import CovarianceAwareMean
from epsaudit.mechanisms.groups import AsinhCounts
from epsaudit.running.streams import stream
from epsaudit.tools.reporting.figures import (
    BLUE,
    GREEN,
    PURPLE,
    TWO_COLUMNS,
    VERMILION,
    new_figure,
    place_legend_below,
    styled,
)
from epsaudit.tools.reporting.tables import TableColumn

RESULTS = Path(__file__).parents[1] / "results"
"""Folder with the stored data of other studies, in a checkout."""
ORDER_CURVE = np.geomspace(1.01, 32.0, 100)
EPSILON_CURVE = np.linspace(0.02, 4.0, 100)
DIMENSIONS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
COLOURS = 32
"""Number of colours of a PNG: the colours of five lines, and shades of each for smooth edges."""
BINS = 120
"""Number of cells in the histogram of Algorithm 1."""
SHORT = {"randomised response": "rand. response", "Laplace": "Laplace"}
"""Short names of mechanisms that fit into a legend of two columns."""
Rows = Sequence[dict[str, Any]]


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Draw all figures from stored data into ``out``, and write the numbers that were computed for them."""
    rows = least_records(DIMENSIONS[:3] if quick else DIMENSIONS)
    figures: dict[str, Callable[[], Figure]] = {
        "pure-to-renyi": lambda: pure_to_renyi_figure(stored_rows(RESULTS / "composition" / "conversions")),
        "pure-to-zcdp": lambda: pure_to_zcdp_figure(stored_rows(RESULTS / "composition" / "conversions")),
        "loss-of-the-maximum": lambda: maximum_figure(
            stored_rows(RESULTS / "local-sensitivity" / "down-sensitivity", "figure 1")
        ),
        "algorithm-1": lambda: algorithm_1_figure(stored_rows(RESULTS / "groups"), seed, 20_000 if quick else DRAWS),
        "private-ratios": lambda: ratio_figure(stored_rows(RESULTS / "local-sensitivity" / "private-ratio")),
        "composition": lambda: composition_figure(stored_rows(RESULTS / "composition" / "composition")),
        "one-run-beside-many": lambda: one_run_figure(stored_rows(RESULTS / "one-run")),
        "records-by-dimension": lambda: dimension_figure(rows),
    }
    for name, draw in figures.items():
        write_small(out / name, draw())
    write_data(out, rows, seed=seed, epsilon=EPSILON, delta=DELTA)
    columns = TableColumn("d", "dimension", "count"), TableColumn("least n", "least n", "count")
    write_table(out, rows, columns, f"Fewest records for the covariance-aware mean at ({EPSILON:g}, {DELTA:g})-DP.")
    last = rows[-1]
    return (
        f"{len(figures)} figures of the sources. The covariance-aware mean needs {last['least n']:,} records in "
        f"{last['d']:,} dimensions, and {rows[0]['least n']:,} in one."
    )


def write_small(path: Path, figure: Figure) -> None:
    """Write a figure as PDF, and as a PNG with few colours that a page loads quickly."""
    write_figure(path, figure)
    picture = path.with_name(f"{path.name}.png")
    with Image.open(picture) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)


def least_records(dimensions: Sequence[int]) -> list[dict[str, Any]]:
    """Return the smallest number of records for which the covariance-aware mean has its guarantee, by dimension.

    The threshold for outliers depends on the number of records, so the smallest number is a fixed point.
    """
    rows = []
    for d in dimensions:
        records, before = 10_000, 0
        while records != before:
            threshold = outlier_threshold(d, records)
            before, records = records, CovarianceAwareMean(EPSILON, DELTA, threshold, d).least_records
        rows.append({"d": d, "least n": records})
    return rows


def draw_certified(axes: Axes, rows: Rows, place: str) -> None:
    """Draw the certified values of both mechanisms against the numbers in the column ``place``."""
    for name, marker, colour in (("randomised response", "s", VERMILION), ("Laplace", "o", BLUE)):
        some = [row for row in rows if row["mechanism"] == name]
        places = [row[place] for row in some], [row["certified"] for row in some]
        axes.plot(*places, marker, color=colour, markersize=4, label=f"certified: {SHORT[name]}")


@styled()
def pure_to_renyi_figure(rows: Rows) -> Figure:
    """Draw Renyi divergences of 1-DP mechanisms by order: the tight bound and two simple ones."""
    figure = new_figure()
    axes = figure.subplots()
    rho = pure_to_zcdp(1.0)
    tight = [pure_to_renyi(1.0, order) for order in ORDER_CURVE]
    axes.plot(ORDER_CURVE, tight, color="black", label="tight (Theorem 4)")
    axes.plot(ORDER_CURVE, np.ones(len(ORDER_CURVE)), color=PURPLE, linestyle=":", label="trivial: ε")
    axes.plot(ORDER_CURVE, ORDER_CURVE * rho, color=GREEN, linestyle="--", label="by zCDP: α ρ (Theorem 5)")
    laplace = [laplace_renyi(1.0, order) for order in ORDER_CURVE]
    axes.plot(ORDER_CURVE, laplace, color=BLUE, linestyle="-.", label="Laplace noise, exact")
    draw_certified(axes, [row for row in rows if row["epsilon"] == 1.0 and row["order"]], "order")
    axes.set(xscale="log", xlabel="order α", ylabel="Rényi divergence (nats)", ylim=(0.0, 1.3))
    place_legend_below(figure)
    return figure


@styled()
def pure_to_zcdp_figure(rows: Rows) -> Figure:
    """Draw the smallest rho that epsilon-DP implies, by epsilon: the tight bound and two simple ones."""
    figure = new_figure()
    axes = figure.subplots()
    tight = [pure_to_zcdp(epsilon) for epsilon in EPSILON_CURVE]
    axes.plot(EPSILON_CURVE, tight, color="black", label="tight: ε tanh(ε/2)")
    axes.plot(EPSILON_CURVE, EPSILON_CURVE, color=PURPLE, linestyle=":", label="trivial: ε")
    axes.plot(EPSILON_CURVE, EPSILON_CURVE**2 / 2.0, color=GREEN, linestyle="--", label="quadratic: ε²/2")
    draw_certified(axes, [row for row in rows if row["parameter"] == "rho"], "epsilon")
    axes.set(xlabel="ε of pure DP", ylabel="ρ of zCDP", xlim=(0.0, 4.0), ylim=(0.0, 4.0))
    place_legend_below(figure)
    return figure


@styled()
def maximum_figure(rows: Rows) -> Figure:
    """Draw the loss of every answer to the maximum of 32 records that follow Binomial(5, 1/2)."""
    answers, losses = [row["y"] for row in rows], [row["loss"] for row in rows]
    figure = new_figure()
    axes = figure.subplots()
    axes.step(answers, losses, where="post", color=BLUE, label="loss: records to remove")
    axes.plot(answers, losses, "o", color=BLUE, markersize=3)
    axes.axvline(5.0, color=VERMILION, linestyle="--", label="true maximum")
    axes.set(xlabel="answer y", ylabel="loss")
    place_legend_below(figure)
    return figure


@styled()
def algorithm_1_figure(rows: Rows, seed: int, draws: int) -> Figure:
    """Draw the histogram of Algorithm 1 with its best normal fit, and the privacy loss of a group by its size."""
    figure = new_figure(TWO_COLUMNS)
    left, right = figure.subplots(1, 2)
    outputs = MECHANISM((SIZE,)).sample(draws, stream(seed, "training")).ravel()
    mean, deviation = float(outputs.mean()), float(outputs.std())
    left.hist(outputs, BINS, density=True, color=VERMILION, alpha=0.6, label=f"{draws:,} outputs")
    grid = np.linspace(mean - 4.0 * deviation, mean + 4.0 * deviation, 200)
    fit = f"normal fit: {mean:,.0f}, {deviation:,.0f}"
    left.plot(grid, norm.pdf(grid, mean, deviation), color="black", label=fit)
    left.set(xlabel=f"noisy count of a group of {SIZE:,}", ylabel="density", yticks=[])
    left.legend(loc="upper right", fontsize="x-small")
    sizes = np.geomspace(1.0, 1e5, 60)
    asinh = AsinhCounts(RHO, RELATIVE)
    right.axhline(RHO / 2.0, color="black", linestyle="--", label="ρ/2: Algorithm 1, at all orders")
    known = [(row["count"], row["largest ratio"]) for row in rows if row["count"]]
    right.plot(*zip(*known, strict=True), ".", color="black", label="Algorithm 1, computed")
    right.plot(sizes, [asinh.loss(size) for size in sizes], color=BLUE, label="asinh scale: v(x), proven")
    for name, marker, colour in (("certified rho", "s", VERMILION), ("certified asinh", "o", BLUE)):
        some = [(row["count"], row[name]) for row in rows if row["count"] and row[name]]
        what = "Algorithm 1" if name == "certified rho" else "asinh scale"
        right.plot(*zip(*some, strict=True), marker, color=colour, markersize=4, label=f"{what}, certified")
    right.set(xscale="log", yscale="log", xlabel="size x of the group", ylabel="group-wise ρ", ylim=(1e-9, 2e-2))
    right.legend(loc="lower left", fontsize="x-small")
    return figure


RATIOS = {
    "naive": ("naive", PURPLE, ":"),
    "bounded (published)": ("local sensitivity, as published", VERMILION, "-"),
    "bounded (corrected)": ("the same, corrected", BLUE, "-"),
    "bounded (by b alone)": ("bounded by b alone", BLUE, "--"),
    "ones and zeros": ("ones and zeros (Kulesza et al.)", GREEN, "-."),
    "not private": ("not private", "0.5", "-"),
}
"""Mechanisms of private ratios, with the name in the legend, the colour and the line style."""


@styled()
def ratio_figure(rows: Rows) -> Figure:
    """Draw mean absolute errors of private ratios by the ratio, the number of records, and the share of the budget."""
    figure = new_figure(TWO_COLUMNS, 2.8)
    panels = figure.subplots(1, 3, sharey=True)
    sweeps = {
        "error-by-ratio": ("ratio a/b, b = 2,000", lambda row: row["ones"] / row["records"], "linear"),
        "error-by-records": ("records b, a = b/2", lambda row: row["records"], "log"),
        "error-by-share": ("share of ε for the bounds", lambda row: row["share"], "log"),
    }
    for axes, (sweep, (label, place, scale)) in zip(panels, sweeps.items(), strict=True):
        for name, (said, colour, line) in RATIOS.items():
            some = [
                (place(row), row["mean absolute error"])
                for row in rows
                if (row["sweep"], row["mechanism"]) == (sweep, name)
            ]
            if some:
                axes.plot(*zip(*some, strict=True), color=colour, linestyle=line, linewidth=1.0, label=said)
        axes.set(xscale=scale, yscale="log", xlabel=label)
    panels[0].set_ylabel("mean absolute error")
    place_legend_below(figure, 3)
    return figure


@styled()
def composition_figure(rows: Rows) -> Figure:
    """Draw epsilon of k copies of a 0.1-DP mechanism: proven bounds, the exact value, and certified bounds."""
    figure = new_figure(TWO_COLUMNS, 2.6)
    panels = figure.subplots(1, 2, sharey=True)
    bounds = {
        "basic": ("basic", PURPLE, ":"),
        "advanced": ("advanced", GREEN, "--"),
        "zcdp": ("zCDP", BLUE, "-."),
        "numeric": ("numeric", BLUE, "-"),
        "exact": ("exact", "black", ":"),
    }
    for axes, name in zip(panels, ("randomised response", "Laplace"), strict=True):
        some = sorted((row for row in rows if row["mechanism"] == name), key=lambda row: row["copies"])
        copies = [row["copies"] for row in some]
        for key, (said, colour, line) in bounds.items():
            axes.plot(copies, [row[key] for row in some], color=colour, linestyle=line, label=said)
        shown = [(row["copies"], row["certified"]) for row in some if row["certified"]]
        axes.plot(*zip(*shown, strict=True), "s", color=VERMILION, markersize=4, label="certified")
        axes.set(xscale="log", yscale="log", xlabel="copies k", title=name)
    panels[0].set_ylabel("ε at δ = 10⁻⁶")
    place_legend_below(figure, 6)
    return figure


@styled()
def one_run_figure(rows: Rows) -> Figure:
    """Draw the share of epsilon that one run with m canaries certifies, beside m runs with one canary each."""
    figure = new_figure(TWO_COLUMNS, 2.6)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, name in zip(panels, ("randomised response", "Gaussian noise"), strict=True):
        swept = [row for row in rows if row["part"] == "by canaries" and row["mechanism"] == name]
        lines = dict.fromkeys(row["audited"] for row in swept)
        for number, audited in enumerate(lines):
            some = [(row["canaries"], row["share"]) for row in swept if row["audited"] == audited]
            one = audited.startswith("one run")
            colour = (BLUE, VERMILION, GREEN, PURPLE, "black")[number]
            said = audited.replace(": certified ε", "").replace("on the certified μ-GDP curve", "").rstrip(" ,:ε")
            axes.plot(
                *zip(*some, strict=True), "-o" if one else "--s", color=colour, markersize=3, linewidth=1.0, label=said
            )
        axes.set(xscale="log", xlabel="canaries, or runs with one each", title=name, ylim=(0.0, 1.05))
        axes.legend(loc="lower right", fontsize="xx-small")
    panels[0].set_ylabel("share of ε certified")
    return figure


@styled()
def dimension_figure(rows: Rows) -> Figure:
    """Draw the smallest number of records for the covariance-aware mean by dimension.

    Lines of slope 1 and 1.5 stand beside the curve.
    """
    d, least = (np.array([row[name] for row in rows], float) for name in ("d", "least n"))
    figure = new_figure()
    axes = figure.subplots()
    axes.plot(d, least, "-o", color=BLUE, markersize=3, label="by the theorem")
    axes.plot(d, least[-1] * d / d[-1], color="black", linestyle=":", label="proportional to d")
    axes.plot(d, least[0] * d**1.5, color=VERMILION, linestyle="--", label="proportional to d^1.5")
    axes.set(xscale="log", yscale="log", xlabel="dimension d", ylabel=f"least n, ε = {EPSILON:g}, δ = 10⁻⁶")
    axes.set_ylim(math.sqrt(10.0) * 1e3, 1e8)
    place_legend_below(figure)
    return figure
