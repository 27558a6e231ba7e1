"""Privacy profile and trade-off curve of one result: what the claim allows, and what its counts exclude.

The figure is drawn from a result, with the exact profile of its pair where the laws are known. The excluded region
rests on the counts and the confidence alone: everything beyond the one corner that `Certificate.corner` shows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from epsaudit.claims import Claim
from epsaudit.exact import PrivacyProfile
from epsaudit.reporting.numbers import count, percent
from epsaudit.reporting.style import BLUE, ONE_COLUMN, VERMILION, blank, legend_below, styled, words
from epsaudit.results import AuditResult

Floats = NDArray[np.float64]
ERRORS = np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 17)[:-1], np.linspace(0.01, 1.0, 100)])
"""Where curves are drawn, dense near 0."""
NEAR = np.geomspace(1e-4, 0.3, 12)
"""Distances from a claimed epsilon, as shares of it, at which profiles are drawn besides: there they bend most."""
LEAST_DELTA = 1e-9
"""Where a logarithmic axis for delta ends at the latest."""


def allowed_trade_off(claim: Claim, errors: Floats) -> Floats:
    """Trade-off curve of a claim: the least P[M(x) not in E] among all that it allows where P[M(x') in E] = error.

    By bisection over the claim's own ``least``, to 2^-50, rounded down.

    Parameters
    ----------
    claim : Claim
    errors : ndarray of float in [0, 1]

    Examples
    --------
    >>> from epsaudit.claims import PureDP
    >>> allowed_trade_off(PureDP(math.log(3.0)), np.array([0.0, 0.1, 0.25, 1.0])).round(6).tolist()
    [1.0, 0.7, 0.25, 0.0]
    """
    likely, beyond = errors.astype(float), np.ones_like(errors)
    for _ in range(50):
        middle = (likely + beyond) / 2
        with np.errstate(invalid="ignore", divide="ignore"):
            allowed = np.asarray(claim.least(middle, errors)) <= claim.parameter
        likely, beyond = np.where(allowed, middle, likely), np.where(allowed, beyond, middle)
    return np.asarray(np.where(errors >= 1.0, 0.0, 1.0 - beyond))


def claimed_profile(claim: Claim, epsilons: Floats) -> Floats:
    """Privacy profile of a claim at many epsilons; by bisection at all of them at once where there is no formula.

    Examples
    --------
    >>> from epsaudit.claims import ZCDP
    >>> claimed_profile(ZCDP(0.5), np.array([0.0, 2.0])).round(6).tolist()
    [0.479101, 0.051858]
    """
    if type(claim).profile is not Claim.profile:
        return np.array([claim.profile(float(epsilon)) for epsilon in epsilons])
    low, high = np.full(epsilons.shape, math.log(1e-300)), np.zeros(epsilons.shape)
    for _ in range(45):
        middle = (low + high) / 2
        beyond = claim.least_at(epsilons, np.exp(middle)) > claim.parameter
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.asarray(np.exp(low))


def with_bends(errors: Floats, claim: Claim) -> Floats:
    """Add to the errors those at which the trade-off curve of a claim of pure or approximate DP has its bends.

    Examples
    --------
    >>> from epsaudit.claims import PureDP
    >>> with_bends(np.array([0.0, 1.0]), PureDP(math.log(3.0))).round(6).tolist()
    [0.0, 0.25, 1.0]
    """
    if claim.claimed_point is None:
        return errors
    epsilon, delta = claim.claimed_point
    middle = (1.0 - delta) / (1.0 + math.exp(epsilon))
    return np.union1d(errors, [middle, 1.0 - delta])


def certified_polygon(result: AuditResult) -> Floats:
    """Vertices of the curve at or below which the pair's trade-off curve was shown to pass, shape (n, 2).

    The chords from (0, 1) to the corner to (1, 0), and of the corner's mirror image: adjacency goes both ways, and
    trade-off curves are convex. Only the ends where nothing was shown.
    """
    p, p_prime = (float(limit) for limit in result.certificate.corner(result.counts, result.confidence))
    points = [(0.0, 1.0), (1.0, 0.0)]
    if p > p_prime:
        points += [(p_prime, 1.0 - p), (1.0 - p, p_prime)]
    return _lower_hull(points)


def certified_profile(result: AuditResult, epsilons: Floats) -> Floats:
    """Lower bound on the pair's privacy profile at all epsilons at once: the tangents at both corners of the polygon.

    Examples
    --------
    >>> from epsaudit import DatasetPair, PureDP, audit, vectorized
    >>> noisy = vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=PureDP(1.0),
    ...                    pairs=[DatasetPair(0, 1)])
    >>> certified_profile(audit(noisy, trials=100_000, seed=1), np.array([0.0, 2.0])).round(1).tolist()
    [0.3, 0.0]
    """
    corners = certified_polygon(result)[1:-1]
    gains = [1.0 - beyond - np.exp(epsilons) * error for error, beyond in corners]
    return np.asarray(np.maximum.reduce([np.zeros_like(epsilons), *gains]))


@styled()
def trade_off(result: AuditResult, exact: PrivacyProfile | None = None) -> Figure:
    """Draw error against error: the claim's curve, the excluded region, and the exact curve if it is known."""
    figure = blank(ONE_COLUMN, 3.4)
    axes = figure.add_subplot()
    polygon = certified_polygon(result)
    axes.fill(
        *np.vstack([polygon, [[1.0, 1.0]]]).T,
        facecolor="0.9",
        edgecolor="0.75",
        hatch="////",
        linewidth=0.0,
        label=f"excluded at {percent(result.confidence)}" if len(polygon) > 2 else "excluded: nothing but the trivial",
    )
    axes.plot(*polygon.T, color=VERMILION, linestyle="-", marker="o", markersize=3, label="passes at or below")
    errors = with_bends(ERRORS, result.claim)
    axes.plot(
        errors, allowed_trade_off(result.claim, errors), color=BLUE, linestyle="--", label=f"claimed: {result.claim}"
    )
    if exact is not None:
        axes.plot(*_exact_trade_off(exact).T, color="black", linestyle=":", label="exact for the pair")
    axes.plot([0.0, 1.0], [1.0, 0.0], color="0.6", linewidth=0.6, linestyle="-")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    axes.set_xlabel("P[M(x′) in E]: says x, wrongly")
    axes.set_ylabel("P[M(x) not in E]: says x′, wrongly")
    axes.set_title(_title(result))
    legend_below(figure)
    return figure


@styled()
def privacy_profile(result: AuditResult, exact: PrivacyProfile | None = None) -> Figure:
    """Draw delta against epsilon: the claim's profile, the excluded region, and the exact profile if it is known.

    Delta stands on a logarithmic axis unless the claim is of pure DP.
    """
    figure = blank(ONE_COLUMN, 3.0)
    axes = figure.add_subplot()
    point = result.point
    widest = max(1.6 * point[0], 1.3 * _root(result), 0.5)
    even = np.linspace(0.0, widest, 121)
    epsilons = np.union1d(even, _root(result) * (1.0 - NEAR))  # where what is excluded ends
    sparse = _near_the_claim(result, even[::3])
    claimed = claimed_profile(result.claim, sparse)
    shown = certified_profile(result, epsilons)
    logarithmic = bool(np.any((claimed > 0.0) & (claimed < 1e-3)))
    floor = max(LEAST_DELTA, min(claimed[claimed > 0.0], default=1.0) / 3) if logarithmic else 0.0
    visible = np.where(shown > floor, shown, floor)
    some = shown > floor
    if some.any():
        excluded = f"excluded at {percent(result.confidence)}"
        grey: dict[str, Any] = {"facecolor": "0.9", "edgecolor": "0.75", "hatch": "////", "linewidth": 0.0}
        axes.fill_between(epsilons, visible, floor, label=excluded, **grey)
        axes.plot(epsilons[some], shown[some], color=VERMILION, linestyle="-", label="at least")
    else:
        axes.plot([], [], linestyle="none", label=f"nothing excluded at {percent(result.confidence)}")
    axes.plot(sparse, np.maximum(claimed, floor), color=BLUE, linestyle="--", label=f"claimed: {result.claim}")
    if exact is not None:
        deltas = np.array([exact.delta(float(epsilon)) for epsilon in sparse])
        axes.plot(sparse, np.maximum(deltas, floor), color="black", linestyle=":", label="exact for the pair")
    if not logarithmic or point[1] > floor:
        axes.plot(*point, color=BLUE, marker="D", linestyle="none", label="tested point")
    if logarithmic:
        axes.set_yscale("log")
    axes.set(xlim=(0.0, widest), xlabel="ε (nats)", ylabel="δ(ε), a probability")
    axes.set_ylim(bottom=floor)
    axes.set_title(_title(result))
    legend_below(figure)
    return figure


def _near_the_claim(result: AuditResult, epsilons: Floats) -> Floats:
    """Add epsilons near the claimed one, if there is one."""
    if result.claim.claimed_point is None:  # smooth
        return epsilons
    claimed, _ = result.claim.claimed_point
    return np.union1d(epsilons, np.concatenate([[claimed], claimed * (1.0 - NEAR), claimed * (1.0 + NEAR)]))


def _title(result: AuditResult) -> str:
    name = result.mechanism if len(result.mechanism) <= 44 else f"{result.mechanism[:41]}..."
    return f"{words(name)}\n{count(result.trials)} runs, {percent(result.confidence)} confidence"


def _root(result: AuditResult) -> float:
    """Where the certified profile reaches 0."""
    corners = certified_polygon(result)[1:-1]
    return max(
        (math.log((1.0 - beyond) / error) for error, beyond in corners if 0.0 < error < 1.0 - beyond), default=0.0
    )


def _exact_trade_off(exact: PrivacyProfile) -> Floats:
    """Lower convex envelope of the Neyman-Pearson points of both directions."""
    p, p_prime = exact.events(np.concatenate([[-np.inf], np.linspace(-12.0, 12.0, 481), [np.inf]]))
    points = [(float(b), 1.0 - float(a)) for a, b in zip(p, p_prime, strict=True)]
    return _lower_hull([*points, *((b, a) for a, b in points), (0.0, 1.0), (1.0, 0.0)])


def _lower_hull(points: list[tuple[float, float]]) -> Floats:
    """Lower convex hull of points, from left to right (Andrew's monotone chain)."""
    hull: list[tuple[float, float]] = []
    for x, y in sorted(set(points)):
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) >= (y - hull[-2][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append((x, y))
    return np.array(hull)
