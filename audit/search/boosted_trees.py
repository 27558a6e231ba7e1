"""Boosted trees, distilled to one small tree.

Boosted trees find interactions of several features that sums cannot express. They are imitated by a single decision
tree, which is faster to apply and can be written to JSON. `epsaudit.search.classifiers.learn_interactions` is the only
caller of this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from threadpoolctl import threadpool_limits

from epsaudit.outputs.arrays import Floats
from epsaudit.search.candidate import CandidateScore
from epsaudit.search.encoding import Encoding
from epsaudit.search.family import COMPLEX_EVENT_MARGIN
from epsaudit.search.limits import MAX_COORDINATES, N_FOLDS
from epsaudit.search.out_of_fold import evaluate_out_of_fold, select_learning_entries
from epsaudit.witnesses.digits import FilledForTrees
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.learnt import Tree

MIN_OUTPUTS_FOR_TREES = 400
"""[chosen] Minimum number of outputs of each side from which trees are learnt."""
N_BOOSTED_TREES = 30
"""[time] Number of boosted trees."""
MAX_LEAVES = 64
"""[time] Maximum number of leaves of the single tree that imitates the boosted trees."""
MAX_TREE_OUTPUTS = 30_000
"""[time] Maximum number of outputs of both sides together from which trees are learnt."""


def distil_boosted_trees(
    data: Encoding, features: tuple[Feature, ...] = (), odds: Floats | None = None
) -> Iterator[CandidateScore]:
    """Yield the candidate of a tree that imitates boosted trees.

    Parameters
    ----------
    data : Encoding
        The table of training outputs. Boosting takes most of the time, so only some entries are used if there are many.
    features : tuple of Feature
        Features to learn from; by default the features of all groups.
    odds : array of shape (entries,), optional
        Log odds of x that another score gives to the entries, ideally out of fold. Trees are learnt completely only if
        they add information to these log odds on the first fold.
    """
    groups = [group for group in data.features.groups if len(group) <= MAX_COORDINATES]
    features = features or tuple(dict.fromkeys(feature for group in groups for feature in group))
    if data.size < MIN_OUTPUTS_FOR_TREES or len(features) < 2:
        return
    # scikit-learn takes a second to import, and only training needs it.
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.tree import DecisionTreeRegressor

    entries = select_learning_entries(data, MAX_TREE_OUTPUTS // 2)
    rows, folds, side = data.row[entries], data.group[entries] // 2, data.group[entries] % 2 == 0
    filled = tuple(FilledForTrees(feature) for feature in features)
    columns = np.column_stack([data.numbers(feature)[rows] for feature in filled]).astype(np.float32)
    weight = data.weight[entries]
    seen = np.rint(weight * min(1.0, MAX_TREE_OUTPUTS / weight.sum())).astype(int)
    lesson = features, hash((columns.tobytes(), seen.tobytes(), data.group[entries].tobytes()))
    if lesson in data.features.learnt_trees:
        yield from evaluate_out_of_fold(data, entries, *data.features.learnt_trees[lesson])
        return
    told, out_of_fold = np.zeros(len(entries)), np.zeros(len(entries))
    booster = HistGradientBoostingClassifier(
        max_iter=N_BOOSTED_TREES,
        max_leaf_nodes=16,
        min_samples_leaf=40,
        learning_rate=0.15,
        early_stopping=False,
        random_state=0,
    )
    imitator = DecisionTreeRegressor(max_leaf_nodes=MAX_LEAVES, min_samples_leaf=10, random_state=0)
    for fold in range(N_FOLDS):
        others, own = folds != fold, folds == fold
        some = np.repeat(np.flatnonzero(others), seen[others])
        if len(np.unique(side[some])) < 2 or not own.any():
            return
        # On a busy machine, the threads of scikit-learn would wait for one another at full speed.
        with threadpool_limits(1):
            learnt = booster.fit(columns[some], side[some]).decision_function(columns)
        if (
            fold == 0
            and odds is not None
            and not adds_information(odds[entries][own], learnt[own], side[own], weight[own])
        ):
            return
        told += learnt / N_FOLDS
        out_of_fold[own] = imitator.fit(columns[others], learnt[others]).predict(columns[own])
    tree = imitator.fit(columns, told).tree_
    score = Tree(
        features=filled,
        columns=tuple(np.where(tree.children_left < 0, -1, tree.feature).tolist()),
        thresholds=tuple(tree.threshold.tolist()),
        left=tuple(np.maximum(tree.children_left, 0).tolist()),
        right=tuple(np.maximum(tree.children_right, 0).tolist()),
        values=tuple(tree.value.ravel().tolist()),
    )
    data.features.learnt_trees[lesson] = score, out_of_fold
    yield from evaluate_out_of_fold(data, entries, score, out_of_fold)


def adds_information(odds: Floats, more: Floats, side: NDArray[np.bool_], weight: Floats) -> bool:
    """Say whether the log odds ``more`` add at least the share `COMPLEX_EVENT_MARGIN` to the information in ``odds``.

    The gain in log likelihood by a step from ``odds`` towards ``more`` is estimated as half the square of Rao's score
    statistic.
    """
    share, step = expit(odds), more - odds
    score = np.sum(weight * (side - share) * step)
    added = score**2 / (2.0 * np.sum(weight * share * (1.0 - share) * step**2) + 1e-300)
    gain = np.sum(weight * (math.log(2.0) + log_expit(np.where(side, odds, -odds))))
    return bool(score > 0.0 and added > COMPLEX_EVENT_MARGIN * gain)
