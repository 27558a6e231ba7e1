"""Privacy bugs of released libraries that nobody has reported in public, as `corpus` lists those that are.

What was measured on each is in ``results/library-bugs``, what is wrong in ``docs/findings``, which also has a draft for
the maintainers: report a finding to them before publishing it.
"""

from __future__ import annotations

from typing import Any

from epsaudit.claims.definitions import Claim, PureDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.experiments.libraries.corpus import FEW, UNFIXED, Bug, Case
from epsaudit.experiments.libraries.rows import ONE, row_as_given

SLOW, SLOWER = 10_000, 4_000
"""Runs where one takes a millisecond, and ten."""
SLOWEST = 500
"""Runs where one takes a tenth of a second."""
DIFFPRIVLIB, SMARTNOISE = "diffprivlib-0.6.6", "smartnoise-synth-1.0.8"
NEWEST = "diffprivlib 0.6.6, the newest"
MISSING = [None] * 8


def case(
    version: str,
    label: str,
    adapter: str,
    pair: DatasetPair,
    runs: int,
    reason: str = "",
    claim: Claim = ONE,
    **given: Any,
) -> Case:
    """A case that claims what it is given; affected if there is a reason."""
    row = row_as_given(version, label, adapter, pair, given, claim, reason)
    return Case("affected" if reason else "control", row, runs)


def statistic(label: str, kind: str, pair: DatasetPair, runs: int = FEW, reason: str = "", **bounds: float) -> Case:
    """A case of diffprivlib's statistics; bounds are 0 and 1 if none are given."""
    given = {"kind": kind, "lower": 0.0, "upper": 1.0, **bounds}
    return case(DIFFPRIVLIB, label, "diffprivlib_tools.statistic", pair, runs, reason, **given)


def histogram(label: str, weight: float, reason: str = "") -> Case:
    """A case of diffprivlib's histogram of one bin, empty or with a record of a weight."""
    pair = DatasetPair([[0.5, weight]], [])
    bins = {"bins": 1, "lower": 0.0, "upper": 1.0}
    return case(DIFFPRIVLIB, label, "diffprivlib_tools.histogram", pair, FEW, reason, **bins)


def model(label: str, adapter: str, pair: DatasetPair, runs: int, reason: str = "", **given: Any) -> Case:
    """A case of diffprivlib's models."""
    return case(DIFFPRIVLIB, label, f"diffprivlib_models.{adapter}", pair, runs, reason, **given)


def transform(label: str, adapter: str, pair: DatasetPair, reason: str = "", **given: Any) -> Case:
    """A case of SmartNoise's transforms."""
    return case(SMARTNOISE, label, f"smartnoise_transforms.{adapter}", pair, SLOWEST, reason, **given)


def unreported() -> list[Bug]:
    """Return the findings in libraries that many use.

    Examples
    --------
    >>> any(bug.reports for bug in unreported())
    False
    """
    return [*of_statistics(), *of_models(), *of_smartnoise()]


def of_statistics() -> list[Bug]:
    """Findings in diffprivlib's statistics."""
    return [
        Bug(
            (),
            "nanmean scales its noise by the number of values with those that are missing",
            NEWEST,
            UNFIXED,
            "a value of 1 or 0, and one that is missing: the mean of one moves by 1, the noise is for that of two. The "
            "control has no missing value",
            (
                statistic(
                    "nanmean",
                    "nanmean",
                    DatasetPair([1.0, None], [0.0, None]),
                    reason="the sensitivity is divided by a size that counts missing values",
                ),
                statistic("nanmean-of-all", "nanmean", DatasetPair([1.0, 1.0], [0.0, 1.0])),
            ),
            page="diffprivlib-nanmean",
        ),
        Bug(
            (),
            "nanvar scales its noise by the number of values with those that are missing",
            NEWEST,
            UNFIXED,
            "values 0 and 1, or 0 and 0, and eight that are missing. The control has no missing value",
            (
                statistic(
                    "nanvar",
                    "nanvar",
                    DatasetPair([0.0, 1.0, *MISSING], [0.0, 0.0, *MISSING]),
                    SLOW,
                    reason="the sensitivity is that of a variance of as many values as there are, missing ones counted",
                ),
                statistic("nanvar-of-all", "nanvar", DatasetPair([0.0, 1.0], [0.0, 0.0]), SLOW),
            ),
            page="diffprivlib-nanvar",
        ),
        Bug(
            (),
            "nansum counts a missing value as 0, which may be far outside the bounds",
            NEWEST,
            UNFIXED,
            "one value in bounds (10, 11), which is 11 or missing: the sum moves by 11, and noise is for 1. The "
            "control has bounds (0, 11), in which 0 is",
            (
                statistic(
                    "nansum",
                    "nansum",
                    DatasetPair([11.0], [None]),
                    reason="the sensitivity is the width of the bounds, and a missing value adds 0",
                    lower=10.0,
                    upper=11.0,
                ),
                statistic("nansum-from-0", "nansum", DatasetPair([11.0], [None]), lower=0.0, upper=11.0),
            ),
            page="diffprivlib-nansum",
        ),
        Bug(
            (),
            "histogram takes weights, and its noise is for weights of 1",
            NEWEST,
            UNFIXED,
            "one record of weight 5 or none, one bin. The control has weight 1",
            (
                histogram("histogram-of-weights", 5.0, reason="the sensitivity is 1 whatever the weights"),
                histogram("histogram-of-weights-1", 1.0),
            ),
            page="diffprivlib-histogram-weights",
        ),
    ]


