"""A decision tree on one number: where to cut the levels of a feature so that both sides of a pair differ most.

Counts of each level on both sides come in, the places of the cuts go out. It grows the tree that scikit-learn's
DecisionTreeClassifier grows on one feature, from sums that are taken once; importing that takes longer than an audit.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def cuts(seen: NDArray[np.int64], leaves: int, least_weight: float, least_gain: float) -> NDArray[np.int64]:
    """Return the last levels before each cut, in order; the cut that gains most information comes first.

    Parameters
    ----------
    seen : ndarray of shape (2, levels)
        How often each level was seen on both sides, at least once on one of them.
    leaves : int
        Most parts.
    least_weight : float
        Fewest outputs in a part.
    least_gain : float
        Least information of a cut, in bits for each of all outputs.

    Examples
    --------
    >>> cuts(np.array([[5, 5, 9, 9], [9, 9, 5, 5]]), leaves=4, least_weight=2.0, least_gain=0.01)
    array([1])
    """
    sums = np.concatenate([np.zeros((2, 1)), np.cumsum(seen, axis=1)], axis=1)
    queue: list[tuple[float, int, int, int]] = []

    def consider(first: int, end: int) -> None:
        """Queue the best cut of the levels from ``first`` up to ``end``."""
        whole = sums[:, end] - sums[:, first]
        impurity, weight = float(_entropy(whole)), float(whole.sum())
        if end - first < 2 or weight < 2.0 * least_weight or impurity <= np.finfo(float).eps:
            return
        left, right = sums[:, first + 1 : end] - sums[:, [first]], sums[:, [end]] - sums[:, first + 1 : end]
        heavy = (left.sum(axis=0) >= least_weight) & (right.sum(axis=0) >= least_weight)
        if not heavy.any():
            return
        score = np.where(heavy, -right.sum(axis=0) * _entropy(right) - left.sum(axis=0) * _entropy(left), -np.inf)
        place = int(np.argmax(score))
        gain = weight / sums[:, -1].sum() * (impurity + float(score[place]) / weight)
        if gain + np.finfo(float).eps >= least_gain:
            heapq.heappush(queue, (-gain, first, first + 1 + place, end))

    consider(0, sums.shape[1] - 1)
    found: list[int] = []
    while queue and len(found) < leaves - 1:
        _, first, cut, end = heapq.heappop(queue)
        found.append(cut - 1)
        consider(first, cut)
        consider(cut, end)
    return np.array(sorted(found), dtype=np.int64)


def _entropy(counts: Floats) -> Floats:
    """Entropy in bits of the two counts along the first axis."""
    shares = counts / counts.sum(axis=0)
    return np.asarray(-(shares * np.log2(shares, out=np.zeros_like(shares), where=shares > 0.0)).sum(axis=0))
