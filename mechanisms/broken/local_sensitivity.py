"""Noise scaled to the local sensitivity itself: the mistake that smooth sensitivity and propose-test-release repair.

The claim is the one that global sensitivity would give; the scale of the noise tells what it was scaled to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import FiniteLaw, LaplaceLaw
from epsaudit.mechanisms.queries import Dataset

POST_PAIR = DatasetPair((1, 2, 2), (2, 2, 2))
"""differentialprivacy.org, 'Beyond Global Sensitivity via Inverse Sensitivity': local sensitivities 1 and 0."""

NOTES_PAIR = DatasetPair(
    (0,) * 7 + (10**6,) * 4, (0,) * 6 + (10**6,) * 5, "seven zeros and four 10^6s against six and five"
)
"""Lecture notes on propose-test-release: both medians are 0, the local sensitivities 0 and 10^6."""


@dataclass(frozen=True)
class LaplaceAtLocalSensitivity(Reference):
    """The median plus Laplace noise of scale LS(x) / epsilon, claimed to be epsilon-DP.

    The median of an even number of records is the lower of the two in the middle. Where the local sensitivity is 0 the
    median comes out as it is, with certainty: no epsilon will do. Both sources show this and warn of it.

    Raises `AuditError` if epsilon is not a finite number above 0, or a dataset is empty.

    Examples
    --------
    >>> mechanism = LaplaceAtLocalSensitivity(1.0)
    >>> mechanism((1, 2, 2)), mechanism((2, 2, 2)).support
    (LaplaceLaw(centre=2.0, scale=1.0), (2.0,))
    """

    epsilon: float
    pair: DatasetPair = POST_PAIR  # neighbours of which one has local sensitivity 0
    name: ClassVar[str] = "median, noise at local sensitivity"
    adjacency = Substitution()

    def __call__(self, dataset: Dataset) -> LaplaceLaw | FiniteLaw:
        ordered = np.sort(np.asarray(dataset, float))
        if ordered.size == 0:
            raise AuditError("The dataset is empty; a median needs a record.")
        middle = (ordered.size - 1) // 2
        around = ordered[max(middle - 1, 0) : middle + 2]
        sensitivity = float(np.max(np.abs(around - ordered[middle])))
        if sensitivity == 0.0:
            return FiniteLaw((float(ordered[middle]),), (0.0,))
        return LaplaceLaw(float(ordered[middle]), sensitivity / self.epsilon)
