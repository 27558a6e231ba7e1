"""The sparse vector technique: say of many queries, one after the other, which lie above a noisy threshold.

The output for a vector of query answers is a vector: 1 for above, 0 for below, -1 after the mechanism has halted.
Numerical variants output the value, -inf for below, and NaN after the mechanism has halted. Laws are integrals over the
threshold's noise, by quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from epsaudit.array_types import Floats
from epsaudit.data.neighbours import DatasetPair, MaxChange
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import LaplaceLaw

IMPOSSIBLE = -1e6
"""Replaces the logarithm of 0 in sums, because a matrix product of -inf and 0 would be NaN."""
MOST_OUTCOMES = 1 << 16
SWAPPED_HALVES = DatasetPair((0,) * 5 + (1,) * 5, (1,) * 5 + (0,) * 5, "5 answers 0 then 5 answers 1, against 1 then 0")


@dataclass(frozen=True)
class SparseVectorLaw:
    """Law of which of m queries lie above the noisy threshold: rows of 1 (above), 0 (below) and -1 (not reached).

    Sampling has no limit. Raises `AuditError` when the law is asked for and has more than 65,536 outcomes.

    >>> law = SparseVectorLaw((0.0, 1.0), 2.0, 4.0)
    >>> law.support, np.exp(law.log_probabilities).round(4).tolist()
    (((0, 0), (0, 1), (1, -1)), [0.2495, 0.2505, 0.5])
    """

    answers: tuple[float, ...]  # length m: query answers minus the threshold
    # scales of the Laplace noise on the threshold and on each query; ``query_scale`` is 0 for queries without noise
    threshold_scale: float
    query_scale: float
    count: int | None = 1  # number of queries above after which the mechanism halts; None for no end
    refreshes: bool = False  # whether the threshold's noise is drawn anew after each query that lies above

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int8]:
        """Draw ``size`` outputs, shape (size, m)."""
        outputs = np.empty((size, len(self.answers)), np.int8)
        threshold = rng.laplace(0.0, self.threshold_scale, size)
        left = np.full(size, len(self.answers) if self.count is None else self.count, np.int32)
        for column, answer in enumerate(self.answers):
            above = answer + rng.laplace(0.0, self.query_scale, size) >= threshold
            active = left > 0
            above &= active
            outputs[:, column] = np.where(active, above, -1)
            left -= above
            if self.refreshes:
                threshold[above] = rng.laplace(0.0, self.threshold_scale, np.count_nonzero(above))
        return outputs

    @cached_property
    def support(self) -> tuple[tuple[int, ...], ...]:
        return outcomes(len(self.answers), self.count)

    @cached_property
    def log_probabilities(self) -> Floats:
        """Log-probability of each output of ``support``; -inf where it is below e^-700."""
        rows = np.array(self.support)
        log_p = self._by_segments(rows) if self.refreshes else self._integrate(rows == 0, rows == 1)
        return np.where(log_p < -700.0, -np.inf, log_p)

    def log_density(self, outputs: NDArray[Any] | Sequence[tuple[int, ...]]) -> Floats:
        rows = outputs if isinstance(outputs, np.ndarray) and outputs.ndim == 2 else np.array(list(outputs))
        table = dict(zip(codes(np.array(self.support)).tolist(), self.log_probabilities.tolist(), strict=True))
        found, inverse = np.unique(codes(rows), return_inverse=True)
        return np.array([table.get(code, -math.inf) for code in found.tolist()])[inverse.ravel()]

    @cached_property
    def grid(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Points z of the threshold's noise, their log-weights, and log P[below | z], log P[above | z] for each query.

        The points are those of Gauss-Legendre panels, which meet at ``edges``; the weights contain the density of z.
        Shapes are (points,) twice and (points, m) twice.
        """
        places, weights = np.polynomial.legendre.leggauss(16)
        half = np.diff(self.edges)[:, None] / 2.0
        points = (self.edges[:-1, None] + half * (1.0 + places)).ravel()
        log_weights = np.log((half * weights).ravel()) + LaplaceLaw(0.0, self.threshold_scale).log_density(points)
        distance = points[:, None] - np.array(self.answers)
        if self.query_scale == 0.0:
            below, above = (np.where(side > 0.0, 0.0, IMPOSSIBLE) for side in (distance, -distance))
            return points, log_weights, below, above
        noise = LaplaceLaw(0.0, self.query_scale)
        return points, log_weights, noise.log_cdf(distance), noise.log_cdf(-distance)

    @cached_property
    def edges(self) -> Floats:
        """Ends of the quadrature panels: kinks of the integrand, and a grid finer than every scale."""
        width = self.threshold_scale if self.query_scale == 0.0 else min(self.threshold_scale, self.query_scale)
        reach = 45.0 * self.threshold_scale
        return np.unique(np.concatenate([np.arange(-reach, reach + width, width), [0.0], self.answers]))

    def _integrate(self, below: NDArray[np.bool_], above: NDArray[np.bool_]) -> Floats:
        """Return the log-probability that the queries marked in each row fall below and above one noisy threshold."""
        _, log_weights, log_below, log_above = self.grid
        return np.array(
            [logsumexp(log_weights + log_below @ b + log_above @ a) for b, a in zip(below, above, strict=True)]
        )

    def _by_segments(self, rows: NDArray[np.int64]) -> Floats:
        """Return a product of integrals: each stretch from one query above to the next has a threshold of its own."""
        segment_of = np.cumsum(rows == 1, axis=1) - (rows == 1)
        total = np.zeros(len(rows))
        for segment in range(int(segment_of.max()) + 1):
            here = segment_of == segment
            total += self._integrate((rows == 0) & here, (rows == 1) & here)
        return total


