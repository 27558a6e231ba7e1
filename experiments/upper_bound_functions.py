"""Sound reference mechanisms as plain functions, with the exact loss on a pair on which they lose most.

A function is what a user writes: it takes a dataset and a generator, and knows nothing of output laws. The exact loss
comes from the output laws of ``epsaudit.mechanisms`` on the same pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit import ZCDP, ApproxDP, Claim, GaussianDP, PureDP
from epsaudit.errors import AuditError
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace, SphericalGaussian, TruncatedGeometric
from epsaudit.mechanisms.down_sensitivity import (
    GaussianBinarySearch,
    LaplaceBinarySearch,
    ShiftedInverseSensitivity,
)
from epsaudit.mechanisms.histogram import StableHistogram
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses
from epsaudit.mechanisms.known_laws import exact_parameter
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.queries import ClippedSum, Maximum
from epsaudit.mechanisms.ratio import CountsRatio, NaiveRatio, SubstitutedCountsRatio
from epsaudit.mechanisms.response import RandomisedResponse, Rappor
from epsaudit.mechanisms.selection import (
    GapMax,
    NoisyMaxLaw,
    PermuteAndFlipLaw,
    name_or_refusal,
)
from epsaudit.mechanisms.sparse_vector import SparseVectorLaw
from epsaudit.mechanisms.stability import ProposeTestRelease, StableMedian, StableMode
from epsaudit.mechanisms.vectors import NoisyHistogram, ParallelLaplace, RunningSums

Generator = np.random.Generator
Released = Callable[[Any, Generator], Any]


@dataclass(frozen=True)
class Case:
    """A sound mechanism as a plain function, with a pair of datasets and its output laws on them."""

    name: str
    function: Released
    x: Any
    x_prime: Any
    claim: Claim
    laws: Callable[[Any], Any] | None = None
    """Returns the output law on a dataset; None if ``value`` is given."""
    value: float | None = None
    """The exact loss, if it follows without the output laws."""

    @property
    def exact(self) -> float:
        """The least value of the claim's parameter that holds on the pair in both directions."""
        if self.laws is None:
            assert self.value is not None
            return self.value
        found = exact_parameter(self.claim, [self.laws(self.x), self.laws(self.x_prime)])
        if found is None:
            raise AuditError(f"The exact loss of {self.name} is not known.")
        return found


ONE = PureDP(1.0)

# Additive noise.


def laplace(data: Any, rng: Generator) -> Any:
    """Count records with Laplace noise."""
    return len(data) + rng.laplace(scale=1.0)


def discrete_laplace(data: Any, rng: Generator) -> Any:
    """Count records with the difference of two geometric draws."""
    p = -math.expm1(-0.5)
    return len(data) + rng.geometric(p) - rng.geometric(p)


GAUSSIAN = Gaussian(1.0, 1e-5)


def gaussian(data: Any, rng: Generator) -> Any:
    """Count records with Gaussian noise."""
    return len(data) + rng.normal(scale=GAUSSIAN.sigma)


SPHERICAL = SphericalGaussian(4.0, 1e-2, ClippedSum(3))


def gaussian_vector(data: Any, rng: Generator) -> Any:
    """Sum vectors of length at most 1 with Gaussian noise."""
    total = np.zeros(3)
    for record in data:
        total += np.asarray(record, float)
    return total + rng.normal(scale=SPHERICAL.sigma, size=3)


TRUNCATED = TruncatedGeometric(0.1)


def truncated_geometric(data: Any, rng: Generator) -> Any:
    """Draw the noisy count from its list of probabilities."""
    law = TRUNCATED(data)
    return int(rng.choice(np.array(law.support), p=np.exp(law.log_probabilities)))


def running_sums(data: Any, rng: Generator) -> Any:
    """Sum up noisy values."""
    return np.cumsum(np.asarray(data, float) + rng.laplace(scale=10.0, size=len(data)))


