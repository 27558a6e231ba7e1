"""Accuracy of the inverse sensitivity mechanism: how often an answer is farther off than its Theorem 4 allows.

The source ('Beyond Global Sensitivity via Inverse Sensitivity', differentialprivacy.org) proves that
|M(x) - f(x)| <= LS^k(x) with probability 1 - beta for k = floor((2 / epsilon) log(|Y| / beta)), with the exponential
mechanism. Expected: it holds on every dataset, and by far, because few answers are as unlikely as the proof allows for;
the other selectors, for which nothing is claimed here, do as well.

Run ``python -m experiments.inverse_accuracy --out results/inverse-accuracy``; the same seed gives the same files.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from audit.certificates import clopper_pearson_lower, clopper_pearson_upper
from audit.reporting.figure import render
from experiments.data import anes96, answers
from mechanisms.beyond import SELECTORS
from mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses
from mechanisms.noisy_max import GapMax

EPSILON = 1.0
BETAS = (0.5, 0.1, 0.01)
AGES = MedianLosses(tuple(range(18, 100)))
DATASETS: dict[str, tuple[int, ...]] = {
    "all of one age": (40,) * 201,
    "two ages": (20,) * 101 + (90,) * 100,
    "evenly spread": tuple(range(18, 99)),
    "nearest to the ends": (18,) * 26 + (99,) * 25,
}


def main(out: Path, seed: int = 0, quick: bool = False) -> None:
    """Measure the failures of every selector on every dataset, and write data and a figure to ``out``.

    Parameters
    ----------
    out : Path
        Folder to write to; made if missing.
    seed : int
        Root of all random streams.
    quick : bool
        A hundredth of the runs, for a look.
    """
    out.mkdir(parents=True, exist_ok=True)
    rows = list(failures(1_000 if quick else 100_000, seed))
    (out / "data.json").write_text(json.dumps({"seed": seed, "epsilon": EPSILON, "rows": rows}, indent=1) + "\n")
    with (out / "data.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    figure = draw(rows)
    for kind in ("png", "pdf"):
        (out / f"failures.{kind}").write_bytes(render(figure, kind))


def failures(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the share of answers beyond LS^k, with one-sided 99.9 % Clopper-Pearson limits, and its exact value."""
    datasets = {"voters of 1996": answers(anes96(), "age")[:-1], **DATASETS}
    for place, (name, dataset) in enumerate(datasets.items()):
        for number, (selector_name, (selector, _)) in enumerate(SELECTORS.items()):
            if selector is GapMax:  # refuses in place of erring
                continue
            mechanism = InverseSensitivity(EPSILON, AGES, selector)
            law = mechanism(dataset)
            draws = law.sample(runs, np.random.default_rng([seed, place, number]))
            for beta in BETAS:
                allowed = AGES.local_sensitivity(dataset, mechanism.reach(beta))
                wrong = np.abs(np.array(AGES.candidates) - AGES.value(dataset)) > allowed
                seen = int(np.count_nonzero(np.abs(draws - AGES.value(dataset)) > allowed))
                yield {
                    "dataset": name,
                    "selector": selector_name,
                    "beta": beta,
                    "k": mechanism.reach(beta),
                    "LS^k": float(allowed),
                    "runs": runs,
                    "failures": seen,
                    "at least": float(clopper_pearson_lower(seen, runs, 0.001)),
                    "at most": float(clopper_pearson_upper(seen, runs, 0.001)),
                    "exact": float(np.exp(law.log_probabilities)[wrong].sum()),  # type: ignore[attr-defined]
                }


def draw(rows: list[dict[str, Any]]) -> Figure:
    """Draw the exact failure probability of every dataset and selector against beta."""
    figure = Figure(figsize=(5.5, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for place, name in enumerate(dict.fromkeys(row["dataset"] for row in rows)):
        mine = [row for row in rows if row["dataset"] == name]
        axes.plot(
            [row["beta"] * 1.04 ** (place - 2) for row in mine],
            [max(row["exact"], 1e-6) for row in mine],
            "osD^v"[place],
            markersize=4,
            linestyle="none",
            label=name,
        )
    axes.plot([0.005, 1.0], [0.005, 1.0], color="black", linewidth=0.8, linestyle="--", label="Theorem 4")
    axes.set(xscale="log", yscale="log", xlabel="beta", ylabel="P[|M(x) - f(x)| > LS^k(x)]; below 1e-6 at 1e-6")
    axes.legend(fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/inverse-accuracy"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    main(arguments.out, arguments.seed, arguments.quick)
