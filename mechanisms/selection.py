"""Private selection: choose a candidate of high utility, by the exponential mechanism or by permute-and-flip.

From a vector of utilities with a known sensitivity they release one candidate. Where utilities only ever move in one
direction between neighbours the exponential mechanism may be twice as sharp: a mechanism of its own.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import BoundedRange, Reference, positive
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.queries import MONOTONE_VOTES, VOTES, Utilities

Floats = NDArray[np.float64]


class PermuteAndFlipLaw(FiniteLaw):
    """The candidate that permute-and-flip chooses, given the log-probability that each accepts; 0 for the best one.

    Examples
    --------
    >>> law = PermuteAndFlipLaw(("red", "blue"), np.log([1.0, 0.5]))
    >>> np.exp(law.log_probabilities).round(6).tolist()
    [0.75, 0.25]
    """

    def __init__(self, support: tuple[Hashable, ...], log_acceptance: Floats) -> None:
        super().__init__(support, log_choice(log_acceptance))
        object.__setattr__(self, "_acceptance", np.exp(log_acceptance))

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Run the algorithm: the first to accept in a random order is uniform among all that accept, a reservoir."""
        chosen = np.zeros(size, dtype=np.intp)
        accepted = np.zeros(size, dtype=np.int64)
        for candidate, acceptance in enumerate(self._acceptance):
            accepts = rng.random(size) < acceptance
            accepted += accepts
            chosen[accepts & (rng.random(size) * accepted < 1.0)] = candidate
        return self._outputs[chosen]


def log_choice(log_acceptance: Floats) -> Floats:
    """Log-probability that each candidate is the first to accept in a uniformly random order.

    Candidate j is chosen with probability p_j E[1 / (1 + S)], S the number of others that accept, which is
    Poisson-binomial. E[1 / (1 + S)] is the integral over t in (0, 1) of E[t^S], a polynomial of degree k - 1: Gauss and
    Legendre's rule with k nodes integrates it exactly, all of its terms positive.

    Examples
    --------
    >>> np.exp(log_choice(np.log([1.0, 0.5]))).round(6).tolist()
    [0.75, 0.25]
    """
    p = np.exp(log_acceptance)
    nodes, weights = np.polynomial.legendre.leggauss(len(p))
    factors = np.log1p(p * ((nodes[:, None] + 1.0) / 2.0 - 1.0))  # log E[t^(j accepts)], nodes by candidates
    others = factors.sum(axis=1, keepdims=True) - factors
    return np.asarray(log_acceptance + np.log(weights / 2.0 @ np.exp(others)))


@dataclass(frozen=True)
class _Selection(Reference):
    """What the family shares: a candidate is chosen by ``utilities``, in units of their sensitivity.

    By default they are the votes for each of two candidates, one vote moving (or joining, where they are monotone).
    """

    epsilon: float
    utilities: Utilities = VOTES
    share: ClassVar[float] = 0.5
    leads: ClassVar[tuple[int, ...]]  # how far ahead the first candidate is in the worst pairs

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.utilities.sensitivity, "sensitivity of the utilities")

    @property
    def rate(self) -> float:
        """What one sensitivity of utility counts, as log-weight or in units of the noise's scale."""
        return self.share * self.epsilon

    @property
    def adjacency(self) -> Adjacency:
        return self.utilities.adjacency

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return tuple(map(self.utilities.lead, self.leads))

    def scores(self, dataset: Any) -> Floats:
        """Utilities in units of their sensitivity, shape (number of candidates,)."""
        scores = np.asarray(self.utilities(dataset), float) / self.utilities.sensitivity
        if scores.shape != (len(self.utilities.candidates),) or not np.all(np.isfinite(scores)):
            raise AuditError(
                f"The utilities are {scores!r}; there must be one finite number for each of the "
                f"{len(self.utilities.candidates)} candidates."
            )
        return scores


class ExponentialMechanism(BoundedRange, _Selection):
    """Choose a candidate with probability proportional to exp(epsilon u / (2 sensitivity)).

    epsilon-DP (McSherry and Talwar 2007, Theorem 6). epsilon-bounded-range, and therefore epsilon^2/8-zCDP
    (differentialprivacy.org, 'A Better Privacy Analysis of the Exponential Mechanism'; Cesar and Rogers 2021).

    Examples
    --------
    >>> mechanism = ExponentialMechanism(1.0)
    >>> np.exp(mechanism(("red", "red")).log_probabilities).round(6).tolist()
    [0.731059, 0.268941]
    >>> [str(claim) for claim in mechanism.claims]
    ['1-DP', '0.125-zCDP']
    """

    name: ClassVar[str] = "exponential mechanism"
    # a clear lead, where pure DP is nearly attained and the runner-up not yet rare; an even race for zCDP
    leads: ClassVar[tuple[int, ...]] = (10, 1)

    def __call__(self, dataset: Any) -> FiniteLaw:
        return FiniteLaw(self.utilities.candidates, self.rate * self.scores(dataset))


@dataclass(frozen=True)
class MonotoneExponentialMechanism(ExponentialMechanism):
    """Choose with probability proportional to exp(epsilon u / sensitivity), where neighbours' utilities are ordered.

    If adding a record moves every utility in the same direction by at most the sensitivity, a weight and the sum of all
    weights each change by a factor between 1 and e^epsilon, in the same direction: their ratio changes by no more.
    epsilon-DP, and epsilon^2/8-zCDP, because the weights alone decide the range of the log ratio (same sources as the
    exponential mechanism).

    Examples
    --------
    >>> np.exp(MonotoneExponentialMechanism(1.0)(("red",)).log_probabilities).round(6).tolist()
    [0.731059, 0.268941]
    """

    # by default the votes for each of two candidates, one record added or removed
    utilities: Utilities = MONOTONE_VOTES
    name: ClassVar[str] = "exponential mechanism, monotone utilities"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (5, 1)  # half the lead is as clear


class PermuteAndFlip(_Selection):
    """Go through the candidates in random order and take the first that accepts.

    Each accepts with probability exp(epsilon (u - max u) / (2 sensitivity)): epsilon-DP (McKenna and Sheldon 2020,
    Theorem 1). Not bounded-range: its zCDP claim is the one that every pure DP mechanism has. The same law as report
    noisy max with exponential noise of scale 2 sensitivity / epsilon (Ding, Kifer, Saghaian, Steinke, Wang, Xiao and
    Zhang 2021).

    Examples
    --------
    >>> mechanism = PermuteAndFlip(1.0)
    >>> np.exp(mechanism(("red", "red")).log_probabilities).round(6).tolist()
    [0.81606, 0.18394]
    """

    name: ClassVar[str] = "permute-and-flip"
    # a lead of two votes that becomes a tie, where the trailing one gains e^epsilon; an even race for zCDP
    leads: ClassVar[tuple[int, ...]] = (2, 1)

    def __call__(self, dataset: Any) -> PermuteAndFlipLaw:
        scores = self.scores(dataset)
        return PermuteAndFlipLaw(tuple(self.utilities.candidates), self.rate * (scores - scores.max()))
