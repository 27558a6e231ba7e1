"""Approximate DP whose error hardly grows with |Y|: the recursion of RecConcave on the losses of a monotone query.

For a monotone query and a budget (epsilon, delta) the output is an underestimate of the answer, or None for a refusal.
The optimiser, which is independent of queries, is `epsaudit.mechanisms.quasi_concave`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.neighbours import AddRemove, DatasetPair
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.down_sensitivity import crowds
from epsaudit.mechanisms.laws import FiniteLaw, Floats, outputs_array
from epsaudit.mechanisms.quasi_concave import Chosen, Levels, Stage, best_plan, probabilities, run
from epsaudit.mechanisms.queries import MonotoneQuery

LISTED = 2**16


@dataclass(frozen=True)
class LevelSearch(Reference):
    """Maximises min(lbar, 2 tau - l), given by its level sets: (epsilon, delta)-DP under add/remove."""

    query: MonotoneQuery  # what is asked; |Y| up to 2^64
    epsilon: float
    delta: float  # mass on which it may be exceeded, in (0, 0.1)
    beta: float = 0.05  # probability, in (0, 1), with which the answer may be refused or too far off
    depth: int | None = None  # levels of recursion, at least 1; by default what makes tau least
    adjacency = AddRemove()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.delta < 0.1:
            raise AuditError(f"delta is {self.delta!r}; it must be strictly between 0 and 0.1.")
        if self.depth is not None and self.depth < 1:
            raise AuditError(f"depth is {self.depth!r}; it must be at least 1. ShiftedInverseSensitivity has depth 0.")

    @property
    @abstractmethod
    def tau(self) -> int:
        """How many removals to aim at: the greatest quality, which the optimiser needs."""

    def levels(self, dataset: Sequence[Any]) -> Levels:
        """Level sets of the quality: from the answer after 2 tau - c removals to that after c - 1."""
        least = self.query.least_answers(dataset)[::-1]
        after = np.append(least, np.zeros(2 * self.tau, np.uint64))[: 2 * self.tau]
        return Levels(after[: self.tau - 1 : -1], after[: self.tau])


@dataclass(frozen=True)
class InteriorPoint(LevelSearch):
    """Maximise min(lbar, 2 tau - l) by a private quasi-concave optimiser with a log* recursion; None if it refuses.

    (epsilon, delta)-DP, and f(x) >= M(x) >= f(x) - DS^{2 tau}(x) with probability at least 1 - beta: Theorem 3 of
    docs/explanation/mechanisms.md, after differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity',
    Theorem 6, and Beimel, Nissim and Stemmer (2013). At every practical |Y| it loses to the other searches.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = InteriorPoint(Maximum(range(2**64)), epsilon=1.0, delta=1e-6)
    >>> law = mechanism((2**63,) * 1000)
    >>> law.sample(2, np.random.default_rng(0)).tolist()
    [9223372036854775808, 9223372036854775808]
    """

    name: ClassVar[str] = "interior point, log* recursion"

    @cached_property
    def stage(self) -> Stage:
        """How the budget is spent."""
        depths = range(1, 6) if self.depth is None else (self.depth,)
        return best_plan(self.query.size, self.epsilon, self.delta, self.beta, depths)

    @property
    def tau(self) -> int:
        return self.stage.promise

    def __call__(self, dataset: Sequence[Any]) -> InteriorPointLaw:
        """Prepare the output distribution on one dataset; it lists its law where Y is small enough."""
        law = ListedInteriorPointLaw if self.query.size <= LISTED else InteriorPointLaw
        return law(self.query, self.stage, self.levels(dataset))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """A crowd of about tau, which moves the best output across Y; hill climbing finds pairs further apart."""
        return (crowds(self.query, self.tau - 1),)


@dataclass(frozen=True, eq=False)
class InteriorPointLaw:
    """Output of `InteriorPoint` on one dataset: the optimiser run on its quality, indices turned into outputs.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> law = InteriorPoint(Maximum(range(2**20)), epsilon=1.0, delta=1e-6)(())
    >>> law.sample(2, np.random.default_rng(0)).tolist()
    [0, 0]
    """

    query: MonotoneQuery  # names the outputs
    stage: Stage  # how the budget is spent
    levels: Levels  # the quality

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw ``size`` outputs, shape (size,), None where the mechanism refuses."""
        return self._named(run(self.stage, self.levels, size, rng))

    def _named(self, chosen: Chosen) -> NDArray[Any]:
        outputs = self.query.outputs_at(np.where(chosen.refused, np.uint64(0), chosen.indices))
        if not chosen.refused.any():
            return outputs
        named = outputs.astype(object)
        named[chosen.refused] = None
        return named


@dataclass(frozen=True, eq=False)
class ListedInteriorPointLaw(InteriorPointLaw):
    """An `InteriorPointLaw` on a Y small enough to list, which therefore counts as a finite law; None comes last.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> law = InteriorPoint(Maximum((0, 1)), epsilon=4.0, delta=1e-3)((1,) * 200)
    >>> dict(zip(law.support, np.exp(law.log_probabilities).round(3).tolist()))
    {0: 0.0, 1: 1.0, None: 0.0}
    """

    @property
    def support(self) -> tuple[Any, ...]:
        """The outputs in increasing order, and None."""
        return (*self.query.outputs.tolist(), None)

    @cached_property
    def log_probabilities(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(probabilities(self.stage, self.levels)))

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        return FiniteLaw(self.support, self.log_probabilities).log_density(outputs_array(list(outputs)))
