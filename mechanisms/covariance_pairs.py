"""Pairs of datasets that bring covariance-aware means near their claims, built from the constants of the proof.

Every pair is two arrays of shape (n, d) that differ in one row. All sizes are in units of the stable covariance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from epsaudit.errors import AuditError
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.stable_mean import Stability
from epsaudit.neighbours import DatasetPair

SLACK = 1e-3
"""By how much, relatively, records of the pairs stay inside thresholds, so that rounding decides nothing."""


def as_records(dataset: Any, dimension: int) -> Floats:
    """Return the dataset as an array of shape (n, d), or raise `AuditError`.

    Examples
    --------
    >>> as_records([(1, 2), (3, 4)], 2).shape
    (2, 2)
    """
    try:
        data = np.asarray(dataset, float)
    except (TypeError, ValueError):
        data = np.empty(0)
    if data.ndim != 2 or data.shape[1] != dimension:
        raise AuditError(f"The dataset has shape {data.shape}; it must have n records of {dimension} numbers each.")
    if dimension > len(data):
        raise AuditError(f"The dataset has {len(data)} records in {dimension} dimensions; it needs more than that.")
    if not np.isfinite(data).all():
        raise AuditError("The dataset has a NaN or an infinity; all records must be finite.")
    return data


def poles(bounds: Stability, dimension: int, outliers: int) -> DatasetPair:
    """Most records at one pole, the references at 0, outliers and a last reference at the other: it crosses over.

    The outliers miss k + 1 references, or one more once the last reference has left them, and so each loses a share
    1 / k of its weight in the mean. Scores are ``outliers`` + 2 and ``outliers``; covariances are equal.

    Examples
    --------
    >>> pair = poles(Stability(4000, 10, 6.0), 2, 3)
    >>> pair.x.shape, int((pair.x != pair.x_prime).any(axis=1).sum())
    ((4000, 2), 1)
    """
    m, k = bounds.differences, bounds.levels
    # pairs (pole or reference, 0) make the variance of the first axis, pairs (+b, -b) those of the others
    least = bounds.references + outliers
    share = 0.5
    for _ in range(60):  # how far 0 is from the pole: 2 / share + (d - 1) / (2 (1 - share)) = 2 lambda_0
        rest = (dimension - 1) / (2.0 * (1.0 - share)) if dimension > 1 else 0.0
        share = min(max(2.0 * (1.0 + SLACK) / (bounds.radius - rest), 0.0), 0.9)
    first = math.ceil(share * m)
    if first < least or not 0.0 < share < 0.9:
        raise AuditError(f"No such pair: {bounds} leaves no room for {least} references and outliers.")
    data = np.zeros((bounds.records, dimension))
    head, tail = data[:m], data[m : 2 * m]
    near, last = k + 1, bounds.references - 1
    head[: near + 1, 0] = tail[near + 1 : last, 0] = -1.0  # k + 1 references at the pole, others at 0
    head[last + 1 : last + 1 + outliers, 0] = 1.0
    head[last + 1 + outliers : first, 0] = -1.0
    head[first:, 0] = tail[first:, 0] = -1.0
    for place in range(first, m if dimension > 1 else first):
        axis = 1 + place % (dimension - 1)
        head[place, axis], tail[place, axis] = 1.0, -1.0
    data[2 * m :, 0] = -1.0
    x, x_prime = data.copy(), data
    x[last, 0], x_prime[last, 0] = 1.0, -1.0
    return DatasetPair(x, x_prime, f"{outliers} outliers, a reference joins or leaves them; n = {bounds.records}")


def spread(bounds: Stability, dimension: int) -> DatasetPair:
    """A record moves from the middle to just under lambda_0 along one axis; all others are at 1 or -1 along an axis."""
    rng = np.random.default_rng(0)  # fixed data: which signs go with which axes matters little
    data = np.zeros((bounds.records, dimension))
    data[np.arange(len(data)), np.arange(len(data)) % bounds.differences % dimension] = rng.choice(
        [-1.0, 1.0], len(data)
    )
    x, x_prime = data.copy(), data
    x[bounds.references] = 0.0
    size = 0.98 * math.sqrt(min(bounds.radius, bounds.outlier) / dimension)
    x_prime[bounds.references] = 0.0
    x_prime[bounds.references, bounds.references % bounds.differences % dimension] = size
    return DatasetPair(x, x_prime, f"a record at 0, or {size:.3g} away along one axis; n = {bounds.records}")
