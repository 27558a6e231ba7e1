"""Binary search on noisy losses, as an output distribution: run for a million lanes at once, and known exactly.

From a prepared loss, a threshold and a noise law it draws outputs. Y is addressed by 64-bit index and never listed
unless it is small; only this module counts in unsigned integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.errors import AuditError
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.queries import Indices, LossCurve, MonotoneQuery

ONE = np.uint64(1)


class Noise(Protocol):
    """A law that can be drawn from and knows its distribution function."""

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]: ...

    def log_cdf(self, outputs: ArrayLike) -> Floats: ...


def comparisons(candidates: int) -> int:
    """Greatest number of comparisons that binary search makes to tell this many candidates apart.

    An interval of n candidates is cut into floor(n/2) and ceil(n/2), so T(n) = 1 + T(ceil(n/2)), T(1) = 0.

    Examples
    --------
    >>> comparisons(6), comparisons(2**64)
    (3, 64)
    """
    if candidates < 1:
        raise AuditError(f"A search among {candidates} candidates is impossible; there must be at least one.")
    return 0 if candidates == 1 else 1 + comparisons((candidates + 1) // 2)


def fits_a_table(candidates: int) -> bool:
    """Whether a law on this many candidates is worth listing: up to 2^16."""
    return candidates <= 2**16


@dataclass(frozen=True, eq=False)
class SearchLaw:
    """Output of the search for the least y with loss(y) + noise <= tau, among the last ``candidates`` outputs of Y.

    The interval under consideration is (i_max - n, i_max] in the source's notation, n candidates: each comparison at
    index i_max - ceil(n/2) moves i_max there if the noisy loss is at most tau, and i_min there otherwise.

    Examples
    --------
    >>> from epsaudit.mechanisms.laws import NormalLaw
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> query = Maximum(range(2**64))
    >>> law = SearchLaw(query, query.loss((5,) * 100), query.size, tau=50.0, noise=NormalLaw(0.0, 1.0))
    >>> law.sample(2, np.random.default_rng(0)).tolist()
    [5, 5]
    """

    query: MonotoneQuery  # names the outputs
    loss: LossCurve  # ``loss(indices) -> losses``, both shape (m,), the indices of dtype uint64
    candidates: int  # between 1 and |Y|
    tau: float  # threshold, in records
    noise: Noise  # added to each loss, independently, symmetric about 0, no atom at tau less a loss

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw ``size`` outputs, shape (size,), by running the search in every lane."""
        state = _Lanes.start(size, self.query.size, self.candidates)
        for _ in range(comparisons(self.candidates)):
            middle = state.middle()
            noisy = self.loss(middle) + self.noise.sample(size, rng)
            state.step(middle, noisy <= self.tau)
        return self.query.outputs_at(state.last)

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        """Log-probability of each output, shape (size,): one path down the tree of comparisons."""
        target, possible = self.query.indices_of(np.asarray(outputs))
        possible = possible & (target >= np.uint64(self.query.size - self.candidates))
        state = _Lanes.start(len(target), self.query.size, self.candidates)
        log_p = np.zeros(len(target))
        for _ in range(comparisons(self.candidates)):
            middle = state.middle()
            margin = self.tau - self.loss(middle)
            left = target <= middle
            # both noises are symmetric about 0: P[noise > margin] = P[noise <= -margin]
            log_p += np.where(state.open, self.noise.log_cdf(np.where(left, margin, -margin)), 0.0)
            state.step(middle, left)
        return np.where(possible, log_p, -np.inf)


@dataclass(frozen=True, eq=False)
class TabulatedSearchLaw(SearchLaw):
    """A `SearchLaw` on a Y small enough to list, which therefore counts as a finite law.

    Examples
    --------
    >>> from epsaudit.mechanisms.laws import LaplaceLaw
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> query = Maximum((0, 1))
    >>> law = TabulatedSearchLaw(query, query.loss((1,)), candidates=2, tau=1.0, noise=LaplaceLaw(0.0, 1.0))
    >>> law.support, np.exp(law.log_probabilities).tolist()
    ((0, 1), [0.5, 0.5])
    """

    @cached_property
    def support(self) -> tuple[Any, ...]:
        """The outputs that can be returned, in increasing order."""
        return tuple(self.query.outputs[self.query.size - self.candidates :].tolist())

    @cached_property
    def log_probabilities(self) -> Floats:
        return self.log_density(np.array(self.support))


@dataclass
class _Lanes:
    """Intervals of candidates, one a lane: index of the last one, and how many there are less one.

    Counting less one lets 2^64 candidates fit into 64 bits.
    """

    last: Indices
    others: Indices

    @classmethod
    def start(cls, lanes: int, size: int, candidates: int) -> _Lanes:
        return cls(np.full(lanes, size - 1, dtype=np.uint64), np.full(lanes, candidates - 1, dtype=np.uint64))

    @property
    def open(self) -> NDArray[np.bool_]:
        """Lanes with more than one candidate left."""
        return self.others > 0

    def middle(self) -> Indices:
        """Index that each lane compares at: the last of its left half, itself where nothing is left to compare."""
        right = self.others // np.uint64(2) + ONE
        return np.where(self.open, self.last - right, self.last)

    def step(self, middle: Indices, left: NDArray[np.bool_]) -> None:
        """Keep the left or the right half in every open lane."""
        right_others = self.others // np.uint64(2)
        left_others = self.others - right_others - ONE
        left = left & self.open
        self.last = np.where(left, middle, self.last)
        self.others = np.where(self.open, np.where(left, left_others, right_others), self.others)
