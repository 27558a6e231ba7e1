"""Coordinates of the two small drawings on a card of the HTML page; the template turns them into SVG.

They are numbers in pixels, computed from a result: 146 cards then weigh less than one drawn by matplotlib.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from epsaudit.claims import Claim
from epsaudit.reporting.curves import allowed_trade_off, certified_polygon, with_bends
from epsaudit.results import AuditResult, Result

WIDTH = 320.0
"""Pixels of the strip of a result's card."""
SQUARE = 150.0
"""Pixels of a side of the trade-off curve on a result's card."""
ERRORS = np.concatenate([[0.0, 1e-4, 1e-3, 4e-3], np.linspace(0.01, 0.1, 10), np.linspace(0.15, 1.0, 18)])


@dataclass(frozen=True)
class Interval:
    """Places on an axis of `WIDTH` pixels from 0 to ``greatest``, in the claim's parameter.

    ``exact`` is None where it is not known, ``beyond`` says that it lies to the right of the axis.
    """

    greatest: float
    bound: float
    proven: float
    exact: float | None
    beyond: bool


def interval(result: Result) -> Interval:
    """Place the certified bound, the proven value and the exact one."""
    finite = [value for value in (result.proven, result.lower_bound, result.exact) if value is not None]
    greatest = 1.15 * max((value for value in finite if math.isfinite(value)), default=1.0) or 1.0
    beyond = result.exact is not None and math.isinf(result.exact)

    def place(value: float) -> float:
        return round(WIDTH * min(value / greatest, 1.0), 1)

    exact = None if result.exact is None or beyond else place(result.exact)
    return Interval(greatest, place(result.lower_bound), place(result.proven), exact, beyond)


def claimed_curve(claim: Claim) -> str:
    """Points of the claim's trade-off curve in a square of `SQUARE` pixels, as SVG writes them.

    Examples
    --------
    >>> from epsaudit.claims import PureDP
    >>> claimed_curve(PureDP(1.0)).split()[0], claimed_curve(PureDP(1.0)).split()[-1]
    ('0,0', '150,150')
    """
    return _claimed_curve(claim)


def certified_curve(result: AuditResult) -> str:
    """Points of the curve that the pair's trade-off curve was shown not to exceed, likewise."""
    return _points(certified_polygon(result))


@functools.lru_cache(maxsize=1024)
def _claimed_curve(claim: Claim) -> str:
    errors = with_bends(ERRORS, claim)
    return _points(np.stack([errors, allowed_trade_off(claim, errors)], axis=1))


def _points(points: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    return " ".join(f"{round(SQUARE * x, 2):g},{round(SQUARE * (1.0 - y), 2):g}" for x, y in points)
