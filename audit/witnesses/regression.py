"""Ridge logistic regressions of the side that an output came from, many at once: for every penalty, without each fold.

They share one matrix of information, that at coefficients of 0, which bounds it everywhere, so that Newton's method
with it never overshoots (Boehning and Lindsay 1988); where outputs tell little, it is the true one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from epsaudit.witnesses.settings import STEPS

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
BLOCK = 4096
"""Numbers whose hat functions are computed at once: in the processor's cache twice as fast as all."""


def regress(
    design: Singles,
    side: Singles,
    weight: Singles,
    folds: NDArray[np.int8] | None,
    penalties: Sequence[Floats],
    steps: int = STEPS,
) -> tuple[Floats, Singles]:
    """Regress the side on the columns, for every penalty.

    Parameters
    ----------
    design : ndarray of float32, shape (entries, columns)
        Regressors.
    side, weight : ndarray of float32, shape (entries,)
        1 for x and 0 for x', and how often it was seen.
    folds : ndarray of int, shape (entries,), or None
        The fold of each entry; None for no folds.
    penalties : sequence of ndarray, shape (columns, columns)
        Twice the quadratic form that is taken from the log likelihood.
    steps : int
        Steps of Newton's method.

    Returns
    -------
    coefficients : ndarray, shape (penalties, columns)
        Learnt from all entries.
    judged : ndarray of float32, shape (penalties, entries)
        The log odds of x of every entry, learnt without its fold.

    Examples
    --------
    Seen 3 times as often on x where the regressor is 1:

    >>> design, side = np.float32([[1], [1]]), np.float32([1, 0])
    >>> regress(design, side, np.float32([300, 100]), None, [np.zeros((1, 1))], 20)[0].round(2).tolist()
    [[1.1]]
    """
    folds = np.zeros(len(design), np.int8) if folds is None else folds
    number = int(folds.max(initial=0)) + 1
    rows = [_rows(folds, fold) for fold in range(number)]
    parts = [(design[one], side[one, None], weight[one, None]) for one in rows]
    once = bool(np.all(weight == 1.0))
    grams = np.array([(part if once else part * seen).T @ part for part, _, seen in parts], float) / 4.0
    total = grams.sum(axis=0) + 1e-3 * np.eye(design.shape[1])
    left_out = [*grams, 0.0] if number > 1 else [0.0]
    factors = [[cho_factor(total - out + penalty) for penalty in penalties] for out in left_out]
    weights = np.zeros((len(left_out), len(penalties), design.shape[1]))
    for _ in range(steps):
        slopes = np.zeros_like(weights)
        flat = weights.reshape(-1, design.shape[1]).T.astype(np.float32)
        for fold, (part, own, seen) in enumerate(parts):
            slope = ((seen * (own - expit(part @ flat))).T @ part).reshape(weights.shape)
            slopes += slope
            if number > 1:
                slopes[fold] -= slope[fold]
        for k, factored in enumerate(factors):
            for v, (factor, penalty) in enumerate(zip(factored, penalties, strict=True)):
                weights[k, v] += cho_solve(factor, slopes[k, v] - penalty @ weights[k, v])
    judged = np.empty((len(penalties), len(design)), np.float32)
    for fold, (one, (part, _, _)) in enumerate(zip(rows, parts, strict=True)):
        judged[:, one] = (part @ weights[fold].T.astype(np.float32)).T
    return weights[-1], judged


def _rows(folds: NDArray[np.int8], fold: int) -> slice | NDArray[np.int64]:
    """Rows of a fold: where they are neighbours a slice, which copies nothing."""
    rows = np.flatnonzero(folds == fold)
    return slice(rows[0], rows[-1] + 1) if len(rows) and rows[-1] - rows[0] < len(rows) else rows


def hats(numbers: Floats, knots: Floats) -> Singles:
    """Hat functions at increasing knots, shape (size, knots); constant beyond the ends.

    Examples
    --------
    >>> hats(np.array([-9.0, 0.0, 0.25, 3.0]), np.array([0.0, 1.0])).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]
    """
    found = np.empty((len(knots), len(numbers)), np.float32)
    steps = np.diff(knots)[:, None]
    for start in range(0, len(numbers), BLOCK):  # so many that they stay in the processor's cache
        ramps = np.clip((numbers[start : start + BLOCK] - knots[:-1, None]) / steps, 0.0, 1.0)
        found[:, start : start + BLOCK] = 0.0 - np.diff(ramps, axis=0, prepend=1.0, append=0.0)
    return found.T