@dataclass(frozen=True)
class NumericalSparseVectorLaw:
    """Sparse vector that releases the answers above with fresh noise; -inf is "below", and NaN "not reached"."""

    symbols: SparseVectorLaw  # which queries lie above
    answers: tuple[float, ...]  # length m: the query answers themselves
    release_scale: float  # scale of the Laplace noise on released answers

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` outputs, shape (size, m)."""
        rows = self.symbols.sample(size, rng)
        outputs = np.where(rows < 0, np.nan, -np.inf)
        above = rows == 1
        centres = np.broadcast_to(np.array(self.answers, float), rows.shape)[above]
        outputs[above] = centres + rng.laplace(0.0, self.release_scale, len(centres))
        return outputs

    def log_density(self, outputs: Floats) -> Floats:
        rows = symbols_of(outputs)
        noise = LaplaceLaw(0.0, self.release_scale)
        densities = np.where(
            rows == 1, noise.log_density(np.where(rows == 1, outputs - np.array(self.answers), 0.0)), 0
        )
        return np.asarray(self.symbols.log_density(rows) + densities.sum(axis=1))


def symbols_of(outputs: Floats) -> NDArray[np.int8]:
    """Return 1 for a released number, 0 for -inf and -1 for NaN."""
    return np.where(np.isnan(outputs), -1, np.where(np.isfinite(outputs), 1, 0)).astype(np.int8)


def codes(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return one whole number for each row of answers -1, 0 and 1, shape (size,); for up to 39 queries."""
    return np.asarray((rows.astype(np.int64) + 1) @ 3 ** np.arange(rows.shape[1], dtype=np.int64))


def outcomes(queries: int, count: int | None) -> tuple[tuple[int, ...], ...]:
    """List every output of a sparse vector on ``queries`` queries that halts after ``count`` above.

    Raises `AuditError` if there are more than 65,536 of them.

    >>> outcomes(2, 1)
    ((0, 0), (0, 1), (1, -1))
    """
    most = queries if count is None else min(count, queries)
    total = sum(math.comb(queries, above) for above in range(most + 1))
    if total > MOST_OUTCOMES:
        raise AuditError(
            f"A sparse vector on {queries} queries has {total} outcomes; at most {MOST_OUTCOMES} are listed."
        )
    rows = []
    for above in range(most + 1):
        for places in combinations(range(queries), above):
            end = places[-1] + 1 if above == count and above else queries
            rows.append(tuple((1 if i in places else 0) if i < end else -1 for i in range(queries)))
    return tuple(sorted(rows))


@dataclass(frozen=True)
class _SparseVector(Reference):
    """Base of sparse vector mechanisms; every query has sensitivity 1, and one record may change all queries.

    ``count`` is c, the number of queries above after which the mechanism halts, and ``threshold`` the threshold for the
    answers. The default pair is the pair on which Ding, Wang, Wang, Zhang and Kifer (2018) distinguish most incorrect
    variants from sound ones.
    """

    epsilon: float
    count: int = 1
    threshold: float = 1.0
    adjacency = MaxChange(1.0)
    pair: ClassVar[DatasetPair] = SWAPPED_HALVES
    wholes = {"count": (1, "count")}

    def _above(self, dataset: Any) -> tuple[float, ...]:
        return tuple(float(answer) - self.threshold for answer in dataset)


@dataclass(frozen=True)
class SparseVector1(_SparseVector):
    """Algorithm 1 of Lyu, Su and Li (2017): epsilon-DP, and tight.

    Laplace noise of scale 2 / epsilon is added once to the threshold, and of scale 4 c / epsilon to each query. The
    mechanism halts after c queries above.

    >>> mechanism = SparseVector1(0.1, threshold=0.5)
    >>> mechanism((0, 0, 1, 1)).sample(2, np.random.default_rng(0)).shape, str(mechanism.claim)
    ((2, 4), '0.1-DP')
    """

    threshold: float = 0.5
    name: ClassVar[str] = "sparse vector 1"

    def __call__(self, dataset: Any) -> SparseVectorLaw:
        return SparseVectorLaw(self._above(dataset), 2.0 / self.epsilon, 4.0 * self.count / self.epsilon, self.count)


class SparseVector2(_SparseVector):
    """Algorithm 2 of Lyu, Su and Li (2017), from Dwork and Roth (2014): epsilon-DP.

    Laplace noise of scale 2 c / epsilon is added to the threshold, and drawn anew after every query above; each query
    has noise of scale 4 c / epsilon. The mechanism halts after c queries above.

    >>> SparseVector2(0.1, count=2)((0, 1)).refreshes
    True
    """

    name: ClassVar[str] = "sparse vector 2"

    def __call__(self, dataset: Any) -> SparseVectorLaw:
        scale = 2.0 * self.count / self.epsilon
        return SparseVectorLaw(self._above(dataset), scale, 2.0 * scale, self.count, refreshes=True)


@dataclass(frozen=True)
class NumericalSparseVector(_SparseVector):
    """Sparse vector that releases the answers above with fresh noise: epsilon-DP, a third for each kind of noise.

    Lyu, Su and Li (2017), Algorithm 7 with three equal shares: Laplace noise of scale 3 / epsilon on the threshold, 6 c
    / epsilon on each query, and 3 c / epsilon, fresh, on each released answer.

    >>> NumericalSparseVector(0.1)((2, 2, 2)).sample(5, np.random.default_rng(0)).shape
    (5, 3)
    """

    count: int = 2
    name: ClassVar[str] = "numerical sparse vector"
    pair = DatasetPair((2,) * 10, (1,) * 10, "10 answers 2 against 10 answers 1")

    def __call__(self, dataset: Any) -> NumericalSparseVectorLaw:
        share = 3.0 / self.epsilon
        symbols = SparseVectorLaw(self._above(dataset), share, 2.0 * self.count * share, self.count)
        return NumericalSparseVectorLaw(symbols, tuple(map(float, dataset)), self.count * share)
