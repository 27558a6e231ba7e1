"""Errors of private medians by four mechanisms, and the local sensitivity of the median of Gaussian data.

The source ('Beyond Global Sensitivity via Inverse Sensitivity', differentialprivacy.org) says that inverse sensitivity
outperforms smooth sensitivity and propose-test-release up to logarithmic factors, that neither inverse sensitivity nor
Laplace noise is always the better one, and that LS^k of the median of n Gaussian records is O(k / n). All errors are
quantiles of known laws, so no outputs are drawn. They are distances from the median of the records after rounding to
the candidate medians. The module stands apart from `inverse_accuracy`, because that study draws outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from epsaudit.experiments.data import anes96, answers, fair
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses
from epsaudit.mechanisms.stability import ProposeTestRelease, SmoothMedianCauchy, SmoothMedianLaplace, StableMedian

EPSILON, DELTA, BETA = 1.0, 1e-6, 0.1
INVERSE, CAUCHY, SMOOTH, TESTED, LAPLACE, PROMISED = (
    "inverse sensitivity",
    "smooth sensitivity, Cauchy noise",
    "smooth sensitivity, Laplace noise",
    "propose-test-release",
    "Laplace noise",
    "Theorem 4",
)
RECORDS, REACHES = (101, 1001, 10_001), (5, 50, 500)
STEP = 0.01
"""Distance between the candidate medians of Gaussian data, in standard deviations."""


def datasets(seed: int, repeats: int) -> Iterator[tuple[dict[str, Any], MedianLosses, tuple[int, ...], float]]:
    """Yield each dataset as a description, the candidate medians, the records in units of them, and the size of a unit.

    The datasets are Gaussian records with standard deviation 1 in intervals of several sizes, and two surveys.
    """
    for place, (records, reach) in enumerate((n, r) for n in RECORDS for r in REACHES):
        most = round(reach / STEP)
        query = MedianLosses(tuple(range(-most, most + 1)))
        for repeat in range(repeats):
            drawn = np.random.default_rng([seed, place, repeat]).standard_normal(records)
            data = tuple(np.clip(np.rint(drawn / STEP), -most, most).astype(int).tolist())
            yield {"dataset": "Gaussian", "records": records, "reach": reach, "repeat": repeat}, query, data, STEP
    ages: Any = answers(anes96(), "age")
    yield {"dataset": "ages of voters", "records": len(ages)}, MedianLosses(tuple(range(18, 100))), ages, 1.0
    affairs = tuple(round(10 * wife.affairs) for wife in fair())
    yield {"dataset": "affairs of wives", "records": len(affairs)}, MedianLosses(tuple(range(577))), affairs, 0.1


def errors(seed: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield, for each dataset, the error that each mechanism exceeds with probability `BETA`."""
    for row, query, data, unit in datasets(seed, repeats):
        quantiles = {name: unit * error for name, error in error_quantiles(query, data).items()}
        yield {**row, "outputs": len(query.candidates), **quantiles}


def error_quantiles(query: MedianLosses, dataset: tuple[int, ...]) -> dict[str, float]:
    """Return, for each mechanism, the error that is exceeded only with probability `BETA`, in the unit of the records.

    Propose-test-release is shown at its best: among bounds that are repeated halves of the interval, the one with the
    smallest error is used, although nobody knows this bound beforehand. A refusal counts as an infinite error.

    Examples
    --------
    >>> found = error_quantiles(MedianLosses(tuple(range(100))), (50,) * 101)
    >>> found["inverse sensitivity"], round(found["Laplace noise"], 1)
    (0.0, 228.0)
    """
    low, high = query.candidates[0], query.candidates[-1]
    interval, share = StableMedian(low, high), -math.log(BETA)
    law: Any = InverseSensitivity(EPSILON, query)(dataset)
    off = np.abs(np.array(query.candidates, float) - query.value(dataset))
    nearest = np.argsort(off, kind="stable")
    within = np.cumsum(np.exp(law.log_probabilities[nearest]))
    tested = []
    for halvings in range(20):
        mechanism = ProposeTestRelease(interval, EPSILON / 2.0, DELTA, (high - low) / 2.0**halvings)
        refused = math.exp(mechanism(dataset).log_probabilities[0])  # type: ignore[attr-defined]  # a law that may refuse
        late = (BETA - refused) / (1.0 - refused)
        tested.append(-math.log(late) * mechanism.bound / mechanism.epsilon if late > 0.0 else math.inf)
    return {
        INVERSE: float(off[nearest][np.searchsorted(within, 1.0 - BETA)]),
        PROMISED: query.local_sensitivity(dataset, InverseSensitivity(EPSILON, query).reach(BETA)),
        CAUCHY: SmoothMedianCauchy(interval, EPSILON)(dataset).scale * math.tan(math.pi * (1.0 - BETA) / 2.0),
        SMOOTH: SmoothMedianLaplace(interval, EPSILON, DELTA)(dataset).scale * share,
        TESTED: min(tested),
        LAPLACE: (high - low) / EPSILON * share,
    }


def local_sensitivities(draws: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the median and the 99 % quantile of n LS^k / k over samples of n Gaussian records.

    Only three order statistics of the records are drawn: the normal quantiles of the uniform order statistics m - k, m
    and m + k, which are computed from Gamma variates.
    """
    for place, n in enumerate((*RECORDS, 100_001)):
        rng, middle = np.random.default_rng([seed, place]), (n + 1) // 2
        for k in [k for k in (1, 2, 5, 10, 25, 100, 250, 1000, 2500, 10_000, 25_000) if k <= n // 4]:
            gaps = rng.standard_gamma([middle - k, k, k, n + 1 - middle - k], (draws, 4))
            below, at, above = ndtri(np.cumsum(gaps, axis=1)[:, :3] / gaps.sum(axis=1, keepdims=True)).T
            scaled = n / k * np.maximum(above - at, at - below)
            yield {"records": n, "k": k, "median": float(np.median(scaled)), "99%": float(np.quantile(scaled, 0.99))}


def answer(rows: Sequence[dict[str, Any]], sensitivities: Sequence[dict[str, Any]]) -> str:
    """Return a text that counts where inverse sensitivity has the smaller error, and that bounds n LS^k / k."""
    won = ", ".join(
        f"{name} on {sum(row[INVERSE] < row[name] for row in rows)}" for name in (CAUCHY, SMOOTH, TESTED, LAPLACE)
    )
    largest = {k: max(row["99%"] for row in sensitivities if (row["k"] > 1) == k) for k in (False, True)}
    return (
        f"The error exceeded with probability {BETA:g} of {INVERSE} is below that of ({len(rows)} datasets): {won}. "
        f"n LS^k / k of Gaussian data is at most {largest[False]:.3g} in 99% of samples for k = 1, "
        f"{largest[True]:.3g} for others."
    )
