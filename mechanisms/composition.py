"""Sequential composition: several mechanisms, fixed in advance, run on the same data with independent noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, GaussianDP, PureDP, TradeOff
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms import accounting
from epsaudit.mechanisms.accounting import INTERVAL
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.outputs.arrays import Outputs, pack
from epsaudit.running.protocols import Mechanism, OutputDistribution


@dataclass(frozen=True)
class ProductLaw:
    """Law of several independent outputs: rows of a matrix if all outputs are numbers, else tuples."""

    parts: tuple[OutputDistribution, ...]  # the law of each output; `epsaudit.mechanisms.exact` reads these laws

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Draw ``size`` outputs, shape (size, parts) or, for tuples, (size,)."""
        columns = [part.sample(size, rng) for part in self.parts]
        if all(column.ndim == 1 and column.dtype.kind in "iufb" for column in columns):
            return np.column_stack(columns)
        outputs = np.empty(size, object)
        outputs[:] = pack(list(zip(*(column.tolist() for column in columns), strict=True))) if size else []
        return outputs

    def log_density(self, outputs: Outputs) -> Floats:
        rows = np.asarray(outputs)
        total = np.zeros(len(rows))
        for i, part in enumerate(self.parts):
            column: NDArray[Any] = rows[:, i] if rows.ndim == 2 else pack([row[i] for row in rows])
            total += part.log_density(column)  # type: ignore[attr-defined]  # said above
        return total


@dataclass(frozen=True)
class Sequential(Reference):
    """Run mechanisms, each with a claim and for the same neighbours, one after the other on the same data.

    Raises `AuditError` if there is no part, a part has no claim, or the parts' adjacencies differ.

    >>> both = Sequential(Laplace(0.5), Laplace(1.0))
    >>> print(both.claim, both.claims[1], both.advanced(1e-6))
    1.5-DP 0.584576-zCDP (6.50197, 1e-06)-DP
    """

    mechanisms: tuple[Mechanism, ...]

    def __init__(self, *mechanisms: Mechanism) -> None:
        object.__setattr__(self, "mechanisms", mechanisms)
        if not mechanisms:
            raise AuditError("There is nothing to compose; give at least one mechanism.")
        for one in mechanisms:
            if not isinstance(one, Mechanism) or not isinstance(one.claim, Claim):
                raise AuditError(f"{one!r} cannot be composed; a part must be a mechanism with a claim.")
            if one.adjacency != mechanisms[0].adjacency:
                raise AuditError(
                    f"The parts are for different neighbours: {mechanisms[0].adjacency} and {one.adjacency}. "
                    "A composition needs parts for the same ones."
                )

    @classmethod
    def copies(cls, mechanism: Mechanism, count: int) -> Sequential:
        """Compose ``count`` copies of one mechanism; raise `AuditError` if this is not a whole number above 0."""
        return cls(*[mechanism] * whole_at_least(count, 1, "number of copies"))

    @property
    def name(self) -> str:  # type: ignore[override]  # depends on the parts
        names = [one.name for one in self.mechanisms]
        return f"{len(names)} x {names[0]}" if len(set(names)) == 1 else " + ".join(names)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Claims of basic composition, zCDP and Gaussian DP, in this order, as far as all parts support them."""
        found: list[Claim] = []
        points = self._of(PureDP, ApproxDP)
        if points is not None:
            found.append(accounting.basic(points))
        rhos = self._of(ZCDP, PureDP, GaussianDP)
        if rhos is not None:
            found.append(accounting.concentrated(rhos))
        mus = self._of(GaussianDP)
        if mus is not None:
            found.append(accounting.gaussian(mus))  # type: ignore[arg-type]  # just asked for
        return tuple(found)

    def advanced(self, delta: float) -> ApproxDP:
        """Return the claim by advanced composition; see `epsaudit.mechanisms.accounting.advanced`."""
        points = self._of(PureDP, ApproxDP)
        if points is None:
            raise AuditError("Advanced composition needs parts with pure or approximate DP claims.")
        return accounting.advanced(points, delta)

    def numeric(self, delta: float) -> ApproxDP:
        """Return the claim by numeric composition of the parts' privacy loss distributions.

        See `epsaudit.mechanisms.accounting.numeric`.
        """
        return accounting.numeric(self._distributions, delta)

    def trade_off(self, epsilons: Sequence[float]) -> TradeOff:
        """Return a trade-off curve by numeric composition; see `epsaudit.mechanisms.accounting.trade_off`."""
        return accounting.trade_off(self._distributions, epsilons)

    @property
    def _distributions(self) -> list[Any]:
        known = {one: loss_distribution(one) for one in dict.fromkeys(self.mechanisms)}
        return [known[one] for one in self.mechanisms]

    @property
    def adjacency(self) -> Adjacency:
        return self.mechanisms[0].adjacency  # type: ignore[return-value]  # None passes through

    def __call__(self, dataset: Any) -> ProductLaw:
        return ProductLaw(tuple(one(dataset) for one in self.mechanisms))

    def worst_pairs(self) -> Sequence[DatasetPair]:
        return self.mechanisms[0].worst_pairs()

    def _of(self, *kinds: type[Claim]) -> list[Claim] | None:
        """Return one claim of each part, earlier kinds first, or None if some part has no claim of these kinds."""
        chosen = []
        for one in self.mechanisms:
            offered = getattr(one, "claims", (one.claim,))
            match = next((claim for kind in kinds for claim in offered if isinstance(claim, kind)), None)
            if match is None:
                return None
            chosen.append(match)
        return chosen


@singledispatch
def loss_distribution(mechanism: Any) -> Any:
    """Return the privacy loss distribution of dp-accounting for a mechanism's worst pair.

    For a mechanism without an implementation of its own, it is that of the worst pair under its claim.
    """
    return accounting.loss_distribution(mechanism.claim)


@loss_distribution.register
def _(mechanism: Laplace) -> Any:
    return accounting.library().from_laplace_mechanism(
        mechanism.scale, mechanism.query.sensitivity, value_discretization_interval=INTERVAL
    )


@loss_distribution.register
def _(mechanism: DiscreteLaplace) -> Any:
    return accounting.library().from_discrete_laplace_mechanism(
        1.0 / mechanism.scale, int(mechanism.query.sensitivity), value_discretization_interval=INTERVAL
    )


@loss_distribution.register
def _(mechanism: Gaussian) -> Any:
    return accounting.library().from_gaussian_mechanism(
        mechanism.sigma, sensitivity=mechanism.query.sensitivity, value_discretization_interval=INTERVAL
    )


@loss_distribution.register
def _(mechanism: RandomisedResponse) -> Any:
    if mechanism.answers == 2:  # use the claim's pair: dp-accounting rounds both losses of its own pair up by a step
        return accounting.loss_distribution(mechanism.claim)
    noise = (1.0 - mechanism.truth) * mechanism.answers / (mechanism.answers - 1)
    return accounting.library().from_randomized_response(
        noise, mechanism.answers, value_discretization_interval=INTERVAL
    )