def laplace_in_parallel(data: Any, rng: Generator) -> Any:
    """Release one number 20 times, with noise of its own each time."""
    return [data + rng.laplace(scale=20.0) for _ in range(20)]


# Responses.


def randomised_response(data: Any, rng: Generator) -> Any:
    """Say the truth with the larger probability."""
    return data[0] if rng.random() < 1.0 / (1.0 + math.exp(-3.0)) else 1 - data[0]


def response_of_four(data: Any, rng: Generator) -> Any:
    """Say the truth, or one of three other answers."""
    if rng.random() < math.e / (math.e + 3.0):
        return data[0]
    return [one for one in range(4) if one != data[0]][int(rng.integers(3))]


RAPPOR = Rappor(bits=8, hashes=2)


def rappor(data: Any, rng: Generator) -> Any:
    """Report noisy bits of a Bloom filter."""
    one, zero = RAPPOR.ones
    bits = RAPPOR.filter(data)
    return [int(rng.random() < (one if bit in bits else zero)) for bit in range(8)]


# Selections: the data are scores.


def exponential_mechanism(data: Any, rng: Generator) -> Any:
    """Choose a candidate by its weight."""
    weights = np.exp(0.5 * (np.asarray(data, float) - max(data)))
    return int(rng.choice(len(data), p=weights / weights.sum()))


def exponential_law(data: Any) -> Any:
    """Return the law of the exponential mechanism."""
    return FiniteLaw(tuple(range(len(data))), 0.5 * np.asarray(data, float))


def permute_and_flip(data: Any, rng: Generator) -> Any:
    """Take the first candidate that accepts, in a random order."""
    best = max(data)
    for place in rng.permutation(len(data)):
        if rng.random() < math.exp(0.5 * (data[place] - best)):
            return int(place)
    raise AssertionError("the best candidate always accepts")


def permute_and_flip_law(data: Any) -> Any:
    """Return the law of permute-and-flip."""
    return PermuteAndFlipLaw(tuple(range(len(data))), 0.5 * (np.asarray(data, float) - max(data)))


def noisy_max(draw: Callable[[Generator, int], Any]) -> Released:
    """Return a function that reports the place of the greatest noisy score."""

    def choose(data: Any, rng: Generator) -> int:
        return int(np.argmax(np.asarray(data, float) + draw(rng, len(data))))

    return choose


def noisy_max_law(noise: str) -> Callable[[Any], Any]:
    """Return a function that gives the law of `noisy_max` for noise of scale 2."""
    return lambda data: NoisyMaxLaw(tuple(range(len(data))), 0.5 * np.asarray(data, float), noise)


GAP_MAX = GapMax(1.0)


def gap_max(data: Any, rng: Generator) -> Any:
    """Name the best candidate if its lead is clear."""
    first, second = sorted(data, reverse=True)[:2]
    clear = max(0, first - second - 1) + rng.laplace(scale=1.0) > GAP_MAX.threshold
    return int(np.argmax(data)) if clear else None


def gap_max_law(data: Any) -> Any:
    """Return the law of `gap_max`."""
    first, second = sorted(data, reverse=True)[:2]
    return name_or_refusal(int(np.argmax(data)), float(max(0, first - second - 1)), GAP_MAX.threshold, 1.0)


# Losses of answers: shifted inverse sensitivity, binary searches, and the inverse sensitivity mechanism.

SHIFTED = ShiftedInverseSensitivity(Maximum(tuple(range(8))), 1.0, beta=0.5)


def records_above(data: Any) -> list[int]:
    """Return for each answer 0 to 7 the number of records above it."""
    return [sum(record > answer for record in data) for answer in range(8)]


def shifted_inverse(data: Any, rng: Generator) -> Any:
    """Choose a maximum that about tau removals would bring about."""
    losses = records_above(data)
    smaller = [math.inf, *losses[:-1]]  # the losses of the next smaller answers
    shifted = [max(loss - SHIFTED.tau, SHIFTED.tau - one) for loss, one in zip(losses, smaller, strict=True)]
    weights = np.exp(-0.5 * np.array(shifted, float))
    return int(rng.choice(8, p=weights / weights.sum()))


