"""Approximate DP whose error hardly grows with |Y|: RecConcave's recursion, and common prefixes of level sets.

For a monotone query and (epsilon, delta) the output is an underestimate of the answer, or None for a refusal.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.data.neighbours import AddRemove, DatasetPair
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.down_sensitivity import crowds
from epsaudit.mechanisms.laws import FiniteLaw, outputs_array
from epsaudit.mechanisms.quasi_concave import Chosen, Levels, Stage, best_plan, probabilities, run
from epsaudit.mechanisms.queries import KthLargest, MonotoneQuery

LISTED = 2**16


@dataclass(frozen=True)
class LevelSearch(Reference):
    """Base of mechanisms that maximise min(lbar, 2 tau - l), given by its level sets.

    They are (epsilon, delta)-DP under add/remove.
    """

    query: MonotoneQuery  # the query; |Y| is at most 2^64
    epsilon: float
    delta: float  # delta of the claim, in (0, 0.1)
    beta: float = 0.05  # probability, in (0, 1), with which the answer may be a refusal or miss its accuracy bound
    depth: int | None = None  # levels of recursion, at least 1; by default the number with the least tau
    adjacency = AddRemove()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.delta < 0.1:
            raise AuditError(f"delta is {self.delta!r}; it must be strictly between 0 and 0.1.")
        if self.depth is not None and self.depth < 1:
            raise AuditError(f"depth is {self.depth!r}; it must be at least 1. ShiftedInverseSensitivity has depth 0.")

    @property
    @abstractmethod
    def tau(self) -> int:
        """Number of removals to aim at. It is also the greatest quality, which the optimiser needs."""

    def levels(self, dataset: Sequence[Any]) -> Levels:
        """Return the level sets of the quality: from the answer after 2 tau - c removals to that after c - 1."""
        least = self.query.least_answers(dataset)[::-1]
        after = np.append(least, np.zeros(2 * self.tau, np.uint64))[: 2 * self.tau]
        return Levels(after[: self.tau - 1 : -1], after[: self.tau])


@dataclass(frozen=True)
class InteriorPoint(LevelSearch):
    """Maximise min(lbar, 2 tau - l) by a private quasi-concave optimiser with a log* recursion, or refuse (None).

    (epsilon, delta)-DP, and f(x) >= M(x) >= f(x) - DS^{2 tau}(x) with probability at least 1 - beta: Theorem 3 of
    docs/explanation/mechanisms.md, after differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity',
    Theorem 6, and Beimel, Nissim and Stemmer (2013). At every practical |Y| it is less accurate than the other
    searches.

    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = InteriorPoint(Maximum(range(2**64)), epsilon=1.0, delta=1e-6)
    >>> law = mechanism((2**63,) * 1000)
    >>> law.sample(2, np.random.default_rng(0)).tolist()
    [9223372036854775808, 9223372036854775808]
    """

    name: ClassVar[str] = "interior point, log* recursion"

    @cached_property
    def stage(self) -> Stage:
        depths = range(1, 6) if self.depth is None else (self.depth,)
        return best_plan(self.query.size, self.epsilon, self.delta, self.beta, depths)

    @property
    def tau(self) -> int:
        return self.stage.promise

    def __call__(self, dataset: Sequence[Any]) -> InteriorPointLaw:
        law = ListedInteriorPointLaw if self.query.size <= LISTED else InteriorPointLaw
        return law(self.query, self.stage, self.levels(dataset))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return a pair of crowds of about tau records, between which the best output moves across Y.

        Hill climbing finds pairs that are further apart.
        """
        return (crowds(self.query, self.tau - 1),)


@dataclass(frozen=True, eq=False)
class InteriorPointLaw:
    """Output of `InteriorPoint` on one dataset: the optimiser runs on the quality, and indices become outputs."""

    query: MonotoneQuery  # defines the outputs
    stage: Stage  # the plan by which the budget is spent
    levels: Levels  # the quality

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        return self._named(run(self.stage, self.levels, size, rng))

    def _named(self, chosen: Chosen) -> NDArray[Any]:
        outputs = self.query.outputs_at(np.where(chosen.refused, np.uint64(0), chosen.indices))
        if not chosen.refused.any():
            return outputs
        named = outputs.astype(object)
        named[chosen.refused] = None
        return named


@dataclass(frozen=True, eq=False)
class ListedInteriorPointLaw(InteriorPointLaw):
    """An `InteriorPointLaw` on a Y small enough to list, which makes the law finite; None comes last."""

    @property
    def support(self) -> tuple[Any, ...]:
        return (*self.query.outputs.tolist(), None)

    @cached_property
    def log_probabilities(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(probabilities(self.stage, self.levels)))

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        return FiniteLaw(self.support, self.log_probabilities).log_density(outputs_array(list(outputs)))


