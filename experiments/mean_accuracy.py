"""Accuracy of the covariance-aware mean: coverage of its theorem, and conditioning and dimension apart.

Theorem 3 of docs/explanation/covariance-aware-mean.md promises an error with probability 1 - beta. The study expects:

1. Coverage: the certified probability of an answer within the promised error is at least 1 - beta.
2. Conditioning alone, in two dimensions: the error of the covariance-aware mean does not depend on the condition number
   of the covariance, whereas the error of a mean that is whitened by a private covariance grows with it.
3. Dimension alone, for the identity covariance, on which a private covariance is easiest: both errors grow with the
   dimension. With the number of records used here, the mean with a private covariance has the smaller error; the number
   of records that it needs grows like d^1.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.bounds.certificates import clopper_pearson_lower
from epsaudit.experiments.covariance_mean import (
    DELTA,
    EPSILON,
    LARGEST,
    deviations,
    outlier_threshold,
    root_mean_square,
    whitened_mean,
)
from epsaudit.experiments.studies import on_all_cores, write_data, write_table
from epsaudit.mechanisms.covariance_mean import CovarianceAwareMean
from epsaudit.text import lower
from epsaudit.tools.reporting.tables import TableColumn

RECORDS, COVERED_RECORDS = 200_000, 100_000
"""Number of records of each dataset for errors and for coverage. Theorem 3 needs about 105,000 records in ten
dimensions, so coverage is measured in at most five dimensions."""
BETA = 0.1
"""Probability with which Theorem 3 allows a larger error."""
LEVEL = 0.01
"""Error probability of the certified coverage in each dimension."""
COVERED = (1, 2, 5)
CONDITIONS = (1.0, 1e2, 1e4, 1e6, 1e8)
DIMENSIONS = (1, 2, 5, 10, 20)
COLUMNS = (
    TableColumn("part", "part"),
    TableColumn("d", "d", "count"),
    TableColumn("condition", "condition", "number"),
    TableColumn("promised", "promised error", "number"),
    TableColumn("covered", "coverage", "lower"),
    TableColumn("covariance-aware", "covariance-aware", "number"),
    TableColumn("private covariance", "private covariance", "number"),
    TableColumn("not private", "not private", "number"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Measure coverage and errors, and write data and a table to ``out``."""
    records, datasets, repetitions = (COVERED_RECORDS, 4, 1) if quick else (RECORDS, 60, 2)
    jobs = [(coverage, (d, COVERED_RECORDS, datasets, seed)) for d in (COVERED[:2] if quick else COVERED)]
    cells = [("conditioning", 2, condition) for condition in CONDITIONS] + [("dimension", d, 1.0) for d in DIMENSIONS]
    jobs += [(errors, (*cell, records, repetitions, seed)) for cell in (cells[:2] if quick else cells)]
    rows = on_all_cores(lambda job: job[0](*job[1]), jobs, cost=lambda job: job[0] is coverage)
    write_data(out, rows, seed=seed, records=records, epsilon=EPSILON, delta=DELTA, beta=BETA)
    caption = (
        f"Errors in Mahalanobis distance of private means of {records:,} normal records at ({EPSILON:g}, {DELTA:g}): "
        f"coverage of the promised error ({1.0 - LEVEL:.0%} confidence, {COVERED_RECORDS:,} records), and root mean "
        "squared errors."
    )
    write_table(out, rows, COLUMNS, caption)
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a sentence on the certified coverage and on the growth of both errors."""
    covered = min(row["covered"] for row in rows if row["part"] == "coverage")
    said = (
        f"Answers are within the promised error with probability {lower(covered)} or more ({1.0 - BETA:g} is promised)"
    )
    growth = []
    for part in ("conditioning", "dimension"):
        some = [row for row in rows if row["part"] == part]
        if len(some) > 1:
            first, last = some[0], some[-1]
            ratios = [last[name] / first[name] for name in ("covariance-aware", "private covariance")]
            growth.append(f"over the {part} the errors grow by {ratios[0]:.3g} and {ratios[1]:.3g}")
    return f"{said}; {'; '.join(growth)} (covariance-aware, and by a private covariance)." if growth else f"{said}."


def promised_error(d: int, n: int) -> tuple[CovarianceAwareMean, float]:
    """Return a mechanism that meets the condition of Theorem 3, and the error that the theorem promises."""
    levels = CovarianceAwareMean(EPSILON, DELTA, outlier=1.0, dimension=d).test.levels
    far = math.sqrt(d) + math.sqrt(2.0 * math.log(5.0 * n * (4 * levels + 3) / BETA))
    near = math.sqrt(d) + math.sqrt(2.0 * math.log(5.0 / BETA))
    xi = near / math.sqrt(n // 2)
    mechanism = CovarianceAwareMean(EPSILON, DELTA, outlier=(far / (1.0 - xi)) ** 2, dimension=d)
    return mechanism, near * (1.0 / math.sqrt(n) + (1.0 + xi) * mechanism.noise(n))


def coverage(d: int, n: int, datasets: int, seed: int) -> dict[str, Any]:
    """Return a row that counts the datasets whose answer is within the promised error.

    A refusal counts as an answer outside the promised error.
    """
    mechanism, promised = promised_error(d, n)
    scale, rng = deviations(d, 1e6), np.random.default_rng([seed, d])
    found = []
    for _ in range(datasets):
        (estimate,) = mechanism(rng.standard_normal((n, d)) * scale).sample(1, rng)
        found.append(float(np.linalg.norm(estimate / scale)))
    inside = sum(error <= promised for error in found)  # NaN, which stands for a refusal, is not counted
    return {
        "part": "coverage",
        "d": d,
        "condition": 1e6,
        "promised": promised,
        "inside": inside,
        "datasets": datasets,
        "covered": float(clopper_pearson_lower(inside, datasets, LEVEL)),
        "covariance-aware": root_mean_square(found),
    }


def errors(part: str, d: int, condition: float, n: int, repetitions: int, seed: int) -> dict[str, Any]:
    """Return a row with the errors of three means on normal records, whose variances run from 1 to ``condition``."""
    scale, rng = deviations(d, condition) if d > 1 else np.ones(1), np.random.default_rng([seed, d, int(condition)])
    mechanism = CovarianceAwareMean(EPSILON, DELTA, outlier_threshold(d, n), d)
    radius = LARGEST * math.sqrt(d) * float(scale.max())
    found: dict[str, list[float]] = {"covariance-aware": [], "private covariance": [], "not private": []}
    for _ in range(repetitions):
        data = rng.standard_normal((n, d)) * scale
        answers = mechanism(data).sample(20, rng)
        found["covariance-aware"] += [float(np.linalg.norm(one / scale)) for one in answers]
        found["private covariance"] += [
            float(np.linalg.norm(whitened_mean(data, radius, rng) / scale)) for _ in range(20)
        ]
        found["not private"].append(float(np.linalg.norm(data.mean(axis=0) / scale)))
    sizes = {name: root_mean_square(values) for name, values in found.items()}
    return {"part": part, "d": d, "condition": condition, **sizes}
