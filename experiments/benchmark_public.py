"""The public benchmark: our bounds beside the exact values, an oracle's, and the best that others have published.

Run ``python -m experiments.benchmark_public``. What to expect: with a hundredth of DP-Sniper's runs, at 95 % confidence
in place of 90 %, about the bound of an oracle that knows the best events and spends every run on certification. Then:
shares of the oracle's bound at a million runs, runs that refute each broken mechanism, and false alarms.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from audit import PureDP, audit, black_box
from audit.auditor import exact_parameter
from audit.neighbours import DatasetPair
from audit.reporting.columns import Column, to_csv
from audit.reporting.studies import run, write_figure, write_json, write_table
from audit.reporting.style import BLUE, GREEN, TWO_COLUMNS, VERMILION, blank, legend_below, styled
from audit.results import write_whole
from experiments.benchmark_rows import Row, rows
from experiments.oracle import oracle_bound, runs_to_refute, tails_of

CONFIDENCE = 0.95
RUNS = 4_300_000
PARTS = ("table", "shares", "refute", "alarms")
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
    oracle = oracle_bound(tails, trials, CONFIDENCE)
    claimed = row.mechanism.claim.parameter
    return Measured(
        row.name, result.lower_bound, oracle, row.exact, row.sniper, row.statdp, claimed, seconds,
        str(result.witness), not known,
    )  # fmt: skip


def table(trials: int, seed: int, most: int | None = None) -> list[Measured]:
    """Measure every row, or the first ``most``, one after the other, each with a seed of its own."""
    return [measure(row, trials, seed + 1000 * place) for place, row in enumerate(rows()[:most])]


def shares(trials: int, seeds: int, seed: int) -> list[dict[str, Any]]:
    """Median over seeds of our bound as a share of the oracle's, at epsilon 1, where a million runs show much."""
    found = []
    for place, row in enumerate(rows(1.0)):
        oracle = oracle_bound(_tails(row)[0], trials, CONFIDENCE)
        bounds = [
            audit(
                row.mechanism, row.pair, trials=trials, confidence=CONFIDENCE, seed=seed + 1000 * place + k
            ).lower_bound
            for k in range(seeds)
        ]
        share = statistics.median(bounds) / oracle if oracle > 0 else math.nan
        found.append({"name": row.name, "median": statistics.median(bounds), "oracle": oracle, "share": share})
    return found


def refute(seeds: int, seed: int, limit: int) -> list[dict[str, Any]]:
    """Runs, among doublings of the oracle's number, that refute each broken row at 99 % in half of the seeds."""
    found = []
    for place, row in enumerate(row for row in rows(1.0) if row.broken):
        claim = row.mechanism.claim.parameter
        oracle = runs_to_refute(_tails(row)[0], claim, 0.99)
        trials, share = max(int(oracle), 200), 0.0
        while trials <= limit:
            refuted = [
                audit(
                    row.mechanism, row.pair, trials=trials, confidence=0.99, seed=seed + 1000 * place + k
                ).violates_claim
                for k in range(seeds)
            ]
            share = float(np.mean(refuted))
            if share >= 0.5:
                break
            trials *= 2
        found.append({"name": row.name, "oracle": oracle, "runs": trials if share >= 0.5 else math.inf, "share": share})
    return found


def alarms(audits: int, trials: int, seed: int) -> dict[str, Any]:
    """Audit correct mechanisms at 99 % through every default family; count bounds above the pair's exact epsilon."""
    sound = [row for row in rows(1.0) if not row.broken]
    cases = [(row.mechanism, row.pair, _truth(row)) for row in sound]
    cases += [(_objects(), DatasetPair(0, 1), 1.0)]
    above = 0
    for k in range(audits):
        mechanism, pair, truth = cases[k % len(cases)]
        bound = audit(mechanism, pair, trials=trials, confidence=0.99, seed=seed + k, n_jobs=1).lower_bound
        above += bound > truth * (1 + 1e-9)
    return {"audits": audits, "trials": trials, "above": above, "mechanisms": len(cases)}


