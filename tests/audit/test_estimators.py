"""Classes with ``fit`` as mechanisms: a new model a run, the audit's randomness, rows as records."""

import random

import numpy as np
import pandas as pd
import pytest

from epsaudit import AddRemove, PureDP, Substitution, audit, estimator

ROWS = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


class Slope:
    """The sum of the targets of rows with a feature of 1, with noise for records in [0, 1]."""

    def __init__(self, scale, random_state=None):
        self.scale, self.random_state, self.fits = scale, random_state, 0

    def fit(self, features, target):
        self.fits += 1
        assert self.fits == 1
        self.coef_ = np.asarray(features).ravel() @ np.asarray(target) + self.random_state.laplace(scale=self.scale)
        self.intercept_ = 0.5
        return self

    def predict(self, points):
        return np.asarray(points) * self.coef_


class Newer:
    def __init__(self, rng):
        self.rng = rng

    def fit(self, data):
        self.total_ = len(data) + self.rng.laplace()


class Own:
    def fit(self, data):
        self.total_ = len(data) + random.gauss(0, 1)


DATASETS = {
    "array": (ROWS, 1, ROWS[:2]),
    "pandas": (pd.DataFrame(ROWS, columns=["a", "b"]), "b", pd.DataFrame(ROWS[:2], columns=["a", "b"])),
}


@pytest.mark.parametrize(("x", "target", "x_prime"), DATASETS.values(), ids=DATASETS)
def test_half_of_the_noise_is_refuted_and_all_of_it_is_not(x, target, x_prime):
    terms = {"adjacency": AddRemove(), "target": target, "claim": PureDP(1.0), "pairs": (x, x_prime)}
    right, wrong = (estimator(Slope, "coef_", options={"scale": scale}, **terms) for scale in (1.0, 0.5))
    assert right.name == "Slope"
    assert not audit(right, trials=700, seed=1, n_jobs=1).violates_claim
    assert audit(wrong, trials=700, seed=1, n_jobs=1).violates_claim


def test_randomness_comes_from_the_audit_where_the_class_takes_it():
    for make, reproducible in ((Newer, True), (Own, False)):
        mechanism = estimator(make, "total_", claim=PureDP(1.0), pairs=([1], [1, 2]))
        assert mechanism.reproducible == reproducible
        samples = [mechanism([1]).sample(4, np.random.default_rng(7)).tolist() for _ in range(2)]
        assert (samples[0] == samples[1]) == reproducible
        assert len(set(samples[0])) == 4


def test_scikit_learns_own_are_taken():
    from sklearn.linear_model import LinearRegression

    mechanism = estimator(LinearRegression, ("coef_", "intercept_"), target=-1, adjacency=Substitution)
    pair = (np.array([[0, 0], [1, 1], [2, 1]]), np.array([[0, 0], [1, 1], [2, 0]]))
    result = audit(mechanism, pair, epsilon=1.0, trials=100, seed=1, n_jobs=1)
    assert result.violates_claim
    assert "no randomness" in str(result)
