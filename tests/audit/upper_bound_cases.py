"""Small mechanisms with known exact privacy loss, by which upper bounds are validated.

A bound from above is wrong if it lies below the exact loss. `CASES` are plain mechanisms, some of them incorrect;
`CHEATS` are functions whose noise or privacy is hard to follow. Every function is f(data, rng) at module level.
"""

import bisect
import copy
import functools
import heapq
import json
import math
import pickle
import random
import secrets
import statistics
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from upper_bound_laws import (
    approximate_loss,
    bernoulli,
    binomial_law,
    concentrated_loss,
    convolution,
    exponential_density,
    first_success_law,
    gap_density,
    gaussian_approximate_loss,
    greatest_log_ratio,
    image,
    integral,
    interval_law,
    laplace_density,
    laplace_gaussian_loss,
    laplace_renyi_loss,
    median_density,
    permute_and_flip_law,
    product,
    pure_loss,
    ranking_law,
    refreshed_sparse_vector_law,
    renyi_loss,
    rounded_law,
    softmax_law,
    sparse_vector_law,
    winner_law,
)

from epsaudit import ZCDP, ApproxDP, Claim, GaussianDP, PureDP, RenyiDP


@dataclass(frozen=True, eq=False)  # hashed by identity, since datasets are lists
class Case:
    """A mechanism with its claim, a pair of datasets, and the exact loss on this pair.

    ``exact`` is the least value of the claim's parameter that holds on the pair in both directions, or infinity.
    """

    name: str
    function: Callable[[Any, np.random.Generator], Any]
    x: Any
    x_prime: Any
    claim: Claim
    exact: float
    note: str = ""
    """Why ``exact`` is the loss."""

    @property
    def is_incorrect(self) -> bool:
        """Whether the claim is false on this pair."""
        return self.exact > self.claim.parameter * (1.0 + 1e-9)


ONE = PureDP(1.0)


# Additive noise.


def count(data, rng):
    return len(data) + rng.laplace(scale=1.0)


def count_half_noise(data, rng):
    return len(data) + rng.laplace(scale=0.5)


def clipped_sum(data, rng):
    return sum(min(max(value, 0.0), 2.0) for value in data) + rng.laplace(scale=2.0)


def sum_clipped_to_wrong_range(data, rng):
    return sum(min(max(value, -2.0), 2.0) for value in data) + rng.laplace(scale=2.0)


def unclipped_sum(data, rng):
    return sum(data) + rng.laplace(scale=2.0)


def mean_of_known_size(data, rng):
    return sum(data) / 4 + rng.laplace(scale=0.25)


def mean_with_private_scale(data, rng):
    return sum(data) / len(data) + rng.laplace(scale=1.0 / len(data))


def ratio(data, rng):
    total = sum(data) + rng.laplace(scale=2.0)
    size = max(len(data) + rng.laplace(scale=2.0), 1.0)
    return total / size


def sum_and_size(data, rng):
    return sum(data) + rng.laplace(scale=2.0), len(data) + rng.laplace(scale=2.0)


def exponential_noise(data, rng):
    return len(data) + rng.exponential(scale=1.0)


def uniform_noise(data, rng):
    return len(data) + rng.uniform(-2.0, 2.0)


def cauchy_noise(data, rng):
    return len(data) + rng.standard_cauchy()


def logistic_noise(data, rng):
    return len(data) + rng.logistic(scale=1.0)


def gumbel_noise(data, rng):
    return len(data) + rng.gumbel(scale=1.0)


def difference_of_exponentials(data, rng):
    return len(data) + rng.exponential(scale=1.0) - rng.exponential(scale=1.0)


def inverse_of_uniform(data, rng):
    uniform = rng.random() - 0.5
    return len(data) - math.copysign(math.log1p(-2.0 * abs(uniform)), uniform)


def mixture_of_scales(data, rng):
    scale = 1.0 if rng.random() < 0.5 else 2.0
    return len(data) + rng.laplace(scale=scale)


def mixture_loss():
    # On either side of its centre the density is a mixture of exponentials, so it is log-convex. Its logarithm is
    # steepest at the centre, and the loss of a shift by 1 is the drop from 0 to 1.
    return math.log((0.25 + 0.125) / (0.25 * math.exp(-1.0) + 0.125 * math.exp(-0.5)))


def discrete_laplace(data, rng):
    p = 1.0 - math.exp(-1.0)
    return len(data) + int(rng.geometric(p)) - int(rng.geometric(p))


def discrete_laplace_half_noise(data, rng):
    p = 1.0 - math.exp(-2.0)
    return len(data) + int(rng.geometric(p)) - int(rng.geometric(p))


def binomial_noise(data, rng):
    return len(data) + int(rng.binomial(20, 0.5))


def shifted_binomial_law(shift):
    return image(binomial_law(20, 0.5), lambda k: k + shift)


def poisson_noise(data, rng):
    return int(rng.poisson(len(data)))


def average_of_two_draws(data, rng):
    return len(data) + sum(rng.laplace(scale=1.0) for _ in range(2)) / 2


# Functions of one noisy number.


def rounded_count(data, rng):
    return round(len(data) + rng.laplace(scale=1.0))


def clamped_count(data, rng):
    return max(0.0, len(data) + rng.laplace(scale=1.0))


def count_exceeds_four(data, rng):
    return bool(len(data) + rng.laplace(scale=1.0) > 4)


def count_exceeds_three_and_a_half(data, rng):
    return bool(len(data) + rng.laplace(scale=1.0) > 3.5)


def parity(data, rng):
    return round(len(data) + rng.laplace(scale=1.0)) % 2


# Histograms.


def histogram_loop(data, rng):
    return [data.count(key) + rng.laplace(scale=1.0) for key in range(3)]


def histogram_numpy(data, rng):
    return np.bincount(data, minlength=3) + rng.laplace(scale=1.0, size=3)


def histogram_dict(data, rng):
    return {key: data.count(key) + rng.laplace(scale=1.0) for key in "abc"}


def histogram_replacement(data, rng):
    return np.bincount(data, minlength=3) + rng.laplace(scale=2.0, size=3)


def histogram_present_keys(data, rng):
    return {key: data.count(key) + rng.laplace(scale=1.0) for key in sorted(set(data))}


def cumulative_counts(data, rng):
    return np.cumsum(np.bincount(data, minlength=3)) + rng.laplace(scale=1.0, size=3)


def tree_of_counts(data, rng):
    levels, counts = [], [data.count(key) for key in range(4)]
    while counts:
        levels.append([one + rng.laplace(scale=3.0) for one in counts])
        counts = [a + b for a, b in zip(counts[::2], counts[1::2], strict=True)] if len(counts) > 1 else []
    return levels


# Several queries.


def adaptive_query(data, rng):
    size = len(data) + rng.laplace(scale=2.0)
    return [size, sum(data) + rng.laplace(scale=2.0)] if size > 2 else [size, -1.0]


def adaptive_scale(data, rng):
    first = len(data) + rng.laplace(scale=2.0)
    scale = 2.0 if first > 3 else 4.0
    return [first, len(data) + rng.laplace(scale=scale)]


def adaptive_scale_overspent(data, rng):
    first = len(data) + rng.laplace(scale=2.0)
    scale = 0.5 if first > 3 else 4.0
    return [first, len(data) + rng.laplace(scale=scale)]


def odometer(data, rng):
    spent, answers = 0.0, []
    while spent + 0.25 <= 1.0:
        spent += 0.25
        answers.append(len(data) + rng.laplace(scale=4.0))
        if answers[-1] > 8.0:
            break
    return answers


def odometer_that_forgets(data, rng):
    spent, answers = 0.0, []
    while spent + 0.25 <= 1.0:
        if len(answers) % 2 == 0:
            spent += 0.25
        answers.append(len(data) + rng.laplace(scale=4.0))
    return answers


def two_thresholds(data, rng):
    return [bool(len(data) + rng.laplace(scale=2.0) > 3), bool(sum(data) + rng.laplace(scale=2.0) > 2)]


def two_threshold_law(size, total):
    return product(interval_law(size, [3], 2.0), interval_law(total, [2], 2.0))


def noise_used_twice(data, rng):
    noise = rng.laplace(scale=1.0)
    return [len(data) + noise, sum(data) + noise]


def private_value_beside(data, rng):
    return [len(data) + rng.laplace(scale=1.0), float(sum(data) > 3)]


def private_size_in_a_dict(data, rng):
    return {"noisy": sum(data) + rng.laplace(scale=1.0), "size": len(data)}


# Selections. The data are scores that differ by at most 1.


