"""Private selection by noise: report the candidate of greatest noisy utility, or the best one where its lead is safe.

From a vector of utilities they release one candidate, or None where gap-max refuses. Exponential noise gives the law of
permute-and-flip, Gumbel noise that of the exponential mechanism; Laplace noise has a law of its own, by quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import fraction
from epsaudit.mechanisms.base import BoundedRange, positive
from epsaudit.mechanisms.laws import FiniteLaw, Floats, LaplaceLaw
from epsaudit.mechanisms.queries import MONOTONE_VOTES, Utilities
from epsaudit.mechanisms.selection import _Selection, log_choice


def laplace_winner(scores: Floats) -> Floats:
    """Log-probability that each score is the greatest after adding Laplace noise of scale 1, shape (k,).

    P[i] is the integral of f(t - s_i) prod over j != i of F(t - s_j). The integrand is analytic between scores, so
    sixteen Gauss-Legendre points a unit of length give twelve digits.

    Examples
    --------
    >>> p = np.exp(laplace_winner(np.array([1.0, 0.0])))  # 1 - exp(-gap) (2 + gap) / 4 with two candidates
    >>> bool(np.allclose(p, [1 - 3 * math.exp(-1) / 4, 3 * math.exp(-1) / 4], atol=1e-14))
    True
    """
    scores = np.maximum(scores - np.max(scores), -700.0)  # rarer winners than e^-700 are as good as impossible
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
    """The candidate of greatest noisy score; samples by adding the noise of that name, and knows its law.

    Scores are in units of the scale of the noise, which the method of `numpy.random.Generator` of that name draws. With
    exponential noise the best accepts surely and the others with e^-distance; with Gumbel noise weights are e^score.

    Examples
    --------
    >>> law = NoisyMaxLaw(("red", "blue"), np.array([1.0, 0.0]), "gumbel")
    >>> np.exp(law.log_probabilities).round(6).tolist(), sorted(set(law.sample(100, np.random.default_rng(0)).tolist()))
    ([0.731059, 0.268941], ['blue', 'red'])
    """

    def __init__(self, support: tuple[Hashable, ...], scores: Floats, noise: str) -> None:
        log_weights = {"laplace": laplace_winner, "exponential": lambda s: log_choice(s - s.max()), "gumbel": np.array}
        super().__init__(support, log_weights[noise](scores))
        object.__setattr__(self, "_scores_and_noise", (scores, noise))

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Run the algorithm one candidate at a time."""
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

    Dwork and Roth (2014), Claim 3.9, whose scale is doubled here because utilities need not be monotone. Its zCDP
    claim is the one that every pure DP mechanism has.

    Examples
    --------
    >>> mechanism = NoisyMaxLaplace(1.0)
    >>> np.exp(mechanism(("red", "red")).log_probabilities).round(6).tolist(), str(mechanism.claim)
    ([0.72409, 0.27591], '1-DP')
    """

    name: ClassVar[str] = "report noisy max, Laplace noise"
    noise: ClassVar[str] = "laplace"
    # a lead long enough for pure DP to be nearly attained, the runner-up not yet rare; an even race for zCDP
    leads: ClassVar[tuple[int, ...]] = (8, 1)

    def __call__(self, dataset: Any) -> NoisyMaxLaw:
        return NoisyMaxLaw(tuple(self.utilities.candidates), self.rate * self.scores(dataset), self.noise)


class NoisyMaxExponential(NoisyMaxLaplace):
    """Report noisy max with exponential noise of scale 2 sensitivity / epsilon: epsilon-DP.

    The law of permute-and-flip (Ding, Kifer, Saghaian, Steinke, Wang, Xiao and Zhang 2021), and so its claims.

    Examples
    --------
    >>> np.exp(NoisyMaxExponential(1.0)(("red", "red")).log_probabilities).round(6).tolist()
    [0.81606, 0.18394]
    """

    name: ClassVar[str] = "report noisy max, exponential noise"
    noise: ClassVar[str] = "exponential"
    leads: ClassVar[tuple[int, ...]] = (2, 1)  # as for permute-and-flip


class NoisyMaxGumbel(BoundedRange, NoisyMaxLaplace):
    """Report noisy max with Gumbel noise of scale 2 sensitivity / epsilon: the exponential mechanism, by other means.

    Examples
    --------
    >>> np.exp(NoisyMaxGumbel(1.0)(("red", "red")).log_probabilities).round(6).tolist()
    [0.731059, 0.268941]
    """

    name: ClassVar[str] = "report noisy max, Gumbel noise"
    noise: ClassVar[str] = "gumbel"


@dataclass(frozen=True)
class GapMax(_Selection):
    """Report the best candidate if its lead over the second is safely large, else None: (epsilon, delta)-DP.

    In the spirit of Chaudhuri, Hsu and Song (2014) and of gap-max in Bun, Dwork, Rothblum and Steinke (2018): Theorem 6
    of docs/explanation/mechanisms.md. No zCDP claim: a refusal that turns into a name has infinite loss.

    Examples
    --------
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
        """What the noisy distance must exceed."""
        return math.log(0.5 / self.delta) / self.epsilon

    def distance(self, gap: float) -> float:
        """Fewest changes after which the winner may lose, less one, from the lead in sensitivities."""
        return max(0.0, gap / self.gap_sensitivity - 1.0)

    def __call__(self, dataset: Any) -> FiniteLaw:
        """Prepare the law of the answer; the first of equally good candidates counts as the best."""
        scores = self.scores(dataset)
        best = int(np.argmax(scores))
        gap = float(scores[best] - np.max(np.delete(scores, best)))
        return name_or_refusal(self.utilities.candidates[best], self.distance(gap), self.threshold, 1.0 / self.epsilon)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """A distance just below the threshold, where one step changes the chance of an answer by nearly e^epsilon."""
        return (self.utilities.lead(max(1, round(self.gap_sensitivity * (self.threshold + 1.0)))),)


def name_or_refusal(name: Hashable, distance: float, threshold: float, scale: float) -> FiniteLaw:
    """Law of an answer given where distance + Laplace(scale) exceeds the threshold, and None elsewhere.

    Examples
    --------
    >>> np.exp(name_or_refusal("red", 2.0, 2.0, 1.0).log_probabilities).tolist()
    [0.5, 0.5]
    """
    noise = LaplaceLaw(0.0, scale)
    answers, refuses = noise.log_cdf(distance - threshold), noise.log_cdf(threshold - distance)
    return FiniteLaw((name, None), np.array([answers, refuses], float))
