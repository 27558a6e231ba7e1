"""The inverse sensitivity mechanism: choose an answer by how few records must change to make it the true one.

A query with finitely many answers has losses of sensitivity 1, whatever the query. These losses can go to any selection
mechanism. The median and the slope of a line have formulas for their losses; `epsaudit.mechanisms.enumerated_losses`
finds the losses of any other function on small data.
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

from epsaudit.array_types import Floats, Ints
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.data.neighbours import Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.queries import Dataset, Utilities
from epsaudit.mechanisms.selection import ExponentialMechanism
from epsaudit.running.protocols import OutputDistribution


class Losses:
    """Utilities -l(x, y), where l(x, y) is the fewest changes that make y the true answer: Equation 4 of the source.

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
        """Return the greatest change of the answer within ``changes`` changes of the dataset: Equation 2."""

    @abstractmethod
    def lead(self, gap: int) -> DatasetPair:
        """See `epsaudit.mechanisms.queries.Utilities.lead`."""

    def __call__(self, dataset: Any) -> Floats:
        return -self.losses(dataset).astype(float)


@dataclass(frozen=True)
class MedianLosses(Losses):
    """Losses of the median of n records from a finite set, under substitution; the lower median if n is even.

    l(x, y) = max(0, #{x_i < y} - h, #{x_i > y} - (n - 1 - h)) with h = floor((n - 1) / 2): y is the median when at most
    h records are below it and n - 1 - h above, and a substitution moves one record from one side to y. The two excesses
    cannot both be positive.

    Raises `AuditError` if there are fewer than two candidates or if they do not increase, and if a dataset has no
    records or a record that is not a candidate.

    >>> MedianLosses((0, 1, 2, 3)).losses((1, 2, 2)).tolist()
    [2, 1, 0, 2]
    """

    candidates: tuple[float, ...]  # all possible records, which are also the answers, in increasing order; at least two
    adjacency = Substitution()

    def __post_init__(self) -> None:
        if len(self.candidates) < 2 or not bool(np.all(np.diff(np.asarray(self.candidates, float)) > 0)):
            raise AuditError(f"The candidates are {self.candidates!r}; they must be at least two increasing numbers.")

    @property
    def pairs(self) -> tuple[DatasetPair, DatasetPair]:
        """Two pairs: the greatest answer gets nearer and all others farther, or half nearer and half farther."""
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
        """Return a pair on which the second candidate's loss falls from ``gap`` to ``gap - 1``.

        See `epsaudit.mechanisms.queries.Utilities.lead`.
        """
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
    """The inverse sensitivity mechanism with any selection mechanism, whose own claims hold for any query.

    With the exponential mechanism it is epsilon-DP and epsilon^2/8-zCDP (differentialprivacy.org, 'Beyond Global
    Sensitivity via Inverse Sensitivity', Theorem 2), and |M(x) - f(x)| <= LS^k(x) with probability 1 - beta for k =
    floor((2 / epsilon) log(|Y| / beta)) (Theorem 4). The other selectors are those of note 7 of this source;
    permute-and-flip is never less accurate (McKenna and Sheldon 2020, Theorem 2).

    >>> mechanism = InverseSensitivity(1.0, MedianLosses((1, 2, 3)))
    >>> np.exp(mechanism((1, 2, 2)).log_probabilities).round(3).tolist(), mechanism.reach(0.5)
    ([0.307, 0.506, 0.186], 3)
    >>> [str(claim) for claim in mechanism.claims]
    ['1-DP', '0.125-zCDP']
    """

    epsilon: float
    query: Losses  # the query
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
        """Return k of Theorem 4: the number of changes by which the answer may be off.

        The answer is off by more with probability at most beta, which is in (0, 1).
        """
        size = len(self.query.candidates)
        return math.floor(2.0 / self.epsilon * math.log(size / fraction(beta, "beta", open_below=True)))

    def __call__(self, dataset: Any) -> OutputDistribution:
        return self.selection(dataset)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return the query's own pairs or, for a selector that may refuse, a pair with a lead near its threshold."""
        refuses = isinstance(self.claim, ApproxDP)
        return tuple(self.selection.worst_pairs() if refuses else self.query.pairs)


