"""Randomised response: every user answers truthfully with some probability, and otherwise at random.

One user's answer is released as a noisy one; the mechanisms attain their claims in every event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.base import Reference
from epsaudit.neighbours import DatasetPair, Substitution


@dataclass(frozen=True)
class ResponseLaw:
    """The answer with probability ``truth``, else one of the other answers 0, ..., answers - 1, each as likely.

    Examples
    --------
    >>> np.exp(ResponseLaw(1, 3, 0.5).log_probabilities).tolist()
    [0.25, 0.5, 0.25]
    """

    answer: int
    answers: int
    truth: float

    @property
    def support(self) -> tuple[int, ...]:
        return tuple(range(self.answers))

    @property
    def log_probabilities(self) -> NDArray[np.float64]:
        return self.log_density(np.arange(self.answers))

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        shift = rng.integers(1, self.answers, size)
        return np.where(rng.random(size) < self.truth, self.answer, (self.answer + shift) % self.answers)

    def log_density(self, outputs: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log-probability of each output, -inf for what is no answer."""
        values = np.asarray(outputs)
        lie = (1.0 - self.truth) / (self.answers - 1)
        probabilities = np.where(values == self.answer, self.truth, lie)
        possible = (values >= 0) & (values < self.answers) & (values == np.floor(values))
        return np.where(possible, np.log(probabilities), -np.inf)


@dataclass(frozen=True)
class RandomisedResponse(Reference):
    """k-ary randomised response on one user's answer: epsilon-DP (Warner 1965; Kairouz, Bonawitz and Ramage 2016).

    Truthful with probability e^epsilon / (e^epsilon + k - 1). For k = 2 it attains the tight Renyi and zCDP bounds of
    pure DP (differentialprivacy.org, 'Tight RDP & zCDP bounds from pure DP', Theorems 4 and 5).

    Raises
    ------
    AuditError
        If a parameter is out of range, or if a dataset is not one user's answer.

    Examples
    --------
    >>> mechanism = RandomisedResponse(1.0)
    >>> np.exp(mechanism((1,)).log_probabilities).round(6).tolist(), str(mechanism.claim)
    ([0.268941, 0.731059], '1-DP')
    """

    epsilon: float
    answers: int = 2  # number k of possible answers, at least 2. A dataset is one user's answer: (0,), ..., or (k - 1,)
    name: ClassVar[str] = "randomised response"
    adjacency = Substitution()

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.answers, 2, "number of answers")

    @property
    def truth(self) -> float:
        """Probability of a truthful answer."""
        return 1.0 / (1.0 + (self.answers - 1) * math.exp(-self.epsilon))

    def __call__(self, dataset: tuple[int, ...]) -> ResponseLaw:
        if len(dataset) != 1 or dataset[0] not in range(self.answers):
            raise AuditError(f"The dataset is {dataset!r}; it must be one answer from 0 to {self.answers - 1}.")
        return ResponseLaw(int(dataset[0]), self.answers, self.truth)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Two different answers; every such pair attains the claim."""
        return (DatasetPair((0,), (1,)),)
