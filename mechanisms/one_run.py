"""Simple mechanisms with many canaries, one per record, whose leak is known exactly; they test audits in one run.

Records leak independently of each other, which is the best case for such an audit. The exceptions are
`SpillingResponse` and `ConspiringResponse`, which spend their delta on many records at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logsumexp

from epsaudit.array_types import Bools, Floats
from epsaudit.audits.one_run import StepCallback
from epsaudit.claims.definitions import ApproxDP, Claim, GaussianDP, PureDP
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import positive


class _PerRecord:
    """Base of the mechanisms of this module: ``canaries`` records, and checks that raise `AuditError`."""

    canaries: int

    def __post_init__(self) -> None:
        whole_at_least(self.canaries, 1, "number of canaries")
        if hasattr(self, "epsilon"):
            positive(self.epsilon, "epsilon")
            fraction(self.delta, "delta")

    @property
    def claim(self) -> Claim:
        return ApproxDP(self.epsilon, self.delta)

    def truthful(self, rng: np.random.Generator) -> Bools:
        return rng.random(self.canaries) < expit(self.epsilon)

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        """Return 1 for 'included' and -1 for 'not', shape (canaries,)."""
        return np.where(included == self.truthful(rng), 1.0, -1.0)


@dataclass(frozen=True)
class ResponsePerRecord(_PerRecord):
    """Every record is reported as included or not by randomised response: epsilon-DP (Warner 1965).

    Each answer is true with probability e^epsilon / (1 + e^epsilon); the claim is attained by every guess.

    >>> mechanism = ResponsePerRecord(1.0, 10_000)
    >>> included = np.ones(10_000, dtype=bool)
    >>> bool(abs((mechanism.scores(included, np.random.default_rng(0)) > 0).mean() - 0.731) < 0.01)
    True
    """

    epsilon: float
    canaries: int
    name: ClassVar[str] = "randomised response per record"
    delta: ClassVar[float] = 0.0

    @property
    def claim(self) -> Claim:
        return PureDP(self.epsilon)


@dataclass(frozen=True)
class SpillingResponse(_PerRecord):
    """Randomised response that occasionally tells the truth about ``spilled`` random records at once.

    It does so with probability delta m / spilled, so each record is revealed with probability delta. The mechanism is
    (epsilon, delta)-DP: if a record is not among the revealed ones, its answer is epsilon-DP, whatever else is
    released. delta harms an audit in one run by revealing many records at once; the term 2 m delta of Steinke, Nasr and
    Jagielski (2023) accounts for this.

    >>> SpillingResponse(1.0, 1e-3, 1000, 50).chance
    0.02
    """

    epsilon: float  # epsilon, above 0, and delta are the privacy parameters
    delta: float
    # ``canaries`` is the number m of records, and ``spilled`` the number that is revealed together, at least delta m
    canaries: int
    spilled: int
    name: ClassVar[str] = "randomised response that spills"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.spilled, 1, "number of records spilled")
        if self.spilled > self.canaries or self.chance > 1.0:
            raise AuditError(
                f"{self.spilled} records are spilled; there must be at least delta m = {self.delta * self.canaries:g} "
                f"of them and at most m = {self.canaries}."
            )

    @property
    def chance(self) -> float:
        return self.delta * self.canaries / self.spilled

    def truthful(self, rng: np.random.Generator) -> Bools:
        truthful = super().truthful(rng)
        if rng.random() < self.chance:
            truthful[rng.choice(self.canaries, self.spilled, replace=False)] = True
        return truthful


@dataclass(frozen=True)
class ConspiringResponse(_PerRecord):
    """Randomised response that is occasionally drawn again until at least ``right`` records have told the truth.

    It is the worst (epsilon, delta)-DP mechanism for guesses about all records: at least ``right`` guesses are right
    exactly as often as the theorem in `epsaudit.bounds.one_run` allows. The proof of its privacy is there. Raises
    `AuditError` if delta is so large that every draw would be repeated.

    >>> mechanism = ConspiringResponse(1.0, 1e-3, 100, 82)
    >>> round(mechanism.reached, 4)  # 0.0257 if delta were 0
    0.0283
    """

    epsilon: float
    delta: float
    canaries: int
    right: int
    name: ClassVar[str] = "randomised response that conspires"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.right, 1, "number of true answers")
        if self.right > self.canaries or self.chance > 1.0:
            raise AuditError(
                f"delta = {self.delta:g} is more than enough for {self.right} true answers among {self.canaries}; give "
                "less, or ask for more."
            )

    @cached_property
    def chance(self) -> float:
        """Probability of a draw with at least ``right`` true answers by design: m delta P[W >= v] / (v P[W = v])."""
        masses = self._usual.logpmf(np.arange(self.right, self.canaries + 1))
        log_odds = logsumexp(masses) - masses[0]
        return float(self.canaries * self.delta / self.right * np.exp(log_odds))

    @cached_property
    def _usual(self) -> Any:
        from scipy.stats import binom  # slow to import, and not needed by a list of mechanisms

        return binom(self.canaries, expit(self.epsilon))

    @property
    def reached(self) -> float:
        """Probability of ``right`` or more true answers."""
        usual = float(self._usual.sf(self.right - 1))
        return usual + self.chance * (1.0 - usual)

    def truthful(self, rng: np.random.Generator) -> Bools:
        quantile = rng.random()
        if rng.random() < self.chance:  # draw from the upper tail
            quantile = 1.0 - quantile * float(self._usual.sf(self.right - 1))
        truthful = np.zeros(self.canaries, dtype=bool)
        truthful[rng.permutation(self.canaries)[: int(self._usual.ppf(quantile))]] = True
        return truthful


@dataclass(frozen=True)
class NoisyVectorSum(_PerRecord):
    """The sum of unit vectors, one coordinate per record, with Gaussian noise: mu-Gaussian DP, no interference.

    >>> print(NoisyVectorSum(1.0, 100).claim, NoisyVectorSum(1.0, 100, delta=1e-5).claim)
    1-GDP (4.37718, 1e-05)-DP
    """

    mu: float  # sensitivity over the standard deviation of the noise, above 0
    canaries: int  # number of records, and of coordinates
    # if given, the claim is the (epsilon, delta)-DP that Gaussian DP implies, not Gaussian DP itself
    delta: float | None = None
    name: ClassVar[str] = "noisy sum of vectors"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.mu, "mu")
        if self.delta is not None:
            fraction(self.delta, "delta", open_below=True)

    @cached_property
    def claim(self) -> Claim:
        gaussian = GaussianDP(self.mu)
        return gaussian if self.delta is None else gaussian.approximate(self.delta)

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        return included + rng.standard_normal(self.canaries) / self.mu
