"""Vectors of noisy answers: noisy histograms, running sums, many copies in parallel, and the greatest noisy answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import Claim, PureDP
from epsaudit.data.neighbours import Adjacency, DatasetPair, MaxChange
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import LaplaceLaw
from epsaudit.mechanisms.selection import NoisyMaxLaw


@dataclass(frozen=True)
class LaplaceVectorLaw:
    """Independent Laplace noise around each of d centres, or the running sums of the noisy coordinates."""

    centres: tuple[float, ...]
    scale: float
    running: bool = False

    @property
    def parts(self) -> tuple[LaplaceLaw, ...]:
        """Law of each noisy coordinate. Running sums have the same loss, since they are a change of variables."""
        return tuple(LaplaceLaw(centre, self.scale) for centre in self.centres)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` outputs, shape (size, d)."""
        noisy = rng.laplace(self.centres, self.scale, (size, len(self.centres)))
        return np.cumsum(noisy, axis=1) if self.running else noisy

    def log_density(self, outputs: Floats) -> Floats:
        """Log of the density at each output, shape (size,); running sums have Jacobian 1."""
        noisy = np.diff(outputs, axis=1, prepend=0.0) if self.running else outputs
        distance = np.abs(noisy - np.array(self.centres)).sum(axis=1)
        return np.asarray(-distance / self.scale - len(self.centres) * math.log(2.0 * self.scale))


@dataclass(frozen=True)
class GreatestLaw:
    """Law of the greatest of independent noisy answers around ``centres``; ``noise`` is 'laplace' or 'exponential'."""

    centres: tuple[float, ...]
    scale: float
    noise: str

    @property
    def knots(self) -> tuple[float, ...]:
        return tuple(sorted(set(self.centres)))

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        draw: Callable[..., Floats] = getattr(rng, self.noise)
        greatest = np.full(size, -np.inf)
        for centre in self.centres:
            np.maximum(greatest, centre + draw(scale=self.scale, size=size), out=greatest)
        return greatest

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        z = (np.asarray(outputs, float)[..., None] - np.array(self.centres)) / self.scale
        if self.noise == "laplace":
            law = LaplaceLaw(0.0, 1.0)
            here, below = law.log_density(z), law.log_cdf(z)
        else:
            with np.errstate(divide="ignore"):
                here = np.where(z >= 0.0, -z, -np.inf)
                below = np.where(z > 0.0, np.log(-np.expm1(-np.maximum(z, 0.0))), -np.inf)
        total = np.full(z.shape[:-1], -np.inf)
        for i in range(z.shape[-1]):
            total = np.logaddexp(total, here[..., i] + np.delete(below, i, axis=-1).sum(axis=-1))
        return np.asarray(total - math.log(self.scale))


@dataclass(frozen=True)
class _Vector(Reference):
    """Base of mechanisms on vectors: each answer may change by 1, in any direction, unless a mechanism says less."""

    epsilon: float
    adjacency = MaxChange(1.0)


@dataclass(frozen=True)
class OneCount(Adjacency):
    """Adjacency of vectors of counts, one of which differs by one."""

    description = "one count, by one"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return len(x) == len(x_prime) and sum(abs(a - b) for a, b in zip(x, x_prime, strict=True)) == 1

    def __str__(self) -> str:
        return "one count changes by one"


class NoisyHistogram(_Vector):
    """Laplace noise of scale 1 / epsilon on every count; a record changes one count by one: epsilon-DP.

    >>> NoisyHistogram(0.5)((3, 1))
    LaplaceVectorLaw(centres=(3.0, 1.0), scale=2.0, running=False)
    """

    name: ClassVar[str] = "noisy histogram"
    adjacency = OneCount()
    # which count changes does not matter
    pair = DatasetPair((0, 1, 1, 1, 1), (1, 1, 1, 1, 1), "one more record in the first of 5 groups")

    @property
    def scale(self) -> float:
        return 1.0 / self.epsilon

    def __call__(self, dataset: Any) -> LaplaceVectorLaw:
        return LaplaceVectorLaw(tuple(map(float, dataset)), self.scale)


@dataclass(frozen=True)
class RunningSums(_Vector):
    """Running sums of values with Laplace noise of scale 1 / epsilon each: d epsilon-DP if d values may change.

    >>> print(RunningSums(0.1, values=10).claim)
    1-DP
    """

    values: int = 10  # d, the number of values; epsilon is the privacy loss for each
    name: ClassVar[str] = "prefix sum"

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (PureDP(self.epsilon * self.values),)

    def __call__(self, dataset: Any) -> LaplaceVectorLaw:
        return LaplaceVectorLaw(tuple(map(float, dataset)), 1.0 / self.epsilon, running=True)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (DatasetPair((1,) * self.values, (0,) * self.values, f"{self.values} values 1 against 0"),)


@dataclass(frozen=True)
class ParallelLaplace(_Vector):
    """Copies of one number, each with independent Laplace noise of scale copies / epsilon: epsilon-DP in total."""

    copies: int = 20  # number of copies
    name: ClassVar[str] = "Laplace in parallel"
    pair = DatasetPair(0, 1)  # two numbers, one apart

    def __call__(self, dataset: Any) -> LaplaceVectorLaw:
        return LaplaceVectorLaw((float(dataset),) * self.copies, self.copies / self.epsilon)


@dataclass(frozen=True)
class IndexOfMax(_Vector):
    """Index of the greatest noisy answer, with noise of scale 2 / epsilon: epsilon-DP.

    'Report noisy max 1' (Laplace) and '2' (exponential noise) of Ding, Wang, Wang, Zhang and Kifer (2018).

    >>> np.exp(IndexOfMax(1.0)((1, 0)).log_probabilities).round(4).tolist()
    [0.6209, 0.3791]
    """

    noise: str = "laplace"  # 'laplace' or 'exponential'
    name: ClassVar[str] = "report noisy max, index"
    # the first answer falls and all others rise
    pair = DatasetPair((1,) * 5, (0, 2, 2, 2, 2), "5 answers 1, against 0 and four answers 2")

    def __call__(self, dataset: Any) -> NoisyMaxLaw:
        scores = np.asarray(dataset, float) * self.epsilon / 2.0
        return NoisyMaxLaw(tuple(range(len(scores))), scores, self.noise)
