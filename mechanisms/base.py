"""The base class of every reference mechanism: its list of proven claims, and the checks of its parameters.

The module of each family defines frozen dataclasses on top of this class. The harness sees only the
`Mechanism` protocol.
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
    """Base of mechanisms whose privacy proofs are known. Subclasses are frozen dataclasses.

    The following fields have the same meaning in all subclasses, which do not repeat it. ``epsilon``, ``rho`` and
    ``mu``, above 0, are the parameter of the claim; the claim of an incorrect variant is false. ``delta`` is in (0, 1),
    and so is ``beta``, the probability with which the answer may miss its accuracy bound. ``sigma``, above 0, is the
    scale of noise. ``tau``, at least 0, is the threshold to which noisy losses are compared. Comments beside the other
    fields describe them; this holds for the fields of laws and queries, too.

    Raises `AuditError` if a parameter is out of range, or, when a law is prepared, if the mechanism does not accept
    the dataset.
    """

    name: ClassVar[str]  # a short name for tables
    adjacency: Adjacency  # the neighbouring relation that the proofs are for
    pair: DatasetPair  # the pair that `worst_pairs` returns, in mechanisms where one pair serves all claims
    wholes: ClassVar[Mapping[str, tuple[int, str]]] = {}  # whole-number fields: their minimum, and their name in errors

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
        """Every proven claim, the main one first; an incorrect variant states its false claims here.

        The default is (epsilon, delta)-DP, or, without a delta, epsilon-DP and the zCDP that follows from it.
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
        """Return pairs on which claims are attained, or nearly.

        There is one pair for each claim, in the order of the claims; the last pair serves all remaining claims.
        """
        return (self.pair,)


class BoundedRange(Reference):
    """Base of exponential mechanisms, which satisfy epsilon-DP and epsilon^2/8-zCDP.

    The zCDP claim holds because the weights alone bound the range of the log ratio: differentialprivacy.org, 'A Better
    Privacy Analysis of the Exponential Mechanism'; Cesar and Rogers (2021).
    """

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (PureDP(self.epsilon), ZCDP(self.epsilon**2 / 8.0))


def positive(value: float, what: str) -> float:
    """Return ``value`` as a float, or raise `AuditError` naming ``what`` unless it is finite and above 0."""
    if finite_at_least(value, 0.0, what) == 0.0:
        raise AuditError(f"{what} is {value!r}; it must be above 0.")
    return float(value)
