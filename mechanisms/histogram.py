"""Stable histograms: noisy counts of the records that occur, released only where they exceed a threshold.

The output is a mapping from keys to noisy counts, written as a tuple of (key, count) pairs in the order of ``repr``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ApproxZCDP, Claim
from epsaudit.data.neighbours import AddRemove, DatasetPair
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.exact.convolution import convolved
from epsaudit.mechanisms.exact.laws import loss_pair
from epsaudit.mechanisms.exact.losses import LossPair
from epsaudit.mechanisms.laws import FiniteLaw, LaplaceLaw, NormalLaw
from epsaudit.mechanisms.queries import Dataset
from epsaudit.outputs.normal_form import Items, normalise, order_key


@dataclass(frozen=True)
class ThresholdedLaw:
    """Law of one key's entry in a stable histogram: the noisy count if it reaches a threshold, else None."""

    noisy: LaplaceLaw | NormalLaw
    threshold: float

    @property
    def support(self) -> tuple[None]:
        return (None,)

    @property
    def log_probabilities(self) -> Floats:
        return np.array([self.noisy.log_cdf(self.threshold)], float)

    @property
    def knots(self) -> tuple[float, ...]:
        return (*self.noisy.knots, self.threshold) if math.isfinite(self.threshold) else self.noisy.knots

    @property
    def scale(self) -> float:
        return self.noisy.scale

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        numbers = self.noisy.sample(size, rng)
        outputs = numbers.astype(object)
        outputs[numbers < self.threshold] = None
        return outputs

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        absent = np.asarray(outputs == np.array(None, dtype=object), dtype=bool)
        numbers = np.where(absent, self.threshold, outputs).astype(float)
        density = np.where(numbers >= self.threshold, self.noisy.log_density(numbers), -np.inf)
        return np.where(absent, self.log_probabilities[0], density)


@dataclass(frozen=True)
class StableHistogramLaw:
    """Law of a mapping whose keys are independent of each other.

    The privacy loss between two such laws is that of the keys whose counts differ. Neighbours differ in one key, so
    ``marginal(key)`` of this key suffices. ``log_density`` gives the joint law.
    """

    counts: tuple[tuple[Hashable, int], ...]  # the true histogram, in the order in which outputs list their keys
    scale: float  # scale of the noise on every count
    threshold: float  # least noisy count that is released; -inf for no threshold
    noise: type[LaplaceLaw] | type[NormalLaw] = LaplaceLaw

    def marginal(self, key: Hashable) -> ThresholdedLaw | FiniteLaw:
        """Return the law of one key's entry; a key that no record has is always absent."""
        count = self._table.get(key)
        if count is None:
            return FiniteLaw((None,), (0.0,))
        return ThresholdedLaw(self.noise(float(count), self.scale), self.threshold)

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw ``size`` mappings from keys to noisy counts, shape (size,).

        The mappings are in the normal form of `epsaudit.outputs.normal_form`.
        """
        noisy = [count + self.noise(0.0, self.scale).sample(size, rng) for _, count in self.counts]
        pattern = np.zeros(size, dtype=np.int64)
        groups = 1
        for row in noisy:  # set of the present keys, renumbered after every key so that the numbers stay small
            _, pattern = np.unique(2 * pattern + (row >= self.threshold), return_inverse=True)
            groups = int(pattern.max(initial=0)) + 1
        order = np.argsort(pattern, kind="stable")
        outputs = np.empty(size, dtype=object)
        for chosen in np.split(order, np.searchsorted(pattern[order], np.arange(1, groups))):
            outputs[chosen] = self._mappings(noisy, chosen)
        return outputs

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        mappings = [dict(iter(output)) for output in outputs.tolist()]
        total = np.zeros(len(mappings))
        for key, _ in self.counts:
            column = np.array([mapping.get(key) for mapping in mappings], dtype=object)
            total += self.marginal(key).log_density(column)
        unknown = np.array([any(key not in self._table for key in mapping) for mapping in mappings], dtype=bool)
        return np.where(unknown, -np.inf, total)

    def loss_against(self, other: object) -> LossPair | None:
        if not isinstance(other, StableHistogramLaw):
            return None
        keys = dict.fromkeys(key for key, _ in (*self.counts, *other.counts))
        same = (self.scale, self.threshold, self.noise) == (other.scale, other.threshold, other.noise)
        differ = [key for key in keys if not (same and self._table.get(key) == other._table.get(key))]
        pairs = [loss_pair(self.marginal(key), other.marginal(key)) for key in differ]
        return pairs[0] if len(pairs) == 1 else convolved([(pair, 1) for pair in pairs])

    @cached_property
    def _ordered(self) -> list[tuple[Hashable, int]]:
        """Keys in normal form and their places among the counts, in the order in which outputs hold them."""
        keys = [(normalise(key), place) for place, (key, _) in enumerate(self.counts)]
        return sorted(keys, key=lambda one: order_key(one[0]))

    @cached_property
    def _table(self) -> dict[Hashable, int]:
        return dict(self.counts)

    def _mappings(self, noisy: list[Floats], chosen: NDArray[np.intp]) -> NDArray[Any]:
        """Return the outputs of runs that all have the same keys; zip makes the tuples without a loop over runs."""
        mappings = np.full(len(chosen), Items(), dtype=object)
        there = [one for one in self._ordered if len(chosen) and noisy[one[1]][chosen[0]] >= self.threshold]
        if there:
            columns = [noisy[place][chosen].tolist() for _, place in there]
            mappings[:] = list(map(Items, repeat(tuple(key for key, _ in there)), zip(*columns, strict=True)))
        return mappings


@dataclass(frozen=True)
class StableHistogram(Reference):
    """Counts of the present records plus Laplace(1 / epsilon) noise, released where they reach a threshold.

    The threshold is log(1 / delta) / epsilon + 1. (epsilon, delta)-DP for records of any kind, with an unknown and
    unbounded domain (Korolova, Kenthapadi, Mishra and Ntoulas 2009; Bun, Nissim and Stemmer 2016; the lecture notes on
    stable histograms). A count that moves between two positive numbers costs epsilon; a key that only one record has
    appears with probability delta / 2.

    >>> mechanism = StableHistogram(1.0, 0.01)
    >>> round(mechanism.threshold, 3), str(mechanism.claim)
    (5.605, '(1, 0.01)-DP')
    >>> mechanism(("tea", "tea", 7, None)).counts
    (('tea', 2), (7, 1), (None, 1))
    """

    epsilon: float
    delta: float
    name: ClassVar[str] = "stable histogram"
    adjacency = AddRemove()

    @property
    def threshold(self) -> float:
        return math.log(1.0 / self.delta) / self.epsilon + 1.0

    def __call__(self, dataset: Dataset) -> StableHistogramLaw:
        counts = sorted(Counter(dataset).items(), key=lambda item: repr(item[0]))
        return StableHistogramLaw(tuple(counts), 1.0 / self.epsilon, self.threshold)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return a pair for a count just below the threshold, and a pair for a key that appears.

        One record fewer makes a release of the count less likely by a factor of e^epsilon.
        """
        crowd = ("a",) * max(2, math.floor(self.threshold))
        return (
            DatasetPair((*crowd, "b"), (*crowd[1:], "b"), f"counts {len(crowd)} and {len(crowd) - 1} of one key"),
            DatasetPair(("a", "a", "b"), ("a", "a"), "a key that one record has against none"),
        )


