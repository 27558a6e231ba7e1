"""Sparse vector with wrong proofs (Lyu, Su and Li 2017, Algorithms 3 to 6), and vectors of noisy answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import Claim, PureDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.laws import LaplaceLaw
from epsaudit.mechanisms.sparse_vector import SparseVectorLaw, _SparseVector, codes, symbols_of
from epsaudit.mechanisms.vectors import GreatestLaw, NoisyHistogram, _Vector

UP_AND_DOWN = DatasetPair((2,) * 5 + (0,) * 5, (1,) * 10, "5 answers 2 then 5 answers 0, against 10 answers 1")
"""Half of the answers move up and half down; all of them start at the threshold."""


@dataclass(frozen=True)
class ReusedNoiseLaw:
    """Sparse vector that releases the noisy answers that it compared; -inf is "below", and NaN "not reached"."""

    symbols: SparseVectorLaw  # which queries lie above
    threshold: float  # the threshold with which the answers were compared

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` outputs, shape (size, m)."""
        law = self.symbols
        outputs = np.empty((size, len(law.answers)))
        threshold = rng.laplace(0.0, law.threshold_scale, size)
        left = np.full(size, len(law.answers) if law.count is None else law.count, np.int32)
        for column, answer in enumerate(law.answers):
            noisy = answer + rng.laplace(0.0, law.query_scale, size)
            active = left > 0
            above = (noisy >= threshold) & active
            outputs[:, column] = np.where(above, noisy + self.threshold, np.where(active, -np.inf, np.nan))
            left -= above
        return outputs

    def log_density(self, outputs: Floats) -> Floats:
        """Log of the density at each output, shape (size,), to about three digits.

        The threshold lies below every released number, so its quadrature ends at the smallest of these numbers.
        """
        rows, released = symbols_of(outputs), np.where(np.isfinite(outputs), outputs - self.threshold, np.inf)
        noise = LaplaceLaw(0.0, self.symbols.query_scale)
        distance = np.where(rows == 1, released - np.array(self.symbols.answers), 0.0)
        densities = np.where(rows == 1, noise.log_density(distance), 0.0).sum(axis=1)
        _, first, inverse = np.unique(codes(rows), return_index=True, return_inverse=True)
        least, result = released.min(axis=1), np.empty(len(rows))
        for place, row in enumerate(first):
            here = inverse.ravel() == place
            result[here] = self._log_chance(rows[row], least[here])
        return np.asarray(result + densities)

    def _log_chance(self, pattern: NDArray[np.int8], least: Floats) -> Floats:
        """Return the log-probability that the threshold is below ``least`` and above all queries marked 0."""
        points, log_weights, log_below, _ = self.symbols.grid
        cumulative = np.logaddexp.accumulate(log_weights + log_below @ (pattern == 0))
        middles = np.append((points[:-1] + points[1:]) / 2.0, points[-1])  # each weight is spread around its point
        return np.interp(least, middles, cumulative, left=-np.inf)


class SparseVector3(_SparseVector):
    """Algorithm 3, from Roth's lecture notes (2011), which releases the noisy answer that it compared.

    No epsilon is finite: with c = 1 and all answers 0 against all answers 1, the loss of m refusals followed by the
    value 0 is m epsilon / 2.
    """

    name: ClassVar[str] = "sparse vector 3"
    # nine refusals, and the low value that follows them, are both likelier where all answers are lower
    pair = DatasetPair((0,) * 10, (1,) * 10, "10 answers 0 against 10 answers 1")

    def __call__(self, dataset: Any) -> ReusedNoiseLaw:
        symbols = SparseVectorLaw(self._above(dataset), 2.0 / self.epsilon, 2.0 * self.count / self.epsilon, self.count)
        return ReusedNoiseLaw(symbols, self.threshold)


class SparseVector4(_SparseVector):
    """Algorithm 4, from Lee and Clifton (2014), whose noise ignores c.

    The true privacy loss is (1 + 6 c) / 4 epsilon.
    """

    name: ClassVar[str] = "sparse vector 4"
    pair = UP_AND_DOWN

    @property
    def truth(self) -> Claim:
        """The claim that can be proven: Lyu, Su and Li (2017), Section 3.3."""
        return PureDP((1.0 + 6.0 * self.count) / 4.0 * self.epsilon)

    def __call__(self, dataset: Any) -> SparseVectorLaw:
        return SparseVectorLaw(self._above(dataset), 4.0 / self.epsilon, 4.0 / (3.0 * self.epsilon), self.count)


class SparseVector5(_SparseVector):
    """Algorithm 5, from Stoddard et al. (2014), which adds no noise to the queries and never stops.

    No epsilon is finite.
    """

    name: ClassVar[str] = "sparse vector 5"
    pair = UP_AND_DOWN

    def __call__(self, dataset: Any) -> SparseVectorLaw:
        return SparseVectorLaw(self._above(dataset), 2.0 / self.epsilon, 0.0, None)


class SparseVector6(_SparseVector):
    """Algorithm 6, from Chen, Xiao, Zhang and Xu (2015), whose noise ignores c and which never stops.

    No epsilon is finite.
    """

    name: ClassVar[str] = "sparse vector 6"
    pair = UP_AND_DOWN

    def __call__(self, dataset: Any) -> SparseVectorLaw:
        return SparseVectorLaw(self._above(dataset), 2.0 / self.epsilon, 2.0 / self.epsilon, None)


class NoisyHistogramUpsideDown(NoisyHistogram):
    """Noise of scale epsilon in place of 1 / epsilon: the truth is 1 / epsilon-DP, which is 10 at epsilon = 0.1."""

    name: ClassVar[str] = "noisy histogram, scale upside down"

    @property
    def scale(self) -> float:
        return self.epsilon


@dataclass(frozen=True)
class ValueOfMax(_Vector):
    """The greatest noisy answer itself, released in place of its index, with noise of scale 2 / epsilon.

    'Report noisy max 3' and '4' of Ding, Wang, Wang, Zhang and Kifer (2018). With Laplace noise the true privacy loss
    is d epsilon / 2. With exponential noise no epsilon is finite, because values below all answers are impossible.
    """

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
    """Sparse vector 3 and sparse vector 4 on one input: both outputs are released, for the epsilon of one."""

    count: int = 2
    name: ClassVar[str] = "sparse vector 3 and 4 in parallel"
    pair = UP_AND_DOWN.swapped()

    def __call__(self, dataset: Any) -> SideBySideLaw:
        arguments = (self.epsilon, self.count, self.threshold)
        return SideBySideLaw(SparseVector3(*arguments)(dataset), SparseVector4(*arguments)(dataset))