def noisy_max(data, rng):
    return int(np.argmax(np.asarray(data, float) + rng.laplace(scale=2.0, size=len(data))))


def noisy_max_loop(data, rng):
    best, winner = -math.inf, None
    for place, score in enumerate(data):
        value = score + rng.laplace(scale=2.0)
        if value > best:
            best, winner = value, place
    return winner


def noisy_max_quarter_noise(data, rng):
    return int(np.argmax(np.asarray(data, float) + rng.laplace(scale=0.5, size=len(data))))


def noisy_max_of_counts(data, rng):
    return int(np.argmax(np.asarray(data, float) + rng.laplace(scale=1.0, size=len(data))))


def noisy_max_exponential(data, rng):
    return int(np.argmax(np.asarray(data, float) + rng.exponential(scale=2.0, size=len(data))))


def noisy_max_exponential_loop(data, rng):
    best, winner = -math.inf, None
    for place, score in enumerate(data):
        value = score + rng.exponential(scale=2.0)
        if value > best:
            best, winner = value, place
    return winner


def noisy_max_gumbel(data, rng):
    return int(np.argmax(np.asarray(data, float) + rng.gumbel(scale=2.0, size=len(data))))


def noisy_max_with_its_value(data, rng):
    return max(score + rng.laplace(scale=2.0) for score in data)


def noisy_max_gumbel_with_its_value(data, rng):
    noisy = np.asarray(data, float) + rng.gumbel(scale=2.0, size=len(data))
    winner = int(np.argmax(noisy))
    return winner, noisy[winner]


def noisy_max_with_fresh_value(data, rng):
    winner = int(np.argmax(np.asarray(data, float) + rng.laplace(scale=4.0, size=len(data))))
    return winner, data[winner] + rng.laplace(scale=2.0)


def fresh_value_loss(scores, scores_prime):
    # The index and the fresh noise are independent: given the index, the loss of the value has both signs.
    p, q = winner_law(scores, 4.0), winner_law(scores_prime, 4.0)
    return max(abs(math.log(p[i] / q[i])) + abs(scores[i] - scores_prime[i]) / 2.0 for i in p)


def max_without_noise(data, rng):
    winner = int(np.argmax(data))
    return winner, data[winner] + rng.laplace(scale=1.0)


def exponential_mechanism_choice(data, rng):
    weights = np.exp(np.asarray(data, float) / 2.0)
    return int(rng.choice(len(data), p=weights / weights.sum()))


def exponential_mechanism_inverse(data, rng):
    weights = np.exp(np.asarray(data, float) / 2.0)
    return int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum()))


def permute_and_flip(data, rng):
    best = max(data)
    for place in rng.permutation(len(data)):
        if rng.random() < math.exp((data[place] - best) / 2.0):
            return int(place)
    raise AssertionError("the best candidate is always accepted")


def top_two(data, rng):
    noisy = np.asarray(data, float) + rng.gumbel(scale=4.0, size=len(data))
    return [int(place) for place in np.argsort(-noisy)[:2]]


def median_scores(data):
    return [-abs(sum(v < point for v in data) - sum(v > point for v in data)) for point in range(6)]


def median_gumbel(data, rng):
    return int(np.argmax(np.asarray(median_scores(data)) + rng.gumbel(scale=2.0, size=6)))


def median_exponential(data, rng):
    noisy = [score + rng.exponential(scale=2.0) for score in median_scores(data)]
    return noisy.index(max(noisy))


def binary_search(data, rng):
    """Search a median in [0, 8) by three noisy counts of the records below the midpoint."""
    low, high = 0, 8
    while high - low > 1:
        middle = (low + high) // 2
        if sum(value < middle for value in data) + rng.laplace(scale=3.0) > 4:
            high = middle
        else:
            low = middle
    return low


def binary_search_law(data):
    def search(low, high):
        if high - low == 1:
            return {low: 1.0}
        middle = (low + high) // 2
        left = interval_law(sum(value < middle for value in data), [4], 3.0)[1]
        return {
            **{leaf: left * p for leaf, p in search(low, middle).items()},
            **{leaf: (1.0 - left) * p for leaf, p in search(middle, high).items()},
        }

    return search(0, 8)


# Sparse vectors: Algorithms 1 to 6 of Lyu, Su and Li (2017). The data are answers of queries of sensitivity 1.


def sparse_vector_1(data, rng):
    threshold, answers = 1.0 + rng.laplace(scale=2.0), []
    for query in data:
        answers.append(bool(query + rng.laplace(scale=4.0) >= threshold))
        if answers[-1]:
            break
    return answers


def sparse_vector_2(data, rng):
    threshold, answers = 1.0 + rng.laplace(scale=4.0), []
    for query in data:
        answers.append(bool(query + rng.laplace(scale=8.0) >= threshold))
        if answers[-1]:
            if sum(answers) == 2:
                break
            threshold = 1.0 + rng.laplace(scale=4.0)
    return answers


def sparse_vector_3(data, rng):
    """Release the noisy value of the query by which the threshold was exceeded."""
    threshold, answers = 1.0 + rng.laplace(scale=2.0), []
    for query in data:
        value = query + rng.laplace(scale=4.0)
        if value >= threshold:
            answers.append(value)
            break
        answers.append(None)
    return answers


def sparse_vector_4(data, rng):
    """Use too little noise for the queries."""
    threshold, answers = 1.0 + rng.laplace(scale=4.0), []
    for query in data:
        answers.append(bool(query + rng.laplace(scale=4.0 / 3.0) >= threshold))
        if answers[-1]:
            break
    return answers


def sparse_vector_5(data, rng):
    """Add no noise to the queries, and never stop."""
    threshold = rng.laplace(scale=2.0)
    return [bool(query >= threshold) for query in data]


def sparse_vector_6(data, rng):
    """Never stop."""
    threshold = rng.laplace(scale=2.0)
    return [bool(query + rng.laplace(scale=2.0) >= threshold) for query in data]


def sparse_vector_exact_threshold(data, rng):
    answers = []
    for query in data:
        answers.append(bool(query + rng.laplace(scale=4.0) >= 1.0))
        if answers[-1]:
            break
    return answers


def above_threshold_with_gap(data, rng):
    """Release the gap to the noisy threshold, which is free (Wang et al. 2020)."""
    threshold = 1.0 + rng.laplace(scale=2.0)
    for place, query in enumerate(data):
        gap = query + rng.laplace(scale=4.0) - threshold
        if gap >= 0:
            return [place, gap]
    return None


def gap_loss(queries, queries_prime):
    """Return the loss of the sparse vector with gap: the largest over all places and gaps, or without a gap."""
    none = [sparse_vector_law(one, 1.0, 2.0, 4.0)[(False,) * len(one)] for one in (queries, queries_prime)]
    densities = [
        [gap_density(one, place, 1.0, 2.0, 4.0) for one in (queries, queries_prime)] for place in range(len(queries))
    ]
    # Beyond a gap of about 4 scales the ratio is constant up to e^(-gap / 2).
    losses = [greatest_log_ratio(*both, 0.0, 60.0, points=61) for both in densities]
    return max(abs(math.log(none[0] / none[1])), *losses)


# Propose-test-release and stable histograms, with delta.

DELTA = 0.01
TESTED = math.log(0.5 / DELTA)
"""Threshold that Laplace noise of scale 1 exceeds with probability DELTA."""