LAPLACE_SEARCH = LaplaceBinarySearch.calibrated(Maximum(tuple(range(8))), 1.0, beta=0.5)
GAUSSIAN_SEARCH = GaussianBinarySearch.calibrated(Maximum(tuple(range(8))), 0.5, beta=0.5)


def binary_search(draw: Callable[[Generator], Any], tau: float) -> Released:
    """Return a search for the least answer whose noisy loss is at most tau."""

    def search(data: Any, rng: Generator) -> int:
        losses, low, high = records_above(data), -1, 7
        while high - low > 1:
            middle = (low + high) // 2
            if losses[middle] + draw(rng) <= tau:
                high = middle
            else:
                low = middle
        return high

    return search


MEDIAN = InverseSensitivity(1.0, MedianLosses(tuple(range(8))))


def inverse_median(data: Any, rng: Generator) -> Any:
    """Choose a median by the number of records that would have to change."""
    half = (len(data) - 1) // 2
    losses = [
        max(0, sum(r < y for r in data) - half, sum(r > y for r in data) - (len(data) - 1 - half)) for y in range(8)
    ]
    weights = np.exp(-0.5 * np.array(losses, float))
    return int(rng.choice(8, p=weights / weights.sum()))


# Sparse vectors: the data are answers of queries of sensitivity 1.


def sparse_vector_1(data: Any, rng: Generator) -> Any:
    """Say which query is the first above a noisy threshold."""
    threshold, answers = rng.laplace(scale=2.0), []
    for query in data:
        answers.append(bool(query + rng.laplace(scale=4.0) >= threshold))
        if answers[-1]:
            break
    return answers


def sparse_vector_2(data: Any, rng: Generator) -> Any:
    """Say which queries are above a noisy threshold that is drawn anew, until two of them are."""
    threshold, answers = rng.laplace(scale=4.0), []
    for query in data:
        answers.append(bool(query + rng.laplace(scale=8.0) >= threshold))
        if answers[-1]:
            threshold = rng.laplace(scale=4.0)
        if sum(answers) == 2:
            break
    return answers


# Propose-test-release.

MODE = ProposeTestRelease(StableMode(), 1.0, 1e-3)
MEDIAN_TEST = ProposeTestRelease(StableMedian(0.0, 100.0), 0.5, 1e-3, bound=1.0)


def stable_mode(data: Any, rng: Generator) -> Any:
    """Name the most common record if its lead is stable."""
    counts = sorted((data.count(record) for record in set(data)), reverse=True)
    lead = counts[0] - counts[1] if len(counts) > 1 else counts[0]
    stable = max(0, lead - 1) + rng.laplace(scale=1.0) > MODE.threshold
    return max(sorted(set(data)), key=data.count) if stable else None


