"""Laws of binary searches on noisy losses: millions of runs in parallel, and exact laws where Y is small.

Y is addressed by 64-bit index and never listed unless it is small. A *lane* is one run of a search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.array_types import Bools, Floats
from epsaudit.errors import AuditError
from epsaudit.mechanisms.laws import FiniteLaw, NormalLaw
from epsaudit.mechanisms.queries import Indices, LossCurve, MonotoneQuery

ONE = np.uint64(1)


class Noise(Protocol):
    """A law that can be sampled and knows its distribution function."""

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]: ...

    def log_cdf(self, outputs: ArrayLike) -> Floats: ...


def comparisons(candidates: int) -> int:
    """Return the greatest number of comparisons of a binary search among ``candidates`` candidates.

    An interval of n candidates is cut into floor(n/2) and ceil(n/2), so T(n) = 1 + T(ceil(n/2)), T(1) = 0.

    >>> comparisons(6), comparisons(2**64)
    (3, 64)
    """
    if candidates < 1:
        raise AuditError(f"A search among {candidates} candidates is impossible; there must be at least one.")
    return 0 if candidates == 1 else 1 + comparisons((candidates + 1) // 2)


def fits_a_table(candidates: int) -> bool:
    """Return whether a law on this many candidates may be listed: up to 2^16."""
    return candidates <= 2**16


@dataclass(frozen=True, eq=False)
class SearchLaw:
    """Output of the search for the least y with loss(y) + noise <= tau, among the last ``candidates`` outputs of Y.

    The interval under consideration is (i_max - n, i_max] in the source's notation, with n candidates. Each comparison
    at index i_max - ceil(n/2) moves i_max to this index if the noisy loss is at most tau, and i_min otherwise.
    """

    query: MonotoneQuery  # defines the outputs
    loss: LossCurve  # ``loss(indices) -> losses``, both shape (m,), the indices of dtype uint64
    candidates: int  # between 1 and |Y|
    tau: float  # threshold, in records
    noise: Noise  # added to each loss, independently, symmetric about 0, no atom at tau less a loss

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
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
    """A `SearchLaw` on a Y small enough to list, which makes the law finite."""

    @cached_property
    def support(self) -> tuple[Any, ...]:
        return tuple(self.query.outputs[self.query.size - self.candidates :].tolist())

    @cached_property
    def log_probabilities(self) -> Floats:
        return self.log_density(np.array(self.support))


@dataclass
class _Lanes:
    """Intervals of candidates, one per lane: index of the last candidate, and the number of candidates minus one.

    Storing the number minus one lets 2^64 candidates fit into 64 bits.
    """

    last: Indices
    others: Indices

    @classmethod
    def start(cls, lanes: int, size: int, candidates: int) -> _Lanes:
        return cls(np.full(lanes, size - 1, dtype=np.uint64), np.full(lanes, candidates - 1, dtype=np.uint64))

    @property
    def open(self) -> NDArray[np.bool_]:
        return self.others > 0

    def middle(self) -> Indices:
        """Index at which each lane compares: the last of its left half, or its only candidate."""
        right = self.others // np.uint64(2) + ONE
        return np.where(self.open, self.last - right, self.last)

    def step(self, middle: Indices, left: NDArray[np.bool_]) -> None:
        right_others = self.others // np.uint64(2)
        left_others = self.others - right_others - ONE
        left = left & self.open
        self.last = np.where(left, middle, self.last)
        self.others = np.where(self.open, np.where(left, left_others, right_others), self.others)


# beliefs that should sum to exactly 1/2 differ from it by rounding, which must not decide the median
HALF = 0.5 - 1e-10


def fits_a_list(size: int, rounds: int) -> bool:
    """Return whether the law can be enumerated: at most three outputs and 40 rounds."""
    return size <= 3 and rounds <= 40


@dataclass(frozen=True, eq=False)
class TolerantLaw:
    """Output of `epsaudit.mechanisms.down_sensitivity.TolerantSearch` on one dataset."""

    query: MonotoneQuery  # defines the outputs
    loss: LossCurve  # ``loss(indices) -> losses``, both shape (m,), the indices of dtype uint64
    tau: float  # threshold, in records
    noise: NormalLaw  # added to each loss, independently, centred at 0
    rounds: int  # number of comparisons
    assumed_error: float  # q, the factor of beliefs on the side that a comparison speaks against, before normalisation

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        lanes = max(1, 2**22 // (self.rounds + min(self.query.size, self.rounds)))
        starts = range(0, size, lanes)
        parts = [self._run(min(lanes, size - start), rng) for start in starts]
        indices = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)
        return self.query.outputs_at(indices)

    def _run(self, lanes: int, rng: np.random.Generator) -> Indices:
        last = np.uint64(self.query.size - 1)
        listed = self.query.size <= self.rounds
        beliefs = _Beliefs.listed(lanes, self.query.size) if listed else _Beliefs.uniform(lanes, self.query.size)
        medians = np.empty((self.rounds, lanes), dtype=np.uint64)
        for step in range(self.rounds):
            medians[step], below, at = beliefs.median()
            earlier = rng.random(lanes) * at < below + at - 0.5
            place = medians[step] - earlier.astype(np.uint64)  # wraps round where the median is the first output
            noisy = self.loss(np.minimum(place, last)) + self.noise.sample(lanes, rng)
            informative = place < last
            beliefs.update(np.where(informative, place, 0), noisy <= self.tau, informative, self.assumed_error)
        middle = (self.rounds - 1) // 2
        return np.asarray(np.partition(medians, middle, axis=0)[middle])


@dataclass(frozen=True, eq=False)
class ListedTolerantLaw(TolerantLaw):
    """A `TolerantLaw` on a Y so small that all histories can be followed, which makes the law finite.

    Histories merge: beliefs depend on the difference of the numbers of 'left' and 'right' at each comparison, and the
    output depends on the number of rounds in which the median was at most each output.
    """

    @property
    def support(self) -> tuple[Any, ...]:
        return tuple(self.query.outputs.tolist())

    @property
    def log_probabilities(self) -> Floats:
        return self._law.log_probabilities

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        return self._law.log_density(outputs)

    @cached_property
    def _law(self) -> FiniteLaw:
        size = self.query.size
        left = np.exp(self.noise.log_cdf(self.tau - self.loss(np.arange(size - 1, dtype=np.uint64))))
        states, chances = np.zeros((1, 2 * (size - 1)), dtype=np.int64), np.ones(1)
        for _ in range(self.rounds):
            states, chances = self._round(states, chances, left)
        most_below = states[:, size - 1 :] > (self.rounds - 1) // 2
        output = size - 1 - most_below.sum(axis=1)
        with np.errstate(divide="ignore"):
            return FiniteLaw(self.support, np.log(np.bincount(output, chances, minlength=size)))

    def _round(self, states: NDArray[np.int64], chances: Floats, left: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Return the states after one round, up to four for each state (net answers, counts of medians)."""
        size = self.query.size
        cumulative = self._beliefs(states[:, : size - 1])
        median = np.argmax(cumulative >= HALF, axis=1)
        rows = np.arange(len(states))
        upto = cumulative[rows, median]
        below = np.where(median > 0, cumulative[rows, median - 1], 0.0)
        earlier = np.clip((upto - 0.5) / (upto - below), 0.0, 1.0)
        moved = states.copy()
        moved[:, size - 1 :] += median[:, None] <= np.arange(size - 1)
        branches, weights = [], []
        for place, share in ((median - 1, earlier), (median, 1.0 - earlier)):
            informative = (place >= 0) & (place < size - 1)
            inside = np.where(informative, place, 0)
            for answer, chance in ((1, left[inside]), (-1, 1.0 - left[inside])):
                branch = moved.copy()
                branch[rows, inside] += answer * informative
                branches.append(branch)
                weights.append(chances * share * np.where(informative, chance, 0.5))
        states, chances = np.concatenate(branches), np.concatenate(weights)
        states, chances = states[chances > 0.0], chances[chances > 0.0]
        base = 2 * self.rounds + 1  # above all entries: equal states have equal keys, and are added up
        keys = (states + base) @ (2 * base) ** np.arange(states.shape[1], dtype=np.int64)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        return states[first], np.asarray(np.bincount(inverse, chances), float)

    def _beliefs(self, net: NDArray[np.int64]) -> Floats:
        """Return the belief up to each output, shape (states, size), from 'left' minus 'right' answers."""
        before = np.cumsum(np.pad(net, ((0, 0), (1, 0))), axis=1)
        logs = 0.5 * math.log((1.0 - self.assumed_error) / self.assumed_error) * (before[:, -1:] - 2 * before)
        beliefs = np.exp(logs - logs.max(axis=1, keepdims=True))
        cumulative = np.cumsum(beliefs, axis=1)
        return np.asarray(cumulative / cumulative[:, -1:])


