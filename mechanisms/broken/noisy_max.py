"""Report noisy max with half its noise, or with a claim that belongs to the exponential mechanism.

The claims are as wrongly made; the laws are what the mistake makes of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsaudit.claims import ZCDP, Claim
from epsaudit.errors import whole_at_least
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.noisy_max import NoisyMaxExponential, NoisyMaxLaplace
from epsaudit.mechanisms.queries import Dataset, Utilities, VoteCounts
from epsaudit.neighbours import DatasetPair


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class NoisyMaxWithoutFactorTwo(NoisyMaxLaplace):
    """Report noisy max with Laplace noise of scale sensitivity / epsilon where utilities are not monotone.

    Up to 2 epsilon in truth, as a lead grows.

    Examples
    --------
    >>> NoisyMaxWithoutFactorTwo(1.0).rate, NoisyMaxLaplace(1.0).rate
    (1.0, 0.5)
    """

    name: ClassVar[str] = "report noisy max, factor 2 forgotten"

    @property
    def rate(self) -> float:
        return self.epsilon

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """A lead of four votes."""
        return (self.utilities.lead(4),)


@dataclass(frozen=True)
class NoisyMaxAsBoundedRange(NoisyMaxLaplace):
    """Report noisy max with Laplace noise, and the epsilon^2/8-zCDP claim of the exponential mechanism.

    It is epsilon-DP but not bounded-range. With five candidates who all gain as one loses, rho is 0.149 in truth at
    epsilon = 1, against a claim of 0.125; with two candidates the claim would happen to hold.

    Examples
    --------
    >>> print(NoisyMaxAsBoundedRange(1.0).claim)
    0.125-zCDP
    """

    utilities: Utilities = Approvals(("red", "blue", "green", "white", "black"))
    name: ClassVar[str] = "report noisy max, as if bounded-range"

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.epsilon**2 / 8.0),)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """A lead of two over everybody that is lost at once."""
        return (self.utilities.lead(2),)


@dataclass(frozen=True)
class NoisyMaxExponentialAsBoundedRange(NoisyMaxExponential):
    """Report noisy max with exponential noise, which is permute-and-flip, with the exponential mechanism's zCDP claim.

    At epsilon = 1, where one vote decides an even race, rho is 0.327 in truth against a claim of 0.125.

    Examples
    --------
    >>> print(NoisyMaxExponentialAsBoundedRange(1.0).claim)
    0.125-zCDP
    """

    name: ClassVar[str] = "report noisy max, exponential noise, as if bounded-range"

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.epsilon**2 / 8.0),)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One vote decides an even race."""
        return (self.utilities.lead(1),)
