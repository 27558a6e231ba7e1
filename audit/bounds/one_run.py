"""Bounds for audits of one run: from counts of correct guesses to lower bounds on the privacy loss.

An independent fair coin decides for each of m canaries whether it is in the dataset. The audit guesses r of the
coins, and v guesses are correct. Theorems and proofs: docs/explanation/theory.md#one-run-epsilon-delta-dp and
#one-run-trade-off-curves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import betainc, expit, gammaln, log_expit, logit, ndtr, ndtri

from epsaudit import codec
from epsaudit.array_types import Floats
from epsaudit.bounds.certificates import clopper_pearson_lower
from epsaudit.bounds.counts import Counts
from epsaudit.claims.conversions import bisected
from epsaudit.claims.definitions import ApproxDP, Claim, GaussianDP, PureDP
from epsaudit.errors import AuditError, whole_at_least

Method = Literal["sharp", "binomial", "trade-off"]
Inverse = Callable[[Floats, Floats], Floats]
"""A function G(r, parameter) of arrays: the smallest probability that an event can have on one dataset if it has
probability r on a neighbour."""
METHODS: dict[Method, str] = {
    "sharp": "the exact worst case of (epsilon, delta)-DP, a binomial where delta = 0 (epsaudit.bounds.one_run)",
    "binomial": "guesses dominated by a binomial (Steinke, Nasr and Jagielski 2023)",
    "trade-off": "recursion on the trade-off curve (Mahloujifar, Melis and Chaudhuri 2025)",
}
DELTA_ERROR_SHARE = 0.15
"""[chosen] Share of the error probability that is set aside for delta if the output decides the number of guesses; see
Theorem 7."""
BLOCK_SIZE = 1024
"""[time] Number of probabilities of W that are computed at a time in the search for the largest mean."""
MIN_LOG_MASS = -600.0
"""[formula] Logarithm of P[W = v] below which a tail is replaced by a geometric series, because the smallest floats are
near e^-708."""
CURVE_SHARE = 16.0
"""[measured] A claim about a curve is tested at the delta that is this number times the error probability divided by
the number of canaries. For Gaussian noise with mu from 0.5 to 2 and 200 to 10,000 canaries, the median bounds on rho
are 0.67 to 1 of those with the best of 15 numbers; with the number 1 they are 0.58 to 0.88."""
MAX_EPSILON = 100.0
"""[formula] An epsilon that is larger than all bounds: m correct guesses show at most epsilon = log(m / alpha)."""
N_EPSILONS = 17
"""[chosen] Number of epsilons between 0 and a bound at which the share for delta is checked. The term for delta is a
smooth function of epsilon with a single maximum."""
N_PARAMETERS = 65
"""[chosen] Number of parameters that are tested at a time. Two refinements of the grid find the largest rejected
parameter to within 1/4096 of the largest parameter that could be rejected."""
MASS_TOLERANCE = 1e-9
"""[chosen] Amount by which a total mass must exceed 1 to count as impossible. It is far larger than the rounding
errors, and far too small to change a bound noticeably."""


@dataclass(frozen=True)
class GuessSet:
    """One set of guesses about the canaries of one run, and the counts of these guesses.

    In the ``counts``, the runs on x are the canaries that were in, and a guess 'x' is a guess 'in'. Both rows contain
    guessed canaries only, because result files do not contain how many of the other canaries were in.
    """

    canaries: int
    """The number of canaries about which the rule could guess."""
    counts: Counts
    _written: ClassVar = ("canaries", "guessed_in", "guessed_out", "correct_in", "correct_out")

    @classmethod
    def of(cls, canaries: int, guessed_in: int, guessed_out: int, correct_in: int, correct_out: int) -> GuessSet:
        """Return the set of guesses with these numbers of guesses and of correct guesses, as result files contain them.

        Raises `AuditError` if the numbers are impossible.
        """
        numbers = (canaries, guessed_in, guessed_out, correct_in, correct_out)
        for name, number in zip(cls._written, numbers, strict=True):
            whole_at_least(number, 0, name.replace("_", " "))
        wrong_in, wrong_out = guessed_in - correct_in, guessed_out - correct_out
        rows = (correct_in + wrong_out, correct_out + wrong_in)
        made = cls(canaries, Counts(*rows, correct_in, wrong_in, wrong_out, correct_out))
        if min(wrong_in, wrong_out) < 0 or made.guesses > canaries:
            must = "correct guesses are among the guesses, and these among the canaries"
            raise AuditError(f"These counts are impossible: {made}; {must}.")
        return made

    @property
    def guessed_in(self) -> int:
        return int(self.counts.guess_x_on_x + self.counts.guess_x_on_x_prime)

    @property
    def guessed_out(self) -> int:
        return int(self.counts.guess_x_prime_on_x + self.counts.guess_x_prime_on_x_prime)

    @property
    def correct_in(self) -> int:
        return int(self.counts.guess_x_on_x)

    @property
    def correct_out(self) -> int:
        return int(self.counts.guess_x_prime_on_x_prime)

    @property
    def guesses(self) -> int:
        return int(self.counts.runs)

    @property
    def correct(self) -> int:
        return int(self.counts.correct)

    def all_correct(self) -> GuessSet:
        """Return a set with the same numbers of guesses, in which every guess is correct."""
        return self.of(self.canaries, self.guessed_in, self.guessed_out, self.guessed_in, self.guessed_out)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object from which `from_dict` restores this set of guesses."""
        return codec.fields_to_json(self, self._written)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GuessSet:
        """Return the set of guesses from the JSON object that `to_dict` returned.

        Raises `AuditError` if the numbers are impossible.
        """
        return cls.of(**data)

    def __str__(self) -> str:
        return (
            f"{self.correct_in:,} of {self.guessed_in:,} guessed in and {self.correct_out:,} of "
            f"{self.guessed_out:,} guessed out are right, of {self.canaries:,} canaries"
        )