def propose_test_release(data, rng):
    """Release the most frequent value if it is stable."""
    counts = sorted((data.count(key) for key in range(3)), reverse=True)
    distance = max(0, (counts[0] - counts[1]) // 2)
    if distance + rng.laplace(scale=1.0) > TESTED:
        return max(range(3), key=data.count)
    return None


def propose_test_release_low(data, rng):
    counts = sorted((data.count(key) for key in range(3)), reverse=True)
    distance = max(0, (counts[0] - counts[1]) // 2)
    if distance + rng.laplace(scale=1.0) > math.log(0.25 / DELTA):
        return max(range(3), key=data.count)
    return None


def released_law(value, distance, threshold):
    passes = interval_law(distance, [threshold])[1]
    return {value: passes, None: 1.0 - passes}


def stable_histogram(data, rng):
    """Release noisy counts of the keys that occur, if they exceed a threshold."""
    released = {}
    for key in sorted(set(data)):
        noisy = data.count(key) + rng.laplace(scale=1.0)
        if noisy > 1.0 + TESTED:
            released[key] = noisy
    return released


def stable_histogram_low(data, rng):
    released = {}
    for key in sorted(set(data)):
        noisy = data.count(key) + rng.laplace(scale=1.0)
        if noisy > TESTED:
            released[key] = noisy
    return released


def stable_law(size):
    # Above the threshold, which exceeds both counts by at least 1, the ratio of the densities is constant, so that
    # the value says no more than that it was released.
    return released_law("value", size, 1.0 + TESTED)


# Gaussian noise.


def gaussian_count(data, rng):
    return len(data) + rng.normal(scale=1.0)


def gaussian_vector(data, rng):
    return np.asarray(data, float) + rng.normal(size=len(data))


def gaussian_loop(data, rng):
    return [value + rng.normal(scale=1.0) for value in data]


def gaussian_of_variance(data, rng):
    sigma = 0.5
    return len(data) + rng.normal(scale=sigma**2)


def gaussian_adaptive(data, rng):
    first = len(data) + rng.normal(scale=math.sqrt(2.0))
    second = sum(data) if first > 2 else -sum(data)
    return [first, second + rng.normal(scale=math.sqrt(2.0))]


CLASSIC_SIGMA = math.sqrt(2.0 * math.log(1.25 / 1e-3))


def gaussian_classic(data, rng):
    return len(data) + rng.normal(scale=CLASSIC_SIGMA)


def clipped_gradients(data, rng):
    total = np.zeros(2)
    for row in data:
        gradient = np.asarray(row, float)
        total += gradient / max(1.0, float(np.linalg.norm(gradient)))
    return total + rng.normal(scale=2.0, size=2)


def gaussian_threshold(data, rng):
    return bool(len(data) + rng.normal(scale=1.0) > 2.5)


# Randomised response and sampling.

TRUTH = math.e / (1.0 + math.e)


def randomised_response(data, rng):
    return bool(data) if rng.random() < TRUTH else not data


def randomised_response_too_honest(data, rng):
    return bool(data) if rng.random() < 0.9 else not data


def randomised_response_of_many(data, rng):
    if rng.random() < 0.5:
        return data
    return int(rng.integers(4))


def randomised_response_of_many_law(value):
    return {one: 0.5 * (one == value) + 0.125 for one in range(4)}


def random_module_response(data, rng):
    return data if random.random() < 0.75 else 1 - data


def secrets_response(data, rng):
    return 1 - data if secrets.randbelow(4) == 0 else data


def random_module_choices(data, rng):
    return random.choices(["yes", "no"], weights=[3, 1] if data else [1, 3])[0]


def random_module_count(data, rng):
    return len(data) + random.expovariate(1.0) - random.expovariate(1.0)


def random_module_gaussian(data, rng):
    return len(data) + random.gauss(0.0, 1.0)


def rappor(data, rng):
    flip = 1.0 / (1.0 + math.exp(0.5))
    return [int((key == data) != (rng.random() < flip)) for key in range(4)]


def rappor_one_bit_counted(data, rng):
    bits = np.arange(4) == data
    return np.where(rng.random(4) < 1.0 / (1.0 + math.e), ~bits, bits).astype(int)


def shuffled_responses(data, rng):
    """Let every record answer by randomised response, and shuffle the answers."""
    answers = [one if rng.random() < 0.75 else 1 - one for one in data]
    return [answers[place] for place in rng.permutation(len(answers))]


def responses_law(data):
    ones = sum(data)
    return convolution(binomial_law(ones, 0.75), binomial_law(len(data) - ones, 0.25))


def shuffled_data(data, rng):
    return [data[place] for place in rng.permutation(len(data))]


def sampled_count_without_noise(data, rng):
    return sum(one for one in data if rng.random() < 0.5)


def sampled_count(data, rng):
    return sum(one for one in data if rng.random() < 0.5) + rng.laplace(scale=1.0)


def sampled_count_numpy(data, rng):
    mask = rng.binomial(1, 0.25, size=len(data))
    return float(np.dot(mask, data)) + rng.laplace(scale=1.0)


def sampled_without_replacement(data, rng):
    chosen = rng.permutation(len(data))[:3]
    return sum(data[place] for place in chosen) + rng.laplace(scale=1.0)


def without_replacement_loss(size, sample, ones, ones_prime):
    # The likelihood ratio of the sampled counts is monotone and the Laplace density is log-concave, so that the ratio
    # of the mixtures is monotone (Karlin 1968). Its limits are the ratios of the means of e^K and of e^-K.
    def mean(ones, sign):
        total = math.comb(size, sample)
        ways = (math.comb(ones, k) * math.comb(size - ones, sample - k) for k in range(sample + 1))
        return sum(way * math.exp(sign * k) for k, way in enumerate(ways)) / total

    return max(abs(math.log(mean(ones, sign) / mean(ones_prime, sign))) for sign in (1.0, -1.0))


def sampled_randomised_response(data, rng):
    """Answer for a record only with probability 1/2, and at random otherwise."""
    if rng.random() < 0.5:
        return rng.random() < 0.5
    return (rng.random() < 0.75) == bool(data)


# Populations: randomness that chooses among the records themselves.


def random_record(data, rng):
    return random.choice(data)


def random_record_numpy(data, rng):
    return int(rng.choice(data))


def first_of_a_permutation(data, rng):
    return int(rng.permutation(data)[0])


def shares_law(data):
    return {value: data.count(value) / len(data) for value in data}


def noisy_random_record(data, rng):
    return random.choice(data) + rng.laplace(scale=1.0)


def noisy_permutation(data, rng):
    return rng.permutation(np.asarray(data, float) + rng.laplace(scale=1.0, size=len(data))).tolist()


def sum_of_two_records(data, rng):
    return sum(random.sample(data, 2)) + rng.laplace(scale=1.0)


def largest_of_three(data, rng):
    return max(random.choices(data, k=3))


def largest_of_three_law(data):
    below = [sum(one <= value for one in data) / len(data) for value in (0, 1)]
    return {0: below[0] ** 3, 1: 1.0 - below[0] ** 3}


def bootstrap_sum(data, rng):
    return int(np.sum(rng.choice(data, size=3)))


def random_record_and_size(data, rng):
    return random.choice(data), len(data)


def permuted_records(data, rng):
    return rng.permutation(data).tolist()


def sample_of_all_records(data, rng):
    return sorted(random.sample(data, len(data)))


def sampled_with_one_noise(data, rng):
    noise = rng.laplace(scale=1.0)
    return [one + noise for one in random.sample(data, 2)]


# Functions with a seed.


def count_with_seed(data, seed):
    return len(data) + np.random.default_rng(seed).laplace(scale=1.0)


def count_with_seed_half_noise(data, seed):
    random.seed(seed)
    return len(data) + (random.expovariate(1.0) - random.expovariate(1.0)) / 2.0


def same_seed_for_both_answers(data, seed):
    return [value + np.random.default_rng(seed).laplace(scale=2.0) for value in (len(data), sum(data))]


def generator_ignores_the_seed(data, seed):
    return len(data) + np.random.default_rng(0).laplace(scale=1.0)


# Functions that try to cheat: draws that are used in several ways.


def one_draw_for_all_keys(data, rng):
    noise = rng.laplace(scale=1.0)
    return [data.count(key) + noise for key in range(3)]


def noise_subtracted_again(data, rng):
    noise = rng.laplace(scale=1.0)
    noisy = len(data) + noise
    return [noisy, round(noisy - noise)]


def scale_drawn_and_hidden(data, rng):
    scale = 1.0 + rng.exponential(scale=1.0)
    return len(data) + rng.laplace(scale=scale)


def hidden_scale_loss():
    # As in mixture_loss, the loss of a shift by 1 is the drop of the log-density from 0 to 1.
    def density(y):
        return integral(
            lambda t: exponential_density(t) * laplace_density(y / (1.0 + np.abs(t))) / (1.0 + np.abs(t)), [0.0]
        )

    return math.log(density(0.0) / density(1.0))


def scale_drawn_and_released(data, rng):
    scale = 0.5 + rng.exponential(scale=1.0)
    return [scale, len(data) + rng.laplace(scale=scale)]


def scale_by_hidden_count(data, rng):
    hidden = len(data) + rng.laplace(scale=2.0)
    return len(data) + rng.laplace(scale=4.0 if hidden > 3 else 2.0)


def hidden_count_loss():
    def density(size):
        wide = interval_law(size, [3], 2.0)[1]
        return lambda y: (
            wide * laplace_density((y - size) / 4.0) / 4.0 + (1.0 - wide) * laplace_density((y - size) / 2.0) / 2.0
        )

    return greatest_log_ratio(density(3), density(4), -100.0, 100.0)


def number_of_draws_by_data(data, rng):
    return sum(rng.laplace(scale=1.0) for _ in data)


def draws_thrown_away(data, rng):
    for _ in data:
        rng.laplace(scale=1.0)
    return len(data) + rng.laplace(scale=1.0)


def draws_until_a_sum(data, rng):
    total, draws = 0.0, 0
    while total < len(data):
        total += rng.exponential(scale=1.0)
        draws += 1
    return draws


def draw_times_data(data, rng):
    return (1 + sum(data)) * rng.laplace(scale=1.0)


def sign_of_draw_times_data(data, rng):
    return bool(sum(data) * rng.laplace(scale=1.0) > 0.0)


def product_of_two_draws(data, rng):
    return len(data) + rng.laplace(scale=1.0) * rng.laplace(scale=1.0)


def mixed_by_a_matrix(data, rng):
    noisy = np.bincount(data, minlength=2) + rng.laplace(scale=1.0, size=2)
    return np.array([[1.0, 1.0], [0.0, 1.0]]) @ noisy


# Functions that try to cheat: state between runs, and other generators.

_NOISE_OF_DATASET = {}
_RUNS = [0]


def noise_cached_by_dataset(data, rng):
    key = tuple(data)
    if key not in _NOISE_OF_DATASET:
        _NOISE_OF_DATASET[key] = rng.laplace(scale=1.0)
    return len(data) + _NOISE_OF_DATASET[key]


def noise_cached_for_all(data, rng):
    if "noise" not in _NOISE_OF_DATASET:
        _NOISE_OF_DATASET["noise"] = rng.laplace(scale=1.0)
    return len(data) + _NOISE_OF_DATASET["noise"]


@functools.lru_cache(maxsize=16)
def _size(data):
    return len(data)


def query_cached(data, rng):
    return _size(tuple(data)) + rng.laplace(scale=1.0)


def every_hundredth_run_exact(data, rng):
    _RUNS[0] += 1
    return float(len(data)) if _RUNS[0] % 100 == 0 else len(data) + rng.laplace(scale=1.0)


def generator_seeded_by_data(data, rng):
    return len(data) + np.random.default_rng(len(data)).laplace(scale=1.0)


def generator_seeded_by_draw(data, rng):
    return len(data) + np.random.default_rng(int(rng.integers(2**32))).laplace(scale=1.0)


def global_generator(data, rng):
    return len(data) + np.random.laplace(scale=1.0)  # noqa: NPY002


def type_of_a_draw(data, rng):
    """Release the size if the draw is an ordinary float, that is, if nobody follows it."""
    noise = rng.laplace(scale=1.0)
    return [len(data) + noise, len(data) if type(noise) is float else 0]


# Functions that try to cheat: comparisons in compiled code.


def numpy_sort(data, rng):
    return np.sort(np.bincount(data, minlength=2) + rng.laplace(scale=1.0, size=2))


def numpy_median(data, rng):
    return float(np.median(np.asarray(data, float) + rng.laplace(scale=1.0, size=3)))


def numpy_searchsorted(data, rng):
    return int(np.searchsorted([2.5, 3.5, 4.5], len(data) + rng.laplace(scale=1.0)))


def numpy_where(data, rng):
    return np.where(np.bincount(data, minlength=2) + rng.laplace(scale=1.0, size=2) > 1.5, 1, 0)


def numpy_clip(data, rng):
    return float(np.clip(len(data) + rng.laplace(scale=1.0), 0.0, 10.0))


def numpy_cumsum(data, rng):
    return np.cumsum(np.bincount(data, minlength=3) + rng.laplace(scale=1.0, size=3))


# Functions that try to cheat: control flow.


def early_exit(data, rng):
    for place, score in enumerate(data):
        if score + rng.laplace(scale=1.0) > 2.5:
            return place
    return None


def early_exit_without_noise(data, rng):
    if not data:
        return 0.0
    return len(data) + rng.laplace(scale=1.0)


def exception_by_noise(data, rng):
    try:
        noisy = len(data) + rng.laplace(scale=1.0)
        if noisy < 2.0:
            raise ValueError("too small")
        return noisy
    except ValueError:
        return -1.0


def exception_that_releases(data, rng):
    try:
        return math.sqrt(len(data) + rng.laplace(scale=1.0))
    except ValueError:
        return -len(data)


def message_of_an_exception(data, rng):
    try:
        raise ValueError(len(data) + rng.laplace(scale=1.0))
    except ValueError as error:
        return float(str(error))


def rare_leak(data, rng):
    if rng.random() < 0.001:
        return len(data)
    return len(data) + rng.laplace(scale=1.0)


def recursive_binary_search(data, rng, low=0, high=8):
    if high - low == 1:
        return low
    middle = (low + high) // 2
    if sum(value < middle for value in data) + rng.laplace(scale=3.0) > 4:
        return recursive_binary_search(data, rng, low, middle)
    return recursive_binary_search(data, rng, middle, high)


def recursion_without_end(data, rng):
    return 0 if len(data) + rng.laplace(scale=2.0) > 5 else 1 + recursion_without_end(data, rng)


def recursion_of_three_levels(data, rng, level=0):
    if level == 3 or len(data) + rng.laplace(scale=2.0) > 5:
        return level
    return recursion_of_three_levels(data, rng, level + 1)


def generator_function(data, rng):
    def answers():
        for key in range(3):
            yield data.count(key) + rng.laplace(scale=1.0)

    return list(answers())


def rejection_by_output(data, rng):
    while True:
        noisy = len(data) + rng.laplace(scale=1.0)
        if noisy >= 0.0:
            return noisy


def rejection_by_noise(data, rng):
    while abs(noise := rng.laplace(scale=1.0)) > 3.0:
        pass
    return len(data) + noise


def rejection_sampler(data, rng):
    """Draw discrete Laplace noise by coin flips, and reject a negative zero."""
    while True:
        size = 0
        while rng.random() < math.exp(-1.0):
            size += 1
        negative = rng.random() < 0.5
        if size or not negative:
            return len(data) + (-size if negative else size)


# Functions that try to cheat: noise that takes another form.


def text_with_two_digits(data, rng):
    return float(f"{len(data) + rng.laplace(scale=1.0):.2f}")


def fractional_part(data, rng):
    return (len(data) + rng.laplace(scale=1.0)) % 1.0


def absolute_value(data, rng):
    return abs(len(data) + rng.laplace(scale=1.0))


def int_of_noise(data, rng):
    return int(len(data) + rng.laplace(scale=1.0))


def round_to_tenths(data, rng):
    return round(len(data) + rng.laplace(scale=1.0), 1)


def hash_of_rounded(data, rng):
    return hash(round(len(data) + rng.laplace(scale=1.0))) % 7


def key_of_a_dict(data, rng):
    return next(iter({len(data) + rng.laplace(scale=1.0): "count"}))


def through_pickle(data, rng):
    return pickle.loads(pickle.dumps(len(data) + rng.laplace(scale=1.0)))


def through_deep_copy(data, rng):
    return copy.deepcopy([data.count(key) + rng.laplace(scale=1.0) for key in range(3)])


def through_json(data, rng):
    return json.loads(json.dumps({"count": float(len(data) + rng.laplace(scale=1.0))}))


def through_struct(data, rng):
    return struct.unpack("d", struct.pack("d", len(data) + rng.laplace(scale=1.0)))[0]


def math_fsum(data, rng):
    return math.fsum([len(data), rng.laplace(scale=1.0)])


def statistics_median(data, rng):
    return statistics.median([score + rng.laplace(scale=1.0) for score in data])


# Functions that try to cheat: order.


def sorted_with_key(data, rng):
    noisy = [score + rng.gumbel(scale=4.0) for score in data]
    return sorted(range(len(data)), key=lambda place: -noisy[place])


def max_with_key(data, rng):
    noisy = [score + rng.laplace(scale=2.0) for score in data]
    return max(range(len(data)), key=noisy.__getitem__)


def heap_winner(data, rng):
    heap = []
    for place, score in enumerate(data):
        heapq.heappush(heap, (-(score + rng.laplace(scale=2.0)), place))
    return heap[0][1]


def bisected(data, rng):
    return bisect.bisect([2.5, 3.5, 4.5], len(data) + rng.laplace(scale=1.0))


def ranking_by_data(data, rng):
    """Release noisy scores in the order of the private scores."""
    noisy = [score + rng.laplace(scale=1.0) for score in data]
    return [noisy[place] for place in sorted(range(len(data)), key=data.__getitem__)]


# The table. Most pairs add one record, or replace one.

SHIFT = "shift of Laplace noise: L1 distance of the queries over the scale"
SUPPORTS = "some outputs are possible on one dataset only"
ENUMERATED = "enumeration of the output law"
INTEGRATED = "quadrature over the noise"
PROCESSED = "at most that of the noisy numbers, which it reaches in the tails"

THREE, FOUR = ["a", "b", "c"], ["a", "b", "c", "d"]
KEYS, MORE_KEYS, REPLACED_KEYS = [0, 1], [0, 1, 1], [0, 2]
EQUAL, APART = [1, 1, 1, 1, 1], [0, 2, 2, 2, 2]
ZEROS, ONES = [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]
LATE, EARLY = [0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]
SAMPLED = "limit of large outputs: the sampled record multiplies the density by e with the sampling probability"
CACHED = "after the first run the output is a fixed number that depends on the dataset"

CASES = (
    # Additive noise.
    Case("count", count, THREE, FOUR, ONE, 1.0, SHIFT),
    Case("count, half noise", count_half_noise, THREE, FOUR, ONE, 2.0, SHIFT),
    Case("clipped sum", clipped_sum, [1.0], [1.0, 9.0], ONE, 1.0, SHIFT),
    Case("sum clipped to a wrong range", sum_clipped_to_wrong_range, [-5.0], [5.0], ONE, 2.0, SHIFT),
    Case("sum without clipping", unclipped_sum, [1.0], [1.0, 9.0], ONE, 4.5, SHIFT),
    Case("mean of known size", mean_of_known_size, [0, 1, 1, 0], [0, 1, 1, 1], ONE, 1.0, SHIFT),
    Case(
        "mean with private scale", mean_with_private_scale, [1, 0], [1, 0, 1], ONE, math.inf,
        "the log-ratio of two scales grows linearly in the tails",
    ),
    Case(
        "ratio of noisy numbers", ratio, [1, 0], [1, 0, 1], ONE, 1.0,
        "far below 0 only clamped sizes matter; their probability and the density of the sum both change by e^0.5",
    ),
    Case("noisy sum and size", sum_and_size, [1, 0], [1, 0, 1], ONE, 1.0, SHIFT),
    Case("exponential noise", exponential_noise, THREE, FOUR, ONE, math.inf, SUPPORTS),
    Case("uniform noise", uniform_noise, THREE, FOUR, ONE, math.inf, SUPPORTS),
    Case(
        "Cauchy noise", cauchy_noise, THREE, FOUR, ONE, 2.0 * math.log((1.0 + math.sqrt(5.0)) / 2.0),
        "(1 + y^2) / (1 + (y - 1)^2) is at most the square of the golden ratio",
    ),
    Case("logistic noise", logistic_noise, THREE, FOUR, ONE, 1.0, "limit of large outputs"),
    Case("Gumbel noise", gumbel_noise, THREE, FOUR, ONE, math.inf, "the term e^-z is unbounded on the left"),
    Case("difference of exponentials", difference_of_exponentials, THREE, FOUR, ONE, 1.0, "Laplace's law"),
    Case("Laplace noise by inversion", inverse_of_uniform, THREE, FOUR, ONE, 1.0, "Laplace's law"),
    Case("mixture of two scales", mixture_of_scales, THREE, FOUR, ONE, mixture_loss(), "see mixture_loss"),
    Case("discrete Laplace", discrete_laplace, THREE, FOUR, ONE, 1.0, "P[Z = k] is proportional to e^-|k|"),
    Case(
        "discrete Laplace, half noise", discrete_laplace_half_noise, THREE, FOUR, ONE, 2.0,
        "P[Z = k] is proportional to e^-2|k|",
    ),
    Case(
        "binomial noise", binomial_noise, THREE, FOUR, ApproxDP(1.5, 1e-3),
        approximate_loss(shifted_binomial_law(3), shifted_binomial_law(4), 1e-3), ENUMERATED,
    ),
    Case("binomial noise, pure claim", binomial_noise, THREE, FOUR, ONE, math.inf, SUPPORTS),
    Case("Poisson noise", poisson_noise, THREE, FOUR, ONE, math.inf, "(4 / 3)^k is unbounded"),
    Case(
        "average of two draws", average_of_two_draws, THREE, FOUR, ONE, 2.0,
        "the sum of the draws has density (1 + |z|) e^-|z| / 4; a shift by 2 costs 2 in the limit",
    ),
    # Functions of one noisy number.
    Case("rounded count", rounded_count, THREE, FOUR, ONE, 1.0, PROCESSED),
    Case("clamped count", clamped_count, THREE, FOUR, ONE, 1.0, PROCESSED),
    Case("count exceeds 4", count_exceeds_four, THREE, FOUR, ONE, 1.0, "probabilities e^-1 / 2 and 1 / 2"),
    Case(
        "count exceeds 3.5", count_exceeds_three_and_a_half, THREE, FOUR, ONE, math.log(2.0 * math.exp(0.5) - 1.0),
        "probabilities e^-0.5 / 2 and 1 - e^-0.5 / 2",
    ),
    Case(
        "parity of a rounded count", parity, THREE, FOUR, ONE,
        pure_loss(image(rounded_law(3), lambda k: k % 2), image(rounded_law(4), lambda k: k % 2)), ENUMERATED,
    ),
    # Histograms.
    Case("histogram, loop", histogram_loop, KEYS, MORE_KEYS, ONE, 1.0, SHIFT),
    Case("histogram, numpy", histogram_numpy, KEYS, MORE_KEYS, ONE, 1.0, SHIFT),
    Case("histogram, dict", histogram_dict, ["a", "b"], ["a", "b", "b"], ONE, 1.0, SHIFT),
    Case("histogram, replaced record", histogram_replacement, KEYS, REPLACED_KEYS, ONE, 1.0, SHIFT),
    Case("histogram, noise for an added record", histogram_numpy, KEYS, REPLACED_KEYS, ONE, 2.0, SHIFT),
    Case("histogram of present keys", histogram_present_keys, [0, 1], [0, 1, 2], ONE, math.inf, SUPPORTS),
    Case("cumulative counts", cumulative_counts, [1, 2], [0, 1, 2], ONE, 3.0, SHIFT),
    Case("tree of counts", tree_of_counts, [0, 3], [0, 2, 3], ONE, 1.0, SHIFT),
    # Several queries.
    Case("adaptive query", adaptive_query, [1, 1], [1, 1, 1], ONE, 1.0, "0.5 + 0.5 if the size exceeds 2"),
    Case("adaptive scale", adaptive_scale, THREE, FOUR, ONE, 1.0, "0.5 + 0.5 if the first answer exceeds 3"),
    Case(
        "adaptive scale, overspent", adaptive_scale_overspent, THREE, FOUR, ONE, 2.5,
        "0.5 + 2 if the first answer exceeds 3",
    ),
    Case("odometer", odometer, THREE, FOUR, ONE, 1.0, "four answers that cost 0.25 each"),
    Case("odometer that forgets", odometer_that_forgets, THREE, FOUR, ONE, 1.75, "seven answers that cost 0.25 each"),
    Case(
        "two thresholds", two_thresholds, [1, 1, 0], [1, 1, 0, 1], ONE,
        pure_loss(two_threshold_law(3, 2), two_threshold_law(4, 3)), ENUMERATED,
    ),
    Case("noise used twice", noise_used_twice, [1, 0], [1, 0, 0], ONE, math.inf, "the difference is private"),
    Case("private value beside", private_value_beside, [1, 1, 1], [1, 1, 1, 1], ONE, math.inf, SUPPORTS),
    Case("private size in a dict", private_size_in_a_dict, [1], [1, 0], ONE, math.inf, SUPPORTS),
    # Selections.
    Case(
        "noisy max", noisy_max, EQUAL, APART, ONE, pure_loss(winner_law(EQUAL, 2.0), winner_law(APART, 2.0)),
        INTEGRATED,
    ),
    Case(
        "noisy max, loop", noisy_max_loop, EQUAL, APART, ONE,
        pure_loss(winner_law(EQUAL, 2.0), winner_law(APART, 2.0)), INTEGRATED,
    ),
    Case(
        "noisy max, quarter noise", noisy_max_quarter_noise, EQUAL, APART, ONE,
        pure_loss(winner_law(EQUAL, 0.5), winner_law(APART, 0.5)), INTEGRATED,
    ),
    Case(
        "noisy max of counts", noisy_max_of_counts, [2, 1, 1], [3, 1, 1], ONE,
        pure_loss(winner_law([2, 1, 1], 1.0), winner_law([3, 1, 1], 1.0)), INTEGRATED,
    ),
    Case(
        "noisy max, exponential", noisy_max_exponential, EQUAL, APART, ONE,
        pure_loss(permute_and_flip_law(EQUAL, 2.0), permute_and_flip_law(APART, 2.0)), ENUMERATED,
    ),
    Case(
        "noisy max, exponential, loop", noisy_max_exponential_loop, EQUAL, APART, ONE,
        pure_loss(permute_and_flip_law(EQUAL, 2.0), permute_and_flip_law(APART, 2.0)), ENUMERATED,
    ),
    Case(
        "noisy max, Gumbel", noisy_max_gumbel, EQUAL, APART, ONE,
        pure_loss(softmax_law(EQUAL, 2.0), softmax_law(APART, 2.0)), "law of the exponential mechanism",
    ),
    Case(
        "noisy max with its value", noisy_max_with_its_value, ZEROS[:5], ONES[:5], ONE, 2.5,
        "far below the scores the density of the maximum is a product of five factors e^(y / 2)",
    ),
    Case(
        "noisy max, Gumbel, with its value", noisy_max_gumbel_with_its_value, ZEROS[:3], ONES[:3], ONE, math.inf,
        "the maximum has Gumbel's law, and its term e^-z is unbounded on the left",
    ),
    Case(
        "noisy max with a fresh value", noisy_max_with_fresh_value, EQUAL, APART, ONE,
        fresh_value_loss(EQUAL, APART), INTEGRATED,
    ),
    Case("maximum without noise", max_without_noise, [2, 1], [1, 2], ONE, math.inf, SUPPORTS),
    Case(
        "exponential mechanism, choice", exponential_mechanism_choice, EQUAL, APART, ONE,
        pure_loss(softmax_law(EQUAL, 2.0), softmax_law(APART, 2.0)), "closed form",
    ),
    Case(
        "exponential mechanism, inversion", exponential_mechanism_inverse, EQUAL, APART, ONE,
        pure_loss(softmax_law(EQUAL, 2.0), softmax_law(APART, 2.0)), "closed form",
    ),
    Case(
        "permute and flip", permute_and_flip, EQUAL, APART, ONE,
        pure_loss(permute_and_flip_law(EQUAL, 2.0), permute_and_flip_law(APART, 2.0)), ENUMERATED,
    ),
    Case(
        "top two, Gumbel", top_two, EQUAL, APART, ONE,
        pure_loss(ranking_law(EQUAL, 4.0, 2), ranking_law(APART, 4.0, 2)), "law of Plackett and Luce",
    ),
    Case(
        "median, Gumbel", median_gumbel, [1, 2, 3, 4], [1, 2, 3, 4, 4], ONE,
        pure_loss(*(softmax_law(median_scores(one), 2.0) for one in ([1, 2, 3, 4], [1, 2, 3, 4, 4]))), "closed form",
    ),
    Case(
        "median, exponential", median_exponential, [1, 2, 3, 4], [1, 2, 3, 4, 4], ONE,
        pure_loss(*(permute_and_flip_law(median_scores(one), 2.0) for one in ([1, 2, 3, 4], [1, 2, 3, 4, 4]))),
        ENUMERATED,
    ),
    Case(
        "binary search", binary_search, [0] * 6, [0] * 7, ONE,
        pure_loss(binary_search_law([0] * 6), binary_search_law([0] * 7)), "product of the laws of the comparisons",
    ),
    # Sparse vectors.
    Case(
        "sparse vector 1", sparse_vector_1, LATE, EARLY, ONE,
        pure_loss(*(sparse_vector_law(one, 1.0, 2.0, 4.0) for one in (LATE, EARLY))), INTEGRATED,
    ),
    Case(
        "sparse vector 2", sparse_vector_2, LATE, EARLY, ONE,
        pure_loss(*(refreshed_sparse_vector_law(one, 1.0, 4.0, 8.0, 2) for one in (LATE, EARLY))), INTEGRATED,
    ),
    Case(
        "sparse vector 3", sparse_vector_3, ZEROS, ONES, ONE, 1.5,
        "for five negative answers and a value near minus infinity, each query contributes 1/4",
    ),
    Case(
        "sparse vector 4", sparse_vector_4, LATE, EARLY, ONE,
        pure_loss(*(sparse_vector_law(one, 1.0, 4.0, 4.0 / 3.0) for one in (LATE, EARLY))), INTEGRATED,
    ),
    Case("sparse vector 5", sparse_vector_5, [0, 1], [1, 0], ONE, math.inf, SUPPORTS),
    Case(
        "sparse vector 6", sparse_vector_6, [0, 0, 0, 0], [1, 1, -1, -1], ONE,
        pure_loss(*(sparse_vector_law(one, 0.0, 2.0, 2.0, None) for one in ([0, 0, 0, 0], [1, 1, -1, -1]))), INTEGRATED,
    ),
    Case(
        "sparse vector, exact threshold", sparse_vector_exact_threshold, ZEROS, ONES, ONE,
        pure_loss(*(first_success_law([interval_law(q, [1], 4.0)[1] for q in one]) for one in (ZEROS, ONES))),
        "product of the laws of the comparisons",
    ),
    Case(
        "above threshold with gap", above_threshold_with_gap, [0, 0, 1], [1, 1, 0], ONE,
        gap_loss([0, 0, 1], [1, 1, 0]), INTEGRATED,
    ),
    # Approximate differential privacy.
    Case(
        "count, approximate claim", count, THREE, FOUR, ApproxDP(1.0, DELTA), 1.0 + 2.0 * math.log(1.0 - DELTA),
        "the profile of Laplace noise is 1 - e^((epsilon - 1) / 2)",
    ),
    Case(
        "propose-test-release", propose_test_release, [0, 0, 1], [0, 0, 0, 1], ApproxDP(1.0, DELTA),
        approximate_loss(released_law(0, 0, TESTED), released_law(0, 1, TESTED), DELTA), ENUMERATED,
    ),
    Case(
        "propose-test-release, other value", propose_test_release, [0, 0, 1, 1], [0, 0, 1, 1, 1], ApproxDP(1.0, DELTA),
        approximate_loss(released_law(0, 0, TESTED), released_law(1, 0, TESTED), DELTA), ENUMERATED,
    ),
    Case(
        "propose-test-release, low threshold", propose_test_release_low, [0, 0, 1, 1], [0, 0, 1, 1, 1],
        ApproxDP(1.0, DELTA), math.inf, "each value has probability 2 delta on one dataset and 0 on the other",
    ),
    Case(
        "stable histogram", stable_histogram, ["a", "a"], ["a", "a", "b"], ApproxDP(1.0, DELTA),
        approximate_loss({None: 1.0}, stable_law(1), DELTA), ENUMERATED,
    ),
    Case(
        "stable histogram, one key", stable_histogram, ["a"], ["a", "a"], ApproxDP(1.0, DELTA),
        approximate_loss(stable_law(1), stable_law(2), DELTA), ENUMERATED,
    ),
    Case(
        "stable histogram, low threshold", stable_histogram_low, ["a", "a"], ["a", "a", "b"], ApproxDP(1.0, DELTA),
        math.inf, "the key has probability e delta on one dataset and 0 on the other",
    ),
    # Gaussian noise, and claims about other divergences.
    Case("Gaussian count", gaussian_count, THREE, FOUR, GaussianDP(1.0), 1.0, "shift over sigma"),
    Case("Gaussian count, pure claim", gaussian_count, THREE, FOUR, ONE, math.inf, "the log-ratio is linear"),
    Case("Gaussian count, zCDP", gaussian_count, THREE, FOUR, ZCDP(0.5), 0.5, "mu^2 / 2"),
    Case("Gaussian count, Renyi", gaussian_count, THREE, FOUR, RenyiDP(4.0, 2.0), 2.0, "order mu^2 / 2"),
    Case(
        "Gaussian count, classic", gaussian_classic, THREE, FOUR, ApproxDP(1.0, 1e-3),
        gaussian_approximate_loss(1.0 / CLASSIC_SIGMA, 1e-3), "Theorem 8 of Balle and Wang (2018)",
    ),
    Case(
        "Gaussian vector", gaussian_vector, [1, 1, 0], [0, 2, 0], GaussianDP(math.sqrt(2.0)), math.sqrt(2.0),
        "L2 distance",
    ),
    Case("Gaussian loop", gaussian_loop, [1, 1], [0, 2], GaussianDP(math.sqrt(2.0)), math.sqrt(2.0), "L2 distance"),
    Case(
        "Gaussian vector, L-infinity sensitivity", gaussian_vector, [0, 0, 0], [1, 1, 1], GaussianDP(1.0),
        math.sqrt(3.0), "L2 distance",
    ),
    Case("Gaussian, variance for scale", gaussian_of_variance, THREE, FOUR, GaussianDP(2.0), 4.0, "shift over sigma"),
    Case(
        "Gaussian adaptive", gaussian_adaptive, [1, 1, 1], [1, 1, 1, 1], ZCDP(0.5), 0.5,
        "1/4 + 1/4, whatever the first answer",
    ),
    Case(
        "clipped gradients", clipped_gradients, [[3, 4]], [[3, 4], [0, -7]], GaussianDP(0.5), 0.5,
        "L2 distance over sigma",
    ),
    Case(
        "Gaussian threshold", gaussian_threshold, [1, 1], [1, 1, 1], ONE,
        math.log(ndtr(0.5) / ndtr(-0.5)), "probabilities of a normal law beyond 0.5 and -0.5",
    ),
    Case("count, Gaussian DP", count, THREE, FOUR, GaussianDP(1.5), laplace_gaussian_loss(1.0), "closed form"),
    Case(
        "count, zCDP", count, THREE, FOUR, ZCDP(0.5), math.exp(-1.0),
        "D_a / a decreases in the order a; its limit at 1 is the Kullback-Leibler divergence 1 + e^-1 - 1",
    ),
    Case(
        "count, Renyi", count, THREE, FOUR, RenyiDP(2.0, 1.0), laplace_renyi_loss(1.0, 2.0), "Mironov (2017), Table II",
    ),
    # Randomised response and sampling.
    Case("randomised response", randomised_response, 0, 1, ONE, 1.0, "closed form"),
    Case("randomised response, 90 % honest", randomised_response_too_honest, 0, 1, ONE, math.log(9.0), "closed form"),
    Case(
        "randomised response, Renyi", randomised_response, 0, 1, RenyiDP(2.0, 1.0),
        renyi_loss(bernoulli(TRUTH), bernoulli(1.0 - TRUTH), 2.0), ENUMERATED,
    ),
    Case(
        "randomised response, zCDP", randomised_response, 0, 1, ZCDP(0.5),
        concentrated_loss(bernoulli(TRUTH), bernoulli(1.0 - TRUTH)), "supremum over the orders",
    ),
    Case(
        "randomised response, Gaussian DP", randomised_response, 0, 1, GaussianDP(1.5), 2.0 * float(ndtri(TRUTH)),
        "the only kink of the trade-off curve is at 1 - p, p",
    ),
    Case(
        "randomised response of four values", randomised_response_of_many, 0, 1, PureDP(math.log(5.0)),
        math.log(5.0), "probabilities 5/8 and 1/8",
    ),
    Case("random module, response", random_module_response, 0, 1, PureDP(math.log(3.0)), math.log(3.0), "closed form"),
    Case("random module, choices", random_module_choices, 0, 1, PureDP(math.log(3.0)), math.log(3.0), "closed form"),
    Case("random module, count", random_module_count, THREE, FOUR, ONE, 1.0, "Laplace's law"),
    Case("random module, Gaussian", random_module_gaussian, THREE, FOUR, GaussianDP(1.0), 1.0, "shift over sigma"),
    Case("secrets, response", secrets_response, 0, 1, PureDP(math.log(3.0)), math.log(3.0), "closed form"),
    Case("RAPPOR", rappor, 0, 1, ONE, 1.0, "two bits differ, and each costs 0.5"),
    Case("RAPPOR, one bit counted", rappor_one_bit_counted, 0, 1, ONE, 2.0, "two bits differ, and each costs 1"),
    Case(
        "shuffled responses", shuffled_responses, [0, 1, 1], [1, 1, 1], PureDP(math.log(3.0)),
        pure_loss(responses_law([0, 1, 1]), responses_law([1, 1, 1])), "law of the number of ones",
    ),
    Case("shuffled data", shuffled_data, [0, 1, 1], [1, 1, 0], ONE, 0.0, "the laws are equal"),
    Case(
        "sampled count without noise", sampled_count_without_noise, [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0],
        ONE, math.inf, SUPPORTS,
    ),
    Case(
        "sampled count without noise, delta", sampled_count_without_noise, [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0],
        ApproxDP(1.0, 0.1), approximate_loss(binomial_law(3, 0.5), binomial_law(4, 0.5), 0.1), ENUMERATED,
    ),
    Case(
        "sampled count", sampled_count, [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], ONE,
        math.log(1.0 + 0.5 * (math.e - 1.0)), SAMPLED,
    ),
    Case(
        "sampled count, numpy", sampled_count_numpy, [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], ONE,
        math.log(1.0 + 0.25 * (math.e - 1.0)), SAMPLED,
    ),
    Case(
        "sampled without replacement", sampled_without_replacement, [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], ONE,
        without_replacement_loss(6, 3, 2, 3), "see without_replacement_loss",
    ),
    # Populations and seeds.
    Case("random record", random_record, [0, 0, 1], [0, 0, 1, 1], ONE, math.log(1.5), ENUMERATED),
    Case("random record, numpy", random_record_numpy, [0, 0, 1], [0, 1, 1], ONE, math.log(2.0), ENUMERATED),
    Case(
        "first of a permutation", first_of_a_permutation, [0, 0, 0, 1], [0, 0, 1, 1], ONE, math.log(2.0), ENUMERATED,
    ),
    Case(
        "noisy random record", noisy_random_record, [0, 1, 1], [1, 1, 1], ONE, math.log((math.e + 2.0) / 3.0),
        "the greatest ratio is that below 0, where the record 0 is likelier by e",
    ),
    Case(
        "noisy permutation", noisy_permutation, [1, 1], [1, 2], ONE, 1.0,
        "all outputs below 1: each of both orders is likelier by e",
    ),
    Case(
        "sum of two records", sum_of_two_records, [0, 0, 1, 1], [0, 0, 0, 1], ONE,
        without_replacement_loss(4, 2, 2, 1), "see without_replacement_loss",
    ),
    Case(
        "largest of three", largest_of_three, [0, 0, 0, 1], [0, 0, 1, 1], PureDP(2.0),
        pure_loss(largest_of_three_law([0, 0, 0, 1]), largest_of_three_law([0, 0, 1, 1])), ENUMERATED,
    ),
    Case(
        "bootstrap sum", bootstrap_sum, [0, 0, 1, 1], [0, 1, 1, 1], PureDP(3.0),
        pure_loss(binomial_law(3, 0.5), binomial_law(3, 0.75)), ENUMERATED,
    ),
    Case("count with a seed", count_with_seed, THREE, FOUR, ONE, 1.0, SHIFT),
    Case(
        "sampled randomised response", sampled_randomised_response, 0, 1, ONE, math.log(5.0 / 3.0),
        "probabilities 5/8 and 3/8",
    ),
)  # fmt: skip

CHEATS = (
    # Populations and seeds.
    Case("random record and size", random_record_and_size, [0, 1], [0, 1, 1], ONE, math.inf, SUPPORTS),
    Case("permuted records", permuted_records, [0, 0, 1], [0, 1, 1], ONE, math.inf, SUPPORTS),
    Case("sample of all records", sample_of_all_records, [0, 0, 1], [0, 1, 1], ONE, math.inf, SUPPORTS),
    Case("random record of a new value", random_record, [0, 1, 1], [0, 1, 2], ONE, math.inf, SUPPORTS),
    Case("sampled records with one noise", sampled_with_one_noise, [0, 0, 1], [0, 1, 2], ONE, math.inf, SUPPORTS),
    Case("half noise with a seed", count_with_seed_half_noise, THREE, FOUR, ONE, 2.0, SHIFT),
    Case(
        "one seed for both answers", same_seed_for_both_answers, [1, 1], [1, 1, 2], ONE, math.inf,
        "the difference is private",
    ),
    Case(
        "generator that ignores the seed", generator_ignores_the_seed, THREE, FOUR, ONE, math.inf,
        "the output is fixed",
    ),
    # Draws that are used in several ways.
    Case("one draw for all keys", one_draw_for_all_keys, KEYS, MORE_KEYS, ONE, math.inf, "the difference is private"),
    Case("noise subtracted again", noise_subtracted_again, THREE, FOUR, ONE, math.inf, SUPPORTS),
    Case(
        "scale drawn and hidden", scale_drawn_and_hidden, THREE, FOUR, ONE, hidden_scale_loss(),
        "see hidden_scale_loss",
    ),
    Case("scale drawn and released", scale_drawn_and_released, THREE, FOUR, ONE, 2.0, "limit of small scales"),
    Case(
        "scale by a hidden count", scale_by_hidden_count, THREE, FOUR, ONE, hidden_count_loss(),
        "see hidden_count_loss",
    ),
    Case(
        "number of draws by the data", number_of_draws_by_data, ["a"], ["a", "b"], ONE, math.inf,
        "the ratio of the densities is (1 + |y|) / 2",
    ),
    Case("draws thrown away", draws_thrown_away, THREE, FOUR, ONE, 1.0, SHIFT),
    Case(
        "draws counted until a sum", draws_until_a_sum, THREE, FOUR, ONE, math.inf,
        "Poisson's law; (4 / 3)^k is unbounded",
    ),
    Case("draw times data", draw_times_data, [1], [1, 1], ONE, math.inf, "the scales differ"),
    Case("sign of a draw times data", sign_of_draw_times_data, [1], [1, 1], ONE, 0.0, "the laws are equal"),
    Case(
        "product of two draws", product_of_two_draws, THREE, FOUR, ONE, math.inf, "the density has a pole at the count",
    ),
    Case("sum of a matrix and noise", mixed_by_a_matrix, KEYS, MORE_KEYS, ONE, 1.0, "the matrix is invertible"),
    # State. After the first run the output identifies the dataset.
    Case("noise cached by dataset", noise_cached_by_dataset, THREE, FOUR, ONE, math.inf, CACHED),
    Case("noise cached for all", noise_cached_for_all, THREE, FOUR, ONE, math.inf, CACHED),
    Case("query cached", query_cached, THREE, FOUR, ONE, 1.0, SHIFT),
    Case("every hundredth run exact", every_hundredth_run_exact, THREE, FOUR, ONE, math.inf, SUPPORTS),
    Case("generator seeded by the data", generator_seeded_by_data, THREE, FOUR, ONE, math.inf, "the output is fixed"),
    Case("generator seeded by a draw", generator_seeded_by_draw, THREE, FOUR, ONE, 1.0, "if its draws count as random"),
    Case("global generator", global_generator, THREE, FOUR, ONE, 1.0, SHIFT),
    Case("type of a draw", type_of_a_draw, THREE, FOUR, ONE, math.inf, SUPPORTS),
    # Comparisons in compiled code.
    Case("np.sort", numpy_sort, KEYS, MORE_KEYS, ONE, 1.0, PROCESSED),
    Case(
        "np.median", numpy_median, [0, 1, 2], [1, 1, 2], ONE,
        greatest_log_ratio(median_density([0, 1, 2]), median_density([1, 1, 2]), -20.0, 20.0), INTEGRATED,
    ),
    Case(
        "np.searchsorted", numpy_searchsorted, THREE, FOUR, ONE,
        pure_loss(interval_law(3, [2.5, 3.5, 4.5]), interval_law(4, [2.5, 3.5, 4.5])), "Laplace's law",
    ),
    Case(
        "np.where", numpy_where, KEYS, MORE_KEYS, ONE,
        pure_loss(interval_law(1, [1.5]), interval_law(2, [1.5])), "only one key differs",
    ),
    Case("np.clip", numpy_clip, THREE, FOUR, ONE, 1.0, "P[output = 0] is e^-3 / 2 and e^-4 / 2"),
    Case("np.cumsum", numpy_cumsum, KEYS, MORE_KEYS, ONE, 1.0, "the sums are invertible"),
    # Control flow.
    Case(
        "early exit", early_exit, [1, 2, 1], [1, 3, 1], ONE,
        pure_loss(*(first_success_law([interval_law(q, [2.5])[1] for q in one]) for one in ([1, 2, 1], [1, 3, 1]))),
        "product of the laws of the comparisons",
    ),
    Case("early exit without noise", early_exit_without_noise, [], [1], ONE, math.inf, SUPPORTS),
    Case("exception by noise", exception_by_noise, THREE, FOUR, ONE, 1.0, "P[failure] is e^-1 / 2 and e^-2 / 2"),
    Case("exception that releases", exception_that_releases, THREE, FOUR, ONE, math.inf, SUPPORTS),
    Case("message of an exception", message_of_an_exception, THREE, FOUR, ONE, 1.0, SHIFT),
    Case(
        "leak in one run of 1,000", rare_leak, THREE, FOUR, ApproxDP(1.0, 1e-4), math.inf,
        "an event of probability 0.001 that is possible on one dataset only",
    ),
    Case("recursive binary search", recursive_binary_search, [0] * 6, [0] * 7, ONE, 1.0, "the law of binary search"),
    Case(
        "recursion without end", recursion_without_end, THREE, FOUR, ONE, math.inf,
        "the geometric laws of the depth have an unbounded ratio",
    ),
    Case(
        "recursion of three levels", recursion_of_three_levels, THREE, FOUR, ONE,
        pure_loss(*(first_success_law([interval_law(n, [5], 2.0)[1]] * 3) for n in (3, 4))), ENUMERATED,
    ),
    Case("generator function", generator_function, KEYS, MORE_KEYS, ONE, 1.0, SHIFT),
    Case(
        "rejection by the output", rejection_by_output, [], ["a"], ONE, 1.0 + math.log(2.0 - math.exp(-1.0)),
        "at 0 the densities differ by e, and the accepted parts are 1/2 and 1 - e^-1 / 2",
    ),
    Case("rejection by the noise", rejection_by_noise, THREE, FOUR, ONE, math.inf, SUPPORTS),
    Case("rejection sampler", rejection_sampler, THREE, FOUR, ONE, 1.0, "discrete Laplace; Canonne et al. (2020)"),
    # Noise that takes another form.
    Case("text with two digits", text_with_two_digits, THREE, FOUR, ONE, 1.0, "a shift by 100 cells"),
    Case("fractional part", fractional_part, THREE, FOUR, ONE, 0.0, "the laws are equal"),
    Case("absolute value", absolute_value, THREE, FOUR, ONE, 1.0, "between 0 and 3 the densities differ by e"),
    Case("int() of noise", int_of_noise, THREE, FOUR, ONE, 1.0, PROCESSED),
    Case("round() to tenths", round_to_tenths, THREE, FOUR, ONE, 1.0, "a shift by 10 cells"),
    Case(
        "hash of a rounded number", hash_of_rounded, THREE, FOUR, ONE,
        pure_loss(image(rounded_law(3), lambda k: hash(k) % 7), image(rounded_law(4), lambda k: hash(k) % 7)),
        ENUMERATED,
    ),
    Case("key of a dict", key_of_a_dict, THREE, FOUR, ONE, 1.0, SHIFT),
    Case("pickle", through_pickle, THREE, FOUR, ONE, 1.0, SHIFT),
    Case("deep copy", through_deep_copy, KEYS, MORE_KEYS, ONE, 1.0, SHIFT),
    Case("JSON", through_json, THREE, FOUR, ONE, 1.0, SHIFT),
    Case("struct", through_struct, THREE, FOUR, ONE, 1.0, SHIFT),
    Case("math.fsum", math_fsum, THREE, FOUR, ONE, 1.0, SHIFT),
    Case(
        "statistics.median", statistics_median, [0, 1, 2], [1, 1, 2], ONE,
        greatest_log_ratio(median_density([0, 1, 2]), median_density([1, 1, 2]), -20.0, 20.0), INTEGRATED,
    ),
    # Order.
    Case(
        "sorted with key", sorted_with_key, [1, 1, 1], [0, 2, 2], ONE,
        pure_loss(ranking_law([1, 1, 1], 4.0, 3), ranking_law([0, 2, 2], 4.0, 3)), "law of Plackett and Luce",
    ),
    Case(
        "max with key", max_with_key, [1, 1, 1], [0, 2, 2], ONE,
        pure_loss(winner_law([1, 1, 1], 2.0), winner_law([0, 2, 2], 2.0)), INTEGRATED,
    ),
    Case(
        "heapq", heap_winner, [1, 1, 1], [0, 2, 2], ONE,
        pure_loss(winner_law([1, 1, 1], 2.0), winner_law([0, 2, 2], 2.0)), INTEGRATED,
    ),
    Case(
        "bisect", bisected, THREE, FOUR, ONE,
        pure_loss(interval_law(3, [2.5, 3.5, 4.5]), interval_law(4, [2.5, 3.5, 4.5])), "Laplace's law",
    ),
    Case("ranking by the data", ranking_by_data, [0, 1], [1, 0], ONE, 0.0, "the laws are equal"),
)  # fmt: skip