def of_models() -> list[Bug]:
    """Findings in diffprivlib's models."""
    far = DatasetPair([[1000.0, 1], [0.0, 0]], [[0.0, 1], [0.0, 0]])
    near = DatasetPair([[1.0, 1], [0.0, 0]], [[0.0, 1], [0.0, 0]])
    turned, with_intercept = (
        DatasetPair([[1.0, 1], [1.0, 0]], [[-1.0, 1], [1.0, 0]]),
        "logistic_regression_with_intercept",
    )
    five = [0, 1, 0, 1, 0]
    return [
        Bug(
            (),
            "LogisticRegression takes the curvature of a record from its norm, which is to be squared",
            NEWEST,
            UNFIXED,
            "two records, x of one is 1000 or 0, data_norm=1000, no intercept; the coefficient is near 0. The "
            "control has 1 for 1000",
            (
                model(
                    "logistic-of-norm-1000",
                    "logistic_regression",
                    far,
                    SLOW,
                    reason="a record moves the second derivative by 1/4 of its squared norm, not of its norm",
                    data_norm=1000.0,
                ),
                model("logistic-of-norm-1", "logistic_regression", near, SLOW, data_norm=1.0),
            ),
            page="diffprivlib-logistic-norm",
        ),
        Bug(
            (),
            "LogisticRegression does not regularise the intercept, which the noise relies on",
            NEWEST,
            UNFIXED,
            "two records of both classes, x of one is 1 or -1, all defaults: the log-odds at 1 are many times those at "
            "-1. The control has epsilon 1/2, at which the mechanism itself regularises all coefficients",
            (
                model(
                    "logistic-with-intercept",
                    with_intercept,
                    turned,
                    2 * SLOW,
                    reason="without a regularised intercept a record may move the second derivative by any factor",
                    data_norm=1.0,
                ),
                model(
                    "logistic-with-intercept-at-a-half",
                    with_intercept,
                    turned,
                    2 * SLOW,
                    claim=PureDP(0.5),
                    data_norm=1.0,
                ),
            ),
            page="diffprivlib-logistic-intercept",
        ),
        Bug(
            (),
            "RandomForestClassifier shares records among trees by their number, so that one more moves others",
            NEWEST,
            UNFIXED,
            "five records of the same x, without the last: four trees have one each, or others. The control is without "
            "the first, which moves none of the others",
            (
                model(
                    "forest",
                    "forest",
                    DatasetPair(five, five[:-1]),
                    SLOWER,
                    reason="a record more changes the records of every tree, and each spends the whole epsilon",
                    trees=4,
                    max_depth=1,
                ),
                model("forest-front", "forest", DatasetPair(five, five[1:]), SLOWER, trees=4, max_depth=1),
            ),
            page="diffprivlib-forest",
        ),
    ]


def of_smartnoise() -> list[Bug]:
    """Findings in SmartNoise Synth."""
    return [
        Bug(
            (),
            "StandardScaler releases mean and variance without noise",
            "smartnoise-synth 1.0.8, the newest",
            UNFIXED,
            "two values 0, or a third that is 1, within bounds (0, 1). The control is another transform",
            (
                transform(
                    "standard-scaler",
                    "standard",
                    DatasetPair([0.0, 0.0], [0.0, 0.0, 1.0]),
                    reason="the noise is for one record more or less of a fixed number, which there is not: no noise",
                    lower=0.0,
                    upper=1.0,
                ),
                transform("minmax", "minmax", DatasetPair([0.75] * 20, [0.75] * 20 + [3.0])),
            ),
            page="smartnoise-standard-scaler",
        ),
    ]