@dataclass(frozen=True)
class GuessBound:
    """A method that turns counts of guesses into a lower bound, with the claim that is tested and the confidence.

    ``decided_by_output`` says whether the output of the run decides how many guesses are made. Raises `AuditError` if
    the method has no theorem for the claim, or for a number of guesses that the output decides.
    """

    claim: Claim
    method: Method
    confidence: float
    decided_by_output: bool = False

    def __post_init__(self) -> None:
        claim, decided = self.claim, self.decided_by_output
        if not isinstance(claim, PureDP | ApproxDP | GaussianDP):
            advice = "Another definition implies one of them: claim.approximate(1e-5), for instance."
            raise AuditError(f"The claim is {claim!r}; guesses test PureDP, ApproxDP or GaussianDP. {advice}")
        if isinstance(claim, GaussianDP) and (self.method != "trade-off" or decided):
            advice = "give guesses='planned', 'bonferroni' or a number, and method='auto'"
            why = "which only the trade-off method bounds, with a number of guesses that the output does not decide"
            raise AuditError(f"{claim} is about a whole curve, {why}; {advice}.")
        if self.method == "trade-off" and decided:
            raise AuditError(
                "The trade-off method has no theorem for a number of guesses that the output decides; give "
                "guesses='planned' or method='binomial'."
            )

    def of(self, counts: GuessSet) -> float:
        """Return the lower bound on the claim's parameter that a set of guesses certifies."""
        numbers = (counts.canaries, counts.guesses, counts.correct)
        if self.method == "trade-off":
            return parameter_bound(self.claim, *numbers, self.confidence)
        share = DELTA_ERROR_SHARE if self.decided_by_output else None
        return epsilon_bound(*numbers, claimed_delta(self.claim), self.confidence, self.method, share)

    def delta(self, counts: GuessSet, epsilon: float) -> float:
        """Return the lower bound on delta, at this epsilon, that a set of guesses certifies."""
        numbers = (counts.canaries, counts.guesses, counts.correct, epsilon, self.confidence)
        if self.method == "trade-off":
            return delta_bound_on_curve(*numbers)
        return delta_bound(*numbers, self.method, DELTA_ERROR_SHARE if self.decided_by_output else None)


