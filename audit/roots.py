"""The root of a function in a bracket, by Brent's method.

It takes the steps of `scipy.optimize.brentq`, whose results it gives to the last bit, because importing scipy.optimize
takes longer than all else that lists mechanisms or audits one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

MOST_STEPS = 100
"""As in scipy; halving alone would need 60 for all bits of a number between 0 and 1."""


def root(
    function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12, rtol: float = 2.0**-50
) -> float:
    """Return where ``function`` changes its sign between ``low`` and ``high``, to within ``xtol`` + ``rtol`` |root|.

    Raises
    ------
    ValueError
        If the signs at both ends are the same.

    References
    ----------
    .. [1] R. P. Brent, Algorithms for Minimization without Derivatives, 1973, chapter 4.

    Examples
    --------
    >>> root(lambda x: x * x - 2.0, 0.0, 2.0)
    1.4142135623731364
    """
    before, now, other = low, high, 0.0
    at_before, at_now, at_other = float(function(before)), float(function(now)), 0.0
    if at_before == 0.0 or at_now == 0.0:
        return float(before if at_before == 0.0 else now)
    if math.copysign(1.0, at_before) == math.copysign(1.0, at_now):
        raise ValueError(f"The function has one sign at {low!r} and {high!r}.")
    step_before = step = 0.0
    for _ in range(MOST_STEPS):
        if at_before != 0.0 and at_now != 0.0 and math.copysign(1.0, at_before) != math.copysign(1.0, at_now):
            other, at_other = before, at_before
            step_before = step = now - before
        if abs(at_other) < abs(at_now):
            before, now, other = now, other, now
            at_before, at_now, at_other = at_now, at_other, at_now
        tolerance, half = (xtol + rtol * abs(now)) / 2, (other - now) / 2
        if at_now == 0.0 or abs(half) < tolerance:
            return float(now)
        tried = math.inf
        if abs(step_before) > tolerance and abs(at_now) < abs(at_before):
            if before == other:
                tried = -at_now * (now - before) / (at_now - at_before)
            else:
                slope_before = (at_before - at_now) / (before - now)
                slope_other = (at_other - at_now) / (other - now)
                below = slope_other * slope_before * (at_other - at_before)
                tried = -at_now * (at_other * slope_other - at_before * slope_before) / below if below else math.inf
        good = 2 * abs(tried) < min(abs(step_before), 3 * abs(half) - tolerance)
        step_before, step = (step, tried) if good else (half, half)
        before, at_before = now, at_now
        now += step if abs(step) > tolerance else math.copysign(tolerance, half)
        at_now = float(function(now))
    raise ValueError(f"No root between {low!r} and {high!r} after {MOST_STEPS} steps.")
