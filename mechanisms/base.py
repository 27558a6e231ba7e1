"""What every reference mechanism shares: its list of proven claims, and the checks on its parameters.

A family's module defines frozen dataclasses on top of this; the harness sees only the `Mechanism` protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from epsaudit.claims import ZCDP, Claim
from epsaudit.conversions import pure_to_zcdp
from epsaudit.errors import AuditError, finite_at_least
from epsaudit.mechanism import OutputDistribution
from epsaudit.neighbours import Adjacency, DatasetPair


class Reference(ABC):
    """A mechanism whose proofs are known: subclasses are frozen dataclasses that list every claim proven for them."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def claims(self) -> tuple[Claim, ...]:
        """Every claim that is proven, or, for a incorrect variant, that is wrongly made; the main one first."""

    @property
    def claim(self) -> Claim:
        """The main claim."""
        return self.claims[0]

    @property
    @abstractmethod
    def adjacency(self) -> Adjacency:
        """The neighbouring relation that the proofs are for."""

    @abstractmethod
    def __call__(self, dataset: Any) -> OutputDistribution:
        """Prepare the output distribution on one dataset."""

    @abstractmethod
    def worst_pairs(self) -> Sequence[DatasetPair]:
        """Pairs on which a claim is attained, or nearly: one for each claim in their order, the last for the rest."""


def positive(value: float, what: str) -> float:
    """Return ``value`` as a float, or raise `AuditError` naming ``what`` unless it is finite and above 0.

    Examples
    --------
    >>> positive(2, "sigma")
    2.0
    """
    if finite_at_least(value, 0.0, what) == 0.0:
        raise AuditError(f"{what} is {value!r}; it must be above 0.")
    return float(value)


def concentrated(epsilon: float) -> ZCDP:
    """Return the tightest zCDP that every epsilon-DP mechanism satisfies; see `epsaudit.conversions.pure_to_zcdp`.

    Examples
    --------
    >>> print(concentrated(1.0))
    0.462117-zCDP
    """
    return ZCDP(pure_to_zcdp(epsilon))