@dataclass
class _Beliefs:
    """Piecewise constant beliefs, one row per lane: last index of each piece, its length, and its belief per output."""

    ends: Indices
    lengths: Floats
    densities: Floats
    splits: bool

    @classmethod
    def uniform(cls, lanes: int, size: int) -> _Beliefs:
        """Return one piece with all outputs, which comparisons will split."""
        ends = np.full((lanes, 1), size - 1, dtype=np.uint64)
        return cls(ends, np.full((lanes, 1), float(size)), np.full((lanes, 1), 1.0 / size), splits=True)

    @classmethod
    def listed(cls, lanes: int, size: int) -> _Beliefs:
        ends = np.broadcast_to(np.arange(size, dtype=np.uint64), (lanes, size))
        return cls(ends, np.broadcast_to(1.0, (lanes, size)), np.full((lanes, size), 1.0 / size), splits=False)

    def median(self) -> tuple[Indices, Floats, Floats]:
        """Return the median output of each lane, the belief below it, and the belief in it."""
        rows = np.arange(len(self.ends))
        cumulative = np.cumsum(self.densities * self.lengths if self.splits else self.densities, axis=1)
        piece = np.argmax(cumulative >= HALF, axis=1)
        density, length = self.densities[rows, piece], self.lengths[rows, piece]
        before = np.where(piece > 0, cumulative[rows, piece - 1], 0.0)
        if not self.splits:
            return self.ends[rows, piece], before, density
        inside = np.clip(np.ceil((HALF - before) / density), 1.0, length)
        # lengths beyond 2^53 are rounded: distances from the piece's end that do not fit are cut off
        from_end = np.minimum(length - inside, 2.0**64 - 2049.0).astype(np.uint64)
        ends = self.ends[rows, piece]
        spare = np.where(piece > 0, ends - self.ends[rows, piece - 1] - ONE, ends)  # the length minus one, exactly
        median = ends - np.minimum(from_end, spare)
        return median, before + (inside - 1.0) * density, density

    def update(self, places: Indices, left: Bools, informative: Bools, assumed_error: float) -> None:
        """Multiply the beliefs up to each lane's place, and the beliefs above, by the factors of the answer."""
        upto = self._split(places) if self.splits else self.ends <= places[:, None]
        factors = np.where(upto == left[:, None], 1.0 - assumed_error, assumed_error)
        self.densities = self.densities * np.where(informative[:, None], factors, 1.0)
        masses = self.densities * self.lengths if self.splits else self.densities
        self.densities /= masses.sum(axis=1, keepdims=True)

    def _split(self, places: Indices) -> Bools:
        """Make each lane's place the end of a piece, and return which pieces are up to the place."""
        position = (self.ends < places[:, None]).sum(axis=1)
        columns = np.arange(self.ends.shape[1] + 1)
        source = columns - (columns > position[:, None])
        self.ends = np.take_along_axis(self.ends, source, axis=1)
        self.densities = np.take_along_axis(self.densities, source, axis=1)
        rows = np.arange(len(places))
        self.ends[rows, position] = places
        starts = np.concatenate([np.zeros((len(places), 1), dtype=np.uint64), self.ends[:, :-1] + ONE], axis=1)
        self.lengths = (self.ends - starts).astype(float) + 1.0
        repeated = self.ends[:, 1:] == self.ends[:, :-1]
        self.lengths[:, 1:][repeated] = 0.0
        return np.asarray(columns <= position[:, None])
