"""DOC"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from epsaudit.outputs.normal_form import (
    Floats,
    Singles,
)

N_NEWTON_STEPS = 3
"""[time] Steps of Newton's method with the information at 0: exact for weak scores, and strong ones need no care."""
MIN_ENTRIES_PER_COLUMN = 64
"""[time] Entries for each column that are enough for all steps but the last, and of how many at most one is taken."""
MAX_THINNING = 8
"""[time] Entries for each column that are enough for all steps but the last, and of how many at most one is taken."""
ROUNDING_RIDGE = 1e-5
"""[measured] Share of the trace of a matrix of information that is added where rounding to single precision made it
indefinite: ten times the error that 700,000 rows of sparse vector 3 showed."""


def fit_logistic_ridge(
    design: Singles,
    side: Singles,
    weight: Singles,
    folds: NDArray[Any],
    penalties: Sequence[Floats],
    steps: int = N_NEWTON_STEPS,
) -> tuple[Floats, Singles]:
    """Ridge logistic regressions of the side that an output came from, for every penalty, and without each fold.

    They share one matrix of information, that at coefficients of 0, which bounds it everywhere, so that Newton's method
    with it never overshoots (Boehning and Lindsay 1988); where outputs tell little, it is the true one.

    ``design`` has shape (entries, columns), ``side`` (1 for x, 0 for x'), ``weight`` (how often it was seen) and
    ``folds`` (increasing) have shape (entries,); penalties are twice the quadratic forms, of shape (columns, columns),
    that are taken from the log likelihood. Returns coefficients learnt from all entries, shape (penalties, columns),
    and the log odds of x of every entry, learnt without its fold, shape (penalties, entries).
    """
    cuts = np.searchsorted(folds, np.arange(1, int(folds.max(initial=0)) + 1))
    sides, weights = np.split(side[:, None], cuts), np.split(weight[:, None], cuts)
    parts = list(zip(np.split(design, cuts), sides, weights, strict=True))
    eye, factors = np.eye(design.shape[1]), []
    grams = np.zeros((len(parts) + 1, *eye.shape))  # the last is of what is left out of all: nothing
    for fold, (part, _, seen) in enumerate(parts):
        scaled = part if np.all(seen == 1.0) else part * np.sqrt(seen)
        grams[fold] = scaled.T @ scaled  # of one matrix, in half the time
    total = grams.sum(axis=0) / 4.0 + 1e-3 * eye
    for gram, penalty in itertools.product(grams, penalties):
        information = total - gram / 4.0 + penalty
        factor, failed = dpotrf(information)
        if failed:  # columns that all but depend on one another, summed in single precision
            factor, _ = dpotrf(information + ROUNDING_RIDGE * np.trace(information) * eye)
        factors.append(factor)
    found = np.zeros((len(grams), len(penalties), design.shape[1]))
    same = bool(np.all(weight == weight[:1]))  # of entries unlike in weight a few may be half of all
    thin = min(max(len(design) // (MIN_ENTRIES_PER_COLUMN * design.shape[1]), 1), MAX_THINNING) if same else 1
    few = [(part[::thin].copy(), own[::thin], thin * seen[::thin]) for part, own, seen in parts] if thin > 1 else parts
    for step in range(steps + (thin > 1)):
        slopes = np.zeros_like(found)
        flat = found.reshape(-1, design.shape[1]).T.astype(np.float32)
        for fold, (part, own, seen) in enumerate(few if step < steps else parts):
            wrong = own - 0.5 - 0.5 * np.tanh(part @ (flat / 2.0))  # which is faster than expit
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
