"""Vectors of noisy answers gone wrong: the scale turned upside down, the value released, two mechanisms in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.broken.sparse_vector import UP_AND_DOWN, ReusedNoiseLaw, SparseVector3, SparseVector4
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.sparse_vector import SparseVectorLaw, _SparseVector
from epsaudit.mechanisms.vectors import GreatestLaw, NoisyHistogram, _Vector


class NoisyHistogramUpsideDown(NoisyHistogram):
    """Noise of scale epsilon where 1 / epsilon is meant: 1 / epsilon-DP in truth, 10 at epsilon = 0.1."""

    name: ClassVar[str] = "noisy histogram, scale upside down"

    @property
    def scale(self) -> float:
        """The slip."""
        return self.epsilon


@dataclass(frozen=True)
class ValueOfMax(_Vector):
    """The greatest noisy answer itself in place of its index, with noise of scale 2 / epsilon.

    'Report noisy max 3' (Laplace noise: d epsilon / 2 in truth for d answers) and '4' (exponential noise: no finite
    epsilon, as values below all answers are impossible) of Ding, Wang, Wang, Zhang and Kifer (2018).

    Examples
    --------
    >>> ValueOfMax(1.0)((1, 0)).scale
    2.0
    """

    epsilon: float
    noise: str = "laplace"  # 'laplace' or 'exponential'
    name: ClassVar[str] = "report noisy max, value"
    pair = DatasetPair((0,) * 5, (1,) * 5, "5 answers 0 against 1")  # all answers rise

    def __call__(self, dataset: Any) -> GreatestLaw:
        return GreatestLaw(tuple(map(float, dataset)), 2.0 / self.epsilon, self.noise)


@dataclass(frozen=True)
class SideBySideLaw:
    """Two outputs of independent runs on one input, side by side."""

    first: ReusedNoiseLaw
    second: SparseVectorLaw

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` outputs, shape (size, 2 m)."""
        return np.column_stack([self.first.sample(size, rng), self.second.sample(size, rng).astype(float)])

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        m = len(self.second.answers)
        return self.first.log_density(outputs[:, :m]) + self.second.log_density(outputs[:, m:])


@dataclass(frozen=True)
class SideBySide(_SparseVector):
    """Sparse vector 3 and sparse vector 4 on one input, both outputs released; claimed as if free."""

    count: int = 2
    name: ClassVar[str] = "sparse vector 3 and 4 in parallel"
    pair = UP_AND_DOWN.swapped()

    def __call__(self, dataset: Any) -> SideBySideLaw:
        arguments = (self.epsilon, self.count, self.threshold)
        return SideBySideLaw(SparseVector3(*arguments)(dataset), SparseVector4(*arguments)(dataset))
