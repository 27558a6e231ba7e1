"""The public benchmark: our bounds beside the exact values, an oracle's, and the best that others have published.

Run ``python -m epsaudit.experiments.benchmark_public``. What to expect: with a hundredth of DP-Sniper's runs, at 95 %
confidence in place of 90 %, about the bound of an oracle that knows the best events and spends every run on
certification. ``--runs 43000000 --only 'sparse vector 3' --out ...`` gives rows that fall short a tenth. Shares of the
oracle's bound on all mechanisms are in `epsaudit.experiments.power`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from epsaudit import audit
from epsaudit.experiments.benchmark_rows import Row, rows
from epsaudit.experiments.drawing import not_drawn
from epsaudit.experiments.oracle import oracle_bound, tails_of
from epsaudit.experiments.studies import add_options, run, write_data, write_figure, write_json, write_table
from epsaudit.reporting.style import BLUE, GREEN, TWO_COLUMNS, VERMILION, blank, legend_below, styled
from epsaudit.reporting.tables import Column, print_table

QUESTION = "How do certified bounds compare with published ones, an oracle's and the exact values?"
CONFIDENCE = 0.95
RUNS = 4_300_000
COLUMNS = (
    Column("name", "mechanism"),
    Column("bound", "certified", "lower"),
    Column("oracle", "oracle", "number"),
    Column("exact", "exact", "number"),
    Column("sniper", "DP-Sniper", "number"),
    Column("statdp", "StatDP", "number"),
)


@dataclass(frozen=True)
class Measured:
    """One row of the table as measured."""

    name: str
    bound: float
    oracle: float
    exact: float
    sniper: float
    statdp: float
    claimed: float
    seconds: float
    witness: str
    oracle_simulated: bool


def measure(row: Row, trials: int, seed: int) -> Measured:
    """Audit one row, and ask the oracle."""
    started = time.perf_counter()
    result = audit(row.mechanism, row.pair, trials=trials, confidence=CONFIDENCE, seed=seed)
    seconds = time.perf_counter() - started
    tails, known = _tails(row)
    oracle = oracle_bound(tails, row.mechanism.claim, trials, CONFIDENCE)
    claimed = row.mechanism.claim.parameter
    return Measured(
        row.name, result.lower_bound, oracle, row.exact, row.sniper, row.statdp, claimed, seconds,
        str(result.witness), not known,
    )  # fmt: skip


def table(trials: int, seed: int, only: Sequence[str] = ()) -> list[Measured]:
    """Measure the rows of these names, by default all, one after the other, each with a seed of its own."""
    chosen = [(place, row) for place, row in enumerate(rows()) if not only or row.name in only]
    return [measure(row, trials, seed + 1000 * place) for place, row in chosen]


def main(out: str | Path, seed: int = 0, quick: bool = False, runs: int = RUNS, only: Sequence[str] = ()) -> str:
    """Run the benchmark, print its table, and write data, table and figure into ``out``; times go to timings.json.

    Parameters
    ----------
    out : path
        Folder for the files; made if missing.
    seed : int
        Root of all seeds.
    quick : bool
        A few seconds instead of minutes: the first rows, few runs.
    runs : int
        Runs a row.
    only : sequence of str
        Names of rows; by default all.
    """
    folder, started = Path(out), time.perf_counter()
    if quick:
        runs, only = 20_000, tuple(row.name for row in rows()[:4])
    found = [asdict(row) for row in table(runs, seed, only)]
    times = {row["name"]: row.pop("seconds") for row in found}
    write_json(folder / "timings.json", {"seconds": time.perf_counter() - started, "rows": times})
    write_data(folder, found, seed=seed, runs=runs, confidence=CONFIDENCE)
    write_figure(folder / "bounds", draw(pd.DataFrame(found), runs))
    caption = (
        f"Certified lower bounds on ε at {CONFIDENCE:.0%} confidence with {runs:,} runs, beside an oracle's, the "
        "exact loss of the pair, and the published bounds of DP-Sniper (430 million runs, 90%) and StatDP."
    )
    write_table(folder, found, COLUMNS, caption)
    print_table(found, COLUMNS, f"{time.perf_counter() - started:.0f} seconds, {runs:,} runs a row, seed {seed}")
    return answer(found, runs)


def answer(rows: Sequence[dict[str, Any]], runs: int) -> str:
    """Count the rows in which the bound is at least the published one, and how near it is to the oracle's."""
    parts = []
    for key, name in (("sniper", "DP-Sniper's"), ("statdp", "StatDP's")):
        known = [row for row in rows if row[key] is not None]
        parts.append(f"{name} in {sum(row['bound'] >= row[key] for row in known)} of {len(known)} rows")
    share = float(np.median([row["bound"] / row["oracle"] for row in rows if row["oracle"]]))
    return (
        f"With {runs:,} runs a bound is at least {' and '.join(parts)}; it is at a median {share:.1%} of the oracle's."
    )


@styled()
def draw(frame: pd.DataFrame, runs: int) -> Figure:
    """Draw bounds, oracle and exact values of every row on one logarithmic axis."""
    figure = blank(TWO_COLUMNS, 1.3 + 0.2 * len(frame))
    axes = figure.subplots()
    places = np.arange(len(frame))[::-1]
    styles = [
        ("exact", "exact for the pair", "|", "black", 11),
        ("oracle", f"oracle, {runs:,} runs", "o", "0.75", 7),
        ("statdp", "StatDP", "x", GREEN, 4),
        ("sniper", "DP-Sniper, 430 million runs, 90%", "s", VERMILION, 4),
        ("bound", f"epsaudit, {runs:,} runs, {CONFIDENCE:.0%}", "D", BLUE, 3),
    ]
    for column, label, marker, colour, size in styles:
        values = frame[column].to_numpy(float)
        shown = np.where(np.isfinite(values) & (values > 0), values, np.nan)
        label = not_drawn(label, values.tolist(), positive=True)
        axes.plot(shown, places, marker, color=colour, markersize=size, label=label, linestyle="none")
    axes.set_xscale("log")
    axes.set_yticks(places, frame["name"])
    axes.set_xlabel("ε: certified lower bounds and exact loss of the pair")
    axes.grid(axis="x", alpha=0.3, linewidth=0.5)
    legend_below(figure, 3)
    return figure


def _tails(row: Row) -> tuple[np.ndarray[Any, np.dtype[np.float64]], bool]:
    """The oracle's tails: exact for laws of few outcomes, else from 400,000 simulated outputs a side."""
    sides = row.mechanism(row.pair.x), row.mechanism(row.pair.x_prime)
    return tails_of(*sides, draws=400_000)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "results/public-benchmark")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs a row")
    parser.add_argument("--only", nargs="*", default=(), choices=[row.name for row in rows()], metavar="ROW")
    given = parser.parse_args()
    chosen = partial(main, runs=given.runs, only=given.only)
    run(chosen, given.out, given.seed, given.quick)
