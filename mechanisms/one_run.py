"""Simple mechanisms with many canaries, one a person; their leak is known exactly, to test one-run audits on.

Who is included enters, scores leave; nothing is trained. Persons leak independently of each other, the best case for
an audit in one run, except in `SpillingResponse`, which spends its delta on many persons at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from audit.claims import ApproxDP, Claim, GaussianDP, PureDP
from audit.errors import AuditError, fraction, whole_at_least
from audit.one_run.play import StepCallback
from mechanisms.base import positive

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ResponsePerPerson:
    """Every person says by randomised response whether they are included: epsilon-DP, attained by every guess.

    Parameters
    ----------
    epsilon : float
        Privacy loss in nats, above 0.
    canaries : int
        How many persons.

    Raises
    ------
    AuditError
        If a parameter is out of range.

    Examples
    --------
    >>> mechanism = ResponsePerPerson(1.0, 10_000)
    >>> included = np.ones(10_000, dtype=bool)
    >>> bool(abs((mechanism.scores(included, np.random.default_rng(0)) > 0).mean() - 0.731) < 0.01)
    True
    """

    epsilon: float
    canaries: int
    name: ClassVar[str] = "randomised response per person"

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")
        whole_at_least(self.canaries, 1, "number of canaries")

    @property
    def claim(self) -> Claim:
        """Warner (1965)."""
        return PureDP(self.epsilon)

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        """Return 1 for 'included', -1 for 'not', each true with probability e^epsilon / (1 + e^epsilon)."""
        truthful = rng.random(self.canaries) < expit(self.epsilon)
        return np.where(included == truthful, 1.0, -1.0)


@dataclass(frozen=True)
class SpillingResponse:
    """Randomised response that now and then tells the truth about ``spilled`` random persons at once.

    It spills with probability delta m / spilled, so each person is told on with probability delta: (epsilon, delta)-DP,
    since given that a person is not among the spilled their answer is epsilon-DP, whatever else is released. All at
    once is how delta does the most harm to an audit in one run: it is what the term 2 m delta of the bound of Steinke,
    Nasr and Jagielski (2023) allows for.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters, epsilon above 0.
    canaries, spilled : int
        How many persons, and how many of them are told on together; delta m must not exceed ``spilled``.

    Raises
    ------
    AuditError
        If a parameter is out of range.

    Examples
    --------
    >>> SpillingResponse(1.0, 1e-3, 1000, 50).chance
    0.02
    """

    epsilon: float
    delta: float
    canaries: int
    spilled: int
    name: ClassVar[str] = "randomised response that spills"

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")
        fraction(self.delta, "delta")
        whole_at_least(self.canaries, 1, "number of canaries")
        whole_at_least(self.spilled, 1, "number of persons spilled")
        if self.spilled > self.canaries or self.chance > 1.0:
            raise AuditError(
                f"{self.spilled} persons are spilled; there must be at least delta m = {self.delta * self.canaries:g} "
                f"of them and at most m = {self.canaries}."
            )

    @property
    def chance(self) -> float:
        """Probability that anything is spilled."""
        return self.delta * self.canaries / self.spilled

    @property
    def claim(self) -> Claim:
        """A mixture: the docstring of the class proves it."""
        return ApproxDP(self.epsilon, self.delta)

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        """Return 1 for 'included' and -1 for 'not'."""
        truthful = rng.random(self.canaries) < expit(self.epsilon)
        if rng.random() < self.chance:
            truthful[rng.choice(self.canaries, self.spilled, replace=False)] = True
        return np.where(included == truthful, 1.0, -1.0)


@dataclass(frozen=True)
class NoisyVectorSum:
    """The sum of persons' unit vectors, one a coordinate, with Gaussian noise: mu-Gaussian DP, no interference.

    Parameters
    ----------
    mu : float
        Sensitivity over the standard deviation of the noise, above 0.
    canaries : int
        How many persons, and coordinates.
    delta : float, optional
        Make the (epsilon, delta) claim that Gaussian DP implies in place of Gaussian DP itself.

    Raises
    ------
    AuditError
        If a parameter is out of range.

    Examples
    --------
    >>> print(NoisyVectorSum(1.0, 100).claim, NoisyVectorSum(1.0, 100, delta=1e-5).claim)
    1-GDP (4.37718, 1e-05)-DP
    """

    mu: float
    canaries: int
    delta: float | None = None
    name: ClassVar[str] = "noisy sum of vectors"

    def __post_init__(self) -> None:
        positive(self.mu, "mu")
        whole_at_least(self.canaries, 1, "number of canaries")
        if self.delta is not None:
            fraction(self.delta, "delta", open_below=True)

    @property
    def claim(self) -> Claim:
        """Dong, Roth and Su (2022), Theorem 2.7, and its conversion."""
        gaussian = GaussianDP(self.mu)
        return gaussian if self.delta is None else gaussian.approximate(self.delta)

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        """Return the released coordinates."""
        return included + rng.standard_normal(self.canaries) / self.mu
