"""Approximate DP whose error hardly grows with |Y|: an output among few, read off the common prefixes of level sets.

For a monotone query and a budget (epsilon, delta) the output is an underestimate of the answer. The optimiser, which
is independent of queries, takes the level sets of a quality and lists its law, on at most 3 (log2 |Y| + 2) outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.down_sensitivity import crowds
from epsaudit.mechanisms.interior_point import LevelSearch
from epsaudit.mechanisms.laws import FiniteLaw, Floats
from epsaudit.mechanisms.quasi_concave import Levels
from epsaudit.mechanisms.queries import KthLargest


@dataclass(frozen=True)
class Plan:
    """Private maximisation of a quality Q: {0 ... 2^bits - 1} -> {0 ... promise}, given by its level sets.

    One exponential mechanism chooses among labels (z, kind). Let w be the first z bits of the best points, those in the
    smallest level set; the label names w10...0, w0...0 or w1...1, according to its kind. Without a plan below, all
    lengths z compete; otherwise that plan has found one. Theorem 8 of docs/explanation/mechanisms.md proves
    (epsilon, delta)-DP, and that the point named has Q >= 1 but for probability beta.

    Examples
    --------
    >>> plan_for(64, epsilon=1.0, delta=1e-6, beta=0.05, depth=1)
    Plan(bits=64, epsilon=1.0, near=17, margin=22, promise=56, below=None)
    """

    bits: int
    epsilon: float  # of this exponential mechanism alone
    near: int  # how good a point the best label names, at least
    margin: int  # how much better still its prefix is, so that labels that may change their meaning are rare
    promise: int  # what the greatest quality must be
    below: Plan | None

    def shared(self, levels: Levels) -> list[int]:
        """z_c: how many leading bits the ends of level set c share, c = 1 ... promise; it does not decrease."""
        ends = zip(levels.first.tolist(), levels.last.tolist(), strict=True)
        return [self.bits - (first ^ last).bit_length() for first, last in ends]

    def length_levels(self, levels: Levels, promise: int) -> Levels:
        """Level sets of min(A(z) - near + 1, B(z) - 1), A and B being how many of the z_c are <= z and >= z."""
        lengths, c = np.array(self.shared(levels), np.uint64), np.arange(1, promise + 1)
        return Levels(lengths[self.near + c - 2], lengths[self.promise - c - 1])

    def named(self, levels: Levels, lengths: Sequence[int]) -> list[int]:
        """Points that the labels of these lengths name, kind by kind: three for each length."""
        best, points = int(levels.first[-1]), []
        for length in lengths:
            rest = self.bits - length
            low = best >> rest << rest
            points += [low + (1 << rest) // 2, low, low + (1 << rest) - 1]
        return points

    def qualities(self, levels: Levels, lengths: Sequence[int]) -> Floats:
        """What the exponential mechanism maximises, for all labels of these lengths, shape (3 len(lengths),)."""
        quality = levels.at(np.array(self.named(levels, lengths), np.uint64)).astype(float)
        if self.below is not None:
            return quality
        following = self.promise - np.searchsorted(self.shared(levels), lengths)  # B
        return np.asarray(np.maximum(0.0, np.minimum(quality + self.margin, np.repeat(following, 3) - 1)))

    def law(self, levels: Levels) -> dict[int, float]:
        """Points and their probabilities.

        Examples
        --------
        >>> plan = plan_for(4, epsilon=2.0, delta=0.01, beta=0.1, depth=1)
        >>> levels = Levels(np.full(plan.promise, 6, np.uint64), np.full(plan.promise, 7, np.uint64))
        >>> {point: round(chance, 3) for point, chance in plan.law(levels).items()}
        {8: 0.0, 0: 0.0, 15: 0.0, 4: 0.0, 7: 0.667, 6: 0.333}
        """
        if self.below is None:
            return self._choice(levels, range(self.bits + 1))
        lengths = self.below.law(self.length_levels(levels, self.below.promise))
        return merged(
            (point, chance * share)
            for length, chance in lengths.items()
            for point, share in self._choice(levels, [min(length, self.bits)]).items()
        )

    def _choice(self, levels: Levels, lengths: Sequence[int]) -> dict[int, float]:
        exponents = 0.5 * self.epsilon * self.qualities(levels, lengths)
        weights = np.exp(exponents - exponents.max())
        return merged(zip(self.named(levels, lengths), (weights / weights.sum()).tolist(), strict=True))


def merged(shares: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Add up what each point has.

    Examples
    --------
    >>> merged([(1, 0.25), (2, 0.25), (1, 0.5)])
    {1: 0.75, 2: 0.25}
    """
    total: dict[int, float] = {}
    for point, share in shares:
        total[point] = total.get(point, 0.0) + share
    return total


