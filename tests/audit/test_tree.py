"""The tree on one number is scikit-learn's, but for cuts that gain the same."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from epsaudit.witnesses.tree import cuts


def of_scikit_learn(seen, leaves, least_weight, least_gain):
    total, levels = seen.sum(), seen.shape[1]
    tree = DecisionTreeClassifier(
        criterion="log_loss",
        max_leaf_nodes=leaves,
        min_weight_fraction_leaf=least_weight / total,
        min_impurity_decrease=least_gain,
        random_state=0,
    )
    columns, labels = np.tile(np.arange(levels), 2)[:, None], np.repeat([0, 1], levels)
    tree.fit(columns, labels, sample_weight=seen.ravel())
    return np.unique(np.floor(tree.tree_.threshold[tree.tree_.feature >= 0]).astype(int))


@pytest.mark.parametrize("seed", range(30))
def test_it_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    levels = int(rng.integers(2, 400))
    lift = np.cumsum(rng.normal(size=levels)) / 5
    seen = rng.poisson(rng.uniform(0.5, 40.0) * np.exp(np.stack([lift, -lift]) / 2))
    seen[0, seen.sum(axis=0) == 0] = 1
    leaves, least = int(rng.integers(2, 25)), int(rng.integers(1, 20))
    gain = 10.0 ** rng.uniform(-5, -1)
    assert cuts(seen, leaves, least, gain).tolist() == of_scikit_learn(seen, leaves, least, gain).tolist()
