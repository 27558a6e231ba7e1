# ruff: noqa: D103, NPY002  # names say what functions do, and traces must support old generators
"""Functions that leak on a marked line, each with a sound twin, for traces, which should name the marked line only.

The classes of leaks are those in the appendix on dp-recorder (Cebere, Erb, Desfontaines, Bellet and Fitzsimons 2026,
arXiv:2602.17454); the functions are written for this study. `CASES` lists each function with a pair and a claim. The
line at fault ends in ``# leaks``. If a noisy number is drawn on one dataset only, the line at fault is that of the
draw. The functions stand in a file of their own, because a trace names lines of this file.
"""

from __future__ import annotations

import inspect
import math
import os
import random
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from epsaudit import ZCDP, Claim, PureDP
from epsaudit.tools.tracing import mechanism


@mechanism(input="value", sensitivity="sensitivity", epsilon="epsilon")
def laplace_of(value: Any, sensitivity: float, epsilon: float, rng: Any) -> Any:
    """Return a value with Laplace noise: a user-defined mechanism, as a library may contain it."""
    return value + rng.laplace(scale=sensitivity / epsilon, size=np.shape(value) or None)


# control flow that depends on the data


def extra_noise_if_large(data, rng):
    answer = sum(data) + rng.laplace()
    if sum(data) > 2:
        answer += rng.laplace()  # leaks
    return answer


def extra_noise_if_noisily_large(data, rng):
    answer = sum(data) + rng.laplace(scale=2.0)
    if answer > 2:
        answer = sum(data) + rng.laplace(scale=2.0)
    return answer


def early_exit_on_empty(data, rng):
    if not any(data):
        return 0.0
    return sum(data) + rng.laplace()  # leaks


def answered_always(data, rng):
    return sum(data) + rng.laplace()


def repeats_until_above(data):
    answer = -1.0
    while answer < sum(data) - 0.5:
        answer = sum(data) + np.random.laplace()  # leaks
    return answer


def repeats_until_positive(data):
    answer = -1.0
    while answer < 0.0:
        answer = sum(data) + np.random.laplace(scale=2.0)
    return answer


# len(data) used instead of a noisy count


def mean_of_scale_one_over_n(data, rng):
    return sum(data) / len(data) + rng.laplace(scale=1.0 / len(data))  # leaks


def mean_of_noisy_sum_and_count(data, rng):
    return (sum(data) + rng.laplace(scale=2.0)) / max(len(data) + rng.laplace(scale=2.0), 1.0)


def noisy_sum_over_n(data):
    noisy = np.clip(data, 0.0, 1.0).sum() + np.random.laplace()
    return noisy / len(data)  # leaks


def noisy_sum_over_public_n(data):
    return (np.clip(data, 0.0, 1.0).sum() + np.random.laplace()) / 10


def rounded_sum_over_n(data, rng):
    return round(float(sum(data) + rng.laplace()), 3) / len(data)  # leaks


def rounded_sum_over_public_n(data, rng):
    return round(float(sum(data) + rng.laplace()), 3) / 10


# a domain taken from the data


def histogram_of_seen(data, rng):
    values, counts = np.unique(data, return_counts=True)  # leaks
    return dict(zip(values.tolist(), counts + rng.laplace(size=len(values)), strict=True))


def histogram_of_known(data, rng):
    return dict(enumerate(np.bincount(data, minlength=4) + rng.laplace(size=4)))


def counter_of_seen(data):
    counts = Counter(data)
    return {value: counts[value] + random.gauss(0, 1) for value in sorted(counts)}  # leaks


def counter_of_known(data):
    counts = Counter(data)
    return {value: counts[value] + random.gauss(0, 1) for value in range(4)}


def exponential_among_seen(data, rng):
    seen = sorted(set(data))
    weights = np.exp([data.count(value) / 2.0 for value in seen])
    return int(rng.choice(seen, p=weights / weights.sum()))  # leaks


