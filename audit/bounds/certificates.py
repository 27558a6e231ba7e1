"""From counts of events, fixed before, to a bound that exceeds the truth with probability at most 1 - confidence."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv, logit

from epsaudit.array_types import Floats
from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.codec import Tagged
from epsaudit.errors import AuditError


class Certificate(Tagged, ABC):
    """A rule that turns counts of events into lower bounds on privacy parameters.

    Each bound holds with probability at least ``confidence`` on its own. Several bounds hold together only if the
    subclass says so. Every method broadcasts over arrays in the counts.
    """

    _what = "not a certificate"

    name: ClassVar[str]

    @abstractmethod
    def epsilon(self, counts: Counts, delta: float, confidence: float) -> Floats:
        """Return a lower bound on the epsilon for which (epsilon, delta)-DP can hold; 0 if counts show nothing."""

    @abstractmethod
    def delta(self, counts: Counts, epsilon: float | Floats, confidence: float) -> Floats:
        """Return a lower bound on the delta for which (epsilon, delta)-DP can hold; 0 if counts show nothing."""

    @abstractmethod
    def parameter(self, claim: Claim, counts: Counts, confidence: float) -> Floats:
        """Return a lower bound on the claim's parameter (epsilon, rho or mu); 0 if counts show nothing."""

    @abstractmethod
    def point(self, claim: Claim) -> tuple[float, float]:
        """Return the point (epsilon, delta) of the claim's privacy profile at which bounds are reported."""

    @abstractmethod
    def corner(self, counts: Counts, confidence: float) -> tuple[Floats, Floats]:
        """Return a point (p, p') that bounds the trade-off curve and the privacy profile of the pair, if p > p'.

        With the stated confidence, every trade-off curve that holds for the pair in both directions passes at or below
        (p', 1 - p), and its privacy profile lies at or above p - e^epsilon p' for every epsilon at once. For a `Box`,
        p and p' are limits on the probabilities of its event; for a `MembershipGame` they are not.
        """


@dataclass(frozen=True)
class MembershipGame(Certificate):
    """The certificate of a game in which one or two events guess which of the two datasets each run used.

    (epsilon, delta)-DP limits the odds that a guess is correct. Let s be the probability that a run has a guess, and
    q = e^epsilon / (1 + e^epsilon). Then a guess is correct with probability at most q + pi (1 - q), where the leak is
    pi = delta events / (2 s). Proofs: docs/explanation/theory.md#membership-game.

    >>> counts = Counts(500, 500, 365, 134, 135, 366)
    >>> round(float(MembershipGame().epsilon(counts, 0.0, 0.95)), 3)
    0.881
    """

    tangent: float | None = None
    """Epsilon at which the profile of a claim about a whole curve is tested; None for pure and approximate DP."""
    share: float = 0.03
    """Share of the error probability spent on a lower limit on s when delta > 0, in (0, 1)."""
    name: ClassVar[str] = "membership game"

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise AuditError(f"share of the membership game is {self.share!r}; it must be strictly between 0 and 1.")

    def epsilon(self, counts: Counts, delta: float, confidence: float) -> Floats:
        correct_low, leak = self._limits(counts, confidence, delta)
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = logit((correct_low - leak) / (1.0 - leak))
        return np.where((leak < 1.0) & (correct_low > leak), np.maximum(bound, 0.0), 0.0)

    def delta(self, counts: Counts, epsilon: float | Floats, confidence: float) -> Floats:
        correct_low, leak_per_delta = self._limits(counts, confidence, 1.0)
        # leak rejected: Q > q + pi (1 - q), so pi < 1 - (1 - Q)(1 + e^epsilon)
        leak = 1.0 - (1.0 - correct_low) * (1.0 + np.exp(epsilon))
        with np.errstate(invalid="ignore", divide="ignore"):
            bound = leak / leak_per_delta
        return np.where((leak > 0.0) & np.isfinite(leak_per_delta), np.minimum(bound, 1.0), 0.0)

    def parameter(self, claim: Claim, counts: Counts, confidence: float) -> Floats:
        if claim.claimed_point is not None:
            return self.epsilon(counts, claim.claimed_point[1], confidence)
        epsilon = self._tangent(claim)
        return claim.least_at(epsilon, self.delta(counts, epsilon, confidence))

    def point(self, claim: Claim) -> tuple[float, float]:
        return claim.claimed_point or (self._tangent(claim), claim.profile(self._tangent(claim)))

    def corner(self, counts: Counts, confidence: float) -> tuple[Floats, Floats]:
        correct_low, leak_per_delta = self._limits(counts, confidence, 1.0)
        with np.errstate(divide="ignore"):
            guessed = np.where(np.isfinite(leak_per_delta), 1.0 / leak_per_delta, 0.0)
        return correct_low * guessed, (1.0 - correct_low) * guessed

    def _tangent(self, claim: Claim) -> float:
        if self.tangent is None:
            raise AuditError(f"The membership game against {claim} needs a tangent epsilon; None was given.")
        return self.tangent

    def _limits(self, counts: Counts, confidence: float, delta: float) -> tuple[Floats, Floats]:
        """Return a lower confidence limit on the accuracy of guesses, and an upper limit on the leak pi.

        The docstring of the class defines the leak, which is 0 if ``delta`` is 0. Both limits hold together with the
        stated confidence.
        """
        alpha = 1.0 - confidence
        guesses = counts.correct + counts.wrong
        if delta == 0.0:
            correct_low = clopper_pearson_lower(counts.correct, guesses, alpha)
            return correct_low, np.zeros_like(correct_low)
        guessed_low = clopper_pearson_lower(guesses, counts.runs, self.share * alpha)
        with np.errstate(divide="ignore"):
            leak = counts.events * delta / (2.0 * guessed_low)
        return clopper_pearson_lower(counts.correct, guesses, (1.0 - self.share) * alpha), np.asarray(leak)


