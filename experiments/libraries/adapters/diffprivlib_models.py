"""diffprivlib's models: fitted on a list of records, the coefficients are the output, or what each tree answers."""

import warnings

from serving import repeated, serve  # isort: skip  # which limits numpy's threads before it is imported

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression, RandomForestClassifier

warnings.simplefilter("ignore")


def linear_regression(epsilon, lower, upper):
    """Slope of a regression through the origin on records (x, y), x in [lower, upper] and y in [-1, 1]."""

    def fitted(records):
        points = np.array(records, float)
        model = LinearRegression(epsilon=epsilon, bounds_X=(lower, upper), bounds_y=(-1.0, 1.0), fit_intercept=False)
        return float(model.fit(points[:, :1], points[:, 1]).coef_[0])

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(fitted)


def logistic_regression(epsilon, data_norm):
    """Decimal logarithm of the coefficient's size, no intercept, on records (x, class); neighbours replace one."""

    def fitted(records):
        points = np.array(records, float)
        model = LogisticRegression(epsilon=epsilon, data_norm=data_norm, fit_intercept=False)
        return float(np.log10(abs(model.fit(points[:, :1], points[:, 1]).coef_[0, 0])))

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(fitted)


def logistic_regression_with_intercept(epsilon, data_norm):
    """Decimal logarithm of how many times as far from 0 the log-odds at 1 are as those at -1; neighbours replace one.

    Where no intercept is best, the optimiser stops at some that dwarfs the coefficient: the answer is 0 then.
    """

    def fitted(records):
        points = np.array(records, float)
        model = LogisticRegression(epsilon=epsilon, data_norm=data_norm).fit(points[:, :1], points[:, 1])
        at, opposite = np.abs(model.decision_function([[1.0], [-1.0]]))
        return float(np.log10(at / opposite))

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(fitted)


def forest(epsilon, trees, max_depth):
    """The classes that the trees of a forest give to 1/2, on a list of classes of records that are all 1/2."""

    def fitted(classes):
        model = RandomForestClassifier(trees, epsilon=epsilon, bounds=(0.0, 1.0), classes=[0, 1], max_depth=max_depth)
        model.fit(np.full((len(classes), 1), 0.5), np.array(classes))
        return [int(tree.predict([[0.5]])[0]) for tree in model.estimators_]

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(fitted)


serve(linear_regression, logistic_regression, logistic_regression_with_intercept, forest)
