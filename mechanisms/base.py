"""What every reference mechanism shares: its list of proven claims, and the checks on its parameters.

A family's module defines frozen dataclasses on top of this; the harness sees only the `Mechanism` protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from epsaudit.claims.conversions import pure_to_zcdp
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, PureDP
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError, finite_at_least, fraction, whole_at_least
from epsaudit.running.protocols import OutputDistribution


class Reference(ABC):
    """A mechanism whose proofs are known: subclasses are frozen dataclasses, and say what is not said here.

    ``epsilon``, ``rho`` and ``mu``, above 0, are the parameter of the claim, proven or, for an incorrect variant, made;
    ``delta`` is in (0, 1), and so is ``beta``, the probability with which the answer may be too far off. ``sigma``,
    above 0, is the scale of noise, ``tau``, at least 0, what noisy losses are compared with. Other fields are described
    beside them, and so are those of laws and queries.

    Raises `AuditError` if a parameter is out of range, or, when a law is prepared, if the dataset is none that the
    mechanism takes.
    """

    name: ClassVar[str]  # a short name for tables
    adjacency: Adjacency  # the neighbouring relation that the proofs are for
    pair: DatasetPair  # where one pair serves all claims: the one that `worst_pairs` returns
    wholes: ClassVar[Mapping[str, tuple[int, str]]] = {}  # whole-number fields: the least, and what errors call them

    def __post_init__(self) -> None:
        given = vars(self)
        for field in ("epsilon", "rho", "mu", "sigma"):
            positive(given.get(field, 1.0), field)
        for field in ("delta", "beta"):
            fraction(given.get(field, 0.5), field, open_below=True)
        finite_at_least(given.get("tau", 0.0), 0.0, "tau")
        for field, (least, what) in self.wholes.items():
            whole_at_least(given[field], least, what)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every claim that is proven, or, for an incorrect variant, that is wrongly made; the main one first.

        By default (epsilon, delta)-DP, or without a delta epsilon-DP and the zCDP that follows from it.
        """
        if hasattr(self, "delta"):
            return (ApproxDP(self.epsilon, self.delta),)
        return (PureDP(self.epsilon), ZCDP(pure_to_zcdp(self.epsilon)))

    @property
    def claim(self) -> Claim:
        """The main claim."""
        return self.claims[0]

    @abstractmethod
    def __call__(self, dataset: Any) -> OutputDistribution:
        """Prepare the output law on one dataset."""

    def worst_pairs(self) -> Sequence[DatasetPair]:
        """Pairs on which a claim is attained, or nearly: one for each claim in their order, the last for the rest."""
        return (self.pair,)


class BoundedRange(Reference):
    """Exponential mechanisms, whose weights alone decide the range of the log ratio: epsilon-DP and epsilon^2/8-zCDP.

    differentialprivacy.org, 'A Better Privacy Analysis of the Exponential Mechanism'; Cesar and Rogers (2021).
    """

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (PureDP(self.epsilon), ZCDP(self.epsilon**2 / 8.0))


def positive(value: float, what: str) -> float:
    """Return ``value`` as a float, or raise `AuditError` naming ``what`` unless it is finite and above 0."""
    if finite_at_least(value, 0.0, what) == 0.0:
        raise AuditError(f"{what} is {value!r}; it must be above 0.")
    return float(value)
