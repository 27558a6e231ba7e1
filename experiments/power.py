"""Shares of an oracle's bound that audits certify: every known law, the public benchmark, growing runs, false alarms.

The oracle knows the best events and spends every run on certification, so no audit with the same certificate has a
larger bound on average. The public benchmark is that of DP-Sniper (Bichsel, Steffen, Bogunovic and Vechev 2021). The
table shows epsaudit's bounds, from a hundredth of DP-Sniper's runs and at 95 % instead of 90 % confidence, beside the
best published ones. The bound of an oracle varies by chance as well, with the counts of its event, so each row also
shows the lowest decile of the oracle's bounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from epsaudit import ApproxDP, Claim, DatasetPair, Mechanism, PureDP, audit, black_box
from epsaudit.audits.suite import entry_seed
from epsaudit.experiments.benchmark_rows import Row, rows
from epsaudit.experiments.oracle import oracle_bound, repeated, runs_to_refute, tails_of
from epsaudit.experiments.studies import on_all_cores, write_data, write_figure, write_json, write_table
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace
from epsaudit.mechanisms.known_laws import exact_parameter
from epsaudit.mechanisms.registry import entries
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.text import SYMBOLS, percent
from epsaudit.tools.reporting.figures import (
    BLUE,
    TWO_COLUMNS,
    VERMILION,
    matplotlib_text,
    new_figure,
    place_legend_below,
    styled,
)
from epsaudit.tools.reporting.tables import TableColumn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIDENCE, STRICT = 0.95, 0.99
BENCHMARK_RUNS = 4_300_000
MIDDLES = np.arange(0.05, 1.0, 0.1)
"""Ranks of ten audits that represent the audits of an oracle: the middles of ten equal intervals of ranks."""
Rows = list[dict[str, Any]]
COLUMNS = {
    "benchmark": (
        TableColumn("name", "mechanism"),
        TableColumn("bound", "median bound", "lower"),
        TableColumn("oracle", "oracle", "number"),
        TableColumn("exact", "exact", "number"),
        TableColumn("sniper", "DP-Sniper", "number"),
        TableColumn("statdp", "StatDP", "number"),
        TableColumn("median", "share", "number", 3),
        TableColumn("worst", "worst", "number", 3),
        TableColumn("oracle_decile", "oracle's lowest decile", "number", 3),
    ),
    "shares": (
        TableColumn("name", "mechanism"),
        TableColumn("kind", "outputs"),
        TableColumn("bound", "bound", "lower"),
        TableColumn("oracle", "oracle", "number"),
        TableColumn("share", "share", "number", 3),
    ),
}


@dataclass(frozen=True)
class Case:
    """A registered mechanism whose output law is known on all of its pairs."""

    name: str
    mechanism: Mechanism
    claim: Claim
    pairs: tuple[DatasetPair, ...]
    broken: bool

    @property
    def kind(self) -> str:
        """Kind of the outputs.

        'single' stands for numbers and symbols, 'vector of d' for numeric vectors, and 'other' for lists and mixtures.
        """
        outputs = self.mechanism(self.pairs[0].x).sample(64, np.random.default_rng(0))
        if outputs.ndim > 1:
            return f"vector of {int(np.prod(outputs.shape[1:]))}"
        composite = outputs.dtype == object and any(isinstance(value, (tuple, frozenset)) for value in outputs.tolist())
        return "other" if composite else "single"

    def laws(self, pair: DatasetPair) -> tuple[Any, Any]:
        """Return the output laws on both datasets of a pair."""
        return self.mechanism(pair.x), self.mechanism(pair.x_prime)

    def tails(self) -> list[Any]:
        """Return the tail probabilities that the oracle needs, one array for each pair."""
        return [tails_of(*self.laws(pair), draws=100_000)[0] for pair in self.pairs]

    def audit(self, trials: int, seed: int, confidence: float) -> Any:
        """Audit the mechanism on all of its pairs, in this process."""
        how = {"claim": self.claim, "trials": trials, "confidence": confidence, "seed": seed, "n_jobs": 1}
        return audit(self.mechanism, self.pairs, **how)


def cases() -> list[Case]:
    """Return the registered mechanisms that have log densities on all of their pairs.

    Mechanisms that are audited to the last bit of their outputs are left out.
    """
    found = []
    for entry in entries():
        pairs = tuple(entry.pairs or entry.mechanism.worst_pairs())
        case = Case(entry.name, entry.mechanism, entry.claim, pairs, entry.expected == "violated")
        laws = [law for pair in pairs for law in case.laws(pair)]
        known = all(exact.knows_law(law) and callable(getattr(law, "log_density", None)) for law in laws)
        if entry.witnesses == "auto" and known:
            found.append(case)
    return found


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Measure all parts, and write the results to ``out``.

    The shares are written to data.json, and the other parts to benchmark.json, by-runs.json, refute.json and
    alarms.json.
    """
    known = cases()[:4] if quick else cases()
    runs, limit, tries = (20_000, 20_000, 2) if quick else (300_000, 100_000, 4)
    # the shares of these mechanisms are in the rows of the benchmark
    others = {type(row.mechanism) for row in rows()[1:]}
    measured = on_all_cores(
        lambda case: measure(case, type(case.mechanism) not in others, runs, seed, tries, limit),
        known,
    )
    found, refuted = ([one for one in part if one] for part in zip(*measured, strict=True))
    write_data(out, found, seed=seed, quick=quick, confidence=CONFIDENCE, runs=runs)
    caption = f"Bounds at {CONFIDENCE:.0%} confidence of one audit with {runs:,} runs, as shares of an oracle's."
    write_table(out, found, COLUMNS["shares"], caption)
    write_json(out / "refute.json", {"seed": seed, "confidence": STRICT, "rows": refuted})

    runs, seeds = (20_000, 2) if quick else (BENCHMARK_RUNS, 2)
    benchmark = list(benchmark_rows(rows()[:3] if quick else rows(), runs, range(seed + 1, seed + 1 + seeds)))
    write_json(out / "benchmark.json", {"seed": seed, "runs": runs, "confidence": CONFIDENCE, "rows": benchmark})
    caption = (
        f"Certified lower bounds on ε at {CONFIDENCE:.0%} with {runs:,} runs, medians of {seeds} seeds, beside an "
        "oracle's, the exact loss of the pair, and those published of DP-Sniper (430 million runs, 90%) and StatDP."
    )
    write_table(out, benchmark, COLUMNS["benchmark"], caption, "benchmark")

    sizes = (1_000, 10_000) if quick else (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    growing = list(by_runs(sizes, 5 if quick else 6, seed))
    write_json(out / "by-runs.json", {"seed": seed, "confidence": CONFIDENCE, "rows": growing})
    write_figure(out / "by-runs", draw_by_runs(growing))
    wrong = alarms([case for case in known if not case.broken], 4 if quick else 200, 2_000 if quick else 4_000, seed)
    write_json(out / "alarms.json", {"seed": seed, "confidence": STRICT, "rows": [wrong]})
    return answer(found, benchmark, wrong)


def measure(
    case: Case, shared: bool, runs: int, seed: int, tries: int, limit: int
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Measure the share of the oracle's bound that an audit certifies, and the runs that refute a broken mechanism.

    The share is measured if ``shared`` is true, on the best pair of the oracle. The runs are measured if the mechanism
    is broken: starting at the number of runs that the oracle needs, the number is doubled until half of the tries
    refute the claim at 99 % confidence, up to ``limit``. A part that is not measured is None.
    """
    all_tails, share, refutation = case.tails(), None, None
    if shared:
        oracle = max(oracle_bound(tails, case.claim, runs, CONFIDENCE) for tails in all_tails)
        bound = case.audit(runs, seed, CONFIDENCE).lower_bound
        share = {"name": case.name, "kind": case.kind, "bound": bound, "oracle": oracle}
        share["share"] = bound / oracle if oracle > 0 else math.nan
    if case.broken:
        oracle = min(runs_to_refute(tails, case.claim, STRICT) for tails in all_tails)
        trials, seen = (max(int(oracle), 200) if oracle <= limit else limit + 1), [0]
        while trials <= limit and 2 * sum(seen) < tries:
            seen = []
            while 2 * sum(seen) < tries >= 2 * (len(seen) - sum(seen)):  # further tries could not change the result
                seen.append(int(case.audit(trials, seed + len(seen), STRICT).violates_claim))
            trials *= 2
        needed = trials // 2 if 2 * sum(seen) >= tries else math.inf
        refutation = {"name": case.name, "oracle": oracle, "runs": needed, "refuted": statistics.mean(seen)}
    return share, refutation


def benchmark_rows(studied: Sequence[Row], runs: int, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Audit rows of the public benchmark with every seed, and yield the bounds beside those of an oracle.

    The given number of runs includes the training runs of the audit.
    """

    def bound(task: tuple[Row, int]) -> tuple[float, str]:
        row, seed = task
        result = audit(row.mechanism, row.pair, trials=runs, confidence=CONFIDENCE, seed=seed, n_jobs=1)
        return result.lower_bound, str(result.witness)

    def known(row: Row) -> tuple[float, NDArray[np.float64]]:
        sides = row.mechanism(row.pair.x), row.mechanism(row.pair.x_prime)
        settings = tails_of(*sides, draws=min(400_000, runs))[0], row.mechanism.claim, runs, CONFIDENCE
        oracle = oracle_bound(*settings)
        return oracle, np.quantile(repeated(*settings) / oracle, MIDDLES) if oracle else np.zeros(len(MIDDLES))

    tasks = [(row, seed) for row in studied for seed in seeds]
    audited = dict(zip(((row.name, seed) for row, seed in tasks), on_all_cores(bound, tasks), strict=True))
    for row, (oracle, again) in zip(studied, on_all_cores(known, studied), strict=True):
        bounds = [audited[row.name, seed][0] for seed in seeds]
        shares = [one / oracle if oracle else math.nan for one in bounds]
        yield {
            "name": row.name,
            "bound": statistics.median(bounds),
            "oracle": oracle,
            "exact": row.exact,
            "sniper": row.sniper,
            "statdp": row.statdp,
            "median": statistics.median(shares),
            "worst": min(shares),
            "oracle_decile": float(np.quantile(again, 0.1)),
            "oracle_shares": again.tolist(),
            "shares": shares,
            "witness": audited[row.name, seeds[0]][1],
        }


def by_runs(sizes: Sequence[int], audits: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield quartiles of the bounds of some mechanisms at each number of runs.

    The oracle's bound and the exact value stand beside them.

    The difference to the exact value decreases like one over the square root of the number of runs.
    """
    studied: list[tuple[str, Mechanism, Claim]] = [
        ("Laplace, ε = 1", Laplace(1.0), PureDP(1.0)),
        ("randomised response, ε = 3", RandomisedResponse(3.0), PureDP(3.0)),
        ("discrete Laplace, ε = 0.5", DiscreteLaplace(0.5), PureDP(0.5)),
        ("Gaussian, (1, 1e-5)", Gaussian(1.0, 1e-5), ApproxDP(1.0, 1e-5)),
    ]
    for name, mechanism, claim in studied:
        pair = mechanism.worst_pairs()[0]
        case = Case(name, mechanism, claim, (pair,), False)
        (tails,), truth = case.tails(), exact_parameter(claim, case.laws(pair))
        for runs in sizes:
            own = [entry_seed(seed, f"{name}/{runs}/{number}") for number in range(audits)]
            bounds = on_all_cores(lambda one, c=case, n=runs: c.audit(n, one, CONFIDENCE).lower_bound, own)
            low, middle, high = (float(one) for one in np.quantile(bounds, [0.25, 0.5, 0.75]))
            quartiles = {"lower quartile": low, "median": middle, "upper quartile": high}
            oracle = oracle_bound(tails, claim, runs, CONFIDENCE)
            about = {"mechanism": name, "symbol": claim.symbol, "runs": runs, "audits": audits}
            yield {**about, **quartiles, "oracle": oracle, "exact": truth}


def alarms(sound: Sequence[Case], audits: int, trials: int, seed: int) -> dict[str, Any]:
    """Audit sound mechanisms at 99 % with every default witness family, and count bounds above the exact values."""
    sound = [*sound, Case("objects", objects(), PureDP(1.0), (DatasetPair(0, 1),), False)]

    def truth(case: Case) -> float:
        values = [exact_parameter(case.claim, case.laws(pair)) for pair in case.pairs]
        return max(case.claim.parameter if value is None else value for value in values)

    truths = on_all_cores(truth, sound)

    def above(k: int) -> bool:
        place = k % len(sound)
        return bool(sound[place].audit(trials, seed + k, STRICT).lower_bound > truths[place] * (1 + 1e-9))

    wrong = sum(on_all_cores(above, range(audits)))
    chance = float(binom.sf(wrong - 1, audits, 1 - STRICT))
    return {"audits": audits, "mechanisms": len(sound), "trials": trials, "above": wrong, "chance": chance}


def objects() -> Any:
    """Return randomised response among outputs of every kind, which is exactly 1-DP.

    Audits of such outputs use the witness families for objects.
    """
    kinds: list[Any] = ["no", None, (1, 2.5), {"ann": 3}, [1, "a", None], float("nan")]

    def respond(data: int, rng: np.random.Generator) -> Any:
        truth = data if rng.random() < math.e / (1 + math.e) else 1 - data
        return kinds[3 * truth + rng.integers(3)]

    return black_box(respond, claim=PureDP(1.0), name="objects")


def answer(found: Rows, benchmark: Rows, wrong: dict[str, Any]) -> str:
    """Return a text on how close audits come to the oracle; cases in which the oracle has no bound are left out."""
    known = [row for row in found if not math.isnan(row["share"])]
    parts = []
    for least, what, single in ((0.95, "single outputs", True), (0.90, "vectors and lists", False)):
        shares = [row["share"] for row in known if (row["kind"] == "single") is single]
        parts.append(f"at least {least} of it on {sum(one >= least for one in shares)} of {len(shares)} {what}")
    parts.append(f"the median share is {statistics.median(row['share'] for row in known):.3f}")
    for key, name in (("sniper", "DP-Sniper's"), ("statdp", "StatDP's")):
        rated = [row for row in benchmark if not math.isnan(row[key])]
        parts.append(
            f"on the public benchmark a bound is at least {name} in "
            f"{sum(row['bound'] >= row[key] for row in rated)} of {len(rated)} rows"
        )
    deciles = [
        float(np.nanquantile([one for row in benchmark for one in row[key]], 0.1))
        for key in ("shares", "oracle_shares")
    ]
    least = min(benchmark, key=lambda row: row["median"])
    parts.append(
        f"the lowest decile there is {deciles[0]:.3f}, and {deciles[1]:.3f} for audits by an oracle, the lowest median "
        f"{least['median']:.3f}, of {least['name']}"
    )
    parts.append(f"{wrong['above']} of {wrong['audits']} bounds at 99 % are above the truth")
    return f"{'; '.join(parts)}."


@styled()
def draw_by_runs(found: Rows) -> Figure:
    """Draw the median bound and its quartiles against the number of runs, one panel per mechanism."""
    names = list(dict.fromkeys(row["mechanism"] for row in found))
    figure = new_figure(TWO_COLUMNS, 0.6 + 2.0 * -(-len(names) // 2))
    for axes, name in zip(figure.subplots(-(-len(names) // 2), 2).flat, names, strict=True):
        mine = [row for row in found if row["mechanism"] == name]
        runs = [row["runs"] for row in mine]
        low, high, median, oracle = (
            [row[key] for row in mine] for key in ("lower quartile", "upper quartile", "median", "oracle")
        )
        axes.fill_between(runs, low, high, color=VERMILION, alpha=0.25, linewidth=0.0, label="quartiles")
        axes.plot(runs, median, color=VERMILION, linestyle="-", marker="o", label=f"median of {mine[0]['audits']}")
        axes.plot(runs, oracle, color=BLUE, linestyle="--", marker="|", markersize=6, label="oracle's limit")
        axes.axhline(mine[0]["exact"], color="black", linewidth=0.8, linestyle=":", label="exact for the pair")
        symbol = SYMBOLS[mine[0]["symbol"]]
        axes.set(xscale="log", xlabel="runs", ylabel=f"{symbol}, certified at {percent(CONFIDENCE)}")
        axes.set_ylim(bottom=0.0)
        axes.set_title(matplotlib_text(name))
    place_legend_below(figure, 4)
    return figure