@functools.lru_cache(maxsize=1024)
def tested_claim(claim: Claim, canaries: int, confidence: float) -> Claim:
    """Return the claim that guesses about canaries test, given the claim about the mechanism.

    It is the same claim if there is a theorem for claims of its kind. Otherwise it is an (epsilon, delta)-DP that the
    claim implies. Its delta follows from the arguments, so it is fixed before the run. If (epsilon, delta)-DP is
    refuted at some epsilon, then the given kind of claim is refuted for every parameter below
    ``claim.least_at(epsilon, delta)``.
    """
    if isinstance(claim, PureDP | ApproxDP | GaussianDP):
        return claim
    # some claims allow a part of delta at every epsilon; the profile at a very large epsilon is this part
    return claim.approximate(min(claim.profile(MAX_EPSILON) + CURVE_SHARE * (1.0 - confidence) / canaries, 0.5))


def claimed_delta(claim: Claim) -> float:
    """Return the delta of a claim of pure or approximate DP; it is 0 for pure DP."""
    return claim.delta if isinstance(claim, ApproxDP) else 0.0


# Bounds under (epsilon, delta)-DP. Let q = 1 / (1 + e^-epsilon), W ~ Binomial(r, q), b_k = P[W = k] and beta = P[W >=
# v]. Then v or more guesses are correct with probability at most
#     sharp (ours, attained)                        min(1, beta + m delta beta (1 - beta) / (v b_v)),
#     published (Steinke, Nasr, Jagielski 2023)     beta + 2 m delta max over i >= 1 of P[v - i <= W < v] / i.
# If the output also decides r, and delta > 0, a share of the error probability is set aside for the second term.


def guess_p_value(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float, method: Method = "sharp"
) -> float:
    """Return the largest probability, under (epsilon, delta)-DP, that at least ``correct`` of the guesses are correct.

    There are ``canaries`` canaries, and the coins of ``guesses`` of them are guessed. For the method 'binomial' it is
    the published bound on this probability, which is usually larger.

    >>> round(guess_p_value(2, 2, 1, 1.0, 0.1), 4), round(guess_p_value(2, 2, 1, 1.0, 0.1, "binomial"), 4)
    (0.9618, 0.9566)
    """
    return min(
        1.0,
        binomial_tail(guesses, correct, epsilon) + canaries * delta * DELTA_TERMS[method](guesses, correct, epsilon),
    )


def binomial_tail(guesses: int, correct: int, epsilon: float) -> float:
    """Return the probability of at least ``correct`` correct guesses, if guesses are independent of each other.

    Each guess is correct with the odds e^epsilon, that is, with probability 1 / (1 + e^-epsilon).
    """
    return 1.0 if correct == 0 else float(betainc(correct, guesses - correct + 1, expit(epsilon)))


def sharp_delta_term(guesses: int, correct: int, epsilon: float) -> float:
    """Return the factor of m delta, for m canaries, in the sharp bound: beta (1 - beta) / (v b_v).

    Here v is the number of correct guesses, beta = P[W >= v], b_v = P[W = v], and W is binomial with success
    probability 1 / (1 + e^-epsilon), as in Theorem 7.
    """
    if correct == 0:
        return 0.0  # at least 0 correct guesses are certain
    wrong, q = guesses - correct, float(expit(epsilon))
    log_choices = gammaln(guesses + 1) - gammaln(correct + 1) - gammaln(wrong + 1)
    log_mass = log_choices + correct * log_expit(epsilon) + wrong * log_expit(-epsilon)
    if log_mass <= MIN_LOG_MASS:  # one tail is 1, and the other is at most a geometric series
        odds = math.exp(min(epsilon, 700.0))
        up, down = wrong * odds / (correct + 1), correct / odds / (wrong + 1)  # b_(v+1) / b_v and b_(v-1) / b_v
        return (1.0 / (1.0 - up) if up < 1.0 else down / (1.0 - down)) / correct
    below = betainc(wrong + 1, correct, expit(-epsilon))  # P[W < v], computed so that it is exact for q near 1
    return float(np.exp(np.log(betainc(correct, wrong + 1, q)) - log_mass) * below / correct)