def exponential_among_known(data, rng):
    weights = np.exp([data.count(value) / 2.0 for value in range(4)])
    return int(rng.choice(4, p=weights / weights.sum()))


# wrong clipping


def clipped_in_the_wrong_norm(data, rng):
    rows = np.clip(np.array(data, float), -1.0, 1.0)
    return (rows.sum(axis=0) + rng.normal(scale=1.0, size=4)).tolist()  # leaks


def clipped_in_its_norm(data, rng):
    rows = np.array(data, float)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    return (rows.sum(axis=0) + rng.normal(scale=1.0, size=4)).tolist()


def clipped_after_the_noise(data, rng):
    noisy = sum(data) + rng.laplace()  # leaks
    return min(max(noisy, 0.0), 10.0 * len("public"))


def clipped_before_the_noise(data, rng):
    return min(max(sum(min(value, 1.0) for value in data) + rng.laplace(), 0.0), 60.0)


def clipped_to_what_is_seen(data, rng):
    bound = max(data)
    return sum(min(value, bound) for value in data) + rng.laplace(scale=bound)  # leaks


def clipped_to_what_is_public(data, rng):
    return sum(min(value, 1.0) for value in data) + rng.laplace(scale=1.0)


# wrong sensitivity


def sensitivity_of_zero(data, rng):
    return laplace_of(float(sum(data)), 0.0, 1.0, rng)  # leaks


def sensitivity_of_one(data, rng):
    return laplace_of(float(sum(min(value, 1.0) for value in data)), 1.0, 1.0, rng)


def sensitivity_of_the_range(data, rng):
    return laplace_of(float(sum(min(max(value, 10.0), 11.0) for value in data)), 1.0, 1.0, rng)  # leaks


def sensitivity_of_the_bound(data, rng):
    return laplace_of(float(sum(min(max(value, 10.0), 11.0) for value in data)), 11.0, 1.0, rng)


# a budget that is spent twice


def one_budget_for_each(data, rng):
    low = laplace_of(float(len(data)), 1.0, 1.0, rng)
    return [low, laplace_of(float(sum(data)), 1.0, 1.0, rng)]  # leaks


def one_budget_for_both(data, rng):
    low = laplace_of(float(len(data)), 1.0, 0.5, rng)
    return [low, laplace_of(float(sum(data)), 1.0, 0.5, rng)]


def three_counts_at_one(data):
    first = len(data) + stats.laplace.rvs()
    second = len(data) + stats.laplace.rvs()
    return first, second, len(data) + stats.laplace.rvs()  # leaks


def three_counts_at_a_third(data):
    first = len(data) + stats.laplace.rvs(scale=3.0)
    second = len(data) + stats.laplace.rvs(scale=3.0)
    return first, second, len(data) + stats.laplace.rvs(scale=3.0)


# missing values


def mean_of_a_public_size_with_nan(data, rng):
    values = np.array(data, float)
    return float(np.nansum(values) / np.sum(~np.isnan(values)) + rng.laplace(scale=1.0 / len(values)))  # leaks


def mean_of_a_public_size_nan_as_zero(data, rng):
    values = np.nan_to_num(np.array(data, float))
    return float(np.mean(np.clip(values, 0.0, 1.0)) + rng.laplace(scale=1.0 / len(values)))


def nan_through_the_clip(data, rng):
    return float(np.clip(np.array(data, float), 0.0, 1.0).sum() + rng.laplace())  # leaks


def nan_left_out(data, rng):
    values = np.array(data, float)
    return float(np.clip(values[~np.isnan(values)], 0.0, 1.0).sum() + rng.laplace())


# noise of a wrong kind


def noise_of_one_draw(data, rng):
    noise = rng.laplace()
    return [float(total + noise) for total in np.bincount(data, minlength=4)]  # leaks


def noise_for_each(data, rng):
    return [float(total + rng.laplace()) for total in np.bincount(data, minlength=4)]


