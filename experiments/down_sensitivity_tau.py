"""The threshold tau of each mechanism for down sensitivity as |Y| grows, from closed formulas without runs.

tau is the number of removed records up to which a mechanism's accuracy is stated. The module computes tau from log2 |Y|
for all routes at equal (epsilon, delta), and finds where two routes cross. It stands alone because only the logarithm
of |Y| matters here: Y may be far larger than memory or than 64-bit integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from scipy.optimize import brentq
from scipy.special import ndtri

from epsaudit import GaussianDP
from epsaudit.mechanisms.down_sensitivity import least_noise, needed_rounds
from epsaudit.mechanisms.interior_point import plan_for
from epsaudit.mechanisms.quasi_concave import best_plan, stage_over

EPSILON, DELTA, BETA = 1.0, 1e-6, 0.05
ERROR = 0.1
RECURSION, PREFIXES = "RecConcave (Theorem 6)", "common prefixes (Theorem 6)"
Route = Callable[[int], float]


def gaussian_budget(epsilon: float = EPSILON, delta: float = DELTA) -> float:
    """Return the mu for which mu-Gaussian DP is exactly (epsilon, delta)-DP.

    It is the largest value that sqrt(comparisons) / sigma may take.

    Examples
    --------
    >>> round(gaussian_budget(), 4)
    0.2367
    """
    root: float = brentq(lambda mu: GaussianDP(mu).profile(epsilon) - delta, 1e-3, 10.0)
    return root


def shifted_inverse(bits: int) -> float:
    """Return tau of Theorem 4, which is purely epsilon-DP."""
    return math.ceil(2.0 / EPSILON * (bits * math.log(2.0) - math.log(BETA)))


def laplace_search(bits: int) -> float:
    """Return tau of the search with Laplace noise, which is purely epsilon-DP, with the corrected number of steps."""
    return bits / EPSILON * math.log(bits / BETA)


def gaussian_search(bits: int, beta: float = BETA) -> float:
    """Return tau of Theorem 5 with Gaussian noise (note 6).

    The number of steps is corrected, and the accounting uses Gaussian DP.
    """
    return math.sqrt(bits) / gaussian_budget() * max(0.0, -float(ndtri(beta / bits)))


def tolerant_search(bits: int, beta: float = BETA, error: float = ERROR) -> float:
    """Return tau of note 7 with noise-tolerant search and Gaussian DP accounting."""
    rounds = needed_rounds(bits * math.log(2.0), beta, error)
    return math.sqrt(rounds) / gaussian_budget() * -float(ndtri(error))


def bounded_search(bits: int) -> float:
    """Return tau of note 7 with bounded noise. The search never errs, so tau does not depend on beta."""
    return least_noise(EPSILON, DELTA, bits).reach


def interior_point(bits: int, depth: int | None = None) -> float:
    """Return tau of Theorem 6 with RecConcave, which uses at least one level of recursion."""
    depths = range(1, 6) if depth is None else [depth]
    return float(best_plan(2**bits, EPSILON, DELTA, BETA, depths).promise)


def common_prefix(bits: int, depth: int = 1) -> float:
    """Return tau of Theorem 6 with common prefixes and ``depth`` exponential mechanisms."""
    return plan_for(bits, EPSILON, DELTA, BETA, depth).promise


def prefix_bound(log_lengths: float, depth: int, delta: float = DELTA, beta: float = BETA) -> float:
    """Return the threshold of `PrefixInteriorPoint` before it is rounded.

    The last of the ``depth`` exponential mechanisms chooses among e^log_lengths lengths.

    Examples
    --------
    >>> common_prefix(64), round(prefix_bound(math.log(65), 1), 1)
    (56, 54.7)
    """
    if depth == 1:
        labels = math.log(3.0) + log_lengths
        return 2.0 / EPSILON * (2.0 * labels - math.log(beta) - math.log(min(beta, delta)))
    share = delta / depth
    below = prefix_bound(log_lengths, depth - 1, delta - share, min(share, beta / 2.0))
    return (math.sqrt(2.0 * below) + math.sqrt(2.0 / EPSILON * math.log(4.0 / beta))) ** 2


def recursion_bound(log_size: float, depth: int, free: bool = False, delta: float = DELTA, beta: float = BETA) -> float:
    """Return the threshold of `InteriorPoint` with ``depth`` levels of recursion, before it is rounded.

    The recursion runs over e^log_size scales, and the budgets of its steps sum to epsilon. With ``free``, each step has
    all of epsilon to itself. No accounting of the composition can give a smaller threshold than that, truncated
    concentrated DP (Bun, Dwork, Rothblum and Steinke 2018) included.

    Examples
    --------
    >>> stage_over(0, 2**100, EPSILON, DELTA, BETA, 1).promise
    748
    >>> round(recursion_bound(100 * math.log(2), 1)), round(recursion_bound(100 * math.log(2), 1, free=True))
    (746, 347)
    """
    if depth == 0:
        return 2.0 / EPSILON * (log_size - math.log(beta))
    share, delta_test = beta / 4.0, delta / depth
    costs = (
        2.0 * recursion_bound(log_size, depth - 1, free, delta - delta_test, share),
        2.0 / EPSILON * (math.log(0.5 / delta_test) + math.log(0.5 / share)),
        2.0 / EPSILON * math.log((math.ceil(8.0 / beta) + 1) / share),
    )
    return sum(costs) if free else sum(map(math.sqrt, costs)) ** 2


def free_composition(bits: int) -> float:
    """Return the tau that RecConcave would have if composition cost nothing.

    This is a lower bound for the recursion; no mechanism attains it.
    """
    return min(recursion_bound(math.log(bits + 1), 1, free=True), recursion_bound(math.log(bits.bit_length()), 2, True))


def tower_rows(most: int = 12) -> list[dict[str, Any]]:
    """Return tau of both routes to Theorem 6 at |Y| = 2^2^...^2.

    |Y| is a tower of 3 to ``most`` twos; log* |Y| is the height of the tower.

    Examples
    --------
    >>> [(row["height"], row["depth"]) for row in tower_rows(7) if row["mechanism"] == RECURSION]
    [(3, 1), (4, 1), (5, 1), (6, 2), (7, 3)]
    """
    rows = []
    for name, bound in ((RECURSION, recursion_bound), (PREFIXES, prefix_bound)):
        for height in range(3, most + 1):
            depths = range(max(1, height - 5), height)
            tau, depth = min((bound(_log_tower(height - depth), depth), depth) for depth in depths)
            rows.append({"mechanism": name, "height": height, "depth": depth, "tau": tau})
    return rows


def _log_tower(height: int) -> float:
    """Return the natural logarithm of a tower of ``height`` twos; the height is at most 5."""
    size = 1
    for _ in range(height):
        size = 2**size
    return math.log(size)


ROUTES: dict[str, Route] = {
    "shifted inverse (Theorem 4)": shifted_inverse,
    "Laplace search": laplace_search,
    "Gaussian search (Theorem 5, note 6)": gaussian_search,
    "tolerant search (note 7)": tolerant_search,
    "bounded noise (note 7), β = 0": bounded_search,
    RECURSION: interior_point,
    PREFIXES: common_prefix,
}


def tau_rows() -> list[dict[str, Any]]:
    """Return tau of every route at |Y| = 2^bits, for 1 to 64 bits."""
    return [
        {"mechanism": name, "bits": bits, "tau": float(route(bits))}
        for name, route in ROUTES.items()
        for bits in range(1, 65)
    ]


def crossovers() -> list[dict[str, Any]]:
    """Return where one route begins to need fewer removals than another.

    The rows give the crossing in log2 |Y|, and for some routes in beta at |Y| = 2^64.
    """
    pairs: list[tuple[str, Route, str, Route]] = [
        ("Gaussian search", gaussian_search, "shifted inverse", shifted_inverse),
        ("tolerant search", tolerant_search, "shifted inverse", shifted_inverse),
        ("RecConcave", interior_point, "shifted inverse", shifted_inverse),
        ("RecConcave", interior_point, "Gaussian search", gaussian_search),
        ("RecConcave, composition free", free_composition, "shifted inverse", shifted_inverse),
        ("RecConcave", interior_point, "tolerant search", tolerant_search),
        ("common prefixes", common_prefix, "shifted inverse", shifted_inverse),
        ("common prefixes", common_prefix, "Gaussian search", gaussian_search),
        ("tolerant search", tolerant_search, "Gaussian search", gaussian_search),
        ("bounded noise", bounded_search, "tolerant search", tolerant_search),
        ("bounded noise", bounded_search, "Gaussian search", gaussian_search),
        ("bounded noise", bounded_search, "shifted inverse", shifted_inverse),
    ]
    rows: list[dict[str, Any]] = []
    for name, route, other_name, other in pairs:
        bits = crossing(route, other, 2**11 if route is bounded_search else 2**14)
        rows.append({"mechanism": name, "case": f"below {other_name}", "log2 |Y|": bits})
    for beta in (1e-6, 1e-9, 1e-12):
        bits = crossing(partial(tolerant_search, beta=beta), partial(gaussian_search, beta=beta))
        rows.append({"mechanism": "tolerant search", "case": f"below Gaussian search, beta {beta:g}", "log2 |Y|": bits})
    for name, tau in (("RecConcave", _recursion_tau), ("common prefixes", _prefix_tau)):
        twice = crossing(partial(tau, depth=2), partial(tau, depth=1), most=1000)
        rows.append({"mechanism": name, "case": "depth 2 below depth 1", "log2 log2 |Y|": twice})
    betas = [10.0**-power for power in range(1, 16)]
    enough = bounded_search(64)
    at_64 = max(beta for beta in betas if enough < gaussian_search(64, beta))
    rows.append({"mechanism": "bounded noise", "case": "below Gaussian search at 2^64", "beta": at_64})
    smaller = [beta for beta in betas if tolerant_search(64, beta) < gaussian_search(64, beta)]
    rows.append({"mechanism": "tolerant search", "case": "below Gaussian search at 2^64", "beta": max(smaller)})
    return rows


def _recursion_tau(power: int, depth: int) -> float:
    """Return tau of RecConcave at |Y| = 2^(2^power)."""
    return stage_over(0, 2**power, EPSILON, DELTA, BETA, depth).promise


def _prefix_tau(power: int, depth: int) -> float:
    """Return tau of common prefixes at |Y| = 2^(2^power)."""
    return common_prefix(2**power, depth)


def crossing(route: Route, other: Route, most: int = 2**14) -> int | None:
    """Return the smallest number of bits from which ``route`` is below ``other``, found by bisection.

    The result is None if ``route`` is not below ``other`` at ``most`` bits.

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
