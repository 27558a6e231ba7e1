"""Private selection: exponential mechanism, permute-and-flip, report noisy max, and gap-max, which may refuse.

From a vector of utilities these mechanisms release one candidate, or None for a refusal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from epsaudit.array_types import Floats
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms.base import BoundedRange, Reference, positive
from epsaudit.mechanisms.laws import FiniteLaw, LaplaceLaw
from epsaudit.mechanisms.queries import MONOTONE_VOTES, VOTES, Utilities


class PermuteAndFlipLaw(FiniteLaw):
    """Law of permute-and-flip's choice, given log-probabilities that candidates accept; the best one's is 0."""

    def __init__(self, support: tuple[Hashable, ...], log_acceptance: Floats) -> None:
        super().__init__(support, log_choice(log_acceptance))
        object.__setattr__(self, "_acceptance", np.exp(log_acceptance))

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Run the algorithm.

        The first candidate to accept in a random order is uniform among all that accept, which reservoir
        sampling draws.
        """
        chosen = np.zeros(size, dtype=np.intp)
        accepted = np.zeros(size, dtype=np.int64)
        for candidate, acceptance in enumerate(self._acceptance):
            accepts = rng.random(size) < acceptance
            accepted += accepts
            chosen[accepts & (rng.random(size) * accepted < 1.0)] = candidate
        return self._outputs[chosen]


def log_choice(log_acceptance: Floats) -> Floats:
    """Return the log-probability that each candidate is the first to accept in a uniformly random order.

    Candidate j is chosen with probability p_j E[1 / (1 + S)], where S is the number of others that accept, which is
    Poisson-binomial. E[1 / (1 + S)] is the integral over t in (0, 1) of E[t^S], a polynomial of degree k - 1. The
    Gauss-Legendre rule with k nodes integrates it exactly, and all of its terms are positive.

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
    """Base of selection mechanisms: a candidate is chosen by ``utilities``, in units of their sensitivity.

    By default the utilities are the votes for each of two candidates; one vote moves, or joins for monotone mechanisms.
    """

    epsilon: float
    utilities: Utilities = VOTES
    share: ClassVar[float] = 0.5
    leads: ClassVar[tuple[int, ...]]  # lead of the first candidate in the worst pairs

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.utilities.sensitivity, "sensitivity of the utilities")

    @property
    def rate(self) -> float:
        """Weight of one sensitivity of utility, in log-weights or in units of the noise's scale."""
        return self.share * self.epsilon

    @property
    def adjacency(self) -> Adjacency:
        return self.utilities.adjacency

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return tuple(map(self.utilities.lead, self.leads))

    def scores(self, dataset: Any) -> Floats:
        scores = np.asarray(self.utilities(dataset), float) / self.utilities.sensitivity
        if scores.shape != (len(self.utilities.candidates),) or not np.all(np.isfinite(scores)):
            raise AuditError(
                f"The utilities are {scores!r}; there must be one finite number for each of the "
                f"{len(self.utilities.candidates)} candidates."
            )
        return scores


class ExponentialMechanism(BoundedRange, _Selection):
    """Choose a candidate with probability proportional to exp(epsilon u / (2 sensitivity)).

    The mechanism is epsilon-DP (McSherry and Talwar 2007, Theorem 6). It is epsilon-bounded-range, and therefore
    epsilon^2/8-zCDP (differentialprivacy.org, 'A Better Privacy Analysis of the Exponential Mechanism'; Cesar and
    Rogers 2021).

    >>> mechanism = ExponentialMechanism(1.0)
    >>> np.exp(mechanism(("red", "red")).log_probabilities).round(6).tolist()
    [0.731059, 0.268941]
    >>> [str(claim) for claim in mechanism.claims]
    ['1-DP', '0.125-zCDP']
    """

    name: ClassVar[str] = "exponential mechanism"
    # a clear lead, where pure DP is nearly attained and the second candidate not yet rare; an even race for zCDP
    leads: ClassVar[tuple[int, ...]] = (10, 1)

    def __call__(self, dataset: Any) -> FiniteLaw:
        return FiniteLaw(self.utilities.candidates, self.rate * self.scores(dataset))


