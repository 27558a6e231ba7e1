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
    rows = [np.flatnonzero(folds == fold) for fold in range(number)]
    parts = [(design[one], side[one, None], weight[one, None]) for one in rows]
    grams = np.array([(part * seen).T @ part for part, _, seen in parts], float) / 4.0
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


def hats(numbers: Floats, knots: Floats) -> Singles:
    """Hat functions at increasing knots, shape (size, knots); constant beyond the ends."""
    found = np.zeros((len(numbers), len(knots)), np.float32)
    position = np.interp(numbers, knots, np.arange(len(knots)))
    place = position.astype(np.int64)
    rows, share = np.arange(len(numbers)), position - place
    found[rows, np.minimum(place + 1, len(knots) - 1)] = share
    found[rows, place] = 1.0 - share
    return found
