"""The median with noise scaled to its smooth sensitivity: Cauchy noise for pure, Laplace noise for approximate DP.

From records in an interval it releases a noisy median. Smooth sensitivity is the least bound on the local sensitivity
whose logarithm moves by at most beta between neighbours, so that the scale of the noise reveals little.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.claims.conversions import root
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import Floats, LaplaceLaw, LocationLaw
from epsaudit.mechanisms.queries import Dataset
from epsaudit.mechanisms.stability import StableMedian

_UNDERFLOW = 745.0  # e to minus this is 0 in double precision


class CauchyLaw(LocationLaw):
    """Cauchy law with the given centre and scale, its half-width at half height; it has no mean.

    Examples
    --------
    >>> np.exp(CauchyLaw(0.0, 1.0).log_density(np.array([0.0, 1.0])) + math.log(math.pi)).round(6).tolist()
    [1.0, 0.5]
    """

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        return self.centre + self.scale * rng.standard_cauchy(size)

    def log_density(self, outputs: ArrayLike) -> Floats:
        z = (np.asarray(outputs, float) - self.centre) / self.scale
        return np.asarray(-2.0 * np.log(np.hypot(1.0, z)) - math.log(math.pi * self.scale))


def smooth_sensitivity(median: StableMedian, dataset: Dataset, beta: float) -> float:
    """Smooth sensitivity of the median: the greatest e^(-beta k) LS over datasets k substitutions away.

    Nissim, Raskhodnikova and Smith (2007), Proposition 3.4: the maximum over i <= m <= j of (x_j - x_i) e^(-beta (j - i
    - 1)), records beyond the data standing at the ends of the interval. Only windows short enough to beat the local
    sensitivity are looked at.

    Parameters
    ----------
    median : StableMedian
        The interval of the records; it must be finite.
    dataset : sequence of float
        At least one record.
    beta : float
        Smoothness, above 0.

    Raises `AuditError` if the interval is infinite.

    Examples
    --------
    >>> smooth_sensitivity(StableMedian(0.0, 1.0), (0.0, 0.5, 1.0), beta=1.0)
    0.5
    >>> round(smooth_sensitivity(StableMedian(0.0, 1.0), (0.5,) * 3, beta=1.0), 6)  # two steps out: LS is then 1
    0.18394
    """
    if math.isinf(median.lower) or math.isinf(median.upper):
        raise AuditError(f"The interval is [{median.lower}, {median.upper}]; smooth sensitivity needs a finite one.")
    extended = np.concatenate([[median.lower], median.ordered(dataset), [median.upper]])
    middle = (len(extended) - 1) // 2
    below, above = extended[middle::-1], extended[middle:]
    nearest = max(above[1] - above[0], below[0] - below[1], (above[-1] - below[-1]) * math.exp(-beta * len(dataset)))
    greatest = math.log((median.upper - median.lower) / nearest) if nearest > 0.0 else math.inf
    windows = 2 + math.floor(min(max(greatest, 0.0), _UNDERFLOW) / beta)
    above, below = above[: windows + 1], below[: windows + 1]
    with np.errstate(under="ignore"):
        shrunk = np.exp(-beta * (np.arange(len(above) + len(below)) - 1.0))
        return float(max(np.max((above - low) * shrunk[i : i + len(above)]) for i, low in enumerate(below)))


class _SmoothMedian(Reference):
    """What both share: noise around the median, of a scale in proportion to its smooth sensitivity."""

    median: StableMedian
    epsilon: float

    @property
    def adjacency(self) -> Adjacency:
        return self.median.adjacency

    @property
    @abstractmethod
    def shift(self) -> float:
        """Loss spent on the answer: the scale of the noise is the smooth sensitivity over this."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """beta: the most by which the logarithm of the scale moves between neighbours."""

    def scale(self, dataset: Any) -> float:
        return smooth_sensitivity(self.median, dataset, self.smoothness) / self.shift


@dataclass(frozen=True)
class SmoothMedianCauchy(_SmoothMedian):
    """Cauchy noise scaled to the smooth sensitivity: epsilon-DP (Nissim, Raskhodnikova and Smith 2007).

    A sixth of the noise of their Lemma 2.7, as the loss is computed instead of bounded: Theorem 4 of
    docs/explanation/mechanisms.md, with alpha = ``shift`` and beta = ``smoothness``.

    Examples
    --------
    >>> mechanism = SmoothMedianCauchy(StableMedian(0.0, 1.0), epsilon=1.0)
    >>> law = mechanism((0.0, 0.5, 1.0))
    >>> law.centre, round(law.scale, 4), str(mechanism.claim)
    (0.5, 0.582, '1-DP')
    """

    median: StableMedian  # in a finite interval
    epsilon: float
    name: ClassVar[str] = "median, Cauchy noise at smooth sensitivity"

    @property
    def shift(self) -> float:
        """alpha of the class."""
        still = math.cosh(self.epsilon) - 1.0
        moving = math.exp(self.smoothness) * (math.cosh(self.epsilon) - math.cosh(self.smoothness))
        return math.sqrt(2.0 * min(still, moving))

    @property
    def smoothness(self) -> float:
        """Half of epsilon."""
        return self.epsilon / 2.0

    def __call__(self, dataset: Any) -> CauchyLaw:
        return CauchyLaw(self.median(dataset), self.scale(dataset))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One record at either end: the answer moves by the whole smooth sensitivity, and the scale stays."""
        return (DatasetPair((self.median.lower,), (self.median.upper,), "one record at either end"),)