def noise_on_one_side(data):
    return len(data) + random.expovariate(1.0)  # leaks


def noise_on_both_sides(data):
    return len(data) + (random.expovariate(1.0) - random.expovariate(1.0))


def noise_scaled_by_a_standard_deviation(data, rng):
    return float(np.mean(data)) + rng.standard_normal() * np.std(data)  # leaks


def noise_scaled_by_the_range(data, rng):
    return float(np.sum(np.clip(data, 0.0, 1.0))) + rng.standard_normal() * 2.0


def float_under_discrete_noise(data, rng):
    probability = 1.0 - math.exp(-1.0)
    return 2.0 * len(data) + rng.geometric(probability) - rng.geometric(probability)  # leaks


def float_under_enough_discrete_noise(data, rng):
    probability = 1.0 - math.exp(-0.5)
    return 2.0 * len(data) + rng.geometric(probability) - rng.geometric(probability)


def noise_made_whole(data, rng):
    return 3 * len(data) + int(rng.laplace())  # leaks


def sum_made_whole(data, rng):
    return int(3 * len(data) + rng.laplace(scale=3.0))


def noise_rounded(data, rng):
    return len(data) + round(rng.laplace())


def exact_count_beside_a_noisy_sum(data, rng):
    return len(data), sum(min(value, 1.0) for value in data) + rng.laplace()  # leaks


def noisy_count_beside_a_noisy_sum(data, rng):
    return len(data) + rng.laplace(scale=2.0), sum(min(value, 1.0) for value in data) + rng.laplace(scale=2.0)


# selections, sampling and other functions whose outputs a trace cannot compare by equality


def noisy_max(data, rng):
    return int(np.argmax(np.bincount(data, minlength=4) + rng.laplace(scale=2.0, size=4)))


def noisy_max_too_little_noise_released(data, rng):
    noisy = 3.0 * np.bincount(data, minlength=4) + rng.laplace(scale=2.0, size=4)  # leaks
    return float(noisy.max())


def sparse_vector(data, rng):
    threshold = 2.0 + rng.laplace(scale=2.0)
    for place in range(6):
        if sum(value <= place for value in data) + rng.laplace(scale=4.0) > threshold:
            return place
    return None


def sparse_vector_that_stops_by_the_data(data, rng):
    answers = []
    for place in range(6):
        answers.append(bool(sum(value <= place for value in data) + rng.laplace(scale=4.0) > 2.0))  # leaks
        if sum(value <= place for value in data) > 1:
            return answers
    return answers


def private_median(data, rng):
    edges = np.concatenate([[0.0], np.sort(np.clip(data, 0.0, 1.0)), [1.0]])
    weights = np.diff(edges) * np.exp(-np.abs(np.arange(len(edges) - 1) - len(data) / 2.0))
    where = rng.choice(len(weights), p=weights / weights.sum())
    return rng.uniform(edges[where], edges[where + 1])


def randomised_response(data, rng):
    return [bit if rng.random() < 0.73 else 1 - bit for bit in data]


def response_of_the_operating_system(data):
    return [bit if secrets.randbelow(100) < 73 else 1 - bit for bit in data]


def laplace_by_inversion(data):
    uniform = int.from_bytes(os.urandom(7), "big") / 2**56 - 0.5
    return len(data) - math.copysign(math.log1p(-2.0 * abs(uniform)), uniform)


ONE = PureDP(1.0)


@dataclass(frozen=True)
class Case:
    """A function with its pair and claim."""

    kind: str
    function: Callable[..., Any]
    pair: tuple[Any, Any]
    claim: Claim

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def line(self) -> int | None:
        """Number of the line at fault, which a trace should name; None for a sound function."""
        lines, first = inspect.getsourcelines(self.function)
        return next((first + place for place, line in enumerate(lines) if line.rstrip().endswith("# leaks")), None)

    @property
    def leaks(self) -> bool:
        """Whether the function leaks."""
        return self.line is not None


