"""Ridge logistic regression, fitted once for several penalties and once without each fold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from epsaudit.array_types import Floats, Singles

N_NEWTON_STEPS = 3
"""[time] Number of steps of Newton's method with the information matrix at 0. Few steps suffice: the method is exact
for weak scores, and strong scores need no exact coefficients."""
MIN_ENTRIES_PER_COLUMN = 64
"""[time] Number of entries for each column that is enough for all steps but the last one. If there are more entries,
these steps use only a part of them."""
MAX_THINNING = 8
"""[time] Maximum factor by which the number of entries is reduced in these steps."""
ROUNDING_RIDGE = 1e-5
"""[measured] Share of the trace of an information matrix that is added to its diagonal if rounding to single precision
made it indefinite. It is ten times the error that 700,000 rows of sparse vector 3 showed."""


def fit_logistic_ridge(
    design: Singles,
    side: Singles,
    weight: Singles,
    folds: NDArray[Any],
    penalties: Sequence[Floats],
    steps: int = N_NEWTON_STEPS,
) -> tuple[Floats, Singles]:
    """Fit ridge logistic regressions that predict from which dataset each output comes.

    For every penalty there is one fit to all entries, and one fit without each fold. All fits share the information
    matrix at coefficients of 0. It bounds the information matrix everywhere, so that Newton's method with it never
    overshoots (Boehning and Lindsay 1988). If outputs reveal little, it is close to the true information matrix.

    Parameters
    ----------
    design : array of shape (entries, columns)
        Regressors of every entry.
    side : array of shape (entries,)
        1 for entries of x, 0 for entries of x'.
    weight : array of shape (entries,)
        Number of times that every entry occurred.
    folds : array of shape (entries,)
        Fold of every entry, in increasing order.
    penalties : sequence of arrays of shape (columns, columns)
        Matrices of quadratic forms. Half of each form is subtracted from the log likelihood.
    steps : int
        Number of Newton steps.

    Returns
    -------
    array of shape (penalties, columns)
        Coefficients learnt from all entries.
    array of shape (penalties, entries)
        Log odds of x for every entry, learnt without the fold of the entry.
    """
    cuts = np.searchsorted(folds, np.arange(1, int(folds.max(initial=0)) + 1))
    sides, weights = np.split(side[:, None], cuts), np.split(weight[:, None], cuts)
    parts = list(zip(np.split(design, cuts), sides, weights, strict=True))
    eye, factors = np.eye(design.shape[1]), []
    # The last matrix belongs to the fit on all entries, from which no fold is left out.
    grams = np.zeros((len(parts) + 1, *eye.shape))
    for fold, (part, _, seen) in enumerate(parts):
        scaled = part if np.all(seen == 1.0) else part * np.sqrt(seen)
        grams[fold] = scaled.T @ scaled  # the product of a matrix with itself takes half the time
    total = grams.sum(axis=0) / 4.0 + 1e-3 * eye
    for gram, penalty in itertools.product(grams, penalties):
        information = total - gram / 4.0 + penalty
        factor, failed = dpotrf(information)
        # The columns are nearly dependent, and the sums were made in single precision.
        if failed:
            factor, _ = dpotrf(information + ROUNDING_RIDGE * np.trace(information) * eye)
        factors.append(factor)
    found = np.zeros((len(grams), len(penalties), design.shape[1]))
    # If weights differ, a few entries may carry half of the weight; then none may be left out.
    same = bool(np.all(weight == weight[:1]))
    thin = min(max(len(design) // (MIN_ENTRIES_PER_COLUMN * design.shape[1]), 1), MAX_THINNING) if same else 1
    few = [(part[::thin].copy(), own[::thin], thin * seen[::thin]) for part, own, seen in parts] if thin > 1 else parts
    for step in range(steps + (thin > 1)):
        slopes = np.zeros_like(found)
        flat = found.reshape(-1, design.shape[1]).T.astype(np.float32)
        for fold, (part, own, seen) in enumerate(few if step < steps else parts):
            wrong = own - 0.5 - 0.5 * np.tanh(part @ (flat / 2.0))  # the hyperbolic tangent is faster than expit
            slope = ((seen * wrong).T @ part).reshape(found.shape)
            slopes += slope
            slopes[fold] -= slope[fold]
        for number, factor in enumerate(factors):
            fold, which = divmod(number, len(penalties))
            found[fold, which] += dpotrs(factor, slopes[fold, which] - penalties[which] @ found[fold, which])[0]
    out_of_fold = []
    for one, (part, _, _) in zip(found[:-1], parts, strict=True):
        out_of_fold.append(part @ one.T.astype(np.float32))
    return found[-1], np.concatenate(out_of_fold).T
