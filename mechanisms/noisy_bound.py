"""Noise at any private upper bound on the local sensitivity, of any query: the general statement of a theorem.

From a query, a mechanism that bounds its local sensitivity and a dataset it makes the law of the noisy answer.
`epsaudit.mechanisms.private_bound` has bounds through one noisy count, whose margin it computes; here the bound is a
mechanism of its own, and that it is seldom too low is for who makes it to prove. `JoinBound` is an example with many
noisy counts. Source: 'Privately bounding local sensitivity' (2024), Theorem 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.adapters.functions import Mechanism
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP
from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, Floats, margin
from epsaudit.mechanisms.ratio_laws import DrawnScaleLaw, ListedScaleLaw


@dataclass(frozen=True)
class LaplaceAtBound(Reference):
    """f(x) + Laplace(g(x) / epsilon), g an epsilon_1-DP mechanism: (epsilon_1 + epsilon, delta)-DP.

    Let g be below the local sensitivity of f with probability at most delta, on every dataset. Nothing else is asked of
    f and g, whatever the law of g.

    Proof. Let x and x' be neighbours, E an event, and B the bounds below |f(x) - f(x')|, which is at most the local
    sensitivity at x: g(x) is in B with probability delta at most. For a bound s outside B, P[f(x) + Laplace(s /
    epsilon) in E] <= e^epsilon P[f(x') + Laplace(s / epsilon) in E]. Averaged over g(x) this is P[M(x) in E] <= delta +
    e^epsilon E[h(g(x))], h >= 0 the probability on the right, and E[h(g(x))] <= e^epsilon_1 E[h(g(x'))]. Exchange x and
    x' for the other direction.

    Parameters
    ----------
    query : callable
        f: dataset to number.
    bound : Mechanism
        g: its claim must be pure DP, its outputs above 0, and its neighbours are those of the whole.
    epsilon : float
        What the release costs beside the bound.
    delta : float
        What the bound is too low with, on every dataset.
    pairs : sequence of DatasetPair
        Pairs to be tried; by default those of the bound.

    Raises
    ------
    AuditError
        If a parameter is out of range, the bound's claim is another, or a bound is not above 0.

    Examples
    --------
    >>> bound = JoinBound(0.5, 1e-3, keys=2)
    >>> mechanism = LaplaceAtBound(join_size, bound, 0.5, 1e-3)
    >>> str(mechanism.claim), mechanism((("left", 0), ("right", 0))).sample(2, np.random.default_rng(0)).shape
    ('(1, 0.001)-DP', (2,))
    """

    query: Callable[[Any], float]
    bound: Mechanism
    epsilon: float
    delta: float
    pairs: Sequence[DatasetPair] = ()
    name: ClassVar[str] = "noise at any private bound"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.bound.claim, PureDP):
            raise AuditError(f"The bound's claim is {self.bound.claim}; it must be pure DP.")

    @property
    def adjacency(self) -> Adjacency:
        return self.bound.adjacency  # type: ignore[return-value]  # None passes through

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxDP(self.bound.claim.parameter + self.epsilon, self.delta),)  # type: ignore[union-attr]  # pure

    def __call__(self, dataset: Any) -> DrawnScaleLaw:
        """Prepare the law: with a density where the bound has finitely many values, else for draws only."""
        law = self.bound(dataset)
        kind = ListedScaleLaw if isinstance(law, FiniteLaw) else DrawnScaleLaw
        return kind(float(self.query(dataset)), law, self.scales)

    def scales(self, bounds: Floats) -> Floats:
        """Scale of the noise at each bound."""
        if not np.all(bounds > 0.0):
            raise AuditError(f"A bound is {float(bounds[~(bounds > 0.0)][0])!r}; bounds must be above 0.")
        return bounds / self.epsilon

    def worst_pairs(self) -> Sequence[DatasetPair]:
        """Those that were given, or the bound's."""
        return tuple(self.pairs) or self.bound.worst_pairs()  # type: ignore[attr-defined]  # a Reference, without pairs


def join_size(dataset: Sequence[tuple[str, int]]) -> float:
    """Rows of the join of two tables; a dataset is records ("left" or "right", key).

    A record joins or leaves with as many rows as the other table has of its key: one key's count of rows is the product
    of both counts, and the local sensitivity the greatest count of a key in either table.

    Examples
    --------
    >>> join_size((("left", 0), ("left", 0), ("right", 0), ("right", 1)))
    2.0
    """
    counts = Counter(dataset)
    return float(sum(counts[side, key] * counts["right", key] for side, key in counts if side == "left"))


@dataclass(frozen=True)
class JoinBound(Reference):
    """Greatest of all noisy counts of a key in a table, and a margin: epsilon-DP, and seldom below the greatest count.

    A record is in one count, so that discrete Laplace noise of rate epsilon on each costs epsilon for all (Dwork et al.
    2006), and what is made of noisy counts no more. It is below the greatest count where the noise of that one is below
    -margin, with probability e^(-epsilon (margin + 1)) / (1 + e^-epsilon) <= delta. At least 1.

    Raises `AuditError` if a parameter is out of range, or a record's table or key is none.

    Examples
    --------
    >>> bound = JoinBound(0.5, 1e-3, keys=2)
    >>> law = bound((("left", 0),) * 40)
    >>> bound.margin, float(np.exp(law.log_probabilities) @ np.array(law.support)) > 52
    (12, True)
    """

    epsilon: float
    delta: float
    keys: int  # number of keys, at least 1; they are 0, 1, ...
    records: int = 100  # of the pair
    name: ClassVar[str] = "greatest count, with a margin"
    adjacency = AddRemove()
    wholes = {"keys": (1, "number of keys")}

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (PureDP(self.epsilon),)

    @property
    def margin(self) -> int:
        """Least whole number that is enough."""
        return margin(self.epsilon, self.delta)

    def counts(self, dataset: Sequence[tuple[str, int]]) -> list[int]:
        """How many records each key of each table has."""
        known = [(side, key) for side in ("left", "right") for key in range(self.keys)]
        found = Counter(dataset)
        if strange := set(found) - set(known):
            raise AuditError(f"The record {min(strange)!r} is not known; records are ('left', 0), ('right', 0), ...")
        return [found[one] for one in known]

    def __call__(self, dataset: Sequence[tuple[str, int]]) -> FiniteLaw:
        """Prepare the law; noise that all counts together exceed with probability 1e-18 is left out of its support."""
        counts = np.array(self.counts(dataset))
        reach, middle = math.ceil(math.log(1e18 * len(counts)) / self.epsilon), counts.max() + self.margin
        bounds = np.arange(max(1, middle - reach), middle + reach + 1)
        log_chances = partial(self._log_chances, counts)
        return JoinBoundLaw(bounds.tolist(), log_chances(bounds), log_chances)

    def _log_chances(self, counts: Floats, bounds: ArrayLike) -> Floats:
        """Log-probability of each bound, by differences of log distribution functions, which keep their digits."""
        values = np.asarray(bounds, float)
        noise = values[:, None] - self.margin - counts  # of each count, at the most
        law = DiscreteLaplaceLaw(0, 1.0 / self.epsilon)
        here, below = law.log_cdf(noise), law.log_cdf(noise - 1.0)
        with np.errstate(divide="ignore"):
            one = np.where(values > 1.0, np.log(-np.expm1(np.sum(below - here, axis=1))), 0.0)
        return np.where((values >= 1.0) & (values == np.floor(values)), np.sum(here, axis=1) + one, -np.inf)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One record more in the greatest count."""
        crowd, one = (("left", 0),) * self.records, ("left", 0)
        return (DatasetPair(crowd, (*crowd, one), f"{self.records} rows in one table against one more"),)


@dataclass(frozen=True, eq=False)
class JoinBoundLaw(FiniteLaw):
    """Of a `JoinBound`: the support leaves out rare bounds, the density none."""

    log_chances: Callable[[ArrayLike], Floats]

    def log_density(self, outputs: ArrayLike) -> Floats:
        return self.log_chances(outputs)


def match_for_all(records: int) -> DatasetPair:
    """Pair on which a join moves most: a record that joins with all others, and is in no great count itself."""
    left = (("left", 0),) * records
    return DatasetPair(left, (*left, ("right", 0)), f"{records} rows in one table against a match for all")
