"""How soon a sequential audit knows: runs to refute beside a fixed-size audit and the limit, and its validity.

Runs audits of mechanisms that are wrong by much and by little, and of mechanisms that attain their claims exactly. The
sources say: about log(1 / alpha) / KL runs refute (Wald 1945), and at most alpha of the true claims are ever refuted
(Ville 1939). ``python -m experiments.sequential`` writes results/sequential/.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.stats import binom

from audit import ApproxDP, Claim, DatasetPair, Mechanism, PureDP, SequentialResult, audit, audit_sequentially
from audit.provenance import provenance
from audit.reporting.style import render
from audit.results import write_whole
from audit.sequential import betting
from experiments.oracle import tails_of
from mechanisms.additive import Gaussian, Laplace
from mechanisms.broken.additive import GaussianSensitivityOffByTwo, LaplaceHalfNoise
from mechanisms.registry import entries
from mechanisms.response import RandomisedResponse

LEVELS = (0.05, 1e-6)
MOST_RUNS = 2_000_000
FIXED_SIZE_AUDITS = 20
MOST_RUNS_TO_SEARCH = 30_000  # beyond, the search for the fixed size would take hours
PARTS = ("validity", "seconds", "refute")


@dataclass(frozen=True)
class Case:
    """A wrong claim to refute."""

    name: str
    mechanism: Mechanism
    claim: Claim
    pairs: Sequence[DatasetPair] | None = None
    most_runs: int = MOST_RUNS


def cases() -> list[Case]:
    """What is refuted: half the noise, a little too little noise, sparse vectors 3 to 6, half-noise Gaussians."""
    half = GaussianSensitivityOffByTwo(1.0, 1e-5)
    listed = [
        Case("Laplace, half the noise", LaplaceHalfNoise(1.0), PureDP(1.0)),
        Case("Gaussian, half the noise, mu-GDP", half, half.claims[1]),
        Case("Gaussian, half the noise, rho-zCDP", half, half.claims[2]),
        Case("Laplace, epsilon off by 10 %", Laplace(1.1), PureDP(1.0)),
        Case("Gaussian, half the noise, (1, 1e-5)", half, ApproxDP(1.0, 1e-5)),
    ]
    for entry in entries():
        if entry.name.startswith("broken/sparse-vector-") and entry.name[-1] in "3456":
            listed.append(Case(entry.name.removeprefix("broken/").replace("-", " "), entry.mechanism, entry.claim, entry.pairs, 200_000))
    return [*listed, Case("Laplace, epsilon off by 2 %", Laplace(1.02), PureDP(1.0))]


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


def validity(seeds: int, runs: int) -> list[dict[str, Any]]:
    """How many of the audits of exact claims ever refuted them at 95 %, looking after every run.

    The tolerance is the number that 5 % true refutations would exceed with probability 1e-6.
    """
    gaussian = Gaussian(1.0, 0.05)
    exact_claims: list[tuple[str, Mechanism, Claim]] = [
        ("randomised response, 1-DP", RandomisedResponse(1.0), PureDP(1.0)),
        ("Laplace, 1-DP", Laplace(1.0), PureDP(1.0)),
        ("Gaussian, (1, 0.05)-DP", gaussian, gaussian.claims[0]),
        ("Gaussian, mu-GDP", gaussian, gaussian.claims[1]),
    ]
    rows = []
    for name, mechanism, claim in exact_claims:
        results = _in_parallel(
            joblib.delayed(audit_sequentially)(
                mechanism, claim=claim, trials=runs, confidence=0.95, seed=seed, n_jobs=1
            )
            for seed in range(seeds)
        )
        crossed = sum(result.violates_claim for result in results)
        over = sum(result.lower_bound > (result.exact or math.inf) for result in results)
        tolerance = int(binom.isf(1e-6, seeds, 0.05))
        rows.append({"mechanism": name, "audits": seeds, "runs": runs, "ever_refuted": crossed, "bound_over": over})
        rows[-1] |= {"share": crossed / seeds, "tolerance": tolerance}
    return rows


def fixed_event_validity(seeds: int, runs: int, seed: int) -> dict[str, Any]:
    """Share of true claims ever refuted by the bets alone: the best event from the start, nothing learned."""
    rng = np.random.default_rng(seed)
    correct, wrong, _ = betting.log_factors(1.0, 0.0, 2)
    crossed = 0
    for _ in range(seeds):
        guesses = rng.random(runs) < math.e / (1.0 + math.e)
        right = np.cumsum(guesses)
        wealth = betting.average(right[:, None] * correct + (np.arange(1, runs + 1) - right)[:, None] * wrong)
        crossed += bool(np.max(wealth) >= math.log(20.0))
    tolerance = int(binom.isf(1e-6, seeds, 0.05))
    return {"audits": seeds, "runs": runs, "ever_refuted": crossed, "share": crossed / seeds, "tolerance": tolerance}


def seconds_to_pass(repetitions: int) -> list[dict[str, Any]]:
    """Seconds that the plugin's default budget takes for vectorised mechanisms that are right."""
    rows = []
    gaussian = Gaussian(1.0, 1e-5)
    for name, mechanism, claim in (
        ("Laplace, 1-DP", Laplace(1.0), PureDP(1.0)),
        ("Gaussian, (1, 1e-5)-DP", gaussian, gaussian.claims[0]),
        ("Gaussian, mu-GDP", gaussian, gaussian.claims[1]),
        ("Gaussian, rho-zCDP", gaussian, gaussian.claims[2]),
    ):
        times, processor = [], []
        for seed in range(repetitions):
            began, began_processor = time.perf_counter(), time.process_time()
            result = audit_sequentially(
                mechanism, claim=claim, trials=100_000, confidence=1 - 5e-7, seed=seed, n_jobs=1
            )
            times.append(time.perf_counter() - began)
            processor.append(time.process_time() - began_processor)
        rows.append({"mechanism": name, "runs": 100_000, "first": times[0], "median": float(np.median(times))})
        rows[-1] |= {"median_processor": float(np.median(processor))}
        rows[-1] |= {"detectable": result.detectable, "proven": result.proven}
    return rows


