"""Noise added to a numeric query: Laplace, Gaussian and discrete Laplace, each scaled to the query's sensitivity.

Each is built from a query and a privacy parameter; its output law is known in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from epsaudit.claims import ZCDP, ApproxDP, Claim, GaussianDP
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, LaplaceLaw, NormalLaw
from epsaudit.mechanisms.queries import HEAD_COUNT, NumericQuery
from epsaudit.neighbours import Adjacency, DatasetPair


class _Additive(Reference):
    """What the family shares: privacy rests on the query's sensitivity alone."""

    query: NumericQuery

    @property
    def adjacency(self) -> Adjacency:
        return self.query.adjacency

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """The query's own pairs, whose answers differ by the sensitivity."""
        return self.query.pairs


@dataclass(frozen=True)
class Laplace(_Additive):
    """Laplace noise of scale sensitivity / epsilon: epsilon-DP (Dwork, McSherry, Nissim and Smith 2006, Proposition 1).

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = Laplace(0.5)
    >>> mechanism(("ann", "bob")), str(mechanism.claim)
    (LaplaceLaw(centre=2.0, scale=2.0), '0.5-DP')
    >>> mechanism(("ann", "bob")).sample(3, np.random.default_rng(0)).shape
    (3,)
    """

    epsilon: float
    query: NumericQuery = HEAD_COUNT  # what is asked; by default the number of records
    name: ClassVar[str] = "Laplace"

    @property
    def scale(self) -> float:
        return self.query.sensitivity / self.epsilon

    def __call__(self, dataset: Any) -> LaplaceLaw:
        return LaplaceLaw(float(self.query(dataset)), self.scale)


@dataclass(frozen=True)
class DiscreteLaplace(_Additive):
    """Two-sided geometric noise on an integer query: epsilon-DP (Ghosh, Roughgarden and Sundararajan 2012).

    Raises
    ------
    AuditError
        If epsilon is not a finite number above 0, or if the sensitivity or an answer is not an integer.

    Examples
    --------
    >>> DiscreteLaplace(0.5)(("ann", "bob"))
    DiscreteLaplaceLaw(centre=2, scale=2.0)
    """

    epsilon: float
    query: NumericQuery = HEAD_COUNT  # what is asked; its answers and its sensitivity must be integers
    name: ClassVar[str] = "discrete Laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        _integer(self.query.sensitivity, "sensitivity of the query")

    @property
    def scale(self) -> float:
        return self.query.sensitivity / self.epsilon

    def __call__(self, dataset: Any) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(_integer(self.query(dataset), "answer of the query"), self.scale)


@dataclass(frozen=True)
class Gaussian(_Additive):
    """Gaussian noise with the least standard deviation that is (epsilon, delta)-DP.

    Balle and Wang (2018), Theorem 8 and Algorithm 1; mu-GDP with mu = sensitivity / sigma by Dong, Roth and Su (2022),
    Theorem 2.7; rho-zCDP with rho = mu^2 / 2 by Bun and Steinke (2016), Proposition 1.6.

    Examples
    --------
    >>> mechanism = Gaussian(1.0, 1e-5)
    >>> round(mechanism.sigma, 6), [str(claim) for claim in mechanism.claims]
    (3.730632, ['(1, 1e-05)-DP', '0.268051-GDP', '0.0359257-zCDP'])
    """

    epsilon: float  # epsilon, delta: the approximate-DP claim to calibrate to: epsilon above 0 in nats, delta in (0, 1)
    delta: float
    query: NumericQuery = HEAD_COUNT  # what is asked; by default the number of records
    name: ClassVar[str] = "Gaussian"

    @cached_property
    def _calibrated_mu(self) -> float:
        """Greatest sensitivity-to-noise ratio that (epsilon, delta)-DP allows, rounded down."""
        return float(GaussianDP(0.0).least_at(self.epsilon, self.delta))

    @property
    def claims(self) -> tuple[Claim, ...]:
        mu = self._calibrated_mu
        return (ApproxDP(self.epsilon, self.delta), GaussianDP(mu), ZCDP(mu * mu / 2.0))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in the unit of the query."""
        return self.query.sensitivity / self._calibrated_mu

    def __call__(self, dataset: Any) -> NormalLaw:
        return NormalLaw(float(self.query(dataset)), self.sigma)


def _integer(value: float, what: str) -> int:
    if value != int(value):
        raise AuditError(f"The {what} is {value!r}; discrete noise needs an integer.")
    return int(value)
