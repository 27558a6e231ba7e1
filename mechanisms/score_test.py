"""The noisy test of propose-test-release: a score of known sensitivity passes or not, and one score never passes."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ScoreTest:
    """A test of a score: passes where score + Z < k - t, Z truncated Laplace noise on [-t, t].

    Scale b = sensitivity / epsilon and t = b log(1 + (e^epsilon - 1) / (2 delta)) make it (epsilon, delta)-DP (Geng,
    Ding, Guo and Kumar 2020, Theorem 1). k = ceil(2 t) is the least for which score 0 passes surely, while score k
    never does: Lemma 5 of docs/explanation/covariance-aware-mean.md.

    Examples
    --------
    >>> test = ScoreTest(1.0, 1e-6)
    >>> test.levels, [round(math.exp(test.log_chances(score)[0]), 6) for score in (0, 27, 28, 55)]
    (55, [1.0, 0.6428, 0.424503, 0.0])
    """

    epsilon: float
    delta: float
    sensitivity: float = 2.0

    @property
    def reach(self) -> float:
        """The greatest noise, t."""
        return self.sensitivity / self.epsilon * math.log1p(math.expm1(self.epsilon) / (2.0 * self.delta))

    @property
    def levels(self) -> int:
        """The score that never passes, k."""
        return math.ceil(2.0 * self.reach)

    def log_chances(self, score: int) -> tuple[float, float]:
        """Log-probabilities that a score passes and that it does not."""
        z = self.levels - self.reach - score
        return self._log_below(z), self._log_below(-z)

    def _log_below(self, z: float) -> float:
        """Log-probability of noise below z."""
        rate, t = self.epsilon / self.sensitivity, self.reach
        rest = -math.expm1(-t * rate)
        tail = math.exp(-min(abs(z), t) * rate) * -math.expm1((abs(z) - t) * rate) / (2.0 * rest) if abs(z) < t else 0.0
        if z > 0.0:
            return math.log1p(-tail)
        return math.log(tail) if tail > 0.0 else -math.inf
