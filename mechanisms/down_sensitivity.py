"""Monotone queries of unbounded sensitivity, answered through losses: shifted inverse sensitivity and noisy searches.

The loss l(x, y) is the number of records to remove until the answer is at most y; it has sensitivity 1. lbar(x, y) is
the number of removals until the answer is below y. The output is an underestimate of the answer. Its error is at most
the change of the answer that the removal of a few records can cause: the down sensitivity DS.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtri

from epsaudit.array_types import Floats
from epsaudit.claims.conversions import pure_to_zcdp, root
from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP, PureDP
from epsaudit.data.neighbours import AddRemove, DatasetPair
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms.base import BoundedRange, Reference, positive
from epsaudit.mechanisms.laws import FiniteLaw, LaplaceLaw, NormalLaw
from epsaudit.mechanisms.queries import MonotoneQuery
from epsaudit.mechanisms.queries.monotone import made_strict
from epsaudit.mechanisms.search import (
    ListedTolerantLaw,
    SearchLaw,
    TabulatedSearchLaw,
    TolerantLaw,
    comparisons,
    fits_a_list,
    fits_a_table,
)


@dataclass(frozen=True)
class ShiftedInverseSensitivity(BoundedRange):
    """The exponential mechanism on max(l - tau, tau - lbar), which aims at the answer after tau removals.

    tau = ceil((2 / epsilon) log(|Y| / beta)). epsilon-DP, and f(x) >= M(x) >= f(x) - DS^{2 tau}(x) with probability 1 -
    beta: Fang, Dong and Yi (2022), as in differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity',
    Theorem 4 and note 4. epsilon^2/8-zCDP, as for every exponential mechanism.

    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = ShiftedInverseSensitivity(Maximum((0, 1, 2)), epsilon=1.0, beta=0.5)
    >>> mechanism.tau, np.exp(mechanism((1,) * 8).log_probabilities).round(3).tolist()
    (4, [0.018, 0.965, 0.018])
    """

    query: MonotoneQuery  # the query; its set of outputs Y must fit into memory
    epsilon: float
    beta: float = 0.05
    name: ClassVar[str] = "shifted inverse sensitivity"
    share: ClassVar[float] = 0.5
    adjacency = AddRemove()

    @property
    def tau(self) -> int:
        return math.ceil(2.0 / self.epsilon * math.log(self.query.size / self.beta))

    @property
    def rate(self) -> float:
        """Decrease of the log-weight per unit of the shifted loss."""
        return self.share * self.epsilon

    def __call__(self, dataset: Sequence[Any]) -> FiniteLaw:
        losses = self.query.losses(dataset)
        shifted = np.maximum(losses - self.tau, self.tau - made_strict(losses))
        return FiniteLaw(self.query.outputs.tolist(), -self.rate * shifted)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return a pair for pure DP, and a pair of larger datasets for zCDP.

        The first pair is no record against one record at the greatest output. From loss m to m + 1 below the
        greatest output, the least output loses a factor e^{epsilon/2} in weight and the others gain as much. The
        pure bound is attained where the least output is rare, and the zCDP bound where the least output is as likely
        as all others together.
        """
        # the least output and the size - 1 others weigh the same where 2 rate (tau - loss) = log(size - 1)
        even = round(self.tau - math.log(self.query.size - 1) / (2.0 * self.rate) - 0.5)
        return (crowds(self.query, 0), crowds(self.query, min(max(even, 0), self.tau - 1)))


@dataclass(frozen=True)
class _NoisySearch(Reference):
    """Binary search for the least output whose noisy loss is at most tau."""

    # the query; only its losses along one path of the search are ever evaluated
    query: MonotoneQuery
    sigma: float  # scale or standard deviation of the noise, in records, above 0
    tau: float  # threshold on the noisy loss, in records, at least 0
    adjacency = AddRemove()

    @property
    @abstractmethod
    def noise(self) -> LaplaceLaw | NormalLaw:
        """Law of the noise on each loss."""

    @property
    def candidates(self) -> int:
        """Number of outputs that can be returned, counted from the greatest: all of Y.

        The published search never returns the least output. This search starts with its lower end one place below the
        least output. It needs an additional comparison only where |Y| - 1 is a power of two.
        """
        return self.query.size

    @property
    def steps(self) -> int:
        """Greatest number of comparisons in a run."""
        return comparisons(self.candidates)

    def __call__(self, dataset: Sequence[Any]) -> SearchLaw:
        law = TabulatedSearchLaw if fits_a_table(self.candidates) else SearchLaw
        return law(self.query, self.query.loss(dataset), self.candidates, self.tau, self.noise)


