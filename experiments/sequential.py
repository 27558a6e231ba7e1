"""How soon a sequential audit knows: runs to refute wrong claims, beside a fixed-size audit and the information limit.

Audits mechanisms that are wrong by much and by little, at 5 % and at the pytest plugin's 1e-6. Expected: about
log(1 / alpha) / KL runs refute for whoever knows the best event and the best bet (Wald 1945); learning both costs up to
twice as many. A fixed-size audit that need refute only half of the time may use fewer at 5 %: 1.35 / KL where the claim
is nearly right, as the normal approximation has it, against 3.00 / KL.

Run ``python -m epsaudit.experiments.sequential --out results/sequential``: about half an hour on an idle core; the same
seed gives the same files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from matplotlib.figure import Figure

from epsaudit import ApproxDP, Claim, DatasetPair, Mechanism, PureDP, SequentialResult, audit, audit_sequentially
from epsaudit.audits.sequential import betting
from epsaudit.experiments.drawing import not_drawn
from epsaudit.experiments.oracle import tails_of
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.broken.additive import GaussianSensitivityOffByTwo, LaplaceHalfNoise
from epsaudit.mechanisms.registry import entries
from epsaudit.reporting.curves import sequential_path
from epsaudit.reporting.style import BLUE, TWO_COLUMNS, VERMILION, blank, legend_below, styled
from epsaudit.reporting.tables import Column
from epsaudit.studies import run_as_script, write_data, write_figure, write_table
from epsaudit.text import plain

QUESTION = "How many runs does a sequential audit need to refute a wrong claim?"
LEVELS = {1e-6: 50, 0.05: 20}
"""Probability of a false alarm, and how many seeds."""
MOST_RUNS, MOST_RUNS_ON_VECTORS = 2_000_000, 200_000
FIXED_SIZE_AUDITS = 20
MOST_RUNS_TO_SEARCH = 10_000
"""Beyond, the search for the fixed size would take longer than all sequential audits."""
COLUMNS = (
    Column("case", "wrong claim"),
    Column("claim", "claim", "formula"),
    Column("alpha", "alpha", "number"),
    Column("limit", "limit", "number", 3),
    Column("sequential", "sequential", "number", 3),
    Column("fixed", "fixed size", "number", 3),
    Column("ratio", "sequential / limit", "number", 3),
    Column("seeds", "seeds", "count"),
)


@dataclass(frozen=True)
class Case:
    """A wrong claim to refute."""

    name: str
    mechanism: Mechanism
    claim: Claim
    pairs: Sequence[DatasetPair] | None = None
    most_runs: int = MOST_RUNS


def cases() -> list[Case]:
    """What is refuted: half the noise, sparse vectors 3 to 6, half-noise Gaussians, a little too little noise."""
    half = GaussianSensitivityOffByTwo(1.0, 1e-5)
    sparse = [entry for entry in entries() if re.fullmatch(r"broken/sparse-vector-.*[3-6]", entry.name)]
    return [
        Case("Laplace, half the noise", LaplaceHalfNoise(1.0), PureDP(1.0)),
        *(
            Case(_words(entry.name), entry.mechanism, entry.claim, entry.pairs, MOST_RUNS_ON_VECTORS)
            for entry in sparse
        ),
        Case("Gaussian, half the noise, mu-GDP", half, half.claims[1]),
        Case("Gaussian, half the noise, (1, 1e-5)", half, ApproxDP(1.0, 1e-5)),
        Case("Laplace, epsilon off by 10 %", Laplace(1.1), PureDP(1.0)),
        Case("Laplace, epsilon off by 2 %", Laplace(1.02), PureDP(1.0)),
        Case("Gaussian, half the noise, rho-zCDP", half, half.claims[2]),
    ]


def _words(name: str) -> str:
    return name.removeprefix("broken/").replace("-", " ")


def information_limit(case: Case, alpha: float) -> float | None:
    """Runs that the best event and the best bet need on average: log(1 / alpha) over the growth of log-wealth.

    At delta = 0 the growth is P[guess] KL(correct given a guess || what the claim allows). The best event is
    searched among all pairs of likelihood-ratio events, and all tangents; None where a law is not known.
    """
    fastest = 0.0
    for pair in case.pairs or case.mechanism.worst_pairs():
        sides = [case.mechanism(dataset) for dataset in (pair.x, pair.x_prime)]
        if not all(callable(getattr(side, "log_density", None)) for side in sides):
            return None
        up, up_prime, low, low_prime = tails_of(*sides)[0]
        i, j = np.triu_indices(len(up), 1)  # the upper event starts beyond the lower one's end
        forms = [(1, up, up_prime), (1, low_prime, low), (2, up[j] + low_prime[i], up_prime[j] + low[i])]
        for point in betting.tangents(case.claim):
            for events, correct, wrong in forms:
                for some in np.array_split(np.arange(len(correct)), max(len(correct) // 4000, 1)):
                    if len(some):
                        grows = betting.growth(correct[some] / 2, wrong[some] / 2, *point, events)
                        fastest = max(fastest, float(np.max(grows)))
    return math.log(1.0 / alpha) / fastest if fastest > 0.0 else math.inf


def runs_to_refute(case: Case, alpha: float, seeds: Sequence[int]) -> list[float]:
    """Runs at which each sequential audit refuted the claim; infinite where it did not within the budget."""
    results = _in_parallel(
        joblib.delayed(audit_sequentially)(
            case.mechanism,
            case.pairs,
            claim=case.claim,
            trials=case.most_runs,
            confidence=1 - alpha,
            seed=seed,
            n_jobs=1,
        )
        for seed in seeds
    )
    return [result.runs if result.violates_claim else math.inf for result in results]


def fixed_size(case: Case, alpha: float, seeds: Sequence[int], start: float) -> float | None:
    """Least number of trials, to within a step of 2^(1/4), at which half of the fixed-size audits refute the claim."""

    def enough(step: int) -> bool:
        trials = round(100 * 2.0 ** (step / 4))
        results = _in_parallel(joblib.delayed(_refutes)(case, trials, alpha, 1000 + seed) for seed in seeds)
        return 2 * sum(results) >= len(results)

    most = int(4 * math.log2(2 * case.most_runs / 100))
    high = low = min(max(round(4 * math.log2(max(start, 100.0) / 100)), 0), most)
    while not enough(high):
        if high == most:
            return None
        low, high = high + 1, min(high + 4, most)
    while low == high and high > 0 and enough(high - 4 if high > 4 else 0):
        high = low = max(high - 4, 0)
    low = min(low, max(high - 3, 0))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return float(round(100 * 2.0 ** (high / 4)))


def _refutes(case: Case, trials: int, alpha: float, seed: int) -> bool:
    result = audit(
        case.mechanism, case.pairs, claim=case.claim, trials=trials, confidence=1 - alpha, seed=seed, n_jobs=1
    )
    return result.violates_claim


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Refute every case at every level, and write data, a table and two figures to ``out`` as they come.

    Parameters
    ----------
    out : Path
        Folder to write to; made if missing.
    seed : int
        The first of the seeds; audits use consecutive ones.
    quick : bool
        One case and four seeds, for a look.
    """
    rows: list[dict[str, Any]] = []
    for alpha, seeds in list(LEVELS.items())[:1] if quick else LEVELS.items():
        for case in cases()[:1] if quick else cases():
            rows.append(_refute(case, alpha, range(seed, seed + (4 if quick else seeds))))
            write_rows(out, rows, seed)  # an hour's work: keep what is done
    right = Case("Laplace", Laplace(1.0), PureDP(1.0))
    write_figure(
        out / "path", sequential_path(dict(_path(case, next(iter(LEVELS)), seed) for case in (cases()[0], right)))
    )
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Say how far from the information limit the audits were, for each probability of a false alarm."""
    parts = []
    for alpha in dict.fromkeys(row["alpha"] for row in rows):
        known = [row for row in rows if row["alpha"] == alpha and row["ratio"] is not None]
        known.sort(key=lambda row: row["ratio"])
        least, most = known[0], known[-1]
        parts.append(
            f"at {alpha:g}, {plain(least['ratio'], 3)} ({least['case']}) to {plain(most['ratio'], 3)} ({most['case']})"
        )
    return f"Medians over seeds, in multiples of the information limit log(1/alpha) / KL: {'; '.join(parts)}."


def write_rows(out: Path, rows: Sequence[dict[str, Any]], seed: int) -> None:
    """Write data, table and figure of the rows so far."""
    write_data(out, rows, seed=seed)
    write_table(out, rows, COLUMNS, "Runs that refute wrong claims, medians over seeds, beside log(1/alpha) / KL.")
    write_figure(out / "runs", _draw_runs(rows))


def _refute(case: Case, alpha: float, seeds: Sequence[int]) -> dict[str, Any]:
    """One row: runs to refute one claim at one level."""
    runs = runs_to_refute(case, alpha, seeds)
    median = float(np.median(runs))
    start = median if math.isfinite(median) else case.most_runs
    limit = information_limit(case, alpha)
    return {
        "case": case.name,
        "claim": str(case.claim),
        "alpha": alpha,
        "sequential": median,
        "lower_quartile": float(np.quantile(runs, 0.25, method="nearest")),
        "upper_quartile": float(np.quantile(runs, 0.75, method="nearest")),
        "fixed": fixed_size(case, alpha, seeds[:FIXED_SIZE_AUDITS], start) if start <= MOST_RUNS_TO_SEARCH else None,
        "limit": limit,
        "ratio": None if limit is None else median / limit,
        "seeds": len(seeds),
    }


def _path(case: Case, alpha: float, seed: int) -> tuple[str, SequentialResult]:
    return case.name, audit_sequentially(
        case.mechanism, case.pairs, claim=case.claim, trials=100_000, confidence=1 - alpha, seed=seed, n_jobs=1
    )


@styled()
def _draw_runs(rows: Sequence[dict[str, Any]]) -> Figure:
    figure = blank(TWO_COLUMNS, 1.4 + 0.2 * len(rows))
    axes = figure.add_subplot()
    for height, row in enumerate(rows):
        finite = [value for value in (row["lower_quartile"], row["upper_quartile"]) if math.isfinite(value)]
        if len(finite) == 2:
            axes.plot(finite, [height] * 2, color=VERMILION, linestyle="-", linewidth=1.0)
        for value, style in (
            (row["sequential"], {"marker": "s", "color": VERMILION}),
            (row["fixed"], {"marker": "o", "color": BLUE}),
            (row["limit"], {"marker": "|", "color": "black", "markersize": 10.0}),
        ):
            if value is not None and math.isfinite(value):
                axes.plot(value, height, linestyle="none", **{"markersize": 5.0, **style})
    axes.set_yticks(range(len(rows)), [f"{row['case']}, alpha {row['alpha']:g}" for row in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.set_xlabel("runs to refute the claim, on both datasets")
    for key, label, style in (
        ("sequential", "sequential, median and quartiles", {"marker": "s", "color": VERMILION}),
        ("fixed", "fixed size, half of the audits refute", {"marker": "o", "color": BLUE}),
        ("limit", "log(1/alpha) / KL, best event known", {"marker": "|", "color": "black", "markersize": 10.0}),
    ):
        label = not_drawn(label, [row[key] for row in rows])
        axes.plot([], [], linestyle="none", label=label, **{"markersize": 5.0, **style})
    legend_below(figure, 3)
    return figure


def _in_parallel(tasks: Any) -> list[Any]:
    return list(joblib.Parallel(n_jobs=-1)(tasks))


if __name__ == "__main__":
    run_as_script(main, __doc__, "results/sequential")