def plan_for(bits: int, epsilon: float, delta: float, beta: float, depth: int) -> Plan:
    """Spend (epsilon, delta) and the error probability beta on ``depth`` exponential mechanisms.

    Each gets epsilon in proportion to the square root of what it costs at epsilon = 1, which makes the sum of costs
    least; those that find a length may fail as seldom as delta has it, divided equally.

    Examples
    --------
    >>> [plan_for(2**power, 1.0, 1e-6, 0.05, depth).promise for power in (6, 150) for depth in (1, 2)]
    [56, 224, 455, 251]
    """
    if depth == 1:
        labels = 3 * (bits + 1)
        near = math.ceil(2.0 / epsilon * math.log(labels / beta))
        best = max(near, math.ceil(2.0 / epsilon * math.log(labels / delta)))
        return Plan(bits, epsilon, near, best - near, near + best, None)
    share = delta / depth
    failing = min(share, beta / 2.0)

    def lengths(epsilon: float) -> Plan:  # lengths are 0 ... bits, which take fewer bits to write
        return plan_for(bits.bit_length(), epsilon, delta - share, failing, depth - 1)

    costs = math.sqrt(2.0 * lengths(1.0).promise), math.sqrt(2.0 * math.log(4.0 / beta))
    own = epsilon * costs[1] / sum(costs)
    below = lengths(epsilon - own)
    near = math.ceil(2.0 / own * math.log(4.0 / beta))
    return Plan(bits, own, near, 0, 2 * below.promise + near - 1, below)


@dataclass(frozen=True)
class PrefixInteriorPoint(LevelSearch):
    """Maximise min(lbar, 2 tau - l) among points that the common prefixes of its level sets name.

    (epsilon, delta)-DP, and f(x) >= M(x) >= f(x) - DS^{2 tau}(x) with probability at least 1 - beta: Theorems 8 and 9
    of docs/explanation/mechanisms.md, after differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity',
    Theorem 6. It never refuses. At (1, 1e-6) it needs fewer removals than all other searches here from |Y| = 2^34 on.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = PrefixInteriorPoint(Maximum(range(2**64)), epsilon=1.0, delta=1e-6)
    >>> law = mechanism((2**63 + 5,) * 1000)
    >>> mechanism.tau, law.sample(2, np.random.default_rng(0)).tolist()
    (56, [9223372036854775813, 9223372036854775813])
    """

    depth: int = 1  # how many exponential mechanisms, at least 1; a second pays from |Y| = 2^2^75 on
    name: ClassVar[str] = "interior point, common prefixes"

    @cached_property
    def plan(self) -> Plan:
        """How the budget is spent."""
        return plan_for((self.query.size - 1).bit_length(), self.epsilon, self.delta, self.beta, self.depth)

    @property
    def tau(self) -> int:
        return self.plan.promise

    def __call__(self, dataset: Sequence[Any]) -> FiniteLaw:
        # a point beyond Y, where |Y| is no power of two, counts as the last output
        shares = self.plan.law(self.levels(dataset)).items()
        law = merged((min(point, self.query.size - 1), share) for point, share in shares)
        outputs = self.query.outputs_at(np.array(list(law), np.uint64))
        with np.errstate(divide="ignore"):  # at an epsilon of thousands
            return FiniteLaw(list(outputs), np.log(list(law.values())))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """A pair that nearly attains epsilon and, of order statistics, one on which long prefixes change altogether.

        First, all but near / 2 level sets have shrunk to one point; with one record more it gains and all else loses.
        What loses is likeliest where that point is just above the middle. Second, the best point, and with it what all
        longer prefixes name, moves from the third quarter of Y to the last.
        """
        loss = 2 * self.tau - (self.plan.near + 1) // 2
        if not isinstance(self.query, KthLargest):
            return (crowds(self.query, loss),)
        size, unseen = self.query.size, self.query.place - 1
        point, above = self.query.grid[min(2 ** (self.plan.bits - 1) + 1, size - 1)], self.query.grid[size - 2]
        crowd = (point,) * (unseen + loss)
        moving = (above,) * (unseen + self.tau) + (point,) * (self.tau - self.plan.near + 1)
        return (
            DatasetPair(crowd, (*crowd, point), f"{len(crowd)} records at {point} against one more"),
            DatasetPair(moving, (*moving, above), f"{len(moving)} records against one more at {above}"),
        )