class LaplaceBinarySearch(_NoisySearch):
    """Binary search with Laplace noise of scale sigma on every loss: (T / sigma)-DP for at most T comparisons.

    The claim follows by basic composition. The search is also (T tanh(1 / (2 sigma)) / sigma)-zCDP, by the tight
    conversion of each comparison (differentialprivacy.org, 'Tight RDP & zCDP bounds from pure DP', Theorem 5) and
    composition of zCDP (Bun and Steinke 2016, Lemma 1.7), where the source has T / (2 sigma^2). Source:
    differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity', noisy_binary_search, with the greatest
    number of comparisons T in place of the published log2 |Y|, which is too small.

    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = LaplaceBinarySearch.calibrated(Maximum(range(1024)), epsilon=1.0, beta=0.05)
    >>> mechanism.steps, mechanism.sigma, str(mechanism.claim)
    (10, 10.0, '1-DP')
    """

    name: ClassVar[str] = "binary search, Laplace noise"

    @classmethod
    def calibrated(cls, query: MonotoneQuery, epsilon: float, beta: float = 0.05) -> LaplaceBinarySearch:
        """Choose sigma and tau for epsilon-DP and the accuracy f(x) >= M(x) >= f(x) - DS^{2 tau}(x).

        The accuracy holds with probability at least 1 - beta. Raises `AuditError` unless epsilon is above 0 and beta in
        (0, 1).
        """
        steps = comparisons(query.size)
        return cls._accurate(query, steps / positive(epsilon, "epsilon"), beta)

    @classmethod
    def calibrated_to_rho(cls, query: MonotoneQuery, rho: float, beta: float = 0.05) -> LaplaceBinarySearch:
        """Choose sigma and tau for rho-zCDP and the same accuracy: Theorem 5 with the greatest number of comparisons T.

        The source's sqrt(log2 |Y| / (2 rho)) is too small where T > log2 |Y|; here sigma is the least scale at which T
        tight conversions sum to rho. Raises as `calibrated`.
        """
        steps, rho = comparisons(query.size), positive(rho, "rho")
        most = math.sqrt(steps / (2.0 * rho))
        return cls._accurate(
            query, root(lambda sigma: steps * pure_to_zcdp(1.0 / sigma) - rho, min(most, steps / rho) / 4.0, most), beta
        )

    @classmethod
    def _accurate(cls, query: MonotoneQuery, sigma: float, beta: float) -> LaplaceBinarySearch:
        steps = comparisons(query.size)
        return cls(query, sigma, sigma * math.log(steps / fraction(beta, "beta", open_below=True)))

    @property
    def noise(self) -> LaplaceLaw:
        return LaplaceLaw(0.0, self.sigma)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (PureDP(self.steps / self.sigma), ZCDP(self.steps * pure_to_zcdp(1.0 / self.sigma)))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return one pair, with losses just short of tau and one more.

        Every step to the right is likelier by a factor of e^{1/sigma}, since tau >= 1.
        """
        return (crowds(self.query, max(0, math.floor(self.tau) - 1)),)


class _GaussianSearch(_NoisySearch):
    """T comparisons with Gaussian noise: (T / (2 sigma^2))-zCDP and sqrt(T) / sigma-GDP.

    Bun and Steinke (2016), Proposition 1.6 and Lemma 1.7; Dong, Roth and Su (2022), Corollary 3.3.
    """

    @property
    def noise(self) -> NormalLaw:
        return NormalLaw(0.0, self.sigma)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.steps / (2.0 * self.sigma**2)), GaussianDP(math.sqrt(self.steps) / self.sigma))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Losses on both sides of tau, where a comparison reveals most.

        The claim is not attained, since only the sign of each comparison is released.
        """
        return (crowds(self.query, math.floor(self.tau)),)