ADDED, SEEN = ([1.0, 0.0], [1.0, 0.0, 1.0]), ([0, 0, 1, 1], [0, 0, 1, 1, 3])
LARGE, ROWS = ([1.0, 0.5], [1.0, 0.5, 90.0]), ([[0.0] * 4], [[0.0] * 4, [1.0] * 4])
TEN, MISSING = ([0.0], [0.0, 10.5]), ([1.0, 0.0, math.nan, math.nan], [0.0, 0.0, math.nan, math.nan])
BITS = ([1, 0, 1], [1, 1, 1])
TABLE: tuple[tuple[Any, ...], ...] = (
    ("control flow", ([1.0, 1.0], [1.0, 1.0, 1.0]), ONE, extra_noise_if_large, extra_noise_if_noisily_large),
    ("control flow", ([0.0], [0.0, 1.0]), ONE, early_exit_on_empty, answered_always),
    ("control flow", ([0.0, 0.0], [0.0, 0.0, 1.0]), ONE, repeats_until_above, repeats_until_positive),
    (
        "size of the data",
        ADDED,
        ONE,
        mean_of_scale_one_over_n,
        mean_of_noisy_sum_and_count,
        noisy_sum_over_n,
        noisy_sum_over_public_n,
        rounded_sum_over_n,
        rounded_sum_over_public_n,
    ),
    ("domain from data", SEEN, ONE, histogram_of_seen, histogram_of_known),
    ("domain from data", SEEN, ZCDP(0.5), counter_of_seen, counter_of_known),
    ("domain from data", SEEN, ONE, exponential_among_seen, exponential_among_known),
    ("clipping", ROWS, ZCDP(0.5), clipped_in_the_wrong_norm, clipped_in_its_norm),
    (
        "clipping",
        LARGE,
        ONE,
        clipped_after_the_noise,
        clipped_before_the_noise,
        clipped_to_what_is_seen,
        clipped_to_what_is_public,
    ),
    ("sensitivity", ADDED, ONE, sensitivity_of_zero, sensitivity_of_one),
    ("sensitivity", TEN, ONE, sensitivity_of_the_range, sensitivity_of_the_bound),
    (
        "double spending",
        ADDED,
        ONE,
        one_budget_for_each,
        one_budget_for_both,
        three_counts_at_one,
        three_counts_at_a_third,
    ),
    ("missing values", MISSING, ONE, mean_of_a_public_size_with_nan, mean_of_a_public_size_nan_as_zero),
    ("missing values", ([1.0, 0.0], [1.0, math.nan]), ONE, nan_through_the_clip, nan_left_out),
    ("noise", SEEN, ONE, noise_of_one_draw, noise_for_each),
    ("noise", ADDED, ONE, noise_on_one_side, noise_on_both_sides),
    ("noise", ADDED, ONE, float_under_discrete_noise, float_under_enough_discrete_noise),
    ("noise", ADDED, ONE, noise_made_whole, sum_made_whole, noise_rounded),
    ("noise", ADDED, ZCDP(0.125), noise_scaled_by_a_standard_deviation, noise_scaled_by_the_range),
    ("without noise", ADDED, ONE, exact_count_beside_a_noisy_sum, noisy_count_beside_a_noisy_sum),
    ("selection", SEEN, ONE, noisy_max_too_little_noise_released, noisy_max),
    ("selection", ([0, 1, 1], [0, 0, 1, 1]), ONE, sparse_vector_that_stops_by_the_data, sparse_vector),
    ("selection", ([0.2, 0.5], [0.2, 0.5, 0.7]), ONE, private_median),
    ("sampling", BITS, ONE, randomised_response, response_of_the_operating_system),
    ("sampling", ADDED, ONE, laplace_by_inversion),
)
CASES = tuple(Case(kind, one, pair, claim) for kind, pair, claim, *functions in TABLE for one in functions)
"""All functions. Those with a marked line leak."""
