"""Output laws that know themselves: what a reference mechanism returns for one dataset.

Parameters enter, a distribution leaves that samples by the million and answers what `audit.exact` asks: a finite law
has ``support`` and ``log_probabilities``; a continuous part has ``knots`` and ``scale``; all have ``log_density``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FiniteLaw:
    """A law on finitely many outputs, sampled by inverting its distribution function.

    Parameters
    ----------
    support : sequence of hashable, length k
        The outputs: numbers, strings, None or tuples, all different.
    log_weights : array_like of float, shape (k,)
        Logarithms of the probabilities, up to a common constant; -inf for impossible outputs.

    Examples
    --------
    >>> law = FiniteLaw(["yes", "no"], np.log([3.0, 1.0]))
    >>> np.exp(law.log_probabilities).round(6).tolist()
    [0.75, 0.25]
    >>> sorted(set(law.sample(100, np.random.default_rng(0)).tolist()))
    ['no', 'yes']
    """

    support: Sequence[Hashable]
    log_weights: ArrayLike
    log_probabilities: Floats = field(init=False, repr=False)
    _outputs: NDArray[Any] = field(init=False, repr=False)
    _cumulative: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weights = np.asarray(self.log_weights, float)
        log_probabilities = weights - logsumexp(weights)
        cumulative = np.cumsum(np.exp(log_probabilities))
        object.__setattr__(self, "log_probabilities", log_probabilities)
        object.__setattr__(self, "_outputs", outputs_array(self.support))
        object.__setattr__(self, "_cumulative", cumulative / cumulative[-1])

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw ``size`` outputs, shape (size,)."""
        return self._outputs[np.searchsorted(self._cumulative, rng.random(size), side="right")]

    def log_density(self, outputs: Sequence[Hashable]) -> Floats:
        """Log-probability of each output, shape (size,); -inf off the support."""
        table = dict(zip(self.support, self.log_probabilities.tolist(), strict=True))
        values = outputs.tolist() if isinstance(outputs, np.ndarray) else outputs
        return np.array([table.get(value, -np.inf) for value in values])


def outputs_array(values: Sequence[Hashable]) -> NDArray[Any]:
    """One-dimensional array of outputs: numeric where all are numbers, else objects (tuples stay whole)."""
    if all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in values):
        return np.array(values)
    outputs = np.empty(len(values), dtype=object)
    outputs[:] = list(values)
    return outputs
