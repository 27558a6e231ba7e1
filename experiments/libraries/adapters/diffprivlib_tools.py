"""diffprivlib's statistics of a list of values, of which some may be missing, and its histogram of weighted values."""

import warnings

from serving import repeated, serve  # isort: skip  # which limits numpy's threads before it is imported

import numpy as np
from diffprivlib import tools

warnings.simplefilter("ignore")


def statistic(kind, epsilon, lower, upper):
    """A statistic of values in bounds; one that is missing, None, is NaN for numpy. Neighbours replace one value."""
    function = getattr(tools, kind)

    def released(values):
        numbers = [np.nan if value is None else value for value in values]
        return float(function(numbers, epsilon=epsilon, bounds=(lower, upper)))

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(released)


def histogram(epsilon, bins, lower, upper):
    """Counts of records (value, weight); neighbours have one record more or less."""

    def released(records):
        values, weights = [value for value, _ in records], [weight for _, weight in records]
        counts, _ = tools.histogram(values, epsilon=epsilon, bins=bins, range=(lower, upper), weights=weights)
        return [float(count) for count in counts]

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(released)


serve(statistic, histogram)
