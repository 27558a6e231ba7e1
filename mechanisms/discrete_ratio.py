"""Private ratios from whole-number noise: the law of a ratio of two noisy counts is discrete and known exactly.

The module is separate from `epsaudit.mechanisms.ratio`, whose laws have densities. Noise in double precision leaks
through its last bits (Mironov 2012); whole-number noise does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from epsaudit.array_types import Floats
from epsaudit.data.neighbours import AddRemove, DatasetPair
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw
from epsaudit.mechanisms.queries import Dataset
from epsaudit.mechanisms.ratio import answers, ones_and_records

LARGEST_DENOMINATOR = 10**7
"""Largest denominator of a fraction as which a double is read. Two such fractions differ by at least 1e-14."""


@dataclass(frozen=True)
class CountsRatioLaw:
    """Law of max(A, 0) / (max(A, 0) + max(B, 0)) for discrete Laplace variates A and B; 0 / 0 counts as 0.

    A ratio p / q in lowest terms, 0 < p < q, comes from A = k p, B = k (q - p) for k = 1, 2, ...: its probability is
    the sum of the products. ``support`` leaves out counts with a probability below 1e-18. ``log_density`` leaves out
    only multiples k whose probability is as small. Counts must be below 10^7.

    >>> law = CountsRatioLaw(1, 2, 1.0)
    >>> np.exp(law.log_density([0.0, 1 / 3, 1.0])).round(4).tolist()
    [0.2689, 0.2247, 0.0723]
    """

    ones: int
    zeros: int
    scale: float  # scale of the noise on both counts

    @cached_property
    def laws(self) -> tuple[DiscreteLaplaceLaw, DiscreteLaplaceLaw]:
        return DiscreteLaplaceLaw(self.ones, self.scale), DiscreteLaplaceLaw(self.zeros, self.scale)

    @cached_property
    def support(self) -> tuple[float, ...]:
        ones, zeros = (np.array(law.support)[np.array(law.support) > 0] for law in self.laws)
        ratios = np.unique(ones[:, None] / (ones[:, None] + zeros))
        return (0.0, *ratios.tolist(), 1.0)

    @cached_property
    def log_probabilities(self) -> Floats:
        return self.log_density(self.support)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        ones, zeros = (np.maximum(law.sample(size, rng), 0) for law in self.laws)
        return np.asarray(ones / np.maximum(ones + zeros, 1))

    def log_density(self, outputs: ArrayLike) -> Floats:
        """Log-probability of each output, shape (size,); -inf for an output that is not a ratio of two counts."""
        values, places = np.unique(np.asarray(outputs, float), return_inverse=True)
        return np.array([self._log_probability(value) for value in values.tolist()])[places]

    def _log_probability(self, value: float) -> float:
        ones, zeros = self.laws
        if value == 0.0:  # no ones and any number of zeros
            return float(ones.log_cdf(0))
        if value == 1.0:  # ones, and no zeros
            mirrored = DiscreteLaplaceLaw(-self.ones, self.scale)
            return float(mirrored.log_cdf(-1) + zeros.log_cdf(0))
        if not 0.0 < value < 1.0:
            return -math.inf
        ratio = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
        p, rest = ratio.numerator, ratio.denominator - ratio.numerator
        if float(ratio) != value or p == 0 or rest == 0:
            return -math.inf
        farthest = max(law.support[-1] for law in self.laws)
        k = np.arange(1, max(1, math.ceil(farthest / min(p, rest))) + 1)
        return float(logsumexp(ones.log_density(k * p) + zeros.log_density(k * rest)))


@dataclass(frozen=True)
class DiscreteCountsRatio(Reference):
    """The share of ones from counts of ones and zeros with discrete Laplace noise of scale 1 / epsilon: epsilon-DP.

    As for `CountsRatio`, the algorithm is that of Kulesza, Suresh and Wang (2024); the discrete noise is that of note 1
    of 'Privately bounding local sensitivity' (2024). A record that joins or leaves moves one of the two counts by 1, so
    the pair of counts is epsilon-DP (Ghosh, Roughgarden and Sundararajan 2012). Negative counts are replaced by 0,
    which is post-processing. The share of an empty dataset counts as 0. The output is the double nearest to a fraction
    of two counts.

    >>> law = DiscreteCountsRatio(1.0)((1, 0, 0))
    >>> law.sample(3, np.random.default_rng(0)).tolist(), str(DiscreteCountsRatio(1.0).claim)
    ([1.0, 0.0, 0.0], '1-DP')
    """

    epsilon: float
    name: ClassVar[str] = "private ratio, ones and zeros, discrete noise"
    adjacency = AddRemove()
    # the record that joins is the only 1, which shows well because the share 0 is likely without it
    pair = DatasetPair(answers(0, 5), answers(1, 5), "5 zeros against 5 zeros and a one")

    def __call__(self, dataset: Dataset) -> CountsRatioLaw:
        ones, records = ones_and_records(dataset)
        return CountsRatioLaw(ones, records - ones, 1.0 / self.epsilon)