@dataclass(frozen=True)
class MonotoneExponentialMechanism(ExponentialMechanism):
    """Choose with probability proportional to exp(epsilon u / sensitivity), for monotone utilities.

    If adding a record moves every utility in the same direction by at most the sensitivity, then a weight and the sum
    of all weights each change by a factor between 1 and e^epsilon, in the same direction. Their ratio therefore changes
    by at most e^epsilon. epsilon-DP, and epsilon^2/8-zCDP (same sources as the exponential mechanism).
    """

    # by default the votes for each of two candidates, one record added or removed
    utilities: Utilities = MONOTONE_VOTES
    name: ClassVar[str] = "exponential mechanism, monotone utilities"
    share: ClassVar[float] = 1.0
    leads: ClassVar[tuple[int, ...]] = (5, 1)  # half the lead of the exponential mechanism is as clear


class PermuteAndFlip(_Selection):
    """Go through the candidates in random order and take the first that accepts.

    Each candidate accepts with probability exp(epsilon (u - max u) / (2 sensitivity)): epsilon-DP (McKenna and
    Sheldon 2020, Theorem 1). The mechanism is not of bounded range: its zCDP claim is the claim that every pure DP
    mechanism has. Its law is that of report noisy max with exponential noise of scale 2 sensitivity / epsilon (Ding,
    Kifer et al. 2021).

    >>> mechanism = PermuteAndFlip(1.0)
    >>> np.exp(mechanism(("red", "red")).log_probabilities).round(6).tolist()
    [0.81606, 0.18394]
    """

    name: ClassVar[str] = "permute-and-flip"
    # a lead of two votes that becomes a tie, where the second candidate gains e^epsilon; an even race for zCDP
    leads: ClassVar[tuple[int, ...]] = (2, 1)

    def __call__(self, dataset: Any) -> PermuteAndFlipLaw:
        scores = self.scores(dataset)
        return PermuteAndFlipLaw(tuple(self.utilities.candidates), self.rate * (scores - scores.max()))


def laplace_winner(scores: Floats) -> Floats:
    """Return the log-probability that each score is the greatest after adding Laplace noise of scale 1, shape (k,).

    P[i] is the integral of f(t - s_i) prod over j != i of F(t - s_j). The integrand is analytic between scores, so
    sixteen Gauss-Legendre points per unit of length give twelve digits.

    >>> p = np.exp(laplace_winner(np.array([1.0, 0.0])))  # 1 - exp(-gap) (2 + gap) / 4 with two candidates
    >>> bool(np.allclose(p, [1 - 3 * math.exp(-1) / 4, 3 * math.exp(-1) / 4], atol=1e-14))
    True
    """
    scores = np.maximum(scores - np.max(scores), -700.0)  # winners rarer than e^-700 count as impossible
    low, law = float(scores.min()), LaplaceLaw(0.0, 1.0)
    edges = np.unique(np.concatenate([np.arange(low - 45.0, 45.0), scores, [45.0]]))
    places, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2.0
    points = (edges[:-1, None] + half * (1.0 + places)).ravel()
    log_weights = np.log((half * weights).ravel())
    distances = points - scores[:, None]
    log_below = law.log_cdf(distances)
    log_integrand = law.log_density(distances) - log_below + log_below.sum(axis=0)
    return np.asarray(logsumexp(log_integrand + log_weights, axis=1))


class NoisyMaxLaw(FiniteLaw):
    """Law of the candidate with the greatest noisy score.

    Scores are in units of the scale of the noise, which is drawn by the method of `numpy.random.Generator` with the
    name of the noise. With exponential noise the best candidate always accepts and the others accept with e^-distance;
    with Gumbel noise weights are e^score.
    """

    def __init__(self, support: tuple[Hashable, ...], scores: Floats, noise: str) -> None:
        log_weights = {"laplace": laplace_winner, "exponential": lambda s: log_choice(s - s.max()), "gumbel": np.array}
        super().__init__(support, log_weights[noise](scores))
        object.__setattr__(self, "_scores_and_noise", (scores, noise))

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        scores, noise = self._scores_and_noise
        draw = getattr(rng, noise)
        best = np.full(size, -np.inf)
        winner = np.zeros(size, dtype=np.intp)
        for candidate, score in enumerate(scores):
            noisy = score + draw(size=size)
            ahead = noisy > best
            best[ahead] = noisy[ahead]
            winner[ahead] = candidate
        return self._outputs[winner]