@dataclass(frozen=True)
class GaussianHistogram(Reference):
    """Counts of the keys that occur plus N(0, 1 / (2 rho)) noise, released where they reach a threshold.

    The threshold is 1 + sigma Phi^-1(1 - delta). The mechanism is delta-approximate rho-zCDP. It groups by an
    unknown domain: nobody knows the keys beforehand (Swanberg, Desfontaines and Haney 2023; differentialprivacy.org,
    'Open problem - How generic can composition results be?'). Each record has one key. Theorem 11 of
    docs/explanation/mechanisms.md.

    >>> mechanism = GaussianHistogram(0.5, 0.01)
    >>> mechanism.sigma, round(mechanism.threshold, 3), str(mechanism.claim)
    (1.0, 3.326, '0.01-approximate 0.5-zCDP')
    >>> mechanism(("tea", "tea", 7)).counts
    (('tea', 2), (7, 1))
    """

    rho: float  # above 0
    delta: float  # probability, in (0, 1), with which a key that only one record has appears
    name: ClassVar[str] = "histogram over an unknown domain, Gaussian noise"
    adjacency = AddRemove()

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxZCDP(self.rho, self.delta),)

    @property
    def sigma(self) -> float:
        return math.sqrt(1.0 / (2.0 * self.rho))

    @property
    def threshold(self) -> float:
        return 1.0 - self.sigma * float(ndtri(self.delta))

    def __call__(self, dataset: Dataset) -> StableHistogramLaw:
        counts = sorted(Counter(dataset).items(), key=lambda item: repr(item[0]))
        return StableHistogramLaw(tuple(counts), self.sigma, self.threshold, NormalLaw)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return a pair for a count far above the threshold, and a pair for a key that a single record has.

        The count is so far above the threshold that it is always released.
        """
        crowd = ("a",) * math.ceil(self.threshold + 5.0 * self.sigma)
        return (
            DatasetPair((*crowd, "b"), (*crowd[1:], "b"), f"counts {len(crowd)} and {len(crowd) - 1} of one key"),
            DatasetPair(("a", "a", "b"), ("a", "a"), "a key that one record has against none"),
        )