def published_delta_term(guesses: int, correct: int, epsilon: float) -> float:
    """Return the factor of m delta, for m canaries, in the published bound: 2 max over i >= 1 of P[v - i <= W < v] / i.

    Here v is the number of correct guesses, and W is binomial with success probability 1 / (1 + e^-epsilon).
    """
    q = float(expit(epsilon))
    from scipy.stats import binom  # slow to import

    best, total, top = 0.0, 0.0, correct
    while top > 0:  # from v - 1 downwards, until the mean can only decrease
        values = np.arange(top - 1, max(top - 1 - BLOCK_SIZE, -1), -1)
        masses = binom.pmf(values, guesses, q)
        sums = total + np.cumsum(masses)
        best = max(best, float(np.max(sums / (correct - values))))
        total, top = float(sums[-1]), int(values[-1])
        if top < guesses * q - 1.0 and masses[-1] < best:
            break
    return 2.0 * best


DELTA_TERMS: dict[str, Callable[[int, int, float], float]] = {
    "sharp": sharp_delta_term,
    "binomial": published_delta_term,
}


@functools.lru_cache(maxsize=1 << 16)
def epsilon_bound(
    canaries: int,
    guesses: int,
    correct: int,
    delta: float,
    confidence: float,
    method: Method = "sharp",
    leak_share: float | None = None,
) -> float:
    """Return a lower bound on epsilon at ``delta`` from the number of correct guesses; 0 if nothing can be certified.

    There are ``canaries`` canaries, of which ``guesses`` are guessed. ``leak_share`` is the share of the error
    probability that is set aside for delta. It must be given if the output decides the number of guesses.

    >>> bounds = [epsilon_bound(1000, 100, 75, 1e-4, 0.95, method) for method in ("binomial", "sharp")]
    >>> [f"{bound:.4f}" for bound in bounds]
    ['0.6730', '0.6951']
    """
    alpha = 1.0 - confidence
    if correct == 0:
        return 0.0
    high = float(logit(clopper_pearson_lower(correct, guesses, alpha)))  # the bound for delta = 0
    if delta == 0.0:
        return max(0.0, high)

    def rejected(epsilon: float) -> bool:
        if leak_share is None:
            return guess_p_value(canaries, guesses, correct, epsilon, delta, method) <= alpha
        kept = alpha * leak_share
        looks = np.linspace(0.0, epsilon, N_EPSILONS)
        return binomial_tail(guesses, correct, epsilon) <= alpha - kept and all(
            canaries * delta * DELTA_TERMS[method](guesses, correct, float(look)) <= kept for look in looks
        )

    if high <= 0.0 or not rejected(0.0):
        return 0.0
    low, _ = bisected(lambda epsilon: np.asarray(rejected(float(epsilon))), np.asarray(0.0), np.asarray(high), 45)
    return float(low)  # the lower end of the bracket is rejected, so the bound is rounded down


@functools.lru_cache(maxsize=1 << 16)
def delta_bound(
    canaries: int,
    guesses: int,
    correct: int,
    epsilon: float,
    confidence: float,
    method: Method = "sharp",
    leak_share: float | None = None,
) -> float:
    """Return a lower bound on delta at ``epsilon`` from the number of correct guesses; 0 if nothing can be certified.

    The other arguments are those of `epsilon_bound`.
    """
    alpha = 1.0 - confidence
    beta, leak = binomial_tail(guesses, correct, epsilon), canaries * DELTA_TERMS[method](guesses, correct, epsilon)
    kept = 0.0 if leak_share is None else alpha * leak_share
    spare = alpha - beta if leak_share is None else kept if beta <= alpha - kept else 0.0
    return 0.0 if correct == 0 or spare <= 0.0 else min(1.0, spare / leak)


# Bounds under trade-off curves, for a number c of guesses that does not depend on the output. Let G be the inverse of
# 1 - f for the trade-off function f of the claim, p_k = P[W = k], r_j = (1/m) sum over k >= j of k p_k, h_j = (1/m)
# sum over k >= j of (c - k) p_k. Then h_(j-1) >= G(r_j). The recursion (Mahloujifar, Melis and Chaudhuri 2025,
# Algorithm 3) finds the least total mass of p that has P[W >= v] >= tau and satisfies this for j <= v. If the total
# exceeds 1, P[W >= v] < tau.


def gaussian_inverse(rare: Floats, mu: Floats) -> Floats:
    """Return the smallest probability of an event under mu-Gaussian DP, given its probability on a neighbour.

    ``rare`` is the probability on the neighbour. The result is Phi(Phi^-1(rare) - mu); see `Inverse`.
    """
    return np.asarray(ndtr(ndtri(rare) - mu))


