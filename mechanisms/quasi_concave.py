"""Private maximisation of a quasi-concave quality over a long interval of indices, by recursion on its logarithm.

The quality is given by its level sets, which are nested intervals. The output is an index with a positive quality, or
a refusal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from epsaudit.array_types import Bools, Floats
from epsaudit.errors import AuditError
from epsaudit.mechanisms.laws import LaplaceLaw
from epsaudit.mechanisms.queries import Indices

ONE = np.uint64(1)


@dataclass(frozen=True, eq=False)
class Levels:
    """A quality Q: {0 ... N-1} -> {0 ... r} by its level sets {Q >= c} = [first_c, last_c], c = 1 ... r, none empty.

    >>> levels = Levels(np.array([1, 2], np.uint64), np.array([5, 3], np.uint64))
    >>> levels.at(np.arange(7, dtype=np.uint64)).tolist()
    [0, 1, 2, 2, 1, 1, 0]
    """

    # ends of the level sets, shape (r,): ``first`` does not decrease, ``last`` does not increase
    first: Indices
    last: Indices

    def at(self, indices: Indices) -> NDArray[np.int64]:
        """Quality at each index, any shape."""
        begun = np.searchsorted(self.first, indices, side="right")
        ended = np.searchsorted(self.last[::-1], indices, side="left")
        return np.asarray(np.minimum(begun, len(self.last) - ended), dtype=np.int64)

    def widths(self) -> NDArray[np.int64]:
        """Greatest j such that 2^j consecutive indices have quality at least c, for c = 1 ... r, shape (r,)."""
        others = self.last - self.first  # the length minus one
        return np.array([(int(length) + 1).bit_length() - 1 for length in others], dtype=np.int64)


@dataclass(frozen=True)
class Base:
    """The end of the recursion: the exponential mechanism over all N indices, with weight exp(epsilon Q / 2).

    epsilon-DP (McSherry and Talwar 2007, Theorem 6). An index with Q = 0 has probability at most N exp(-epsilon promise
    / 2) <= beta.
    """

    size: int
    epsilon: float
    promise: int


@dataclass(frozen=True)
class Stage:
    """One level of the recursion: find the scale on which quality falls off, then a block on that scale, then a point.

    RecConcave of Beimel, Nissim and Stemmer (2013), 'Private learning and sanitization: pure vs. approximate
    differential privacy', with whole-number thresholds in place of its fractions alpha, and one partition with a random
    offset in place of two, which saves a test.

    The three steps find the scale, pass a stability test for a block, and choose a point of the block. Theorem 2 of
    docs/explanation/mechanisms.md states them and proves (epsilon, delta)-DP and accuracy.

    >>> stage = plan_for(2**64, epsilon=1.0, delta=1e-6, beta=0.05, depth=1)
    >>> round(stage.epsilon, 9), stage.delta, stage.below.size, stage.promise
    (1.0, 1e-06, 65, 257)
    """

    size: int  # N
    below: Stage | Base  # the stage that finds the scale
    epsilon_test: float  # epsilon_test, delta_test and epsilon_point are the budgets of the last two steps
    delta_test: float
    epsilon_point: float
    blocks: int  # c
    low: int  # low, high and promise are thresholds on the quality; its maximum must be ``promise``
    high: int
    promise: int

    @property
    def epsilon(self) -> float:
        """Privacy loss of the three steps together."""
        return self.below.epsilon + self.epsilon_test + self.epsilon_point

    @property
    def delta(self) -> float:
        """Sum of the deltas of the tests, of this stage and of those below."""
        return self.delta_test + (self.below.delta if isinstance(self.below, Stage) else 0.0)

    def distance(self, gap: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return d, a number of changed records after which the best block is still the best."""
        return np.maximum(0, (gap + 1) // 2 - 1)

    def log_pass(self, gap: NDArray[np.int64]) -> Floats:
        threshold = math.log(0.5 / self.delta_test) / self.epsilon_test
        return LaplaceLaw(0.0, 1.0 / self.epsilon_test).log_cdf(self.distance(gap) - threshold)

    def scale_levels(self, levels: Levels) -> Levels:
        """Return the level sets of q: q(j) >= c where L(j) >= low + c and L(j + 1) <= high - c."""
        widths, c = levels.widths(), np.arange(1, self.below.promise + 1)
        # L(j) >= v means j <= widths at level v, which is stored from level 1 on
        return Levels(widths[self.high - c].astype(np.uint64), widths[self.low + c - 1].astype(np.uint64))


@dataclass(frozen=True, eq=False)
class Chosen:
    """Chosen indices, and whether the stage refused instead (the index is then meaningless), both of shape (size,)."""

    indices: Indices
    refused: Bools


def best_plan(size: int, epsilon: float, delta: float, beta: float, depths: Iterable[int]) -> Stage:
    """Return the plan with the least promise among those with the given depths of recursion."""
    plans = [plan for depth in depths if isinstance(plan := plan_for(size, epsilon, delta, beta, depth), Stage)]
    if not plans:
        raise AuditError("No depth of recursion is given; there must be one of at least 1.")
    return min(plans, key=lambda plan: plan.promise)


def plan_for(size: int, epsilon: float, delta: float, beta: float, depth: int) -> Stage | Base:
    """Spend (epsilon, delta) and the error probability beta on ``depth`` levels of recursion over ``size`` indices.

    Each step gets epsilon in proportion to the square root of its cost at epsilon = 1, which minimises the sum of
    costs. Each test gets the same delta, and each kind of failure a quarter of beta.
    """
    if depth == 0:
        return Base(size, epsilon, math.ceil(2.0 / epsilon * math.log(size / beta)))
    # q is evaluated at scales 2^0 ... 2^floor(log2 N)
    return stage_over(size, size.bit_length(), epsilon, delta, beta, depth)


def stage_over(size: int, scales: int, epsilon: float, delta: float, beta: float, depth: int) -> Stage:
    """Plan a stage over ``scales`` scales; apart from the field ``size``, the plan does not depend on ``size``.

    >>> stage_over(0, 2**100, 1.0, 1e-6, 0.05, 1).promise  # |Y| = 2^(2^100)
    748
    """
    share, blocks = beta / 4.0, math.ceil(8.0 / beta)
    delta_test = delta / depth
    delta_below = delta - delta_test
    costs = {
        "below": 2.0 * plan_for(scales, 1.0, delta_below, share, depth - 1).promise,
        "test": 2.0 * (math.log(0.5 / delta_test) + math.log(0.5 / share)),
        "point": 2.0 * math.log((blocks + 1) / share),
    }
    total = sum(map(math.sqrt, costs.values()))
    epsilons = {step: epsilon * math.sqrt(cost) / total for step, cost in costs.items()}
    below = plan_for(scales, epsilons["below"], delta_below, share, depth - 1)
    low = math.ceil(costs["point"] / epsilons["point"]) - 1
    high = low + 2 * below.promise - 1
    distance = math.ceil(0.5 * costs["test"] / epsilons["test"])
    return Stage(size, below, epsilons["test"], delta_test, epsilons["point"], blocks, low, high, high + 2 * distance)


def run(stage: Stage | Base, levels: Levels, size: int, rng: np.random.Generator) -> Chosen:
    """Run a stage ``size`` times."""
    if isinstance(stage, Base):
        cumulative = np.cumsum(_base_law(stage, levels))
        chosen = np.searchsorted(cumulative / cumulative[-1], rng.random(size), side="right")
        return Chosen(chosen.astype(np.uint64), np.zeros(size, dtype=bool))
    scale = run(stage.below, stage.scale_levels(levels), size, rng)
    offset = rng.integers(0, stage.blocks, size)
    kinds, kind = np.unique(scale.indices.astype(np.int64) * stage.blocks + offset, return_inverse=True)
    table = _Table.of(stage, levels, kinds // stage.blocks, kinds % stage.blocks)
    refused = scale.refused | (rng.random(size) >= np.exp(table.log_pass)[kind])
    # one sorted list for all kinds: the distribution function of kind i lies between i and i + 1
    cumulative = np.cumsum(np.exp(table.log_weights), axis=1)
    cumulative = cumulative / cumulative[:, -1:] + np.arange(len(kinds))[:, None]
    place = np.searchsorted(cumulative.ravel(), kind + rng.random(size), side="right")
    return Chosen(table.points.ravel()[np.minimum(place, (kind + 1) * cumulative.shape[1] - 1)], refused)


def probabilities(stage: Stage | Base, levels: Levels) -> Floats:
    """Return the exact probability of each index, with that of a refusal last, shape (size + 1,), by enumeration."""
    if isinstance(stage, Base):
        return np.append(_base_law(stage, levels), 0.0)
    scales = probabilities(stage.below, stage.scale_levels(levels))
    law = np.zeros(stage.size + 1)
    law[-1] = scales[-1]
    offsets = np.arange(stage.blocks)
    for scale, chance in enumerate(scales[:-1].tolist()):
        table = _Table.of(stage, levels, np.full(stage.blocks, scale), offsets)
        passed = np.exp(table.log_pass)
        law[-1] += chance * float(np.mean(1.0 - passed))
        weights = np.exp(table.log_weights) * (passed * chance / stage.blocks)[:, None]
        law[:-1] += np.bincount(table.points.ravel().astype(np.int64), weights.ravel(), minlength=stage.size)
    return law


@dataclass(frozen=True, eq=False)
class _Table:
    """Steps 2 and 3 for given scales and offsets, one per row: log-probabilities of passing, points, log-weights."""

    log_pass: Floats
    points: Indices
    log_weights: Floats

    @classmethod
    def of(cls, stage: Stage, levels: Levels, scale: NDArray[np.int64], offset: NDArray[np.int64]) -> _Table:
        """Compute the table in unsigned 64-bit integers, in units of K = 2^scale, without overflow."""
        blocks, last = np.uint64(stage.blocks), np.uint64(stage.size - 1)
        top, offset = levels.first[-1], offset.astype(np.uint64)
        shift = np.minimum(scale, 63).astype(np.uint64)
        rest = (scale - np.minimum(scale, 63)).astype(np.uint64)  # a shift by all 64 bits is undefined
        unit, last_unit = (top >> shift) >> rest, (last >> shift) >> rest
        inside = (unit % blocks + blocks - offset) % blocks
        begin = unit - np.minimum(inside, unit)
        end = unit + np.minimum(blocks - ONE - inside, last_unit - unit)
        first_index = begin << shift
        last_index = np.where(end == last_unit, last, ((np.minimum(end + ONE, last_unit)) << shift) - ONE)
        before, after = first_index > 0, last_index < last
        second = np.maximum(
            np.where(before, levels.at(first_index - ONE * before), -1),
            np.where(after, levels.at(last_index + ONE * after), -1),
        )
        alone = ~before & ~after
        log_pass = np.where(alone, 0.0, stage.log_pass(len(levels.first) - np.where(alone, 0, second)))
        steps = np.minimum(np.arange(stage.blocks, dtype=np.uint64), (end - begin)[:, None])
        points = np.column_stack([(begin[:, None] + steps) << shift[:, None], last_index])
        repeated = np.pad(points[:, 1:] == points[:, :-1], ((0, 0), (1, 0)))
        log_weights = np.where(repeated, -np.inf, 0.5 * stage.epsilon_point * levels.at(points))
        return cls(log_pass, points, log_weights - logsumexp(log_weights, axis=1, keepdims=True))


def _base_law(stage: Base, levels: Levels) -> Floats:
    log_weights = 0.5 * stage.epsilon * levels.at(np.arange(stage.size, dtype=np.uint64))
    return np.asarray(np.exp(log_weights - logsumexp(log_weights)))
