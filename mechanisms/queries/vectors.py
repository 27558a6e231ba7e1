"""Sums of vectors, and their sensitivities in the Euclidean norm, which is what spherical Gaussian noise needs.

A dataset holds vectors, one a record; its local and down sensitivity are those of scalar queries with a norm in place
of the absolute value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.neighbours import AddRemove, DatasetPair
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.base import positive

Vectors = Sequence[tuple[float, ...]]
MOST_SUBSETS = 100_000
"""Sets of records that are tried for a down sensitivity: a second or two."""


@dataclass(frozen=True)
class ClippedSum:
    """The sum of vectors, those longer than ``radius`` shortened to it: l2 sensitivity ``radius``.

    Source of the definitions: differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity', note 1, and
    'Beyond Local Sensitivity via Down Sensitivity', Equation 1.

    Raises `AuditError` if the radius is not above 0, or a record has another dimension.

    Examples
    --------
    >>> query = ClippedSum(2)
    >>> query([(3.0, 4.0), (0.0, 0.5)]).round(6).tolist()
    [0.6, 1.3]
    >>> query.local_sensitivity([(3.0, 4.0), (0.0, 0.5)], 2), query.down_sensitivity([(0.3, 0.4), (0.0, 0.1)])
    (2.0, 0.5)
    """

    dimension: int
    radius: float = 1.0
    adjacency = AddRemove()

    def __post_init__(self) -> None:
        whole_at_least(self.dimension, 1, "dimension")
        positive(self.radius, "radius")

    def __call__(self, dataset: Vectors) -> NDArray[np.float64]:
        return np.asarray(self._clipped(dataset).sum(axis=0))

    @property
    def sensitivity(self) -> float:
        """Greatest change in the Euclidean norm."""
        return self.radius

    @property
    def pairs(self) -> tuple[DatasetPair, ...]:
        """Nobody, and a record along the diagonal: no coordinate changes by as much as the vector does."""
        coordinate = self.radius / math.sqrt(self.dimension)
        return (DatasetPair((), ((coordinate,) * self.dimension,), "nobody against one record on the diagonal"),)

    def local_sensitivity(self, dataset: Vectors, changes: int = 1) -> float:
        """LS^k of the dataset in the Euclidean norm: records may join that all point in one direction."""
        return whole_at_least(changes, 0, "number of changes") * self.radius

    def down_sensitivity(self, dataset: Vectors, changes: int = 1) -> float:
        """DS^k of the dataset in the Euclidean norm: the longest sum of up to k of its own records.

        All sets of so many are tried. Raises `AuditError` where there are more than `MOST_SUBSETS`.
        """
        vectors = self._clipped(dataset)
        most = min(whole_at_least(changes, 0, "number of changes"), len(vectors))
        if sum(math.comb(len(vectors), size) for size in range(most + 1)) > MOST_SUBSETS:
            raise AuditError(f"There are too many sets of up to {most} of {len(vectors)} records to try.")
        sets = [list(chosen) for size in range(1, most + 1) for chosen in combinations(range(len(vectors)), size)]
        return max((float(np.linalg.norm(vectors[chosen].sum(axis=0))) for chosen in sets), default=0.0)

    def _clipped(self, dataset: Vectors) -> NDArray[np.float64]:
        vectors = (
            np.asarray(dataset, float).reshape(len(dataset), -1) if len(dataset) else np.empty((0, self.dimension))
        )
        if vectors.shape[1] != self.dimension:
            raise AuditError(f"The records have dimension {vectors.shape[1]}; it must be {self.dimension}.")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors * np.minimum(1.0, self.radius / np.maximum(lengths, 1e-300)))
