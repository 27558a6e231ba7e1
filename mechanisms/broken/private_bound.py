"""Noise at a bound that is none: for another adjacency, or the wrong way round.

The claims are as published or as a reader may take them; the laws are what the text makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.private_bound import PrivatelyBounded
from epsaudit.mechanisms.ratio import BoundedRatio, answers


@dataclass(frozen=True)
class BoundedRatioUnderSubstitution(BoundedRatio):
    """The bound on the local sensitivity under add/remove, its code corrected, claimed under substitution.

    Source: 'Privately bounding local sensitivity' (2024), which says that its algorithm 'does not have a degradation in
    the substitution relation'. Substitution moves a / b by 1 / b; where half of the records are 1 the bound tends to
    half of that. At epsilon = 1 and delta = 1e-6, b / 2 against b / 2 + 1, epsilon is 1.02, 1.70 and 1.79 in truth for
    b = 2,000, 20,000 and 200,000; it tends to twice epsilon_2.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = BoundedRatioUnderSubstitution(1.0, 1e-6)
    >>> mechanism.bound(np.array([10_000.0]), np.array([20_000.0])) * 20_000 < 0.6  # of 1 / b
    array([ True])
    """

    name: ClassVar[str] = "private ratio, add/remove bound under substitution"
    adjacency = Substitution()

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Half and half, of so many that the bound is close to half of the sensitivity."""
        return (
            DatasetPair(answers(10_000, 10_000), answers(10_001, 9_999), "10,000 of 20,000 against 10,001 of 20,000"),
        )


@dataclass(frozen=True)
class BoundedFromBelow(PrivatelyBounded):
    """Noise at a private lower bound on the local sensitivity: at most that, but for probability delta.

    Source: 'Privately bounding local sensitivity' (2024), Theorem 1, whose condition is Pr[g <= LS] >= 1 - delta; its
    proof needs the converse. Of a share of ones, whose local sensitivity under substitution is 1 / b, the noisy level
    less the margin and one more meets the condition on every dataset.

    Examples
    --------
    >>> import numpy as np
    >>> from epsaudit.mechanisms.private_bound import RatioByRecords
    >>> queried = RatioByRecords(4), 2.0, 1e-3, 0.3
    >>> below, above = (kind(*queried).scales(np.array([-4.0])) * 1.4 for kind in (BoundedFromBelow, PrivatelyBounded))
    >>> below < 1 / 4, above > 1 / 4
    (array([ True]), array([ True]))
    """

    name: ClassVar[str] = "noise at a private bound, from below"

    def scales(self, noisy_levels: Floats) -> Floats:
        """As stated."""
        return super().scales(noisy_levels - 2.0 * self.margin - 1.0)