def main(out: str | Path, seed: int = 0, quick: bool = False, parts: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark, print its tables, write data, table and figure into ``out``; return the data.

    Times go to timings.json, everything that the seed determines to data.json and data.csv.

    Parameters
    ----------
    out : path
        Folder for the files; made if missing.
    seed : int
        Root of all seeds.
    quick : bool
        A few seconds instead of minutes: the first rows of the table, few runs.
    parts : sequence of str, optional
        Some of 'table', 'shares', 'refute' and 'alarms'; by default all, or the table if quick.
    """
    folder, console = Path(out), Console(width=140)
    data, timings = (_stored(folder / name) for name in ("data.json", "timings.json"))
    work: dict[str, Callable[[], Any]] = {
        "table": lambda: [asdict(row) for row in table(20_000 if quick else RUNS, seed, 4 if quick else None)],
        "shares": lambda: shares(20_000 if quick else 1_000_000, 1 if quick else 3, seed),
        "refute": lambda: refute(2 if quick else 20, seed, 20_000 if quick else 200_000),
        "alarms": lambda: alarms(15 if quick else 500, 2_000 if quick else 4_000, seed),
    }
    for part in parts or (("table",) if quick else PARTS):
        started = time.perf_counter()
        found = work[part]()
        taken = {"seconds": time.perf_counter() - started}
        if part == "table":
            taken["rows"] = {row["name"]: row.pop("seconds") for row in found}
        data[part], timings[part] = {"rows": found, "seed": seed, "quick": quick}, taken
        write_json(folder / "data.json", data)
        write_json(folder / "timings.json", timings)
        _show(console, f"{part}: {taken['seconds']:.0f} seconds, seed {seed}", found)
    if "table" in data:
        found, runs = data["table"]["rows"], 20_000 if data["table"]["quick"] else RUNS
        write_whole(folder / "data.csv", to_csv(found))
        write_figure(folder / "bounds", draw(pd.DataFrame(found), runs))
        caption = (
            f"Certified lower bounds on ε at {CONFIDENCE:.0%} confidence with {runs:,} runs, beside an oracle's, the "
            "exact loss of the pair, and the published bounds of DP-Sniper (430 million runs, 90%) and StatDP."
        )
        write_table(folder, found, COLUMNS, caption)
    return data


def _stored(path: Path) -> dict[str, Any]:
    """Parts that were run before."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


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


def _truth(row: Row) -> float:
    sides = row.mechanism(row.pair.x), row.mechanism(row.pair.x_prime)
    value = exact_parameter(row.mechanism.claim, sides)  # type: ignore[arg-type]  # laws sample
    return row.mechanism.claim.parameter if value is None else value


def _objects() -> Any:
    """Randomised response among outputs of every kind: 1-DP exactly, through the families for objects."""
    kinds: list[Any] = ["no", None, (1, 2.5), {"ann": 3}, [1, "a", None], float("nan")]

    def respond(data: int, rng: np.random.Generator) -> Any:
        truth = data if rng.random() < math.e / (1 + math.e) else 1 - data
        return kinds[3 * truth + rng.integers(3)]

    return black_box(respond, claim=PureDP(1.0), name="objects")


def _show(console: Console, title: str, data: Any) -> None:
    found = data if isinstance(data, list) else [data]
    shown = Table(title=title)
    columns = [name for name in found[0] if name != "witness"]
    for name in columns:
        shown.add_column(name, justify="left" if name == "name" else "right")
    for row in found:
        shown.add_row(*(f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in columns))
    console.print(shown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="some of: " + ", ".join(PARTS))
    parser.add_argument("--out", default="results/public-benchmark")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    run(partial(main, parts=given.parts), Path(given.out), given.seed, given.quick)