class GaussianBinarySearch(_GaussianSearch):
    """Binary search with Gaussian noise of standard deviation sigma: (T / (2 sigma^2))-zCDP for at most T comparisons.

    Source: differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity', Theorem 5 and note 6.

    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = GaussianBinarySearch.calibrated(Maximum(range(2**64)), rho=0.5, beta=0.05)
    >>> mechanism.steps, mechanism.sigma, round(mechanism.tau, 3), str(mechanism.claim)
    (64, 8.0, 25.303, '0.5-zCDP')
    """

    name: ClassVar[str] = "binary search, Gaussian noise"

    @classmethod
    def calibrated(cls, query: MonotoneQuery, rho: float, beta: float = 0.05) -> GaussianBinarySearch:
        """Choose sigma and tau for rho-zCDP and the accuracy f(x) >= M(x) >= f(x) - DS^{2 tau}(x).

        The accuracy holds with probability at least 1 - beta. At each comparison at most one direction is an error, so
        tau is the upper beta / T quantile of the noise. Raises `AuditError` unless rho is above 0 and beta in (0, 1).
        """
        steps = comparisons(query.size)
        sigma = math.sqrt(steps / (2.0 * positive(rho, "rho")))
        quantile = -float(ndtri(fraction(beta, "beta", open_below=True) / steps))
        return cls(query, sigma, sigma * max(0.0, quantile))


def crowds(query: MonotoneQuery, loss: int) -> DatasetPair:
    """Return the query's crowds for ``loss`` and ``loss + 1``.

    They differ in every loss but that of the greatest output.
    """
    return DatasetPair(
        query.crowd(loss), query.crowd(loss + 1), f"losses {loss} against {loss + 1} below the greatest output"
    )


@dataclass(frozen=True)
class TolerantSearch(_GaussianSearch):
    """Search by T noisy comparisons, of which a constant share may be wrong; T depends only on |Y| and beta.

    Beliefs w about the output to return start uniform. In each round m is their median, and W_< and W_<= are the
    beliefs below m and up to m. With probability (W_<= - 1/2) / w_m the comparison is at k = m - 1, else at k = m,
    so that the belief up to k is 1/2 on average. The round says 'left' if l(x, y_k) + N(0, sigma^2) <= tau. The
    beliefs on the side that the round names are multiplied by 1 - q, the others by q, and all are renormalised. The
    search returns the median of the T medians m. Source: note 7 of differentialprivacy.org, 'Beyond Local
    Sensitivity via Down Sensitivity', which refers to Karp and Kleinberg (2007), with the randomised place of
    Burnashev and Zigangirov (1974).

    f(x) >= M(x) >= f(x) - DS^{2 tau}(x) with probability at least 1 - beta for T = 2 log(|Y| / beta) / log(1 / (A B))
    rounds: Theorem 1 of docs/explanation/mechanisms.md, which also says what the constants cost.

    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = TolerantSearch.calibrated(Maximum(range(1024)), rho=0.5, beta=0.05)
    >>> mechanism.rounds, round(mechanism.sigma, 3), round(mechanism.tau, 3), str(mechanism.claim)
    (210, 14.491, 18.571, '0.5-zCDP')
    >>> mechanism((500,) * 100).sample(3, np.random.default_rng(0)).tolist()
    [500, 500, 500]
    """

    rounds: int  # T, at least 1
    # q, in (0, 1/2): the probability of a wrong comparison that belief updates assume, above the true one
    assumed_error: float
    name: ClassVar[str] = "tolerant search, Gaussian noise"
    wholes = {"rounds": (1, "rounds")}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.assumed_error < 0.5:
            raise AuditError(f"assumed_error is {self.assumed_error!r}; it must be strictly between 0 and 1/2.")

    @classmethod
    def calibrated(cls, query: MonotoneQuery, rho: float, beta: float = 0.05, error: float = 0.1) -> TolerantSearch:
        """Choose T, sigma, tau and q for rho-zCDP and, except with probability beta, the accuracy of the class.

        ``error`` is p, in (0, 1/2). A larger p needs more rounds, and a threshold at a smaller multiple of sigma. tau
        falls slowly with p, by 15 % from 0.1 to 1/2. Raises `AuditError` if a parameter is out of range.
        """
        rounds = needed_rounds(math.log(query.size), beta, error)
        sigma = math.sqrt(rounds / (2.0 * positive(rho, "rho")))
        return cls(query, sigma, -sigma * float(ndtri(error)), rounds, best_assumed_error(error))

    @property
    def steps(self) -> int:
        return self.rounds

    def __call__(self, dataset: Sequence[Any]) -> TolerantLaw:  # type: ignore[override]  # beliefs, not intervals
        """Prepare the output distribution on one dataset; its probabilities are known only where Y is tiny."""
        law = ListedTolerantLaw if fits_a_list(self.query.size, self.rounds) else TolerantLaw
        return law(self.query, self.query.loss(dataset), self.tau, self.noise, self.rounds, self.assumed_error)


