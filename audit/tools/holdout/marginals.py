"""Scores by likelihood: how likely a record is under marginals of the release, compared with those of all records."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import xlogy

from epsaudit.array_types import Floats, Ints
from epsaudit.tools.holdout.encoding import Encoded, EncodedRows

MAX_MARGINAL_LEVELS = 32
"""[memory] Maximum number of bins or categories of a column. All further ones are merged into the last one."""
TREE_WORK = 200_000_000
"""[time] Number of values that are read to compute the mutual information of all pairs of columns."""
MAX_TREE_COLUMNS = 300
"""[time] Number of columns that the tree joins. Of more columns, random ones are joined."""
MIN_TREE_ROWS = 1000
"""[chosen] Smallest number of records from which a mutual information is computed. Smaller tables use all records."""


def marginal_scores(encoded: Encoded, rng: np.random.Generator) -> dict[str, Floats]:
    """Return log-likelihood ratios of each distinct record: a model of the released table against one of all records.

    - ``marginals``: in both models, the columns are independent;
    - ``tree``: in both models, pairs of columns that are joined by a tree are dependent (Chow and Liu 1968). The tree
      joins the columns with the largest mutual information among all train and holdout records.

    One half is added to each count, so that no frequency is 0.
    """
    levels = [np.minimum(part.bins, MAX_MARGINAL_LEVELS - 1) for part in (encoded.records, encoded.release)]
    sizes = np.max([one.max(axis=0) for one in levels], axis=0) + 1
    counts = [encoded.records.counts, encoded.release.counts]
    alone = [
        _log_likelihood_ratio([one[:, column] for one in levels], counts, int(size))
        for column, size in enumerate(sizes)
    ]
    one_way = np.sum(alone, axis=0)
    correction = np.zeros(len(encoded.records))
    for first, second in _spanning_tree(encoded.records, levels[0], sizes, rng):
        size = int(sizes[second])
        cells = [one[:, first] * size + one[:, second] for one in levels]
        joint = _log_likelihood_ratio(cells, counts, int(sizes[first]) * size)
        correction += joint - alone[first] - alone[second]
    return {"marginals": one_way, "tree": one_way + correction}


def _log_likelihood_ratio(cells: list[Ints], counts: list[Floats], size: int) -> Floats:
    """Return, for each distinct record, the log ratio of two frequencies: in the released table and among all records.

    They are the frequencies of the record's cell, which is a combination of values. ``cells`` and ``counts`` contain
    the cell and the number of copies of each distinct row, first for the records and then for the released table;
    ``size`` is the number of cells.
    """
    logs = []
    for cell, count in zip(cells, counts, strict=True):
        smoothed = np.bincount(cell, count, size) + 0.5
        logs.append(np.log(smoothed / smoothed.sum()))
    return np.asarray((logs[1] - logs[0])[cells[0]])


def _spanning_tree(records: EncodedRows, levels: Ints, sizes: Ints, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return the tree of columns with the largest total mutual information, as a list of pairs of column indices."""
    n_columns = len(sizes)
    joined = np.sort(rng.choice(n_columns, min(n_columns, MAX_TREE_COLUMNS), replace=False)).tolist()
    pairs = list(itertools.combinations(joined, 2))
    if not pairs:
        return []
    n_rows = max(MIN_TREE_ROWS, TREE_WORK // len(pairs))
    counts = records.counts
    if n_rows < len(levels):
        rows = np.sort(rng.choice(len(levels), n_rows, replace=False))
        levels, counts = levels[rows], counts[rows]
    weights = [_mutual_information(levels[:, pair], sizes[list(pair)], counts) for pair in pairs]
    first, second = np.array(pairs).T
    # a small distance for a large information; a distance of 0 would mean that there is no edge
    distances = csr_array((1.0 + max(weights) - np.array(weights), (first, second)), shape=(n_columns, n_columns))
    tree = minimum_spanning_tree(distances).tocoo()
    return sorted(zip(tree.row.tolist(), tree.col.tolist(), strict=True))


def _mutual_information(levels: Ints, sizes: NDArray[np.int64], counts: Floats) -> float:
    """Return the mutual information of two columns in nats. The columns of ``levels`` contain their levels."""
    joint = np.bincount(levels[:, 0] * sizes[1] + levels[:, 1], counts, int(sizes[0] * sizes[1])).reshape(sizes)
    joint = joint / joint.sum()
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    return float(np.sum(xlogy(joint, np.divide(joint, product, out=np.ones_like(joint), where=product > 0.0))))
