"""diffprivlib's models: fitted on a list of records, the coefficients are the output."""

import numpy as np
from diffprivlib.models import LinearRegression
from serving import repeated, serve


def linear_regression(epsilon, lower, upper):
    """Slope of a regression through the origin on records (x, y), x in [lower, upper] and y in [-1, 1]."""

    def fitted(records):
        points = np.array(records, float)
        model = LinearRegression(epsilon=epsilon, bounds_X=(lower, upper), bounds_y=(-1.0, 1.0), fit_intercept=False)
        return float(model.fit(points[:, :1], points[:, 1]).coef_[0])

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(fitted)


serve(linear_regression)
