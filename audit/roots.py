"""Where functions change their sign: the one root-finder of the package, of one function or of many at once.

Importing scipy.optimize takes longer than all else that lists mechanisms or audits one, and it solves one at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def root(
    function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12, rtol: float = 2.0**-50
) -> float:
    """Return where ``function`` changes its sign between ``low`` and ``high``, to within ``xtol`` + ``rtol`` |root|.

    It raises `ValueError` if the signs at both ends are the same.

    Examples
    --------
    >>> round(root(lambda x: x * x - 2.0, 0.0, 2.0), 12)
    1.414213562373
    """
    at_low, at_high = float(function(low)), float(function(high))
    if at_low == 0.0 or at_high == 0.0:
        return float(low if at_low == 0.0 else high)
    if (at_low > 0.0) == (at_high > 0.0):
        raise ValueError(f"The function has one sign at {low!r} and {high!r}.")
    return float(roots(lambda x: np.asarray(function(float(x))), low, high, xtol=xtol, rtol=rtol))


def roots(
    function: Callable[[Floats], Floats],
    low: ArrayLike,
    high: ArrayLike,
    *,
    xtol: float = 2e-12,
    rtol: float = 2.0**-50,
) -> Floats:
    """Return a root in each of many brackets; what is returned for one without a change of sign means nothing.

    ``function`` takes and returns arrays of the shape of ``low`` and ``high``, a point of each bracket. The brackets
    shrink by inverse quadratic interpolation, or by halving where that is not safe (T. R. Chandrupatla, Advances in
    Engineering Software 28, 1997).

    Examples
    --------
    >>> roots(lambda x: x * x - [2.0, 9.0], [0.0, 0.0], [2.0, 4.0]).round(12).tolist()
    [1.414213562373, 3.0]
    """
    with np.errstate(all="ignore"):
        new, old = np.asarray(low, float), np.asarray(high, float)
        at_new, at_old = (np.asarray(function(end), float) for end in (new, old))
        share: Floats = np.full(np.shape(at_new), 0.5)
        best = np.where(np.abs(at_new) < np.abs(at_old), new, old)
        for _ in range(100):
            point = new + share * (old - new)
            at_point = np.asarray(function(point), float)
            same = (at_point >= 0.0) == (at_new >= 0.0)
            before, at_before = np.where(same, new, old), np.where(same, at_new, at_old)
            old, at_old = np.where(same, old, new), np.where(same, at_old, at_new)
            new, at_new = point, at_point
            best = np.where(np.abs(at_new) < np.abs(at_old), new, old)
            least = np.minimum((xtol + rtol * np.abs(best)) / 2.0 / np.abs(old - new), 0.5)
            if np.all((least == 0.5) | (at_new == 0.0)):
                break
            place, rise = (new - old) / (before - old), (at_new - at_old) / (at_before - at_old)
            inverse = at_new / (at_old - at_new) * at_before / (at_old - at_before) + (before - new) / (
                old - new
            ) * at_new / (at_before - at_new) * at_old / (at_before - at_old)
            safe = (rise**2 < place) & ((1.0 - rise) ** 2 < 1.0 - place)
            share = np.clip(np.where(safe, inverse, 0.5), least, 1.0 - least)
        return np.asarray(best)
