"""Runs by which sequential audits refute wrong claims, beside the information limit; what passing checks would catch.

The study audits mechanisms that violate their claim by much and by little, at significance levels of 5 % and of 1e-6
(the default of the pytest plugin), and the mechanisms in published tables of other auditors, at their level of 5 %. An
auditor who knows the best event and the best bet needs about log(1 / alpha) / KL runs (Wald 1945). Learning both is
expected to need up to twice as many.

`epsaudit.experiments.stated_power` is the second part: it tests what a passing check states that it would have caught.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit import ApproxDP, Claim, DatasetPair, Mechanism, PureDP, SequentialResult, audit_sequentially
from epsaudit.bounds import betting
from epsaudit.experiments import stated_power
from epsaudit.experiments.oracle import tails_of
from epsaudit.experiments.sequential_published import published
from epsaudit.experiments.studies import on_all_cores, write_data, write_figure, write_table
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.broken.additive import GaussianSensitivityOffByTwo, LaplaceHalfNoise
from epsaudit.mechanisms.registry import entries
from epsaudit.text import nearest
from epsaudit.tools.reporting.figures import plot_running_bound
from epsaudit.tools.reporting.tables import TableColumn

LEVELS = (0.05, 1e-6)
"""Probabilities of a false alarm. The tables of other auditors use the first one."""
SEEDS = {0.05: 12, 1e-6: 6}
SEEDS_ON_VECTORS = {0.05: 4, 1e-6: 3}
"""Numbers of seeds for mechanisms whose outputs are vectors. An audit of sparse vectors takes ten times as long as an
audit of numbers."""
MOST_RUNS, MOST_RUNS_ON_VECTORS = 2_000_000, 200_000
DRAWS = 200_000
"""Number of draws from each law for the events of the information limit. The probabilities of the events are then
accurate to 0.2 %."""
COLUMNS = (
    TableColumn("case", "wrong claim"),
    TableColumn("claim", "claim", "formula"),
    TableColumn("alpha", "alpha", "number"),
    TableColumn("limit", "limit", "number", 3),
    TableColumn("sequential", "sequential", "number", 3),
    TableColumn("mean", "mean", "number", 3),
    TableColumn("ratio", "sequential / limit", "number", 3),
    TableColumn("quoted", "quoted, not measured"),
    TableColumn("seeds", "seeds", "count"),
)


@dataclass(frozen=True)
class Case:
    """An incorrect claim to refute.

    ``quoted`` and ``others`` are the numbers of runs in others' tables, as text and as numbers.
    """

    name: str
    mechanism: Mechanism
    claim: Claim
    pairs: Sequence[DatasetPair] | None = None
    most_runs: int = MOST_RUNS
    quoted: str = ""
    others: tuple[float, ...] = ()

    @property
    def on_vectors(self) -> bool:
        """Whether the outputs are vectors, whose audits take longer."""
        return self.most_runs == MOST_RUNS_ON_VECTORS

    def seeds(self, alpha: float) -> int:
        """Return the number of seeds with which the case is audited at this level."""
        return (SEEDS_ON_VECTORS if self.on_vectors else SEEDS)[alpha]


def cases() -> list[Case]:
    """Return the incorrect claims of the study.

    They are half the noise, sparse vectors 3 to 6, Gaussian noise at half of its scale, and slightly too little noise.
    """
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


def published_cases() -> list[Case]:
    """Return the cases of others' published tables."""
    return [Case(row.name, row.mechanism, row.claim, quoted=row.quoted, others=row.others) for row in published()]


def _words(name: str) -> str:
    return name.removeprefix("broken/").replace("-", " ")