class NoisyMaxLaplace(_Selection):
    """Report noisy max with Laplace noise of scale 2 sensitivity / epsilon: epsilon-DP.

    Dwork and Roth (2014), Claim 3.9, whose scale is doubled here because utilities need not be monotone. Its zCDP claim
    is the claim that every pure DP mechanism has.

    >>> mechanism = NoisyMaxLaplace(1.0)
    >>> np.exp(mechanism(("red", "red")).log_probabilities).round(6).tolist(), str(mechanism.claim)
    ([0.72409, 0.27591], '1-DP')
    """

    name: ClassVar[str] = "report noisy max, Laplace noise"
    noise: ClassVar[str] = "laplace"
    # a lead at which pure DP is nearly attained and the second candidate not yet rare; an even race for zCDP
    leads: ClassVar[tuple[int, ...]] = (8, 1)

    def __call__(self, dataset: Any) -> NoisyMaxLaw:
        return NoisyMaxLaw(tuple(self.utilities.candidates), self.rate * self.scores(dataset), self.noise)


class NoisyMaxExponential(NoisyMaxLaplace):
    """Report noisy max with exponential noise of scale 2 sensitivity / epsilon: epsilon-DP.

    It has the law of permute-and-flip (Ding, Kifer, Saghaian, Steinke, Wang, Xiao and Zhang 2021), and therefore
    its claims.
    """

    name: ClassVar[str] = "report noisy max, exponential noise"
    noise: ClassVar[str] = "exponential"
    leads: ClassVar[tuple[int, ...]] = (2, 1)  # as for permute-and-flip


class NoisyMaxGumbel(BoundedRange, NoisyMaxLaplace):
    """Report noisy max with Gumbel noise of scale 2 sensitivity / epsilon, which has the exponential mechanism's law.

    >>> np.exp(NoisyMaxGumbel(1.0)(("red", "red")).log_probabilities).round(6).tolist()
    [0.731059, 0.268941]
    """

    name: ClassVar[str] = "report noisy max, Gumbel noise"
    noise: ClassVar[str] = "gumbel"


@dataclass(frozen=True)
class GapMax(_Selection):
    """Report the best candidate if its lead over the second is safely large, else None: (epsilon, delta)-DP.

    It is similar to Chaudhuri, Hsu and Song (2014) and to gap-max in Bun, Dwork, Rothblum and Steinke (2018): Theorem 6
    of docs/explanation/mechanisms.md. It has no zCDP claim, because a refusal that turns into a name has infinite loss.

    >>> mechanism = GapMax(1.0, delta=0.001)
    >>> mechanism(("red",) * 20).support, str(mechanism.claim), round(mechanism.threshold, 3)
    (('red', None), '(1, 0.001)-DP', 6.215)
    """

    utilities: Utilities = MONOTONE_VOTES
    delta: float = 1e-3  # in (0, 1/2)
    # s, in sensitivities: 1 where utilities move in one direction, or the best one never changes (losses); 2 in general
    gap_sensitivity: float = 1.0
    name: ClassVar[str] = "gap-max"

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(2.0 * self.delta, "twice delta", open_below=True)
        positive(self.gap_sensitivity, "sensitivity of the gap")

    @property
    def threshold(self) -> float:
        return math.log(0.5 / self.delta) / self.epsilon

    def distance(self, gap: float) -> float:
        """Return, from the lead in sensitivities, the fewest changes after which the winner may lose, minus one."""
        return max(0.0, gap / self.gap_sensitivity - 1.0)

    def __call__(self, dataset: Any) -> FiniteLaw:
        """Prepare the law of the answer; the first of equally good candidates counts as the best."""
        scores = self.scores(dataset)
        best = int(np.argmax(scores))
        gap = float(scores[best] - np.max(np.delete(scores, best)))
        return name_or_refusal(self.utilities.candidates[best], self.distance(gap), self.threshold, 1.0 / self.epsilon)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return a pair with a distance just below the threshold.

        There, one step changes the probability of an answer by nearly e^epsilon.
        """
        return (self.utilities.lead(max(1, round(self.gap_sensitivity * (self.threshold + 1.0)))),)


def name_or_refusal(name: Hashable, distance: float, threshold: float, scale: float) -> FiniteLaw:
    """Return the law of an answer that is given where distance + Laplace(scale) exceeds the threshold, else None."""
    noise = LaplaceLaw(0.0, scale)
    answers, refuses = noise.log_cdf(distance - threshold), noise.log_cdf(threshold - distance)
    return FiniteLaw((name, None), np.array([answers, refuses], float))


SELECTORS: dict[str, Callable[[float, Utilities], Reference]] = {
    "exponential": ExponentialMechanism,
    "permute-and-flip": PermuteAndFlip,
    "noisy-max-laplace": NoisyMaxLaplace,
    "noisy-max-exponential": NoisyMaxExponential,
    "noisy-max-gumbel": NoisyMaxGumbel,
    "gap-max": GapMax,
}
