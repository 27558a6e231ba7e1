"""Median regression through the origin: losses of a slope for the inverse sensitivity mechanism, in closed form.

Arithmetic is that of whole numbers, so that no rounding error moves a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.inverse_sensitivity import Losses, MedianLosses

Points = Sequence[tuple[int, int]]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class SlopeLosses(Losses):
    """Losses of the slope t that minimises the sum of |b - t a| over the records (a, b), the least such if several.

    One record may be replaced by any other with |a| at most ``most``; b is not bounded. Slope by slope this is Equation
    4 of differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity', which names linear regression
    among the functions whose loss is no burden (Asi and Duchi 2020). Proof: docs/explanation/mechanisms.md.

    Raises `AuditError` if the slopes are not at least two increasing whole numbers, ``most`` is none above 0, or a
    record is no pair of whole numbers with |a| at most ``most``.

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
        """Records of the greatest |a| on a line of one of the slopes: their slope is the median of these."""
        return MedianLosses(self.candidates)

    @property
    def pairs(self) -> tuple[DatasetPair, ...]:
        """Those of the median, for records of the greatest |a|."""
        return tuple(map(self._steep, self._medians.pairs))

    def lead(self, gap: int) -> DatasetPair:
        return self._steep(self._medians.lead(gap))

    def value(self, dataset: Points) -> int:
        rises = self._rises(dataset).sum(axis=0)
        return self.candidates[int(np.argmax(np.append(rises, 0) >= 0))]

    def losses(self, dataset: Points) -> Whole:
        rises = np.sort(self._rises(dataset), axis=0)
        greatest = self.most * np.diff(np.array(self.candidates, dtype=np.int64))
        total = rises.sum(axis=0)
        up = _fewest(-total, greatest - rises)  # to lift S_j to 0
        down = _fewest(total + 1, greatest + rises[::-1])  # to lower S_{j-1} below 0
        return np.maximum(np.append(up, 0), np.append(0, down))

    def local_sensitivity(self, dataset: Points, changes: int) -> float:
        """See `Losses.local_sensitivity`: the farthest slope of at most this loss."""
        near = np.array(self.candidates)[self.losses(dataset) <= whole_at_least(changes, 0, "number of changes")]
        return float(np.abs(near - self.value(dataset)).max())

    def _rises(self, dataset: Points) -> Whole:
        """D_ij, shape (records, slopes - 1)."""
        records = np.array(dataset, dtype=object).reshape(len(dataset), -1 if len(dataset) else 2)
        whole = all(isinstance(number, (int, np.integer)) for number in records.ravel())
        if not (len(dataset) and records.shape[1] == 2 and whole and np.abs(records[:, 0]).max() <= self.most):
            raise AuditError(
                f"There must be at least one record, and each a pair (a, b) of whole numbers with |a| <= {self.most}."
            )
        # farther from all lines than any line goes, b makes no difference
        reach = self.most * max(map(abs, self.candidates))
        a, b = (column.astype(np.int64) for column in (records[:, 0], np.clip(records[:, 1], -reach, reach)))
        return np.asarray(np.diff(np.abs(b[:, None] - a[:, None] * np.array(self.candidates, dtype=np.int64)), axis=1))

    def _steep(self, pair: DatasetPair) -> DatasetPair:
        x, x_prime = (tuple((self.most, self.most * slope) for slope in side) for side in (pair.x, pair.x_prime))
        return DatasetPair(x, x_prime, pair.name)


def _fewest(missing: Whole, gains: Whole) -> Whole:
    """Least k at which the first k rows of ``gains`` add up to what is missing, column by column; 0 for none."""
    reached = np.cumsum(gains, axis=0) >= missing
    return np.where(missing <= 0, 0, 1 + np.argmax(reached, axis=0)).astype(np.int64)