def fastest_growth(case: Case) -> float | None:
    """Return the largest growth of log-wealth per run, for the best event and the best bet.

    The average number of runs to a refutation is at least log(1 / alpha) divided by this growth. At delta = 0 the
    growth is P[guess] KL(correct given a guess || what the claim allows). The best event is searched among all pairs of
    likelihood-ratio events, with all tangents. The result is None if an output law is unknown.
    """
    fastest = 0.0
    for pair in case.pairs or case.mechanism.worst_pairs():
        sides = [case.mechanism(dataset) for dataset in (pair.x, pair.x_prime)]
        if not all(callable(getattr(side, "log_density", None)) for side in sides):
            return None
        up, up_prime, low, low_prime = tails_of(*sides, draws=DRAWS)[0]
        i, j = np.triu_indices(len(up), 1)  # the upper event starts beyond the end of the lower event
        forms = [(1, up, up_prime), (1, low_prime, low), (2, up[j] + low_prime[i], up_prime[j] + low[i])]
        for point in betting.tangents(case.claim):
            for events, correct, wrong in forms:
                for some in np.array_split(np.arange(len(correct)), max(len(correct) // 4000, 1)):
                    if len(some):
                        grows = betting.growth(correct[some] / 2, wrong[some] / 2, *point, events)
                        fastest = max(fastest, float(np.max(grows)))
    return fastest


def runs_to_refute(case: Case, alpha: float, seed: int) -> float:
    """Return the number of runs at which a sequential audit refutes the claim.

    Infinite if it does not within the budget.
    """
    result = audit_sequentially(
        case.mechanism,
        case.pairs,
        claim=case.claim,
        trials=case.most_runs,
        confidence=1 - alpha,
        seed=seed,
        n_jobs=1,
    )
    return result.runs if result.violates_claim else math.inf


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Refute every case at every level, and write data, a table and a figure. With ``quick``, run only a few audits."""
    ours, others = (found[:1] if quick else found for found in (cases(), published_cases()))
    asked = [(case, alpha) for alpha in LEVELS for case in (*ours, *(others if alpha == LEVELS[0] else ()))]
    seeds = [range(seed, seed + (2 if quick else case.seeds(alpha))) for case, alpha in asked]
    jobs = [(case, alpha, one) for (case, alpha), some in zip(asked, seeds, strict=True) for one in some]
    jobs.sort(key=lambda job: (not job[0].on_vectors, job[1]))  # the slowest first, so that no core waits for them
    taken = on_all_cores(lambda job: runs_to_refute(*job), jobs)
    found = {(case.name, alpha, one): runs for (case, alpha, one), runs in zip(jobs, taken, strict=True)}
    growths = on_all_cores(fastest_growth, (*ours, *others))
    growth = dict(zip([case.name for case in (*ours, *others)], growths, strict=True))
    runs = [[found[case.name, alpha, one] for one in some] for (case, alpha), some in zip(asked, seeds, strict=True)]
    rows = [_row(*one, some, growth[one[0].name]) for one, some in zip(asked, runs, strict=True)]
    write_data(out, rows, seed=seed)
    write_table(out, rows, COLUMNS, "Runs on both datasets that refute wrong claims, beside log(1/alpha) / KL.")
    right = Case("Laplace", Laplace(1.0), PureDP(1.0))
    write_figure(out / "path", plot_running_bound(dict(_path(case, LEVELS[1], seed) for case in (ours[0], right))))
    return f"{answer(rows)} {stated_power.measure(out, seed, quick)}"


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a text that compares the numbers of runs with the information limit and with others' published numbers."""
    parts = []
    for alpha in dict.fromkeys(row["alpha"] for row in rows):
        known = [row for row in rows if row["alpha"] == alpha and row["ratio"] is not None]
        known.sort(key=lambda row: row["ratio"])
        least, most = known[0], known[-1]
        parts.append(
            f"at {alpha:g}, {nearest(least['ratio'], 3)} ({least['case']}) to "
            f"{nearest(most['ratio'], 3)} ({most['case']})"
        )
    compared = [(row["mean"], min(row["others"])) for row in rows if row["others"]]
    fewer = sum(mean <= least for mean, least in compared)
    return (
        f"Medians over seeds, in multiples of the information limit log(1/alpha) / KL: {'; '.join(parts)}. Of "
        f"{len(compared)} rows of others' tables the mean here is at most the least figure that they print in {fewer}."
    )


def _row(case: Case, alpha: float, runs: Sequence[float], growth: float | None) -> dict[str, Any]:
    """Return the row of one claim at one level; its median and quartiles may be infinite."""
    median, refuted = float(np.median(runs)), np.isfinite(runs)
    limit = None if growth is None else math.log(1.0 / alpha) / growth if growth > 0.0 else math.inf
    return {
        "case": case.name,
        "claim": str(case.claim),
        "alpha": alpha,
        "sequential": median,
        "mean": float(np.mean(runs)),
        "refuted": float(np.mean(refuted)),
        "lower_quartile": float(np.quantile(runs, 0.25, method="nearest")),
        "upper_quartile": float(np.quantile(runs, 0.75, method="nearest")),
        "limit": limit,
        "ratio": None if limit is None else median / limit,
        "quoted": case.quoted,
        "others": case.others,
        "seeds": len(runs),
    }


def _path(case: Case, alpha: float, seed: int) -> tuple[str, SequentialResult]:
    return case.name, audit_sequentially(
        case.mechanism, case.pairs, claim=case.claim, trials=100_000, confidence=1 - alpha, seed=seed, n_jobs=1
    )