def main(out: Path, seed: int = 0, quick: bool = False, parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """Run everything and write tables and two figures to ``out``.

    Parameters
    ----------
    out : Path
        Folder to write to.
    seed : int
        The first of the seeds; audits use consecutive ones.
    quick : bool
        A tenth of the work, for a test.
    parts : sequence of str
        Which of `PARTS` to run.
    """
    seeds = range(seed, seed + (4 if quick else 50))
    found: dict[str, Any] = {"provenance": provenance()}
    if "validity" in parts:
        found["validity_of_bets"] = fixed_event_validity(100 if quick else 2000, 5_000, seed)
        found["validity"] = validity(8 if quick else 500, 200 if quick else 400)
        write_whole(out / "validity.json", json.dumps(_plain(found), indent=1) + "\n")
    if "seconds" in parts:
        found["seconds"] = seconds_to_pass(1 if quick else 5)
        write_whole(out / "seconds.json", json.dumps(_plain(found["seconds"]), indent=1) + "\n")
    if "refute" in parts:
        found["refute"] = []
        for alpha in LEVELS[:1] if quick else LEVELS:
            for case in cases()[:1] if quick else cases():
                found["refute"].append(_refute(case, alpha, seeds))
                _write_runs(found["refute"], out)  # an hour's work: keep what is done
        right = Case("Laplace", Laplace(1.0), PureDP(1.0))
        _write_figure(
            _draw_paths([_path(case, LEVELS[0], seed) for case in (cases()[0], right)]), out / "running_bound"
        )
    return found


def _write_runs(rows: Sequence[dict[str, Any]], out: Path) -> None:
    write_whole(out / "data.json", json.dumps({"refute": _plain(rows), "provenance": provenance()}, indent=1) + "\n")
    write_whole(out / "data.csv", _csv(rows))
    _write_figure(_draw_runs(rows), out / "runs_to_refute")


def _write_figure(drawn: Figure, path: Path) -> None:
    for kind in ("png", "pdf"):
        write_whole(path.with_suffix(f".{kind}"), render(drawn, kind))


def _refute(case: Case, alpha: float, seeds: Sequence[int]) -> dict[str, Any]:
    """One row: runs to refute one claim at one level."""
    runs = runs_to_refute(case, alpha, seeds)
    median = float(np.median(runs))
    start = median if math.isfinite(median) else case.most_runs
    return {
        "case": case.name,
        "claim": str(case.claim),
        "alpha": alpha,
        "sequential": median,
        "quartiles": np.quantile(runs, [0.25, 0.75], method="nearest").tolist(),
        "fixed": fixed_size(case, alpha, seeds[:FIXED_SIZE_AUDITS], start) if start <= MOST_RUNS_TO_SEARCH else None,
        "limit": information_limit(case, alpha),
        "seeds": len(seeds),
    }


def _path(case: Case, alpha: float, seed: int) -> tuple[str, SequentialResult]:
    return case.name, audit_sequentially(
        case.mechanism, case.pairs, claim=case.claim, trials=100_000, confidence=1 - alpha, seed=seed, n_jobs=1
    )


def _draw_runs(rows: Sequence[dict[str, Any]]) -> Figure:
    figure = Figure(figsize=(7.0, 1.4 + 0.22 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for height, row in enumerate(rows):
        finite = [value for value in row["quartiles"] if math.isfinite(value)]
        if len(finite) == 2:
            axes.plot(finite, [height] * 2, color="#D55E00", linewidth=1.0)
        for value, style in (
            (row["sequential"], {"marker": "s", "color": "#D55E00"}),
            (row["fixed"], {"marker": "o", "color": "#0072B2"}),
            (row["limit"], {"marker": "|", "color": "black", "markersize": 10.0}),
        ):
            if value is not None and math.isfinite(value):
                axes.plot(value, height, linestyle="none", **{"markersize": 5.0, **style})
    axes.set_yticks(range(len(rows)), [f"{row['case']}, alpha {row['alpha']:g}" for row in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.set_xlabel("runs to refute the claim")
    for label, style in (
        ("sequential, median and quartiles", {"marker": "s", "color": "#D55E00"}),
        ("fixed size, half of the audits refute", {"marker": "o", "color": "#0072B2"}),
        ("log(1/alpha) / KL, best event known", {"marker": "|", "color": "black", "markersize": 10.0}),
    ):
        axes.plot([], [], linestyle="none", label=label, **{"markersize": 5.0, **style})
    axes.legend(fontsize=7, loc="best")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
    return figure


def _draw_paths(paths: Sequence[tuple[str, SequentialResult]]) -> Figure:
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for (name, result), colour in zip(paths, ("#D55E00", "#0072B2"), strict=True):
        runs, bounds = zip(*result.path, strict=True)
        axes.step(np.maximum(runs, 10), bounds, where="post", color=colour, label=f"{name}: {result.stopped}")
    axes.axhline(1.0, color="black", linewidth=0.8, linestyle="--", label="proven")
    axes.set_xscale("log")
    axes.set_xlabel("runs")
    axes.set_ylabel("running bound on epsilon, valid at every moment")
    axes.legend(fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _in_parallel(tasks: Any) -> list[Any]:
    return list(joblib.Parallel(n_jobs=-1)(tasks))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs to refute, validity and speed of sequential audits.")
    parser.add_argument("--out", type=Path, default=Path("results/sequential"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--part", choices=PARTS, action="append", help="run this part only; may be repeated")
    options = parser.parse_args()
    main(options.out, options.seed, options.quick, options.part or PARTS)
