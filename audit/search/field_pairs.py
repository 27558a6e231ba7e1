"""Combinations of two numbers of an output: all pairs of a few numbers, and the correlated pairs of many."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.outputs.arrays import Outputs
from epsaudit.outputs.layouts import OutputPath
from epsaudit.search.difference_tests import (
    EXPECTED_FALSE_FEATURES,
    MAX_SCREENING_OUTPUTS,
    log_p_value,
    read_both_sides,
)
from epsaudit.search.limits import MAX_PARTS
from epsaudit.search.output_fields import path_of
from epsaudit.witnesses.combinations import STATISTICS, Combination, CoordinateStatistic
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import Coordinate, NumberAt

MAX_COORDINATES_ALL_PAIRS = 12
"""[time] Maximum number of coordinates of a vector for which all pairs are tried, 66 for 12 coordinates. With more
coordinates, only neighbouring pairs and correlated pairs are tried."""
MAX_CORRELATED_COORDINATES = 4096
"""[memory] Maximum number of coordinates of a long array whose pairs are all screened for correlation. The matrix of
4,096 coordinates takes 128 MB."""
MIN_NEAR_COPY_CORRELATION = 0.9
"""[chosen] Correlation of signs above which two features are treated as near copies of one number. Two sums with the
same noise have a correlation of about 0.9 if their difference varies by a tenth of the noise. If their difference
varies by more, a leak shows in each sum alone."""
MAX_CORRELATION_PRODUCTS = 15_000_000_000
"""[time] Maximum number of products of two numbers, on each dataset, from which correlations are computed. They take
two seconds. This allows 15,000 outputs for 1,000 coordinates, and 894 outputs for 4,096 coordinates. If two signs are
always equal on x and independent on x', their correlations in 894 outputs on each differ by 21 standard errors."""
FeaturePairs = list[tuple[Feature, Feature]]


def find_correlated_pairs(
    features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs
) -> tuple[FeaturePairs, FeaturePairs]:
    """Return the pairs of features whose correlation differs between x and x', and the pairs that are near copies.

    Each feature is reduced to a sign: above or below its median. Two features are near copies if their signs agree, or
    are opposite, in almost all outputs of x and x'. Two sums with the same wide noise are an example. Their difference
    varies much less than each sum, so that it may reveal a leak that neither sum shows.
    """
    chosen = features[:MAX_CORRELATED_COORDINATES]
    if len(chosen) < 2:
        return [], []
    size = min(len(outputs), MAX_SCREENING_OUTPUTS, MAX_CORRELATION_PRODUCTS // len(chosen) ** 2)
    signs = np.zeros((2 * size, len(chosen)), np.float32)
    for place, feature in enumerate(chosen):
        numbers = read_both_sides(feature, (outputs[:size], outputs_prime[:size]))
        known = np.isfinite(numbers)
        if known.any():
            signs[known, place] = np.sign(numbers[known] - np.median(numbers[known]))
    on_x, on_x_prime = signs[:size].T @ signs[:size], signs[size:].T @ signs[size:]
    gap = np.triu(np.abs(on_x - on_x_prime) / size, 1).ravel()
    limit = min(MAX_COORDINATES_ALL_PAIRS // 4, gap.size)
    differing = _find_largest(gap, limit)
    chances = log_p_value(size / 2.0 * gap[differing] ** 2, 1)  # a sign has the variance 1
    differing = differing[chances < math.log(EXPECTED_FALSE_FEATURES / gap.size)]
    np.abs(np.add(on_x, on_x_prime, out=on_x), out=on_x)
    agreement = np.triu(on_x / (2 * size), 1).ravel()
    del on_x, on_x_prime  # they take 128 MB for 4,096 features
    nearly_one = _find_largest(agreement, limit)
    nearly_one = nearly_one[agreement[nearly_one] > MIN_NEAR_COPY_CORRELATION]
    first, second = (
        [(chosen[place // len(chosen)], chosen[place % len(chosen)]) for place in places.tolist()]
        for places in (differing, nearly_one)
    )
    return first, second


def _find_largest(numbers: Floats, limit: int) -> NDArray[np.int64]:
    """Return the indices of the ``limit`` largest numbers, the largest first."""
    best = np.argpartition(-numbers, limit - 1)[:limit]
    return best[np.argsort(-numbers[best], kind="stable")]


def list_combinations(size: int) -> list[Feature]:
    """Return the statistics of ``size`` coordinates, and the difference, sum and equality of pairs of coordinates."""
    features: list[Feature] = [
        CoordinateStatistic(name, size) for name in STATISTICS if size > 2 or name not in ("lead", "argmin")
    ]
    return features + combine_pairs([Coordinate(place) for place in range(size)])


def combine_pairs(numbers: Sequence[Coordinate | NumberAt]) -> list[Feature]:
    """Return the difference, the sum and the equality of pairs of numbers.

    All pairs are combined if there are at most `MAX_COORDINATES_ALL_PAIRS` numbers. Otherwise only neighbours are
    combined: numbers that follow one another in the output, and numbers at the same position of two consecutive parts.
    For example, if an output consists of two columns, the two numbers of each row are combined.
    """
    pairs: list[tuple[Feature, Feature]]
    if len(numbers) <= MAX_COORDINATES_ALL_PAIRS:
        pairs = list(itertools.combinations(numbers, 2))
    else:
        pairs = list(itertools.pairwise(numbers[:MAX_PARTS]))
        inner: dict[OutputPath, list[Feature]] = {}
        for one in numbers:
            if len(path := path_of(one)) > 1:
                inner.setdefault(path[1:], []).append(one)
        pairs += itertools.islice(itertools.chain.from_iterable(map(itertools.pairwise, inner.values())), MAX_PARTS)
    return [Combination(sign, *pair) for pair in dict.fromkeys(pairs) for sign in ("-", "+", "==")]