def best_assumed_error(error: float) -> float:
    """Return the q that needs the fewest rounds if a share p = ``error`` of comparisons is wrong.

    This q minimises A B of `TolerantSearch`: the zero of 2 (1 - 2 q) (p + q - 2 p q) = (1 - 2 p) q (1 - q) above p.
    """
    p = fraction(error, "error", open_below=True)
    if p >= 0.5:
        raise AuditError(f"error is {error!r}; it must be strictly between 0 and 1/2.")
    slope = 1.0 - 2.0 * p
    return (slope - 4.0 * p + math.sqrt((slope - 4.0 * p) ** 2 + 24.0 * slope * p)) / (6.0 * slope)


def needed_rounds(log_size: float, beta: float, error: float = 0.1) -> int:
    """Return T of `TolerantSearch` for log |Y| = ``log_size``, which may be beyond any real Y.

    >>> needed_rounds(math.log(1024), 0.05), needed_rounds(math.log(2**64), 0.05)
    (210, 1001)
    """
    p, q = error, best_assumed_error(error)
    rate = math.log(8.0 * (q * (1.0 - q)) ** 2 / (p + q - 2.0 * p * q))
    return math.ceil(2.0 * (log_size - math.log(fraction(beta, "beta", open_below=True))) / rate)


POWERS = (3, 4, 5, 6, 7, 8, 10, 12)
"""Powers of the cosine: all that are best for some number of comparisons from 2 to 16,384 and some delta from 1e-3 to
1e-9, at epsilon = 1."""
_ORDERS = 1.0 + np.geomspace(0.5, 300.0, 40)


