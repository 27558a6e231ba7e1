"""How many removals each route aims at, tau, as |Y| grows: closed formulas, no runs.

From log2 |Y| it computes the thresholds of all routes at equal (epsilon, delta), and where two routes cross. Y may be
far longer than memory or 64 bits: only its logarithm matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from scipy.optimize import brentq
from scipy.special import ndtri

from epsaudit import GaussianDP
from epsaudit.mechanisms.bounded_noise import least_noise
from epsaudit.mechanisms.quasi_concave import best_plan, stage_over
from epsaudit.mechanisms.tolerant_search import needed_rounds

EPSILON, DELTA, BETA = 1.0, 1e-6, 0.05
ERROR = 0.1
Route = Callable[[int], float]


def gaussian_budget(epsilon: float = EPSILON, delta: float = DELTA) -> float:
    """Return mu such that mu-Gaussian DP is exactly (epsilon, delta)-DP: what sqrt(comparisons) / sigma may be.

    Examples
    --------
    >>> round(gaussian_budget(), 4)
    0.2367
    """
    root: float = brentq(lambda mu: GaussianDP(mu).profile(epsilon) - delta, 1e-3, 10.0)
    return root


def shifted_inverse(bits: int) -> float:
    """Theorem 4, purely epsilon-DP."""
    return math.ceil(2.0 / EPSILON * (bits * math.log(2.0) - math.log(BETA)))


def laplace_search(bits: int) -> float:
    """The search with Laplace noise, purely epsilon-DP, steps corrected."""
    return bits / EPSILON * math.log(bits / BETA)


def gaussian_search(bits: int, beta: float = BETA) -> float:
    """Theorem 5 with Gaussian noise (note 6), steps corrected, by Gaussian DP."""
    return math.sqrt(bits) / gaussian_budget() * max(0.0, -float(ndtri(beta / bits)))


def tolerant_search(bits: int, beta: float = BETA, error: float = ERROR) -> float:
    """Note 7 by noise-tolerant search, by Gaussian DP."""
    rounds = needed_rounds(bits * math.log(2.0), beta, error)
    return math.sqrt(rounds) / gaussian_budget() * -float(ndtri(error))


def bounded_search(bits: int) -> float:
    """Note 7 by bounded noise, which is never wrong, whatever beta is."""
    return least_noise(EPSILON, DELTA, bits).reach


def interior_point(bits: int, depth: int | None = None) -> float:
    """Theorem 6, with at least one level of recursion."""
    depths = range(1, 6) if depth is None else [depth]
    return float(best_plan(2**bits, EPSILON, DELTA, BETA, depths).promise)


ROUTES: dict[str, Route] = {
    "shifted inverse (Theorem 4)": shifted_inverse,
    "Laplace search": laplace_search,
    "Gaussian search (Theorem 5, note 6)": gaussian_search,
    "tolerant search (note 7)": tolerant_search,
    "bounded noise (note 7), β = 0": bounded_search,
    "interior point (Theorem 6)": interior_point,
}


def tau_rows() -> list[dict[str, Any]]:
    """Tau of every route at |Y| = 2^bits for 1 to 64 bits."""
    return [
        {"mechanism": name, "bits": bits, "tau": float(route(bits))}
        for name, route in ROUTES.items()
        for bits in range(1, 65)
    ]


def crossovers() -> list[dict[str, Any]]:
    """Where one route begins to need fewer removals than another, in log2 |Y|, and in beta at |Y| = 2^64."""
    pairs: list[tuple[str, Route, str, Route]] = [
        ("Gaussian search", gaussian_search, "shifted inverse", shifted_inverse),
        ("tolerant search", tolerant_search, "shifted inverse", shifted_inverse),
        ("interior point", interior_point, "shifted inverse", shifted_inverse),
        ("interior point", interior_point, "Gaussian search", gaussian_search),
        ("interior point", interior_point, "tolerant search", tolerant_search),
        ("tolerant search", tolerant_search, "Gaussian search", gaussian_search),
        ("bounded noise", bounded_search, "tolerant search", tolerant_search),
        ("bounded noise", bounded_search, "Gaussian search", gaussian_search),
        ("bounded noise", bounded_search, "shifted inverse", shifted_inverse),
    ]
    rows: list[dict[str, Any]] = []
    for name, route, other_name, other in pairs:
        bits = crossing(route, other)
        rows.append({"mechanism": name, "case": f"below {other_name}", "log2 |Y|": bits})
    for beta in (1e-6, 1e-9, 1e-12):
        bits = crossing(partial(tolerant_search, beta=beta), partial(gaussian_search, beta=beta))
        rows.append({"mechanism": "tolerant search", "case": f"below Gaussian search, beta {beta:g}", "log2 |Y|": bits})
    twice = crossing(partial(_recursing, depth=2), partial(_recursing, depth=1), most=1000)
    rows.append({"mechanism": "interior point", "case": "depth 2 below depth 1", "log2 log2 |Y|": twice})
    betas = [10.0**-power for power in range(1, 16)]
    enough = bounded_search(64)
    at_64 = max(beta for beta in betas if enough < gaussian_search(64, beta))
    rows.append({"mechanism": "bounded noise", "case": "below Gaussian search at 2^64", "beta": at_64})
    smaller = [beta for beta in betas if tolerant_search(64, beta) < gaussian_search(64, beta)]
    rows.append({"mechanism": "tolerant search", "case": "below Gaussian search at 2^64", "beta": max(smaller)})
    return rows


def _recursing(power: int, depth: int) -> float:
    """Tau of the interior point mechanism at |Y| = 2^(2^power)."""
    return stage_over(0, 2**power, EPSILON, DELTA, BETA, depth).promise


def crossing(route: Route, other: Route, most: int = 2**14) -> int | None:
    """Least number of bits from which ``route`` is below ``other``, by bisection; None if not up to ``most``.

    Examples
    --------
    >>> crossing(lambda bits: math.sqrt(100 * bits), float)
    101
    """
    if not route(most) < other(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if route(middle) < other(middle) else (middle + 1, high)
    return low
