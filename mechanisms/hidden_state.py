"""Mechanisms that are asked many questions and keep a secret between them: a session of the sparse vector technique.

A mechanism here says what it answers to a question given what it answered before, ``answer(dataset, earlier,
question)``; `epsaudit.mechanisms.interactive` puts several together and lets an analyst ask them in turns.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import FiniteLaw, Floats, LaplaceLaw

Earlier = tuple[tuple[float, float], ...]
HALTED = -1.0


@dataclass(frozen=True)
class SparseVectorSession(Reference):
    """Algorithm 1 of Lyu, Su and Li (2017) as a session: is this about a user's bit above a secret threshold?

    A question is a weight w in [-1, 1] for the query w (bit - 1/2), of sensitivity |w|. Noise of scale 2 / epsilon is
    added to the threshold 0 once, and never seen; noise of scale 4 c / epsilon to every query. Answers are 1 (above) or
    0 (below), and after c answers above only `HALTED`. All answers together are epsilon-DP, whatever is asked.

    Raises `AuditError` if a parameter is out of range, or a dataset or a question is none.

    Examples
    --------
    >>> session = SparseVectorSession(1.0)
    >>> [np.exp(session.answer((1,), before, 1.0).log_probabilities) for before in ((), ((1.0, 0.0),))]
    [array([0.45853114, 0.54146886]), array([0.54846385, 0.45153615])]
    """

    epsilon: float
    above: int = 1  # how many answers above it gives
    name: ClassVar[str] = "sparse vector session"
    adjacency = Substitution()
    pair = DatasetPair((0,), (1,))
    wholes = {"above": (1, "number of answers above the threshold")}

    def __call__(self, dataset: tuple[int, ...]) -> FiniteLaw:
        """Prepare the law of the first answer, to the question 1."""
        return self.answer(dataset, (), 1.0)

    @functools.lru_cache(maxsize=4096)  # noqa: B019  # sessions are few, and what is kept is small
    def answer(self, dataset: tuple[int, ...], earlier: Earlier, question: float) -> FiniteLaw:
        """Prepare the law of the answer to a question, given earlier questions of the session and their answers.

        The threshold's noise is integrated over what the answers leave of it, by a rule whose nodes are those of all
        answers, so that the chances of all transcripts sum to 1 but for rounding.
        """
        if len(dataset) != 1 or dataset[0] not in (0, 1) or not -1.0 <= question <= 1.0:
            raise AuditError(
                f"The dataset is {dataset!r} and the question {question!r}; needed are a bit and a weight."
            )
        if sum(given == 1.0 for _, given in earlier) >= self.above:
            return FiniteLaw((HALTED,), [0.0])
        places, chances = _nodes(2.0 / self.epsilon)
        for asked, given in earlier:
            chances = chances * np.exp(self._log_chance(dataset[0], asked, places, given))
        likely = [
            float(chances @ np.exp(self._log_chance(dataset[0], question, places, given))) for given in (0.0, 1.0)
        ]
        return FiniteLaw((0.0, 1.0), np.log(likely))

    def _log_chance(self, bit: int, question: float, thresholds: Floats, given: float) -> Floats:
        """Log-probability of an answer at each threshold."""
        off = thresholds - question * (bit - 0.5)
        return LaplaceLaw(0.0, 4.0 * self.above / self.epsilon).log_cdf(off if given == 0.0 else -off)


@functools.lru_cache(maxsize=64)
def _nodes(scale: float) -> tuple[Floats, Floats]:
    """Places of the threshold's Laplace noise and their weights: Gauss-Legendre panels with edges at its kinks."""
    far = scale * 40.0 * 2.0 ** -np.arange(0.0, 7.0)
    edges = np.unique(np.concatenate([-far, far, np.linspace(-0.5, 0.5, 9)]))
    rule, weights = np.polynomial.legendre.leggauss(16)
    widths = np.diff(edges)[:, None]
    places = (edges[:-1, None] + widths * (1.0 + rule) / 2.0).ravel()
    chances = (widths * weights / 2.0).ravel() * np.exp(LaplaceLaw(0.0, scale).log_density(places))
    return places, chances / chances.sum()
