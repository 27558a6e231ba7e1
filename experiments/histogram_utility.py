"""The utility of stable histograms: their error, and the lead that a mode needs, against the number of keys.

The lecture notes on propose-test-release say that every count of a stable histogram has an error of
O(log(1/delta)/epsilon) for delta <= 1/n, whatever the number of keys, whereas noise on all k keys has an error of
log(k)/epsilon. `error_within` states this theorem with constants, and `coverage` checks it on datasets that are hard
for it. Two comparisons follow. `errors` compares the errors of both methods. `leads` compares the leads at which the
most common record is selected, as the largest of k noisy counts and by propose-test-release. The module stands apart
from the audits of published claims, because it is about utility and not about privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from epsaudit.bounds.certificates import clopper_pearson_lower
from epsaudit.claims.conversions import root
from epsaudit.mechanisms.histogram import StableHistogram
from epsaudit.mechanisms.laws import LaplaceLaw

EPSILON, BETA, RECORDS = 1.0, 0.05, 1000
KEYS = (2, 10, 100, 1000, 10**4, 10**6, 10**9, 10**12)
"""Numbers of possible keys."""


def error_within(mechanism: StableHistogram, records: int, beta: float) -> float:
    """Return an error that no key exceeds, except with probability beta.

    The error is (log(1/delta) + log(n / (2 beta))) / epsilon + 1.

    Proof. Let t be the threshold and s = log(n / (2 beta)) / epsilon, so that the error is e = t + s. A key with a
    count of at most e has a larger error only if its noise is above e, which has probability e^(-epsilon e) / 2. A key
    with a larger count has a larger error only if the key is left out or the noise exceeds e in size, hence only if the
    noise is below -s or above e, which has probability at most e^(-epsilon s) (1 + e^(-epsilon t)) / 2. Of n records at
    most n / e keys have more than e records, so the sum over all keys is at most beta (1 / e + delta e^-epsilon). This
    is less than beta for delta <= 1/2 and beta <= 1/2. For delta <= 1/n the error is O(log(1/delta) / epsilon).

    Examples
    --------
    >>> round(error_within(StableHistogram(1.0, 1e-3), 1000, 0.05), 3)
    17.118
    """
    return mechanism.threshold + math.log(records / (2.0 * beta)) / mechanism.epsilon


def chance_within(mechanism: StableHistogram, counts: Sequence[int], error: float) -> float:
    """Return the exact probability that every key's released count is within ``error`` of the true count.

    A key that is left out has the released count 0.

    Examples
    --------
    >>> chance_within(StableHistogram(1.0, 1e-3), [5], error=5.0) > 0.99  # the key is left out, or its error is small
    True
    """
    total = 0.0
    for count, keys in zip(*np.unique(counts, return_counts=True), strict=True):
        noise = LaplaceLaw(0.0, 1.0 / mechanism.epsilon)
        # smallest noise with which the key is released and its count is not too small
        least = max(mechanism.threshold - count, -error)
        there = max(math.exp(noise.log_cdf(error)) - math.exp(noise.log_cdf(least)), 0.0)
        left_out = math.exp(noise.log_cdf(mechanism.threshold - count)) if count <= error else 0.0
        within = min(there + left_out, 1.0)
        total += int(keys) * math.log(within) if within > 0.0 else -math.inf
    return math.exp(total)


def coverage(runs: int, seed: int, alpha: float = 0.001) -> Iterator[dict[str, Any]]:
    """Yield one row per dataset, with the exact and the certified probability that `error_within` holds.

    All datasets have n records.
    """
    mechanism = StableHistogram(EPSILON, 1.0 / RECORDS)
    error = error_within(mechanism, RECORDS, BETA)
    hard = math.floor(error) + 1
    datasets = {
        "a record each": [1] * RECORDS,
        f"{RECORDS // 5} keys of 5": [5] * (RECORDS // 5),
        f"{RECORDS // hard} keys of {hard}, just above the error": [hard] * (RECORDS // hard),
        "one key": [RECORDS],
    }
    rng = np.random.default_rng(seed)
    for name, counts in datasets.items():
        within = _within(mechanism, counts, error, runs, rng)
        yield {
            "dataset": name,
            "error": error,
            "promised": 1.0 - BETA,
            "exact": chance_within(mechanism, counts, error),
            "within": within,
            "runs": runs,
            "certified": float(clopper_pearson_lower(within, runs, alpha)),
        }


def _within(
    mechanism: StableHistogram, counts: Sequence[int], error: float, runs: int, rng: np.random.Generator
) -> int:
    """Return the number of runs, out of ``runs``, in which every key is within the error."""
    truth = {f"{place:04}": count for place, count in enumerate(counts)}
    law = mechanism([key for key, count in truth.items() for _ in range(count)])
    within = 0
    for output in law.sample(runs, rng).tolist():
        released = dict(iter(output))
        within += all(abs(released.get(key, 0.0) - count) <= error for key, count in truth.items())
    return within


def greatest_error(mechanism: StableHistogram, records: int, beta: float) -> float:
    """Return the smallest error that no key exceeds, except with probability beta, on the worst of some datasets.

    The datasets have n records and give the same number of records to each key.

    Examples
    --------
    >>> round(greatest_error(StableHistogram(1.0, 1e-3), 1000, 0.05), 2) <= 17.12  # the bound for every dataset
    True
    """

    def needed(counts: Sequence[int]) -> float:
        return root(
            lambda error: chance_within(mechanism, counts, error) - (1.0 - beta),
            0.0,
            error_within(mechanism, records, beta),
            xtol=1e-9,
        )

    return max(needed([count] * (records // count)) for count in range(1, records + 1))


def errors() -> list[dict[str, Any]]:
    """Return the error that no key exceeds, except with probability `BETA`, for each number of possible keys.

    With noise on all k keys, some error exceeds e with probability 1 - (1 - e^(-epsilon e))^k. A stable histogram of n
    records has at most n keys, with delta = 1/n.
    """
    stable = StableHistogram(EPSILON, 1.0 / RECORDS)
    worst, promised = greatest_error(stable, RECORDS, BETA), error_within(stable, RECORDS, BETA)
    return [
        {
            "keys": keys,
            "noisy counts": -math.log(-math.expm1(math.log1p(-BETA) / keys)) / EPSILON,
            "stable histogram": worst,
            "promised": promised,
        }
        for keys in KEYS
    ]


def chance_of_the_lead(keys: int, lead: float, epsilon: float = EPSILON) -> float:
    """Return the probability that the largest of k noisy counts belongs to the key that leads the others by ``lead``.

    All other keys are tied. The probability is E[F(g + Z)^(k - 1)] at a lead g, for Laplace noise Z of scale 1 /
    epsilon with distribution function F.

    Examples
    --------
    >>> round(chance_of_the_lead(2, 5.192), 4)
    0.99
    """
    # the grid contains 0, where the density has a kink
    noise, z = LaplaceLaw(0.0, 1.0 / epsilon), np.linspace(-45.0, 45.0, 90_001) / epsilon
    return float(np.trapezoid(np.exp(noise.log_density(z) + (keys - 1) * noise.log_cdf(lead + z)), z))


def lead_of_noisy_counts(keys: int, chance: float, epsilon: float = EPSILON) -> float:
    """Return the lead at which the largest of k noisy counts is that of the mode with probability ``chance``.

    The lead is the distance to all other keys, which are tied in second place.

    Examples
    --------
    >>> round(lead_of_noisy_counts(2, 0.99), 3)
    5.192
    """
    most = (2.0 * math.log(keys) + 40.0) / epsilon
    return root(lambda lead: chance_of_the_lead(keys, lead, epsilon) - chance, 0.0, most, xtol=1e-9)


def leads(delta: float) -> list[dict[str, Any]]:
    """Return the lead at which the mode is selected with probability 1 - delta, for each number of keys.

    Propose-test-release as published needs a lead of (2 log(1/delta) - log 2) / epsilon, and one more with its
    corrected distance. The notes state log(1/delta) / epsilon.
    """
    stated = math.log(1.0 / delta) / EPSILON
    return [
        {
            "keys": keys,
            "noisy counts": lead_of_noisy_counts(keys, 1.0 - delta),
            "corrected": 2.0 * stated - math.log(2.0) / EPSILON + 1.0,
            "stated": stated,
        }
        for keys in KEYS
    ]
