"""The inverse sensitivity mechanism: choose an answer by how few records must change to make it the true one.

For a query with finitely many answers, its losses, which have sensitivity 1 whatever the query, go to any selection
mechanism. The median has a formula for its losses; any other function is enumerated on small data.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.functions import OutputDistribution
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.data.neighbours import Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.queries import Dataset, Utilities
from epsaudit.mechanisms.selection import ExponentialMechanism


class Losses:
    """Utilities -l(x, y) with l(x, y) the fewest changes that make y the true answer: Equation 4 of the source.

    Source: differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity'. By its Lemma 1 the losses of
    neighbours differ by at most 1.
    """

    candidates: tuple[Any, ...]
    sensitivity: ClassVar[float] = 1.0  # by Lemma 1
    adjacency: Adjacency  # the relation whose steps the losses count
    pairs: Sequence[DatasetPair]  # neighbours worth auditing

    @abstractmethod
    def value(self, dataset: Any) -> Any:
        """Return f(dataset)."""

    @abstractmethod
    def losses(self, dataset: Any) -> NDArray[np.int64]:
        """Return l(dataset, y) for every candidate y, shape (candidates,)."""

    @abstractmethod
    def local_sensitivity(self, dataset: Any, changes: int) -> float:
        """Greatest change of the answer within that many changes of the dataset: Equation 2."""

    @abstractmethod
    def lead(self, gap: int) -> DatasetPair:
        """See `epsaudit.mechanisms.queries.Utilities.lead`."""

    def __call__(self, dataset: Any) -> Floats:
        return -self.losses(dataset).astype(float)


@dataclass(frozen=True)
class MedianLosses(Losses):
    """Losses of the median of n records from a finite set, under substitution; the lower one if n is even.

    l(x, y) = max(0, #{x_i < y} - h, #{x_i > y} - (n - 1 - h)) with h = floor((n - 1) / 2): y is the median when at most
    h records are below it and n - 1 - h above, and a substitution moves one record from one side to y. The two excesses
    cannot both be positive.

    Raises `AuditError` if there are fewer than two candidates or they do not increase; if a dataset has no records or
    one that is no candidate.

    >>> MedianLosses((0, 1, 2, 3)).losses((1, 2, 2)).tolist()
    [2, 1, 0, 2]
    """

    candidates: tuple[float, ...]  # all possible records, and answers, in increasing order; at least two
    adjacency = Substitution()

    def __post_init__(self) -> None:
        if len(self.candidates) < 2 or not bool(np.all(np.diff(np.asarray(self.candidates, float)) > 0)):
            raise AuditError(f"The candidates are {self.candidates!r}; they must be at least two increasing numbers.")

    @property
    def pairs(self) -> tuple[DatasetPair, DatasetPair]:
        """The greatest answer gets nearer while all others get farther; half of the answers nearer, half farther."""
        y = self.candidates
        low, middle, below, high = y[0], y[len(y) // 2], y[-2], y[-1]
        return (
            DatasetPair((low, below, high), (below, high, high), "least record made greatest, three records"),
            DatasetPair(
                (low, middle, middle, middle, high),
                (middle, middle, middle, high, high),
                "least record made greatest, three of five in the middle",
            ),
        )

    def value(self, dataset: Dataset) -> Any:
        ranks = np.sort(self._ranks(dataset))
        return self.candidates[int(ranks[(len(ranks) - 1) // 2])]

    def losses(self, dataset: Dataset) -> NDArray[np.int64]:
        counts = np.bincount(self._ranks(dataset), minlength=len(self.candidates))
        upto = np.cumsum(counts)
        below = (len(dataset) - 1) // 2
        above = len(dataset) - 1 - below
        excess = np.maximum(upto - counts - below, len(dataset) - upto - above)
        return np.asarray(np.maximum(0, excess), dtype=np.int64)

    def local_sensitivity(self, dataset: Dataset, changes: int) -> float:
        """See `Losses.local_sensitivity`: Equation 3, with records beyond the ends at the ends of Y."""
        changes = whole_at_least(changes, 0, "number of changes")
        ranks = np.sort(self._ranks(dataset))
        middle = (len(ranks) - 1) // 2
        low = self.candidates[int(ranks[middle - changes])] if changes <= middle else self.candidates[0]
        high = self.candidates[int(ranks[middle + changes])] if middle + changes < len(ranks) else self.candidates[-1]
        return max(high - self.candidates[int(ranks[middle])], self.candidates[int(ranks[middle])] - low)

    def lead(self, gap: int) -> DatasetPair:
        """See `epsaudit.mechanisms.queries.Utilities.lead`: the second candidate's loss falls from ``gap`` to ``gap -
        1``."""
        gap = whole_at_least(gap, 1, "gap between the candidates")
        first, second = self.candidates[:2]
        others = (first,) * (2 * gap - 2)
        return DatasetPair((*others, first), (*others, second), f"all {2 * gap - 1} alike against all but one")

    def _ranks(self, dataset: Dataset) -> NDArray[np.intp]:
        place = {candidate: rank for rank, candidate in enumerate(self.candidates)}
        if len(dataset) == 0 or any(record not in place for record in dataset):
            raise AuditError(
                f"The dataset has {len(dataset)} records; it must have at least one, all of them among the "
                f"{len(self.candidates)} candidates."
            )
        return np.array([place[record] for record in dataset], dtype=np.intp)  # type: ignore[index]  # checked above


@dataclass(frozen=True)
class InverseSensitivity(Reference):
    """The inverse sensitivity mechanism with any selection mechanism: the selector's own claims hold for any query.

    With the exponential mechanism epsilon-DP and epsilon^2/8-zCDP (differentialprivacy.org, 'Beyond Global Sensitivity
    via Inverse Sensitivity', Theorem 2), and |M(x) - f(x)| <= LS^k(x) with probability 1 - beta for k =
    floor((2 / epsilon) log(|Y| / beta)) (Theorem 4). The other selectors are those of its note 7; permute-and-flip is
    never less accurate (McKenna and Sheldon 2020, Theorem 2).

    >>> mechanism = InverseSensitivity(1.0, MedianLosses((1, 2, 3)))
    >>> np.exp(mechanism((1, 2, 2)).log_probabilities).round(3).tolist(), mechanism.reach(0.5)
    ([0.307, 0.506, 0.186], 3)
    >>> [str(claim) for claim in mechanism.claims]
    ['1-DP', '0.125-zCDP']
    """

    epsilon: float
    query: Losses  # what is asked
    # ``selector(epsilon, utilities) -> mechanism``: `ExponentialMechanism`, `PermuteAndFlip`, `NoisyMaxLaplace`,
    # `NoisyMaxExponential`, `NoisyMaxGumbel` or `GapMax`, whose gap has sensitivity 1 here as the least loss is 0
    selector: Callable[[float, Utilities], Reference] = ExponentialMechanism

    name: ClassVar[str] = "inverse sensitivity"

    @cached_property
    def selection(self) -> Reference:
        return self.selector(self.epsilon, self.query)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return self.selection.claims

    @property
    def adjacency(self) -> Adjacency:
        return self.query.adjacency

    def reach(self, beta: float) -> int:
        """k of Theorem 4: how many changes the answer may be off, but for probability beta in (0, 1)."""
        size = len(self.query.candidates)
        return math.floor(2.0 / self.epsilon * math.log(size / fraction(beta, "beta", open_below=True)))

    def __call__(self, dataset: Any) -> OutputDistribution:
        return self.selection(dataset)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """The query's own pairs; for a selector that may refuse, a lead near its threshold."""
        refuses = isinstance(self.claim, ApproxDP)
        return tuple(self.selection.worst_pairs() if refuses else self.query.pairs)
