"""Classes with ``fit`` as mechanisms: a new model a run, the audit's randomness, rows as records."""

import random

import numpy as np
import pandas as pd
import polars as pl
import pytest

from epsaudit import AddRemove, AuditError, PureDP, Substitution, audit, estimator

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
    "lists": (ROWS.tolist(), 1, ROWS[:2].tolist()),
    "pandas": (pd.DataFrame(ROWS, columns=["a", "b"]), "b", pd.DataFrame(ROWS[:2], columns=["a", "b"])),
    "polars": (pl.DataFrame(ROWS, schema=["a", "b"]), "b", pl.DataFrame(ROWS[:2], schema=["a", "b"])),
}


@pytest.mark.parametrize(("x", "target", "x_prime"), DATASETS.values(), ids=DATASETS)
def test_half_of_the_noise_is_refuted_and_all_of_it_is_not(x, target, x_prime):
    terms = {"adjacency": AddRemove(), "target": target, "claim": PureDP(1.0), "pairs": (x, x_prime)}
    right, wrong = (estimator(Slope, "coef_", options={"scale": scale}, **terms) for scale in (1.0, 0.5))
    assert right.name == "Slope"
    assert not audit(right, trials=700, seed=1, n_jobs=1).violates_claim
    assert audit(wrong, trials=700, seed=1, n_jobs=1).violates_claim


def test_several_attributes_and_predictions():
    rng = np.random.default_rng(0)
    both = estimator(Slope, ["coef_", "intercept_"], target=1, options={"scale": 1.0})(ROWS)
    assert both.sample(2, rng)[0, 1] == 0.5
    predictions = estimator(Slope, predict=[1.0, 2.0], target=1, options={"scale": 1.0})(ROWS).sample(3, rng)
    assert predictions.shape == (3, 2)
    assert np.all(predictions[:, 1] == 2 * predictions[:, 0])


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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: estimator(object, "coef_"), "has no fit"),
        (lambda: estimator(Slope), "Give either attribute="),
        (lambda: estimator(Slope, "coef_", predict=[1]), "Give either attribute="),
        (lambda: estimator(Slope, []), r"attribute is \[\]"),
        (lambda: estimator(Slope, [3]), r"attribute is \[3\]"),
        (lambda: estimator(Slope, "coef_", options={"random_state": 3}), "'random_state' is among the options"),
        (
            lambda: audit(estimator(Own, "coef_"), ([1], [1, 2]), epsilon=1.0, trials=200),
            "raised AttributeError: 'Own' object has no attribute 'coef_'",
        ),
    ],
)
def test_what_is_no_estimator_is_said(make, words):
    with pytest.raises(AuditError, match=words):
        make()