@dataclass(frozen=True)
class SmoothMedianLaplace(_SmoothMedian):
    """Laplace noise scaled to the smooth sensitivity: (epsilon, delta)-DP (Nissim, Raskhodnikova and Smith 2007).

    Scale 2 S / epsilon, S smooth at the beta that solves log(1 / delta) (e^beta - 1) - beta = epsilon / 2, more than
    that of their Lemma 2.9: Theorem 5 of docs/explanation/mechanisms.md.

    Examples
    --------
    >>> mechanism = SmoothMedianLaplace(StableMedian(0.0, 1.0), epsilon=2.0, delta=0.01)
    >>> mechanism((0.0, 0.0, 1.0)), round(mechanism.smoothness, 4)
    (LaplaceLaw(centre=0.0, scale=1.0), 0.2381)
    """

    median: StableMedian  # in a finite interval
    epsilon: float
    delta: float  # in (0, 1/4]
    name: ClassVar[str] = "median, Laplace noise at smooth sensitivity"

    def __post_init__(self) -> None:
        super().__post_init__()
        if fraction(self.delta, "delta", open_below=True) > 0.25:
            raise AuditError(f"delta is {self.delta!r}; it must be at most 1/4.")

    @property
    def shift(self) -> float:
        """Half of epsilon."""
        return self.epsilon / 2.0

    @cached_property
    def _smoothness(self) -> float:
        far = math.log(1.0 / self.delta)

        def excess(beta: float) -> float:
            return far * math.expm1(beta) - beta - self.epsilon / 2.0

        return min(float(root(excess, 0.0, self.epsilon + 1.0, xtol=1e-14)), self.epsilon / 2.0)

    @property
    def smoothness(self) -> float:
        return self._smoothness

    def __call__(self, dataset: Any) -> LaplaceLaw:
        return LaplaceLaw(self.median(dataset), self.scale(dataset))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One record: the answer moves by the whole smooth sensitivity of x, which is e^-beta of that of x'."""
        width = self.median.upper - self.median.lower
        near = self.median.lower - math.expm1(-self.smoothness) * width
        return (DatasetPair((near,), (self.median.upper,), f"one record at {near:.4g} against {self.median.upper:g}"),)