def stable_median(data: Any, rng: Generator) -> Any:
    """Release a median with little noise if no dataset nearby is sensitive."""
    distance = MEDIAN_TEST.query.distance(data, 1.0)
    if distance + rng.laplace(scale=2.0) > MEDIAN_TEST.threshold:
        return sorted(data)[(len(data) - 1) // 2] + rng.laplace(scale=2.0)
    return None


# Ratios of counts: the data are zeros and ones.


def ratio(data: Any, rng: Generator) -> Any:
    """Divide the noisy number of ones by the noisy number of records."""
    ones, size = sum(data) + rng.laplace(scale=2.0), len(data) + rng.laplace(scale=2.0)
    return ones / size


def ratio_of_counts(scale: float) -> Released:
    """Return a function that divides the noisy ones by the noisy ones and zeros."""

    def divide(data: Any, rng: Generator) -> Any:
        ones, zeros = sum(data) + rng.laplace(scale=scale), len(data) - sum(data) + rng.laplace(scale=scale)
        return ones / (ones + zeros)

    return divide


# Histograms.


def histogram(data: Any, rng: Generator) -> Any:
    """Add noise to each count."""
    return np.asarray(data, float) + rng.laplace(scale=1.0, size=len(data))


STABLE = StableHistogram(1.0, 1e-3)


def stable_histogram(data: Any, rng: Generator) -> Any:
    """Release noisy counts of the records that occur, if they reach a threshold."""
    released = {}
    for key in sorted(set(data)):
        noisy = data.count(key) + rng.laplace(scale=1.0)
        if noisy >= STABLE(data).threshold:
            released[key] = noisy
    return released


# Composition.


def odometer(data: Any, rng: Generator) -> Any:
    """Spend 0.4 or 0.6 on each answer, by what was answered, until the next answer could exceed the budget of 1."""
    spent, answers, share = 0.0, [], 0.4
    while spent + share <= 1.0 + 1e-12:
        spent += share
        answers.append(len(data) + rng.laplace(scale=1.0 / share))
        share = 0.6 if answers[-1] > 2.0 else 0.3
    return answers


def adaptive_gaussian(data: Any, rng: Generator) -> Any:
    """Ask a second question that depends on the first answer, both with Gaussian noise."""
    first = len(data) + rng.normal(scale=math.sqrt(2.0))
    second = sum(data) if first > 2.0 else -sum(data)
    return [first, second + rng.normal(scale=math.sqrt(2.0))]


NOISES: dict[str, Callable[[Generator, int], Any]] = {
    "laplace": lambda rng, size: rng.laplace(scale=2.0, size=size),
    "exponential": lambda rng, size: rng.exponential(scale=2.0, size=size),
    "gumbel": lambda rng, size: rng.gumbel(scale=2.0, size=size),
}
ONE_DOWN = [1] * 8, [0] + [2] * 7
"""Two vectors of scores, of which one score falls and the others rise. On these, noisy max loses most."""
LEADS = [20, 0], [19, 1]
"""Two vectors of scores with a lead so clear that the exponential mechanism loses nearly epsilon."""
THREE, FOUR = [1, 1, 1], [1, 1, 1, 1]
RAPPOR_PAIR = RAPPOR.worst_pairs()[0]
BELOW = [12] * 30 + [0], [11] * 30 + [1]
"""Answers on two datasets. A sparse vector loses most if it reports all but the last answer below the threshold."""
TWICE_BELOW = ([12] * 8 + [-12]) * 2, ([11] * 8 + [-11]) * 2
"""Answers on two datasets, for a sparse vector that reports two answers above and all others below the threshold."""


def cases() -> tuple[Case, ...]:
    """Return all cases."""
    searches = (
        (LAPLACE_SEARCH, lambda rng: rng.laplace(scale=LAPLACE_SEARCH.sigma)),
        (GAUSSIAN_SEARCH, lambda rng: rng.normal(scale=GAUSSIAN_SEARCH.sigma)),
    )
    by_laplace, by_gaussian = (binary_search(draw, one.tau) for one, draw in searches)
    crowds, others = (one.worst_pairs()[0] for one, _ in searches)
    shifted, median = SHIFTED.worst_pairs()[0], MEDIAN.worst_pairs()[0]
    tested, stable = MEDIAN_TEST.worst_pairs()[0], STABLE.worst_pairs()
    mode = MODE.worst_pairs()[0]
    return (
        Case("Laplace", laplace, THREE, FOUR, ONE, Laplace(1.0)),
        Case("discrete Laplace", discrete_laplace, THREE, FOUR, PureDP(0.5), DiscreteLaplace(0.5)),
        Case("Gaussian, delta", gaussian, THREE, FOUR, ApproxDP(1.0, 1e-5), GAUSSIAN),
        Case("Gaussian, GDP", gaussian, THREE, FOUR, GAUSSIAN.claims[1], GAUSSIAN),
        Case("Gaussian, zCDP", gaussian, THREE, FOUR, GAUSSIAN.claims[2], GAUSSIAN),
        Case("Gaussian vector", gaussian_vector, (), SPHERICAL.worst_pairs()[0].x_prime, SPHERICAL.claim, SPHERICAL),
        Case("truncated geometric", truncated_geometric, 2, 1, TRUNCATED.claim, TRUNCATED),
        Case("running sums", running_sums, (1,) * 10, (0,) * 10, ONE, RunningSums(0.1)),
        Case("Laplace in parallel", laplace_in_parallel, 0, 1, ONE, ParallelLaplace(1.0)),
        Case("randomised response", randomised_response, (0,), (1,), PureDP(3.0), RandomisedResponse(3.0)),
        Case("response of four", response_of_four, (0,), (1,), ONE, RandomisedResponse(1.0, answers=4)),
        Case("RAPPOR", rappor, RAPPOR_PAIR.x, RAPPOR_PAIR.x_prime, RAPPOR.claim, RAPPOR),
        Case("exponential mechanism", exponential_mechanism, *LEADS, ONE, exponential_law),
        Case("permute-and-flip", permute_and_flip, [2, 0], [1, 1], ONE, permute_and_flip_law),
        Case("noisy max, Laplace", noisy_max(NOISES["laplace"]), *ONE_DOWN, ONE, noisy_max_law("laplace")),
        Case("noisy max, exponential", noisy_max(NOISES["exponential"]), *ONE_DOWN, ONE, noisy_max_law("exponential")),
        Case("noisy max, Gumbel", noisy_max(NOISES["gumbel"]), *LEADS, ONE, noisy_max_law("gumbel")),
        Case("gap-max", gap_max, [7, 0], [6, 0], GAP_MAX.claim, gap_max_law),
        Case("shifted inverse", shifted_inverse, shifted.x, shifted.x_prime, ONE, SHIFTED),
        Case("inverse median", inverse_median, median.x, median.x_prime, ONE, MEDIAN),
        Case("binary search, Laplace", by_laplace, crowds.x, crowds.x_prime, ONE, LAPLACE_SEARCH),
        Case("binary search, Gaussian", by_gaussian, others.x, others.x_prime, ZCDP(0.5), GAUSSIAN_SEARCH),
        Case(
            "sparse vector 1", sparse_vector_1, *BELOW, ONE,
            lambda data: SparseVectorLaw(tuple(map(float, data)), 2.0, 4.0, 1),
        ),
        Case(
            "sparse vector 2", sparse_vector_2, *TWICE_BELOW, ONE,
            lambda data: SparseVectorLaw(tuple(map(float, data)), 4.0, 8.0, 2, refreshes=True),
        ),
        Case("stable mode", stable_mode, mode.x, mode.x_prime, MODE.claim, MODE),
        Case("stable median", stable_median, tested.x, tested.x_prime, MEDIAN_TEST.claim, MEDIAN_TEST),
        Case("ratio", ratio, (0, 0, 0), (1, 0, 0, 0), ONE, NaiveRatio(1.0)),
        Case("ratio of counts", ratio_of_counts(1.0), (0,) * 100, (1,) + (0,) * 100, ONE, CountsRatio(1.0)),
        Case(
            "ratio of counts, substitution", ratio_of_counts(2.0), (0, 0, 0), (1, 0, 0), ONE,
            SubstitutedCountsRatio(1.0),
        ),
        Case("histogram", histogram, (0, 1, 1, 1, 1), (1, 1, 1, 1, 1), ONE, NoisyHistogram(1.0)),
        Case("stable histogram", stable_histogram, stable[0].x, stable[0].x_prime, STABLE.claim, STABLE),
        Case(
            "stable histogram, new key", stable_histogram, stable[1].x, stable[1].x_prime, ApproxDP(0.0, 5e-4), STABLE,
        ),
        Case("odometer", odometer, THREE, FOUR, ONE, value=1.0),
        Case("adaptive Gaussian, GDP", adaptive_gaussian, THREE, FOUR, GaussianDP(1.0), value=1.0),
        Case("adaptive Gaussian, zCDP", adaptive_gaussian, THREE, FOUR, ZCDP(0.5), value=0.5),
    )  # fmt: skip
