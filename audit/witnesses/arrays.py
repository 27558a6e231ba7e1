"""Long arrays: which of their coordinates, and of pairs of these, tell the two sides apart at a glance.

All coordinates are looked at, a block at a time, by the means of a few functions of each. What is chosen here is looked
at closely like any other feature.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.normal_form import Outputs
from epsaudit.witnesses.features import Coordinate, Feature
from epsaudit.witnesses.screening import log_chance
from epsaudit.witnesses.settings import FALSE_FINDS, LOOK, MOST_COORDINATES, MOST_PAIRED

Floats = NDArray[np.float64]
BLOCK = 512
"""Coordinates that are looked at at once, which bounds the memory."""


def telling_coordinates(
    outputs: Outputs, outputs_prime: Outputs, most: int = MOST_COORDINATES
) -> tuple[int, list[int]]:
    """Number of coordinates of arrays, and which to look at: all of them, or those whose means differ most.

    Examples
    --------
    >>> x, x_prime = np.random.default_rng(0).normal(size=(2, 500, 1000))
    >>> x_prime[:, 777] += 1.0
    >>> size, chosen = telling_coordinates(x, x_prime)
    >>> size, len(chosen), 777 in chosen
    (1000, 256, True)
    """
    rows, rows_prime = (side.reshape(len(side), -1)[:LOOK] for side in (outputs, outputs_prime))
    size = rows.shape[1]
    if size <= most:
        return size, list(range(size))
    found = [_difference(rows[:, i : i + BLOCK], rows_prime[:, i : i + BLOCK]) for i in range(0, size, BLOCK)]
    best = np.argsort(-np.concatenate(found), kind="stable")[:most]
    return size, sorted(best.tolist())


def _difference(rows: Floats, rows_prime: Floats) -> Floats:
    """How many standard errors the sides differ by, at most, in the means of a few functions of each coordinate."""
    centre = np.nanmean(np.where(np.isfinite(rows), rows, np.nan), axis=0)
    centre = np.where(np.isfinite(centre), centre, 0.0)
    spread = np.abs(np.where(np.isfinite(rows), rows - centre, 0.0)).mean(axis=0) + 1e-300
    worst = np.zeros(rows.shape[1])
    for function in (np.isfinite, _as_is, np.abs, np.sign, _parity):
        moments = []
        for side in (rows, rows_prime):
            finite = np.isfinite(side)
            moved = side if function in (_parity, np.isfinite) else np.clip((side - centre) / spread, -6.0, 6.0)
            values = np.asarray(function(moved), float)
            values[~finite] = 0.0
            moments.append((values.mean(axis=0), values.var(axis=0) / len(side)))
        (mean, error), (mean_prime, error_prime) = moments
        worst = np.maximum(worst, np.abs(mean - mean_prime) / np.sqrt(error + error_prime + 1e-12))
    return worst


def _as_is(numbers: Floats) -> Floats:
    return numbers


def _parity(numbers: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.mod(np.floor(numbers), 2.0)


def correlated(chosen: list[int], outputs: Outputs, outputs_prime: Outputs) -> list[tuple[Feature, Feature]]:
    """Return the pairs of coordinates whose correlation differs most between the sides, beyond chance."""
    sides = [side.reshape(len(side), -1)[:LOOK][:, chosen] for side in (outputs, outputs_prime)]
    both = np.concatenate(sides)
    centre = np.nanmedian(np.where(np.isfinite(both), both, np.nan), axis=0)
    signs = np.nan_to_num(np.sign(both - centre)).astype(np.float32)
    size = len(sides[0])
    first, second = (part.T @ part / size for part in (signs[:size], signs[size:]))
    gap = np.triu(np.abs(first - second), 1)
    best = np.argsort(-gap, axis=None, kind="stable")[: MOST_PAIRED // 4]
    limit = math.log(FALSE_FINDS / gap.size)
    return [
        (Coordinate(chosen[i]), Coordinate(chosen[j]))
        for i, j in zip(*np.unravel_index(best, gap.shape), strict=True)
        if log_chance(float(size / 2.0 * gap[i, j] ** 2), 1) < limit  # signs have a variance of 1
    ]
