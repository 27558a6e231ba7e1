"""Errors of private ratios, as published and corrected.

The source plots the mean absolute error over 100,000 trials of three mechanisms: a naive ratio, noise scaled to a
private bound on the local sensitivity, and noisy counts of ones and zeros (Kulesza, Suresh and Wang 2024). It says that
the bounded mechanism is much better than the naive ratio where the sensitivity is stable, and better than the counts in
some regimes. It does not state its parameters; here epsilon = 1 and delta = 1e-6. The study expects the following, and
`answer` says from the data to what extent it holds:

1. As published, the bounded mechanism has a smaller error than the corrected code. Its error is also below that of the
   non-private baseline (Laplace noise at the true local sensitivity with all of epsilon) where the bound is so much too
   small that this outweighs the tenth of epsilon spent on the bound.
2. Corrected, its error is above the baseline and comes close to it for many records. For few records it is larger than
   that of the naive ratio and of the counts, because a margin of about 290 records at a tenth of epsilon makes the
   bound useless.
3. A bound computed from b alone, as note 3 of the source suggests, has a margin of about 130 records. Its error is
   below that of the corrected mechanism for some hundreds of records, and above it for many records with a share near
   one half, because the bound does not use the share.

A ratio of two noisy counts has no mean: the probability that its denominator comes close to 0 is only of the order
e^(-b epsilon / 2). Therefore data.csv also contains the median absolute error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit import OutputDistribution
from epsaudit.experiments.studies import write_data, write_table
from epsaudit.mechanisms.broken.local_sensitivity import PublishedBoundedRatio
from epsaudit.mechanisms.laws import LaplaceLaw
from epsaudit.mechanisms.private_bound import PrivatelyBounded, RatioByRecords
from epsaudit.mechanisms.ratio import BoundedRatio, BoundedRatioLaw, RatioLaw
from epsaudit.text import nearest
from epsaudit.tools.reporting.tables import TableColumn

EPSILON, DELTA, SHARE = 1.0, 1e-6, 0.1
SWEEPS: dict[str, tuple[tuple[int, int, float], ...]] = {
    "error-by-ratio": tuple((2000 * k // 20, 2000, SHARE) for k in range(21)),
    "error-by-records": tuple(
        (b // 2, b, SHARE) for b in (10, 30, 100, 200, 300, 400, 600, 1000, 2000, 5000, 10_000, 30_000, 100_000)
    ),
    "error-by-share": tuple(
        (1000, 2000, share / 100) for share in (2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90)
    ),
}
"""Points of each sweep: (a, b, share of epsilon that is spent on the bounds)."""
MECHANISMS = (
    *("naive", "bounded (published)", "bounded (corrected)", "bounded (by b alone)", "ones and zeros", "not private"),
)
COLUMNS = (
    TableColumn("records", "b", "count"),
    *(TableColumn(name, name.removeprefix("bounded "), "number", 3) for name in MECHANISMS),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Draw the errors of every mechanism along every sweep, and write data and a table to ``out``."""
    trials = 1_000 if quick else 100_000
    rows = [row for place, sweep in enumerate(SWEEPS) for row in errors(sweep, trials, [seed, place])]
    write_data(out, rows, seed=seed, trials=trials)
    caption = (
        f"Median absolute error of private ratios a / b where half of b records say 1, at ε = {EPSILON:g} and "
        f"δ = {DELTA:g}, of {trials:,} trials each; in brackets: noise at a private bound on the local sensitivity."
    )
    write_table(out, _medians(rows), COLUMNS, caption)
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a text on the numbers of records at which each mechanism has the smaller error."""
    sweep = [row for row in rows if row["sweep"] == "error-by-records"]
    errors: dict[str, dict[int, float]] = {name: {} for name in MECHANISMS}
    for row in sweep:
        errors[row["mechanism"]][row["records"]] = row["median absolute error"]
    corrected, simple, most = errors["bounded (corrected)"], errors["bounded (by b alone)"], max(errors["naive"])
    parts = []
    for other in ("naive", "ones and zeros"):
        worse = [records for records, error in corrected.items() if error >= errors[other][records]]
        better = [records for records in corrected if records > max(worse, default=0)]
        parts.append(f"'{other}' from {better[0]:,} records on" if better else f"'{other}' at none of these sizes")
    fewer = [records for records, error in simple.items() if error < corrected[records]]
    points: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        point = points.setdefault((row["sweep"], row["ones"], row["records"], row["share"]), {})
        point[row["mechanism"]] = row["mean absolute error"]
    below = sum(point["bounded (published)"] < point["not private"] for point in points.values())
    gain = max(simple, key=lambda records: corrected[records] / simple[records])
    return (
        f"Corrected, its median error is below that of {' and of '.join(parts)}, of up to {most:,}. As published its "
        f"mean error is below that of the baseline that is not private at {below} of {len(points)} points, above it at "
        f"the others. By b alone the median error is below the corrected one's from {min(fewer):,} to {max(fewer):,} "
        f"records, at {gain:,} it is {nearest(simple[gain], 2)} against {nearest(corrected[gain], 2)}."
    )


def laws(ones: int, records: int, share: float) -> dict[str, OutputDistribution]:
    """Return the output law of every mechanism on a dataset with the given number of ones and of records.

    Examples
    --------
    >>> list(laws(5, 10, 0.1))[:2]
    ['naive', 'bounded (published)']
    """
    sensitivity = max(ones, records - ones) / (records * (records - 1))
    return {
        "naive": RatioLaw(float(ones), float(records), 2.0 / EPSILON),
        "bounded (published)": BoundedRatioLaw(ones, records, PublishedBoundedRatio(EPSILON, DELTA, share)),
        "bounded (corrected)": BoundedRatioLaw(ones, records, BoundedRatio(EPSILON, DELTA, share)),
        "bounded (by b alone)": PrivatelyBounded(RatioByRecords(), EPSILON, DELTA, share).law(ones / records, -records),
        "ones and zeros": RatioLaw(float(ones), float(records - ones), 1.0 / EPSILON, share=True),
        "not private": LaplaceLaw(ones / records, sensitivity / EPSILON),
    }


def errors(sweep: str, trials: int, seed: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the mean and median absolute error of every mechanism at every point of a sweep."""
    rng = np.random.default_rng(seed)
    for ones, records, share in SWEEPS[sweep]:
        for mechanism, law in laws(ones, records, share).items():
            error = np.abs(law.sample(trials, rng) - ones / records)
            yield {
                "sweep": sweep,
                "ones": ones,
                "records": records,
                "share": share,
                "mechanism": mechanism,
                "mean absolute error": float(np.mean(error)),
                "standard error": float(np.std(error) / np.sqrt(trials)),
                "median absolute error": float(np.median(error)),
            }


def _medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each number of records, with one column for each mechanism."""
    table: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["sweep"] == "error-by-records":
            table.setdefault(row["records"], {"records": row["records"]})[row["mechanism"]] = row[
                "median absolute error"
            ]
    return list(table.values())
