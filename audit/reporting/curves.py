"""The curves of one result: privacy profile and trade-off curve, or a sequential audit's bound, beside the claim's.

They are drawn from a result, with the exact profile of its pair where the laws are known. The excluded region rests on
the counts and the confidence alone: everything beyond the one corner that `Certificate.corner` shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from epsaudit.claims.curves import lower_hull
from epsaudit.claims.definitions import Claim
from epsaudit.exact import PrivacyProfile
from epsaudit.reporting import style
from epsaudit.text import SYMBOLS, count, percent

if TYPE_CHECKING:
    from epsaudit.audits.sequential import SequentialResult
    from epsaudit.results.result import AuditResult

Floats = NDArray[np.float64]
ERRORS = np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 17)[:-1], np.linspace(0.01, 1.0, 100)])
"""Where curves are drawn, dense near 0."""
NEAR = np.geomspace(1e-4, 0.3, 12)
"""Distances from a claimed epsilon, as shares of it, at which profiles are drawn besides: there they bend most."""
LEAST_DELTA = 1e-9
"""Where a logarithmic axis for delta ends at the latest."""
EXCLUDED: dict[str, Any] = {"facecolor": "0.9", "edgecolor": "0.75", "hatch": "////", "linewidth": 0.0}


def allowed_trade_off(claim: Claim, errors: Floats) -> Floats:
    """Trade-off curve of a claim: the least P[M(x) not in E] among all that it allows where P[M(x') in E] = error.

    By bisection over the claim's own ``least``, to 2^-50, rounded down.
    """
    likely, beyond = errors.astype(float), np.ones_like(errors)
    for _ in range(50):
        middle = (likely + beyond) / 2
        with np.errstate(invalid="ignore", divide="ignore"):
            allowed = np.asarray(claim.least(middle, errors)) <= claim.parameter
        likely, beyond = np.where(allowed, middle, likely), np.where(allowed, beyond, middle)
    return np.asarray(np.where(errors >= 1.0, 0.0, 1.0 - beyond))


def claimed_profile(claim: Claim, epsilons: Floats) -> Floats:
    """Privacy profile of a claim at many epsilons; by bisection at all of them at once where there is no formula."""
    if type(claim).profile is not Claim.profile:
        return np.array([claim.profile(float(epsilon)) for epsilon in epsilons])
    low, high = np.full(epsilons.shape, math.log(1e-300)), np.zeros(epsilons.shape)
    for _ in range(45):
        middle = (low + high) / 2
        beyond = claim.least_at(epsilons, np.exp(middle)) > claim.parameter
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.asarray(np.exp(low))


def with_bends(errors: Floats, claim: Claim) -> Floats:
    """Add to the errors those at which the trade-off curve of a claim of pure or approximate DP has its bends."""
    if claim.claimed_point is None:
        return errors
    epsilon, delta = claim.claimed_point
    return np.union1d(errors, [(1.0 - delta) / (1.0 + math.exp(epsilon)), 1.0 - delta])


def certified_polygon(result: AuditResult) -> Floats:
    """Vertices of the curve at or below which the pair's trade-off curve was shown to pass, shape (n, 2).

    The chords from (0, 1) to the corner to (1, 0), and of the corner's mirror image: adjacency goes both ways, and
    trade-off curves are convex. Only the ends where nothing was shown.
    """
    p, p_prime = (float(limit) for limit in result.certificate.corner(result.counts, result.confidence))
    corners = [(p_prime, 1.0 - p), (1.0 - p, p_prime)] if p > p_prime else []
    return lower_hull([(0.0, 1.0), (1.0, 0.0), *corners])


def certified_profile(result: AuditResult, epsilons: Floats) -> Floats:
    """Lower bound on the pair's privacy profile at all epsilons: the tangents at both corners of the polygon."""
    corners = certified_polygon(result)[1:-1]
    gains = [1.0 - beyond - np.exp(epsilons) * error for error, beyond in corners]
    return np.asarray(np.maximum.reduce([np.zeros_like(epsilons), *gains]))


@style.styled()
def trade_off(result: AuditResult, exact: PrivacyProfile | None = None) -> Figure:
    """Draw error against error: the claim's curve, the excluded region, and the exact curve if it is known."""
    figure = style.blank(style.ONE_COLUMN, 3.4)
    axes = figure.add_subplot()
    polygon = certified_polygon(result)
    excluded = f"excluded at {percent(result.confidence)}" if len(polygon) > 2 else "excluded: nothing but the trivial"
    axes.fill(*np.vstack([polygon, [[1.0, 1.0]]]).T, label=excluded, **EXCLUDED)
    axes.plot(*polygon.T, color=style.VERMILION, linestyle="-", marker="o", markersize=3, label="passes at or below")
    errors = with_bends(ERRORS, result.claim)
    allowed = allowed_trade_off(result.claim, errors)
    axes.plot(errors, allowed, color=style.BLUE, linestyle="--", label=f"claimed: {result.claim}")
    if exact is not None:
        axes.plot(*_exact_trade_off(exact).T, color="black", linestyle=":", label="exact for the pair")
    axes.plot([0.0, 1.0], [1.0, 0.0], color="0.6", linewidth=0.6, linestyle="-")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    axes.set_xlabel("P[M(x′) in E]: says x, wrongly")
    axes.set_ylabel("P[M(x) not in E]: says x′, wrongly")
    axes.set_title(_title(result))
    style.legend_below(figure)
    return figure


@style.styled()
def privacy_profile(result: AuditResult, exact: PrivacyProfile | None = None) -> Figure:
    """Draw delta against epsilon: the claim's profile, the excluded region, and the exact profile if it is known.

    Delta stands on a logarithmic axis unless the claim is of pure DP.
    """
    figure = style.blank(style.ONE_COLUMN, 3.0)
    axes = figure.add_subplot()
    point, root = result.point, _root(result)
    widest = max(1.6 * point[0], 1.3 * root, 0.5)
    even = np.linspace(0.0, widest, 121)
    epsilons = np.union1d(even, root * (1.0 - NEAR))  # where what is excluded ends
    sparse = even[::3]
    if result.claim.claimed_point is not None:  # else it is smooth
        bend = result.claim.claimed_point[0]
        sparse = np.union1d(sparse, np.concatenate([[bend], bend * (1.0 - NEAR), bend * (1.0 + NEAR)]))
    claimed = claimed_profile(result.claim, sparse)
    shown = certified_profile(result, epsilons)
    logarithmic = bool(np.any((claimed > 0.0) & (claimed < 1e-3)))
    floor = max(LEAST_DELTA, min(claimed[claimed > 0.0], default=1.0) / 3) if logarithmic else 0.0
    some = shown > floor
    if some.any():
        excluded = f"excluded at {percent(result.confidence)}"
        axes.fill_between(epsilons, np.where(some, shown, floor), floor, label=excluded, **EXCLUDED)
        axes.plot(epsilons[some], shown[some], color=style.VERMILION, linestyle="-", label="at least")
    else:
        axes.plot([], [], linestyle="none", label=f"nothing excluded at {percent(result.confidence)}")
    axes.plot(sparse, np.maximum(claimed, floor), color=style.BLUE, linestyle="--", label=f"claimed: {result.claim}")
    if exact is not None:
        deltas = np.array([exact.delta(float(epsilon)) for epsilon in sparse])
        axes.plot(sparse, np.maximum(deltas, floor), color="black", linestyle=":", label="exact for the pair")
    if not logarithmic or point[1] > floor:
        axes.plot(*point, color=style.BLUE, marker="D", linestyle="none", label="tested point")
    if logarithmic:
        axes.set_yscale("log")
    axes.set(xlim=(0.0, widest), xlabel="ε (nats)", ylabel="δ(ε), a probability")
    axes.set_ylim(bottom=floor)
    axes.set_title(_title(result))
    style.legend_below(figure)
    return figure


@style.styled()
def sequential_path(results: Mapping[str, SequentialResult]) -> Figure:
    """Draw the running bound of named sequential audits against runs, each valid at every moment.

    The claims share one symbol; each claim's own parameter is drawn once.
    """
    figure = style.blank(style.ONE_COLUMN, 2.6)
    axes = figure.add_subplot()
    colours = (style.VERMILION, style.BLUE, style.GREEN, style.PURPLE, "black")
    for place, (name, result) in enumerate(results.items()):
        runs, bounds = (np.array(values, float) for values in zip(*result.path, strict=True))
        colour = colours[place % len(colours)]
        axes.step(np.maximum(runs, 1.0), bounds, where="post", color=colour, label=style.words(name))
        marker = style.MARKERS[place % len(style.MARKERS)]
        axes.plot(runs[-1], bounds[-1], color=colour, marker=marker, linestyle="none")
    for proven in dict.fromkeys(result.claim.parameter for result in results.values()):
        axes.axhline(proven, color="black", linewidth=0.8, linestyle=":", label=f"claimed: {proven:.4g}")
    confidence = percent(min(result.confidence for result in results.values()))
    symbols = " or ".join(dict.fromkeys(SYMBOLS[result.claim.symbol] for result in results.values()))
    axes.set(xscale="log", xlabel="runs, on both datasets", ylabel=f"running bound on {symbols}")
    axes.set_ylim(bottom=0.0)
    axes.set_title(f"valid at every moment at {confidence} confidence")
    style.legend_below(figure)
    return figure


def _title(result: AuditResult) -> str:
    name = result.mechanism if len(result.mechanism) <= 44 else f"{result.mechanism[:41]}..."
    return f"{style.words(name)}\n{count(result.trials)} runs, {percent(result.confidence)} confidence"


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
    return lower_hull([*points, *((b, a) for a, b in points), (0.0, 1.0), (1.0, 0.0)])
