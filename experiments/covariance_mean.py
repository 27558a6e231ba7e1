"""Errors and refusals of private means where nobody knows the covariance.

The error is measured in the Mahalanobis norm, by the true covariance if it is known, and by the covariance of the data
for the survey. The study compares four estimators: the covariance-aware mean; the mean of the data without privacy; the
mean of clipped records with normal noise, which is given the clipping ball and therefore uses knowledge that the others
do not have; and a mean that is whitened by a private covariance and needs d^(3/2) records. The expected outcome is that
the condition number does not affect the covariance-aware mean, and that this mean refuses to answer below some tens of
thousands of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.audits.fixed import audit
from epsaudit.claims.conversions import approximate_to_gaussian
from epsaudit.experiments.data import fair
from epsaudit.experiments.studies import on_all_cores, write_data, write_table
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken.means import EmpiricalMean, PublishedCovarianceAwareMean
from epsaudit.mechanisms.covariance_mean import CovarianceAwareMean
from epsaudit.mechanisms.tukey_mean import TukeyMean
from epsaudit.tools.reporting.tables import TableColumn
from epsaudit.tools.training.dpsgd import clip_rows

EPSILON, DELTA = 1.0, 1e-6
CONDITION = 1e6
"""Ratio of the largest and the smallest variance in the data that are not isotropic. Clipping that suits one axis lets
the noise dominate another."""
LARGEST = 10.0
"""Clipping radius of the clipped mean, as a multiple of the largest standard deviation times sqrt(d)."""
COLUMNS = (
    TableColumn("data", "data"),
    TableColumn("d", "d", "count"),
    TableColumn("n", "n", "count"),
    TableColumn("estimator", "estimator"),
    TableColumn("error", "error", "number"),
    TableColumn("refusals", "refusals", "number"),
    TableColumn("least", "least n", "count"),
)
Sampler = Callable[[int, int, np.random.Generator], Floats]


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Measure errors and refusals of every estimator, audit the mechanisms, and write the results to ``out``."""
    dimensions, sizes, repetitions = ((2,), (100_000,), 1) if quick else ((1, 2, 5, 10), SIZES, 2)
    rows = errors(dimensions, sizes, repetitions, seed) + survey_errors(sizes[-2:], repetitions, seed)
    runs = 5_000 if quick else 1_000_000
    audits = on_all_cores(lambda mechanism: audit_mechanism(mechanism, runs, seed), AUDITED)
    write_data(out, [*rows, *audits], seed=seed, epsilon=EPSILON, delta=DELTA)
    caption = (
        f"Private means at ({EPSILON:g}, {DELTA:g}): root mean squared Mahalanobis error of the answers of "
        f"{repetitions} datasets each, the mean probability of a refusal, and the fewest records for the guarantee."
    )
    write_table(out, [row for row in rows if row["n"] == sizes[-1]], COLUMNS, caption)
    return answer(rows, audits)


SIZES = (10_000, 30_000, 100_000, 300_000)
DRAWS = 200
"""Number of answers drawn from each dataset for mechanisms that may refuse. The share of refusals is then known to 0.04
from one dataset."""


def answer(rows: Sequence[dict[str, Any]], audits: Sequence[dict[str, Any]]) -> str:
    """Return a sentence on the error of the covariance-aware mean on normal data, and on what the audits certified."""
    largest = max(row["n"] for row in rows)
    here = {(row["data"], row["d"], row["estimator"]): row["error"] for row in rows if row["n"] == largest}
    ratios = [
        here["ill-conditioned", d, "covariance-aware"] / error
        for (data, d, estimator), error in here.items()
        if (data, estimator) == ("ill-conditioned", "not private")
        and here["ill-conditioned", d, "covariance-aware"] is not None
    ]
    certified = "; ".join(f"{one['mechanism']} {one['certified']:.2f} of {one['claimed']:g}" for one in audits)
    cost = f"at most {max(ratios):.3g} times" if ratios else "not known, as all are refused, against"
    return (
        f"On normal data of condition number 10^6, n = {largest:,}, the covariance-aware mean's error is {cost} "
        f"that of the data's own mean. Certified epsilon: {certified}."
    )