@dataclass(frozen=True)
class Box(Certificate):
    """The certificate from confidence limits on the probabilities of a single event on x and on x'.

    With the stated confidence, the probability p on the dataset that the event guesses is at least p_low and, at once,
    the probability p' on the other dataset is at most p'_up (Clopper-Pearson limits). Every privacy definition has its
    bound at this corner, and all bounds from one box hold jointly. Proof:
    docs/explanation/theory.md#clopper-pearson-box.

    >>> counts = Counts(500, 500, 365, 134, 0, 0, events=1)
    >>> round(float(Box().epsilon(counts, 0.0, 0.95)), 3)
    0.801
    """

    event: str = "x"
    """'x' for the event that guesses x, 'x_prime' for the one that guesses x'."""
    split: float = 0.5
    """Share of the error probability spent on the likelier side, in (0, 1)."""
    name: ClassVar[str] = "Clopper-Pearson box"

    def __post_init__(self) -> None:
        if self.event not in ("x", "x_prime"):
            raise AuditError(f"event of the box is {self.event!r}; it must be 'x' or 'x_prime'.")
        if not 0.0 < self.split < 1.0:
            raise AuditError(f"split of the box is {self.split!r}; it must be strictly between 0 and 1.")

    def corner(self, counts: Counts, confidence: float) -> tuple[Floats, Floats]:
        alpha = 1.0 - confidence
        likely, rare = counts.of_event(self.event)
        low = clopper_pearson_lower(*likely, self.split * alpha)
        return low, clopper_pearson_upper(*rare, (1.0 - self.split) * alpha)

    def epsilon(self, counts: Counts, delta: float, confidence: float) -> Floats:
        return self.parameter(ApproxDP(0.0, min(delta, math.nextafter(1.0, 0.0))), counts, confidence)

    def delta(self, counts: Counts, epsilon: float | Floats, confidence: float) -> Floats:
        low, up = self.corner(counts, confidence)
        ratio = np.exp(epsilon)
        gains: Floats = np.maximum(low - ratio * up, (1.0 - up) - ratio * (1.0 - low))
        return np.maximum(gains, 0.0)

    def parameter(self, claim: Claim, counts: Counts, confidence: float) -> Floats:
        low, up = self.corner(counts, confidence)
        return np.where(low > up, claim.least(low, np.minimum(up, low)), 0.0)

    def point(self, claim: Claim) -> tuple[float, float]:
        """Return the claimed point, or (0, total variation distance) for a claim about a whole curve."""
        return claim.claimed_point or (0.0, claim.profile(0.0))


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """Return the one-sided lower confidence limit at level 1 - alpha on a binomial probability; 0 for no success.

    Arguments are broadcast, and fractional counts are interpolated. Source: Clopper and Pearson (1934).

    >>> round(float(clopper_pearson_lower(9, 10, 0.05)), 4)
    0.6058
    """
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    some = k > 0.0
    return np.where(some, betaincinv(np.where(some, k, 1.0), np.maximum(n - k, 0.0) + 1.0, alpha), 0.0)


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """Return the one-sided upper confidence limit at level 1 - alpha on a binomial probability; 1 for no failure.

    Arguments are broadcast, and fractional counts are interpolated. Source: Clopper and Pearson (1934).

    >>> round(float(clopper_pearson_upper(0, 100, 0.05)), 4)
    0.0295
    """
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    some = k < n
    return np.where(some, betainccinv(k + 1.0, np.where(some, n - k, 1.0), alpha), 1.0)


def reach(claim: Claim, runs: int, confidence: float) -> float:
    """Return the largest bound on the claim's parameter that ``runs`` certification runs can show for any mechanism.

    It is the bound that follows if every run is guessed correctly, by the better of the two certificates: about
    log(runs) for epsilon.

    >>> from epsaudit.claims.definitions import PureDP
    >>> round(reach(PureDP(1.0), 10_000, 0.95), 2)
    8.11
    """
    half = max(runs // 2, 1)
    perfect = Counts(half, half, half, 0, 0, half)
    tangents = [None] if claim.claimed_point is not None else [0.0, 1.0, 2.0, 4.0, 8.0]
    rules: list[Certificate] = [Box(), *map(MembershipGame, tangents)]
    return max(float(rule.parameter(claim, perfect, confidence)) for rule in rules)


def runs_to_reach(claim: Claim, confidence: float, limit: int = 10**15) -> int | None:
    """Return the smallest number of certification runs, to within 1 %, with which the claim can be refuted at all.

    With this number of runs, the largest possible bound, which is `reach`, exceeds the claim. The result is None if the
    number exceeds ``limit``.

    >>> from epsaudit.claims.definitions import PureDP
    >>> 2.9e4 < runs_to_reach(PureDP(9.2), 0.95) < 3.1e4
    True
    """
    if reach(claim, limit, confidence) <= claim.parameter:
        return None
    low, high = 1.0, float(limit)
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        if reach(claim, int(middle), confidence) > claim.parameter:
            high = middle
        else:
            low = middle
    return int(np.ceil(high))
