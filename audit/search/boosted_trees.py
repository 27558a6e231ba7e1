"""DOC"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from threadpoolctl import threadpool_limits

from epsaudit.outputs.normal_form import (
    Floats,
)
from epsaudit.search.candidate import CandidateScore
from epsaudit.search.encoding import Encoding
from epsaudit.search.family import COMPLEX_EVENT_MARGIN
from epsaudit.search.limits import MAX_COORDINATES, N_FOLDS
from epsaudit.search.out_of_fold import evaluate_out_of_fold, select_learning_entries
from epsaudit.witnesses.digits import FilledForTrees
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.learnt import Tree

MIN_OUTPUTS_FOR_TREES = 400
"""[chosen] Fewest outputs of each side that trees are learnt from."""
N_BOOSTED_TREES = 30
"""[time] Boosted trees, leaves of the one tree that imitates them, and outputs of both sides that they are learnt
from."""
MAX_LEAVES = 64
"""[time] Boosted trees, leaves of the one tree that imitates them, and outputs of both sides that they are learnt
from."""
MAX_TREE_OUTPUTS = 30_000
"""[time] Boosted trees, leaves of the one tree that imitates them, and outputs of both sides that they are learnt
from."""


def distil_boosted_trees(
    data: Encoding, features: tuple[Feature, ...] = (), odds: Floats | None = None
) -> Iterator[CandidateScore]:
    """Yield the candidate of a tree that imitates boosted trees on the features, by default on those of all groups.

    Boosting takes most of the time, so that it learns from some entries of many. Of log ``odds`` of the entries, shape
    (entries,), that another score gives, at best each learnt without its fold, it must say more on the first fold.
    """
    groups = [group for group in data.features.groups if len(group) <= MAX_COORDINATES]
    features = features or tuple(dict.fromkeys(feature for group in groups for feature in group))
    if data.size < MIN_OUTPUTS_FOR_TREES or len(features) < 2:
        return
    from sklearn.ensemble import HistGradientBoostingClassifier  # a second to import, and only training needs it
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
        with threadpool_limits(1):  # its threads wait for one another at full speed where the machine is busy
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
    """Whether ``more`` log odds of x tell a share of `COMPLEX_EVENT_MARGIN` above what other ``odds`` do.

    What they would add to the log likelihood is half the square of Rao's score statistic of a step towards them.
    """
    share, step = expit(odds), more - odds
    score = np.sum(weight * (side - share) * step)
    added = score**2 / (2.0 * np.sum(weight * share * (1.0 - share) * step**2) + 1e-300)
    gain = np.sum(weight * (math.log(2.0) + log_expit(np.where(side, odds, -odds))))
    return bool(score > 0.0 and added > COMPLEX_EVENT_MARGIN * gain)