@dataclass(frozen=True)
class Plan:
    """Private maximisation of a quality Q: {0 ... 2^bits - 1} -> {0 ... promise}, given by its level sets.

    One exponential mechanism chooses among labels (z, kind). Let w be the first z bits of the best points, those in the
    smallest level set. The label names the point w10...0, w0...0 or w1...1, according to its kind. If there is no plan
    ``below``, all lengths z compete; otherwise the plan ``below`` has found a length. Theorem 8 of
    docs/explanation/mechanisms.md proves (epsilon, delta)-DP, and that the named point has Q >= 1 except with
    probability beta.

    >>> plan_for(64, epsilon=1.0, delta=1e-6, beta=0.05, depth=1)
    Plan(bits=64, epsilon=1.0, near=17, margin=22, promise=56, below=None)
    """

    bits: int
    epsilon: float  # of this exponential mechanism alone
    near: int  # least quality of the point that the best label names
    margin: int  # additional quality of its prefix, which makes labels rare whose meaning may change
    promise: int  # required greatest quality
    below: Plan | None

    def shared(self, levels: Levels) -> list[int]:
        """Return z_c for c = 1 ... promise: the number of leading bits that the ends of level set c share.

        z_c does not decrease.
        """
        ends = zip(levels.first.tolist(), levels.last.tolist(), strict=True)
        return [self.bits - (first ^ last).bit_length() for first, last in ends]

    def length_levels(self, levels: Levels, promise: int) -> Levels:
        """Return the level sets of min(A(z) - near + 1, B(z) - 1).

        A and B are the numbers of the z_c that are <= z and >= z.
        """
        lengths, c = np.array(self.shared(levels), np.uint64), np.arange(1, promise + 1)
        return Levels(lengths[self.near + c - 2], lengths[self.promise - c - 1])

    def named(self, levels: Levels, lengths: Sequence[int]) -> list[int]:
        """Return the points that the labels of these lengths name, kind by kind: three for each length."""
        best, points = int(levels.first[-1]), []
        for length in lengths:
            rest = self.bits - length
            low = best >> rest << rest
            points += [low + (1 << rest) // 2, low, low + (1 << rest) - 1]
        return points

    def qualities(self, levels: Levels, lengths: Sequence[int]) -> Floats:
        """Return the quality that the exponential mechanism maximises, for all labels of these lengths.

        The shape is (3 len(lengths),).
        """
        quality = levels.at(np.array(self.named(levels, lengths), np.uint64)).astype(float)
        if self.below is not None:
            return quality
        following = self.promise - np.searchsorted(self.shared(levels), lengths)  # B
        return np.asarray(np.maximum(0.0, np.minimum(quality + self.margin, np.repeat(following, 3) - 1)))

    def law(self, levels: Levels) -> dict[int, float]:
        """Return the points and their probabilities."""
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
    """Add up the shares of equal points."""
    total: dict[int, float] = {}
    for point, share in shares:
        total[point] = total.get(point, 0.0) + share
    return total


def plan_for(bits: int, epsilon: float, delta: float, beta: float, depth: int) -> Plan:
    """Spend (epsilon, delta) and the error probability beta on ``depth`` exponential mechanisms.

    Each mechanism gets epsilon in proportion to the square root of its cost at epsilon = 1, which minimises the sum of
    costs. The mechanisms that find a length must fail with a probability within delta, which they share equally.
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

    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = PrefixInteriorPoint(Maximum(range(2**64)), epsilon=1.0, delta=1e-6)
    >>> law = mechanism((2**63 + 5,) * 1000)
    >>> mechanism.tau, law.sample(2, np.random.default_rng(0)).tolist()
    (56, [9223372036854775813, 9223372036854775813])
    """

    depth: int = 1  # number of exponential mechanisms, at least 1; a second one helps from |Y| = 2^2^75 on
    name: ClassVar[str] = "interior point, common prefixes"

    @cached_property
    def plan(self) -> Plan:
        return plan_for((self.query.size - 1).bit_length(), self.epsilon, self.delta, self.beta, self.depth)

    @property
    def tau(self) -> int:
        return self.plan.promise

    def __call__(self, dataset: Sequence[Any]) -> FiniteLaw:
        # if |Y| is not a power of two, a point beyond Y counts as the last output
        shares = self.plan.law(self.levels(dataset)).items()
        law = merged((min(point, self.query.size - 1), share) for point, share in shares)
        outputs = self.query.outputs_at(np.array(list(law), np.uint64))
        with np.errstate(divide="ignore"):  # happens at an epsilon of thousands
            return FiniteLaw(list(outputs), np.log(list(law.values())))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return a pair that nearly attains epsilon and, for order statistics, a second pair.

        On the first pair, all but near / 2 level sets have shrunk to one point; with one record more this point gains
        and all others lose. On the second pair, long prefixes change altogether: the best point, and every point that a
        longer prefix names, moves from the third quarter of Y to the last.
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
