"""Report noisy max with half its noise, or with a claim that belongs to the exponential mechanism."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import whole_at_least
from epsaudit.mechanisms.broken.selection import AsBoundedRange
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.noisy_max import NoisyMaxExponential, NoisyMaxLaplace
from epsaudit.mechanisms.queries import Dataset, Utilities, VoteCounts


class Approvals(VoteCounts):
    """How many voters approve of each candidate; a record is the tuple of candidates that a voter approves of.

    A voter who changes their mind moves every count, up or down: utilities in full generality.

    Examples
    --------
    >>> Approvals(("red", "blue"))((("red",), ("red", "blue"))).tolist()
    [2.0, 1.0]
    """

    def __call__(self, dataset: Dataset) -> Floats:
        """Return each candidate's approvals, shape (number of candidates,)."""
        votes = Counter(name for record in dataset for name in record)  # type: ignore[attr-defined]  # tuples of names
        return np.array([votes[candidate] for candidate in self.candidates], float)

    def lead(self, gap: int) -> DatasetPair:
        """See `epsaudit.mechanisms.queries.Utilities.lead`: the first leads all others, and one voter turns from it to
        them."""
        gap = whole_at_least(gap, 1, "gap between the candidates")
        first, *rest = self.candidates
        x = ((first,),) * gap
        return DatasetPair(x, (*x[1:], tuple(rest)), f"{first} ahead by {gap} approvals against {gap - 2}")


FIVE = Approvals(("red", "blue", "green", "white", "black"))


class NoisyMaxWithoutFactorTwo(NoisyMaxLaplace):
    """Report noisy max with Laplace noise of scale sensitivity / epsilon where utilities are not monotone.

    Up to 2 epsilon in truth, as a lead grows.
    """

    name: ClassVar[str] = "report noisy max, factor 2 forgotten"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (4,)


@dataclass(frozen=True)
class NoisyMaxAsBoundedRange(AsBoundedRange, NoisyMaxLaplace):
    """Report noisy max with Laplace noise, and the epsilon^2/8-zCDP claim of the exponential mechanism.

    It is epsilon-DP but not bounded-range. With five candidates who all gain as one loses, rho is 0.149 in truth at
    epsilon = 1, against a claim of 0.125; with two candidates the claim would happen to hold.
    """

    utilities: Utilities = FIVE
    name: ClassVar[str] = "report noisy max, as if bounded-range"
    leads: ClassVar[tuple[int, ...]] = (2,)  # over everybody, lost at once


class NoisyMaxExponentialAsBoundedRange(AsBoundedRange, NoisyMaxExponential):
    """Report noisy max with exponential noise, which is permute-and-flip, with the exponential mechanism's zCDP claim.

    At epsilon = 1, where one vote decides an even race, rho is 0.327 in truth against a claim of 0.125.
    """

    name: ClassVar[str] = "report noisy max, exponential noise, as if bounded-range"
