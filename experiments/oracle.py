"""The bound of an oracle auditor, which knows the best events and spends every run on certification.

The bound is computed from two output laws with known densities. It stands alone because studies and tests use it as the
reference for witnesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from epsaudit.array_types import Floats
from epsaudit.bounds.certificates import MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import Claim
from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs
from epsaudit.search.scores import Monotone, Score

CUTS = 300
TANGENTS, MOST_TANGENT = 60, 6.0
BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class LogRatio:
    """The log-likelihood ratio log p(y) / p'(y), which is infinite if only one of the laws can produce y.

    An event that uses this feature is saved as text only, because `feature_from_dict` does not know the laws.
    """

    law: Any
    law_prime: Any
    label = "log p(y) / p'(y)"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        log_p, log_p_prime = (np.asarray(law.log_density(outputs), float) for law in (self.law, self.law_prime))
        with np.errstate(invalid="ignore"):
            # rounding errors of the densities must not separate the laws
            return np.asarray(np.round(log_p - log_p_prime, 9))


@dataclass(frozen=True, eq=False)
class Oracle:
    """The witness family with the optimal score; use it as ``witnesses=[Oracle(M(x), M(x_prime))]``.

    The laws of M(x) and M(x') must have a method ``log_density(outputs)``; otherwise an `AuditError` is raised.
    """

    law: Any
    law_prime: Any

    def __post_init__(self) -> None:
        for law in (self.law, self.law_prime):
            if not callable(getattr(law, "log_density", None)):
                raise AuditError(
                    f"{law!r} has no known output law; the oracle needs a law with a method log_density(outputs)."
                )

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        return [Monotone(LogRatio(self.law, self.law_prime), 1)]


def oracle_bound(tails: Floats, claim: Claim, runs: int, confidence: float) -> float:
    """Return the largest bound on the claim's parameter that expected counts of the membership game give.

    The function tries all pairs of cuts. For zCDP and Gaussian DP it tries the best cuts of many tangents of the
    privacy profile.

    Parameters
    ----------
    tails : ndarray, shape (4, cuts)
        P[ratio >= t] under x and x', then P[ratio <= t] under x and x', for increasing thresholds t; see `tails_of`.
    claim : Claim
        The claim whose parameter is bounded, with its delta. The value of the parameter does not matter.
    runs : int
        Number of certification runs on both datasets together.
    confidence : float
        Confidence of the bound.

    Examples
    --------
    Randomised response at epsilon 1, where the threshold lies between the two answers:

    >>> from epsaudit import ApproxDP, PureDP
    >>> tails = np.array([[0.731, 0.0], [0.269, 0.0], [0.269, 1.0], [0.731, 1.0]])
    >>> round(oracle_bound(tails, PureDP(1.0), 2_000_000, 0.95), 3)
    0.996
    >>> round(oracle_bound(tails, ApproxDP(1.0, 0.1), 2_000_000, 0.95), 3)
    0.848
    """
    return _best(tails, claim, runs, confidence)[0]


def repeated(
    tails: Floats, claim: Claim, runs: int, confidence: float, audits: int = 1000, seed: int = 0
) -> NDArray[np.float64]:
    """Return the bounds of repeated audits by an oracle, each with new counts of the same best event.

    The bounds show how much the result of an audit varies by chance. Counts of the event are drawn from Poisson laws
    whose means are the expected counts that `oracle_bound` certifies.

    Examples
    --------
    Randomised response at epsilon 1 with few runs: half of the audits certify less than the expected counts do.

    >>> from epsaudit import PureDP
    >>> tails = np.array([[0.731, 0.0], [0.269, 0.0], [0.269, 1.0], [0.731, 1.0]])
    >>> bounds = repeated(tails, PureDP(1.0), 2_000, 0.95)
    >>> round(float(np.mean(bounds < oracle_bound(tails, PureDP(1.0), 2_000, 0.95))), 1)
    0.5
    """
    _, counts, game = _best(tails, claim, runs, confidence)
    expected = (
        counts.guess_x_on_x,
        counts.guess_x_on_x_prime,
        counts.guess_x_prime_on_x,
        counts.guess_x_prime_on_x_prime,
    )
    rng = np.random.default_rng(seed)
    drawn = (rng.poisson(np.asarray(one).item(), audits).astype(float) for one in expected)
    seen = Counts(counts.runs_x, counts.runs_x_prime, *drawn, events=counts.events)
    return np.asarray(game.parameter(claim, seen, confidence))


def _best(tails: Floats, claim: Claim, runs: int, confidence: float) -> tuple[float, Counts, MembershipGame]:
    """Return the largest bound, the expected counts that give it, and the certificate with its tangent."""
    half, levels = runs / 2.0, tails.shape[1]
    up, up_prime, low, low_prime = half * tails
    i, j = np.triu_indices(levels, 1)  # the upper event starts beyond the end of the lower event
    zero = np.zeros(levels)
    forms = (
        (up, up_prime, zero, zero, 1),
        (zero, zero, low, low_prime, 1),
        (up[j], up_prime[j], low[i], low_prime[i], 2),
    )
    game = MembershipGame()
    best = 0.0, Counts(half, half, 0.0, 0.0, 0.0, 0.0), game
    for *counts, events in forms:
        if len(counts[0]) == 0:
            continue
        if claim.claimed_point is not None:
            bounds = game.parameter(claim, Counts(half, half, *counts, events=events), confidence)
            if (bound := float(np.max(bounds))) > best[0]:
                at = int(np.argmax(bounds))
                best = bound, Counts(half, half, *(one[at] for one in counts), events=events), game
            continue
        for tangent in np.linspace(0.0, MOST_TANGENT, TANGENTS):
            # maximise the correct guesses minus e^tangent times the wrong guesses: the best event for this tangent
            wanted = int(np.argmax(counts[0] + counts[3] - np.exp(tangent) * (counts[1] + counts[2])))
            seen = Counts(half, half, *(count[wanted : wanted + 1] for count in counts), events=events)
            delta = game.delta(seen, np.array([tangent]), confidence)
            if (bound := float(claim.least_at(np.array([tangent]), delta)[0])) > best[0]:
                best = bound, seen, MembershipGame(float(tangent))
    return best


def runs_to_refute(tails: Floats, claim: Claim, confidence: float, limit: float = 1e13) -> float:
    """Return the number of runs after which the oracle's expected counts refute the claim.

    The result is infinite if the number exceeds ``limit``.
    """
    low, high = 10.0, 40.0  # search upwards from few runs: tails of counts in the trillions take ten times as long
    while oracle_bound(tails, claim, int(high), confidence) <= claim.parameter:
        if high > limit:
            return float("inf")
        low, high = high, 4.0 * high
    while high > 1.02 * low:
        middle = (low * high) ** 0.5
        if oracle_bound(tails, claim, int(middle), confidence) > claim.parameter:
            high = middle
        else:
            low = middle
    return high


def tails_of(law: Any, law_prime: Any, draws: int = 1_000_000, seed: int = 0) -> tuple[Floats, bool]:
    """Return the tails of the likelihood ratio at a few hundred cuts, and whether they are exact.

    Tails of finite laws are exact. Other tails are simulated from ``draws`` outputs of each law.
    """
    if all(
        getattr(one, "support", None) is not None and getattr(one, "knots", None) is None for one in (law, law_prime)
    ):
        support = list(dict.fromkeys([*law.support, *law_prime.support]))
        masses = [np.exp(np.asarray(one.log_density(_outputs(support)), float)) for one in (law, law_prime)]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(masses[0]) - np.log(masses[1])
        ratios = (np.round(ratio, 12), np.round(ratio, 12))
        exact = True
    else:
        score = LogRatio(law, law_prime)
        drawn = [_draw(one, score, draws, seed + k) for k, one in enumerate((law, law_prime))]
        # an output whose density the other law does not define, for example None beside numbers
        pooled = np.concatenate(
            [np.where(np.isnan(one), far, one) for one, far in zip(drawn, (np.inf, -np.inf), strict=True)]
        )
        ratios = (pooled, pooled)
        # each draw counts for both laws, weighted by the probability that it comes from each; no cut then shows a ratio
        # that is due to chance alone
        masses = [share / share.sum() for share in (expit(pooled), expit(-pooled))]
        exact = False
    thresholds = _cuts(np.concatenate(ratios), np.concatenate(masses))
    return np.array(
        [
            _mass(values, weights, thresholds, above)
            for above in (True, False)
            for values, weights in zip(ratios, masses, strict=True)
        ]
    ), exact


def _outputs(support: list[Any]) -> NDArray[Any]:
    if isinstance(support[0], tuple) and all(isinstance(part, (int, float)) for part in support[0]):
        return np.array(support)
    outputs = np.empty(len(support), object)
    outputs[:] = support
    return outputs if any(isinstance(y, (tuple, str, type(None))) for y in support) else np.array(support)


def _draw(law: Any, score: LogRatio, draws: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    sizes = [min(BLOCK, draws - start) for start in range(0, draws, BLOCK)]
    values = np.concatenate([np.asarray(score(law.sample(size, rng)), float) for size in sizes])
    return np.round(values, 9)  # rounding errors of the densities must not separate the laws


def _cuts(values: Floats, weights: Floats) -> Floats:
    """Return all distinct ratios if they are few; otherwise quantiles that become geometrically denser at both ends."""
    levels = np.unique(values)
    if len(levels) <= CUTS:
        return levels
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order]) / np.sum(weights)
    tail = np.geomspace(1e-7, 0.5, CUTS // 3)
    wanted = np.concatenate([tail, 1.0 - tail, np.linspace(0.0, 1.0, CUTS // 3)])
    return np.unique(values[order][np.minimum(np.searchsorted(cumulative, wanted), len(values) - 1)])


def _mass(values: Floats, weights: Floats, thresholds: Floats, above: bool) -> Floats:
    order = np.argsort(values, kind="stable")
    cumulative = np.concatenate([[0.0], np.cumsum(weights[order])])
    if above:
        return np.asarray(cumulative[-1] - cumulative[np.searchsorted(values[order], thresholds, side="left")])
    return np.asarray(cumulative[np.searchsorted(values[order], thresholds, side="right")])
