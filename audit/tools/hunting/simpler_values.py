"""The order of values by simplicity, which shrinking follows; it is the order of hypothesis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from epsaudit.tools.hunting.columns import FAR_BEYOND_BOUND


def simpler_values(value: Any, bounds: tuple[Any, Any] | None = None) -> list[Any]:
    """Return values of the same type that are simpler than ``value``, the simplest first.

    Without ``bounds``, whole numbers are simpler than fractions, small numbers are simpler than large ones, and
    positive numbers are simpler than negative ones. With ``bounds``, the two bounds are the simplest values, followed
    by the simpler values between them. Values outside of the bounds are replaced by values outside only in one case: if
    the value is further outside than the distance that descriptions of data try, it may be moved to this distance. The
    result is empty for types without an order, such as text.

    >>> simpler_values(7)
    [0, 1, 3, 6]
    >>> simpler_values(7, (5, 10))
    [5, 10, 6]
    """
    if bounds is not None and value in bounds:
        return []
    if bounds is not None and not isinstance(value, (str, bool, type(None))):
        low, high = bounds
        far = FAR_BEYOND_BOUND * (high - low)
        within = [other for other in simpler_values(value) if low < other < high]
        beyond = [low - far, high + far] if value < low - far or value > high + far else []
        return [type(value)(other) for other in (*bounds, *within, *beyond)]
    if isinstance(value, (bool, np.bool_)):
        return [False] if value else []
    number: Any
    if isinstance(value, (int, np.integer)):
        number = int(value)
        others = [0, 1, abs(number), number // 2, number - (1 if number > 0 else -1)]
    elif isinstance(value, (float, np.floating)):
        number = float(value)
        if not math.isfinite(number):
            return [0.0, 1.0]
        others = [0.0, 1.0, abs(number), float(int(number)), float(int(number / 2)), round(number, 1)]
        others.append(number - math.copysign(1.0, number))
    else:
        return []
    return sorted({other for other in others if _order(other) < _order(number)}, key=_order)


def _order(number: Any) -> tuple[bool, float, bool]:
    """Return the sort key of a number by simplicity: whole numbers first, then small ones, then positive ones."""
    return (number != int(number), abs(number), number < 0)