@dataclass(frozen=True)
class CosineLaw:
    """Whole numbers z from -reach to reach with probability proportional to cos(pi z / (2 (reach + 1)))^power.

    The law is log-concave and symmetric. Among densities on an interval the squared cosine has the least Fisher
    information, and so reveals least about a shift. Higher powers reveal a little more, but have thinner tails, in
    which outcomes that prove the shift are very rare.
    """

    reach: int
    power: float

    @cached_property
    def log_probabilities(self) -> Floats:
        """Log-probabilities from -reach to reach, shape (2 reach + 1,)."""
        places = np.arange(-self.reach, self.reach + 1)
        log_weights = self.power * np.log(np.cos(0.5 * math.pi * places / (self.reach + 1)))
        return np.asarray(log_weights - logsumexp(log_weights))

    @cached_property
    def _log_cdf(self) -> Floats:
        return np.append(-np.inf, np.minimum(np.logaddexp.accumulate(self.log_probabilities), 0.0))

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        cumulative = np.exp(self._log_cdf)
        return np.searchsorted(cumulative / cumulative[-1], rng.random(size), side="right") - 1 - self.reach

    def log_cdf(self, outputs: ArrayLike) -> Floats:
        places = np.floor(np.asarray(outputs, float)) + self.reach + 1
        return self._log_cdf[np.clip(places, 0, 2 * self.reach + 1).astype(int)]

    def delta(self, epsilon: float, steps: int) -> float:
        """Return a bound on the delta of ``steps`` adaptive additions of this noise to whole numbers of sensitivity 1.

        Theorem 7 of docs/explanation/mechanisms.md: the outcomes nearest the edge, where the loss is greatest, are
        added to delta, and the Renyi divergences of the remaining outcomes bound the rest. The result is the least of
        all such bounds.
        """
        log_p = self.log_probabilities
        log_q = np.append(-np.inf, log_p[:-1])  # shifted by 1: losses decrease from infinity at the edge
        orders = _ORDERS[:, None]
        moments = orders * log_p[1:] + (1.0 - orders) * log_q[1:]
        rest = np.logaddexp.accumulate(moments[:, ::-1], axis=1)[:, ::-1]  # all but the first 1, 2, ... outcomes
        excess = steps * rest - (orders - 1.0) * epsilon + orders * np.log1p(-1.0 / orders) - np.log(orders - 1.0)
        given_up = np.minimum(np.cumsum(np.exp(log_p))[:-1], 1.0 - 1e-15)
        return float(np.min(-np.expm1(steps * np.log1p(-given_up)) + np.exp(np.minimum(excess.min(axis=0), 0.0))))


@cache
def least_noise(epsilon: float, delta: float, steps: int) -> CosineLaw:
    """Return the law of least reach, among a few powers, whose ``steps`` additions are (epsilon, delta)-DP together.

    >>> least_noise(1.0, 1e-6, 64).reach
    162
    """

    def enough(reach: int, power: int) -> bool:
        return CosineLaw(reach, power).delta(epsilon, steps) <= delta

    best, high = CosineLaw(1, POWERS[0]), 1
    while not enough(high, POWERS[0]):
        high *= 2
    for power in POWERS:
        if high < 1 or not enough(high, power):  # no law of this power has a shorter reach than the best one so far
            continue
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle, power) else (middle, high)
        best, high = CosineLaw(high, power), high - 1
    return best


@dataclass(frozen=True)
class BoundedBinarySearch(Reference):
    """Binary search whose noise never exceeds tau, so that every comparison is right.

    (epsilon, delta)-DP, and f(x) >= M(x) >= f(x) - DS^{2 tau}(x) in every run: Theorem 7 of
    docs/explanation/mechanisms.md. This is the second approach of note 7 of differentialprivacy.org, 'Beyond Local
    Sensitivity via Down Sensitivity', which refers to Dagan and Kur (2022). The shape of the noise and its calibration
    are ours.

    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = BoundedBinarySearch(Maximum(range(1024)), epsilon=1.0, delta=1e-6)
    >>> mechanism.steps, mechanism.tau, str(mechanism.claim)
    (10, 81, '(1, 1e-06)-DP')
    >>> mechanism((500,) * 200).sample(3, np.random.default_rng(0)).tolist()
    [500, 500, 500]
    """

    # the query; only its losses along one path of the search are ever evaluated
    query: MonotoneQuery
    epsilon: float
    delta: float  # in (0, 1)
    name: ClassVar[str] = "binary search, bounded noise"
    adjacency = AddRemove()

    @property
    def steps(self) -> int:
        return comparisons(self.query.size)

    @property
    def noise(self) -> CosineLaw:
        return least_noise(self.epsilon, self.delta, max(self.steps, 1))

    @property
    def tau(self) -> int:
        """Threshold on the noisy loss, in records: the reach of the noise."""
        return self.noise.reach

    def __call__(self, dataset: Sequence[Any]) -> SearchLaw:
        law = TabulatedSearchLaw if fits_a_table(self.query.size) else SearchLaw
        # noisy losses are whole numbers, so half a record more keeps all of them off the threshold
        return law(self.query, self.query.loss(dataset), self.query.size, self.tau + 0.5, self.noise)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Losses three quarters of the way from tau to 2 tau, near the pairs that a search found to lose most."""
        return (crowds(self.query, round(1.75 * self.tau)),)