Points = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class SlopeLosses(Losses):
    """Losses of the slope t that minimises the sum of |b - t a| over the records (a, b).

    If several slopes minimise the sum, the least of them counts. One record may be replaced by any other with |a| at
    most ``most``; b is not bounded. For each slope this is Equation 4 of differentialprivacy.org, 'Beyond Global
    Sensitivity via Inverse Sensitivity', which names linear regression among the functions whose loss is easy to
    compute (Asi and Duchi 2020). Proof: docs/explanation/mechanisms.md.

    Raises `AuditError` if the slopes are not at least two increasing whole numbers, if ``most`` is not a whole number
    above 0, or if a record is not a pair of whole numbers with |a| at most ``most``.

    >>> query = SlopeLosses((0, 1, 2, 3), most=10)
    >>> data = [(10, 20), (5, 11), (8, 15), (10, 0)]
    >>> query.value(data), query.losses(data).tolist(), query.local_sensitivity(data, 1)
    (2, [1, 1, 0, 2], 2.0)
    """

    candidates: tuple[int, ...]  # all possible slopes
    most: int  # greatest |a| of a record
    adjacency = Substitution()

    def __post_init__(self) -> None:
        whole_at_least(self.most, 1, "greatest |a|")
        if not all(isinstance(slope, int) for slope in self.candidates):
            raise AuditError(f"The slopes are {self.candidates!r}; they must be whole numbers, in a unit small enough.")
        self._medians  # noqa: B018  # checks that they increase

    @property
    def _medians(self) -> MedianLosses:
        """The median's losses, which this query has on records of the greatest |a| that lie on lines of the slopes."""
        return MedianLosses(self.candidates)

    @property
    def pairs(self) -> tuple[DatasetPair, ...]:
        """The pairs of the median, with records of the greatest |a|."""
        return tuple(map(self._steep, self._medians.pairs))

    def lead(self, gap: int) -> DatasetPair:
        return self._steep(self._medians.lead(gap))

    def value(self, dataset: Points) -> int:
        rises = self._rises(dataset).sum(axis=0)
        return self.candidates[int(np.argmax(np.append(rises, 0) >= 0))]

    def losses(self, dataset: Points) -> Ints:
        rises = np.sort(self._rises(dataset), axis=0)
        greatest = self.most * np.diff(np.array(self.candidates, dtype=np.int64))
        total = rises.sum(axis=0)
        up = _fewest(-total, greatest - rises)  # to lift S_j to 0
        down = _fewest(total + 1, greatest + rises[::-1])  # to lower S_{j-1} below 0
        return np.maximum(np.append(up, 0), np.append(0, down))

    def local_sensitivity(self, dataset: Points, changes: int) -> float:
        """See `Losses.local_sensitivity`: the distance to the farthest slope whose loss is at most ``changes``."""
        near = np.array(self.candidates)[self.losses(dataset) <= whole_at_least(changes, 0, "number of changes")]
        return float(np.abs(near - self.value(dataset)).max())

    def _rises(self, dataset: Points) -> Ints:
        """D_ij, shape (records, slopes - 1)."""
        records = np.array(dataset, dtype=object).reshape(len(dataset), -1 if len(dataset) else 2)
        whole = all(isinstance(number, (int, np.integer)) for number in records.ravel())
        if not (len(dataset) and records.shape[1] == 2 and whole and np.abs(records[:, 0]).max() <= self.most):
            raise AuditError(
                f"There must be at least one record, and each a pair (a, b) of whole numbers with |a| <= {self.most}."
            )
        # beyond the outermost line the value of b makes no difference
        reach = self.most * max(map(abs, self.candidates))
        a, b = (column.astype(np.int64) for column in (records[:, 0], np.clip(records[:, 1], -reach, reach)))
        return np.asarray(np.diff(np.abs(b[:, None] - a[:, None] * np.array(self.candidates, dtype=np.int64)), axis=1))

    def _steep(self, pair: DatasetPair) -> DatasetPair:
        x, x_prime = (tuple((self.most, self.most * slope) for slope in side) for side in (pair.x, pair.x_prime))
        return DatasetPair(x, x_prime, pair.name)


def _fewest(missing: Ints, gains: Ints) -> Ints:
    """Return the least k at which the first k rows of ``gains`` add up to ``missing``, column by column."""
    reached = np.cumsum(gains, axis=0) >= missing
    return np.where(missing <= 0, 0, 1 + np.argmax(reached, axis=0)).astype(np.int64)
