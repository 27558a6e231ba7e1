"""How the certified bound grows with the number of runs, beside the limit of an oracle.

The oracle knows the best pair of events and spends every run on certification, so that no audit by the same certificate
does better on average. Expected: a bound that comes within a few per cent of the oracle's from 10,000 runs on where
there is one good event to find (Laplace, randomised response), and later for (epsilon, delta), where the best event is
rare; and a gap to the exact value that shrinks as one over the square root of the runs.

Run ``python -m epsaudit.experiments.bound_by_runs``; the same seed gives the same data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from matplotlib.figure import Figure

from epsaudit import ApproxDP, AuditResult, Claim, Mechanism, PureDP, audit
from epsaudit.audits.suite import entry_seed
from epsaudit.experiments.oracle import oracle_bound, tails_of
from epsaudit.experiments.studies import run_as_script, write_data, write_figure, write_table
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.reporting.style import BLUE, ONE_COLUMN, TWO_COLUMNS, VERMILION, blank, legend_below, styled, words
from epsaudit.reporting.tables import Column, Row
from epsaudit.text import SYMBOLS, lower, percent, plain

QUESTION = "How close does a certified bound come to the best possible one, and to the exact value, as runs grow?"
CONFIDENCE = 0.95
RUNS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
QUICK_RUNS = (1_000, 10_000)
CASES: tuple[tuple[str, Mechanism, Claim], ...] = (
    ("Laplace, ε = 1", Laplace(1.0), PureDP(1.0)),
    ("randomised response, ε = 3", RandomisedResponse(3.0), PureDP(3.0)),
    ("discrete Laplace, ε = 0.5", DiscreteLaplace(0.5), PureDP(0.5)),
    ("Gaussian, (1, 1e-5)", Gaussian(1.0, 1e-5), ApproxDP(1.0, 1e-5)),
)
COLUMNS = (
    Column("mechanism", "mechanism"),
    Column("runs", "runs", "count"),
    Column("lower quartile", "quartile", "lower"),
    Column("median", "median", "lower"),
    Column("upper quartile", "quartile", "lower"),
    Column("oracle", "oracle", "number"),
    Column("exact", "exact", "number"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit every mechanism at every number of runs, and write data, a table and a figure to ``out``.

    Parameters
    ----------
    out : Path
        Folder to write to; made if missing.
    seed : int
        Root of all random streams.
    quick : bool
        Five audits at two numbers of runs instead of twenty at eight.
    """
    audits = 5 if quick else 20
    rows = [row for case in CASES for row in measure(*case, QUICK_RUNS if quick else RUNS, audits, seed)]
    write_data(out, rows, seed=seed, confidence=CONFIDENCE, audits=audits)
    write_figure(out / "bound-by-runs", bound_against_runs(rows, CONFIDENCE, audits))
    caption = (
        f"Certified lower bounds at {CONFIDENCE:.0%} confidence each, of {audits} audits at each number of runs, "
        "beside an oracle's median and the exact value of the pair."
    )
    write_table(out, rows, COLUMNS, caption)
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Say what the most runs gave."""
    most = max(row["runs"] for row in rows)
    parts = (
        f"{row['mechanism']}: {lower(row['median'])} of {plain(row['exact'])}, the oracle {lower(row['oracle'])}"
        for row in rows
        if row["runs"] == most
    )
    return f"With {most:,} runs the median bounds, exact values and oracle's medians are: {'; '.join(parts)}."


def measure(
    name: str, mechanism: Mechanism, claim: Claim, numbers: tuple[int, ...], audits: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield one row a number of runs: quartiles of the bounds, the oracle's median, the exact value."""
    pair = mechanism.worst_pairs()[0]
    tails, _ = tails_of(mechanism(pair.x), mechanism(pair.x_prime), draws=400_000)

    def one(runs: int, number: int) -> AuditResult:
        own = entry_seed(seed, f"{name}/{runs}/{number}")
        return audit(mechanism, pair, claim=claim, trials=runs, confidence=CONFIDENCE, seed=own, n_jobs=1)

    for runs in numbers:
        results = joblib.Parallel(n_jobs=-1, prefer="threads")(joblib.delayed(one)(runs, k) for k in range(audits))
        low, middle, high = np.quantile([result.lower_bound for result in results], [0.25, 0.5, 0.75])
        yield {
            "mechanism": name,
            "symbol": claim.symbol,
            "runs": runs,
            "lower quartile": float(low),
            "median": float(middle),
            "upper quartile": float(high),
            "oracle": oracle_bound(tails, claim, runs, CONFIDENCE),
            "exact": results[0].exact,
        }


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


if __name__ == "__main__":
    run_as_script(main, __doc__, "results/bound-by-runs")
