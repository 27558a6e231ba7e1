"""Estimates of epsilon that tools usually print for scores of members and others; none of them is a lower bound.

Reports show these estimates beside the certified bound, so that users can compare it with the numbers of other tools.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, ndtri

from epsaudit.array_types import Floats
from epsaudit.bounds.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.claims.conversions import root
from epsaudit.claims.definitions import Claim
from epsaudit.errors import AuditError

N_NODES = 512
"""[measured] Number of quantiles of one error rate over which `posterior_epsilon` integrates. 512 are within 0.001 of
the result with 200,000 midpoints; 128 are within 0.006."""
AT_BEST_THRESHOLD = "Clopper-Pearson at the threshold that looks best"
"""Name of the estimate that is a bound, and so is left out, if the threshold was fixed beforehand."""


def usual_estimates(
    included: ArrayLike, excluded: ArrayLike, claim: Claim, confidence: float = 0.95, fixed: float | None = None
) -> dict[str, float]:
    """Return the estimates of epsilon, by name, that other tools usually compute from scores of members and others.

    Epsilon is estimated at the claim's delta, or at 1e-5 for a claim that states no delta. If no ``fixed`` threshold is
    given, the threshold that looks best on the same scores is chosen. None of the estimates is a lower bound: with a
    fixed threshold, the Clopper-Pearson estimate, which would be one, is left out.

    Parameters
    ----------
    included, excluded : array_like of float, shapes (n,) and (m,)
        Scores of members and of others.

    >>> from epsaudit import PureDP
    >>> found = usual_estimates(np.arange(100) + 30, np.arange(100), PureDP(1.0))
    >>> {name: round(value, 2) for name, value in found.items() if "Beta" not in name}
    {'plug-in': 3.43, 'Clopper-Pearson at the threshold that looks best': 1.77, 'normal limits': 1.76}
    """
    inside, outside = np.sort(np.asarray(included, float)), np.sort(np.asarray(excluded, float))
    n, m = len(inside), len(outside)
    if not (n and m):
        raise AuditError(f"There are {n} scores of members and {m} of others; some of both are needed.")
    at = np.unique(np.concatenate([inside, outside])) if fixed is None else np.array([fixed])
    at = at[:-1] if len(at) > 1 else at
    true, false = n - np.searchsorted(inside, at, "right"), m - np.searchsorted(outside, at, "right")
    found = _estimate_at_best_threshold(true, false, n, m, claim, confidence)
    if fixed is not None:
        del found[AT_BEST_THRESHOLD]  # at a threshold fixed beforehand it is a bound
    return found


def usual_estimates_of_counts(counts: Sequence[int], claim: Claim, confidence: float = 0.95) -> dict[str, float]:
    """Return the estimates of `usual_estimates` for a threshold that was fixed beforehand, from four counts.

    The counts are the members above the threshold, others above it, others below it, and members below it.

    >>> from epsaudit import PureDP
    >>> found = usual_estimates_of_counts((480, 20, 480, 20), PureDP(1.0))
    >>> {name: round(value, 2) for name, value in found.items() if "Beta" not in name}
    {'plug-in': 3.18, 'normal limits': 2.82}
    """
    tp, fp, tn, fn = counts
    found = _estimate_at_best_threshold(np.array([tp]), np.array([fp]), tp + fn, fp + tn, claim, confidence)
    del found[AT_BEST_THRESHOLD]
    return found


def _estimate_at_best_threshold(
    true: NDArray[Any], false: NDArray[Any], n: int, m: int, claim: Claim, confidence: float
) -> dict[str, float]:
    """Return the estimates of epsilon, by name, at the threshold that looks best.

    The plug-in estimate is the largest one over all thresholds. The other estimates are made at the threshold with the
    largest Clopper-Pearson estimate. Scores above and scores below a threshold are tried as events. For each threshold,
    ``true`` is the number of members above it, and ``false`` is the number of others above it. There are ``n`` members
    and ``m`` others.
    """
    alpha = 1.0 - confidence
    delta = 1e-5 if claim.claimed_point is None else claim.claimed_point[1]
    tp, fp = np.concatenate([true, m - false]), np.concatenate([false, n - true])
    sizes, others = np.repeat([n, m], len(true)), np.repeat([m, n], len(true))

    def log_odds(p: Floats, q: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(p > delta, np.log(np.maximum(p - delta, 1e-300) / q), 0.0)

    exact = log_odds(clopper_pearson_lower(tp, sizes, alpha / 2), clopper_pearson_upper(fp, others, alpha / 2))
    k, runs, wrong, rest = (int(one[np.argmax(exact)]) for one in (tp, sizes, fp, others))
    p, q = k / runs, max(wrong, 0.5) / rest
    spread = math.sqrt((1.0 - p) * p / runs / max(p - delta, 1.0 / runs) ** 2 + (1.0 - q) / q / rest)
    with np.errstate(divide="ignore"):
        plug_in = log_odds(tp / sizes, fp / others)
    normal = float(log_odds(np.array(p), np.array(q))) + float(ndtri(alpha)) * spread
    found = {
        "plug-in": float(np.max(plug_in[np.isfinite(plug_in)], initial=0.0)),
        AT_BEST_THRESHOLD: float(np.max(exact, initial=0.0)),
        "joint-Beta posterior": posterior_epsilon(k, wrong, rest - wrong, runs - k, delta, alpha),
        "normal limits": normal,
    }
    return {name: max(value, 0.0) for name, value in found.items()}


def posterior_epsilon(tp: int, fp: int, tn: int, fn: int, delta: float, alpha: float) -> float:
    """Return the alpha-quantile of a posterior distribution of epsilon, which is an estimate and not a bound.

    The counts are true and false positives and negatives. The posterior is that of both error rates, with Jeffreys'
    prior for each. The result is the smallest epsilon for which the error rates that (epsilon, delta)-DP allows, on
    both sides of the diagonal, have the posterior probability ``alpha`` (Zanella-Béguelin et al., 2023).

    >>> round(posterior_epsilon(100, 96, 4, 0, 0.0, 0.05), 3)
    0.605
    """
    angles = (np.arange(N_NODES) + 0.5) * math.pi / N_NODES  # these nodes are denser at both ends
    missed = betaincinv(fn + 0.5, tp + 0.5, (1.0 - np.cos(angles)) / 2.0)

    def excess(epsilon: float) -> float:
        rise = math.exp(epsilon)
        low = np.maximum(1.0 - delta - rise * missed, (1.0 - delta - missed) / rise).clip(0.0, 1.0)
        high = np.minimum(1.0 + (delta - missed) / rise, delta + rise * (1.0 - missed)).clip(0.0, 1.0)
        within = betainc(fp + 0.5, tn + 0.5, high) - betainc(fp + 0.5, tn + 0.5, low)
        return float(np.average(within, weights=np.sin(angles))) - alpha

    return 0.0 if excess(0.0) >= 0.0 else root(excess, 0.0, 50.0)