def approximate_inverse(rare: Floats, epsilon: Floats, delta: Floats | float) -> Floats:
    """Return the smallest probability of an event under (epsilon, delta)-DP, given its probability on a neighbour.

    If r = ``rare`` is the probability on the neighbour, the result is the largest of e^-epsilon (r - delta),
    1 - delta - e^epsilon (1 - r), and 0; see `Inverse`.
    """
    with np.errstate(over="ignore"):
        steep = 1.0 - delta - np.exp(epsilon) * (1.0 - rare)
    return np.asarray(np.maximum(np.maximum(np.exp(-epsilon) * (rare - delta), steep), 0.0))


def total_mass(inverse: Inverse, parameters: Floats, canaries: int, guesses: int, correct: int, tau: float) -> Floats:
    """Return, for each parameter of a claim, the smallest total mass of a measure with P[W >= correct] >= tau.

    W is the number of correct guesses, and the measure must satisfy the constraints of Theorem 8 for this parameter. If
    the smallest total mass exceeds 1, no probability distribution does, and the parameter is rejected at level tau. For
    example, that one canary is guessed correctly with probability 0.9 is impossible under 0-DP and possible under 3-DP.
    """
    right = np.full(len(parameters), tau * correct / canaries)
    wrong = np.full(len(parameters), tau * (guesses - correct) / canaries)
    for k in range(correct - 1, -1, -1):
        needed = np.maximum(wrong, inverse(right, parameters))
        settled = needed == wrong  # if nothing is added now, nothing is added later
        right = np.minimum(right + (k / (guesses - k)) * (needed - wrong), 1.0)
        wrong = needed
        if np.all(settled | ((right + wrong) * (canaries / guesses) > 1.0 + MASS_TOLERANCE)):
            break
    return np.asarray((right + wrong) * (canaries / guesses))


def largest_rejected(inverse: Inverse, high: float, canaries: int, guesses: int, correct: int, alpha: float) -> float:
    """Return the largest parameter in [0, ``high``] that `total_mass` rejects at level ``alpha``, rounded down.

    Return 0 if no parameter is rejected.
    """
    if correct == 0:
        return 0.0
    low, width = 0.0, high
    for _ in range(4):
        tried = low + width * np.linspace(0.0, 1.0, N_PARAMETERS)
        refused = total_mass(inverse, tried, canaries, guesses, correct, alpha) > 1.0 + MASS_TOLERANCE
        if not refused[0]:
            return 0.0
        low, width = float(tried[int(np.argmin([*refused, False])) - 1]), width / (N_PARAMETERS - 1)
    return low


@functools.lru_cache(maxsize=1 << 16)
def parameter_bound(claim: Claim, canaries: int, guesses: int, correct: int, confidence: float) -> float:
    """Return a lower bound on the claim's parameter by the trade-off method; 0 if nothing can be certified.

    The trade-off method is a recursion on the trade-off curve of the claim (Mahloujifar, Melis and Chaudhuri 2025).
    Raises `AuditError` if the claim is not pure, approximate or Gaussian DP.

    >>> round(parameter_bound(GaussianDP(1.0), 10_000, 200, 184, 0.95), 2)
    0.61
    """
    inverse: Inverse = gaussian_inverse
    if not isinstance(GuessBound(claim, "trade-off", confidence).claim, GaussianDP):
        inverse = lambda rare, epsilon: approximate_inverse(rare, epsilon, claimed_delta(claim))  # noqa: E731
    # this is far larger than the Clopper-Pearson limit for a single guess, which is the largest possible bound
    high = 2.0 * math.log(canaries + 1.0) + 10.0
    return largest_rejected(inverse, high, canaries, guesses, correct, 1.0 - confidence)


@functools.lru_cache(maxsize=1 << 16)
def delta_bound_on_curve(canaries: int, guesses: int, correct: int, epsilon: float, confidence: float) -> float:
    """Return a lower bound on delta at ``epsilon`` by the trade-off method; 0 if nothing can be certified.

    `parameter_bound` describes the method.
    """

    def inverse(rare: Floats, delta: Floats) -> Floats:
        return approximate_inverse(rare, np.full_like(delta, epsilon), delta)

    return largest_rejected(inverse, 1.0, canaries, guesses, correct, 1.0 - confidence)