def outlier_threshold(d: int, n: int) -> float:
    """Return the outlier threshold lambda_0 for n normal records in d dimensions.

    The threshold is 1.25 times the value that the largest of n chi-squared variables exceeds in at most one of ten
    datasets. The value comes from the tail bound of Laurent and Massart (2000), Lemma 1: d + 2 sqrt(d u) + 2 u at u =
    log(10 n).
    """
    u = math.log(10.0 * n)
    return 1.25 * (d + 2.0 * math.sqrt(d * u) + 2.0 * u)


def normal(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Return standard normal records, shape (n, d)."""
    return rng.standard_normal((n, d))


def heavy_tailed(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Return multivariate t records with 5 degrees of freedom, scaled to identity covariance, shape (n, d)."""
    return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(5.0, (n, 1)) / 3.0)


def contaminated(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Return standard normal records, shape (n, d), ten of which are shifted by 1000 in every coordinate."""
    data = rng.standard_normal((n, d))
    data[rng.choice(n, 10, replace=False)] += 1000.0
    return data


KINDS: dict[str, tuple[Sampler, float]] = {
    "normal": (normal, 1.0),
    "ill-conditioned": (normal, CONDITION),
    "heavy-tailed": (heavy_tailed, 1.0),
    "contaminated": (contaminated, 1.0),
}


def deviations(d: int, condition: float) -> Floats:
    """Return the standard deviation of each axis; the variances run from 1 to ``condition``, evenly on a log scale."""
    return np.asarray(np.sqrt(np.geomspace(1.0, condition, d) if d > 1 else np.array([condition])))


def errors(dimensions: Sequence[int], sizes: Sequence[int], repetitions: int, seed: int) -> list[dict[str, Any]]:
    """Return error and refusals of every estimator on every kind of data. The true mean of all data is 0."""
    cells = [(kind, d) for kind in KINDS for d in dimensions]
    found = on_all_cores(lambda cell: errors_of(*cell, sizes, repetitions, seed), cells, cost=lambda cell: cell[1])
    return [row for rows in found for row in rows]


def errors_of(kind: str, d: int, sizes: Sequence[int], repetitions: int, seed: int) -> list[dict[str, Any]]:
    """Return error and refusals of every estimator on one kind of data in one dimension, for every size."""
    sampler, condition = KINDS[kind]
    scale = deviations(d, condition)
    rows: list[dict[str, Any]] = []
    for n in sizes:
        rng = np.random.default_rng([seed, list(KINDS).index(kind), d, n])
        rows += _rows(
            {"data": kind, "d": d, "n": n},
            (sampler(n, d, rng) * scale for _ in range(repetitions)),
            lambda estimate: float(np.linalg.norm(estimate / scale)),
            LARGEST * math.sqrt(d) * float(scale.max()),
            rng,
        )
    return rows


def survey_errors(sizes: Sequence[int], repetitions: int, seed: int) -> list[dict[str, Any]]:
    """Return error and refusals on age, years married and years of education of the wives in the survey of 1974.

    Records are drawn from the survey with replacement, because the mechanisms would refuse to answer on as few records
    as the survey has. The true mean is that of the survey.
    """
    wives = np.array([(wife.age, wife.years_married, wife.education) for wife in fair()], float)
    mean, root = wives.mean(axis=0), np.linalg.cholesky(np.linalg.inv(np.cov(wives.T)))
    rng = np.random.default_rng([seed, len(KINDS)])
    rows: list[dict[str, Any]] = []
    for n in sizes:
        rows += _rows(
            {"data": "survey", "d": 3, "n": n},
            (wives[rng.integers(0, len(wives), n)] for _ in range(repetitions)),
            lambda estimate: float(np.linalg.norm((estimate - mean) @ root)),
            100.0,
            rng,
        )
    return rows


def _rows(
    labels: dict[str, Any],
    datasets: Iterator[Floats],
    distance: Callable[[Floats], float],
    radius: float,
    rng: np.random.Generator,
) -> Iterator[dict[str, Any]]:
    """Yield one row per estimator: root mean squared distance of its answers, and mean probability of a refusal."""
    d, n = labels["d"], labels["n"]
    threshold = outlier_threshold(d, n)
    testing = {
        "covariance-aware": CovarianceAwareMean(EPSILON, DELTA, threshold, d),
    }
    plain: dict[str, Callable[[Floats], Floats]] = {
        "not private": lambda data: np.asarray(data.mean(axis=0)),
        "clipped": lambda data: clipped_mean(data, radius, EPSILON, DELTA, rng),
        "private covariance": lambda data: whitened_mean(data, radius, rng),
    }
    found: dict[str, list[float]] = {estimator: [] for estimator in (*plain, *testing)}
    refusals: dict[str, list[float]] = {estimator: [] for estimator in found}
    for data in datasets:
        for estimator, answer in plain.items():
            found[estimator].append(distance(answer(data)))
            refusals[estimator].append(0.0)
        for estimator, mechanism in testing.items():
            answers = mechanism(data).sample(DRAWS, rng) if n >= mechanism.least_records else np.full((1, d), np.nan)
            refused = np.isnan(answers).any(axis=1)
            found[estimator] += [distance(one) for one in answers[~refused]]
            refusals[estimator].append(float(refused.mean()))
    for estimator, values in found.items():
        yield {
            **labels,
            "estimator": estimator,
            "error": root_mean_square(values) if values else None,
            "refusals": float(np.mean(refusals[estimator])),
            "least": testing[estimator].least_records if estimator in testing else None,
        }


def root_mean_square(values: Sequence[float]) -> float:
    """Return the root of the mean square; refusals, which are NaN, are left out."""
    return math.sqrt(float(np.nanmean(np.square(values))))


def clipped_mean(data: Floats, radius: float, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """Return the mean of records clipped to a ball around 0, with the smallest sufficient normal noise.

    The sensitivity of the clipped mean is 2 radius / n.
    """
    clipped = clip_rows(data, radius)
    sigma = 2.0 * radius / len(data) / float(approximate_to_gaussian(epsilon, delta))
    return np.asarray(clipped.mean(axis=0) + sigma * rng.standard_normal(data.shape[1]))


def whitened_mean(data: Floats, radius: float, rng: np.random.Generator) -> Floats:
    """Return a private mean that is computed after whitening by a private covariance matrix.

    Half of the budget is spent on the second-moment matrix of clipped records, and half on the clipped mean of the
    whitened records. One record changes the matrix by at most sqrt(2) radius^2 / n in Frobenius norm. The matrix is
    useless if its noise is as large as the smallest variance, which is why d^(3/2) records or more are needed. Its
    eigenvalues are raised to the level of the noise where they are smaller.
    """
    n, d = data.shape
    clipped = clip_rows(data, radius)
    sigma = math.sqrt(2.0) * radius**2 / n / float(approximate_to_gaussian(EPSILON / 2.0, DELTA / 2.0))
    noise = np.triu(rng.normal(scale=sigma, size=(d, d)))
    noisy = clipped.T @ clipped / n + noise + np.triu(noise, 1).T
    values, vectors = np.linalg.eigh(noisy)
    roots = np.sqrt(np.maximum(values, 2.0 * math.sqrt(d) * sigma))
    white = (data @ vectors) / roots
    estimate = clipped_mean(white, math.sqrt(outlier_threshold(d, n)), EPSILON / 2.0, DELTA / 2.0, rng)
    return np.asarray(vectors @ (estimate * roots))


AUDITED: tuple[Reference, ...] = (
    CovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=2),
    TukeyMean(4.0, 0.01),
    PublishedCovarianceAwareMean(4.0, 0.01, outlier=6.0, dimension=2),
    EmpiricalMean(4.0, 0.01, outlier=6.0, dimension=2),
)
"""The mechanisms that are audited: two sound mechanisms and two incorrect variants."""


def audit_mechanism(mechanism: Reference, runs: int, seed: int) -> dict[str, Any]:
    """Audit a mechanism, and return a row with its certified and its exact epsilon."""
    result = audit(mechanism, mechanism.worst_pairs()[:1], trials=runs, seed=seed, n_jobs=1)
    return {
        "mechanism": mechanism.name,
        "claimed": mechanism.claim.parameter,
        "certified": result.lower_bound,
        "exact": result.exact,
        "refuted": result.violates_claim,
    }
