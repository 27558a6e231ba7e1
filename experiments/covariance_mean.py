"""Errors and refusals of private means where nobody knows the covariance.

Mahalanobis error, by the true covariance where it is known and by the data's own for the survey: the covariance-aware
mean beside the data's own mean, the mean of clipped records with normal noise (the clipping ball given, so that it
needs to know what the others do not), and a mean whitened by a private covariance, which pays d^(3/2). Expected: the
covariance-aware mean does not feel the condition number, and refuses below some tens of thousands of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.audits.fixed import audit
from epsaudit.claims.conversions import approximate_to_gaussian
from epsaudit.experiments.data import fair
from epsaudit.experiments.studies import on_all_cores, write_data, write_table
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken.means import EmpiricalMean, PublishedCovarianceAwareMean
from epsaudit.mechanisms.covariance_mean import CovarianceAwareMean
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.tukey_mean import TukeyMean
from epsaudit.tools.reporting.tables import Column
from epsaudit.tools.training.dpsgd import shortened

EPSILON, DELTA = 1.0, 1e-6
CONDITION = 1e6
"""Greatest over least variance of the data that are not isotropic: clipping that fits one axis drowns another."""
LARGEST = 10.0
"""Radius in which clip-and-noise looks for records, as a multiple of the greatest standard deviation times sqrt(d)."""
COLUMNS = (
    Column("data", "data"),
    Column("d", "d", "count"),
    Column("n", "n", "count"),
    Column("estimator", "estimator"),
    Column("error", "error", "number"),
    Column("refusals", "refusals", "number"),
    Column("least", "least n", "count"),
)
Sampler = Callable[[int, int, np.random.Generator], Floats]


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Measure errors and refusals of every estimator, audit the mechanisms, and write all to ``out``."""
    dimensions, sizes, repetitions = ((2,), (100_000,), 1) if quick else ((1, 2, 5, 10), SIZES, 4)
    rows = errors(dimensions, sizes, repetitions, seed) + survey_errors(sizes[-2:], repetitions, seed)
    runs = 5_000 if quick else 1_000_000
    audits = on_all_cores(lambda mechanism: audited(mechanism, runs, seed), AUDITED)
    write_data(out, [*rows, *audits], seed=seed, epsilon=EPSILON, delta=DELTA)
    caption = (
        f"Private means at ({EPSILON:g}, {DELTA:g}): root mean squared Mahalanobis error of the answers of "
        f"{repetitions} datasets each, the mean probability of a refusal, and the fewest records for the guarantee."
    )
    write_table(out, [row for row in rows if row["n"] == sizes[-1]], COLUMNS, caption)
    return answer(rows, audits)


SIZES = (10_000, 30_000, 100_000, 300_000)
DRAWS = 200
"""Answers a dataset of mechanisms that may refuse: the share of refusals is known to 0.04 from one dataset."""


def answer(rows: Sequence[dict[str, Any]], audits: Sequence[dict[str, Any]]) -> str:
    """Say what the covariance-aware mean costs on normal data, and what the audits certified."""
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
    """lambda_0 for normal data: 1.25 times what one of n chi-squared variables exceeds in one of ten datasets.

    The tail bound of Laurent and Massart (2000), Lemma 1, d + 2 sqrt(d u) + 2 u at u = log(10 n).
    """
    u = math.log(10.0 * n)
    return 1.25 * (d + 2.0 * math.sqrt(d * u) + 2.0 * u)


def normal(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Standard normal records."""
    return rng.standard_normal((n, d))


def heavy_tailed(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Multivariate t records with 5 degrees of freedom, scaled to the covariance 1."""
    return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(5.0, (n, 1)) / 3.0)


def contaminated(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Standard normal records, ten of which lie 1000 away."""
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
    """Standard deviations of the axes: variances from 1 to ``condition``, evenly on a log scale."""
    return np.asarray(np.sqrt(np.geomspace(1.0, condition, d) if d > 1 else np.array([condition])))


def errors(dimensions: Sequence[int], sizes: Sequence[int], repetitions: int, seed: int) -> list[dict[str, Any]]:
    """Error and refusals of every estimator on every kind of data, around the mean 0."""
    cells = [(kind, d) for kind in KINDS for d in dimensions]
    found = on_all_cores(lambda cell: errors_of(*cell, sizes, repetitions, seed), cells, cost=lambda cell: cell[1])
    return [row for rows in found for row in rows]


def errors_of(kind: str, d: int, sizes: Sequence[int], repetitions: int, seed: int) -> list[dict[str, Any]]:
    """Error and refusals on one kind of data in one dimension."""
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
    """Error and refusals on age, years married and years of education of the wives of 1974, each drawn anew.

    Records are drawn with replacement, as so few would be refused; the truth is the survey's own mean.
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
    """One row an estimator: root mean squared distance of its answers, and the mean probability that it refuses."""
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
    """Return the root of the mean of the squares, without refusals, which are NaN."""
    return math.sqrt(float(np.nanmean(np.square(values))))


def clipped_mean(data: Floats, radius: float, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """Mean of records clipped to a ball about 0, with the least normal noise: sensitivity 2 radius / n."""
    clipped = shortened(data, radius)
    sigma = 2.0 * radius / len(data) / float(approximate_to_gaussian(epsilon, delta))
    return np.asarray(clipped.mean(axis=0) + sigma * rng.standard_normal(data.shape[1]))


def whitened_mean(data: Floats, radius: float, rng: np.random.Generator) -> Floats:
    """Whiten by a noisy second-moment matrix of clipped records, half of the budget; clip there, the other half.

    One record moves the matrix by at most sqrt(2) radius^2 / n in Frobenius norm. Noise as large as the least variance
    makes it useless, which is where d^(3/2) records and more are needed; its eigenvalues are kept above the noise.
    """
    n, d = data.shape
    clipped = shortened(data, radius)
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
"""Two mechanisms and two incorrect variants."""


def audited(mechanism: Reference, runs: int, seed: int) -> dict[str, Any]:
    """The certified and the exact epsilon of a mechanism."""
    result = audit(mechanism, mechanism.worst_pairs()[:1], trials=runs, seed=seed, n_jobs=1)
    return {
        "mechanism": mechanism.name,
        "claimed": mechanism.claim.parameter,
        "certified": result.lower_bound,
        "exact": result.exact,
        "refuted": result.violates_claim,
    }
